/* Contents to messages, and the repair of histories: roles, system instruction, split responses,
 * the one rule for ids. */
#include "lib/t.h"

#include <quipu/model.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "model/message.h"

#define CONVERT_OUT_MAX 100000

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
#define SAYS(who, ...)                                                                             \
    {                                                                                              \
        .role = who, .parts = {                                                                    \
            (const quipu_part[]){__VA_ARGS__},                                                     \
            sizeof((const quipu_part[]){__VA_ARGS__}) / sizeof(quipu_part),                        \
            sizeof(quipu_part)                                                                     \
        }                                                                                          \
    }
#define USER(...) SAYS(QUIPU_ROLE_USER, __VA_ARGS__)
#define MODEL(...) SAYS(QUIPU_ROLE_MODEL, __VA_ARGS__)
#define FUNCTION(...) SAYS(QUIPU_ROLE_FUNCTION, __VA_ARGS__)

static void convert_write(qp_buf *out, const quipu_model_messages *messages)
{
    static const char *const roles[] = {"?", "user", "assistant", "tool", "?", "?", "system"};

    for (size_t i = 0; i < messages->count; i++) {
        const quipu_model_message *message = quipu_model_message_at(*messages, i);

        qp_buf_printf(out, "%s(", roles[message->role]);
        qp_buf_put(out, message->content);
        for (size_t p = 0; p < message->parts.count; p++) {
            const quipu_part *part = quipu_part_at(message->parts, p);

            if (part->kind == QUIPU_PART_CALL || part->kind == QUIPU_PART_RESPONSE) {
                qp_buf_puts(out, part->kind == QUIPU_PART_CALL ? " !" : " =");
                qp_buf_put(out, part->id);
                qp_buf_putc(out, ':');
                qp_buf_put(out, part->name);
            }
        }
        qp_buf_puts(out, ") ");
    }
}

/* "role(content !call-id:tool =answered-id:tool) ..." */
static void convert_expect(const quipu_model_request *request, bool repaired, const char *expected)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_messages messages;
    quipu_error error;
    qp_buf out;

    qp_buf_init(&out, CONVERT_OUT_MAX);
    T_OK(qp_model_convert(request, &arena, &messages, &error));
    if (repaired) {
        T_OK(qp_model_repair(&messages, &arena, &messages, &error));
    }
    convert_write(&out, &messages);
    T_STR(qp_buf_str(&out), expected);
    qp_buf_free(&out);
    quipu_arena_free(&arena);
}

#define EXPECT(list, repaired, expected)                                                           \
    do {                                                                                           \
        quipu_model_request convert_request = QUIPU_MODEL_REQUEST_INIT;                            \
        convert_request.contents = quipu_contents_of(list, sizeof(list) / sizeof((list)[0]));      \
        convert_expect(&convert_request, (repaired), (expected));                                  \
    } while (0)

static void roles_are_mapped(void **state)
{
    const quipu_content contents[] = {SAYS(QUIPU_ROLE_SYSTEM, TEXT("s")),
                                      USER(TEXT("u")),
                                      MODEL(TEXT("m")),
                                      SAYS(QUIPU_ROLE_ASSISTANT, TEXT("a")),
                                      FUNCTION(TEXT("f")),
                                      SAYS(QUIPU_ROLE_TOOL, TEXT("t"))};

    (void)state;
    EXPECT(contents, false, "system(s) user(u) assistant(m) assistant(a) tool(f) tool(t) ");
}

static void texts_are_concatenated_and_nothings_dropped(void **state)
{
    const quipu_content contents[] = {USER(TEXT("one "), TEXT(""), TEXT("two")),
                                      MODEL(TEXT("")),
                                      {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(NULL, 0)}};
    quipu_model_request empty = QUIPU_MODEL_REQUEST_INIT;

    (void)state;
    EXPECT(contents, false, "user(one two) ");
    convert_expect(&empty, false, "");
}

static void system_texts_are_one_first_message(void **state)
{
    const quipu_content contents[] = {USER(TEXT("hi"))};
    const quipu_part system[] = {TEXT("be kind"), TEXT(""), TEXT("be brief")};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    (void)state;
    request.contents = quipu_contents_of(contents, 1);
    request.system = quipu_parts_of(system, 3);
    convert_expect(&request, false, "system(be kind\nbe brief) user(hi) ");
    request.system.count = 1;
    convert_expect(&request, false, "system(be kind) user(hi) ");
}

