/* Many threads of a store write to its log hook at once. */
#include "contract/log_t.h"

#include <stdatomic.h>

#define THREADS 8
#define APPENDS 50

typedef struct logged {
    quipu_store *store;
    atomic_int failed;
} logged;

static void *logged_run(void *ctx)
{
    logged *self = ctx;
    const quipu_message message = st_says(QUIPU_ROLE_USER, "text");

    for (int i = 0; i < APPENDS; i++) {
        quipu_history *history = NULL;

        if (quipu_message_append(self->store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL,
                                 NULL, NULL, NULL) != QUIPU_OK ||
            quipu_session_get(self->store, QUIPU_STR("k"), NULL, NULL, &history, NULL) !=
                QUIPU_OK) {
            atomic_fetch_add(&self->failed, 1);
        }
        quipu_free(history);
    }
    return NULL;
}

static void every_call_of_every_thread_is_logged_once(void **state)
{
    pthread_t threads[THREADS];
    quipu_open_options options;
    logged self = {.store = NULL};
    size_t calls = 0;
    lt_log log;

    (void)state;
    lt_init(&log);
    options = lt_options(&log, QUIPU_LOG_DEBUG);
    options.readers_max = 2;
    self.store = st_open_new(&options, NULL);
    st_create(self.store, "k");
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, logged_run, &self), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    quipu_close(self.store);
    assert_int_equal(atomic_load(&self.failed), 0);
    for (const char *at = strstr(log.text, " store call "); at != NULL;
         at = strstr(at + 1, " store call ")) {
        calls++;
    }
    assert_int_equal(calls, THREADS * APPENDS * 2 + 1);
    lt_free(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_of_every_thread_is_logged_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
