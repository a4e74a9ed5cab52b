/* Row security. Outside of the portable SQL subset: not every server of this protocol has policies.
 *
 * The tenant is a setting of the transaction (set_config(..., true)), so that it cannot survive
 * into the next one, also not behind a pooler. A transaction that does not make it sees nothing: an
 * unset setting is NULL or, once it was set in this connection, empty; neither is a tenant. */
#include "ent_postgres/row_security.h"

#include <string.h>

#include "base/error.h"
#include "ent/plan.h"
#include "ent/shard.h"
#include "ent_postgres/search.h"

#define ROW_SECURITY_SETTING "quipu.tenant"
#define ROW_SECURITY_POLICY "quipu_tenant"
#define ROW_SECURITY_SQL_MAX 65536
#define ROW_SECURITY_NAME_SIZE (2 * QP_PG_NAME_SIZE)

/* ---- every transaction --------------------------------------------------------------------------
 */

void qp_pg_send_tenant(qp_pg *conn)
{
    const char *values[1] = {conn->tenant};

    if (conn->tenant != NULL) {
        qp_pg_send_values(conn, "SELECT set_config('" ROW_SECURITY_SETTING "',$1,true)", values, 1);
    }
}

/* ---- questions --------------------------------------------------------------------------------
 */

quipu_status qp_pg_check_role(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status =
        qp_pg_query(conn,
                    "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = current_user "
                    "AND (rolsuper OR rolbypassrls)",
                    &call, reterr);

    if (status == QUIPU_OK && PQntuples(call.result) > 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "row security does not hold for this role, which is a superuser or "
                              "has BYPASSRLS; connect as a plain one");
    }
    qp_pg_call_done(&call);
    return status;
}

/* The tables of the schema, whether each is walled off, and whether the role owns it. Of several
 * policies one is enough to be let through: there must be no other. */
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
    for (int i = 0; i < PQntuples(tables); i++) {
        if (strcmp(PQgetvalue(tables, i, 0), name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool row_security_is(const PGresult *tables, int row, int column)
{
    return row >= 0 && PQgetvalue(tables, row, column)[0] != 0; /* booleans in binary */
}

/* ---- policies ---------------------------------------------------------------------------------
 */

/* The owner is looked up by its number, row by row: the server would make a table of all rows of
 * the tenant out of an EXISTS or IN, which costs more the more there are. */
static void row_security_put_owned(qp_buf *sql, const char *table, const qp_row_policy *wall)
{
    const char *columns[QP_SHARD_KEY_MAX];
    size_t n = 0;

    /* A row that is kept by its owner's key as well must not name one owner by number, and another
     * by key. */
    if (qp_shard_owner(wall->entity) != NULL && strcmp(table, wall->entity->table) == 0) {
        n = qp_shard_primary(wall->through, columns);
    }
    if (wall->through != NULL) {
        qp_buf_puts(sql, "(SELECT o.\"" QP_ROW_SECURITY_COLUMN "\" FROM ");
        qp_sql_name(sql, wall->through->table);
        qp_buf_puts(sql, " AS o WHERE o.");
        qp_sql_name(sql, wall->through->fields[wall->through->key[0]].column);
        qp_buf_putc(sql, '=');
        qp_sql_name(sql, table);
        qp_buf_putc(sql, '.');
        qp_sql_name(sql, wall->column);
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

static void row_security_put(qp_buf *sql, const char *table, const qp_row_policy *wall)
{
    static const char *const heads[] = {"ALTER TABLE ", " ENABLE ROW LEVEL SECURITY;\nALTER TABLE ",
                                        " FORCE ROW LEVEL SECURITY;\nDROP POLICY IF EXISTS "
                                        "\"" ROW_SECURITY_POLICY "\" ON ",
                                        ";\nCREATE POLICY \"" ROW_SECURITY_POLICY "\" ON "};

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        qp_buf_puts(sql, heads[i]);
        qp_sql_name(sql, table);
    }
    qp_buf_puts(sql, " USING (");
    row_security_put_owned(sql, table, wall);
    qp_buf_puts(sql, ") WITH CHECK (");
    row_security_put_owned(sql, table, wall);
    qp_buf_puts(sql, ");\n");
}

/* The statements for one table, unless its wall stands. */
static quipu_status row_security_mend(const PGresult *tables, const char *table,
                                      const qp_row_policy *wall, qp_buf *sql, quipu_error *reterr)
{
    int row = row_security_find(tables, table);

    if (row < 0 || row_security_is(tables, row, 1)) {
        return QUIPU_OK; /* a reader's older layout lacks the table: it has no rows to protect */
    }
    if (!row_security_is(tables, row, 2)) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the table %s has no row security; open the store once, with the same "
                            "option, as the role that owns the tables",
                            table);
    }
    row_security_put(sql, table, wall);
    return QUIPU_OK;
}

/* What has to be built; nothing when all stand. */
static quipu_status row_security_missing(qp_pg *conn, const qp_row_policy *policies, size_t n,
                                         qp_buf *sql, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(conn, row_security_tables, &call, reterr);

    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        const ent_entity *entity = policies[i].entity;
        char name[ROW_SECURITY_NAME_SIZE];

        status = row_security_mend(call.result, entity->table, &policies[i], sql, reterr);
        /* The words of its rows stand in another table, under the same number. */
        if (status == QUIPU_OK && (entity->flags & ENT_E_SEARCH_MANUAL) != 0) {
            (void)snprintf(name, sizeof(name), "%s" QP_PG_SEARCH_SUFFIX, entity->table);
            status = row_security_mend(call.result, name, &policies[i], sql, reterr);
        }
    }
    qp_pg_call_done(&call);
    return status == QUIPU_OK && qp_buf_status(sql) != QUIPU_OK
               ? qp_error_set(reterr, qp_buf_status(sql), "no memory for row security")
               : status;
}

/* In one transaction under the lease: of several that open together one does it. */
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

/* Without a tenant everything would look empty behind walls: better to be told. */
static quipu_status row_security_none(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status =
        qp_pg_query(conn,
                    "SELECT 1 FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class t ON "
                    "t.oid = p.polrelid JOIN pg_catalog.pg_namespace n ON n.oid = "
                    "t.relnamespace WHERE n.nspname = current_schema() AND p.polname = "
                    "'" ROW_SECURITY_POLICY "' AND NOT EXISTS (SELECT 1 FROM "
                    "pg_catalog.pg_roles WHERE rolname = current_user AND (rolsuper OR "
                    "rolbypassrls)) LIMIT 1",
                    &call, reterr);

    if (status == QUIPU_OK && PQntuples(call.result) > 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "the tables have row security, which hides all rows from whoever "
                              "does not ask for it; say row_security=on in the URI, and a tenant");
    }
    qp_pg_call_done(&call);
    return status;
}

quipu_status qp_pg_enable_row_security(void *conn, const qp_row_policy *policies, size_t n,
                                       quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = qp_pg_ensure_connected(self, reterr);
    qp_buf sql;

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
