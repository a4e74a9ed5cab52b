/* The requests that go out, byte for byte, and that a longer talk only adds to them. */
#include "lib/t.h"
#include "model/message.h"

#include <jansson.h>

#include <quipu/model.h>

#include "base/buf.h"
#include "base/str.h"
#include "provider/wire.h"

#define REQUEST_OUT_MAX 1000000

#define TEXT(literal) {.kind = QUIPU_PART_TEXT, .text = {"" literal, sizeof(literal) - 1}}
#define CALL(i, f, j)                                                                              \
    {                                                                                              \
        .kind = QUIPU_PART_CALL, .id = {"" i, sizeof(i) - 1}, .name = {"" f, sizeof(f) - 1},       \
        .json = {                                                                                  \
            {"" j, sizeof(j) - 1}                                                                  \
        }                                                                                          \
    }
#define RESPONSE(i, f, j)                                                                          \
    {                                                                                              \
        .kind = QUIPU_PART_RESPONSE, .id = {"" i, sizeof(i) - 1}, .name = {"" f, sizeof(f) - 1},   \
        .json = {                                                                                  \
            {"" j, sizeof(j) - 1}                                                                  \
        }                                                                                          \
    }

/* Write a request as quipu_model_generate() would have it written. */
static void request_write(const qp_wire *wire, const quipu_model_request *request, bool stream,
                          qp_buf *out)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_params params = {.request = request, .model = request->model, .stream = stream};
    qp_jsonw writer;

    qp_buf_init(out, REQUEST_OUT_MAX);
    T_OK(qp_model_convert(request, &arena, &params.messages, NULL));
    T_OK(qp_model_repair(&params.messages, &arena, &params.messages, NULL));
    qp_jsonw_begin(&writer, out);
    wire->write(&params, false, &writer);
    T_OK(qp_jsonw_end(&writer));
    quipu_arena_free(&arena);
}

static void request_expect(const qp_wire *wire, const quipu_model_request *request, bool stream,
                           const char *expected)
{
    json_t *read;
    qp_buf out;

    request_write(wire, request, stream, &out);
    T_STR(qp_buf_str(&out), expected);
    read = json_loadb(out.p, out.n, 0, NULL); /* somebody else's reader agrees that it is JSON */
    assert_non_null(read);
    json_decref(read);
    qp_buf_free(&out);
}

static const quipu_part request_system[] = {TEXT("Be brief.")};
static const quipu_part request_user[] = {TEXT("Weather in Oslo?")};
static const quipu_part request_model[] = {
    {.kind = QUIPU_PART_THOUGHT, .text = {"hm", 2}, .signature = {"sig", 3}},
    TEXT("Looking."),
    CALL("c:1", "weather", "{\"city\":\"Oslo\"}")};
static const quipu_part request_tool[] = {RESPONSE("c:1", "weather", "[7,\"rain\"]")};
static const quipu_part request_next[] = {
    TEXT("And this?"), {.kind = QUIPU_PART_DATA, .mime = {"image/png", 9}, .data = {"\x89PNG", 4}}};

static const quipu_content request_talk[] = {
    {.role = QUIPU_ROLE_USER, .parts = QUIPU_SLICE_INIT(request_user)},
    {.role = QUIPU_ROLE_MODEL, .parts = QUIPU_SLICE_INIT(request_model)},
    {.role = QUIPU_ROLE_FUNCTION, .parts = QUIPU_SLICE_INIT(request_tool)},
    {.role = QUIPU_ROLE_USER, .parts = QUIPU_SLICE_INIT(request_next)}};

static const quipu_tool request_tools[] = {{.name = {"weather", 7},
                                            .description = {"The weather", 11},
                                            .schema = {{"{\"type\":\"object\"}", 17}}},
                                           {.description = {"nameless", 8}}};

static quipu_model_request request_full(void)
{
    static const quipu_str stops[] = {{"END", 3}};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    request.model = QUIPU_STR("m-1");
    request.system = quipu_parts_of(request_system, 1);
    request.contents = quipu_contents_of(request_talk, 4);
    request.tools = quipu_tools_of(request_tools, 2);
    request.choice = QUIPU_CHOICE_NAMED;
    request.choice_name = QUIPU_STR("weather");
    request.has_temperature = true;
    request.temperature = 0.5;
    request.max_tokens = 100;
    request.stops = stops;
    request.stop_count = 1;
    request.response_schema.text = QUIPU_STR("{\"type\":\"object\"}");
    return request;
}