static void absent_or_empty_system_gives_no_message(void **state)
{
    const quipu_content contents[] = {USER(TEXT("hi"))};
    const quipu_part system[] = {TEXT("")};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    (void)state;
    request.contents = quipu_contents_of(contents, 1);
    convert_expect(&request, false, "user(hi) ");
    request.system = quipu_parts_of(system, 1);
    convert_expect(&request, false, "user(hi) ");
}

static void call_keeps_name_id_and_arguments(void **state)
{
    const quipu_content contents[] = {
        MODEL(TEXT("let me see"), CALL("c1", "exec", "{\"a\": {\"b\":[1.50,null]}}"))};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_messages messages;

    (void)state;
    EXPECT(contents, false, "assistant(let me see !c1:exec) ");
    request.contents = quipu_contents_of(contents, 1);
    T_OK(qp_model_convert(&request, &arena, &messages, NULL));
    T_STR(quipu_part_at(quipu_model_message_at(messages, 0)->parts, 1)->json.text,
          "{\"a\": {\"b\":[1.50,null]}}");
    quipu_arena_free(&arena);
}

static void calls_of_one_content_stay_together(void **state)
{
    const quipu_content contents[] = {MODEL(CALL("a", "f", "{}"), CALL("b", "g", ""))};

    (void)state;
    EXPECT(contents, false, "assistant( !a:f !b:g) ");
}

static void nameless_call_is_dropped(void **state)
{
    const quipu_content contents[] = {MODEL(CALL("x", "", "{}")),
                                      MODEL(TEXT("t"), CALL("y", "", "no JSON"))};

    (void)state;
    EXPECT(contents, false, "assistant(t) ");
}

static void single_response_stays_one_message_with_its_text(void **state)
{
    const quipu_content contents[] = {
        FUNCTION(TEXT("note: "), RESPONSE("c1", "exec", "{\"ok\":true}"), TEXT(" end"))};

    (void)state;
    EXPECT(contents, false, "tool(note: {\"ok\":true} end =c1:exec) ");
}

static void several_responses_are_split_and_keep_their_text(void **state)
{
    const quipu_content contents[] = {FUNCTION(TEXT("all: "), RESPONSE("a", "f", "{\"n\":1}"),
                                               TEXT(" first"), RESPONSE("b", "g", "2"),
                                               RESPONSE("c", "h", "\"3\""), TEXT(" last"))};

    (void)state;
    EXPECT(contents, false, "tool(all: {\"n\":1} first =a:f) tool(2 =b:g) tool(\"3\" last =c:h) ");
}

static void responses_said_by_a_user_become_tool_messages(void **state)
{
    const quipu_content contents[] = {
        MODEL(CALL("a", "f", "{}"), CALL("b", "g", "{}")),
        USER(TEXT("and "), RESPONSE("a", "f", "1"), RESPONSE("b", "g", "2"), TEXT("so?"))};

    (void)state;
    EXPECT(contents, true, "assistant( !a:f !b:g) tool(1 =a:f) tool(2 =b:g) user(and so?) ");
}

static void missing_ids_match_on_both_sides(void **state)
{
    const quipu_content contents[] = {MODEL(CALL("", "exec", "{}")),
                                      FUNCTION(RESPONSE("", "exec", "{}")),
                                      FUNCTION(RESPONSE("", "search", "{}"))};

    (void)state;
    EXPECT(contents, false,
           "assistant( !call_exec:exec) tool({} =call_exec:exec) tool({} =call_search:search) ");
}

