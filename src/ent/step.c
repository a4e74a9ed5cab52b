/* The functions of a named step besides reading and writing rows: look at the database, drop an
 * index, and rebuild a table in the one order that never cascades: create, copy, drop, rename, with
 * references switched off.
 *
 * Owns: qp_rebuild, for the step that runs.
 * Called by: steps of the program, through include/ent/migrate.h, inside of the migration's
 * transaction. Every rebuild that a step begins must be ended by it, or the migration fails.
 *
 *   ent_step_rebuild_begin   CREATE TABLE "messages_rebuild_1" (the schema's columns, unknown ones)
 *   the step                 reads "messages", inserts into "messages_rebuild_1"
 *   ent_step_carry           UPDATE "messages_rebuild_1" SET (unknown) = (SELECT unknown FROM
 *                            "messages" WHERE rowid = ?1) WHERE rowid = ?2
 *   ent_step_rebuild_end     same number of rows? DROP TABLE "messages", rename the new one;
 *                            the old indexes, UNIQUE clauses and triggers again
 */
#include "ent/migrate_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

/* The arena's limit or the system's memory. */
static quipu_status step_no_memory(const quipu_arena *arena, size_t size, quipu_error *reterr)
{
    return qp_error_set(reterr, qp_arena_why(arena, size), "no memory to migrate with");
}

/* ---- looking ------------------------------------------------------------------------------------
 */

/* Whether there is a table, and in it a column unless NULL. Inspects the whole file each time: a
 * step asks a few times, and the file changes between. A view does not count: steps create and
 * rebuild tables only. */
static quipu_status step_has(ent_db *db, const char *table, const char *column, bool *ret_has,
                             quipu_error *reterr)
{
    quipu_arena arena = {.limit = QP_MIGRATION_BYTES_MAX};
    qp_file_shape shape = {0};
    quipu_status status;

    if (db == NULL || table == NULL || ret_has == NULL || db->engine->migrator == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a connection and a table's name are needed");
    }
    status = db->engine->migrator->inspect(db->conn, &arena, &shape, reterr);
    if (status == QUIPU_OK) {
        const qp_table_shape *found = qp_shape_table(&shape, table);
        *ret_has = found != NULL && !found->is_view &&
                   (column == NULL || qp_shape_column(found, column) != NULL);
    }
    quipu_arena_free(&arena);
    return status;
}

/* Names compare without the case of ASCII letters, as SQL does (qp_name_eq()). */
quipu_status ent_step_has_table(ent_db *db, const char *table, bool *ret_has, quipu_error *reterr)
{
    return step_has(db, table, NULL, ret_has, reterr);
}

/* Under its present name only; a step asks for the former one itself where that matters. */
quipu_status ent_step_has_column(ent_db *db, const char *table, const char *column, bool *ret_has,
                                 quipu_error *reterr)
{
    if (column == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a column's name is needed");
    }
    return step_has(db, table, column, ret_has, reterr);
}

/* ---- rebuilding ---------------------------------------------------------------------------------
 */

/* The rebuild of this entity that is under way, or NULL. */
static qp_rebuild *step_rebuild(const qp_migration *m, const ent_entity *entity)
{
    qp_rebuild *rebuild = m->rebuilds;

    assert(entity != NULL);
    /* Rebuilds that have ended stay listed until the step is over: it may rebuild a table twice. */
    while (rebuild != NULL && (rebuild->ended || rebuild->entity != entity)) {
        rebuild = rebuild->next;
    }
    return rebuild;
}

/* Only inside of a running step. qp_step_run() alone sets `running`: a program that calls these
 * functions at another time has no transaction that would take a half-built table back. */
static quipu_status step_enter(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    if (db == NULL || entity == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a connection and an entity are needed");
    }
    if (db->migration == NULL || db->migration->running == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "table \"%s\" can be rebuilt only inside of a migration step",
                            entity->table);
    }
    return QUIPU_OK;
}

/* Whether the file has an index of this name on the entity's table. */
static quipu_status step_has_index(const qp_migration *m, const ent_entity *entity,
                                   const char *index, bool *ret_has, quipu_error *reterr)
{
    /* An arena of its own: the migration's is not freed before the migration ends, and a step
     * may ask often. */
    quipu_arena arena = {.limit = QP_MIGRATION_BYTES_MAX};
    qp_file_shape shape = {0};
    quipu_status status = m->migrator->inspect(m->conn, &arena, &shape, reterr);
    const qp_table_shape *table = status == QUIPU_OK ? qp_shape_table(&shape, entity->table) : NULL;

    assert(index != NULL && ret_has != NULL);
    *ret_has = false;
    for (size_t i = 0; table != NULL && i < table->index_count; i++) {
        *ret_has = *ret_has || qp_name_eq(table->indexes[i].name, index);
    }
    quipu_arena_free(&arena);
    return status;
}

