/* Everything that must hold before code is written, in an order that keeps one mistake from causing
 * errors about others. */
#include "entgen/check.h"

#include <string.h>

#include "entgen/names.h"
#include "entgen/run.h"

bool eg_key_is_id(const eg_entity *entity)
{
    return entity->key_count == 1 &&
           strcmp(eg_field_at(entity, entity->key_fields[0])->name.text, "id") == 0;
}

eg_field *eg_find_field(const eg_entity *entity, const char *name)
{
    for (size_t i = 0; i < entity->fields.n; i++) {
        eg_field *field = eg_field_at(entity, i);
        if (strcmp(field->name.text, name) == 0 ||
            (field->edge != NULL && strcmp(field->edge->name.text, name) == 0)) {
            return field;
        }
    }
    return NULL;
}

eg_field *eg_need_field(eg_run *run, const eg_entity *entity, const eg_name *name)
{
    eg_field *field = eg_find_field(entity, name->text);

    if (field == NULL) {
        const char **names = eg_alloc(run, (entity->fields.n + 1) * sizeof(*names));
        for (size_t i = 0; i < entity->fields.n; i++) {
            names[i] = eg_field_at(entity, i)->name.text;
        }
        eg_error(run, name->pos, "entity %s has no field '%s'%s", entity->name.text, name->text,
                 eg_suggest(run, name->text, names, entity->fields.n));
    }
    return field;
}

/* The implied key, at the front. */
static void check_add_id(eg_run *run, eg_entity *entity)
{
    eg_list fields = {0};
    eg_field *id;

    if (entity->has_key || eg_find_field(entity, "id") != NULL) {
        return;
    }
    id = eg_alloc(run, sizeof(*id));
    id->name = (eg_name){"id", entity->name.pos};
    id->type = ENT_INT;
    id->flags = ENT_F_AUTO;
    eg_list_add(run, &fields, id);
    for (size_t i = 0; i < entity->fields.n; i++) {
        eg_list_add(run, &fields, eg_field_at(entity, i));
    }
    entity->fields = fields;
}

static void check_entity_name(eg_run *run, const eg_schema *schema, const eg_entity *entity)
{
    bool runtime = strncmp(entity->c, "ent_", 4) == 0 || strcmp(entity->c, "ent") == 0;

    if (eg_is_keyword(entity->c)) {
        eg_error(run, entity->name.pos,
                 "entity %s would be the C type %s, a keyword; expected another name or a prefix",
                 entity->name.text, entity->c);
    } else if (runtime || (schema->prefix.text[0] == '\0' && eg_is_parameter(entity->c))) {
        eg_error(run, entity->name.pos,
                 "entity %s would be the C type %s, which the generated code uses; expected "
                 "another name or a prefix",
                 entity->name.text, entity->c);
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        const eg_entity *other = eg_entity_at(schema, i);
        if (other == entity) {
            return;
        }
        if (strcmp(other->name.text, entity->name.text) == 0) {
            eg_error(run, entity->name.pos, "entity %s is there already, at %s", entity->name.text,
                     eg_where(run, other->name.pos));
            return;
        }
    }
}

static void check_entity(eg_run *run, const eg_schema *schema, eg_entity *entity)
{
    entity->snake = eg_snake(run, entity->name.text);
    entity->c = eg_format(run, "%s%s", schema->prefix.text, entity->snake);
    entity->upper = eg_upper(run, entity->c);
    if (entity->table.text == NULL) {
        entity->table =
            (eg_name){eg_sql_name(run, eg_plural(run, entity->snake)), entity->name.pos};
    }
    check_entity_name(run, schema, entity);
    check_add_id(run, entity);
    if (entity->fields.n > ENT_FIELDS_MAX) {
        eg_error(run, entity->name.pos, "entity %s has %zu fields, expected at most %d",
                 entity->name.text, entity->fields.n, ENT_FIELDS_MAX);
        return;
    }
    for (size_t i = 0; i < entity->fields.n; i++) {
        eg_field_at(entity, i)->number = (uint8_t)i;
        eg_check_field(run, entity, eg_field_at(entity, i));
    }
}

