/* The reader of requests (reader.h): finds where a request ends, and leaves the meaning of its head
 * to head.c.
 *
 *   IN_HEAD ──empty line──▶ no body ───────────────────────────────────────────▶ COMPLETE
 *      ▲                    │ └─ Content-Length ─▶ IN_BODY ──all bytes─────────────▶ │
 *      │                    └─ chunked ─▶ CHUNK_SIZE ─CR▶ SIZE_LF ─LF, 0─▶ END_CR ─▶ END_LF ─▶ │
 *      │                                    ▲               └─LF─▶ CHUNK_DATA                  │
 *      │                                    └── DATA_LF ◀── DATA_CR ◀─┘                        │
 *      └───────────────────────────── qp_http_reader_next() ◀──────────────────────────────────┘
 *   any state ──refused──▶ FAILED, which has no way out
 *
 * Each decision depends on the bytes read so far and never on how they were cut. Owns two buffers
 * with limits: a client cannot make it grow. Called by: the server's connections, each on its
 * loop's thread. No locks. */
#include "http/reader.h"

#include <assert.h>

#include "http/head.h"

/* Returns false, so that a parser can `return` it. `reason` is constant: nothing of a request is
 * ever sent back.
 * The last refusal counts: there is one for each request. */
bool qp_http_refuse(qp_http_refusal *ret_refusal, int status, const char *reason)
{
    *ret_refusal = (qp_http_refusal){.status = status, .reason = reason};
    return false;
}

/* Buffers grow with what arrives: a new connection has none, one between two requests only the
 * head's. */
void qp_http_reader_init(qp_http_reader *reader, size_t body_max)
{
    assert(body_max <= QP_HTTP_BODY_CAP);
    *reader = (qp_http_reader){
        .state = QP_HTTP_IN_HEAD,
        .body_max = body_max,
        .in_first_line = true,
    };
    qp_buf_init(&reader->head, QP_HTTP_HEAD_MAX);
    qp_buf_init(&reader->body, body_max);
}

/* Safe on NULL, and a second time. */
void qp_http_reader_free(qp_http_reader *reader)
{
    if (reader != NULL) {
        qp_buf_free(&reader->head);
        qp_buf_free(&reader->body);
    }
}

/* The body's memory is freed, for a connection may wait long for its next request. */
void qp_http_reader_next(qp_http_reader *reader)
{
    assert(reader->state == QP_HTTP_COMPLETE);
    qp_buf_reset(&reader->head);
    qp_buf_free(&reader->body);
    reader->state = QP_HTTP_IN_HEAD;
    reader->line_size = 0;
    reader->in_first_line = true;
    reader->after_cr = false;
    reader->body_left = 0;
    reader->chunk_digits = 0;
    reader->request = (qp_http_request){.keep_alive = false};
}

/* Between two requests: a connection that is closed now loses nothing. */
bool qp_http_reader_is_idle(const qp_http_reader *reader)
{
    return reader->state == QP_HTTP_IN_HEAD && reader->head.n == 0;
}

/* The client wants to hear "100 Continue" before it sends a body, and no byte of it has arrived
 * yet. */
bool qp_http_reader_awaits_continue(const qp_http_reader *reader)
{
    bool before_body = reader->state == QP_HTTP_IN_BODY ||
                       (reader->state == QP_HTTP_CHUNK_SIZE && reader->chunk_digits == 0);

    return before_body && reader->body.n == 0 && reader->request.expects_continue;
}

/* The refusal is kept: the reader stays FAILED, and never looks at further bytes. */
static bool reader_refuse(qp_http_reader *reader, int status, const char *reason)
{
    return qp_http_refuse(&reader->refusal, status, reason);
}

/* The head is complete: its meaning decides what follows.
 * The request points into reader->head from here on: the buffer does not grow any more. */
