/* The few places where SQLite's SQL differs from the common part that src/ent writes, and the SQL
 * function ent_add(), which that SQL calls. It refuses what SQLite would let pass: an overflow,
 * which SQLite turns into a rounded float, and a sum outside the field's range rule. open.c
 * registers it with every connection; ent_list() is in value_list.c. */
#include <stdio.h>

#include "ent/plan.h"
#include "ent_sqlite/ddl.h"
#include "ent_sqlite/stmt.h"

#define DIALECT_ADD_ARGUMENTS 5 /* column, amount, min, max, the column's name */

void qp_sqlite_put_in(qp_buf *sql, const char *column, unsigned number, bool negated)
{
    qp_sql_name(sql, column);
    qp_buf_printf(sql, "%s (SELECT value FROM ent_list(?%u))", negated ? " NOT IN" : " IN", number);
}

void qp_sqlite_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max)
{
    qp_buf_puts(sql, "ent_add(");
    qp_sql_name(sql, column);
    qp_buf_printf(sql, ",?%u,", number);
    qp_buf_i64(sql, min);
    qp_buf_putc(sql, ',');
    qp_buf_i64(sql, max);
    qp_buf_putc(sql, ',');
    qp_sqlite_put_text(sql, column);
    qp_buf_putc(sql, ')');
}

void qp_sqlite_put_match(qp_buf *sql, const char *column, const char *table, unsigned number)
{
    qp_sql_name(sql, column);
    qp_buf_puts(sql, " IN (SELECT rowid FROM ");
    qp_sqlite_put_suffixed(sql, table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_puts(sql, " WHERE ");
    qp_sqlite_put_suffixed(sql, table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_printf(sql, " MATCH ?%u)", number);
}

static void dialect_add(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    qp_sqlite *conn = sqlite3_user_data(ctx);
    int64_t a = sqlite3_value_int64(argv[0]); /* NULL counts as 0 */
    int64_t b = sqlite3_value_int64(argv[1]);
    int64_t min = sqlite3_value_int64(argv[2]);
    int64_t max = sqlite3_value_int64(argv[3]);
    bool fits = b >= 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b;

    (void)argc;
    if (fits && a + b >= min && a + b <= max) {
        sqlite3_result_int64(ctx, a + b);
        return;
    }
    /* The message cannot carry structure; the connection does, until error.c reports it. */
    (void)snprintf(conn->refused, sizeof(conn->refused), "%s",
                   (const char *)sqlite3_value_text(argv[4]));
    sqlite3_result_error(ctx, "sum out of range", -1);
}

int qp_sqlite_register_add(qp_sqlite *conn)
{
    return sqlite3_create_function_v2(conn->db, "ent_add", DIALECT_ADD_ARGUMENTS,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, conn,
                                      dialect_add, NULL, NULL, NULL);
}
