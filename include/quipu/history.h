/* Long histories: the window of the next prompt, the cap, compaction, forks. <quipu/store.h>
 * includes it.
 *
 * A turn begins at a user's message and lasts until the next one; what stands before the first
 * user's message is a turn of its own. Messages of role tool or function, and a user's message with
 * tool calls, are answers: they begin no turn and hold responses.
 *
 * Pairs. One rule says which tool call a response answers; this header states it, and windows,
 * compaction, views, turns and model requests use it.
 * Responses choose in their order, each among the calls before it that wait for an answer:
 *   1. A call of the same id. A missing id of tool f is "call_f", on both sides.
 *   2. Else, when the call or the response has no id of its own, a call of the same tool.
 *   3. A response with neither id nor name (a tool's message without tool calls) takes any call of
 *      the last step of its turn, and no other.
 * When several calls fit, the response answers the nearest step, and in it the first call; a step
 * is a run of calls without a response among them. So calls made together are answered in their
 * order. A response for which no call waits repeats the answer to the nearest call by 1, else by 2;
 * the first answer counts. A response without any call answers nothing. A call more than
 * QUIPU_PAIR_REACH messages before the response is not looked for. A call and its responses in one
 * turn are never parted. An answer without tool calls also stays with the message right before it.
 *
 * The default view is what a model should see: all messages or, after a compaction, the summary
 * followed by the messages behind those that it covers. Older summaries are not part of it. Without
 * QUIPU_RANGE_VIEW quipu_session_get() reads every message, covered ones too; with it the view,
 * where `limit`, more_before and more_after do not count summaries. The other members of the range
 * still apply: the summary is included when the range reaches the beginning of the view.
 *
 * The history cap (open options cap_messages and cap_tokens) removes the oldest turns in the
 * transaction of the append that exceeds it, and moves first_seq. The newest turn always stays
 * whole. Running totals continue. */
#ifndef QUIPU_HISTORY_H
#define QUIPU_HISTORY_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_PAIR_REACH 1000 /* messages from a tool call to its response */

/* ---- the next prompt ------------------------------------------------------------------------- */

typedef struct quipu_window_options {
    uint32_t struct_size;
    uint32_t flags;       /* QUIPU_WINDOW_* */
    int64_t token_budget; /* required: 1 or more */
} quipu_window_options;

#define QUIPU_WINDOW_OPTIONS_INIT QUIPU_INIT(quipu_window_options)

#define QUIPU_WINDOW_CUT 1u /* cut a newest turn that exceeds the budget, instead of keeping it */

/* The messages of a prompt, oldest first. */
typedef struct quipu_window {
    const quipu_session_info *session;
    quipu_messages messages;
    int64_t tokens;   /* of the messages */
    bool more_before; /* the view has older messages */
    bool over_budget; /* `tokens` exceeds the budget */
    bool cut;         /* it begins inside the newest turn, never before an answer to a tool call */
} quipu_window;

/**
 * Read the newest whole turns of the default view that fit a token budget. The cost depends on the
 * window, not on the history: running totals locate its beginning.
 *
 * The summary of a compaction comes first if the newest turn fits beside it. A newest turn that
 * exceeds the budget by itself is returned whole, with over_budget set, or, with QUIPU_WINDOW_CUT,
 * cut between messages so that a call and its answers stay together. The window never begins with
 * an answer to a tool call; answers at the beginning of a view without their calls are left out.
 *
 * Ownership: free *ret_window with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is not UTF-8), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_window_read(quipu_store *store, quipu_str key,
                                                        const quipu_window_options *options,
                                                        const quipu_call_options *call,
                                                        quipu_window **ret_window,
                                                        quipu_error *reterr);

/* The short form of quipu_window_read(): a key, a token budget, the store's deadline. Since 0.2. */
QUIPU_MUST_USE static inline quipu_status quipu_window_get(quipu_store *store, const char *key,
                                                           int64_t token_budget,
                                                           quipu_window **ret_window,
                                                           quipu_error *reterr)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;

    options.token_budget = token_budget;
    return quipu_window_read(store, quipu_cstr(key), &options, NULL, ret_window, reterr);
}

/* ---- tokens of a model ----------------------------------------------------------------------- */

#define QUIPU_FACTOR_ONE 1000000    /* a factor of 1: the estimate as it is */
#define QUIPU_FACTOR_MIN 250000     /* a quarter, the smallest factor */
#define QUIPU_FACTOR_MAX 8000000    /* eight, the largest */
#define QUIPU_FACTOR_WEIGHT_MAX 32  /* a report weighs at least 1/32 */
#define QUIPU_FACTOR_TOKENS_MIN 64  /* reports with a smaller estimate are ignored */
#define QUIPU_FACTOR_PROBE "quipu:" /* how names for probes begin: no export has their factors */
#define QUIPU_MODEL_NAME_MAX 512    /* bytes of a model's name */

