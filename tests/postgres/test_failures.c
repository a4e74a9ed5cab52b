/* What goes wrong between a program and a server: connections that are cut, conflicts that the
 * server resolves against us, commits whose answer is lost. Every acknowledged append is stored
 * once. */
#include "contract/store_t.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

#define PATIENCE 3000 /* sleeps */
#define THREADS 4

/* ---- the other side ---------------------------------------------------------------------------
 */

/* Cut every connection of the program but the one that asks. */
static const char *const cut =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'quipu' AND pid <> pg_backend_pid()";

static void append_fails_every(const char *uri, int k, const char *when, const char *how)
{
    char sql[1024];

    (void)snprintf(
        sql, sizeof(sql),
        "CREATE SEQUENCE tries; "
        "CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('tries') %% %d = 0 THEN %s END IF; RETURN NEW; END $$; "
        "CREATE CONSTRAINT TRIGGER trip AFTER INSERT ON messages %s FOR EACH ROW EXECUTE FUNCTION "
        "trip()",
        k, how, when);
    t_pg_execute(uri, sql);
}

/* ---- checks -----------------------------------------------------------------------------------
 */

static void append_numbered(quipu_store *store, const char *key, int count)
{
    for (int i = 1; i <= count; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "m%d", i);
        assert_int_equal(st_append(store, key, text), i);
    }
}

/* Messages m1..mN, each once and in order. */
static void check_numbered(quipu_store *store, const char *key, int count)
{
    quipu_history *history = st_get(store, key, NULL);

    st_check_whole(history);
    assert_int_equal(history->messages.count, count);
    for (int i = 0; i < count; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "m%d", i + 1);
        T_STR(quipu_message_at(history->messages, (size_t)i)->content, text);
    }
    quipu_free(history);
}

/* ---- connections that are cut -----------------------------------------------------------------
 */

static void a_connection_that_was_cut_while_idle_is_made_anew(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);

    (void)state;
    st_create(store, "k");
    for (int i = 1; i <= 5; i++) {
        t_pg_execute(uri, cut);
        assert_int_equal(st_append(store, "k", "x"), i);
        t_pg_execute(uri, cut);
        T_OK(st_get_status(store, "k"));
    }
    quipu_close(store);
}

typedef struct writer {
    quipu_store *store;
    int number;
    int count;
    char failure[512];
} writer;

static atomic_int acknowledged; /* appends of all writers */

static void *writer_run(void *arg)
{
    writer *self = arg;
    char key[16];

    (void)snprintf(key, sizeof(key), "k%d", self->number);
    for (int i = 1; i <= self->count; i++) {
        quipu_message message;
        quipu_appended appended = QUIPU_APPENDED_INIT;
        quipu_error err = {0};
        char text[32];

        (void)snprintf(text, sizeof(text), "m%d", i);
        message = st_says(QUIPU_ROLE_USER, text);
        quipu_status status =
            quipu_message_append(self->store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                                 NULL, &appended, &err);
        if (status != QUIPU_OK || appended.first_seq != i) {
            (void)snprintf(self->failure, sizeof(self->failure), "%s: %s",
                           quipu_status_name(status), err.message);
            break;
        }
        atomic_fetch_add(&acknowledged, 1);
    }
    return NULL;
}

typedef struct cutter {
    char uri[T_PATH_MAX];
    atomic_bool stop;
    int cuts;
} cutter;

/* A call is tried so many times, in whatever time the machine takes for that: once cut, somebody
 * must get through before the next cut. */
static void *cutter_run(void *arg)
{
    cutter *self = arg;
    const struct timespec nap = {0, 30000000};
    PGconn *pg = PQconnectdb(self->uri);
    int before = -1;

    while (!atomic_load(&self->stop)) {
        const int now = atomic_load(&acknowledged);
        if (now != before) {
            PQclear(PQexec(pg, cut));
            self->cuts++;
            before = now;
        }
        (void)nanosleep(&nap, NULL);
    }
    PQfinish(pg);
    return NULL;
}

