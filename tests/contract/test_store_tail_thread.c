/* Tails and feed readers beside writing threads of the same process: everything arrives, in order,
 * once. Run under ThreadSanitizer. */
#include "contract/store_t.h"

#include <pthread.h>
#include <stdatomic.h>

#define WRITERS 4
#define FOLLOWERS 3

typedef struct follow {
    quipu_store *store;
    int64_t count; /* to write, or to wait for */
    quipu_cancel *cancel;
    quipu_status status;
    int64_t seen;
} follow;

static void *follow_write(void *arg)
{
    follow *self = arg;

    for (int64_t i = 0; i < self->count && self->status == QUIPU_OK; i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "x");
        self->status = quipu_message_append(self->store, QUIPU_STR("k"),
                                            quipu_messages_of(&message, 1), NULL, NULL, NULL, NULL);
    }
    return NULL;
}

/* Follow to the end; every number comes once. */
static void *follow_tail(void *arg)
{
    follow *self = arg;
    quipu_tail *tail = NULL;

    self->status = quipu_tail_open(self->store, QUIPU_STR("k"), 0, NULL, &tail, NULL);
    while (self->status == QUIPU_OK && self->seen < self->count) {
        quipu_history *batch = NULL;
        self->status = quipu_tail_next(tail, -1, NULL, &batch, NULL);
        for (size_t i = 0; self->status == QUIPU_OK && i < batch->messages.count; i++) {
            if (quipu_message_at(batch->messages, i)->seq != ++self->seen) {
                self->status = QUIPU_CORRUPT;
            }
        }
        quipu_free(batch);
    }
    quipu_tail_close(tail);
    return NULL;
}

/* The same by the feed: creation, then each append. */
static void *follow_feed(void *arg)
{
    follow *self = arg;
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    char cursor[64] = "";
    int64_t last = 0;

    options.timeout_ms = -1;
    while (self->status == QUIPU_OK && last < self->count) {
        quipu_feed_page *page = NULL;
        options.after = cursor[0] != '\0' ? quipu_cstr(cursor) : (quipu_str){NULL, 0};
        self->status = quipu_feed_read(self->store, &options, NULL, &page, NULL);
        if (self->status != QUIPU_OK) {
            break;
        }
        for (size_t i = 0; i < page->changes.count; i++) {
            const quipu_change *event = quipu_change_at(page->changes, i);
            if (event->kind == QUIPU_CHANGE_APPENDED && event->first_seq != last + 1) {
                self->status = QUIPU_CORRUPT;
            }
            last = event->last_seq;
        }
        snprintf(cursor, sizeof(cursor), "%s", page->next.p);
        quipu_free(page);
    }
    self->seen = last;
    return NULL;
}

static void follow_all(quipu_store *store)
{
    const int64_t each = t_count(50, 2000);
    follow parts[WRITERS + FOLLOWERS + 1];
    pthread_t threads[WRITERS + FOLLOWERS + 1];

    st_create(store, "k");
    for (int i = 0; i < WRITERS + FOLLOWERS + 1; i++) {
        void *(*run)(void *) = i < WRITERS               ? follow_write
                               : i < WRITERS + FOLLOWERS ? follow_tail
                                                         : follow_feed;
        parts[i] = (follow){.store = store, .count = i < WRITERS ? each : each * WRITERS};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &parts[i]), 0);
    }
    for (int i = 0; i < WRITERS + FOLLOWERS + 1; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        T_OK(parts[i].status);
        assert_true(i < WRITERS || parts[i].seen == each * WRITERS);
    }
}

static void followers_get_everything_once_and_in_order(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    options.flags = QUIPU_OPEN_FEED;
    options.durability = QUIPU_RELAXED;
    quipu_store *store = st_open_new(&options, NULL);
    follow_all(store);
    quipu_close(store);
}

static void followers_of_a_store_in_memory_get_everything(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;

    (void)state;
    options.flags = QUIPU_OPEN_FEED;
    T_OK(quipu_open(":memory:", &options, &store, NULL));
    follow_all(store);
    quipu_close(store);
}

static void *follow_until_cancelled(void *arg)
{
    follow *self = arg;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_tail *tail = NULL;
    quipu_history *batch = NULL;

    call.cancel = self->cancel;
    self->status = quipu_tail_open(self->store, QUIPU_STR("k"), 0, NULL, &tail, NULL);
    if (self->status == QUIPU_OK) {
        self->status = quipu_tail_next(tail, -1, &call, &batch, NULL);
    }
    quipu_tail_close(tail);
    return NULL;
}

static void waiting_tail_can_be_cancelled(void **state)
{
    quipu_store *store = *state;
    follow part = {.store = store, .cancel = quipu_cancel_new()};
    pthread_t thread;

    st_create(store, "k");
    assert_non_null(part.cancel);
    assert_int_equal(pthread_create(&thread, NULL, follow_until_cancelled, &part), 0);
    st_nap();
    quipu_cancel_set(part.cancel);
    assert_int_equal(pthread_join(thread, NULL), 0);
    T_STATUS(part.status, QUIPU_CANCELLED);
    quipu_free(part.cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(followers_get_everything_once_and_in_order),
        cmocka_unit_test(followers_of_a_store_in_memory_get_everything),
        ST_TEST(waiting_tail_can_be_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
