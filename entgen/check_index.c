/* Keys, indexes and full-text search of one entity, and what is implied: the index of a unique
 * field and of a foreign key. */
#include <assert.h>
#include <string.h>

#include "ent/diff.h"
#include "entgen/check.h"
#include "entgen/names.h"
#include "entgen/run.h"

static bool check_index_key_type(const eg_field *field)
{
    return field->type != ENT_JSON && field->type != ENT_FLOAT &&
           (field->type != ENT_TEXT || field->is_string);
}

static void check_index_key_field(eg_run *run, const eg_entity *entity, eg_field *field, eg_pos pos)
{
    bool alone = entity->key.n <= 1;

    field->in_key = true;
    if (field->optional) {
        eg_error(run, pos, "'%s' is optional, expected a required field in a key",
                 field->name.text);
    }
    if (!check_index_key_type(field)) {
        eg_error(run, pos,
                 "'%s' cannot be part of a key, expected int, bool, string, bytes, time, uuid or "
                 "enum",
                 field->name.text);
    }
    if (field->on_update) {
        eg_error(run, pos, "'%s' changes by itself, expected a field without on_update in a key",
                 field->name.text);
    }
    if (alone && field->unique) {
        eg_error(run, field->attr_pos, "'%s' is the key and so unique already", field->name.text);
    }
    if (alone && field->fallback.kind != EG_DEFAULT_NONE &&
        field->fallback.kind != EG_DEFAULT_WORD) {
        eg_error(run, field->fallback.pos, "'%s' is the key, expected no constant default",
                 field->name.text);
    }
}

/* A list of names as field numbers; false when one is unknown, twice there, or there are too many.
 */
static bool check_index_numbers(eg_run *run, const eg_entity *entity, const eg_list *names,
                                uint8_t *numbers)
{
    bool good = true;

    if (names->n > ENT_KEY_MAX) {
        eg_error(run, eg_name_at(names, 0)->pos, "a list of %zu fields, expected at most %d",
                 names->n, ENT_KEY_MAX);
        return false;
    }
    for (size_t i = 0; i < names->n; i++) {
        const eg_name *name = eg_name_at(names, i);
        const eg_field *field = eg_need_field(run, entity, name);
        if (field == NULL) {
            good = false;
            continue;
        }
        numbers[i] = field->number;
        for (size_t j = 0; j < i && good; j++) {
            if (numbers[j] == numbers[i]) {
                eg_error(run, name->pos, "'%s' is in the list already", name->text);
                good = false;
            }
        }
    }
    return good;
}

static void check_index_cluster(eg_run *run, const eg_entity *entity)
{
    if (entity->key.n != 2) {
        eg_error(run, entity->key_pos, "a cluster of %zu fields, expected two: owner, sequence",
                 entity->key.n);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        const eg_field *field = eg_field_at(entity, entity->key_fields[i]);
        if (field->type != ENT_INT) {
            eg_error(run, eg_name_at(&entity->key, i)->pos,
                     "'%s' is no int, expected two int fields in a cluster", field->name.text);
        }
    }
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        if (qp_name_eq(field->column.text, "id")) {
            eg_error(run, field->name.pos,
                     "a clustered entity has a hidden column \"id\", expected another column name");
        }
    }
}

static void check_index_key(eg_run *run, eg_entity *entity)
{
    eg_field *id;

    if (entity->has_key) {
        if (!check_index_numbers(run, entity, &entity->key, entity->key_fields)) {
            return;
        }
        entity->key_count = (uint8_t)entity->key.n;
        for (size_t i = 0; i < entity->key.n; i++) {
            check_index_key_field(run, entity, eg_field_at(entity, entity->key_fields[i]),
                                  eg_name_at(&entity->key, i)->pos);
        }
        if (entity->cluster) {
            check_index_cluster(run, entity);
        }
        return;
    }
    id = eg_find_field(entity, "id");
    assert(id != NULL);
    entity->key_fields[0] = id->number;
    entity->key_count = 1;
    check_index_key_field(run, entity, id, id->name.pos);
    if (check_index_key_type(id) && id->type != ENT_INT && id->type != ENT_UUID &&
        id->type != ENT_BYTES && !id->is_string) {
        eg_error(run, id->name.pos, "'id' is the key, expected type int, uuid, string or bytes");
    }
}

/* FTS5 has columns of its own beside those it is given. */
static void check_index_search_column(eg_run *run, const eg_entity *entity, const eg_name *name,
                                      const char *column)
{
    if (qp_name_eq(column, "rank") || qp_name_eq(column, "rowid") ||
        qp_name_eq(column, eg_format(run, "%s_search", entity->table.text))) {
        eg_error(run, name->pos,
                 "the column \"%s\" is the full-text index's own, expected column \"...\" with "
                 "another name",
                 column);
    }
}

