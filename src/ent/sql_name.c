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

/* Only a field that can be absent is left out, or an integer. */
void qp_sql_columns(qp_buf *sql, const ent_entity *entity, const qp_fields *without)
{
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const bool nullable = (field->flags & ENT_F_NULLABLE) != 0;

        qp_buf_puts(sql, i == 0 ? "" : ",");
        if (without == NULL || !QP_FIELDS_HAS(without, i)) {
            qp_sql_name(sql, field->column);
        } else {
            assert(nullable || field->type == ENT_INT);
            qp_buf_puts(sql, nullable ? "NULL" : "0");
        }
    }
}
