/* Creates beside other writers: they wait for nothing but the counter of their shard, one of
 * several that race for a key makes the session, and numbers stay unique and in order. */
#include "contract/store_t.h"
#include "lib/short.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/quipu.h"
#include "postgres/client_t.h"
#include "store/shard.h"

#define PROCESSES 4
#define THREADS 4
#define KEYS 40
#define PATIENCE_MS 20000 /* of calls that must not wait; those that must fail have much less */

/* ---- the other side ---------------------------------------------------------------------------
 */

static uint32_t shard_of(const char *key)
{
    const quipu_str texts[2] = {QUIPU_STR(""), quipu_cstr(key)};

    return qp_shard_of_key(texts, 2);
}

/* The count in a session's number. */
static int64_t count_of(const char *uri, const char *key)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql), "SELECT id >> 12 FROM sessions WHERE key = '%s'", key);
    return cl_ask(uri, sql);
}

static quipu_status create_within(quipu_store *store, const char *key, int32_t ms)
{
    quipu_session_new values = st_values(key);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = ms;
    return quipu_session_create(store, &values, &call, NULL, NULL);
}

static quipu_status ensure_within(quipu_store *store, const char *key, int32_t ms,
                                  bool *ret_created)
{
    quipu_session_new values = st_values(key);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = ms;
    return t_session_reuse(store, &values, &call, NULL, ret_created, NULL);
}

static void check_store(quipu_store *store)
{
    quipu_verified verified = QUIPU_VERIFIED_INIT;

    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
}

/* ---- who waits for whom -----------------------------------------------------------------------
 */

static void a_create_does_not_wait_for_a_writer_of_another_session(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    bool created = false;
    PGconn *pg;

    (void)state;
    st_create(store, "a");
    /* Stopped in the middle of an append, with a slot that is not ours: the first connection of a
     * store got 'write/01'. */
    pg = cl_hold(uri, "UPDATE ent_numbers SET last = last + 1 WHERE name = 'write/09'; "
                      "SELECT 1 FROM sessions WHERE key = 'a' FOR UPDATE");
    T_OK(create_within(store, "b", PATIENCE_MS));
    T_OK(ensure_within(store, "c", PATIENCE_MS, &created));
    assert_true(created);
    T_OK(quipu_say(store, "d", QUIPU_ROLE_USER, "hello", NULL));
    T_OK(quipu_say(store, "d", QUIPU_ROLE_USER, "again", NULL));
    T_STATUS(create_within(store, "b", PATIENCE_MS), QUIPU_EXISTS);
    T_STATUS(create_within(store, "a", 50), QUIPU_BUSY); /* whether it stays is not known yet */
    cl_release(pg);
    T_STATUS(create_within(store, "a", PATIENCE_MS), QUIPU_EXISTS);
    assert_int_equal(st_append(store, "d", "x"), 3);
    check_store(store);
    quipu_close(store);
}

static void a_counter_that_is_held_delays_creates_of_its_shard_only(void **state)
{
    char uri[T_PATH_MAX];
    char sql[256];
    quipu_store *store = st_open_new(NULL, uri);
    PGconn *pg;

    (void)state;
    st_create(store, "adk:app/ann/1");
    (void)snprintf(sql, sizeof(sql),
                   "SELECT 1 FROM ent_numbers WHERE name = 'number of sessions/%04u' FOR UPDATE",
                   (unsigned)shard_of("adk:app/ann/1"));
    pg = cl_hold(uri, sql);
    T_STATUS(create_within(store, "adk:app/ann/2", 50), QUIPU_BUSY);
    T_OK(create_within(store, "adk:app/bob/1", PATIENCE_MS));
    assert_int_equal(st_append(store, "adk:app/ann/1", "x"), 1);
    cl_release(pg);
    T_OK(create_within(store, "adk:app/ann/2", PATIENCE_MS));
    check_store(store);
    quipu_close(store);
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

static void numbers_go_on_behind_those_of_an_older_program(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);

    (void)state;
    st_create(store, "old");
    quipu_close(store);
    /* As a program left it that had one counter for all sessions. */
    t_pg_execute(uri, "UPDATE sessions SET id = (1000::bigint << 12) | (id & 4095)");
    t_pg_execute(uri, "DELETE FROM ent_numbers WHERE name LIKE '%of sessions%'");
    t_pg_execute(uri, "INSERT INTO ent_numbers VALUES ('number of sessions', 1000)");
    store = st_open(uri);
    st_create(store, "new");
    st_create(store, "newer");
    assert_int_equal(count_of(uri, "new"), 1001);
    assert_int_equal(count_of(uri, "newer"), 1002);
    /* An older program that still runs has no counter any more: it cannot repeat a number. */
    assert_int_equal(
        cl_ask(uri, "SELECT COUNT(*) FROM ent_numbers WHERE name = 'number of sessions'"), 0);
    check_store(store);
    quipu_close(store);
}

