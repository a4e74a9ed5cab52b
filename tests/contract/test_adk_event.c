/* Events to messages and back: nothing is lost, little is stored, the message's members say what
 * other readers expect, every dialect is written. */
#include "contract/adk_event_t.h"

#include "adk/event.h"

#include "base/str.h"
#include "contract/adk_gen.h"
#include "lib/short.h"

static void any_event_comes_back_as_the_same_tree_in_little_room(void **state)
{
    const int64_t count = t_count(20000, 1000000);
    uint64_t random = t_seed();
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, (size_t)1 << 24);
    for (int64_t i = 0; i < count; i++) {
        qp_buf_reset(&buf);
        gen_event(&random, &buf);
        T_OK(qp_buf_status(&buf));
        adk_check_event(buf.p, buf.n);
    }
    qp_buf_free(&buf);
}

static quipu_message encode(quipu_arena *arena, const char *text)
{
    quipu_json event = {quipu_cstr(text)};
    quipu_message message = {0};
    quipu_error err = {0};
    quipu_status status = t_event_to_message(event, arena, &message, &err);

    if (status != QUIPU_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return message;
}

static void a_plain_event_needs_almost_no_extra(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message = encode(
        &arena, "{\"content\":{\"parts\":[{\"text\":\"hi\"}],\"role\":\"user\"},"
                "\"invocation_id\":\"inv\",\"author\":\"user\",\"actions\":{\"state_delta\":{},"
                "\"artifact_delta\":{},\"requested_auth_configs\":{},"
                "\"requested_tool_confirmations\":{}},\"node_info\":{\"path\":\"\"},"
                "\"id\":\"ev-1\",\"timestamp\":1767225700.0}");

    (void)state;
    T_STR(message.extra.text, "{\"adk\":\"sAn\"}");
    T_STR(message.content, "hi");
    T_STR(message.author, "user");
    T_STR(message.event_id, "ev-1");
    T_STR(message.invocation_id, "inv");
    assert_true(message.has_timestamp);
    assert_int_equal(message.timestamp.s, 1767225700);
    assert_int_equal(message.role, QUIPU_ROLE_USER);
    assert_null(message.branch.p);
    quipu_arena_free(&arena);
}

static void calls_and_responses_become_tool_calls(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message = encode(
        &arena, "{\"author\":\"root\",\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"},"
                "{\"functionCall\":{\"id\":\"fc-1\",\"name\":\"search\",\"args\":{\"q\":1.50}},"
                "\"thought\":true,\"thoughtSignature\":\"//77AHNpZw==\"},{\"text\":\"b\"},"
                "{\"functionCall\":{\"name\":\"exec\"}}]}}");

    (void)state;
    assert_int_equal(message.role, QUIPU_ROLE_ASSISTANT);
    T_STR(message.content, "ab");
    assert_int_equal(message.calls.count, 2);
    T_STR(quipu_tool_call_at(message.calls, 0)->id, "fc-1");
    T_STR(quipu_tool_call_at(message.calls, 0)->name, "search");
    T_STR(quipu_tool_call_at(message.calls, 0)->input, "{\"q\":1.50}");
    assert_null(quipu_tool_call_at(message.calls, 0)->output.p);
    assert_true(quipu_tool_call_at(message.calls, 0)->thought);
    assert_int_equal(quipu_tool_call_at(message.calls, 0)->thought_signature.n, 7);
    assert_memory_equal(quipu_tool_call_at(message.calls, 0)->thought_signature.p,
                        "\xff\xfe\xfb\0sig", 7);
    T_STR(quipu_tool_call_at(message.calls, 1)->id, "call_exec");
    T_STR(quipu_tool_call_at(message.calls, 1)->input, "{}");

    message = encode(&arena, "{\"author\":\"root\",\"content\":{\"role\":\"user\",\"parts\":["
                             "{\"function_response\":{\"name\":\"exec\",\"response\":"
                             "{\"big\":9007199254740993}}}]}}");
    assert_int_equal(message.role, QUIPU_ROLE_TOOL);
    T_STR(quipu_tool_call_at(message.calls, 0)->id, "call_exec");
    T_STR(quipu_tool_call_at(message.calls, 0)->output, "{\"big\":9007199254740993}");
    T_STR(quipu_tool_call_at(message.calls, 0)->input, "");
    T_STR(message.content, "{\"big\":9007199254740993}");
    message = encode(&arena, "{\"content\":{\"parts\":[{\"functionResponse\":{\"response\":{\"a\":"
                             "1}}},{\"functionResponse\":{}},{\"functionResponse\":{\"response\":{"
                             "\"b\":2}}}]}}");
    T_STR(message.content, "{\"a\":1}{}{\"b\":2}");
    quipu_arena_free(&arena);
}

