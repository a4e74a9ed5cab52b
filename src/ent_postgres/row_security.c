/* Row-level security. PostgreSQL only: not every server that speaks this protocol has policies, so
 * that nothing outside of this file depends on them.
 *
 * Owns: the policy quipu_tenant of every table, and the setting quipu.tenant of every transaction.
 * Called by: wire.c and stmt.c (qp_pg_send_tenant()) behind each BEGIN; src/ent when a store is
 * opened.
 * Locks: creating policies takes ACCESS EXCLUSIVE on each table, inside one exclusive write.
 *
 * The setting is local to its transaction (set_config(..., true)): it cannot leak into the next
 * one, also not behind a pooler in transaction mode. It fails closed: a transaction that does not
 * make it sees no row, because an unset setting reads as NULL, or as '' once it was set in this
 * session, and neither equals a tenant. */
#include "ent_postgres/row_security.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "ent/plan.h"
#include "ent/shard.h"
#include "ent_postgres/search.h"

#define ROW_SECURITY_SETTING "quipu.tenant"
#define ROW_SECURITY_POLICY QP_PG_ROW_POLICY
#define ROW_SECURITY_SQL_MAX 65536
#define ROW_SECURITY_NAME_SIZE ((size_t)2 * QP_PG_NAME_SIZE)

/* ---- every transaction --------------------------------------------------------------------------
 */

/* On a distributed store: SET LOCAL, which Citus sends on to the workers, as it does not with
 * set_config(). It takes no parameter; a quote is doubled, and standard_conforming_strings is on.
 */
static void row_security_send_set(qp_pg *conn)
{
    qp_buf sql;

    assert(conn->citus && conn->tenant != NULL);
    qp_buf_init(&sql, ROW_SECURITY_SQL_MAX);
    qp_buf_puts(&sql, "SET LOCAL " ROW_SECURITY_SETTING " = ");
    qp_sql_text(&sql, conn->tenant);
    if (qp_buf_status(&sql) == QUIPU_OK) {
        qp_pg_send(conn, qp_buf_str(&sql).p);
    } else {
        conn->broken = true;
    }
    qp_buf_free(&sql);
}

/* Travels directly behind BEGIN, or first in a batch outside of a transaction. */
void qp_pg_send_tenant(qp_pg *conn)
{
    const char *values[1] = {conn->tenant};

    assert(conn->tenant == NULL || conn->tenant[0] != '\0');
    if (conn->tenant != NULL && conn->citus) {
        row_security_send_set(conn);
    } else if (conn->tenant != NULL) {
        qp_pg_send_values(conn, "SELECT set_config('" ROW_SECURITY_SETTING "',$1,true)", values, 1);
    }
}

/* ---- questions --------------------------------------------------------------------------------
 */

/* Policies are not applied to superusers and to roles with BYPASSRLS, silently. */
quipu_status qp_pg_check_role(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status =
        qp_pg_query(conn,
                    "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = current_user "
                    "AND (rolsuper OR rolbypassrls)",
                    &call, reterr);

    assert(conn->tenant != NULL);
    if (status == QUIPU_OK && PQntuples(call.result) > 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "row security does not hold for this role, which is a superuser or "
                              "has BYPASSRLS; connect as a plain one");
    }
    qp_pg_call_done(&call);
    return status;
}

/* The tables of the schema; whether each has row security enabled and forced with our policy for
 * all commands; whether the role may change that. Permissive policies are OR-ed: with another one
 * beside ours a row of a foreign tenant could pass, so that there must be none. */
static const char *const row_security_tables =
    "SELECT t.relname, CAST(t.relrowsecurity AND t.relforcerowsecurity AND EXISTS (SELECT 1 FROM "
    "pg_catalog.pg_policy p WHERE p.polrelid = t.oid AND p.polname = '" ROW_SECURITY_POLICY "' AND "
    "p.polcmd = '*' AND p.polwithcheck IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM "
    "pg_catalog.pg_policy p WHERE p.polrelid = t.oid AND p.polname <> '" ROW_SECURITY_POLICY "' "
    "AND p.polpermissive) AS boolean), pg_catalog.pg_has_role(t.relowner, 'USAGE') "
    "FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "
    "WHERE n.nspname = current_schema() AND t.relkind = 'r'";

/* The row of a table in that list, or -1. */
static int row_security_find(const PGresult *tables, const char *name)
{
    assert(name != NULL);
    for (int i = 0; i < PQntuples(tables); i++) {
        if (strcmp(PQgetvalue(tables, i, 0), name) == 0) {
            return i;
        }
    }
    return -1;
}

/* A boolean of that list (binary: one byte); false for a table that is not in it. */
static bool row_security_is(const PGresult *tables, int row, int column)
{
    assert(column >= 0);
    return row >= 0 && PQgetvalue(tables, row, column)[0] != 0;
}

/* ---- policies ---------------------------------------------------------------------------------
 */