/* An index of another table is left as it is. A missing one is not an error: one step serves files
 * of several ages. */
quipu_status ent_step_drop_index(ent_db *db, const ent_entity *entity, const char *index,
                                 quipu_error *reterr)
{
    quipu_status status = step_enter(db, entity, reterr);
    bool has = false;

    if (status == QUIPU_OK && index == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the index to drop needs a name");
    }
    if (status == QUIPU_OK) {
        status = step_has_index(db->migration, entity, index, &has, reterr);
    }
    if (status != QUIPU_OK || !has) {
        return status;
    }
    return qp_migration_apply(db->migration,
                              &(qp_ddl){.kind = QP_DDL_DROP_INDEX, .entity = entity, .name = index},
                              reterr);
}

/* The journal's answer, and that of this migration. `ran` is not `applied`: a step that a file did
 * not need is applied as well, and never ran. */
quipu_status ent_step_ran(ent_db *db, const char *step, bool *ret_ran, quipu_error *reterr)
{
    const qp_migration *m = db != NULL ? db->migration : NULL;

    for (size_t i = 0; m != NULL && step != NULL && i < m->options.step_count; i++) {
        if (strcmp(m->options.steps[i].name, step) == 0) {
            *ret_ran = m->steps[i].ran;
            return QUIPU_OK;
        }
    }
    return qp_error_set(reterr, QUIPU_MISUSE, "no migration with such a step runs");
}

/* The text of a literal, its quotes doubled. DDL takes no parameters. The texts come from the
 * program's steps, never from rows. */
static void step_put_text(qp_buf *sql, const char *text)
{
    assert(text != NULL);
    qp_buf_putc(sql, '\'');
    for (; *text != '\0'; text++) {
        qp_buf_putc(sql, *text);
        if (*text == '\'') {
            qp_buf_putc(sql, '\'');
        }
    }
    qp_buf_putc(sql, '\'');
}

/* A view and not a table: CREATE TABLE fails either way, and a view takes no rows from a program
 * that creates its table only if it does not exist.
 *
 *   CREATE VIEW "name" AS SELECT 'why' AS reserved
 *
 * A table or a view that has the name already is left as it is.
 */
quipu_status ent_step_reserve(ent_db *db, const char *name, const char *why, quipu_error *reterr)
{
    quipu_arena arena = {.limit = QP_MIGRATION_BYTES_MAX};
    qp_file_shape shape = {0};
    quipu_status status;
    qp_buf sql;

    if (db == NULL || name == NULL || why == NULL || db->migration == NULL ||
        db->migration->running == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a name can be reserved only inside of a migration step");
    }
    status = db->migration->migrator->inspect(db->conn, &arena, &shape, reterr);
    if (status == QUIPU_OK && qp_shape_table(&shape, name) == NULL) {
        qp_buf_init(&sql, QP_DDL_TEXT_MAX);
        qp_buf_puts(&sql, "CREATE VIEW ");
        qp_sql_name(&sql, name);
        qp_buf_puts(&sql, " AS SELECT ");
        step_put_text(&sql, why);
        qp_buf_puts(&sql, " AS reserved");
        status = qp_buf_status(&sql);
        status = status == QUIPU_OK ? qp_migration_execute(db->migration, qp_buf_str(&sql), reterr)
                                    : qp_error_set(reterr, status, "no memory to migrate with");
        qp_buf_free(&sql);
    }
    quipu_arena_free(&arena);
    return status;
}

/* Cached statements know the old tables: they are dropped. */
quipu_status ent_step_complete(ent_db *db, const ent_schema *schema, quipu_error *reterr)
{
    if (db == NULL || schema == NULL || db->migration == NULL || db->migration->running == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "another schema can be completed only inside of a migration step");
    }
    quipu_status status = qp_migration_complete(db->migration, schema, reterr);
    qp_cache_clear(db);
    return status;
}

/* The columns that the entity does not know: another program's, which a rebuild must not lose. A
 * computed one cannot be copied, and its expression may name columns that are gone. */
