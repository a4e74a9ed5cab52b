/* A turn that goes well: what the model sees, what the store keeps, what the caller gets. */
#include "agent/script.h"
#include "lib/short.h"

#define TURN_MANY 40

typedef struct turn_world {
    quipu_store *store;
    script *script;
    quipu_arena arena;
} turn_world;

static int turn_setup(void **state)
{
    turn_world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    world->store = st_open_new(NULL, NULL);
    world->script = script_new();
    st_create(world->store, "s");
    *state = world;
    return 0;
}

static int turn_teardown(void **state)
{
    turn_world *world = *state;

    quipu_close(world->store);
    script_free(world->script);
    quipu_arena_free(&world->arena);
    free(world);
    return 0;
}

#define TURN_TEST(name) cmocka_unit_test_setup_teardown(name, turn_setup, turn_teardown)

static quipu_turn_result turn_says(turn_world *world, const char *says)
{
    quipu_turn_options options = script_options(world->script, says);

    return script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
}

static void turn_expect(turn_world *world, const char *expected)
{
    char *history = script_history(world->store);

    assert_string_equal(history, expected);
    free(history);
    script_check_valid(world->store);
}

static void answer_is_kept_and_given_back(void **state)
{
    turn_world *world = *state;
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    quipu_history *history;

    world->script->steps[0] = (script_step){.texts = {"Hel", "lo"}, .tokens = 90};
    result = turn_says(world, "hi");
    T_STR(result.text, "Hello");
    assert_int_equal(result.steps, 1);
    assert_int_equal(result.finish, QUIPU_FINISH_STOP);
    assert_int_equal(result.first_seq, 1);
    assert_int_equal(result.last_seq, 2);
    assert_int_equal(result.usage->input, 90);
    assert_int_equal(result.usage->cached, 45);
    assert_int_equal(result.usage->total, 97);
    assert_int_equal(world->script->reported[QUIPU_MODEL_TEXT], 2);
    assert_int_equal(world->script->reported[QUIPU_MODEL_DONE], 1);
    assert_string_equal(world->script->prompts[0], "system: Be kind.\nuser: hi\n");
    turn_expect(world, "user: hi|assistant: Hello");
    history = st_get(world->store, "s", NULL);
    T_STR(quipu_message_at(history->messages, 0)->author, "user");
    T_STR(quipu_message_at(history->messages, 1)->author, "agent");
    assert_true(quipu_str_eq(quipu_message_at(history->messages, 0)->invocation_id,
                             quipu_message_at(history->messages, 1)->invocation_id));
    quipu_free(history);
}

/* ADK's readers find the usage and the reason to stop in the event. */
static void answer_is_an_event_with_its_usage(void **state)
{
    turn_world *world = *state;
    quipu_history *history;
    quipu_json event;

    world->script->steps[0] = (script_step){.texts = {"Hello"}, .tokens = 90};
    (void)turn_says(world, "hi");
    history = st_get(world->store, "s", NULL);
    T_OK(t_message_to_event(quipu_message_at(history->messages, 1), NULL, &world->arena, &event,
                            NULL));
    assert_non_null(strstr(event.text.p, "\"promptTokenCount\":90"));
    assert_non_null(strstr(event.text.p, "\"cachedContentTokenCount\":45"));
    assert_non_null(strstr(event.text.p, "\"finishReason\":\"STOP\""));
    assert_non_null(strstr(event.text.p, "\"timestamp\""));
    assert_non_null(strstr(event.text.p, "\"role\":\"model\""));
    quipu_free(history);
}

static void tools_run_and_their_results_go_back(void **state)
{
    turn_world *world = *state;
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;

    world->script->steps[0] =
        (script_step){.texts = {"I look."}, .calls = {"a", "b"}, .tokens = 100};
    world->script->steps[1] = (script_step){.texts = {"Done."}, .tokens = 150};
    result = turn_says(world, "do it");
    assert_int_equal(result.steps, 2);
    assert_int_equal(result.calls, 2);
    assert_int_equal(result.usage->input, 250);
    assert_int_equal(result.last->input, 150);
    T_STR(result.text, "Done.");
    turn_expect(world, "user: do it|assistant: I look.+a{\"n\":0}+b{\"n\":1}|tool: -a{\"ok\":true}|"
                       "tool: -b{\"ok\":true}|assistant: Done.");
    assert_string_equal(world->script->prompts[1],
                        "system: Be kind.\nuser: do it\n"
                        "assistant: I look.+id-0-0/a{\"n\":0}+id-0-1/b{\"n\":1}\n"
                        "tool: -id-0-0/a{\"ok\":true}\ntool: -id-0-1/b{\"ok\":true}\n");
}

