/* Round trips. The only writer of a session appends in one: the cached row is taken to be current,
 * and everything travels with the COMMIT as a compare-and-set. Whatever others do to the session in
 * between is noticed. Reads ask for what they read, and no more often. */
#include "contract/adk_t.h"
#include "contract/history_t.h"
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <libpq-fe.h>
#include <stdatomic.h>

#include "base/time.h"
#include "ent_postgres/open.h"
#include "postgres/client_t.h"
#include "store/header.h"
#include "store/last_change.h"
#include "store/session_cache.h"

#define WARM 5 /* appends until the row is cached and every statement is prepared */
#define MINUTE_MS (INT64_C(1000) * QP_LAST_CHANGE_S)

/* ---- counting ---------------------------------------------------------------------------------
 */

static qp_libpq_table real;
static atomic_int trips;
static atomic_int prepared_asynchronous; /* statements that make a COMMIT asynchronous */
static int64_t ahead_ms;                 /* of the library's clock before the system's */

/* Every batch ends with one, and waits for its answer. */
static int counted_sync(PGconn *pg)
{
    atomic_fetch_add(&trips, 1);
    return real.p_PQpipelineSync(pg);
}

static int counted_prepare(PGconn *pg, const char *name, const char *sql, int n, const Oid *types)
{
    if (strstr(sql, "synchronous_commit") != NULL) {
        atomic_fetch_add(&prepared_asynchronous, 1);
    }
    return real.p_PQsendPrepare(pg, name, sql, n, types);
}

static quipu_store *open_counted(char *ret_uri)
{
    quipu_store *store = st_open_new(NULL, ret_uri);

    if (real.p_PQpipelineSync == NULL) {
        real = qp_libpq;
        qp_libpq.p_PQpipelineSync = counted_sync;
        qp_libpq.p_PQsendPrepare = counted_prepare;
    }
    return store;
}

static int trips_since_last(void)
{
    return atomic_exchange(&trips, 0);
}

/* Cut every connection of the program, and wait until they are gone: one that is lost in the middle
 * of a COMMIT would make its outcome unknown. */
static void cut_all(const char *uri)
{
    static const char others[] =
        "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
                   "DO $$ BEGIN PERFORM pg_terminate_backend(pid) FROM %s; "
                   "WHILE EXISTS (SELECT 1 FROM %s) LOOP PERFORM pg_sleep(0.01); "
                   "PERFORM pg_stat_clear_snapshot(); END LOOP; END $$",
                   others, others);
    t_pg_execute(uri, sql);
}

/* Half of the appends in a minute of their own: the first append of a session in a new minute
 * writes another column (store/last_change.h), and so has a statement of its own. */
static void warm(quipu_store *store, const char *key)
{
    st_append_many(store, key, WARM / 2);
    qp_time_step(ahead_ms += MINUTE_MS);
    st_append_many(store, key, WARM - WARM / 2);
    (void)trips_since_last();
}

/* How many round trips one more append takes. */
static int trips_of_append(quipu_store *store, const char *key)
{
    (void)trips_since_last();
    assert_true(st_append(store, key, "x") > 0);
    return trips_since_last();
}

static quipu_appended append_named(quipu_store *store, const char *key, const char *id,
                                   const char *text)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, text);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    message.event_id = quipu_cstr(id);
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    return appended;
}

static void append_batch(quipu_store *store, const char *key, size_t count)
{
    quipu_message *messages = calloc(count, sizeof(*messages));
    quipu_error err = {0};

    assert_non_null(messages);
    for (size_t i = 0; i < count; i++) {
        messages[i] = st_says(QUIPU_ROLE_USER, "one of many");
    }
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, count), NULL,
                              NULL, NULL, &err));
    free(messages);
}

/* ---- one --------------------------------------------------------------------------------------
 */

static void an_append_is_one_round_trip(void **state)
{
    quipu_store *store = open_counted(NULL);

    (void)state;
    st_create(store, "k");
    warm(store, "k");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trips_of_append(store, "k"), 1);
        qp_time_step(ahead_ms += MINUTE_MS);
    }
    assert_int_equal(append_named(store, "k", "e1", "named").first_seq, WARM + 4);
    assert_int_equal(trips_since_last(), 1);
    append_batch(store, "k", 100); /* the savepoint of a batch is prepared with the first */
    (void)trips_since_last();
    append_batch(store, "k", 100);
    assert_int_equal(trips_since_last(), 1);
    quipu_close(store);
}