static void roles_are_normalised(void **state)
{
    static const struct {
        const char *event;
        quipu_role role;
    } cases[] = {
        {"{\"content\":{\"role\":\"user\",\"parts\":[]}}", QUIPU_ROLE_USER},
        {"{\"content\":{\"role\":\"model\",\"parts\":[]}}", QUIPU_ROLE_ASSISTANT},
        {"{\"content\":{\"role\":\"assistant\",\"parts\":[]}}", QUIPU_ROLE_ASSISTANT},
        {"{\"content\":{\"role\":\"function\",\"parts\":[]}}", QUIPU_ROLE_TOOL},
        {"{\"content\":{\"role\":\"system\",\"parts\":[]}}", QUIPU_ROLE_SYSTEM},
        {"{\"content\":{\"parts\":[]},\"author\":\"user\"}", QUIPU_ROLE_USER},
        {"{\"content\":{\"parts\":[]},\"author\":\"planner\"}", QUIPU_ROLE_ASSISTANT},
        {"{\"author\":\"user\"}", QUIPU_ROLE_USER},
        {"{\"content\":{\"role\":\"user\",\"parts\":[{\"functionCall\":{}},"
         "{\"functionResponse\":{}}]}}",
         QUIPU_ROLE_USER},
    };
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(encode(&arena, cases[i].event).role, cases[i].role);
    }
    quipu_arena_free(&arena);
}

static void odd_texts_show_a_replacement_and_come_back(void **state)
{
    static const char event[] =
        "{\"id\":\"a\\u0000\",\"author\":\"x\\ud800\",\"branch\":\"\\u0000\",\"content\":{"
        "\"role\":\"user\",\"parts\":[{\"text\":\"a\\u0000b\"},{\"text\":\"\\udfff\xef\xbf\xbd\"}]}"
        "}";
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message = encode(&arena, event);

    (void)state;
    T_STR(message.content, "a\xef\xbf\xbd"
                           "b\xef\xbf\xbd\xef\xbf\xbd");
    T_STR(message.author, "x\xef\xbf\xbd");
    assert_int_equal(qp_text_check(message.event_id, NULL), QP_TEXT_OK);
    adk_check_event(event, sizeof(event) - 1);
    quipu_arena_free(&arena);
}

static void converts(const char *event, const quipu_event_dialect *dialect, const char *expected)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message = encode(&arena, event);
    quipu_json back = {{NULL, 0}};
    quipu_error err = {0};

    T_OK(t_message_to_event(&message, dialect, &arena, &back, &err));
    if (!adk_same(back.text, quipu_cstr(expected))) {
        fail_msg("not the same:\n%s\n%s", back.text.p, expected);
    }
    quipu_arena_free(&arena);
}

static void each_runtime_gets_its_dialect(void **state)
{
    static const char python[] =
        "{\"id\":\"1\",\"timestamp\":1767225601.25,\"invocation_id\":\"i\",\"author\":\"a\","
        "\"content\":{\"role\":\"model\",\"parts\":[{\"function_call\":{\"name\":\"f\",\"args\":{"
        "\"my_key\":1}},\"thought_signature\":\"__77\"},{\"inline_data\":{\"data\":\"-_A=\","
        "\"mime_type\":\"a-b\"}}]},\"actions\":{\"state_delta\":{\"user:a_b\":\"x_y\"},"
        "\"requested_tool_confirmations\":{\"a_b\":{\"hint\":\"\"}}},"
        "\"unknown_name\":{\"state_delta\":1},\"cache_metadata\":{\"cache_name\":\"c\"}}";
    static const char go[] =
        "{\"id\":\"1\",\"timestamp\":\"2026-01-01T00:00:01.25Z\",\"invocationId\":\"i\","
        "\"author\":\"a\",\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":"
        "\"f\",\"args\":{\"my_key\":1}},\"thoughtSignature\":\"//77\"},{\"inlineData\":{\"data\":"
        "\"+/A=\",\"mimeType\":\"a-b\"}}]},\"actions\":{\"stateDelta\":{\"user:a_b\":\"x_y\"},"
        "\"requestedToolConfirmations\":{\"a_b\":{\"hint\":\"\"}}},"
        "\"unknown_name\":{\"state_delta\":1},\"cacheMetadata\":{\"cache_name\":\"c\"}}";
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;

    (void)state;
    dialect.key_case = QUIPU_KEYS_CAMEL;
    dialect.bytes = QUIPU_BYTES_STD;
    dialect.time = QUIPU_TIMES_RFC3339;
    converts(python, &dialect, go);
    converts(go, &dialect, go);
    dialect.key_case = QUIPU_KEYS_SNAKE;
    dialect.bytes = QUIPU_BYTES_URL;
    dialect.time = QUIPU_TIMES_SECONDS;
    converts(go, &dialect, python);
    converts(python, &dialect, python);
    converts(python, NULL, python);
}

