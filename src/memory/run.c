/* A worker of memory: claims sessions that are due, observes them by rules, and commits.
 *
 *   due jobs of others, then a look over the sessions
 *     └─ claim (transaction) ──▶ read a batch ──▶ rules ──▶ commit (transaction) ─┐ more
 *                                    ▲───────────────────────────────────────────┘
 *
 * Owns: the order of the work, and what is counted. Called by quipu_memory_run(), from any thread
 * or process. No lock is held while messages are read and observed: the lease says that the session
 * is taken, and the commit fails when it was not (store/memory_scope.h).
 * On return: every session that was claimed is committed, given back, or taken over by another
 * worker. */
#include <quipu/memory.h>

#include <assert.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/thread.h"
#include "memory/rules.h"
#include "store/memory_scope.h"

#define RUN_GRACE_MS 1000 /* to give a lease back after the deadline */

/* One run. */
typedef struct run_state {
    quipu_store *store;
    quipu_memory_options options;
    const qp_call *within;
    quipu_arena claim; /* texts of the lease that is held */
    quipu_arena texts; /* what was observed in the batch at hand */
    quipu_memory_ran ran;
    qp_rules_found found;
} run_state;

/* ---- options ----------------------------------------------------------------------------------
 */

/* Bounds of the options; an absent worker gets a name. */
static quipu_status run_check(quipu_memory_options *options, quipu_error *reterr)
{
    if (options->session_key.p != NULL &&
        (options->app_name.p != NULL || options->user_id.p != NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE, "name a session, or an app and a user, not both");
    }
    if (options->user_id.p != NULL && options->app_name.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a user is a user of an app: give app_name, too");
    }
    if (options->observe_tokens < 0 || options->lease_ms < 0 ||
        options->lease_ms > QUIPU_MEMORY_LEASE_MS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a threshold of %lld tokens and a lease of %d ms cannot be; give 0 or "
                            "more, and at most %d ms",
                            (long long)options->observe_tokens, (int)options->lease_ms,
                            QUIPU_MEMORY_LEASE_MS_MAX);
    }
    if (options->worker.n > QUIPU_MEMORY_WORKER_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a worker's name has at most %d bytes, not %zu",
                            QUIPU_MEMORY_WORKER_MAX, options->worker.n);
    }
    if (options->worker.n == 0) {
        options->worker = QUIPU_STR("quipu");
    }
    if (options->lease_ms == 0) {
        options->lease_ms = QUIPU_MEMORY_LEASE_MS;
    }
    return options->session_key.p != NULL ? qp_key_check(options->session_key, reterr) : QUIPU_OK;
}

/* What is left of the call, as options for a public call inside of it. */
static quipu_status run_left(const run_state *run, quipu_call_options *ret, quipu_error *reterr)
{
    quipu_status status = qp_call_check(run->within, reterr);

    *ret = (quipu_call_options)QUIPU_CALL_OPTIONS_INIT;
    ret->cancel = run->within->cancel;
    ret->deadline_ms = -1;
    if (status == QUIPU_OK && run->within->deadline_ns != QP_NEVER) {
        const int64_t left_ms = (run->within->deadline_ns - qp_clock_ns()) / QP_NS_PER_MS;
        ret->deadline_ms = left_ms < 1 ? 1 : left_ms > INT32_MAX ? INT32_MAX : (int32_t)left_ms;
    }
    return status;
}

/* ---- one session ------------------------------------------------------------------------------
 */

/* What was observed in a batch. Grows in the arena; texts that lie in `found` are copied there. */
typedef struct run_items {
    quipu_memory *items;
    size_t count;
    size_t room;
} run_items;

/* Appends what the rules found in one message. */
static quipu_status run_keep(run_state *run, run_items *kept, quipu_error *reterr)
{
    const qp_rules_found *found = &run->found;
    quipu_status status = QUIPU_OK;

    if (kept->count + found->count > kept->room) {
        const size_t room = 2 * kept->room + QP_RULES_FOUND_MAX;
        quipu_memory *items = qp_arena_take(&run->texts, room * sizeof(*items));

        if (items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for what was observed");
        }
        for (size_t i = 0; i < kept->count; i++) {
            items[i] = kept->items[i];
        }
        kept->items = items;
        kept->room = room;
    }
    for (size_t i = 0; i < found->count && status == QUIPU_OK; i++) {
        quipu_memory *item = &kept->items[kept->count];

        assert(kept->count < kept->room);
        *item = found->items[i];
        status = quipu_arena_copy(&run->texts, item->content, &item->content);
        kept->count++;
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "no memory for what was observed");
}