static void an_event_with_state_is_one_round_trip(void **state)
{
    adk_world *world;
    quipu_live *session;

    (void)state;
    quipu_close(open_counted(NULL));
    world = adk_open(0);
    session = adk_create(world, "u", "s", "{}");
    for (int i = 0; i < WARM + 3; i++) {
        char event[192];

        (void)snprintf(event, sizeof(event),
                       "{\"id\":\"e%d\",\"timestamp\":1700000000.5,\"author\":\"user\",\"content\":"
                       "{\"role\":\"user\","
                       "\"parts\":[{\"text\":\"hello\"}]},\"actions\":{\"stateDelta\":{\"n\":%d}}}",
                       i, i);
        (void)trips_since_last();
        (void)adk_append(session, event);
        if (i >= WARM) {
            assert_int_equal(trips_since_last(), 1);
        }
    }
    quipu_live_free(session);
    adk_close(world);
}

/* The session with the beginning, the messages, and the end, for which nobody waits. */
/* The lookup of the key, the counter of its shard, and the row with the COMMIT; a shard's first
 * session also makes the counter, in one more. Which shard a key has is its hash. */
static void a_create_is_three_round_trips_and_one_more_makes_a_counter(void **state)
{
    quipu_store *store = open_counted(NULL);

    (void)state;
    for (int i = 0; i < WARM; i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "warm %d", i);
        st_create(store, key);
    }
    for (int i = 0; i < 20; i++) {
        char key[32];
        int count;

        (void)snprintf(key, sizeof(key), "k%d", i);
        (void)trips_since_last();
        st_create(store, key);
        count = trips_since_last();
        assert_in_range(count, 3, 4);
        T_OK(quipu_session_delete(store, quipu_cstr(key), NULL, NULL, NULL, NULL));
        (void)trips_since_last();
        st_create(store, key);
        assert_int_equal(trips_since_last(), 3);
    }
    quipu_close(store);
}

/* Appends wait for the rows of a batch that indexes: it does not hold them for a flush. What is
 * acknowledged to a caller is flushed always. */
static void only_a_batch_that_indexes_commits_asynchronously(void **state)
{
    quipu_store *store = open_counted(NULL);
    int64_t indexed = 0;

    (void)state;
    atomic_store(&prepared_asynchronous, 0);
    st_create(store, "k");
    warm(store, "k");
    append_batch(store, "k", 100);
    assert_int_equal(atomic_load(&prepared_asynchronous), 0);
    T_OK(quipu_search_index(store, NULL, &indexed, NULL));
    assert_int_equal(indexed, WARM + 100);
    assert_int_equal(atomic_load(&prepared_asynchronous), 1);
    quipu_close(store);
}

static void a_read_waits_for_its_rows_only(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = open_counted(uri);
    quipu_range range = QUIPU_RANGE_INIT;

    (void)state;
    st_create(store, "k");
    warm(store, "k");
    range.limit = 2;
    for (int i = 0; i < 3; i++) {
        (void)trips_since_last();
        quipu_free(st_get(store, "k", &range));
        if (i > 0) {
            assert_int_equal(trips_since_last(), 3);
        }
    }
    /* Between two reads nothing is held open, and a connection that is cut there is no trouble. */
    t_pg_execute(uri, "DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_stat_activity WHERE "
                      "datname = current_database() AND state LIKE '%transaction%' AND "
                      "pid <> pg_backend_pid()) THEN RAISE 'held open'; END IF; END $$");
    cut_all(uri);
    quipu_free(st_get(store, "k", &range));
    assert_int_equal(st_append(store, "k", "x"), WARM + 1);
    quipu_close(store);
}

static void a_batch_waits_once_per_full_queue_of_deferred_writes(void **state)
{
    quipu_store *store = open_counted(NULL);
    quipu_history *history;

    (void)state;
    st_create(store, "k");
    warm(store, "k");
    append_batch(store, "k", 2);
    (void)trips_since_last();
    /* Besides: BEGIN, lock_timeout, the writer slot, the savepoint, the session. */
    append_batch(store, "k", QP_PG_DEFERRED_WRITES_MAX - 5);
    assert_int_equal(trips_since_last(), 1);
    append_batch(store, "k", QP_PG_DEFERRED_WRITES_MAX - 4);
    assert_int_equal(trips_since_last(), 2);
    append_batch(store, "k", 3 * QP_PG_DEFERRED_WRITES_MAX);
    history = st_get(store, "k", NULL);
    st_check_whole(history);
    quipu_free(history);
    quipu_close(store);
}

