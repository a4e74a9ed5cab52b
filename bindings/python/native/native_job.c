/* Jobs: created from texts and numbers, run, read, freed. A job belongs to one thread at a time;
 * the store's count of users is atomic. */
#include "native_job.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#define JOB_BUF_MIN 512          /* bytes that a buffer begins with */
#define JOB_SPARE_MIN 65536      /* answers from this size on use the spare buffer */
#define JOB_SPARE_ROOM 4194304   /* size of the spare buffer; larger answers allocate */
#define JOB_CLOSE_WAIT_NS 200000 /* between two checks for running calls */

typedef quipu_status (*job_fn)(qpy_task *task);

static const job_fn job_runs[QPY_OP_COUNT] = {
    [QPY_OPEN] = qpy_open,
    [QPY_ENCRYPT] = qpy_encrypt,
    [QPY_REKEY] = qpy_rekey,
    [QPY_CREATE] = qpy_create,
    [QPY_GET] = qpy_get,
    [QPY_UPDATE] = qpy_update,
    [QPY_DELETE] = qpy_delete,
    [QPY_LIST] = qpy_list,
    [QPY_APPEND] = qpy_append,
    [QPY_WINDOW] = qpy_window,
    [QPY_SEARCH] = qpy_search,
    [QPY_RECALL] = qpy_recall,
    [QPY_FORK] = qpy_fork,
    [QPY_COMPACT] = qpy_compact,
    [QPY_SWEEP] = qpy_sweep,
    [QPY_BACKUP] = qpy_backup,
    [QPY_UNCOMPACT] = qpy_uncompact,
    [QPY_PRUNE] = qpy_prune,
    [QPY_EXPORT] = qpy_export,
    [QPY_IMPORT] = qpy_import,
    [QPY_SOURCE] = qpy_source,
    [QPY_COPY] = qpy_copy,
    [QPY_STATS] = qpy_stats,
    [QPY_UPGRADE] = qpy_upgrade,
    [QPY_VERIFY] = qpy_verify,
    [QPY_VERIFY_AGAINST] = qpy_verify_against,
    [QPY_ERASE] = qpy_erase,
    [QPY_INDEX] = qpy_index,
    [QPY_FACTOR] = qpy_factor,
    [QPY_FACTOR_LEARN] = qpy_factor_learn,
    [QPY_MEMORY_SAVE] = qpy_memory_save,
    [QPY_MEMORY_FIND] = qpy_memory_find,
    [QPY_MEMORY_UPDATE] = qpy_memory_update,
    [QPY_MEMORY_DELETE] = qpy_memory_delete,
    [QPY_MEMORY_RUN] = qpy_memory_run,
    [QPY_MEMORY_START] = qpy_memory_start,
    [QPY_MEMORY_STOP] = qpy_memory_stop,
    [QPY_MEMORY_STATUS] = qpy_memory_status,
    [QPY_CHANGE_WAIT] = qpy_change_wait,
    [QPY_USED] = qpy_used,
    [QPY_BLAME] = qpy_blame,
    [QPY_ARTIFACT_SAVE] = qpy_artifact_save,
    [QPY_ARTIFACT_GET] = qpy_artifact_get,
    [QPY_ARTIFACT_FIND] = qpy_artifact_find,
    [QPY_ARTIFACT_DELETE] = qpy_artifact_delete,
    [QPY_CONTEXT] = qpy_context,
    [QPY_STATE] = qpy_state,
    [QPY_STATE_SET] = qpy_state_set,
    [QPY_TAIL_OPEN] = qpy_tail_open,
    [QPY_TAIL_NEXT] = qpy_tail_next,
    [QPY_TAIL_CLOSE] = qpy_tail_close,
    [QPY_FEED] = qpy_feed,
    [QPY_ITEMS_GET] = qpy_items_get,
    [QPY_ROWS_ADD] = qpy_rows_add,
    [QPY_ROWS_GET] = qpy_rows_get,
    [QPY_ADK_CREATE] = qpy_adk_create,
    [QPY_ADK_GET] = qpy_adk_get,
    [QPY_ADK_LIST] = qpy_adk_list,
    [QPY_ADK_DELETE] = qpy_adk_delete,
    [QPY_ADK_APPEND] = qpy_adk_append,
    [QPY_ADK_USER_STATE] = qpy_adk_user_state,
    [QPY_ADK_EVENT] = qpy_adk_event,
};

