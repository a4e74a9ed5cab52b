/* Structs of fields as JSON objects, by the tables that the schema is the source of (fields.h): the
 * server writes sessions and reads settings with them, a remote store the other way round.
 *
 *   in the struct       in JSON
 *   snake_case          camelCase, turned once a program (qp_fields_read())
 *   int, float, bool    a number or a literal
 *   text                a string
 *   bytes               a string, base64
 *   time                a string, RFC 3339 in UTC
 *   uuid                a string, 8-4-4-4-12
 *   absent              no member
 *
 * Owns: nothing. Called by: src/server, src/remote, base/memory_json.c. Pure; no locks. On return
 * of a reader texts and bytes lie in the caller's arena; a false leaves the struct partly written.
 */
#include "base/fields_json.h"

#include <assert.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"

/* "agent_id" becomes "agentId". */
static void fields_camel(const char *from, char to[QP_FIELD_NAME_MAX])
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

/* Once a program: names are turned from snake_case into camelCase here and not for every row. `get`
 * answers with false behind the last field. `field` is set anew for each: a library of another size
 * fills in the members that it knows. */
quipu_status qp_fields_read(qp_field_fn get, const char *struct_name, qp_json_fields *ret_fields,
                            quipu_error *reterr)
{
    quipu_field field = QUIPU_FIELD_INIT;

    *ret_fields = (qp_json_fields){.count = 0};
    for (size_t i = 0; get(struct_name, i, &field); i++) {
        if (i == QP_FIELDS_MAX) {
            return qp_error_set(reterr, QUIPU_LIMIT, "%s has too many fields", struct_name);
        }
        fields_camel(field.name, ret_fields->items[i].name);
        ret_fields->items[i].field = field;
        ret_fields->count++;
        field = (quipu_field)QUIPU_FIELD_INIT;
    }
    return QUIPU_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Offsets come from the generated tables, which the compiler computed with offsetof(). */
static const void *fields_member(const void *from, uint32_t offset)
{
    return (const char *)from + offset;
}

/* Whether a member has a value that is shown: absent texts and unset times have none. */
static bool fields_is_there(const quipu_field *field, const void *from)
{
    const void *member = fields_member(from, field->offset);

    if (field->has_offset != QUIPU_FIELD_NO_HAS) {
        return *(const bool *)fields_member(from, field->has_offset);
    }
    switch ((quipu_field_type)field->type) {
    case QUIPU_FIELD_TEXT:
        return ((const quipu_str *)member)->p != NULL;
    case QUIPU_FIELD_BYTES:
        return ((const quipu_bytes *)member)->p != NULL;
    case QUIPU_FIELD_JSON:
        return ((const quipu_json *)member)->text.p != NULL;
    case QUIPU_FIELD_ENUM:
        return false; /* callers write its name */
    default:
        return true;
    }
}

/* RFC 3339, as JSON has no time of its own. A time that does not exist is written as null. */
static void fields_put_time(qp_jsonw *writer, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (qp_time_rfc3339(time, text, NULL) == QUIPU_OK) {
        qp_jsonw_str(writer, quipu_cstr(text));
    } else {
        qp_jsonw_null(writer);
    }
}

/* In lower case with hyphens: the form in which clients give it back. */
static void fields_put_uuid(qp_jsonw *writer, quipu_uuid uuid)
{
    char text[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(uuid, text);
    qp_jsonw_str(writer, quipu_cstr(text));
}

/* By the type of the table: a member is read as what the struct declares it as. */
static void fields_put_value(qp_jsonw *writer, quipu_field_type type, const void *member)
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
        fields_put_time(writer, *(const quipu_time *)member);
        break;
    case QUIPU_FIELD_UUID:
        fields_put_uuid(writer, *(const quipu_uuid *)member);
        break;
    case QUIPU_FIELD_ENUM:
        assert(false); /* no table says the names of its values */
        break;
    case QUIPU_FIELD_JSON:
        qp_jsonw_raw(writer, ((const quipu_json *)member)->text);
        break;
    }
}

