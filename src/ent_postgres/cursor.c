/* Cursors (portals): what a SELECT without a limit is read through, so that neither libpq nor the
 * socket ever holds more of it than a chunk.
 *
 * Owns: the names of cursors and the queue of those that wait for their CLOSE.
 * Called by: stmt.c, for statements that end with QP_PG_CHUNKED.
 * Expects an open transaction: a cursor without HOLD lives in the one that declared it.
 * On return of qp_pg_cursor_end() the cursor is unknown to its statement; CLOSE travels with the
 * next batch, or the end of the transaction closes it.
 *
 *   DECLARE ent_cursor_n NO SCROLL CURSOR FOR select OFFSET skip ─▶ FETCH k ─▶ FETCH k ... ─▶ CLOSE
 */
#include "ent_postgres/open.h"

#include <assert.h>
#include <stdio.h>

#define CURSOR_TEXT_SIZE 64

/* Whether the server certainly has it. A rollback to a savepoint closes the cursors declared behind
 * it; CLOSE of one that is gone would abort the transaction (34000). */
static bool cursor_is_open(const qp_pg *conn, const qp_pg_cursor *cursor)
{
    assert(cursor->transaction <= conn->transactions);
    return cursor->number != 0 && conn->in_transaction &&
           cursor->transaction == conn->transactions && cursor->rollbacks == conn->rollbacks;
}

/* NO SCROLL: rows come forward only, which spares the server a materialized copy. */
void qp_pg_cursor_declare(qp_pg *conn, qp_pg_cursor *ret_cursor, quipu_str select, int skip,
                          qp_buf *text)
{
    assert(skip >= 0);
    assert(select.p != NULL && select.n > 0);
    assert(conn->in_transaction);
    *ret_cursor = (qp_pg_cursor){
        .number = ++conn->cursors, .transaction = conn->transactions, .rollbacks = conn->rollbacks};
    qp_buf_printf(text, "DECLARE ent_cursor_%u NO SCROLL CURSOR FOR ",
                  (unsigned)ret_cursor->number);
    qp_buf_put(text, select);
    qp_buf_printf(text, " OFFSET %d", skip);
}

/* Rows of a session differ much in size: the size of the last chunk's rows predicts the next.
 * PQresultMemorySize() is never 0 for a result. */
void qp_pg_cursor_fetch(qp_pg *conn, qp_pg_cursor *cursor, const PGresult *before)
{
    const size_t rows = (size_t)PQntuples(before);
    const size_t fit = rows * QP_PG_CHUNK_BYTES / PQresultMemorySize(before);
    char text[CURSOR_TEXT_SIZE];

    assert(cursor->number != 0);
    assert(before != NULL);
    cursor->requested_rows = fit > QP_PG_CHUNK_ROWS_MAX ? QP_PG_CHUNK_ROWS_MAX
                             : fit > 1                  ? (int)fit
                                                        : 1;
    assert(cursor->requested_rows >= 1);
    (void)snprintf(text, sizeof(text), "FETCH FORWARD %d FROM ent_cursor_%u",
                   cursor->requested_rows, (unsigned)cursor->number);
    qp_pg_send(conn, text);
}

/* More than QP_PG_CLOSING_MAX are left to the end of the transaction. */
void qp_pg_cursor_end(qp_pg *conn, qp_pg_cursor *cursor)
{
    assert(conn->closing_count <= QP_PG_CLOSING_MAX);
    if (cursor_is_open(conn, cursor) && conn->closing_count < QP_PG_CLOSING_MAX) {
        conn->closing[conn->closing_count++] = *cursor;
    }
    *cursor = (qp_pg_cursor){0};
}

/* A cursor that a rollback may have closed since it was queued is left out. */
void qp_pg_send_closing(qp_pg *conn)
{
    char text[CURSOR_TEXT_SIZE];

    assert(conn->closing_count <= QP_PG_CLOSING_MAX);
    for (size_t i = 0; i < conn->closing_count; i++) {
        if (cursor_is_open(conn, &conn->closing[i])) {
            (void)snprintf(text, sizeof(text), "CLOSE ent_cursor_%u",
                           (unsigned)conn->closing[i].number);
            qp_pg_send(conn, text);
        }
    }
    conn->closing_count = 0;
}
