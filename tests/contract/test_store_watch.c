/* ent_watch: a deadline and a stop for the calls of one connection, beneath the store. */
#include "lib/t.h"

#include <time.h>

#include <ent/migrate.h>
#include <ent/sqlite.h>

#include "gen/quipu.h"

#define WATCH_ROWS 3000   /* enough steps for the engine to ask more than once */
#define WATCH_BEGINS 2000 /* the same, of statements of a few steps each */

static bool watch_yes(void *ctx)
{
    ++*(int *)ctx;
    return true;
}

static bool watch_no(void *ctx)
{
    ++*(int *)ctx;
    return false;
}

static int64_t watch_now(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int watch_setup(void **state)
{
    ent_db *db = NULL;
    char path[T_PATH_MAX];

    t_path(t_tmpdir(), "watch.db", path);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_OK(ent_migrate(db, &qp_quipu_schema, NULL, NULL, NULL));
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    for (int i = 0; i < WATCH_ROWS; i++) {
        char key[32];
        snprintf(key, sizeof(key), "k%d", i);
        T_OK(qp_session_create(db, NULL, &(qp_session_new){.key = quipu_cstr(key)}, NULL, NULL));
    }
    T_OK(ent_commit(db, NULL));
    *state = db;
    return 0;
}

static int watch_teardown(void **state)
{
    ent_close(*state);
    return 0;
}

/* A condition that no index helps with. */
static quipu_status watch_count(ent_db *db, int64_t *ret, quipu_error *err)
{
    return qp_session_count(db, &(qp_session_where){.model = ENT_IS_NULL}, ret, err);
}

static void stop_ends_a_read_as_cancelled(void **state)
{
    ent_db *db = *state;
    int64_t count = -1;
    int asked = 0;
    quipu_error err = {0};

    ent_watch(db, 0, watch_yes, &asked);
    T_STATUS(watch_count(db, &count, &err), QUIPU_CANCELLED);
    assert_int_equal(asked, 1);
    assert_int_equal(count, -1);
    ent_watch(db, 0, watch_no, &asked);
    T_OK(watch_count(db, &count, &err));
    assert_true(asked > 2);
    assert_int_equal(count, WATCH_ROWS);
}

static void deadline_ends_a_read_as_busy(void **state)
{
    ent_db *db = *state;
    int64_t count = -1;
    quipu_error err = {0};

    ent_watch(db, watch_now() - 1, NULL, NULL);
    T_STATUS(watch_count(db, &count, &err), QUIPU_BUSY);
    ent_watch(db, INT64_MAX, NULL, NULL);
    T_OK(watch_count(db, &count, &err));
    ent_watch(db, watch_now() - 1, NULL, NULL);
    ent_watch(db, 0, NULL, NULL);
    T_OK(watch_count(db, &count, &err));
    ent_watch(NULL, 0, NULL, NULL);
}

static void stopped_change_rolls_its_transaction_back(void **state)
{
    ent_db *db = *state;
    int64_t count = -1;
    int asked = 0;
    quipu_error err = {0};

    T_OK(ent_begin(db, ENT_WRITE, &err));
    T_OK(qp_session_create(db, NULL, &(qp_session_new){.key = QUIPU_STR("new")}, NULL, &err));
    ent_watch(db, 0, watch_yes, &asked);
    T_STATUS(qp_session_update(db, &(qp_session_where){.model = ENT_IS_NULL},
                               &(qp_session_patch){.model = ent_set("m")}, &count, &err),
             QUIPU_CANCELLED);
    ent_watch(db, 0, NULL, NULL);
    ent_rollback(db);
    assert_int_equal(ent_depth(db), 0);
    T_OK(watch_count(db, &count, &err));
    assert_int_equal(count, WATCH_ROWS);
}

/* SQLite asks its progress handler after the last step of a statement, too, and counts the steps of
 * all its runs: of the statements around a transaction, which take three to five steps, it asks one
 * in some hundred. */
static void a_stop_does_not_part_a_begin_or_a_rollback_from_its_result(void **state)
{
    static const ent_tx_kind kinds[] = {ENT_WRITE, ENT_READ};
    ent_db *db = *state;
    quipu_error err = {0};
    int asked = 0;

    for (int i = 0; i < 2 * WATCH_BEGINS; i++) {
        quipu_status status;

        ent_watch(db, 0, watch_yes, &asked);
        status = ent_begin(db, kinds[i % 2], &err);
        assert_int_equal(ent_depth(db), status == QUIPU_OK ? 1 : 0);
        ent_rollback(db);
        ent_watch(db, 0, NULL, NULL);
        /* A transaction that stayed open would hold its lock, and none could begin any more. */
        T_OK(ent_begin(db, kinds[i % 2], &err));
        ent_rollback(db);
    }
}

static void a_commit_that_says_cancelled_has_stored_nothing(void **state)
{
    ent_db *db = *state;
    quipu_error err = {0};
    int64_t stored = WATCH_ROWS;
    int64_t count = -1;
    int asked = 0;

    for (int i = 0; i < WATCH_BEGINS; i++) {
        char key[32];

        snprintf(key, sizeof(key), "new%d", i);
        T_OK(ent_begin(db, ENT_WRITE, &err));
        T_OK(qp_session_create(db, NULL, &(qp_session_new){.key = quipu_cstr(key)}, NULL, &err));
        ent_watch(db, 0, watch_yes, &asked);
        stored += ent_commit(db, &err) == QUIPU_OK;
        ent_watch(db, 0, NULL, NULL);
        assert_int_equal(ent_depth(db), 0);
    }
    T_OK(watch_count(db, &count, &err));
    assert_int_equal(count, stored);
}

#define WATCH_TEST(name) cmocka_unit_test_setup_teardown(name, watch_setup, watch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WATCH_TEST(stop_ends_a_read_as_cancelled),
        WATCH_TEST(deadline_ends_a_read_as_busy),
        WATCH_TEST(stopped_change_rolls_its_transaction_back),
        WATCH_TEST(a_stop_does_not_part_a_begin_or_a_rollback_from_its_result),
        WATCH_TEST(a_commit_that_says_cancelled_has_stored_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
