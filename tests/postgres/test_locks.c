/* Several programs on one store: appends to different sessions run side by side, those to one
 * session queue up on its row, and exclusive writers get through between them. */
#include "contract/store_t.h"

#include <quipu/search.h>

#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres/client_t.h"

#define PROCESSES 8
#define THREADS 4
#define SESSIONS 16
#define WRITERS (PROCESSES * THREADS)
#define PATIENCE_MS 20000 /* of calls that must not wait; those that must fail have much less */

static const char *const levels[] = {"read%5C%20committed", "serializable"};

#define LEVELS (sizeof(levels) / sizeof(levels[0]))

/* ---- the other side ---------------------------------------------------------------------------
 */

/* A program that is stopped in the middle of an append: it holds a writer slot and a session's row.
 */
static PGconn *hold(const char *uri, const char *key)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql),
                   "UPDATE ent_numbers SET last = last + 1 WHERE name = 'write/00'; "
                   "SELECT 1 FROM sessions WHERE key = '%s' FOR UPDATE",
                   key);
    return cl_hold(uri, sql);
}

static quipu_status append_within(quipu_store *store, const char *key, int32_t ms)
{
    const quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = ms;
    return quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, &call,
                                NULL, NULL);
}

static quipu_status update_within(quipu_store *store, const char *key, int32_t ms)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = ms;
    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("m");
    return quipu_session_update(store, quipu_cstr(key), &patch, &call, NULL, NULL);
}

/* ---- one that stands still --------------------------------------------------------------------
 */

static void an_append_does_not_wait_for_a_lock_of_another_session(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    PGconn *pg;

    (void)state;
    st_create(store, "a");
    st_create(store, "b");
    st_append_many(store, "a", 2);
    pg = hold(uri, "a");
    for (int i = 0; i < 3; i++) {
        T_OK(append_within(store, "b", PATIENCE_MS));
        T_OK(update_within(store, "b", PATIENCE_MS));
    }
    for (int ms = 1; ms <= 10; ms++) {
        /* However early it gives up: nothing of it stays behind at the server. */
        T_STATUS(append_within(store, "a", ms), QUIPU_BUSY);
        T_OK(append_within(store, "b", PATIENCE_MS));
    }
    T_STATUS(append_within(store, "a", 50), QUIPU_BUSY);
    T_STATUS(update_within(store, "a", 50), QUIPU_BUSY);
    T_STATUS(append_within(store, "none", PATIENCE_MS), QUIPU_NOT_FOUND);
    call.deadline_ms = 50;
    T_STATUS(quipu_session_delete(store, QUIPU_STR("a"), NULL, &call, NULL, NULL), QUIPU_BUSY);
    T_OK(append_within(store, "b", PATIENCE_MS));
    cl_release(pg);
    assert_int_equal(st_append(store, "a", "x"), 3);
    assert_int_equal(st_append(store, "b", "x"), 15);
    T_OK(quipu_session_delete(store, QUIPU_STR("b"), NULL, NULL, NULL, NULL));
    quipu_close(store);
}

static void indexing_does_not_wait_for_a_writer_of_another_session(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    int64_t indexed = 0;
    PGconn *pg;

    (void)state;
    for (int i = 0; i < 40; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
        st_append_many(store, key, 2);
    }
    T_OK(quipu_search_index(store, NULL, &indexed, NULL));
    assert_int_equal(indexed, 80);
    pg = hold(uri, "k7");
    for (int i = 0; i < 40; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        if (i != 7) {
            T_OK(append_within(store, key, PATIENCE_MS));
        }
    }
    call.deadline_ms = PATIENCE_MS;
    T_OK(quipu_search_index(store, &call, &indexed, NULL));
    assert_int_equal(indexed, 39);
    cl_release(pg);
    assert_int_equal(st_append(store, "k7", "x"), 3);
    T_OK(quipu_search_index(store, NULL, &indexed, NULL));
    assert_int_equal(indexed, 1);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions WHERE lags"), 0);
    quipu_close(store);
}

typedef struct caller {
    quipu_store *store;
    char key[16];
    int32_t ms;
    quipu_cancel *cancel; /* or NULL */
    quipu_status status;
    atomic_bool done;
} caller;

static void *caller_run(void *arg)
{
    caller *self = arg;

    self->status = append_within(self->store, self->key, self->ms);
    return NULL;
}

/* They may share a commit group: a caller that has to wait fails no other. */
static void callers_of_other_sessions_outlive_one_that_waits_in_vain(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    caller callers[THREADS];
    pthread_t threads[THREADS];
    PGconn *pg;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.store = store, .ms = i == 0 ? 200 : PATIENCE_MS};
        (void)snprintf(callers[i].key, sizeof(callers[i].key), "k%d", i);
        st_create(store, callers[i].key);
    }
    pg = hold(uri, "k0");
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < THREADS; i++) {
            /* each begins in turn */
            caller *next = &callers[(i + round) % THREADS];
            assert_int_equal(pthread_create(&threads[i], NULL, caller_run, next), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            T_STATUS(callers[i].status, i == 0 ? QUIPU_BUSY : QUIPU_OK);
        }
    }
    cl_release(pg);
    assert_int_equal(st_append(store, "k0", "x"), 1);
    assert_int_equal(st_append(store, "k1", "x"), 6);
    quipu_close(store);
}

