/* Sessions as resources: URIs, lists in pages, and what a read returns. */
#include "mcp/mcp_t.h"

#include "mcp/tool.h"

static void any_key_comes_back_from_its_uri(void **state)
{
    static const char *const keys[] = {
        "a", "adk:shop/ann/1", "100% of it?#&", "caf\xc3\xa9 \xe2\x82\xac", "..", "a b\nc", "~-._"};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str key = {NULL, 0};
    qp_buf uri;

    (void)state;
    qp_buf_init(&uri, 1000);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        qp_buf_reset(&uri);
        qp_mcp_uri_put(quipu_cstr(keys[i]), &uri);
        assert_true(qp_mcp_uri_key(qp_buf_str(&uri), &arena, &key));
        T_STR(key, keys[i]);
    }
    T_STR(qp_buf_str(&uri), "quipu://session/~-._");
    qp_buf_free(&uri);
    quipu_arena_free(&arena);
}

static void a_uri_of_another_form_has_no_key(void **state)
{
    static const char *const wrong[] = {"",
                                        "quipu://session",
                                        "quipu://session/",
                                        "quipu://sessions/a",
                                        "QUIPU://session/a",
                                        "file:///etc/passwd",
                                        "quipu://session/a/b",
                                        "quipu://session/%",
                                        "quipu://session/%4",
                                        "quipu://session/%zz",
                                        "quipu://session/%00",
                                        "quipu://session/%ff",
                                        "quipu://session/a?b"};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str key = {NULL, 0};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(qp_mcp_uri_key(quipu_cstr(wrong[i]), &arena, &key));
    }
    quipu_arena_free(&arena);
}

static void sessions_are_listed_as_resources_in_pages(void **state)
{
    mcp_world *world = *state;
    char key[40];
    char cursor[300];

    for (int i = 0; i <= QUIPU_PAGE_DEFAULT; i++) {
        (void)snprintf(key, sizeof(key), "a/%d", i);
        st_create(world->store, key);
    }
    st_append(world->store, "a/7", "how it began");
    mcp_ask(world, "resources/list", "");
    mcp_has(world, "{\"uri\":\"quipu://session/a%2F50\",\"name\":\"a/50\",\"mimeType\":"
                   "\"application/json\"}");
    mcp_has(world, "\"description\":\"how it began\"");
    mcp_has(world, "\"ttlMs\":0,\"cacheScope\":\"private\"");
    const char *next = strstr(qp_buf_str(&world->response).p, "\"nextCursor\":\"");
    assert_non_null(next);
    next += strlen("\"nextCursor\":\"");
    (void)snprintf(cursor, sizeof(cursor), "\"cursor\":\"%.*s\"", (int)strcspn(next, "\""), next);
    mcp_ask(world, "resources/list", cursor);
    mcp_has(world, "\"name\":\"a/0\"");
    mcp_lacks(world, "nextCursor");
    mcp_ask(world, "resources/list", "\"cursor\":\"wrong\"");
    mcp_has(world, "\"code\":-32602");
    mcp_ask(world, "resources/list", "\"cursor\":7");
    mcp_has(world, "\"code\":-32602");
    mcp_ask(world, "resources/templates/list", "");
    mcp_has(world, "\"uriTemplate\":\"quipu://session/{key}\"");
}

static void a_read_returns_the_session_and_its_newest_messages(void **state)
{
    mcp_world *world = *state;

    st_create(world->store, "a b");
    st_append(world->store, "a b", "one");
    st_append(world->store, "a b", "two");
    mcp_ask(world, "resources/read", "\"uri\":\"quipu://session/a%20b\"");
    mcp_has(world, "\"contents\":[{\"uri\":\"quipu://session/a%20b\",\"mimeType\":"
                   "\"application/json\",\"text\":\"{\\\"session\\\":{\\\"key\\\":\\\"a b\\\"");
    mcp_has(world, "\\\"text\\\":\\\"two\\\"");
    mcp_has(world, "\\\"older_messages\\\":false");
}

static void a_long_session_is_cut_at_its_oldest_messages(void **state)
{
    mcp_world *world = *state;
    char text[4 * 1000 + 1];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    st_create(world->store, "a");
    st_append(world->store, "a", "the oldest");
    for (int i = 0; i < QP_MCP_RESOURCE_TOKENS / 1000; i++) {
        st_append(world->store, "a", text);
    }
    st_append(world->store, "a", "the newest");
    mcp_ask(world, "resources/read", "\"uri\":\"quipu://session/a\"");
    mcp_has(world, "the newest");
    mcp_lacks(world, "\\\"text\\\":\\\"the oldest");
    mcp_has(world, "\\\"older_messages\\\":true");
    assert_true(world->response.n < 6 * QP_MCP_RESOURCE_TOKENS);
}

static void a_missing_resource_has_the_code_of_its_era(void **state)
{
    static const char legacy[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\","
                                 "\"params\":{\"uri\":\"quipu://session/none\"}}";

    mcp_ask(*state, "resources/read", "\"uri\":\"quipu://session/none\"");
    mcp_has(*state, "\"code\":-32602,");
    mcp_has(*state, "\"data\":{\"uri\":\"quipu://session/none\"}");
    mcp_ask(*state, "resources/read", "\"uri\":\"file:///etc/passwd\"");
    mcp_has(*state, "\"code\":-32602,");
    mcp_ask(*state, "resources/read", "\"uri\":7");
    mcp_has(*state, "resources/read needs a uri");
    mcp_initialize(*state, "2025-11-25");
    mcp_send(*state, legacy);
    mcp_has(*state, "\"code\":-32002,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_key_comes_back_from_its_uri),
        cmocka_unit_test(a_uri_of_another_form_has_no_key),
        MCP_TEST(sessions_are_listed_as_resources_in_pages),
        MCP_TEST(a_read_returns_the_session_and_its_newest_messages),
        MCP_TEST(a_long_session_is_cut_at_its_oldest_messages),
        MCP_TEST(a_missing_resource_has_the_code_of_its_era),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
