/* The difference between a schema and what a database holds, compared by meaning. It only proposes
 * additions, and renames that the schema states; everything else is a problem that a named step
 * solves.
 *
 * Owns: the rules of what fits. Called by migrate.c and entgen import; no connection is needed.
 * Everything it allocates goes to the caller's arena; the first problem of a table stops its
 * changes.
 * Locks: none; both descriptions are only read. */
#include "ent/diff.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "ent/shard.h"

/* The hidden key column of a cluster, in engines that pack it. */
#define DIFF_CLUSTER_KEY "id"

/* One comparison. `problem` is the first that was found, in any table; changes of a table that has
 * one are taken back, so that steps find it as it was. */
typedef struct diff_work {
    const qp_file_shape *shape; /* what the database holds; borrowed */
    const qp_migrator *migrator;
    quipu_arena *arena;      /* holds the changes, names and the marks of fitting tables */
    qp_diff_purpose purpose; /* whether the answer is for a reader, who changes nothing */
    bool packs;              /* the engine keeps a cluster's key in one integer */
    bool shards;             /* the engine has shards, which lead its keys */
    quipu_time now;          /* the default of added columns that ask for the time */
    qp_ddl *changes;
    size_t n; /* changes so far */
    quipu_error problem;
} diff_work;

/* SQL compares names without the case of ASCII letters. */
bool qp_name_eq(const char *a, const char *b)
{
    assert(a != NULL && b != NULL);
    for (;; a++, b++) {
        /* Only A to Z: other letters differ between engines and locales. */
        char x = *a >= 'A' && *a <= 'Z' ? (char)(*a | 0x20) : *a;
        char y = *b >= 'A' && *b <= 'Z' ? (char)(*b | 0x20) : *b;
        if (x != y) {
            return false;
        }
        if (x == '\0') {
            return true;
        }
    }
}

/* NULL: the database has no such table or view. */
const qp_table_shape *qp_shape_table(const qp_file_shape *shape, const char *name)
{
    assert(shape != NULL);
    for (size_t i = 0; i < shape->table_count; i++) {
        if (qp_name_eq(shape->tables[i].name, name)) {
            return &shape->tables[i];
        }
    }
    return NULL;
}

/* NULL: the table has no such column. */
const qp_column *qp_shape_column(const qp_table_shape *table, const char *name)
{
    assert(table != NULL);
    for (size_t i = 0; i < table->column_count; i++) {
        if (qp_name_eq(table->columns[i].name, name)) {
            return &table->columns[i];
        }
    }
    return NULL;
}

/* The to-one edge whose key the field holds. */
const ent_edge *qp_entity_reference(const ent_entity *entity, const ent_field *field)
{
    assert(entity != NULL);
    for (size_t i = 0; i < entity->edge_count; i++) {
        const ent_edge *edge = &entity->edges[i];
        if (edge->kind == ENT_TO_ONE && &entity->fields[edge->field] == field) {
            /* By address: a field belongs to one entity. */
            return edge;
        }
    }
    return NULL;
}

/* Columns of fields, under their present and their former name, and the key of a cluster. */
bool qp_entity_knows(const ent_entity *entity, const char *column)
{
    assert(column != NULL);
    /* No field, and no other program's: the engine made it. */
    if ((entity->flags & ENT_E_CLUSTER) != 0 && qp_name_eq(column, DIFF_CLUSTER_KEY)) {
        return true;
    }
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        if (qp_name_eq(field->column, column) ||
            (field->was != NULL && qp_name_eq(field->was, column))) {
            return true;
        }
    }
    return false;
}

/* The column that holds a field now: by its name, else by its former one. */
static const qp_column *diff_column(const qp_table_shape *table, const ent_field *field)
{
    const qp_column *column = qp_shape_column(table, field->column);

    assert(field->column != NULL);
    if (column == NULL && field->was != NULL) {
        column = qp_shape_column(table, field->was);
    }
    return column;
}

