/* Rows to JSON and back.
 *
 * Owns: how each type of field is spelled in an export.
 * Called by: export.c and import_*.c.
 * Locks: none. The descriptors decide; no field is named here.
 * On return: what qp_export_row() wrote, qp_import_row() reads into an equal row. On failure the
 * X_new may be half filled: the caller drops it. */
#include "store/export_row.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "ent/row.h"

/* Whether a field does not stand in the line: its value has a meaning in its own database only
 * (local, or a number that the database assigns), or the caller writes it in another form. */
static bool export_row_out(const ent_field *field, const char *const *left_out)
{
    /* Both directions ask this function: a column that an export does not write, an import
     * refuses. */
    bool out = (field->flags & ENT_F_LOCAL) != 0 || (field->flags & ENT_F_AUTO) != 0;

    for (; left_out != NULL && *left_out != NULL && !out; left_out++) {
        out = strcmp(*left_out, field->name) == 0;
    }
    return out;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

/* Whether JSON contains a line break. It may stand between tokens; inside of strings it is
 * escaped. */
static bool export_row_breaks(quipu_str json)
{
    assert(json.p != NULL);
    return memchr(json.p, '\n', json.n) != NULL || memchr(json.p, '\r', json.n) != NULL;
}

/* A line of an export is one line: JSON that breaks lines is carried as a string, byte for byte,
 * because re-spelling it would change what the caller stored.
 *
 *    {"a":1}           "extra":{"a":1}              as it stands
 *    {<LF>"a":1}       "extra_text":"{\n\"a\":1}"   as a string */
static void export_row_json(qp_jsonw *writer, const char *name, quipu_str json)
{
    char longer[QP_EXPORT_NAME_MAX + sizeof(QP_EXPORT_TEXT_SUFFIX)];

    /* One line that is not JSON would make the whole export unreadable. */
    if (qp_json_check(json, NULL, NULL) != QUIPU_OK) {
        qp_buf_fail(writer->buf, QUIPU_CORRUPT);
        return;
    }
    if (!export_row_breaks(json)) {
        qp_jsonw_key(writer, quipu_cstr(name));
        qp_jsonw_raw(writer, json);
        return;
    }
    /* The suffix makes it another member, so that a reader knows the two spellings apart. */
    assert(strlen(name) <= QP_EXPORT_NAME_MAX);
    (void)snprintf(longer, sizeof(longer), "%s%s", name, QP_EXPORT_TEXT_SUFFIX);
    qp_jsonw_key(writer, quipu_cstr(longer));
    qp_jsonw_str(writer, json);
}

/* A time outside of the years 1 to 9999 cannot be in a sound file. */
static void export_row_time(qp_jsonw *writer, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (qp_time_rfc3339(time, text, NULL) != QUIPU_OK) {
        qp_buf_fail(writer->buf, QUIPU_CORRUPT);
        return;
    }
    qp_jsonw_str(writer, quipu_cstr(text));
}

/* A value of any kind but JSON, which the caller has sorted out. */
static void export_row_value(qp_jsonw *writer, const qp_value *value)
{
    char uuid[QUIPU_UUID_TEXT_SIZE];

    assert(value->kind != QP_NULL);
    switch ((qp_value_kind)value->kind) {
    case QP_INT:
        qp_jsonw_i64(writer, value->as.i);
        break;
    case QP_FLOAT:
        qp_jsonw_double(writer, value->as.f);
        break;
    case QP_BOOL:
        qp_jsonw_bool(writer, value->as.b);
        break;
    case QP_BYTES:
        qp_base64_json(writer, value->as.bytes);
        break;
    case QP_TIME:
        export_row_time(writer, value->as.time);
        break;
    case QP_UUID:
        quipu_uuid_format(value->as.uuid, uuid);
        qp_jsonw_str(writer, quipu_cstr(uuid));
        break;
    default:
        assert(value->kind == QP_TEXT);
        qp_jsonw_str(writer, value->as.text);
        break;
    }
}

/* In the order of the schema: two exports of equal rows are equal byte by byte, which copies rely
 * on. */
void qp_export_row(qp_jsonw *writer, const ent_entity *entity, const void *row,
                   const char *const *left_out)
{
    assert(entity->field_count <= ENT_FIELDS_MAX);
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        qp_value value = qp_row_value(field, row);
        /* Names of apps, users and models are often empty: a member for each would say nothing. */
        bool defaults = value.kind == QP_TEXT && value.as.text.n == 0 &&
                        field->default_text != NULL && field->default_text[0] == '\0';

        /* Reading leaves the field at its default as well. */
        if (value.kind == QP_NULL || defaults || export_row_out(field, left_out)) {
            continue;
        }
        if (field->type == ENT_JSON) {
            export_row_json(writer, field->name, value.as.text);
        } else {
            qp_jsonw_key(writer, quipu_cstr(field->name));
            export_row_value(writer, &value);
        }
    }
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* The error for a value of another type than its field's. */
static quipu_status export_row_wrong(const ent_entity *entity, const ent_field *field,
                                     const char *what, quipu_error *reterr)
{
    assert(field >= entity->fields && field < entity->fields + entity->field_count);
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, "type",
                          "%s.%s should be %s", entity->name, field->name, what);
}

