/* The one rule for ids of tool calls, for calls and responses alike: a missing id of tool f is
 * "call_f", and no two calls of a history share an id: the second use of "x" is "x_2". A response
 * answers the oldest unanswered call that said the same. */
#ifndef QP_MODEL_CALL_ID_H
#define QP_MODEL_CALL_ID_H

#include <stdbool.h>

#include <quipu/model.h>

struct qp_call_id;

/* All its memory is the arena's. */
typedef struct qp_call_ids {
    quipu_arena *arena;
    struct qp_call_id **table; /* by hash of what was said; a power of two */
    size_t table_size;
    size_t table_count;
    struct qp_call_id *open; /* calls that wait for an answer, oldest first */
    struct qp_call_id *open_last;
} qp_call_ids;

void qp_call_ids_init(qp_call_ids *ids, quipu_arena *arena);

/* A call: `id` as said (may be empty) and the tool's name. QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_call_ids_add(qp_call_ids *ids, quipu_str id, quipu_str name,
                                            quipu_str *ret_id);

/* A response: the id of the call that it answers, or, when none waits, what the rule gives for
 * it. */
QUIPU_MUST_USE quipu_status qp_call_ids_answer(qp_call_ids *ids, quipu_str id, quipu_str name,
                                               quipu_str *ret_id);

/* The talk went on: what is still unanswered will not be answered any more. */
void qp_call_ids_close(qp_call_ids *ids);

#endif