static bool reader_end_head(qp_http_reader *reader)
{
    qp_http_framing framing;

    /* Two line ends are the shortest thing that ends a head. */
    assert(reader->head.n >= 4);
    if (!qp_http_head_parse(reader->head.p, reader->head.n, reader->body_max, &reader->request,
                            &framing, &reader->refusal)) {
        return false;
    }
    reader->body_left = framing.chunked ? 0 : framing.length;
    reader->chunk_digits = 0;
    reader->state = framing.chunked      ? QP_HTTP_CHUNK_SIZE
                    : framing.length > 0 ? QP_HTTP_IN_BODY
                                         : QP_HTTP_COMPLETE;
    return true;
}

/* A line of the head ended.
 * RFC 9112 lets servers skip an empty first line; here a request has one form only. */
static bool reader_end_line(qp_http_reader *reader)
{
    bool is_empty = reader->line_size == 0;
    bool is_first = reader->in_first_line;

    reader->after_cr = false;
    reader->in_first_line = false;
    reader->line_size = 0;
    if (is_empty && is_first) {
        return reader_refuse(reader, 400, "the request begins with an empty line");
    }
    return !is_empty || reader_end_head(reader);
}

/* One byte of the head. Control bytes, and a CR or LF alone, are refused here, before any line is
 * looked at: no later step can be misled by them. */
static bool reader_head_byte(qp_http_reader *reader, char byte)
{
    unsigned char c = (unsigned char)byte;

    if (reader->head.n == QP_HTTP_HEAD_MAX) {
        return reader_refuse(reader, 431, "the head of the request is too long");
    }
    /* Both faults at once: a CR without LF, and an LF without CR. */
    if (reader->after_cr != (c == '\n')) {
        return reader_refuse(reader, 400, "a line must end with CR and LF");
    }
    if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f) {
        return reader_refuse(reader, 400, "a control byte in the head");
    }
    qp_buf_putc(&reader->head, byte);
    if (qp_buf_status(&reader->head) != QUIPU_OK) {
        return reader_refuse(reader, 503, "out of memory");
    }
    if (c == '\n') {
        return reader_end_line(reader);
    }
    if (c == '\r') {
        reader->after_cr = true;
        return true;
    }
    if (++reader->line_size > QP_HTTP_LINE_MAX) {
        return reader->in_first_line ? reader_refuse(reader, 414, "the request line is too long")
                                     : reader_refuse(reader, 431, "a header is too long");
    }
    return true;
}

/* The size of a chunk, in hexadecimal digits and nothing else: no sign, no "0x", no extension.
 * The number of digits is bounded, so that the shift cannot overflow. */
