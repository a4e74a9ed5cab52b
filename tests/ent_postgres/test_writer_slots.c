/* Writer slots: up to 16 shared writers, or one exclusive; at every isolation level. */
#include "ent_postgres/connect.h"

#include "base/thread.h"
#include "ent/db.h"
#include "ent_postgres/open.h"
#include "lib/t_pg.h"

/* A shared write begins with its first statement. */
static quipu_status begin_and_look(ent_db *db, ent_tx_kind kind)
{
    qp_statement *statement = NULL;
    quipu_status status = ent_begin(db, kind, NULL);
    bool row = false;

    if (status == QUIPU_OK) {
        T_OK(db->engine->prepare(db->conn, QUIPU_STR("SELECT 1"), &statement, NULL));
        T_OK(db->engine->bind(statement, NULL, 0, NULL));
        status = db->engine->step(statement, NULL, 0, NULL, &row, NULL);
        assert_int_equal(row, status == QUIPU_OK);
        db->engine->finalize(statement);
    }
    if (status != QUIPU_OK) {
        ent_rollback(db);
    }
    return status;
}

/* A writer that has to wait gets little time for it. */
static void check_waits(ent_db *db, ent_tx_kind kind)
{
    ent_watch(db, qp_clock_ns() + 20 * QP_NS_PER_MS, NULL, NULL);
    T_STATUS(begin_and_look(db, kind), QUIPU_BUSY);
    ent_watch(db, 0, NULL, NULL);
}

static void every_writer_slot_can_be_held_and_one_more_writer_waits(void **state)
{
    char uri[T_PATH_MAX];
    ent_db *dbs[QP_PG_WRITER_SLOTS + 1];
    quipu_error err = {0};

    (void)state;
    t_pg_schema(uri);
    for (int i = 0; i <= QP_PG_WRITER_SLOTS; i++) {
        dbs[i] = connect_to(uri);
        if (i < QP_PG_WRITER_SLOTS) {
            T_OK(begin_and_look(dbs[i], ENT_WRITE_ROWS));
        }
    }
    check_waits(dbs[QP_PG_WRITER_SLOTS], ENT_WRITE_ROWS);
    check_waits(dbs[QP_PG_WRITER_SLOTS], ENT_WRITE);
    for (int i = 0; i < QP_PG_WRITER_SLOTS; i++) {
        T_OK(ent_commit(dbs[i], &err));
    }
    T_OK(ent_begin(dbs[QP_PG_WRITER_SLOTS], ENT_WRITE, &err));
    for (int i = 0; i < QP_PG_WRITER_SLOTS; i++) {
        check_waits(dbs[i], ENT_WRITE_ROWS);
    }
    for (int i = 0; i <= QP_PG_WRITER_SLOTS; i++) {
        ent_close(dbs[i]);
    }
}

/* A schema that was made by hand, or by a version with fewer of them. */
static void missing_writer_slots_are_created(void **state)
{
    char uri[T_PATH_MAX];
    ent_db *db;

    (void)state;
    t_pg_schema(uri);
    db = connect_to(uri);
    T_OK(begin_and_look(db, ENT_WRITE_ROWS));
    T_OK(ent_commit(db, NULL));
    t_pg_execute(uri, "DELETE FROM ent_numbers WHERE name LIKE 'write/%'");
    T_OK(begin_and_look(db, ENT_WRITE_ROWS));
    T_OK(ent_commit(db, NULL));
    t_pg_execute(uri, "DELETE FROM ent_numbers WHERE name = 'write/00'");
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_OK(ent_commit(db, NULL));
    ent_close(db);
}

/* At the strict levels a transaction sees the snapshot of when it began to wait for its slot. A
 * slot that was bumped meanwhile fails it with 40001, so that it begins again and sees all. */
static void an_exclusive_writer_bumps_every_slot(void **state)
{
    static const char *const levels[] = {"read%5C%20committed", "repeatable%5C%20read",
                                         "serializable"};

    (void)state;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        char schema[T_PATH_MAX];
        char uri[T_PATH_MAX + 64];
        ent_db *one;
        ent_db *two;
        int64_t before = 0;
        int64_t after = 0;

        t_pg_schema(schema);
        (void)snprintf(uri, sizeof(uri), "%s%%20-cdefault_transaction_isolation%%3D%s", schema,
                       levels[i]);
        one = connect_to(uri);
        two = connect_to(uri);
        T_OK(begin_and_look(one, ENT_WRITE_ROWS));
        T_OK(begin_and_look(two, ENT_WRITE_ROWS)); /* beside it */
        T_OK(ent_commit(two, NULL));
        T_OK(ent_commit(one, NULL));
        T_OK(ent_data_version(one, &before, NULL));
        T_OK(ent_begin(two, ENT_WRITE, NULL));
        T_OK(ent_commit(two, NULL));
        T_OK(ent_data_version(one, &after, NULL));
        assert_int_equal(after - before, QP_PG_WRITER_SLOTS);
        ent_close(one);
        ent_close(two);
    }
}

/* DDL does not queue behind a table's readers for ever: all later readers would wait behind it. */
static void a_table_that_others_hold_is_busy_and_is_changed_later(void **state)
{
    static const char hold[] = "LOCK TABLE t IN ACCESS SHARE MODE";
    static const char change[] = "ALTER TABLE t ADD COLUMN b bigint";
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *reader;
    ent_db *db = NULL;

    (void)state;
    t_pg_schema(uri);
    t_pg_execute(uri, "CREATE TABLE t (a bigint)");
    options.busy_ms = 20;
    reader = connect_to(uri);
    T_OK(ent_postgres_open(uri, &options, &db, &err));
    T_OK(ent_begin(reader, ENT_WRITE_ROWS, &err));
    T_OK(reader->engine->execute(reader->conn, quipu_cstr(hold), &err));
    T_OK(ent_begin(db, ENT_WRITE_ROWS, &err));
    T_STATUS(db->engine->execute(db->conn, quipu_cstr(change), &err), QUIPU_BUSY);
    ent_rollback(reader);
    T_OK(db->engine->execute(db->conn, quipu_cstr(change), &err));
    T_OK(ent_commit(db, &err));
    ent_close(reader);
    ent_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_writer_slot_can_be_held_and_one_more_writer_waits),
        cmocka_unit_test(missing_writer_slots_are_created),
        cmocka_unit_test(an_exclusive_writer_bumps_every_slot),
        cmocka_unit_test(a_table_that_others_hold_is_busy_and_is_changed_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
