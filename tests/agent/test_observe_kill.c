/* Workers of memory that are killed while their model thinks leave leases behind that nobody ends
 * for minutes. Turns of those sessions go on all the same, and when the leases are over each
 * message is observed once. On every engine. */
#include "agent/script.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

#define KILL_WORKERS_MAX 8

/* The name of a worker's session. */
static quipu_str kill_key(int number, char ret_key[8])
{
    (void)snprintf(ret_key, 8, "s%d", number);
    return quipu_cstr(ret_key);
}

/* A model that says through its pipe that it was asked, and thinks until it is killed. */
static quipu_status kill_think(void *ctx, const quipu_model_params *params,
                               const quipu_call_options *call, const quipu_sink *sink,
                               quipu_error *reterr)
{
    const int *pipe_end = ctx;

    (void)params;
    (void)call;
    (void)sink;
    (void)reterr;
    if (write(*pipe_end, "?", 1) != 1) {
        _exit(3);
    }
    for (;;) {
        (void)pause();
    }
}

/* A process that works on one session until it is killed. */
static void kill_worker(const char *path, int number, int pipe_end)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_provider provider = QUIPU_PROVIDER_INIT;
    quipu_store *store = NULL;
    char key[8];

    provider.ctx = &pipe_end;
    provider.generate = kill_think;
    options.session_key = kill_key(number, key);
    options.provider = &provider;
    options.model = QUIPU_STR("m");
    options.observe_tokens = 1;
    options.lease_ms = QUIPU_MEMORY_LEASE_MS_MAX;
    if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK ||
        quipu_memory_run(store, &options, NULL, NULL, NULL) != QUIPU_OK) {
        _exit(4);
    }
    _exit(5);
}

/* Starts so many workers, waits until each of them is asking its model, and kills them all. */
static void kill_workers(const char *path, int workers)
{
    pid_t pids[KILL_WORKERS_MAX];
    int ends[2];
    char asked;

    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < workers; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            kill_worker(path, i, ends[1]);
        }
    }
    (void)close(ends[1]); /* the end of all workers ends the reading */
    for (int i = 0; i < workers; i++) {
        assert_int_equal(read(ends[0], &asked, 1), 1);
    }
    (void)close(ends[0]);
    for (int i = 0; i < workers; i++) {
        assert_int_equal(kill(pids[i], SIGKILL), 0);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
}

static quipu_memory_progress kill_status(quipu_store *store, int number)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_memory_progress at;
    char key[8];

    options.session_key = kill_key(number, key);
    T_OK(quipu_memory_status(store, &options, NULL, &list, NULL));
    at = *quipu_memory_progress_at(list->sessions, 0);
    quipu_free(list);
    return at;
}

/* One turn with memory. The dead worker's lease is there before and after it: what the turn did, it
 * did without waiting for the lease. */
static void kill_turn(quipu_store *store, int number)
{
    script *self = script_new();
    quipu_turn_options options = script_options(self, "I prefer trains.");
    quipu_arena arena = QUIPU_ARENA_INIT;
    const quipu_memory_progress before = kill_status(store, number);
    char key[8];

    assert_true(before.has_lease_until);
    assert_int_equal(before.fence, 1);
    self->steps[0] = (script_step){.texts = {"Noted."}};
    options.key = kill_key(number, key);
    options.flags |= QUIPU_TURN_MEMORY;
    (void)script_turn(store, self, &options, &arena, QUIPU_OK);
    const quipu_memory_progress after = kill_status(store, number);
    assert_true(after.has_lease_until);
    assert_int_equal(quipu_time_cmp(after.lease_until, before.lease_until), 0);
    assert_int_equal(after.fence, 1);
    assert_int_equal(after.watermark, 0);
    assert_int_equal(after.pending_messages, 3);
    quipu_arena_free(&arena);
    script_free(self);
}

/* Each fact is known, each once. */
static void kill_check(quipu_store *store, int number)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    char key[8];

    query.kind = QUIPU_OBSERVATION;
    query.session_key = kill_key(number, key);
    T_OK(quipu_memory_find(store, &query, NULL, &list, NULL));
    assert_int_equal(list->memories.count, 2);
    for (size_t i = 0; i < list->memories.count; i++) {
        assert_int_equal(quipu_memory_at(list->memories, i)->times, 1);
    }
    quipu_free(list);
    assert_int_equal(kill_status(store, number).watermark, 3);
}

static void no_turn_waits_for_the_lease_of_a_worker_that_was_killed(void **state)
{
    (void)state;
    for (int workers = 2; workers <= KILL_WORKERS_MAX; workers *= 2) {
        char path[T_PATH_MAX];
        quipu_store *store = st_open_new(NULL, path);
        quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
        char key[8];

        for (int i = 0; i < workers; i++) {
            T_OK(quipu_say(store, kill_key(i, key).p, QUIPU_ROLE_USER, "I prefer tea.", NULL));
        }
        quipu_close(store); /* what a child inherits of one is of no use to it */
        kill_workers(path, workers);
        store = st_open(path);
        for (int i = 0; i < workers; i++) {
            kill_turn(store, i);
        }
        T_OK(quipu_memory_run(store, NULL, NULL, &ran, NULL));
        assert_int_equal(ran.messages, 0); /* the leases hold */
        qp_time_step(QUIPU_MEMORY_LEASE_MS_MAX + 1);
        T_OK(quipu_memory_run(store, NULL, NULL, &ran, NULL));
        assert_int_equal(ran.messages, 3 * workers);
        for (int i = 0; i < workers; i++) {
            kill_check(store, i);
        }
        qp_time_step(0);
        quipu_close(store);
        print_message("%d turns under %d leases, 0 waited\n", workers, workers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_turn_waits_for_the_lease_of_a_worker_that_was_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
