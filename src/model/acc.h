/* Putting tool calls together from the pieces that stream in. A piece with an index belongs to the
 * call of that index (OpenAI); one with an id or a name alone begins a call, and the pieces without
 * any of them belong to the call before them (Anthropic). A piece that belongs to no call is
 * dropped. */
#ifndef QP_MODEL_ACC_H
#define QP_MODEL_ACC_H

#include <stdbool.h>
#include <stdint.h>

#include <quipu/model.h>

#include "base/buf.h"

#define QP_ACC_NONE SIZE_MAX

typedef struct qp_acc_slot {
    bool has_index;
    bool thought;
    bool told; /* the notice of it went out; the caller's */
    int64_t index;
    qp_buf id;
    qp_buf name;
    qp_buf arguments;
    qp_buf signature;
} qp_acc_slot;

typedef struct qp_acc {
    qp_acc_slot *slots; /* in the order they began */
    size_t count;
    size_t cap;
    size_t last; /* where a piece without a name of its own goes; QP_ACC_NONE: nowhere */
} qp_acc;

void qp_acc_init(qp_acc *acc);

/* NULL is fine. */
void qp_acc_free(qp_acc *acc);

/* Take a piece of kind QUIPU_DELTA_CALL; NULL is ignored. *ret_slot is the call that it went to, or
 * QP_ACC_NONE when it was dropped. QUIPU_LIMIT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_acc_put(qp_acc *acc, const quipu_delta *delta, size_t *ret_slot,
                                       quipu_error *reterr);

/* The stream is at its end: the calls as parts, by ascending index, those without one after them as
 * they came. Those without a name are left out; no arguments become {}; a missing id follows the
 * rule of qp_model_convert(). `cut` says that the answer was cut off, for the message.
 * QUIPU_INVALID when the arguments of one are no JSON object: then there are no calls at all. */
QUIPU_MUST_USE quipu_status qp_acc_done(const qp_acc *acc, bool cut, quipu_arena *arena,
                                        quipu_part **ret_parts, size_t *ret_count,
                                        quipu_error *reterr);

#endif