/* The longest name that ADK has, one that is too long for any, and two that mix both spellings. */
static void a_name_in_neither_spelling_is_left_alone(void **state)
{
    static const char snake[] =
        "{\"id\":\"1\",\"last_consumed_client_message_index\":1,"
        "\"last_consumed_client_message_index_long\":{\"state_delta\":1},"
        "\"cached_contentTokenCount\":2,\"State_delta\":3,\"StateDelta\":4,\"\":5}";
    static const char camel[] =
        "{\"id\":\"1\",\"lastConsumedClientMessageIndex\":1,"
        "\"last_consumed_client_message_index_long\":{\"state_delta\":1},"
        "\"cached_contentTokenCount\":2,\"State_delta\":3,\"StateDelta\":4,\"\":5}";
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;

    (void)state;
    dialect.key_case = QUIPU_KEYS_CAMEL;
    converts(snake, &dialect, camel);
    converts(camel, &dialect, camel);
    dialect.key_case = QUIPU_KEYS_SNAKE;
    converts(camel, &dialect, snake);
    converts(snake, &dialect, snake);
}

/* Each event differs from its dialect in one place, which is hidden behind texts that look like
 * keys and like the ends of texts. An event that differs nowhere stays byte for byte. */
static void one_member_in_another_spelling_is_enough(void **state)
{
    static const struct {
        const char *member; /* of the actions */
        const char *camel;
    } rows[] = {
        {"\"state_delta\" : {}", "\"stateDelta\":{}"},
        {"\"x\":{\"y\":[{}]},\"state_delta\"\t:\n{\"a_b\":1}",
         "\"x\":{\"y\":[{}]},\"stateDelta\":{\"a_b\":1}"},
        {"\"compaction\":{\"compactedContent\":{\"parts\":[{\"thoughtSignature\":\"//8=\"}]}}",
         "\"compaction\":{\"compactedContent\":{\"parts\":[{\"thoughtSignature\":\"__8=\"}]}}"},
        {"\"compaction\":{\"compactedContent\":{\"parts\":[{\"inlineData\":{\"data\":\"+/8=\"}}]}}",
         "\"compaction\":{\"compactedContent\":{\"parts\":[{\"inlineData\":{\"data\":\"-_8=\"}}]}"
         "}"},
        {"\"sdkBlob\":\"+/8=\"", "\"sdkBlob\":\"-_8=\""},
        {"\"sdk_blob\":\"-_8=\"", "\"sdkBlob\":\"-_8=\""},
        {"\"a_b\":\"+/\",\"state\\u005fdelta\":1", "\"a_b\":\"+/\",\"state\\u005fdelta\":1"},
    };
    static const char head[] = "{\"id\":\"1\",\"timestamp\":1767225601.25,\"author\":\"a\\\\\","
                               "\"branch\":\"\\\"state_delta\\\":\",\"actions\":{";
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;

    (void)state;
    dialect.key_case = QUIPU_KEYS_CAMEL;
    dialect.bytes = QUIPU_BYTES_URL;
    dialect.time = QUIPU_TIMES_SECONDS;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char event[512];
        char expected[512];

        (void)snprintf(event, sizeof(event), "%s%s}}", head, rows[i].member);
        (void)snprintf(expected, sizeof(expected), "%s%s}}", head, rows[i].camel);
        converts(event, &dialect, expected);
    }
    dialect.time = QUIPU_TIMES_RFC3339;
    converts("{\"id\":\"1\",\"timestamp\":1767225601.25}", &dialect,
             "{\"id\":\"1\",\"timestamp\":\"2026-01-01T00:00:01.25Z\"}");
    dialect.time = QUIPU_TIMES_SECONDS;
    converts("{\"id\":\"1\",\"timestamp\":\"2026-01-01T00:00:01.25Z\"}", &dialect,
             "{\"id\":\"1\",\"timestamp\":1767225601.25}");
}

