/* Opening a PostgreSQL database: options, the first connection, the checks of its schema; and the
 * engine's function table.
 *
 * Owns: struct qp_pg from its allocation to its end.
 * Called by: src/front and users of include/ent/postgres.h, once a connection; src/ent closes it.
 * Locks: none.
 * On return *ret_db is a connection whose search path leads to one schema, or nothing is left open.
 *
 *   options ─▶ libpq loaded ─▶ connected (connect.c) ─▶ schema, Citus, role checked ─▶ ent_db
 *
 * The connection may be lost and made again at any later time (connect.c): what is checked here is
 * the first one's. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/option.h"
#include "base/str.h"
#include "ent/db.h"
#include "ent/journal.h"
#include "ent_postgres/row_security.h"
#include "ent_postgres/search.h"

#define OPEN_FLAGS                                                                                 \
    (ENT_POSTGRES_READ_ONLY | ENT_POSTGRES_MUST_EXIST | ENT_POSTGRES_WAIT | ENT_POSTGRES_PRIMARY)

/* ---- the function table --------------------------------------------------------------------- */

/* An open transaction ends with the connection: the server rolls it back. A connection that was
 * never made is freed, too: each of these functions accepts NULL. */
static void open_close(void *conn)
{
    qp_pg *self = conn;

    if (self != NULL) {
        qp_pg_index_batch_free(self->index_batch);
        PQfinish(self->pg);
        qp_free(self->uri);
        qp_free(self->tenant);
        qp_free(self->numbers);
        qp_free(self);
    }
}

/* Rows that the last statement changed. Deferred writes do not count: their results are read
 * later. */
static int64_t open_changes(void *conn)
{
    assert(conn != NULL);
    return ((const qp_pg *)conn)->changes;
}

/* Rises with every write, see stmt_send_deferred(). */
static int64_t open_total_changes(void *conn)
{
    assert(conn != NULL);
    return ((const qp_pg *)conn)->total_changes;
}

/* Keys are allocated before the insert (next_key), so that src/ent never calls it. */
static int64_t open_last_key(void *conn)
{
    assert(conn != NULL);
    (void)conn;
    return 0;
}

/* As it was opened; a server that refuses writes is an error of the write. */
static bool open_is_read_only(void *conn)
{
    assert(conn != NULL);
    return ((const qp_pg *)conn)->read_only;
}

/* Whether the last failure may be retried; see error.c. */
static qp_failure open_failure(void *conn)
{
    const qp_pg *self = conn;

    assert(self != NULL);
    /* The last failed call's code; src/ent asks right after a failure. */
    return self->failure;
}

/* A server has no file mode to set. */
static quipu_status open_adopt(void *conn, quipu_error *reterr)
{
    assert(conn != NULL);
    (void)conn;
    (void)reterr;
    return QUIPU_OK;
}

/* The members that both engine tables share. */
#define OPEN_ENGINE                                                                                \
    .version = 1, .name = "postgres", .close = open_close, .parameter = "$",                       \
    .packs_clusters = false, .shards = true, .prepare = qp_pg_prepare, .finalize = qp_pg_finalize, \
    .bind = qp_pg_bind, .step = qp_pg_step, .reset = qp_pg_reset, .changes = open_changes,         \
    .total_changes = open_total_changes, .last_key = open_last_key, .begin = qp_pg_begin,          \
    .commit = qp_pg_commit, .rollback = qp_pg_rollback, .in_transaction = qp_pg_in_transaction,    \
    .put_in = qp_pg_put_in, .put_add = qp_pg_put_add, .put_match = qp_pg_put_match,                \
    .position = "strpos", .next_key = qp_pg_next_key, .failure = open_failure,                     \
    .row_lock = QP_PG_ROW_LOCK, .commit_later = qp_pg_commit_later, .defer = qp_pg_defer,          \
    .deferred_snapshots = true, .must_match_begin = QP_PG_MUST_MATCH_BEGIN,                        \
    .must_match_end = QP_PG_MUST_MATCH_END, .chunked = QP_PG_CHUNKED,                              \
    .lock_keys = qp_pg_lock_keys, .is_read_only = open_is_read_only, .adopt = open_adopt,          \
    .execute = qp_pg_execute, .migrator = &qp_pg_migrator, .set_interrupt = qp_pg_set_interrupt,   \
    .maintenance = &qp_pg_maintenance, .enable_row_security = qp_pg_enable_row_security,           \
    .data_version = qp_pg_data_version