/* As two programs would: writers of two stores on the same sessions' server. */
static void writers_of_two_stores_take_turns_where_transactions_are_serializable(void **state)
{
    const int count = (int)t_count(50, 2000);
    char schema[T_PATH_MAX];
    char uri[T_PATH_MAX + 64];
    writer writers[THREADS];
    pthread_t threads[THREADS];
    quipu_store *stores[2];

    (void)state;
    t_pg_schema(schema);
    (void)snprintf(uri, sizeof(uri), "%s%s", schema,
                   "%20-cdefault_transaction_isolation%3Dserializable");
    stores[0] = st_open(uri);
    stores[1] = st_open(uri);
    for (int i = 0; i < THREADS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(stores[0], key);
        writers[i] = (writer){.store = stores[i % 2], .number = i, .count = count};
        assert_int_equal(pthread_create(&threads[i], NULL, writer_run, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_string_equal(writers[i].failure, "");
        check_numbered(stores[1], key, count);
    }
    quipu_close(stores[0]);
    quipu_close(stores[1]);
}

static void appends_survive_connections_that_are_cut_all_the_time(void **state)
{
    static cutter knife;
    writer writers[THREADS];
    pthread_t threads[THREADS];
    pthread_t cutting;
    quipu_store *store = st_open_new(NULL, knife.uri);
    const int count = (int)t_count(40, 2000);

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
        writers[i] = (writer){.store = store, .number = i, .count = count};
    }
    assert_int_equal(pthread_create(&cutting, NULL, cutter_run, &knife), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, writer_run, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    atomic_store(&knife.stop, true);
    assert_int_equal(pthread_join(cutting, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_string_equal(writers[i].failure, "");
        check_numbered(store, key, count);
    }
    print_message("%d appends, connections cut %d times\n", THREADS * count, knife.cuts);
    quipu_close(store);
}

/* Whether somebody waits for a table that `pg` has locked. */
static bool waits_for_a_table(PGconn *pg)
{
    PGresult *result = PQexec(pg, "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = "
                                  "CAST('sessions' AS regclass)");
    bool waits = PQntuples(result) > 0;

    PQclear(result);
    return waits;
}

typedef struct reader {
    quipu_store *store;
    quipu_cancel *cancel;
    quipu_status status;
} reader;

static void *reader_run(void *arg)
{
    reader *self = arg;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_history *history = NULL;

    call.cancel = self->cancel;
    self->status = quipu_session_get(self->store, QUIPU_STR("k"), NULL, &call, &history, NULL);
    quipu_free(history);
    return NULL;
}

/* The loss would be mended, had the caller not lost his patience. */
static void a_cancelled_call_reports_the_cancel_and_not_its_lost_connection(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    reader one = {.store = store, .cancel = quipu_cancel_new()};
    pthread_t thread;
    PGconn *pg = PQconnectdb(uri);

    (void)state;
    st_create(store, "k");
    PQclear(PQexec(pg, "BEGIN; LOCK TABLE sessions"));
    assert_int_equal(pthread_create(&thread, NULL, reader_run, &one), 0);
    for (int i = 0; !waits_for_a_table(pg); i++) {
        assert_true(i < PATIENCE); /* the reader has failed before it came so far */
        st_nap();
    }
    assert_int_equal(PQsendQuery(pg, cut), 1); /* it must not see the flag before */
    quipu_cancel_set(one.cancel);
    assert_int_equal(pthread_join(thread, NULL), 0);
    T_STATUS(one.status, QUIPU_CANCELLED);
    quipu_free(one.cancel);
    PQfinish(pg);
    T_OK(st_get_status(store, "k"));
    quipu_close(store);
}

/* Whatever becomes of every k-th insert, each of many appends arrives once. */
static void appends_arrive(int k, const char *when, const char *how)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);

    st_create(store, "k");
    append_fails_every(uri, k, when, how);
    append_numbered(store, "k", 20);
    check_numbered(store, "k", 20);
    quipu_close(store);
}

/* ---- conflicts --------------------------------------------------------------------------------
 */

static void a_serialization_failure_inside_is_retried(void **state)
{
    (void)state;
    appends_arrive(3, "", "RAISE EXCEPTION 'no' USING ERRCODE = '40001';");
}

static void a_serialization_failure_at_the_commit_is_retried(void **state)
{
    (void)state;
    appends_arrive(2, "DEFERRABLE INITIALLY DEFERRED",
                   "RAISE EXCEPTION 'no' USING ERRCODE = '40001';");
}

static void an_endless_conflict_is_reported_after_the_last_attempt(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    append_fails_every(uri, 1, "", "RAISE EXCEPTION 'no' USING ERRCODE = '40P01';");
    T_STATUS(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_BUSY);
    t_pg_execute(uri, "DROP TRIGGER trip ON messages");
    append_numbered(store, "k", 1);
    quipu_close(store);
}

/* ---- commits whose answer is lost -------------------------------------------------------------
 */

static void a_connection_lost_in_the_commit_is_resolved_by_the_event_id(void **state)
{
    (void)state;
    appends_arrive(3, "DEFERRABLE INITIALLY DEFERRED",
                   "PERFORM pg_terminate_backend(pg_backend_pid());");
}

/* A call without event ids returns QUIPU_UNKNOWN. */
static void a_create_that_is_lost_in_the_commit_is_unknown(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_session_new values = st_values("k");
    quipu_error err = {0};

    (void)state;
    t_pg_execute(uri, "CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                      "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$; "
                      "CREATE CONSTRAINT TRIGGER trip AFTER INSERT ON sessions "
                      "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trip()");
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_UNKNOWN);
    t_pg_execute(uri, "DROP TRIGGER trip ON sessions");
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    quipu_close(store);
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

/* Damage, and nothing that a caller could take for its own event. */
static void a_number_that_is_taken_is_damage(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    append_numbered(store, "k", 2);
    t_pg_execute(uri, "UPDATE sessions SET next_seq = 2");
    T_STATUS(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_CORRUPT);
    assert_non_null(strstr(err.message, "number 2"));
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_was_cut_while_idle_is_made_anew),
        cmocka_unit_test(appends_survive_connections_that_are_cut_all_the_time),
        cmocka_unit_test(a_cancelled_call_reports_the_cancel_and_not_its_lost_connection),
        cmocka_unit_test(writers_of_two_stores_take_turns_where_transactions_are_serializable),
        cmocka_unit_test(a_serialization_failure_inside_is_retried),
        cmocka_unit_test(a_serialization_failure_at_the_commit_is_retried),
        cmocka_unit_test(an_endless_conflict_is_reported_after_the_last_attempt),
        cmocka_unit_test(a_connection_lost_in_the_commit_is_resolved_by_the_event_id),
        cmocka_unit_test(a_create_that_is_lost_in_the_commit_is_unknown),
        cmocka_unit_test(a_number_that_is_taken_is_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