static void as_many_sessions_are_cached_as_the_limit_says(void **state)
{
    quipu_store *store = open_counted(NULL);
    char key[32];

    (void)state;
    for (int i = 0; i < QP_SESSION_CACHE_MAX; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
        warm(store, key);
    }
    for (int i = 0; i < QP_SESSION_CACHE_MAX; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(trips_of_append(store, key), 1);
    }
    st_create(store, "more");
    warm(store, "more");
    assert_int_equal(trips_of_append(store, "more"), 1);
    assert_true(trips_of_append(store, "k0") > 1); /* the oldest made place */
    assert_int_equal(st_append(store, "k0", "x"), WARM + 3);
    quipu_close(store);
}

/* A row of so many bytes of text: its key, its session id, the first words "m1", the hash of its
 * last message, and metadata. */
static int trips_with_texts(quipu_store *store, const char *key, size_t bytes)
{
    const size_t n = bytes - 1 - 2 * strlen(key) - strlen("m1") - QP_HASH_SIZE;
    quipu_session_new values = st_values(key);
    char *metadata = malloc(n + 1);
    quipu_error err = {0};

    assert_non_null(metadata);
    memset(metadata, 'x', n);
    memcpy(metadata, "{\"a\":\"", 6);
    memcpy(metadata + n - 2, "\"}", 3);
    values.metadata.text = (quipu_str){metadata, n};
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    free(metadata);
    warm(store, key);
    return trips_of_append(store, key);
}

static void a_row_with_more_text_than_the_limit_is_read_each_time(void **state)
{
    quipu_store *store = open_counted(NULL);

    (void)state;
    assert_int_equal(trips_with_texts(store, "max", QP_SESSION_CACHE_TEXTS_MAX), 1);
    assert_true(trips_with_texts(store, "more", QP_SESSION_CACHE_TEXTS_MAX + 1) > 1);
    quipu_close(store);
}

/* ---- others -----------------------------------------------------------------------------------
 */

static void check_session(quipu_store *store, const char *key, int64_t count)
{
    quipu_history *history = st_get(store, key, NULL);

    st_check_whole(history);
    assert_int_equal(history->session->message_count, count);
    quipu_free(history);
}

static void another_writer_is_noticed(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *mine = open_counted(uri);
    quipu_store *other = st_open(uri);
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_error err = {0};

    (void)state;
    st_create(mine, "k");
    warm(mine, "k");
    assert_int_equal(st_append(other, "k", "other"), WARM + 1);
    assert_int_equal(st_append(mine, "k", "mine"), WARM + 2);
    warm(mine, "k");
    assert_int_equal(trips_of_append(mine, "k"), 1);
    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("m");
    T_OK(quipu_session_update(other, QUIPU_STR("k"), &patch, NULL, NULL, &err));
    assert_int_equal(st_append(mine, "k", "x"), 2 * WARM + 4);
    warm(mine, "k");
    T_OK(quipu_session_compact(other, QUIPU_STR("k"), T_COMPACT(5, QUIPU_STR("sum")), NULL, NULL,
                               &err));
    assert_int_equal(st_append(mine, "k", "x"), 3 * WARM + 6);
    T_OK(quipu_search_index(other, NULL, NULL, &err));
    assert_int_equal(st_append(mine, "k", "x"), 3 * WARM + 7);
    check_session(mine, "k", 3 * WARM + 7);
    mt_clean(mine);
    quipu_close(other);
    quipu_close(mine);
}

/* An append relies on nothing of the index: it says itself that there is one more message to
 * index, whatever another program has indexed meanwhile. */
