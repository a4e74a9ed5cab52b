/* Any bytes through the reader of HTTP requests: whole and cut in pieces they give the same
 * requests and the same refusal, every text of a request lies within its limits, and no decoded
 * text holds a control byte. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/str.h"
#include "http/transcript.h"

#define HTTP_FUZZ_OUT_MAX ((size_t)1 << 24)
#define HTTP_FUZZ_BODY_MAX 256

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(
        "GET /v1/sessions/adk%3Aapp%2Fu%2F1/tail?after=7&x=a+b HTTP/1.1\r\nHost: a:1\r\n\r\n"),
    FUZZ_SEED("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n"
              "Host: [::1]:8080\r\nConnection: keep-alive\r\n\r\n"),
    FUZZ_SEED("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
              "3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\n"),
    FUZZ_SEED("PUT http://a/b?c HTTP/1.1\r\nHost: A\r\nExpect: 100-continue\r\n"
              "Content-Length: 1\r\nConnection: close\r\n\r\n1"),
    FUZZ_SEED(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\n"),
    FUZZ_SEED("GET /a%00b HTTP/1.1\r\nHost: a\r\nX-A : 1\r\n folded\r\n\r\n"),
    {NULL, 0}};

/* The promises of request.h, for each request of the stream. */
static void http_fuzz_check(const qp_http_request *request)
{
    FUZZ_CHECK(request->method < QP_HTTP_METHODS && request->host.n > 0);
    FUZZ_CHECK(request->body.n <= HTTP_FUZZ_BODY_MAX);
    for (size_t i = 0; i < request->segment_count; i++) {
        quipu_str segment = request->segments[i];

        FUZZ_CHECK(qp_utf8_valid(segment));
        FUZZ_CHECK(!quipu_str_eq(segment, QUIPU_STR("..")));
        for (size_t at = 0; at < segment.n; at++) {
            FUZZ_CHECK((unsigned char)segment.p[at] >= 0x20 && segment.p[at] != 0x7f);
        }
    }
    for (size_t i = 0; i < request->header_count; i++) {
        quipu_str value = request->headers[i].value;

        FUZZ_CHECK(request->headers[i].name.n > 0);
        FUZZ_CHECK(memchr(value.p, '\r', value.n) == NULL && memchr(value.p, 0, value.n) == NULL);
    }
}

static void http_fuzz_promises(quipu_str bytes)
{
    qp_http_reader reader;
    qp_http_result result = QP_HTTP_REQUEST;

    qp_http_reader_init(&reader, HTTP_FUZZ_BODY_MAX);
    while (result == QP_HTTP_REQUEST || result == QP_HTTP_BODY_FOLLOWS) {
        size_t used = 0;

        result = qp_http_read(&reader, bytes, &used);
        FUZZ_CHECK(used <= bytes.n && (result != QP_HTTP_MORE || used == bytes.n));
        FUZZ_CHECK(result != QP_HTTP_BODY_FOLLOWS || reader.body.n == 0);
        bytes = (quipu_str){bytes.p + used, bytes.n - used};
        if (result == QP_HTTP_REQUEST) {
            http_fuzz_check(&reader.request);
            qp_http_reader_next(&reader);
        }
    }
    FUZZ_CHECK(result != QP_HTTP_REFUSED || reader.refusal.status >= 400);
    qp_http_reader_free(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 3, 7};
    quipu_str bytes = {(const char *)data, size};
    qp_buf whole;

    http_fuzz_promises(bytes);
    qp_buf_init(&whole, HTTP_FUZZ_OUT_MAX);
    transcript_read(bytes, size, 1, HTTP_FUZZ_BODY_MAX, &whole);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        qp_buf pieces;

        qp_buf_init(&pieces, HTTP_FUZZ_OUT_MAX);
        transcript_read(bytes, steps[i], steps[i], HTTP_FUZZ_BODY_MAX, &pieces);
        FUZZ_CHECK(quipu_str_eq(qp_buf_str(&whole), qp_buf_str(&pieces)));
        qp_buf_free(&pieces);
    }
    qp_buf_free(&whole);
    return 0;
}