/* Records a problem and its fix; only the first one is reported. */
static void diff_problem_fix(diff_work *work, const ent_entity *entity, const char *column,
                             const char *what, const char *fix)
{
    assert(what != NULL && fix != NULL);
    if (work->problem.status == QUIPU_OK) {
        /* Sets the status, too: a problem does not end the comparison, and the caller reads it at
         * the end. */
        (void)qp_error_field(&work->problem, QUIPU_UNSUPPORTED, entity->name, column, NULL,
                             "table \"%s\"%s%s%s %s; %s", entity->table,
                             column != NULL ? ", column \"" : "", column != NULL ? column : "",
                             column != NULL ? "\"" : "", what, fix);
    }
}

/* A problem with the usual fix. */
static void diff_problem(diff_work *work, const ent_entity *entity, const char *column,
                         const char *what)
{
    diff_problem_fix(work, entity, column, what,
                     work->purpose == QP_DIFF_READ
                         ? "a named migration step is needed, which only an open for writing runs"
                         : "a named migration step is needed");
}

/* Appends a change. The array has room for every change that a schema can need (qp_diff_make()).
 * The pointer is for the caller to fill in what the kind needs, before the next change. */
static qp_ddl *diff_add(diff_work *work, qp_ddl_kind kind, const ent_entity *entity)
{
    /* Room was computed before: a change more is an error of qp_diff_make(). */
    qp_ddl *change = &work->changes[work->n++];

    assert(work->changes != NULL && entity != NULL);
    *change = (qp_ddl){.kind = (uint8_t)kind, .entity = entity, .now = work->now};
    return change;
}

/* Whether a field is in the primary key. */
static bool diff_in_key(const ent_entity *entity, size_t field)
{
    assert(field < entity->field_count);
    for (size_t i = 0; i < entity->key_count; i++) {
        if (entity->key[i] == field) {
            return true;
        }
    }
    return false;
}

/* Why a missing column cannot just be added, or NULL: existing rows must get a value that is true
 * for them. A reference has none to offer but NULL. */
static const char *diff_not_addable(const ent_entity *entity, size_t number)
{
    const ent_field *field = &entity->fields[number];
    const unsigned defaults = ENT_F_DEFAULT | ENT_F_NOW | ENT_F_RANDOM;

    assert(number < entity->field_count);
    /* Rows would share one key, or have none. */
    if (diff_in_key(entity, number)) {
        return "is missing and part of the key";
    }
    /* A default would not refer to an existing row; only NULL is right for all rows. */
    if (qp_entity_reference(entity, field) != NULL &&
        ((field->flags & ENT_F_NULLABLE) == 0 || (field->flags & defaults) != 0)) {
        return "is missing and a reference that must be set";
    }
    /* No value would be true for rows that exist. */
    if ((field->flags & (ENT_F_NULLABLE | defaults)) == 0) {
        return "is missing, required and has no default";
    }
    return NULL;
}

/* The column that a name of a key means now: that of a field by its name or its former one, or one
 * that only the engine knows. */
static const qp_column *diff_key_column(const qp_table_shape *table, const ent_entity *entity,
                                        const char *name)
{
    for (size_t i = 0; i < entity->field_count; i++) {
        /* Exact: both names come from the schema, not from the file. */
        if (strcmp(entity->fields[i].column, name) == 0) {
            return diff_column(table, &entity->fields[i]);
        }
    }
    return qp_shape_column(table, name);
}

/* The columns of the primary key, as the engine has them:
 *
 *   messages   ("id") in SQLite            ("part","uid","seq") in PostgreSQL
 *   sessions   ("id")                      ("part","uid")
 */
static size_t diff_primary(const diff_work *work, const ent_entity *entity,
                           const char *ret_columns[QP_SHARD_KEY_MAX])
{
    assert(entity->key_count <= ENT_KEY_MAX);
    if (work->packs && (entity->flags & ENT_E_CLUSTER) != 0) {
        ret_columns[0] = DIFF_CLUSTER_KEY;
        return 1;
    }
    if (work->shards) {
        return qp_shard_primary(entity, ret_columns);
    }
    for (size_t i = 0; i < entity->key_count; i++) {
        ret_columns[i] = entity->fields[entity->key[i]].column;
    }
    return entity->key_count;
}

/* The key's columns, in order, are those of the entity. The packed key of a cluster must be the
 * integer key that the engine gives out, since only that one orders the rows. */