static void openai_request_is_written(void **state)
{
    quipu_model_request request = request_full();

    (void)state;
    request_expect(
        &qp_wire_openai, &request, true,
        "{\"model\":\"m-1\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"temperature\":0.5,\"max_tokens\":100,\"stop\":[\"END\"],"
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"response\","
        "\"strict\":true,\"schema\":{\"type\":\"object\"}}},"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\","
        "\"description\":\"The weather\",\"parameters\":{\"type\":\"object\"}}}],"
        "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"weather\"}},"
        "\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"content\":\"Weather in Oslo?\"},"
        "{\"role\":\"assistant\",\"content\":\"Looking.\",\"tool_calls\":[{\"id\":\"c:1\","
        "\"type\":\"function\",\"function\":{\"name\":\"weather\","
        "\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c:1\",\"content\":\"[7,\\\"rain\\\"]\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"And this?\"},"
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw==\"}}]}]}");
}

/* A block that changes more often than the instruction before it has a mark of its own: four marks,
 * as many as the API allows. */
static void anthropic_marks_the_instruction_before_a_memory_block(void **state)
{
    static const quipu_part system[] = {TEXT("Be brief."), TEXT("## Conversation Memory")};
    static const quipu_part one[] = {TEXT("one")};
    static const quipu_part two[] = {TEXT("two")};
    static const quipu_part three[] = {TEXT("three")};
    const quipu_content contents[] = {{QUIPU_ROLE_USER, {one, 1, sizeof(one[0])}},
                                      {QUIPU_ROLE_MODEL, {two, 1, sizeof(two[0])}},
                                      {QUIPU_ROLE_USER, {three, 1, sizeof(three[0])}}};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    size_t marks = 0;
    qp_buf out;

    (void)state;
    request.model = QUIPU_STR("claude");
    request.system = quipu_parts_of(system, 2);
    request.contents = quipu_contents_of(contents, 3);
    request.memory_last = true;
    request_write(&qp_wire_anthropic, &request, false, &out);
    assert_non_null(strstr(out.p, "{\"type\":\"text\",\"text\":\"Be brief.\","
                                  "\"cache_control\":{\"type\":\"ephemeral\"}},"
                                  "{\"type\":\"text\",\"text\":\"## Conversation Memory\","
                                  "\"cache_control\":{\"type\":\"ephemeral\"}}]"));
    for (const char *at = out.p; (at = strstr(at, "cache_control")) != NULL; at++) {
        marks++;
    }
    assert_int_equal(marks, 4);
    qp_buf_free(&out);
    /* Without it the texts are one block, as they always were. */
    request.memory_last = false;
    request_write(&qp_wire_anthropic, &request, false, &out);
    assert_non_null(strstr(out.p, "\"Be brief.\\n## Conversation Memory\""));
    qp_buf_free(&out);
}

static void anthropic_request_is_written_with_cache_marks(void **state)
{
    quipu_model_request request = request_full();

    (void)state;
    request.thinking_tokens = 2048;
    request_expect(
        &qp_wire_anthropic, &request, true,
        "{\"model\":\"m-1\",\"stream\":true,\"max_tokens\":100,\"temperature\":0.5,"
        "\"stop_sequences\":[\"END\"],\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2048},"
        "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}}"
        ","
        "\"tools\":[{\"name\":\"weather\",\"description\":\"The weather\","
        "\"input_schema\":{\"type\":\"object\"}}],"
        "\"tool_choice\":{\"type\":\"tool\",\"name\":\"weather\"},"
        "\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\","
        "\"cache_control\":{\"type\":\"ephemeral\"}}],"
        "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
        "\"text\":\"Weather in Oslo?\",\"cache_control\":{\"type\":\"ephemeral\"}}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\","
        "\"signature\":\"sig\"},{\"type\":\"text\",\"text\":\"Looking.\"},"
        "{\"type\":\"tool_use\",\"id\":\"c_1\",\"name\":\"weather\",\"input\":{\"city\":\"Oslo\"}}]"
        "},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c_1\","
        "\"content\":\"[7,\\\"rain\\\"]\"},{\"type\":\"text\",\"text\":\"And this?\"},"
        "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","
        "\"data\":\"iVBORw==\"},\"cache_control\":{\"type\":\"ephemeral\"}}]}]}");
}

