/* The envelope: what is a request, which era it belongs to, and which error a wrong one gets. */
#include "mcp/mcp_t.h"

#define RPC_PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

static void bytes_that_are_no_json_get_a_parse_error_without_an_id(void **state)
{
    static const char *const wrong[] = {"x", "{", "{\"jsonrpc\":\"2.0\",", "\"a", "\xff", "nul"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        mcp_send(*state, wrong[i]);
        mcp_has(*state, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,");
    }
}

static void a_value_that_is_no_message_gets_an_invalid_request(void **state)
{
    static const char *const wrong[] = {
        "1",
        "\"ping\"",
        "null",
        "{}",
        "{\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}",
        "[]",
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        mcp_send(*state, wrong[i]);
        mcp_has(*state, "\"error\":{\"code\":-32600,");
    }
}

static void an_id_comes_back_as_it_was_written(void **state)
{
    static const char *const ids[] = {
        "0", "-7", "9007199254740993", "\"\"", "1e2", "\"a\\u0000b\"", "\"\xe2\x82\xac\""};
    char message[200];
    char expected[200];

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        (void)snprintf(message, sizeof(message),
                       "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":%s}", ids[i]);
        (void)snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}",
                       ids[i]);
        assert_string_equal(mcp_send(*state, message), expected);
    }
}

static void an_id_may_have_as_many_bytes_as_the_limit_says(void **state)
{
    char message[QUIPU_MCP_ID_MAX + 200];

    for (int more = 0; more <= 1; more++) {
        (void)snprintf(message, sizeof(message),
                       "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":\"%0*d\"}",
                       QUIPU_MCP_ID_MAX - 2 + more, 7);
        mcp_send(*state, message);
        mcp_has(*state, more == 0 ? "\"result\":{}" : "at most 1024 bytes");
    }
}

static void a_notification_gets_no_answer_and_does_nothing(void **state)
{
    static const char *const sent[] = {
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"no/such\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"initialize\",\"params\":7}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"m\"}}",
    };

    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
        assert_string_equal(mcp_send(*state, sent[i]), "");
    }
}

/* The last of two would count silently, or the first one for another program. */
static void a_member_that_comes_twice_is_refused(void **state)
{
    mcp_initialize(*state, "2025-06-18");
    mcp_send(*state, "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}");
    mcp_has(*state, "\"code\":-32600,\"message\":\"a message has a member twice\"");
    mcp_lacks(*state, "\"id\"");
    mcp_send(*state, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                     "\"name\":\"recall\",\"name\":\"list_sessions\"}}");
    mcp_has(*state, "\"code\":-32602,\"message\":\"params have a member twice\"");
    mcp_send(*state, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                     "\"name\":\"list_sessions\",\"arguments\":{\"limit\":1,\"limit\":2}}}");
    mcp_has(*state, "an argument comes twice");
}

static void params_that_are_no_object_are_refused(void **state)
{
    mcp_send(*state, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}");
    mcp_has(*state, "\"id\":1,\"error\":{\"code\":-32602,");
}

static void a_method_that_does_not_exist_is_named(void **state)
{
    mcp_send(*state, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/lists\"}");
    mcp_has(*state, "{\"code\":-32601,\"message\":\"there is no method tools/lists here\"}");
}

static void initialize_agrees_on_the_clients_revision_or_the_latest_of_its_era(void **state)
{
    static const char *const known[] = {"2025-03-26", "2025-06-18", "2025-11-25"};
    static const char *const unknown[] = {"2024-11-05", "2026-07-28", "1", ""};
    char message[200];

    for (size_t i = 0; i < 3; i++) {
        mcp_initialize(*state, known[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(message, sizeof(message),
                       "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":"
                       "{\"protocolVersion\":\"%s\"}}",
                       unknown[i]);
        mcp_send(*state, message);
        mcp_has(*state, "\"protocolVersion\":\"2025-11-25\"");
    }
    mcp_send(*state, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}");
    mcp_has(*state, "{\"code\":-32602,");
}

static void meta_decides_the_era_and_not_the_method(void **state)
{
    mcp_world *world = *state;

    mcp_initialize(world, "2025-06-18");
    mcp_send(world, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                    "\"protocolVersion\":\"2025-06-18\"," MCP_META "}}");
    mcp_has(world, "\"code\":-32601,");
    assert_true(world->answer.modern);
    assert_int_equal(world->answer.code, -32601);
    mcp_send(world, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" MCP_META "}}");
    mcp_has(world, "\"code\":-32601,");
    mcp_send(world, RPC_PING);
    mcp_has(world, "\"result\":{}");
    assert_false(world->answer.modern);
}

static void a_modern_request_without_its_fields_is_refused(void **state)
{
    static const char *const metas[] = {
        "{}",
        "{\"io.modelcontextprotocol/clientCapabilities\":{}}",
        "{\"io.modelcontextprotocol/protocolVersion\":20260728,"
        "\"io.modelcontextprotocol/clientCapabilities\":{}}",
        "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}",
        "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
        "\"io.modelcontextprotocol/clientCapabilities\":[]}",
    };
    char message[400];

    for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++) {
        (void)snprintf(message, sizeof(message),
                       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":"
                       "{\"_meta\":%s}}",
                       metas[i]);
        mcp_send(*state, message);
        mcp_has(*state, "\"code\":-32602,");
        mcp_has(*state, "io.modelcontextprotocol/");
    }
}

