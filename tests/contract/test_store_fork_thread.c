/* Threads that fork, append, read windows and delete, while others compact, prune and cap what they
 * share: nobody fails, every view is whole, and nothing is left behind. Runs under TSan. */
#include "contract/history_t.h"
#include "lib/short.h"

#include <pthread.h>

#define THREADS 6

typedef struct worker {
    quipu_store *store;
    int number;
    int64_t count;
    int64_t failures;
    quipu_error err; /* of the first failure */
} worker;

static void *failed(worker *self, const quipu_error *err, const char *what)
{
    if (self->failures++ == 0) {
        self->err = *err;
        if (err->message[0] == '\0') {
            (void)snprintf(self->err.message, sizeof(self->err.message), "%s", what);
        }
    }
    return NULL;
}

/* Numbers without a gap, and a header of the same snapshot. */
static bool is_whole(const quipu_history *history)
{
    for (size_t i = 0; i < history->messages.count; i++) {
        if (quipu_message_at(history->messages, i)->seq !=
            history->session->first_seq + (int64_t)i) {
            return false;
        }
    }
    return (int64_t)history->messages.count == history->session->message_count;
}

static bool look(worker *self, const char *key)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_history *history = NULL;
    quipu_error err = {0};

    options.token_budget = 40;
    if (quipu_window_read(self->store, quipu_cstr(key), &options, NULL, &window, &err) !=
            QUIPU_OK ||
        quipu_session_get(self->store, quipu_cstr(key), NULL, NULL, &history, &err) != QUIPU_OK ||
        !is_whole(history)) {
        (void)failed(self, &err, "a fork is not whole");
    }
    quipu_free(window);
    quipu_free(history);
    return self->failures == 0;
}

/* A fork of the shared session at its end, a fork of that one; the first goes before the second. */
static void *worker_fork(void *arg)
{
    worker *self = arg;
    quipu_message message = st_says(QUIPU_ROLE_USER, "mine");
    quipu_error err = {0};
    char first[32];
    char second[32];

    (void)snprintf(first, sizeof(first), "f%d", self->number);
    (void)snprintf(second, sizeof(second), "g%d", self->number);
    for (int64_t i = 0; i < self->count; i++) {
        quipu_session_new values = st_values(first);
        quipu_range range = QUIPU_RANGE_INIT;
        quipu_history *header = NULL;

        range.flags = QUIPU_RANGE_HEADER;
        if (quipu_session_get(self->store, QUIPU_STR("p"), &range, NULL, &header, &err) !=
            QUIPU_OK) {
            return failed(self, &err, "");
        }
        int64_t seq = header->session->next_seq - 1;
        quipu_free(header);
        quipu_status status =
            quipu_session_fork(self->store, QUIPU_STR("p"), seq, &values, NULL, NULL, &err);
        if (status == QUIPU_INVALID) {
            continue; /* pruned between the two calls */
        }
        if (status != QUIPU_OK) {
            return failed(self, &err, "");
        }
        values.key = quipu_cstr(second);
        if (quipu_message_append(self->store, quipu_cstr(first), quipu_messages_of(&message, 1),
                                 NULL, NULL, NULL, &err) != QUIPU_OK ||
            quipu_session_fork(self->store, quipu_cstr(first), seq + 1, &values, NULL, NULL,
                               &err) != QUIPU_OK ||
            !look(self, first) ||
            quipu_session_delete(self->store, quipu_cstr(first), NULL, NULL, NULL, &err) !=
                QUIPU_OK ||
            !look(self, second) ||
            quipu_session_delete(self->store, quipu_cstr(second), NULL, NULL, NULL, &err) !=
                QUIPU_OK) {
            return failed(self, &err, "");
        }
    }
    return NULL;
}

/* Meanwhile the shared session grows, and loses its beginning now and then. */
static void *worker_grow(void *arg)
{
    worker *self = arg;
    quipu_message turn[2] = {st_says(QUIPU_ROLE_USER, "question"),
                             st_says(QUIPU_ROLE_ASSISTANT, "answer")};
    quipu_error err = {0};

    for (int64_t i = 0; i < self->count; i++) {
        quipu_appended appended = QUIPU_APPENDED_INIT;

        if (quipu_message_append(self->store, QUIPU_STR("p"), quipu_messages_of(turn, 2), NULL,
                                 NULL, &appended, &err) != QUIPU_OK) {
            return failed(self, &err, "");
        }
        if (i % 40 == 39 &&
            (quipu_session_compact(self->store, QUIPU_STR("p"),
                                   T_COMPACT(appended.first_seq - 61, QUIPU_STR("sum")), NULL, NULL,
                                   &err) != QUIPU_OK ||
             quipu_session_prune(self->store, QUIPU_STR("p"), NULL, NULL, &err) != QUIPU_OK)) {
            return failed(self, &err, "");
        }
    }
    return NULL;
}

static void forks_live_and_die_while_their_parent_changes(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    worker workers[THREADS] = {{0}};
    pthread_t threads[THREADS];
    char path[T_PATH_MAX];

    (void)state;
    options.durability = QUIPU_RELAXED;
    quipu_store *store = st_open_new(&options, path);
    st_create(store, "p");
    ht_script(store, "p", "ua");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.store = store, .number = i, .count = t_count(60, 1000)};
        workers[i].count *= i == 0 ? 4 : 1;
        assert_int_equal(
            pthread_create(&threads[i], NULL, i == 0 ? worker_grow : worker_fork, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (workers[i].failures > 0) {
            fail_msg("thread %d: %s", i, workers[i].err.message);
        }
    }
    ht_file count = ht_count(path);
    assert_int_equal(count.named, 1);
    assert_int_equal(count.hidden, 0);
    assert_int_equal(count.messages, ht_info(store, "p").message_count);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_live_and_die_while_their_parent_changes),
    };

    return cmocka_run_group_tests_name("store_fork_thread", tests, NULL, NULL);
}