/* Two calls of one tool without ids, and ids that come again in a later turn, stay apart. */
static void calls_never_share_an_id(void **state)
{
    const quipu_content contents[] = {MODEL(CALL("", "f", "{}"), CALL("", "f", "{}")),
                                      FUNCTION(RESPONSE("", "f", "1"), RESPONSE("", "f", "2")),
                                      MODEL(CALL("call_f", "f", "{}")),
                                      USER(TEXT("never mind")),
                                      MODEL(CALL("call_f", "f", "{}")),
                                      FUNCTION(RESPONSE("call_f", "f", "4"))};

    (void)state;
    EXPECT(contents, true,
           "assistant( !call_f:f !call_f_2:f) tool(1 =call_f:f) tool(2 =call_f_2:f) "
           "assistant( !call_f_3:f) tool(" QP_MESSAGE_NO_ANSWER " =call_f_3:f) user(never mind) "
           "assistant( !call_f_4:f) tool(4 =call_f_4:f) ");
}

static void response_that_lost_its_id_answers_by_name(void **state)
{
    const quipu_content contents[] = {MODEL(CALL("x", "f", "{}"), CALL("y", "g", "{}")),
                                      FUNCTION(RESPONSE("", "g", "1"), RESPONSE("", "f", "2"))};

    (void)state;
    EXPECT(contents, true, "assistant( !x:f !y:g) tool(1 =y:g) tool(2 =x:f) ");
}

/* The history has what the tool said, only too late: it is sent where providers want it. */
static void late_response_is_sent_right_after_its_call(void **state)
{
    const quipu_content contents[] = {MODEL(CALL("a", "f", "{}"), CALL("b", "g", "{}")),
                                      FUNCTION(RESPONSE("b", "g", "1")), MODEL(TEXT("wait")),
                                      FUNCTION(RESPONSE("a", "f", "2")), MODEL(TEXT("done"))};

    (void)state;
    EXPECT(contents, true,
           "assistant( !a:f !b:g) tool(1 =b:g) tool(2 =a:f) assistant(wait) assistant(done) ");
}

static void words_of_a_tool_answer_the_call_before_them(void **state)
{
    const quipu_content contents[] = {MODEL(CALL("a", "f", "{}")), FUNCTION(TEXT("sun")),
                                      FUNCTION(TEXT("{\"n\":1}")), USER(TEXT("hm")),
                                      MODEL(CALL("b", "f", "{}")), FUNCTION(TEXT("{\"n\":2}"))};

    (void)state;
    EXPECT(contents, true,
           "assistant( !a:f) tool({\"result\":\"sun\"} =a:f) user({\"n\":1}) user(hm) "
           "assistant( !b:f) tool({\"n\":2} =b:f) ");
}

static void repeated_response_keeps_its_id_and_is_not_sent(void **state)
{
    const quipu_content contents[] = {
        MODEL(CALL("a", "f", "{}")), FUNCTION(RESPONSE("a", "f", "1")),
        FUNCTION(RESPONSE("a", "f", "2")), FUNCTION(RESPONSE("x", "g", "3"))};

    (void)state;
    EXPECT(contents, false, "assistant( !a:f) tool(1 =a:f) tool(2 =a:f) tool(3 =x:g) ");
    EXPECT(contents, true, "assistant( !a:f) tool(1 =a:f) ");
}

static void conversion_alone_answers_no_call(void **state)
{
    const quipu_content orphaned[] = {MODEL(CALL("a", "f", "{}")), USER(TEXT("hm"))};
    const quipu_content matched[] = {MODEL(CALL("a", "f", "{}")),
                                     FUNCTION(RESPONSE("a", "f", "1"))};
    const quipu_content pending[] = {USER(TEXT("hm")), MODEL(CALL("a", "f", "{}"))};

    (void)state;
    EXPECT(orphaned, false, "assistant( !a:f) user(hm) ");
    EXPECT(matched, false, "assistant( !a:f) tool(1 =a:f) ");
    EXPECT(pending, false, "user(hm) assistant( !a:f) ");
}

static void repair_closes_each_unanswered_call_once(void **state)
{
    const quipu_content contents[] = {
        MODEL(CALL("a", "f", "{}"), CALL("b", "g", "{}"), CALL("c", "h", "{}")),
        FUNCTION(RESPONSE("b", "g", "1"), RESPONSE("b", "g", "again")), USER(TEXT("hm"))};
    const quipu_content good[] = {
        MODEL(CALL("a", "f", "{}"), CALL("b", "g", "{}"), CALL("c", "h", "{}")),
        FUNCTION(RESPONSE("b", "g", "1"), RESPONSE("b", "g", "2")), USER(TEXT("hm"))};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_messages messages;

    (void)state;
    EXPECT(good, true,
           "assistant( !a:f !b:g !c:h) tool(1 =b:g) tool(" QP_MESSAGE_NO_ANSWER
           " =a:f) tool(" QP_MESSAGE_NO_ANSWER " =c:h) user(hm) ");
    request.contents = quipu_contents_of(contents, 3); /* a result that is no JSON */
    T_STATUS(qp_model_convert(&request, &arena, &messages, NULL), QUIPU_INVALID);
    quipu_arena_free(&arena);
}

