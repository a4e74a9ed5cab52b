/* Any bytes as a message to an MCP server that may write: the response is one JSON value or
 * nothing, has no line end inside, and never shows a session outside of the scope. */
#include "fuzz/fuzz.h"

#include <string.h>

#include <quipu/store.h>

#include "mcp/mcp.h"

#define FUZZ_META                                                                                  \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define FUZZ_CALL(tool, arguments)                                                                 \
    FUZZ_SEED("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" FUZZ_META     \
              ",\"name\":\"" tool "\",\"arguments\":" arguments "}}")
#define FUZZ_SECRET "outside of everything"

const int64_t fuzz_runs_short = 100000;
const int64_t fuzz_runs_long = 1000000;

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
              "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}}"),
    FUZZ_SEED("[{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"},{\"jsonrpc\":\"2.0\","
              "\"method\":\"notifications/initialized\"},{\"jsonrpc\":\"2.0\",\"id\":2,"
              "\"method\":\"tools/list\"}]"),
    FUZZ_SEED("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" FUZZ_META
              "}}"),
    FUZZ_SEED("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{" FUZZ_META
              ",\"cursor\":\"x\"}}"),
    FUZZ_SEED("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{" FUZZ_META
              ",\"uri\":\"quipu://session/in%2Fside\"}}"),
    FUZZ_CALL("search_sessions", "{\"query\":\"\\\"a b\\\" OR c* NOT role:user\",\"limit\":3}"),
    FUZZ_CALL("recall", "{\"question\":\"what?\",\"session\":\"in/side\",\"max_tokens\":50}"),
    FUZZ_CALL("list_sessions", "{\"limit\":1,\"cursor\":null}"),
    FUZZ_CALL("read_messages", "{\"session\":\"in/side\",\"seq\":1,\"before\":1,\"after\":100}"),
    FUZZ_CALL("session_overview", "{\"session\":\"outside\"}"),
    FUZZ_CALL("get_state", "{\"session\":\"in/side\",\"name\":\"user:a\"}"),
    FUZZ_CALL("remember", "{\"session\":\"in/side\",\"text\":\"t\",\"priority\":\"low\"}"),
    FUZZ_CALL("append_note", "{\"session\":\"in/side\",\"text\":\"t\",\"event_id\":\"e\"}"),
    FUZZ_CALL("fork_session", "{\"session\":\"in/side\",\"seq\":1,\"name\":\"f\"}"),
    {NULL, 0}};

static qp_mcp fuzz_server; /* opened by the first input; lives as long as the process */

static void fuzz_open(void)
{
    static const char *const names[][3] = {{"in/side", "app", "words inside"},
                                           {"outside", "other", FUZZ_SECRET}};
    quipu_mcp_options options = QUIPU_MCP_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};

    FUZZ_CHECK(quipu_open(":memory:", NULL, &store, &error) == QUIPU_OK);
    for (size_t i = 0; i < 2; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        const quipu_message message = {.role = QUIPU_ROLE_USER, .content = quipu_cstr(names[i][2])};

        values.key = quipu_cstr(names[i][0]);
        values.app_name = quipu_cstr(names[i][1]);
        values.user_id = QUIPU_STR("u");
        values.session_id = values.key;
        values.messages = quipu_messages_of(&message, 1);
        FUZZ_CHECK(quipu_session_create(store, &values, NULL, NULL, &error) == QUIPU_OK);
    }
    options.flags = QUIPU_MCP_WRITE;
    options.app_name = QUIPU_STR("app");
    FUZZ_CHECK(qp_mcp_begin(store, &options, &fuzz_server, &error) == QUIPU_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const quipu_str message = {size > 0 ? (const char *)data : "", size};
    qp_buf response;

    if (fuzz_server.store == NULL) {
        fuzz_open();
    }
    qp_buf_init(&response, QUIPU_MCP_RESPONSE_MAX + QUIPU_MCP_REQUEST_MAX);
    for (qp_mcp_version version = QP_MCP_NO_VERSION; version < QP_MCP_MODERN; version++) {
        qp_mcp_peer peer = {.legacy = version};
        qp_mcp_answer answer = {0};

        FUZZ_CHECK(qp_mcp_respond(&fuzz_server, &peer, message, &response, &answer) == QUIPU_OK);
        FUZZ_CHECK(response.n == 0 || qp_json_check(qp_buf_str(&response), NULL, NULL) == QUIPU_OK);
        FUZZ_CHECK(memchr(qp_buf_str(&response).p, '\n', response.n) == NULL);
        FUZZ_CHECK(strstr(qp_buf_str(&response).p, FUZZ_SECRET) == NULL);
        FUZZ_CHECK(answer.code <= 0 && (answer.code == 0 || response.n > 0));
    }
    qp_buf_free(&response);
    return 0;
}
