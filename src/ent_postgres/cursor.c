/* Cursors: what a SELECT of any number of rows is read through, so that neither libpq nor the
 * server's socket ever holds more of it than a piece. They live in the transaction that declared
 * them, and are closed with whatever is sent next. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <stdio.h>

#define CURSOR_TEXT_SIZE 64

/* Whether the server still has it, for sure. */
static bool cursor_is_open(const qp_pg *conn, const qp_pg_cursor *cursor)
{
    return cursor->number != 0 && conn->in_transaction &&
           cursor->transaction == conn->transactions && cursor->rollbacks == conn->rollbacks;
}

void qp_pg_cursor_declare(qp_pg *conn, qp_pg_cursor *ret_cursor, quipu_str select, int skip,
                          qp_buf *text)
{
    assert(conn->in_transaction);
    *ret_cursor = (qp_pg_cursor){
        .number = ++conn->cursors, .transaction = conn->transactions, .rollbacks = conn->rollbacks};
    qp_buf_printf(text, "DECLARE ent_cursor_%u NO SCROLL CURSOR FOR ",
                  (unsigned)ret_cursor->number);
    qp_buf_put(text, select);
    qp_buf_printf(text, " OFFSET %d", skip);
}

void qp_pg_cursor_fetch(qp_pg *conn, qp_pg_cursor *cursor, const PGresult *before)
{
    const size_t rows = (size_t)PQntuples(before);
    const size_t fit = rows * QP_PG_CHUNK_BYTES / PQresultMemorySize(before);
    char text[CURSOR_TEXT_SIZE];

    cursor->requested_rows = fit > QP_PG_CHUNK_ROWS_MAX ? QP_PG_CHUNK_ROWS_MAX
                             : fit > 1                  ? (int)fit
                                                        : 1;
    (void)snprintf(text, sizeof(text), "FETCH FORWARD %d FROM ent_cursor_%u",
                   cursor->requested_rows, (unsigned)cursor->number);
    qp_pg_send(conn, text);
}

void qp_pg_cursor_end(qp_pg *conn, qp_pg_cursor *cursor)
{
    if (cursor_is_open(conn, cursor) && conn->closing_count < QP_PG_CLOSING_MAX) {
        conn->closing[conn->closing_count++] = *cursor;
    }
    *cursor = (qp_pg_cursor){0};
}

void qp_pg_send_closing(qp_pg *conn)
{
    char text[CURSOR_TEXT_SIZE];

    for (size_t i = 0; i < conn->closing_count; i++) {
        if (cursor_is_open(conn, &conn->closing[i])) {
            (void)snprintf(text, sizeof(text), "CLOSE ent_cursor_%u",
                           (unsigned)conn->closing[i].number);
            qp_pg_send(conn, text);
        }
    }
    conn->closing_count = 0;
}
