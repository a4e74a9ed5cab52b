/* Cursor chunks, from the inside: how large they are, and that no cursor stays open. */
#include "ent_postgres/connect.h"

#include "ent/db.h"
#include "ent_postgres/open.h"
#include "lib/t_pg.h"

#define ROWS "SELECT g FROM generate_series(1, 3000) g ORDER BY g"

static qp_pg *connection(ent_db *db)
{
    return db->conn;
}

static qp_statement *statement(ent_db *db, const char *sql)
{
    qp_statement *made = NULL;

    T_OK(qp_pg_prepare(connection(db), quipu_cstr(sql), &made, NULL));
    T_OK(qp_pg_bind(made, NULL, 0, NULL));
    return made;
}

/* Read `n` rows that count from 1. */
static void read_rows(qp_statement *from, int n)
{
    static const uint8_t kinds[] = {QP_INT};
    quipu_error err = {0};
    bool is_row = false;
    qp_value value;

    for (int i = 1; i <= n; i++) {
        if (qp_pg_step(from, kinds, 1, &value, &is_row, &err) != QUIPU_OK) {
            fail_msg("row %d: %s", i, err.message);
        }
        assert_true(is_row);
        assert_int_equal(value.as.i, i);
    }
}

static int64_t cursors_at_the_server(ent_db *db)
{
    static const uint8_t kinds[] = {QP_INT};
    qp_statement *count =
        statement(db, "SELECT CAST(COUNT(*) AS bigint) FROM pg_cursors WHERE name LIKE 'ent_%'");
    bool is_row = false;
    qp_value value;

    T_OK(qp_pg_step(count, kinds, 1, &value, &is_row, NULL));
    assert_true(is_row);
    qp_pg_finalize(count);
    return value.as.i;
}

static ent_db *connect_new(void)
{
    char uri[T_PATH_MAX];

    t_pg_schema(uri);
    return connect_to(uri);
}

static void a_cursor_is_declared_for_the_second_chunk_and_closed_after_use(void **state)
{
    ent_db *db = connect_new();
    qp_statement *rows = statement(db, ROWS QP_PG_CHUNKED);

    (void)state;
    T_OK(ent_begin(db, ENT_READ, NULL));
    read_rows(rows, QP_PG_CHUNK_FIRST);
    assert_int_equal(cursors_at_the_server(db), 0);
    qp_pg_reset(rows);
    read_rows(rows, QP_PG_CHUNK_FIRST + 1);
    assert_int_equal(cursors_at_the_server(db), 1);
    qp_pg_reset(rows);
    assert_int_equal(cursors_at_the_server(db), 0);
    read_rows(rows, 3000);
    qp_pg_finalize(rows);
    assert_int_equal(cursors_at_the_server(db), 0);
    T_OK(ent_commit(db, NULL));
    ent_close(db);
}

/* One more than find a place ends with its transaction. */
static void closing_cursors_are_limited(void **state)
{
    ent_db *db = connect_new();
    qp_statement *rows[QP_PG_CLOSING_MAX + 1];

    (void)state;
    for (int n = QP_PG_CLOSING_MAX; n <= QP_PG_CLOSING_MAX + 1; n++) {
        T_OK(ent_begin(db, ENT_READ, NULL));
        for (int i = 0; i < n; i++) {
            rows[i] = statement(db, ROWS QP_PG_CHUNKED);
            read_rows(rows[i], QP_PG_CHUNK_FIRST + 1);
        }
        assert_int_equal(cursors_at_the_server(db), n);
        for (int i = 0; i < n; i++) {
            qp_pg_finalize(rows[i]);
        }
        assert_int_equal(cursors_at_the_server(db), n - QP_PG_CLOSING_MAX);
        T_OK(ent_commit(db, NULL));
        T_OK(ent_begin(db, ENT_READ, NULL));
        assert_int_equal(cursors_at_the_server(db), 0);
        T_OK(ent_commit(db, NULL));
    }
    ent_close(db);
}

