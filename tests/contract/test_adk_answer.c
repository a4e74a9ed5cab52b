/* What a tool answered: readers of messages find it in the content and in the call's output, search
 * finds it, and the file has it once. */
#include "base/token.h"
#include "contract/adk_t.h"
#include "contract/import_t.h"
#include "store/tool_calls.h"

#define ANSWER_KEY "adk:app/u/s"

static char *answer_column(const char *path, const char *sql)
{
    import_rows rows = import_query(path, sql);
    const char *text = import_next(&rows);
    char *copy = text != NULL ? strdup(text) : NULL;

    import_end(&rows);
    assert_non_null(copy);
    return copy;
}

static void a_response_alone_is_content_and_output(void **state)
{
    T_SQLITE_ONLY("it looks into a file");

    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    char *column;

    (void)state;
    adk_append(session,
               "{\"id\":\"e1\",\"timestamp\":1.0,\"author\":\"a\",\"content\":{\"role\":\"user\","
               "\"parts\":[{\"functionResponse\":{\"id\":\"c1\",\"name\":\"weather\",\"response\":{"
               "\"sky\":\"overcast\"}}},{\"functionResponse\":{\"id\":\"c2\",\"name\":\"time\","
               "\"response\":{\"hour\":9}}}]}}");
    quipu_history *history = st_get(world->store, ANSWER_KEY, NULL);
    const quipu_message *message = quipu_message_at(history->messages, 0);
    assert_int_equal(message->role, QUIPU_ROLE_TOOL);
    T_STR(message->content, "{\"sky\":\"overcast\"}{\"hour\":9}");
    assert_int_equal(message->calls.count, 2);
    T_STR(quipu_tool_call_at(message->calls, 0)->id, "c1");
    T_STR(quipu_tool_call_at(message->calls, 0)->name, "weather");
    T_STR(quipu_tool_call_at(message->calls, 0)->output, "{\"sky\":\"overcast\"}");
    T_STR(quipu_tool_call_at(message->calls, 1)->output, "{\"hour\":9}");
    assert_int_equal(strlen(quipu_tool_call_at(message->calls, 0)->output.p),
                     quipu_tool_call_at(message->calls, 0)->output.n);
    quipu_free(history);
    column = answer_column(world->path, "SELECT CAST(tool_calls AS TEXT) FROM messages");
    assert_null(strstr(column, "overcast"));
    free(column);
    quipu_live_free(session);
    session = adk_get(world, "u", "s", NULL);
    assert_null(strstr(adk_event(world, session, 0).p, "\"text\""));
    quipu_live_free(session);
    adk_close(world);
}

static void a_response_is_found_by_its_words(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_error err = {0};

    (void)state;
    adk_append(session, "{\"id\":\"e1\",\"content\":{\"parts\":[{\"functionResponse\":{\"name\":"
                        "\"f\",\"response\":{\"sky\":\"overcast\"}}}]}}");
    options.query = QUIPU_STR("overcast");
    T_OK(quipu_search(world->store, &options, NULL, &results, &err));
    assert_int_equal(results->hits.count, 1);
    quipu_free(results);
    quipu_live_free(session);
    adk_close(world);
}

/* A message with one call for each output. */
static quipu_message answer_of(quipu_tool_call *calls, const char *const *outputs, size_t count,
                               quipu_str content)
{
    for (size_t i = 0; i < count; i++) {
        calls[i] = (quipu_tool_call){
            .id = {"c", 1}, .name = {"f", 1}, .input = {"", 0}, .output = quipu_cstr(outputs[i])};
    }
    return (quipu_message){
        .role = QUIPU_ROLE_TOOL, .content = content, .calls = quipu_tool_calls_of(calls, count)};
}

static void plain_messages_come_back_as_they_were(void **state)
{
    static const struct {
        const char *outputs[3];
        size_t count;
        quipu_str content;
        bool once;
    } cases[] = {
        {{"{\"a\":1}"}, 1, {"{\"a\":1}", 7}, true},
        {{"one", "", "two"}, 3, {"onetwo", 6}, true},
        {{"", ""}, 2, {"", 0}, false},
        {{"one", "two"}, 2, {"one", 3}, false}, /* not all of it */
        {{"one"}, 1, {"one more", 8}, false},   /* more than that */
        {{"one"}, 1, {"two", 3}, false},        /* something else */
        {{"a\xc3\xbc", "\xc3\xbc"}, 2, {"a\xc3\xbc\xc3\xbc", 5}, true},
        {{"ab"}, 1, {"ab\0", 3}, false},
    };
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_error err = {0};

    (void)state;
    st_create(store, "s");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_tool_call calls[3];
        const quipu_message message =
            answer_of(calls, cases[i].outputs, cases[i].count, cases[i].content);
        quipu_appended appended = QUIPU_APPENDED_INIT;

        assert_int_equal(qp_tool_calls_are(message.content, message.calls), cases[i].once);
        T_OK(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL, NULL,
                                  &appended, &err));
        quipu_history *history = st_get(store, "s", NULL);
        const quipu_message *back = quipu_message_at(history->messages, i);
        assert_true(quipu_str_eq(back->content, message.content));
        assert_int_equal(back->calls.count, cases[i].count);
        for (size_t c = 0; c < cases[i].count; c++) {
            T_STR(quipu_tool_call_at(back->calls, c)->output, cases[i].outputs[c]);
            assert_int_equal(strlen(quipu_tool_call_at(back->calls, c)->output.p),
                             quipu_tool_call_at(back->calls, c)->output.n);
        }
        quipu_free(history);
    }
    quipu_close(store);
}