static void an_append_to_a_session_that_another_indexes_is_one_round_trip(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *mine = open_counted(uri);
    quipu_store *other = st_open(uri);
    quipu_error err = {0};
    int64_t indexed = 0;

    (void)state;
    st_create(mine, "k");
    warm(mine, "k");
    t_pg_execute(uri, "UPDATE sessions SET indexed_seq = 2 WHERE lags");
    assert_int_equal(trips_of_append(mine, "k"), 1);
    t_pg_execute(uri, "UPDATE sessions SET indexed_seq = 0 WHERE lags");
    for (int i = 1; i <= 3; i++) {
        T_OK(quipu_search_index(other, NULL, &indexed, &err));
        assert_int_equal(indexed, i == 1 ? WARM + 1 : 1);
        assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions WHERE lags"), 0);
        assert_int_equal(trips_of_append(mine, "k"), 1);
        assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions WHERE lags"), 1);
    }
    check_session(mine, "k", WARM + 4);
    mt_clean(mine);
    quipu_close(other);
    quipu_close(mine);
}

static void a_session_that_another_deleted_is_gone(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *mine = open_counted(uri);
    quipu_store *other = st_open(uri);
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");

    (void)state;
    st_create(mine, "k");
    warm(mine, "k");
    T_OK(quipu_session_delete(other, QUIPU_STR("k"), NULL, NULL, NULL, NULL));
    T_STATUS(quipu_message_append(mine, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, NULL),
             QUIPU_NOT_FOUND);
    st_create(mine, "k");
    warm(mine, "k");
    T_OK(quipu_session_delete(other, QUIPU_STR("k"), NULL, NULL, NULL, NULL));
    st_create(other, "k");
    assert_int_equal(st_append(mine, "k", "x"), 1); /* of the new one */
    warm(mine, "k");
    /* Forks keep the row of a deleted session. */
    ht_fork(other, "k", 3, "fork");
    T_OK(quipu_session_delete(other, QUIPU_STR("k"), NULL, NULL, NULL, NULL));
    T_STATUS(quipu_message_append(mine, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, NULL),
             QUIPU_NOT_FOUND);
    mt_clean(mine);
    quipu_close(other);
    quipu_close(mine);
}

static void a_repeat_is_found_by_its_event_id(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *mine = open_counted(uri);
    quipu_store *other = st_open(uri);
    quipu_message message = st_says(QUIPU_ROLE_USER, "something else");
    quipu_appended appended = QUIPU_APPENDED_INIT;

    (void)state;
    st_create(mine, "k");
    warm(mine, "k");
    assert_int_equal(append_named(mine, "k", "e1", "x").first_seq, WARM + 1);
    appended = append_named(mine, "k", "e1", "x");
    assert_true(appended.repeated);
    assert_int_equal(appended.first_seq, WARM + 1);
    warm(mine, "k");
    appended = append_named(other, "k", "e2", "x");
    assert_false(appended.repeated);
    assert_true(append_named(mine, "k", "e2", "x").repeated);
    message.event_id = QUIPU_STR("e2");
    T_STATUS(quipu_message_append(mine, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, NULL),
             QUIPU_EXISTS);
    check_session(mine, "k", 2 * WARM + 2);
    quipu_close(other);
    quipu_close(mine);
}

static quipu_status append_at(quipu_store *store, int64_t revision, int64_t *ret_revision)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_status status;

    options.expected_revision = revision;
    status = quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), &options,
                                  NULL, &appended, NULL);
    *ret_revision = appended.revision;
    return status;
}

static void a_revision_is_compared_with_the_true_one(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *mine = open_counted(uri);
    quipu_store *other = st_open(uri);
    int64_t revision = 0;
    int64_t last = 0;

    (void)state;
    st_create(mine, "k");
    warm(mine, "k");
    T_OK(append_at(mine, -1, &last));
    T_OK(append_at(other, last, &revision));
    T_STATUS(append_at(mine, last, &last), QUIPU_CONFLICT);
    T_OK(append_at(mine, revision, &last));
    for (int i = 0; i < WARM; i++) {
        T_OK(append_at(mine, last, &last));
    }
    T_OK(append_at(other, last, &revision));
    T_OK(append_at(mine, revision, &last)); /* learned from the other, not from the row left */
    quipu_close(other);
    quipu_close(mine);
}

static PGconn *hold(const char *uri, const char *key)
{
    PGconn *pg = PQconnectdb(uri);
    char sql[128];

    (void)snprintf(sql, sizeof(sql), "BEGIN; SELECT 1 FROM sessions WHERE key = '%s' FOR UPDATE",
                   key);
    PQclear(PQexec(pg, sql));
    return pg;
}

