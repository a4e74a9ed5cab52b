/* The worker of memory that a program starts beside itself: what turns say is observed, no turn
 * waits for it, and it ends when it is stopped or the store is closed, also while its model hangs.
 * On every engine, and under ThreadSanitizer. */
#include "agent/script.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/cancel.h"
#include "base/thread.h"

#define OBSERVE_WAIT_NS (60 * QP_NS_PER_S) /* no state takes so long */
#define OBSERVE_THREADS 4
#define OBSERVE_ROUNDS 25

/* ---- a model that hangs -----------------------------------------------------------------------
 */

typedef struct observe_model {
    quipu_provider provider;
    atomic_int calls;
    atomic_int cancelled;
} observe_model;

/* Until its flag is set. */
static quipu_status observe_hang(void *ctx, const quipu_model_params *params,
                                 const quipu_call_options *call, const quipu_sink *sink,
                                 quipu_error *reterr)
{
    observe_model *self = ctx;
    const int64_t end = qp_clock_ns() + OBSERVE_WAIT_NS;

    (void)params;
    (void)sink;
    atomic_fetch_add(&self->calls, 1);
    while (!qp_cancel_is_set(call->cancel)) {
        assert_true(qp_clock_ns() < end);
        st_nap();
    }
    atomic_fetch_add(&self->cancelled, 1);
    (void)snprintf(reterr->message, sizeof(reterr->message), "cancelled");
    return QUIPU_CANCELLED;
}

static void observe_model_init(observe_model *self)
{
    self->provider = (quipu_provider)QUIPU_PROVIDER_INIT;
    self->provider.ctx = self;
    self->provider.generate = observe_hang;
    atomic_init(&self->calls, 0);
    atomic_init(&self->cancelled, 0);
}

static quipu_memory_options observe_options(observe_model *model)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;

    options.provider = model != NULL ? &model->provider : NULL;
    options.model = model != NULL ? QUIPU_STR("m") : (quipu_str){NULL, 0};
    options.observe_tokens = 1;
    return options;
}

/* ---- waiting for a state ----------------------------------------------------------------------
 */

static size_t observe_known(quipu_store *store, const char *key)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    size_t count;

    query.kind = QUIPU_OBSERVATION;
    query.session_key = quipu_cstr(key);
    T_OK(quipu_memory_find(store, &query, NULL, &list, NULL));
    count = list->memories.count;
    quipu_free(list);
    return count;
}

static void observe_wait_known(quipu_store *store, const char *key, size_t count)
{
    const int64_t end = qp_clock_ns() + OBSERVE_WAIT_NS;

    while (observe_known(store, key) < count) {
        assert_true(qp_clock_ns() < end);
        st_nap();
    }
}

static void observe_wait_for(atomic_int *number, int least)
{
    const int64_t end = qp_clock_ns() + OBSERVE_WAIT_NS;

    while (atomic_load(number) < least) {
        assert_true(qp_clock_ns() < end);
        st_nap();
    }
}

/* One turn of session "s" that asks for a worker. */
static void observe_turn(quipu_store *store, const char *says, const quipu_memory_options *observe)
{
    script *self = script_new();
    quipu_turn_options options = script_options(self, says);
    quipu_arena arena = QUIPU_ARENA_INIT;

    self->steps[0] = (script_step){.texts = {"Noted."}};
    options.observe = observe;
    (void)script_turn(store, self, &options, &arena, QUIPU_OK);
    quipu_arena_free(&arena);
    script_free(self);
}

/* ---- a worker beside turns --------------------------------------------------------------------
 */

static void a_turn_that_asks_starts_a_worker_and_later_turns_keep_it(void **state)
{
    quipu_store *store = *state;
    const quipu_memory_options observe = observe_options(NULL);
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;

    st_create(store, "s");
    observe_turn(store, "I prefer tea.", &observe);
    observe_wait_known(store, "s", 1);
    observe_turn(store, "I prefer trains.", &observe);
    observe_wait_known(store, "s", 2);
    observe_turn(store, "I prefer boats.", NULL); /* the worker stays also without asking again */
    observe_wait_known(store, "s", 3);
    assert_int_equal(quipu_memory_start(store, &observe, NULL), QUIPU_EXISTS);
    T_OK(quipu_memory_stop(store, &ran, NULL));
    assert_int_equal(ran.observations, 3);
    assert_int_equal(ran.failed, 0);
}

static void a_worker_observes_what_is_appended_without_a_turn(void **state)
{
    quipu_store *store = *state;

    T_OK(quipu_memory_start(store, NULL, NULL));
    T_OK(quipu_say(store, "s", QUIPU_ROLE_USER, "I prefer tea.", NULL));
    observe_wait_known(store, "s", 1);
    T_OK(quipu_memory_stop(store, NULL, NULL));
}

