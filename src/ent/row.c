/* Rows: from the engine's columns into the generated struct in one pass, and single members back
 * into values.
 *
 * Owns: the layout rules of generated structs: all zero is absent, optional members begin with
 * `has`.
 *
 *   field's type           required member    optional member     slot of an X_patch
 *   int, float, bool,      v                  {has, v}            {op, v}
 *     time, uuid
 *   text, bytes, json      {p, n}             p NULL: absent      {op, {p, n}}
 *   enum                   label's number     0: absent           {op, number}
 *
 * Called by: every file of this room that reads or writes rows, for each row: its hottest code.
 * Locks: none. On return texts lie in the caller's arena, or are borrowed from the engine until
 * its next step, as the caller asked for. */
#include "ent/row.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

/* A whole text could be a message of megabytes. */
#define ROW_SHOWN_MAX 60 /* bytes of a refused value that a message shows */

/* The form of an enum's change in generated code. Every enum has a patch type of its own; all have
 * this layout. */
typedef struct row_patch_enum {
    ent_wants_enum op;
    int v; /* the label's number */
} row_patch_enum;

/* opt_at: where the value stands behind `has`; 0 where a value says by itself that it is absent. */
#define ROW_TYPE(kind, value, opt_at, patch) {kind, sizeof(value), opt_at, offsetof(patch, v)}

/* By ent_type: the kind that engines give, bytes of the value, and where it stands in an
 * optional member and in a slot of a patch. A new type needs a row here, and one in
 * where_allowed. */
const qp_type qp_types[ENT_JSON + 1] = {
    [ENT_INT] = ROW_TYPE(QP_INT, int64_t, offsetof(ent_opt_int, v), ent_patch_int),
    [ENT_FLOAT] = ROW_TYPE(QP_FLOAT, double, offsetof(ent_opt_float, v), ent_patch_float),
    [ENT_BOOL] = ROW_TYPE(QP_BOOL, bool, offsetof(ent_opt_bool, v), ent_patch_bool),
    [ENT_TEXT] = ROW_TYPE(QP_TEXT, quipu_str, 0, ent_patch_text),
    [ENT_BYTES] = ROW_TYPE(QP_BYTES, quipu_bytes, 0, ent_patch_bytes),
    [ENT_TIME] = ROW_TYPE(QP_TIME, quipu_time, offsetof(ent_opt_time, v), ent_patch_time),
    [ENT_UUID] = ROW_TYPE(QP_UUID, quipu_uuid, offsetof(ent_opt_uuid, v), ent_patch_uuid),
    [ENT_ENUM] = ROW_TYPE(QP_TEXT, int, 0, row_patch_enum),
    [ENT_JSON] = ROW_TYPE(QP_TEXT, quipu_json, 0, ent_patch_json)};

static_assert(offsetof(ent_opt_int, has) == 0 && offsetof(ent_opt_float, has) == 0 &&
                  offsetof(ent_opt_bool, has) == 0 && offsetof(ent_opt_time, has) == 0 &&
                  offsetof(ent_opt_uuid, has) == 0,
              "an optional member begins with `has`");
static_assert(sizeof(quipu_json) == sizeof(quipu_str), "JSON is written as the text that it is");
/* update.c reads and writes the operator by the slot's address. */
static_assert(offsetof(ent_patch_int, op) == 0 && offsetof(ent_patch_text, op) == 0,
              "a slot begins with its operator");

/* ---- writing a row ----------------------------------------------------------------------------
 */

/* QUIPU_CORRUPT for a stored value that the field cannot have, with the beginning of a text.
 * Another program wrote it, or the file is damaged: writes of this library pass qp_rule_check(). */
static QP_NOINLINE quipu_status row_refuse(const ent_entity *entity, const ent_field *field,
                                           const qp_value *value, quipu_error *reterr)
{
    assert(value->kind != QP_NULL || (field->flags & ENT_F_NULLABLE) == 0);
    if (value->kind == QP_TEXT) {
        size_t n = value->as.text.n < ROW_SHOWN_MAX ? value->as.text.n : ROW_SHOWN_MAX;
        /* Bytes, not characters: a cut one is at most an ugly end of a message. */
        return qp_error_field(reterr, QUIPU_CORRUPT, entity->name, field->name, "type",
                              "%s.%s holds \"%.*s\", which is no value of the field", entity->name,
                              field->name, (int)n, value->as.text.p);
    }
    return qp_error_field(reterr, QUIPU_CORRUPT, entity->name, field->name, "type",
                          "%s.%s holds %s", entity->name, field->name,
                          value->kind == QP_NULL ? "nothing, though it is required"
                                                 : "a value of another type");
}