static quipu_status step_find_extra(qp_migration *m, qp_rebuild *rebuild, quipu_error *reterr)
{
    const qp_table_shape *old = rebuild->old;
    size_t size = (old->column_count + 1) * sizeof(qp_column);
    qp_column *extra = quipu_arena_alloc(&m->arena, size);

    assert(old->column_count > 0 && rebuild->extra_count == 0);
    if (extra == NULL) {
        return step_no_memory(&m->arena, size, reterr);
    }
    for (size_t i = 0; i < old->column_count; i++) {
        const qp_column *column = &old->columns[i];
        if (qp_entity_knows(rebuild->entity, column->name)) {
            continue;
        }
        /* The file is unchanged so far: the caller's migration stops with the file as it was. */
        if (column->generated) {
            return qp_error_field(reterr, QUIPU_UNSUPPORTED, rebuild->entity->name, column->name,
                                  NULL,
                                  "table \"%s\" cannot be rebuilt: its column \"%s\" is computed "
                                  "and unknown to the schema",
                                  old->name, column->name);
        }
        extra[rebuild->extra_count++] = *column;
    }
    assert(rebuild->extra_count <= old->column_count);
    rebuild->extra = extra;
    return QUIPU_OK;
}

/* An entity over a table of a name that the file does not have. It is a copy that differs in its
 * table alone, so that ent_create() and the like work on the new table; it lives in the migration's
 * arena. */
static quipu_status step_make_fresh(qp_migration *m, const qp_file_shape *shape,
                                    const ent_entity *entity, const ent_entity **ret_fresh,
                                    quipu_error *reterr)
{
    size_t size = strlen(entity->table) + sizeof("_rebuild_") + 8;
    char *name = quipu_arena_alloc(&m->arena, size);
    ent_entity *fresh = quipu_arena_alloc(&m->arena, sizeof(*fresh));

    if (name == NULL || fresh == NULL) {
        return step_no_memory(&m->arena, size, reterr);
    }
    /* Another program may have left "messages_rebuild_1" behind: the number counts up. */
    for (int i = 1; i <= QP_DIFF_NAME_TRIES; i++) {
        (void)snprintf(name, size, "%s_rebuild_%d", entity->table, i);
        if (qp_shape_table(shape, name) == NULL) {
            /* Fields, edges and indexes are shared with the schema's descriptor, which is
             * constant data. */
            *fresh = *entity;
            fresh->table = name;
            *ret_fresh = fresh;
            return QUIPU_OK;
        }
    }
    return qp_error_set(reterr, QUIPU_LIMIT, "no free name to rebuild table \"%s\" under",
                        entity->table);
}

/* Creates the new table under a temporary name and returns an entity over it. The rebuild is listed
 * only when the table exists; the shape of the old one is kept for ent_step_rebuild_end(), which
 * runs when that table is gone. */
quipu_status ent_step_rebuild_begin(ent_db *db, const ent_entity *entity,
                                    const ent_entity **ret_fresh, quipu_error *reterr)
{
    quipu_status status = step_enter(db, entity, reterr);
    qp_migration *m = status == QUIPU_OK ? db->migration : NULL;
    qp_file_shape shape = {0};
    qp_rebuild *rebuild = NULL;

    if (status != QUIPU_OK) {
        return status;
    }
    if (ret_fresh == NULL || step_rebuild(m, entity) != NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the rebuild of table \"%s\" was begun twice",
                            entity->table);
    }
    status = m->migrator->inspect(m->conn, &m->arena, &shape, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    rebuild = quipu_arena_alloc(&m->arena, sizeof(*rebuild));
    if (rebuild == NULL) {
        return step_no_memory(&m->arena, sizeof(*rebuild), reterr);
    }
    *rebuild = (qp_rebuild){.entity = entity, .old = qp_shape_table(&shape, entity->table)};
    if (rebuild->old == NULL || rebuild->old->is_view || rebuild->old->is_virtual) {
        return qp_error_field(reterr, QUIPU_NOT_FOUND, entity->name, NULL, NULL,
                              "the file has no table \"%s\" to rebuild", entity->table);
    }
    status = step_find_extra(m, rebuild, reterr);
    if (status == QUIPU_OK) {
        status = step_make_fresh(m, &shape, entity, &rebuild->fresh, reterr);
    }
    if (status == QUIPU_OK) {
        assert(rebuild->fresh != NULL);
        /* Without indexes: their names are unique in a file, and the old table still has them. */
        status = qp_migration_apply(m,
                                    &(qp_ddl){.kind = QP_DDL_TABLE,
                                              .entity = entity,
                                              .name = rebuild->fresh->table,
                                              .extra = rebuild->extra,
                                              .extra_count = rebuild->extra_count},
                                    reterr);
    }
    if (status == QUIPU_OK) {
        rebuild->next = m->rebuilds;
        m->rebuilds = rebuild;
        *ret_fresh = rebuild->fresh;
    }
    return status;
}

