/* The rules of a schema, checked before a value is written: size, emptiness, range, enum labels,
 * valid UTF-8 without NUL, valid JSON, finite numbers, existing instants. The same for every
 * engine; what only a database can check (unique, reference) is the engine's. Called by create.c
 * and update.c. */
#include "ent/row.h"

#include <assert.h>
#include <math.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

/* QUIPU_INVALID with entity, field and rule. */
static quipu_status rule_broken(const ent_entity *entity, const ent_field *field, const char *rule,
                                const char *text, quipu_error *reterr)
{
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, rule, "%s.%s %s",
                          entity->name, field->name, text);
}

/* The same with the limits of a range or length. */
static quipu_status rule_outside(const ent_entity *entity, const ent_field *field, const char *rule,
                                 const char *what, quipu_error *reterr)
{
    assert(field->rule != NULL);
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, rule,
                          "%s.%s %s outside %lld..%lld", entity->name, field->name, what,
                          (long long)field->rule->min, (long long)field->rule->max);
}

/* What text, bytes, JSON and labels have in common. */
static quipu_status rule_size(const ent_entity *entity, const ent_field *field, size_t n,
                              quipu_error *reterr)
{
    size_t size_max = (field->flags & ENT_F_STRING) != 0 ? ENT_STRING_MAX : ENT_VALUE_MAX;

    if (n > size_max) {
        return qp_error_field(reterr, QUIPU_LIMIT, entity->name, field->name, "size",
                              "%s.%s has %zu bytes, the limit is %zu", entity->name, field->name, n,
                              size_max);
    }
    if (n == 0 && (field->flags & ENT_F_NOTEMPTY) != 0) {
        return rule_broken(entity, field, "notempty", "must not be empty", reterr);
    }
    if (field->rule != NULL && ((int64_t)n < field->rule->min || (int64_t)n > field->rule->max)) {
        return rule_outside(entity, field, "len", "has a length in bytes", reterr);
    }
    return QUIPU_OK;
}

/* UTF-8 without NUL: PostgreSQL stores nothing else, and SQLite's text ends at a NUL. */
static quipu_status rule_text(const ent_entity *entity, const ent_field *field, quipu_str text,
                              quipu_error *reterr)
{
    quipu_status status = rule_size(entity, field, text.n, reterr);
    size_t offset = 0;
    qp_text_fault fault;

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
static quipu_status rule_json(const ent_entity *entity, const ent_field *field, quipu_str text,
                              quipu_error *reterr)
{
    const qp_json_limits limits = {.depth_max = QP_JSON_DEPTH_MAX,
                                   .size_max = (size_t)ENT_VALUE_MAX};
    qp_json_fault fault = {0};
    quipu_status status = rule_size(entity, field, text.n, reterr);

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
static quipu_status rule_float(const ent_entity *entity, const ent_field *field, double value,
                               quipu_error *reterr)
{
    if (!isfinite(value)) {
        return rule_broken(entity, field, "finite", "must be a finite number", reterr);
    }
    if (field->rule != NULL && (value < field->rule->float_min || value > field->rule->float_max)) {
        return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, "range",
                              "%s.%s is outside %g..%g", entity->name, field->name,
                              field->rule->float_min, field->rule->float_max);
    }
    return QUIPU_OK;
}

/* The value has the field's kind; NULL was handled before. */
quipu_status qp_rule_check(const ent_entity *entity, const ent_field *field, const qp_value *value,
                           quipu_error *reterr)
{
    assert(value->kind == qp_field_kind(field));
    switch (field->type) {
    case ENT_INT:
        if (field->rule != NULL &&
            (value->as.i < field->rule->min || value->as.i > field->rule->max)) {
            return rule_outside(entity, field, "range", "is", reterr);
        }
        return QUIPU_OK;
    case ENT_FLOAT:
        return rule_float(entity, field, value->as.f, reterr);
    case ENT_TEXT:
        return rule_text(entity, field, value->as.text, reterr);
    case ENT_BYTES:
        return rule_size(entity, field, value->as.bytes.n, reterr);
    case ENT_JSON:
        return rule_json(entity, field, value->as.text, reterr);
    case ENT_TIME:
        return qp_time_valid(value->as.time)
                   ? QUIPU_OK
                   : rule_broken(entity, field, "range",
                                 "is no instant of the years 1 to 9999 with ns below a second",
                                 reterr);
    case ENT_ENUM:
        return value->as.text.p != NULL
                   ? QUIPU_OK
                   : rule_broken(entity, field, "enum", "is outside of the enum", reterr);
    default:
        return QUIPU_OK;
    }
}
