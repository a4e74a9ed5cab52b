/* Server-sent events, as the WHATWG HTML standard parses them (section 9.2.6), from pieces that may
 * be cut anywhere: LF, CR and CRLF ends, a byte order mark, several data lines, comments, unknown
 * fields. An event that the end of the stream cuts off is dropped. */
#ifndef QP_MODEL_SSE_H
#define QP_MODEL_SSE_H

#include <stdbool.h>
#include <stdint.h>

#include <quipu/model.h>

#include "base/buf.h"

/* Borrowed until the callback returns. */
typedef struct qp_sse_event {
    quipu_str type; /* "message" when the stream names none */
    quipu_str data;
    quipu_str id; /* the last one that the stream gave */
} qp_sse_event;

typedef quipu_status (*qp_sse_fn)(void *ctx, const qp_sse_event *event, quipu_error *reterr);

typedef struct qp_sse {
    qp_sse_fn on_event;
    void *ctx;
    size_t line_max;
    size_t event_max;
    qp_buf line;    /* a line whose end has not come yet */
    quipu_str only; /* the event's one data line so far, in the bytes being fed; absent: none */
    qp_buf data;    /* else its data lines, each with a LF after it */
    qp_buf type;
    qp_buf id;
    int64_t retry_ms; /* what the stream asked for; -1: nothing */
    bool begun;       /* the first line is behind us, and a byte order mark with it */
    bool after_cr;    /* a LF that comes next belongs to the CR before it */
    bool in_bytes;    /* the line at hand lies in the bytes being fed, not in `line` */
    bool has_data;
    quipu_status status; /* sticks */
} qp_sse;

/* Maxima of 0 mean QUIPU_SSE_LINE_MAX and QUIPU_SSE_EVENT_MAX. Allocates nothing. */
void qp_sse_init(qp_sse *sse, size_t line_max, size_t event_max, qp_sse_fn on_event, void *ctx);

/* NULL is fine. */
void qp_sse_free(qp_sse *sse);

/* Take the next bytes of the stream. QUIPU_LIMIT, QUIPU_NOMEM, or what the callback gave back;
 * after a failure every further call gives the same. */
QUIPU_MUST_USE quipu_status qp_sse_feed(qp_sse *sse, quipu_str bytes, quipu_error *reterr);

#endif
