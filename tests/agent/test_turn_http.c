/* Turns over HTTP, with the peer of tests/provider: what goes over the wire, and what is kept when
 * the wire breaks. */
#include "agent/script.h"

#include <jansson.h>

#include "tests/provider/peer.h"

#define HTTP_TURNS 4

static quipu_status http_tool(void *ctx, const quipu_part *call, const quipu_call_options *within,
                              quipu_arena *arena, quipu_json *ret_result)
{
    size_t *runs = ctx;

    (void)within;
    (void)arena;
    ++*runs;
    T_STR(call->name, "weather");
    *ret_result = (quipu_json){QUIPU_STR("{\"sky\": \"rain \\u00e9\", \"n\": 1.0}")};
    assert_non_null(strstr(call->json.text.p, "Oslo"));
    return QUIPU_OK;
}

/* A turn of session "s" in which the model may ask for the weather. */
static quipu_status http_turn(quipu_store *store, const quipu_provider *provider, const char *says,
                              const quipu_call_options *call, quipu_turn_result *ret_result,
                              size_t *runs)
{
    const quipu_part part = {.kind = QUIPU_PART_TEXT, .text = quipu_cstr(says)};
    const quipu_content input = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    const quipu_part system = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("Be kind.")};
    const quipu_tool tool = {.name = QUIPU_STR("weather"), .description = QUIPU_STR("of a city")};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;
    static quipu_model_usage last;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};
    quipu_status status;

    request.system = quipu_parts_of(&system, 1);
    request.tools = quipu_tools_of(&tool, 1);
    request.no_cache_marks = true; /* they wander, and no cache looks at them */
    options.key = QUIPU_STR("s");
    options.input = quipu_contents_of(&input, 1);
    options.request = &request;
    options.model = QUIPU_STR("peer-model");
    options.on_tool = http_tool;
    options.tool_ctx = runs;
    status = quipu_turn(store, provider, &options, call, &arena, ret_result, &error);
    if (status != QUIPU_OK) {
        printf("%s: %s\n", quipu_status_name(status), error.message);
    }
    /* What lies in the arena does not outlive it, but for the usage of the last step. */
    ret_result->text = (quipu_str){NULL, 0};
    ret_result->usage = NULL;
    if (ret_result->last != NULL) {
        last = *ret_result->last;
        ret_result->last = &last;
    }
    quipu_arena_free(&arena);
    return status;
}

/* The body of request number `index` of those to this path; free it. */
static char *http_body(const char *how, size_t index)
{
    char *log = peer_log();
    char *body = NULL;
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s/", how);
    for (char *line = log; *line != '\0' && body == NULL;) {
        size_t n = strcspn(line, "\n");
        json_t *record = json_loadb(line, n, 0, NULL);
        const char *to = json_string_value(json_object_get(record, "path"));

        if (to != NULL && strncmp(to, path, strlen(path)) == 0 && index-- == 0) {
            body = strdup(json_string_value(json_object_get(record, "body")));
        }
        json_decref(record);
        line += n + (line[n] != '\0' ? 1 : 0);
    }
    free(log);
    assert_non_null(body);
    return body;
}

/* Every request begins with the one before it, up to the brackets that close that one. */
static void http_check_prefixes(const char *how, size_t count)
{
    char *before = http_body(how, 0);

    for (size_t i = 1; i < count; i++) {
        char *body = http_body(how, i);
        size_t n = strlen(before);

        while (n > 0 && (before[n - 1] == '}' || before[n - 1] == ']')) {
            n--;
        }
        assert_true(n > 0 && strlen(body) > n);
        if (memcmp(body, before, n) != 0) {
            fail_msg("request %zu does not begin with the one before:\n%s\n%s", i, before, body);
        }
        free(before);
        before = body;
    }
    free(before);
}

