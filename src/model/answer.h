/* An answer while it streams: takes a provider's deltas, sends the caller's events, and becomes a
 * complete response at the end. */
#ifndef QP_MODEL_ANSWER_H
#define QP_MODEL_ANSWER_H

#include <quipu/model.h>

#include "base/buf.h"
#include "model/acc.h"

/* A part of the answer in the order it began; calls are only counted here. */
typedef struct qp_answer_piece {
    quipu_part_kind kind;
    bool redacted;
    qp_buf text;
    qp_buf signature;
} qp_answer_piece;

/* One answer. `bytes` counts everything that was received, against QUIPU_RESPONSE_BYTES_MAX. */
typedef struct qp_answer {
    quipu_model_event_fn on_event; /* or NULL */
    void *event_ctx;
    quipu_model_event said; /* reused for each text or thought; other members stay zero */
    quipu_cancel *cancel;
    bool whole;   /* send no partial events */
    bool refused; /* the callback ended the call */
    qp_answer_piece *pieces;
    size_t count;
    size_t cap;
    size_t bytes;
    qp_acc acc;
    quipu_model_usage usage;
    quipu_finish finish;
    qp_buf id;
    qp_buf model;
} qp_answer;

void qp_answer_init(qp_answer *answer);

/* NULL is fine. */
void qp_answer_free(qp_answer *answer);

/* A quipu_sink's put, with the answer as its context. */
quipu_status qp_answer_put(void *answer, const quipu_delta *delta, quipu_error *reterr);

/* After a complete stream: sends events for the calls, the usage and DONE, and returns the
 * response, whose texts lie in the arena. */
QUIPU_MUST_USE quipu_status qp_answer_done(qp_answer *answer, quipu_arena *arena,
                                           quipu_model_response *ret_response, quipu_error *reterr);

#endif