/* Observes the messages of a history, which are behind the watermark. */
static quipu_status run_observe(run_state *run, const quipu_history *history, run_items *ret_kept,
                                quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    *ret_kept = (run_items){NULL, 0, 0};
    for (size_t i = 0; i < history->messages.count && status == QUIPU_OK; i++) {
        qp_rules_observe(quipu_message_at(history->messages, i), &run->found);
        if (run->found.count > 0) {
            status = run_keep(run, ret_kept, reterr);
        }
    }
    return status;
}

/* Where a batch ends: at its last message, or, when nothing is left to read, at what the session
 * has: messages that were pruned or capped meanwhile are gone. */
static qp_memory_batch run_batch(const quipu_history *history, const run_items *kept)
{
    const size_t n = history->messages.count;
    const quipu_message *last = n > 0 ? quipu_message_at(history->messages, n - 1) : NULL;

    return (qp_memory_batch){.items = kept->items,
                             .count = kept->count,
                             .done_seq = last != NULL ? last->seq : history->session->next_seq - 1,
                             .done_tokens =
                                 last != NULL ? last->tokens_total : history->session->token_count};
}

/* One batch: read, observe, commit. *ret_more: the lease is still held, and there is more to do. */
static quipu_status run_one(run_state *run, qp_memory_work *work, bool *ret_more,
                            quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_call_options call;
    qp_memory_stored stored = {.observations = 0};
    run_items kept = {NULL, 0, 0};
    quipu_status status = run_left(run, &call, reterr);

    range.after_seq = work->watermark;
    range.limit = work->limit;
    if (status == QUIPU_OK) {
        status = quipu_session_get(run->store, work->lease.scope, &range, &call, &history, reterr);
    }
    if (status == QUIPU_OK) {
        quipu_arena_reset(&run->texts);
        status = run_observe(run, history, &kept, reterr);
    }
    if (status == QUIPU_OK) {
        const qp_memory_batch batch = run_batch(history, &kept);

        /* Fewer messages than before: the session was deleted and made again. */
        status = batch.done_seq > work->watermark
                     ? qp_memory_commit(run->store, run->within, &run->options, work, &batch,
                                        &stored, reterr)
                     : qp_error_set(reterr, QUIPU_CONFLICT, "the session was deleted meanwhile");
    }
    if (status == QUIPU_OK) {
        run->ran.messages += (int64_t)history->messages.count;
        run->ran.observations += stored.observations;
        run->ran.repeats += stored.repeats;
        *ret_more = stored.more;
    }
    quipu_free(history);
    return status;
}

/* Whether a failure is that of one session, which is tried again later: the others go on. */
static bool run_is_local(quipu_status status)
{
    return status == QUIPU_CORRUPT || status == QUIPU_INVALID || status == QUIPU_LIMIT ||
           status == QUIPU_UNSUPPORTED || status == QUIPU_EXISTS;
}

/* The end of a claim that could not be committed. A session that went away, and a lease that was
 * lost, leave nothing to give back. */
static quipu_status run_fail(run_state *run, const qp_memory_work *work, const quipu_error *error,
                             quipu_error *reterr)
{
    const quipu_status status = error->status;

    assert(status != QUIPU_OK);
    if (status == QUIPU_CONFLICT || status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
        run->ran.lost++;
        return QUIPU_OK;
    }
    if (run_is_local(status)) {
        run->ran.failed++;
        return qp_memory_give_back(run->store, run->within, work, quipu_cstr(error->message),
                                   reterr);
    }
    /* The deadline, a cancelled call, or a store that does not answer: others may go on at once. If
     * this fails as well, the lease ends by itself. */
    qp_call grace = *run->within;

    grace.deadline_ns = qp_clock_ns() + RUN_GRACE_MS * QP_NS_PER_MS;
    grace.cancel = NULL;
    if (qp_memory_give_back(run->store, &grace, work, (quipu_str){NULL, 0}, NULL) != QUIPU_OK) {
        QP_LOG(&run->store->log, QUIPU_LOG_WARN, "memory", "lease_left",
               QP_LOG_NUMBER("fence", work->lease.fence));
    }
    return qp_error_pass(reterr, error);
}

/* All batches of a claimed session. */
static quipu_status run_session(run_state *run, qp_memory_work *work, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    bool more = true;

    run->ran.sessions++;
    while (status == QUIPU_OK && more) {
        status = run_one(run, work, &more, &error);
    }
    return status == QUIPU_OK ? QUIPU_OK : run_fail(run, work, &error, reterr);
}

