/* A worker that stays: pass after pass, and the thread that does so beside a program.
 *
 *   quipu_memory_start() ──▶ thread: ┌▶ quipu_memory_run(FOLLOW) ──failed──▶ pause ─┐
 *                                    │     └ pass ─▶ wait ─▶ pass ─▶ wait ...       │
 *                                    └──────────────────────────────────────────────┘
 *   quipu_memory_stop(), quipu_close(): set the flag, wake, join
 *
 * Owns: when a worker looks again, and what the background thread keeps. Called by
 * quipu_memory_run(), which has entered the store, and by the public calls below. No lock is held
 * during a pass; a waiting worker holds nothing of the store, neither a connection nor a lock.
 * On return of a stop: every lease of the worker is given back, or taken over by another one. */
#include "memory/follow.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/thread.h"
#include "memory/worker.h"
#include "store/state.h"

#define FOLLOW_LOOK_MS 1000        /* how often it looks for changes */
#define FOLLOW_PASS_MS 30000       /* how long one pass may take... */
#define FOLLOW_PASS_MODEL 1800000  /* ...and one that asks a model */
#define FOLLOW_SLACK_S 600         /* by how much clocks of writers may differ... */
#define FOLLOW_FULL_EVERY_S 600    /* ...and how often all sessions are looked at again */
#define FOLLOW_FAILED_MS_MAX 60000 /* the longest pause after a failure */

/* ---- pass after pass --------------------------------------------------------------------------
 */

/* Adds what a pass did to the sums. */
static void follow_add(quipu_memory_ran *sum, const quipu_memory_ran *ran)
{
    sum->more = ran->more;
    sum->sessions += ran->sessions;
    sum->messages += ran->messages;
    sum->observations += ran->observations;
    sum->repeats += ran->repeats;
    sum->lost += ran->lost;
    sum->failed += ran->failed;
    sum->reflections += ran->reflections;
    sum->condensed += ran->condensed;
    sum->model_calls += ran->model_calls;
    sum->embedded += ran->embedded;
}

/* One pass within a deadline of its own: another process that holds the store must not hold up the
 * worker for ever. */
static quipu_status follow_pass(qp_worker *worker, const qp_call *whole, quipu_error *reterr)
{
    const int64_t ms = qp_worker_asks(&worker->options) ? FOLLOW_PASS_MODEL : FOLLOW_PASS_MS;
    const int64_t end_ns = qp_clock_ns() + ms * QP_NS_PER_MS;
    qp_call pass = *whole;
    quipu_status status;

    pass.deadline_ns = end_ns < whole->deadline_ns ? end_ns : whole->deadline_ns;
    worker->within = &pass;
    worker->ran = (quipu_memory_ran)QUIPU_MEMORY_RAN_INIT;
    status = qp_worker_pass(worker, reterr);
    worker->within = whole;
    return status;
}

/* Reports a pass to the caller. */
static void follow_report(const qp_worker *worker, quipu_status status, const quipu_error *error)
{
    if (worker->options.on_pass != NULL && (status != QUIPU_OK || qp_worker_did(&worker->ran))) {
        worker->options.on_pass(worker->options.pass_ctx, &worker->ran,
                                status != QUIPU_OK ? error : NULL);
    }
}

/* Most passes look only at sessions that have changed since the one before, by the writers' clocks;
 * every FOLLOW_FULL_EVERY_S one looks at all, so that a wrong clock delays a session and does not
 * lose it. */
