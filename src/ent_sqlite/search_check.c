/* The check of a full-text index against its rows, in the caller's snapshot and without the write
 * lock. FTS5 has a complete check, but only as a command that writes. So that it can run beside
 * writers and in a file that is opened read-only, it runs on a copy:
 *
 *    temp.quipu_check_rows   a view of the rows that the index must hold
 *    temp.quipu_check        an FTS5 table over the view; its storage is replaced by a copy of the
 *                            index's: _data, _idx, _docsize and _config
 *
 * Owns: these names in the connection's temporary database, until the call returns.
 * Called by: src/ent/search.c through qp_searcher.
 * Transactions: the caller's, or one for each statement. Writes to the temporary database alone,
 * which keeps in memory what fits into its page cache and the rest in the system's temporary
 * folder.
 * On return the temporary tables are gone. */
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
    static const char *const parts[] = {"_data", "_idx", "_docsize", "_config"};

    qp_buf_puts(sql, "CREATE VIRTUAL TABLE temp." SEARCH_CHECK_TABLE " USING fts5(");
    qp_sqlite_put_search_options(sql, entity, SEARCH_CHECK_ROWS, "k");
    qp_buf_puts(sql, ");\n");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char suffix[32];

        qp_buf_printf(sql, "DELETE FROM temp." SEARCH_CHECK_TABLE "%s;\n", parts[i]);
        qp_buf_printf(sql, "INSERT INTO temp." SEARCH_CHECK_TABLE "%s SELECT * FROM main.",
                      parts[i]);
        (void)snprintf(suffix, sizeof(suffix), QP_SQLITE_SEARCH_SUFFIX "%s", parts[i]);
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
    /* What an interruption leaves, the next check drops, or the end of the connection. */
    (void)sqlite3_exec(self->db, "DROP TABLE IF EXISTS temp." SEARCH_CHECK_TABLE, NULL, NULL, NULL);
    (void)sqlite3_exec(self->db, "DROP VIEW IF EXISTS temp." SEARCH_CHECK_ROWS, NULL, NULL, NULL);
    return status;
}
