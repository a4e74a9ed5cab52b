/* A worker of memory: claims sessions that are due, observes them by rules or by a model, and
 * commits. With a model it condenses what is known, too; with an embedder it fills with vectors.
 *
 *   due jobs of others, then a look over the sessions
 *     ├─ claim (transaction) ──▶ read a batch ──▶ observe ──▶ commit (transaction) ─┐ more
 *     │                              ▲─────────────────────────────────────────────┘
 *     ├─ claim (transaction) ──▶ reflect.c: read, ask, commit (transaction)
 *     └─ claim (transaction) ──▶ embed.c: read, embed, commit (transaction)
 *
 * Owns: the order of the work, and what is counted. Called by quipu_memory_run(), from any thread
 * or process; follow.c makes one pass after another. No lock is held while messages are read and
 * observed: the lease says that the session is taken, and the commit fails when it was not
 * (store/memory_scope.h).
 * On return: every session that was claimed is committed, given back, or taken over by another
 * worker. */
#include <quipu/memory.h>

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/models.h"
#include "base/str.h"
#include "base/thread.h"
#include "memory/follow.h"
#include "memory/worker.h"
#include "store/purge.h"

#define RUN_GRACE_MS 1000 /* to store what a deadline must not lose: a charge, a lease given back */

/* ---- options ----------------------------------------------------------------------------------
 */

/* A prompt of the caller's own. */
static quipu_status run_check_prompt(const quipu_memory_options *options, quipu_str prompt,
                                     quipu_error *reterr)
{
    if (prompt.n > 0 && options->provider == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a prompt is for a model: give a provider, too");
    }
    if (prompt.n > QUIPU_MEMORY_PROMPT_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a prompt has at most %d bytes, not %zu",
                            QUIPU_MEMORY_PROMPT_MAX, prompt.n);
    }
    return qp_utf8_valid(prompt) ? QUIPU_OK
                                 : qp_error_set(reterr, QUIPU_INVALID, "a prompt is not UTF-8");
}

/* A worker's means to ask a model. */
static quipu_status run_check_model(const quipu_memory_options *options, quipu_error *reterr)
{
    quipu_status status;

    /* A provider that only embeds cannot answer questions. */
    if (options->provider != NULL &&
        (options->provider->generate == NULL || options->model.n == 0)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a worker that asks a model needs a provider that answers, and the "
                            "model's name");
    }
    /* -1 turns reflecting off; 0 asks for the default. */
    if (options->reflect_tokens < -1 || options->ask_tokens < 0 ||
        (options->ask_tokens > 0 && (options->ask_tokens < QUIPU_MEMORY_ASK_TOKENS_MIN ||
                                     options->ask_tokens > QUIPU_MEMORY_ASK_TOKENS_MAX))) {
        return qp_error_set(
            reterr, QUIPU_LIMIT,
            "questions of %lld tokens, and reflecting from %lld on, cannot be; give "
            "%d to %d, and -1 or more",
            (long long)options->ask_tokens, (long long)options->reflect_tokens,
            QUIPU_MEMORY_ASK_TOKENS_MIN, QUIPU_MEMORY_ASK_TOKENS_MAX);
    }
    status = run_check_prompt(options, options->observe_prompt, reterr);
    if (status == QUIPU_OK) {
        status = run_check_prompt(options, options->reflect_prompt, reterr);
    }
    return status == QUIPU_OK ? qp_model_rows_check(options->models, reterr) : status;
}

/* Defaults for what the caller left open. */
static void run_default(quipu_memory_options *options)
{
    /* The name is shown to people who look at leases; it need not be unique. */
    if (options->worker.n == 0) {
        options->worker = QUIPU_STR("quipu");
    }
    if (options->lease_ms == 0) {
        /* A question may take a minute: a lease that ends before would let another worker ask it
         * again. */
        options->lease_ms =
            qp_worker_asks(options) ? QUIPU_MEMORY_LEASE_MODEL : QUIPU_MEMORY_LEASE_MS;
    }
    if (options->reflect_tokens == 0) {
        options->reflect_tokens = QUIPU_REFLECT_TOKENS_DEFAULT;
    }
}