static void *job_memory(void *p, size_t size)
{
    const quipu_allocator memory = qpy_memory();

    return memory.realloc(memory.ctx, p, size);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

quipu_status qpy_no_memory(qpy_task *task)
{
    static const char text[] = "out of memory for an answer";

    memcpy(task->error.message, text, sizeof(text));
    task->error.status = QUIPU_NOMEM;
    return QUIPU_NOMEM;
}

/* Makes space for one more element of `size` bytes; the old array stays in the arena. */
static void *job_grow(qpy_task *task, void *items, size_t count, size_t *room, size_t size)
{
    void *more;

    if (count < *room) {
        return items;
    }
    more = quipu_arena_alloc(&task->arena, (*room == 0 ? 16 : 2 * *room) * size);
    if (more == NULL) {
        (void)qpy_no_memory(task);
        return NULL;
    }
    if (count > 0) {
        memcpy(more, items, count * size);
    }
    *room = *room == 0 ? 16 : 2 * *room;
    return more;
}

void qpy_put_own(qpy_task *task, quipu_str text)
{
    qpy_job *job = &task->job;
    qpy_text *texts =
        job_grow(task, job->texts, job->text_count, &task->text_room, sizeof(*job->texts));

    if (texts != NULL) {
        job->texts = texts;
        job->texts[job->text_count++] = (qpy_text){text.p, text.n};
    }
}

void qpy_put_text(qpy_task *task, quipu_str text)
{
    quipu_str copy = {NULL, 0};

    if (quipu_arena_copy(&task->arena, text, &copy) == QUIPU_OK) {
        qpy_put_own(task, copy);
    } else {
        (void)qpy_no_memory(task);
    }
}

void qpy_put_number(qpy_task *task, int64_t number)
{
    qpy_job *job = &task->job;
    int64_t *numbers =
        job_grow(task, job->numbers, job->number_count, &task->number_room, sizeof(*job->numbers));

    if (numbers != NULL) {
        job->numbers = numbers;
        job->numbers[job->number_count++] = number;
    }
}

void qpy_put_uid(qpy_task *task, const quipu_uuid *uid)
{
    int64_t halves[2];

    memcpy(halves, uid, sizeof(halves));
    qpy_put_number(task, halves[0]);
    qpy_put_number(task, halves[1]);
}

void qpy_put_time(qpy_task *task, quipu_time time)
{
    qpy_put_number(task, time.s);
    qpy_put_number(task, time.ns);
}

void qpy_buf_take_spare(qpy_buf *buf, qpy_store *store)
{
    char *spare = buf->p == NULL ? atomic_exchange(&store->spare, NULL) : NULL;

    if (spare != NULL) {
        *buf = (qpy_buf){.p = spare, .room = JOB_SPARE_ROOM};
    }
}

void qpy_buf_reserve(qpy_buf *buf, size_t n)
{
    if (buf->room - buf->n < n && !buf->failed) {
        size_t room = buf->n + n < 2 * buf->room ? 2 * buf->room : buf->n + n;
        char *more;

        if (room < JOB_BUF_MIN) {
            room = JOB_BUF_MIN;
        } else if (room >= JOB_SPARE_MIN && room < JOB_SPARE_ROOM) {
            room = JOB_SPARE_ROOM; /* pages are touched only as it fills */
        }
        more = job_memory(buf->p, room);
        buf->failed = more == NULL;
        if (more != NULL) {
            buf->p = more;
            buf->room = room;
        }
    }
}

void qpy_buf_add(qpy_buf *buf, const char *p, size_t n)
{
    qpy_buf_reserve(buf, n);
    if (!buf->failed && n > 0) {
        memcpy(buf->p + buf->n, p, n);
        buf->n += n;
    }
}

void qpy_buf_free(qpy_buf *buf)
{
    if (buf->p != NULL) {
        (void)job_memory(buf->p, 0);
    }
    *buf = (qpy_buf){NULL, 0, 0, false};
}

void qpy_put_buf(qpy_task *task, qpy_buf *buf)
{
    qpy_put_own(task, (quipu_str){buf->p, buf->n});
    qpy_keep_buf(task, buf);
}

void qpy_keep_buf(qpy_task *task, qpy_buf *buf)
{
    if (buf->failed) {
        (void)qpy_no_memory(task);
    }
    task->kept = buf->p;
    task->kept_room = buf->room;
    *buf = (qpy_buf){NULL, 0, 0, false};
}

bool qpy_thread_start(void *(*main)(void *), void *ctx, pthread_t *ret_thread)
{
    sigset_t all;
    sigset_t before;
    bool started;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    started = pthread_create(ret_thread, NULL, main, ctx) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- jobs -------------------------------------------------------------------------------------
 */

/* Arrays for what is given; they begin empty. */
static bool job_make_room(qpy_task *task, size_t texts, size_t numbers)
{
    const size_t text_room = texts > QPY_GIVEN_MIN ? texts : QPY_GIVEN_MIN;
    const size_t number_room = numbers > QPY_GIVEN_MIN ? numbers : QPY_GIVEN_MIN;

    task->in = quipu_arena_alloc(&task->arena, text_room * sizeof(*task->in));
    task->given = quipu_arena_alloc(&task->arena, number_room * sizeof(*task->given));
    if (task->in == NULL || task->given == NULL) {
        return false;
    }
    for (size_t i = 0; i < text_room; i++) {
        task->in[i] = (quipu_str){NULL, 0};
    }
    memset(task->given, 0, number_room * sizeof(*task->given));
    task->in_count = texts;
    task->given_count = numbers;
    return true;
}

static bool job_take_texts(qpy_task *task, const char *blob, const int64_t *lengths)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < task->in_count && status == QUIPU_OK; i++) {
        if (lengths[i] >= 0) {
            const quipu_str text = {blob, (size_t)lengths[i]};

            status = quipu_arena_copy(&task->arena, text, &task->in[i]);
            blob += lengths[i];
        }
    }
    return status == QUIPU_OK;
}

