/* The commit group: callers that wait together share one transaction, one commit and one fsync.
 * The first of them leads: it takes the file's write lock, runs everybody's work, commits once and
 * wakes everybody; then it hands the lead to the next one in the queue. Where the engine can lock
 * rows, works that each concern one session need not keep other processes out: they lock their
 * sessions, all of them and in order, and only then work. */
#ifndef QP_STORE_GROUP_H
#define QP_STORE_GROUP_H

#include <ent/ent.h>

#include "base/thread.h"
#include "store/call.h"
#include "store/change_signal.h"

/* A caller's work inside the transaction. Decides not-found, expired, conflict and duplicate by
 * reads before its first write. May run twice: it sets its outputs anew each time. `scratch` is
 * empty and lives until it returns. */
typedef quipu_status (*qp_work_fn)(void *ctx, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr);

/* What works of one kind leave undone for the next of that kind in the same transaction; those that
 * say so in their call (`carries`) do. */
typedef struct qp_carry {
    void *ctx;
    /* Whether the work with this context goes on from there. */
    bool (*goes_on)(const void *ctx, const void *work_ctx);
    /* Do what is left. Called before any other work and before the commit. */
    quipu_status (*settle)(void *ctx, ent_db *db, quipu_error *reterr);
    /* The transaction is gone, and what was left with it. */
    void (*forget)(void *ctx);
    /* It is stored. */
    void (*stored)(void *ctx);
    /* Before any work of a transaction that writes beside others: whether these sessions are known
     * so well that they need not be locked. Should it turn out otherwise, a work or the commit
     * fails, and nothing is stored. */
    bool (*believe)(void *ctx, const quipu_str *keys, size_t n);
    /* The same where they are not: lock these sessions, in the order given, which is the same for
     * everybody. */
    quipu_status (*lock)(void *ctx, ent_db *db, const quipu_str *keys, size_t n,
                         quipu_error *reterr);
} qp_carry;

/* What a group did since it began. */
typedef struct qp_group_counts {
    int64_t commits;
    int64_t writes;  /* callers whose work they held */
    int64_t largest; /* callers in one commit */
} qp_group_counts;

typedef struct qp_group {
    qp_mutex mutex;
    bool leading;
    struct qp_write *head; /* the queue, oldest first */
    struct qp_write *tail;
    qp_cond arrival;               /* somebody joined while the leader waits for company */
    bool inviting;                 /* it does */
    size_t company;                /* callers that a commit may expect, from those before it */
    int64_t commit_ns;             /* what a commit costs, about */
    const qp_connector *connector; /* NULL: never set up */
    ent_db *db;                    /* the leader's; opened by the first */
    quipu_arena scratch;           /* the leader's */
    qp_change_signal *pulse;       /* beats with every commit, or NULL */
    qp_carry carry;
    qp_group_counts counts;
} qp_group;

QUIPU_MUST_USE quipu_status qp_group_init(qp_group *group, const qp_connector *connector,
                                          quipu_error *reterr);

/* When nobody is inside: closes the connection. */
void qp_group_done(qp_group *group);

/* Run `work` in a transaction and return when it is durable, or when nothing was written.
 * QUIPU_BUSY and QUIPU_CANCELLED: it was not begun. QUIPU_UNKNOWN: the commit itself failed. */
QUIPU_MUST_USE quipu_status qp_group_write(qp_group *group, const qp_call *call, qp_work_fn work,
                                           void *ctx, quipu_error *reterr);

/* The same for work that changes nothing, where there is one connection for everybody. */
QUIPU_MUST_USE quipu_status qp_group_read(qp_group *group, const qp_call *call, qp_work_fn work,
                                          void *ctx, quipu_error *reterr);

/* Run `work` once, outside of a transaction, while nobody else has the connection. The call's
 * deadline holds for all of it; a transaction that it leaves open is rolled back. */
QUIPU_MUST_USE quipu_status qp_group_alone(qp_group *group, const qp_call *call, qp_work_fn work,
                                           void *ctx, quipu_error *reterr);

qp_group_counts qp_group_counted(qp_group *group);

#endif
