/* What the answers of models used: tokens, as their providers reported them with each answer, by
 * session, model and day. A message brings its numbers (quipu_message.prompt_tokens and so on; the
 * events of ADK and quipu_turn() have them), and its session sums them up as it is stored, so that
 * no question here reads messages. */
#ifndef QUIPU_USAGE_H
#define QUIPU_USAGE_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_USAGE_SESSIONS 1000   /* sessions of one answer without a limit */
#define QUIPU_USAGE_ROWS_MAX 100000 /* rows of one answer */

/* What each row is about; none: one row for all. */
#define QUIPU_USAGE_BY_SESSION 1u
#define QUIPU_USAGE_BY_MODEL 2u
#define QUIPU_USAGE_BY_DAY 4u

typedef struct quipu_usage_query {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_USAGE_BY_* */
    quipu_str key;      /* only this session; absent: all */
    quipu_str app_name; /* only sessions of this app... */
    quipu_str user_id;  /* ...and user; absent: any */
    int64_t from_day;   /* days since 1970-01-01, UTC; 0: from the first... */
    int64_t to_day;     /* ...to this one; 0: to the last */
    quipu_str after;    /* cursor of the answer before, or absent */
    int64_t limit;      /* sessions; 0: QUIPU_USAGE_SESSIONS; at most QUIPU_PAGE_MAX */
} quipu_usage_query;

#define QUIPU_USAGE_QUERY_INIT QUIPU_INIT(quipu_usage_query)

/* A member that the query does not ask for by its flag is 0 or absent. */
typedef struct quipu_usage_row {
    quipu_str session_key;
    quipu_str model; /* empty: the answers named none */
    int64_t day;     /* of the answers' timestamps, in UTC, since 1970-01-01 */
    int64_t prompt_tokens;
    int64_t cached_tokens; /* of the prompts: read from a provider's cache */
    int64_t answer_tokens;
    int64_t answers;
    int64_t cost;     /* millionths of a US dollar, by quipu_model_find()... */
    int64_t unpriced; /* ...without so many answers, whose model has no price there */
} quipu_usage_row;

QUIPU_SLICE(quipu_usage_rows, quipu_usage_row)

typedef struct quipu_usage_report {
    quipu_usage_rows rows; /* by day, model and session key */
    int64_t sessions;      /* that were looked at */
    quipu_str next;        /* cursor, or absent: no session is left */
} quipu_usage_report;

/**
 * Sum up what the answers of sessions used, newest session first, `limit` sessions at a time: the
 * sum over all pages is that of the store. The cost depends on the sessions and on how often their
 * answers came to another day or model, not on messages. Answers of deleted sessions do not count;
 * a fork counts its own only.
 *
 * Ownership: free *ret_report with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND and QUIPU_EXPIRED (of `key`), QUIPU_INVALID (a malformed cursor),
 *            QUIPU_LIMIT (too many rows: ask for fewer days or sessions),
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_usage_get(quipu_store *store,
                                                      const quipu_usage_query *query,
                                                      const quipu_call_options *call,
                                                      quipu_usage_report **ret_report,
                                                      quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
