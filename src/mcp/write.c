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