/* The condition of a policy: the row's tenant, its own or its owner's, is the transaction's. The
 * owner is found by a scalar subquery on its key: one index probe a row. EXISTS and IN would let
 * the planner hash all rows of the tenant, which costs more the more there are. A row that repeats
 * its owner's key columns must agree in all of them, or it could name one owner by number and
 * another by key. */
static void row_security_put_owned(qp_buf *sql, const char *table, const qp_row_policy *policy,
                                   bool has_tenant)
{
    const char *columns[QP_SHARD_KEY_MAX];
    size_t n = 0;

    assert(table != NULL && policy != NULL);
    if (qp_shard_owner(policy->entity) != NULL && strcmp(table, policy->entity->table) == 0) {
        n = qp_shard_primary(policy->through, columns);
    }
    if (policy->through != NULL && !has_tenant) {
        qp_buf_puts(sql, "(SELECT o.\"" QP_ROW_SECURITY_COLUMN "\" FROM ");
        qp_sql_name(sql, policy->through->table);
        qp_buf_puts(sql, " AS o WHERE o.");
        qp_sql_name(sql, policy->through->fields[policy->through->key[0]].column);
        qp_buf_putc(sql, '=');
        qp_sql_name(sql, table);
        qp_buf_putc(sql, '.');
        qp_sql_name(sql, policy->column);
        for (size_t i = 0; i < n; i++) {
            qp_buf_puts(sql, " AND o.");
            qp_sql_name(sql, columns[i]);
            qp_buf_putc(sql, '=');
            qp_sql_name(sql, table);
            qp_buf_putc(sql, '.');
            qp_sql_name(sql, columns[i]);
        }
        qp_buf_putc(sql, ')');
    } else {
        qp_buf_puts(sql, "\"" QP_ROW_SECURITY_COLUMN "\"");
    }
    qp_buf_puts(sql, " = NULLIF(current_setting('" ROW_SECURITY_SETTING "', true), '')");
}

/* Enables, forces (also for the tables' owner), and replaces the policy of one table. */
static void row_security_put(qp_buf *sql, const char *table, const qp_row_policy *policy,
                             bool has_tenant)
{
    static const char *const heads[] = {"ALTER TABLE ", " ENABLE ROW LEVEL SECURITY;\nALTER TABLE ",
                                        " FORCE ROW LEVEL SECURITY;\nDROP POLICY IF EXISTS "
                                        "\"" ROW_SECURITY_POLICY "\" ON ",
                                        ";\nCREATE POLICY \"" ROW_SECURITY_POLICY "\" ON "};

    assert(table != NULL && policy != NULL);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        qp_buf_puts(sql, heads[i]);
        qp_sql_name(sql, table);
    }
    qp_buf_puts(sql, " USING (");
    row_security_put_owned(sql, table, policy, has_tenant);
    qp_buf_puts(sql, ") WITH CHECK (");
    row_security_put_owned(sql, table, policy, has_tenant);
    qp_buf_puts(sql, ");\n");
}

/* On a distributed store every table has a tenant of its own (citus.c), because a policy with a
 * subquery cannot be sent to the workers. Rows of the time before row security have none yet: they
 * get that of their owner, which lies on the same worker. */
static void row_security_put_tenants(qp_buf *sql, const char *table, const qp_row_policy *policy)
{
    assert(policy->through != NULL);
    qp_buf_puts(sql, "UPDATE ");
    qp_sql_name(sql, table);
    qp_buf_puts(sql, " AS r SET \"" QP_ROW_SECURITY_COLUMN "\" = o.\"" QP_ROW_SECURITY_COLUMN
                     "\" FROM ");
    qp_sql_name(sql, policy->through->table);
    qp_buf_puts(sql, " AS o WHERE o.\"" QP_SHARD_COLUMN "\" = r.\"" QP_SHARD_COLUMN "\" AND o.");
    qp_sql_name(sql, policy->through->fields[policy->through->key[0]].column);
    qp_buf_puts(sql, " = r.");
    qp_sql_name(sql, policy->column);
    qp_buf_puts(sql, " AND r.\"" QP_ROW_SECURITY_COLUMN "\" IS NULL;\n");
}

/* Whether the statements for one table are missing. Without the right to create its policy the
 * store is not opened: an unprotected table is worse than an error. */
static quipu_status row_security_find_missing(const PGresult *tables, const char *table,
                                              bool *ret_missing, quipu_error *reterr)
{
    int row = row_security_find(tables, table);

    *ret_missing = false;
    if (row < 0 || row_security_is(tables, row, 1)) {
        return QUIPU_OK; /* a reader's older layout lacks the table: it has no rows to protect */
    }
    if (!row_security_is(tables, row, 2)) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the table %s has no row security; open the store once, with the same "
                            "option, as the role that owns the tables",
                            table);
    }
    *ret_missing = true;
    return QUIPU_OK;
}

