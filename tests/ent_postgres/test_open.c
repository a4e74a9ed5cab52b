/* Opening, its limits and refusals; numbers at their limits; savepoints that wait. */
#include "ent_postgres/connect.h"

#include "ent/db.h"
#include "ent_postgres/open.h"
#include "lib/t_pg.h"

static void senseless_options_are_misuse(void **state)
{
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;
    quipu_error err = {0};
    ent_db *db = NULL;

    (void)state;
    T_STATUS(ent_postgres_open(NULL, NULL, &db, &err), QUIPU_MISUSE);
    T_STATUS(ent_postgres_open("", NULL, &db, &err), QUIPU_MISUSE);
    T_STATUS(ent_postgres_open("postgresql:///", NULL, NULL, &err), QUIPU_MISUSE);
    options.flags = ENT_POSTGRES_PRIMARY << 1;
    T_STATUS(ent_postgres_open("postgresql:///", &options, &db, &err), QUIPU_MISUSE);
    options = (ent_postgres_options)ENT_POSTGRES_OPTIONS_INIT;
    options.busy_ms = -1;
    T_STATUS(ent_postgres_open("postgresql:///", &options, &db, &err), QUIPU_MISUSE);
    options.struct_size = 3;
    T_STATUS(ent_postgres_open("postgresql:///", &options, &db, &err), QUIPU_MISUSE);
    assert_null(db);
}

static void a_tenant_has_a_name_that_is_not_too_long(void **state)
{
    char name[ENT_POSTGRES_TENANT_MAX + 1];
    char uri[T_PATH_MAX];
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;
    quipu_error err = {0};
    ent_db *db = NULL;

    (void)state;
    t_pg_schema(uri);
    memset(name, 'x', sizeof(name));
    options.tenant = (quipu_str){name, 0};
    T_STATUS(ent_postgres_open(uri, &options, &db, &err), QUIPU_INVALID);
    options.tenant.n = ENT_POSTGRES_TENANT_MAX + 1;
    T_STATUS(ent_postgres_open(uri, &options, &db, &err), QUIPU_INVALID);
    options.tenant.n = ENT_POSTGRES_TENANT_MAX; /* fits; the server's superuser is refused then */
    T_STATUS(ent_postgres_open(uri, &options, &db, &err), QUIPU_UNSUPPORTED);
    assert_null(db);
}

static void a_uri_is_as_long_as_it_may_be_and_no_longer(void **state)
{
    char schema[T_PATH_MAX];
    char uri[ENT_POSTGRES_URI_MAX + 2];
    quipu_error err = {0};
    ent_db *db = NULL;
    int n;

    (void)state;
    t_pg_schema(schema);
    n = snprintf(uri, sizeof(uri), "%s&application_name=", schema);
    memset(uri + n, 'x', sizeof(uri) - (size_t)n);
    uri[ENT_POSTGRES_URI_MAX + 1] = '\0';
    T_STATUS(ent_postgres_open(uri, NULL, &db, &err), QUIPU_MISUSE);
    uri[ENT_POSTGRES_URI_MAX] = '\0';
    T_OK(ent_postgres_open(uri, NULL, &db, &err));
    ent_close(db);
}

static void a_missing_server_database_or_table_is_reported_without_the_password(void **state)
{
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;
    char uri[T_PATH_MAX];
    char other[T_PATH_MAX + 64];
    quipu_error err = {0};
    ent_db *db = NULL;

    (void)state;
    T_STATUS(ent_postgres_open("postgresql://me:secret@/db?host=/nonexistent", NULL, &db, &err),
             QUIPU_IO);
    assert_null(strstr(err.message, "secret"));
    t_pg_schema(uri);
    (void)snprintf(other, sizeof(other), "%s_gone", uri);
    T_STATUS(ent_postgres_open(other, NULL, &db, &err), QUIPU_NOT_FOUND);
    options.flags = ENT_POSTGRES_MUST_EXIST;
    T_STATUS(ent_postgres_open(uri, &options, &db, &err), QUIPU_NOT_FOUND);
    t_pg_execute(uri, "CREATE TABLE t (a int)");
    T_OK(ent_postgres_open(uri, &options, &db, &err));
    ent_close(db);
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

static void numbered(const char *uri, const char *table)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO ent_numbers (name, last) VALUES ('number of %s', 0)", table);
    t_pg_execute(uri, sql);
}

