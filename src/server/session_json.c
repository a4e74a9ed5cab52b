/* Sessions, settings and messages as JSON (session_json.h). Called by handlers, on workers; the
 * tables are constant after the start. Owns nothing. */
#include "server/session_json.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"

/* "agent_id" becomes "agentId". */
static void json_camel(const char *from, char to[QP_FIELD_NAME_MAX])
{
    size_t n = 0;

    for (; *from != '\0' && n + 1 < QP_FIELD_NAME_MAX; from++) {
        if (*from == '_' && from[1] >= 'a' && from[1] <= 'z') {
            from++;
            to[n++] = (char)(*from - 'a' + 'A');
        } else {
            to[n++] = *from;
        }
    }
    to[n] = '\0';
}

quipu_status qp_fields_read(const char *struct_name, qp_fields *ret_fields, quipu_error *reterr)
{
    quipu_field field = QUIPU_FIELD_INIT;

    *ret_fields = (qp_fields){.count = 0};
    for (size_t i = 0; quipu_field_get(struct_name, i, &field); i++) {
        if (i == QP_FIELDS_MAX) {
            return qp_error_set(reterr, QUIPU_LIMIT, "%s has too many fields", struct_name);
        }
        json_camel(field.name, ret_fields->items[i].name);
        ret_fields->items[i].field = field;
        ret_fields->count++;
        field = (quipu_field)QUIPU_FIELD_INIT;
    }
    return QUIPU_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const void *json_member(const void *from, uint32_t offset)
{
    return (const char *)from + offset;
}

/* Whether a member has a value that is shown: absent texts and unset times have none. */
static bool json_is_there(const quipu_field *field, const void *from)
{
    const void *member = json_member(from, field->offset);

    if (field->has_offset != QUIPU_FIELD_NO_HAS) {
        return *(const bool *)json_member(from, field->has_offset);
    }
    switch ((quipu_field_type)field->type) {
    case QUIPU_FIELD_TEXT:
        return ((const quipu_str *)member)->p != NULL;
    case QUIPU_FIELD_BYTES:
        return ((const quipu_bytes *)member)->p != NULL;
    case QUIPU_FIELD_JSON:
        return ((const quipu_json *)member)->text.p != NULL;
    default:
        return true;
    }
}

static void json_put_time(qp_jsonw *writer, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (qp_time_rfc3339(time, text, NULL) == QUIPU_OK) {
        qp_jsonw_str(writer, quipu_cstr(text));
    } else {
        qp_jsonw_null(writer);
    }
}

static void json_put_uuid(qp_jsonw *writer, quipu_uuid uuid)
{
    char text[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(uuid, text);
    qp_jsonw_str(writer, quipu_cstr(text));
}

static void json_put_value(qp_jsonw *writer, quipu_field_type type, const void *member)
{
    switch (type) {
    case QUIPU_FIELD_INT:
        qp_jsonw_i64(writer, *(const int64_t *)member);
        break;
    case QUIPU_FIELD_FLOAT:
        qp_jsonw_double(writer, *(const double *)member);
        break;
    case QUIPU_FIELD_BOOL:
        qp_jsonw_bool(writer, *(const bool *)member);
        break;
    case QUIPU_FIELD_TEXT:
        qp_jsonw_str(writer, *(const quipu_str *)member);
        break;
    case QUIPU_FIELD_BYTES:
        qp_base64_json(writer, *(const quipu_bytes *)member);
        break;
    case QUIPU_FIELD_TIME:
        json_put_time(writer, *(const quipu_time *)member);
        break;
    case QUIPU_FIELD_UUID:
        json_put_uuid(writer, *(const quipu_uuid *)member);
        break;
    case QUIPU_FIELD_ENUM:
        qp_jsonw_i64(writer, *(const int *)member);
        break;
    case QUIPU_FIELD_JSON:
        qp_jsonw_raw(writer, ((const quipu_json *)member)->text);
        break;
    }
}

void qp_fields_write(qp_jsonw *writer, const qp_fields *fields, const void *from)
{
    qp_jsonw_object(writer);
    for (size_t i = 0; i < fields->count; i++) {
        const quipu_field *field = &fields->items[i].field;

        if (json_is_there(field, from)) {
            qp_jsonw_key(writer, quipu_cstr(fields->items[i].name));
            json_put_value(writer, (quipu_field_type)field->type, json_member(from, field->offset));
        }
    }
    qp_jsonw_object_end(writer);
}

quipu_status qp_fields_messages(qp_jsonw *writer, quipu_messages messages, quipu_arena *arena,
                                quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    qp_jsonw_array(writer);
    for (size_t i = 0; i < messages.count && status == QUIPU_OK; i++) {
        quipu_str json;

        quipu_arena_reset(arena); /* one message at a time */
        status = quipu_message_json(messages, i, arena, &json, reterr);
        if (status == QUIPU_OK) {
            qp_jsonw_raw(writer, json);
        }
    }
    qp_jsonw_array_end(writer);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Two programs could read a repeated member in two ways, so that none is accepted. */
static quipu_status json_check_repeats(qp_json_node object, const char *what, quipu_error *reterr)
{
    bool repeats = false;
    quipu_status status = qp_json_repeats(object, &repeats);

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "out of memory");
    }
    return repeats ? qp_error_set(reterr, QUIPU_INVALID, "%s has a member twice", what) : QUIPU_OK;
}

quipu_status qp_body_parse(const qp_call *call, qp_json_doc *doc, quipu_error *reterr)
{
    quipu_str type = qp_http_header(call->request, "content-type");
    quipu_status status;

    qp_json_init(doc);
    if (type.n < 16 || memcmp(type.p, "application/json", 16) != 0) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the body must be of Content-Type "
                            "application/json");
    }
    status = qp_json_parse(doc, call->request->body, NULL, reterr);
    if (status == QUIPU_OK && qp_json_kind_of(qp_json_root(doc)) != QP_JSON_OBJECT) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the body must be a JSON object");
    }
    return status == QUIPU_OK ? json_check_repeats(qp_json_root(doc), "the body", reterr) : status;
}