static void results_of_every_shape_become_objects(void **state)
{
    static const char *const results[][2] = {
        {"{\"a\":[1]}", "{\"a\":[1]}"},
        {"[1,2]", "{\"result\":[1,2]}"},
        {"plain \"words\"", "{\"result\":\"plain \\\"words\\\"\"}"},
        {NULL, "{\"result\":null}"}};
    turn_world *world = *state;

    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        char expected[200];

        world->script->result = results[i][0];
        world->script->steps[world->script->at] = (script_step){.calls = {"a"}};
        world->script->steps[world->script->at + 1] = (script_step){.texts = {"ok"}};
        (void)turn_says(world, "go");
        (void)snprintf(expected, sizeof(expected), "/a%s\n", results[i][1]);
        assert_non_null(strstr(world->script->prompts[world->script->at - 1], expected));
    }
    script_check_valid(world->store);
}

static void tool_that_was_not_offered_is_answered_without_running_anything(void **state)
{
    turn_world *world = *state;

    world->script->steps[0] = (script_step){.calls = {"rm_rf"}};
    world->script->steps[1] = (script_step){.texts = {"Sorry."}};
    assert_int_equal(turn_says(world, "go").calls, 0);
    assert_int_equal(world->script->tool_runs, 0);
    turn_expect(world,
                "user: go|assistant: +rm_rf{\"n\":0}|tool: -rm_rf{\"error\":\"there is no such "
                "tool\"}|assistant: Sorry.");
}

/* Two calls of one tool without ids are two calls; Lango takes them for one. */
static void calls_without_ids_are_answered_one_by_one(void **state)
{
    turn_world *world = *state;

    world->script->steps[0] = (script_step){.calls = {"a", "a"}, .nameless_ids = true};
    world->script->steps[1] = (script_step){.texts = {"Done."}};
    (void)turn_says(world, "go");
    assert_int_equal(world->script->tool_runs, 2);
    assert_non_null(strstr(world->script->prompts[1],
                           "tool: -call_a/a{\"ok\":true}\ntool: -call_a_2/a{\"ok\":true}\n"));
    script_check_valid(world->store);
}

static void steps_are_limited_at_the_default_and_the_history_stays_valid(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "go");

    for (size_t i = 0; i < SCRIPT_STEPS_MAX; i++) {
        world->script->steps[i] = (script_step){.calls = {"a"}};
    }
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_LIMIT);
    assert_int_equal(world->script->at, QUIPU_TURN_STEPS);
    assert_int_equal(world->script->tool_runs, QUIPU_TURN_STEPS - 1);
    script_check_valid(world->store);
}

/* Whatever a callback ends the turn with, also what the turn itself says of foreign writers. */
static void callback_that_ends_the_turn_leaves_a_valid_history(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "go");

    world->script->steps[0] = (script_step){.texts = {"Let me see."}, .calls = {"a", "b"}};
    world->script->tool_status = QUIPU_CONFLICT;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_CONFLICT);
    assert_int_equal(world->script->tool_runs, 1);
    script_check_valid(world->store);
    world->script->tool_status = QUIPU_OK;
    world->script->steps[1] = (script_step){.texts = {"Half", " of it"}};
    world->script->event_status = QUIPU_CONFLICT;
    options = script_options(world->script, "and?");
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_CONFLICT);
    script_check_valid(world->store);
    char *history = script_history(world->store);
    assert_non_null(strstr(history, "Half"));
    free(history);
}

static void limits_of_the_options_hold_at_the_end_and_past_it(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "go");

    world->script->steps[0] = (script_step){.texts = {"ok"}};
    world->script->steps[1] = (script_step){.texts = {"ok"}};
    options.steps_max = QUIPU_TURN_STEPS_MAX;
    options.token_budget = QUIPU_TURN_BUDGET_MAX;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    options.steps_max = QUIPU_TURN_STEPS_MAX + 1;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_LIMIT);
    options.steps_max = -1;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_LIMIT);
    options.steps_max = 1;
    options.token_budget = (int64_t)QUIPU_TURN_BUDGET_MAX + 1;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_LIMIT);
    turn_expect(world, "user: go|assistant: ok");
}

