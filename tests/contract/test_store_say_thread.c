/* The short calls, and callers whose structs have other sizes than the library's. */
#include "contract/store_t.h"

#include <pthread.h>

#define SAY_THREADS 8
#define SAY_EACH 10

static void say_creates_the_session_and_the_window_reads_it(void **state)
{
    quipu_store *store = *state;
    quipu_window *window = NULL;
    quipu_error err = {0};

    T_OK(quipu_say(store, "chat", QUIPU_ROLE_USER, "What is a quipu?", &err));
    assert_int_equal(err.status, QUIPU_OK); /* that it was missing is no error */
    assert_string_equal(err.message, "");
    T_OK(quipu_say(store, "chat", QUIPU_ROLE_ASSISTANT, "A record kept in knots.", NULL));
    T_OK(quipu_window_get(store, "chat", 8000, &window, NULL));
    assert_int_equal(window->messages.count, 2);
    assert_int_equal(window->messages.item_size, sizeof(quipu_message));
    T_STR(window->session->key, "chat");
    T_STR(quipu_message_at(window->messages, 1)->content, "A record kept in knots.");
    assert_int_equal(quipu_message_at(window->messages, 1)->role, QUIPU_ROLE_ASSISTANT);
    assert_false(window->more_before);
    quipu_free(window);
}

static void say_refuses_what_an_append_refuses(void **state)
{
    quipu_store *store = *state;
    quipu_window *window = NULL;

    T_STATUS(quipu_say(store, "chat", (quipu_role)0, "x", NULL), QUIPU_INVALID);
    T_STATUS(quipu_say(store, "chat", QUIPU_ROLE_USER, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_say(store, "", QUIPU_ROLE_USER, "x", NULL), QUIPU_INVALID);
    T_STATUS(quipu_say(NULL, "chat", QUIPU_ROLE_USER, "x", NULL), QUIPU_MISUSE);
    T_STATUS(quipu_window_get(store, "chat", 8000, &window, NULL), QUIPU_NOT_FOUND);
    T_STATUS(quipu_window_get(store, "chat", 0, &window, NULL), QUIPU_MISUSE);
}

typedef struct sayer {
    pthread_t thread;
    quipu_store *store;
    quipu_status status;
} sayer;

static void *sayer_run(void *arg)
{
    sayer *self = arg;

    for (int i = 0; i < SAY_EACH && self->status == QUIPU_OK; i++) {
        self->status = quipu_say(self->store, "chat", QUIPU_ROLE_USER, "x", NULL);
    }
    return NULL;
}

static void threads_that_race_create_one_session_and_lose_no_message(void **state)
{
    sayer sayers[SAY_THREADS];
    quipu_history *history;

    for (size_t i = 0; i < SAY_THREADS; i++) {
        sayers[i] = (sayer){.store = *state};
        assert_int_equal(pthread_create(&sayers[i].thread, NULL, sayer_run, &sayers[i]), 0);
    }
    for (size_t i = 0; i < SAY_THREADS; i++) {
        assert_int_equal(pthread_join(sayers[i].thread, NULL), 0);
        T_OK(sayers[i].status);
    }
    history = st_get(*state, "chat", NULL);
    assert_int_equal(history->messages.count, SAY_THREADS * SAY_EACH);
    st_check_whole(history);
    quipu_free(history);
}

static void append_that_creates_renews_an_expired_session(void **state)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_session_new values = st_values("chat");
    const quipu_message message = st_says(QUIPU_ROLE_USER, "again");
    const quipu_messages messages = quipu_messages_of(&message, 1);

    values.ttl_ms = 1;
    T_OK(quipu_session_create(*state, &values, NULL, NULL, NULL));
    T_OK(quipu_say(*state, "other", QUIPU_ROLE_USER, "x", NULL));
    st_nap();
    T_STATUS(quipu_message_append(*state, values.key, messages, NULL, NULL, NULL, NULL),
             QUIPU_EXPIRED);
    options.flags = QUIPU_APPEND_CREATE;
    T_OK(quipu_message_append(*state, values.key, messages, &options, NULL, &appended, NULL));
    assert_int_equal(appended.first_seq, 1);
    assert_false(appended.repeated);
}

static void append_that_creates_still_checks_the_expected_revision(void **state)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    const quipu_message message = st_says(QUIPU_ROLE_USER, "x");

    options.flags = QUIPU_APPEND_CREATE;
    options.expected_revision = 5;
    T_STATUS(quipu_message_append(*state, QUIPU_STR("chat"), quipu_messages_of(&message, 1),
                                  &options, NULL, NULL, NULL),
             QUIPU_CONFLICT);
    /* All or none: the session was not created either. */
    T_STATUS(st_get_status(*state, "chat"), QUIPU_NOT_FOUND);
}

/* ---- other sizes ----------------------------------------------------------------------------- */

/* A message as a program sees it whose header ends before `mark`. */
#define OLD_MESSAGE offsetof(quipu_message, mark)
#define OLD_CALL offsetof(quipu_tool_call, thought)

