/* Shards: what determines the shard of an entity's rows, and that every unique index does so, too.
 */
#include <string.h>

#include "ent/diff.h"
#include "ent/shard.h"
#include "entgen/check.h"
#include "entgen/names.h"
#include "entgen/run.h"

static void check_shard_fields(eg_run *run, eg_entity *entity)
{
    for (size_t i = 0; i < entity->shard_names.n; i++) {
        const eg_name *name = eg_name_at(&entity->shard_names, i);
        const eg_field *field = eg_need_field(run, entity, name);

        if (field == NULL) {
            return;
        }
        if (i == 0 && field->type == ENT_INT && !field->optional) {
            entity->shard.number = (uint8_t)(field->number + 1);
        } else if (field->type != ENT_TEXT) {
            eg_error(run, name->pos,
                     "'%s' gives no shard, expected string fields behind at most one required int",
                     name->text);
        } else if (entity->shard.text_count == ENT_KEY_MAX) {
            eg_error(run, name->pos, "'%s' is a text too many for a shard, expected at most %d",
                     name->text, ENT_KEY_MAX);
            return;
        } else {
            entity->shard.texts[entity->shard.text_count++] = field->number;
        }
    }
}

/* A key that stands for the number: a UUID of the entity that gives the numbers out. */
static void check_shard_key(eg_run *run, eg_entity *entity)
{
    const eg_field *field;

    if (entity->shard_key.text == NULL) {
        return;
    }
    field = eg_need_field(run, entity, &entity->shard_key);
    if (field == NULL) {
        return;
    }
    if (field->type != ENT_UUID || field->optional) {
        eg_error(run, entity->shard_key.pos, "'%s' is no required uuid, expected one as key",
                 entity->shard_key.text);
    }
    if (entity->shard.number != 1 || entity->key_count != 1 || entity->key_fields[0] != 0 ||
        entity->shard.text_count == 0) {
        eg_error(run, entity->shard_key.pos,
                 "a shard with a key of its own, expected the entity's own id in front of texts");
    }
    entity->shard.key = (uint8_t)(field->number + 1);
}

static bool check_shard_has(const uint8_t *fields, size_t n, unsigned field)
{
    return memchr(fields, (int)field, n) != NULL;
}

/* Uniqueness is checked within one shard: a unique index must determine it. */
static void check_shard_index(eg_run *run, const eg_entity *entity, const eg_index *index)
{
    const size_t n = index->names.n;
    bool given = entity->shard.number != 0 && index->fields[0] == entity->shard.number - 1;
    bool texts = entity->shard.text_count > 0;

    for (size_t i = 0; i < entity->shard.text_count; i++) {
        texts = texts && check_shard_has(index->fields, n, entity->shard.texts[i]);
    }
    if (!given && !texts) {
        eg_error(run, index->pos,
                 "a unique index that does not give the shard, expected one that begins with its "
                 "int or has all its texts");
    }
}

static void check_shard_columns(eg_run *run, const eg_entity *entity)
{
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        const char *taken = field->column.text;
        size_t n = strlen(taken);

        if (qp_name_eq(taken, QP_SHARD_COLUMN) ||
            (n > sizeof(QP_SHARD_COLUMN) &&
             qp_name_eq(taken + n - sizeof(QP_SHARD_COLUMN), "_" QP_SHARD_COLUMN))) {
            eg_error(run, field->name.pos,
                     "the column \"%s\" is one of shards, expected another column name", taken);
        }
    }
}

/* A cluster is keyed by its owner's natural key, and stores the owner's number, too. */
static void check_shard_owner(eg_run *run, const eg_entity *entity)
{
    const eg_field *number = eg_field_at(entity, entity->shard.number - 1u);
    const eg_entity *owner = number->edge != NULL ? number->edge->to : NULL;
    const char *key = owner != NULL ? owner->shard_key.text : NULL;

    if (key == NULL) {
        return;
    }
    if (entity->key_fields[0] != number->number) {
        eg_error(run, entity->shard_pos,
                 "the key of %s does not begin with '%s', which gives its "
                 "shard",
                 entity->name.text, number->name.text);
    }
    if (eg_find_field(entity, key) != NULL) {
        eg_error(run, entity->shard_pos,
                 "%s has a '%s' of its own, which stands for %s in its keys", entity->name.text,
                 key, owner->name.text);
    }
}

static void check_shard_entity(eg_run *run, eg_entity *entity)
{
    if (entity->shard_by.text != NULL && eg_is_keyword(entity->shard_by.text)) {
        eg_error(run, entity->shard_by.pos, "'%s' is a keyword, expected the name of a function",
                 entity->shard_by.text);
    }
    check_shard_fields(run, entity);
    check_shard_key(run, entity);
    if (run->error_count > 0) {
        return;
    }
    check_shard_columns(run, entity);
    for (size_t i = 0; i < entity->indexes.n; i++) {
        if (eg_index_at(entity, i)->unique) {
            check_shard_index(run, entity, eg_index_at(entity, i));
        }
    }
    if (entity->shard.number != 0) {
        check_shard_owner(run, entity);
    }
}

/* Rows of an entity without a shard could not lie with those of the others. */
void eg_check_shards(eg_run *run, const eg_schema *schema)
{
    size_t count = 0;

    for (size_t i = 0; i < schema->entities.n; i++) {
        count += eg_entity_at(schema, i)->has_shard ? 1 : 0;
    }
    for (size_t i = 0; i < schema->entities.n && count > 0 && run->error_count == 0; i++) {
        eg_entity *entity = eg_entity_at(schema, i);

        if (entity->has_shard) {
            check_shard_entity(run, entity);
        } else {
            eg_error(run, entity->name.pos, "entity %s has no shard, expected one as others have",
                     entity->name.text);
        }
    }
}
