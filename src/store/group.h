/* The commit group: callers that wait together share one transaction, one commit and one fsync. The
 * first of them leads: it takes the write lock, runs everybody's work, commits once and wakes
 * everybody; then it hands the lead to the next one in the queue. */
#ifndef QP_STORE_GROUP_H
#define QP_STORE_GROUP_H

#include <ent/ent.h>

#include "base/log.h"
#include "store/change_signal.h"
#include "store/feed_queue.h"
#include "store/queue.h"
#include "store/session_cache.h"

/* What a group did since it began; guarded by the queue's mutex. */
typedef struct qp_group_counts {
    int64_t commits;
    int64_t writes;                    /* callers whose work they held */
    int64_t largest;                   /* callers in one commit */
    int64_t sizes[QUIPU_COMMIT_SIZES]; /* commits by their callers: see quipu_stats */
    int64_t exclusive;                 /* batches that kept every other writer out */
} qp_group_counts;

/* What the open transaction has removed: fork_release.c holds it within the limits of a step. */
typedef struct qp_removed {
    int64_t messages;
    int64_t bytes;
} qp_removed;

typedef struct qp_group {
    qp_queue queue;
    const qp_connector *connector; /* NULL: never set up */
    qp_change_signal *signal;      /* notified by every commit, or NULL */
    const qp_log *log;             /* the store's, or NULL */
    qp_group_counts counts;
    /* The leader's, without a lock: */
    ent_db *db;          /* opened by the first leader */
    bool locks_rows;     /* its engine does: batches may be LOCKED and OPTIMISTIC */
    quipu_arena scratch; /* of the work that runs */
    qp_session_cache sessions;
    int64_t commit_ns; /* what a commit costs, a moving average */
    qp_removed removed;
    qp_feed_queue feed;   /* changes that the open, LOCKED transaction records at its end */
    quipu_time locked_at; /* LOCKED: when counters were locked. When a member creates a session
                           * anew that had expired then, its family is locked, too. */
} qp_group;

/* `tenant` outlives the group. */
QUIPU_MUST_USE quipu_status qp_group_init(qp_group *group, const qp_connector *connector,
                                          quipu_str tenant, quipu_error *reterr);

/* Closes the connection. Nobody is inside. */
void qp_group_done(qp_group *group);

/* Runs `work` and returns when it is durable, or when nothing was written. QUIPU_BUSY and
 * QUIPU_CANCELLED: it was not begun. QUIPU_UNKNOWN: the commit itself failed.
 *   QP_WRITE_CHANGE     in a transaction of a batch
 *   QP_WRITE_READ_ONLY  the same for work that changes nothing, where all share one connection
 *   QP_WRITE_OUTSIDE    once, outside of a transaction, while nobody else has the connection. The
 *                       call's deadline holds for all of it; a transaction that it leaves open is
 *                       rolled back. */
QUIPU_MUST_USE quipu_status qp_group_run(qp_group *group, qp_write_kind kind, const qp_call *call,
                                         qp_work_fn work, void *ctx, quipu_error *reterr);

qp_group_counts qp_group_counted(qp_group *group);

/* The state of the batch that the leader runs, by which works decide how they get rows;
 * QP_BATCH_NONE when the open transaction is an outside write's. Only the leader's thread may ask.
 */
qp_batch_state qp_group_state(const qp_group *group);

/* The leader begins an EXCLUSIVE batch. */
void qp_group_count_exclusive(qp_group *group);

/* Whether the open transaction may remove this session, which a member finds expired: it is the
 * only writer, or has locked the family. */
bool qp_group_owns_expired(const qp_group *group, const qp_session *row);

#endif