static void what_is_no_event_is_refused(void **state)
{
    static const char *const texts[] = {"", "[]", "1", "{", "{\"a\":}", "nul"};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message;
    quipu_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        T_STATUS(t_event_to_message((quipu_json){quipu_cstr(texts[i])}, &arena, &message, &err),
                 QUIPU_INVALID);
    }
    T_STATUS(t_event_to_message((quipu_json){{NULL, 0}}, &arena, &message, &err), QUIPU_MISUSE);
    T_STATUS(t_event_to_message((quipu_json){QUIPU_STR("{}")}, NULL, &message, &err), QUIPU_MISUSE);
    quipu_arena_free(&arena);
}

static void depth_has_its_limit(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message;
    quipu_error err = {0};
    qp_buf buf;

    (void)state;
    for (int over = 0; over < 2; over++) {
        const int levels = QUIPU_EVENT_DEPTH_MAX - 1 + over;

        qp_buf_init(&buf, 10000);
        qp_buf_puts(&buf, "{\"x\":");
        for (int i = 0; i < levels; i++) {
            qp_buf_putc(&buf, '[');
        }
        for (int i = 0; i < levels; i++) {
            qp_buf_putc(&buf, ']');
        }
        qp_buf_putc(&buf, '}');
        if (over == 0) {
            adk_check_event(buf.p, buf.n);
        } else {
            T_STATUS(t_event_to_message((quipu_json){qp_buf_str(&buf)}, &arena, &message, &err),
                     QUIPU_LIMIT);
        }
        qp_buf_free(&buf);
    }
    quipu_arena_free(&arena);
}

static void a_plain_message_becomes_an_event(void **state)
{
    const quipu_tool_call call = {.id = {"c1", 2}, .name = {"f", 1}, .input = {"{\"a\":1}", 7}};
    const quipu_message message = {.role = QUIPU_ROLE_ASSISTANT,
                                   .content = {"hi", 2},
                                   .timestamp = {100, 0},
                                   .event_id = {"e", 1},
                                   .calls = quipu_tool_calls_of(&call, 1)};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_json event = {{NULL, 0}};
    quipu_error err = {0};

    (void)state;
    T_OK(t_message_to_event(&message, NULL, &arena, &event, &err));
    assert_true(
        adk_same(event.text,
                 QUIPU_STR("{\"id\":\"e\",\"timestamp\":100.0,\"author\":\"" QUIPU_ROOT_AGENT
                           "\",\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hi\"},"
                           "{\"functionCall\":{\"id\":\"c1\",\"name\":\"f\",\"args\":{\"a\":1}}}]},"
                           "\"actions\":{}}")));
    quipu_arena_free(&arena);
}

static void extra_that_does_not_fit_is_corrupt(void **state)
{
    static const char *const extras[] = {
        "{\"adk\":{\"f\":\"\",\"p\":[3]}}", "{\"adk\":{\"f\":\"\",\"p\":[\"c\"]}}",
        "{\"adk\":{\"f\":\"\",\"p\":[-1]}}", "{\"adk\":{\"f\":\"\",\"p\":[[]]}}",
        "{\"adk\":{\"f\":\"\",\"p\":[[\"\"]]}}"};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_json event = {{NULL, 0}};
    quipu_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
        const quipu_message message = {.role = QUIPU_ROLE_USER,
                                       .content = {"hi", 2},
                                       .event_id = {"e", 1},
                                       .extra = {quipu_cstr(extras[i])}};
        T_STATUS(t_message_to_event(&message, NULL, &arena, &event, &err), QUIPU_CORRUPT);
    }
    quipu_arena_free(&arena);
}

static void swept_round_trip(void *ctx)
{
    static const char event[] =
        "{\"id\":\"1\",\"x\":[1,2,3],\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"},"
        "{\"text\":\"\\u0000\"},{\"functionCall\":{\"name\":\"f\",\"args\":{}}}]}}";
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_json back = {{NULL, 0}};
    quipu_message message;
    quipu_error err = {0};
    quipu_status status =
        t_event_to_message((quipu_json){quipu_cstr(event)}, &arena, &message, &err);

    (void)ctx;
    if (status == QUIPU_OK) {
        status = t_message_to_event(&message, NULL, &arena, &back, &err);
    }
    T_STATUS(status, t_fault_fired() > 0 ? QUIPU_NOMEM : QUIPU_OK);
    quipu_arena_free(&arena);
}

