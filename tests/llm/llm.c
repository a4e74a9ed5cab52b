/* A real model, small but real, behind a real server: what recorded streams cannot show. Run by
 * `make test-llm`, which starts the server and says its address in QUIPU_LLM_URL. Nothing here
 * depends on what the model says, only on how it comes, nor on how fast: nothing here has a
 * deadline, and the machine may have other work. A sentence model is at QUIPU_EMBED_URL; of
 * that one it matters what it makes. */
#include "lib/t.h"

#include <quipu/agent.h>
#include <quipu/memory.h>
#include <quipu/provider.h>
#include <quipu/store.h>

#define LLM_TOKENS 48
#define LLM_OBSERVE_TOKENS 200
#define LLM_WINDOW 4096 /* of tests/llm/serve.py */
#define LLM_URL_MAX 200

typedef struct llm_seen {
    size_t texts;
    size_t notices;
    size_t calls;
    size_t usages;
    size_t dones;
    size_t errors;
    size_t text_bytes;
    int64_t estimated; /* tokens of the last prompt of a turn */
    quipu_model_usage usage;
    quipu_cancel *cancel; /* set at the third text, when given */
} llm_seen;

static quipu_status llm_event(void *ctx, const quipu_model_event *event)
{
    llm_seen *seen = ctx;

    switch (event->kind) {
    case QUIPU_MODEL_TEXT:
        seen->texts++;
        seen->text_bytes += event->text.n;
        if (seen->texts == 3) {
            quipu_cancel_set(seen->cancel);
        }
        break;
    case QUIPU_MODEL_THOUGHT:
        break;
    case QUIPU_MODEL_TOOL:
        seen->notices += event->partial ? 1 : 0;
        seen->calls += event->partial ? 0 : 1;
        break;
    case QUIPU_MODEL_USAGE:
        seen->usages++;
        seen->usage = *event->usage;
        break;
    case QUIPU_MODEL_DONE:
        seen->dones++;
        break;
    case QUIPU_MODEL_ERROR:
        seen->errors++;
        break;
    }
    return QUIPU_OK;
}

static quipu_provider *llm_open(quipu_provider_kind kind)
{
    const char *address = getenv("QUIPU_LLM_URL");
    char url[LLM_URL_MAX];
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_provider *provider = NULL;

    assert_non_null(address);
    (void)snprintf(url, sizeof(url), "%s%s", address, kind == QUIPU_PROVIDER_OPENAI ? "/v1" : "");
    options.base_url = quipu_cstr(url);
    options.key = QUIPU_STR("none-needed");
    options.deadline_ms = -1;
    options.first_byte_ms = -1;
    options.idle_ms = -1;
    T_OK(quipu_provider_open(kind, &options, &provider, NULL));
    return provider;
}

static quipu_model_request llm_request(const quipu_content *contents, size_t count)
{
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    request.model = QUIPU_STR("local");
    request.contents = quipu_contents_of(contents, count);
    request.has_temperature = true;
    request.has_seed = true;
    request.seed = 7;
    request.max_tokens = LLM_TOKENS;
    return request;
}

static quipu_tool llm_tool(void)
{
    return (quipu_tool){
        .name = QUIPU_STR("get_weather"),
        .description = QUIPU_STR("Weather of a city"),
        .schema = {QUIPU_STR("{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
                             "\"required\":[\"city\"]}")}};
}

static quipu_status llm_run_tool(void *ctx, const quipu_part *call,
                                 const quipu_call_options *within, quipu_arena *arena,
                                 quipu_json *ret_result)
{
    (void)ctx;
    (void)within;
    (void)arena;
    printf("run %.*s %.*s\n", (int)call->name.n, call->name.p, (int)call->json.text.n,
           call->json.text.p);
    *ret_result = (quipu_json){QUIPU_STR("{\"sky\":\"rain\"}")};
    return QUIPU_OK;
}

