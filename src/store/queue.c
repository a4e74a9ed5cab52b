/* The commit group and the queue in front of its writing connection.
 *
 * Owns the group (its connection, its counters), the list of waiting callers and the question who
 * leads. qp_group_run() is the entry: every call of the store that writes passes it
 * (qp_store_write()), and either leads a batch or is answered by another leader; batch.c runs the
 * batch and calls the queue (take, wait, requeue). Every function takes the queue's mutex by itself
 * and holds it for a few instructions only; none holds it while a caller's work runs. The caller
 * that leads has connection, cache and scratch arena to itself. Each caller sleeps on a latch of
 * its own, so that callers that are woken together do not compete for the mutex again.
 *
 *     arrives ──▶ nobody leads ─────────────────────────────▶ leads
 *        └──────▶ waits ──┬─ the leader hands over ─────────▶ leads
 *                         ├─ taken into a batch ──▶ answered ──▶ wakes others, returns
 *                         │        └─ requeued ──▶ waits
 *                         └─ deadline or cancel while it waits ──▶ leaves, returns
 *
 * On a distributed store a caller whose server was lost returns into the queue instead: it waits
 * without the lead and arrives anew (qp_write.reenters), until its deadline.
 *
 * Locks: its own mutex. On return of qp_queue_enter() the caller leads, or has its answer; on
 * return of qp_group_run() the write has its status, and no open transaction contains it. */
#include "store/queue.h"

#include <assert.h>

#include "base/error.h"
#include "ent/db.h"
#include "store/batch.h"
#include "store/group.h"
#include "store/store.h"

/* What a waiting caller is woken with. */
#define QUEUE_LEAD 1U     /* it leads now */
#define QUEUE_ANSWERED 2U /* its status is set */

/* Pauses before a write whose server was lost reenters the queue: about half a second. */
#define QUEUE_NAPS 20

/* How often a caller that a leader took past its deadline looks whether it was requeued. */
#define QUEUE_RECHECK_NS (20 * QP_NS_PER_MS)

