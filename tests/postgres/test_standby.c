/* Commits that wait for a standby. Cancelling the wait makes the server answer with success and a
 * warning: that must never be taken for a replicated commit. The test has a server of its own,
 * which waits for a standby that does not exist. */
#include "contract/store_t.h"
#include "postgres/server_t.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

#include <ent/postgres.h>

#define NAP_NS 20000000
#define PATIENCE 1500 /* sleeps */

typedef struct server {
    char folder[T_PATH_MAX];
    char uri[T_PATH_MAX];
    PGconn *admin;
    quipu_store *store;
} server;

static void server_say(server *self, const char *sql)
{
    PGresult *result = PQexec(self->admin, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(self->admin));
    }
    PQclear(result);
}

/* Waiting commits go on, and no later one waits. */
static void server_dispenses(server *self)
{
    server_say(self, "ALTER SYSTEM SET synchronous_standby_names = ''");
    server_say(self, "SELECT pg_reload_conf()");
}

/* Do something to a commit that waits; false: none does. */
static bool server_meets_waiter(server *self, const char *function)
{
    char sql[256];
    PGresult *result;
    bool met;

    (void)snprintf(sql, sizeof(sql),
                   "SELECT %s(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", function);
    result = PQexec(self->admin, sql);
    met = PQntuples(result) > 0;
    PQclear(result);
    return met;
}

static void sleep_a_little(void)
{
    const struct timespec time = {0, NAP_NS};

    (void)nanosleep(&time, NULL);
}

static int server_setup(void **state)
{
    server *self = calloc(1, sizeof(*self));
    char local[T_PATH_MAX + 64];

    assert_non_null(self);
    sv_start("synchronous_standby_names = 'nobody'", self->folder, self->uri);
    (void)snprintf(local, sizeof(local), "%s&options=-csynchronous_commit%%3Dlocal", self->uri);
    self->admin = PQconnectdb(local);
    assert_int_equal(PQstatus(self->admin), CONNECTION_OK);
    T_OK(quipu_open(local, NULL, &self->store, NULL));
    st_create(self->store, "k"); /* waits for nobody */
    quipu_close(self->store);
    T_OK(quipu_open(self->uri, NULL, &self->store, NULL));
    *state = self;
    return 0;
}

static int server_teardown(void **state)
{
    server *self = *state;

    quipu_close(self->store);
    PQfinish(self->admin);
    sv_script("stop", self->folder, "");
    free(self);
    return 0;
}

/* ---- one append, in a thread ------------------------------------------------------------------
 */

typedef struct appender {
    quipu_store *store;
    int32_t deadline_ms;
    quipu_status status;
    quipu_appended appended;
    atomic_bool done;
} appender;

static void *appender_run(void *arg)
{
    appender *self = arg;
    quipu_message message = st_says(QUIPU_ROLE_USER, "once");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = self->deadline_ms;
    self->appended = (quipu_appended)QUIPU_APPENDED_INIT;
    self->status = quipu_message_append(self->store, QUIPU_STR("k"), quipu_messages_of(&message, 1),
                                        NULL, &call, &self->appended, NULL);
    atomic_store(&self->done, true);
    return NULL;
}

static void check_one_message(server *self)
{
    quipu_history *history = st_get(self->store, "k", NULL);

    st_check_whole(history);
    assert_int_equal(history->messages.count, 1);
    quipu_free(history);
}

/* Disturb the first commit, do without the standby, and see the append resolved. */
static void disturbed_once(server *self, const char *function)
{
    appender one = {.store = self->store, .deadline_ms = 60000};
    pthread_t thread;
    int sleeps = 0;

    assert_int_equal(pthread_create(&thread, NULL, appender_run, &one), 0);
    while (!server_meets_waiter(self, function) && sleeps++ < PATIENCE) {
        sleep_a_little();
    }
    while (!server_meets_waiter(self, "int4") && sleeps++ < PATIENCE) {
        sleep_a_little(); /* its second try waits, too: nothing was taken for done */
    }
    server_dispenses(self);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(sleeps < PATIENCE);
    T_STATUS(one.status, QUIPU_OK);
    assert_int_equal(one.appended.first_seq, 1);
    check_one_message(self);
}

static void a_cancelled_wait_is_resolved_and_stored_once(void **state)
{
    disturbed_once(*state, "pg_cancel_backend");
}

static void a_connection_cut_after_the_local_commit_is_resolved_and_stored_once(void **state)
{
    disturbed_once(*state, "pg_terminate_backend");
}

static void a_wait_that_is_always_cancelled_is_unknown_and_never_success(void **state)
{
    server *self = *state;
    appender one = {.store = self->store, .deadline_ms = 400};
    pthread_t thread;
    int sleeps = 0;

    assert_int_equal(pthread_create(&thread, NULL, appender_run, &one), 0);
    while (!atomic_load(&one.done) && sleeps++ < PATIENCE) {
        (void)server_meets_waiter(self, "pg_cancel_backend");
        sleep_a_little();
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(sleeps < PATIENCE);
    T_STATUS(one.status, QUIPU_UNKNOWN);
    server_dispenses(self);
    check_one_message(self); /* it is there after all: the caller's repeat would find it */
}

/* Not cancelled: the connection is dropped, and the caller's repeat shows the outcome. */
static void a_wait_without_end_is_unknown_soon_after_the_deadline(void **state)
{
    server *self = *state;
    appender one = {.store = self->store, .deadline_ms = 400};

    (void)appender_run(&one);
    T_STATUS(one.status, QUIPU_UNKNOWN);
    server_dispenses(self);
    check_one_message(self);
}

static void a_wait_without_end_and_without_a_deadline_is_given_up_too(void **state)
{
    const server *self = *state;
    ent_db *db = NULL;

    if (!t_long()) {
        print_message("the wait takes more than a minute: in the long form only\n");
        return;
    }
    T_OK(ent_postgres_open(self->uri, NULL, &db, NULL));
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_STATUS(ent_commit(db, NULL), QUIPU_IO);
    ent_close(db);
}

#define SERVER_TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_cancelled_wait_is_resolved_and_stored_once),
        SERVER_TEST(a_connection_cut_after_the_local_commit_is_resolved_and_stored_once),
        SERVER_TEST(a_wait_that_is_always_cancelled_is_unknown_and_never_success),
        SERVER_TEST(a_wait_without_end_is_unknown_soon_after_the_deadline),
        SERVER_TEST(a_wait_without_end_and_without_a_deadline_is_given_up_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