static void repair_leaves_pending_calls_alone(void **state)
{
    const quipu_content contents[] = {USER(TEXT("go")),
                                      MODEL(CALL("a", "f", "{}"), CALL("b", "g", "{}")),
                                      FUNCTION(RESPONSE("a", "f", "1"))};

    (void)state;
    EXPECT(contents, true, "user(go) assistant( !a:f !b:g) tool(1 =a:f) ");
}

static void repair_drops_responses_without_a_call(void **state)
{
    const quipu_content contents[] = {FUNCTION(RESPONSE("gone", "f", "1")), USER(TEXT("hi")),
                                      FUNCTION(TEXT("words")), MODEL(TEXT("yes")),
                                      FUNCTION(RESPONSE("a", "f", "1"))};

    (void)state;
    EXPECT(contents, true, "user(hi) user(words) assistant(yes) ");
}

static void repair_joins_calls_of_one_breath(void **state)
{
    const quipu_content contents[] = {
        MODEL(TEXT("both. "), CALL("a", "f", "{}")), MODEL(TEXT("now"), CALL("b", "g", "{}")),
        FUNCTION(RESPONSE("a", "f", "1")), FUNCTION(RESPONSE("b", "g", "2")), MODEL(TEXT("x"))};

    (void)state;
    EXPECT(contents, true,
           "assistant(both. now !a:f !b:g) tool(1 =a:f) tool(2 =b:g) assistant(x) ");
}

static void thought_signatures_are_kept(void **state)
{
    static char big[10000];
    quipu_part parts[] = {{.kind = QUIPU_PART_THOUGHT, .text = QUIPU_STR("hm")},
                          CALL("a", "f", "{}"),
                          {.kind = QUIPU_PART_THOUGHT}};
    quipu_content content = {.role = QUIPU_ROLE_MODEL, .parts = quipu_parts_of(parts, 3)};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_messages messages;

    (void)state;
    memset(big, 0xfe, sizeof(big));
    parts[0].signature = (quipu_bytes){big, sizeof(big)};
    parts[1].signature = (quipu_bytes){"\0\xff", 2};
    parts[1].thought = true;
    request.contents = quipu_contents_of(&content, 1);
    T_OK(qp_model_convert(&request, &arena, &messages, NULL));
    const quipu_model_message *message = quipu_model_message_at(messages, 0);
    assert_int_equal(message->parts.count, 2); /* the empty thought says nothing */
    assert_int_equal(quipu_part_at(message->parts, 0)->signature.n, sizeof(big));
    assert_memory_equal(quipu_part_at(message->parts, 0)->signature.p, big, sizeof(big));
    assert_memory_equal(quipu_part_at(message->parts, 1)->signature.p, "\0\xff", 2);
    assert_true(quipu_part_at(message->parts, 1)->thought);
    T_STR(message->content, "");
    quipu_arena_free(&arena);
}

static void bad_requests_are_refused(void **state)
{
    const quipu_content role[] = {SAYS((quipu_role)9, TEXT("x"))};
    const quipu_content kind[] = {USER({.kind = (quipu_part_kind)9})};
    const quipu_content json[] = {MODEL(CALL("a", "f", "[1]"))};
    const quipu_content *const all[] = {role, kind, json};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_messages messages = {NULL, 7, sizeof(quipu_model_message)};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        request.contents = quipu_contents_of(all[i], 1);
        T_STATUS(qp_model_convert(&request, &arena, &messages, NULL), QUIPU_INVALID);
    }
    request.contents.items = NULL;
    T_STATUS(qp_model_convert(&request, &arena, &messages, NULL), QUIPU_MISUSE);
    T_STATUS(qp_model_convert(NULL, &arena, &messages, NULL), QUIPU_MISUSE);
    request.struct_size = 1;
    T_STATUS(qp_model_convert(&request, &arena, &messages, NULL), QUIPU_MISUSE);
    assert_int_equal(messages.count, 7);
    quipu_arena_free(&arena);
}