/* A mutex and a condition for the leader; each caller that waits has a latch (qp_write). */
quipu_status qp_queue_init(qp_queue *queue, quipu_error *reterr)
{
    *queue = (qp_queue){.led = false};
    if (qp_mutex_init(&queue->mutex) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_cond_init(&queue->arrived) != QUIPU_OK) {
        qp_mutex_done(&queue->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    return QUIPU_OK;
}

/* Nobody leads and nobody waits: the store is closed. */
void qp_queue_done(qp_queue *queue)
{
    assert(!queue->led && queue->head == NULL);
    qp_cond_done(&queue->arrived);
    qp_mutex_done(&queue->mutex);
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

/* Under the mutex. */
static void queue_join(qp_queue *queue, qp_write *write)
{
    assert(!write->queued && write->next == NULL);
    write->queued = true;
    if (queue->tail == NULL) {
        queue->head = write;
    } else {
        queue->tail->next = write;
    }
    queue->tail = write;
    if (queue->waiting_for_more) {
        qp_cond_signal(&queue->arrived);
    }
}

/* Under the mutex: removes the oldest write. */
static qp_write *queue_pop(qp_queue *queue)
{
    qp_write *write = queue->head;

    assert(write != NULL && write->queued);
    queue->head = write->next;
    if (queue->head == NULL) {
        queue->tail = NULL;
    }
    write->next = NULL;
    write->queued = false;
    return write;
}

/* Leaves the queue. False: too late, a leader has taken the write. */
static bool queue_leave(qp_queue *queue, qp_write *gone)
{
    qp_write *before = NULL;
    bool queued;

    qp_mutex_lock(&queue->mutex);
    queued = gone->queued;
    for (qp_write *write = queue->head; queued && write != gone; write = write->next) {
        assert(write != NULL);
        before = write;
    }
    if (queued && before == NULL) {
        queue->head = gone->next;
    } else if (queued) {
        before->next = gone->next;
    }
    if (queued && queue->tail == gone) {
        queue->tail = before;
    }
    qp_mutex_unlock(&queue->mutex);
    return queued;
}

/* Wakes `count` members from `write` on. One thread would take longer to wake many than their work
 * takes, so each member that wakes goes on with half of those that are left. */
static void queue_wake(qp_write *write, size_t count)
{
    while (count > 0) {
        qp_write *first = write;

        assert(first != NULL && !first->queued);
        first->wakes = (count - 1) / 2;
        count -= first->wakes + 1;
        for (size_t i = 0; i <= first->wakes; i++) {
            write = write->next;
        }
        qp_latch_set(&first->answered, QUEUE_ANSWERED); /* `first` may be gone from here on */
    }
}

/* Waits for the leader's answer; true: this caller leads. */
static bool queue_wait(qp_queue *queue, qp_write *write)
{
    quipu_error error = {0};
    quipu_status status = qp_call_check(write->call, &error);

    for (;;) {
        if (status != QUIPU_OK && queue_leave(queue, write)) {
            write->status = qp_error_pass(write->reterr, &error);
            return false;
        }
        const int64_t wake_ns =
            status == QUIPU_OK ? qp_call_wake_ns(write->call) : qp_clock_ns() + QUEUE_RECHECK_NS;
        const unsigned answer = qp_latch_wait(&write->answered, wake_ns);
        if (answer == QUEUE_ANSWERED) {
            queue_wake(write->next, write->wakes);
        }
        if (answer != 0) {
            return answer == QUEUE_LEAD;
        }
        status = qp_call_check(write->call, &error);
    }
}

/* True: the caller leads. Otherwise it waits until a leader has answered it, or passes the lead on
 * to it. */
bool qp_queue_enter(qp_queue *queue, qp_write *write)
{
    bool waits;

    assert(write->next == NULL && !write->queued);
    qp_mutex_lock(&queue->mutex);
    waits = queue->led;
    if (waits) {
        queue_join(queue, write);
    }
    queue->led = true;
    qp_mutex_unlock(&queue->mutex);
    return !waits || queue_wait(queue, write);
}

/* ---- leading ----------------------------------------------------------------------------------
 */

/* In the order of arrival, up to the first write that cannot share the batch: a write that runs
 * outside of batches, or, for LOCKED, one that does not name its session. */
qp_write *qp_queue_take(qp_queue *queue, qp_write *last, bool single_session, size_t *count)
{
    assert(last->next == NULL);
    qp_mutex_lock(&queue->mutex);
    while (queue->head != NULL && queue->head->kind != QP_WRITE_OUTSIDE &&
           *count < QUIPU_GROUP_MAX && (!single_session || queue->head->call->session.p != NULL)) {
        last->next = queue_pop(queue);
        last = last->next;
        *count += 1;
    }
    qp_mutex_unlock(&queue->mutex);
    return last;
}

/* Only while fewer members are there than the last batches had: a single writer never waits. */
void qp_queue_wait_for_more(qp_queue *queue, size_t count, int64_t *wait_ns)
{
    int64_t start_ns;

    if (count >= queue->expected_size || *wait_ns <= 0) {
        return;
    }
    start_ns = qp_clock_ns();
    qp_mutex_lock(&queue->mutex);
    queue->waiting_for_more = true;
    while (queue->head == NULL &&
           qp_cond_wait_until(&queue->arrived, &queue->mutex, start_ns + *wait_ns)) {
        /* Signalled, but the caller that arrived has left again. */
    }
    queue->waiting_for_more = false;
    qp_mutex_unlock(&queue->mutex);
    *wait_ns -= qp_clock_ns() - start_ns;
}

/* To the front, in their order: they have waited longest. */
void qp_queue_requeue(qp_queue *queue, qp_write *own)
{
    qp_write *last = own->next;

    if (last == NULL) {
        return;
    }
    qp_mutex_lock(&queue->mutex);
    for (qp_write *write = own->next; write != NULL; write = write->next) {
        assert(!write->queued);
        write->queued = true;
        last = write;
    }
    last->next = queue->head;
    if (queue->head == NULL) {
        queue->tail = last;
    }
    queue->head = own->next;
    own->next = NULL;
    qp_mutex_unlock(&queue->mutex);
}

/* The next leader is woken before the members of this batch, so that its transaction begins while
 * they return to their callers. */
void qp_queue_finish(qp_queue *queue, qp_write *own)
{
    qp_write *leader = NULL;
    size_t members = 0; /* behind `own` */

    for (const qp_write *write = own->next; write != NULL; write = write->next) {
        members++;
    }
    /* The next batch begins before this one is woken. */
    qp_mutex_lock(&queue->mutex);
    assert(queue->led);
    if (queue->head != NULL) {
        leader = queue_pop(queue);
    }
    queue->led = leader != NULL;
    /* About as many members may come to the next batch. */
    queue->expected_size =
        members >= queue->expected_size ? members + 1 : (queue->expected_size + members + 1) / 2;
    qp_mutex_unlock(&queue->mutex);
    if (leader != NULL) {
        qp_latch_set(&leader->answered, QUEUE_LEAD);
    }
    if (members > 0) {
        queue_wake(own->next, members);
    }
}

/* ---- the group --------------------------------------------------------------------------------
 */

/* No connection yet: a store that only reads never opens one for writing. */
quipu_status qp_group_init(qp_group *group, const qp_connector *connector, quipu_str tenant,
                           quipu_error *reterr)
{
    quipu_status status;

    assert(connector->open != NULL);
    *group = (qp_group){.sessions = {.tenant = tenant}};
    status = qp_queue_init(&group->queue, reterr);
    if (status == QUIPU_OK) {
        group->connector = connector;
    }
    return status;
}

/* Nobody is in the queue any more: quipu_close() has waited for every call. Safe on a group that
 * was never set up. */
void qp_group_done(qp_group *group)
{
    if (group->connector == NULL) {
        return;
    }
    ent_close(group->db);
    group->connector = NULL;
    qp_session_cache_free(&group->sessions);
    quipu_arena_free(&group->scratch);
    quipu_arena_free(&group->feed.arena);
    qp_queue_done(&group->queue);
}

/* Runs a write that wants the connection for itself. It may change any row. */
static void group_run_outside(qp_group *group, qp_write *own)
{
    assert(group->db != NULL && ent_depth(group->db) == 0);
    own->next = NULL;
    group->removed = (qp_removed){0, 0};
    qp_call_watch(own->call, group->db);
    if (group->scratch.head != NULL) {
        quipu_arena_reset(&group->scratch);
    }
    own->status = own->work(own->ctx, group->db, &group->scratch, own->reterr);
    while (ent_depth(group->db) > 0) {
        ent_rollback(group->db);
    }
    ent_watch(group->db, 0, NULL, NULL);
    qp_session_cache_detach_all(&group->sessions);
    if (group->signal != NULL) {
        qp_change_signal_notify(group->signal);
    }
}

/* Before a write whose server was lost reenters the queue. The caller does not lead: others write
 * meanwhile. The deadline of the call ends it. */
static bool group_nap(qp_write *write)
{
    const quipu_status status = write->status;
    bool in_time = true;

    assert(write->reenters && status != QUIPU_OK);
    for (int i = 0; i < QUEUE_NAPS && in_time; i++) {
        in_time = qp_call_nap(write->call, &write->status, write->reterr);
    }
    if (in_time) { /* as it was made, but for what a try before has left open */
        *write = (qp_write){.kind = write->kind,
                            .work = write->work,
                            .ctx = write->ctx,
                            .call = write->call,
                            .reterr = write->reterr,
                            .unknown = write->unknown};
    } else if (write->unknown) {
        write->status = status;
    }
    return in_time;
}

/* The entry. A caller that finds nobody leading leads: it opens the connection on the first write,
 * runs the work of everybody in its batch, answers, and passes the lead on. */
quipu_status qp_group_run(qp_group *group, qp_write_kind kind, const qp_call *call, qp_work_fn work,
                          void *ctx, quipu_error *reterr)
{
    /* Of the last try. The caller's own is written only when that failed. */
    quipu_error error = {.status = QUIPU_OK};
    qp_write write = {.kind = kind, .work = work, .ctx = ctx, .call = call, .reterr = &error};

    assert(group->connector != NULL);
    do {
        if (qp_queue_enter(&group->queue, &write)) {
            if (group->db == NULL) {
                write.status =
                    group->connector->open(group->connector->ctx, false, &group->db, &error);
                group->locks_rows = group->db != NULL && qp_db_locks_rows(group->db);
            }
            if (group->db != NULL && kind == QP_WRITE_OUTSIDE) {
                group_run_outside(group, &write);
            } else if (group->db != NULL) {
                qp_batch_lead(group, &write);
            }
            qp_queue_finish(&group->queue, &write);
        } /* else another leader has answered */
    } while (write.reenters && group_nap(&write));
    if (write.status != QUIPU_OK && error.status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return write.status;
}

/* Under the mutex, because quipu_store_stats() reads it from another thread. */
void qp_group_count_exclusive(qp_group *group)
{
    qp_mutex_lock(&group->queue.mutex);
    group->counts.exclusive++;
    qp_mutex_unlock(&group->queue.mutex);
}

/* A session that expired after the locks were taken is not the batch's to remove: its family is not
 * locked. */
bool qp_group_owns_expired(const qp_group *group, const qp_session *row)
{
    return group->sessions.state == QP_BATCH_EXCLUSIVE ||
           (group->sessions.state == QP_BATCH_LOCKED && qp_session_expired(row, group->locked_at));
}

/* A copy under the queue's mutex, which guards the counters. */
qp_group_counts qp_group_counted(qp_group *group)
{
    qp_group_counts counts;

    qp_mutex_lock(&group->queue.mutex);
    counts = group->counts;
    qp_mutex_unlock(&group->queue.mutex);
    return counts;
}