/* One turn of a talk that lives in the store alone. */
static quipu_status llm_turn(quipu_store *store, quipu_provider *provider, const char *says,
                             const quipu_model_request *more, llm_seen *seen)
{
    const quipu_part part = {.kind = QUIPU_PART_TEXT, .text = quipu_cstr(says)};
    const quipu_content input = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    quipu_model_request request = llm_request(NULL, 0);
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    quipu_error error = {0};
    quipu_status status;

    options.key = QUIPU_STR("talk");
    options.input = quipu_contents_of(&input, 1);
    options.request = more != NULL ? more : &request;
    options.on_event = llm_event;
    options.event_ctx = seen;
    options.on_tool = llm_run_tool;
    options.steps_max = 2;
    call.cancel = seen->cancel;
    call.deadline_ms = -1;
    status = quipu_turn(store, provider, &options, &call, &arena, &result, &error);
    if (status == QUIPU_OK) {
        printf("[%lld+%lld tokens, %lld cached, estimated %lld] %.*s\n",
               (long long)result.usage->input, (long long)result.usage->output,
               (long long)result.usage->cached, (long long)result.estimated, (int)result.text.n,
               result.text.p);
        assert_true(result.usage->input > 0 && result.usage->output > 0);
        assert_int_equal(seen->errors, 0);
        seen->estimated = result.estimated;
    } else {
        printf("%s: %s\n", quipu_status_name(status), error.message);
    }
    quipu_arena_free(&arena);
    return status;
}

static quipu_store *llm_store(char path[T_PATH_MAX])
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_store *store = NULL;

    t_path(t_tmpdir(), "talk.db", path);
    values.key = QUIPU_STR("talk");
    T_OK(quipu_open(path, NULL, &store, NULL));
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    return store;
}

/* Every call has an answer, and the numbers are whole. */
static quipu_history *llm_history(quipu_store *store)
{
    quipu_history *history = NULL;
    int64_t open = 0;

    T_OK(quipu_session_get(store, QUIPU_STR("talk"), NULL, NULL, &history, NULL));
    for (size_t i = 0; i < history->messages.count; i++) {
        assert_int_equal(quipu_message_at(history->messages, i)->seq, (int64_t)i + 1);
        for (size_t k = 0; k < quipu_message_at(history->messages, i)->calls.count; k++) {
            open +=
                quipu_tool_call_at(quipu_message_at(history->messages, i)->calls, k)->output.p ==
                        NULL
                    ? 1
                    : -1;
        }
    }
    assert_int_equal(open, 0);
    return history;
}

static void talk_of_three_turns_is_kept_by_the_store(void **state)
{
    char path[T_PATH_MAX];
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_store *store = llm_store(path);
    llm_seen seen = {.texts = 0};
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    quipu_history *history;

    (void)state;
    T_OK(llm_turn(store, provider, "Name a fruit, and say why you like it.", NULL, &seen));
    T_OK(llm_turn(store, provider, "What colour is it?", NULL, &seen));
    quipu_close(store);
    store = NULL;
    T_OK(quipu_open(path, NULL, &store, NULL)); /* the talk goes on after a restart */
    T_OK(llm_turn(store, provider, "Thank you. Say goodbye.", NULL, &seen));
    assert_int_equal(seen.dones, 3);
    assert_int_equal(seen.usages, 3);
    assert_true(seen.texts > 3); /* they came in pieces */
    history = llm_history(store);
    assert_int_equal(history->messages.count, 6);
    T_STR(quipu_message_at(history->messages, 2)->content, "What colour is it?");
    assert_int_equal(quipu_message_at(history->messages, 5)->role, QUIPU_ROLE_ASSISTANT);
    assert_true(quipu_message_at(history->messages, 5)->content.n > 0);
    T_OK(quipu_model_factor_learn(store, QUIPU_STR("local"), NULL, NULL, &factor, NULL));
    printf("one estimated token is %.3f of the model's, by %lld reports\n",
           (double)factor.ppm / QUIPU_FACTOR_ONE, (long long)factor.samples);
    assert_true(factor.samples > 0 || seen.estimated < QUIPU_FACTOR_TOKENS_MIN);
    quipu_free(history);
    quipu_close(store);
    quipu_provider_close(provider);
}

