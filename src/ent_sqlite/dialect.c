/* The places where SQLite's SQL differs from the portable part that src/ent/sql.c writes, and the
 * SQL function ent_add(), which that SQL calls: integer addition that fails where SQLite would not,
 * on an overflow (which it turns into a float) and outside of the field's range.
 *
 * Owns: qp_sqlite.refused from the failure of ent_add() until qp_sqlite_fail() reports it.
 * Called by: src/ent/sql.c through qp_engine; open.c registers ent_add() with every connection.
 * ent_list() is in value_list.c.
 * Locks: none; SQLite calls ent_add() on the connection's own thread. */
#include <assert.h>
#include <stdio.h>

#include "ent/plan.h"
#include "ent_sqlite/ddl.h"
#include "ent_sqlite/stmt.h"

#define DIALECT_ADD_ARGUMENTS 5 /* column, amount, min, max, the column's name */

/* See value_list.c. */
void qp_sqlite_put_in(qp_buf *sql, const char *column, unsigned number, bool negated)
{
    assert(number >= 1);
    qp_sql_name(sql, column);
    qp_buf_printf(sql, "%s (SELECT value FROM ent_list(?%u))", negated ? " NOT IN" : " IN", number);
}

/* The column's name is passed as a literal, for the error. */
void qp_sqlite_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max)
{
    assert(number >= 1);
    assert(min <= max);
    qp_buf_puts(sql, "ent_add(");
    qp_sql_name(sql, column);
    qp_buf_printf(sql, ",?%u,", number);
    qp_buf_i64(sql, min);
    qp_buf_putc(sql, ',');
    qp_buf_i64(sql, max);
    qp_buf_putc(sql, ',');
    qp_sql_text(sql, column);
    qp_buf_putc(sql, ')');
}

/* FTS5's hidden column with the index's own name takes the expression. */
void qp_sqlite_put_match(qp_buf *sql, const char *column, const char *table, unsigned number)
{
    assert(number >= 1);
    qp_sql_name(sql, column);
    qp_buf_puts(sql, " IN (SELECT rowid FROM ");
    qp_sqlite_put_suffixed(sql, table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_puts(sql, " WHERE ");
    qp_sqlite_put_suffixed(sql, table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_printf(sql, " MATCH ?%u)", number);
}

/* ent_add(column, amount, min, max, name). NULL counts as 0. The error's text cannot carry the
 * column's name to src/ent in a structured way, so that the connection does. */
static void dialect_add(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    qp_sqlite *conn = sqlite3_user_data(ctx);
    int64_t a = sqlite3_value_int64(argv[0]);
    int64_t b = sqlite3_value_int64(argv[1]);
    int64_t min = sqlite3_value_int64(argv[2]);
    int64_t max = sqlite3_value_int64(argv[3]);
    bool fits = b >= 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b;

    assert(argc == DIALECT_ADD_ARGUMENTS);
    (void)argc;
    if (fits && a + b >= min && a + b <= max) {
        sqlite3_result_int64(ctx, a + b);
        return;
    }
    (void)snprintf(conn->refused, sizeof(conn->refused), "%s",
                   (const char *)sqlite3_value_text(argv[4]));
    sqlite3_result_error(ctx, "sum out of range", -1);
}

/* DIRECTONLY: no schema of a foreign file can call it. */
int qp_sqlite_register_add(qp_sqlite *conn)
{
    assert(conn->db != NULL);
    return sqlite3_create_function_v2(conn->db, "ent_add", DIALECT_ADD_ARGUMENTS,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, conn,
                                      dialect_add, NULL, NULL, NULL);
}
