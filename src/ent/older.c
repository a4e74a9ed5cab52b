/* The columns and tables that a read-only connection's file lacks, as SQL that takes the place of a
 * table. Owned by the connection (db.h), made by migrate.c from a diff, read by sql.c on a miss of
 * the statement cache. For a table that lacks columns:
 *
 *     (SELECT "id","key",...,NULL AS "title" FROM "sessions") AS "sessions"
 *
 * Both engines merge such a subquery into the statement around it, so that conditions and orders
 * still use the table's indexes, and those on a missing column see its default. Transactions: made
 * outside of any; takes no lock, because the connection belongs to one thread. It is valid until
 * the journal shows another migration; then migrate.c replaces it. */
#include "ent/older.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/plan.h"
#include "ent/shard.h"

#define OLDER_COLUMNS_MAX 8 /* columns of a table that are spelled one by one; more are counted */
#define OLDER_ONE_MAX 256   /* bytes of the text about one change */

/* An entity that the file does not hold in full. */
typedef struct older_table {
    const ent_entity *entity;
    const char *from; /* NULL: its table has all columns */
    bool unsearchable;
} older_table;

typedef struct qp_older {
    const ent_schema *schema;
    int64_t journal_seq;
    quipu_arena arena; /* the texts */
    size_t count;
    older_table tables[];
} qp_older;

/* NULL is fine. */
void qp_older_free(qp_older *older)
{
    if (older != NULL) {
        quipu_arena_free(&older->arena);
        qp_free(older);
    }
}

/* The schema that the connection reads the older layout as. */
const ent_schema *qp_older_schema(const qp_older *older)
{
    assert(older != NULL);
    return older->schema;
}

/* The journal row that the layout was read at. */
int64_t qp_older_journal_seq(const qp_older *older)
{
    assert(older != NULL);
    return older->journal_seq;
}

/* NULL for an entity that the file holds in full, and for a file that is not older. A schema has a
 * dozen entities, so that a list is enough. */
static const older_table *older_find(const qp_older *older, const ent_entity *entity)
{
    for (size_t i = 0; older != NULL && i < older->count; i++) {
        if (older->tables[i].entity == entity) {
            return &older->tables[i];
        }
    }
    return NULL;
}

/* The subquery in the place of the table; NULL: the table itself. */
const char *qp_older_from(const qp_older *older, const ent_entity *entity)
{
    const older_table *table = older_find(older, entity);

    return table != NULL ? table->from : NULL;
}

/* Whether the file lacks the entity's full-text index. */
bool qp_older_unsearchable(const qp_older *older, const ent_entity *entity)
{
    const older_table *table = older_find(older, entity);

    return table != NULL && table->unsearchable;
}

/* ---- SQL in the place of a table ----------------------------------------------------------------
 */

/* ` AS "column"`. */
static void older_put_as(qp_buf *sql, const char *column)
{
    assert(column != NULL);
    qp_buf_puts(sql, " AS ");
    qp_sql_name(sql, column);
}

/* The engine's expression for a value that is not there. */
static void older_put_absent(const qp_migration *m, const ent_field *field, qp_buf *sql)
{
    assert(field != NULL);
    m->migrator->put_absent(field, sql);
    older_put_as(sql, field->column);
}

/* A column under its new name, if the schema renames it. */
static void older_put_column(const qp_diff *diff, const ent_entity *entity, const char *column,
                             qp_buf *sql)
{
    assert(diff->problem.status == QUIPU_OK);
    qp_sql_name(sql, column);
    for (size_t i = 0; i < diff->change_count; i++) {
        const qp_ddl *change = &diff->changes[i];
        if (change->kind == QP_DDL_RENAME && change->entity == entity &&
            strcmp(change->name, column) == 0) {
            older_put_as(sql, change->field->column);
        }
    }
}

/* A table with what it lacks beside what it has. All columns of the file are listed, also those
 * that the schema does not know: SELECT * would hide which columns exist under the new names. */
static void older_put_columns(const qp_migration *m, const qp_table_shape *table,
                              const qp_diff *diff, const ent_entity *entity, qp_buf *sql)
{
    assert(table->column_count > 0);
    for (size_t i = 0; i < table->column_count; i++) {
        qp_buf_puts(sql, i == 0 ? "" : ",");
        older_put_column(diff, entity, table->columns[i].name, sql);
    }
    for (size_t i = 0; i < diff->change_count; i++) {
        const qp_ddl *change = &diff->changes[i];
        if (change->kind == QP_DDL_COLUMN && change->entity == entity) {
            qp_buf_puts(sql, ",");
            older_put_absent(m, change->field, sql);
        }
    }
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, table->name);
}

