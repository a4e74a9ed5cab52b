/* Messages out of JSON: what t_message_json() writes comes back, and what is wrong is named. */
#include "contract/maintain_t.h"
#include "lib/short.h"

static quipu_message parsed(quipu_arena *arena, const char *json)
{
    quipu_message message;
    quipu_error err = {0};
    quipu_status status = t_message_parse(quipu_cstr(json), arena, &message, &err);

    if (status != QUIPU_OK) {
        fail_msg("%s: %s", json, err.message);
    }
    return message;
}

static void every_message_comes_back_as_it_was_written(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    static const char *const keys[] = {"rich \xe2\x82\xac \"key\"", "fork of fork", "compact"};
    quipu_arena arena = QUIPU_ARENA_INIT;
    size_t seen = 0;

    (void)state;
    mt_fill(store, path);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        quipu_history *history = st_get(store, keys[k], NULL);
        for (size_t i = 0; i < history->messages.count; i++) {
            quipu_str first = {NULL, 0};
            quipu_str second = {NULL, 0};
            T_OK(t_message_json(quipu_message_at(history->messages, i), &arena, &first, NULL));
            quipu_message back = parsed(&arena, first.p);
            T_OK(t_message_json(&back, &arena, &second, NULL));
            assert_true(back.has_timestamp);
            T_STR(second, first.p);
            assert_true(
                quipu_str_eq(back.content, quipu_message_at(history->messages, i)->content));
            seen++;
        }
        quipu_free(history);
    }
    assert_in_range(seen, 15, 30);
    quipu_arena_free(&arena);
    quipu_close(store);
}

static void short_message_is_enough(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message = parsed(
        &arena, " {\"content\":\"a\\u0000b\", \"role\":\"tool\", \"author\":null, \"toolCalls\":"
                "[{\"id\":\"1\",\"name\":\"ls\",\"input\":{\"a\": 1.0},\"output\":\"x\"}]}");

    (void)state;
    assert_int_equal(message.role, QUIPU_ROLE_TOOL);
    assert_true(quipu_str_eq(message.content, QUIPU_STR("a\0b")));
    assert_null(message.author.p);
    assert_null(message.event_id.p);
    assert_false(message.has_timestamp);
    assert_int_equal(message.calls.count, 1);
    T_STR(quipu_tool_call_at(message.calls, 0)->input, "{\"a\": 1.0}");
    T_STR(quipu_tool_call_at(message.calls, 0)->output, "x");
    message = parsed(&arena, "{\"role\":\"user\"}");
    T_STR(message.content, "");
    quipu_arena_free(&arena);
}

