/* A server without memory: a request fails as a whole, and the next one is answered. */
#include "mcp/mcp_t.h"

#define FAULT_MAX 2000 /* allocations of one request at most */

/* Sends a message with each of its allocations failing once; gives how many failed. */
static int64_t fault_sweep(mcp_world *world, const char *tool, const char *arguments)
{
    char message[1000];
    int64_t faults = 0;

    (void)snprintf(message, sizeof(message),
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" MCP_META
                   ",\"name\":\"%s\",\"arguments\":%s}}",
                   tool, arguments);
    for (int64_t n = 1; n < FAULT_MAX; n++) {
        t_fault_arm(n, T_FAULT_ONCE);
        const quipu_status status = qp_mcp_respond(&world->server, &world->peer,
                                                   quipu_cstr(message), &world->response, NULL);
        const bool fired = t_fault_fired() > 0;
        t_fault_arm(0, T_FAULT_ONCE);

        assert_true(status == QUIPU_OK || (fired && status == QUIPU_NOMEM));
        if (status == QUIPU_OK) {
            T_OK(qp_json_check(qp_buf_str(&world->response), NULL, NULL));
        }
        qp_buf_free(&world->response); /* it allocates anew the next time */
        if (!fired) {
            return faults;
        }
        faults++;
    }
    fail_msg("%s allocates without end", tool);
    return faults;
}

static void a_request_without_memory_fails_and_the_next_one_is_answered(void **state)
{
    static const char *const calls[][2] = {
        {"list_sessions", "{}"},
        {"search_sessions", "{\"query\":\"words\"}"},
        {"recall", "{\"question\":\"words\"}"},
        {"read_messages", "{\"session\":\"a\\u002fb\"}"},
        {"session_overview", "{\"session\":\"a/b\"}"},
        {"get_state", "{\"session\":\"a/b\"}"},
        {"remember", "{\"session\":\"a/b\",\"text\":\"t\"}"},
        {"append_note", "{\"session\":\"a/b\",\"text\":\"t\"}"},
    };
    quipu_mcp_options options = QUIPU_MCP_OPTIONS_INIT;
    mcp_world world = {.store = NULL};

    (void)state;
    t_fault_install();
    t_fault_arm(0, T_FAULT_ONCE);
    world.store = st_open_new(NULL, NULL);
    qp_buf_init(&world.response, QUIPU_MCP_RESPONSE_MAX);
    options.flags = QUIPU_MCP_WRITE;
    mcp_serve(&world, &options);
    st_create(world.store, "a/b");
    st_append(world.store, "a/b", "some words");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_true(fault_sweep(&world, calls[i][0], calls[i][1]) > 3);
        mcp_call(&world, calls[i][0], calls[i][1]);
        mcp_has(&world, "\"isError\":false");
    }
    qp_mcp_end(&world.server);
    qp_buf_free(&world.response);
    quipu_close(world.store);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_without_memory_fails_and_the_next_one_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
