/* A store on hash-distributed PostgreSQL: Citus. PostgreSQL with that extension only, like search.c
 * and row_security.c a file outside of the portable subset.
 *
 * Owns: how a schema's tables are distributed, and the settings that a session needs there.
 * Called by: open.c and query.c for each connection; src/ent through qp_engine.distribute;
 * maintenance.c.
 * Locks: distributing is one exclusive write; it takes ACCESS EXCLUSIVE on each table.
 *
 *   coordinator   ent_numbers, ent_journal                       slots, counters, the schema
 *   workers       everything with a shard column, by its hash    one colocation group: the rows of
 *                                                                a session, and of a user, are on
 *                                                                one worker
 *
 * What holds for commits. A transaction that writes to one worker commits there, with one phase: an
 * append locks its slot and writes to the worker of its session. A transaction that writes to
 * several servers (a create, which moves a counter; a fork into another shard) is committed by
 * Citus with two phases. Where the second phase does not reach a worker, COMMIT succeeds with a
 * WARNING, and Citus finishes it later; until then nobody sees the rows, and their locks are held.
 * connect.c notes the warning, and tx.c reports the commit as one of unknown outcome: it is never
 * acknowledged, the store asks for its event ids, and that waits for the locks. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ent/db.h"
#include "ent/plan.h"
#include "ent/row_security.h"
#include "ent/shard.h"
#include "ent_postgres/row_security.h"
#include "ent_postgres/search.h"

#define CITUS_SQL_MAX 8192

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* SET LOCAL (timeouts, the tenant of row security) is sent on to the workers of its transaction. */
quipu_status qp_pg_citus_init(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status =
        qp_pg_query(conn, "SET citus.propagate_set_commands = 'local'", &call, reterr);

    assert(conn->citus);
    qp_pg_call_done(&call);
    return status;
}

/* Whether this store is distributed, and whether the database says that its stores are to be. */
quipu_status qp_pg_citus_find(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status =
        qp_pg_query(conn,
                    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_partition WHERE logicalrelid "
                    "= pg_catalog.to_regclass('\"" QP_PG_TABLE "\"')), "
                    "COALESCE(current_setting('quipu.distribute', true), '') = 'citus'",
                    &call, reterr);

    assert(!conn->in_transaction);
    if (status == QUIPU_OK) {
        conn->citus = PQgetvalue(call.result, 0, 0)[0] != 0;
        conn->citus_wanted = PQgetvalue(call.result, 0, 1)[0] != 0;
    }
    qp_pg_call_done(&call);
    return status == QUIPU_OK && conn->citus ? qp_pg_citus_init(conn, reterr) : status;
}

/* ---- distributing -----------------------------------------------------------------------------
 */

/* The tables of the schema that are not distributed yet, the owner of others first: its name,
 * whether it has the shard's column, its own tenant, the constraint to another shard or NULL, its
 * first two columns, its primary key, whether it has a row policy. The enum CITUS_* has its
 * columns. */
static const char *const citus_tables =
    "SELECT t.relname, "
    "EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid "
    "AND a.attname = '" QP_SHARD_COLUMN "'), "
    "EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid "
    "AND a.attname = '" QP_ROW_SECURITY_COLUMN "'), "
    "(SELECT o.conname FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_attribute a ON "
    "a.attrelid = t.oid AND a.attnum = o.conkey[1] WHERE o.conrelid = t.oid AND o.contype = 'f' "
    "AND a.attname <> '" QP_SHARD_COLUMN "' LIMIT 1), "
    "(SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid AND a.attnum = 1), "
    "(SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid AND a.attnum = 2), "
    "(SELECT o.conname FROM pg_catalog.pg_constraint o WHERE o.conrelid = t.oid "
    "AND o.contype = 'p'), "
    "EXISTS (SELECT 1 FROM pg_catalog.pg_policy y WHERE y.polrelid = t.oid "
    "AND y.polname = '" QP_PG_ROW_POLICY "') "
    "FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "
    "WHERE n.nspname = current_schema() AND t.relkind = 'r' AND NOT EXISTS (SELECT 1 FROM "
    "pg_catalog.pg_dist_partition p WHERE p.logicalrelid = t.oid) "
    "ORDER BY EXISTS (SELECT 1 FROM pg_catalog.pg_constraint o WHERE o.confrelid = t.oid "
    "AND o.conrelid <> t.oid) DESC, t.relname COLLATE \"C\"";

