/* Live sessions under threads and processes: exactly one of two stale writers wins, or both rebase;
 * a shared session takes turns; get-or-create makes one session. */
#include "contract/adk_t.h"
#include "lib/short.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 8
#define WRITERS 4
#define EVENTS 25
#define GETTERS 10

typedef struct worker {
    adk_world *world;
    quipu_service *service;
    quipu_live *session;
    pthread_barrier_t *barrier;
    int number;
    int appended;
    int conflicts;
    int failures;
} worker;

static quipu_status say(quipu_live *session, int writer, int i)
{
    char event[320];
    quipu_error err = {0};

    (void)snprintf(event, sizeof(event),
                   "{\"id\":\"w%d-%d\",\"author\":\"user\",\"timestamp\":1.0,\"content\":{\"role\":"
                   "\"user\",\"parts\":[{\"text\":\"w%d\"}]},\"actions\":{\"stateDelta\":{"
                   "\"w%d\":%d,\"app:n\":%d,\"user:n\":%d}},\"customMetadata\":{\"seen\":%zu}}",
                   writer, i, writer, writer, i, i, i, t_live_event_count(session));
    return quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, &err);
}

static void run_workers(worker *workers, size_t count, void *(*run)(void *))
{
    pthread_t threads[GETTERS];

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run, &workers[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* ---- two copies of one session ----------------------------------------------------------------
 */

static void *append_once(void *arg)
{
    worker *self = arg;
    quipu_status status;

    (void)pthread_barrier_wait(self->barrier);
    status = say(self->session, self->number, self->appended);
    self->appended += status == QUIPU_OK;
    self->conflicts += status == QUIPU_CONFLICT;
    self->failures += status != QUIPU_OK && status != QUIPU_CONFLICT;
    return NULL;
}

static void of_two_copies_exactly_one_wins_a_round(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    pthread_barrier_t barrier;

    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    quipu_live_free(adk_create(world, "u", "s", NULL));
    worker workers[2] = {{.world = world, .barrier = &barrier, .number = 0},
                         {.world = world, .barrier = &barrier, .number = 1}};
    for (int round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < 2; i++) {
            workers[i].session = adk_get(world, "u", "s", NULL);
        }
        run_workers(workers, 2, append_once);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(workers[i].failures, 0);
            quipu_live_free(workers[i].session);
        }
        assert_int_equal(workers[0].appended + workers[1].appended, round);
        assert_int_equal(workers[0].conflicts + workers[1].conflicts, round);
    }
    assert_int_equal(pthread_barrier_destroy(&barrier), 0);
    adk_close(world);
}

/* ---- many writers -----------------------------------------------------------------------------
 */

/* Append until it is done; a stale session catches up and tries again. */
static void *append_many(void *arg)
{
    worker *self = arg;

    while (self->appended < EVENTS && self->failures == 0) {
        quipu_status status = say(self->session, self->number, self->appended);

        if (status == QUIPU_CONFLICT) {
            self->conflicts++;
            status = quipu_live_refresh(self->session, NULL, NULL);
        } else if (status == QUIPU_OK) {
            self->appended++;
        }
        self->failures += status != QUIPU_OK;
    }
    return NULL;
}

/* All events are there once, each writer's in order. `blind`: some were written without a look at
 * those before them; else each writer had seen all of them. */
static void check_all(adk_world *world, int writers, bool blind)
{
    quipu_live *session = adk_get(world, "u", "s", NULL);
    int next[WRITERS] = {0};

    assert_int_equal(t_live_event_count(session), writers * EVENTS);
    for (size_t i = 0; i < t_live_event_count(session); i++) {
        quipu_str event = adk_event(world, session, i);
        const char *id = strstr(event.p, "\"id\":\"w");
        int writer = -1;
        int number = -1;

        assert_non_null(id);
        assert_int_equal(sscanf(id + 6, "w%d-%d", &writer, &number), 2);
        assert_in_range(writer, 0, writers - 1);
        assert_int_equal(number, next[writer]);
        next[writer]++;
        if (!blind) {
            char seen[32];

            (void)snprintf(seen, sizeof(seen), "\"seen\":%zu}", i);
            assert_non_null(strstr(event.p, seen));
        }
    }
    assert_int_equal(t_live_revision(session, NULL), writers * EVENTS);
    quipu_live_free(session);
}

