/* The connections of a store: how many there are by default, what each is set to, and how long a
 * call waits by default. */
#include "contract/store_t.h"

#include <unistd.h>

#include "ent/db.h"
#include "ent_sqlite/open.h"
#include "store/store.h"

#define K QUIPU_STR("k")

/* Exports inside of exports: each holds a reading connection. */
typedef struct pool_crowd {
    quipu_store *store;
    int inside;
    quipu_status one_more; /* of a reader while all connections are held */
} pool_crowd;

static quipu_status pool_nest(void *ctx, const void *bytes, size_t n)
{
    pool_crowd *self = ctx;
    quipu_history *history = NULL;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status = QUIPU_OK;

    (void)bytes;
    (void)n;
    if (self->one_more != QUIPU_OK) {
        return QUIPU_OK; /* on the way back */
    }
    self->inside++;
    if (self->inside < QUIPU_READERS_MAX) {
        status = quipu_store_export(self->store, NULL, pool_nest, self, NULL, NULL, NULL);
    } else {
        call.deadline_ms = 20;
        self->one_more = quipu_session_get(self->store, K, NULL, &call, &history, NULL);
    }
    return status;
}

/* Open as many connections as there can be. */
static void pool_fill(quipu_store *store)
{
    pool_crowd self = {.store = store};
    quipu_stats stats = QUIPU_STATS_INIT;

    T_OK(quipu_store_export(store, NULL, pool_nest, &self, NULL, NULL, NULL));
    assert_int_equal(self.inside, QUIPU_READERS_MAX);
    T_STATUS(self.one_more, QUIPU_BUSY);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.readers, QUIPU_READERS_MAX);
}

static void so_many_readers_have_a_connection_by_default_and_one_more_waits(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    pool_fill(store);
    T_STATUS(st_get_status(store, "k"), QUIPU_OK);
}

static int64_t pool_ask(ent_db *db, const char *pragma)
{
    sqlite3_stmt *stmt = NULL;
    sqlite3 *raw = ((qp_sqlite *)db->conn)->db;

    assert_int_equal(sqlite3_prepare_v2(raw, pragma, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return value;
}

static void check_connection(ent_db *db)
{
    assert_int_equal(pool_ask(db, "PRAGMA foreign_keys"), 1);
    assert_int_equal(pool_ask(db, "PRAGMA secure_delete"), 1);
    assert_int_equal(pool_ask(db, "PRAGMA cell_size_check"), 1);
}

static void every_connection_has_foreign_keys_on(void **state)
{
    T_SQLITE_ONLY("a pragma is SQLite's");

    quipu_store *store = *state;

    st_create(store, "k");
    pool_fill(store);
    assert_int_equal(store->pool.idle_count, QUIPU_READERS_MAX);
    for (size_t i = 0; i < store->pool.idle_count; i++) {
        check_connection(store->pool.idle[i]);
    }
    check_connection(store->group.db);
    assert_int_equal(pool_ask(store->group.db, "PRAGMA synchronous"), 2);
}

/* And they do what they say: a message of no session cannot be stored, by anybody. */
static void message_of_no_session_is_refused(void **state)
{
    quipu_store *store = *state;
    const qp_message_new row = {.session_id = 4711,
                                .seq = 1,
                                .role = QP_MESSAGE_ROLE_USER,
                                .content = QUIPU_STR("x"),
                                .event_id = {"\1x", 2}};
    quipu_error err = {0};

    st_create(store, "k"); /* opens the writer's connection */
    T_STATUS(qp_message_create(store->group.db, NULL, &row, NULL, &err), QUIPU_INVALID);
    assert_string_equal(err.rule, "reference");
}

static void call_that_names_no_deadline_has_the_default_one(void **state)
{
    quipu_store *store = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    qp_call within;
    int64_t before_ns = qp_clock_ns();

    T_OK(qp_store_enter(store, NULL, &within, NULL));
    assert_true(within.deadline_ns >= before_ns + QUIPU_DEADLINE_MS_DEFAULT * QP_NS_PER_MS);
    assert_true(within.deadline_ns <= qp_clock_ns() + QUIPU_DEADLINE_MS_DEFAULT * QP_NS_PER_MS);
    qp_store_leave(&within);
    call.deadline_ms = -1;
    T_OK(qp_store_enter(store, &call, &within, NULL));
    assert_int_equal(within.deadline_ns, QP_NEVER);
    qp_store_leave(&within);
}

static void first_connection_is_the_first_users_and_no_other_is_opened(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    assert_int_equal(store->pool.open_count, 0);
    st_create(store, "k");
    assert_non_null(store->group.db);
    assert_int_equal(store->pool.open_count, 0);
    quipu_close(store);
    store = st_open(path);
    T_STATUS(st_get_status(store, "k"), QUIPU_OK);
    assert_null(store->group.db);
    assert_int_equal(store->pool.open_count, 1);
    quipu_close(store);
}

static void first_write_to_a_file_that_is_gone_says_so_and_makes_no_new_one(void **state)
{
    T_SQLITE_ONLY("there is no file");

    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error err = {0};

    (void)state;
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND); /* takes the connection */
    assert_int_equal(remove(path), 0);
    values.key = K;
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "does not exist"));
    assert_int_not_equal(access(path, F_OK), 0);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(so_many_readers_have_a_connection_by_default_and_one_more_waits),
        ST_TEST(every_connection_has_foreign_keys_on),
        ST_TEST(message_of_no_session_is_refused),
        ST_TEST(call_that_names_no_deadline_has_the_default_one),
        cmocka_unit_test(first_connection_is_the_first_users_and_no_other_is_opened),
        cmocka_unit_test(first_write_to_a_file_that_is_gone_says_so_and_makes_no_new_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