/* Whether the extension is there. Without it its tables are not there either, hence several
 * queries. */
static quipu_status citus_check_extension(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(
        conn, "SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus'", &call, reterr);

    if (status == QUIPU_OK && PQntuples(call.result) == 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "the database has no Citus, which --distribute citus needs: add "
                              "citus to shared_preload_libraries and run CREATE EXTENSION citus, "
                              "on the coordinator and on every worker");
    }
    qp_pg_call_done(&call);
    return status;
}

/* Whether a table is left to distribute. */
static quipu_status citus_find_missing(qp_pg *conn, bool *ret_missing, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(conn, citus_tables, &call, reterr);

    *ret_missing = status == QUIPU_OK && PQntuples(call.result) > 0;
    qp_pg_call_done(&call);
    return status;
}

/* Whether this is the coordinator and the workers know it, and how many nodes take shards. */
static quipu_status citus_check_nodes(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status;

    status = qp_pg_query(
        conn,
        "SELECT CAST((SELECT groupid FROM pg_catalog.pg_dist_local_group) AS bigint), "
        "CAST(count(*) FILTER (WHERE groupid = 0) AS bigint), "
        "CAST(count(*) FILTER (WHERE shouldhaveshards) AS bigint) FROM pg_catalog.pg_dist_node",
        &call, reterr);
    if (status == QUIPU_OK && qp_pg_int(call.result, 0, 0) != 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "tables are distributed by the coordinator, and this is a worker: "
                              "name the coordinator in the URI");
    } else if (status == QUIPU_OK && qp_pg_int(call.result, 0, 1) == 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "the workers do not know the coordinator: run SELECT "
                              "citus_set_coordinator_host(host, port) there");
    } else if (status == QUIPU_OK && qp_pg_int(call.result, 0, 2) == 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "no node takes shards: add workers with SELECT "
                              "citus_add_node(host, port)");
    }
    qp_pg_call_done(&call);
    return status;
}

/* The columns of citus_tables, in its order. */
enum {
    CITUS_NAME,
    CITUS_HAS_SHARD,
    CITUS_HAS_TENANT,
    CITUS_REFERENCE,
    CITUS_FIRST,
    CITUS_SECOND,
    CITUS_KEY,
    CITUS_HAS_POLICY
};

/* Whether a name is that of a full-text index. */
static bool citus_is_search(const char *name)
{
    const size_t n = strlen(name);
    const size_t end = strlen(QP_PG_SEARCH_SUFFIX);

    return n > end && strcmp(name + n - end, QP_PG_SEARCH_SUFFIX) == 0;
}

/* Runs one statement of the distribution. The buffer is empty afterwards, for the next one. */
static quipu_status citus_run(qp_pg *conn, qp_buf *sql, quipu_error *reterr)
{
    quipu_status status = qp_buf_status(sql);

    assert(conn->in_transaction);
    status = status == QUIPU_OK ? qp_pg_execute(conn, qp_buf_str(sql), reterr)
                                : qp_error_set(reterr, status, "no memory to distribute tables");
    qp_buf_reset(sql);
    return status;
}

/* `ALTER TABLE name `. */
static void citus_alter(qp_buf *sql, const char *table)
{
    assert(table != NULL);
    qp_buf_puts(sql, "ALTER TABLE ");
    qp_sql_name(sql, table);
    qp_buf_putc(sql, ' ');
}

/* A full-text index gets the shard of its rows, which leads its key. A row's number has its shard
 * in its lowest bits, so that no row is looked up for it. */
static quipu_status citus_shard_search(qp_pg *conn, const PGresult *tables, int row, qp_buf *sql,
                                       quipu_error *reterr)
{
    const char *name = PQgetvalue(tables, row, CITUS_NAME);
    const char *number = PQgetvalue(tables, row, CITUS_FIRST);
    quipu_status status;

    assert(citus_is_search(name));
    citus_alter(sql, name);
    qp_buf_puts(sql, "ADD COLUMN \"" QP_SHARD_COLUMN "\" bigint");
    status = citus_run(conn, sql, reterr);
    if (status == QUIPU_OK) {
        qp_buf_puts(sql, "UPDATE ");
        qp_sql_name(sql, name);
        qp_buf_puts(sql, " SET \"" QP_SHARD_COLUMN "\" = ");
        qp_sql_name(sql, number);
        qp_buf_printf(sql, " & %d", ENT_SHARD_MAX);
        status = citus_run(conn, sql, reterr);
    }
    if (status == QUIPU_OK) {
        citus_alter(sql, name);
        qp_buf_puts(sql, "DROP CONSTRAINT ");
        qp_sql_name(sql, PQgetvalue(tables, row, CITUS_KEY));
        status = citus_run(conn, sql, reterr);
    }
    if (status == QUIPU_OK) {
        citus_alter(sql, name);
        qp_buf_puts(sql, "ADD PRIMARY KEY (\"" QP_SHARD_COLUMN "\", ");
        qp_sql_name(sql, number);
        qp_buf_puts(sql, ", ");
        qp_sql_name(sql, PQgetvalue(tables, row, CITUS_SECOND));
        qp_buf_putc(sql, ')');
        status = citus_run(conn, sql, reterr);
    }
    return status;
}