/* The columns that an engine has beside the fields: the packed key of a cluster, or the shard, the
 * key of the owner, and the shards of references. Statements name them in conditions and orders, so
 * that a table without rows must have them, too. */
static void older_put_hidden(const qp_migration *m, const ent_entity *entity, qp_buf *sql)
{
    static const char *const none = ",CAST(NULL AS bigint)";
    const ent_entity *owner = m->engine->shards ? qp_shard_owner(entity) : NULL;

    if (m->engine->packs_clusters && (entity->flags & ENT_E_CLUSTER) != 0) {
        qp_buf_puts(sql, none);
        older_put_as(sql, QP_CLUSTER_COLUMN);
    }
    if (m->engine->shards && entity->shard != NULL) {
        qp_buf_puts(sql, none);
        older_put_as(sql, QP_SHARD_COLUMN);
    }
    if (owner != NULL) {
        assert(owner->shard->key != 0);
        qp_buf_puts(sql, ",");
        older_put_absent(m, &owner->fields[owner->shard->key - 1], sql);
    }
    for (size_t i = 0; i < entity->field_count && m->engine->shards; i++) {
        if (qp_shard_beside(entity, &entity->fields[i])) {
            qp_buf_puts(sql, none);
            qp_buf_puts(sql, " AS ");
            qp_shard_put_beside(sql, &entity->fields[i]);
        }
    }
}

/* A table without rows. 1=0 makes the planner skip it; the types of the columns are those that
 * put_absent gives.
 *
 *   (SELECT ... AS "tenant",... WHERE 1=0) AS "feed"
 */
static void older_put_empty(const qp_migration *m, const ent_entity *entity, qp_buf *sql)
{
    assert(entity->field_count > 0);
    for (size_t i = 0; i < entity->field_count; i++) {
        qp_buf_puts(sql, i == 0 ? "" : ",");
        older_put_absent(m, &entity->fields[i], sql);
    }
    older_put_hidden(m, entity, sql);
    qp_buf_puts(sql, " WHERE 1=0");
}

/* All columns of a table, the missing ones as constants; a missing table as one without rows. The
 * text lies in the arena that qp_older_free() frees. */
static quipu_status older_write_from(qp_migration *m, const qp_file_shape *shape,
                                     const qp_diff *diff, const ent_entity *entity,
                                     quipu_arena *arena, const char **ret_from, quipu_error *reterr)
{
    const qp_table_shape *table = qp_shape_table(shape, entity->table);
    quipu_str text = {NULL, 0};
    quipu_status status;
    qp_buf sql;

    qp_buf_init(&sql, QP_DDL_TEXT_MAX);
    qp_buf_puts(&sql, "(SELECT ");
    if (table != NULL) {
        older_put_columns(m, table, diff, entity, &sql);
    } else {
        older_put_empty(m, entity, &sql);
    }
    qp_buf_putc(&sql, ')');
    older_put_as(&sql, entity->table);
    status = qp_buf_status(&sql);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&sql), &text);
    }
    qp_buf_free(&sql);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "cannot write what stands for table \"%s\"",
                            entity->table);
    }
    assert(text.p != NULL);
    *ret_from = text.p;
    return QUIPU_OK;
}

/* ---- what the connection keeps ------------------------------------------------------------------
 */

/* Whether an entity has a change of the kinds in the mask, bit by qp_ddl_kind. */
static bool older_has(const qp_diff *diff, const ent_entity *entity, unsigned kinds)
{
    for (size_t i = 0; i < diff->change_count; i++) {
        if (diff->changes[i].entity == entity && (kinds >> diff->changes[i].kind & 1u) != 0) {
            return true;
        }
    }
    return false;
}

/* One entry for each entity that a change of the diff concerns. `tables` has room for every entity
 * of the schema. */
