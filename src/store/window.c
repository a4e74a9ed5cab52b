/* The window of the next prompt: the newest whole turns within a token budget.
 *
 * Owns the choice of where a window begins. The running totals give the place in a number of reads
 * that grows with the logarithm of the window (qp_chain_budget()); then only the window's own
 * messages are read. Called by quipu_window_read() only, in one snapshot and without locks. A
 * window begins with a turn, or with QUIPU_WINDOW_CUT inside of the newest one, and never parts a
 * tool response from its call. The summary of a compaction stands before it when both fit. */
#include <assert.h>

#include "base/error.h"
#include "base/result.h"
#include "base/token.h"
#include "store/fork_chain.h"
#include "store/read.h"
#include "store/tool_pairs.h"

/* The result that callers get: the public struct first, its memory behind it. */
typedef struct window_result {
    qp_result head;
    quipu_window pub;
    quipu_session_info session; /* of pub */
} window_result;

QP_RESULT(window_result);

/* One call: its checked options and the result that the work fills. */
typedef struct window_call {
    const quipu_store *store;
    quipu_str key;
    quipu_window_options options;
    window_result *result;
} window_call;

/* Messages `from` to `to` of the view, and where the window in them begins. */
typedef struct window_view {
    ent_db *db;
    const qp_session *row;
    qp_chain chain;
    int64_t from;
    int64_t to;
    int64_t budget;
} window_view;

/* A message at which a window can begin, and what is needed to know its size:
 *
 *   from             seq                      to
 *   |----------------|-------------------------|
 *   before: tokens of all up to here           token_count of the row */
typedef struct window_start {
    const qp_pairs *pairs; /* any message that parts no pair; NULL: only one that begins a turn */
    bool found;
    bool opens; /* it begins a turn */
    int64_t seq;
    int64_t before; /* tokens of all messages before it */
} window_start;

/* Whether the window can begin here; ends the scan at the first such message. */
static bool window_look(void *ctx, const qp_message *row)
{
    window_start *start = ctx;
    const bool opens = qp_message_opens(row);

    assert(!start->found);
    if (row->mark == QP_MESSAGE_MARK_COMPACTION) {
        return true; /* no part of the view */
    }
    /* An answer never begins a window, also when its call is unknown: providers refuse such
     * prompts. */
    if (opens || (start->pairs != NULL && !qp_message_answers(row) &&
                  !qp_pairs_parts(start->pairs, row->seq))) {
        start->found = true;
        start->opens = opens;
        start->seq = row->seq;
        start->before = row->tokens_total - row->tokens;
    }
    return !start->found;
}

/* The first place in the order of the scan. With `pairs` any message that parts no pair will do,
 * without them only one that begins a turn. */
static quipu_status window_place(const window_view *view, const qp_scan *scan,
                                 const qp_pairs *pairs, window_start *ret, quipu_error *reterr)
{
    assert(scan->to <= view->to);
    *ret = (window_start){.pairs = pairs};
    return qp_chain_each(view->db, &view->chain, scan, window_look, ret, reterr);
}

/* The first place from `seq` on, of any role. Reads the tool calls around `seq` first. */
static quipu_status window_after(const window_view *view, int64_t seq, qp_pairs *pairs,
                                 window_start *ret, quipu_error *reterr)
{
    const qp_scan all = {view->from, view->to, false};
    const qp_scan after = {seq, view->to, false};
    quipu_status status = qp_pairs_read(pairs, view->db, &view->chain, &all, seq, reterr);

    assert(status != QUIPU_OK || (pairs->place == seq && pairs->low <= seq));
    return status == QUIPU_OK ? window_place(view, &after, pairs, ret, reterr) : status;
}

/* The last such place before `seq`: reads further back from where window_after() ended. */
static quipu_status window_before(const window_view *view, int64_t seq, qp_pairs *pairs,
                                  window_start *ret, quipu_error *reterr)
{
    const qp_scan before = {view->from, seq - 1, true};
    quipu_status status = qp_pairs_read_back(pairs, view->db, &view->chain, &before, reterr);

    assert(pairs->place == seq && pairs->low <= seq);
    return status == QUIPU_OK ? window_place(view, &before, pairs, ret, reterr) : status;
}

/* The newest turn is too large and may be cut: `seq` is the first number that fits. When every
 * message from there on answers a call before it, the window begins earlier and exceeds the
 * budget. */
