/* The scope of a server: every tool and resource is asked for sessions outside of it. What lies
 * outside looks exactly as if it did not exist. */
#include "mcp/mcp_t.h"

#include "lib/short.h"
#include "mcp/tool.h"

/* Every secret begins with this word, and no other text has it. */
#define SCOPE_SECRET "hidden"
#define SCOPE_ABSENT "adk:none/none/0" /* no session has this key */
#define SCOPE_TOOLS_MIN 4              /* tools that take a session, at least: no loop is empty */

/* Sessions of two users of one app, of another app, and one of nobody. Only "adk:shop/ann/1" has no
 * secret. */
static void scope_fill(mcp_world *world)
{
    static const struct {
        const char *app;
        const char *user;
        const char *id;
        const char *text;
    } sessions[] = {
        {"shop", "ann", "1", "open words of Ann"},
        {"shop", "ann", "2", SCOPE_SECRET " words of Ann, elsewhere"},
        {"shop", "bob", "1", SCOPE_SECRET " words of Bob"},
        {"bank", "ann", "1", SCOPE_SECRET " words of the bank"},
        {"", "", "plain", SCOPE_SECRET " words of nobody"},
    };
    quipu_error err = {0};

    for (size_t i = 0; i < sizeof(sessions) / sizeof(sessions[0]); i++) {
        const quipu_session_ref ref = {quipu_cstr(sessions[i].app), quipu_cstr(sessions[i].user),
                                       quipu_cstr(sessions[i].id)};
        const quipu_json state = {i == 0 ? QUIPU_STR("{\"open\":1}")
                                         : QUIPU_STR("{\"" SCOPE_SECRET "\":1}")};
        quipu_live *live = NULL;
        char key[100];

        (void)snprintf(key, sizeof(key), i < 4 ? "adk:%s/%s/%s" : "%s%s%s", sessions[i].app,
                       sessions[i].user, sessions[i].id);
        T_OK(quipu_service_create(world->server.service, &ref, state, NULL, &live, &err));
        quipu_live_free(live);
        st_append(world->store, key, sessions[i].text);
        quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                               .session_key = quipu_cstr(key),
                               .content = quipu_cstr(sessions[i].text),
                               .token_count = 4};
        T_OK(t_memory_save(world->store, &memory, NULL, NULL, &err));
    }
}

static void scope_serve(mcp_world *world, const char *app, const char *user, const char *session)
{
    quipu_mcp_options options = QUIPU_MCP_OPTIONS_INIT;

    options.flags = QUIPU_MCP_WRITE;
    options.app_name = quipu_cstr(app);
    options.user_id = quipu_cstr(user);
    options.session_key = quipu_cstr(session);
    mcp_serve(world, &options);
}

/* The required arguments of a tool with `session` set to a key; others get a text that is valid. */
static void scope_arguments(const qp_mcp_tool *tool, const char *key, char *ret, size_t size)
{
    size_t n = (size_t)snprintf(ret, size, "{");

    for (const qp_mcp_field *field = tool->input; field->name != NULL; field++) {
        const bool is_session = strcmp(field->name, "session") == 0;

        if (field->required || is_session) {
            n += (size_t)snprintf(ret + n, size - n, "%s\"%s\":\"%s\"", n > 1 ? "," : "",
                                  field->name, is_session ? key : SCOPE_SECRET);
        }
    }
    (void)snprintf(ret + n, size - n, "}");
}

static bool scope_takes_session(const qp_mcp_tool *tool)
{
    for (const qp_mcp_field *field = tool->input; field->name != NULL; field++) {
        if (strcmp(field->name, "session") == 0) {
            return true;
        }
    }
    return false;
}

/* The last response with every mention of a key replaced by one word, so that responses about two
 * keys can be compared; free with test_free(). */
static char *scope_response_without(const mcp_world *world, const char *key)
{
    static const char word[] = "KEY";
    const char *at = qp_buf_str(&world->response).p;
    char *text = test_malloc(world->response.n * sizeof(word) + 1);
    size_t n = 0;

    while (*at != '\0') {
        const bool is_key = strncmp(at, key, strlen(key)) == 0;

        if (is_key) {
            memcpy(text + n, word, sizeof(word) - 1);
        } else {
            text[n] = *at;
        }
        n += is_key ? sizeof(word) - 1 : 1;
        at += is_key ? strlen(key) : 1;
    }
    text[n] = '\0';
    return text;
}