static void numbers_of_one_program_grow_in_the_order_of_creation(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    int64_t last = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        char key[16];
        int64_t count;

        (void)snprintf(key, sizeof(key), "k%d", i);
        if (i == 10) {
            quipu_close(store);
            store = st_open(uri);
        }
        st_create(store, key);
        count = count_of(uri, key);
        assert_true(count > last);
        last = count;
    }
    quipu_close(store);
}

static void a_fork_has_a_larger_number_than_a_parent_of_another_program(void **state)
{
    char uri[T_PATH_MAX];
    char sql[256];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_store *other = st_open(uri);
    quipu_session_new values = st_values("fork");

    (void)state;
    st_create(store, "first");
    st_create(other, "parent");
    quipu_close(other);
    /* The other program has counted far in the parent's shard. */
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE ent_numbers SET last = 5000 WHERE name = 'number of sessions/%04u'",
                   (unsigned)shard_of("parent"));
    t_pg_execute(uri, sql);
    t_pg_execute(uri, "DELETE FROM sessions WHERE key = 'parent'");
    other = st_open(uri);
    st_create(other, "parent");
    assert_int_equal(count_of(uri, "parent"), 5001);
    T_OK(quipu_session_fork(store, QUIPU_STR("parent"), 0, &values, NULL, NULL, NULL));
    assert_true(count_of(uri, "fork") > 5001);
    quipu_close(other);
    quipu_close(store);
}

/* ---- races ------------------------------------------------------------------------------------
 */

/* What a thread says to a session, in a store that has just been opened. */
typedef struct first_word {
    quipu_store *store;
    const char *key;
    quipu_status status;
    bool created;
} first_word;

static void *say_first(void *arg)
{
    first_word *self = arg;

    self->status = quipu_say(self->store, self->key, QUIPU_ROLE_USER, "hello", NULL);
    return NULL;
}

static void *ensure_first(void *arg)
{
    first_word *self = arg;

    self->status = ensure_within(self->store, self->key, PATIENCE_MS, &self->created);
    return NULL;
}

/* Another program creates the session after the call has found none, and before it can insert one.
 * No statement of the call's connection is prepared yet, so that nothing is deferred. */