static void check_index_search(eg_run *run, eg_entity *entity)
{
    const eg_field *key = eg_field_at(entity, entity->key_fields[0]);

    if (!entity->has_search) {
        return;
    }
    if (!entity->cluster && (entity->key_count != 1 || key->type != ENT_INT)) {
        eg_error(run, entity->search_pos,
                 "search needs a key that is one int, or a cluster; %s has another key",
                 entity->name.text);
    }
    if (entity->search.n > ENT_FIELDS_MAX) {
        eg_error(run, entity->search_pos, "a search over %zu fields, expected at most %d",
                 entity->search.n, ENT_FIELDS_MAX);
        return;
    }
    for (size_t i = 0; i < entity->search.n; i++) {
        const eg_name *name = eg_name_at(&entity->search, i);
        const eg_field *field = eg_need_field(run, entity, name);
        if (field == NULL) {
            continue;
        }
        if (field->type != ENT_TEXT) {
            eg_error(run, name->pos, "'%s' cannot be searched, expected a string or text field",
                     name->text);
        }
        check_index_search_column(run, entity, name, field->column.text);
        for (size_t j = 0; j < i; j++) {
            if (entity->search_fields[j] == field->number) {
                eg_error(run, name->pos, "'%s' is in the list already", name->text);
                break;
            }
        }
        entity->search_fields[i] = field->number;
    }
}

/* <entity>_<columns>, or <table>_<column>_key for a unique field. */
static const char *check_index_name(eg_run *run, const eg_entity *entity, const eg_index *index)
{
    const char *name = entity->snake;

    for (size_t i = 0; i < index->names.n; i++) {
        name = eg_format(run, "%s_%s", name, eg_field_at(entity, index->fields[i])->column.text);
    }
    return eg_sql_name(run, name);
}

static eg_index *check_index_make(eg_run *run, const eg_field *field)
{
    eg_index *index = eg_alloc(run, sizeof(*index));
    eg_name *name = eg_alloc(run, sizeof(*name));

    *name = field->name;
    eg_list_add(run, &index->names, name);
    index->pos = field->name.pos;
    index->fields[0] = field->number;
    return index;
}

/* Whether an index, the key or the cluster begins with this field; alone and unique if `unique`. */
static bool check_index_covers(const eg_entity *entity, uint8_t field, bool unique)
{
    if (entity->key_fields[0] == field && (!unique || entity->key_count == 1)) {
        return true;
    }
    for (size_t i = 0; i < entity->indexes.n; i++) {
        const eg_index *index = eg_index_at(entity, i);
        if (index->fields[0] == field && (!unique || (index->unique && index->names.n == 1))) {
            return true;
        }
    }
    return false;
}

static void check_index_add_implied(eg_run *run, eg_entity *entity)
{
    eg_list all = {0};

    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        if (field->unique) {
            eg_index *index = check_index_make(run, field);
            index->unique = true;
            index->name.pos = field->name.pos;
            index->name.text = eg_sql_name(
                run, eg_format(run, "%s_%s_key", entity->table.text, field->column.text));
            eg_list_add(run, &all, index);
        }
    }
    for (size_t i = 0; i < entity->indexes.n; i++) {
        eg_list_add(run, &all, eg_index_at(entity, i));
    }
    entity->indexes = all;
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        bool unique =
            field->edge != NULL && field->edge->other != NULL && !field->edge->other->many;
        if (field->edge != NULL && !check_index_covers(entity, field->number, unique)) {
            eg_index *index = check_index_make(run, field);
            index->unique = unique;
            eg_list_add(run, &entity->indexes, index);
        }
    }
}

static void check_index_same(eg_run *run, const eg_entity *entity, size_t number)
{
    const eg_index *index = eg_index_at(entity, number);

    for (size_t i = 0; i < number; i++) {
        const eg_index *other = eg_index_at(entity, i);
        if (other->names.n == index->names.n && other->desc == index->desc &&
            other->unique == index->unique &&
            memcmp(other->fields, index->fields, index->names.n) == 0) {
            eg_error(run, index->pos, "the same index is there already, at %s",
                     eg_where(run, other->pos));
            return;
        }
    }
}

void eg_check_indexes(eg_run *run, eg_entity *entity)
{
    bool good = true;

    check_index_key(run, entity);
    for (size_t i = 0; i < entity->indexes.n; i++) {
        eg_index *index = eg_index_at(entity, i);
        good = check_index_numbers(run, entity, &index->names, index->fields) && good;
        for (size_t j = 0; good && j < index->names.n; j++) {
            const eg_name *name = eg_name_at(&index->names, j);
            if (eg_field_at(entity, index->fields[j])->type == ENT_JSON) {
                eg_error(run, name->pos, "'%s' is json, which no index can hold", name->text);
            }
        }
    }
    if (!good || run->error_count > 0) {
        return;
    }
    check_index_search(run, entity);
    check_index_add_implied(run, entity);
    if (entity->indexes.n > EG_INDEXES_MAX) {
        eg_error(run, entity->name.pos, "entity %s has %zu indexes, expected at most %d",
                 entity->name.text, entity->indexes.n, EG_INDEXES_MAX);
        return;
    }
    for (size_t i = 0; i < entity->indexes.n; i++) {
        eg_index *index = eg_index_at(entity, i);
        if (index->name.text == NULL) {
            index->name.pos = index->pos;
            index->name.text = check_index_name(run, entity, index);
        }
        check_index_same(run, entity, i);
    }
}
