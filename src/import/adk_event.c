/* An event of an ADK file as the JSON text that ADK itself would write: copied where the file has
 * JSON, assembled from columns where it does not.
 *
 * Called by: adk.c. Result: source->buf, valid until the next event. No locks; the caller holds the
 * read transaction.
 * On failure source->buf is undefined; the error says what is wrong, the caller adds the row.
 * Owns: the form of an assembled event. */
#include "import/source.h"

#include <string.h>

#include "adk/event_parts.h"
#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/time.h"
#include "gen/adk_database.h"
#include "gen/adk_go.h"
#include "gen/adk_sqlite.h"
#include "gen/adk_v0.h"
#include "import/pickle.h"

/* In a second. */
#define ADK_MICROSECONDS 1000000

/* ---- times ------------------------------------------------------------------------------------
 */

/* Rounds to microseconds, the resolution of ADK's clock. A double holds them exactly enough until
 * the year 2255. Floor first, then the fraction: the cast rounds towards zero, which is up before
 * 1970. */
quipu_status qp_adk_seconds(double seconds, quipu_time *ret_time)
{
    quipu_time time;
    int64_t micros;

    /* Refuses NaN as well; within the bounds the cast below is defined. */
    if (!(seconds >= (double)QP_TIME_S_MIN && seconds <= (double)QP_TIME_S_MAX)) {
        return QUIPU_INVALID;
    }
    time = (quipu_time){(int64_t)seconds, 0};
    time.s -= (double)time.s > seconds ? 1 : 0;
    /* Round to the nearest microsecond; a full second carries over. */
    micros = (int64_t)((seconds - (double)time.s) * ADK_MICROSECONDS + 0.5);
    if (micros >= ADK_MICROSECONDS) {
        time.s++;
    } else {
        time.ns = (uint32_t)micros * 1000;
    }
    if (!qp_time_valid(time)) {
        return QUIPU_INVALID;
    }
    *ret_time = time;
    return QUIPU_OK;
}

/* A date, else a number of seconds as text: SQLite columns may hold either, whatever they are
 * declared as. The JSON reader is used for the number, because strtod() depends on the locale. */
quipu_status qp_adk_time(quipu_str text, quipu_time *ret_time)
{
    qp_json_doc doc;
    double seconds = 0;
    quipu_status status = quipu_time_parse(text, ret_time);

    if (status == QUIPU_OK) {
        return QUIPU_OK;
    }
    qp_json_init(&doc);
    status = qp_json_parse(&doc, text, NULL, NULL);
    if (status == QUIPU_OK) {
        status = qp_json_double(qp_json_root(&doc), &seconds) == QP_JSON_NO_NUMBER
                     ? QUIPU_INVALID
                     : qp_adk_seconds(seconds, ret_time);
    }
    qp_json_free(&doc);
    return status;
}

/* ---- events that are JSON ---------------------------------------------------------------------
 */

/* Whether a member, in either spelling, has this text. A null, or a member of another type, does
 * not count as agreeing. */
static bool adk_event_says(qp_json_node root, const char *camel, const char *snake, quipu_str text)
{
    qp_json_node node = qp_json_get(root, quipu_cstr(snake));

    if (qp_json_kind_of(node) == QP_JSON_NONE) {
        node = qp_json_get(root, quipu_cstr(camel));
    }
    return qp_json_kind_of(node) == QP_JSON_STRING && qp_json_text_is(node, text);
}

/* The values of an event's columns besides its JSON. */
typedef struct adk_event_columns {
    quipu_str id;         /* wins over the one in the JSON */
    quipu_str invocation; /* wins, too; or absent */
    ent_opt_time time;    /* used only where the JSON has none */
} adk_event_columns;

/* Whether the event's JSON has a timestamp of its own. */
static bool adk_event_has_time(qp_json_node root)
{
    const qp_json_kind kind = qp_json_kind_of(qp_json_get(root, QUIPU_STR("timestamp")));

    return kind != QP_JSON_NONE && kind != QP_JSON_NULL;
}

/* Writes the event again: id and invocation id from the columns, and their time when the JSON has
 * none. All other members are copied byte for byte, in their order. */
