/* Everything that a reader makes of a stream of bytes, as one text: two ways to cut a stream are
 * the same when their transcripts are. Shared by the tests of the room and the fuzz target. */
#ifndef T_HTTP_TRANSCRIPT_H
#define T_HTTP_TRANSCRIPT_H

#include "base/buf.h"
#include "http/reader.h"

static inline void transcript_fields(qp_buf *out, const char *mark, const qp_http_field *fields,
                                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qp_buf_puts(out, mark);
        qp_buf_put(out, fields[i].name);
        qp_buf_putc(out, '=');
        qp_buf_put(out, fields[i].value);
    }
}

/* One line: "POST [a][b] ?x=1 #host=h keep body<abc>". */
static inline void transcript_request(qp_buf *out, const qp_http_request *request)
{
    qp_buf_puts(out, qp_http_method_name(request->method));
    qp_buf_putc(out, ' ');
    for (size_t i = 0; i < request->segment_count; i++) {
        qp_buf_putc(out, '[');
        qp_buf_put(out, request->segments[i]);
        qp_buf_putc(out, ']');
    }
    transcript_fields(out, " ?", request->parameters, request->parameter_count);
    transcript_fields(out, " #", request->headers, request->header_count);
    qp_buf_puts(out, request->keep_alive ? " keep" : " close");
    qp_buf_puts(out, request->expects_continue ? " continue" : "");
    qp_buf_puts(out, " body<");
    qp_buf_put(out, request->body);
    qp_buf_puts(out, ">\n");
}

/* Feeds `bytes` in pieces that end at `cut` and then after each `step` bytes. Writes a line for
 * each request, then the refusal, or "more" when the stream ends in the middle. */
static inline void transcript_read(quipu_str bytes, size_t cut, size_t step, size_t body_max,
                                   qp_buf *out)
{
    qp_http_reader reader;
    qp_http_result result = QP_HTTP_MORE;
    size_t at = 0;
    size_t end = cut < bytes.n ? cut : bytes.n;

    qp_http_reader_init(&reader, body_max);
    while (at < bytes.n && result != QP_HTTP_REFUSED) {
        while (at < end && result != QP_HTTP_REFUSED) {
            size_t used = 0;

            result = qp_http_read(&reader, (quipu_str){bytes.p + at, end - at}, &used);
            at += used;
            if (result == QP_HTTP_REQUEST) {
                transcript_request(out, &reader.request);
                qp_http_reader_next(&reader);
            }
        }
        end = bytes.n - end < step ? bytes.n : end + step;
    }
    if (result == QP_HTTP_REFUSED) {
        qp_buf_printf(out, "%d %s", reader.refusal.status, reader.refusal.reason);
    } else {
        qp_buf_puts(out, qp_http_reader_is_idle(&reader) ? "idle" : "more");
    }
    qp_http_reader_free(&reader);
}

#endif
