/* Jobs: work that is done in the background, and that several processes may do.
 *
 *              make_due                 claim_next (fence + 1)
 *   IDLE ────────────────▶ DUE ──────────────────────────────▶ LEASED ──┐ renew, commit of a part
 *    ▲  next_at absent      ▲ next_at                            │ │ ▲──┘
 *    │                      │           fail (backoff), release, │ │
 *    │                      └──── or the lease has ended ────────┘ │
 *    └──────────────────────────── commit of the rest ─────────────┘
 *
 * One row a kind and scope, with the range of messages that is to do. A row is never deleted while
 * its scope lives, so that its fence only rises. A claim draws an owner that nobody had before:
 * fence and owner together name one claim for ever, also when the row was deleted with its session
 * and made again.
 *
 * Whether a lease has ended is a matter of clocks, which may be wrong; who may commit is not. A
 * worker whose lease was taken over meets another fence when it commits, and its transaction fails.
 * Two workers may so do the same work, and only one of them stores it.
 *
 * Owns: entity Job. Called by memory_scope.c, memory_reflect.c and purge.c; session_delete.c and
 * erase.c remove a scope's rows.
 * Transactions: every function but qp_job_is_due() and qp_job_count_kind(), which only read,
 * expects an open one, and leaves the commit to its caller: what a worker stores is in the same
 * transaction as qp_job_commit(). */
#ifndef QP_STORE_JOB_H
#define QP_STORE_JOB_H

#include "store/store.h"

#define QP_JOB_LEASE_MS_MAX INT64_C(600000)   /* 10 minutes */
#define QP_JOB_BACKOFF_MS INT64_C(1000)       /* after the first failure; then twice as long */
#define QP_JOB_BACKOFF_MS_MAX INT64_C(600000) /* as long as a lease: see job_is_due() */
#define QP_JOB_OWNER_MAX 200                  /* bytes of a worker's name */
#define QP_JOB_ERROR_MAX 500                  /* bytes of a failure that are kept */

/* The kinds of jobs. */
#define QP_JOB_OBSERVE QUIPU_STR("observe") /* scope: a session; messages behind its watermark */
#define QP_JOB_REFLECT QUIPU_STR("reflect") /* scope: a session; what is known of it */
#define QP_JOB_PURGE QUIPU_STR("purge")     /* scope: a session's number; messages to remove */

/* One claim. Texts lie in the arena that the claim was given. */
typedef struct qp_job_lease {
    quipu_str kind;
    quipu_str scope;
    quipu_str owner;
    int64_t fence;
    int64_t first_seq; /* to do... */
    int64_t last_seq;  /* ...when it was claimed */
} qp_job_lease;

/* The range of messages to work on. */
typedef struct qp_job_due {
    quipu_str kind;
    quipu_str scope;
    int64_t first_seq;
    int64_t last_seq;
} qp_job_due;

/* Make a range due. A job that is idle becomes due now; one that is due or leased is extended and
 * keeps its time. A range that it has already changes nothing. */
QUIPU_MUST_USE quipu_status qp_job_make_due(const quipu_store *store, ent_db *db,
                                            quipu_arena *scratch, const qp_job_due *due,
                                            quipu_error *reterr);

/* Whether its numbers and its lease are possible. */
bool qp_job_is_sound(const qp_job *row);

/* Whether some job of a kind is due: a worker that finds none need not lock anything. */
QUIPU_MUST_USE quipu_status qp_job_is_due(const quipu_store *store, ent_db *db, quipu_arena *arena,
                                          quipu_str kind, bool *ret_due, quipu_error *reterr);

/* How many jobs of a kind are not idle. */
typedef struct qp_job_counts {
    int64_t pending; /* all of them */
    int64_t leased;  /* a worker is at them */
    int64_t failed;  /* their last try failed */
} qp_job_counts;

/* Adds the jobs of a kind to *counts. Reads what is to do, by an index, and no idle job. */
QUIPU_MUST_USE quipu_status qp_job_count_kind(const quipu_store *store, ent_db *db, quipu_str kind,
                                              qp_job_counts *counts, quipu_error *reterr);

/* What a worker asks for. */
typedef struct qp_job_claim {
    quipu_str kind;
    quipu_str scope;  /* absent: the job that waits longest */
    quipu_str owner;  /* names the worker for people: 1 to QP_JOB_OWNER_MAX bytes */
    int64_t lease_ms; /* 1 to QP_JOB_LEASE_MS_MAX */
} qp_job_claim;

/* Claim a job that is due; *ret_found false: none is. */
QUIPU_MUST_USE quipu_status qp_job_claim_next(const quipu_store *store, ent_db *db,
                                              quipu_arena *arena, const qp_job_claim *claim,
                                              qp_job_lease *ret_lease, bool *ret_found,
                                              quipu_error *reterr);

/* The functions below return QUIPU_CONFLICT, and change nothing, unless `lease` is the row's
 * newest claim. */

/* The range as it is now: it may have been extended since it was claimed. */
QUIPU_MUST_USE quipu_status qp_job_range(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                         const qp_job_lease *lease, int64_t *ret_first_seq,
                                         int64_t *ret_last_seq, quipu_error *reterr);

/* Let the lease end so much later than now. */
QUIPU_MUST_USE quipu_status qp_job_renew(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                         const qp_job_lease *lease, int64_t lease_ms,
                                         quipu_error *reterr);

/* The work up to `done_seq` is done. The job is idle when nothing is left; otherwise the worker
 * keeps its lease. `ret_more` may be NULL. */
QUIPU_MUST_USE quipu_status qp_job_commit(const quipu_store *store, ent_db *db,
                                          quipu_arena *scratch, const qp_job_lease *lease,
                                          int64_t done_seq, bool *ret_more, quipu_error *reterr);

/* Everything that was to do is done, whatever the range says: the job is idle. */
QUIPU_MUST_USE quipu_status qp_job_finish(const quipu_store *store, ent_db *db,
                                          quipu_arena *scratch, const qp_job_lease *lease,
                                          quipu_error *reterr);

/* Give the lease back without progress: the job is due at once. */
QUIPU_MUST_USE quipu_status qp_job_release(const quipu_store *store, ent_db *db,
                                           quipu_arena *scratch, const qp_job_lease *lease,
                                           quipu_error *reterr);

/* Give it back with the reason why the work failed; the job is due after QP_JOB_BACKOFF_MS, twice
 * as long after every further try. */
QUIPU_MUST_USE quipu_status qp_job_fail(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                        const qp_job_lease *lease, quipu_str why,
                                        quipu_error *reterr);

/* The work is done and comes never again: the job is deleted. The caller holds the lease. */
QUIPU_MUST_USE quipu_status qp_job_end(const quipu_store *store, ent_db *db,
                                       const qp_job_lease *lease, quipu_error *reterr);

/* Take the leases of a key's observing and reflecting away: their workers cannot commit, and the
 * jobs are due at once. For what workers have read and must not store. */
QUIPU_MUST_USE quipu_status qp_job_revoke(const quipu_store *store, ent_db *db,
                                          quipu_arena *scratch, quipu_str scope,
                                          quipu_error *reterr);

/* Delete every job of a key, leased ones too: their workers cannot commit. The scope of a purge is
 * no key, and may look like one. */
QUIPU_MUST_USE quipu_status qp_job_remove(const quipu_store *store, ent_db *db, quipu_str scope,
                                          quipu_error *reterr);

#endif