static quipu_status adk_event_rewrite(qp_source *source, const adk_event_columns *columns,
                                      quipu_error *reterr)
{
    const qp_json_node root = qp_json_root(&source->doc);
    const bool timed = adk_event_has_time(root);
    char seconds[QP_EVENT_TIME_SIZE];
    qp_jsonw writer;
    qp_json_iter iter = qp_json_each(root);

    qp_jsonw_begin(&writer, &source->buf);
    qp_jsonw_object(&writer);
    /* Members that are written below are left out here, in both spellings. */
    while (qp_json_next(&iter)) {
        if (!qp_json_text_is(iter.key, QUIPU_STR("id")) &&
            !qp_json_text_is(iter.key, QUIPU_STR("invocation_id")) &&
            !qp_json_text_is(iter.key, QUIPU_STR("invocationId")) &&
            (timed || !qp_json_text_is(iter.key, QUIPU_STR("timestamp")))) {
            qp_jsonw_raw_key(&writer, qp_json_raw(iter.key));
            qp_jsonw_raw(&writer, qp_json_raw(iter.value));
        }
    }
    qp_jsonw_key(&writer, QUIPU_STR("id"));
    qp_jsonw_str(&writer, columns->id);
    if (columns->invocation.p != NULL) {
        qp_jsonw_key(&writer, QUIPU_STR("invocation_id"));
        qp_jsonw_str(&writer, columns->invocation);
    }
    if (!timed && columns->time.has) {
        qp_jsonw_key(&writer, QUIPU_STR("timestamp"));
        qp_jsonw_raw(&writer, qp_event_seconds(columns->time.v, false, seconds));
    }
    qp_jsonw_object_end(&writer);
    quipu_status status = qp_jsonw_end(&writer);
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "the event cannot be written");
}

/* ADK reads id and invocation id from the columns and the time from the JSON, so these win. Most
 * events agree with their columns and are copied unchanged. */
static quipu_status adk_event_data(qp_source *source, quipu_str data,
                                   const adk_event_columns *columns, quipu_error *reterr)
{
    /* A NULL column, or JSON's null in it: an event that has its columns only. */
    const bool none = data.p == NULL || quipu_str_eq(data, QUIPU_STR("null"));
    quipu_status status = qp_json_parse(&source->doc, none ? QUIPU_STR("{}") : data, NULL, reterr);
    qp_json_node root;

    if (status != QUIPU_OK) {
        return status;
    }
    root = qp_json_root(&source->doc);
    if (qp_json_kind_of(root) != QP_JSON_OBJECT) {
        return qp_error_set(reterr, QUIPU_INVALID, "event_data is not a JSON object");
    }
    if (adk_event_says(root, "id", "id", columns->id) &&
        (columns->invocation.p == NULL ||
         adk_event_says(root, "invocationId", "invocation_id", columns->invocation)) &&
        (adk_event_has_time(root) || !columns->time.has)) {
        /* The text needs no change and stays as ADK has written it, byte for byte. */
        qp_buf_put(&source->buf, data);
        status = qp_buf_status(&source->buf);
        return status == QUIPU_OK ? QUIPU_OK
                                  : qp_error_set(reterr, status, "no memory for an event");
    }
    return adk_event_rewrite(source, columns, reterr);
}

/* ---- events that are columns ------------------------------------------------------------------
 */

/* A member whose column has JSON text. Absent and null are left out; text that is not JSON fails
 * the buffer. The column is text of another program, which nobody has checked before. The writer
 * needs a value behind the key in any case. */
static void adk_event_json_member(qp_jsonw *writer, const char *name, quipu_json value)
{
    if (value.text.p != NULL && value.text.n > 0 && !quipu_str_eq(value.text, QUIPU_STR("null"))) {
        qp_jsonw_key(writer, quipu_cstr(name));
        if (qp_json_check(value.text, NULL, NULL) == QUIPU_OK) {
            qp_jsonw_raw(writer, value.text);
        } else {
            qp_buf_fail(writer->buf, QUIPU_INVALID);
            qp_jsonw_null(writer);
        }
    }
}

