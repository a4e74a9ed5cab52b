/* The rules of one field: which attributes and defaults go with which type. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "entgen/check.h"
#include "entgen/names.h"
#include "entgen/run.h"

static const char *check_field_type_name(const eg_field *field)
{
    static const char *const names[] = {"?",     "int",  "float", "bool", "text",
                                        "bytes", "time", "uuid",  "enum", "json"};
    return field->is_string ? "string" : names[field->type];
}

static bool check_field_is_text(const eg_field *field)
{
    return field->type == ENT_TEXT;
}

static void check_field_name(eg_run *run, const eg_entity *entity, const eg_name *name,
                             const char *what)
{
    if (eg_is_keyword(name->text)) {
        eg_error(run, name->pos, "'%s' is a word of C or C++, expected another name for %s%s",
                 name->text, what,
                 strcmp(what, "a field") == 0 ? " (column \"...\" keeps the column's name)" : "");
    } else if (eg_is_reserved(name->text) ||
               (entity->has_search && strcmp(name->text, "search") == 0)) {
        eg_error(run, name->pos, "'%s' is used by the generated code, expected another name for %s",
                 name->text, what);
    }
}

static void check_field_labels(eg_run *run, const eg_field *field)
{
    if (field->labels.n > EG_LABELS_MAX) {
        eg_error(run, field->name.pos, "an enum of %zu labels, expected at most %d",
                 field->labels.n, EG_LABELS_MAX);
        return;
    }
    for (size_t i = 0; i < field->labels.n; i++) {
        for (size_t j = 0; j < i; j++) {
            const eg_name *label = eg_name_at(&field->labels, i);
            if (strcmp(label->text, eg_name_at(&field->labels, j)->text) == 0) {
                eg_error(run, label->pos, "label '%s' is there already, expected another",
                         label->text);
                break;
            }
        }
    }
}

static void check_field_attributes(eg_run *run, const eg_field *field)
{
    bool sized = check_field_is_text(field) || field->type == ENT_BYTES;

    if (field->on_update && field->type != ENT_TIME) {
        eg_error(run, field->attr_pos, "on_update on a field of type %s, expected type time",
                 check_field_type_name(field));
    } else if (field->on_update && field->immutable) {
        eg_error(run, field->attr_pos, "a field cannot be both immutable and on_update");
    }
    if (field->notempty && !sized) {
        eg_error(run, field->attr_pos,
                 "notempty on a field of type %s, expected string, text or bytes",
                 check_field_type_name(field));
    }
    if (field->unique && (field->type == ENT_JSON || field->type == ENT_BOOL)) {
        eg_error(run, field->attr_pos, "unique on a field of type %s, expected another type",
                 check_field_type_name(field));
    }
    if (field->was.text != NULL && strcmp(field->was.text, field->column.text) == 0) {
        eg_error(run, field->was.pos, "was \"%s\" names the column of today, expected a former one",
                 field->was.text);
    }
}

static void check_field_len(eg_run *run, eg_field *field)
{
    int64_t most = field->is_string ? ENT_STRING_MAX : (int64_t)ENT_VALUE_MAX;

    if (!check_field_is_text(field) && field->type != ENT_BYTES) {
        eg_error(run, field->rule_pos, "len on a field of type %s, expected string, text or bytes",
                 check_field_type_name(field));
        return;
    }
    if (field->low.is_float || field->high.is_float) {
        eg_error(run, field->low.is_float ? field->low.pos : field->high.pos,
                 "a fraction as a length, expected a whole number of bytes");
        return;
    }
    if (field->low.i < 0 || field->high.i > most) {
        eg_error(run, field->low.i < 0 ? field->low.pos : field->high.pos,
                 "a length of %" PRId64 ", expected 0 to %" PRId64,
                 field->low.i < 0 ? field->low.i : field->high.i, most);
        return;
    }
    if (field->low.i > field->high.i) {
        eg_error(run, field->low.pos, "an empty length rule, expected the smaller number first");
    }
    field->rule = (ent_rule){.min = field->low.i, .max = field->high.i};
}

static void check_field_range(eg_run *run, eg_field *field)
{
    if (field->type != ENT_INT && field->type != ENT_FLOAT) {
        eg_error(run, field->rule_pos, "range on a field of type %s, expected int or float",
                 check_field_type_name(field));
        return;
    }
    if (field->type == ENT_INT && (field->low.is_float || field->high.is_float)) {
        eg_error(run, field->low.is_float ? field->low.pos : field->high.pos,
                 "a fraction in the range of an int, expected a whole number");
        return;
    }
    if (field->type == ENT_INT ? field->low.i > field->high.i : field->low.f > field->high.f) {
        eg_error(run, field->low.pos, "an empty range, expected the smaller number first");
    }
    if (field->type == ENT_INT) {
        field->rule = (ent_rule){.min = field->low.i, .max = field->high.i};
    } else {
        field->rule = (ent_rule){.float_min = field->low.f, .float_max = field->high.f};
    }
}

/* A text default against the field's own rules. */
static void check_field_text_default(eg_run *run, const eg_field *field)
{
    const eg_default *value = &field->fallback;
    size_t n = strlen(value->text);

    if (n > EG_DEFAULT_MAX) {
        eg_error(run, value->pos, "a default of %zu bytes, expected at most %d", n, EG_DEFAULT_MAX);
    } else if (field->notempty && n == 0) {
        eg_error(run, value->pos, "an empty default, but the field is notempty");
    } else if (field->has_len && ((int64_t)n < field->rule.min || (int64_t)n > field->rule.max)) {
        eg_error(run, value->pos,
                 "a default of %zu bytes, expected %" PRId64 " to %" PRId64 " by its own rule", n,
                 field->rule.min, field->rule.max);
    }
}