quipu_status qp_worker_follow(qp_worker *worker, quipu_error *reterr)
{
    const qp_call *whole = worker->within;
    qp_background *background = &worker->store->background;
    const quipu_time given = worker->options.changed_after;
    quipu_memory_ran sum = QUIPU_MEMORY_RAN_INIT;
    quipu_status status = QUIPU_OK;
    int64_t full_ns = qp_clock_ns();

    while (status == QUIPU_OK && qp_call_check(whole, NULL) == QUIPU_OK) {
        const uint64_t seen = qp_background_count(background);
        const quipu_time begun = quipu_time_now();
        quipu_error error = {0};

        if (qp_clock_ns() >= full_ns) {
            worker->options.changed_after = given;
            full_ns = qp_clock_ns() + FOLLOW_FULL_EVERY_S * QP_NS_PER_S;
        }
        status = follow_pass(worker, whole, &error);
        follow_add(&sum, &worker->ran);
        if (status == QUIPU_OK && !worker->ran.more && begun.s - FOLLOW_SLACK_S > given.s) {
            worker->options.changed_after = (quipu_time){begun.s - FOLLOW_SLACK_S, 0};
        }
        /* The end of the run is not an error, and the next pass tries a store again that another
         * process holds. */
        if (status == QUIPU_BUSY || qp_call_check(whole, NULL) != QUIPU_OK) {
            status = QUIPU_OK;
        }
        follow_report(worker, status, &error);
        if (status != QUIPU_OK) {
            (void)qp_error_pass(reterr, &error);
        } else if (!worker->ran.more) {
            const int64_t look_ns = qp_clock_ns() + FOLLOW_LOOK_MS * QP_NS_PER_MS;

            qp_background_wait(background, seen,
                               look_ns < whole->deadline_ns ? look_ns : whole->deadline_ns,
                               whole->cancel);
        }
    }
    worker->ran = sum;
    return status;
}

/* ---- the thread -------------------------------------------------------------------------------
 */

/* The thread's own state: no other thread uses it until the thread is joined. */
typedef struct follow_worker {
    quipu_store *store;
    quipu_arena texts;
    quipu_memory_options options; /* complete; texts are copies */
    quipu_memory_pass_fn on_pass; /* the caller's */
    void *pass_ctx;
    quipu_memory_ran sum;
} follow_worker;

/* After the thread has ended, or before it began. */
static void follow_free(void *ctx)
{
    follow_worker *worker = ctx;

    quipu_arena_free(&worker->texts);
    qp_free(worker);
}

/* The on_pass of the thread's runs. */
static void follow_count(void *ctx, const quipu_memory_ran *ran, const quipu_error *error)
{
    follow_worker *worker = ctx;

    follow_add(&worker->sum, ran);
    if (worker->on_pass != NULL) {
        worker->on_pass(worker->pass_ctx, ran, error);
    }
}

/* A run ends when the flag is set, or by a failure: that may pass. */
static void follow_thread(void *ctx, quipu_cancel *cancel)
{
    follow_worker *worker = ctx;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    int64_t pause_ms = 0;

    call.deadline_ms = -1;
    call.cancel = cancel;
    while (!qp_cancel_is_set(cancel)) {
        const int64_t before = worker->sum.sessions;
        const uint64_t seen = qp_background_count(&worker->store->background);
        quipu_error error = {0};
        quipu_status status =
            quipu_memory_run(worker->store, &worker->options, &call, NULL, &error);

        if (status != QUIPU_OK && !qp_cancel_is_set(cancel)) {
            /* Without the message: it may name the session, or quote the model's server. */
            QP_LOG(&worker->store->log, QUIPU_LOG_WARN, "memory", "worker_failed",
                   QP_LOG_STATUS(status), QP_LOG_NUMBER("engine_code", error.engine_code));
            pause_ms = pause_ms == 0 || worker->sum.sessions > before ? FOLLOW_LOOK_MS
                       : pause_ms < FOLLOW_FAILED_MS_MAX / 2          ? 2 * pause_ms
                                                                      : FOLLOW_FAILED_MS_MAX;
            qp_background_wait(&worker->store->background, seen,
                               qp_clock_ns() + pause_ms * QP_NS_PER_MS, cancel);
        }
    }
}

/* Copies the options' texts, which the caller may free after the start. */
static quipu_status follow_copy(follow_worker *worker, const quipu_memory_options *options,
                                quipu_error *reterr)
{
    quipu_str *const texts[] = {&worker->options.session_key,    &worker->options.app_name,
                                &worker->options.user_id,        &worker->options.worker,
                                &worker->options.model,          &worker->options.embed_model,
                                &worker->options.observe_prompt, &worker->options.reflect_prompt};
    quipu_status status = QUIPU_OK;

    worker->options = *options;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && status == QUIPU_OK; i++) {
        status = quipu_arena_copy(&worker->texts, *texts[i], texts[i]);
    }
    worker->on_pass = options->on_pass;
    worker->pass_ctx = options->pass_ctx;
    worker->options.flags |= QUIPU_MEMORY_RUN_FOLLOW;
    worker->options.on_pass = follow_count;
    worker->options.pass_ctx = worker;
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, QUIPU_NOMEM, "no memory for a worker");
}