static void check_busy_then(quipu_store *store, const char *uri, const char *key, int64_t seq)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    PGconn *pg = hold(uri, key);

    call.deadline_ms = 300;
    T_STATUS(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                                  &call, NULL, NULL),
             QUIPU_BUSY);
    PQclear(PQexec(pg, "ROLLBACK"));
    PQfinish(pg);
    assert_int_equal(st_append(store, key, "x"), seq);
}

/* Nobody can cancel a COMMIT, and so nothing that travels with it may wait for long. */
static void an_append_to_a_session_that_another_holds_keeps_its_deadline(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = open_counted(uri);

    (void)state;
    st_create(store, "k");
    warm(store, "k");
    check_busy_then(store, uri, "k", WARM + 1);
    /* A fork's past is searched first: the transaction begins with that. */
    ht_fork(store, "k", 2, "fork");
    warm(store, "fork");
    assert_int_equal(append_named(store, "fork", "e1", "x").first_seq, WARM + 3);
    check_busy_then(store, uri, "fork", WARM + 4);
    /* On a new connection nothing is prepared, and so nothing is deferred. */
    warm(store, "k");
    cut_all(uri);
    check_busy_then(store, uri, "k", 2 * WARM + 2);
    quipu_close(store);
}

/* Two programs do what they like to the same sessions. */
static void numbers_and_totals_are_right_whatever_two_programs_do(void **state)
{
    uint64_t chance = t_seed();
    char uri[T_PATH_MAX];
    quipu_store *stores[2] = {open_counted(uri), NULL};
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    int64_t counts[3] = {0};
    const int64_t steps = t_count(400, 20000);

    (void)state;
    stores[1] = st_open(uri);
    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("m");
    for (int i = 0; i < 3; i++) {
        st_create(stores[0], (const char *[]){"a", "b", "c"}[i]);
    }
    for (int64_t i = 0; i < steps; i++) {
        const size_t at = (size_t)t_random_below(&chance, 3);
        const char *key = (const char *[]){"a", "b", "c"}[at];
        quipu_store *store = stores[t_random_below(&chance, 4) == 0];

        switch (t_random_below(&chance, 40)) {
        case 0:
            T_OK(quipu_session_delete(store, quipu_cstr(key), NULL, NULL, NULL, NULL));
            st_create(store, key);
            counts[at] = 0;
            break;
        case 1:
            T_OK(quipu_session_update(store, quipu_cstr(key), &patch, NULL, NULL, NULL));
            break;
        case 2:
            T_OK(quipu_search_index(store, NULL, NULL, NULL));
            break;
        case 3:
            append_batch(store, key, 7);
            counts[at] += 7;
            break;
        default:
            assert_int_equal(st_append(store, key, "x"), ++counts[at]);
        }
    }
    for (int i = 0; i < 3; i++) {
        check_session(stores[1], (const char *[]){"a", "b", "c"}[i], counts[i]);
    }
    mt_clean(stores[0]);
    quipu_close(stores[0]);
    quipu_close(stores[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_append_is_one_round_trip),
        cmocka_unit_test(an_event_with_state_is_one_round_trip),
        cmocka_unit_test(a_create_is_three_round_trips_and_one_more_makes_a_counter),
        cmocka_unit_test(only_a_batch_that_indexes_commits_asynchronously),
        cmocka_unit_test(a_read_waits_for_its_rows_only),
        cmocka_unit_test(a_batch_waits_once_per_full_queue_of_deferred_writes),
        cmocka_unit_test(as_many_sessions_are_cached_as_the_limit_says),
        cmocka_unit_test(a_row_with_more_text_than_the_limit_is_read_each_time),
        cmocka_unit_test(another_writer_is_noticed),
        cmocka_unit_test(an_append_to_a_session_that_another_indexes_is_one_round_trip),
        cmocka_unit_test(a_session_that_another_deleted_is_gone),
        cmocka_unit_test(a_repeat_is_found_by_its_event_id),
        cmocka_unit_test(a_revision_is_compared_with_the_true_one),
        cmocka_unit_test(an_append_to_a_session_that_another_holds_keeps_its_deadline),
        cmocka_unit_test(numbers_and_totals_are_right_whatever_two_programs_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