bool qp_worker_asks(const quipu_memory_options *options)
{
    return options->provider != NULL || options->embedder != NULL;
}

/* Known flags, and an embedder for those that are about one. */
static quipu_status run_check_flags(const quipu_memory_options *options, quipu_error *reterr)
{
    const uint32_t about_vectors = QUIPU_MEMORY_RUN_EMBED_ONLY | QUIPU_MEMORY_RUN_EMBED_REPLACE;
    const uint32_t unknown = options->flags & ~(QUIPU_MEMORY_RUN_FOLLOW | about_vectors);

    /* An unknown flag may ask for something that this version would silently not do. */
    if (unknown != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "quipu_memory_options has the unknown flags %#x",
                            (unsigned)unknown);
    }
    if ((options->flags & about_vectors) != 0 && options->embedder == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a worker that embeds needs an embedder");
    }
    return qp_embed_check(options->embedder, options->embed_model, reterr);
}

/* Bounds of the options. */
static quipu_status run_options_check(const quipu_memory_options *options, quipu_error *reterr)
{
    quipu_status status;

    /* A present but empty text is a name as well: absent is NULL. */
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
    status = run_check_model(options, reterr);
    if (status == QUIPU_OK) {
        status = run_check_flags(options, reterr);
    }
    return status == QUIPU_OK && options->session_key.p != NULL
               ? qp_key_check(options->session_key, reterr)
               : status;
}

/* The run's call, but with a moment at least, and nobody can cancel it. */
static qp_call run_grace(const qp_worker *run)
{
    const int64_t soonest_ns = qp_clock_ns() + RUN_GRACE_MS * QP_NS_PER_MS;
    /* A copy: the caller's own deadline and flag stay as they are. */
    qp_call grace = *run->within;

    grace.deadline_ns = grace.deadline_ns > soonest_ns ? grace.deadline_ns : soonest_ns;
    /* A cancelled run must not lose what was paid for. */
    grace.cancel = NULL;
    return grace;
}

/* Within a grace of its own: the money is spent also when the worker's time is over. */
quipu_status qp_worker_charge(qp_worker *worker, const qp_job_lease *lease,
                              const qp_memory_charge *charge, quipu_error *reterr)
{
    const qp_call grace = run_grace(worker);

    return qp_memory_charge_add(worker->store, &grace, &worker->options, lease, charge, reterr);
}

/* ---- one session ------------------------------------------------------------------------------
 */

/* Items lie in the worker's arena until the commit. When the room doubles, the old array stays in
 * the arena, unused. */
quipu_status qp_worker_keep(qp_worker *worker, qp_worker_items *items, const quipu_memory *item,
                            quipu_error *reterr)
{
    if (items->count == items->room) {
        /* Twice the room and a message's findings more: n items cost O(n). */
        const size_t room = 2 * items->room + QP_RULES_FOUND_MAX;
        quipu_memory *grown = qp_arena_take(&worker->texts, room * sizeof(*grown));

        if (grown == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for what was observed");
        }
        for (size_t i = 0; i < items->count; i++) {
            grown[i] = items->items[i];
        }
        items->items = grown;
        items->room = room;
    }
    assert(items->count < items->room);
    items->items[items->count++] = *item;
    return QUIPU_OK;
}

