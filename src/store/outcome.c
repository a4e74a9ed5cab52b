/* The OUTCOME of a batch (diagram in batch.h): who is answered as it is, and who is retried alone.
 *
 * Owns the repeats. Called by batch.c when a batch ended in a way that leaves members to retry; no
 * transaction is open. A repeat is a batch of one member.
 *
 *   what failed            repeated                                        until
 *   a conflict             EXCLUSIVE: it cannot lose the same again         OUTCOME_TRIES_MAX
 *   a lock in EXCLUSIVE    EXCLUSIVE, with pauses that admit other writers  the call's deadline
 *   the connection         LOCKED: other writers never wait for it          the call's deadline
 *
 * On a distributed store the connection may be lost to one of its servers only. There a member is
 * tried once, and its own caller enters the queue anew (qp_write.reenters): the next leader
 * goes on with the members whose servers answer.
 */
#include <assert.h>

#include "base/error.h"
#include "ent/db.h"
#include "store/batch.h"
#include "store/group.h"

#define OUTCOME_TRIES_MAX 10 /* of one member that loses conflicts */
#define OUTCOME_NAPS_MAX 20  /* before a further try after lost connections: about half a second */

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

/* Whether another try of a member makes sense; `tries` counts those that lost a conflict. After a
 * lost connection and while a row is locked only the call's deadline ends the tries: both pass, and
 * neither keeps other writers waiting. */
static bool outcome_retries(const qp_group *group, const qp_write *write, int *tries)
{
    const qp_failure failure = qp_db_failure(group->db);

    *tries += failure == QP_FAILURE_CONFLICT;
    return outcome_may_retry(write) && failure != QP_FAILURE_FINAL && *tries < OUTCOME_TRIES_MAX;
}

/* Pauses before another try. The pauses differ by chance, so that callers of several machines do
 * not meet again, and grow while the server fails. */
static bool outcome_nap(const qp_group *group, qp_write *write, int *lost)
{
    const bool is_lost = qp_db_failure(group->db) == QP_FAILURE_CONNECTION;
    bool in_time = true;

    *lost = !is_lost ? 1 : *lost < OUTCOME_NAPS_MAX ? *lost + 1 : OUTCOME_NAPS_MAX;
    for (int i = 0; i < *lost && in_time; i++) {
        in_time = qp_call_nap(write->call, &write->status, write->reterr);
    }
    return in_time;
}

/* One try. A deferred write that failed says nothing: the member is not done, whatever it said. */
static void outcome_try(qp_group *group, qp_write *write, bool beside)
{
    if (!qp_batch_retry(group, write, beside) && write->status == QUIPU_OK) {
        write->status = qp_error_set(write->reterr, QUIPU_BUSY,
                                     "another writer was in the way until the deadline; try again");
    }
}

/* Whether the caller enters the queue anew, behind others: one server of several is away. */
static bool outcome_reenters(const qp_group *group, const qp_write *write)
{
    return outcome_may_retry(write) && qp_db_is_distributed(group->db) &&
           qp_db_failure(group->db) == QP_FAILURE_CONNECTION;
}

/* Repeats one member until it is done, refused, or out of tries or time. A try after a lost
 * connection (`lost`: the batch's) runs beside other writers; a conflict that is lost there is
 * repeated alone, where it cannot be lost again. An unknown outcome stays unknown until a try has
 * settled it. */
static void outcome_retry(qp_group *group, qp_write *write, bool lost)
{
    bool unknown = write->unknown || write->status == QUIPU_UNKNOWN;
    quipu_error first = {0};
    int tries = 0;
    int naps = 0;

    if (unknown && write->reterr != NULL) {
        first = *write->reterr;
    }
    outcome_try(group, write, lost);
    while (!outcome_reenters(group, write) && outcome_retries(group, write, &tries) &&
           outcome_nap(group, write, &naps)) {
        if (!unknown && write->status == QUIPU_UNKNOWN) {
            unknown = true;
            first = write->reterr != NULL ? *write->reterr : first;
        }
        outcome_try(group, write, qp_db_failure(group->db) == QP_FAILURE_CONNECTION);
    }
    QP_LOG(group->log, QUIPU_LOG_WARN, "store", "retried_alone", QP_LOG_STATUS(write->status),
           QP_LOG_NUMBER("unknown_before", unknown));
    write->reenters = outcome_reenters(group, write);
    write->unknown = unknown || write->status == QUIPU_UNKNOWN;
    if (unknown && outcome_says_nothing(write->status)) {
        write->status = QUIPU_UNKNOWN;
        if (write->reterr != NULL) {
            *write->reterr = first;
        }
    } else if (write->status == QUIPU_OK) {
        qp_write_clear_error(write);
    }
}

/* One member after another, in the order of the batch: appends of one session keep their order also
 * when they are retried. */
void qp_batch_outcome(qp_batch *batch)
{
    assert(batch->state == QP_BATCH_OUTCOME && !batch->is_retry);
    assert(batch->retries != QP_RETRY_NONE && ent_depth(batch->group->db) == 0);
    const bool lost = qp_db_failure(batch->group->db) == QP_FAILURE_CONNECTION;

    for (qp_write *write = batch->own; write != NULL; write = write->next) {
        if (batch->retries == QP_RETRY_ALL || outcome_may_retry(write)) {
            outcome_retry(batch->group, write, lost);
        }
    }
}