/* The model must call a tool; it may want another one after the result, which is one too many. */
static void turn_runs_the_tool_that_the_model_calls(void **state)
{
    char path[T_PATH_MAX];
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_store *store = llm_store(path);
    quipu_model_request request = llm_request(NULL, 0);
    const quipu_tool tool = llm_tool();
    llm_seen seen = {.texts = 0};
    quipu_history *history;
    quipu_status status;

    (void)state;
    request.tools = quipu_tools_of(&tool, 1);
    request.choice = QUIPU_CHOICE_ANY;
    request.max_tokens = 200;
    status = llm_turn(store, provider, "What is the weather in Oslo? Use the get_weather tool.",
                      &request, &seen);
    assert_true(status == QUIPU_OK || status == QUIPU_LIMIT || status == QUIPU_INVALID);
    assert_true(seen.calls >= 1);
    history = llm_history(store);
    assert_true(history->messages.count >= 3);
    assert_true(quipu_message_at(history->messages, 1)->calls.count >= 1);
    T_STR(quipu_tool_call_at(quipu_message_at(history->messages, 1)->calls, 0)->name,
          "get_weather");
    T_STR(quipu_tool_call_at(quipu_message_at(history->messages, 2)->calls, 0)->output,
          "{\"sky\":\"rain\"}");
    quipu_free(history);
    seen = (llm_seen){.texts = 0};
    T_OK(llm_turn(store, provider, "Thank you.", NULL, &seen)); /* the server takes it all */
    quipu_close(store);
    quipu_provider_close(provider);
}

static void turn_that_is_cancelled_keeps_what_was_said(void **state)
{
    char path[T_PATH_MAX];
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_store *store = llm_store(path);
    llm_seen seen = {.cancel = quipu_cancel_new()};
    quipu_history *history;

    (void)state;
    T_STATUS(llm_turn(store, provider, "Count from one to a hundred.", NULL, &seen),
             QUIPU_CANCELLED);
    assert_int_equal(seen.texts, 3);
    history = llm_history(store);
    assert_int_equal(history->messages.count, 2);
    assert_int_equal(quipu_message_at(history->messages, 1)->mark, QUIPU_MARK_TIMEOUT);
    assert_int_equal(quipu_message_at(history->messages, 1)->content.n, seen.text_bytes);
    quipu_free(history);
    quipu_free(seen.cancel);
    seen = (llm_seen){.texts = 0};
    T_OK(llm_turn(store, provider, "Go on.", NULL, &seen));
    quipu_close(store);
    quipu_provider_close(provider);
}

/* A talk that two formats share: begun through one, gone on with through the other. */
static void talk_goes_on_through_anthropics_format(void **state)
{
    char path[T_PATH_MAX];
    quipu_provider *first = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_provider *second = llm_open(QUIPU_PROVIDER_ANTHROPIC);
    quipu_store *store = llm_store(path);
    llm_seen seen = {.texts = 0};
    quipu_history *history;

    (void)state;
    T_OK(llm_turn(store, first, "Name an animal.", NULL, &seen));
    T_OK(llm_turn(store, second, "How many legs has it?", NULL, &seen));
    assert_int_equal(seen.dones, 2);
    history = llm_history(store);
    assert_int_equal(history->messages.count, 4);
    quipu_free(history);
    quipu_close(store);
    quipu_provider_close(second);
    quipu_provider_close(first);
}

