/* MCP's HTTP transport: which status a body gets, and headers that must say what the body says. */
#include "mcp/mcp_t.h"

#include "mcp/http.h"

#define HTTP_VERSION "2026-07-28"
#define HTTP_LIST                                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" MCP_META "}}"
#define HTTP_CALL                                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" MCP_META                \
    ",\"name\":\"list_sessions\"}}"
#define HTTP_PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

/* Posts a body with headers (NULL: none); gives the status. */
static int http_post(mcp_world *world, const char *version, const char *method, const char *name,
                     const char *body)
{
    const qp_mcp_headers headers = {quipu_cstr(version), quipu_cstr(method), quipu_cstr(name)};
    int status = 0;

    T_OK(qp_mcp_http(&world->server, &headers, quipu_cstr(body), &world->response, &status));
    return status;
}

static void a_modern_request_needs_headers_that_say_what_it_says(void **state)
{
    static const char *const wrong[][3] = {
        {NULL, "tools/call", "list_sessions"},
        {"2025-11-25", "tools/call", "list_sessions"},
        {HTTP_VERSION, NULL, "list_sessions"},
        {HTTP_VERSION, "tools/list", "list_sessions"},
        {HTTP_VERSION, "tools/call", NULL},
        {HTTP_VERSION, "tools/call", "recall"},
        {HTTP_VERSION, "tools/call", "=?base64?!?="},
        {HTTP_VERSION, "tools/call", "=?base64?cmVjYWxs?="},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(http_post(*state, wrong[i][0], wrong[i][1], wrong[i][2], HTTP_CALL), 400);
        mcp_has(*state, "\"id\":1,\"error\":{\"code\":-32020,");
    }
    assert_int_equal(http_post(*state, HTTP_VERSION, "tools/call", "list_sessions", HTTP_CALL),
                     200);
    assert_int_equal(
        http_post(*state, HTTP_VERSION, "tools/call", "=?base64?bGlzdF9zZXNzaW9ucw==?=", HTTP_CALL),
        200);
    mcp_has(*state, "\"isError\":false");
    assert_int_equal(http_post(*state, HTTP_VERSION, "tools/list", NULL, HTTP_LIST), 200);
}

static void a_header_of_the_modern_era_makes_a_request_modern(void **state)
{
    assert_int_equal(http_post(*state, HTTP_VERSION, "ping", NULL, HTTP_PING), 400);
    mcp_has(*state, "\"code\":-32602,");
    mcp_has(*state, "io.modelcontextprotocol/protocolVersion");
}

static void errors_have_the_status_of_their_era(void **state)
{
    static const char unknown[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\",\"params\":{" MCP_META "}}";
    static const char old[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"_meta\":{"
        "\"io.modelcontextprotocol/protocolVersion\":\"1900-01-01\","
        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}";

    assert_int_equal(http_post(*state, HTTP_VERSION, "no/such", NULL, unknown), 404);
    mcp_has(*state, "\"code\":-32601,");
    assert_int_equal(http_post(*state, "1900-01-01", "x", NULL, old), 400);
    mcp_has(*state, "\"code\":-32022,");
    assert_int_equal(http_post(*state, NULL, NULL, NULL, "{"), 400);
    assert_int_equal(http_post(*state, "2025-06-18", NULL, NULL,
                               "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}"),
                     200);
    mcp_has(*state, "\"code\":-32601,");
}

static void a_legacy_client_names_its_revision_by_a_header(void **state)
{
    static const char list[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
    static const char begin[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":"
        "{\"protocolVersion\":\"2025-11-25\"}}";
    static const char *const bodies[] = {list, begin, HTTP_PING};

    assert_int_equal(http_post(*state, NULL, NULL, NULL, begin), 200);
    mcp_has(*state, "\"protocolVersion\":\"2025-11-25\"");
    assert_int_equal(http_post(*state, "2025-11-25", NULL, NULL, list), 200);
    mcp_has(*state, "outputSchema");
    assert_int_equal(http_post(*state, NULL, NULL, NULL, list), 200);
    mcp_lacks(*state, "outputSchema");
    assert_int_equal(http_post(*state, NULL, NULL, NULL, "[" HTTP_PING "]"), 200);
    assert_int_equal(http_post(*state, "2025-11-25", NULL, NULL, "[" HTTP_PING "]"), 400);
    assert_int_equal(http_post(*state, "2025-11-25", NULL, NULL, HTTP_PING), 200);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_int_equal(http_post(*state, "1999-01-01", NULL, NULL, bodies[i]), 400);
        mcp_has(*state, "MCP-Protocol-Version");
        assert_int_equal(http_post(*state, "", NULL, NULL, bodies[i]), 400);
    }
}

static void a_notification_is_accepted_without_a_body(void **state)
{
    mcp_world *world = *state;

    assert_int_equal(http_post(world, "2025-06-18", NULL, NULL,
                               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                     202);
    assert_int_equal(world->response.n, 0);
}

static void a_body_above_the_limit_is_refused(void **state)
{
    mcp_world *world = *state;
    const qp_mcp_headers headers = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    char *body = test_malloc(QUIPU_MCP_REQUEST_MAX + 1);
    int status = 0;

    memset(body, ' ', QUIPU_MCP_REQUEST_MAX + 1);
    T_OK(qp_mcp_http(&world->server, &headers, (quipu_str){body, QUIPU_MCP_REQUEST_MAX + 1},
                     &world->response, &status));
    assert_int_equal(status, 400);
    test_free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MCP_TEST(a_modern_request_needs_headers_that_say_what_it_says),
        MCP_TEST(a_header_of_the_modern_era_makes_a_request_modern),
        MCP_TEST(errors_have_the_status_of_their_era),
        MCP_TEST(a_legacy_client_names_its_revision_by_a_header),
        MCP_TEST(a_notification_is_accepted_without_a_body),
        MCP_TEST(a_body_above_the_limit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