static void diff_key(diff_work *work, const ent_entity *entity, const qp_table_shape *table)
{
    bool cluster = work->packs && (entity->flags & ENT_E_CLUSTER) != 0;
    const char *names[QP_SHARD_KEY_MAX] = {NULL};
    size_t count = diff_primary(work, entity, names);
    size_t found = 0;

    assert(count <= QP_SHARD_KEY_MAX);
    /* Such a table cannot be changed in place: every key would become another one. */
    if (work->shards && entity->shard != NULL && qp_shape_column(table, QP_SHARD_COLUMN) == NULL) {
        diff_problem(work, entity, NULL,
                     "has keys without a shard, as another version made them (export with that "
                     "one, import with this)");
        return;
    }

    for (size_t i = 0; i < table->column_count; i++) {
        const qp_column *column = &table->columns[i];
        const qp_column *expected = NULL;
        /* Columns that are not part of the key are diff_field()'s. */
        if (column->key_position == 0) {
            continue;
        }
        if (column->key_position <= count) {
            expected = diff_key_column(table, entity, names[column->key_position - 1]);
        }
        /* Refuses a key of the right names in another order, too: rows would be read by the wrong
         * columns. */
        if (expected != column || (cluster && !column->auto_key)) {
            diff_problem(work, entity, column->name, "belongs to another primary key");
            return;
        }
        found++;
    }
    /* Fewer columns than the schema's key: rows that the schema allows would collide. */
    if (found != count) {
        diff_problem(work, entity, NULL, "has another primary key");
    }
}

/* RESTRICT and NO ACTION count as equal: no constraint of a schema is deferred. */
static bool diff_rule_fits(uint8_t rule, const char *found)
{
    assert(found != NULL);
    switch ((ent_on_delete)rule) {
    case ENT_CASCADE:
        return qp_name_eq(found, "CASCADE");
    case ENT_SET_NULL:
        return qp_name_eq(found, "SET NULL");
    case ENT_RESTRICT:
        /* A rule that the schema does not know counts as RESTRICT, and fits nothing else. */
        break;
    }
    return qp_name_eq(found, "RESTRICT") || qp_name_eq(found, "NO ACTION");
}

/* A distributed table has no reference into another shard, which no server could enforce. */
static bool diff_is_unenforced(const diff_work *work, const ent_entity *entity,
                               const ent_edge *edge, const qp_table_shape *table)
{
    return work->shards && table->is_distributed &&
           qp_shard_beside(entity, &entity->fields[edge->field]);
}

/* Deletes rely on the file's own references, so a column that holds a key must have the right one.
 * A missing column is not looked at: diff_field() adds it together with its reference. Where the
 * owner's natural key stands in for its number, that column holds the reference. */
static void diff_references(diff_work *work, const ent_entity *entity, const qp_table_shape *table)
{
    for (size_t i = 0; i < entity->edge_count; i++) {
        const ent_edge *edge = &entity->edges[i];
        const ent_entity *owner = work->shards ? qp_shard_owner(entity) : NULL;
        const qp_column *column = NULL;
        bool fits = false;
        /* To-many edges are the other entity's columns. */
        if (edge->kind != ENT_TO_ONE) {
            continue;
        }
        assert(edge->field < entity->field_count);
        column = diff_column(table, &entity->fields[edge->field]);
        if (owner != NULL && edge->field == entity->shard->number - 1) {
            column = qp_shape_column(table, owner->fields[owner->shard->key - 1].column);
        }
        for (size_t j = 0; column != NULL && j < table->reference_count; j++) {
            const qp_reference *reference = &table->references[j];
            fits =
                fits || (reference->column != NULL && qp_name_eq(reference->column, column->name) &&
                         qp_name_eq(reference->table, edge->to->table) &&
                         diff_rule_fits(edge->on_delete, reference->on_delete));
        }
        /* Two references on one column are fine, as long as one of them is the right one. */
        if (column != NULL && !fits && !diff_is_unenforced(work, entity, edge, table)) {
            diff_problem(work, entity, column->name,
                         "has no reference with the right rule on delete");
        }
    }
}

/* A required column without a default that the schema does not know makes every insert of this
 * program fail. */