static quipu_status window_cut(const window_view *view, int64_t seq, window_start *ret,
                               quipu_error *reterr)
{
    qp_pairs pairs;
    quipu_status status;

    assert(seq != view->from && !ret->found);
    qp_pairs_init(&pairs);
    status = window_after(view, seq, &pairs, ret, reterr);
    if (status == QUIPU_OK && !ret->found) {
        status = window_before(view, seq, &pairs, ret, reterr);
    }
    qp_pairs_free(&pairs);
    return status;
}

/* The whole view fits: its first message may begin the window, of any role, because there is no
 * turn before it that could be cut. */
static quipu_status window_all(const window_view *view, window_start *ret, quipu_error *reterr)
{
    qp_pairs pairs;
    quipu_status status;

    qp_pairs_init(&pairs);
    status = window_after(view, view->from, &pairs, ret, reterr);
    qp_pairs_free(&pairs);
    return status;
}

/* The newest turn has more tokens than the budget: `seq` is the first number that fits. The window
 * is cut, or is that whole turn and exceeds the budget. */
static quipu_status window_over(const window_view *view, int64_t seq, bool cut, window_start *ret,
                                quipu_error *reterr)
{
    const qp_scan before = {view->from, seq - 1, true};
    quipu_status status =
        cut ? window_cut(view, seq, ret, reterr) : window_place(view, &before, NULL, ret, reterr);

    assert(seq != view->from);
    if (status == QUIPU_OK && !ret->found) {
        status = window_all(view, ret, reterr); /* a view without any user */
    }
    return status;
}

/* Where the window begins. *ret_fits: it is whole turns within the budget. With `must` a window
 * that does not fit is found, too. Without any message, `ret` stands behind the last one. */
static quipu_status window_find(const window_view *view, bool cut, bool must, window_start *ret,
                                bool *ret_fits, quipu_error *reterr)
{
    int64_t seq = 0;
    quipu_status status =
        qp_chain_budget(view->db, &view->chain, view->from, view->to, view->budget, &seq, reterr);

    assert(view->budget > 0 && !ret->found);
    assert(status != QUIPU_OK || seq <= view->to + 1);
    if (status == QUIPU_OK) {
        const qp_scan after = {seq, view->to, false};
        status = seq == view->from ? window_all(view, ret, reterr)
                                   : window_place(view, &after, NULL, ret, reterr);
    }
    /* A view within the budget fits, also when no message of it can begin a window. */
    *ret_fits = ret->found || seq == view->from;
    if (status == QUIPU_OK && !*ret_fits && must) {
        status = window_over(view, seq, cut, ret, reterr);
    }
    if (!ret->found) {
        ret->seq = view->to + 1; /* behind everything: no message */
        ret->before = view->row->token_count;
    }
    return status;
}

/* Reads the messages from `start` on; `head` is the summary before them, or NULL. The tokens follow
 * from the running totals, without adding up. */
static quipu_status window_fill(const window_view *view, const window_start *start,
                                const quipu_message *head, window_result *result,
                                quipu_error *reterr)
{
    quipu_window *pub = &result->pub;
    const qp_extent extent = {.from = start->seq, .to = view->to, .view = true, .head = head};

    assert(head == NULL || head->seq != 0);
    assert(start->seq <= view->to + 1);
    /* Exact, because totals run without gaps; summaries count 0 in them (message.c), so that the
     * one at the head is added. */
    pub->tokens = view->row->token_count - start->before;
    if (head != NULL) {
        pub->tokens += qp_token_message(head->content, NULL, 0);
    }
    return qp_messages_read(view->db, view->row, &extent, &result->head.arena, &pub->messages,
                            reterr);
}

/* Tries the budget that the summary leaves first. When no whole turn fits beside it, the summary
 * gives way to the newest turn. */