/* A scalar whose absence must differ from its zero value is an ent_opt_* in X_new. */
static bool check_opt_new(const eg_field *field)
{
    const eg_default *value = &field->fallback;

    switch (field->type) {
    case ENT_INT:
    case ENT_BOOL:
        return field->optional || (field->flags & ENT_F_AUTO) != 0 ||
               (value->kind != EG_DEFAULT_NONE && value->i != 0);
    case ENT_FLOAT:
        return field->optional || (value->kind != EG_DEFAULT_NONE && value->f != 0);
    case ENT_TIME:
    case ENT_UUID:
        return field->optional || value->kind != EG_DEFAULT_NONE;
    default:
        return false;
    }
}

/* Flags that an attribute sets by itself. */
static unsigned check_plain_flags(const eg_field *field)
{
    return (field->notempty ? ENT_F_NOTEMPTY : 0) | (field->is_string ? ENT_F_STRING : 0) |
           (field->local ? ENT_F_LOCAL : 0);
}

static void check_flags(eg_field *field)
{
    bool now = field->type == ENT_TIME && field->fallback.kind != EG_DEFAULT_NONE;
    bool random = field->type == ENT_UUID && field->fallback.kind != EG_DEFAULT_NONE;
    unsigned flags = field->flags;

    flags |= field->optional ? ENT_F_NULLABLE : 0;
    flags |= check_opt_new(field) ? ENT_F_OPT_NEW : 0;
    flags |= field->fallback.kind != EG_DEFAULT_NONE && !now && !random ? ENT_F_DEFAULT : 0;
    flags |= now ? ENT_F_NOW : 0;
    flags |= random ? ENT_F_RANDOM : 0;
    flags |= field->on_update ? ENT_F_ON_UPDATE : 0;
    flags |= field->immutable || field->in_key ? ENT_F_IMMUTABLE : 0;
    field->flags = (uint16_t)(flags | check_plain_flags(field));
}

static void check_schema(eg_run *run, eg_schema *schema)
{
    const char *prefix = schema->prefix.text;

    if (schema->entities.n == 0) {
        eg_error_file(run, run->files[0], "no entity, expected at least one");
    } else if (schema->entities.n > EG_ENTITIES_MAX) {
        eg_error(run, eg_entity_at(schema, EG_ENTITIES_MAX)->name.pos,
                 "%zu entities, expected at most %d", schema->entities.n, EG_ENTITIES_MAX);
    }
    if (schema->version < schema->min_reader || schema->version < schema->min_writer) {
        eg_error(run, schema->name.pos,
                 "version %u is below min_reader or min_writer: this program could not use its own "
                 "files",
                 (unsigned)schema->version);
    }
    if (prefix == NULL) {
        schema->prefix.text = "";
    } else if (prefix[strlen(prefix) - 1] != '_') {
        schema->prefix.text = eg_format(run, "%s_", prefix);
    }
    schema->upper_name =
        eg_upper(run, eg_format(run, "%s%s", schema->prefix.text, schema->name.text));
}

void eg_check(eg_run *run, eg_schema *schema)
{
    check_schema(run, schema);
    if (run->error_count > 0) {
        return;
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        check_entity(run, schema, eg_entity_at(schema, i));
    }
    eg_check_edges(run, schema);
    for (size_t i = 0; i < schema->entities.n && run->error_count == 0; i++) {
        eg_check_indexes(run, eg_entity_at(schema, i));
    }
    if (run->error_count == 0) {
        eg_check_shards(run, schema);
    }
    if (run->error_count == 0) {
        eg_check_views(run, schema);
    }
    if (run->error_count == 0) {
        eg_check_claims(run, schema);
    }
    for (size_t i = 0; i < schema->entities.n && run->error_count == 0; i++) {
        eg_entity *entity = eg_entity_at(schema, i);
        for (size_t j = 0; j < entity->fields.n; j++) {
            check_flags(eg_field_at(entity, j));
        }
    }
}