/* The arena's limit or the system's memory. The two need different answers: a limit is the
 * caller's to raise. */
static QP_NOINLINE quipu_status row_out_of_memory(const quipu_arena *arena, size_t size,
                                                  quipu_error *reterr)
{
    quipu_status status = qp_arena_why(arena, size);

    return qp_error_set(reterr, status,
                        status == QUIPU_LIMIT ? "the result is larger than the arena's limit"
                                              : "out of memory while reading rows");
}

/* Stores a text member; with an arena it is copied and ends with a NUL. The extra byte also gives
 * an empty text an address: NULL would read as absent. */
QP_INLINE quipu_status row_put_text(quipu_str text, quipu_arena *arena, char *member,
                                    quipu_error *reterr)
{
    quipu_str kept = {text.p, text.n};

    assert(text.p != NULL); /* an engine gives an empty text an address, too */
    if (arena != NULL) {
        char *copy = qp_arena_take(arena, text.n + 1);
        if (QP_UNLIKELY(copy == NULL)) {
            return row_out_of_memory(arena, text.n + 1, reterr);
        }
        memcpy(copy, text.p, text.n);
        copy[text.n] = '\0';
        kept.p = copy;
    }
    memcpy(member, &kept, sizeof(kept));
    return QUIPU_OK;
}

/* The same for bytes; one more byte, so that empty bytes have an address. */
static quipu_status row_put_bytes(quipu_bytes bytes, quipu_arena *arena, char *member,
                                  quipu_error *reterr)
{
    assert(bytes.p != NULL);
    if (arena != NULL) {
        void *copy = qp_arena_take(arena, bytes.n + 1);
        if (copy == NULL) {
            return row_out_of_memory(arena, bytes.n + 1, reterr);
        }
        memcpy(copy, bytes.p, bytes.n);
        bytes.p = copy;
    }
    memcpy(member, &bytes, sizeof(bytes));
    return QUIPU_OK;
}

/* A row that an older program wrote may lack a column that has a default: it reads as that. False
 * when it has no default, and NULL stays NULL. */
QP_NOINLINE bool qp_row_default(const ent_field *field, qp_value *ret)
{
    if ((field->flags & ENT_F_DEFAULT) == 0) {
        return false;
    }
    switch (field->type) {
    case ENT_INT:
        *ret = (qp_value){.kind = QP_INT, .as.i = field->default_int};
        return true;
    case ENT_BOOL:
        *ret = (qp_value){.kind = QP_BOOL, .as.b = field->default_int != 0};
        return true;
    case ENT_FLOAT:
        *ret = (qp_value){.kind = QP_FLOAT, .as.f = field->default_float};
        return true;
    default:
        *ret = (qp_value){.kind = QP_TEXT, .as.text = quipu_cstr(field->default_text)};
        return field->default_text != NULL;
    }
}

/* Stores an enum member: the label's number. A label that this program does not know, perhaps of a
 * newer one, is refused rather than shown as absent. */
static quipu_status row_put_enum(const ent_entity *entity, const ent_field *field,
                                 const qp_value *value, char *member, quipu_error *reterr)
{
    int number = ent_enum_parse(field->labels, value->as.text);

    assert(field->labels != NULL);
    if (number == 0) {
        return row_refuse(entity, field, value, reterr);
    }
    memcpy(member, &number, sizeof(number));
    return QUIPU_OK;
}

/* Types other than int, text and enum. */
static quipu_status row_put_other(const ent_field *field, const qp_value *value, quipu_arena *arena,
                                  char *member, quipu_error *reterr)
{
    const bool has = true;
    size_t at = 0;

    if (field->type == ENT_BYTES) {
        return row_put_bytes(value->as.bytes, arena, member, reterr);
    }
    assert(field->type != ENT_ENUM && field->type != ENT_INT);
    if ((field->flags & ENT_F_NULLABLE) != 0) {
        at = qp_types[field->type].opt_at;
        memcpy(member, &has, sizeof(has)); /* every ent_opt_* begins with it */
    }
    if (field->type == ENT_TIME) { /* the most frequent one: of a size that the compiler knows */
        memcpy(member + at, &value->as, sizeof(quipu_time));
    } else {
        memcpy(member + at, &value->as, qp_types[field->type].size);
    }
    return QUIPU_OK;
}