/* Prepared once, run for each row; finalized by ent_step_rebuild_end(), or by qp_step_run() when
 * the step fails. */
static quipu_status step_prepare_carry(qp_migration *m, qp_rebuild *rebuild, quipu_error *reterr)
{
    const qp_ddl change = {.kind = QP_DDL_CARRY,
                           .entity = rebuild->entity,
                           .name = rebuild->fresh->table,
                           .extra = rebuild->extra,
                           .extra_count = rebuild->extra_count};
    qp_buf sql;
    quipu_status status;

    assert(rebuild->carry == NULL && rebuild->extra_count > 0);
    qp_buf_init(&sql, QP_DDL_TEXT_MAX);
    m->migrator->write_ddl(&change, &sql);
    status = qp_buf_status(&sql);
    if (status != QUIPU_OK) {
        status = qp_error_set(reterr, status, "no memory to migrate with");
    } else {
        status = m->engine->prepare(m->conn, qp_buf_str(&sql), &rebuild->carry, reterr);
    }
    qp_buf_free(&sql);
    return status;
}

/* Copies the columns that the entity does not know, of one row. A row that is not there yet is an
 * error: the step inserts it first. */
quipu_status ent_step_carry(ent_db *db, const ent_entity *entity, int64_t old_key, int64_t new_key,
                            quipu_error *reterr)
{
    /* ?1 is the key of the old row, ?2 that of the new one. */
    const qp_value values[] = {{.kind = QP_INT, .as.i = old_key},
                               {.kind = QP_INT, .as.i = new_key}};
    quipu_status status = step_enter(db, entity, reterr);
    qp_rebuild *rebuild = status == QUIPU_OK ? step_rebuild(db->migration, entity) : NULL;
    qp_migration *m = status == QUIPU_OK ? db->migration : NULL;
    bool row = false;

    if (status != QUIPU_OK) {
        return status;
    }
    if (rebuild == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "table \"%s\" is not being rebuilt",
                            entity->table);
    }
    /* Callers carry every row without asking whether there is anything to carry. */
    if (rebuild->extra_count == 0) {
        return QUIPU_OK;
    }
    if (rebuild->carry == NULL) {
        status = step_prepare_carry(m, rebuild, reterr);
    }
    if (status == QUIPU_OK) {
        status = m->engine->bind(rebuild->carry, values, 2, reterr);
    }
    if (status == QUIPU_OK) {
        status = m->engine->step(rebuild->carry, NULL, 0, NULL, &row, reterr);
        /* Reset at once: a statement that runs would keep the old table from being dropped. */
        m->engine->reset(rebuild->carry);
    }
    if (status != QUIPU_OK) {
        return qp_db_failed(db, status);
    }
    if (m->engine->changes(m->conn) != 1) {
        return qp_error_field(reterr, QUIPU_NOT_FOUND, entity->name, NULL, NULL,
                              "the new table of \"%s\" has no row %lld to carry columns to",
                              entity->table, (long long)new_key);
    }
    return QUIPU_OK;
}

/* ---- what belonged to the old table -------------------------------------------------------------
 */

