/* The worker of purges; the head of purge.h has the picture.
 *
 * Owns: the loop over jobs of the kind QP_JOB_PURGE, and `purge_due` of a store.
 * Called by: fork_release.c (makes jobs), the calls that remove messages, sweep, erase.
 * Transactions: each claim and step is one of the commit group, without the size cap. Where the
 * engine locks rows, they are shared with other writers: a claim compares the job's fence, and a
 * step locks the family of its session.
 * On return no lease is held, unless the process was killed. */
#include "store/purge.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/thread.h"
#include "ent/db.h"
#include "store/fork_release.h"
#include "store/size.h"

#define PURGE_LEASE_MS 5000 /* renewed with every step, which takes a fraction of a second */
/* Between two steps that keep everybody else out: a writer of another process looks for the lock
 * again every 1 to 26 ms (OPEN_WAIT_MS_MAX of ent_sqlite), and would rarely meet a shorter gap. */
#define PURGE_PAUSE_MS 25
#define PURGE_SCOPE_SIZE 24
#define PURGE_OWNER QUIPU_STR("purge")

/* The scope of a session's purge, in `text`. */
static quipu_str purge_scope(int64_t session, char text[PURGE_SCOPE_SIZE])
{
    const int n = snprintf(text, PURGE_SCOPE_SIZE, "%" PRId64, session);

    assert(n > 0 && n < PURGE_SCOPE_SIZE);
    return (quipu_str){text, (size_t)n};
}

/* The session of a scope: what purge_scope() writes for it is the scope. */
int64_t qp_purge_session(quipu_str scope)
{
    char text[PURGE_SCOPE_SIZE];
    int64_t session = 0;

    for (size_t i = 0; i < scope.n && session < INT64_MAX / 10; i++) {
        if (scope.p[i] < '0' || scope.p[i] > '9') {
            return 0;
        }
        session = 10 * session + (scope.p[i] - '0');
    }
    return session > 0 && quipu_str_eq(purge_scope(session, text), scope) ? session : 0;
}

/* In the transaction that hid the messages: a crash leaves a job that the next opening finds. */
quipu_status qp_purge_make_due(quipu_store *store, ent_db *db, quipu_arena *scratch,
                               int64_t session, int64_t from, int64_t to, quipu_error *reterr)
{
    char text[PURGE_SCOPE_SIZE];

    assert(from <= to && ent_depth(db) > 0);
    /* Before the commit, so that it is set when the job is there to be found. */
    atomic_store(&store->purge_due, true);
    return qp_job_make_due(store, db, scratch,
                           &(qp_job_due){QP_JOB_PURGE, purge_scope(session, text), from, to},
                           reterr);
}

/* A worker that has the lease meets no job at its next step, and stops without a failure. */
quipu_status qp_purge_forget(const quipu_store *store, ent_db *db, int64_t session,
                             quipu_error *reterr)
{
    char text[PURGE_SCOPE_SIZE];
    const qp_job_where where = {.tenant = ent_eq(store->tenant),
                                .scope = ent_eq(purge_scope(session, text)),
                                .kind = ent_eq(QP_JOB_PURGE)};

    assert(ent_depth(db) > 0);
    return qp_job_delete(db, &where, NULL, reterr);
}

/* Whether messages of a session, or of any (0), wait to be removed. verify asks it before it calls
 * rows unreachable. */
quipu_status qp_purge_exists(ent_db *db, quipu_str tenant, int64_t session, bool *ret_exists,
                             quipu_error *reterr)
{
    qp_job_where where = {.tenant = ent_eq(tenant), .kind = ent_eq(QP_JOB_PURGE)};
    char text[PURGE_SCOPE_SIZE];

    if (session != 0) {
        where.scope = ent_eq(purge_scope(session, text));
    }
    return qp_job_exists(db, &where, ret_exists, reterr);
}

/* ---- one purge --------------------------------------------------------------------------------
 */

/* One worker. Works may run more than once: each sets its outputs anew. */
typedef struct purge_worker {
    quipu_store *store;
    qp_job_lease lease;     /* its texts lie in `arena` */
    quipu_arena arena;      /* emptied by every claim */
    int64_t steps;          /* that it may still do */
    int64_t session;        /* 0: the job's scope names none */
    bool shared;            /* the engine locks rows: others write during a step */
    bool exists;            /* there is a job, perhaps of another worker */
    bool found;             /* a job was claimed */
    bool ended;             /* nothing was left behind the last step */
    bool lost;              /* another worker has taken over */
    int64_t removed;        /* messages, by the last step */
    const quipu_error *why; /* the lease is given back */
} purge_worker;

