/* An answer as it grows: takes a provider's deltas, tells the events of the stream, and is a whole
 * response at the end. */
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

typedef struct qp_answer {
    quipu_model_event_fn on_event; /* or NULL */
    void *event_ctx;
    quipu_model_event said; /* the event of a text or a thought, all else zero */
    quipu_cancel *cancel;
    bool whole;   /* tell no partial events */
    bool refused; /* the callback ended it */
    qp_answer_piece *pieces;
    size_t count;
    size_t cap;
    size_t bytes;
    qp_acc acc;
    quipu_usage usage;
    quipu_finish finish;
    qp_buf id;
    qp_buf model;
} qp_answer;

void qp_answer_init(qp_answer *answer);

/* NULL is fine. */
void qp_answer_free(qp_answer *answer);

/* A quipu_sink's put, with the answer as its context. */
quipu_status qp_answer_put(void *answer, const quipu_delta *delta, quipu_error *reterr);

/* The stream ended well: tell the calls, the usage and DONE, and put the response in the arena. */
QUIPU_MUST_USE quipu_status qp_answer_done(qp_answer *answer, quipu_arena *arena,
                                           quipu_model_response *ret_response, quipu_error *reterr);

#endif