static void no_turn_waits_for_a_worker_whose_model_hangs(void **state)
{
    quipu_store *store = *state;
    observe_model model;
    quipu_memory_options observe;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_memory_status_list *list = NULL;

    observe_model_init(&model);
    observe = observe_options(&model);
    st_create(store, "s");
    observe_turn(store, "I prefer tea.", &observe);
    observe_wait_for(&model.calls, 1);
    for (int i = 0; i < 5; i++) {
        observe_turn(store, "I prefer trains.", &observe);
    }
    /* Every turn is over, and the model has not answered its first question yet. */
    assert_int_equal(atomic_load(&model.calls), 1);
    assert_int_equal(atomic_load(&model.cancelled), 0);
    T_OK(quipu_memory_stop(store, &ran, NULL));
    assert_int_equal(atomic_load(&model.cancelled), 1);
    assert_int_equal(ran.model_calls, 1);
    assert_int_equal(ran.observations, 0);
    /* The session is given back: nothing is lost, and any worker may have it at once. */
    T_OK(quipu_memory_status(store, NULL, NULL, &list, NULL));
    assert_null(quipu_memory_progress_at(list->sessions, 0)->owner.p);
    assert_null(quipu_memory_progress_at(list->sessions, 0)->last_error.p);
    assert_int_equal(quipu_memory_progress_at(list->sessions, 0)->pending_messages, 12);
    quipu_free(list);
    T_OK(quipu_memory_run(store, NULL, NULL, &ran, NULL));
    assert_int_equal(ran.messages, 12);
    assert_int_equal(observe_known(store, "s"), 2);
}

static void closing_a_store_stops_its_worker(void **state)
{
    observe_model model;
    quipu_memory_options observe;
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    observe_model_init(&model);
    observe = observe_options(&model);
    T_OK(quipu_say(store, "s", QUIPU_ROLE_USER, "I prefer tea.", NULL));
    T_OK(quipu_memory_start(store, &observe, NULL));
    observe_wait_for(&model.calls, 1);
    quipu_close(store);
    assert_int_equal(atomic_load(&model.cancelled), 1);

    store = st_open_new(NULL, NULL); /* one that waits for work */
    T_OK(quipu_memory_start(store, NULL, NULL));
    quipu_close(store);
}

/* ---- failures ---------------------------------------------------------------------------------
 */

typedef struct observe_passes {
    atomic_int failed;
    atomic_int done;
    _Atomic quipu_status status;
} observe_passes;

static void observe_passed(void *ctx, const quipu_memory_ran *ran, const quipu_error *error)
{
    observe_passes *passes = ctx;

    if (error != NULL) {
        atomic_store(&passes->status, error->status);
        atomic_fetch_add(&passes->failed, 1);
    } else {
        assert_true(ran->sessions > 0);
        atomic_fetch_add(&passes->done, 1);
    }
}

static void a_worker_survives_what_fails(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options observe = observe_options(NULL);
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    observe_passes passes;
    char *key = strdup("later");

    atomic_init(&passes.failed, 0);
    atomic_init(&passes.done, 0);
    atomic_init(&passes.status, QUIPU_OK);
    observe.session_key = quipu_cstr(key);
    observe.on_pass = observe_passed;
    observe.pass_ctx = &passes;
    T_OK(quipu_memory_start(store, &observe, NULL));
    memset(key, 'x', strlen(key)); /* the options are copied */
    free(key);
    observe_wait_for(&passes.failed, 1);
    assert_int_equal(atomic_load(&passes.status), QUIPU_NOT_FOUND);
    T_OK(quipu_say(store, "later", QUIPU_ROLE_USER, "I prefer tea.", NULL));
    st_create(store, "s");
    observe_turn(store, "I prefer trains.", NULL); /* wakes it */
    observe_wait_known(store, "later", 1);
    observe_wait_for(&passes.done, 1);
    T_OK(quipu_memory_stop(store, &ran, NULL));
    assert_int_equal(ran.observations, 1);
    assert_int_equal(observe_known(store, "s"), 0); /* it was asked for the other one */
}