/* Without a lock: whether there is any job, so that a store without one writes nothing. */
static quipu_status purge_look_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    purge_worker *worker = ctx;

    assert(worker->store != NULL);
    (void)scratch;
    worker->exists = false;
    worker->shared = qp_db_locks_rows(db);
    return qp_purge_exists(db, worker->store->tenant, 0, &worker->exists, reterr);
}

/* A qp_work_fn. The scope's text lies in the worker's arena, and is valid until the next claim. */
static quipu_status purge_claim_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const qp_job_claim any = {QP_JOB_PURGE, QP_STR_ABSENT, PURGE_OWNER, PURGE_LEASE_MS};
    purge_worker *worker = ctx;
    quipu_status status;

    assert(ent_depth(db) > 0 && worker->exists);
    (void)scratch;
    if (worker->arena.head != NULL) {
        quipu_arena_reset(&worker->arena);
    }
    status = qp_job_claim_next(worker->store, db, &worker->arena, &any, &worker->lease,
                               &worker->found, reterr);
    if (status == QUIPU_OK && worker->found) {
        worker->session = qp_purge_session(worker->lease.scope);
    }
    return status;
}

/* Reads the row whose messages are purged; NULL when it is gone. */
static quipu_status purge_row(const purge_worker *worker, ent_db *db, quipu_arena *scratch,
                              const qp_session **ret_row, quipu_error *reterr)
{
    quipu_error error = {0};

    assert(worker->session >= 0);
    *ret_row = NULL;
    if (worker->session == 0) {
        return QUIPU_OK;
    }
    return qp_row_optional(qp_session_get(db, scratch, worker->session, ret_row, &error), &error,
                           reterr);
}

/* The end: nothing of the range is left. */
static quipu_status purge_end(purge_worker *worker, ent_db *db, quipu_arena *scratch,
                              const qp_session *row, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    worker->ended = true;
    if (row != NULL) {
        status = qp_fork_purged(worker->store, db, scratch, row, &worker->ended, reterr);
    }
    return status == QUIPU_OK && worker->ended
               ? qp_job_end(worker->store, db, &worker->lease, reterr)
               : status;
}

/* One step: a batch of messages, and the job's range moves behind them. When nothing is left the
 * purge ends. The range is read anew: a session may have been pruned further meanwhile. */
static quipu_status purge_step_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    purge_worker *worker = ctx;
    quipu_store *store = worker->store;
    const qp_job_lease *lease = &worker->lease;
    const qp_session *row = NULL;
    int64_t first = 0;
    int64_t last = 0;
    int64_t left = 0;
    quipu_status status = qp_job_range(store, db, scratch, lease, &first, &last, reterr);

    assert(ent_depth(db) > 0 && lease->fence > 0);
    worker->ended = false;
    if (status == QUIPU_OK) {
        status = purge_row(worker, db, scratch, &row, reterr);
    }
    if (status == QUIPU_OK && row != NULL && first <= last) {
        status = qp_fork_purge(store, db, scratch, row, (qp_fork_span){first, last}, &left, reterr);
    }
    if (status == QUIPU_OK && left == 0) {
        status = purge_end(worker, db, scratch, row, reterr);
    } else if (status == QUIPU_OK) {
        status = qp_job_commit(store, db, scratch, lease, left - 1, NULL, reterr);
    }
    worker->removed = store->group.removed.messages;
    return status == QUIPU_OK && !worker->ended
               ? qp_job_renew(store, db, scratch, lease, PURGE_LEASE_MS, reterr)
               : status;
}

/* Gives the lease back: with the reason of a failure, or for others to go on at once. */
static quipu_status purge_give_back_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                         quipu_error *reterr)
{
    const purge_worker *worker = ctx;

    assert(worker->found && worker->why != NULL && worker->why->status != QUIPU_OK);
    return worker->why->status == QUIPU_BUSY || worker->why->status == QUIPU_CANCELLED
               ? qp_job_release(worker->store, db, scratch, &worker->lease, reterr)
               : qp_job_fail(worker->store, db, scratch, &worker->lease,
                             quipu_cstr(worker->why->message), reterr);
}

/* Without the call's deadline, which may have passed: one short write. A lease that cannot be given
 * back ends by itself. */
