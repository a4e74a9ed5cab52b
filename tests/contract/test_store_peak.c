/* How much memory the library holds at most: a read of a whole history needs at most twice its
 * payload, a plain append, once warm, takes nothing from the allocator, and a live session keeps
 * nothing twice. */
#include "contract/adk_t.h"
#include "lib/short.h"

#define PEAK_MESSAGES 4000
#define PEAK_BYTES 1000

static size_t peak_now;
static size_t peak_most;
static size_t peak_calls;

/* The size stands before each block. */
static void *peak_realloc(void *ctx, void *p, size_t size)
{
    size_t *block = p == NULL ? NULL : (size_t *)p - 2;
    size_t old = block == NULL ? 0 : block[0];

    (void)ctx;
    if (size == 0) {
        peak_now -= old;
        free(block);
        return NULL;
    }
    peak_calls++;
    block = realloc(block, size + 2 * sizeof(size_t));
    if (block == NULL) {
        return NULL;
    }
    block[0] = size;
    peak_now += size - old;
    peak_most = peak_now > peak_most ? peak_now : peak_most;
    return block + 2;
}

static void whole_history_needs_at_most_twice_its_payload(void **state)
{
    static char text[PEAK_BYTES + 1];
    quipu_store *store = *state;
    quipu_message *messages = calloc(PEAK_MESSAGES, sizeof(*messages));

    assert_non_null(messages);
    memset(text, 'x', PEAK_BYTES);
    for (int i = 0; i < PEAK_MESSAGES; i++) {
        messages[i] = st_says(QUIPU_ROLE_USER, text);
    }
    st_create(store, "k");
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(messages, PEAK_MESSAGES),
                              NULL, NULL, NULL, NULL));
    free(messages);
    quipu_free(st_get(store, "k", NULL));
    size_t before = peak_now;
    peak_most = peak_now;
    quipu_history *history = st_get(store, "k", NULL);
    print_message("%d bytes of payload, %zu at most\n", PEAK_MESSAGES * PEAK_BYTES,
                  peak_most - before);
    assert_true(peak_most - before <= (size_t)2 * PEAK_MESSAGES * PEAK_BYTES);
    quipu_free(history);
    assert_int_equal(peak_now, before);
}

static void warm_append_allocates_nothing(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    st_append_many(store, "k", 3);
    size_t before = peak_calls;
    assert_int_equal(st_append(store, "k", "a plain message"), 4);
    assert_int_equal(peak_calls, before);
}

#define PEAK_ANSWER_BYTES 1000000

/* Content and output of a tool's message are one text, and stay one in a live session. */
static void live_session_keeps_an_answer_once(void **state)
{
    static char event[PEAK_ANSWER_BYTES + 512];
    static char filler[PEAK_ANSWER_BYTES + 1];
    quipu_store *store = *state;
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    const quipu_session_ref ref = adk_ref("app", "u", "s");
    quipu_service *service = NULL;
    quipu_live *session = NULL;
    quipu_error err = {0};
    size_t before;

    T_OK(quipu_service_new(store, &options, &service, &err));
    T_OK(quipu_service_create(service, &ref, (quipu_json){{NULL, 0}}, NULL, &session, &err));
    memset(filler, 'x', PEAK_ANSWER_BYTES);
    before = peak_now;
    for (int i = 0; i < 4; i++) {
        assert_true(snprintf(event, sizeof(event),
                             "{\"id\":\"e%d\",\"timestamp\":1.0,\"author\":\"a\",\"content\":{"
                             "\"parts\":[{\"functionResponse\":{\"id\":\"c\",\"name\":\"f\","
                             "\"response\":{\"r\":\"%s\"}}}]}}",
                             i, filler) < (int)sizeof(event));
        T_OK(quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, &err));
    }
    print_message("4 answers of %d bytes, %zu more held\n", PEAK_ANSWER_BYTES, peak_now - before);
    assert_true(peak_now - before < (size_t)6 * PEAK_ANSWER_BYTES);
    assert_int_equal(t_live_event_count(session), 4);
    quipu_live_free(session);
    quipu_service_free(service);
}

int main(void)
{
    const quipu_allocator allocator = {NULL, peak_realloc};
    const struct CMUnitTest tests[] = {
        ST_TEST(whole_history_needs_at_most_twice_its_payload),
        ST_TEST(warm_append_allocates_nothing),
        ST_TEST(live_session_keeps_an_answer_once),
    };

    if (quipu_set_allocator(&allocator, NULL) != QUIPU_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