static void diff_unknown_columns(diff_work *work, const ent_entity *entity,
                                 const qp_table_shape *table)
{
    assert(work->purpose == QP_DIFF_WRITE);
    for (size_t i = 0; i < table->column_count; i++) {
        const qp_column *column = &table->columns[i];
        bool known = column->key_position > 0; /* diff_key() checks these */
        /* NULL, a default or an expression fills it in: inserts need not name it. */
        if (!column->not_null || column->default_text != NULL || column->generated) {
            continue;
        }
        for (size_t j = 0; j < entity->field_count && !known; j++) {
            known = diff_column(table, &entity->fields[j]) == column;
        }
        if (!known) {
            /* Another program's inserts may go on as before; ours would all fail. */
            diff_problem(work, entity, column->name, "is required but unknown to this schema");
        }
    }
}

/* A column that must have a value cannot hold the absent one of an optional field. */
static bool diff_refuses_null(const diff_work *work, const ent_field *field,
                              const qp_column *column)
{
    assert(field != NULL && column != NULL);
    return work->purpose == QP_DIFF_WRITE && column->not_null && column->key_position == 0 &&
           (field->flags & ENT_F_NULLABLE) != 0;
}

/* One field: present and fitting, to be renamed, to be added, or a problem. A reader cannot be
 * given a value that differs from row to row (now, random): each read would show another. */
static void diff_field(diff_work *work, const ent_entity *entity, const qp_table_shape *table,
                       size_t number)
{
    const ent_field *field = &entity->fields[number];
    const qp_column *column = diff_column(table, field);
    const char *why = column == NULL ? diff_not_addable(entity, number) : NULL;

    assert(number < entity->field_count);
    /* The order of the cases matters: first what is missing, then what is wrong, then the name. */
    if (why != NULL) {
        diff_problem(work, entity, field->column, why);
    } else if (column == NULL && work->purpose == QP_DIFF_READ &&
               (field->flags & (ENT_F_NOW | ENT_F_RANDOM)) != 0) {
        diff_problem_fix(work, entity, field->column,
                         "is missing, and each row needs a value of its own in it",
                         "open the file for writing once, which upgrades it");
    } else if (column == NULL) {
        /* Existing rows get the default, or NULL. */
        diff_add(work, QP_DDL_COLUMN, entity)->field = field;
    } else if (!work->migrator->column_fits(field, column)) {
        diff_problem(work, entity, column->name, "has a type that cannot hold its values");
    } else if (diff_refuses_null(work, field, column)) {
        diff_problem(work, entity, column->name, "must have a value but is optional now");
    } else if (!qp_name_eq(column->name, field->column)) {
        /* The type fits and the name is a former one: the schema stated the rename with `was`. */
        qp_ddl *change = diff_add(work, QP_DDL_RENAME, entity);
        change->field = field;
        change->name = column->name;
    }
}

/* Columns and key of one table; false when it has a problem, and then without changes. Each table
 * starts without a problem of its own, so that one bad table does not hide the changes of the
 * others. */
static bool diff_table(diff_work *work, const ent_entity *entity)
{
    const qp_table_shape *table = qp_shape_table(work->shape, entity->table);
    quipu_error before = work->problem;
    size_t n = work->n;
    bool fits = false;

    if (table == NULL) {
        (void)diff_add(work, QP_DDL_TABLE, entity);
        return true;
    }
    /* A problem of an earlier table must not make this one look unfit. */
    work->problem.status = QUIPU_OK;
    if (table->is_view || table->is_virtual) {
        diff_problem(work, entity, NULL, "is no ordinary table in this file");
        goto done;
    }
    diff_key(work, entity, table);
    for (size_t i = 0; i < entity->field_count; i++) {
        diff_field(work, entity, table, i);
    }
    /* A reader is stopped by neither: it writes no row, and deletes none. */
    if (work->purpose == QP_DIFF_WRITE) {
        diff_references(work, entity, table);
        diff_unknown_columns(work, entity, table);
    }
    if (work->purpose == QP_DIFF_WRITE &&
        work->migrator->search_state(entity, work->shape) == QP_SEARCH_DIFFERS) {
        diff_problem(work, entity, NULL, "has a full-text index of other fields, words or keeping");
    }

done:
    fits = work->problem.status == QUIPU_OK;
    assert(work->n >= n); /* what other tables need was not touched */
    if (!fits) {
        /* Half of a table's changes would be worse than none: a step expects the old layout. */
        work->n = n;
    }
    if (before.status != QUIPU_OK) {
        work->problem = before; /* the first one is reported */
    }
    return fits;
}