static void lose_the_race(void *(*call)(void *), int64_t expected_count)
{
    char uri[T_PATH_MAX];
    char sql[256];
    quipu_store *store = st_open_new(NULL, uri);
    first_word word = {.key = "adk:app/ann/2", .status = QUIPU_MISUSE};
    quipu_history *history;
    pthread_t thread;
    PGconn *pg;

    st_create(store, "adk:app/ann/1"); /* of the same shard */
    quipu_close(store);
    word.store = st_open(uri);
    (void)snprintf(sql, sizeof(sql),
                   "SELECT 1 FROM ent_numbers WHERE name = 'number of sessions/%04u' FOR UPDATE",
                   (unsigned)shard_of(word.key));
    pg = cl_hold(uri, sql);
    assert_int_equal(pthread_create(&thread, NULL, call, &word), 0);
    while (cl_ask(uri, "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                       "datname = current_database()") == 0) {
        st_nap();
    }
    PQclear(PQexec(pg, "UPDATE sessions SET key = 'adk:app/ann/2' WHERE key = 'adk:app/ann/1'"));
    PQclear(PQexec(pg, "COMMIT"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    PQfinish(pg);
    T_STATUS(word.status, QUIPU_OK);
    assert_false(word.created);
    history = st_get(word.store, word.key, NULL);
    assert_int_equal(history->messages.count, expected_count);
    quipu_free(history);
    check_store(word.store);
    quipu_close(word.store);
}

static void a_first_append_goes_to_the_session_that_another_program_just_created(void **state)
{
    (void)state;
    lose_the_race(say_first, 1);
}

static void a_first_get_or_create_returns_what_another_program_just_created(void **state)
{
    (void)state;
    lose_the_race(ensure_first, 0);
}

/* What the processes count together, in shared memory. */
typedef struct counts {
    atomic_int created[KEYS];
    atomic_int failures;
} counts;

typedef struct creator {
    quipu_store *store;
    counts *shared;
    int number;
} creator;

/* Creates every key in an order of its own, by the three calls in turn, and appends to it. */
static void *create_all(void *arg)
{
    creator *self = arg;
    quipu_status status = QUIPU_OK;

    for (int i = 0; i < KEYS; i++) {
        const int at = (i * 7 + self->number * 11) % KEYS;
        bool created = false;
        char key[32];

        (void)snprintf(key, sizeof(key), "key %d", at);
        switch ((i + self->number) % 3) {
        case 0:
            status = create_within(self->store, key, PATIENCE_MS);
            created = status == QUIPU_OK;
            status = status == QUIPU_EXISTS ? QUIPU_OK : status;
            break;
        case 1:
            status = ensure_within(self->store, key, PATIENCE_MS, &created);
            break;
        default:
            status = QUIPU_OK;
            break;
        }
        if (created) {
            (void)atomic_fetch_add(&self->shared->created[at], 1);
        }
        if (status != QUIPU_OK ||
            quipu_say(self->store, key, QUIPU_ROLE_USER, "x", NULL) != QUIPU_OK) {
            (void)atomic_fetch_add(&self->shared->failures, 1);
        }
    }
    return NULL;
}

static int process_run(const char *uri, counts *shared, int number)
{
    quipu_store *store = st_open(uri);
    pthread_t threads[THREADS];
    creator creators[THREADS];
    bool right = true;

    for (int i = 0; i < THREADS; i++) {
        creators[i] = (creator){.store = store, .shared = shared, .number = number * THREADS + i};
        right = right && pthread_create(&threads[i], NULL, create_all, &creators[i]) == 0;
    }
    for (int i = 0; i < THREADS && right; i++) {
        right = pthread_join(threads[i], NULL) == 0;
    }
    quipu_close(store);
    return right ? 0 : 1;
}

static void of_programs_that_race_for_a_key_one_creates_and_all_append(void **state)
{
    counts *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    pid_t pids[PROCESSES];

    (void)state;
    assert_ptr_not_equal(shared, MAP_FAILED);
    quipu_close(store);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            _exit(process_run(uri, shared, i));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int how = 0;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_int_equal(atomic_load(&shared->failures), 0);
    store = st_open(uri);
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        quipu_history *history;

        (void)snprintf(key, sizeof(key), "key %d", i);
        history = st_get(store, key, NULL);
        st_check_whole(history);
        assert_int_equal(history->messages.count, PROCESSES * THREADS);
        quipu_free(history);
        assert_true(atomic_load(&shared->created[i]) <= 1); /* quipu_say() may have made it */
    }
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions"), KEYS);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(DISTINCT id) FROM sessions"), KEYS);
    check_store(store);
    quipu_close(store);
    (void)munmap(shared, sizeof(*shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_create_does_not_wait_for_a_writer_of_another_session),
        cmocka_unit_test(a_counter_that_is_held_delays_creates_of_its_shard_only),
        cmocka_unit_test(numbers_go_on_behind_those_of_an_older_program),
        cmocka_unit_test(numbers_of_one_program_grow_in_the_order_of_creation),
        cmocka_unit_test(a_fork_has_a_larger_number_than_a_parent_of_another_program),
        cmocka_unit_test(a_first_append_goes_to_the_session_that_another_program_just_created),
        cmocka_unit_test(a_first_get_or_create_returns_what_another_program_just_created),
        cmocka_unit_test(of_programs_that_race_for_a_key_one_creates_and_all_append),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