static void convert_schema(const char *schema, const char *parameters, const char *expected)
{
    quipu_tool tool = {.name = QUIPU_STR("f")};
    qp_jsonw writer;
    qp_buf out;

    tool.schema.text = quipu_cstr(schema);
    tool.parameters.text = quipu_cstr(parameters);
    qp_buf_init(&out, CONVERT_OUT_MAX);
    qp_jsonw_begin(&writer, &out);
    qp_tool_schema(&tool, &writer);
    T_OK(qp_jsonw_end(&writer));
    T_STR(qp_buf_str(&out), expected);
    qp_buf_free(&out);
}

static void tool_schema_comes_from_either_form(void **state)
{
    (void)state;
    convert_schema("{\"type\":\"object\"}", NULL, "{\"type\":\"object\"}");
    convert_schema(NULL,
                   "{\"type\":\"OBJECT\",\"properties\":{\"type\":{\"type\":\"STRING\"},"
                   "\"l\":{\"type\":\"ARRAY\",\"items\":{\"type\":\"INTEGER\"}}}}",
                   "{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\"},"
                   "\"l\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}}}");
    convert_schema("{\"title\":\"new\"}", "{\"title\":\"old\"}", "{\"title\":\"new\"}");
    convert_schema(NULL, NULL, "{\"type\":\"object\",\"properties\":{}}");
    convert_schema("no JSON", "[]", "{\"type\":\"object\",\"properties\":{}}");
}

static void convert_sweep_body(void *ctx)
{
    const quipu_content contents[] = {MODEL(TEXT("a"), TEXT("b"), CALL("", "f", "{}")),
                                      USER(TEXT("c"), RESPONSE("zz", "g", "1"))};
    const quipu_part system[] = {TEXT("s")};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_messages messages;
    quipu_status status;

    (void)ctx;
    request.contents = quipu_contents_of(contents, 2);
    request.system = quipu_parts_of(system, 1);
    status = qp_model_convert(&request, &arena, &messages, NULL);
    if (status == QUIPU_OK) {
        status = qp_model_repair(&messages, &arena, &messages, NULL);
    }
    T_STATUS(status, t_fault_fired() != 0 ? QUIPU_NOMEM : QUIPU_OK);
    quipu_arena_free(&arena);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(t_fault_sweep(convert_sweep_body, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_are_mapped),
        cmocka_unit_test(texts_are_concatenated_and_nothings_dropped),
        cmocka_unit_test(system_texts_are_one_first_message),
        cmocka_unit_test(absent_or_empty_system_gives_no_message),
        cmocka_unit_test(call_keeps_name_id_and_arguments),
        cmocka_unit_test(calls_of_one_content_stay_together),
        cmocka_unit_test(nameless_call_is_dropped),
        cmocka_unit_test(single_response_stays_one_message_with_its_text),
        cmocka_unit_test(several_responses_are_split_and_keep_their_text),
        cmocka_unit_test(responses_said_by_a_user_become_tool_messages),
        cmocka_unit_test(missing_ids_match_on_both_sides),
        cmocka_unit_test(calls_never_share_an_id),
        cmocka_unit_test(response_that_lost_its_id_answers_by_name),
        cmocka_unit_test(late_response_is_sent_right_after_its_call),
        cmocka_unit_test(words_of_a_tool_answer_the_call_before_them),
        cmocka_unit_test(repeated_response_keeps_its_id_and_is_not_sent),
        cmocka_unit_test(conversion_alone_answers_no_call),
        cmocka_unit_test(repair_closes_each_unanswered_call_once),
        cmocka_unit_test(repair_leaves_pending_calls_alone),
        cmocka_unit_test(repair_drops_responses_without_a_call),
        cmocka_unit_test(repair_joins_calls_of_one_breath),
        cmocka_unit_test(thought_signatures_are_kept),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(tool_schema_comes_from_either_form),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