static void wrong_calls_are_refused_and_write_nothing(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "go");
    quipu_model_request with_contents = QUIPU_MODEL_REQUEST_INIT;
    const quipu_content empty = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(NULL, 0)};
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;

    T_STATUS(
        quipu_turn(NULL, &world->script->provider, &options, NULL, &world->arena, &result, NULL),
        QUIPU_MISUSE);
    T_STATUS(quipu_turn(world->store, NULL, &options, NULL, &world->arena, &result, NULL),
             QUIPU_MISUSE);
    T_STATUS(
        quipu_turn(world->store, &world->script->provider, &options, NULL, NULL, &result, NULL),
        QUIPU_MISUSE);
    with_contents.contents = options.input;
    options.request = &with_contents;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_MISUSE);
    options = script_options(world->script, "go");
    options.input = quipu_contents_of(&empty, 1);
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_MISUSE);
    options = script_options(world->script, "go");
    options.key = QUIPU_STR("nobody");
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_NOT_FOUND);
    options = script_options(world->script, NULL);
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_INVALID);
    options = script_options(world->script, "\xff");
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_INVALID);
    turn_expect(world, "");
    assert_int_equal(world->script->at, 0);
}

/* After a failure the same question can be answered without being asked again. */
static void history_that_waits_is_answered_without_an_input(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, NULL);

    assert_int_equal(st_append(world->store, "s", "well?"), 1);
    world->script->steps[0] = (script_step){.texts = {"Yes."}};
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    turn_expect(world, "user: well?|assistant: Yes.");
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_INVALID);
}

static void thoughts_and_their_signatures_go_back_as_they_came(void **state)
{
    turn_world *world = *state;

    world->script->steps[0] = (script_step){.thought = "hmm", .calls = {"a"}};
    world->script->steps[1] = (script_step){.thought = "x", .redacted = true, .texts = {"Done."}};
    world->script->steps[2] = (script_step){.texts = {"Bye."}};
    (void)turn_says(world, "go");
    (void)turn_says(world, "and?");
    assert_non_null(strstr(world->script->prompts[2],
                           "assistant: <thought hmmsig\xff\x01>+id-0-0/a{\"n\":0}\n"));
    assert_non_null(strstr(world->script->prompts[2], "assistant: <redacted sig\xff\x01>Done.\n"));
}

static void data_of_the_input_is_kept_and_sent_again(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "look");
    const quipu_part parts[] = {
        {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("look: ")},
        {.kind = QUIPU_PART_DATA, .mime = QUIPU_STR("image/png"), .data = {"\x89PNG\0\xff", 6}}};
    const quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(parts, 2)};

    options.input = quipu_contents_of(&content, 1);
    world->script->steps[0] = (script_step){.texts = {"A cat."}};
    world->script->steps[1] = (script_step){.texts = {"Two."}};
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    (void)turn_says(world, "how many?");
    assert_non_null(strstr(world->script->prompts[1], "user: look: [6 bytes of image/png]\n"));
}

/* A prompt begins with all of the prompt before it, also when tools and thoughts are in it. */
static void prompts_only_grow_at_their_end(void **state)
{
    turn_world *world = *state;
    script *played = world->script;
    size_t step = 0;

    for (int i = 0; i < 6; i++) {
        played->steps[step++] = (script_step){
            .thought = "hmm", .texts = {"Tsk \"\\u0000\" \xc3\xa9"}, .calls = {"a", "b"}};
        played->steps[step++] = (script_step){.texts = {"One", " two"}};
    }
    for (int i = 0; i < 6; i++) {
        (void)turn_says(world, "say <that> again, \"please\"");
    }
    for (size_t i = 1; i < step; i++) {
        size_t n = strlen(played->prompts[i - 1]);

        assert_true(strlen(played->prompts[i]) > n);
        assert_memory_equal(played->prompts[i], played->prompts[i - 1], n);
    }
}

/* When the budget is full the window moves seldom, by much: most prompts still only grow. */
static void full_window_moves_seldom(void **state)
{
    turn_world *world = *state;
    script *played = world->script;
    quipu_turn_options options = script_options(
        played, "some twenty tokens of words, that the user says every time he says anything");
    int moves = 0;

    options.token_budget = 400;
    for (size_t i = 0; i < TURN_MANY; i++) {
        played->steps[i] = (script_step){
            .texts = {"and an answer of about as many tokens, which is as good as any other one"}};
        (void)script_turn(world->store, played, &options, &world->arena, QUIPU_OK);
    }
    for (size_t i = 1; i < TURN_MANY; i++) {
        size_t n = strlen(played->prompts[i - 1]);

        moves += strlen(played->prompts[i]) > n &&
                         memcmp(played->prompts[i], played->prompts[i - 1], n) == 0
                     ? 0
                     : 1;
        assert_true(strlen(played->prompts[i]) / 4 <= 400);
    }
    assert_true(moves > 0);
    assert_true(moves <= TURN_MANY / 2);
}