/* A string without what a column cannot hold (U+0000, half a surrogate pair): QUIPU_INVALID. */
static quipu_status export_row_string(qp_json_node node, quipu_arena *arena, quipu_str *ret)
{
    uint32_t flags = 0;
    quipu_status status = qp_json_text(node, arena, ret, &flags);

    return status == QUIPU_OK && flags != 0 ? QUIPU_INVALID : status;
}

/* Put a value where an X_new has it. An optional member is a struct of `has` and the value, which
 * lies `opt_offset` behind; texts, bytes and enums are absent by their own value, so that theirs is
 * 0. The member is written by memcpy(): its type is known to the descriptor only. */
static void export_row_put(const ent_field *field, void *values, const void *value, size_t size,
                           size_t opt_offset)
{
    /* An X_new, as its descriptor has it (field->create is the offset of the member):
     *
     *     optional int     [has][padding][v .......]     v lies at offsetof(ent_opt_int, v)
     *     text, bytes      [p .......][n .......]        absent: p is NULL
     *     enum             [label]                       absent: 0 */
    char *member = (char *)values + field->create;
    const bool has = true;

    assert(field->create != ENT_ABSENT && size > 0);
    if ((field->flags & ENT_F_OPT_NEW) != 0) {
        memcpy(member, &has, sizeof(has));
        member += opt_offset;
    }
    memcpy(member, value, size);
}

/* Writes the values that have no quotes. */
static quipu_status export_row_scalar(const ent_entity *entity, const ent_field *field,
                                      qp_json_node node, void *values, quipu_error *reterr)
{
    qp_json_kind kind = qp_json_kind_of(node);
    int64_t number = 0;
    double real = 0;
    bool truth = kind == QP_JSON_TRUE;

    assert(field->type == ENT_INT || field->type == ENT_FLOAT || field->type == ENT_BOOL);
    switch (field->type) {
    /* A number with a fraction or beyond 64 bits is not rounded: it would be another value. */
    case ENT_INT:
        if (qp_json_int64(node, &number) != QP_JSON_EXACT) {
            return export_row_wrong(entity, field, "a whole number", reterr);
        }
        export_row_put(field, values, &number, sizeof(number), offsetof(ent_opt_int, v));
        return QUIPU_OK;
    case ENT_FLOAT:
        if (qp_json_double(node, &real) == QP_JSON_NO_NUMBER) {
            return export_row_wrong(entity, field, "a number", reterr);
        }
        export_row_put(field, values, &real, sizeof(real), offsetof(ent_opt_float, v));
        return QUIPU_OK;
    default:
        assert(field->type == ENT_BOOL);
        if (!truth && kind != QP_JSON_FALSE) {
            return export_row_wrong(entity, field, "true or false", reterr);
        }
        export_row_put(field, values, &truth, sizeof(truth), offsetof(ent_opt_bool, v));
        return QUIPU_OK;
    }
}

/* Writes the values that are strings. The text outlives the row: it is a slice of the line or in
 * the arena. */
static quipu_status export_row_parse(const ent_entity *entity, const ent_field *field,
                                     quipu_str text, quipu_arena *arena, void *values,
                                     quipu_error *reterr)
{
    quipu_bytes bytes = {NULL, 0};
    quipu_status status = QUIPU_OK;
    quipu_uuid uuid;
    quipu_time time;
    int label;

    assert(text.p != NULL);
    switch (field->type) {
    case ENT_TIME:
        if (quipu_time_parse(text, &time) != QUIPU_OK) {
            return export_row_wrong(entity, field, "a time of RFC 3339", reterr);
        }
        export_row_put(field, values, &time, sizeof(time), offsetof(ent_opt_time, v));
        return QUIPU_OK;
    case ENT_UUID:
        if (quipu_uuid_parse(text, &uuid) != QUIPU_OK) {
            return export_row_wrong(entity, field, "a UUID", reterr);
        }
        export_row_put(field, values, &uuid, sizeof(uuid), offsetof(ent_opt_uuid, v));
        return QUIPU_OK;
    /* Labels, not numbers: an enum may get further values in between. */
    case ENT_ENUM:
        label = ent_enum_parse(field->labels, text);
        if (label == 0) {
            return export_row_wrong(entity, field, "one of the labels of its kind", reterr);
        }
        export_row_put(field, values, &label, sizeof(label), 0);
        return QUIPU_OK;
    case ENT_BYTES:
        status = qp_base64_read(text, arena, &bytes);
        if (status != QUIPU_OK) {
            return status == QUIPU_INVALID ? export_row_wrong(entity, field, "base64", reterr)
                                           : qp_error_set(reterr, status, "no memory for bytes");
        }
        export_row_put(field, values, &bytes, sizeof(bytes), 0);
        return QUIPU_OK;
    default:
        assert(field->type == ENT_TEXT || field->type == ENT_JSON);
        export_row_put(field, values, &text, sizeof(text), 0);
        return QUIPU_OK;
    }
}

