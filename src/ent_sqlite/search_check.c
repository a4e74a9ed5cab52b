/* The check of a full-text index against its rows, and what is done about one that is damaged.
 *
 * The check runs in the caller's snapshot, without the write lock. FTS5 has a complete one, but
 * only as a command that writes. So that it can run beside writers and in a file that is opened
 * read-only, it runs on a copy:
 *
 *    temp.quipu_check_rows   a view of the rows that the index must hold
 *    temp.quipu_check        an FTS5 table over the view; its storage is replaced by a copy of the
 *                            index's: _data, _idx, _docsize and _config
 *
 * FTS5 does not notice that rows of _idx are missing; everything else that a search reads is
 * compared.
 *
 * Owns: these names in the connection's temporary database, until the call returns.
 * Called by: src/ent/search.c through qp_searcher.
 * Transactions: the caller's, or one for each statement. Writes to the temporary database alone,
 * which keeps in memory what fits into its page cache and the rest in the system's temporary
 * folder.
 * On return the temporary tables are gone.
 *
 * Discarding an index needs the caller's write transaction. Its tables cannot be dropped, because
 * that walks their damaged pages: their rows are deleted from the schema, and the pages stay unused
 * until a VACUUM. */
#include "ent_sqlite/search.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "ent/diff.h"
#include "ent/plan.h"
#include "ent_sqlite/ddl.h"

#define SEARCH_CHECK_TABLE "quipu_check"
#define SEARCH_CHECK_ROWS "quipu_check_rows"
#define SEARCH_CHECK_SQL_MAX 8192

/* The tables of an index that FTS5 keeps beside its own name. */
static const char *const search_check_parts[] = {"_data", "_idx", "_docsize", "_config"};
#define SEARCH_CHECK_PARTS (sizeof(search_check_parts) / sizeof(search_check_parts[0]))

/* Reads through the index itself, in both ways: the copy does not show damage in its definition. */
static void search_check_use(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "SELECT * FROM main.");
    qp_sqlite_put_suffixed(sql, entity->table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_puts(sql, " LIMIT 1;\nSELECT * FROM main.");
    qp_sqlite_put_suffixed(sql, entity->table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_puts(sql, " WHERE ");
    qp_sqlite_put_suffixed(sql, entity->table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_puts(sql, " MATCH '\"a\"' LIMIT 1;\n");
}

/* The rows: all of them, or those up to the number that a field of their owner says. */
static void search_check_view(qp_buf *sql, const ent_entity *entity, const ent_field *reaches)
{
    const ent_field *owner_key = &entity->fields[entity->key[0]];

    qp_buf_puts(sql, "CREATE TEMP VIEW " SEARCH_CHECK_ROWS " AS SELECT m.");
    qp_sql_name(sql, qp_sqlite_row_key(entity));
    qp_buf_puts(sql, " AS k");
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_puts(sql, ",m.");
        qp_sql_name(sql, entity->fields[entity->search_fields[i]].column);
    }
    qp_buf_puts(sql, " FROM main.");
    qp_sql_name(sql, entity->table);
    qp_buf_puts(sql, " AS m");
    if (reaches != NULL) {
        const ent_entity *owner = qp_entity_reference(entity, owner_key)->to;

        assert((entity->flags & ENT_E_CLUSTER) != 0 && owner->key_count == 1);
        qp_buf_puts(sql, " WHERE m.");
        qp_sql_name(sql, entity->fields[entity->key[1]].column);
        qp_buf_puts(sql, "<=(SELECT o.");
        qp_sql_name(sql, reaches->column);
        qp_buf_puts(sql, " FROM main.");
        qp_sql_name(sql, owner->table);
        qp_buf_puts(sql, " AS o WHERE o.");
        qp_sql_name(sql, owner->fields[owner->key[0]].column);
        qp_buf_puts(sql, "=m.");
        qp_sql_name(sql, owner_key->column);
        qp_buf_putc(sql, ')');
    }
    qp_buf_puts(sql, ";\n");
}

/* The table, made as qp_sqlite_ddl_search() makes the index, and then filled with its storage. */
static void search_check_table(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "CREATE VIRTUAL TABLE temp." SEARCH_CHECK_TABLE " USING fts5(");
    qp_sqlite_put_search_options(sql, entity, SEARCH_CHECK_ROWS, "k");
    qp_buf_puts(sql, ");\n");
    for (size_t i = 0; i < SEARCH_CHECK_PARTS; i++) {
        char suffix[32];

        qp_buf_printf(sql, "DELETE FROM temp." SEARCH_CHECK_TABLE "%s;\n", search_check_parts[i]);
        qp_buf_printf(sql, "INSERT INTO temp." SEARCH_CHECK_TABLE "%s SELECT * FROM main.",
                      search_check_parts[i]);
        (void)snprintf(suffix, sizeof(suffix), QP_SQLITE_SEARCH_SUFFIX "%s", search_check_parts[i]);
        qp_sqlite_put_suffixed(sql, entity->table, suffix);
        qp_buf_puts(sql, ";\n");
    }
}