static void budget_is_in_the_models_own_tokens(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "now");
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;

    for (int i = 0; i < TURN_MANY; i++) {
        assert_true(st_append(world->store, "s",
                              "a message of sixteen tokens or so, all in all, "
                              "not more") > 0);
    }
    options.token_budget = 800;
    world->script->steps[0] = (script_step){.texts = {"ok"}};
    world->script->steps[1] = (script_step){.texts = {"ok"}};
    result = script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    assert_true(result.estimated <= 800 && result.estimated > 400);
    T_OK(quipu_model_factor_learn(world->store, QUIPU_STR("test-model"),
                                  &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                        .estimated = 1000,
                                                        .reported = 4000},
                                  NULL, NULL, NULL));
    result = script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    assert_true(result.estimated <= 200 && result.estimated > 50);
    assert_true(result.more_before);
}

static void every_turn_teaches_the_factor(void **state)
{
    turn_world *world = *state;
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    char words[2000];

    memset(words, 'w', sizeof(words));
    words[sizeof(words) - 1] = '\0';
    world->script->steps[0] = (script_step){.texts = {"ok"}, .tokens = 1040};
    result = turn_says(world, words);
    T_OK(
        quipu_model_factor_learn(world->store, QUIPU_STR("test-model"), NULL, NULL, &factor, NULL));
    assert_int_equal(factor.samples, 1);
    assert_int_equal(factor.ppm, 1040 * QUIPU_FACTOR_ONE / result.estimated);
}

/* A summary that an observer writes in the middle of a turn is no reason to stop. */
static void turn_compact(void *ctx)
{
    T_OK(quipu_session_compact(ctx, QUIPU_STR("s"), T_COMPACT(2, QUIPU_STR("so far so good")), NULL,
                               NULL, NULL));
}

static void summary_in_the_middle_of_a_turn_is_fine(void **state)
{
    turn_world *world = *state;

    world->script->steps[0] = (script_step){.texts = {"one"}};
    world->script->steps[1] =
        (script_step){.calls = {"a"}, .before = turn_compact, .before_ctx = world->store};
    world->script->steps[2] = (script_step){.texts = {"two"}};
    world->script->steps[3] = (script_step){.texts = {"three"}};
    (void)turn_says(world, "first");
    (void)turn_says(world, "second");
    (void)turn_says(world, "third");
    assert_non_null(strstr(world->script->prompts[3], "system: Be kind.\nsystem: so far so good\n"
                                                      "user: second\n"));
    assert_null(strstr(world->script->prompts[3], "first"));
}

static void turn_meddle(void *ctx)
{
    assert_true(st_append(ctx, "s", "me too") > 0);
}

static void message_of_somebody_else_ends_the_turn(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "first");

    world->script->steps[0] =
        (script_step){.texts = {"lost"}, .before = turn_meddle, .before_ctx = world->store};
    world->script->steps[1] = (script_step){.texts = {"both"}};
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_CONFLICT);
    turn_expect(world, "user: first|user: me too");
    options = script_options(world->script, NULL);
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    turn_expect(world, "user: first|user: me too|assistant: both");
}

static void whole_answers_come_without_pieces(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "go");

    options.flags = QUIPU_TURN_WHOLE;
    world->script->steps[0] = (script_step){.texts = {"one ", "two"}, .calls = {"a"}};
    world->script->steps[1] = (script_step){.texts = {"three"}};
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    assert_int_equal(world->script->reported[QUIPU_MODEL_TEXT], 0);
    assert_int_equal(world->script->reported[QUIPU_MODEL_TOOL], 1);
    assert_int_equal(world->script->reported[QUIPU_MODEL_DONE], 2);
    turn_expect(world,
                "user: go|assistant: one two+a{\"n\":0}|tool: -a{\"ok\":true}|assistant: three");
    options.flags = 1u << 31;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_MISUSE);
}

static void budget_of_a_turn_is_the_models(void **state)
{
    turn_world *world = *state;
    const quipu_model_row own = {.prefix = QUIPU_STR("small"), .window = 100, .budget = 40};
    const quipu_model_rows rows = quipu_model_rows_of(&own, 1);
    quipu_turn_options options = script_options(world->script, "a question of some words");

    for (size_t i = 0; i < 8; i++) {
        world->script->steps[i] = (script_step){.texts = {"an answer of as many words"}};
    }
    for (int turn = 0; turn < 4; turn++) {
        assert_false(script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK)
                         .more_before);
    }
    options.model = QUIPU_STR("small-1");
    options.models = &rows;
    assert_true(
        script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK).more_before);
    options.models = &(quipu_model_rows){NULL, 1, 0};
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_MISUSE);
}

