/* Stored JSON as a member of a result.
 *
 * Owns: nothing. Called by: the tools, inside of an object of the writer. Errors stick in the
 * writer's buffer.
 * Locks: none. */
#include "mcp/request.h"

/* Blanks between tokens are dropped, because a client pays for them and a line of stdio must not
 * contain a line end. Strings stay as they are. */
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
    qp_jsonw_key(out, quipu_cstr(name));
    if (qp_buf_status(&compact) == QUIPU_OK) {
        qp_jsonw_raw(out, qp_buf_str(&compact));
    } else {
        qp_buf_fail(out->buf, qp_buf_status(&compact));
    }
    qp_buf_free(&compact);
}
