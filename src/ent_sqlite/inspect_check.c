/* The engine's part of migration besides DDL and inspection: the application id, switching
 * references off and on, counting dangling ones, the structural check; and the table that src/ent
 * sees.
 *
 * Owns: the table qp_sqlite_migrator.
 * Called by: src/ent/migrate*.c, inside of the migration's write transaction except for enforce.
 * On return of a failed call the transaction is still open: src/ent/migrate.c rolls it back. */
#include "ent_sqlite/inspect.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "ent_sqlite/backup.h"
#include "ent_sqlite/ddl.h"

/* Runs a PRAGMA or a query of one integer. No row counts as SQLITE_CORRUPT: each PRAGMA that this
 * room asks returns one. *ret is written on success only. */
int qp_sqlite_query_int(sqlite3 *db, const char *sql, int column, int64_t *ret)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

    assert(sql != NULL && ret != NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int64(stmt, column);
        rc = SQLITE_OK;
    } else if (rc == SQLITE_DONE) {
        rc = SQLITE_CORRUPT;
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* Four bytes of the file header, 0 for a file that no program has claimed. */
static quipu_status inspect_check_application_id(void *conn, uint32_t *ret, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int64_t id = 0;
    int rc = qp_sqlite_query_int(self->db, "PRAGMA main.application_id", 0, &id);

    assert(ret != NULL);
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot read", reterr);
    }
    *ret = (uint32_t)(id & UINT32_MAX);
    return QUIPU_OK;
}

/* Claims the file. Part of the migration's transaction, so that a failed one leaves another
 * program's file as it was. The PRAGMA takes a signed number. */
static quipu_status inspect_check_set_application_id(void *conn, uint32_t id, quipu_error *reterr)
{
    char sql[64]; /* the PRAGMA and a number of at most 11 characters */

    assert(conn != NULL);
    (void)snprintf(sql, sizeof(sql), "PRAGMA main.application_id = %d", (int32_t)id);
    return qp_sqlite_execute(conn, quipu_cstr(sql), reterr);
}

/* Switches foreign keys for a rebuild. Inside of a transaction SQLite ignores the PRAGMA silently,
 * and a DROP TABLE would then cascade: it is read back. Switching on also ends the legacy rename
 * that a rebuild may have left on. */
static quipu_status inspect_check_enforce(void *conn, bool on, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int64_t is_on = -1; /* neither answer */
    int rc = SQLITE_OK;
    quipu_status status = qp_sqlite_execute(
        conn,
        quipu_cstr(on ? "PRAGMA legacy_alter_table = OFF; PRAGMA foreign_keys = ON"
                      : "PRAGMA foreign_keys = OFF"),
        reterr);

    assert(conn != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    rc = qp_sqlite_query_int(self->db, "PRAGMA foreign_keys", 0, &is_on);
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot read", reterr);
    }
    if (is_on != (on ? 1 : 0)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "references of %s cannot be switched %s inside a transaction",
                            self->path, on ? "on" : "off");
    }
    return QUIPU_OK;
}

/* Adds the dangling references of one table. SQLITE_ERROR is a reference that fits no key of its
 * target: counted as one. SQLite reports such a mismatch as an error of the statement and not as
 * rows. */
static int inspect_check_dangling_of(sqlite3_stmt *stmt, const char *table, int64_t *count)
{
    int rc = sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);

    assert(table != NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        *count += sqlite3_column_int64(stmt, 0);
        rc = SQLITE_OK;
    } else if (rc == SQLITE_ERROR) {
        *count += 1;
        rc = SQLITE_OK;
    }
    /* For the next table; the reset repeats an error that is counted already. */
    (void)sqlite3_reset(stmt);
    return rc;
}

/* Counts over all tables whose SQL mentions a reference; the PRAGMA without a table would stop at
 * the first that cannot be checked. LIKE may list a table too many, whose column or comment has the
 * word; checking it finds nothing. */
static quipu_status inspect_check_dangling(void *conn, int64_t *ret, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    sqlite3_stmt *tables = NULL;
    sqlite3_stmt *check = NULL;
    int64_t count = 0;
    int rc = sqlite3_prepare_v2(self->db,
                                "SELECT name FROM main.sqlite_schema WHERE type = 'table' "
                                "AND sql LIKE '%references%'",
                                -1, &tables, NULL);

    assert(ret != NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v2(self->db,
                                "SELECT count(*) FROM pragma_foreign_key_check(?1, 'main')", -1,
                                &check, NULL);
    }
    while (rc == SQLITE_OK && (rc = sqlite3_step(tables)) == SQLITE_ROW) {
        rc = inspect_check_dangling_of(check, (const char *)sqlite3_column_text(tables, 0), &count);
    }
    rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    if (rc == SQLITE_OK) {
        *ret = count;
    }
    quipu_status status =
        rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot check", reterr);
    (void)sqlite3_finalize(check);
    (void)sqlite3_finalize(tables);
    return status;
}

/* PRAGMA quick_check on this connection: reads every page, also those that this transaction has
 * changed. */
static quipu_status inspect_check_file(void *conn, quipu_error *reterr)
{
    qp_sqlite *self = conn;

    assert(self->db != NULL);
    return qp_sqlite_check_raw(self->db, self->path, reterr);
}

const struct qp_migrator qp_sqlite_migrator = {
    .version = 1,
    .inspect = qp_sqlite_inspect,
    .write_ddl = qp_sqlite_write_ddl,
    .column_fits = qp_sqlite_column_fits,
    .search_state = qp_sqlite_search_state,
    .put_absent = qp_sqlite_put_absent,
    .application_id = inspect_check_application_id,
    .set_application_id = inspect_check_set_application_id,
    .backup = qp_sqlite_backup,
    .backup_end = qp_sqlite_backup_end,
    .enforce_references = inspect_check_enforce,
    .count_dangling = inspect_check_dangling,
    .check = inspect_check_file,
};