static quipu_status take(ent_db *db, const char *table, int64_t given, int64_t *ret_number,
                         quipu_error *reterr)
{
    return qp_pg_next_key(db->conn, table, &(qp_key_request){.shard = QP_NO_SHARD, .given = given},
                          ret_number, reterr);
}

static void numbers_are_given_back_when_the_transaction_is_rolled_back(void **state)
{
    char uri[T_PATH_MAX];
    ent_db *db;
    int64_t number = 0;

    (void)state;
    t_pg_schema(uri);
    db = connect_to(uri);
    T_OK(ent_begin(db, ENT_WRITE, NULL)); /* makes the engine's own table */
    ent_rollback(db);
    numbered(uri, "t");
    for (int round = 0; round < 2; round++) {
        T_OK(ent_begin(db, ENT_WRITE, NULL));
        T_OK(take(db, "t", 0, &number, NULL));
        assert_int_equal(number, 1);
        ent_rollback(db);
    }
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_OK(take(db, "t", 41, &number, NULL));
    T_OK(ent_commit(db, NULL));
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_OK(take(db, "t", 0, &number, NULL));
    assert_int_equal(number, 42);
    T_OK(take(db, "t", INT64_MAX, &number, NULL));
    T_STATUS(take(db, "t", 0, &number, NULL), QUIPU_LIMIT);
    ent_close(db);
}

static void numbered_tables_of_a_transaction_are_limited(void **state)
{
    char uri[T_PATH_MAX];
    char name[QP_PG_NAME_SIZE + 1];
    quipu_error err = {0};
    int64_t number = 0;
    ent_db *db;

    (void)state;
    t_pg_schema(uri);
    db = connect_to(uri);
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    ent_rollback(db);
    memset(name, 'x', sizeof(name));
    name[QP_PG_NAME_SIZE] = '\0';
    numbered(uri, name + 1);
    for (int i = 1; i < QP_PG_NUMBERED_MAX; i++) {
        char table[16];
        (void)snprintf(table, sizeof(table), "t%d", i);
        numbered(uri, table);
    }
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_STATUS(take(db, name, 0, &number, &err), QUIPU_LIMIT);
    T_OK(take(db, name + 1, 0, &number, &err));
    for (int i = 1; i < QP_PG_NUMBERED_MAX; i++) {
        char table[16];
        (void)snprintf(table, sizeof(table), "t%d", i);
        T_OK(take(db, table, 0, &number, &err));
    }
    T_STATUS(take(db, "one_more", 0, &number, &err), QUIPU_LIMIT);
    T_OK(ent_commit(db, &err));
    ent_close(db);
}

/* ---- savepoints -------------------------------------------------------------------------------
 */

static void step_once(ent_db *db)
{
    static const char sql[] = "SELECT \"last\" FROM \"ent_numbers\"";
    const uint8_t kind = QP_INT;
    qp_statement *statement = NULL;
    qp_value value;
    bool is_row = false;

    T_OK(qp_pg_prepare(db->conn, quipu_cstr(sql), &statement, NULL));
    T_OK(qp_pg_bind(statement, NULL, 0, NULL));
    T_OK(qp_pg_step(statement, &kind, 1, &value, &is_row, NULL));
    qp_pg_finalize(statement);
}

static void every_savepoint_may_be_released_and_set_again_between_two_statements(void **state)
{
    char uri[T_PATH_MAX];
    ent_db *db;

    (void)state;
    t_pg_schema(uri);
    db = connect_to(uri);
    for (int round = 0; round < 3; round++) {
        while (ent_depth(db) <= ENT_SAVEPOINT_MAX) {
            T_OK(ent_begin(db, ENT_WRITE, NULL));
        }
        step_once(db);
        while (ent_depth(db) > 1) {
            T_OK(ent_commit(db, NULL));
        }
    }
    T_OK(ent_commit(db, NULL));
    ent_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_options_are_misuse),
        cmocka_unit_test(a_tenant_has_a_name_that_is_not_too_long),
        cmocka_unit_test(a_uri_is_as_long_as_it_may_be_and_no_longer),
        cmocka_unit_test(a_missing_server_database_or_table_is_reported_without_the_password),
        cmocka_unit_test(numbers_are_given_back_when_the_transaction_is_rolled_back),
        cmocka_unit_test(numbered_tables_of_a_transaction_are_limited),
        cmocka_unit_test(every_savepoint_may_be_released_and_set_again_between_two_statements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
