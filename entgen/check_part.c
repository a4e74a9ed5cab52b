/* The part of an entity's rows: what gives it, and that every unique index does. */
#include <string.h>

#include "ent/diff.h"
#include "ent/part.h"
#include "entgen/check.h"
#include "entgen/names.h"
#include "entgen/run.h"

static void check_part_fields(eg_run *run, eg_entity *entity)
{
    for (size_t i = 0; i < entity->part_names.n; i++) {
        const eg_name *name = eg_name_at(&entity->part_names, i);
        const eg_field *field = eg_need_field(run, entity, name);

        if (field == NULL) {
            return;
        }
        if (i == 0 && field->type == ENT_INT && !field->optional) {
            entity->part.number = (uint8_t)(field->number + 1);
        } else if (field->type != ENT_TEXT) {
            eg_error(run, name->pos,
                     "'%s' gives no part, expected string fields behind at most one required int",
                     name->text);
        } else if (entity->part.text_count == ENT_KEY_MAX) {
            eg_error(run, name->pos, "'%s' is a text too many for a part, expected at most %d",
                     name->text, ENT_KEY_MAX);
            return;
        } else {
            entity->part.texts[entity->part.text_count++] = field->number;
        }
    }
}

/* A key that stands for the number: a UUID of the entity that gives the numbers out. */
static void check_part_key(eg_run *run, eg_entity *entity)
{
    const eg_field *field;

    if (entity->part_key.text == NULL) {
        return;
    }
    field = eg_need_field(run, entity, &entity->part_key);
    if (field == NULL) {
        return;
    }
    if (field->type != ENT_UUID || field->optional) {
        eg_error(run, entity->part_key.pos, "'%s' is no required uuid, expected one as key",
                 entity->part_key.text);
    }
    if (entity->part.number != 1 || entity->key_count != 1 || entity->key_fields[0] != 0 ||
        entity->part.text_count == 0) {
        eg_error(run, entity->part_key.pos,
                 "a part with a key of its own, expected the entity's own id in front of texts");
    }
    entity->part.key = (uint8_t)(field->number + 1);
}

static bool check_part_has(const uint8_t *fields, size_t n, unsigned field)
{
    return memchr(fields, (int)field, n) != NULL;
}

/* Two rows of different parts cannot be told to differ. */
static void check_part_index(eg_run *run, const eg_entity *entity, const eg_index *index)
{
    const size_t n = index->names.n;
    bool given = entity->part.number != 0 && index->fields[0] == entity->part.number - 1;
    bool texts = entity->part.text_count > 0;

    for (size_t i = 0; i < entity->part.text_count; i++) {
        texts = texts && check_part_has(index->fields, n, entity->part.texts[i]);
    }
    if (!given && !texts) {
        eg_error(run, index->pos,
                 "a unique index that does not give the part, expected one that begins with its "
                 "int or has all its texts");
    }
}

static void check_part_columns(eg_run *run, const eg_entity *entity)
{
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        const char *taken = field->column.text;
        size_t n = strlen(taken);

        if (qp_name_eq(taken, QP_PART_COLUMN) ||
            (n > sizeof(QP_PART_COLUMN) &&
             qp_name_eq(taken + n - sizeof(QP_PART_COLUMN), "_" QP_PART_COLUMN))) {
            eg_error(run, field->name.pos,
                     "the column \"%s\" is one of parts, expected another column name", taken);
        }
    }
}

/* A cluster is kept by its owner's key, beside the owner's number. */
static void check_part_owner(eg_run *run, const eg_entity *entity)
{
    const eg_field *number = eg_field_at(entity, entity->part.number - 1u);
    const eg_entity *owner = number->edge != NULL ? number->edge->to : NULL;
    const char *key = owner != NULL ? owner->part_key.text : NULL;

    if (key == NULL) {
        return;
    }
    if (entity->key_fields[0] != number->number) {
        eg_error(run, entity->part_pos,
                 "the key of %s does not begin with '%s', which gives its "
                 "part",
                 entity->name.text, number->name.text);
    }
    if (eg_find_field(entity, key) != NULL) {
        eg_error(run, entity->part_pos, "%s has a '%s' of its own, which stands for %s in its keys",
                 entity->name.text, key, owner->name.text);
    }
}

static void check_part_entity(eg_run *run, eg_entity *entity)
{
    if (entity->part_by.text != NULL && eg_is_keyword(entity->part_by.text)) {
        eg_error(run, entity->part_by.pos, "'%s' is a keyword, expected the name of a function",
                 entity->part_by.text);
    }
    check_part_fields(run, entity);
    check_part_key(run, entity);
    if (run->error_count > 0) {
        return;
    }
    check_part_columns(run, entity);
    for (size_t i = 0; i < entity->indexes.n; i++) {
        if (eg_index_at(entity, i)->unique) {
            check_part_index(run, entity, eg_index_at(entity, i));
        }
    }
    if (entity->part.number != 0) {
        check_part_owner(run, entity);
    }
}

/* Rows of an entity without a part could not lie with those of the others. */
void eg_check_parts(eg_run *run, const eg_schema *schema)
{
    size_t count = 0;

    for (size_t i = 0; i < schema->entities.n; i++) {
        count += eg_entity_at(schema, i)->has_part ? 1 : 0;
    }
    for (size_t i = 0; i < schema->entities.n && count > 0 && run->error_count == 0; i++) {
        eg_entity *entity = eg_entity_at(schema, i);

        if (entity->has_part) {
            check_part_entity(run, entity);
        } else {
            eg_error(run, entity->name.pos, "entity %s has no part, expected one as others have",
                     entity->name.text);
        }
    }
}