/* Takes the row policy of one server away: it finds a row's tenant by a subquery, which cannot be
 * sent to the workers. Row security stays enabled, so that without a policy everybody but the owner
 * sees nothing, until qp_pg_enable_row_security() has written the tenants and the new policies. */
static quipu_status citus_drop_policy(qp_pg *conn, const char *name, qp_buf *sql,
                                      quipu_error *reterr)
{
    quipu_status status;

    if (conn->tenant == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the table %s has row security; distribute the store as the role that "
                            "owns the tables, with row_security=on and a tenant",
                            name);
    }
    citus_alter(sql, name);
    qp_buf_puts(sql, "NO FORCE ROW LEVEL SECURITY");
    status = citus_run(conn, sql, reterr);
    if (status == QUIPU_OK) {
        qp_buf_puts(sql, "DROP POLICY \"" QP_PG_ROW_POLICY "\" ON ");
        qp_sql_name(sql, name);
        status = citus_run(conn, sql, reterr);
    }
    return status;
}

/* A tenant of each row: that of the transaction that adds it. The default comes behind the column:
 * the rows that are there would else get the tenant of this transaction. */
static quipu_status citus_add_tenant(qp_pg *conn, const char *name, qp_buf *sql,
                                     quipu_error *reterr)
{
    quipu_status status;

    citus_alter(sql, name);
    qp_buf_puts(sql, "ADD COLUMN \"" QP_ROW_SECURITY_COLUMN "\" text COLLATE \"C\"");
    status = citus_run(conn, sql, reterr);
    if (status == QUIPU_OK) {
        citus_alter(sql, name);
        qp_buf_puts(sql, "ALTER COLUMN \"" QP_ROW_SECURITY_COLUMN "\" SET DEFAULT "
                         "NULLIF(current_setting('quipu.tenant', true), '')");
        status = citus_run(conn, sql, reterr);
    }
    return status;
}

/* Prepares a table for distribution: drops foreign keys into other shards, which a worker cannot
 * enforce, and adds the tenant's column, so that the row policy needs no look at another table. */
static quipu_status citus_prepare(qp_pg *conn, const PGresult *tables, int row, qp_buf *sql,
                                  quipu_error *reterr)
{
    const char *name = PQgetvalue(tables, row, CITUS_NAME);
    quipu_status status = QUIPU_OK;

    if (PQgetvalue(tables, row, CITUS_HAS_POLICY)[0] != 0) {
        status = citus_drop_policy(conn, name, sql, reterr);
    }
    if (status == QUIPU_OK && PQgetisnull(tables, row, CITUS_REFERENCE) == 0) {
        citus_alter(sql, name);
        qp_buf_puts(sql, "DROP CONSTRAINT ");
        qp_sql_name(sql, PQgetvalue(tables, row, CITUS_REFERENCE));
        status = citus_run(conn, sql, reterr);
    }
    if (status == QUIPU_OK && PQgetvalue(tables, row, CITUS_HAS_TENANT)[0] == 0) {
        status = citus_add_tenant(conn, name, sql, reterr);
    }
    if (status == QUIPU_OK && PQgetvalue(tables, row, CITUS_HAS_SHARD)[0] == 0) {
        status = citus_shard_search(conn, tables, row, sql, reterr);
    }
    return status;
}