static void message_of_an_older_program_is_appended(void **state)
{
    char memory[2 * OLD_MESSAGE];
    char calls[2 * OLD_CALL];
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "let me see");
    quipu_tool_call call = {.id = QUIPU_STR("c1"), .name = QUIPU_STR("look")};
    quipu_history *history;

    memcpy(calls, &call, OLD_CALL);
    call.id = QUIPU_STR("c2");
    memcpy(calls + OLD_CALL, &call, OLD_CALL);
    memcpy(memory, &message, OLD_MESSAGE);
    message.calls = (quipu_tool_calls){calls, 2, OLD_CALL};
    memcpy(memory + OLD_MESSAGE, &message, OLD_MESSAGE);
    st_create(*state, "k");
    T_OK(quipu_message_append(*state, QUIPU_STR("k"), (quipu_messages){memory, 2, OLD_MESSAGE},
                              NULL, NULL, NULL, NULL));
    history = st_get(*state, "k", NULL);
    assert_int_equal(history->messages.count, 2);
    assert_int_equal(quipu_message_at(history->messages, 0)->mark, QUIPU_MARK_NONE);
    const quipu_message *second = quipu_message_at(history->messages, 1);
    assert_int_equal(second->calls.count, 2);
    T_STR(quipu_tool_call_at(second->calls, 1)->id, "c2");
    assert_false(quipu_tool_call_at(second->calls, 1)->thought);
    quipu_free(history);
}

static void message_of_a_newer_program_passes_when_it_sets_nothing_new(void **state)
{
    struct {
        quipu_message known;
        int64_t more;
    } newer = {st_says(QUIPU_ROLE_USER, "x"), 0};
    const quipu_messages messages = {&newer, 1, sizeof(newer)};
    quipu_error err = {0};

    st_create(*state, "k");
    T_OK(quipu_message_append(*state, QUIPU_STR("k"), messages, NULL, NULL, NULL, NULL));
    newer.more = 1;
    T_STATUS(quipu_message_append(*state, QUIPU_STR("k"), messages, NULL, NULL, NULL, &err),
             QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_message"));
    T_STATUS(quipu_message_append(*state, QUIPU_STR("k"), (quipu_messages){&newer, 1, 0}, NULL,
                                  NULL, NULL, NULL),
             QUIPU_MISUSE);
}

static void result_without_its_size_is_refused_before_anything_is_written(void **state)
{
    const quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_appended unsized = {.struct_size = 0};
    quipu_stats stats = {.struct_size = 0};

    st_create(*state, "k");
    T_STATUS(quipu_message_append(*state, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL,
                                  NULL, &unsized, NULL),
             QUIPU_MISUSE);
    T_STATUS(quipu_store_stats(*state, NULL, NULL, &stats, NULL), QUIPU_MISUSE);
    quipu_history *history = st_get(*state, "k", NULL);
    assert_int_equal(history->messages.count, 0);
    quipu_free(history);
}

static void older_program_gets_as_much_of_the_statistics_as_it_knows(void **state)
{
    quipu_stats stats;

    memset(&stats, 0x55, sizeof(stats));
    stats.struct_size = offsetof(quipu_stats, tokens);
    st_create(*state, "k");
    T_OK(quipu_store_stats(*state, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.sessions, 1);
    assert_int_equal(stats.tokens, 0x5555555555555555);
}

/* ---- what is created comes back -------------------------------------------------------------- */

static void fork_returns_the_new_session_without_messages(void **state)
{
    quipu_session_new values = st_values("fork");
    quipu_history *fork = NULL;

    st_create(*state, "k");
    assert_int_equal(st_append(*state, "k", "one"), 1);
    T_OK(quipu_session_fork(*state, QUIPU_STR("k"), 1, &values, NULL, &fork, NULL));
    T_STR(fork->session->key, "fork");
    assert_true(fork->session->is_fork);
    assert_int_equal(fork->session->fork_seq, 1);
    assert_int_equal(fork->session->message_count, 1);
    assert_int_equal(fork->messages.count, 0);
    quipu_free(fork);
    fork = NULL;
    T_STATUS(quipu_session_fork(*state, QUIPU_STR("k"), 1, &values, NULL, &fork, NULL),
             QUIPU_EXISTS);
    assert_null(fork);
}

static void saved_memory_comes_back_as_it_is_stored(void **state)
{
    const quipu_memory memory = {
        .kind = QUIPU_REFLECTION, .session_key = QUIPU_STR("k"), .content = QUIPU_STR("x")};
    quipu_memory_list *saved = NULL;

    T_OK(quipu_memory_save(*state, quipu_memories_of(&memory, 1), NULL, &saved, NULL));
    assert_int_equal(saved->memories.count, 1);
    T_STR(quipu_memory_at(saved->memories, 0)->content, "x");
    assert_int_equal(quipu_memory_at(saved->memories, 0)->generation, 1);
    assert_true(quipu_memory_at(saved->memories, 0)->created_at.s > 0);
    quipu_free(saved);
    T_STATUS(quipu_memory_save(*state, quipu_memories_of(&memory, 0), NULL, NULL, NULL),
             QUIPU_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(say_creates_the_session_and_the_window_reads_it),
        ST_TEST(say_refuses_what_an_append_refuses),
        ST_TEST(threads_that_race_create_one_session_and_lose_no_message),
        ST_TEST(append_that_creates_renews_an_expired_session),
        ST_TEST(append_that_creates_still_checks_the_expected_revision),
        ST_TEST(message_of_an_older_program_is_appended),
        ST_TEST(message_of_a_newer_program_passes_when_it_sets_nothing_new),
        ST_TEST(result_without_its_size_is_refused_before_anything_is_written),
        ST_TEST(older_program_gets_as_much_of_the_statistics_as_it_knows),
        ST_TEST(fork_returns_the_new_session_without_messages),
        ST_TEST(saved_memory_comes_back_as_it_is_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
