/* A batch: the callers whose writes share one transaction, one commit and one fsync. Its leader
 * drives it through these states (batch.c, commit.c, outcome.c); everything that controls the way
 * is in this struct.
 *
 *              ┌─ 1 ──▶ OPTIMISTIC ─── 5 ───┐
 *              │   (compare-and-set, │ 6    │
 *              │    no lock)         ▼      ▼
 *     NONE ────┼─ 2 ─────────────▶ LOCKED ─ 8 ─▶ COMMIT ── 12 ──▶ OUTCOME ──▶ acknowledged
 *   (queue) │  │                  ▲ │  ▲         ▲   │             ▲   │        refused
 *           │  │                  └9┘  └─── 13 ──│───┘             │   │        UNKNOWN
 *           │  └─ 3 ──▶ EXCLUSIVE ───────── 10 ──┘                 │   └──────▶ retried alone
 *           │      (nobody else writes)                            │
 *           └─ 4 ── from OPTIMISTIC: 7, LOCKED and EXCLUSIVE: 11 ──┘
 *
 *    1  the leader's write may be shared (call.h), every session of the batch is verified in the
 *       cache, and no member locks more than its session
 *    2  it may be shared, but not all of that holds
 *    3  it may not, or the engine locks no rows (SQLite)
 *    4  no transaction began
 *    5  every member ran with success, and every row is written
 *    6  a member was refused or failed, or a row was not as in the cache: nothing is stored, and a
 *       transaction began for LOCKED
 *    7  the same, but none began: the leader is answered, the other members are requeued
 *    8  every member ran or was refused, one at least with success, and every row is written
 *    9  a lock was not granted in time: once more with the leader's session only, the other members
 *       are requeued
 *   10  as 8
 *   11  a lock was not granted again, to a leader that was cancelled, or over a lost connection;
 *       every member was refused; a member failed after a change; a deferred write failed (rows of
 *       sessions, the feed)
 *   12  the transaction was committed, its outcome is unknown, or the engine refused the COMMIT
 *   13  the COMMIT of an OPTIMISTIC batch met a conflict: as 6
 *
 * A retry is a batch of one member: EXCLUSIVE; LOCKED after a lost connection. PostgreSQL uses
 * OPTIMISTIC and LOCKED for writes that name what they touch, so that other processes write to
 * other sessions meanwhile. LOCKED takes its locks in one order, which is the same for every
 * process (decision 51):
 *
 *   1. session rows             in the order of keys
 *   2. counters of shards       in the order of shards; a counter stands for
 *                                 the numbers of sessions that are created in the shard,
 *                                 the state of its apps and users,
 *                                 the families whose root lies in it (fork, delete, cap, index)
 *   3. rows that 1 or 2 cover, and keys of new sessions in their order
 *   4. the feed's counter       behind all work, shortly before the COMMIT */
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
    bool optimistic;          /* this try is or was OPTIMISTIC: a failed COMMIT falls back */
    bool is_retry;            /* one member, run alone after its batch failed */
    bool shared;              /* OPTIMISTIC or LOCKED where the table in call.h allows it */
    qp_batch_retries retries; /* OUTCOME: who runs again */
    int64_t wait_ns;          /* for more members at most: half of the commit that they save */
    qp_write *members[QUIPU_GROUP_MAX]; /* not EXCLUSIVE: by session, then by arrival */
    quipu_str keys[QUIPU_GROUP_MAX];    /* their sessions, each once, in order */
    size_t key_count;
} qp_batch;

/* Runs the leader's write and those that it takes along, until every one of them has its status. */
void qp_batch_lead(struct qp_group *group, qp_write *own);

/* Runs one member in a transaction of its own, once; `shared`: in LOCKED where it names what it
 * touches, otherwise in EXCLUSIVE. False: a deferred write failed, and the status says nothing. */
bool qp_batch_retry(struct qp_group *group, qp_write *write, bool shared);

/* Moves to another state; asserts that the diagram has this arrow, and what holds behind it. */
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
