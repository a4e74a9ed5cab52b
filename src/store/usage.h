/* The usage of answers: the tokens that providers reported, summed up as messages are stored.
 *
 * A session's row has the totals of all its answers. A row of entity Usage stands where its answers
 * come to another day or another model, with the totals of all before:
 *
 *    answers of a session:   a  a  a | b  b | a  a  a  a          | : another day or model
 *    rows of Usage:          0         3      5                   totals before (here: counted)
 *    the session's row:                                   9       so that the spans used 3, 2 and 4
 *
 * An append writes such a row only where a span begins, and its session's row anyway. */
#ifndef QP_STORE_USAGE_H
#define QP_STORE_USAGE_H

#include <quipu/usage.h>

#include "gen/quipu.h"

/* Totals of answers, and the span of the last one. */
typedef struct qp_usage_sum {
    int64_t prompt;
    int64_t cached;
    int64_t answer;
    int64_t count;
    int64_t span; /* a hash of its day and its model; 0: no answer yet */
} qp_usage_sum;

/* The totals of a session's row. */
#define QP_USAGE_OF(row)                                                                           \
    ((qp_usage_sum){(row)->prompt_total, (row)->cached_total, (row)->answer_total,                 \
                    (row)->answer_count, (row)->usage_span})

/* Whether a message has such numbers. */
#define QP_USAGE_IN(message) ((message)->prompt_tokens.has || (message)->answer_tokens.has)

/* Adds a message that has. Returns whether it begins a span. */
bool qp_usage_add(qp_usage_sum *sum, const qp_message_new *message);

/* In the transaction that stores messages: write the row of each span that begins among them.
 * `before` are the totals before the first one. */
QUIPU_MUST_USE quipu_status qp_usage_write(ent_db *db, quipu_str tenant, qp_usage_sum before,
                                           const qp_message_new *messages, size_t count,
                                           quipu_error *reterr);

/* Remove all rows of a session. */
QUIPU_MUST_USE quipu_status qp_usage_remove(ent_db *db, int64_t session_number,
                                            quipu_error *reterr);

/* Whether a row can be one of a session whose next message is `next_seq`. */
bool qp_usage_sound(const qp_usage *row, int64_t next_seq);

#endif