static void purge_give_back(purge_worker *worker, const qp_call *call, const quipu_error *why)
{
    qp_call last = *call;
    quipu_error error = {0};

    assert(worker->found && !worker->ended);
    last.deadline_ns = qp_clock_ns() + PURGE_LEASE_MS * QP_NS_PER_MS;
    last.cancel = NULL;
    last.compares = true;
    worker->why = why;
    if (qp_size_exempt(worker->store, &last, purge_give_back_work, worker, &error) != QUIPU_OK) {
        QP_LOG(&worker->store->log, QUIPU_LOG_WARN, "store", "purge_lease_kept",
               QP_LOG_NUMBER("session", worker->session));
    }
    worker->why = NULL;
}

/* One step, in a transaction of its own. */
static quipu_status purge_step(purge_worker *worker, const qp_call *call, quipu_error *reterr)
{
    qp_call step = *call;
    quipu_status status;

    /* By its number, because a hidden session has no key. */
    step.families = &worker->session;
    step.family_count = worker->session != 0 ? 1 : 0;
    status = qp_size_exempt(worker->store, &step, purge_step_work, worker, reterr);
    worker->ended = worker->ended && status == QUIPU_OK;
    worker->steps--;
    if (status == QUIPU_OK) {
        QP_LOG(&worker->store->log, QUIPU_LOG_DEBUG, "store", "purge_step",
               QP_LOG_NUMBER("messages", worker->removed), QP_LOG_NUMBER("ended", worker->ended));
    }
    return status;
}

/* Step after step, with a pause in which writers get their turn, until the purge has ended or the
 * worker's steps are used up: then other workers do the rest. A lost lease is not an error: another
 * worker continues. */
static quipu_status purge_one(purge_worker *worker, const qp_call *call, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    bool spent = false;

    assert(worker->found);
    worker->ended = false;
    while (status == QUIPU_OK && !worker->ended && !spent) {
        status = purge_step(worker, call, &error);
        if (status != QUIPU_OK || worker->ended) {
            break;
        }
        status = qp_call_check(call, &error);
        spent = worker->steps <= 0;
        if (!worker->shared && !spent) {
            qp_sleep_jitter(PURGE_PAUSE_MS, 1, INT64_MAX);
        }
    }
    worker->lost = status == QUIPU_CONFLICT;
    if (worker->lost || (status == QUIPU_OK && worker->ended)) {
        return QUIPU_OK;
    }
    /* Steps that are used up are not errors: like a deadline they leave the job due at once. */
    error.status = spent && status == QUIPU_OK ? QUIPU_BUSY : status;
    purge_give_back(worker, call, &error);
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* ---- all of them ------------------------------------------------------------------------------
 */

/* The mark is forgotten before the look: a job that is made meanwhile sets it again. It stays for a
 * job that another worker has, which may die. */
quipu_status qp_purge_run(quipu_store *store, const qp_call *call, int64_t steps,
                          quipu_error *reterr)
{
    purge_worker worker = {.store = store, .steps = steps, .arena = QUIPU_ARENA_INIT};
    /* How long and for whom; not what the call's own work touched. */
    const qp_call own = {.name = call->name,
                         .deadline_ns = call->deadline_ns,
                         .cancel = call->cancel,
                         .now = call->now,
                         .store = call->store};
    qp_call claim = own;
    quipu_status status;

    assert(call->store == store && steps > 0);
    claim.compares = true;
    atomic_store(&store->purge_due, false);
    status = qp_store_read(store, &own, purge_look_work, &worker, reterr);
    while (status == QUIPU_OK && worker.exists && !worker.lost && worker.steps > 0) {
        status = qp_size_exempt(store, &claim, purge_claim_work, &worker, reterr);
        if (status == QUIPU_OK && !worker.found) {
            break;
        }
        if (status == QUIPU_OK) {
            status = purge_one(&worker, &own, reterr);
        }
        if (status == QUIPU_OK) {
            status = qp_store_read(store, &own, purge_look_work, &worker, reterr);
        }
    }
    if (status != QUIPU_OK || worker.exists) {
        atomic_store(&store->purge_due, true);
    }
    quipu_arena_free(&worker.arena);
    return status;
}

/* Behind a call that may have made a job: the call has succeeded already, so that a failure here is
 * logged and the job stays. */
void qp_purge_after(quipu_store *store, const qp_call *call, int64_t steps)
{
    quipu_error error = {0};

    assert(call->store == store);
    if (atomic_load(&store->purge_due) && qp_purge_run(store, call, steps, &error) != QUIPU_OK) {
        QP_LOG(&store->log, QUIPU_LOG_WARN, "store", "purge_left",
               QP_LOG_NUMBER("status", error.status));
    }
}