static quipu_status older_fill(qp_migration *m, const qp_file_shape *shape, const qp_diff *diff,
                               qp_older *older, quipu_error *reterr)
{
    const unsigned columns = 1u << QP_DDL_TABLE | 1u << QP_DDL_COLUMN | 1u << QP_DDL_RENAME;
    const unsigned search = 1u << QP_DDL_SEARCH;
    quipu_status status = QUIPU_OK;

    assert(older->count == 0);
    for (size_t i = 0; i < m->schema->entity_count && status == QUIPU_OK; i++) {
        const ent_entity *entity = m->schema->entities[i];
        older_table *table = &older->tables[older->count];

        if (!older_has(diff, entity, columns | search)) {
            continue; /* indexes and references only cost time */
        }
        *table = (older_table){.entity = entity, .unsearchable = older_has(diff, entity, search)};
        if (older_has(diff, entity, columns)) {
            status = older_write_from(m, shape, diff, entity, &older->arena, &table->from, reterr);
        }
        older->count++;
    }
    return status;
}

/* Replaces what the connection knew, and forgets its statements: their text depends on it. On
 * failure the connection keeps what it had. */
quipu_status qp_older_set(qp_migration *m, const qp_file_shape *shape, const qp_diff *diff,
                          int64_t journal_seq, quipu_error *reterr)
{
    size_t size = sizeof(qp_older) + m->schema->entity_count * sizeof(older_table);
    qp_older *older = NULL;
    quipu_status status = QUIPU_OK;

    assert(m->db->read_only && m->db->depth == 0);
    if (diff->change_count > 0) {
        older = qp_calloc(1, size);
        if (older == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory to compare layouts with");
        }
        older->schema = m->schema;
        older->journal_seq = journal_seq;
        status = older_fill(m, shape, diff, older, reterr);
    }
    if (status != QUIPU_OK) {
        qp_older_free(older);
        return status;
    }
    qp_cache_clear(m->db);
    qp_older_free(m->db->older);
    m->db->older = older;
    return QUIPU_OK;
}

/* ---- for people ---------------------------------------------------------------------------------
 */

/* One missing thing, for a person. */
static void older_describe_one(const qp_ddl *change, char *ret_text, size_t size)
{
    const char *table = change->entity->table;

    assert(size > 0);
    switch ((qp_ddl_kind)change->kind) {
    case QP_DDL_TABLE:
        (void)snprintf(ret_text, size, "table \"%s\"", table);
        return;
    case QP_DDL_INDEX:
        (void)snprintf(ret_text, size, "index \"%s\" of table \"%s\"", change->index->name, table);
        return;
    case QP_DDL_SEARCH:
        (void)snprintf(ret_text, size, "full-text index of table \"%s\"", table);
        return;
    default:
        assert(change->kind == QP_DDL_COLUMN || change->kind == QP_DDL_RENAME);
        (void)snprintf(ret_text, size, "column \"%s\" of table \"%s\"", change->field->column,
                       table);
        return;
    }
}

/* How many columns of one table are missing from change `at` on. */
static size_t older_columns(const qp_diff *diff, size_t at)
{
    size_t n = 0;

    assert(at < diff->change_count);
    while (at + n < diff->change_count && diff->changes[at + n].kind == QP_DDL_COLUMN &&
           diff->changes[at + n].entity == diff->changes[at].entity) {
        n++;
    }
    return n;
}

/* All missing things, cut where they do not fit, at a whole item:
 *
 *   table "feed", column "title" of table "sessions", ...
 */
void qp_older_describe(const qp_diff *diff, char *ret_text, size_t size)
{
    static const char cut[] = ", ...";
    size_t n = 0;

    assert(size > 0);
    assert(size > sizeof(cut));
    ret_text[0] = '\0';
    for (size_t i = 0; i < diff->change_count; i++) {
        char one[OLDER_ONE_MAX];
        const size_t columns = older_columns(diff, i);
        size_t more;

        if (diff->changes[i].kind == QP_DDL_REFERENCE ||
            (diff->changes[i].kind == QP_DDL_INDEX &&
             older_has(diff, diff->changes[i].entity, 1u << QP_DDL_TABLE))) {
            continue; /* goes with its column or table */
        }
        if (columns > OLDER_COLUMNS_MAX) {
            /* Spelled one by one they would leave no room for the rest. */
            (void)snprintf(one, sizeof(one), "%zu columns of table \"%s\"", columns,
                           diff->changes[i].entity->table);
            i += columns - 1;
        } else {
            older_describe_one(&diff->changes[i], one, sizeof(one));
        }
        more = (size_t)snprintf(ret_text + n, size - n, "%s%s", n > 0 ? ", " : "", one);
        if (n + more + sizeof(cut) > size) {
            memcpy(ret_text + n, cut, sizeof(cut));
            return;
        }
        n += more;
    }
}
