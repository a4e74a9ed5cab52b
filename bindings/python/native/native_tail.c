/* Tails of sessions and the feed. A tail lives in its store, under a number, until Python closes it or
 * the store is closed. Python waits in short pieces: a piece ends when something comes, when its time
 * is up or, off the main thread, when the store is closed. One job at a time uses a tail; Python may
 * close it while such a job still runs, because its task was cancelled, and the job then frees it. */
#include <string.h>

#include "native_job.h"

struct qpy_tail {
    int64_t id;
    quipu_tail *tail;
    struct qpy_tail *next;
    bool busy;   /* a job uses it... */
    bool closed; /* ...and frees it */
};

typedef struct qpy_tail qpy_tail;

static void tail_free(qpy_tail *tail)
{
    const quipu_allocator memory = qpy_memory();

    quipu_tail_close(tail->tail);
    (void)memory.realloc(memory.ctx, tail, 0);
}

/* Options of a call that waits: what sets the cancel flag of the main thread is Ctrl-C. */
static quipu_call_options tail_call(const qpy_task *task)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    if (task->call != NULL) {
        call = *task->call;
    }
    if (call.cancel == NULL) {
        call.cancel = task->on->closing;
    }
    return call;
}

bool qpy_op_waits(int op)
{
    return op == QPY_TAIL_NEXT || op == QPY_FEED;
}

/* The key; the number before the first message. Returns the tail's number. */
quipu_status qpy_tail_open(qpy_task *task)
{
    const quipu_allocator memory = qpy_memory();
    const quipu_str key = qpy_take_text(task);
    qpy_store *store = task->on;
    qpy_tail *tail = memory.realloc(memory.ctx, NULL, sizeof(*tail));
    quipu_status status;

    if (tail == NULL) {
        return qpy_no_memory(task);
    }
    *tail = (qpy_tail){.id = 0};
    status = quipu_tail_open(store->store, key, qpy_take_number(task), task->call, &tail->tail,
                             &task->error);
    if (status != QUIPU_OK) {
        (void)memory.realloc(memory.ctx, tail, 0);
        return status;
    }
    (void)pthread_mutex_lock(&store->tails_mutex);
    tail->id = ++store->tails_made;
    tail->next = store->tails;
    store->tails = tail;
    (void)pthread_mutex_unlock(&store->tails_mutex);
    qpy_put_number(task, tail->id);
    return QUIPU_OK;
}

/* The tail of a number, which is then the caller's until tail_give(); NULL: there is none. */
static qpy_tail *tail_take(qpy_store *store, int64_t id)
{
    qpy_tail *tail;

    (void)pthread_mutex_lock(&store->tails_mutex);
    tail = store->tails;
    while (tail != NULL && tail->id != id) {
        tail = tail->next;
    }
    if (tail != NULL && !tail->busy) {
        tail->busy = true;
    } else {
        tail = NULL;
    }
    (void)pthread_mutex_unlock(&store->tails_mutex);
    return tail;
}

static void tail_give(qpy_store *store, qpy_tail *tail)
{
    bool closed;

    (void)pthread_mutex_lock(&store->tails_mutex);
    tail->busy = false;
    closed = tail->closed;
    (void)pthread_mutex_unlock(&store->tails_mutex);
    if (closed) {
        tail_free(tail);
    }
}

/* The tail's number, how many milliseconds to wait. Returns whether messages came, and these. */
quipu_status qpy_tail_next(qpy_task *task)
{
    const quipu_call_options call = tail_call(task);
    qpy_tail *tail = tail_take(task->on, qpy_take_number(task));
    quipu_history *batch = NULL;
    quipu_status status;

    if (tail == NULL) {
        static const char text[] = "the iterator is closed, or another task waits for it";

        memcpy(task->error.message, text, sizeof(text));
        return QUIPU_MISUSE;
    }
    status = quipu_tail_next(tail->tail, qpy_take_number(task), &call, &batch, &task->error);
    qpy_put_number(task, batch != NULL);
    if (batch != NULL) {
        status = qpy_put_messages(task, batch->session, batch->messages);
    }
    quipu_free(batch);
    tail_give(task->on, tail);
    return status;
}

quipu_status qpy_tail_close(qpy_task *task)
{
    const int64_t id = qpy_take_number(task);
    qpy_store *store = task->on;
    qpy_tail **at = &store->tails;
    qpy_tail *tail;
    bool busy = false;

    (void)pthread_mutex_lock(&store->tails_mutex);
    while (*at != NULL && (*at)->id != id) {
        at = &(*at)->next;
    }
    tail = *at;
    if (tail != NULL) {
        *at = tail->next;
        tail->closed = true;
        busy = tail->busy;
    }
    (void)pthread_mutex_unlock(&store->tails_mutex);
    if (tail != NULL && !busy) {
        tail_free(tail);
    }
    return QUIPU_OK;
}

void qpy_tails_close(qpy_store *store)
{
    while (store->tails != NULL) {
        qpy_tail *tail = store->tails;

        store->tails = tail->next;
        tail_free(tail);
    }
}

/* Options. Returns the changes, then the cursor behind them. */
quipu_status qpy_feed(qpy_task *task)
{
    const quipu_call_options call = tail_call(task);
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_feed_page *page = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_FEED_OPTIONS, &options);
    status = quipu_feed_read(task->on->store, &options, &call, &page, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < page->changes.count; i++) {
        qpy_put_item(task, QPY_CHANGE, quipu_change_at(page->changes, i));
    }
    if (status == QUIPU_OK) {
        qpy_put_end(task);
        qpy_put_text(task, page->next);
    }
    quipu_free(page);
    return status;
}

/* The number that was seen; milliseconds to wait. Returns the number now. */
quipu_status qpy_change_wait(qpy_task *task)
{
    const int64_t seen = qpy_take_number(task);
    const int64_t timeout_ms = qpy_take_number(task);
    int64_t now = seen;
    const quipu_status status =
        quipu_change_wait(task->on->store, seen, timeout_ms, task->call, &now, &task->error);

    qpy_put_number(task, now);
    return status;
}
