/* No two things may get the same name: C identifiers of the generated code, members of a struct,
 * and tables, indexes and columns in the database. */
#include <string.h>

#include "entgen/check.h"
#include "entgen/names.h"
#include "entgen/run.h"

typedef struct check_names_state {
    eg_run *run;
    eg_names c;
    eg_names sql;
} check_names_state;

static void check_names_c(check_names_state *state, const char *text, eg_name owner)
{
    const eg_name *other = eg_names_claim(state->run, &state->c, text, owner);

    if (other != NULL) {
        eg_error(state->run, owner.pos,
                 "'%s' would generate the C name %s, which '%s' at %s generates, too", owner.text,
                 text, other->text, eg_where(state->run, other->pos));
    }
}

static void check_names_sql(check_names_state *state, const char *text, eg_name owner)
{
    const eg_name *other = eg_names_claim(state->run, &state->sql, text, owner);

    if (eg_is_engine_name(text)) {
        eg_error(state->run, owner.pos, "the name \"%s\" is the database's own, expected another",
                 text);
    } else if (other != NULL) {
        eg_error(state->run, owner.pos, "the name \"%s\" is taken in the database, at %s", text,
                 eg_where(state->run, other->pos));
    }
}

static void check_names_entity_c(check_names_state *state, const eg_entity *entity)
{
    static const char *const tails[] = {
        "",          "_new",        "_patch",  "_where",      "_order",         "_query",
        "_list",     "_on",         "_iter",   "_entity",     "_create",        "_create_many",
        "_upsert",   "_get",        "_find",   "_one",        "_count",         "_exists",
        "_update",   "_update_one", "_delete", "_delete_all", "_iter_begin",    "_iter_next",
        "_iter_end", "_fields",     "_edges",  "_indexes",    "_search_fields", "_shard",
        "_snippet",  "_hits_begin", "_index",  "_unindex",    "_index_clear",   "_index_check"};

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        check_names_c(state, eg_format(state->run, "%s%s", entity->c, tails[i]), entity->name);
    }
}

static void check_names_enum_c(check_names_state *state, const eg_entity *entity,
                               const eg_field *field)
{
    static const char *const tails[] = {"",    "_labels", "_where", "_patch", "_is",   "_is_not",
                                        "_in", "_not_in", "_set",   "_text",  "_parse"};

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        check_names_c(state,
                      eg_format(state->run, "%s_%s%s", entity->c, field->name.text, tails[i]),
                      field->name);
    }
    for (size_t i = 0; i < field->labels.n; i++) {
        const eg_name *label = eg_name_at(&field->labels, i);
        check_names_c(state,
                      eg_format(state->run, "%s_%s_%s", entity->upper,
                                eg_upper(state->run, field->name.text),
                                eg_upper(state->run, label->text)),
                      *label);
    }
}

static void check_names_index_c(check_names_state *state, const eg_entity *entity,
                                const eg_index *index)
{
    const char *fields = NULL;
    eg_name owner = {.pos = index->pos, .text = index->name.text};

    for (size_t i = 0; i < index->names.n; i++) {
        const char *name = eg_field_at(entity, index->fields[i])->name.text;
        fields = fields == NULL ? name : eg_format(state->run, "%s_%s", fields, name);
    }
    check_names_c(state, eg_format(state->run, "%s_by_%s", entity->c, fields), owner);
    check_names_c(state,
                  eg_format(state->run, "%s_ON_%s", entity->upper, eg_upper(state->run, fields)),
                  owner);
}

static void check_names_members(check_names_state *state, const eg_entity *entity)
{
    eg_names members = {0};
    eg_names columns = {.fold = true};

    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        const eg_name *other = eg_names_claim(state->run, &members, field->name.text, field->name);
        if (other != NULL) {
            eg_error(state->run, field->name.pos, "field '%s' is there already, at %s",
                     field->name.text, eg_where(state->run, other->pos));
        }
        other = eg_names_claim(state->run, &columns, field->column.text, field->name);
        if (other != NULL) {
            eg_error(state->run, field->column.pos, "column \"%s\" is there already, at %s",
                     field->column.text, eg_where(state->run, other->pos));
        }
    }
    for (size_t i = 0; i < entity->edges.n; i++) {
        const eg_edge *edge = eg_edge_at(entity, i);
        const eg_name *other = eg_names_claim(state->run, &members, edge->name.text, edge->name);
        if (other != NULL) {
            eg_error(state->run, edge->name.pos, "'%s' is there already, at %s", edge->name.text,
                     eg_where(state->run, other->pos));
        }
    }
    /* A former name may not be one of today's: the rename would not know which column is meant. */
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        const eg_name *other =
            field->was.text == NULL
                ? NULL
                : eg_names_claim(state->run, &columns, field->was.text, field->was);
        if (other != NULL) {
            eg_error(state->run, field->was.pos, "was \"%s\" is a column of today, at %s",
                     field->was.text, eg_where(state->run, other->pos));
        }
    }
}

static void check_names_entity(check_names_state *state, const eg_entity *entity)
{
    static const char *const shadows[] = {"", "_data", "_idx", "_content", "_docsize", "_config"};

    check_names_entity_c(state, entity);
    check_names_sql(state, entity->table.text, (eg_name){entity->table.text, entity->table.pos});
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        if (field->type == ENT_ENUM) {
            check_names_enum_c(state, entity, field);
        }
        check_names_c(state,
                      eg_format(state->run, "%s_BY_%s", entity->upper,
                                eg_upper(state->run, field->name.text)),
                      field->name);
    }
    check_names_c(
        state,
        eg_format(state->run, "%s_ON_%s", entity->upper, eg_key_is_id(entity) ? "ID" : "KEY"),
        entity->name);
    for (size_t i = 0; i < entity->indexes.n; i++) {
        const eg_index *index = eg_index_at(entity, i);
        if (index->unique) {
            check_names_index_c(state, entity, index);
        }
        check_names_sql(state, index->name.text, index->name);
    }
    for (size_t i = 0; i < entity->views.n; i++) {
        const eg_view *view = eg_view_at(entity, i);
        check_names_c(state, eg_format(state->run, "%s_%s_view", entity->c, view->name.text),
                      view->name);
    }
    for (size_t i = 0; entity->has_search && i < sizeof(shadows) / sizeof(shadows[0]); i++) {
        check_names_sql(state, eg_format(state->run, "%s_search%s", entity->table.text, shadows[i]),
                        (eg_name){entity->table.text, entity->search_pos});
    }
}

void eg_check_claims(eg_run *run, const eg_schema *schema)
{
    check_names_state state = {.run = run, .sql = {.fold = true}};

    for (size_t i = 0; i < schema->entities.n; i++) {
        check_names_members(&state, eg_entity_at(schema, i));
    }
    if (run->error_count > 0) {
        return;
    }
    check_names_c(&state, eg_format(run, "%s%s_schema", schema->prefix.text, schema->name.text),
                  schema->name);
    check_names_c(&state, eg_format(run, "%s%s_entities", schema->prefix.text, schema->name.text),
                  schema->name);
    for (size_t i = 0; i < schema->classes.n; i++) {
        const eg_name *name = eg_name_at(&schema->classes, i);
        check_names_c(&state,
                      eg_format(run, "%s_CLASS_%s", schema->upper_name, eg_upper(run, name->text)),
                      *name);
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        check_names_entity(&state, eg_entity_at(schema, i));
    }
}