/* Everything that is not simply a value of the right kind: NULL, which may have a default, or a
 * value of another kind, which is refused. */
static QP_NOINLINE quipu_status row_put_odd(const ent_entity *entity, const ent_field *field,
                                            const qp_value *value, quipu_arena *arena, char *member,
                                            quipu_error *reterr)
{
    qp_value fallback;

    assert(field->type >= ENT_INT && field->type <= ENT_JSON);
    if (value->kind != QP_NULL || !qp_row_default(field, &fallback)) {
        return row_refuse(entity, field, value, reterr);
    }
    switch (field->type) {
    case ENT_INT:
        memcpy(member, &fallback.as.i, sizeof(fallback.as.i));
        return QUIPU_OK;
    case ENT_TEXT:
    case ENT_JSON:
        return row_put_text(fallback.as.text, arena, member, reterr);
    case ENT_ENUM:
        return row_put_enum(entity, field, &fallback, member, reterr);
    default:
        return row_put_other(field, &fallback, arena, member, reterr);
    }
}

/* Stores an int member. */
QP_INLINE void row_put_int(const ent_field *field, int64_t number, char *member)
{
    if ((field->flags & ENT_F_NULLABLE) == 0) {
        memcpy(member, &number, sizeof(number));
    } else {
        const ent_opt_int some = {true, number};
        memcpy(member, &some, sizeof(some));
    }
}

/* One pass over fields and values, by the kind that the engine gave: NULL, text and int come first,
 * because most values are. A kind that is not the field's goes to row_put_odd(). After a failure
 * the row is half filled, and texts of it stay in the arena until the caller rewinds it. */
quipu_status qp_row_read(const ent_entity *entity, const qp_value *values, quipu_arena *arena,
                         void *ret_row, quipu_error *reterr)
{
    const ent_field *field = entity->fields;
    const ent_field *end = field + entity->field_count;
    char *row = ret_row;

    assert(entity->field_count <= ENT_FIELDS_MAX);
    assert(values != NULL && row != NULL);
    memset(row, 0, entity->row_size);
    for (; field < end; field++, values++) {
        /* The offset of a member is the generator's; no row type is known here. */
        char *member = row + field->row;
        quipu_status status = QUIPU_OK;

        if (values->kind == QP_NULL && (field->flags & ENT_F_NULLABLE) != 0) {
            continue; /* the member stays all zero, which is absent */
        }
        if (QP_UNLIKELY(values->kind != qp_types[field->type].kind)) {
            status = row_put_odd(entity, field, values, arena, member, reterr);
        } else if (values->kind == QP_TEXT) {
            status = field->type == ENT_ENUM ? row_put_enum(entity, field, values, member, reterr)
                                             : row_put_text(values->as.text, arena, member, reterr);
        } else if (values->kind == QP_INT) {
            row_put_int(field, values->as.i, member);
        } else {
            status = row_put_other(field, values, arena, member, reterr);
        }
        if (QP_UNLIKELY(status != QUIPU_OK)) {
            return status;
        }
    }
    return QUIPU_OK;
}

/* ---- reading members --------------------------------------------------------------------------
 */

/* Absent text, bytes and enums are QP_NULL; numbers are always present. Texts are borrowed from the
 * member. An enum's number without a label is QP_TEXT without a text, which qp_rule_check()
 * refuses. */
qp_value qp_member_value(const ent_field *field, const void *member)
{
    qp_value value = {.kind = QP_NULL};
    int number;

    assert(field->type >= ENT_INT && field->type <= ENT_JSON);
    assert(member != NULL);
    value.kind = qp_types[field->type].kind;
    /* memcpy() instead of a cast: a row's members have generated types. */
    switch (field->type) {
    case ENT_INT:
        memcpy(&value.as.i, member, sizeof(value.as.i));
        break;
    case ENT_FLOAT:
        memcpy(&value.as.f, member, sizeof(value.as.f));
        break;
    case ENT_BOOL:
        memcpy(&value.as.b, member, sizeof(value.as.b));
        break;
    case ENT_TIME:
        memcpy(&value.as.time, member, sizeof(value.as.time));
        break;
    case ENT_UUID:
        memcpy(&value.as.uuid, member, sizeof(value.as.uuid));
        break;
    case ENT_BYTES:
        memcpy(&value.as.bytes, member, sizeof(value.as.bytes));
        value.kind = value.as.bytes.p == NULL ? QP_NULL : QP_BYTES;
        break;
    case ENT_ENUM:
        memcpy(&number, member, sizeof(number));
        value.as.text = qp_enum_label(field->labels, number);
        if (number == 0) {
            value.kind = QP_NULL;
        }
        break;
    default:
        memcpy(&value.as.text, member, sizeof(value.as.text));
        value.kind = value.as.text.p == NULL ? QP_NULL : QP_TEXT;
        break;
    }
    return value;
}

