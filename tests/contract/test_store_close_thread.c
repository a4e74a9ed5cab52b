/* Closing a store while calls are under way in other threads: each of them ends with its own
 * result, also those that only wait for their turn. Runs under ASan and TSan, which would see a
 * store that is freed too early. */
#include "contract/maintain_t.h"

#include <pthread.h>
#include <stdatomic.h>

#include <quipu/tail.h>

#define CALLERS 12
#define LONG_HISTORY 20000 /* messages: reading them takes longer than a nap */

typedef struct caller {
    quipu_store *store;
    int number;
    quipu_status status;
    size_t count; /* messages that were read */
} caller;

static atomic_int begun; /* callers that run */

static void *caller_append(void *arg)
{
    caller *self = arg;
    char text[32];

    (void)atomic_fetch_add(&begun, 1);
    snprintf(text, sizeof(text), "m%d", self->number);
    quipu_message message = st_says(QUIPU_ROLE_USER, text);
    self->status = quipu_message_append(self->store, QUIPU_STR("k"), quipu_messages_of(&message, 1),
                                        NULL, NULL, NULL, NULL);
    return NULL;
}

static void *caller_read(void *arg)
{
    caller *self = arg;
    quipu_history *history = NULL;

    (void)atomic_fetch_add(&begun, 1);
    self->status = quipu_session_get(self->store, QUIPU_STR("k"), NULL, NULL, &history, NULL);
    self->count = self->status == QUIPU_OK ? history->messages.count : 0;
    quipu_free(history);
    return NULL;
}

static void *closer(void *arg)
{
    quipu_close(arg);
    return NULL;
}

static void start(quipu_store *store, void *(*run)(void *), caller callers[CALLERS],
                  pthread_t threads[CALLERS])
{
    atomic_store(&begun, 0);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.store = store, .number = i, .status = QUIPU_MISUSE};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &callers[i]), 0);
    }
    while (atomic_load(&begun) < CALLERS) {
        st_nap();
    }
    for (int i = 0; i < 10; i++) {
        st_nap(); /* until all are inside their call */
    }
}

static void join(pthread_t threads[CALLERS])
{
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void close_waits_for_writers_that_wait_for_the_file(void **state)
{
    char path[T_PATH_MAX];
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    pthread_t closing;
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "k");
    ent_db *other = et_lock(path);
    start(store, caller_append, callers, threads);
    assert_int_equal(pthread_create(&closing, NULL, closer, store), 0);
    st_nap();
    et_unlock(other);
    join(threads);
    assert_int_equal(pthread_join(closing, NULL), 0);
    for (int i = 0; i < CALLERS; i++) {
        T_STATUS(callers[i].status, QUIPU_OK);
    }
    store = st_open(path);
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, CALLERS);
    quipu_free(history);
    quipu_close(store);
}

static void long_session(quipu_store *store)
{
    quipu_message *batch = calloc(LONG_HISTORY / 2, sizeof(*batch));
    quipu_error err = {0};

    assert_non_null(batch);
    for (int i = 0; i < LONG_HISTORY / 2; i++) {
        batch[i] = st_says(QUIPU_ROLE_USER, "word");
    }
    st_create(store, "k");
    for (int i = 0; i < 2; i++) {
        T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(batch, LONG_HISTORY / 2),
                                  NULL, NULL, NULL, &err));
    }
    free(batch);
}

static void close_waits_for_readers_that_wait_for_a_connection(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    caller callers[CALLERS];
    pthread_t threads[CALLERS];

    (void)state;
    options.readers_max = 1;
    options.deadline_ms = -1;
    quipu_store *store = st_open_new(&options, NULL);
    long_session(store);
    start(store, caller_read, callers, threads);
    quipu_close(store);
    join(threads);
    for (int i = 0; i < CALLERS; i++) {
        T_STATUS(callers[i].status, QUIPU_OK);
        assert_int_equal(callers[i].count, LONG_HISTORY);
    }
}

static void close_waits_for_readers_of_a_store_in_memory(void **state)
{
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    quipu_store *store = NULL;

    (void)state;
    T_OK(quipu_open(":memory:", NULL, &store, NULL));
    long_session(store);
    start(store, caller_read, callers, threads);
    quipu_close(store);
    join(threads);
    for (int i = 0; i < CALLERS; i++) {
        T_STATUS(callers[i].status, QUIPU_OK);
        assert_int_equal(callers[i].count, LONG_HISTORY);
    }
}

/* ---- between two transactions of one call -----------------------------------------------------
 */

typedef struct importer {
    quipu_store *store;
    mt_stream stream;
    atomic_bool closed; /* quipu_close() has returned */
    bool closed_early;
    pthread_t closing;
    quipu_transfer done;
    quipu_status status;
} importer;

static void *importer_close(void *arg)
{
    importer *self = arg;

    quipu_close(self->store);
    atomic_store(&self->closed, true);
    return NULL;
}

/* Import asks for more when a group of lines is committed and the next one is not begun. */
static quipu_status importer_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    importer *self = ctx;

    if (self->stream.at > self->stream.n / 2 && self->closing == 0) {
        if (pthread_create(&self->closing, NULL, importer_close, self) != 0) {
            return QUIPU_NOMEM;
        }
        for (int i = 0; i < 10; i++) {
            st_nap(); /* time enough for a close that does not wait */
        }
        self->closed_early = atomic_load(&self->closed);
    }
    return self->closed_early ? QUIPU_IO : mt_read(&self->stream, ret_bytes, size, ret_n);
}

static void close_waits_between_the_transactions_of_a_call(void **state)
{
    char path[T_PATH_MAX];
    importer self = {.done = QUIPU_TRANSFER_INIT};
    quipu_store *source = st_open_new(NULL, NULL);
    quipu_error err = {0};

    (void)state;
    for (int i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%d", i);
        st_create(source, key);
    }
    self.stream = mt_export(source, NULL);
    self.stream.step = 100;
    quipu_close(source);
    self.store = st_open_new(NULL, path);
    self.status =
        quipu_store_import(self.store, NULL, importer_read, &self, NULL, &self.done, &err);
    assert_true(self.closing != 0);
    assert_int_equal(pthread_join(self.closing, NULL), 0);
    assert_false(self.closed_early);
    T_STATUS(self.status, QUIPU_OK);
    assert_int_equal(self.done.sessions, 50);
    mt_free(&self.stream);
}

static void *caller_feed(void *arg)
{
    caller *self = arg;
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_feed_page *page = NULL;

    options.flags = 0;
    options.timeout_ms = -1;
    (void)atomic_fetch_add(&begun, 1);
    self->status = quipu_feed_read(self->store, &options, NULL, &page, NULL);
    quipu_free(page);
    return NULL;
}

static void close_ends_calls_that_wait_for_changes(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    caller callers[CALLERS];
    pthread_t threads[CALLERS];

    (void)state;
    options.flags = QUIPU_OPEN_FEED;
    quipu_store *store = st_open_new(&options, NULL);
    start(store, caller_feed, callers, threads);
    quipu_close(store);
    join(threads);
    for (int i = 0; i < CALLERS; i++) {
        T_STATUS(callers[i].status, QUIPU_CANCELLED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_waits_for_writers_that_wait_for_the_file),
        cmocka_unit_test(close_waits_for_readers_that_wait_for_a_connection),
        cmocka_unit_test(close_waits_for_readers_of_a_store_in_memory),
        cmocka_unit_test(close_waits_between_the_transactions_of_a_call),
        cmocka_unit_test(close_ends_calls_that_wait_for_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