static void *cancel_run(void *arg)
{
    caller *self = arg;
    const quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = -1;
    call.cancel = self->cancel;
    self->status = quipu_message_append(self->store, quipu_cstr(self->key),
                                        quipu_messages_of(&message, 1), NULL, &call, NULL, NULL);
    atomic_store(&self->done, true);
    return NULL;
}

static void an_append_that_waits_for_its_session_can_be_cancelled(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    caller one = {.store = store, .key = "a", .cancel = quipu_cancel_new()};
    pthread_t thread;
    PGconn *pg;

    (void)state;
    st_create(store, "a");
    pg = hold(uri, "a");
    assert_int_equal(pthread_create(&thread, NULL, cancel_run, &one), 0);
    while (!atomic_load(&one.done) &&
           cl_ask(uri, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                       "datname = current_database()") == 0) {
        st_nap();
    }
    quipu_cancel_set(one.cancel);
    assert_int_equal(pthread_join(thread, NULL), 0);
    T_STATUS(one.status, QUIPU_CANCELLED);
    quipu_free(one.cancel);
    cl_release(pg);
    assert_int_equal(st_append(store, "a", "x"), 1);
    quipu_close(store);
}

#define CROWD (QUIPU_GROUP_MAX + 1)

/* As many sessions as a group holds callers, and one more. */
static void a_group_locks_as_many_sessions_as_it_has_callers(void **state)
{
    static caller callers[CROWD];
    static pthread_t threads[CROWD];
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_stats stats = QUIPU_STATS_INIT;
    ent_db *other;

    (void)state;
    for (int i = 0; i < CROWD; i++) {
        callers[i].store = store;
        callers[i].ms = PATIENCE_MS;
        (void)snprintf(callers[i].key, sizeof(callers[i].key), "k%d", i * 7919 % CROWD);
        st_create(store, callers[i].key);
    }
    other = et_lock(uri);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, caller_run, &callers[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        st_nap(); /* until all wait, or most */
    }
    et_unlock(other);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        T_OK(callers[i].status);
        assert_int_equal(st_append(store, callers[i].key, "x"), 2);
    }
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    assert_true(stats.largest_commit > 1 && stats.largest_commit <= QUIPU_GROUP_MAX);
    quipu_close(store);
}

/* ---- many programs ----------------------------------------------------------------------------
 */

typedef struct writer {
    quipu_store *store;
    int number;
    int sessions;
    int count; /* of its appends; 0: until it is stopped */
    atomic_bool *stop;
    bool failed;
} writer;

static void *writer_run(void *arg)
{
    writer *self = arg;
    char key[16];
    char text[32];

    (void)snprintf(key, sizeof(key), "k%d", self->number % self->sessions);
    for (int i = 0; !self->failed && (self->count > 0 ? i < self->count : !atomic_load(self->stop));
         i++) {
        quipu_message message;
        quipu_error err = {0};

        (void)snprintf(text, sizeof(text), "%d:%d", self->number, i);
        message = st_says(QUIPU_ROLE_USER, text);
        if (quipu_message_append(self->store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                                 NULL, NULL, &err) != QUIPU_OK) {
            (void)fprintf(stderr, "writer %d: %s\n", self->number, err.message);
            self->failed = true;
        }
    }
    return NULL;
}

/* A program with its own threads; gives its exit code. */
static int process_run(const char *uri, const writer *like, int process)
{
    writer writers[THREADS];
    pthread_t threads[THREADS];
    quipu_store *store = NULL;
    bool right = quipu_open(uri, NULL, &store, NULL) == QUIPU_OK;

    for (int i = 0; i < THREADS && right; i++) {
        writers[i] = *like;
        writers[i].store = store;
        writers[i].number = process * THREADS + i;
        if (pthread_create(&threads[i], NULL, writer_run, &writers[i]) != 0) {
            _exit(2);
        }
    }
    for (int i = 0; i < THREADS && right; i++) {
        right = pthread_join(threads[i], NULL) == 0 && !writers[i].failed;
    }
    quipu_close(store);
    return right ? 0 : 1;
}

static void processes_start(const char *uri, const writer *like, int processes, pid_t *pids)
{
    for (int i = 0; i < processes; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            _exit(process_run(uri, like, i));
        }
    }
}