/* One member into its field. `as_text`: JSON that was carried as a string. */
static quipu_status export_row_member(const ent_entity *entity, const ent_field *field,
                                      bool as_text, qp_json_node node, quipu_arena *arena,
                                      void *values, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    quipu_str text = QP_STR_ABSENT;

    assert(!as_text || field->type == ENT_JSON);
    /* Without quotes in the line; every other type but JSON is a string there. */
    if (field->type == ENT_INT || field->type == ENT_FLOAT || field->type == ENT_BOOL) {
        return export_row_scalar(entity, field, node, values, reterr);
    }
    /* As it stands in the line, number spellings and order of members included. */
    if (field->type == ENT_JSON && !as_text) {
        text = qp_json_raw(node);
    } else {
        status = export_row_string(node, arena, &text);
    }
    if (status == QUIPU_INVALID) {
        return export_row_wrong(entity, field, "a string without U+0000 and half surrogate pairs",
                                reterr);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory for a text");
    }
    return export_row_parse(entity, field, text, arena, values, reterr);
}

/* The field that a member's name means, or NULL; *ret_text: by the name with the suffix, for JSON
 * as a text. Names are compared with their quotes, unparsed: a field's name needs no escape, so
 * that an escaped spelling of it is an unknown member. */
static const ent_field *export_row_field(const ent_entity *entity, qp_json_node key,
                                         const char *const *left_out, bool *ret_text)
{
    const size_t suffix = sizeof(QP_EXPORT_TEXT_SUFFIX) - 1;
    quipu_str raw = qp_json_raw(key); /* in quotes; names of fields need no escape */

    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        size_t n = strlen(field->name);
        if (field->create == ENT_ABSENT || raw.n < n + 2 ||
            memcmp(raw.p + 1, field->name, n) != 0 || export_row_out(field, left_out)) {
            continue;
        }
        assert(n <= QP_EXPORT_NAME_MAX);
        *ret_text = field->type == ENT_JSON && raw.n == n + 2 + suffix &&
                    memcmp(raw.p + 1 + n, QP_EXPORT_TEXT_SUFFIX, suffix) == 0;
        /* A name that only begins like this field's is another field's. */
        if (raw.n == n + 2 || *ret_text) {
            return field;
        }
    }
    return NULL;
}

/* Whether the caller reads this member itself. */
static bool export_row_is_other(qp_json_node key, const char *const *others)
{
    assert(others != NULL);
    for (; *others != NULL; others++) {
        if (qp_json_text_is(key, quipu_cstr(*others))) {
            return true;
        }
    }
    return false;
}

/* An unknown member is an error and is not passed over: what it says would be lost in silence. */
quipu_status qp_import_row(const ent_entity *entity, qp_json_node object,
                           const char *const *left_out, const char *const *others,
                           quipu_arena *arena, void *ret_values, quipu_error *reterr)
{
    /* JSON allows a member twice and lets readers choose one: the other value would be lost without
     * an error. */
    bool seen[ENT_FIELDS_MAX] = {false};
    quipu_status status = QUIPU_OK;
    qp_json_iter iter = qp_json_each(object);

    assert(entity->field_count <= ENT_FIELDS_MAX);
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        bool as_text = false;
        const ent_field *field = export_row_field(entity, iter.key, left_out, &as_text);
        quipu_str name = qp_json_raw(iter.key);

        /* A member that the caller reads itself: it is not a field, or `left_out` names it. */
        if (field == NULL && export_row_is_other(iter.key, others)) {
            continue;
        }
        /* Both spellings of a JSON field count as the same member. */
        if (field == NULL || seen[field - entity->fields]) {
            size_t n = qp_utf8_cut(name, QP_EXPORT_NAME_MAX);
            return qp_error_set(reterr, QUIPU_INVALID, "the member %.*s %s", (int)n, name.p,
                                field == NULL ? "is not known here" : "is there twice");
        }
        assert((size_t)(field - entity->fields) < entity->field_count);
        seen[field - entity->fields] = true;
        status = export_row_member(entity, field, as_text, iter.value, arena, ret_values, reterr);
    }
    return status;
}

/* For members that are not fields of the entity, or that the line spells differently. */
quipu_status qp_import_text(qp_json_node object, quipu_str name, quipu_arena *arena,
                            quipu_str *ret_text, quipu_error *reterr)
{
    qp_json_node node = qp_json_get(object, name);
    quipu_status status = QUIPU_OK;

    assert(name.n > 0);
    *ret_text = QP_STR_ABSENT;
    /* Whether the member must be there is for the caller to say. */
    if (qp_json_kind_of(node) == QP_JSON_NONE) {
        return QUIPU_OK;
    }
    status = export_row_string(node, arena, ret_text);
    if (status == QUIPU_INVALID) {
        return qp_error_set(reterr, status, "the member \"%.*s\" is no string that can be stored",
                            (int)name.n, name.p);
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_set(reterr, status, "no memory for a text");
}
