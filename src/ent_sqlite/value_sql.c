/* The few places where SQLite's SQL differs from the common part that src/ent writes. */
#include "ent_sqlite/value_sql.h"

#include "ent/plan.h"

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
    qp_buf_puts(sql, ",'");
    for (const char *c = column; *c != '\0'; c++) {
        if (*c == '\'') {
            qp_buf_putc(sql, '\'');
        }
        qp_buf_putc(sql, *c);
    }
    qp_buf_puts(sql, "')");
}

static void value_sql_index(qp_buf *sql, const char *table)
{
    qp_buf_putc(sql, '"');
    for (const char *c = table; *c != '\0'; c++) {
        if (*c == '"') {
            qp_buf_putc(sql, '"');
        }
        qp_buf_putc(sql, *c);
    }
    qp_buf_puts(sql, "_search\"");
}

void qp_sqlite_put_match(qp_buf *sql, const char *column, const char *table, unsigned number)
{
    qp_sql_name(sql, column);
    qp_buf_puts(sql, " IN (SELECT rowid FROM ");
    value_sql_index(sql, table);
    qp_buf_puts(sql, " WHERE ");
    value_sql_index(sql, table);
    qp_buf_printf(sql, " MATCH ?%u)", number);
}