const qp_engine qp_pg_engine = {OPEN_ENGINE, .can_distribute = qp_pg_citus_can_distribute,
                                .distribute = qp_pg_citus_distribute, .searcher = &qp_pg_searcher};

/* The same for a store that is distributed: texts that name the shard, no subquery in an INSERT. */
const qp_engine qp_pg_citus_engine = {OPEN_ENGINE, .can_distribute = qp_pg_citus_can_distribute,
                                      .distribute = qp_pg_citus_distribute,
                                      .searcher = &qp_pg_citus_searcher, .distributed = true};

/* ---- opening ----------------------------------------------------------------------------------
 */

/* Reads the caller's options, which may be of an older size, and checks their values. The texts
 * stay the caller's: open_new() copies what the connection keeps. */
static quipu_status open_options(const ent_postgres_options *given, ent_postgres_options *ret,
                                 quipu_error *reterr)
{
    quipu_status status;

    assert(ret != NULL);
    /* Members that an older caller does not have keep these defaults. */
    *ret = (ent_postgres_options)ENT_POSTGRES_OPTIONS_INIT;
    status = qp_options_read(ret, sizeof(*ret), given, "ent_postgres_options", reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    if ((ret->flags & ~OPEN_FLAGS) != 0 || ret->busy_ms < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an option is out of range: flags 0x%x, busy_ms %d",
                            (unsigned)ret->flags, (int)ret->busy_ms);
    }
    if (ret->tenant.p != NULL && (ret->tenant.n == 0 || ret->tenant.n > ENT_POSTGRES_TENANT_MAX ||
                                  qp_text_check(ret->tenant, NULL) != QP_TEXT_OK)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "row security is for a tenant with a name: text of 1 to %d bytes "
                            "without NUL",
                            ENT_POSTGRES_TENANT_MAX);
    }
    return QUIPU_OK;
}

/* Allocates a connection that is not connected yet. The URI is kept because a lost connection is
 * made again with it; it may hold a password, so that it never gets into an error or a log. */
static quipu_status open_new(const char *uri, const ent_postgres_options *options, qp_pg **ret,
                             quipu_error *reterr)
{
    size_t size = strlen(uri) + 1;
    qp_pg *conn = qp_calloc(1, sizeof(*conn));
    char *copy = qp_malloc(size);
    char *tenant = qp_calloc(1, options->tenant.n + 1); /* with a NUL behind it */

    assert(ret != NULL);
    if (conn == NULL || copy == NULL || tenant == NULL) {
        qp_free(conn);
        qp_free(copy);
        qp_free(tenant);
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot open the database: out of memory");
    }
    memcpy(copy, uri, size);
    conn->uri = copy;
    if (options->tenant.p != NULL) {
        memcpy(tenant, options->tenant.p, options->tenant.n);
        conn->tenant = tenant;
    } else {
        qp_free(tenant);
    }
    conn->read_only = (options->flags & ENT_POSTGRES_READ_ONLY) != 0;
    conn->any_host = conn->read_only && (options->flags & ENT_POSTGRES_PRIMARY) == 0;
    conn->interrupt.busy_ms = options->busy_ms;
    conn->log = qp_log_of(options->log, options->log_ctx, options->log_level);
    *ret = conn;
    return QUIPU_OK;
}

/* Counts the tables of the first schema of the search path, and the engine's tables in later
 * schemas of the path that the first one lacks: unqualified names would find those, of another
 * store. And whether the database has Citus. One statement, because an opening over a network pays
 * for each round trip. */