/* A member from a text column; NULL is left out. */
static void adk_event_text_member(qp_jsonw *writer, const char *name, quipu_str value)
{
    if (value.p != NULL) {
        qp_jsonw_key(writer, quipu_cstr(name));
        qp_jsonw_str(writer, value);
    }
}

/* NULL is left out, as ADK does for None. */
static void adk_event_bool_member(qp_jsonw *writer, const char *name, ent_opt_bool value)
{
    if (value.has) {
        qp_jsonw_key(writer, quipu_cstr(name));
        qp_jsonw_bool(writer, value.v);
    }
}

/* Layout 0 of ADK for Python: a column for each field, and actions as a pickle. Members come in the
 * order in which ADK declares them, so that the text looks like ADK's own. The pickle goes to
 * `extra` first: a bad one must not leave half an event in the buffer. */
static quipu_status adk_event_v0(qp_source *source, const qp_adk0_event *row, quipu_error *reterr)
{
    char seconds[QP_EVENT_TIME_SIZE];
    quipu_time time = {0, 0};
    qp_jsonw writer;
    quipu_status status = QUIPU_OK;

    if (row->timestamp.p == NULL || qp_adk_time(row->timestamp, &time) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "its time cannot be read");
    }
    qp_buf_reset(&source->extra);
    /* An event without actions has no such member. */
    if (row->actions.p != NULL) {
        status = qp_pickle_json(row->actions, &source->extra, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &source->buf);
    qp_jsonw_object(&writer);
    adk_event_json_member(&writer, "content", row->content);
    adk_event_json_member(&writer, "grounding_metadata", row->grounding_metadata);
    adk_event_bool_member(&writer, "partial", row->partial);
    adk_event_bool_member(&writer, "turn_complete", row->turn_complete);
    adk_event_text_member(&writer, "error_code", row->error_code);
    adk_event_text_member(&writer, "error_message", row->error_message);
    adk_event_bool_member(&writer, "interrupted", row->interrupted);
    adk_event_json_member(&writer, "custom_metadata", row->custom_metadata);
    adk_event_json_member(&writer, "usage_metadata", row->usage_metadata);
    adk_event_json_member(&writer, "input_transcription", row->input_transcription);
    adk_event_json_member(&writer, "output_transcription", row->output_transcription);
    adk_event_json_member(&writer, "citation_metadata", row->citation_metadata);
    adk_event_text_member(&writer, "invocation_id", row->invocation_id);
    adk_event_text_member(&writer, "author", row->author);
    if (row->actions.p != NULL) {
        qp_jsonw_key(&writer, QUIPU_STR("actions"));
        qp_jsonw_raw(&writer, qp_buf_str(&source->extra));
    }
    adk_event_json_member(&writer, "long_running_tool_ids", row->long_running_tool_ids);
    adk_event_text_member(&writer, "branch", row->branch);
    adk_event_text_member(&writer, "id", row->event_id);
    qp_jsonw_key(&writer, QUIPU_STR("timestamp"));
    qp_jsonw_raw(&writer, qp_event_seconds(time, false, seconds));
    qp_jsonw_object_end(&writer);
    return qp_jsonw_end(&writer);
}

/* Go omits empty texts when it writes JSON. */
static quipu_str adk_event_unless_empty(quipu_str text)
{
    return text.n > 0 ? text : (quipu_str){NULL, 0};
}

/* Go omits false as well. */
static ent_opt_bool adk_event_if_true(ent_opt_bool value)
{
    return (ent_opt_bool){value.has && value.v, true};
}

/* ADK for Go: a column for each field, camelCase, times as RFC 3339. JSON columns are in camelCase
 * already, as Go's structs are tagged. */