/* Observes messages by rules. Texts that lie in `found` are copied. */
static quipu_status run_observe(qp_worker *run, quipu_messages messages, qp_worker_items *items,
                                quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < messages.count && status == QUIPU_OK; i++) {
        qp_rules_observe(quipu_message_at(messages, i), &run->found);
        for (size_t k = 0; k < run->found.count && status == QUIPU_OK; k++) {
            /* A copy of the struct; its text still lies in `found`, which the next message
             * overwrites. */
            quipu_memory item = run->found.items[k];

            status = quipu_arena_copy(&run->texts, item.content, &item.content) == QUIPU_OK
                         ? qp_worker_keep(run, items, &item, reterr)
                         : qp_error_set(reterr, QUIPU_NOMEM, "no memory for what was observed");
        }
    }
    return status;
}

/* Where a batch ends: at its last message, or, when nothing is left to read, at what the session
 * has: messages that were pruned or capped meanwhile are gone. */
static qp_memory_batch run_batch(const quipu_history *history, const quipu_message *last,
                                 const qp_worker_items *kept)
{
    /* Numbers of messages begin with 1: the last one is the one before next_seq. Items lie in the
     * arena until the commit. */
    return (qp_memory_batch){.items = kept->items,
                             .count = kept->count,
                             .known = kept->known,
                             .known_count = kept->known_count,
                             .done_seq = last != NULL ? last->seq : history->session->next_seq - 1,
                             .done_tokens =
                                 last != NULL ? last->tokens_total : history->session->token_count};
}

/* The last message that is done with: the last that was read when the observer has seen all that it
 * may, with what is forgotten behind it; otherwise the last that it was shown. NULL: nothing was
 * read. */
static const quipu_message *run_last(const quipu_history *history, quipu_messages shown, size_t n)
{
    const quipu_messages all = history->messages;

    assert(n <= shown.count && shown.count <= all.count);
    /* The observer took fewer than it was shown: the rest is for the next batch. */
    if (n < shown.count) {
        assert(n > 0);
        return quipu_message_at(shown, n - 1);
    }
    return all.count > 0 ? quipu_message_at(all, all.count - 1) : NULL;
}

/* The messages of a batch without those that are forgotten. Texts stay where they are. */
static quipu_status run_shown(qp_worker *run, const qp_memory_work *work,
                              const quipu_history *history, quipu_messages *ret_shown,
                              quipu_error *reterr)
{
    quipu_message *items;
    size_t count = 0;

    *ret_shown = history->messages;
    /* The usual case costs no copy. */
    if (work->forgotten.count == 0 || history->messages.count == 0) {
        return QUIPU_OK;
    }
    items = qp_arena_take(&run->texts, history->messages.count * sizeof(*items));
    if (items == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for the messages of a batch");
    }
    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);

        if (!qp_forgotten_has(&work->forgotten, message->seq)) {
            items[count++] = *message;
        }
    }
    *ret_shown = quipu_messages_of(items, count);
    return QUIPU_OK;
}

void qp_worker_saved(const qp_worker *worker, const quipu_memory *saved,
                     const qp_memory_known *condensed)
{
    static const quipu_uuid none = {{0}};

    /* An id of zeros is a line that was known already: nothing new to report. */
    if (worker->options.on_saved != NULL && memcmp(saved->id.b, none.b, sizeof(none.b)) != 0) {
        worker->options.on_saved(worker->options.saved_ctx, saved,
                                 quipu_memories_of(condensed != NULL ? condensed->items : NULL,
                                                   condensed != NULL ? condensed->count : 0));
    }
}

