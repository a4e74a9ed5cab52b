/* Edges: both sides must be there and agree; the foreign key takes the type of the key it holds. */
#include <assert.h>
#include <string.h>

#include "entgen/check.h"
#include "entgen/run.h"

static eg_entity *check_edge_entity(const eg_schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->entities.n; i++) {
        eg_entity *entity = eg_entity_at(schema, i);
        if (strcmp(entity->name.text, name) == 0) {
            return entity;
        }
    }
    return NULL;
}

static eg_edge *check_edge_find(const eg_entity *entity, const char *name)
{
    for (size_t i = 0; i < entity->edges.n; i++) {
        if (strcmp(eg_edge_at(entity, i)->name.text, name) == 0) {
            return eg_edge_at(entity, i);
        }
    }
    return NULL;
}

static void check_edge_target(eg_run *run, const eg_schema *schema, eg_edge *edge)
{
    const char **names;

    edge->to = check_edge_entity(schema, edge->target.text);
    if (edge->to != NULL) {
        return;
    }
    names = eg_alloc(run, schema->entities.n * sizeof(*names));
    for (size_t i = 0; i < schema->entities.n; i++) {
        names[i] = eg_entity_at(schema, i)->name.text;
    }
    eg_error(run, edge->target.pos, "unknown entity '%s'%s", edge->target.text,
             eg_suggest(run, edge->target.text, names, schema->entities.n));
}

/* The `<-` side finds its `->` side by name. */
static void check_edge_inverse(eg_run *run, const eg_entity *entity, eg_edge *edge)
{
    eg_edge *other = check_edge_find(edge->to, edge->inverse.text);

    if (other == NULL) {
        eg_error(run, edge->inverse.pos,
                 "entity %s has no edge '%s', expected there: edge %s -> %s[] cascade",
                 edge->to->name.text, edge->inverse.text, edge->inverse.text, entity->name.text);
        return;
    }
    if (other->to == NULL) {
        return; /* its own mistake was reported */
    }
    if (!other->owner || strcmp(other->target.text, entity->name.text) != 0) {
        eg_error(run, edge->inverse.pos, "edge '%s' of %s does not lead here, expected -> %s",
                 other->name.text, edge->to->name.text, entity->name.text);
        return;
    }
    if (other->other != NULL) {
        eg_error(run, edge->inverse.pos, "edge '%s' of %s has an inverse already, at %s",
                 other->name.text, edge->to->name.text, eg_where(run, other->other->name.pos));
        return;
    }
    edge->other = other;
    edge->on_delete = other->on_delete;
    other->other = edge;
    other->field = edge->field;
    if (edge->on_delete == ENT_SET_NULL && !edge->optional) {
        eg_error(run, edge->name.pos,
                 "edge '%s' of %s says set_null, expected '?' after %s.%s to let it",
                 other->name.text, edge->to->name.text, edge->target.text, edge->inverse.text);
    }
    if (edge->on_delete == ENT_SET_NULL && edge->immutable) {
        eg_error(run, edge->name.pos, "edge '%s' of %s says set_null, but this side is immutable",
                 other->name.text, edge->to->name.text);
    }
}

/* The one key field of an entity that can be referred to, or NULL. */
static eg_field *check_edge_key(const eg_entity *entity)
{
    eg_field *id;

    if (entity->cluster) {
        return NULL;
    }
    if (entity->has_key) {
        return entity->key.n == 1 ? eg_find_field(entity, eg_name_at(&entity->key, 0)->text) : NULL;
    }
    id = eg_find_field(entity, "id");
    assert(id != NULL);
    return id;
}

static bool check_edge_key_type(const eg_field *key)
{
    return key->type == ENT_INT || key->type == ENT_UUID || key->type == ENT_BYTES ||
           key->is_string;
}

/* Follow foreign keys until a real type is found. */
static bool check_edge_resolve(eg_run *run, eg_entity *entity, eg_field *field)
{
    eg_field *key;

    if (field->edge == NULL || field->type != 0) {
        return true;
    }
    if (field->edge->to == NULL) {
        return false;
    }
    if (entity->resolving) {
        eg_error(run, field->edge->name.pos, "the keys of %s and %s are made of each other",
                 entity->name.text, field->edge->to->name.text);
        return false;
    }
    key = check_edge_key(field->edge->to);
    if (key == NULL || (key->edge == NULL && !check_edge_key_type(key))) {
        eg_error(run, field->edge->target.pos,
                 "%s cannot be referred to, expected an entity whose key is one int, uuid, string "
                 "or bytes field",
                 field->edge->to->name.text);
        return false;
    }
    entity->resolving = true;
    if (check_edge_resolve(run, field->edge->to, key)) {
        field->type = key->type;
        field->is_string = key->is_string;
    }
    entity->resolving = false;
    return field->type != 0;
}

/* In the finished model the edges that hold a key come first, in the order of their fields: so the
 * canonical text, which writes them there, reads back as the same schema. */
static void check_edge_sort(eg_run *run, eg_entity *entity)
{
    eg_list sorted = {0};

    for (size_t i = 0; i < entity->edges.n; i++) {
        if (!eg_edge_at(entity, i)->owner) {
            eg_list_add(run, &sorted, eg_edge_at(entity, i));
        }
    }
    for (size_t i = 0; i < entity->edges.n; i++) {
        if (eg_edge_at(entity, i)->owner) {
            eg_list_add(run, &sorted, eg_edge_at(entity, i));
        }
    }
    entity->edges = sorted;
}

static void check_edge_owners(eg_run *run, const eg_entity *entity)
{
    for (size_t i = 0; i < entity->edges.n; i++) {
        const eg_edge *edge = eg_edge_at(entity, i);
        if (edge->owner && edge->to != NULL && edge->other == NULL) {
            eg_error(run, edge->name.pos,
                     "edge '%s' has no inverse, expected in %s: edge ... <- %s.%s", edge->name.text,
                     edge->to->name.text, entity->name.text, edge->name.text);
        }
    }
}

void eg_check_edges(eg_run *run, eg_schema *schema)
{
    for (size_t e = 0; e < schema->entities.n; e++) {
        eg_entity *entity = eg_entity_at(schema, e);
        if (entity->edges.n > EG_EDGES_MAX) {
            eg_error(run, entity->name.pos, "entity %s has %zu edges, expected at most %d",
                     entity->name.text, entity->edges.n, EG_EDGES_MAX);
        }
        for (size_t i = 0; i < entity->edges.n; i++) {
            check_edge_target(run, schema, eg_edge_at(entity, i));
        }
    }
    for (size_t e = 0; e < schema->entities.n; e++) {
        const eg_entity *entity = eg_entity_at(schema, e);
        for (size_t i = 0; i < entity->edges.n; i++) {
            eg_edge *edge = eg_edge_at(entity, i);
            if (edge->to != NULL && !edge->owner) {
                check_edge_inverse(run, entity, edge);
            }
        }
    }
    for (size_t e = 0; e < schema->entities.n; e++) {
        check_edge_sort(run, eg_entity_at(schema, e));
    }
    /* Owners only find their inverse once every entity was seen. */
    for (size_t e = 0; e < schema->entities.n && run->error_count == 0; e++) {
        check_edge_owners(run, eg_entity_at(schema, e));
    }
    for (size_t e = 0; e < schema->entities.n && run->error_count == 0; e++) {
        eg_entity *entity = eg_entity_at(schema, e);
        for (size_t i = 0; i < entity->fields.n; i++) {
            (void)check_edge_resolve(run, entity, eg_field_at(entity, i));
        }
    }
}
