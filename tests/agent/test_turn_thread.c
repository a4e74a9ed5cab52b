/* Turns and threads: a flag set elsewhere stops a turn in the middle; turns of many sessions do not
 * disturb each other; of two turns of one session the history stays valid. */
#include "agent/script.h"

#include <pthread.h>
#include <time.h>

#define THREAD_TURNS 4
#define THREAD_COUNT 4

/* A model that never stops talking, until the flag of its call is set. */
static quipu_status thread_chatter(void *ctx, const quipu_model_params *params,
                                   const quipu_call_options *call, const quipu_sink *sink,
                                   quipu_error *reterr)
{
    const struct timespec pause = {0, 200000};
    quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta),
                         .kind = QUIPU_DELTA_TEXT,
                         .text = QUIPU_STR("bla ")};
    quipu_status status = QUIPU_OK;

    (void)ctx;
    (void)params;
    (void)call;
    while (status == QUIPU_OK) {
        status = sink->put(sink->ctx, &delta, reterr);
        (void)nanosleep(&pause, NULL);
    }
    return status;
}

typedef struct thread_stop {
    pthread_mutex_t mutex;
    pthread_cond_t spoken;
    size_t texts;
    quipu_cancel *cancel;
} thread_stop;

static quipu_status thread_hear(void *ctx, const quipu_model_event *event)
{
    thread_stop *stop = ctx;

    if (event->kind == QUIPU_MODEL_TEXT) {
        assert_int_equal(pthread_mutex_lock(&stop->mutex), 0);
        stop->texts++;
        assert_int_equal(pthread_cond_signal(&stop->spoken), 0);
        assert_int_equal(pthread_mutex_unlock(&stop->mutex), 0);
    }
    return QUIPU_OK;
}

static void *thread_stopper(void *arg)
{
    thread_stop *stop = arg;

    assert_int_equal(pthread_mutex_lock(&stop->mutex), 0);
    while (stop->texts < 3) {
        assert_int_equal(pthread_cond_wait(&stop->spoken, &stop->mutex), 0);
    }
    assert_int_equal(pthread_mutex_unlock(&stop->mutex), 0);
    quipu_cancel_set(stop->cancel);
    return NULL;
}

static void flag_of_another_thread_ends_the_turn_in_the_middle(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    script *played = script_new();
    quipu_turn_options options = script_options(played, "go");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    thread_stop stop = {.texts = 0, .cancel = played->cancel};
    pthread_t thread;
    quipu_history *history;

    (void)state;
    st_create(store, "s");
    assert_int_equal(pthread_mutex_init(&stop.mutex, NULL), 0);
    assert_int_equal(pthread_cond_init(&stop.spoken, NULL), 0);
    played->provider.generate = thread_chatter;
    options.on_event = thread_hear;
    options.event_ctx = &stop;
    call.cancel = stop.cancel;
    assert_int_equal(pthread_create(&thread, NULL, thread_stopper, &stop), 0);
    T_STATUS(quipu_turn(store, &played->provider, &options, &call, NULL, NULL, NULL),
             QUIPU_CANCELLED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    history = st_get(store, "s", NULL);
    assert_int_equal(history->messages.count, 2);
    assert_int_equal(quipu_message_at(history->messages, 1)->mark, QUIPU_MARK_TIMEOUT);
    assert_int_equal(quipu_message_at(history->messages, 1)->content.n, stop.texts * 4);
    quipu_free(history);
    quipu_close(store);
    script_free(played);
    (void)pthread_cond_destroy(&stop.spoken);
    (void)pthread_mutex_destroy(&stop.mutex);
}

typedef struct thread_worker {
    quipu_store *store;
    char key[16];
    quipu_status allowed; /* besides QUIPU_OK */
    size_t ok;
    size_t failures;
} thread_worker;

static void *thread_turns(void *arg)
{
    thread_worker *worker = arg;
    quipu_part part = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("hi")};
    const quipu_content input = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    const quipu_tool tool = {.name = QUIPU_STR("a")};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    script *played = script_new();
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;

    request.tools = quipu_tools_of(&tool, 1);
    options.key = quipu_cstr(worker->key);
    options.input = quipu_contents_of(&input, 1);
    options.request = &request;
    options.model = QUIPU_STR("shared");
    for (size_t i = 0; i < THREAD_TURNS; i++) {
        quipu_status status;

        played->steps[played->at] = (script_step){.calls = {"a"}, .tokens = 100};
        played->steps[played->at + 1] = (script_step){.texts = {"ok"}, .tokens = 120};
        status = quipu_turn(worker->store, &played->provider, &options, NULL, NULL, NULL, NULL);
        worker->ok += status == QUIPU_OK ? 1 : 0;
        worker->failures += status != QUIPU_OK && status != worker->allowed ? 1 : 0;
    }
    script_free(played);
    return NULL;
}

static size_t thread_run(quipu_store *store, bool one_session)
{
    thread_worker workers[THREAD_COUNT];
    pthread_t threads[THREAD_COUNT];
    size_t ok = 0;

    for (int i = 0; i < THREAD_COUNT; i++) {
        workers[i] =
            (thread_worker){.store = store, .allowed = one_session ? QUIPU_CONFLICT : QUIPU_OK};
        (void)snprintf(workers[i].key, sizeof(workers[i].key), one_session ? "s" : "s%d", i);
        if (!one_session) {
            st_create(store, workers[i].key);
        }
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_turns, &workers[i]), 0);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failures, 0);
        ok += workers[i].ok;
    }
    return ok;
}

static void turns_of_many_sessions_run_side_by_side(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    assert_int_equal(thread_run(store, false), THREAD_COUNT * THREAD_TURNS);
    for (int i = 0; i < THREAD_COUNT; i++) {
        char key[16];
        quipu_history *history;

        (void)snprintf(key, sizeof(key), "s%d", i);
        history = st_get(store, key, NULL);
        assert_int_equal(history->messages.count, 4 * THREAD_TURNS);
        quipu_free(history);
    }
    quipu_close(store);
}

static void turns_of_one_session_never_leave_it_invalid(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    script *played = script_new();
    quipu_turn_options options = script_options(played, "last");
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    st_create(store, "s");
    assert_true(thread_run(store, true) >= 1);
    played->steps[0] = (script_step){.texts = {"ok"}};
    (void)script_turn(store, played, &options, &arena, QUIPU_OK);
    script_check_valid(store);
    quipu_arena_free(&arena);
    script_free(played);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flag_of_another_thread_ends_the_turn_in_the_middle),
        cmocka_unit_test(turns_of_many_sessions_run_side_by_side),
        cmocka_unit_test(turns_of_one_session_never_leave_it_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