static void many_writers(uint32_t flags, bool shared)
{
    adk_world *world = adk_open(flags);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    worker workers[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        workers[i] = (worker){.world = world,
                              .number = i,
                              .session = shared ? session : adk_get(world, "u", "s", NULL)};
    }
    run_workers(workers, WRITERS, append_many);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(workers[i].failures, 0);
        assert_int_equal(workers[i].appended, EVENTS);
        if (shared || (flags & QUIPU_SERVICE_REBASE) != 0) {
            assert_int_equal(workers[i].conflicts, 0);
        }
        if (!shared) {
            quipu_live_free(workers[i].session);
        }
    }
    if (shared) { /* the same order in memory and in the store */
        quipu_live *stored = adk_get(world, "u", "s", NULL);

        assert_int_equal(t_live_event_count(session), WRITERS * EVENTS);
        for (size_t i = 0; i < WRITERS * EVENTS; i++) {
            adk_check_json(adk_event(world, session, i), adk_event(world, stored, i).p);
        }
        quipu_live_free(stored);
    }
    check_all(world, WRITERS, shared || (flags & QUIPU_SERVICE_REBASE) != 0);
    quipu_live_free(session);
    adk_close(world);
}

static void stale_writers_lose_nothing(void **state)
{
    (void)state;
    many_writers(QUIPU_SERVICE_PYTHON, false);
}

static void rebasing_writers_never_conflict(void **state)
{
    (void)state;
    many_writers(QUIPU_SERVICE_REBASE, false);
}

static void a_shared_session_takes_turns(void **state)
{
    (void)state;
    many_writers(QUIPU_SERVICE_GO, true);
}

/* ---- no false stale ---------------------------------------------------------------------------
 */

/* Sessions of one user share names of state; nobody's append makes another's session stale. */
static void writers_of_their_own_sessions_are_never_stale(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    worker workers[WRITERS];

    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "s%d", i);
        workers[i] =
            (worker){.world = world, .number = i, .session = adk_create(world, "u", id, NULL)};
    }
    run_workers(workers, WRITERS, append_many);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(workers[i].failures, 0);
        assert_int_equal(workers[i].conflicts, 0);
        assert_int_equal(t_live_revision(workers[i].session, NULL), EVENTS);
        quipu_live_free(workers[i].session);
    }
    adk_close(world);
}

/* ---- create -----------------------------------------------------------------------------------
 */

static void *create_new(void *arg)
{
    worker *self = arg;
    const quipu_session_ref ref = adk_ref("app", "u", "new");
    quipu_status status;

    (void)pthread_barrier_wait(self->barrier);
    status = quipu_service_create(self->world->service, &ref,
                                  (quipu_json){QUIPU_STR("{\"app:a\":1,\"user:u\":1}")}, NULL,
                                  &self->session, NULL);
    self->appended = status == QUIPU_OK;
    self->conflicts = status == QUIPU_EXISTS;
    return NULL;
}

static void of_many_creates_of_one_session_exactly_one_succeeds(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    pthread_barrier_t barrier;
    worker workers[GETTERS];
    int made = 0;
    int refused = 0;

    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, GETTERS), 0);
    for (int i = 0; i < GETTERS; i++) {
        workers[i] = (worker){.world = world, .barrier = &barrier};
    }
    run_workers(workers, GETTERS, create_new);
    for (int i = 0; i < GETTERS; i++) {
        made += workers[i].appended;
        refused += workers[i].conflicts;
        quipu_live_free(workers[i].session);
    }
    assert_int_equal(made, 1);
    assert_int_equal(refused, GETTERS - 1);
    assert_int_equal(pthread_barrier_destroy(&barrier), 0);
    adk_close(world);
}

/* ---- get-or-create ----------------------------------------------------------------------------
 */

static void *get_new(void *arg)
{
    worker *self = arg;
    const quipu_session_ref ref = adk_ref("app", "u", "new");
    quipu_error err = {0};

    (void)pthread_barrier_wait(self->barrier);
    self->failures +=
        quipu_service_get(self->world->service, &ref, NULL, NULL, &self->session, &err) != QUIPU_OK;
    return NULL;
}

