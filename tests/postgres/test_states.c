/* State of users and apps beside other writers: who changes it waits for nobody but those that
 * change state of the same user or app, and events that race apply all of their changes or none. */
#include "contract/store_t.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres/client_t.h"
#include "store/shard.h"
#include "store/state.h"

#define PROCESSES 3
#define THREADS 3
#define EVENTS 12
#define NAMES 4           /* two of the app, two of its user */
#define PATIENCE_MS 20000 /* of calls that must not wait; those that must fail have much less */

static void create_of(quipu_store *store, const char *key, const char *user)
{
    quipu_session_new values = st_values(key);

    values.app_name = QUIPU_STR("app");
    values.user_id = quipu_cstr(user);
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
}

/* An event without a message that sets names to one value, from `first` on and around. */
static quipu_status change(quipu_store *store, const char *key, const char *id, const char *value,
                           int first, int32_t ms)
{
    quipu_error err = {0};
    quipu_status status;
    const qp_state_item names[NAMES] = {{.scope = QP_SCOPE_APP, .name = QUIPU_STR("a")},
                                        {.scope = QP_SCOPE_USER, .name = QUIPU_STR("c")},
                                        {.scope = QP_SCOPE_APP, .name = QUIPU_STR("b")},
                                        {.scope = QP_SCOPE_USER, .name = QUIPU_STR("d")}};
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    qp_state_item items[NAMES];
    qp_append_also also = {.changes = {items, NAMES},
                           .event_id = quipu_cstr(id),
                           .time = {1700000000, 0},
                           .expected_revision = -1};

    for (int i = 0; i < NAMES; i++) {
        items[i] = names[(first + i) % NAMES];
        items[i].value = quipu_cstr(value);
    }
    call.deadline_ms = ms;
    status = qp_append_also_state(store, quipu_cstr(key), quipu_messages_of(NULL, 0), &also, &call,
                                  NULL, &err);
    if (status != QUIPU_OK && ms == PATIENCE_MS) {
        print_message("%s, event %s: %s (%s)\n", key, id, quipu_status_name(status), err.message);
        (void)fflush(stdout); /* a child ends without it */
    }
    return status;
}

static void a_change_does_not_wait_for_a_writer_of_another_session(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    PGconn *pg;

    (void)state;
    create_of(store, "adk:app/ann/1", "ann");
    create_of(store, "adk:app/bob/1", "bob");
    /* Stopped in the middle of an append, with a slot that is not ours. */
    pg = cl_hold(uri, "UPDATE ent_numbers SET last = last + 1 WHERE name = 'write/09'; "
                      "SELECT 1 FROM sessions WHERE key = 'adk:app/bob/1' FOR UPDATE");
    T_OK(change(store, "adk:app/ann/1", "e1", "1", 0, PATIENCE_MS));
    T_STATUS(change(store, "adk:app/bob/1", "e2", "2", 0, 50), QUIPU_BUSY);
    cl_release(pg);
    T_OK(change(store, "adk:app/bob/1", "e2", "2", 0, PATIENCE_MS));
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM state"), 6);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM state WHERE value::text = '2'"), 4);
    quipu_close(store);
}

static void a_change_waits_for_one_of_the_same_app(void **state)
{
    char uri[T_PATH_MAX];
    char sql[256];
    quipu_store *store = st_open_new(NULL, uri);
    PGconn *pg;

    (void)state;
    create_of(store, "adk:app/ann/1", "ann");
    T_OK(change(store, "adk:app/ann/1", "e1", "1", 0, PATIENCE_MS));
    (void)snprintf(sql, sizeof(sql),
                   "SELECT 1 FROM ent_numbers WHERE name = 'number of sessions/%04u' FOR UPDATE",
                   (unsigned)qp_shard_of_state(QUIPU_STR(""), QUIPU_STR("adk:app/ann/1"), false));
    pg = cl_hold(uri, sql);
    T_STATUS(change(store, "adk:app/ann/1", "e2", "2", 0, 50), QUIPU_BUSY);
    assert_int_equal(st_append(store, "adk:app/ann/1", "no state"), 1);
    cl_release(pg);
    T_OK(change(store, "adk:app/ann/1", "e2", "2", 0, PATIENCE_MS));
    quipu_close(store);
}

/* ---- races ------------------------------------------------------------------------------------
 */

typedef struct racer {
    quipu_store *store;
    atomic_int *failures;
    int number;
} racer;

/* Each thread has a session of its own and begins its changes with another name. */
static void *race(void *arg)
{
    racer *self = arg;
    char key[32];

    (void)snprintf(key, sizeof(key), "adk:app/ann/%d", self->number);
    for (int i = 0; i < EVENTS; i++) {
        char id[16];
        char value[16];

        (void)snprintf(id, sizeof(id), "e%d", i);
        (void)snprintf(value, sizeof(value), "%d", self->number * EVENTS + i);
        if (change(self->store, key, id, value, self->number + i, PATIENCE_MS) != QUIPU_OK) {
            (void)atomic_fetch_add(self->failures, 1);
        }
    }
    return NULL;
}

static int process_run(const char *uri, atomic_int *failures, int number)
{
    quipu_store *store = st_open(uri);
    pthread_t threads[THREADS];
    racer racers[THREADS];
    bool right = true;

    for (int i = 0; i < THREADS; i++) {
        racers[i] = (racer){store, failures, number * THREADS + i};
        right = right && pthread_create(&threads[i], NULL, race, &racers[i]) == 0;
    }
    for (int i = 0; i < THREADS && right; i++) {
        right = pthread_join(threads[i], NULL) == 0;
    }
    quipu_close(store);
    return right ? 0 : 1;
}

static void events_that_race_apply_whole_and_without_a_deadlock(void **state)
{
    static const char deadlocks[] =
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    atomic_int *failures =
        mmap(NULL, sizeof(*failures), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    pid_t pids[PROCESSES];
    int64_t before;

    (void)state;
    assert_ptr_not_equal(failures, MAP_FAILED);
    before = cl_ask(uri, deadlocks);
    for (int i = 0; i < PROCESSES * THREADS; i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "adk:app/ann/%d", i);
        create_of(store, key, "ann");
    }
    quipu_close(store);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            _exit(process_run(uri, failures, i));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int how = 0;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_int_equal(atomic_load(failures), 0);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM state"), NAMES);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(DISTINCT value::text) FROM state"), 1);
    assert_int_equal(cl_ask(uri, deadlocks), before);
    (void)munmap(failures, sizeof(*failures));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_does_not_wait_for_a_writer_of_another_session),
        cmocka_unit_test(a_change_waits_for_one_of_the_same_app),
        cmocka_unit_test(events_that_race_apply_whole_and_without_a_deadlock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