/* Reads the resource of a session. */
static void scope_read_resource(mcp_world *world, const char *key)
{
    char uri[200];
    qp_buf encoded;

    qp_buf_init(&encoded, 1000);
    qp_mcp_uri_put(quipu_cstr(key), &encoded);
    (void)snprintf(uri, sizeof(uri), "\"uri\":\"%s\"", qp_buf_str(&encoded).p);
    qp_buf_free(&encoded);
    mcp_ask(world, "resources/read", uri);
}

/* Asks every offered tool for a session outside, and for one that does not exist: the responses are
 * the same but for the key. */
static void scope_try_session(mcp_world *world, const char *key)
{
    char arguments[400];
    size_t asked = 0;

    for (const qp_mcp_tool *tool = qp_mcp_tools; tool->name != NULL; tool++) {
        char *outside;
        char *absent;

        if (!qp_mcp_tool_is_offered(&world->server, tool) || !scope_takes_session(tool)) {
            continue;
        }
        scope_arguments(tool, SCOPE_ABSENT, arguments, sizeof(arguments));
        mcp_call(world, tool->name, arguments);
        absent = scope_response_without(world, SCOPE_ABSENT);
        scope_arguments(tool, key, arguments, sizeof(arguments));
        mcp_call(world, tool->name, arguments);
        outside = scope_response_without(world, key);
        assert_string_equal(outside, absent);
        assert_non_null(strstr(outside, "\"isError\":true"));
        assert_non_null(strstr(outside, "NOT_FOUND: there is no session"));
        assert_null(strstr(outside, "words of"));
        test_free(outside);
        test_free(absent);
        asked++;
    }
    assert_true(asked >= SCOPE_TOOLS_MIN);
    scope_read_resource(world, key);
    mcp_has(world, "\"error\":{\"code\":-32602,\"message\":\"Resource not found");
    mcp_lacks(world, "words of");
}

/* The same questions about the session inside are answered: what scope_try_session() meets is the
 * scope and no mistake in its arguments. Tools that only read: the others would change what the
 * following ones see. */
static void scope_try_own(mcp_world *world, const char *key)
{
    char arguments[400];
    size_t asked = 0;

    for (const qp_mcp_tool *tool = qp_mcp_tools; tool->name != NULL; tool++) {
        if (qp_mcp_tool_is_offered(&world->server, tool) && scope_takes_session(tool) &&
            (tool->flags & QP_MCP_WRITES) == 0) {
            scope_arguments(tool, key, arguments, sizeof(arguments));
            mcp_call(world, tool->name, arguments);
            assert_null(strstr(qp_buf_str(&world->response).p, "NOT_FOUND"));
            asked++;
        }
    }
    assert_true(asked >= SCOPE_TOOLS_MIN / 2);
    scope_read_resource(world, key);
    mcp_has(world, "open words of Ann");
}

/* Nothing that tools and lists return without a session has the word. */
static void scope_try_all(mcp_world *world)
{
    mcp_call(world, "list_sessions", "{\"max_tokens\":100000}");
    mcp_has(world, "adk:shop/ann/1");
    mcp_lacks(world, "bob");
    mcp_lacks(world, "bank");
    mcp_lacks(world, "plain");
    mcp_call(world, "search_sessions", "{\"query\":\"words\"}");
    mcp_has(world, "adk:shop/ann/1");
    mcp_lacks(world, SCOPE_SECRET " ");
    mcp_call(world, "search_sessions", "{\"query\":\"" SCOPE_SECRET "\"}");
    mcp_has(world, "\"hits\":[]");
    mcp_call(world, "recall", "{\"question\":\"words of whom\"}");
    mcp_has(world, "adk:shop/ann/1");
    mcp_lacks(world, SCOPE_SECRET);
    mcp_call(world, "recall", "{\"question\":\"" SCOPE_SECRET "\"}");
    mcp_has(world, "\"hits\":[]");
    mcp_ask(world, "resources/list", "");
    mcp_has(world, "quipu://session/adk%3Ashop%2Fann%2F1");
    mcp_lacks(world, SCOPE_SECRET);
    mcp_lacks(world, "bob");
    mcp_call(world, "session_overview", "{\"session\":\"adk:shop/ann/1\"}");
    mcp_has(world, "\"isError\":false");
    mcp_lacks(world, SCOPE_SECRET);
    mcp_call(world, "get_state", "{\"session\":\"adk:shop/ann/1\"}");
    mcp_has(world, "\"open\":1");
    mcp_lacks(world, SCOPE_SECRET);
}

static void one_session_is_all_that_its_server_shows(void **state)
{
    mcp_world *world = *state;

    scope_fill(world);
    scope_serve(world, NULL, NULL, "adk:shop/ann/1");
    scope_try_all(world);
    scope_try_own(world, "adk:shop/ann/1");
    scope_try_session(world, "adk:shop/ann/2");
    scope_try_session(world, "adk:shop/bob/1");
    scope_try_session(world, "adk:bank/ann/1");
    scope_try_session(world, "plain");
    scope_try_session(world, "none");
}