static void ten_gets_of_one_new_session_all_get_it(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_AUTO_CREATE);
    quipu_service_list *list = NULL;
    pthread_barrier_t barrier;
    worker workers[GETTERS];

    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, GETTERS), 0);
    for (int i = 0; i < GETTERS; i++) {
        workers[i] = (worker){.world = world, .barrier = &barrier};
    }
    run_workers(workers, GETTERS, get_new);
    for (int i = 0; i < GETTERS; i++) {
        assert_int_equal(workers[i].failures, 0);
        assert_non_null(workers[i].session);
    }
    assert_int_equal(say(workers[3].session, 0, 0), QUIPU_OK);
    assert_int_equal(say(workers[4].session, 1, 0), QUIPU_CONFLICT);
    for (int i = 0; i < GETTERS; i++) {
        quipu_live_free(workers[i].session);
    }
    T_OK(quipu_service_find(world->service, QUIPU_STR("app"), QUIPU_STR("u"), NULL, &list, NULL));
    assert_int_equal(list->sessions.count, 1);
    quipu_free(list);
    assert_int_equal(pthread_barrier_destroy(&barrier), 0);
    adk_close(world);
}

/* ---- processes --------------------------------------------------------------------------------
 */

/* A writer in a process of its own; its exit code says how it went. `exclusive`: nobody else writes
 * to the session, so that no conflict may occur. */
static int child(const char *path, uint32_t flags, const char *id, int number, bool exclusive)
{
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    const quipu_session_ref ref = adk_ref("app", "u", id);
    worker self = {.number = number};
    quipu_store *store = NULL;

    options.flags = flags;
    if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK ||
        quipu_service_new(store, &options, &self.service, NULL) != QUIPU_OK ||
        quipu_service_get(self.service, &ref, NULL, NULL, &self.session, NULL) != QUIPU_OK) {
        return 2;
    }
    (void)append_many(&self);
    quipu_live_free(self.session);
    quipu_service_free(self.service);
    quipu_close(store);
    return self.failures == 0 && (!exclusive || self.conflicts == 0) ? 0 : 3;
}

/* Two of them, over these sessions. */
static void run_processes(const char *path, uint32_t flags, const char *const ids[2],
                          bool exclusive)
{
    pid_t pids[2];

    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            _exit(child(path, flags, ids[i], i, exclusive));
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void two_processes(uint32_t flags)
{
    static const char *const same[] = {"s", "s"};
    const bool rebase = (flags & QUIPU_SERVICE_REBASE) != 0;
    adk_world *world = adk_open(flags);

    quipu_live_free(adk_create(world, "u", "s", NULL));
    run_processes(world->path, flags, same, rebase);
    check_all(world, 2, rebase);
    adk_close(world);
}

static void processes_with_their_own_sessions_are_never_stale(void **state)
{
    static const char *const own[] = {"a", "b"};
    adk_world *world = adk_open(QUIPU_SERVICE_GO);

    (void)state;
    for (int i = 0; i < 2; i++) {
        quipu_live_free(adk_create(world, "u", own[i], NULL));
    }
    run_processes(world->path, QUIPU_SERVICE_GO, own, true);
    for (int i = 0; i < 2; i++) {
        quipu_live *session = adk_get(world, "u", own[i], NULL);

        assert_int_equal(t_live_event_count(session), EVENTS);
        quipu_live_free(session);
    }
    adk_close(world);
}

static void two_processes_lose_nothing_and_interleave_only_on_request(void **state)
{
    (void)state;
    two_processes(QUIPU_SERVICE_GO);
    two_processes(QUIPU_SERVICE_REBASE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_copies_exactly_one_wins_a_round),
        cmocka_unit_test(stale_writers_lose_nothing),
        cmocka_unit_test(rebasing_writers_never_conflict),
        cmocka_unit_test(a_shared_session_takes_turns),
        cmocka_unit_test(writers_of_their_own_sessions_are_never_stale),
        cmocka_unit_test(of_many_creates_of_one_session_exactly_one_succeeds),
        cmocka_unit_test(ten_gets_of_one_new_session_all_get_it),
        cmocka_unit_test(two_processes_lose_nothing_and_interleave_only_on_request),
        cmocka_unit_test(processes_with_their_own_sessions_are_never_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