static void no_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    t_fault_install();
    assert_true(t_fault_sweep(swept_round_trip, NULL) > 3);
    t_fault_remove();
}

/* Every name of ADK's that is rewritten, by its kind: what the search must find. */
static const struct {
    qp_name_kind kind;
    const char *names;
} adk_names[] = {
    {QP_NAME_FREE,
     "agent_state artifact_delta audio_offset avg_logprobs cache_metadata "
     "cached_content_token_count candidates_token_count confidence_scores "
     "custom_metadata display_name end_index end_of_agent end_offset end_timestamp "
     "environment_id error_code error_message file_uri finish_reason "
     "google_maps_widget_context_token grounding_chunk_indices image_search_queries "
     "interaction_id interaction_status interrupt_id invocation_id isolation_scope "
     "language_code last_consumed_client_message_index live_session_id log_probability "
     "log_probability_sum long_running_tool_ids message_as_output mime_type "
     "model_version new_handle num_tokens output_for part_index part_metadata "
     "prompt_token_count publication_date rendered_content requested_auth_configs "
     "response_schema retrieval_queries rewind_before_invocation_id "
     "session_resumption_handle set_model_response skip_summarization speaker_label "
     "start_index start_offset start_timestamp state_delta thoughts_token_count "
     "time_left token_count token_id tool_type tool_use_prompt_token_count "
     "total_token_count traffic_type transfer_reason transfer_to_agent turn_complete "
     "turn_complete_reason voice_activity_type web_search_queries will_continue"},
    {QP_NAME_MODEL,
     "actions audio_transcription cache_tokens_details candidates "
     "candidates_tokens_details chosen_candidates citation_metadata citations "
     "code_execution_result compacted_content compaction content executable_code "
     "file_data function_call function_response go_away grounding_chunks "
     "grounding_metadata grounding_supports input_transcription "
     "live_session_resumption_update logprobs_result media_processing media_resolution "
     "node_info output_transcription partial_args parts prompt_tokens_details "
     "render_ui_widgets requested_input retrieval_metadata retrieved_context "
     "search_entry_point segment source_flagging_uris speech_metadata tool_call "
     "tool_response tool_use_prompt_tokens_details top_candidates usage_metadata "
     "video_metadata voice_activity web words"},
    {QP_NAME_MAP, "requested_tool_confirmations"},
    {QP_NAME_BLOB, "inline_data"},
    {QP_NAME_BYTES, "sdk_blob thought_signature"},
};

static void every_name_is_found_in_both_spellings_and_no_other(void **state)
{
    static const char *const others[] = {
        "",     "a",    "zzz", "state_delt", "state_deltas", "State_delta",
        "text", "role", "_",   "state_Delta"};
    size_t found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(adk_names) / sizeof(adk_names[0]); i++) {
        for (const char *name = adk_names[i].names; *name != '\0'; name += *name == ' ' ? 1 : 0) {
            const size_t n = strcspn(name, " ");
            qp_name_kind kind = (qp_name_kind)-1;
            char camel[QP_NAME_SIZE];
            const char *got = qp_name_find((quipu_str){name, n}, &kind);

            assert_non_null(got);
            assert_int_equal(kind, adk_names[i].kind);
            assert_ptr_equal(qp_name_find(qp_name_camel(got, camel), &kind), got);
            name += n;
            found++;
        }
    }
    assert_int_equal(found, 122);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        qp_name_kind kind = QP_NAME_FREE;

        assert_null(qp_name_find(quipu_cstr(others[i]), &kind));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_found_in_both_spellings_and_no_other),
        cmocka_unit_test(any_event_comes_back_as_the_same_tree_in_little_room),
        cmocka_unit_test(a_plain_event_needs_almost_no_extra),
        cmocka_unit_test(calls_and_responses_become_tool_calls),
        cmocka_unit_test(roles_are_normalised),
        cmocka_unit_test(odd_texts_show_a_replacement_and_come_back),
        cmocka_unit_test(each_runtime_gets_its_dialect),
        cmocka_unit_test(a_name_in_neither_spelling_is_left_alone),
        cmocka_unit_test(one_member_in_another_spelling_is_enough),
        cmocka_unit_test(what_is_no_event_is_refused),
        cmocka_unit_test(depth_has_its_limit),
        cmocka_unit_test(a_plain_message_becomes_an_event),
        cmocka_unit_test(extra_that_does_not_fit_is_corrupt),
        cmocka_unit_test(no_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
