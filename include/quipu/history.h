/* What a long history needs: the window of the next prompt, the cap, compaction, forks. Part of
 * <quipu/store.h>, which includes it.
 *
 * A turn begins at a user's message and lasts until the next one; what stands before the first
 * user's message is a turn of its own. Messages of role tool or function, and a user's message with
 * tool calls, are answers: they begin no turn and hold responses.
 *
 * Pairs. One rule says which tool call a response answers; this header states it, and windows,
 * compaction, quipu_view_make(), quipu_live_close_calls() and quipu_model_convert() use it.
 * Responses choose in their order, each among the calls before it that wait for an answer:
 *   1. A call of the same id. A missing id of tool f is "call_f", on both sides.
 *   2. Else, when the call or the response has no id of its own, a call of the same tool.
 *   3. A response with neither id nor name (a tool's message without tool calls) takes any call of
 *      the last step of its turn, and no other.
 * Of several, the nearest step is meant, where a step is calls without a response among them, and
 * in the step the first call: calls made together are answered in their order. A response for which
 * no call waits repeats the answer to the nearest call by 1, else by 2; the first answer counts. A
 * response without any call answers nothing. A call more than QUIPU_PAIR_REACH messages before the
 * response is not looked for.
 * A call and its responses in one turn are never parted. An answer without tool calls also stays
 * with the message right before it.
 *
 * The default view is what a model should see: all messages, or, after a compaction, the summary
 * first and then the messages behind those that it covers. Summaries that are not the newest are no
 * part of it. Without QUIPU_RANGE_VIEW, quipu_session_get() reads every message, covered ones too;
 * with it the view, where `limit`, more_before and more_after do not count summaries. Only what the
 * other members ask for comes: the summary when they reach the view's beginning.
 *
 * The history cap (open options cap_messages and cap_tokens) removes the oldest turns in the
 * transaction of the append that passed it, and moves first_seq. The newest turn always stays
 * whole. Running totals go on. */
#ifndef QUIPU_HISTORY_H
#define QUIPU_HISTORY_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_PAIR_REACH 1000 /* messages from a tool call to its response */

/* ---- the next prompt -------------------------------------------------------------------------
 */

typedef struct quipu_window_options {
    uint32_t struct_size;
    uint32_t flags;       /* QUIPU_WINDOW_* */
    int64_t token_budget; /* required: 1 or more */
} quipu_window_options;

#define QUIPU_WINDOW_OPTIONS_INIT {(uint32_t)sizeof(quipu_window_options), 0, 0}

#define QUIPU_WINDOW_CUT 1u /* cut a newest turn over the budget, instead of keeping it whole */

/* Messages for a prompt. `history.more_before`: the view has older ones. */
typedef struct quipu_window {
    quipu_history history;
    int64_t tokens;   /* of its messages */
    bool over_budget; /* it has more tokens than the budget */
    bool cut;         /* it begins inside the newest turn, before no answer to a tool call */
} quipu_window;

/**
 * The newest whole turns of the default view within a token budget. Costs the window, not the
 * history: its beginning is found by the running totals.
 *
 * The summary of a compaction comes first as long as the newest turn fits beside it. A newest turn
 * that is over the budget by itself comes whole, flagged, or cut between messages with
 * QUIPU_WINDOW_CUT, where a call and its answers stay together. The window never begins with an
 * answer to a tool call; answers at the beginning of a view whose calls are not there are left out.
 *
 * Ownership: free *ret_window with quipu_window_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is no text), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_window_get(quipu_store *store, quipu_str key,
                                                       const quipu_window_options *options,
                                                       const quipu_call_options *call,
                                                       quipu_window **ret_window,
                                                       quipu_error *reterr);

/**
 * Free a window. NULL is fine.
 *
 * Ownership: everything reached from it is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_window_free(quipu_window *window);

/* ---- tokens of a model ------------------------------------------------------------------------
 */

#define QUIPU_FACTOR_ONE 1000000   /* a factor of 1: the estimate as it is */
#define QUIPU_FACTOR_MIN 250000    /* a quarter: no report makes it smaller */
#define QUIPU_FACTOR_MAX 8000000   /* eight: nor larger */
#define QUIPU_FACTOR_WEIGHT_MAX 32 /* a report counts at least one part in so many */
#define QUIPU_FACTOR_TOKENS_MIN 64 /* an estimate below it teaches nothing */
#define QUIPU_MODEL_NAME_MAX 512   /* bytes of a model's name */

/* How many of a model's tokens one estimated token is, in millionths. */
typedef struct quipu_model_factor {
    int64_t ppm;
    int64_t samples; /* reports that it was learned from; 0: none, and `ppm` is QUIPU_FACTOR_ONE */
} quipu_model_factor;

/* The size of one prompt, by our estimate and as its provider reported it. */
typedef struct quipu_tokens_told {
    int64_t estimated;
    int64_t reported;
} quipu_tokens_told;

