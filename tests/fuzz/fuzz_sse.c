/* Any bytes through the event stream parser: whole and cut in pieces they give the same events, and
 * no event carries a line end that was not a data line's. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/buf.h"
#include "model/sse.h"

#define SSE_FUZZ_OUT_MAX ((size_t)1 << 24)
#define SSE_FUZZ_LINE_MAX 64
#define SSE_FUZZ_EVENT_MAX 128

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("data: {\"a\":1}\n\ndata: [DONE]\n\n"),
    FUZZ_SEED("\xef\xbb\xbf: hello\r\nevent: message_start\r\ndata: {}\r\n\r\n"),
    FUZZ_SEED("id: 7\rretry: 100\rdata: a\rdata: b\r\r"),
    FUZZ_SEED("event: ping\ndata: {\"type\": \"ping\"}\n\n:\n\nnonsense\ndata\n\n"),
    {NULL, 0}};

static quipu_status sse_fuzz_note(void *ctx, const qp_sse_event *event, quipu_error *reterr)
{
    qp_buf *out = ctx;

    (void)reterr;
    FUZZ_CHECK(event->data.n <= SSE_FUZZ_EVENT_MAX);
    FUZZ_CHECK(event->type.n > 0 && memchr(event->type.p, '\n', event->type.n) == NULL);
    FUZZ_CHECK(memchr(event->data.p, '\r', event->data.n) == NULL);
    qp_buf_put(out, event->type);
    qp_buf_putc(out, '\n');
    qp_buf_put(out, event->id);
    qp_buf_putc(out, '\n');
    qp_buf_put(out, event->data);
    qp_buf_putc(out, '\r');
    return QUIPU_OK;
}

static quipu_status sse_fuzz_run(quipu_str bytes, size_t step, qp_buf *out)
{
    quipu_status status = QUIPU_OK;
    qp_sse sse;

    qp_buf_init(out, SSE_FUZZ_OUT_MAX);
    qp_sse_init(&sse, SSE_FUZZ_LINE_MAX, SSE_FUZZ_EVENT_MAX, sse_fuzz_note, out);
    for (size_t at = 0; at < bytes.n && status == QUIPU_OK; at += step) {
        size_t n = bytes.n - at < step ? bytes.n - at : step;

        status = qp_sse_feed(&sse, (quipu_str){bytes.p + at, n}, NULL);
    }
    qp_sse_free(&sse);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 3, 7};
    quipu_str bytes = {(const char *)data, size};
    qp_buf whole;
    quipu_status status = sse_fuzz_run(bytes, size != 0 ? size : 1, &whole);

    FUZZ_CHECK(status == QUIPU_OK || status == QUIPU_LIMIT);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        qp_buf pieces;

        FUZZ_CHECK(sse_fuzz_run(bytes, steps[i], &pieces) == status);
        FUZZ_CHECK(quipu_str_eq(qp_buf_str(&whole), qp_buf_str(&pieces)));
        qp_buf_free(&pieces);
    }
    qp_buf_free(&whole);
    return 0;
}