static void half_a_character_is_no_output(void **state)
{
    static const char *const outputs[] = {"a\xc3", "\xbc"};
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_tool_call calls[2];
    const quipu_message message = answer_of(calls, outputs, 2, QUIPU_STR("a\xc3\xbc"));
    quipu_error err = {0};

    (void)state;
    st_create(store, "s");
    T_STATUS(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_INVALID);
    quipu_close(store);
}

/* Bytes and tokens of an answer count once. */
static void an_answer_may_be_as_long_as_a_message(void **state)
{
    enum { MOST = 4096 };
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char text[MOST + 2];
    quipu_error err = {0};

    (void)state;
    options.message_bytes_max = MOST;
    quipu_store *store = st_open_new(&options, NULL);
    st_create(store, "s");
    memset(text, 'x', sizeof(text));
    for (size_t over = 0; over < 2; over++) {
        const quipu_str output = {text, MOST - 2 + over}; /* the id and the name have one each */
        const quipu_tool_call call = {
            .id = {"c", 1}, .name = {"f", 1}, .input = {"", 0}, .output = output};
        const quipu_message message = {
            .role = QUIPU_ROLE_TOOL, .content = output, .calls = quipu_tool_calls_of(&call, 1)};

        T_STATUS(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL,
                                      NULL, NULL, &err),
                 over == 0 ? QUIPU_OK : QUIPU_LIMIT);
    }
    quipu_history *history = st_get(store, "s", NULL);
    assert_in_range(quipu_message_at(history->messages, 0)->tokens, 1, MOST / 3);
    quipu_free(history);
    quipu_close(store);
}

/* The estimate is one rule, whether it reads a message or the column of a file. */
static void an_answer_counts_once_wherever_it_is_counted(void **state)
{
    static const struct {
        const char *content;
        const char *output;
        const char *json; /* as Lango writes it */
    } cases[] = {
        {"a long enough answer", "a long enough answer",
         "[{\"id\":\"call_1\",\"name\":\"weather\",\"input\":\"\",\"output\":\"a long enough "
         "answer\"}]"},
        {"another text", "a long enough answer",
         "[{\"id\":\"call_1\",\"name\":\"weather\",\"input\":\"\",\"output\":\"a long enough "
         "answer\"}]"},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const quipu_tool_call call = {.id = {"call_1", 6},
                                      .name = {"weather", 7},
                                      .input = {"", 0},
                                      .output = quipu_cstr(cases[i].output)};
        const quipu_str content = quipu_cstr(cases[i].content);
        const int64_t apart = quipu_token_estimate(call.id) + quipu_token_estimate(call.name);
        int64_t column = 0;

        T_OK(qp_tool_calls_tokens(content, quipu_cstr(cases[i].json), &column));
        assert_int_equal(qp_tool_calls_estimate(content, quipu_tool_calls_of(&call, 1)), column);
        assert_int_equal(column, qp_token_message(content, NULL, 0) + apart +
                                     (i == 0 ? 0 : quipu_token_estimate(call.output)));
    }
}

static void sizes_that_do_not_fit_are_corrupt(void **state)
{
    T_SQLITE_ONLY("it writes into a file");

    static const char *const columns[] = {
        "[{\"id\":\"c\",\"name\":\"f\",\"input\":\"\",\"output\":99}]",
        "[{\"id\":\"c\",\"name\":\"f\",\"input\":\"\",\"output\":-1}]",
        "[{\"id\":\"c\",\"name\":\"f\",\"input\":\"\",\"output\":1.5}]"};
    static const char *const outputs[] = {"seven"};
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_tool_call calls[1];
    const quipu_message message = answer_of(calls, outputs, 1, QUIPU_STR("seven"));
    quipu_error err = {0};

    (void)state;
    st_create(store, "s");
    T_OK(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        quipu_history *history = NULL;
        char sql[256];

        (void)snprintf(sql, sizeof(sql), "UPDATE messages SET tool_calls = '%s'", columns[i]);
        import_exec(path, sql);
        T_STATUS(quipu_session_get(store, QUIPU_STR("s"), NULL, NULL, &history, &err),
                 QUIPU_CORRUPT);
    }
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_alone_is_content_and_output),
        cmocka_unit_test(a_response_is_found_by_its_words),
        cmocka_unit_test(plain_messages_come_back_as_they_were),
        cmocka_unit_test(half_a_character_is_no_output),
        cmocka_unit_test(an_answer_may_be_as_long_as_a_message),
        cmocka_unit_test(an_answer_counts_once_wherever_it_is_counted),
        cmocka_unit_test(sizes_that_do_not_fit_are_corrupt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