/* Absent members are left out, so that an older client sees no null where it expects a text. */
void qp_fields_write_one(qp_jsonw *writer, const struct qp_field_name *item, const void *from)
{
    const quipu_field *field = &item->field;

    if (fields_is_there(field, from)) {
        qp_jsonw_key(writer, quipu_cstr(item->name));
        fields_put_value(writer, (quipu_field_type)field->type, fields_member(from, field->offset));
    }
}

/* Without the braces: callers put members of their own beside these. */
void qp_fields_members(qp_jsonw *writer, const qp_json_fields *fields, const void *from)
{
    for (size_t i = 0; i < fields->count; i++) {
        qp_fields_write_one(writer, &fields->items[i], from);
    }
}

/* The whole object. */
void qp_fields_write(qp_jsonw *writer, const qp_json_fields *fields, const void *from)
{
    qp_jsonw_object(writer);
    qp_fields_members(writer, fields, from);
    qp_jsonw_object_end(writer);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Copied: the document is freed before the struct is used. */
static bool fields_take_text(qp_json_node value, quipu_arena *arena, quipu_str *ret_text)
{
    return qp_json_text_copy(value, arena, ret_text) == QUIPU_OK;
}

/* Sets a member from its value; false: the value is of another kind, or memory is used up. The type
 * of `member` is the table's: the generated tables and the structs come from one schema. */
static bool fields_take_value(quipu_field_type type, qp_json_node value, quipu_arena *arena,
                              void *member)
{
    const qp_json_kind kind = qp_json_kind_of(value);
    quipu_str text = QP_STR_ABSENT;

    switch (type) {
    case QUIPU_FIELD_INT:
        return qp_json_int64(value, member) == QP_JSON_EXACT;
    case QUIPU_FIELD_FLOAT:
        return qp_json_double(value, member) != QP_JSON_NO_NUMBER;
    case QUIPU_FIELD_BOOL:
        *(bool *)member = kind == QP_JSON_TRUE;
        return kind == QP_JSON_TRUE || kind == QP_JSON_FALSE;
    case QUIPU_FIELD_TEXT:
        return fields_take_text(value, arena, member);
    case QUIPU_FIELD_BYTES:
        return fields_take_text(value, arena, &text) &&
               qp_base64_read(text, arena, member) == QUIPU_OK;
    case QUIPU_FIELD_TIME:
        return fields_take_text(value, arena, &text) && quipu_time_parse(text, member) == QUIPU_OK;
    case QUIPU_FIELD_UUID:
        return fields_take_text(value, arena, &text) && quipu_uuid_parse(text, member) == QUIPU_OK;
    case QUIPU_FIELD_ENUM:
        return true; /* its name is the caller's to read */
    case QUIPU_FIELD_JSON:
        return quipu_arena_copy(arena, qp_json_raw(value), member) == QUIPU_OK;
    }
    return false;
}

/* A member that is null is not there. It clears the struct's `has` flag, where there is one, and
 * leaves the value alone. */
bool qp_fields_take_one(const struct qp_field_name *item, qp_json_node object, quipu_arena *arena,
                        void *to)
{
    const quipu_field *field = &item->field;
    qp_json_node value = qp_json_get(object, quipu_cstr(item->name));
    const bool is_there = qp_json_kind_of(value) > QP_JSON_NULL;

    if (is_there && !fields_take_value((quipu_field_type)field->type, value, arena,
                                       (char *)to + field->offset)) {
        return false;
    }
    if (field->has_offset != QUIPU_FIELD_NO_HAS) {
        *(bool *)((char *)to + field->has_offset) = is_there;
    }
    return true;
}

/* Unknown members are passed over: a newer server may have sent them. Missing ones stay as the
 * caller set them. */
bool qp_fields_take(const qp_json_fields *fields, qp_json_node object, quipu_arena *arena, void *to)
{
    for (size_t i = 0; i < fields->count; i++) {
        if (!qp_fields_take_one(&fields->items[i], object, arena, to)) {
            return false;
        }
    }
    return qp_json_kind_of(object) == QP_JSON_OBJECT;
}
