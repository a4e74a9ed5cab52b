/* Workers of memory in threads of one process, beside appends: every message is observed once, and
 * no append waits for them. Run under ThreadSanitizer. */
#include "contract/maintain_t.h"

#include <pthread.h>
#include <stdatomic.h>

#include <quipu/memory.h>

#define CREW_WRITERS 2
#define CREW_WORKERS 3
#define CREW_MESSAGES 40 /* of each writer */

typedef struct crew {
    quipu_store *store;
    int number;
    atomic_bool *done;
    quipu_status status;
} crew;

/* Each writer has a session of its own, and each message a fact of its own. */
static void *crew_write(void *arg)
{
    crew *self = arg;
    char key[16];

    (void)snprintf(key, sizeof(key), "s%d", self->number);
    for (int i = 0; i < CREW_MESSAGES && self->status == QUIPU_OK; i++) {
        char text[64];

        (void)snprintf(text, sizeof(text), "I love thing %d of %s.", i, key);
        self->status = quipu_say(self->store, key, QUIPU_ROLE_USER, text, NULL);
    }
    return NULL;
}

static void *crew_work(void *arg)
{
    crew *self = arg;

    while (self->status == QUIPU_OK && !atomic_load(self->done)) {
        self->status = quipu_memory_run(self->store, NULL, NULL, NULL, NULL);
    }
    return NULL;
}

static void workers_in_threads_observe_each_message_once(void **state)
{
    quipu_store *store = *state;
    atomic_bool done = false;
    crew crews[CREW_WRITERS + CREW_WORKERS];
    pthread_t threads[CREW_WRITERS + CREW_WORKERS];
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;

    for (int i = 0; i < CREW_WRITERS + CREW_WORKERS; i++) {
        crews[i] = (crew){.store = store, .number = i, .done = &done};
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < CREW_WRITERS ? crew_write : crew_work, &crews[i]),
            0);
    }
    for (int i = 0; i < CREW_WRITERS + CREW_WORKERS; i++) {
        if (i == CREW_WRITERS) {
            atomic_store(&done, true);
        }
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        T_OK(crews[i].status);
    }
    T_OK(quipu_memory_run(store, NULL, NULL, &ran, NULL));
    for (int s = 0; s < CREW_WRITERS; s++) {
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        quipu_memory_list *list = NULL;
        char key[16];

        (void)snprintf(key, sizeof(key), "s%d", s);
        query.kind = QUIPU_OBSERVATION;
        query.session_key = quipu_cstr(key);
        T_OK(quipu_memory_find(store, &query, NULL, &list, NULL));
        assert_int_equal(list->memories.count, CREW_MESSAGES);
        for (size_t i = 0; i < list->memories.count; i++) {
            assert_int_equal(quipu_memory_at(list->memories, i)->source_start, i + 1);
            assert_int_equal(quipu_memory_at(list->memories, i)->times, 1);
        }
        quipu_free(list);
    }
    mt_clean(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(workers_in_threads_observe_each_message_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