/* The call streams, is reported complete once, and its result goes back to the model. */
static void tool_call_streams_and_its_result_goes_back(void **state)
{
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_part ask = {.kind = QUIPU_PART_TEXT,
                      .text = QUIPU_STR("What is the weather in Oslo? Use the get_weather tool.")};
    quipu_part results[QUIPU_STOP_MAX];
    quipu_content contents[3] = {{.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&ask, 1)}};
    quipu_model_request request = llm_request(contents, 1);
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_tool tool = llm_tool();
    llm_seen seen = {.texts = 0};
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_error error;
    size_t count = 0;

    (void)state;
    request.tools = quipu_tools_of(&tool, 1);
    request.choice = QUIPU_CHOICE_ANY;
    request.max_tokens = 200;
    options.on_event = llm_event;
    options.event_ctx = &seen;
    if (quipu_model_generate(provider, &request, &options, NULL, &arena, &response, &error) !=
        QUIPU_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(seen.calls >= 1);
    assert_int_equal(seen.notices, seen.calls);
    assert_int_equal(response.finish, QUIPU_FINISH_TOOLS);
    for (size_t i = 0; i < response.parts.count && count < QUIPU_STOP_MAX; i++) {
        const quipu_part *part = quipu_part_at(response.parts, i);

        if (part->kind == QUIPU_PART_CALL) {
            T_STR(part->name, "get_weather");
            assert_true(part->id.n > 0);
            printf("call %.*s\n", (int)part->json.text.n, part->json.text.p);
            results[count++] = (quipu_part){.kind = QUIPU_PART_RESPONSE,
                                            .id = part->id,
                                            .name = part->name,
                                            .json = {QUIPU_STR("{\"sky\":\"rain\"}")}};
        }
    }
    contents[1] = (quipu_content){.role = QUIPU_ROLE_MODEL, .parts = response.parts};
    contents[2] =
        (quipu_content){.role = QUIPU_ROLE_FUNCTION, .parts = quipu_parts_of(results, count)};
    request.contents.count = 3;
    request.tools.count = 0;
    request.max_tokens = LLM_TOKENS;
    T_OK(quipu_model_generate(provider, &request, &options, NULL, &arena, &response, NULL));
    assert_true(response.text.n > 0);
    quipu_arena_free(&arena);
    quipu_provider_close(provider);
}

static void call_is_cancelled_in_the_middle_and_the_next_one_answers(void **state)
{
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_part ask = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("Count from one to a hundred.")};
    quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&ask, 1)};
    quipu_model_request request = llm_request(&content, 1);
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    llm_seen seen = {.cancel = quipu_cancel_new()};
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;

    (void)state;
    call.cancel = seen.cancel;
    options.on_event = llm_event;
    options.event_ctx = &seen;
    request.max_tokens = 2000;
    T_STATUS(quipu_model_generate(provider, &request, &options, &call, &arena, &response, NULL),
             QUIPU_CANCELLED);
    assert_int_equal(seen.texts, 3);
    assert_int_equal(seen.dones, 0);
    assert_int_equal(seen.errors, 1);
    request.max_tokens = 8;
    T_OK(quipu_model_generate(provider, &request, NULL, NULL, &arena, &response, NULL));
    assert_int_equal(response.finish, QUIPU_FINISH_LENGTH);
    quipu_free(seen.cancel);
    quipu_arena_free(&arena);
    quipu_provider_close(provider);
}

static void same_server_answers_anthropics_format(void **state)
{
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_ANTHROPIC);
    quipu_part system = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("You are kind.")};
    quipu_part ask = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("Say hello.")};
    quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&ask, 1)};
    quipu_model_request request = llm_request(&content, 1);
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    llm_seen seen = {.texts = 0};
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_error error;

    (void)state;
    request.system = quipu_parts_of(&system, 1);
    options.on_event = llm_event;
    options.event_ctx = &seen;
    for (int whole = 0; whole < 2; whole++) {
        options.whole = whole != 0;
        if (quipu_model_generate(provider, &request, &options, NULL, &arena, &response, &error) !=
            QUIPU_OK) {
            fail_msg("%s", error.message);
        }
        assert_true(response.text.n > 0);
        assert_true(response.usage->input > 0 && response.usage->output > 0);
        assert_int_not_equal(response.finish, QUIPU_FINISH_NONE);
    }
    assert_true(seen.texts > 1);
    assert_int_equal(seen.dones, 2);
    quipu_arena_free(&arena);
    quipu_provider_close(provider);
}