/* A member of a row, by the field's own optionality. */
qp_value qp_row_value(const ent_field *field, const void *row)
{
    assert(row != NULL);
    return qp_opt_value(field, (const char *)row + field->row,
                        (field->flags & ENT_F_NULLABLE) != 0);
}

/* Text, bytes, enums and JSON say by themselves whether they are absent; the others begin with
 * `has`. */
qp_value qp_opt_value(const ent_field *field, const void *member, bool optional)
{
    const char *p = member;
    bool has;

    assert(member != NULL);
    if (!optional || qp_types[field->type].opt_at == 0) {
        return qp_member_value(field, p);
    }
    memcpy(&has, p, sizeof(has));
    p += qp_types[field->type].opt_at;
    return has ? qp_member_value(field, p) : (qp_value){.kind = QP_NULL};
}

/* ---- enums --------------------------------------------------------------------------------------
 */

/* Walks up to the value: it may be beyond the last label, and nothing says how many there are. */
quipu_str qp_enum_label(const char *const *labels, int value)
{
    const char *const *label = labels;

    for (int i = 1; label != NULL && i <= value; i++) {
        /* Labels end with NULL and begin at 1: 0 is the absent value. */
        label = labels[i] != NULL ? &labels[i] : NULL;
    }
    return label == NULL || value <= 0 ? (quipu_str){NULL, 0} : (quipu_str){*label, strlen(*label)};
}

const char *ent_enum_text(const char *const *labels, int value)
{
    return qp_enum_label(labels, value).p;
}

/* 0 for a text that is not a label. */
int ent_enum_parse(const char *const *labels, quipu_str text)
{
    if (labels == NULL || text.p == NULL) {
        return 0;
    }
    for (int i = 1; labels[i] != NULL; i++) {
        /* Compares the length as well: "ok" is not "okay". */
        if (strncmp(labels[i], text.p, text.n) == 0 && labels[i][text.n] == '\0') {
            return i;
        }
    }
    return 0;
}

/* ---- rules -----------------------------------------------------------------------------------
 * Checked before a value is written: size, emptiness, range, enum labels, valid UTF-8 without NUL,
 * valid JSON, finite numbers, existing instants. The same for every engine; what only a database
 * can check (unique, reference) is the engine's. Called by create.c and update.c.
 * */

/* QUIPU_INVALID with entity, field and rule. */
static quipu_status row_rule_broken(const ent_entity *entity, const ent_field *field,
                                    const char *rule, const char *text, quipu_error *reterr)
{
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, rule, "%s.%s %s",
                          entity->name, field->name, text);
}

/* The same with the limits of a range or length. */
static quipu_status row_rule_outside(const ent_entity *entity, const ent_field *field,
                                     const char *rule, const char *what, quipu_error *reterr)
{
    assert(field->rule != NULL);
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, rule,
                          "%s.%s %s outside %lld..%lld", entity->name, field->name, what,
                          (long long)field->rule->min, (long long)field->rule->max);
}

/* The checks that text, bytes, JSON and labels share. The absolute limit is QUIPU_LIMIT, a rule of
 * the schema QUIPU_INVALID: the caller can do something else about each. */
static quipu_status row_rule_size(const ent_entity *entity, const ent_field *field, size_t n,
                                  quipu_error *reterr)
{
    size_t size_max = (field->flags & ENT_F_STRING) != 0 ? ENT_STRING_MAX : ENT_VALUE_MAX;

    assert(field->type != ENT_INT && field->type != ENT_FLOAT);
    if (n > size_max) {
        return qp_error_field(reterr, QUIPU_LIMIT, entity->name, field->name, "size",
                              "%s.%s has %zu bytes, the limit is %zu", entity->name, field->name, n,
                              size_max);
    }
    if (n == 0 && (field->flags & ENT_F_NOTEMPTY) != 0) {
        return row_rule_broken(entity, field, "notempty", "must not be empty", reterr);
    }
    if (field->rule != NULL && ((int64_t)n < field->rule->min || (int64_t)n > field->rule->max)) {
        return row_rule_outside(entity, field, "len", "has a length in bytes", reterr);
    }
    return QUIPU_OK;
}