qpy_job *qpy_job_new(int op, qpy_store *store, const char *blob, const int64_t *lengths,
                     size_t text_count, const int64_t *numbers, size_t number_count)
{
    qpy_task *task;

    if (op < 0 || op >= QPY_OP_COUNT) {
        return NULL;
    }
    task = job_memory(NULL, sizeof(*task));
    if (task == NULL) {
        return NULL;
    }
    *task = (qpy_task){.op = op, .on = store};
    if (!job_make_room(task, text_count, number_count) || !job_take_texts(task, blob, lengths)) {
        quipu_arena_free(&task->arena);
        (void)job_memory(task, 0);
        return NULL;
    }
    if (number_count > 0) {
        memcpy(task->given, numbers, number_count * sizeof(*numbers));
    }
    return &task->job;
}

quipu_str qpy_take_text(qpy_task *task)
{
    return task->in_next < task->in_count ? task->in[task->in_next++] : (quipu_str){NULL, 0};
}

int64_t qpy_take_number(qpy_task *task)
{
    return task->given_next < task->given_count ? task->given[task->given_next++] : 0;
}

/* Whether the store is open; it then stays open until job_leave(). */
static bool job_enter(qpy_store *store)
{
    if (store == NULL) {
        return true;
    }
    (void)atomic_fetch_add(&store->users, 1);
    if (!atomic_load(&store->closed)) {
        return true;
    }
    (void)atomic_fetch_sub(&store->users, 1);
    return false;
}

static void job_leave(qpy_store *store)
{
    if (store != NULL) {
        (void)atomic_fetch_sub(&store->users, 1);
    }
}

static void job_refuse(qpy_job *job)
{
    job->status = QUIPU_MISUSE;
    job->why = "the store is closed";
}

void qpy_job_set_target(qpy_job *job, qpy_store *target)
{
    ((qpy_task *)job)->target = target;
}

void qpy_job_run(qpy_job *job)
{
    qpy_task *task = (qpy_task *)job;
    quipu_status status;

    job->why = task->error.message;
    if (!job_enter(task->on)) {
        job_refuse(job);
        return;
    }
    if (!job_enter(task->target)) {
        job_leave(task->on);
        job_refuse(job);
        return;
    }
    status = job_runs[task->op](task);
    job_leave(task->target);
    job_leave(task->on);
    /* A failed allocation of an answer has set the error already. */
    job->status = status != QUIPU_OK ? (int32_t)status : task->error.status;
}

void qpy_job_free(qpy_job *job)
{
    qpy_task *task = (qpy_task *)job;

    if (task != NULL) {
        if (task->kept != NULL) {
            (void)job_memory(task->kept, 0);
        }
        quipu_arena_free(&task->arena);
        (void)job_memory(task, 0);
    }
}

void qpy_job_end(qpy_job *job)
{
    qpy_task *task = (qpy_task *)job;

    if (task->on != NULL && task->kept_room == JOB_SPARE_ROOM) {
        task->kept = atomic_exchange(&task->on->spare, task->kept);
    }
    qpy_job_free(job);
}

void qpy_store_close(qpy_store *store)
{
    const struct timespec moment = {0, JOB_CLOSE_WAIT_NS};

    if (store == NULL || atomic_exchange(&store->closed, true)) {
        return;
    }
    if (getpid() == store->process) {
        if (store->closing != NULL) {
            quipu_cancel_set(store->closing);
        }
        while (atomic_load(&store->users) > 0) {
            (void)nanosleep(&moment, NULL);
        }
        qpy_tails_close(store);
    }
    quipu_service_free(store->states);
    quipu_service_free(store->service);
    quipu_close(store->store);
}

int qpy_store_is_closed(qpy_store *store)
{
    return atomic_load(&store->closed);
}

void qpy_store_free(qpy_store *store)
{
    if (store != NULL) {
        char *spare;

        qpy_store_close(store);
        spare = atomic_exchange(&store->spare, NULL);
        if (spare != NULL) {
            (void)job_memory(spare, 0);
        }
        if (store->worker != NULL) {
            (void)job_memory(store->worker, 0);
        }
        quipu_free(store->closing);
        (void)job_memory(store, 0);
    }
}

const char *qpy_version(void)
{
    return quipu_version();
}

const char *qpy_sqlite_version(void)
{
    return sqlite3_libversion();
}