/* Distributes one table, colocated with the owner, or makes it a table of the coordinator. */
static quipu_status citus_place(qp_pg *conn, const char *name, bool spreads, bool first,
                                qp_buf *sql, quipu_error *reterr)
{
    char quoted[2 * QP_PG_NAME_SIZE];

    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    qp_buf_puts(sql, spreads ? "SELECT create_distributed_table("
                             : "SELECT citus_add_local_table_to_metadata(");
    qp_sql_text(sql, quoted);
    if (spreads) {
        qp_buf_puts(sql, ", '" QP_SHARD_COLUMN "', colocate_with => ");
        qp_buf_puts(sql, first ? "'none'"
                               : "(SELECT CAST(CAST(p.logicalrelid AS regclass) AS text) FROM "
                                 "pg_catalog.pg_dist_partition p JOIN pg_catalog.pg_class t ON "
                                 "t.oid = p.logicalrelid JOIN pg_catalog.pg_namespace n ON n.oid = "
                                 "t.relnamespace WHERE n.nspname = current_schema() AND "
                                 "p.partmethod = 'h' ORDER BY t.relname COLLATE \"C\" LIMIT 1)");
    }
    qp_buf_putc(sql, ')');
    return citus_run(conn, sql, reterr);
}

/* Inside of an exclusive write. A store that was distributed by an earlier version has some tables
 * that are, to which those that a migration added are colocated. */
static quipu_status citus_distribute_all(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(conn, citus_tables, &call, reterr);
    bool first = !conn->citus;
    qp_buf sql;

    assert(conn->in_transaction && conn->writes);
    qp_buf_init(&sql, CITUS_SQL_MAX);
    for (int pass = 0; pass < 2; pass++) { /* the coordinator's own tables come last */
        for (int row = 0; status == QUIPU_OK && row < PQntuples(call.result); row++) {
            const char *name = PQgetvalue(call.result, row, CITUS_NAME);
            const bool spreads =
                PQgetvalue(call.result, row, CITUS_HAS_SHARD)[0] != 0 || citus_is_search(name);

            if (spreads != (pass == 0)) {
                continue;
            }
            status = spreads ? citus_prepare(conn, call.result, row, &sql, reterr) : QUIPU_OK;
            if (status == QUIPU_OK) {
                status = citus_place(conn, name, spreads, first, &sql, reterr);
                first = false;
            }
        }
    }
    qp_buf_free(&sql);
    qp_pg_call_done(&call);
    return status;
}

/* One attempt: all tables in one transaction, or none. It locks the table of the slots before their
 * rows: writers that wait for a slot have a lock of that table, and would wait for each other. */
static quipu_status citus_try(qp_pg *conn, quipu_error *reterr)
{
    quipu_status status;

    conn->locks_table = true;
    status = qp_pg_begin(conn, 0, ENT_WRITE, reterr);
    conn->locks_table = false;
    if (status == QUIPU_OK) {
        status = citus_distribute_all(conn, reterr);
        if (status == QUIPU_OK) {
            return qp_pg_commit(conn, 0, reterr);
        }
        qp_pg_rollback(conn, 0);
    }
    return status;
}

/* Attempts until the deadline: readers may have locked tables in another order (40P01). What an
 * earlier attempt has done is not in the list of tables any more. */