quipu_status qp_memory_check_local(quipu_store *store, const char *name, quipu_error *reterr)
{
    return qp_store_check_here(store, name, reterr);
}

/* A worker reads every message and asks its model between two transactions: over an address each of
 * its steps would be a request, and its lease would end with the connection. */
quipu_status qp_memory_check_worker(const quipu_store *store, const char *name, quipu_error *reterr)
{
    return qp_store_is_remote(store)
               ? qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "%s works beside the data: a store behind a server is observed on "
                              "the server's machine, by \"quipu memory run --follow\" on its file "
                              "or database",
                              name)
               : QUIPU_OK;
}

bool qp_memory_is_remote(const quipu_store *store)
{
    return qp_store_is_remote(store);
}

/* The room agent knows no store: it asks here. */
quipu_status qp_memory_context_ask(quipu_store *store, const quipu_context_options *options,
                                   const quipu_call_options *call, quipu_arena *arena,
                                   quipu_context *ret_context, quipu_error *reterr)
{
    const qp_remote *remote = &store->remote;
    qp_call within;
    quipu_status status = qp_store_enter_as("quipu_context_make", store, call, &within, reterr);

    assert(options->sections == NULL && qp_store_is_remote(store));
    if (status == QUIPU_OK) {
        status = remote->context(remote->ctx, &within, options, arena, ret_context, reterr);
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "make a prompt of", options->key, reterr);
}

/* See <quipu/memory.h>. Options are checked before the thread starts, so that the caller learns of
 * a mistake here; texts are copied, because the caller's may be gone. */
quipu_status quipu_memory_start(quipu_store *store, const quipu_memory_options *options,
                                quipu_error *reterr)
{
    quipu_memory_options given;
    follow_worker *worker = NULL;
    qp_call within;
    quipu_status status = qp_store_enter(store, NULL, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_memory_check_worker(store, "quipu_memory_start", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_worker_options(store, options, &given, reterr);
    }
    if (status == QUIPU_OK) {
        worker = qp_calloc(1, sizeof(*worker));
        status =
            worker != NULL ? QUIPU_OK : qp_error_set(reterr, QUIPU_NOMEM, "no memory for a worker");
    }
    if (worker != NULL && status == QUIPU_OK) {
        worker->store = store;
        worker->sum = (quipu_memory_ran)QUIPU_MEMORY_RAN_INIT;
        status = follow_copy(worker, &given, reterr);
    }
    if (worker != NULL && status == QUIPU_OK) {
        const qp_background_work work = {.ctx = worker, .run = follow_thread, .free = follow_free};

        status = qp_background_start(&store->background, work, reterr);
    }
    if (worker != NULL && status != QUIPU_OK) {
        follow_free(worker);
    }
    qp_store_leave(&within);
    return status;
}

/* See <quipu/memory.h>. Returns once the thread has ended: what it counted is whole then. */
quipu_status quipu_memory_stop(quipu_store *store, quipu_memory_ran *ret_ran, quipu_error *reterr)
{
    quipu_memory_ran sum = QUIPU_MEMORY_RAN_INIT;
    qp_call within;
    quipu_status status = qp_store_enter(store, NULL, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_memory_check_worker(store, "quipu_memory_stop", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_ran, "quipu_memory_ran", reterr);
    }
    if (status == QUIPU_OK) {
        const qp_background_work work = qp_background_stop(&store->background);

        if (work.run != NULL) {
            assert(work.run == follow_thread);
            sum = ((const follow_worker *)work.ctx)->sum;
            work.free(work.ctx);
        }
        qp_output_put(ret_ran, &sum, sizeof(sum));
    }
    qp_store_leave(&within);
    return status;
}

/* For quipu_turn(), which has just appended: the worker looks now instead of later. */
void qp_memory_wake(quipu_store *store)
{
    qp_background_wake(&store->background);
}