static void processes_end(int processes, const pid_t *pids)
{
    for (int i = 0; i < processes; i++) {
        int how = 0;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
}

/* A fresh schema at a level of isolation, with its sessions k0, k1, ... Its connections go by a
 * name of their own. */
static void prepare(const char *level, const char *name, int sessions, char ret_uri[T_PATH_MAX])
{
    char schema[T_PATH_MAX];
    quipu_store *store;

    t_pg_schema(schema);
    (void)snprintf(ret_uri, T_PATH_MAX,
                   "%.900s%%20-cdefault_transaction_isolation%%3D%s&application_name=%s", schema,
                   level, name);
    store = st_open(ret_uri);
    for (int i = 0; i < sessions; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
    }
    quipu_close(store);
}

/* Every writer's messages are in its order; `counts` gets how many. */
static void check_sessions(const char *uri, int sessions, int counts[WRITERS])
{
    quipu_store *store = st_open(uri);

    memset(counts, 0, WRITERS * sizeof(counts[0]));
    for (int s = 0; s < sessions; s++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", s);
        quipu_history *history = st_get(store, key, NULL);
        st_check_whole(history);
        for (size_t i = 0; i < history->messages.count; i++) {
            int number = -1;
            int at = -1;
            assert_int_equal(
                sscanf(quipu_message_at(history->messages, i)->content.p, "%d:%d", &number, &at),
                2);
            assert_true(number >= 0 && number < WRITERS && number % sessions == s);
            assert_int_equal(at, counts[number]++);
        }
        quipu_free(history);
    }
    quipu_close(store);
}

/* In this program's database. The server counts a connection's when it has ended. */
static int64_t deadlocks(const char *uri, const char *name)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql),
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s' AND pid <> "
                   "pg_backend_pid()",
                   name);
    while (cl_ask(uri, sql) > 0) {
        st_nap();
    }
    return cl_ask(uri, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
}

static void check_processes(const char *level, const char *name, int sessions)
{
    const writer like = {.sessions = sessions, .count = (int)t_count(10, 500)};
    char uri[T_PATH_MAX];
    pid_t pids[PROCESSES];
    int counts[WRITERS];

    prepare(level, name, sessions, uri);
    processes_start(uri, &like, PROCESSES, pids);
    processes_end(PROCESSES, pids);
    assert_int_equal(deadlocks(uri, name), 0);
    check_sessions(uri, sessions, counts);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(counts[i], like.count);
    }
}

static void processes_append_to_one_session_without_gaps(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEVELS; i++) {
        check_processes(levels[i], "one_session", 1);
    }
}

static void processes_append_to_many_sessions_without_gaps(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEVELS; i++) {
        check_processes(levels[i], "many_sessions", SESSIONS);
    }
}

/* Exclusive writers while appends never cease. */
static void be_alone(quipu_store *store, int round)
{
    char fork[32];
    char made[32];
    quipu_session_new values;
    quipu_history *history = st_get(store, "k0", NULL);
    const int64_t seq = (int64_t)history->messages.count;

    quipu_free(history);
    (void)snprintf(fork, sizeof(fork), "fork%d", round);
    (void)snprintf(made, sizeof(made), "made%d", round);
    values = st_values(fork);
    T_OK(quipu_session_fork(store, QUIPU_STR("k0"), seq, &values, NULL, NULL, NULL));
    assert_int_equal(st_append(store, fork, "x"), seq + 1);
    st_create(store, made);
    assert_int_equal(st_append(store, made, "x"), 1);
    T_OK(quipu_session_delete(store, quipu_cstr(made), NULL, NULL, NULL, NULL));
    T_OK(quipu_session_delete(store, quipu_cstr(fork), NULL, NULL, NULL, NULL));
}

static void an_exclusive_writer_gets_through_between_appends(void **state)
{
    const int rounds = (int)t_count(5, 200);
    atomic_bool *stop =
        mmap(NULL, sizeof(*stop), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(stop != MAP_FAILED);
    for (size_t i = 0; i < LEVELS; i++) {
        const writer like = {.sessions = SESSIONS, .stop = stop};
        char uri[T_PATH_MAX];
        pid_t pids[PROCESSES / 2];
        int counts[WRITERS];
        quipu_store *store;

        prepare(levels[i], "alone", SESSIONS, uri);
        atomic_store(stop, false);
        processes_start(uri, &like, PROCESSES / 2, pids);
        store = st_open(uri);
        for (int round = 0; round < rounds; round++) {
            be_alone(store, round);
        }
        atomic_store(stop, true);
        processes_end(PROCESSES / 2, pids);
        quipu_close(store);
        assert_int_equal(deadlocks(uri, "alone"), 0);
        check_sessions(uri, SESSIONS, counts);
    }
    (void)munmap(stop, sizeof(*stop));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_append_does_not_wait_for_a_lock_of_another_session),
        cmocka_unit_test(indexing_does_not_wait_for_a_writer_of_another_session),
        cmocka_unit_test(callers_of_other_sessions_outlive_one_that_waits_in_vain),
        cmocka_unit_test(an_append_that_waits_for_its_session_can_be_cancelled),
        cmocka_unit_test(a_group_locks_as_many_sessions_as_it_has_callers),
        cmocka_unit_test(processes_append_to_one_session_without_gaps),
        cmocka_unit_test(processes_append_to_many_sessions_without_gaps),
        cmocka_unit_test(an_exclusive_writer_gets_through_between_appends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