/* One batch: read, observe, commit. *ret_more: the lease is still held, and there is more to do. */
static quipu_status run_one(qp_worker *run, qp_memory_work *work, bool *ret_more,
                            quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_call_options call;
    qp_memory_stored stored = {.observations = 0};
    qp_worker_items kept = {.items = NULL};
    quipu_messages shown = {NULL, 0, 0};
    size_t count = 0;
    quipu_status status = qp_call_left(run->within, &call, reterr);

    /* From the watermark that the claim has read, under the lease. */
    range.after_seq = work->watermark;
    range.limit = work->limit;
    if (status == QUIPU_OK) {
        status = quipu_session_get(run->store, work->lease.scope, &range, &call, &history, reterr);
    }
    if (status == QUIPU_OK) {
        quipu_arena_reset(&run->texts);
        status = run_shown(run, work, history, &shown, reterr);
    }
    if (status == QUIPU_OK) {
        count = shown.count;
        /* A batch whose messages are all pruned or forgotten costs no question to a model; its
         * commit only moves the watermark. */
        status = run->options.provider != NULL && count > 0
                     ? qp_worker_observe(run, &work->lease, shown, &kept, &count, reterr)
                     : run_observe(run, shown, &kept, reterr);
    }
    if (status == QUIPU_OK) {
        const qp_memory_batch batch = run_batch(history, run_last(history, shown, count), &kept);

        /* Fewer messages than before: the session was deleted and made again. */
        status = batch.done_seq > work->watermark
                     ? qp_memory_commit(run->store, run->within, &run->options, work, &batch,
                                        &stored, reterr)
                     : qp_error_set(reterr, QUIPU_CONFLICT, "the session was deleted meanwhile");
    }
    if (status == QUIPU_OK) {
        /* Counted only after the commit: until then another worker may take the session over. */
        run->ran.messages += (int64_t)count;
        run->ran.observations += stored.observations;
        run->ran.repeats += stored.repeats;
        *ret_more = stored.more;
        /* The hook runs without a lock and without a transaction: it may use the store. */
        for (size_t i = 0; i < kept.count; i++) {
            qp_worker_saved(run, &kept.items[i], NULL);
        }
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

/* Gives the lease back, with the reason where the session has to wait for another try. A session
 * that another worker took over, or that was deleted meanwhile, is counted and is not an error. */
quipu_status qp_worker_fail(qp_worker *worker, const qp_job_lease *lease, const quipu_error *error,
                            quipu_error *reterr)
{
    const quipu_status status = error->status;
    const qp_call grace = run_grace(worker);
    const bool waits = worker->model_failed || run_is_local(status);
    /* Another worker took the session over, or somebody deleted it. */
    const bool lost = !waits && (status == QUIPU_CONFLICT || status == QUIPU_NOT_FOUND ||
                                 status == QUIPU_EXPIRED);
    const quipu_str why = waits ? quipu_cstr(error->message) : (quipu_str){NULL, 0};

    assert(status != QUIPU_OK);
    /* Reset for the next session of this run. */
    worker->model_failed = false;
    worker->ran.failed += waits;
    worker->ran.lost += lost;
    /* Without a reason others may go on at once: what was lost or changed is read anew, and after a
     * deadline or a cancelled call nothing is wrong with the session. If giving it back fails as
     * well, the lease ends by itself. */
    if (qp_memory_give_back(worker->store, &grace, lease, why, NULL) != QUIPU_OK) {
        QP_LOG(&worker->store->log, QUIPU_LOG_WARN, "memory", "lease_left",
               QP_LOG_NUMBER("fence", lease->fence));
    }
    return waits || lost ? QUIPU_OK : qp_error_pass(reterr, error);
}

/* All batches of a claimed session. */
static quipu_status run_session(qp_worker *run, qp_memory_work *work, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    bool more = true;

    /* Counts claims, also of sessions that fail below. */
    run->ran.sessions++;
    while (status == QUIPU_OK && more) {
        status = run_one(run, work, &more, &error);
    }
    /* The failure is handled here: QUIPU_OK means that the next session can be claimed. */
    return status == QUIPU_OK ? QUIPU_OK : qp_worker_fail(run, &work->lease, &error, reterr);
}

/* Claims and observes: the session of `key`, or, when that is absent, every job that is due. */
static quipu_status run_claims(qp_worker *run, quipu_str key, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    /* Any value but NONE enters the loop; options that observe nothing skip it. */
    qp_memory_claimed claimed = qp_memory_observes(&run->options) ? QP_MEMORY_MOOT : QP_MEMORY_NONE;

    /* Until no job is due: each claim is a transaction of its own, and others claim meanwhile. */
    while (status == QUIPU_OK && claimed != QP_MEMORY_NONE) {
        qp_memory_work work = {.claimed = QP_MEMORY_NONE};
        bool due = true;

        status = qp_call_check(run->within, reterr);
        /* An indexed read comes first: a claim is a write transaction, even if nothing is due. */
        if (status == QUIPU_OK && key.p == NULL) {
            status = qp_memory_is_due(run->store, run->within, QP_JOB_OBSERVE, &due, reterr);
        }
        if (status == QUIPU_OK && due) {
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

/* Claims and condenses: what is known of the session of `key`, until that is little enough, or,
 * when the key is absent, every reflecting that is due. */
static quipu_status run_reflections(qp_worker *run, quipu_str key, quipu_error *reterr)
{
    /* The loop ends when nothing is found, or with the run's own failure. */
    quipu_status status = QUIPU_OK;
    bool found = qp_memory_reflects(&run->options);

    while (status == QUIPU_OK && found) {
        quipu_error error = {0};
        qp_job_lease lease = {.fence = 0};

        status = qp_call_check(run->within, reterr);
        if (status == QUIPU_OK && key.p == NULL) {
            status = qp_memory_is_due(run->store, run->within, QP_JOB_REFLECT, &found, reterr);
        }
        if (status == QUIPU_OK && found) {
            status = qp_memory_reflect_claim(run->store, run->within, &run->options, key,
                                             &run->claim, &lease, reterr);
            /* A fence counts from 1: 0 means no lease. */
            found = lease.fence > 0;
        }
        if (status == QUIPU_OK && found && qp_worker_reflect(run, &lease, &error) != QUIPU_OK) {
            status = qp_worker_fail(run, &lease, &error, reterr);
        }
    }
    return status;
}

/* ---- the run ----------------------------------------------------------------------------------
 */

/* All kinds of work on the session of `key` or, when that is absent, on what is due. */
static quipu_status run_works(qp_worker *run, quipu_str key, quipu_error *reterr)
{
    quipu_status status = run_claims(run, key, reterr);

    if (status == QUIPU_OK) {
        status = run_reflections(run, key, reterr);
    }
    return status == QUIPU_OK ? qp_worker_embed(run, key, reterr) : status;
}

/* Looks at all sessions that the options name, page by page. */
static quipu_status run_look(qp_worker *run, quipu_error *reterr)
{
    /* Pages of keys lie in an arena of their own: the work on a page uses the worker's. */
    qp_memory_filter filter = {.options = &run->options};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_memory_due due = {.count = 0, .end = false};
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && !due.end) {
        quipu_arena_reset(&arena);
        status = qp_memory_look(run->store, run->within, &filter, &arena, &due, reterr);
        for (size_t i = 0; i < due.count && status == QUIPU_OK; i++) {
            status = run_works(run, due.keys[i], reterr);
        }
        /* Between pages, so that a run over many idle sessions can be cancelled, too. */
        if (status == QUIPU_OK && !due.end) {
            status = qp_call_check(run->within, reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* The session that the options name must be there: a mistyped key is an error. */
static quipu_status run_named(qp_worker *run, quipu_error *reterr)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_call_options call;
    quipu_status status = qp_call_left(run->within, &call, reterr);

    /* The header alone: existence is all that is asked. */
    header.flags = QUIPU_RANGE_HEADER;
    if (status == QUIPU_OK) {
        status = quipu_session_get(run->store, run->options.session_key, &header, &call, &history,
                                   reterr);
    }
    quipu_free(history);
    return status == QUIPU_OK ? run_works(run, run->options.session_key, reterr) : status;
}

/* Due jobs first: they are found by an index, and somebody waits for them. A filter leaves them to
 * the look, which finds them again by their watermarks. */
static quipu_status run_all(qp_worker *run, quipu_error *reterr)
{
    const quipu_memory_options *options = &run->options;
    quipu_status status = QUIPU_OK;

    if (options->session_key.p != NULL) {
        return run_named(run, reterr);
    }
    /* Jobs of other users are due as well; a filtered run leaves them alone. */
    if (options->app_name.p == NULL) {
        status = run_works(run, (quipu_str){NULL, 0}, reterr);
    }
    return status == QUIPU_OK ? run_look(run, reterr) : status;
}

/* Checked once for both ways in: quipu_memory_run() and quipu_memory_start(). */
quipu_status qp_worker_options(const quipu_store *store, const quipu_memory_options *given,
                               quipu_memory_options *ret, quipu_error *reterr)
{
    quipu_status status;

    *ret = (quipu_memory_options)QUIPU_MEMORY_OPTIONS_INIT;
    status = qp_options_read(ret, sizeof(*ret), given, "quipu_memory_options", reterr);
    if (status == QUIPU_OK) {
        status = run_options_check(ret, reterr);
        /* After a failed check, too: the caller then does not use the options. */
        run_default(ret);
    }
    return status == QUIPU_OK ? qp_store_writable(store, reterr) : status;
}

/* Whether a pass is worth a report. */
bool qp_worker_did(const quipu_memory_ran *ran)
{
    return ran->sessions + ran->reflections + ran->embedded + ran->failed > 0;
}

quipu_status qp_worker_pass(qp_worker *worker, quipu_error *reterr)
{
    /* Not reported yet: a deadline that passes after some work was done is not an error. */
    quipu_error error = {0};
    quipu_status status = run_all(worker, &error);

    /* The time is up; what was done is done, and the next pass goes on. */
    if (status == QUIPU_BUSY && qp_worker_did(&worker->ran)) {
        worker->ran.more = true;
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* See <quipu/memory.h>. The worker is allocated: what the rules find in a message (`found`) is too
 * large for the stack of a small thread. */
quipu_status quipu_memory_run(quipu_store *store, const quipu_memory_options *options,
                              const quipu_call_options *call, quipu_memory_ran *ret_ran,
                              quipu_error *reterr)
{
    qp_worker *run = NULL;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_memory_check_worker(store, "quipu_memory_run", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_ran, "quipu_memory_ran", reterr);
    }
    if (status == QUIPU_OK) {
        run = qp_malloc(sizeof(*run));
        status = run != NULL ? QUIPU_OK : qp_error_set(reterr, QUIPU_NOMEM, "no memory for a run");
    }
    if (run != NULL && status == QUIPU_OK) {
        *run = (qp_worker){.store = store,
                           .within = &within,
                           .claim = QUIPU_ARENA_INIT,
                           .texts = QUIPU_ARENA_INIT,
                           .known = QUIPU_ARENA_INIT,
                           .ran = QUIPU_MEMORY_RAN_INIT};
        status = qp_worker_options(store, options, &run->options, reterr);
    }
    if (run != NULL && status == QUIPU_OK) {
        status = (run->options.flags & QUIPU_MEMORY_RUN_FOLLOW) != 0 ? qp_worker_follow(run, reterr)
                                                                     : qp_worker_pass(run, reterr);
    }
    if (run != NULL && status == QUIPU_OK) {
        QP_LOG(&store->log, QUIPU_LOG_INFO, "memory", "run",
               QP_LOG_NUMBER("observations", run->ran.observations));
        qp_output_put(ret_ran, &run->ran, sizeof(run->ran));
        /* Some batches of deletions that are due, while the caller waits anyway; the rest stays
         * a job. */
        qp_purge_after(store, &within, QUIPU_DELETE_BATCHES); /* a worker's work, too */
    }
    if (run != NULL) {
        quipu_arena_free(&run->claim);
        quipu_arena_free(&run->texts);
        quipu_arena_free(&run->known);
        qp_free(run);
    }
    qp_store_leave(&within);
    return status;
}
