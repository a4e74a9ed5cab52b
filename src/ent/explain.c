/* Errors of the engine in the schema's words: tables become entities, columns become fields. */
#include "ent/row.h"

#include <string.h>

#include "base/error.h"

/* Append to a fixed text, cutting what does not fit. */
static void explain_add(char *to, size_t size, const char *text)
{
    size_t n = strlen(to);
    size_t more = strlen(text);

    if (n + more + 1 > size) {
        more = size - n - 1;
    }
    memcpy(to + n, text, more);
    to[n + more] = '\0';
}

static const ent_field *explain_field(const ent_entity *entity, const char *column, size_t n)
{
    for (size_t i = 0; i < entity->field_count; i++) {
        if (strlen(entity->fields[i].column) == n &&
            memcmp(entity->fields[i].column, column, n) == 0) {
            return &entity->fields[i];
        }
    }
    return NULL;
}

/* "col_a,col_b" as field names; a column that is no field is the packed key of a cluster. */
static void explain_names(const ent_entity *entity, const char *columns, char *ret, size_t size)
{
    ret[0] = '\0';
    while (*columns != '\0') {
        size_t n = strcspn(columns, ",");
        const ent_field *field = explain_field(entity, columns, n);

        if (field != NULL) {
            explain_add(ret, size, ret[0] == '\0' ? "" : ", ");
            explain_add(ret, size, field->name);
        } else {
            for (size_t i = 0; i < entity->key_count; i++) {
                explain_add(ret, size, ret[0] == '\0' ? "" : ", ");
                explain_add(ret, size, entity->fields[entity->key[i]].name);
            }
        }
        columns += n;
        columns += *columns == ',' ? 1 : 0;
    }
}

/* The engine does not say which reference is broken: it is clear when there is only one. */
static const char *explain_reference(const ent_entity *entity)
{
    const char *name = NULL;

    for (size_t i = 0; i < entity->edge_count; i++) {
        if (entity->edges[i].kind == ENT_TO_ONE) {
            if (name != NULL) {
                return NULL;
            }
            name = entity->fields[entity->edges[i].field].name;
        }
    }
    return name;
}

static quipu_status explain_broken_reference(const ent_entity *entity, bool deleting,
                                             quipu_error *reterr)
{
    const char *field = deleting ? NULL : explain_reference(entity);

    if (deleting) {
        return qp_error_field(reterr, QUIPU_INVALID, entity->name, NULL, "reference",
                              "%s: other rows still refer to it; delete them first", entity->name);
    }
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field, "reference",
                          "%s%s%s refers to a row that does not exist, or is referred to by its "
                          "old key",
                          entity->name, field != NULL ? "." : "", field != NULL ? field : "");
}

quipu_status qp_explain(const ent_entity *entity, quipu_status status, bool deleting,
                        quipu_error *reterr)
{
    char names[sizeof(reterr->message) / 2];
    char rule[sizeof(reterr->rule)];
    int32_t code;

    if (status == QUIPU_OK || reterr == NULL || reterr->rule[0] == '\0') {
        return status;
    }
    code = reterr->engine_code;
    memcpy(rule, reterr->rule, sizeof(rule));
    if (strcmp(rule, "reference") == 0) {
        (void)explain_broken_reference(entity, deleting, reterr);
    } else if (reterr->entity[0] != '\0' && strcmp(reterr->entity, entity->table) != 0) {
        (void)qp_error_field(reterr, status, entity->name, NULL, rule,
                             "%s: a rule of another table would be broken", entity->name);
    } else {
        explain_names(entity, reterr->message, names, sizeof(names));
        if (strcmp(rule, "unique") == 0) {
            (void)qp_error_field(reterr, status, entity->name, names, rule,
                                 "%s: another row has the same %s", entity->name, names);
        } else if (strcmp(rule, "required") == 0) {
            (void)qp_error_field(reterr, status, entity->name, names, rule, "%s.%s is required",
                                 entity->name, names);
        } else if (strcmp(rule, "range") == 0) {
            (void)qp_error_field(reterr, status, entity->name, names, rule,
                                 "%s.%s would leave its range; nothing was changed", entity->name,
                                 names);
        } else {
            (void)qp_error_field(reterr, status, entity->name, NULL, rule,
                                 "%s: a check of the table refused the row", entity->name);
        }
    }
    reterr->engine_code = code;
    return status;
}