static void check_field_json_default(eg_run *run, const eg_field *field)
{
    const eg_default *value = &field->fallback;
    qp_json_fault fault = {0, "JSON"};

    if (strlen(value->text) > EG_DEFAULT_MAX) {
        eg_error(run, value->pos, "a default of %zu bytes, expected at most %d",
                 strlen(value->text), EG_DEFAULT_MAX);
    } else if (qp_json_check(quipu_cstr(value->text), NULL, &fault) != QUIPU_OK) {
        eg_error(run, value->pos, "a default that is no JSON: at its byte %zu, expected %s",
                 fault.offset, fault.expected);
    }
}

static void check_field_number_default(eg_run *run, const eg_field *field)
{
    const eg_default *value = &field->fallback;

    if (!field->has_range) {
        return;
    }
    if (field->type == ENT_INT
            ? value->i < field->rule.min || value->i > field->rule.max
            : value->f < field->rule.float_min || value->f > field->rule.float_max) {
        eg_error(run, value->pos, "a default outside of the field's own range");
    }
}

static void check_field_label_default(eg_run *run, const eg_field *field)
{
    const char *const *labels;
    const char **copy = eg_alloc(run, field->labels.n * sizeof(*copy));

    for (size_t i = 0; i < field->labels.n; i++) {
        copy[i] = eg_name_at(&field->labels, i)->text;
        if (strcmp(copy[i], field->fallback.text) == 0) {
            return;
        }
    }
    labels = copy;
    eg_error(run, field->fallback.pos, "'%s' is no label of the enum%s", field->fallback.text,
             eg_suggest(run, field->fallback.text, labels, field->labels.n));
}

/* The defaults that a field of this type may have, for messages. */
static const char *check_field_default_wanted(const eg_field *field)
{
    switch (field->type) {
    case ENT_INT:
        return "a whole number";
    case ENT_FLOAT:
        return "a number";
    case ENT_BOOL:
        return "true or false";
    case ENT_TEXT:
        return "a string";
    case ENT_TIME:
        return "now";
    case ENT_UUID:
        return "random";
    case ENT_ENUM:
        return "one of its labels";
    case ENT_JSON:
        return "a string that holds JSON";
    default:
        return "none";
    }
}

static bool check_field_default_fits(const eg_field *field)
{
    const eg_default *value = &field->fallback;

    switch (field->type) {
    case ENT_INT:
        return value->kind == EG_DEFAULT_INT;
    case ENT_FLOAT:
        return value->kind == EG_DEFAULT_INT || value->kind == EG_DEFAULT_FLOAT;
    case ENT_BOOL:
        return value->kind == EG_DEFAULT_BOOL;
    case ENT_TEXT:
    case ENT_JSON:
        return value->kind == EG_DEFAULT_TEXT;
    case ENT_TIME:
        return value->kind == EG_DEFAULT_WORD && strcmp(value->text, "now") == 0;
    case ENT_UUID:
        return value->kind == EG_DEFAULT_WORD && strcmp(value->text, "random") == 0;
    case ENT_ENUM:
        return value->kind == EG_DEFAULT_WORD || value->kind == EG_DEFAULT_BOOL;
    default:
        return false;
    }
}

static void check_field_default(eg_run *run, const eg_field *field)
{
    if (field->fallback.kind == EG_DEFAULT_NONE) {
        return;
    }
    if (!check_field_default_fits(field)) {
        eg_error(run, field->fallback.pos, "a default that does not go with type %s, expected %s",
                 check_field_type_name(field), check_field_default_wanted(field));
        return;
    }
    switch (field->type) {
    case ENT_TEXT:
        check_field_text_default(run, field);
        break;
    case ENT_JSON:
        check_field_json_default(run, field);
        break;
    case ENT_ENUM:
        check_field_label_default(run, field);
        break;
    case ENT_INT:
    case ENT_FLOAT:
        check_field_number_default(run, field);
        break;
    default:
        break;
    }
}

void eg_check_field(eg_run *run, const eg_entity *entity, eg_field *field)
{
    check_field_name(run, entity, field->edge != NULL ? &field->edge->name : &field->name,
                     field->edge != NULL ? "an edge" : "a field");
    if (field->column.text == NULL) {
        field->column = field->name;
    }
    if (field->edge != NULL) {
        return;
    }
    check_field_labels(run, field);
    check_field_attributes(run, field);
    if (field->has_len) {
        check_field_len(run, field);
    }
    if (field->has_range) {
        check_field_range(run, field);
    }
    check_field_default(run, field);
}