/* Damage shows in many ways when the storage is copied: as a broken page, as two rows of one key,
 * as a table that is not there. */
static bool search_check_is_damage(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_NOTADB:
        return true;
    default:
        return false;
    }
}

quipu_status qp_sqlite_search_check(void *conn, const ent_entity *entity, const ent_field *reaches,
                                    quipu_error *reterr)
{
    qp_sqlite *self = conn;
    quipu_status status;
    qp_buf sql;
    int rc = SQLITE_OK;

    assert(entity->search_count > 0);
    qp_buf_init(&sql, SEARCH_CHECK_SQL_MAX);
    /* A check that was interrupted may have left them. */
    qp_buf_puts(&sql, "DROP TABLE IF EXISTS temp." SEARCH_CHECK_TABLE
                      ";\nDROP VIEW IF EXISTS temp." SEARCH_CHECK_ROWS ";\n");
    search_check_use(&sql, entity);
    search_check_view(&sql, entity, reaches);
    search_check_table(&sql, entity);
    /* rank 1 compares with the content table, too. */
    qp_buf_puts(&sql, "INSERT INTO temp." SEARCH_CHECK_TABLE "(" SEARCH_CHECK_TABLE
                      ",rank) VALUES('integrity-check',1)");
    status = qp_buf_status(&sql);
    if (status == QUIPU_OK) {
        rc = sqlite3_exec(self->db, qp_buf_str(&sql).p, NULL, NULL, NULL);
    }
    qp_buf_free(&sql);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory to check a search index");
    }
    if (rc != SQLITE_OK && search_check_is_damage(rc)) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "%s: the full-text index is damaged, or does not hold what the rows "
                              "hold",
                              entity->name);
    } else if (rc != SQLITE_OK) {
        status = qp_sqlite_fail(self, rc, "cannot check the search index of", reterr);
    }
    /* A table that an interrupted check left is dropped by the next check, or with the
     * connection. */
    (void)sqlite3_exec(self->db, "DROP TABLE IF EXISTS temp." SEARCH_CHECK_TABLE, NULL, NULL, NULL);
    (void)sqlite3_exec(self->db, "DROP VIEW IF EXISTS temp." SEARCH_CHECK_ROWS, NULL, NULL, NULL);
    return status;
}

/* The statements that take the index out of the schema and make an empty one. A changed schema is
 * read again by this connection with RESET, by others because CREATE moves the schema cookie. */
static void search_check_put_discard(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql,
                "PRAGMA writable_schema=ON;\nDELETE FROM main.sqlite_schema WHERE tbl_name IN (");
    for (size_t i = 0; i < SEARCH_CHECK_PARTS; i++) {
        char name[256];

        (void)snprintf(name, sizeof(name), "%s" QP_SQLITE_SEARCH_SUFFIX "%s", entity->table,
                       search_check_parts[i]);
        qp_sql_text(sql, name);
        qp_buf_putc(sql, ',');
    }
    char index[256];
    (void)snprintf(index, sizeof(index), "%s" QP_SQLITE_SEARCH_SUFFIX, entity->table);
    qp_sql_text(sql, index);
    qp_buf_puts(sql, ");\nPRAGMA writable_schema=RESET;\n");
    (void)qp_sqlite_ddl_search(entity, sql);
}

quipu_status qp_sqlite_search_discard(void *conn, const ent_entity *entity, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    quipu_status status;
    qp_buf sql;
    int rc = SQLITE_OK;

    assert(sqlite3_get_autocommit(self->db) == 0 && (entity->flags & ENT_E_SEARCH_MANUAL) != 0);
    qp_buf_init(&sql, SEARCH_CHECK_SQL_MAX);
    search_check_put_discard(&sql, entity);
    status = qp_buf_status(&sql);
    if (status == QUIPU_OK) {
        rc = sqlite3_exec(self->db, qp_buf_str(&sql).p, NULL, NULL, NULL);
        status = rc == SQLITE_OK
                     ? QUIPU_OK
                     : qp_sqlite_fail(self, rc, "cannot replace the search index of", reterr);
        /* Runs after a failure, too. */
        (void)sqlite3_exec(self->db, "PRAGMA writable_schema=OFF", NULL, NULL, NULL);
    } else {
        status = qp_error_set(reterr, status, "no memory to replace a search index");
    }
    qp_buf_free(&sql);
    return status;
}
