/* The commit group: the door to the writing connection.
 *
 * Owns the connection, its queue and the session cache. Called by every call of the store that
 * writes (qp_store_write()). A caller either leads a batch or is answered by another leader;
 * queue.c decides which, batch.c runs the batch.
 * Locks: none but the queue's; the caller that leads has connection, cache and scratch arena to
 * itself. On return the write has its status, and no open transaction contains it. */
#include "store/group.h"

#include <assert.h>

#include "store/batch.h"
#include "store/store.h"

/* No connection yet: a store that only reads never opens one for writing. */
quipu_status qp_group_init(qp_group *group, const qp_connector *connector, quipu_str tenant,
                           quipu_error *reterr)
{
    quipu_status status;

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

/* The door. A caller that finds nobody leading leads: it opens the connection on the first write,
 * runs the work of everybody in its batch, answers, and passes the lead on. */
quipu_status qp_group_run(qp_group *group, qp_write_kind kind, const qp_call *call, qp_work_fn work,
                          void *ctx, quipu_error *reterr)
{
    /* Of the last try. The caller's own is written only when that failed. */
    quipu_error error = {.status = QUIPU_OK};
    qp_write write = {.kind = kind, .work = work, .ctx = ctx, .call = call, .reterr = &error};

    assert(group->connector != NULL);
    if (qp_queue_enter(&group->queue, &write)) {
        if (group->db == NULL) {
            write.status = group->connector->open(group->connector->ctx, false, &group->db, &error);
        }
        if (group->db != NULL && kind == QP_WRITE_OUTSIDE) {
            group_run_outside(group, &write);
        } else if (group->db != NULL) {
            qp_batch_lead(group, &write);
        }
        qp_queue_finish(&group->queue, &write);
    } /* else another leader has answered */
    if (write.status != QUIPU_OK && error.status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return write.status;
}

void qp_group_count_exclusive(qp_group *group)
{
    qp_mutex_lock(&group->queue.mutex);
    group->counts.exclusive++;
    qp_mutex_unlock(&group->queue.mutex);
}

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
