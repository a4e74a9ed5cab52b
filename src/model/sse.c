/* The event stream parser (sse.h). Lines are found with memchr and handed on where they lie; only a
 * line that a piece of input cuts is copied.
 *
 *   event: message_delta        field "event" sets the type of the event
 *   data: {"a":                 several data lines are joined with LF
 *   data: 1}
 *   : a comment                 ignored
 *                               an empty line dispatches the event
 *
 * Owns: four buffers, each with a limit, so that a server cannot exhaust memory. Called by:
 * provider/wire.c, on the thread that reads the connection. No locks. */
#include "model/sse.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

#define SSE_FIELD_MAX 65536 /* bytes of an event's type, and of its id */
#define SSE_RETRY_DIGITS_MAX 12

/* Allocates nothing: buffers grow with the first line that needs them. */
void qp_sse_init(qp_sse *sse, size_t line_max, size_t event_max, qp_sse_fn on_event, void *ctx)
{
    *sse = (qp_sse){.on_event = on_event, .ctx = ctx, .retry_ms = -1, .status = QUIPU_OK};
    sse->line_max = line_max != 0 ? line_max : QUIPU_SSE_LINE_MAX;
    qp_buf_init(&sse->line, sse->line_max);
    sse->event_max = event_max != 0 ? event_max : QUIPU_SSE_EVENT_MAX;
    /* Each line has a LF after it, the last one too: it does not count. */
    qp_buf_init(&sse->data, sse->event_max + 1);
    qp_buf_init(&sse->type, SSE_FIELD_MAX);
    qp_buf_init(&sse->id, SSE_FIELD_MAX);
}

/* NULL is fine. The parser may be in any state, also in the middle of an event. */
void qp_sse_free(qp_sse *sse)
{
    if (sse != NULL) {
        qp_buf_free(&sse->line);
        qp_buf_free(&sse->data);
        qp_buf_free(&sse->type);
        qp_buf_free(&sse->id);
    }
}

/* Turns a buffer's state into an error that says what was too large. */
static quipu_status sse_full(const qp_buf *buf, const char *what, quipu_error *reterr)
{
    quipu_status status = qp_buf_status(buf);

    if (status == QUIPU_LIMIT) {
        return qp_error_set(reterr, status, "%s of the event stream passed %zu bytes", what,
                            buf->size_max);
    }
    return status == QUIPU_OK ? status : qp_error_set(reterr, status, "out of memory");
}

/* Moves the single data line from the caller's bytes into the buffer: needed before a second data
 * line, and when the caller's bytes end in the middle of an event. */
static quipu_status sse_settle(qp_sse *sse, quipu_error *reterr)
{
    if (sse->only.p != NULL) {
        qp_buf_put(&sse->data, sse->only);
        qp_buf_putc(&sse->data, '\n');
        sse->only = (quipu_str){NULL, 0};
    }
    return sse_full(&sse->data, "an event", reterr);
}

/* An empty line ends the event. Without data there is no event, but the type is reset all the same
 * (WHATWG). */
static quipu_status sse_dispatch(qp_sse *sse, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (sse->has_data) {
        qp_sse_event event = {.data = sse->only, .id = qp_buf_str(&sse->id)};

        if (event.data.p == NULL) {
            event.data = qp_buf_str(&sse->data);
            assert(event.data.n > 0);
            event.data.n--;
        }
        event.type = sse->type.n > 0 ? qp_buf_str(&sse->type) : QUIPU_STR("message");
        status = sse->on_event(sse->ctx, &event, reterr);
        if (sse->only.p == NULL) {
            qp_buf_reset(&sse->data);
        }
        sse->only = (quipu_str){NULL, 0};
        sse->has_data = false;
    }
    if (sse->type.n > 0) {
        qp_buf_reset(&sse->type);
    }
    return status;
}

/* A data line. The first one that lies in the caller's bytes is only remembered; most events have
 * no second. States of the event's data:
 *
 *   none ──first line, in the caller's bytes──▶ only ──second line, or the bytes end──▶ data
 *     └──first line, cut by the input, or too long───────────────────────────────────▶ data
 */
static quipu_status sse_data(qp_sse *sse, quipu_str value, quipu_error *reterr)
{
    bool first = !sse->has_data;

    assert(sse->only.p == NULL || sse->has_data);
    sse->has_data = true;
    /* Not copied: the event is usually dispatched before the caller's bytes end. */
    if (first && sse->in_bytes && value.n <= sse->event_max) {
        sse->only = value;
        return QUIPU_OK;
    }
    if (sse_settle(sse, reterr) != QUIPU_OK) {
        return qp_buf_status(&sse->data);
    }
    qp_buf_put(&sse->data, value);
    qp_buf_putc(&sse->data, '\n');
    return sse_full(&sse->data, "an event", reterr);
}

/* Digits only; anything else leaves the value, as the standard says. */
static void sse_retry(qp_sse *sse, quipu_str value)
{
    int64_t ms = 0;

    if (value.n == 0 || value.n > SSE_RETRY_DIGITS_MAX) {
        return;
    }
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9') {
            return;
        }
        ms = ms * 10 + (value.p[i] - '0');
    }
    sse->retry_ms = ms;
}