static void a_worker_that_cannot_be_is_refused_at_once(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options observe = observe_options(NULL);
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_open_options read_only = QUIPU_OPEN_OPTIONS_INIT;
    script *self = script_new();
    quipu_turn_options options = script_options(self, "hello");
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};
    char path[T_PATH_MAX];
    quipu_store *other = NULL;

    assert_int_equal(quipu_memory_start(NULL, NULL, NULL), QUIPU_MISUSE);
    assert_int_equal(quipu_memory_stop(NULL, NULL, NULL), QUIPU_MISUSE);
    observe.user_id = QUIPU_STR("u");
    assert_int_equal(quipu_memory_start(store, &observe, &error), QUIPU_MISUSE);
    assert_non_null(strstr(error.message, "app_name"));
    /* A turn that asks for it stores nothing. */
    st_create(store, "s");
    options.observe = &observe;
    (void)script_turn(store, self, &options, &arena, QUIPU_MISUSE);
    quipu_history *history = st_get(store, "s", NULL);
    assert_int_equal(history->messages.count, 0);
    quipu_free(history);
    observe = observe_options(NULL);
    observe.flags = QUIPU_MEMORY_RUN_FOLLOW << 1;
    assert_int_equal(quipu_memory_start(store, &observe, NULL), QUIPU_MISUSE);
    ran.struct_size = 0;
    assert_int_equal(quipu_memory_stop(store, &ran, NULL), QUIPU_MISUSE);
    ran = (quipu_memory_ran)QUIPU_MEMORY_RAN_INIT;
    T_OK(quipu_memory_stop(store, &ran, NULL)); /* there is none */
    assert_int_equal(ran.sessions, 0);

    quipu_close(st_open_new(NULL, path));
    read_only.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &read_only, &other, NULL));
    assert_int_equal(quipu_memory_start(other, NULL, NULL), QUIPU_MISUSE);
    quipu_close(other);
    quipu_arena_free(&arena);
    script_free(self);
}

static void observe_cancel(void *ctx, const quipu_memory_ran *ran, const quipu_error *error)
{
    assert_null(error);
    assert_int_equal(ran->observations, 1);
    quipu_cancel_set(ctx);
}

static void following_ends_with_the_flag_or_the_deadline_and_returns_the_sums(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options options = observe_options(NULL);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;

    T_OK(quipu_say(store, "s", QUIPU_ROLE_USER, "I prefer tea.", NULL));
    call.cancel = quipu_cancel_new();
    call.deadline_ms = -1;
    options.flags = QUIPU_MEMORY_RUN_FOLLOW;
    options.on_pass = observe_cancel;
    options.pass_ctx = call.cancel;
    T_OK(quipu_memory_run(store, &options, &call, &ran, NULL));
    assert_int_equal(ran.observations, 1);
    assert_int_equal(quipu_memory_run(store, &options, &call, &ran, NULL), QUIPU_CANCELLED);
    quipu_free(call.cancel);
    call.cancel = NULL;
    call.deadline_ms = 50;
    T_OK(quipu_memory_run(store, &options, &call, &ran, NULL));
    assert_int_equal(ran.sessions, 0);
}

/* ---- threads ----------------------------------------------------------------------------------
 */

typedef struct observe_crew {
    quipu_store *store;
    int number;
} observe_crew;

/* Half of the threads start and stop the worker, the others talk. */
static void *observe_crew_run(void *arg)
{
    const observe_crew *self = arg;

    for (int i = 0; i < OBSERVE_ROUNDS; i++) {
        quipu_status status;

        if (self->number % 2 == 0) {
            status = quipu_memory_start(self->store, NULL, NULL);
            assert_true(status == QUIPU_OK || status == QUIPU_EXISTS);
            st_nap();
            T_OK(quipu_memory_stop(self->store, NULL, NULL));
        } else {
            char key[16];
            char text[64];

            (void)snprintf(key, sizeof(key), "s%d", self->number);
            (void)snprintf(text, sizeof(text), "I love thing %d of %s.", i, key);
            T_OK(quipu_say(self->store, key, QUIPU_ROLE_USER, text, NULL));
        }
    }
    return NULL;
}

static void workers_started_and_stopped_at_any_time_lose_nothing(void **state)
{
    quipu_store *store = *state;
    observe_crew crew[OBSERVE_THREADS];
    pthread_t threads[OBSERVE_THREADS];

    for (int i = 0; i < OBSERVE_THREADS; i++) {
        crew[i] = (observe_crew){store, i};
        assert_int_equal(pthread_create(&threads[i], NULL, observe_crew_run, &crew[i]), 0);
    }
    for (int i = 0; i < OBSERVE_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    T_OK(quipu_memory_start(store, NULL, NULL));
    observe_wait_known(store, "s1", OBSERVE_ROUNDS);
    observe_wait_known(store, "s3", OBSERVE_ROUNDS);
    T_OK(quipu_memory_stop(store, NULL, NULL));
    assert_int_equal(observe_known(store, "s1"), OBSERVE_ROUNDS); /* and none twice */
    assert_int_equal(observe_known(store, "s3"), OBSERVE_ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(a_turn_that_asks_starts_a_worker_and_later_turns_keep_it),
        ST_TEST(a_worker_observes_what_is_appended_without_a_turn),
        ST_TEST(no_turn_waits_for_a_worker_whose_model_hangs),
        cmocka_unit_test(closing_a_store_stops_its_worker),
        ST_TEST(a_worker_survives_what_fails),
        ST_TEST(a_worker_that_cannot_be_is_refused_at_once),
        ST_TEST(following_ends_with_the_flag_or_the_deadline_and_returns_the_sums),
        ST_TEST(workers_started_and_stopped_at_any_time_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
