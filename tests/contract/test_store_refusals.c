/* Input that cannot be stored is refused by name, and nothing of it is. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <sys/wait.h>
#include <unistd.h>

#include <quipu/adk.h>

static void counts_beyond_the_limits_are_refused_before_anything_is_read(void **state)
{
    quipu_store *store = *state;
    const quipu_tool_call one = {.id = QUIPU_STR("c"), .name = QUIPU_STR("n")};
    quipu_message message = st_says(QUIPU_ROLE_USER, "text");
    quipu_messages messages = quipu_messages_of(&message, 1);
    quipu_error err = {0};

    st_create(store, "s");
    messages.count = SIZE_MAX;
    T_STATUS(quipu_message_append(store, QUIPU_STR("s"), messages, NULL, NULL, NULL, &err),
             QUIPU_LIMIT);
    messages.count = QUIPU_BATCH_MAX + 1;
    T_STATUS(quipu_message_append(store, QUIPU_STR("s"), messages, NULL, NULL, NULL, &err),
             QUIPU_LIMIT);
    messages.count = 1;
    message.role = QUIPU_ROLE_MODEL;
    message.calls = quipu_tool_calls_of(&one, 1);
    message.calls.count = SIZE_MAX;
    T_STATUS(quipu_message_append(store, QUIPU_STR("s"), messages, NULL, NULL, NULL, &err),
             QUIPU_LIMIT);
    message.calls.count = QUIPU_CALLS_MAX + 1;
    T_STATUS(quipu_message_append(store, QUIPU_STR("s"), messages, NULL, NULL, NULL, &err),
             QUIPU_LIMIT);
    quipu_history *history = st_get(store, "s", NULL);
    assert_int_equal(history->messages.count, 0);
    quipu_free(history);
}

static void as_many_calls_as_the_limit_allows_are_stored(void **state)
{
    quipu_store *store = *state;
    quipu_tool_call *calls = calloc(QUIPU_CALLS_MAX, sizeof(*calls));
    quipu_message message = st_says(QUIPU_ROLE_MODEL, "text");
    quipu_error err = {0};

    assert_non_null(calls);
    for (size_t i = 0; i < QUIPU_CALLS_MAX; i++) {
        calls[i] = (quipu_tool_call){.id = QUIPU_STR("c"), .name = QUIPU_STR("n")};
    }
    st_create(store, "s");
    message.calls = quipu_tool_calls_of(calls, QUIPU_CALLS_MAX);
    T_OK(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
    quipu_history *history = st_get(store, "s", NULL);
    assert_int_equal(quipu_message_at(history->messages, 0)->calls.count, QUIPU_CALLS_MAX);
    quipu_free(history);
    free(calls);
}

static void memories_with_impossible_numbers_are_refused(void **state)
{
    quipu_store *store = *state;
    const quipu_memory sound = {.kind = QUIPU_OBSERVATION,
                                .session_key = QUIPU_STR("s"),
                                .content = QUIPU_STR("text"),
                                .source_start = 2,
                                .source_end = 2};
    quipu_memory wrong = sound;
    quipu_error err = {0};

    T_OK(t_memory_save(store, &sound, NULL, NULL, &err));
    wrong.token_count = -1;
    T_STATUS(t_memory_save(store, &wrong, NULL, NULL, &err), QUIPU_INVALID);
    wrong = sound;
    wrong.source_start = 3;
    T_STATUS(t_memory_save(store, &wrong, NULL, NULL, &err), QUIPU_INVALID);
    wrong.source_start = -1;
    T_STATUS(t_memory_save(store, &wrong, NULL, NULL, &err), QUIPU_INVALID);
    wrong = sound;
    wrong.kind = QUIPU_REFLECTION;
    wrong.generation = -1;
    T_STATUS(t_memory_save(store, &wrong, NULL, NULL, &err), QUIPU_INVALID);
    mt_clean(store);
}

/* State of a session stands behind that session's line, and no other state does. */
static void import_refuses_state_in_the_wrong_place(void **state)
{
    static const char *const lines[] = {
        "{\"type\":\"state\",\"scope\":\"session\",\"app_name\":\"a\",\"user_id\":\"u\",\"name\":"
        "\"k\",\"value\":1}\n",
        "{\"type\":\"state\",\"scope\":\"app\",\"app_name\":\"a\",\"user_id\":\"u\",\"name\":\"k\","
        "\"value\":1}\n",
        "{\"type\":\"observation\",\"session_key\":\"s\",\"content\":\"c\",\"token_count\":-1}\n",
        "{\"type\":\"observation\",\"session_key\":\"s\",\"content\":\"c\",\"source_start_index\":"
        "7}\n",
    };
    quipu_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        quipu_store *store = st_open_new(NULL, NULL);
        char text[1024];
        mt_stream stream = {0};

        (void)snprintf(text, sizeof(text),
                       "{\"quipu\":\"export\",\"major\":1,\"minor\":0}\n%s"
                       "{\"type\":\"end\",\"sessions\":0,\"messages\":0,\"states\":%d,\"memories\":"
                       "%d}\n",
                       lines[i], i < 2, i >= 2);
        stream.p = text;
        stream.n = strlen(text);
        T_STATUS(quipu_store_import(store, NULL, mt_read, &stream, NULL, NULL, &err),
                 QUIPU_INVALID);
        assert_non_null(strstr(err.message, "line 2"));
        mt_clean(store);
        quipu_close(store);
    }
}

static void service_in_a_forked_child_is_misuse(void **state)
{
    quipu_store *store = *state;
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        quipu_service *service = NULL;
        quipu_error err = {0};

        _exit(quipu_service_new(store, NULL, &service, &err) == QUIPU_MISUSE && service == NULL
                  ? 0
                  : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Another program may have left the file in another mode: opening it for writing sets it again. */
static void file_outside_of_wal_mode_is_put_back_into_it(void **state)
{
    T_SQLITE_ONLY("journal modes are SQLite's");
    char path[T_PATH_MAX];
    char *bytes = NULL;
    size_t n = 0;
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "s");
    quipu_close(store);
    mt_sql(path, "PRAGMA journal_mode = DELETE");
    bytes = t_file_read(path, &n);
    assert_int_equal(bytes[18], 1); /* the version that writes the file: 1 rollback, 2 log */
    free(bytes);
    store = st_open(path);
    assert_int_equal(st_append(store, "s", "text"), 1);
    quipu_close(store);
    bytes = t_file_read(path, &n);
    assert_int_equal(bytes[18], 2);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(counts_beyond_the_limits_are_refused_before_anything_is_read),
        ST_TEST(as_many_calls_as_the_limit_allows_are_stored),
        ST_TEST(memories_with_impossible_numbers_are_refused),
        cmocka_unit_test(import_refuses_state_in_the_wrong_place),
        ST_TEST(service_in_a_forked_child_is_misuse),
        cmocka_unit_test(file_outside_of_wal_mode_is_put_back_into_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
