/* Errors of an engine in the schema's names: tables become entities, columns become fields.
 *
 * Owns: the texts about broken rules. The engine's contract for `rule` and `message` is in
 * engine.h.
 * Called by: every write of src/ent with its status; the transaction may be open or rolled back.
 * On return the error names entity and fields, and never a value; status and engine_code are
 * kept.
 *
 *   engine: rule "unique", message "sessions.tenant, sessions.key"
 *   caller: entity "Session", field "tenant, key", "Session: another row has the same tenant, key"
 */
#include "ent/row.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "ent/plan.h"
#include "ent/shard.h"

/* Appends to a fixed text; what does not fit is cut. `to` is terminated before and after. */
static void explain_add(char *to, size_t size, const char *text)
{
    size_t n = strlen(to);
    size_t more = strlen(text);

    assert(size > 0 && strlen(to) < size);
    if (n + more + 1 > size) {
        more = size - n - 1;
    }
    memcpy(to + n, text, more);
    to[n + more] = '\0';
}

/* The field of a column. Exact: the engine returns the name that src/ent wrote into the
 * statement. */
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

/* The text behind `name` at the start of a text, compared without the case of ASCII letters: a file
 * may spell names differently. NULL: the text begins otherwise. */
static const char *explain_skip(const char *text, const char *name)
{
    assert(text != NULL && name != NULL);
    for (; *name != '\0'; name++, text++) {
        char x = *name >= 'A' && *name <= 'Z' ? (char)(*name | 0x20) : *name;
        char y = *text >= 'A' && *text <= 'Z' ? (char)(*text | 0x20) : *text;
        if (x != y) {
            return NULL;
        }
    }
    return text;
}

/* The field whose column begins the list. Names may hold dots and commas, so that they are
 * compared, not searched for; the longest that fits wins. */
static const ent_field *explain_item(const ent_entity *entity, const char *item,
                                     const char **ret_rest)
{
    const ent_field *found = NULL;

    for (size_t i = 0; i < entity->field_count; i++) {
        const char *rest = explain_skip(item, entity->fields[i].column);
        bool whole = rest != NULL && (*rest == '\0' || strncmp(rest, ", ", 2) == 0);

        if (whole && (found == NULL || strlen(rest) < strlen(*ret_rest))) {
            found = &entity->fields[i];
            *ret_rest = rest;
        }
    }
    assert(found == NULL || *ret_rest > item);
    return found;
}

/* A column that only an engine with shards has: the shard, which errors never name, or the natural
 * key of the owner, which errors report under the name of its number. */
static bool explain_hidden(const ent_entity *entity, const char *item, const char **ret_name,
                           const char **ret_rest)
{
    const ent_shard *shard = entity->shard;
    const ent_entity *owner = qp_shard_owner(entity);
    const char *rest = shard == NULL ? NULL : explain_skip(item, QP_SHARD_COLUMN);

    *ret_name = NULL;
    if (shard != NULL && owner != NULL && rest == NULL) {
        assert(shard->number != 0 && owner->shard->key != 0); /* how an owner is found */
        rest = explain_skip(item, owner->fields[owner->shard->key - 1].column);
        *ret_name = entity->fields[shard->number - 1].name;
    }
    *ret_rest = rest;
    return rest != NULL && (*rest == '\0' || strncmp(rest, ", ", 2) == 0);
}

/* Appends a name to a list; names are separated by ", ". */
static void explain_add_name(char *to, size_t size, const char *name)
{
    explain_add(to, size, to[0] == '\0' ? "" : ", ");
    explain_add(to, size, name);
}

/* "table.col_a, table.col_b" as field names; the packed key of a cluster becomes its two fields.
 * Empty when the rule is about something that the entity does not know. Stops at the first column
 * that it does not know, with the names so far. */
static void explain_names(const ent_entity *entity, const char *list, char *ret, size_t size)
{
    const char *item = explain_skip(list, entity->table);

    assert(size > 0);
    ret[0] = '\0';
    while (item != NULL && *item == '.') {
        const char *rest = NULL;
        const char *name = NULL;
        const ent_field *field = explain_item(entity, item + 1, &rest);

        if (field == NULL && !explain_hidden(entity, item + 1, &name, &rest)) {
            rest = explain_skip(item + 1, QP_CLUSTER_COLUMN);
            if ((entity->flags & ENT_E_CLUSTER) == 0 || rest == NULL || *rest != '\0') {
                return;
            }
            for (size_t i = 0; i < entity->key_count; i++) {
                explain_add_name(ret, size, entity->fields[entity->key[i]].name);
            }
            return;
        }
        name = field != NULL ? field->name : name;
        if (name != NULL) {
            explain_add_name(ret, size, name);
        }
        item = *rest == '\0' ? NULL : explain_skip(rest + 2, entity->table);
    }
}

/* The field of the broken reference, or NULL. Engines do not say which one is broken: it is clear
 * when there is only one. */
static const char *explain_reference(const ent_entity *entity)
{
    const char *name = NULL;

    for (size_t i = 0; i < entity->edge_count; i++) {
        if (entity->edges[i].kind == ENT_TO_ONE) {
            if (name != NULL) {
                return NULL;
            }
            assert(entity->edges[i].field < entity->field_count);
            name = entity->fields[entity->edges[i].field].name;
        }
    }
    return name;
}

/* A delete breaks the references of others, a write its own. The status becomes QUIPU_INVALID for
 * both. */
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

/* See row.h. An error without a rule is not a broken constraint and passes unchanged, and so does a
 * QUIPU_IO, whose rule names the server's failure. The rule is copied first, because the functions
 * below clear the struct that holds it. */
quipu_status qp_explain(const ent_entity *entity, quipu_status status, bool deleting,
                        quipu_error *reterr)
{
    char names[sizeof(reterr->message) / 2];
    char rule[sizeof(reterr->rule)];
    int32_t code;

    assert(entity != NULL);
    if (status == QUIPU_OK || status == QUIPU_IO || reterr == NULL || reterr->rule[0] == '\0') {
        return status;
    }
    code = reterr->engine_code;
    memcpy(rule, reterr->rule, sizeof(rule));
    if (strcmp(rule, "reference") == 0) {
        (void)explain_broken_reference(entity, deleting, reterr);
    } else if (strcmp(rule, "range") == 0) {
        const ent_field *field = explain_field(entity, reterr->message, strlen(reterr->message));
        const char *name = field != NULL ? field->name : "";
        (void)qp_error_field(reterr, status, entity->name, name, rule,
                             "%s.%s would leave its range; nothing was changed", entity->name,
                             name);
    } else {
        explain_names(entity, reterr->message, names, sizeof(names));
        if (strcmp(rule, "check") == 0) {
            (void)qp_error_field(reterr, status, entity->name, NULL, rule,
                                 "%s: a check of the table refused the row", entity->name);
        } else if (names[0] == '\0') {
            (void)qp_error_field(reterr, status, entity->name, NULL, rule,
                                 "%s: a rule that only the file knows would be broken",
                                 entity->name);
        } else if (strcmp(rule, "unique") == 0) {
            (void)qp_error_field(reterr, status, entity->name, names, rule,
                                 "%s: another row has the same %s", entity->name, names);
        } else {
            (void)qp_error_field(reterr, status, entity->name, names, rule, "%s.%s is required",
                                 entity->name, names);
        }
    }
    reterr->engine_code = code;
    return status;
}