/* The four fields of the standard; unknown names are ignored, an id with NUL too. */
static quipu_status sse_field(qp_sse *sse, quipu_str name, quipu_str value, quipu_error *reterr)
{
    if (name.n == 4 && memcmp(name.p, "data", 4) == 0) {
        return sse_data(sse, value, reterr);
    }
    if (quipu_str_eq(name, QUIPU_STR("event"))) {
        qp_buf_reset(&sse->type);
        qp_buf_put(&sse->type, value);
        return sse_full(&sse->type, "the type of an event", reterr);
    }
    if (quipu_str_eq(name, QUIPU_STR("id"))) {
        /* The standard ignores an id with U+0000. */
        if (memchr(value.p, '\0', value.n) == NULL) {
            qp_buf_reset(&sse->id);
            qp_buf_put(&sse->id, value);
        }
        return sse_full(&sse->id, "the id of an event", reterr);
    }
    if (quipu_str_eq(name, QUIPU_STR("retry"))) {
        sse_retry(sse, value);
    }
    return QUIPU_OK;
}

/* One complete line: empty, comment, "field: value" or "field". */
static quipu_status sse_line(qp_sse *sse, quipu_str line, quipu_error *reterr)
{
    const char *colon;
    quipu_str value = {"", 0};

    if (!sse->begun) {
        sse->begun = true;
        if (line.n >= 3 && memcmp(line.p, "\xef\xbb\xbf", 3) == 0) {
            line = (quipu_str){line.p + 3, line.n - 3};
        }
    }
    if (line.n == 0) {
        return sse_dispatch(sse, reterr);
    }
    /* The most common line is handled without searching for a colon. */
    if (line.n >= 6 && memcmp(line.p, "data: ", 6) == 0) { /* nearly all of them */
        return sse_data(sse, (quipu_str){line.p + 6, line.n - 6}, reterr);
    }
    colon = memchr(line.p, ':', line.n);
    if (colon == line.p) {
        return QUIPU_OK; /* a comment */
    }
    if (colon != NULL) {
        size_t from = (size_t)(colon - line.p) + 1;

        from += from < line.n && line.p[from] == ' ' ? 1 : 0;
        value = (quipu_str){line.p + from, line.n - from};
        line.n = (size_t)(colon - line.p);
    }
    return sse_field(sse, line, value, reterr);
}

/* A line's end was found: the line is the carried beginning plus `piece`, or just `piece`. In
 * the latter case it lies in the caller's bytes, and sse_data() may point into them. */
static quipu_status sse_line_end(qp_sse *sse, quipu_str piece, quipu_error *reterr)
{
    quipu_status status;

    if (sse->line.n == 0 && piece.n <= sse->line_max) {
        sse->in_bytes = true;
        return sse_line(sse, piece, reterr);
    }
    sse->in_bytes = false;
    qp_buf_put(&sse->line, piece);
    status = sse_full(&sse->line, "a line", reterr);
    if (status == QUIPU_OK) {
        status = sse_line(sse, qp_buf_str(&sse->line), reterr);
    }
    qp_buf_reset(&sse->line);
    return status;
}

/* Positions of the next LF and CR are remembered between lines, so that input with one kind of line
 * end is searched once, not once a line. */
quipu_status qp_sse_feed(qp_sse *sse, quipu_str bytes, quipu_error *reterr)
{
    const char *at = bytes.p;
    const char *end = at + bytes.n;
    const char *lf = at; /* the next of each kind, `end` for none; looked for again once passed */
    const char *cr = at;
    bool look = true;

    if (sse->status != QUIPU_OK) {
        return qp_error_set(reterr, sse->status, "the event stream has failed before");
    }
    while (at < end) {
        const char *stop;

        /* CRLF counts as one line end, also when the input is cut between the two. */
        if (sse->after_cr) {
            sse->after_cr = false;
            if (*at == '\n') {
                at++;
                continue;
            }
        }
        if (look || lf < at) {
            lf = memchr(at, '\n', (size_t)(end - at));
            lf = lf != NULL ? lf : end;
        }
        if (look || cr < at) {
            cr = memchr(at, '\r', (size_t)(end - at));
            cr = cr != NULL ? cr : end;
        }
        look = false;
        stop = lf < cr ? lf : cr;
        /* No line end in the rest of the input: carry it over to the next call. */
        if (stop == end) {
            qp_buf_put(&sse->line, (quipu_str){at, (size_t)(end - at)});
            sse->status = sse_full(&sse->line, "a line", reterr);
            break;
        }
        sse->after_cr = *stop == '\r';
        sse->status = sse_line_end(sse, (quipu_str){at, (size_t)(stop - at)}, reterr);
        if (sse->status != QUIPU_OK) {
            return sse->status;
        }
        at = stop + 1;
    }
    if (sse->status == QUIPU_OK) {
        sse->status = sse_settle(sse, reterr); /* the caller's bytes are valid only until now */
    }
    return sse->status;
}