/* ---- indexes ------------------------------------------------------------------------------------
 */

/* Whether an index of the file does what the schema's is for: the same columns in the same order
 * and directions, whatever its name. A unique index serves where the schema asks for a plain one; a
 * partial index never does. Where the engine has shards, the shard leads unique indexes, which
 * moves the bits of the directions by one. */
static bool diff_index_serves(const diff_work *work, const ent_entity *entity, size_t number,
                              const qp_table_shape *table, const qp_index_shape *found)
{
    const ent_index *index = &entity->indexes[number];
    const char *names[QP_SHARD_KEY_MAX] = {NULL};
    const bool led = work->shards && index->unique && entity->shard != NULL;
    const size_t count = led ? qp_shard_columns(entity, (int)number, names) : index->count;
    const unsigned asked = led ? (unsigned)index->desc << 1 : index->desc;

    assert(number < entity->index_count);
    if (found->partial || found->column_count != count || (index->unique && !found->unique)) {
        return false;
    }
    /* By position: an index of the same columns in another order serves other queries. */
    for (size_t i = 0; i < count; i++) {
        const qp_column *column = led ? diff_key_column(table, entity, names[i])
                                      : diff_column(table, &entity->fields[index->fields[i]]);
        bool desc = (asked & (1u << i)) != 0;
        /* An expression has no name and serves nothing that the schema asks for. */
        if (column == NULL || found->columns[i] == NULL ||
            !qp_name_eq(found->columns[i], column->name) ||
            desc != ((found->desc & (1u << i)) != 0)) {
            return false;
        }
    }
    return true;
}

/* Index names are unique in a schema, not only within a table, and share their names with tables.
 * Names that earlier changes of this diff will take count, too. */
static bool diff_name_taken(const diff_work *work, const char *name)
{
    assert(name != NULL);
    for (size_t i = 0; i < work->shape->table_count; i++) {
        const qp_table_shape *table = &work->shape->tables[i];
        if (qp_name_eq(table->name, name)) {
            return true;
        }
        for (size_t j = 0; j < table->index_count; j++) {
            if (qp_name_eq(table->indexes[j].name, name)) {
                return true;
            }
        }
    }
    /* Several indexes of one name may be missing, in different tables. */
    for (size_t i = 0; i < work->n; i++) {
        const qp_ddl *change = &work->changes[i];
        if ((change->kind == QP_DDL_TABLE && qp_name_eq(change->entity->table, name)) ||
            (change->kind == QP_DDL_INDEX && change->name != NULL &&
             qp_name_eq(change->name, name))) {
            return true;
        }
    }
    return false;
}

/* The index's name, or the first of name_2, name_3... that nothing else has. */
static quipu_status diff_free_name(const diff_work *work, const char *name, const char **ret_name,
                                   quipu_error *reterr)
{
    /* Room for "_", a number and the NUL. */
    size_t size = strlen(name) + 16;
    char *text = NULL;

    assert(name[0] != '\0');
    if (!diff_name_taken(work, name)) {
        *ret_name = name;
        return QUIPU_OK;
    }
    text = quipu_arena_alloc(work->arena, size);
    if (text == NULL) {
        return qp_error_set(reterr, qp_arena_why(work->arena, size), "no memory to migrate with");
    }
    for (int i = 2; i <= QP_DIFF_NAME_TRIES; i++) {
        (void)snprintf(text, size, "%s_%d", name, i);
        if (!diff_name_taken(work, text)) {
            *ret_name = text;
            return QUIPU_OK;
        }
    }
    return qp_error_set(reterr, QUIPU_LIMIT, "no free name for the index \"%s\"", name);
}

/* When indexes seem equally good, a server without statistics takes the newest: there the schema's
 * first index is made last. */
