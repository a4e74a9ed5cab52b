/* Maintenance of a server's database, as far as a client does it: sizes, the durability of a
 * commit, VACUUM. Backup, checking and the write-ahead log are the server's and its operator's;
 * those verbs return QUIPU_UNSUPPORTED and name the tool, or have nothing to do.
 *
 * Owns: the table qp_pg_maintenance.
 * Called by: src/ent/maintenance.c, outside of transactions, except for sizes.
 * Locks: VACUUM takes SHARE UPDATE EXCLUSIVE on one table at a time; reads and writes go on. */
#include "ent/maintenance.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ent/plan.h"
#include "ent_postgres/ddl.h"
#include "ent_postgres/open.h"

#define MAINTENANCE_PAGE_BYTES 8192 /* BLCKSZ, unless the server was built with another */
#define MAINTENANCE_SQL_MAX 1024    /* VACUUM and a quoted name of at most 63 bytes */

/* How many disks hold a write when COMMIT returns, by the session's own settings: 0 (fsync or
 * synchronous_commit off), 1, or 2 (a synchronous standby has flushed it). 'remote_write' is 1: the
 * standby has it in memory only. */
static quipu_status maintenance_durability(qp_pg *conn, int64_t *ret_level, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(
        conn,
        "SELECT setting FROM pg_catalog.pg_settings WHERE name IN ('fsync', "
        "'synchronous_commit', 'synchronous_standby_names') ORDER BY name COLLATE \"C\"",
        &call, reterr);

    assert(ret_level != NULL);
    /* All three settings exist on every server that is supported. */
    if (status == QUIPU_OK && PQntuples(call.result) == 3) {
        const char *commit = PQgetvalue(call.result, 1, 0);
        /* In the order of their names: fsync, synchronous_commit, synchronous_standby_names. */
        const bool synced = strcmp(PQgetvalue(call.result, 0, 0), "on") == 0;
        const bool waits = strcmp(commit, "on") == 0 || strcmp(commit, "remote_apply") == 0;

        *ret_level = !synced || strcmp(commit, "off") == 0               ? 0
                     : waits && PQgetvalue(call.result, 2, 0)[0] != '\0' ? 2
                                                                         : 1;
    }
    qp_pg_call_done(&call);
    return status;
}

