/* Threads that append and search at once: each finds at least what it has appended, and nobody
 * finds what is gone. */
#include <pthread.h>

#include "contract/store_t.h"

#define THREADS 4
#define ROUNDS 40

typedef struct worker {
    quipu_store *store;
    int number;
    const char *failure; /* or NULL */
} worker;

/* How many messages have the words in this session, or -1. */
static int64_t count_of(quipu_store *store, const char *key, const char *words)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    int64_t count = -1;

    options.query = quipu_cstr(words);
    options.session_key = quipu_cstr(key);
    options.limit = QUIPU_SEARCH_LIMIT_MAX;
    if (quipu_search(store, &options, NULL, &results, NULL) == QUIPU_OK) {
        count = (int64_t)results->hits.count;
    }
    quipu_free(results);
    return count;
}

static void *append_and_search(void *arg)
{
    worker *self = arg;
    char word[32];

    snprintf(word, sizeof(word), "word%d", self->number);
    for (int i = 1; i <= ROUNDS && self->failure == NULL; i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, word);
        if (quipu_message_append(self->store, QUIPU_STR("shared"), quipu_messages_of(&message, 1),
                                 NULL, NULL, NULL, NULL) != QUIPU_OK) {
            self->failure = "append";
        } else if (count_of(self->store, "shared", word) != i) {
            self->failure = "search";
        }
    }
    return NULL;
}

/* Sessions come and go; their text must not outlive them. */
static void *create_and_delete(void *arg)
{
    worker *self = arg;
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;

    options.query = QUIPU_STR("fleeting");
    for (int i = 0; i < ROUNDS && self->failure == NULL; i++) {
        const quipu_message message = st_says(QUIPU_ROLE_USER, "fleeting text");
        quipu_session_new values = st_values("fleeting");
        quipu_search_results *results = NULL;

        values.messages = quipu_messages_of(&message, 1);
        if (quipu_session_create(self->store, &values, NULL, NULL, NULL) != QUIPU_OK ||
            count_of(self->store, "fleeting", "fleeting") != 1 ||
            quipu_session_delete(self->store, values.key, NULL, NULL, NULL, NULL) != QUIPU_OK ||
            quipu_search(self->store, &options, NULL, &results, NULL) != QUIPU_OK ||
            results->hits.count != 0) {
            self->failure = "fleeting";
        }
        quipu_free(results);
    }
    return NULL;
}

static void *index_behind(void *arg)
{
    worker *self = arg;

    for (int i = 0; i < ROUNDS && self->failure == NULL; i++) {
        if (quipu_search_index(self->store, NULL, NULL, NULL) != QUIPU_OK) {
            self->failure = "index";
        }
    }
    return NULL;
}

static void everybody_finds_what_he_appended(void **state)
{
    void *(*const work[])(void *) = {append_and_search, append_and_search, create_and_delete,
                                     index_behind};
    worker workers[THREADS];
    pthread_t threads[THREADS];

    st_create(*state, "shared");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.store = *state, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work[i], &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        if (workers[i].failure != NULL) {
            fail_msg("thread %d: %s", i, workers[i].failure);
        }
    }
    assert_int_equal(count_of(*state, "shared", "word*"), 2 * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ST_TEST(everybody_finds_what_he_appended)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
