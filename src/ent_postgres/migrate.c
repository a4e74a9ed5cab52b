/* The engine's part of migration besides DDL and inspection: the application id, and the questions
 * that only files have. The server enforces foreign keys itself and cannot be left with dangling
 * ones; a backup before a step is the operator's (pg_dump).
 *
 * Owns: the table qp_pg_migrator, and the row QP_PG_IDENTITY of QP_PG_TABLE.
 * Called by: src/ent/migrate*.c.
 * Locks: a migration runs in an exclusive write transaction: the writer slot is taken before the
 * schema is inspected, so that of several programs that open a new database one migrates. */
#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "ent_postgres/ddl.h"
#include "ent_postgres/search.h"

/* The id in QP_PG_TABLE; 0 where that table does not exist (42P01 is QUIPU_UNSUPPORTED): a schema
 * that no program has claimed. */
static quipu_status migrate_application_id(void *conn, uint32_t *ret, quipu_error *reterr)
{
    static const char sql[] = "SELECT \"last\" FROM \"" QP_PG_TABLE "\" WHERE \"name\"=$1";
    static const uint8_t kinds[] = {QP_INT};
    const qp_value name = {.kind = QP_TEXT, .as.text = quipu_cstr(QP_PG_IDENTITY)};
    qp_statement *statement = NULL;
    qp_value value = {.kind = QP_NULL};
    quipu_error error = {0};
    bool is_row = false;
    quipu_status status = qp_pg_prepare(conn, quipu_cstr(sql), &statement, &error);

    assert(ret != NULL);
    if (status == QUIPU_OK) {
        status = qp_pg_bind(statement, &name, 1, &error);
    }
    if (status == QUIPU_OK) {
        status = qp_pg_step(statement, kinds, 1, &value, &is_row, &error);
        qp_pg_finalize(statement);
    }
    if (status == QUIPU_UNSUPPORTED) {
        status = QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        *ret = is_row && value.kind == QP_INT ? (uint32_t)(value.as.i & UINT32_MAX) : 0;
    } else if (reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* Inside of the migration's transaction. */
static quipu_status migrate_set_application_id(void *conn, uint32_t id, quipu_error *reterr)
{
    char sql[160];

    assert(conn != NULL);
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE \"" QP_PG_TABLE "\" SET \"last\"=%u WHERE \"name\"='" QP_PG_IDENTITY "'",
                   (unsigned)id);
    return qp_pg_execute(conn, quipu_cstr(sql), reterr);
}

/* A step that must not run without a backup does not run here. Every page of a server's database
 * would go through this client, which holds the locks meanwhile. */
static quipu_status migrate_backup(void *conn, const char *label, quipu_time now, char *ret_path,
                                   size_t size, quipu_error *reterr)
{
    assert(label != NULL);
    (void)conn;
    (void)now;
    (void)ret_path;
    (void)size;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "the migration step \"%s\" wants a backup, which a server's own tools make "
                        "(pg_dump)",
                        label);
}

/* migrate_backup() never succeeds, so that nothing is to be pruned. */
static void migrate_backup_end(void *conn, const char *path, uint32_t keep)
{
    assert(conn != NULL);
    (void)conn;
    (void)path;
    (void)keep;
}

/* Foreign keys are always enforced. */
static quipu_status migrate_enforce(void *conn, bool on, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    (void)on;
    (void)reterr;
    return QUIPU_OK;
}

/* See the head of this file. */
static quipu_status migrate_dangling(void *conn, int64_t *ret, quipu_error *reterr)
{
    assert(ret != NULL);
    (void)conn;
    (void)reterr;
    *ret = 0;
    return QUIPU_OK;
}

/* The server's own integrity is not checked by a client. */
static quipu_status migrate_check(void *conn, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    (void)reterr;
    return QUIPU_OK;
}

const struct qp_migrator qp_pg_migrator = {
    .version = 1,
    .inspect = qp_pg_inspect,
    .write_ddl = qp_pg_write_ddl,
    .column_fits = qp_pg_column_fits,
    .search_state = qp_pg_search_state,
    .application_id = migrate_application_id,
    .set_application_id = migrate_set_application_id,
    .backup = migrate_backup,
    .backup_end = migrate_backup_end,
    .enforce_references = migrate_enforce,
    .count_dangling = migrate_dangling,
    .check = migrate_check,
    .late_references = true,
    .put_absent = qp_pg_put_absent,
};
