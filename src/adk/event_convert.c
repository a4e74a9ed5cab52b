/* An event in the dialect of a runtime: names in camelCase or snake_case, bytes in either alphabet
 * of base64, the time as seconds or as text. Only names that event_name.c lists are rewritten: the
 * user's own names and values stay byte for byte.
 *
 * Owns: nothing beyond the call; convert_run is on the stack. Called by: event.c, after decoding.
 * On return: the buffer holds a complete event, or the status says why it does not.
 * Locks: none; the event and the buffer are the caller's. */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/event_parts.h"
#include "base/error.h"
#include "base/time.h"

/* The writer and its buffer: the buffer is also changed behind the writer's back, for base64. */
typedef struct convert_run {
    const quipu_event_dialect *dialect;
    qp_jsonw writer;
    qp_buf *buf;
} convert_run;

static void convert_value(convert_run *run, qp_json_node node, qp_name_kind kind, int depth);

/* Writes a member's name in the wanted spelling. `name` is the snake_case form from event_name.c,
 * NULL for a name that ADK does not define; names of one word are the same in both spellings. A
 * name that is not rewritten keeps its escapes. */
static void convert_key(convert_run *run, qp_json_node key, const char *name)
{
    const quipu_key_case wanted = run->dialect->key_case;
    char camel[QP_NAME_SIZE];

    if (name == NULL || wanted == QUIPU_KEYS_AS_STORED || strchr(name, '_') == NULL) {
        qp_jsonw_raw_key(&run->writer, qp_json_raw(key));
        return;
    }
    qp_jsonw_key(&run->writer,
                 wanted == QUIPU_KEYS_SNAKE ? quipu_cstr(name) : qp_name_camel(name, camel));
}

/* Maps base64 from one alphabet to the other in place, in the output buffer. A string with escapes
 * is not base64 that ADK writes and stays as it is. */
static void convert_bytes(convert_run *run, qp_json_node node)
{
    const quipu_str raw = qp_json_raw(node);
    const bool url = run->dialect->bytes == QUIPU_BYTES_URL;
    size_t start;

    /* Copied first: most values stay as they are. */
    qp_jsonw_raw(&run->writer, raw);
    if (run->dialect->bytes == QUIPU_BYTES_AS_STORED || qp_json_kind_of(node) != QP_JSON_STRING ||
        qp_buf_status(run->buf) != QUIPU_OK || memchr(raw.p, '\\', raw.n) != NULL) {
        return;
    }
    /* The string was copied as it is; change the letters in the buffer. */
    start = run->buf->n - raw.n;
    for (size_t i = start; i < run->buf->n; i++) {
        char *c = &run->buf->p[i];
        *c = url ? (*c == '+'   ? '-'
                    : *c == '/' ? '_'
                                : *c)
                 : (*c == '-'   ? '+'
                    : *c == '_' ? '/'
                                : *c);
    }
}

/* The event's own timestamp, at depth 0. A value that cannot be read as a time stays as it is. */
static void convert_time(convert_run *run, qp_json_node node)
{
    const bool text = qp_json_kind_of(node) == QP_JSON_STRING;
    char written[QP_EVENT_TIME_SIZE];
    quipu_time time = {0, 0};

    /* Only the two conversions that the dialect can ask for; everything else is copied below. */
    if (text && run->dialect->time == QUIPU_TIMES_SECONDS) {
        quipu_str raw = qp_json_raw(node);
        if (quipu_time_parse((quipu_str){raw.p + 1, raw.n - 2}, &time) == QUIPU_OK) {
            qp_jsonw_raw(&run->writer, qp_event_seconds(time, false, written));
            return;
        }
    }
    if (!text && run->dialect->time == QUIPU_TIMES_RFC3339 && qp_event_read_seconds(node, &time) &&
        qp_time_rfc3339(time, written, NULL) == QUIPU_OK) {
        qp_jsonw_str(&run->writer, quipu_cstr(written));
        return;
    }
    qp_jsonw_raw(&run->writer, qp_json_raw(node));
}

/* One member of an object whose names are ADK's. `blob`: its "data" is base64. A name with an
 * escape is looked up as it is written, and is then the user's own: ADK escapes none. */
static void convert_member(convert_run *run, const qp_json_iter *member, bool blob, int depth)
{
    const quipu_str raw = qp_json_raw(member->key);
    const quipu_str text = {raw.p + 1, raw.n - 2}; /* without the quotes */
    qp_name_kind kind = QP_NAME_FREE;
    const char *name = qp_name_find(text, &kind);

    /* "timestamp" is a time in the event itself only, and "data" is base64 in a blob only. */
    convert_key(run, member->key, name);
    if (depth == 0 && quipu_str_eq(text, QUIPU_STR("timestamp"))) {
        convert_time(run, member->value);
    } else if (blob && quipu_str_eq(text, QUIPU_STR("data"))) {
        convert_bytes(run, member->value);
    } else {
        convert_value(run, member->value, kind, depth + 1);
    }
}

/* Recurses along the kinds of event_name.c; a subtree that is the user's is copied raw. Depth is
 * bounded by QUIPU_EVENT_DEPTH_MAX, which parsing has enforced. */
static void convert_value(convert_run *run, qp_json_node node, qp_name_kind kind, int depth)
{
    const qp_json_kind is = qp_json_kind_of(node);
    qp_json_iter iter = qp_json_each(node);

    if (kind == QP_NAME_BYTES) {
        convert_bytes(run, node);
    } else if (kind == QP_NAME_FREE || (is != QP_JSON_OBJECT && is != QP_JSON_ARRAY)) {
        qp_jsonw_raw(&run->writer, qp_json_raw(node));
    } else if (is == QP_JSON_ARRAY) {
        qp_jsonw_array(&run->writer);
        while (qp_json_next(&iter)) {
            convert_value(run, iter.value, kind, depth + 1);
        }
        qp_jsonw_array_end(&run->writer);
    } else {
        qp_jsonw_object(&run->writer);
        while (qp_json_next(&iter)) {
            /* The names of a map are the user's, its values are objects of ADK. */
            if (kind == QP_NAME_MAP) {
                qp_jsonw_raw_key(&run->writer, qp_json_raw(iter.key));
                convert_value(run, iter.value, QP_NAME_MODEL, depth + 1);
            } else {
                convert_member(run, &iter, kind == QP_NAME_BLOB, depth);
            }
        }
        qp_jsonw_object_end(&run->writer);
    }
}

/* Parses the event that event_decode.c has just written: only dialects that differ from the stored
 * one pay for it. */
quipu_status qp_event_convert(quipu_str json, const quipu_event_dialect *dialect, qp_buf *buf,
                              quipu_error *reterr)
{
    convert_run run = {.dialect = dialect, .buf = buf};
    quipu_status status;
    qp_json_doc doc;

    qp_json_init(&doc);
    status = qp_event_parse(&doc, json, reterr);
    if (status == QUIPU_OK) {
        qp_jsonw_begin(&run.writer, buf);
        convert_value(&run, qp_json_root(&doc), QP_NAME_MODEL, 0);
        status = qp_jsonw_end(&run.writer);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for the event in another dialect");
        }
    }
    qp_json_free(&doc);
    return status;
}