/* All relations of the schema with their indexes and TOAST; the server's log is not counted. */
static quipu_status maintenance_sizes(void *conn, qp_sizes *ret, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {0};
    int64_t level = 0;
    quipu_status status = self->in_transaction ? QUIPU_OK : qp_pg_ensure_connected(self, reterr);

    assert(ret != NULL);
    if (status == QUIPU_OK) {
        status = maintenance_durability(self, &level, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Rows of distributed tables lie on the workers: the coordinator's sizes would miss them. */
    if (self->citus) {
        qp_sizes sizes = {.page_bytes = MAINTENANCE_PAGE_BYTES};

        status = qp_pg_citus_sizes(self, &sizes, reterr);
        *ret = status == QUIPU_OK ? sizes : *ret;
        return status;
    }
    status =
        qp_pg_query(self,
                    "SELECT CAST(COALESCE(SUM(pg_catalog.pg_total_relation_size(t.oid)), 0) AS "
                    "bigint) FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = "
                    "t.relnamespace WHERE n.nspname = current_schema() AND t.relkind = 'r'",
                    &call, reterr);
    if (status == QUIPU_OK) {
        *ret = (qp_sizes){.page_bytes = MAINTENANCE_PAGE_BYTES,
                          .file_bytes = qp_pg_int(call.result, 0, 0),
                          .durability_level = level};
    }
    qp_pg_call_done(&call);
    return status;
}

/* "PostgreSQL" and the version that the server reports. */
static quipu_status maintenance_engine(void *conn, char *ret_text, size_t size, quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = self->in_transaction ? QUIPU_OK : qp_pg_ensure_connected(self, reterr);
    const char *server;

    assert(ret_text != NULL && size > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    server = PQparameterStatus(self->pg, "server_version");
    (void)snprintf(ret_text, size, "PostgreSQL %s", server != NULL ? server : "of unknown version");
    /* Appends the version of Citus to that of the server. */
    if (self->citus) {
        const size_t n = strlen(ret_text);

        status = qp_pg_citus_engine_text(self, ret_text + n, size - n, reterr);
    }
    return status;
}

/* A parameter of the server's whole cluster, which initdb or pg_checksums sets. */
static quipu_status maintenance_checksums(void *conn, qp_checksums *ret, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {0};
    quipu_status status = self->in_transaction ? QUIPU_OK : qp_pg_ensure_connected(self, reterr);

    assert(ret != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_pg_query(self,
                         "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_checksums'",
                         &call, reterr);
    if (status == QUIPU_OK) {
        /* A server that does not have the setting counts as one without checksums. */
        const bool on =
            PQntuples(call.result) == 1 && strcmp(PQgetvalue(call.result, 0, 0), "on") == 0;
        *ret = on ? QP_CHECKSUMS_ON : QP_CHECKSUMS_OFF;
    }
    qp_pg_call_done(&call);
    return status;
}

/* Quotas are a tablespace's matter; only "no cap" can be granted. */
static quipu_status maintenance_limit(void *conn, int64_t max_bytes, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    return max_bytes == 0
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_UNSUPPORTED, "a server's database has no size cap");
}

/* Checkpoints are the server's own business. */
static quipu_status maintenance_flush(void *conn, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    (void)reterr;
    return QUIPU_OK;
}

/* VACUUM skips tables of other owners with a warning only: the caller would assume that deleted
 * rows are gone. */
static quipu_status maintenance_owns(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(conn,
                                      "SELECT CAST(count(*) AS bigint) FROM pg_catalog.pg_class t "
                                      "JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "
                                      "WHERE n.nspname = current_schema() AND t.relkind = 'r' "
                                      "AND NOT pg_catalog.pg_has_role(t.relowner, 'USAGE')",
                                      &call, reterr);

    if (status == QUIPU_OK && qp_pg_int(call.result, 0, 0) > 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED, "the role does not own the tables");
    }
    qp_pg_call_done(&call);
    return status;
}

/* VACUUM of every table of the schema, one by one: it cannot run in a transaction. */
static quipu_status maintenance_rewrite(void *conn, quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_file_shape shape = {0};
    quipu_status status = qp_pg_ensure_connected(self, reterr);

    assert(!self->in_transaction);
    if (status == QUIPU_OK) {
        status = maintenance_owns(self, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_pg_inspect(conn, &arena, &shape, reterr);
    }
    /* VACUUM runs outside of transactions: when one table fails, for example because another
     * client has dropped it, the tables before it stay cleaned. */
    for (size_t i = 0; i < shape.table_count && status == QUIPU_OK; i++) {
        qp_buf sql;

        /* A view has no rows, a foreign table is another server's. */
        if (shape.tables[i].is_view || shape.tables[i].is_virtual) {
            continue;
        }
        qp_buf_init(&sql, MAINTENANCE_SQL_MAX);
        qp_buf_puts(&sql, "VACUUM ");
        qp_sql_name(&sql, shape.tables[i].name);
        status = qp_buf_status(&sql);
        status = status == QUIPU_OK ? qp_pg_run_text(self, qp_buf_str(&sql).p, reterr)
                                    : qp_error_set(reterr, status, "no memory to clean up with");
        qp_buf_free(&sql);
    }
    quipu_arena_free(&arena);
    return status;
}

/* Where deleted rows may still be found, for the receipt of an erasure. */
static const char *const maintenance_remnants[] = {
    "the server's files: rows that were deleted go with VACUUM, as soon as no older transaction "
    "can see them; their bytes with VACUUM FULL",
    "the server's write-ahead log, its archive and its standbys, until they are recycled",
    "backups of the server (pg_dump, pg_basebackup)",
    NULL,
};

/* A consistent copy is pg_dump's or pg_basebackup's work. */
static quipu_status maintenance_copy(void *conn, const char *path, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    (void)path;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "a PostgreSQL store is backed up by the server's own tools (pg_dump, "
                        "pg_basebackup), or by an export");
}

/* The server enforces references and verifies page checksums itself, so there is nothing to check
 * from a client. */
static quipu_status maintenance_check(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return QUIPU_OK;
}

/* A server keeps no backups beside the database. */
static quipu_status maintenance_backups(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return QUIPU_OK;
}

/* The members seal, image, intact and forms are NULL: src/ent refuses those calls or skips them,
 * because a server store has no file and its columns are typed. */
const struct qp_maintenance qp_pg_maintenance = {
    .version = 1,
    .sizes = maintenance_sizes,
    .limit = maintenance_limit,
    .flush = maintenance_flush,
    .rewrite = maintenance_rewrite,
    .copy = maintenance_copy,
    .check = maintenance_check,
    .backups = maintenance_backups,
    .engine = maintenance_engine,
    .remnants = maintenance_remnants,
    .checksums = maintenance_checksums,
    .counters = qp_pg_counters,
    .mend_counters = qp_pg_mend_counters,
};
