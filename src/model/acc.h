/* Assembling tool calls from streamed pieces. A piece with an index belongs to the call of that
 * index (OpenAI). A piece with an id or a name but no index begins a call, and pieces with none of
 * them continue the call before (Anthropic). A piece that belongs to no call is dropped. */
#ifndef QP_MODEL_ACC_H
#define QP_MODEL_ACC_H

#include <stdbool.h>
#include <stdint.h>

#include <quipu/model.h>

#include "base/buf.h"

/* No slot. */
#define QP_ACC_NONE SIZE_MAX

/* One call while its pieces arrive. Buffers have limits, so that a server cannot exhaust memory. */
typedef struct qp_acc_slot {
    bool has_index;
    bool thought;
    bool announced; /* the partial event was sent; set by answer.c */
    int64_t index;
    qp_buf id;
    qp_buf name;
    qp_buf arguments;
    qp_buf signature;
} qp_acc_slot;

/* All calls of one answer. */
typedef struct qp_acc {
    qp_acc_slot *slots; /* in the order they began */
    size_t count;
    size_t cap;
    size_t last; /* the call that an anonymous piece continues; QP_ACC_NONE: none */
} qp_acc;

void qp_acc_init(qp_acc *acc);

/* NULL is fine. */
void qp_acc_free(qp_acc *acc);

/* Takes a piece of kind QUIPU_DELTA_CALL; NULL is ignored. *ret_slot is the call that the piece
 * belongs to, or QP_ACC_NONE when it was dropped. QUIPU_LIMIT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_acc_put(qp_acc *acc, const quipu_delta *delta, size_t *ret_slot,
                                       quipu_error *reterr);

/* The stream is at its end: the calls as parts, by ascending index, those without one after them as
 * they came. Calls without a name are left out; no arguments become {}; a missing id follows the
 * rule of qp_model_convert(). `cut` says that the answer was cut off, for the message.
 * QUIPU_INVALID when the arguments of a call are not a JSON object: then no call is returned. */
QUIPU_MUST_USE quipu_status qp_acc_done(const qp_acc *acc, bool cut, quipu_arena *arena,
                                        quipu_part **ret_parts, size_t *ret_count,
                                        quipu_error *reterr);

#endif