/* Whether every column of an index is a column of the new table. */
static bool step_index_fits(const qp_rebuild *rebuild, const qp_index_shape *index)
{
    for (size_t i = 0; i < index->column_count; i++) {
        const char *name = index->columns[i];
        bool found = name == NULL; /* an expression: the engine will say */
        for (size_t j = 0; j < rebuild->extra_count && !found; j++) {
            /* Unknown columns were carried over, so that an index on them fits the new table as
             * well. */
            found = qp_name_eq(rebuild->extra[j].name, name);
        }
        for (size_t j = 0; j < rebuild->entity->field_count && !found; j++) {
            /* By the present names: the new table has no column under a former one. */
            found = qp_name_eq(rebuild->entity->fields[j].column, name);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* Whether every column of an index has a name; an expression, or another collation, has none. */
static bool step_has_plain_columns(const qp_index_shape *index)
{
    for (size_t i = 0; i < index->column_count; i++) {
        if (index->columns[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* The index of the old primary key is not restored: the new table has its own key. It is recognized
 * by its columns: the i-th of the index is the i-th of the key. */
static bool step_is_old_key(const qp_rebuild *rebuild, const qp_index_shape *index)
{
    assert(rebuild->old != NULL);
    for (size_t i = 0; i < index->column_count; i++) {
        const qp_column *column =
            index->columns[i] != NULL ? qp_shape_column(rebuild->old, index->columns[i]) : NULL;
        if (column == NULL || column->key_position != i + 1) {
            return false;
        }
    }
    return true;
}

/* A UNIQUE clause of the old table lives on as an index of the same columns:
 *
 *   CREATE UNIQUE INDEX IF NOT EXISTS "sessions_tenant_key_key" ON "sessions" ("tenant", "key")
 */
static void step_put_unique(qp_buf *sql, const qp_rebuild *rebuild, const qp_index_shape *index)
{
    qp_buf name;

    assert(index->sql == NULL);
    /* The name that PostgreSQL gives to a UNIQUE clause: table, columns, "key". */
    qp_buf_init(&name, QP_DDL_TEXT_MAX);
    qp_buf_puts(&name, rebuild->entity->table);
    for (size_t i = 0; i < index->column_count; i++) {
        qp_buf_printf(&name, "_%s", index->columns[i]);
    }
    qp_buf_puts(&name, "_key");
    qp_buf_fail(sql, qp_buf_status(&name));
    /* Two clauses over the same columns become one index. */
    qp_buf_puts(sql, "CREATE UNIQUE INDEX IF NOT EXISTS ");
    qp_sql_name(sql, qp_buf_str(&name).p);
    qp_buf_free(&name);
    qp_buf_puts(sql, " ON ");
    qp_sql_name(sql, rebuild->entity->table);
    for (size_t i = 0; i < index->column_count; i++) {
        qp_buf_puts(sql, i == 0 ? " (" : ", ");
        qp_sql_name(sql, index->columns[i]);
    }
    qp_buf_putc(sql, ')');
}

/* From its own SQL, or as a unique index for a UNIQUE clause. An index that fits the new table in
 * neither way is left out or, where it compares in an order that cannot be written, fails the
 * rebuild. */
static quipu_status step_restore_index(qp_migration *m, const qp_rebuild *rebuild,
                                       const qp_index_shape *index, quipu_error *reterr)
{
    qp_buf sql;
    quipu_status status;

    if (!step_index_fits(rebuild, index) ||
        (index->sql == NULL && step_is_old_key(rebuild, index))) {
        return QUIPU_OK;
    }
    qp_buf_init(&sql, QP_DDL_TEXT_MAX);
    if (index->sql != NULL) {
        qp_buf_puts(&sql, index->sql);
    } else if (step_has_plain_columns(index)) {
        step_put_unique(&sql, rebuild, index);
    } else {
        qp_buf_fail(&sql, QUIPU_UNSUPPORTED); /* it compares in an order that we cannot name */
    }
    status = qp_buf_status(&sql);
    if (status == QUIPU_OK) {
        status = qp_migration_execute(m, qp_buf_str(&sql), reterr);
    }
    qp_buf_free(&sql);
    /* The new rows break the rule, or its SQL names what is gone. The step decides, not this
     * file: the failure rolls its rebuild back. */
    if (status == QUIPU_EXISTS || status == QUIPU_INVALID || status == QUIPU_UNSUPPORTED) {
        status = qp_error_field(reterr, QUIPU_INVALID, rebuild->entity->name, NULL, NULL,
                                "index \"%s\" of table \"%s\" cannot be made again on its new rows",
                                index->name, rebuild->entity->table);
    }
    return status;
}

/* The engine's own triggers for full-text search are made anew with the search table. */
static bool step_is_search_trigger(const ent_entity *entity, const char *name)
{
    size_t n = strlen(entity->table);

    assert(name != NULL);
    return (entity->flags & (ENT_E_SEARCH | ENT_E_SEARCH_MANUAL)) != 0 && strlen(name) > n &&
           strncmp(name, entity->table, n) == 0 &&
           strncmp(name + n, "_search_", strlen("_search_")) == 0;
}

/* Indexes and triggers of the old table, which DROP TABLE took with it. Indexes of the schema may
 * be among them; missing ones are added behind the steps. */
static quipu_status step_restore(qp_migration *m, const qp_rebuild *rebuild, quipu_error *reterr)
{
    const qp_table_shape *old = rebuild->old;
    quipu_status status = QUIPU_OK;

    assert(rebuild->ended);
    for (size_t i = 0; i < old->index_count && status == QUIPU_OK; i++) {
        status = step_restore_index(m, rebuild, &old->indexes[i], reterr);
    }
    for (size_t i = 0; i < old->trigger_count && status == QUIPU_OK; i++) {
        if (!step_is_search_trigger(rebuild->entity, old->triggers[i].name)) {
            status = qp_migration_execute(m, quipu_cstr(old->triggers[i].sql), reterr);
        }
    }
    return status;
}

/* Row counts must be equal; then the new table takes the old one's place. The counts are two scans:
 * a rebuild that lost rows is found out while it can still be rolled back. */
quipu_status ent_step_rebuild_end(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    quipu_status status = step_enter(db, entity, reterr);
    qp_rebuild *rebuild = status == QUIPU_OK ? step_rebuild(db->migration, entity) : NULL;
    qp_migration *m = status == QUIPU_OK ? db->migration : NULL;
    int64_t old_rows = 0;
    int64_t new_rows = 0;

    if (status != QUIPU_OK) {
        return status;
    }
    if (rebuild == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "table \"%s\" is not being rebuilt",
                            entity->table);
    }
    /* Counted before anything is dropped: both tables are still there. */
    status = qp_migration_count(m, entity->table, &old_rows, reterr);
    if (status == QUIPU_OK) {
        status = qp_migration_count(m, rebuild->fresh->table, &new_rows, reterr);
    }
    if (status == QUIPU_OK && old_rows != new_rows) {
        status = qp_error_field(reterr, QUIPU_INVALID, entity->name, NULL, "count",
                                "the rebuild of table \"%s\" copied %lld of %lld rows",
                                entity->table, (long long)new_rows, (long long)old_rows);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* It was prepared for the temporary name, which the renaming takes away. */
    if (rebuild->carry != NULL) {
        m->engine->finalize(rebuild->carry);
        rebuild->carry = NULL;
    }
    qp_cache_clear(db); /* statements that know the old table */
    status = qp_migration_apply(
        m, &(qp_ddl){.kind = QP_DDL_REPLACE, .entity = entity, .name = rebuild->fresh->table},
        reterr);
    /* The old table is gone. Where step_restore() fails, the caller rolls all of it back. */
    rebuild->ended = status == QUIPU_OK;
    return status == QUIPU_OK ? step_restore(m, rebuild, reterr) : status;
}

/* ---- running ------------------------------------------------------------------------------------
 */

/* A step that leaves a rebuild open fails the migration; so does one that leaves a savepoint open,
 * or ends the migration's transaction. The caller rolls back what a failed step wrote. */
quipu_status qp_step_run(qp_migration *m, size_t number, quipu_error *reterr)
{
    const ent_step *step = &m->options.steps[number];
    uint32_t before = m->report.statements;
    quipu_status status;

    assert(number < m->options.step_count);
    assert(m->running == NULL);
    m->running = step;
    status = step->run(m->db, step->ctx, reterr);
    m->running = NULL;
    /* 1 is the migration's own transaction, and nothing inside of it. */
    if (status == QUIPU_OK && (m->db->depth != 1 || m->db->broken != QUIPU_OK)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "the migration step \"%s\" left a transaction open, or ended that of "
                              "the migration",
                              step->name);
    }
    /* Runs after a failure, too: a statement must not outlive its step. */
    for (qp_rebuild *rebuild = m->rebuilds; rebuild != NULL; rebuild = rebuild->next) {
        if (rebuild->carry != NULL) {
            m->engine->finalize(rebuild->carry);
            rebuild->carry = NULL;
        }
        if (status == QUIPU_OK && !rebuild->ended) {
            status = qp_error_set(reterr, QUIPU_MISUSE,
                                  "the migration step \"%s\" did not end the rebuild of \"%s\"",
                                  step->name, rebuild->entity->table);
        }
    }
    m->rebuilds = NULL;
    if (status == QUIPU_OK) {
        m->report.steps++;
        m->steps[number].ran = true;
        m->steps[number].statements = m->report.statements - before + 1; /* itself */
    }
    return status;
}