static void gemini_request_is_written(void **state)
{
    quipu_model_request request = request_full();

    (void)state;
    request_expect(
        &qp_wire_gemini, &request, true,
        "{\"generationConfig\":{\"temperature\":0.5,\"maxOutputTokens\":100,"
        "\"stopSequences\":[\"END\"],\"responseMimeType\":\"application/json\","
        "\"responseJsonSchema\":{\"type\":\"object\"}},"
        "\"systemInstruction\":{\"parts\":[{\"text\":\"Be brief.\"}]},"
        "\"tools\":[{\"functionDeclarations\":[{\"name\":\"weather\","
        "\"description\":\"The weather\",\"parametersJsonSchema\":{\"type\":\"object\"}}]}],"
        "\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"ANY\","
        "\"allowedFunctionNames\":[\"weather\"]}},"
        "\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"Weather in Oslo?\"}]},"
        "{\"role\":\"model\",\"parts\":[{\"text\":\"hm\",\"thought\":true,"
        "\"thoughtSignature\":\"c2ln\"},{\"text\":\"Looking.\"},"
        "{\"functionCall\":{\"id\":\"c:1\",\"name\":\"weather\",\"args\":{\"city\":\"Oslo\"}}}]},"
        "{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"id\":\"c:1\",\"name\":\"weather\","
        "\"response\":{\"result\":[7,\"rain\"]}}},{\"text\":\"And this?\"},"
        "{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"iVBORw==\"}}]}]}");
}

/* What Gemini wrote besides text and calls goes back to it byte for byte; others get the rest. */
static void parts_of_other_kinds_go_back_to_gemini_alone(void **state)
{
    static const char code[] =
        "{\"executableCode\": {\"code\": \"6*7\"}, \"thoughtSignature\": \"eA\"}";
    const quipu_part parts[] = {TEXT("I compute."),
                                {.kind = QUIPU_PART_OTHER, .json = {{code, sizeof(code) - 1}}}};
    const quipu_content talk[] = {request_talk[0],
                                  {.role = QUIPU_ROLE_MODEL, .parts = quipu_parts_of(parts, 2)}};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    (void)state;
    request.model = QUIPU_STR("m");
    request.contents = quipu_contents_of(talk, 2);
    request.no_cache_marks = true;
    request_expect(
        &qp_wire_gemini, &request, false,
        "{\"generationConfig\":{},\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":"
        "\"Weather in Oslo?\"}]},{\"role\":\"model\",\"parts\":[{\"text\":\"I compute.\"},"
        "{\"executableCode\": {\"code\": \"6*7\"}, \"thoughtSignature\": \"eA\"}]}]}");
    request_expect(&qp_wire_openai, &request, false,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Weather in "
                   "Oslo?\"},{\"role\":\"assistant\",\"content\":\"I compute.\"}]}");
    request_expect(&qp_wire_anthropic, &request, false,
                   "{\"model\":\"m\",\"max_tokens\":8192,\"messages\":[{\"role\":\"user\","
                   "\"content\":[{\"type\":\"text\",\"text\":\"Weather in Oslo?\"}]},"
                   "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":"
                   "\"I compute.\"}]}]}");
}

/* The API refuses such a history without any tool. */
static void anthropic_declares_a_tool_for_calls_of_the_past(void **state)
{
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    qp_buf out;

    (void)state;
    request.model = QUIPU_STR("m");
    request.contents = quipu_contents_of(request_talk, 4);
    request_write(&qp_wire_anthropic, &request, false, &out);
    assert_non_null(strstr(qp_buf_str(&out).p,
                           ",\"tools\":[{\"name\":\"unavailable\",\"description\":\"No tool can "
                           "be called.\",\"input_schema\":{\"type\":\"object\"}}],"
                           "\"tool_choice\":{\"type\":\"none\"},\"messages\":["));
    qp_buf_free(&out);
}

static void smallest_requests_say_nothing_unasked(void **state)
{
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    (void)state;
    request.model = QUIPU_STR("m");
    request.contents = quipu_contents_of(request_talk, 1);
    request.choice = QUIPU_CHOICE_ANY; /* without tools it says nothing */
    request.no_cache_marks = true;
    request_expect(&qp_wire_openai, &request, false,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Weather in "
                   "Oslo?\"}]}");
    request_expect(&qp_wire_anthropic, &request, false,
                   "{\"model\":\"m\",\"max_tokens\":8192,\"messages\":[{\"role\":\"user\","
                   "\"content\":[{\"type\":\"text\",\"text\":\"Weather in Oslo?\"}]}]}");
    request_expect(&qp_wire_gemini, &request, false,
                   "{\"generationConfig\":{},\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":"
                   "\"Weather in Oslo?\"}]}]}");
}