/* UTF-8 without NUL: PostgreSQL stores nothing else, and SQLite's text ends at a NUL. */
static quipu_status row_rule_text(const ent_entity *entity, const ent_field *field, quipu_str text,
                                  quipu_error *reterr)
{
    /* Size first: checking megabytes that are refused anyway would be wasted. */
    quipu_status status = row_rule_size(entity, field, text.n, reterr);
    size_t offset = 0;
    qp_text_fault fault;

    assert(text.p != NULL || text.n == 0);
    if (status != QUIPU_OK) {
        return status;
    }
    fault = qp_text_check(text, &offset);
    if (fault == QP_TEXT_OK) {
        return QUIPU_OK;
    }
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name,
                          fault == QP_TEXT_NUL ? "nul" : "utf8", "%s.%s has %s at byte %zu",
                          entity->name, field->name,
                          fault == QP_TEXT_NUL ? "a NUL" : "invalid UTF-8", offset);
}

/* The nesting limit is that of every reader in this house. */
static quipu_status row_rule_json(const ent_entity *entity, const ent_field *field, quipu_str text,
                                  quipu_error *reterr)
{
    /* size_max repeats row_rule_size(), which has passed: it never decides here. */
    const qp_json_limits limits = {.depth_max = QP_JSON_DEPTH_MAX,
                                   .size_max = (size_t)ENT_VALUE_MAX};
    qp_json_fault fault = {0};
    quipu_status status = row_rule_size(entity, field, text.n, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_json_check(text, &limits, &fault);
    if (status == QUIPU_OK) {
        return QUIPU_OK;
    }
    return qp_error_field(reterr, status, entity->name, field->name, "json",
                          "%s.%s is no valid JSON at byte %zu", entity->name, field->name,
                          (size_t)fault.offset);
}

/* NaN and infinities have no JSON form and compare oddly. */
static quipu_status row_rule_float(const ent_entity *entity, const ent_field *field, double value,
                                   quipu_error *reterr)
{
    if (!isfinite(value)) {
        return row_rule_broken(entity, field, "finite", "must be a finite number", reterr);
    }
    if (field->rule != NULL && (value < field->rule->float_min || value > field->rule->float_max)) {
        return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, "range",
                              "%s.%s is outside %g..%g", entity->name, field->name,
                              field->rule->float_min, field->rule->float_max);
    }
    return QUIPU_OK;
}

/* The value has the field's kind; NULL was handled before. Messages name the field and the rule,
 * and never show the value, which may be personal. */
quipu_status qp_rule_check(const ent_entity *entity, const ent_field *field, const qp_value *value,
                           quipu_error *reterr)
{
    assert(value->kind == qp_types[field->type].kind);
    switch (field->type) {
    /* Most values of most rows are integers without a rule; callers skip the call for them. */
    case ENT_INT:
        if (field->rule != NULL &&
            (value->as.i < field->rule->min || value->as.i > field->rule->max)) {
            return row_rule_outside(entity, field, "range", "is", reterr);
        }
        return QUIPU_OK;
    case ENT_FLOAT:
        return row_rule_float(entity, field, value->as.f, reterr);
    case ENT_TEXT:
        return row_rule_text(entity, field, value->as.text, reterr);
    case ENT_BYTES:
        return row_rule_size(entity, field, value->as.bytes.n, reterr);
    case ENT_JSON:
        return row_rule_json(entity, field, value->as.text, reterr);
    case ENT_TIME:
        return qp_time_valid(value->as.time)
                   ? QUIPU_OK
                   : row_rule_broken(entity, field, "range",
                                     "is no instant of the years 1 to 9999 with ns below a second",
                                     reterr);
    case ENT_ENUM:
        return value->as.text.p != NULL
                   ? QUIPU_OK
                   : row_rule_broken(entity, field, "enum", "is outside of the enum", reterr);
    default:
        return QUIPU_OK;
    }
}

/* The rules of a write, applied to a row that was read. A required member that is absent was
 * refused by qp_row_read() already. */
quipu_status qp_row_sound(const ent_entity *entity, const void *row, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(entity->field_count <= ENT_FIELDS_MAX);
    for (size_t i = 0; i < entity->field_count && status == QUIPU_OK; i++) {
        const ent_field *field = &entity->fields[i];
        /* Absent is fine here: only a required member could be wrong, and was refused. */
        const qp_value value = qp_row_value(field, row);

        if (value.kind != QP_NULL) {
            status = qp_rule_check(entity, field, &value, reterr);
        }
    }
    return status;
}
