/* What the tests of the room share: a server over a fresh store, and one message to it. */
#ifndef T_MCP_MCP_T_H
#define T_MCP_MCP_T_H

#include "contract/store_t.h"

#include "mcp/mcp.h"

/* A store, a server over it, one client, and the last response. */
typedef struct mcp_world {
    quipu_store *store;
    qp_mcp server;
    qp_mcp_peer peer;
    qp_buf response;
    qp_mcp_answer answer;
} mcp_world;

#define MCP_META                                                                                   \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* The server of a world anew, with other options. */
static inline void mcp_serve(mcp_world *world, const quipu_mcp_options *options)
{
    quipu_error err = {0};

    qp_mcp_end(&world->server);
    world->peer = (qp_mcp_peer){0};
    if (qp_mcp_begin(world->store, options, &world->server, &err) != QUIPU_OK) {
        fail_msg("a server: %s", err.message);
    }
}

static inline int mcp_setup(void **state)
{
    mcp_world *world = test_calloc(1, sizeof(*world));

    world->store = st_open_new(NULL, NULL);
    qp_buf_init(&world->response, QUIPU_MCP_RESPONSE_MAX + QUIPU_MCP_REQUEST_MAX);
    mcp_serve(world, NULL);
    *state = world;
    return 0;
}

static inline int mcp_teardown(void **state)
{
    mcp_world *world = *state;

    qp_mcp_end(&world->server);
    qp_buf_free(&world->response);
    quipu_close(world->store);
    test_free(world);
    return 0;
}

#define MCP_TEST(name) cmocka_unit_test_setup_teardown(name, mcp_setup, mcp_teardown)

/* Sends bytes; gives the response, "" for none. */
static inline const char *mcp_bytes(mcp_world *world, quipu_str message)
{
    T_OK(qp_mcp_respond(&world->server, &world->peer, message, &world->response, &world->answer));
    return qp_buf_str(&world->response).p;
}

static inline const char *mcp_send(mcp_world *world, const char *message)
{
    return mcp_bytes(world, quipu_cstr(message));
}

/* The client agrees on a legacy revision. */
static inline void mcp_initialize(mcp_world *world, const char *version)
{
    char message[200];

    (void)snprintf(message, sizeof(message),
                   "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":"
                   "{\"protocolVersion\":\"%s\"}}",
                   version);
    assert_non_null(strstr(mcp_send(world, message), version));
}

/* Calls a tool in the modern era, with its arguments as JSON; gives the response. */
static inline const char *mcp_call(mcp_world *world, const char *tool, const char *arguments)
{
    qp_buf message;
    const char *response;

    qp_buf_init(&message, QUIPU_MCP_REQUEST_MAX);
    qp_buf_printf(&message,
                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" MCP_META
                  ",\"name\":\"%s\",\"arguments\":",
                  tool);
    qp_buf_puts(&message, arguments);
    qp_buf_puts(&message, "}}");
    response = mcp_bytes(world, qp_buf_str(&message));
    qp_buf_free(&message);
    return response;
}

/* Sends a method of the modern era, with its params as members. */
static inline const char *mcp_ask(mcp_world *world, const char *method, const char *members)
{
    char message[8192];

    (void)snprintf(message, sizeof(message),
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{" MCP_META "%s%s}}",
                   method, members[0] != '\0' ? "," : "", members);
    return mcp_send(world, message);
}

/* A text occurs in the last response. */
static inline void mcp_has(const mcp_world *world, const char *text)
{
    if (strstr(qp_buf_str(&world->response).p, text) == NULL) {
        fail_msg("no %s in: %.2000s", text, qp_buf_str(&world->response).p);
    }
}

static inline void mcp_lacks(const mcp_world *world, const char *text)
{
    if (strstr(qp_buf_str(&world->response).p, text) != NULL) {
        fail_msg("%s in: %.2000s", text, qp_buf_str(&world->response).p);
    }
}

#endif