static const char *const open_schema =
    "SELECT (SELECT CAST(count(*) AS bigint) FROM pg_catalog.pg_class c "
    "WHERE c.relnamespace = n.oid AND c.relkind = 'r'), "
    "(SELECT CAST(count(*) AS bigint) FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace o ON o.oid = c.relnamespace "
    "WHERE o.nspname = ANY (pg_catalog.current_schemas(false)) AND o.oid <> n.oid "
    "AND c.relname IN ('" QP_PG_TABLE "', '" QP_JOURNAL_TABLE "') AND NOT EXISTS (SELECT 1 FROM "
    "pg_catalog.pg_class h WHERE h.relnamespace = n.oid AND h.relname = c.relname)), "
    "(SELECT CAST(count(*) AS bigint) FROM pg_catalog.pg_extension WHERE extname = 'citus') "
    "FROM pg_catalog.pg_namespace n WHERE n.nspname = current_schema()";

/* There must be a schema to work in, without another store's tables behind it on the path and, with
 * ENT_POSTGRES_MUST_EXIST, with tables in it. A schema behind the first one would answer for tables
 * that the first one lacks, and the two stores would be mixed at the first migration. */
static quipu_status open_check_once(qp_pg *conn, bool must_exist, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(conn, open_schema, &call, reterr);

    assert(!conn->in_transaction);
    if (status == QUIPU_OK && PQntuples(call.result) != 1) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND,
                              "the search path names no schema that exists; make one first");
    } else if (status == QUIPU_OK && must_exist && qp_pg_int(call.result, 0, 0) == 0) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "the schema has no tables");
    } else if (status == QUIPU_OK && qp_pg_int(call.result, 0, 1) != 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "the first schema of the search path has no store, but a later one "
                              "has; name one schema alone (options=-csearch_path%%3D... in the "
                              "URI)");
    }
    if (status == QUIPU_OK && qp_pg_int(call.result, 0, 2) != 0) {
        status = qp_pg_citus_find(conn, reterr);
    }
    qp_pg_call_done(&call);
    return status;
}

/* The checks above, and that row security holds for the role. Retried like a read. Each attempt
 * connects again where the one before lost the connection. */
static quipu_status open_check(qp_pg *conn, bool must_exist, quipu_error *reterr)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    quipu_status status;
    int attempts = 0;

    assert(conn->pg != NULL);
    do {
        status = qp_pg_ensure_connected(conn, reterr);
        if (status == QUIPU_OK) {
            status = open_check_once(conn, must_exist, reterr);
        }
        if (status == QUIPU_OK && conn->tenant != NULL) {
            status = qp_pg_check_role(conn, reterr);
        }
        attempts++;
    } while (status != QUIPU_OK && qp_failure_is_transient(conn->failure) &&
             attempts < QP_ATTEMPTS_MAX && qp_pg_backoff(conn, deadline_ns));
    return status;
}

/* Load libpq, connect, check, wrap: whichever step fails, open_close() frees what there is. */
quipu_status ent_postgres_open(const char *uri, const ent_postgres_options *options,
                               ent_db **ret_db, quipu_error *reterr)
{
    ent_postgres_options opt;
    qp_pg *conn = NULL;
    quipu_status status;

    if (uri == NULL || ret_db == NULL || uri[0] == '\0' || strlen(uri) > ENT_POSTGRES_URI_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "ent_postgres_open needs a URI of 1 to %d bytes and a place for the "
                            "connection",
                            ENT_POSTGRES_URI_MAX);
    }
    status = open_options(options, &opt, reterr);
    if (status == QUIPU_OK) {
        status = qp_libpq_load(reterr);
    }
    if (status == QUIPU_OK) {
        status = open_new(uri, &opt, &conn, reterr);
    }
    if (status == QUIPU_OK) {
        assert(conn != NULL);
        status = qp_pg_connect(conn, (opt.flags & ENT_POSTGRES_WAIT) != 0, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_check(conn, (opt.flags & ENT_POSTGRES_MUST_EXIST) != 0, reterr);
    }
    if (status == QUIPU_OK) {
        assert(conn != NULL);
        status = qp_db_new(conn->citus ? &qp_pg_citus_engine : &qp_pg_engine, conn, conn->read_only,
                           ret_db, reterr);
    }
    if (status != QUIPU_OK) {
        open_close(conn);
    }
    return status;
}