quipu_status qp_body_number(const char *name, qp_json_node value, int64_t *ret_number,
                            quipu_error *reterr)
{
    int64_t number = 0;

    if (qp_json_int64(value, &number) != QP_JSON_EXACT) {
        return qp_error_field(reterr, QUIPU_INVALID, "body", name, "type",
                              "%s must be a whole number", name);
    }
    *ret_number = number;
    return QUIPU_OK;
}

quipu_status qp_body_unknown(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_INVALID, "the body has a member that is unknown");
}

/* Sets a text, JSON or a number; false: the value is of another kind. null is the value of no
 * setting: absent, and for a number `no_number`. */
static bool json_take(const quipu_field *field, char *member, qp_json_node value, int64_t no_number,
                      quipu_arena *arena)
{
    bool is_null = qp_json_kind_of(value) == QP_JSON_NULL;
    quipu_str text = QP_STR_ABSENT;
    int64_t number = no_number;

    switch ((quipu_field_type)field->type) {
    case QUIPU_FIELD_TEXT:
        if (!is_null && (qp_json_kind_of(value) != QP_JSON_STRING ||
                         qp_json_text_copy(value, arena, &text) != QUIPU_OK)) {
            return false;
        }
        memcpy(member, &text, sizeof(text));
        return true;
    case QUIPU_FIELD_JSON:
        text = is_null ? text : qp_json_raw(value);
        memcpy(member, &text, sizeof(text)); /* a quipu_json is one text */
        return true;
    case QUIPU_FIELD_INT:
        if (!is_null && qp_json_int64(value, &number) != QP_JSON_EXACT) {
            return false;
        }
        memcpy(member, &number, sizeof(number));
        return true;
    default:
        return false; /* no setting has another type */
    }
}

quipu_status qp_fields_set(const qp_fields *fields, void *to, uint32_t *set, qp_json_node name,
                           qp_json_node value, quipu_arena *arena, quipu_error *reterr)
{
    for (size_t i = 0; i < fields->count; i++) {
        const quipu_field *field = &fields->items[i].field;

        if (!qp_json_text_is(name, quipu_cstr(fields->items[i].name))) {
            continue;
        }
        /* A change to null clears: the only number, ttlMs, is "never expires" then. A new session
         * has the store's. */
        if (!json_take(field, (char *)to + field->offset, value, set != NULL ? -1 : 0, arena)) {
            return qp_error_field(reterr, QUIPU_INVALID, "body", fields->items[i].name, "type",
                                  "%s has a value of a wrong type", fields->items[i].name);
        }
        if (set != NULL) {
            *set |= field->bit;
        }
        return QUIPU_OK;
    }
    return qp_body_unknown(reterr);
}

quipu_status qp_body_messages(qp_json_node array, quipu_arena *arena, quipu_messages *ret_messages,
                              quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(array);
    size_t count = qp_json_count(array);
    quipu_message *messages;
    size_t at = 0;

    if (qp_json_kind_of(array) != QP_JSON_ARRAY) {
        return qp_error_set(reterr, QUIPU_INVALID, "messages must be an array");
    }
    if (count > QUIPU_BATCH_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "at most %d messages in one request",
                            QUIPU_BATCH_MAX);
    }
    messages = quipu_arena_alloc(arena, count * sizeof(*messages) + 1);
    if (messages == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    while (qp_json_next(&each)) {
        quipu_messages one;
        quipu_status status = json_check_repeats(each.value, "a message", reterr);

        if (status == QUIPU_OK) {
            status = quipu_message_parse(qp_json_raw(each.value), arena, &one, reterr);
        }
        if (status != QUIPU_OK) {
            return status;
        }
        assert(one.count == 1 && at < count);
        messages[at++] = *quipu_message_at(one, 0);
    }
    *ret_messages = quipu_messages_of(messages, count);
    return QUIPU_OK;
}