static void whole_answer_schema_and_models_work(void **state)
{
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_part ask = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("Describe a cat.")};
    quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&ask, 1)};
    quipu_model_request request = llm_request(&content, 1);
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_model_infos list;

    (void)state;
    options.whole = true;
    request.max_tokens = 200;
    request.response_schema.text =
        QUIPU_STR("{\"type\":\"object\",\"properties\":{\"legs\":{\"type\":\"integer\","
                  "\"minimum\":0,\"maximum\":9}},\"required\":[\"legs\"],"
                  "\"additionalProperties\":false}");
    T_OK(quipu_model_generate(provider, &request, &options, NULL, &arena, &response, NULL));
    printf("%.*s\n", (int)response.text.n, response.text.p);
    assert_non_null(strstr(response.text.p, "\"legs\""));
    T_OK(provider->list(provider->ctx, NULL, &arena, &list, NULL));
    assert_true(list.count >= 1);
    quipu_arena_free(&arena);
    quipu_provider_close(provider);
}

/* A model this small may answer anything. Either its lines are stored and the watermark has moved,
 * or nothing is stored, the messages are still pending, and the status says why. It costs tokens in
 * any case. */
static void what_a_model_observes_is_stored_whole_or_refused_with_a_reason(void **state)
{
    static const char *const said[] = {
        "My name is Ada and I live in Oslo with two cats.",
        "I always travel by train, never by plane.",
        "Remind me on Friday to send the report to Ravi, who is my boss."};
    quipu_provider *provider = llm_open(QUIPU_PROVIDER_OPENAI);
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_status_list *status = NULL;
    quipu_memory_list *list = NULL;
    /* A short answer: within the longest lease also where a token takes seconds. */
    const quipu_model_row row = {
        .prefix = QUIPU_STR("local"), .window = LLM_WINDOW, .output = LLM_OBSERVE_TOKENS};
    const quipu_model_rows models = quipu_model_rows_of(&row, 1);
    char path[T_PATH_MAX];
    quipu_store *store = llm_store(path);

    (void)state;
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        const quipu_message message = {.role = QUIPU_ROLE_USER, .content = quipu_cstr(said[i])};

        T_OK(quipu_message_append(store, QUIPU_STR("talk"), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, NULL));
    }
    options.provider = provider;
    options.model = QUIPU_STR("local");
    options.observe_tokens = 1;
    options.models = &models;
    options.lease_ms = QUIPU_MEMORY_LEASE_MS_MAX;
    call.deadline_ms = -1;
    T_OK(quipu_memory_run(store, &options, &call, &ran, NULL));
    T_OK(quipu_memory_status(store, NULL, NULL, &status, NULL));
    const quipu_memory_progress *at = quipu_memory_progress_at(status->sessions, 0);
    query.kind = QUIPU_OBSERVATION;
    query.session_key = QUIPU_STR("talk");
    T_OK(quipu_memory_find(store, &query, NULL, &list, NULL));
    for (size_t i = 0; i < list->memories.count; i++) {
        printf("observed: %s\n", quipu_memory_at(list->memories, i)->content.p);
    }
    printf("%lld of 3 observed, %lld+%lld tokens, %s\n", (long long)at->watermark,
           (long long)at->model_input, (long long)at->model_output,
           at->last_error.p != NULL ? at->last_error.p : "no failure");
    assert_true(at->model_calls >= 1 && at->model_input > 0 && at->model_output > 0);
    if (ran.failed > 0) {
        assert_int_equal(at->watermark, 0);
        assert_int_equal(list->memories.count, 0);
        assert_non_null(at->last_error.p);
    } else {
        assert_int_equal(at->watermark, 3);
        assert_int_equal(list->memories.count, ran.observations);
    }
    quipu_free(list);
    quipu_free(status);
    quipu_close(store);
    quipu_provider_close(provider);
}

