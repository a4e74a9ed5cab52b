/* The commit group. Lock order: the mutex guards the queue and the states; the connection and the
 * scratch arena belong to whoever leads, without the mutex. */
#include "store/group.h"

#include <assert.h>

#include "base/error.h"
#include "ent/db.h"

typedef enum group_state {
    GROUP_QUEUED = 0, /* may still leave */
    GROUP_TAKEN,      /* its work is being done */
    GROUP_LEADS,      /* has been made the leader */
    GROUP_DONE
} group_state;

/* One caller, on its own stack. */
typedef struct qp_write {
    qp_work_fn work;
    void *ctx;
    const qp_call *call;
    quipu_error *reterr;
    bool reads; /* changes nothing */
    bool alone; /* wants no transaction, and no company */
    quipu_status status;
    group_state state;
    qp_cond woken;
    struct qp_write *next; /* in the queue, then in the batch */
} qp_write;

quipu_status qp_group_init(qp_group *group, ent_db *db, quipu_error *reterr)
{
    *group = (qp_group){.db = NULL};
    if (qp_mutex_init(&group->mutex) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_cond_init(&group->idle) != QUIPU_OK) {
        qp_mutex_done(&group->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    group->db = db;
    return QUIPU_OK;
}

void qp_group_done(qp_group *group)
{
    if (group->db == NULL) {
        return;
    }
    qp_mutex_lock(&group->mutex);
    while (group->inside > 0) {
        qp_cond_wait(&group->idle, &group->mutex);
    }
    qp_mutex_unlock(&group->mutex);
    ent_close(group->db);
    group->db = NULL;
    quipu_arena_free(&group->scratch);
    qp_cond_done(&group->idle);
    qp_mutex_done(&group->mutex);
}

/* ---- one caller's work ------------------------------------------------------------------------
 */

/* Take the write lock with a caller's patience. The watch ends here: a taken call is carried
 * through, it is bounded by local I/O. */
static quipu_status group_begin(qp_group *group, const qp_write *write)
{
    const qp_call *call = write->call;
    quipu_status status;

    ent_watch(group->db, call->deadline_ns, call->cancel != NULL ? qp_call_stops : NULL,
              call->cancel);
    status = ent_begin(group->db, ENT_WRITE, write->reterr);
    ent_watch(group->db, 0, NULL, NULL);
    return status;
}

static void group_work(qp_group *group, qp_write *write)
{
    if (group->scratch.head != NULL) {
        quipu_arena_reset(&group->scratch);
    }
    write->status = write->work(write->ctx, group->db, &group->scratch, write->reterr);
}

/* In a savepoint of its own, so that a failure undoes this caller's part only. */
static void group_work_apart(qp_group *group, qp_write *write)
{
    int depth = ent_depth(group->db);

    write->status = ent_begin(group->db, ENT_WRITE, write->reterr);
    if (write->status != QUIPU_OK) {
        return;
    }
    group_work(group, write);
    if (write->status == QUIPU_OK) {
        write->status = ent_commit(group->db, write->reterr);
    }
    while (ent_depth(group->db) > depth) {
        ent_rollback(group->db);
    }
}

/* What a failed COMMIT means. A full disk and a lock are told before anything reached the file;
 * after any other failure only the file knows. */
static quipu_status group_outcome(quipu_status status, quipu_error *error)
{
    if (status == QUIPU_FULL || status == QUIPU_BUSY || status == QUIPU_INVALID) {
        return status;
    }
    quipu_error cause = *error;
    (void)qp_error_set(error, QUIPU_UNKNOWN,
                       "the commit failed, and whether it reached the disk is unknown (%s); "
                       "repeat the call with the same ids",
                       cause.message);
    error->engine_code = cause.engine_code;
    return QUIPU_UNKNOWN;
}

/* Tell whoever waits for changes, also of a commit that only may have been one. */
static void group_tell(qp_group *group, const qp_write *batch)
{
    bool changed = false;

    for (const qp_write *write = batch; write != NULL; write = write->next) {
        changed = changed || !write->reads;
    }
    if (changed && group->pulse != NULL) {
        qp_pulse_beat(group->pulse);
    }
}

static void group_count(qp_group *group, const qp_write *batch)
{
    int64_t writes = 0;

    for (const qp_write *write = batch; write != NULL; write = write->next) {
        writes += !write->reads && write->status == QUIPU_OK;
    }
    if (writes > 0) {
        qp_mutex_lock(&group->mutex);
        group->counts.commits++;
        group->counts.writes += writes;
        group->counts.largest = writes > group->counts.largest ? writes : group->counts.largest;
        qp_mutex_unlock(&group->mutex);
    }
}

static void group_commit(qp_group *group, qp_write *batch)
{
    quipu_error error = {0};
    quipu_status status = ent_commit(group->db, &error);

    group_tell(group, batch);
    if (status == QUIPU_OK) {
        group_count(group, batch);
        return;
    }
    status = group_outcome(status, &error);
    /* Also those that had failed: what they saw may never have been. */
    for (qp_write *write = batch; write != NULL; write = write->next) {
        write->status = status;
        if (write->reterr != NULL) {
            *write->reterr = error;
        }
    }
}

static void group_run_alone(qp_group *group, qp_write *write)
{
    qp_write *next = write->next;

    write->status = group_begin(group, write);
    if (write->status != QUIPU_OK) {
        return;
    }
    group_work(group, write);
    if (write->status != QUIPU_OK) {
        while (ent_depth(group->db) > 0) {
            ent_rollback(group->db);
        }
        return;
    }
    write->next = NULL;
    group_commit(group, write);
    write->next = next;
}

/* ---- leading ----------------------------------------------------------------------------------
 */

/* Move callers from the queue to the end of the batch; gives the first of them. */
static qp_write *group_take(qp_group *group, qp_write *last, size_t *count)
{
    qp_mutex_lock(&group->mutex);
    while (group->head != NULL && !group->head->alone && *count < QUIPU_GROUP_MAX) {
        qp_write *write = group->head;
        group->head = write->next;
        if (group->head == NULL) {
            group->tail = NULL;
        }
        write->next = NULL;
        write->state = GROUP_TAKEN;
        last->next = write;
        last = write;
        *count += 1;
    }
    qp_mutex_unlock(&group->mutex);
    return last;
}

/* Run the batch in the open transaction, and whoever comes meanwhile. False: the engine gave the
 * transaction up. */
static bool group_run(qp_group *group, qp_write *own, bool *ret_any)
{
    size_t count = 1;
    qp_write *last = group_take(group, own, &count);

    *ret_any = false;
    for (qp_write *write = own; write != NULL; write = write->next) {
        if (own->next == NULL) {
            group_work(group, write); /* alone: a failure rolls the transaction back */
            if (write->status != QUIPU_OK) {
                return !qp_db_is_broken(group->db);
            }
        } else {
            group_work_apart(group, write);
        }
        if (qp_db_is_broken(group->db)) {
            return false;
        }
        *ret_any = *ret_any || write->status == QUIPU_OK;
        if (write->next == NULL) {
            last = group_take(group, last, &count);
        }
    }
    return true;
}

static void group_lead_alone(qp_group *group, qp_write *own)
{
    const qp_call *call = own->call;

    ent_watch(group->db, call->deadline_ns, call->cancel != NULL ? qp_call_stops : NULL,
              call->cancel);
    group_work(group, own);
    while (ent_depth(group->db) > 0) {
        ent_rollback(group->db);
    }
    ent_watch(group->db, 0, NULL, NULL);
    group_tell(group, own);
}

static void group_lead(qp_group *group, qp_write *own)
{
    bool any = false;

    own->next = NULL;
    if (own->alone) {
        group_lead_alone(group, own);
        return;
    }
    own->status = group_begin(group, own);
    if (own->status != QUIPU_OK) {
        return;
    }
    bool whole = group_run(group, own, &any);
    if (whole && any) {
        group_commit(group, own);
        return;
    }
    while (ent_depth(group->db) > 0) {
        ent_rollback(group->db);
    }
    if (!whole && own->next != NULL) {
        /* One caller's failure must not be another's: everybody again, each by itself. */
        for (qp_write *write = own; write != NULL; write = write->next) {
            group_run_alone(group, write);
        }
    }
}

/* With the mutex held: what follows touches the caller's own memory only. */
static void group_exit(qp_group *group)
{
    if (--group->inside == 0) {
        qp_cond_broadcast(&group->idle);
    }
}

/* Wake the batch, give the lead away and leave. */
static void group_finish(qp_group *group, qp_write *own)
{
    qp_mutex_lock(&group->mutex);
    for (qp_write *write = own->next; write != NULL;) {
        qp_write *next = write->next; /* gone as soon as it is woken and the mutex is free */
        write->state = GROUP_DONE;
        qp_cond_signal(&write->woken);
        write = next;
    }
    if (group->head != NULL) {
        qp_write *leader = group->head;
        group->head = leader->next;
        if (group->head == NULL) {
            group->tail = NULL;
        }
        leader->state = GROUP_LEADS;
        qp_cond_signal(&leader->woken);
    } else {
        group->leading = false;
    }
    group_exit(group);
    qp_mutex_unlock(&group->mutex);
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

static void group_leave(qp_group *group, const qp_write *gone)
{
    qp_write *before = NULL;

    for (qp_write *write = group->head; write != gone; write = write->next) {
        assert(write != NULL);
        before = write;
    }
    if (before == NULL) {
        group->head = gone->next;
    } else {
        before->next = gone->next;
    }
    if (group->tail == gone) {
        group->tail = before;
    }
}

/* Join the queue and wait, with the mutex held; true: we lead. */
static bool group_wait(qp_group *group, qp_write *write)
{
    if (group->tail == NULL) {
        group->head = write;
    } else {
        group->tail->next = write;
    }
    group->tail = write;
    while (write->state == GROUP_QUEUED) {
        write->status = qp_call_check(write->call, write->reterr);
        if (write->status != QUIPU_OK) {
            group_leave(group, write);
            write->state = GROUP_DONE;
            return false;
        }
        int64_t wake_ns = qp_call_wake_ns(write->call);
        if (wake_ns == QP_NEVER) {
            qp_cond_wait(&write->woken, &group->mutex);
        } else {
            (void)qp_cond_wait_until(&write->woken, &group->mutex, wake_ns);
        }
    }
    while (write->state == GROUP_TAKEN) {
        qp_cond_wait(&write->woken, &group->mutex);
    }
    return write->state == GROUP_LEADS;
}

static quipu_status group_enter(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                                bool reads, bool alone, quipu_error *reterr)
{
    qp_write write = {
        .work = work, .ctx = ctx, .call = call, .reterr = reterr, .reads = reads, .alone = alone};
    bool lead = true;

    assert(group->db != NULL);
    qp_mutex_lock(&group->mutex);
    group->inside++;
    if (!group->leading) {
        group->leading = true;
    } else if (qp_cond_init(&write.woken) == QUIPU_OK) {
        lead = group_wait(group, &write);
        if (!lead) {
            group_exit(group);
        }
        qp_mutex_unlock(&group->mutex);
        qp_cond_done(&write.woken);
        if (lead) {
            group_lead(group, &write);
            group_finish(group, &write);
        }
        return write.status;
    } else {
        group_exit(group);
        qp_mutex_unlock(&group->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    qp_mutex_unlock(&group->mutex);
    group_lead(group, &write);
    group_finish(group, &write);
    return write.status;
}

quipu_status qp_group_write(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                            quipu_error *reterr)
{
    return group_enter(group, call, work, ctx, false, false, reterr);
}

quipu_status qp_group_read(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                           quipu_error *reterr)
{
    return group_enter(group, call, work, ctx, true, false, reterr);
}

quipu_status qp_group_alone(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                            quipu_error *reterr)
{
    return group_enter(group, call, work, ctx, false, true, reterr);
}

qp_group_counts qp_group_counted(qp_group *group)
{
    qp_group_counts counts;

    qp_mutex_lock(&group->mutex);
    counts = group->counts;
    qp_mutex_unlock(&group->mutex);
    return counts;
}