/* Claims and observes: the session of `key`, or, when that is absent, every job that is due. */
static quipu_status run_claims(run_state *run, quipu_str key, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_memory_claimed claimed = QP_MEMORY_MOOT;

    while (status == QUIPU_OK && claimed != QP_MEMORY_NONE) {
        qp_memory_work work = {.claimed = QP_MEMORY_NONE};

        status = qp_call_check(run->within, reterr);
        if (status == QUIPU_OK) {
            status = qp_memory_claim(run->store, run->within, &run->options, key, &run->claim,
                                     &work, reterr);
        }
        claimed = work.claimed;
        if (status == QUIPU_OK && claimed == QP_MEMORY_CLAIMED) {
            status = run_session(run, &work, reterr);
        }
        if (key.p != NULL) {
            break; /* what was appended meanwhile is for the next run */
        }
    }
    return status;
}

/* ---- the run ----------------------------------------------------------------------------------
 */

/* Looks at all sessions that the options name, page by page. */
static quipu_status run_look(run_state *run, quipu_error *reterr)
{
    qp_memory_filter filter = {.options = &run->options};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_memory_due due = {.count = 0, .end = false};
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && !due.end) {
        quipu_arena_reset(&arena);
        status = qp_memory_look(run->store, run->within, &filter, &arena, &due, reterr);
        for (size_t i = 0; i < due.count && status == QUIPU_OK; i++) {
            status = run_claims(run, due.keys[i], reterr);
        }
        if (status == QUIPU_OK && !due.end) {
            status = qp_call_check(run->within, reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* The session that the options name must be there: a mistyped key is an error. */
static quipu_status run_named(run_state *run, quipu_error *reterr)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_call_options call;
    quipu_status status = run_left(run, &call, reterr);

    header.flags = QUIPU_RANGE_HEADER;
    if (status == QUIPU_OK) {
        status = quipu_session_get(run->store, run->options.session_key, &header, &call, &history,
                                   reterr);
    }
    quipu_free(history);
    return status == QUIPU_OK ? run_claims(run, run->options.session_key, reterr) : status;
}

/* Due jobs first: they are found by an index, and somebody waits for them. A filter leaves them to
 * the look, which finds them again by their watermarks. */
static quipu_status run_all(run_state *run, quipu_error *reterr)
{
    const quipu_memory_options *options = &run->options;
    quipu_status status = QUIPU_OK;

    if (options->session_key.p != NULL) {
        return run_named(run, reterr);
    }
    if (options->app_name.p == NULL) {
        status = run_claims(run, (quipu_str){NULL, 0}, reterr);
    }
    return status == QUIPU_OK ? run_look(run, reterr) : status;
}

/* Options and output are checked before anything is claimed. */
static quipu_status run_enter(run_state *run, const quipu_memory_options *options,
                              quipu_memory_ran *ret_ran, quipu_error *reterr)
{
    quipu_status status = qp_options_read(&run->options, sizeof(run->options), options,
                                          "quipu_memory_options", reterr);

    if (status == QUIPU_OK) {
        status = qp_output_check(ret_ran, "quipu_memory_ran", reterr);
    }
    if (status == QUIPU_OK) {
        status = run_check(&run->options, reterr);
    }
    return status == QUIPU_OK ? qp_store_writable(run->store, reterr) : status;
}

quipu_status quipu_memory_run(quipu_store *store, const quipu_memory_options *options,
                              const quipu_call_options *call, quipu_memory_ran *ret_ran,
                              quipu_error *reterr)
{
    run_state *run = NULL;
    quipu_error error = {0};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        run = qp_malloc(sizeof(*run));
        status = run != NULL ? QUIPU_OK : qp_error_set(reterr, QUIPU_NOMEM, "no memory for a run");
    }
    if (run != NULL && status == QUIPU_OK) {
        *run = (run_state){.store = store,
                           .options = QUIPU_MEMORY_OPTIONS_INIT,
                           .within = &within,
                           .claim = QUIPU_ARENA_INIT,
                           .texts = QUIPU_ARENA_INIT,
                           .ran = QUIPU_MEMORY_RAN_INIT};
        status = run_enter(run, options, ret_ran, reterr);
    }
    if (run != NULL && status == QUIPU_OK) {
        status = run_all(run, &error);
        /* The time is up; what was done is done, and the next run goes on. */
        if (status == QUIPU_BUSY && run->ran.sessions > 0) {
            run->ran.more = true;
            status = QUIPU_OK;
        } else if (status != QUIPU_OK) {
            (void)qp_error_pass(reterr, &error);
        }
    }
    if (run != NULL && status == QUIPU_OK) {
        QP_LOG(&store->log, QUIPU_LOG_INFO, "memory", "run",
               QP_LOG_NUMBER("observations", run->ran.observations));
        qp_output_put(ret_ran, &run->ran, sizeof(run->ran));
    }
    if (run != NULL) {
        quipu_arena_free(&run->claim);
        quipu_arena_free(&run->texts);
        qp_free(run);
    }
    qp_store_leave(&within);
    return status;
}