static quipu_status diff_indexes(diff_work *work, const ent_entity *entity, quipu_error *reterr)
{
    const qp_table_shape *table = qp_shape_table(work->shape, entity->table);

    assert(entity->index_count == 0 || entity->indexes != NULL);
    for (size_t n = 0; n < entity->index_count; n++) {
        /* From the last to the first, where the newest index wins. */
        const size_t i = work->shards ? entity->index_count - 1 - n : n;
        const ent_index *index = &entity->indexes[i];
        const char *name = NULL;
        bool served = false;
        qp_ddl *change = NULL;
        quipu_status status;
        for (size_t j = 0; table != NULL && j < table->index_count && !served; j++) {
            served = diff_index_serves(work, entity, i, table, &table->indexes[j]);
        }
        /* Under whatever name: a second index would cost writes and serve nobody. */
        if (served) {
            continue;
        }
        status = diff_free_name(work, index->name, &name, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        change = diff_add(work, QP_DDL_INDEX, entity);
        change->index = index;
        change->name = name;
    }
    /* Where it differs, only a reader gets this far: it reads all but the index. */
    if (work->migrator->search_state(entity, work->shape) != QP_SEARCH_OK) {
        (void)diff_add(work, QP_DDL_SEARCH, entity);
    }
    return QUIPU_OK;
}

/* Where a reference needs the other table: those of what was added come after all tables. Only the
 * changes that were there at the beginning are looked at; references add none themselves. */
static void diff_late_references(diff_work *work)
{
    size_t n = work->n;

    /* An engine that takes references with CREATE TABLE has none to add. */
    for (size_t i = 0; i < n && work->migrator->late_references; i++) {
        /* A copy: diff_add() writes into the same array. */
        const qp_ddl added = work->changes[i];
        for (size_t j = 0; j < added.entity->edge_count; j++) {
            const ent_edge *edge = &added.entity->edges[j];
            const ent_field *field = &added.entity->fields[edge->field];
            if (edge->kind == ENT_TO_ONE &&
                (added.kind == QP_DDL_TABLE ||
                 (added.kind == QP_DDL_COLUMN && added.field == field))) {
                diff_add(work, QP_DDL_REFERENCE, added.entity)->field = field;
            }
        }
    }
}

/* Tables first, then references (where they are changes of their own), indexes and search: the
 * order in which they can be made. */
quipu_status qp_diff_make(const qp_diff_question *question, quipu_arena *arena, qp_diff *ret_diff,
                          quipu_error *reterr)
{
    const ent_schema *schema = question->schema;
    diff_work work = {.shape = question->shape,
                      .migrator = question->migrator,
                      .purpose = question->purpose,
                      .packs = question->packs_clusters,
                      .shards = question->shards,
                      .now = question->now};
    /* Room for every change that there could be, and one so that the size is never 0. */
    size_t most = 1;
    size_t tables = 0;
    bool *fits = NULL;
    quipu_status status = QUIPU_OK;

    assert(ret_diff != NULL);
    for (size_t i = 0; i < schema->entity_count; i++) {
        const ent_entity *entity = schema->entities[i];
        /* Table and search; for each field a column or rename, and a reference; one for each
         * index. */
        most += 2 + 2 * (size_t)entity->field_count + entity->index_count;
        tables += qp_shape_table(work.shape, entity->table) != NULL ? 1 : 0;
    }
    work.arena = arena;
    work.changes = quipu_arena_alloc(arena, most * sizeof(qp_ddl));
    fits = quipu_arena_alloc(arena, schema->entity_count * sizeof(bool) + 1); /* one mark a table */
    if (work.changes == NULL || fits == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, most * sizeof(qp_ddl)),
                            "no memory to migrate with");
    }
    /* Indexes wait: their names must not meet those of tables that are created here. */
    for (size_t i = 0; i < schema->entity_count; i++) {
        fits[i] = diff_table(&work, schema->entities[i]);
    }
    /* Behind all tables, because two of them may refer to each other. */
    diff_late_references(&work);
    for (size_t i = 0; i < schema->entity_count && status == QUIPU_OK; i++) {
        if (fits[i]) {
            status = diff_indexes(&work, schema->entities[i], reterr);
        }
    }
    assert(work.n <= most);
    if (status == QUIPU_OK) {
        /* `tables` counts those that exist: none means an empty database. */
        *ret_diff = (qp_diff){work.changes, work.n, tables, work.problem};
    }
    return status;
}
