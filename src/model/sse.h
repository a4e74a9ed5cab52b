/* A parser of server-sent events, as the WHATWG HTML standard defines them (section 9.2.6), for
 * input cut anywhere: LF, CR and CRLF line ends, a byte order mark, several data lines, comments,
 * unknown fields. An incomplete event at the end of the stream is dropped. */
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

/* The parser's state between two pieces of input. Of `only` and `data` one holds the event's data:
 * `only` while there is a single line that lies in the caller's bytes. */
typedef struct qp_sse {
    qp_sse_fn on_event;
    void *ctx;
    size_t line_max;
    size_t event_max;
    qp_buf line;    /* a line whose end has not come yet */
    quipu_str only; /* the event's only data line so far, in the caller's bytes; absent: none */
    qp_buf data;    /* otherwise its data lines, each followed by LF */
    qp_buf type;
    qp_buf id;
    int64_t retry_ms; /* the stream's retry field; -1: none */
    bool begun;       /* the first line, and a byte order mark, were read */
    bool after_cr;    /* a LF that follows belongs to the CR before it */
    bool in_bytes;    /* the current line lies in the caller's bytes, not in `line` */
    bool has_data;
    quipu_status status; /* the first error, repeated by every later call */
} qp_sse;

/* Maxima of 0 mean QUIPU_SSE_LINE_MAX and QUIPU_SSE_EVENT_MAX. Allocates nothing. */
void qp_sse_init(qp_sse *sse, size_t line_max, size_t event_max, qp_sse_fn on_event, void *ctx);

/* NULL is fine. */
void qp_sse_free(qp_sse *sse);

/* Parses the next bytes of the stream. QUIPU_LIMIT, QUIPU_NOMEM, or the callback's status; after a
 * failure every further call returns the same. */
QUIPU_MUST_USE quipu_status qp_sse_feed(qp_sse *sse, quipu_str bytes, quipu_error *reterr);

#endif