/* What OpenAI's format cannot hold: calls made while thinking, and their results. */
static void openai_leaves_thought_calls_out_with_their_results(void **state)
{
    quipu_part model[] = {CALL("a", "plan", "{}"), CALL("b", "act", "{}")};
    const quipu_part tool[] = {RESPONSE("a", "plan", "1"), RESPONSE("b", "act", "2")};
    const quipu_content talk[] = {{.role = QUIPU_ROLE_MODEL, .parts = quipu_parts_of(model, 2)},
                                  {.role = QUIPU_ROLE_FUNCTION, .parts = quipu_parts_of(tool, 2)}};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    (void)state;
    model[0].thought = true;
    request.model = QUIPU_STR("m");
    request.contents = quipu_contents_of(talk, 2);
    request_expect(&qp_wire_openai, &request, false,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"content\":null,"
                   "\"tool_calls\":[{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":"
                   "\"act\",\"arguments\":\"{}\"}}]},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"2\"}]}");
}

/* A summary of the system's in the middle has no place of its own there. */
static void later_system_messages_are_users_elsewhere(void **state)
{
    const quipu_part summary[] = {TEXT("[summary]")};
    const quipu_content talk[] = {
        {.role = QUIPU_ROLE_USER, .parts = QUIPU_SLICE_INIT(request_user)},
        {.role = QUIPU_ROLE_SYSTEM, .parts = quipu_parts_of(summary, 1)}};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    (void)state;
    request.model = QUIPU_STR("m");
    request.contents = quipu_contents_of(talk, 2);
    request.no_cache_marks = true;
    request_expect(&qp_wire_anthropic, &request, false,
                   "{\"model\":\"m\",\"max_tokens\":8192,\"messages\":[{\"role\":\"user\","
                   "\"content\":[{\"type\":\"text\",\"text\":\"Weather in Oslo?\"},"
                   "{\"type\":\"text\",\"text\":\"[summary]\"}]}]}");
    request_expect(&qp_wire_gemini, &request, false,
                   "{\"generationConfig\":{},\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":"
                   "\"Weather in Oslo?\"},{\"text\":\"[summary]\"}]}]}");
}

/* Without its marks, so that what moves is out of the way. */
static void request_strip_marks(char *text)
{
    static const char mark[] = ",\"cache_control\":{\"type\":\"ephemeral\"}";
    char *at = text;

    while ((at = strstr(at, mark)) != NULL) {
        memmove(at, at + sizeof(mark) - 1, strlen(at + sizeof(mark) - 1) + 1);
    }
}

/* Turn after turn, everything that was sent before is sent again, byte for byte. */
static void longer_talk_keeps_the_bytes_before(void **state)
{
    static const qp_wire *const wires[] = {&qp_wire_openai, &qp_wire_anthropic, &qp_wire_gemini};
    quipu_model_request request = request_full();

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        qp_buf before;
        qp_buf after;
        size_t tail;

        /* Up to the tool's answer: the next user's words open a new turn after it. */
        request.contents.count = 2;
        request_write(wires[i], &request, true, &before);
        request.contents.count = 4;
        request_write(wires[i], &request, true, &after);
        request_strip_marks(before.p);
        request_strip_marks(after.p);
        tail = strlen("]}"); /* the end of the list and of the request */
        assert_true(strlen(after.p) > strlen(before.p));
        assert_memory_equal(before.p, after.p, strlen(before.p) - tail);
        qp_buf_free(&before);
        qp_buf_free(&after);
    }
}

/* At most four marks are allowed; ours stay at two moving ones and a fixed one. */
static void cache_marks_do_not_pile_up(void **state)
{
    quipu_content talk[40];
    quipu_model_request request = request_full();
    size_t marks = 0;
    qp_buf out;

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        talk[i] = (quipu_content){.role = i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_MODEL,
                                  .parts = quipu_parts_of(request_user, 1)};
    }
    request.contents = quipu_contents_of(talk, 39);
    request_write(&qp_wire_anthropic, &request, true, &out);
    for (const char *at = out.p; (at = strstr(at, "cache_control")) != NULL; at++) {
        marks++;
    }
    assert_int_equal(marks, 3);
    qp_buf_free(&out);
}

static void text_that_is_not_utf8_is_refused(void **state)
{
    static const qp_wire *const wires[] = {&qp_wire_openai, &qp_wire_anthropic, &qp_wire_gemini};
    const quipu_part parts[] = {TEXT("\xff")};
    const quipu_model_message message = {
        .role = QUIPU_ROLE_USER, .content = QUIPU_STR("\xff"), .parts = quipu_parts_of(parts, 1)};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_model_params params = {.request = &request,
                                 .messages = quipu_model_messages_of(&message, 1)};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        qp_jsonw writer;
        qp_buf out;

        qp_buf_init(&out, REQUEST_OUT_MAX);
        qp_jsonw_begin(&writer, &out);
        wires[i]->write(&params, false, &writer);
        T_STATUS(qp_jsonw_end(&writer), QUIPU_INVALID);
        qp_buf_free(&out);
    }
}

