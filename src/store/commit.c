/* The COMMIT state of a batch (diagram in batch.h).
 *
 * Owns the commit and what its result means. Called by batch.c when all members ran and all rows
 * are written. When it returns, the transaction is over and every member has the commit's status,
 * or an optimistic batch that stored nothing begins again. A rule that is checked at the COMMIT
 * (INVALID) leaves every member to a retry alone.
 *
 *   the engine reports   nothing was stored?   members get
 *   OK                   stored                what their works returned
 *   FULL, BUSY           certain               that status
 *   INVALID              certain               that status when alone, else a retry each
 *   anything else        unknown               UNKNOWN: only the file can say
 */
#include <assert.h>

#include "base/error.h"
#include "ent/db.h"
#include "store/batch.h"
#include "store/group.h"

/* What a failed commit means. The engine reports a full disk, a lock and a broken reference before
 * anything reached the file. After any other failure only the file knows. */
static quipu_status commit_status(quipu_status status, quipu_error *error)
{
    quipu_error cause = *error;

    assert(status != QUIPU_OK);
    if (status == QUIPU_FULL || status == QUIPU_BUSY || status == QUIPU_INVALID) {
        return status;
    }
    (void)qp_error_set(error, QUIPU_UNKNOWN,
                       "the commit failed, and whether it reached the disk is unknown (%s); "
                       "repeat the call with the same ids",
                       cause.message);
    error->engine_code = cause.engine_code;
    return QUIPU_UNKNOWN;
}

/* Counts what the commit held, by the powers of two as upper bounds but for the last, and notifies
 * the waiters for changes, also of a commit that only may have been one. */
static void commit_report(const qp_batch *batch, bool committed)
{
    qp_group *group = batch->group;
    int64_t writes = 0;
    size_t size = 0; /* of the first power of two that is no smaller than `writes`, or the last */
    bool changed = false;

    for (const qp_write *write = batch->own; write != NULL; write = write->next) {
        changed = changed || write->kind != QP_WRITE_READ_ONLY;
        writes += write->kind != QP_WRITE_READ_ONLY && write->status == QUIPU_OK;
    }
    /* A listener that registers after this load reads after this commit, and misses nothing. */
    if (changed && group->signal != NULL && atomic_load(&group->signal->listeners) > 0) {
        qp_change_signal_notify(group->signal);
    }
    assert(writes <= QUIPU_GROUP_MAX);
    if (committed && writes > 0) {
        while (size < QUIPU_COMMIT_SIZES - 1 && (INT64_C(1) << size) < writes) {
            size++;
        }
        qp_mutex_lock(&group->queue.mutex);
        group->counts.commits++;
        group->counts.writes += writes;
        group->counts.sizes[size]++;
        group->counts.largest = writes > group->counts.largest ? writes : group->counts.largest;
        qp_mutex_unlock(&group->queue.mutex);
    }
}

/* Also members that were refused get the commit's error: what they saw may never have been. */
static void commit_failed(qp_batch *batch, quipu_status status, quipu_error *error)
{
    assert(batch->state == QP_BATCH_COMMIT && status != QUIPU_OK);
    status = commit_status(status, error);
    if (status == QUIPU_UNKNOWN) {
        QP_LOG(batch->group->log, QUIPU_LOG_ERROR, "store", "unknown_outcome",
               QP_LOG_NUMBER("members", batch->count),
               QP_LOG_NUMBER("engine_code", error->engine_code));
    } else {
        QP_LOG(batch->group->log, QUIPU_LOG_WARN, "store", "commit_failed", QP_LOG_STATUS(status),
               QP_LOG_NUMBER("members", batch->count),
               QP_LOG_NUMBER("engine_code", error->engine_code));
    }
    for (qp_write *write = batch->own; write != NULL; write = write->next) {
        write->status = status;
        if (write->reterr != NULL) {
            *write->reterr = *error;
        }
    }
    if (batch->optimistic && status != QUIPU_UNKNOWN) {
        qp_batch_fall_back(batch);
        return;
    }
    if (qp_db_is_transient(batch->group->db)) {
        batch->retries = QP_RETRY_FAILED;
    }
    /* A rule that the engine checks at the COMMIT: one member broke it, and only a COMMIT of its
     * own shows which. The others must not fail with it. */
    if (status == QUIPU_INVALID && batch->count > 1) {
        batch->retries = QP_RETRY_ALL;
    }
    qp_batch_move(batch, QP_BATCH_OUTCOME);
}

/* The mean of the last commits decides how long the next leader waits for more members
 * (batch_drive). The cache learns the result before anybody is answered: an acknowledged caller may
 * append again at once. */
void qp_batch_commit(qp_batch *batch)
{
    qp_group *group = batch->group;
    quipu_error error = {0};
    const int64_t start_ns = qp_clock_ns();
    quipu_status status;

    assert(batch->state == QP_BATCH_COMMIT && ent_depth(group->db) == 1);
    status = ent_commit(group->db, &error);
    group->commit_ns = (group->commit_ns * 7 + (qp_clock_ns() - start_ns)) / 8;
    qp_session_cache_end(&group->sessions, group->db, status == QUIPU_OK);
    commit_report(batch, status == QUIPU_OK);
    if (status != QUIPU_OK) {
        commit_failed(batch, status, &error);
        return;
    }
    qp_batch_move(batch, QP_BATCH_OUTCOME);
}