/* A cursor whose savepoint may be gone is left to the server; the transaction goes on. */
static void a_cursor_of_a_rolled_back_savepoint_is_not_closed(void **state)
{
    ent_db *db = connect_new();
    qp_statement *outside = statement(db, ROWS QP_PG_CHUNKED);
    qp_statement *inside = statement(db, ROWS QP_PG_CHUNKED);
    static const uint8_t kinds[] = {QP_INT};
    bool is_row = false;
    qp_value value;

    (void)state;
    T_OK(ent_begin(db, ENT_READ, NULL));
    read_rows(outside, QP_PG_CHUNK_FIRST + 1);
    T_OK(ent_begin(db, ENT_READ, NULL));
    read_rows(inside, QP_PG_CHUNK_FIRST + 1);
    ent_rollback(db);
    T_STATUS(qp_pg_step(inside, kinds, 1, &value, &is_row, NULL), QUIPU_CANCELLED);
    T_STATUS(qp_pg_step(outside, kinds, 1, &value, &is_row, NULL), QUIPU_CANCELLED);
    qp_pg_finalize(inside);
    qp_pg_finalize(outside);
    assert_int_equal(cursors_at_the_server(db), 1);
    T_OK(ent_commit(db, NULL));
    ent_close(db);
}

/* Fetch until the end; returns the rows and the bytes of the largest chunk. */
static void fetch_all(qp_pg *conn, const char *select, int *ret_rows, size_t *ret_bytes)
{
    qp_pg_call first = {.doing = "cannot read"};
    PGresult *before;
    char sql[256];
    qp_pg_cursor cursor;
    qp_buf text;

    *ret_rows = 0;
    *ret_bytes = 0;
    qp_buf_init(&text, 4096);
    qp_pg_cursor_declare(conn, &cursor, quipu_cstr(select), 0, &text);
    qp_pg_batch(conn);
    qp_pg_send_pending_tx(conn);
    qp_pg_send(conn, qp_buf_str(&text).p);
    (void)snprintf(sql, sizeof(sql), "%s LIMIT 1", select);
    qp_pg_send(conn, sql);
    first.wanted = conn->sent - 1;
    T_OK(qp_pg_run(conn, &first, NULL));
    before = first.result;
    do {
        qp_pg_call call = {.doing = "cannot read"};

        qp_pg_batch(conn);
        qp_pg_cursor_fetch(conn, &cursor, before);
        call.wanted = conn->sent - 1;
        T_OK(qp_pg_run(conn, &call, NULL));
        PQclear(before);
        before = call.result;
        if (PQresultMemorySize(before) > *ret_bytes) {
            *ret_bytes = PQresultMemorySize(before);
        }
        *ret_rows += PQntuples(before);
    } while (PQntuples(before) == cursor.requested_rows);
    PQclear(before);
    qp_pg_cursor_end(conn, &cursor);
    qp_buf_free(&text);
}

static void a_chunk_is_about_a_mebibyte_and_limited_in_rows(void **state)
{
    ent_db *db = connect_new();
    size_t bytes = 0;
    int rows = 0;

    (void)state;
    T_OK(ent_begin(db, ENT_READ, NULL));
    fetch_all(connection(db), "SELECT repeat('x', 100000) FROM generate_series(1, 200)", &rows,
              &bytes);
    assert_int_equal(rows, 200);
    assert_in_range(bytes, QP_PG_CHUNK_BYTES / 2, 2 * QP_PG_CHUNK_BYTES);
    fetch_all(connection(db), "SELECT repeat('x', 3000000) FROM generate_series(1, 5)", &rows,
              &bytes);
    assert_int_equal(rows, 5); /* one by one, because less is not possible */
    assert_in_range(bytes, 3000000, 3100000);
    fetch_all(connection(db), "SELECT 1 FROM generate_series(1, 20000)", &rows, &bytes);
    assert_int_equal(rows, 20000);
    assert_in_range(bytes, 1, QP_PG_CHUNK_BYTES / 4); /* small rows: so many of them at most */
    T_OK(ent_commit(db, NULL));
    ent_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_is_declared_for_the_second_chunk_and_closed_after_use),
        cmocka_unit_test(closing_cursors_are_limited),
        cmocka_unit_test(a_cursor_of_a_rolled_back_savepoint_is_not_closed),
        cmocka_unit_test(a_chunk_is_about_a_mebibyte_and_limited_in_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