static quipu_status window_build(const window_call *call, window_view *view,
                                 const qp_summary *summary, quipu_error *reterr)
{
    const int64_t budget = call->options.token_budget;
    const bool cut = (call->options.flags & QUIPU_WINDOW_CUT) != 0;
    const bool has_summary = summary->message.seq != 0;
    const quipu_message *head = has_summary ? &summary->message : NULL;
    quipu_window *pub = &call->result->pub;
    window_start start = {.found = false};
    int64_t older = 0;
    bool fits = false;
    quipu_status status = QUIPU_OK;

    assert(budget > 0);
    /* First try: the summary and whole turns behind it. A summary as large as the budget leaves no
     * room. */
    if (has_summary) {
        view->budget = budget - qp_token_message(summary->message.content, NULL, 0);
        if (view->budget > 0) {
            status = window_find(view, false, false, &start, &fits, reterr);
        }
    }
    /* Second try: the newest turn with the whole budget, cut or too large if need be. */
    if (status == QUIPU_OK && !fits) {
        view->budget = budget;
        status = window_find(view, cut, true, &start, &fits, reterr);
        head = start.found ? NULL : head; /* the newest turn comes first */
    }
    if (status == QUIPU_OK) {
        status = window_fill(view, &start, head, call->result, reterr);
    }
    if (status == QUIPU_OK) {
        const qp_scan before = {view->from, start.seq - 1, true};
        status = qp_view_place(view->db, &view->chain, &before, 1, &older, reterr);
    }
    /* A window that starts with the view's first message is not cut, whatever message that is. */
    pub->more_before = older != 0 || (has_summary && head == NULL);
    pub->over_budget = pub->tokens > budget;
    pub->cut = cut && !fits && start.found && !start.opens && older != 0;
    return status;
}

/* The row, the summary and the chain of one snapshot. A retried read starts over with an empty
 * arena. */
static quipu_status window_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    const window_call *call = ctx;
    window_result *result = call->result;
    window_view view = {.db = db};
    qp_summary summary = {.view_from = 0};
    quipu_status status;

    assert(ent_depth(db) > 0);
    (void)scratch;
    quipu_arena_free(&result->head.arena);
    result->pub = (quipu_window){.tokens = 0};
    status = qp_session_load(call->store, db, &result->head.arena, call->key, quipu_time_now(),
                             &view.row, reterr);
    if (status == QUIPU_OK) {
        status = qp_session_show(db, &result->head.arena, view.row, &result->session, reterr);
    }
    if (status == QUIPU_OK) {
        result->pub.session = &result->session;
        status = qp_summary_read(db, view.row, &result->head.arena, &summary, reterr);
    }
    if (status == QUIPU_OK) {
        view.from = summary.view_from;
        view.to = view.row->next_seq - 1;
        status = qp_chain_resolve(db, view.row, view.from, view.to, &view.chain, reterr);
    }
    return status == QUIPU_OK ? window_build(call, &view, &summary, reterr) : status;
}

/* A budget of 0 would be a window without messages: most likely a mistake, so it is refused. */
static quipu_status window_check(const quipu_window_options *options, quipu_error *reterr)
{
    if ((options->flags & ~QUIPU_WINDOW_CUT) != 0 || options->token_budget < 1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a window option is out of range: flags 0x%x, token_budget %lld (1 or "
                            "more)",
                            (unsigned)options->flags, (long long)options->token_budget);
    }
    return QUIPU_OK;
}

/* The window at a server. */
static quipu_status window_ask(const quipu_store *store, const qp_call *call, quipu_str key,
                               window_call *window, quipu_error *reterr)
{
    const qp_remote_budget read = {.key = key,
                                   .options = &window->options,
                                   .arena = &window->result->head.arena,
                                   .session = &window->result->session,
                                   .window = &window->result->pub};

    assert(qp_store_is_remote(store));
    return store->remote.window(store->remote.ctx, call, &read, reterr);
}

/* Without a lock: appends go on while the window is read, and it shows the snapshot at its
 * beginning. */
quipu_status quipu_window_read(quipu_store *store, quipu_str key,
                               const quipu_window_options *options, const quipu_call_options *call,
                               quipu_window **ret_window, quipu_error *reterr)
{
    window_call window = {.store = store, .key = key, .options = QUIPU_WINDOW_OPTIONS_INIT};
    qp_call within;
    quipu_status status;

    if (ret_window == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a window needs a place");
    }
    status = qp_store_enter(store, call, &within, reterr);
    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&window.options, sizeof(window.options), options,
                                 "quipu_window_options", reterr);
    }
    if (status == QUIPU_OK) {
        status = window_check(&window.options, reterr);
    }
    if (status == QUIPU_OK) {
        window.result = qp_result_new(sizeof(*window.result));
        status = window.result == NULL
                     ? qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a window")
                 : qp_store_is_remote(store)
                     ? window_ask(store, &within, key, &window, reterr)
                     : qp_store_read(store, &within, window_work, &window, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_window = &window.result->pub;
    } else if (window.result != NULL) {
        quipu_free(&window.result->pub);
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "make a window of", key, reterr);
}
