/* Integer keys. There is no sequence: a transaction that rolls back returns its numbers, because
 * the store's numbers have no gaps.
 *
 * Owns: qp_pg.numbers, the last key of each table that the open transaction inserts into.
 * Called by: src/ent (next_key) inside of an exclusive write; tx.c before COMMIT.
 * Locks: relies on all writer slots being held: no other writer takes numbers meanwhile, so that
 * they are read once a table, counted here, and written back with the COMMIT. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* The last key of a table, from its row of QP_PG_TABLE; the migration inserts that row. */
static quipu_status number_read(qp_pg *conn, const char *table, int64_t *ret_last,
                                quipu_error *reterr)
{
    static const char sql[] =
        "SELECT \"last\" FROM \"" QP_PG_TABLE "\" WHERE \"name\" = '" QP_PG_NUMBER "' || $1";
    const char *values[1] = {table};
    qp_pg_call call = {.doing = "cannot number rows of"};
    quipu_status status;

    assert(conn->in_transaction && conn->writes);
    assert(ret_last != NULL);
    qp_pg_batch(conn);
    qp_pg_send_pending_tx(conn);
    call.wanted = conn->sent;
    qp_pg_send_values(conn, sql, values, 1);
    status = qp_pg_run(conn, &call, reterr);
    if (status == QUIPU_OK && PQntuples(call.result) != 1) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "the table \"%s\" has no number in \"" QP_PG_TABLE "\"", table);
    } else if (status == QUIPU_OK) {
        *ret_last = qp_pg_int(call.result, 0, 0);
    } else {
        qp_pg_rollback_all(conn);
    }
    qp_pg_call_done(&call);
    return status;
}

/* The counter of a table, read with its first use in the transaction. */
static quipu_status number_of(qp_pg *conn, const char *table, qp_pg_number **ret,
                              quipu_error *reterr)
{
    qp_pg_number *number;
    quipu_status status;

    assert(conn->number_count <= QP_PG_NUMBERS_MAX);
    assert(table != NULL);
    for (size_t i = 0; i < conn->number_count; i++) {
        if (strcmp(conn->numbers[i].table, table) == 0) {
            *ret = &conn->numbers[i];
            return QUIPU_OK;
        }
    }
    if (conn->number_count == QP_PG_NUMBERS_MAX || strlen(table) >= QP_PG_NAME_SIZE) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a transaction numbers rows of at most %d tables, with names of at "
                            "most %d bytes",
                            QP_PG_NUMBERS_MAX, QP_PG_NAME_SIZE - 1);
    }
    number = &conn->numbers[conn->number_count];
    *number = (qp_pg_number){.moved = false};
    (void)snprintf(number->table, sizeof(number->table), "%s", table);
    status = number_read(conn, table, &number->last, reterr);
    if (status == QUIPU_OK) {
        conn->number_count++;
        *ret = number;
    }
    return status;
}

/* The engine's next_key. A number that the caller gives is returned as it is, and numbers taken
 * later lie above it: an import keeps its keys. */
quipu_status qp_pg_next_key(void *conn, const char *table, int64_t given, int64_t *ret_number,
                            quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_number *number = NULL;
    quipu_status status;

    assert(given >= 0);
    assert(table != NULL && ret_number != NULL);
    assert(self->writes);
    status = number_of(self, table, &number, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    assert(number != NULL);
    if (given == 0 && number->last == INT64_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the table \"%s\" has no numbers left", table);
    }
    if (given == 0) {
        given = number->last + 1;
    }
    if (given > number->last) {
        number->last = given;
        number->moved = true;
    }
    *ret_number = given;
    return QUIPU_OK;
}

/* Only counters that have moved are written. */
void qp_pg_send_numbers(qp_pg *conn)
{
    static const char sql[] = "UPDATE \"" QP_PG_TABLE "\" SET \"last\" = CAST($2 AS bigint) "
                              "WHERE \"name\" = '" QP_PG_NUMBER "' || $1";

    assert(conn->writes);
    for (size_t i = 0; i < conn->number_count; i++) {
        char text[24];
        const char *values[2] = {conn->numbers[i].table, text};

        if (!conn->numbers[i].moved) {
            continue;
        }
        (void)snprintf(text, sizeof(text), "%lld", (long long)conn->numbers[i].last);
        qp_pg_send_values(conn, sql, values, 2);
    }
}