static bool reader_chunk_size_byte(qp_http_reader *reader, char c)
{
    unsigned digit = 0;

    if (c == '\r' && reader->chunk_digits > 0) {
        reader->state = QP_HTTP_CHUNK_SIZE_LF;
        return true;
    }
    if (c >= '0' && c <= '9') {
        digit = (unsigned)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
        digit = (unsigned)(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
        digit = (unsigned)(c - 'A') + 10;
    } else {
        return reader_refuse(reader, 400, "a chunk's size must be hexadecimal digits and CRLF");
    }
    if (++reader->chunk_digits > QP_HTTP_CHUNK_DIGITS_MAX) {
        return reader_refuse(reader, 413, "a chunk is too large");
    }
    reader->body_left = reader->body_left << 4 | digit;
    return true;
}

/* The line with a chunk's size ended: data follows, or the end of the body.
 * Checked before the data arrive: a client cannot make the buffer grow beyond the limit. */
static bool reader_end_chunk_size(qp_http_reader *reader)
{
    if (reader->body_left > reader->body_max - reader->body.n) {
        return reader_refuse(reader, 413, "the body is too large");
    }
    reader->state = reader->body_left > 0 ? QP_HTTP_CHUNK_DATA : QP_HTTP_CHUNK_END_CR;
    return true;
}

/* One byte of the frame around chunks. Trailers are refused: a header must not come from there. */
static bool reader_frame_byte(qp_http_reader *reader, char c)
{
    switch (reader->state) {
    case QP_HTTP_CHUNK_SIZE:
        return reader_chunk_size_byte(reader, c);
    case QP_HTTP_CHUNK_SIZE_LF:
        return c == '\n' ? reader_end_chunk_size(reader)
                         : reader_refuse(reader, 400, "a chunk's size must end with CR and LF");
    case QP_HTTP_CHUNK_DATA_CR:
        reader->state = QP_HTTP_CHUNK_DATA_LF;
        return c == '\r' || reader_refuse(reader, 400, "a chunk must end with CR and LF");
    case QP_HTTP_CHUNK_DATA_LF:
        reader->state = QP_HTTP_CHUNK_SIZE;
        reader->chunk_digits = 0;
        return c == '\n' || reader_refuse(reader, 400, "a chunk must end with CR and LF");
    case QP_HTTP_CHUNK_END_CR:
        reader->state = QP_HTTP_CHUNK_END_LF;
        return c == '\r' || reader_refuse(reader, 400, "nothing may follow the last chunk");
    default:
        assert(reader->state == QP_HTTP_CHUNK_END_LF);
        reader->state = QP_HTTP_COMPLETE;
        return c == '\n' || reader_refuse(reader, 400, "the body must end with CR and LF");
    }
}

/* Bytes of a body or of a chunk, as many as belong to it. */
static bool reader_data(qp_http_reader *reader, quipu_str bytes, size_t *ret_used)
{
    size_t n = reader->body_left < bytes.n ? (size_t)reader->body_left : bytes.n;

    assert(reader->body_left > 0 && reader->body.n + n <= reader->body_max);
    qp_buf_put(&reader->body, (quipu_str){bytes.p, n});
    *ret_used = n;
    if (qp_buf_status(&reader->body) != QUIPU_OK) {
        return reader_refuse(reader, 503, "out of memory");
    }
    reader->body_left -= n;
    if (reader->body_left == 0) {
        reader->state = reader->state == QP_HTTP_IN_BODY ? QP_HTTP_COMPLETE : QP_HTTP_CHUNK_DATA_CR;
    }
    return true;
}

/* One step: a byte of the head or of the frame, or a run of data.
 * Data go by runs, because a body byte by byte would cost more than all else. */
static bool reader_step(qp_http_reader *reader, quipu_str bytes, size_t *ret_used)
{
    *ret_used = 1;
    if (reader->state == QP_HTTP_IN_HEAD) {
        return reader_head_byte(reader, bytes.p[0]);
    }
    if (reader->state == QP_HTTP_IN_BODY || reader->state == QP_HTTP_CHUNK_DATA) {
        return reader_data(reader, bytes, ret_used);
    }
    return reader_frame_byte(reader, bytes.p[0]);
}

/* Whether the head ended with the last step, and a body follows. */
static bool reader_left_head(const qp_http_reader *reader, bool was_in_head)
{
    return was_in_head && reader->state != QP_HTTP_IN_HEAD && reader->state != QP_HTTP_COMPLETE &&
           reader->state != QP_HTTP_FAILED;
}

/* Stops at the end of a head and at the end of a request, so that the caller can check the one
 * before the body is kept, and answer the other before the next one is read. */
qp_http_result qp_http_read(qp_http_reader *reader, quipu_str bytes, size_t *ret_used)
{
    bool was_in_head = reader->state == QP_HTTP_IN_HEAD;
    size_t at = 0;

    assert(reader->state != QP_HTTP_COMPLETE);
    while (at < bytes.n && reader->state != QP_HTTP_COMPLETE && reader->state != QP_HTTP_FAILED &&
           !reader_left_head(reader, was_in_head)) {
        size_t used = 0;

        if (!reader_step(reader, (quipu_str){bytes.p + at, bytes.n - at}, &used)) {
            reader->state = QP_HTTP_FAILED;
        }
        at += used;
    }
    *ret_used = at;
    if (reader->state == QP_HTTP_COMPLETE) {
        /* The reader owns the bytes until qp_http_reader_next(). */
        reader->request.body = qp_buf_str(&reader->body);
        return QP_HTTP_REQUEST;
    }
    if (reader_left_head(reader, was_in_head)) {
        return QP_HTTP_BODY_FOLLOWS;
    }
    return reader->state == QP_HTTP_FAILED ? QP_HTTP_REFUSED : QP_HTTP_MORE;
}