/* A response in the input answers its call; only what it leaves open is closed. */
static void input_that_answers_a_call_is_no_reason_to_close_it(void **state)
{
    turn_world *world = *state;
    quipu_turn_options options = script_options(world->script, "x");
    const quipu_tool_call calls[] = {
        {.id = QUIPU_STR("p"), .name = QUIPU_STR("ask"), .input = QUIPU_STR("{}")},
        {.id = QUIPU_STR("q"), .name = QUIPU_STR("ask"), .input = QUIPU_STR("{}")}};
    const quipu_message message = {.role = QUIPU_ROLE_ASSISTANT,
                                   .calls = quipu_tool_calls_of(calls, 2)};
    const quipu_part part = {.kind = QUIPU_PART_RESPONSE,
                             .id = QUIPU_STR("p"),
                             .name = QUIPU_STR("ask"),
                             .json = {QUIPU_STR("{\"said\":\"yes\"}")}};
    const quipu_content answer = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};

    assert_int_equal(st_append(world->store, "s", "go"), 1);
    T_OK(quipu_message_append(world->store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL,
                              NULL, NULL, NULL));
    options.input = quipu_contents_of(&answer, 1);
    world->script->steps[0] = (script_step){.texts = {"thanks"}};
    assert_int_equal(
        script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK).closed, 1);
    script_check_valid(world->store);
    assert_non_null(strstr(world->script->prompts[0], "-p/ask{\"said\":\"yes\"}"));
    assert_non_null(strstr(world->script->prompts[0], "-q/ask{\"error\""));
}

/* A live session of ADK's service catches up with what a turn wrote, and ends its calls. */
static void live_session_sees_the_turn(void **state)
{
    turn_world *world = *state;
    const quipu_session_ref ref = {{"", 0}, {"", 0}, {"s", 1}};
    quipu_service *service = NULL;
    quipu_live *session = NULL;
    int64_t closed = -1;

    T_OK(quipu_service_new(world->store, NULL, &service, NULL));
    T_OK(quipu_service_get(service, &ref, NULL, NULL, &session, NULL));
    world->script->steps[0] = (script_step){.calls = {"a"}};
    world->script->steps[1] = (script_step){.texts = {"ok"}};
    (void)turn_says(world, "go");
    T_OK(quipu_live_refresh(session, NULL, NULL));
    assert_int_equal(t_live_event_count(session), 4);
    T_OK(quipu_live_fail_turn(session, (quipu_str){NULL, 0}, NULL, &closed, NULL));
    assert_int_equal(closed, 0);
    quipu_live_free(session);
    quipu_service_free(service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TURN_TEST(answer_is_kept_and_given_back),
        TURN_TEST(answer_is_an_event_with_its_usage),
        TURN_TEST(tools_run_and_their_results_go_back),
        TURN_TEST(results_of_every_shape_become_objects),
        TURN_TEST(tool_that_was_not_offered_is_answered_without_running_anything),
        TURN_TEST(calls_without_ids_are_answered_one_by_one),
        TURN_TEST(steps_are_limited_at_the_default_and_the_history_stays_valid),
        TURN_TEST(callback_that_ends_the_turn_leaves_a_valid_history),
        TURN_TEST(limits_of_the_options_hold_at_the_end_and_past_it),
        TURN_TEST(wrong_calls_are_refused_and_write_nothing),
        TURN_TEST(history_that_waits_is_answered_without_an_input),
        TURN_TEST(thoughts_and_their_signatures_go_back_as_they_came),
        TURN_TEST(data_of_the_input_is_kept_and_sent_again),
        TURN_TEST(prompts_only_grow_at_their_end),
        TURN_TEST(full_window_moves_seldom),
        TURN_TEST(budget_is_in_the_models_own_tokens),
        TURN_TEST(every_turn_teaches_the_factor),
        TURN_TEST(summary_in_the_middle_of_a_turn_is_fine),
        TURN_TEST(message_of_somebody_else_ends_the_turn),
        TURN_TEST(whole_answers_come_without_pieces),
        TURN_TEST(budget_of_a_turn_is_the_models),
        TURN_TEST(input_that_answers_a_call_is_no_reason_to_close_it),
        TURN_TEST(live_session_sees_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