/* One table of an entity: the one of its rows, or that of their words. */
static const char *row_security_table(const ent_entity *entity, bool words,
                                      char name[ROW_SECURITY_NAME_SIZE])
{
    assert(!words || (entity->flags & ENT_E_SEARCH_MANUAL) != 0);
    (void)snprintf(name, ROW_SECURITY_NAME_SIZE, "%s%s", entity->table,
                   words ? QP_PG_SEARCH_SUFFIX : "");
    return name;
}

/* The statements for all tables; empty when all policies are in place. A search index is a table of
 * its own with the words of the same rows: it gets the same policy. Tenants are written first: the
 * policies hide the rows of the others from the owner, too. */
static quipu_status row_security_missing(qp_pg *conn, const qp_row_policy *policies, size_t n,
                                         qp_buf *sql, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(conn, row_security_tables, &call, reterr);
    qp_buf put;

    assert(policies != NULL || n == 0);
    qp_buf_init(&put, ROW_SECURITY_SQL_MAX);
    for (size_t i = 0; i < 2 * n && status == QUIPU_OK; i++) {
        const qp_row_policy *policy = &policies[i / 2];
        const bool words = i % 2 != 0;
        char name[ROW_SECURITY_NAME_SIZE];
        bool missing = false;

        if (words && (policy->entity->flags & ENT_E_SEARCH_MANUAL) == 0) {
            continue;
        }
        status = row_security_find_missing(
            call.result, row_security_table(policy->entity, words, name), &missing, reterr);
        if (missing && conn->citus && policy->through != NULL) {
            row_security_put_tenants(sql, name, policy);
        }
        if (missing) {
            row_security_put(&put, name, policy, conn->citus);
        }
    }
    qp_pg_call_done(&call);
    qp_buf_put(sql, qp_buf_str(&put));
    if (status == QUIPU_OK && (qp_buf_status(sql) != QUIPU_OK || qp_buf_status(&put) != QUIPU_OK)) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "no memory for row security");
    }
    qp_buf_free(&put);
    return status;
}

/* Creates the policies in one exclusive write. Missing policies are looked up again inside of it,
 * so that one process creates them when several open the store together. */
static quipu_status row_security_build(qp_pg *conn, const qp_row_policy *policies, size_t n,
                                       qp_buf *sql, quipu_error *reterr)
{
    quipu_status status = qp_pg_begin(conn, 0, ENT_WRITE, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    qp_buf_reset(sql);
    status = row_security_missing(conn, policies, n, sql, reterr);
    if (status == QUIPU_OK && sql->n > 0) {
        status = qp_pg_execute(conn, qp_buf_str(sql), reterr);
    }
    if (status == QUIPU_OK) {
        return qp_pg_commit(conn, 0, reterr);
    }
    qp_pg_rollback(conn, 0);
    return status;
}

/* A connection without a tenant would see a store with policies as empty: refused instead. A
 * superuser sees all; on a distributed store he may not write, as his rows would have no tenant. */
static quipu_status row_security_none(qp_pg *conn, quipu_error *reterr)
{
    static const char found[] =
        "SELECT 1 FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class t ON t.oid = p.polrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = "
        "current_schema() AND p.polname = '" ROW_SECURITY_POLICY "' LIMIT 1";
    static const char found_by_plain_roles[] =
        "SELECT 1 FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class t ON t.oid = p.polrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = "
        "current_schema() AND p.polname = '" ROW_SECURITY_POLICY "' AND NOT EXISTS (SELECT 1 FROM "
        "pg_catalog.pg_roles WHERE rolname = current_user AND (rolsuper OR rolbypassrls)) LIMIT 1";
    qp_pg_call call;
    quipu_status status = qp_pg_query(
        conn, conn->citus && !conn->read_only ? found : found_by_plain_roles, &call, reterr);

    assert(conn->tenant == NULL);
    if (status == QUIPU_OK && PQntuples(call.result) > 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "the tables have row security, which hides all rows from a "
                              "connection without a tenant; set row_security=on and a tenant in "
                              "the URI");
    }
    qp_pg_call_done(&call);
    return status;
}

/* See qp_row_security_enable(). Reads first: on a store that is set up nothing is locked. */
quipu_status qp_pg_enable_row_security(void *conn, const qp_row_policy *policies, size_t n,
                                       quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = qp_pg_ensure_connected(self, reterr);
    qp_buf sql;

    assert(conn != NULL);
    if (status == QUIPU_OK && self->tenant == NULL) {
        return row_security_none(self, reterr);
    }
    qp_buf_init(&sql, ROW_SECURITY_SQL_MAX);
    if (status == QUIPU_OK) {
        status = row_security_missing(self, policies, n, &sql, reterr);
    }
    if (status == QUIPU_OK && sql.n > 0) {
        status = self->read_only
                     ? qp_error_set(reterr, QUIPU_UNSUPPORTED,
                                    "the tables have no row security yet; open the store once for "
                                    "writing, with the same option")
                     : row_security_build(self, policies, n, &sql, reterr);
    }
    qp_buf_free(&sql);
    return status;
}