/**
 * What was learned of a model's tokens. Divide a budget in its tokens by the factor to choose a
 * window; stored counts are estimates, and stay so.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    QUIPU_LIMIT (the name is too long), QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_model_factor_get(quipu_store *store, quipu_str model,
                                                             const quipu_call_options *call,
                                                             quipu_model_factor *ret_factor,
                                                             quipu_error *reterr);

/**
 * Learn from one prompt, in one transaction: the mean of the first reports, then each counts one
 * part in QUIPU_FACTOR_WEIGHT_MAX; within the bounds above. An estimate below
 * QUIPU_FACTOR_TOKENS_MIN changes nothing.
 *
 * Ownership: inputs are borrowed; `ret_factor`, as it is now, may be NULL.
 * Threads:   any, same store; processes too, no report is lost.
 * Errors:    QUIPU_INVALID (the name is no text), QUIPU_LIMIT (it is too long), QUIPU_UNKNOWN,
 *            QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_model_factor_learn(quipu_store *store, quipu_str model,
                                                               const quipu_tokens_told *told,
                                                               const quipu_call_options *call,
                                                               quipu_model_factor *ret_factor,
                                                               quipu_error *reterr);

/* ---- compaction -------------------------------------------------------------------------------
 */

/**
 * Append a summary of the default view's messages up to number `covers_to`, of role system and
 * marked QUIPU_MARK_COMPACTION: the view then begins with it. Nothing is removed; an earlier
 * summary and what it covers are covered too.
 *
 * Ownership: `ret_seq` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (nothing new is covered, the message
 *            does not exist, a tool call is parted from its answer, the summary is no text),
 *            QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_compact(quipu_store *store, quipu_str key,
                                                            int64_t covers_to, quipu_str summary,
                                                            const quipu_call_options *call,
                                                            int64_t *ret_seq, quipu_error *reterr);

/**
 * Undo the newest compaction: the default view is what it was before it. The summary stays among
 * the messages, outside of the view.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND (no session, no compaction, or what it covers was removed),
 *            QUIPU_EXPIRED, QUIPU_INVALID (the key is no text), QUIPU_LIMIT, QUIPU_UNKNOWN,
 *            QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_uncompact(quipu_store *store, quipu_str key,
                                                              const quipu_call_options *call,
                                                              quipu_error *reterr);

/**
 * Remove the messages that the newest compaction covers, for good: they cannot be read any more,
 * and their event ids are forgotten. What a fork shares stays, for the fork alone, and its ids stay
 * taken as long. Without a compaction nothing is removed.
 *
 * Ownership: `ret_removed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is no text), QUIPU_LIMIT,
 *            QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_prune(quipu_store *store, quipu_str key,
                                                          const quipu_call_options *call,
                                                          int64_t *ret_removed,
                                                          quipu_error *reterr);

/**
 * Append what an interrupted answer had said so far, byte for byte, as an assistant's message
 * marked QUIPU_MARK_TIMEOUT. To give it more, such as an event id, append a message with that mark.
 *
 * Ownership: `ret_appended` may be NULL.
 * Threads:   any, same store.
 * Errors:    as quipu_message_append().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_append_partial(
    quipu_store *store, quipu_str key, quipu_str partial, quipu_str author,
    const quipu_call_options *call, quipu_appended *ret_appended, quipu_error *reterr);

/* ---- forks ------------------------------------------------------------------------------------
 */

/**
 * Make a new session that shares the past of another one up to and including number `seq`; 0 shares
 * nothing. Messages are shared, not copied: the cost does not depend on the length of the history.
 * Counts, totals, numbers and a compaction within the shared past go on in the fork; state,
 * observations and reflections stay the parent's. What either side appends, caps, prunes or deletes
 * later, the other does not see.
 *
 * `values` names the new key; settings that it leaves out are the parent's (but for session_id,
 * which is the key), and so is a ttl_ms of 0. Initial messages cannot be given. An expired session
 * of the new key is replaced. A fork of a fork of a fork...: the one past QUIPU_FORK_DEPTH_MAX is a
 * copy with all its messages, and no fork any more.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_EXISTS (the new key), QUIPU_INVALID (no such
 *            message, or a value is wrong), QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_fork(quipu_store *store, quipu_str key,
                                                         int64_t seq,
                                                         const quipu_session_new *values,
                                                         const quipu_call_options *call,
                                                         quipu_error *reterr);

/**
 * Go back to number `seq` without losing anything: a fork there under `new_key`, with all settings
 * of the session. The session itself stays as it is. To only look at the past, read a range with
 * `before_seq`.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    as quipu_session_fork().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_rewind(quipu_store *store, quipu_str key,
                                                           int64_t seq, quipu_str new_key,
                                                           const quipu_call_options *call,
                                                           quipu_error *reterr);

/**
 * Delete a session as quipu_session_delete() does, and every fork of it, and theirs, in one
 * transaction. A missing session is fine. Copies that QUIPU_FORK_DEPTH_MAX made are no forks.
 *
 * Ownership: `ret_removed`, the number of sessions, may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_INVALID (the key is no text), QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_delete_tree(quipu_store *store, quipu_str key,
                                                                const quipu_call_options *call,
                                                                int64_t *ret_removed,
                                                                quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