static quipu_status citus_distribute_in_time(qp_pg *conn, quipu_error *reterr)
{
    const int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    quipu_error error = {0};
    quipu_status status;
    int attempts = 0;

    do {
        status = citus_try(conn, &error);
        attempts++;
    } while (status != QUIPU_OK && qp_failure_is_transient(conn->failure) &&
             attempts < QP_ATTEMPTS_MAX && qp_pg_backoff(conn, deadline_ns));
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* A store that is distributed needs no coordinator to be opened. */
quipu_status qp_pg_citus_can_distribute(void *conn, bool asked, quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = qp_pg_ensure_connected(self, reterr);

    assert(!self->in_transaction);
    if (status != QUIPU_OK || self->citus || (!asked && !self->citus_wanted)) {
        return status;
    }
    status = citus_check_extension(self, reterr);
    return status == QUIPU_OK ? citus_check_nodes(self, reterr) : status;
}

/* All tables in one transaction, or none. A database says that its stores are distributed by ALTER
 * DATABASE ... SET quipu.distribute = 'citus'. A store that is distributed has nothing to do. */
quipu_status qp_pg_citus_distribute(void *conn, bool asked, bool *ret_changed, quipu_error *reterr)
{
    qp_pg *self = conn;
    bool missing = false;
    quipu_status status = qp_pg_ensure_connected(self, reterr);

    assert(!self->in_transaction);
    if (status != QUIPU_OK || (!asked && !self->citus && !self->citus_wanted)) {
        return status;
    }
    status = citus_check_extension(self, reterr);
    if (status == QUIPU_OK) {
        status = citus_find_missing(self, &missing, reterr);
    }
    if (status == QUIPU_OK && missing) {
        status = citus_check_nodes(self, reterr);
    }
    if (status != QUIPU_OK || !missing) {
        return status;
    }
    status = citus_distribute_in_time(self, reterr);
    *ret_changed = status == QUIPU_OK;
    return status;
}

/* ---- what is where ----------------------------------------------------------------------------
 */

/* Asks each node how many bytes of this store it holds, and on how many disks a commit is durable
 * there: "bytes level". The tables that stand for the shards are left out. Sizes need no right to
 * the tables of other stores, which those of the view citus_shards do. */
#define CITUS_ASK_NODES                                                                            \
    "run_command_on_all_nodes(format($cmd$SELECT CAST(COALESCE((SELECT "                           \
    "SUM(pg_catalog.pg_total_relation_size(c.oid)) FROM pg_catalog.pg_class c JOIN "               \
    "pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %L AND "                \
    "c.relkind = 'r' AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_partition p WHERE "          \
    "p.logicalrelid = c.oid)), 0) AS text) || CASE WHEN current_setting('fsync') <> 'on' OR "      \
    "current_setting('synchronous_commit') = 'off' THEN ' 0' WHEN "                                \
    "current_setting('synchronous_commit') IN ('on', 'remote_apply') AND "                         \
    "current_setting('synchronous_standby_names') <> '' THEN ' 2' ELSE ' 1' END$cmd$, "            \
    "current_schema()))"

/* Bytes of all shards, and the least durability that any node's settings promise, since a session
 * may lie on each of them. A node that is away promises nothing. */
quipu_status qp_pg_citus_sizes(qp_pg *conn, qp_sizes *ret, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(
        conn,
        "SELECT CAST(COALESCE(SUM(CAST(split_part(result, ' ', 1) AS bigint)) FILTER (WHERE "
        "success), 0) AS bigint), CAST(COALESCE(MIN(CASE WHEN success THEN "
        "CAST(split_part(result, ' ', 2) AS integer) ELSE 0 END), 0) AS bigint) "
        "FROM " CITUS_ASK_NODES,
        &call, reterr);

    assert(ret != NULL);
    if (status == QUIPU_OK) {
        ret->file_bytes = qp_pg_int(call.result, 0, 0);
        ret->durability_level = qp_pg_int(call.result, 0, 1);
    }
    qp_pg_call_done(&call);
    return status;
}

/* Behind the server's version: workers, shards (of each table), and how much more than the mean the
 * fullest worker holds. */
quipu_status qp_pg_citus_engine_text(qp_pg *conn, char *ret_text, size_t size, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(
        conn,
        "SELECT (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'citus'), "
        "CAST(count(*) AS bigint), CAST((SELECT count(*) FROM pg_catalog.pg_dist_shard s WHERE "
        "s.logicalrelid = (SELECT p.logicalrelid FROM pg_catalog.pg_dist_partition p JOIN "
        "pg_catalog.pg_class c ON c.oid = p.logicalrelid JOIN pg_catalog.pg_namespace n ON "
        "n.oid = c.relnamespace WHERE n.nspname = current_schema() AND p.partmethod = 'h' "
        "LIMIT 1)) AS bigint), CAST(COALESCE(MAX(w.bytes) * 100 / NULLIF(AVG(w.bytes), 0), 100) "
        "AS bigint) FROM (SELECT CASE WHEN r.success THEN CAST(split_part(r.result, ' ', 1) AS "
        "bigint) ELSE 0 END AS bytes FROM pg_catalog.pg_dist_node d LEFT JOIN " CITUS_ASK_NODES
        " AS r ON r.nodeid = d.nodeid WHERE d.shouldhaveshards AND d.noderole = 'primary') w",
        &call, reterr);

    assert(ret_text != NULL && size > 0);
    if (status == QUIPU_OK) {
        const int64_t skew = qp_pg_int(call.result, 0, 3);

        (void)snprintf(ret_text, size, ", Citus %s: %lld shards on %lld workers, skew %lld.%02lldx",
                       PQgetvalue(call.result, 0, 0), (long long)qp_pg_int(call.result, 0, 2),
                       (long long)qp_pg_int(call.result, 0, 1), (long long)(skew / 100),
                       (long long)(skew % 100));
    }
    qp_pg_call_done(&call);
    return status;
}
