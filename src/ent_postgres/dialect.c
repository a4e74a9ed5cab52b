/* The few places where PostgreSQL's SQL differs from the common part that src/ent writes. */
#include "ent/plan.h"
#include "ent_postgres/open.h"

static void dialect_text(qp_buf *sql, const char *before, const char *text)
{
    qp_buf_putc(sql, '\'');
    qp_buf_puts(sql, before);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            qp_buf_putc(sql, '\'');
        }
        qp_buf_putc(sql, *text);
    }
    qp_buf_putc(sql, '\'');
}

void qp_pg_put_in(qp_buf *sql, const char *column, unsigned number, bool negated)
{
    qp_sql_name(sql, column);
    qp_buf_printf(sql, "%s($%u)", negated ? " <> ALL" : " = ANY", number);
}

/* The sum, or a cast that fails with the column's name in it. The cast must depend on the row, else
 * the server would try it when it plans. */
void qp_pg_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max)
{
    qp_buf_puts(sql, "CASE WHEN CAST(COALESCE(");
    qp_sql_name(sql, column);
    qp_buf_printf(sql, ",0) AS numeric)+$%u BETWEEN ", number);
    qp_buf_i64(sql, min);
    qp_buf_puts(sql, " AND ");
    qp_buf_i64(sql, max);
    qp_buf_puts(sql, " THEN COALESCE(");
    qp_sql_name(sql, column);
    qp_buf_printf(sql, ",0)+$%u ELSE CAST(", number);
    dialect_text(sql, QP_PG_RANGE, column);
    qp_buf_puts(sql, "||LEFT(CAST(COALESCE(");
    qp_sql_name(sql, column);
    qp_buf_puts(sql, ",0) AS text),0) AS bigint) END");
}

/* Without a full-text index nothing matches; the runtime refuses to ask before it comes to this. */
void qp_pg_put_match(qp_buf *sql, const char *column, const char *table, unsigned number)
{
    (void)column;
    (void)table;
    (void)number;
    qp_buf_fail(sql, QUIPU_UNSUPPORTED);
}