static quipu_status adk_event_go(qp_source *source, const qp_adkgo_event *row, quipu_error *reterr)
{
    char stamp[QP_TIME_RFC3339_SIZE];
    quipu_time time = {0, 0};
    qp_jsonw writer;

    if (row->timestamp.p == NULL || qp_adk_time(row->timestamp, &time) != QUIPU_OK ||
        qp_time_rfc3339(time, stamp, NULL) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "its time cannot be read");
    }
    qp_jsonw_begin(&writer, &source->buf);
    qp_jsonw_object(&writer);
    adk_event_json_member(&writer, "content", row->content);
    adk_event_json_member(&writer, "citationMetadata", row->citation_metadata);
    adk_event_json_member(&writer, "groundingMetadata", row->grounding_metadata);
    adk_event_json_member(&writer, "usageMetadata", row->usage_metadata);
    adk_event_json_member(&writer, "customMetadata", row->custom_metadata);
    adk_event_bool_member(&writer, "partial", adk_event_if_true(row->partial));
    adk_event_bool_member(&writer, "turnComplete", adk_event_if_true(row->turn_complete));
    adk_event_bool_member(&writer, "interrupted", adk_event_if_true(row->interrupted));
    adk_event_text_member(&writer, "errorCode", adk_event_unless_empty(row->error_code));
    adk_event_text_member(&writer, "errorMessage", adk_event_unless_empty(row->error_message));
    adk_event_text_member(&writer, "id", row->event_id);
    adk_event_text_member(&writer, "timestamp", quipu_cstr(stamp));
    adk_event_text_member(&writer, "invocationId", adk_event_unless_empty(row->invocation_id));
    adk_event_text_member(&writer, "branch", adk_event_unless_empty(row->branch));
    adk_event_text_member(&writer, "isolationScope", adk_event_unless_empty(row->isolation_scope));
    adk_event_text_member(&writer, "author", adk_event_unless_empty(row->author));
    adk_event_json_member(&writer, "actions", row->actions);
    adk_event_json_member(&writer, "longRunningToolIds", row->long_running_tool_ids);
    adk_event_json_member(&writer, "routes", row->routes);
    adk_event_json_member(&writer, "output", row->output);
    adk_event_json_member(&writer, "nodeInfo", row->node_info);
    adk_event_json_member(&writer, "requestedInput", row->requested_input);
    qp_jsonw_object_end(&writer);
    return qp_jsonw_end(&writer);
}

/* ---- any of them ------------------------------------------------------------------------------
 */

/* The event of one row, by the kind of the file. The row lies in source->row until the next event.
 * A time that cannot be read counts as absent here: adk_places() has refused the file for it
 * before. */
quipu_status qp_adk_event_json(qp_source *source, int64_t row, quipu_error *reterr)
{
    const void *keys[] = {&row};
    const void *found = NULL;
    quipu_status status =
        ent_get(source->db, &source->row, &source->event, -1, keys, &found, reterr);

    qp_buf_reset(&source->buf);
    if (status != QUIPU_OK) {
        return status;
    }
    switch (source->kind) {
    case QUIPU_SOURCE_ADK_V0:
        status = adk_event_v0(source, found, reterr);
        break;
    case QUIPU_SOURCE_ADK_GO:
        status = adk_event_go(source, found, reterr);
        break;
    case QUIPU_SOURCE_ADK_SQLITE: {
        /* The event is JSON in one column; the time beside it is a number of seconds. */
        const qp_adks_event *event = found;
        adk_event_columns columns = {.id = event->event_id, .invocation = event->invocation_id};

        columns.time.has =
            event->timestamp.has && qp_adk_seconds(event->timestamp.v, &columns.time.v) == QUIPU_OK;
        return adk_event_data(source, event->event_data.text, &columns, reterr);
    }
    default: {
        /* The same, with the time as text. */
        const qp_adk_event *event = found;
        adk_event_columns columns = {.id = event->event_id, .invocation = event->invocation_id};

        columns.time.has = event->timestamp.p != NULL &&
                           qp_adk_time(event->timestamp, &columns.time.v) == QUIPU_OK;
        return adk_event_data(source, event->event_data.text, &columns, reterr);
    }
    }
    /* Only the two layouts of columns come here; a failed buffer has no message of its own. */
    if (status != QUIPU_OK && qp_buf_status(&source->buf) != QUIPU_OK) {
        return qp_error_set(reterr, status, "a column is not JSON, or the event is too large");
    }
    return status;
}
