/* Ids of tool calls that are unique in a history, as providers require: a missing id of tool f is
 * "call_f", and the second use of "x" is "x_2". Which call a response answers is the rule of
 * base/tool_pair.h. */
#ifndef QP_MODEL_CALL_ID_H
#define QP_MODEL_CALL_ID_H

#include <quipu/model.h>

struct qp_call_id;

/* All memory lies in the arena; there is nothing to free. */
typedef struct qp_call_ids {
    quipu_arena *arena;
    struct qp_call_id **table; /* hash table by id; its size is a power of two */
    size_t table_size;
    size_t table_count;
} qp_call_ids;

void qp_call_ids_init(qp_call_ids *ids, quipu_arena *arena);

/* A call: its original id, which may be empty, and the tool's name. QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_call_ids_add(qp_call_ids *ids, quipu_str id, quipu_str name,
                                            quipu_str *ret_id);

/* The id of a response that answers no call: as said, unless a call has it. */
QUIPU_MUST_USE quipu_status qp_call_ids_orphan(qp_call_ids *ids, quipu_str id, quipu_str name,
                                               quipu_str *ret_id);

#endif
