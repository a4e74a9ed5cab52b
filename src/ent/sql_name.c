/* Names and literals of a schema in SQL.
 *
 * Owns: how they are quoted. Called by: sql.c, and the DDL and search of the engines. Pure: a
 * failure stays in the buffer. */
#include <assert.h>

#include "ent/plan.h"

/* SQL has no escape inside of quotes: a quote is written twice. Texts of users are never written,
 * they are bound; this is for names and for literals of a schema. */
void qp_sql_doubled(qp_buf *sql, const char *text, char quote)
{
    assert(text != NULL);
    for (; *text != '\0'; text++) {
        if (*text == quote) {
            qp_buf_putc(sql, quote);
        }
        qp_buf_putc(sql, *text);
    }
}

/* Names of a schema are plain, those of a foreign one may hold quotes. */
void qp_sql_name(qp_buf *sql, const char *name)
{
    qp_buf_putc(sql, '"');
    qp_sql_doubled(sql, name, '"');
    qp_buf_putc(sql, '"');
}

/* A literal, quotes included. */
void qp_sql_text(qp_buf *sql, const char *text)
{
    qp_buf_putc(sql, '\'');
    qp_sql_doubled(sql, text, '\'');
    qp_buf_putc(sql, '\'');
}