static void wrong_messages_are_refused_with_the_reason(void **state)
{
    static const struct {
        const char *json;
        const char *why;
    } cases[] = {
        {"", "JSON"},
        {"{\"role\":\"user\"", "JSON"},
        {"[1]", "must be a JSON object"},
        {"{}", "\"role\" must be given"},
        {"{\"role\":null}", "\"role\" must be given"},
        {"{\"role\":\"user\",\"role\":\"model\"}", "\"role\" must be given once"},
        {"{\"role\":\"user\",\"content\":\"a\",\"c\\u006fntent\":null}",
         "\"content\" must be given once"},
        {"{\"role\":\"user\",\"content\":\"a \\ud800 b\"}",
         "\"content\" must be without half of a surrogate pair"},
        {"{\"role\":\"user\",\"author\":\"\\udc00\\ud800\"}",
         "\"author\" must be without half of a surrogate pair"},
        {"{\"role\":\"model\",\"toolCalls\":[{\"id\":\"1\",\"output\":\"\\ud800\"}]}",
         "\"toolCalls\" must be without half of a surrogate pair"},
        {"{\"role\":\"usr\"}", "\"role\" must be user"},
        {"{\"role\":1}", "\"role\" must be user"},
        {"{\"role\":\"user\",\"contnet\":\"x\"}", "no member \"contnet\""},
        {"{\"role\":\"user\",\"content\":7}", "\"content\" must be a text"},
        {"{\"role\":\"user\",\"timestamp\":\"soon\"}", "\"timestamp\" must be"},
        {"{\"role\":\"user\",\"timestamp\":7}", "\"timestamp\" must be"},
        {"{\"role\":\"user\",\"extra\":[]}", "\"extra\" must be an object"},
        {"{\"role\":\"user\",\"mark\":\"blue\"}", "\"mark\" must be"},
        {"{\"role\":\"user\",\"seq\":1.5}", "\"seq\" must be"},
        {"{\"role\":\"user\",\"seq\":-1}", "\"seq\" must be"},
        {"{\"role\":\"user\",\"toolCalls\":{}}", "\"toolCalls\" must be"},
        {"{\"role\":\"user\",\"toolCalls\":[1]}", "\"toolCalls\" must be"},
        {"{\"role\":\"user\",\"eventId\":\"a\",\"event_id\":\"b\"}", "given once"},
        {"{\"role\":\"user\",\"toolCalls\":[{\"id\":[]}]}", "\"toolCalls\" must be"},
        {"{\"role\":\"user\",\"content\":\"\xff\"}", "UTF-8"},
    };
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_message message = {.seq = 77};
        quipu_error err = {0};
        quipu_status status = t_message_parse(quipu_cstr(cases[i].json), &arena, &message, &err);
        if (status != QUIPU_INVALID || strstr(err.message, cases[i].why) == NULL) {
            fail_msg("%s: %s, %s", cases[i].json, quipu_status_name(status), err.message);
        }
        assert_int_equal(message.seq, 77);
    }
    quipu_arena_free(&arena);
}

/* An export and the program's --json write snake_case. */
static void members_are_read_in_both_spellings(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const quipu_message message =
        parsed(&arena, "{\"role\":\"user\",\"event_id\":\"e\",\"invocation_id\":\"i\","
                       "\"prompt_tokens\":3,\"tool_calls\":[{\"id\":\"1\",\"name\":\"n\"}]}");

    (void)state;
    T_STR(message.event_id, "e");
    T_STR(message.invocation_id, "i");
    assert_int_equal(message.prompt_tokens, 3);
    assert_int_equal(message.calls.count, 1);
    quipu_arena_free(&arena);
}

static void parsing_needs_a_text_and_places(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message;

    (void)state;
    T_STATUS(t_message_parse((quipu_str){NULL, 0}, &arena, &message, NULL), QUIPU_MISUSE);
    T_STATUS(t_message_parse(QUIPU_STR("{}"), NULL, &message, NULL), QUIPU_MISUSE);
    T_STATUS(t_message_parse(QUIPU_STR("{}"), &arena, NULL, NULL), QUIPU_MISUSE);
}

static void parse_under_faults(void *arg)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message;
    quipu_error err = {0};
    quipu_status status = t_message_parse(quipu_cstr(arg), &arena, &message, &err);

    assert_int_equal(status, t_fault_fired() == 0 ? QUIPU_OK : QUIPU_NOMEM);
    assert_int_equal(err.message[0] == '\0', status == QUIPU_OK);
    quipu_arena_free(&arena);
}

static void failed_allocation_is_reported(void **state)
{
    char json[] = "{\"role\":\"user\",\"content\":\"a\\nb\",\"timestamp\":\"2026-01-31\\u005412:00:"
                  "00Z\",\"extra\":{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21]},"
                  "\"toolCalls\":[{\"id\":\"1\",\"name\":\"n\",\"input\":\"i\"}]}";

    (void)state;
    t_fault_install();
    assert_in_range(t_fault_sweep(parse_under_faults, json), 2, 1000);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_comes_back_as_it_was_written),
        cmocka_unit_test(short_message_is_enough),
        cmocka_unit_test(wrong_messages_are_refused_with_the_reason),
        cmocka_unit_test(members_are_read_in_both_spellings),
        cmocka_unit_test(parsing_needs_a_text_and_places),
        cmocka_unit_test(failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
