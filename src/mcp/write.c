/* Members of JSON objects by C names: what every result of the room is written with.
 *
 * Owns: nothing. Called by: all files of the room, inside of an object of the writer. Errors stick
 * in the writer's buffer. */
#include "mcp/request.h"

#include "base/time.h"

void qp_mcp_put_key(qp_jsonw *out, const char *name)
{
    qp_jsonw_key(out, quipu_cstr(name));
}

void qp_mcp_put(qp_jsonw *out, const char *name, const char *text)
{
    qp_mcp_put_key(out, name);
    qp_jsonw_str(out, quipu_cstr(text));
}

void qp_mcp_put_text(qp_jsonw *out, const char *name, quipu_str text)
{
    if (text.p != NULL) {
        qp_mcp_put_key(out, name);
        qp_jsonw_str(out, text);
    }
}

void qp_mcp_put_int(qp_jsonw *out, const char *name, int64_t value)
{
    qp_mcp_put_key(out, name);
    qp_jsonw_i64(out, value);
}

void qp_mcp_put_bool(qp_jsonw *out, const char *name, bool value)
{
    qp_mcp_put_key(out, name);
    qp_jsonw_bool(out, value);
}

void qp_mcp_put_time(qp_jsonw *out, const char *name, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (qp_time_rfc3339(time, text, NULL) == QUIPU_OK) {
        qp_mcp_put(out, name, text);
    }
}

void qp_mcp_put_json(qp_jsonw *out, const char *name, quipu_json json)
{
    const quipu_str text = json.text;
    bool in_string = false;
    qp_buf compact;

    qp_buf_init(&compact, text.n);
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];

        if (in_string || (c != ' ' && c != '\n' && c != '\t' && c != '\r')) {
            qp_buf_putc(&compact, c);
        }
        if (in_string && c == '\\') {
            qp_buf_putc(&compact, text.p[++i]); /* valid JSON: a backslash is never the last byte */
        } else if (c == '"') {
            in_string = !in_string;
        }
    }
    qp_mcp_put_key(out, name);
    if (qp_buf_status(&compact) == QUIPU_OK) {
        qp_jsonw_raw(out, qp_buf_str(&compact));
    } else {
        qp_buf_fail(out->buf, qp_buf_status(&compact));
    }
    qp_buf_free(&compact);
}