static void an_unsupported_revision_gets_the_list_of_those_that_are(void **state)
{
    mcp_send(*state,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"1900-01-01\","
             "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
    mcp_has(*state, "\"error\":{\"code\":-32022,");
    mcp_has(*state, "\"data\":{\"supported\":[\"2026-07-28\"],\"requested\":\"1900-01-01\"}");
}

static void a_batch_belongs_to_one_revision(void **state)
{
    static const char batch[] =
        "[" RPC_PING ",{\"jsonrpc\":\"2.0\",\"method\":\"x\"},7," RPC_PING "]";

    mcp_send(*state, batch);
    mcp_has(*state, "2025-03-26");
    mcp_initialize(*state, "2025-06-18");
    mcp_send(*state, batch);
    mcp_has(*state, "\"code\":-32600,");
    mcp_initialize(*state, "2025-03-26");
    mcp_send(*state, batch);
    assert_int_equal(
        strncmp(mcp_send(*state, batch), "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{", 38), 0);
    mcp_has(*state, "\"code\":-32600,");
    mcp_has(*state, "},{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]");
    assert_string_equal(mcp_send(*state, "[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]"), "");
    mcp_send(*state, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                     "\"protocolVersion\":\"2025-06-18\"}}]");
    mcp_has(*state, "must not be part of a batch");
}

static void a_batch_may_have_as_many_messages_as_the_limit_says(void **state)
{
    char batch[(QUIPU_MCP_BATCH_MAX + 1) * sizeof(RPC_PING) + 2];

    mcp_initialize(*state, "2025-03-26");
    for (int more = 0; more <= 1; more++) {
        size_t n = 0;

        for (int i = 0; i < QUIPU_MCP_BATCH_MAX + more; i++) {
            batch[n] = i == 0 ? '[' : ',';
            memcpy(batch + n + 1, RPC_PING, sizeof(RPC_PING) - 1);
            n += sizeof(RPC_PING);
        }
        batch[n] = ']';
        batch[n + 1] = '\0';
        mcp_send(*state, batch);
        mcp_has(*state, more == 0 ? "\"result\":{}" : "1 to 100 messages");
    }
}

#define BIG_TEXT 300000 /* bytes of a message */
#define BIG_COUNT 55    /* such results have a little less than QUIPU_MCP_RESPONSE_MAX */

/* A batch that reads message 1 so many times, and then message `last`, unless that is 0. */
static const char *read_often(mcp_world *world, int count, int last)
{
    qp_buf batch;
    const char *response;

    qp_buf_init(&batch, QUIPU_MCP_REQUEST_MAX);
    for (int i = 0; i < count + (last > 0 ? 1 : 0); i++) {
        qp_buf_printf(&batch,
                      "%s{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                      "\"name\":\"read_messages\",\"arguments\":{\"session\":\"s\",\"seq\":%d,"
                      "\"before\":0,\"after\":0,\"max_tokens\":100000}}}",
                      i == 0 ? "[" : ",", i < count ? 1 : last);
    }
    qp_buf_puts(&batch, "]");
    response = mcp_bytes(world, qp_buf_str(&batch));
    qp_buf_free(&batch);
    return response;
}

static void append_text(mcp_world *world, size_t n)
{
    char *text = test_malloc(n);
    quipu_message message = {.role = QUIPU_ROLE_USER,
                             .content = {text, n},
                             .has_timestamp = true, /* of one length in every result */
                             .timestamp = {1700000000, 0}};
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;

    memset(text, 'x', n);
    options.flags = QUIPU_APPEND_CREATE;
    T_OK(quipu_message_append(world->store, QUIPU_STR("s"), quipu_messages_of(&message, 1),
                              &options, NULL, NULL, NULL));
    test_free(text);
}

/* The results of a batch that do not fit are errors of their own, and the server goes on. */
static void results_of_a_batch_have_one_limit_together(void **state)
{
    mcp_world *world = *state;
    size_t before;
    size_t around; /* bytes of a result, without the text */
    size_t rest;

    mcp_initialize(world, "2025-03-26");
    append_text(world, BIG_TEXT);
    (void)read_often(world, 1, 0);
    around = strlen(strstr(world->response.p, "\"result\":") + strlen("\"result\":")) -
             strlen("}]") - BIG_TEXT;
    (void)read_often(world, BIG_COUNT, 0);
    mcp_lacks(world, "\"code\"");
    before = world->response.n; /* with a comma in the place of the bracket */
    rest = QUIPU_MCP_RESPONSE_MAX - before - around;
    append_text(world, rest);
    append_text(world, rest + 1);
    (void)read_often(world, BIG_COUNT, 2);
    mcp_lacks(world, "\"code\"");
    (void)read_often(world, BIG_COUNT, 3);
    mcp_has(world, "\"code\":-32603,");
    mcp_has(world, "send it alone");
    /* What a small result says is never lost: its tool may have written. */
    (void)read_often(world, QUIPU_MCP_BATCH_MAX, 0);
    assert_true(world->response.n < QUIPU_MCP_RESPONSE_MAX + QUIPU_MCP_REQUEST_MAX);
    assert_string_equal(world->response.p + world->response.n - 2, "}]");
    mcp_send(world, RPC_PING);
    mcp_has(world, "\"result\":{}");
}

static void a_message_may_have_as_many_bytes_as_the_limit_says(void **state)
{
    char *message = test_malloc(QUIPU_MCP_REQUEST_MAX + 2);

    for (size_t n = QUIPU_MCP_REQUEST_MAX; n <= QUIPU_MCP_REQUEST_MAX + 1; n++) {
        memset(message, ' ', n);
        memcpy(message, RPC_PING, sizeof(RPC_PING) - 1);
        message[n] = '\0';
        mcp_bytes(*state, (quipu_str){message, n});
        mcp_has(*state, n == QUIPU_MCP_REQUEST_MAX ? "\"result\":{}" : "more than 4194304 bytes");
    }
    test_free(message);
}

static void a_server_refuses_options_that_make_no_scope(void **state)
{
    mcp_world *world = *state;
    quipu_mcp_options options = QUIPU_MCP_OPTIONS_INIT;
    quipu_error err = {0};
    qp_mcp server = {0};

    options.user_id = QUIPU_STR("u");
    T_STATUS(qp_mcp_begin(world->store, &options, &server, &err), QUIPU_MISUSE);
    options.user_id = (quipu_str){NULL, 0};
    options.flags = 2u;
    T_STATUS(qp_mcp_begin(world->store, &options, &server, &err), QUIPU_MISUSE);
    options.flags = 0;
    T_STATUS(qp_mcp_begin(NULL, &options, &server, &err), QUIPU_MISUSE);
    options.struct_size = 0;
    T_STATUS(qp_mcp_begin(world->store, &options, &server, &err), QUIPU_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MCP_TEST(bytes_that_are_no_json_get_a_parse_error_without_an_id),
        MCP_TEST(a_value_that_is_no_message_gets_an_invalid_request),
        MCP_TEST(an_id_comes_back_as_it_was_written),
        MCP_TEST(an_id_may_have_as_many_bytes_as_the_limit_says),
        MCP_TEST(a_notification_gets_no_answer_and_does_nothing),
        MCP_TEST(a_member_that_comes_twice_is_refused),
        MCP_TEST(params_that_are_no_object_are_refused),
        MCP_TEST(a_method_that_does_not_exist_is_named),
        MCP_TEST(initialize_agrees_on_the_clients_revision_or_the_latest_of_its_era),
        MCP_TEST(meta_decides_the_era_and_not_the_method),
        MCP_TEST(a_modern_request_without_its_fields_is_refused),
        MCP_TEST(an_unsupported_revision_gets_the_list_of_those_that_are),
        MCP_TEST(a_batch_belongs_to_one_revision),
        MCP_TEST(a_batch_may_have_as_many_messages_as_the_limit_says),
        MCP_TEST(results_of_a_batch_have_one_limit_together),
        MCP_TEST(a_message_may_have_as_many_bytes_as_the_limit_says),
        MCP_TEST(a_server_refuses_options_that_make_no_scope),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
