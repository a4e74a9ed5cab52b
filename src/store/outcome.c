/* The OUTCOME of a batch (diagram in batch.h): who is answered as it is, and who is retried alone.
 *
 * Owns the repeats. Called by batch.c when a batch ended in a way that leaves members to retry; no
 * transaction is open. A repeat is an exclusive batch of one member: no other writer is admitted
 * meanwhile, so that it cannot lose the same conflict again. */
#include <assert.h>

#include "base/error.h"
#include "ent/db.h"
#include "store/batch.h"
#include "store/group.h"

#define OUTCOME_TRIES_MAX 10 /* of one member, when what stopped it may pass */

/* Whether a failed write may be repeated: nothing of it is stored, or the repeat finds out. */
static bool outcome_may_retry(const qp_write *write)
{
    return write->status != QUIPU_OK && (write->status != QUIPU_UNKNOWN || write->call->idempotent);
}

/* Statuses that say nothing about an earlier try whose outcome is unknown: the repeat did not get
 * as far as to look for what that try stored. A damaged file and one that another program changed
 * are among them: the COMMIT may have reached the disk before. */
static bool outcome_says_nothing(quipu_status status)
{
    return status == QUIPU_IO || status == QUIPU_BUSY || status == QUIPU_CANCELLED ||
           status == QUIPU_NOMEM || status == QUIPU_FULL || status == QUIPU_CORRUPT ||
           status == QUIPU_UNSUPPORTED;
}

/* Repeats one member until it is done, refused, or out of tries. The pauses differ by chance, so
 * that callers of several machines do not meet again. An unknown outcome stays unknown until a try
 * has settled it. */
static void outcome_retry(qp_group *group, qp_write *write)
{
    bool unknown = write->status == QUIPU_UNKNOWN;
    quipu_error first = {0};

    if (unknown && write->reterr != NULL) {
        first = *write->reterr;
    }
    qp_batch_retry(group, write);
    for (int tries = 1;
         tries < OUTCOME_TRIES_MAX && outcome_may_retry(write) && qp_db_is_transient(group->db) &&
         qp_call_nap(write->call, &write->status, write->reterr);
         tries++) {
        if (!unknown && write->status == QUIPU_UNKNOWN) {
            unknown = true;
            first = write->reterr != NULL ? *write->reterr : first;
        }
        qp_batch_retry(group, write);
    }
    QP_LOG(group->log, QUIPU_LOG_WARN, "store", "retried_alone", QP_LOG_STATUS(write->status),
           QP_LOG_NUMBER("unknown_before", unknown));
    if (unknown && outcome_says_nothing(write->status)) {
        write->status = QUIPU_UNKNOWN;
        if (write->reterr != NULL) {
            *write->reterr = first;
        }
    } else if (write->status == QUIPU_OK) {
        qp_write_clear_error(write);
    }
}

void qp_batch_outcome(qp_batch *batch)
{
    assert(batch->state == QP_BATCH_OUTCOME && !batch->is_retry);
    assert(batch->retries != QP_RETRY_NONE && ent_depth(batch->group->db) == 0);
    for (qp_write *write = batch->own; write != NULL; write = write->next) {
        if (batch->retries == QP_RETRY_ALL || outcome_may_retry(write)) {
            outcome_retry(batch->group, write);
        }
    }
}