static void gemini_model_names_cannot_leave_the_path(void **state)
{
    static const char *const bad[] = {"", "a/b", "a?b", "a b", "a%2f", "models/", "../x"};
    quipu_model_params params = {.stream = true};
    qp_buf url;

    (void)state;
    qp_buf_init(&url, 1000);
    params.model = QUIPU_STR("models/gemini-2.5-flash");
    T_OK(qp_wire_gemini.path(&params, &url, NULL));
    T_STR(qp_buf_str(&url), "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        params.model = quipu_cstr(bad[i]);
        assert_int_not_equal(qp_wire_gemini.path(&params, &url, NULL), QUIPU_OK);
    }
    qp_buf_free(&url);
}

static void error_bodies_of_every_shape_are_reported(void **state)
{
    static const struct {
        const char *body;
        int http;
        quipu_status status;
        const char *rule;
        const char *message;
    } cases[] = {
        {"{\"error\":{\"message\":\"no such model\",\"type\":\"invalid_request_error\",\"code\":"
         "\"model_not_found\"}}",
         404, QUIPU_NOT_FOUND, "invalid_request_error", "no such model"},
        {"{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"bad "
         "key\"}}",
         401, QUIPU_MISUSE, "authentication_error", "bad key"},
        {"[{\"error\":{\"code\":400,\"message\":\"bad \\u00e9\",\"status\":\"INVALID_ARGUMENT\"}}]",
         400, QUIPU_INVALID, "INVALID_ARGUMENT", "bad \xc3\xa9"},
        {"{\"error\":\"model 'x' not found\"}", 404, QUIPU_NOT_FOUND, "", "model 'x' not found"},
        {"{\"detail\":\"Not Found\"}", 404, QUIPU_NOT_FOUND, "", "Not Found"},
        {"{\"object\":\"error\",\"message\":\"too long\"}", 413, QUIPU_LIMIT, "", "too long"},
        {"<html>Bad gateway</html>", 502, QUIPU_IO, "", "<html>Bad gateway</html>"},
        {"", 503, QUIPU_BUSY, "", "the provider answered HTTP 503 without a reason"},
        {"{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}", 0, QUIPU_BUSY,
         "rate_limit_error", "slow"},
        {"{\"error\":{\"message\":\"nope\",\"code\":\"rate_limit_exceeded\"}}", 0, QUIPU_BUSY,
         "rate_limit_exceeded", "nope"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_error error;

        T_STATUS(qp_wire_error(quipu_cstr(cases[i].body), cases[i].http, &error), cases[i].status);
        T_STR(quipu_cstr(error.rule), cases[i].rule);
        T_STR(quipu_cstr(error.message), cases[i].message);
        assert_int_equal(error.engine_code, cases[i].http);
    }
}

/* A body of two bytes a letter is quoted up to a whole one. */
static void error_bodies_are_cut_between_characters(void **state)
{
    char body[801] = "x";
    quipu_error error;

    (void)state;
    for (size_t i = 1; i + 2 < sizeof(body); i += 2) {
        memcpy(body + i, "\xc3\xa9", 3);
    }
    T_STATUS(qp_wire_error(quipu_cstr(body), 500, &error), QUIPU_IO);
    assert_true(strlen(error.message) > 100);
    assert_true(qp_utf8_valid(quipu_cstr(error.message)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openai_request_is_written),
        cmocka_unit_test(anthropic_request_is_written_with_cache_marks),
        cmocka_unit_test(anthropic_marks_the_instruction_before_a_memory_block),
        cmocka_unit_test(anthropic_declares_a_tool_for_calls_of_the_past),
        cmocka_unit_test(gemini_request_is_written),
        cmocka_unit_test(parts_of_other_kinds_go_back_to_gemini_alone),
        cmocka_unit_test(smallest_requests_say_nothing_unasked),
        cmocka_unit_test(openai_leaves_thought_calls_out_with_their_results),
        cmocka_unit_test(later_system_messages_are_users_elsewhere),
        cmocka_unit_test(longer_talk_keeps_the_bytes_before),
        cmocka_unit_test(cache_marks_do_not_pile_up),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(gemini_model_names_cannot_leave_the_path),
        cmocka_unit_test(error_bodies_of_every_shape_are_reported),
        cmocka_unit_test(error_bodies_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
