/* Saving memories beside appends and reads, from many threads: no call reports that something is
 * locked, and nothing is missing. Run under ThreadSanitizer. */
#include "contract/store_t.h"
#include "lib/short.h"

#include <pthread.h>

#define EACH 4 /* threads that save, that append, and that read */

typedef struct crew {
    quipu_store *store;
    int count;
    quipu_status status;
} crew;

static void *crew_save(void *arg)
{
    crew *self = arg;
    const quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = QUIPU_STR("k"), .content = QUIPU_STR("seen")};

    for (int i = 0; i < self->count && self->status == QUIPU_OK; i++) {
        self->status = t_memory_save(self->store, &memory, NULL, NULL, NULL);
    }
    return NULL;
}

static void *crew_append(void *arg)
{
    crew *self = arg;

    for (int i = 0; i < self->count && self->status == QUIPU_OK; i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "said");
        self->status = quipu_message_append(self->store, QUIPU_STR("k"),
                                            quipu_messages_of(&message, 1), NULL, NULL, NULL, NULL);
    }
    return NULL;
}

static void *crew_read(void *arg)
{
    crew *self = arg;
    size_t before = 0;

    for (int i = 0; i < self->count && self->status == QUIPU_OK; i++) {
        quipu_memory_list *list = NULL;
        self->status =
            t_memory_list(self->store, QUIPU_OBSERVATION, QUIPU_STR("k"), 0, NULL, &list, NULL);
        if (self->status == QUIPU_OK && list->memories.count < before) {
            self->status = QUIPU_CORRUPT; /* what was seen once does not go */
        }
        before = self->status == QUIPU_OK ? list->memories.count : before;
        quipu_free(list);
    }
    return NULL;
}

static void threads_that_save_append_and_read_see_no_lock(void **state)
{
    static void *(*const runs[])(void *) = {crew_save, crew_append, crew_read};
    const int count = (int)t_count(50, 1000);
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_memory_list *list = NULL;
    crew crews[3 * EACH];
    pthread_t threads[3 * EACH];

    (void)state;
    options.durability = QUIPU_RELAXED;
    quipu_store *store = st_open_new(&options, NULL);
    st_create(store, "k");
    for (int i = 0; i < 3 * EACH; i++) {
        crews[i] = (crew){.store = store, .count = count};
        assert_int_equal(pthread_create(&threads[i], NULL, runs[i / EACH], &crews[i]), 0);
    }
    for (int i = 0; i < 3 * EACH; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        T_OK(crews[i].status);
    }
    T_OK(t_memory_list(store, QUIPU_OBSERVATION, QUIPU_STR("k"), 0, NULL, &list, NULL));
    assert_int_equal(list->memories.count, EACH * count);
    quipu_free(list);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, EACH * count);
    quipu_free(history);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_save_append_and_read_see_no_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