static void http_talk(quipu_provider_kind kind)
{
    static const char *const says[HTTP_TURNS] = {"hello \"you\"", "use the tool", "thank you",
                                                 "another tool, please"};
    static const char *const hows[] = {"", "talk/openai", "talk/anthropic", "talk/gemini"};
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_provider *provider = peer_provider(kind, hows[kind], NULL);
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    size_t runs = 0;

    st_create(store, "s");
    for (size_t i = 0; i < HTTP_TURNS; i++) {
        T_OK(http_turn(store, provider, says[i], NULL, &result, &runs));
        assert_int_equal(result.steps, strstr(says[i], "tool") != NULL ? 2 : 1);
        assert_int_equal(result.last->cached, 3);
        assert_true(result.last->input >= 40);
        quipu_close(store); /* what the next turn sends comes from the file alone */
        store = st_open(path);
    }
    assert_int_equal(runs, 2);
    script_check_valid(store);
    http_check_prefixes(hows[kind], peer_count(hows[kind]));
    T_OK(quipu_model_factor_learn(store, QUIPU_STR("peer-model"), NULL, NULL, &factor, NULL));
    assert_true(factor.samples > 0);
    quipu_provider_close(provider);
    quipu_close(store);
}

static void talk_over_openai_has_stable_prompts(void **state)
{
    (void)state;
    http_talk(QUIPU_PROVIDER_OPENAI);
}

static void talk_over_anthropic_has_stable_prompts(void **state)
{
    (void)state;
    http_talk(QUIPU_PROVIDER_ANTHROPIC);
}

static void talk_over_gemini_has_stable_prompts(void **state)
{
    (void)state;
    http_talk(QUIPU_PROVIDER_GEMINI);
}

/* What the peer had said before it misbehaved is kept, and the next turn works. */
static void http_broken(const char *how, quipu_status expected, int32_t deadline_ms,
                        const char *history)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_provider *provider = peer_provider(QUIPU_PROVIDER_OPENAI, how, NULL);
    quipu_provider *good = peer_provider(QUIPU_PROVIDER_OPENAI, "talk", NULL);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    size_t runs = 0;
    char *text;

    st_create(store, "s");
    call.deadline_ms = deadline_ms;
    T_STATUS(http_turn(store, provider, "hi", &call, &result, &runs), expected);
    text = script_history(store);
    assert_string_equal(text, history);
    free(text);
    T_OK(http_turn(store, good, "still there?", NULL, &result, &runs));
    script_check_valid(store);
    quipu_provider_close(good);
    quipu_provider_close(provider);
    quipu_close(store);
}

static void stream_that_is_cut_keeps_what_was_said(void **state)
{
    (void)state;
    http_broken("cut", QUIPU_IO, 0, "user: hi|assistant*: So");
    http_broken("clean", QUIPU_IO, 0, "user: hi|assistant*: So");
}

static void error_in_the_stream_keeps_what_was_said(void **state)
{
    (void)state;
    http_broken("error", QUIPU_IO, 0, "user: hi|assistant*: So");
}

static void deadline_in_the_stream_keeps_what_was_said(void **state)
{
    (void)state;
    http_broken("stall", QUIPU_BUSY, 700, "user: hi|assistant*: So");
}

static void refusal_leaves_the_question(void **state)
{
    (void)state;
    http_broken("bad", QUIPU_INVALID, 0, "user: hi");
}

static void busy_peer_is_asked_again(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_provider *provider = peer_provider(QUIPU_PROVIDER_OPENAI, "busy", NULL);
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    size_t runs = 0;
    char *text;

    (void)state;
    st_create(store, "s");
    T_OK(http_turn(store, provider, "hi", NULL, &result, &runs));
    text = script_history(store);
    assert_string_equal(text, "user: hi|assistant: Hello there");
    free(text);
    quipu_provider_close(provider);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(talk_over_openai_has_stable_prompts),
        cmocka_unit_test(talk_over_anthropic_has_stable_prompts),
        cmocka_unit_test(talk_over_gemini_has_stable_prompts),
        cmocka_unit_test(stream_that_is_cut_keeps_what_was_said),
        cmocka_unit_test(error_in_the_stream_keeps_what_was_said),
        cmocka_unit_test(deadline_in_the_stream_keeps_what_was_said),
        cmocka_unit_test(refusal_leaves_the_question),
        cmocka_unit_test(busy_peer_is_asked_again),
    };
    int failed;

    peer_start(NULL, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    peer_stop();
    return failed;
}
