/* Events and answers as text, one line each, for tests to compare. */
#ifndef T_PROVIDER_NOTE_H
#define T_PROVIDER_NOTE_H

#include <quipu/model.h>

#include "base/buf.h"

/* A quipu_model_event_fn that writes to a qp_buf. */
quipu_status note_event(void *ctx, const quipu_model_event *event);

/* The parts, the model's name and the id of an answer. */
void note_response(qp_buf *out, const quipu_model_response *response);

#endif
