/* The places where PostgreSQL's SQL differs from the portable part that src/ent/sql.c writes.
 *
 * Owns: nothing; pure functions that append text.
 * Called by: src/ent/sql.c through qp_engine. */
#include "ent/plan.h"

#include <assert.h>

#include "ent_postgres/open.h"

/* A literal of two parts, with quotes doubled (standard_conforming_strings is on, connect.c). */
static void dialect_text(qp_buf *sql, const char *before, const char *text)
{
    assert(before != NULL && text != NULL);
    qp_buf_putc(sql, '\'');
    qp_buf_puts(sql, before);
    qp_sql_doubled(sql, text, '\'');
    qp_buf_putc(sql, '\'');
}

/* One array parameter instead of a list: the statement's text does not depend on the number of
 * values. */
void qp_pg_put_in(qp_buf *sql, const char *column, unsigned number, bool negated)
{
    assert(number >= 1);
    qp_sql_name(sql, column);
    qp_buf_printf(sql, "%s($%u)", negated ? " <> ALL" : " = ANY", number);
}

/* The sum, or a cast that fails with 22P02 and the column's name in its message (error_range()).
 * The text that is cast must depend on the row: a constant expression is evaluated when it is
 * planned, and would fail every time. Sums are numeric, so that they do not overflow before the
 * comparison. */
void qp_pg_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max)
{
    assert(number >= 1);
    assert(min <= max);
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

/* The index is a table of its own here (search.c): src/ent refuses a match in a WHERE before it
 * asks for one, because the searcher is manual_only. */
void qp_pg_put_match(qp_buf *sql, const char *column, const char *table, unsigned number)
{
    assert(number >= 1);
    (void)column;
    (void)table;
    (void)number;
    qp_buf_fail(sql, QUIPU_UNSUPPORTED);
}