static void one_user_is_all_that_its_server_shows(void **state)
{
    mcp_world *world = *state;
    quipu_error err = {0};

    scope_fill(world);
    T_OK(quipu_session_delete(world->store, QUIPU_STR("adk:shop/ann/2"), NULL, NULL, NULL, &err));
    scope_serve(world, "shop", "ann", NULL);
    scope_try_all(world);
    scope_try_session(world, "adk:shop/bob/1");
    scope_try_session(world, "adk:bank/ann/1");
    scope_try_session(world, "plain");
    scope_try_session(world, "none");
}

static void an_app_shows_all_its_users_and_no_other_app(void **state)
{
    mcp_world *world = *state;

    scope_fill(world);
    scope_serve(world, "shop", NULL, NULL);
    mcp_call(world, "search_sessions", "{\"query\":\"words\"}");
    mcp_has(world, "words] of Bob");
    mcp_lacks(world, "of the bank");
    mcp_lacks(world, "of nobody");
    scope_try_session(world, "adk:bank/ann/1");
    scope_try_session(world, "plain");
}

static void a_session_must_meet_all_parts_of_a_scope(void **state)
{
    mcp_world *world = *state;

    scope_fill(world);
    scope_serve(world, "shop", NULL, "adk:bank/ann/1");
    scope_try_session(world, "adk:bank/ann/1");
    scope_try_session(world, "adk:shop/ann/1");
    mcp_call(world, "list_sessions", "{}");
    mcp_has(world, "there is no session");
    mcp_call(world, "recall", "{\"question\":\"words\"}");
    mcp_has(world, "there is no session");
}

static void a_tenant_never_sees_another_one(void **state)
{
    mcp_world *world = *state;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *other = NULL;
    quipu_error err = {0};
    char path[T_PATH_MAX];

    quipu_close(world->store);
    world->store = st_open_new(NULL, path);
    mcp_serve(world, NULL);
    scope_fill(world);
    options.tenant = QUIPU_STR("other");
    T_OK(quipu_open(path, &options, &other, &err));
    quipu_close(world->store);
    world->store = other;
    mcp_serve(world, NULL);
    scope_try_session(world, "adk:shop/ann/1");
    scope_try_session(world, "plain");
    mcp_call(world, "list_sessions", "{}");
    mcp_has(world, "there is no session here");
    mcp_call(world, "search_sessions", "{\"query\":\"words\"}");
    mcp_has(world, "\"hits\":[]");
}

static void a_scope_of_one_session_names_it_without_being_asked(void **state)
{
    mcp_world *world = *state;

    scope_fill(world);
    scope_serve(world, NULL, NULL, "adk:shop/ann/1");
    mcp_call(world, "read_messages", "{}");
    mcp_has(world, "open words of Ann");
    mcp_ask(world, "tools/list", "");
    mcp_lacks(world, "fork_session");
    mcp_lacks(world, "\"required\":[\"session\"],\"additionalProperties\":false");
    mcp_call(world, "fork_session", "{\"session\":\"adk:shop/ann/1\"}");
    mcp_has(world, "Unknown tool");
}

static void a_fork_keeps_the_identity_of_its_parent(void **state)
{
    mcp_world *world = *state;

    scope_fill(world);
    scope_serve(world, "shop", "ann", NULL);
    mcp_call(world, "fork_session", "{\"session\":\"adk:shop/ann/1\",\"name\":\"f\"}");
    mcp_has(world, "\"key\":\"adk:shop/ann/1-f\"");
    mcp_has(world, "\"user\":\"ann\"");
    mcp_call(world, "fork_session", "{\"session\":\"adk:shop/ann/1\",\"name\":\"x/../../bob/9\"}");
    mcp_has(world, "\"isError\":true");
    mcp_call(world, "fork_session", "{\"session\":\"adk:shop/ann/1\",\"name\":\"%2Fb\"}");
    mcp_has(world, "\"isError\":true");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MCP_TEST(one_session_is_all_that_its_server_shows),
        MCP_TEST(one_user_is_all_that_its_server_shows),
        MCP_TEST(an_app_shows_all_its_users_and_no_other_app),
        MCP_TEST(a_session_must_meet_all_parts_of_a_scope),
        MCP_TEST(a_tenant_never_sees_another_one),
        MCP_TEST(a_scope_of_one_session_names_it_without_being_asked),
        MCP_TEST(a_fork_keeps_the_identity_of_its_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