/* What no word of the question has. The sentence model is a small one, but these are far apart. */
static void a_question_in_other_words_finds_its_answer_by_a_real_sentence_model(void **state)
{
    static const char *const said[] = {"The puppy chewed through my favourite sofa.",
                                       "The express to the coast was two hours late.",
                                       "My sister got married in a small chapel last summer.",
                                       "The surgeon said the knee will heal by spring.",
                                       "We had espresso and croissants on the terrace."};
    static const struct {
        const char *question;
        int64_t seq;
    } asked[] = {{"Which furniture did a dog damage?", 1},
                 {"Was there a delay with a train?", 2},
                 {"Whose wedding took place?", 3},
                 {"What about an injured leg?", 4},
                 {"What breakfast drink was it?", 5}};
    quipu_provider_options to = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_provider *embedder = NULL;
    char url[LLM_URL_MAX];
    char path[T_PATH_MAX];
    quipu_store *store = llm_store(path);

    (void)state;
    assert_non_null(getenv("QUIPU_EMBED_URL"));
    (void)snprintf(url, sizeof(url), "%s/v1", getenv("QUIPU_EMBED_URL"));
    to.base_url = quipu_cstr(url);
    to.key = QUIPU_STR("none-needed");
    to.first_byte_ms = -1;
    T_OK(quipu_provider_open(QUIPU_PROVIDER_OPENAI, &to, &embedder, NULL));
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        const quipu_message message = {.role = QUIPU_ROLE_USER, .content = quipu_cstr(said[i])};

        T_OK(quipu_message_append(store, QUIPU_STR("talk"), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, NULL));
    }
    options.embedder = embedder;
    options.embed_model = QUIPU_STR("all-MiniLM-L6-v2");
    options.flags = QUIPU_MEMORY_RUN_EMBED_ONLY;
    call.deadline_ms = -1;
    T_OK(quipu_memory_run(store, &options, &call, &ran, NULL));
    assert_int_equal(ran.embedded, 5);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        quipu_recall_options ask = QUIPU_RECALL_OPTIONS_INIT;
        quipu_recall_results *results = NULL;

        ask.question = quipu_cstr(asked[i].question);
        ask.session_key = QUIPU_STR("talk");
        ask.embedder = embedder;
        ask.embed_model = options.embed_model;
        T_OK(quipu_recall(store, &ask, &call, &results, NULL));
        assert_int_equal(results->vectors, 5);
        printf("%s: %s (%.2f)\n", asked[i].question,
               quipu_recall_hit_at(results->hits, 0)->content.p,
               quipu_recall_hit_at(results->hits, 0)->score);
        assert_int_equal(quipu_recall_hit_at(results->hits, 0)->seq, asked[i].seq);
        quipu_free(results);
    }
    quipu_close(store);
    quipu_provider_close(embedder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(talk_of_three_turns_is_kept_by_the_store),
        cmocka_unit_test(turn_runs_the_tool_that_the_model_calls),
        cmocka_unit_test(turn_that_is_cancelled_keeps_what_was_said),
        cmocka_unit_test(talk_goes_on_through_anthropics_format),
        cmocka_unit_test(tool_call_streams_and_its_result_goes_back),
        cmocka_unit_test(call_is_cancelled_in_the_middle_and_the_next_one_answers),
        cmocka_unit_test(same_server_answers_anthropics_format),
        cmocka_unit_test(whole_answer_schema_and_models_work),
        cmocka_unit_test(what_a_model_observes_is_stored_whole_or_refused_with_a_reason),
        cmocka_unit_test(a_question_in_other_words_finds_its_answer_by_a_real_sentence_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