/* How many of a model's tokens one estimated token is, in millionths. */
typedef struct quipu_model_factor {
    uint32_t struct_size;
    int64_t ppm;
    int64_t samples; /* reports it was learned from; 0: none, and `ppm` is QUIPU_FACTOR_ONE */
} quipu_model_factor;

#define QUIPU_MODEL_FACTOR_INIT QUIPU_INIT(quipu_model_factor)

/* One prompt that was sent to a model. */
typedef struct quipu_model_report {
    uint32_t struct_size;
    int64_t estimated; /* its tokens by the store... */
    int64_t reported;  /* ...and by the provider: 1 or more */
} quipu_model_report;

#define QUIPU_MODEL_REPORT_INIT QUIPU_INIT(quipu_model_report)

/**
 * Return the factor of a model, learned from the reports of its prompts. Divide a budget in the
 * model's tokens by it to choose a window; stored counts are estimates and do not change.
 *
 * With a report, learn from it first, in one transaction. The factor is the mean of the first
 * reports; then each report weighs 1/QUIPU_FACTOR_WEIGHT_MAX, within the bounds above. An estimate
 * below QUIPU_FACTOR_TOKENS_MIN changes nothing. A name that begins with QUIPU_FACTOR_PROBE is for
 * programs that make sure that the store takes writes: the row is stored as any other, and exports
 * and copies leave it out.
 *
 * Ownership: inputs are borrowed; `report` may be NULL, and with a report `ret_factor`.
 * Threads:   any, same store; no report of another thread or process is lost.
 * Errors:    QUIPU_LIMIT (the name is too long), QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE; with a report also QUIPU_INVALID (the name is not
 *            UTF-8), QUIPU_UNKNOWN, QUIPU_FULL.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_model_factor_learn(quipu_store *store, quipu_str model,
                                                               const quipu_model_report *report,
                                                               const quipu_call_options *call,
                                                               quipu_model_factor *ret_factor,
                                                               quipu_error *reterr);

/* ---- compaction ------------------------------------------------------------------------------ */

typedef struct quipu_compact_options {
    uint32_t struct_size;
    uint32_t flags;    /* QUIPU_COMPACT_* */
    int64_t covers_to; /* the number of the last message that the summary covers */
    quipu_str summary; /* required */
} quipu_compact_options;

#define QUIPU_COMPACT_OPTIONS_INIT QUIPU_INIT(quipu_compact_options)

#define QUIPU_COMPACT_UNDO 1u /* undo the newest compaction; without covers_to and summary */

/**
 * Append a summary of the default view's messages up to number `covers_to`, of role system and
 * marked QUIPU_MARK_COMPACTION. The view then begins with it. Nothing is removed; the summary also
 * covers an earlier summary and what that covers.
 *
 * With QUIPU_COMPACT_UNDO the default view becomes what it was before the newest compaction, whose
 * summary stays among the messages, outside of the view.
 *
 * Ownership: `ret_seq`, the number of the summary (of an undone compaction 0), may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND (also to undo: no compaction, or the covered messages were
 *            removed), QUIPU_EXPIRED, QUIPU_INVALID (it covers nothing new, the message does not
 *            exist, a tool call is separated from its answer, the summary is not UTF-8),
 *            QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE (also no options, or an undo that names a
 *            summary or a message).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_compact(quipu_store *store, quipu_str key,
                                                            const quipu_compact_options *options,
                                                            const quipu_call_options *call,
                                                            int64_t *ret_seq, quipu_error *reterr);

/**
 * Remove the messages that the newest compaction covers, for good, and forget their event ids. What
 * a fork shares stays for the fork alone, and its ids stay taken. Without a compaction nothing is
 * removed.
 *
 * Ownership: `ret_removed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is not UTF-8), QUIPU_LIMIT,
 *            QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_prune(quipu_store *store, quipu_str key,
                                                          const quipu_call_options *call,
                                                          int64_t *ret_removed,
                                                          quipu_error *reterr);

/* ---- forks ----------------------------------------------------------------------------------- */

/**
 * Create a session that shares the past of another one up to and including number `seq`; 0 shares
 * nothing. Messages are shared, not copied: the cost does not depend on the length of the history.
 * Counts, totals, numbers and a compaction within the shared past continue in the fork; state,
 * observations and reflections stay with the parent. Neither side sees what the other appends,
 * caps, prunes or deletes later. To go back to an earlier message without losing anything, fork
 * there.
 *
 * `values` names the new key. Settings that it leaves out, and a ttl_ms of 0, are the parent's,
 * except session_id, which is the key. Initial messages are not allowed. An expired session of the
 * new key is replaced. A fork deeper than QUIPU_FORK_DEPTH_MAX is a copy with all its messages, and
 * no fork any more.
 *
 * Ownership: free *ret_fork, the new session without messages, with quipu_free(); `ret_fork` may be
 *            NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_EXISTS (the new key), QUIPU_INVALID (no such
 *            message, or a value is wrong), QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status
quipu_session_fork(quipu_store *store, quipu_str key, int64_t seq, const quipu_session_new *values,
                   const quipu_call_options *call, quipu_history **ret_fork, quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
