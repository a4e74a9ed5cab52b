/* A batch: the callers whose writes share one transaction, one commit and one fsync. Its leader
 * drives it through these states (batch.c, commit.c, outcome.c); everything that controls the way
 * is in this struct.
 *
 *            every session is              conflict or refusal:
 *            verified in the cache         nothing is stored
 *   queue ──▶ OPTIMISTIC ───────────────────────▶ LOCKED ◀──┐ lock not granted: once more with
 *     │      (compare-and-set,                   ▲ │  │ └───┘ the leader's session only, the
 *     │       no lock)                           │ │  │       other members are requeued
 *     ├──────────│───────────────────────────────┘ │  │
 *     │          │ all ran                         │  │ all refused, lock not granted again
 *     │          ▼            all ran              │  ▼
 *     │        COMMIT ◀────────────────────────────┘ OUTCOME ──▶ acknowledged | refused | UNKNOWN
 *     │          ▲ └───────────────────────────────▶    ▲  └───▶ retried alone: an EXCLUSIVE batch
 *     │          │ all ran                              │        of one member; after a lost
 *     └──▶ EXCLUSIVE ───────────────────────────────────┘        connection a LOCKED one
 *         (nobody else writes)   all refused, or a change failed
 *
 * One arrow is left out: an OPTIMISTIC batch whose COMMIT reports a conflict goes on in LOCKED.
 * SQLite uses EXCLUSIVE only. PostgreSQL uses LOCKED and OPTIMISTIC for writes that name their
 * sessions, so that other processes write to other sessions meanwhile. LOCKED takes its locks in
 * one order, which is the same for every process (decision 51):
 *
 *   1. session rows             in the order of keys
 *   2. counters of shards       in the order of shards; a counter stands for
 *                                 the numbers of sessions that are created in the shard,
 *                                 the state of its apps and users,
 *                                 the families whose root lies in it (fork, delete, cap, index)
 *   3. rows that 1 or 2 cover, and keys of new sessions in their order
 *   4. the feed's counter       behind all work, shortly before the COMMIT
 *
 * A write that names several sessions, or sessions by number, shares its batch with nobody. */
#ifndef QP_STORE_BATCH_H
#define QP_STORE_BATCH_H

#include "store/queue.h"

typedef enum qp_batch_state {
    QP_BATCH_NONE = 0,
    QP_BATCH_OPTIMISTIC, /* a transaction is open, cached rows are pinned, nothing is locked */
    QP_BATCH_LOCKED,     /* a transaction is open that locks its session rows */
    QP_BATCH_EXCLUSIVE,  /* a transaction is open that keeps every other writer out */
    QP_BATCH_COMMIT,     /* all members ran, one at least with success, and all rows are written */
    QP_BATCH_OUTCOME     /* no transaction is open */
} qp_batch_state;

/* The members that are retried alone after the batch. */
typedef enum qp_batch_retries {
    QP_RETRY_NONE = 0,
    QP_RETRY_FAILED, /* members whose failed commit may be repeated */
    QP_RETRY_ALL     /* every member: one of them, or a deferred write, failed after a change */
} qp_batch_retries;

struct qp_group;

typedef struct qp_batch {
    struct qp_group *group;
    qp_batch_state state;
    qp_write *own; /* the leader's; the other members follow by `next` */
    size_t count;
    bool any;                 /* a member ran with success: there is something to commit */
    bool optimistic;          /* this try is or was OPTIMISTIC */
    bool is_retry;            /* one member, run alone after its batch failed... */
    bool beside;              /* ...beside other writers where it can */
    qp_batch_retries retries; /* OUTCOME: who runs again */
    int64_t wait_ns;          /* for more members at most: half of the commit that they save */
    qp_write *members[QUIPU_GROUP_MAX]; /* not EXCLUSIVE: by session, then by arrival */
    quipu_str keys[QUIPU_GROUP_MAX];    /* their sessions, each once, in order */
    size_t key_count;
} qp_batch;

/* Runs the leader's write and those that it takes along, until every one of them has its status. */
void qp_batch_lead(struct qp_group *group, qp_write *own);

/* Runs one member in a transaction of its own, once; `beside`: other writers are admitted, where
 * the member names its sessions. False: a deferred write failed, and the status says nothing. */
bool qp_batch_retry(struct qp_group *group, qp_write *write, bool beside);

/* Moves to another state; asserts that the diagram has this arrow. */
void qp_batch_move(qp_batch *batch, qp_batch_state to);

/* commit.c: COMMIT → OUTCOME, or → LOCKED when an optimistic batch met a conflict. */
void qp_batch_commit(qp_batch *batch);

/* outcome.c: gives every member its last answer, retrying alone those that may be. */
void qp_batch_outcome(qp_batch *batch);

/* Begins a transaction with the leader's deadline. */
QUIPU_MUST_USE quipu_status qp_batch_begin(qp_batch *batch, ent_tx_kind kind);

/* Rolls the open transaction back and forgets what the session cache pinned for it. */
void qp_batch_rollback(qp_batch *batch);

/* An optimistic batch stored nothing: begins again for LOCKED, or ends in OUTCOME. */
void qp_batch_fall_back(qp_batch *batch);

/* Clears what a try reported that does not count. */
void qp_write_clear_error(const qp_write *write);

#endif
