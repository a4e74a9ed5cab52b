/* Lango's rows for state, session service and golden tests, over our calls: messages as events,
 * budgets, tool pairs, repair of open calls, round trips. Each name says the row's claim. */
#include "adk/service.h"
#include "contract/adk_t.h"
#include "lib/short.h"

#include <quipu/models.h>

static quipu_message msg(quipu_role role, const char *text)
{
    static int64_t number = 0;
    quipu_message message = st_says(role, text);

    message.event_id = QUIPU_STR("id");
    message.timestamp.s = ++number;
    message.has_timestamp = true;
    return message;
}

static quipu_message with_call(quipu_message message, const quipu_tool_call *call, size_t count)
{
    message.calls = quipu_tool_calls_of(call, count);
    return message;
}

static quipu_tool_call call_of(const char *id, const char *name, const char *input)
{
    return (quipu_tool_call){
        .id = quipu_cstr(id), .name = quipu_cstr(name), .input = quipu_cstr(input)};
}

static quipu_tool_call answer_of(const char *id, const char *name, const char *output)
{
    return (quipu_tool_call){.id = quipu_cstr(id),
                             .name = quipu_cstr(name),
                             .input = {"", 0},
                             .output = quipu_cstr(output)};
}

static qp_view view_of(quipu_arena *arena, const quipu_message *messages, size_t count,
                       int64_t budget, const char *root)
{
    qp_view view = {.events = NULL};
    quipu_error err = {0};

    T_OK(qp_view_make(messages, count, budget, quipu_cstr(root), arena, &view, &err));
    return view;
}

/* Author and content of an event, without id and time. */
static void check_event(const qp_view *view, size_t at, const char *author, const char *content)
{
    qp_json_doc doc;

    assert_true(at < view->count);
    qp_json_init(&doc);
    T_OK(qp_json_parse(&doc, view->events[at].text, NULL, NULL));
    qp_json_node root = qp_json_root(&doc);
    if (!qp_json_text_is(qp_json_get(root, QUIPU_STR("author")), quipu_cstr(author))) {
        fail_msg("author is not %s: %s", author, view->events[at].text.p);
    }
    adk_check_json(qp_json_raw(qp_json_get(root, QUIPU_STR("content"))), content);
    qp_json_free(&doc);
}

/* ---- state_test.go ----------------------------------------------------------------------------
 */

static void two_messages_give_two_events_with_their_times(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message messages[] = {msg(QUIPU_ROLE_USER, "hi"), msg(QUIPU_ROLE_ASSISTANT, "yo")};
    qp_view view = {.events = NULL};

    (void)state;
    messages[0].timestamp = (quipu_time){1767225601, 250000000};
    view = view_of(&arena, messages, 2, 0, NULL);
    assert_int_equal(view.count, 2);
    assert_non_null(strstr(view.events[0].text.p, "\"2026-01-01T00:00:01.25Z\""));
    check_event(&view, 0, "user", "{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}");
    check_event(&view, 1, QUIPU_ROOT_AGENT,
                "{\"role\":\"assistant\",\"parts\":[{\"text\":\"yo\"}]}");
    view = view_of(&arena, NULL, 0, 0, NULL);
    assert_int_equal(view.count, 0);
    quipu_arena_free(&arena);
}

static void authors_are_stored_or_by_role(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message messages[] = {msg(QUIPU_ROLE_USER, "a"),   msg(QUIPU_ROLE_ASSISTANT, "b"),
                                msg(QUIPU_ROLE_TOOL, "c"),   msg(QUIPU_ROLE_FUNCTION, "d"),
                                msg(QUIPU_ROLE_SYSTEM, "e"), msg(QUIPU_ROLE_ASSISTANT, "f")};
    qp_view view = {.events = NULL};

    (void)state;
    messages[5].author = QUIPU_STR("planner");
    view = view_of(&arena, messages, 6, 0, "orchestrator");
    assert_int_equal(view.count, 6);
    check_event(&view, 0, "user", "{\"role\":\"user\",\"parts\":[{\"text\":\"a\"}]}");
    check_event(&view, 1, "orchestrator", "{\"role\":\"assistant\",\"parts\":[{\"text\":\"b\"}]}");
    check_event(&view, 2, "tool", "{\"role\":\"tool\",\"parts\":[{\"text\":\"c\"}]}");
    check_event(&view, 3, "tool", "{\"role\":\"function\",\"parts\":[{\"text\":\"d\"}]}");
    check_event(&view, 4, "orchestrator", "{\"role\":\"system\",\"parts\":[{\"text\":\"e\"}]}");
    check_event(&view, 5, "planner", "{\"role\":\"assistant\",\"parts\":[{\"text\":\"f\"}]}");
    quipu_arena_free(&arena);
}

static void budget_keeps_the_newest_and_at_least_one(void **state)
{
    enum { N = 150 };
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message messages[N];
    qp_view view = {.events = NULL};

    (void)state;
    for (size_t i = 0; i < N; i++) {
        messages[i] = msg(i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT, "tiny");
    }
    messages[N - 1].content = QUIPU_STR("last");
    view = view_of(&arena, messages, N, 0, NULL); /* 32000 */
    assert_int_equal(view.count, N);
    view = view_of(&arena, messages, N, 30, NULL); /* five tokens each */
    assert_int_equal(view.count, 6);
    assert_int_equal(view.tokens, 30);
    assert_int_equal(view.first, N - 6);
    check_event(&view, 5, QUIPU_ROOT_AGENT,
                "{\"role\":\"assistant\",\"parts\":[{\"text\":\"last\"}]}");
    view = view_of(&arena, messages, N, 1, NULL);
    assert_int_equal(view.count, 1);
    quipu_arena_free(&arena);
}

/* As Lango has them, but for gpt-4: 32000 tokens would not fit its window of 8192. */
static void budgets_of_models(void **state)
{
    static const struct {
        const char *model;
        int64_t budget;
    } cases[] = {{"claude-3-opus", 100000}, {"Gemini-1.5", 200000},
                 {"gpt-4o-mini", 64000},    {"GPT-4-Turbo", 64000},
                 {"gpt-4", 4096},           {"gpt-3.5-turbo", 8000},
                 {"llama", 32000},          {"", 32000}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(quipu_model_find(quipu_cstr(cases[i].model), NULL)->budget,
                         cases[i].budget);
    }
}

static void calls_are_rebuilt_with_names_and_arguments(void **state)
{
    const quipu_tool_call calls[] = {call_of("c1", "search", "{\"q\":{\"deep\":[1,2.50]}}"),
                                     call_of("", "exec", "no json"), call_of("c3", "none", "")};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message message = with_call(msg(QUIPU_ROLE_ASSISTANT, "look"), calls, 3);
    qp_view view = view_of(&arena, &message, 1, 0, NULL);

    (void)state;
    check_event(&view, 0, QUIPU_ROOT_AGENT,
                "{\"role\":\"assistant\",\"parts\":[{\"text\":\"look\"},{\"functionCall\":{\"id\":"
                "\"c1\",\"name\":\"search\",\"args\":{\"q\":{\"deep\":[1,2.50]}}}},{"
                "\"functionCall\":{\"id\":\"call_exec\",\"name\":\"exec\",\"args\":{}}}]}");
    quipu_arena_free(&arena);
}

static void responses_are_rebuilt_from_output_from_order_or_as_text(void **state)
{
    const quipu_tool_call call = call_of("c1", "search", "{}");
    const quipu_tool_call out = answer_of("c1", "search", "{\"hits\":2}");
    const quipu_tool_call bare = answer_of("", "search", "plain");
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message newer[] = {with_call(msg(QUIPU_ROLE_ASSISTANT, ""), &call, 1),
                             with_call(msg(QUIPU_ROLE_TOOL, "ignored"), &out, 1)};
    quipu_message legacy[] = {with_call(msg(QUIPU_ROLE_ASSISTANT, ""), &call, 1),
                              msg(QUIPU_ROLE_TOOL, "{\"hits\":3}"), msg(QUIPU_ROLE_TOOL, "free")};
    quipu_message user = with_call(msg(QUIPU_ROLE_USER, "x"), &bare, 1);
    qp_view view = view_of(&arena, newer, 2, 0, NULL);

    (void)state;
    check_event(&view, 1, "tool",
                "{\"role\":\"function\",\"parts\":[{\"functionResponse\":{\"id\":\"c1\",\"name\":"
                "\"search\",\"response\":{\"hits\":2}}}]}");
    view = view_of(&arena, legacy, 3, 0, NULL);
    assert_int_equal(view.count, 3);
    check_event(&view, 1, "tool",
                "{\"role\":\"function\",\"parts\":[{\"functionResponse\":{\"id\":\"c1\",\"name\":"
                "\"search\",\"response\":{\"hits\":3}}}]}");
    check_event(&view, 2, "tool", "{\"role\":\"tool\",\"parts\":[{\"text\":\"free\"}]}");
    /* A user's message with an output is a tool's. */
    view = view_of(&arena, &user, 1, 0, NULL);
    check_event(&view, 0, "tool",
                "{\"role\":\"function\",\"parts\":[{\"functionResponse\":{\"id\":\"call_search\","
                "\"name\":\"search\",\"response\":{\"result\":\"plain\"}}}]}");
    quipu_arena_free(&arena);
}

static void neighbours_of_one_role_and_author_are_one_event(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message messages[] = {msg(QUIPU_ROLE_ASSISTANT, "a"), msg(QUIPU_ROLE_ASSISTANT, "b"),
                                msg(QUIPU_ROLE_USER, "c"),      msg(QUIPU_ROLE_ASSISTANT, "d"),
                                msg(QUIPU_ROLE_ASSISTANT, "e"), msg(QUIPU_ROLE_ASSISTANT, "")};
    qp_view view = {.events = NULL};
    qp_view again = {.events = NULL};

    (void)state;
    messages[0].event_id = QUIPU_STR("first");
    messages[4].author = QUIPU_STR("beta"); /* another agent's words stay its own */
    view = view_of(&arena, messages, 6, 0, NULL);
    assert_int_equal(view.count, 4);
    check_event(&view, 0, QUIPU_ROOT_AGENT,
                "{\"role\":\"assistant\",\"parts\":[{\"text\":\"a\"},{\"text\":\"b\"}]}");
    check_event(&view, 3, "beta", "{\"role\":\"assistant\",\"parts\":[{\"text\":\"e\"}]}");
    assert_non_null(strstr(view.events[0].text.p, "\"id\":\"first\""));
    again = view_of(&arena, messages, 6, 0, NULL); /* ids are stable */
    T_STR(again.events[0].text, view.events[0].text.p);
    quipu_arena_free(&arena);
}

static void a_cut_never_parts_calls_from_answers(void **state)
{
    const quipu_tool_call call = call_of("c1", "search", "{}");
    const quipu_tool_call out = answer_of("c1", "search", "{}");
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message messages[] = {msg(QUIPU_ROLE_USER, "a long question, to be cut off"),
                                with_call(msg(QUIPU_ROLE_ASSISTANT, ""), &call, 1),
                                with_call(msg(QUIPU_ROLE_TOOL, ""), &out, 1),
                                msg(QUIPU_ROLE_ASSISTANT, "done")};
    quipu_message pending[] = {msg(QUIPU_ROLE_USER, "q"),
                               with_call(msg(QUIPU_ROLE_ASSISTANT, ""), &call, 1)};
    qp_view view = {.events = NULL};

    (void)state;
    for (int64_t budget = 1; budget < 40; budget++) {
        view = view_of(&arena, messages, 4, budget, NULL);
        assert_true(view.first == 0 || view.first == 1 || view.first == 3);
    }
    view = view_of(&arena, pending, 2, 0, NULL); /* uncut: a pending call stays */
    assert_int_equal(view.count, 2);
    view = view_of(&arena, pending, 2, 1, NULL);
    assert_int_equal(view.count, 0);
    quipu_arena_free(&arena);
}

/* ---- session_service_test.go ------------------------------------------------------------------
 */

static const quipu_message *stored(quipu_history *history, size_t at)
{
    assert_true(at < history->messages.count);
    return quipu_message_at(history->messages, at);
}

static void events_are_stored_as_lango_reads_them(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_history *history;

    (void)state;
    adk_append(session, "{\"author\":\"user\"}"); /* contentless: role user */
    adk_append(session, "{\"author\":\"lango-orchestrator\",\"content\":{\"role\":\"model\","
                        "\"parts\":[{\"functionCall\":{\"id\":\"orig\",\"name\":\"search\","
                        "\"args\":{\"q\":1}}},{\"functionCall\":{\"name\":\"search\","
                        "\"args\":{}}}]}}");
    adk_append(session, "{\"author\":\"tool\",\"content\":{\"role\":\"user\",\"parts\":[{"
                        "\"functionResponse\":{\"id\":\"orig\",\"name\":\"search\",\"response\":{"
                        "\"hits\":2}}}]}}");
    history = st_get(world->store, "adk:app/u/s", NULL);
    assert_int_equal(stored(history, 0)->role, QUIPU_ROLE_USER);
    assert_int_equal(stored(history, 1)->role, QUIPU_ROLE_ASSISTANT);
    T_STR(stored(history, 1)->author, "lango-orchestrator");
    T_STR(quipu_tool_call_at(stored(history, 1)->calls, 0)->id, "orig");
    T_STR(quipu_tool_call_at(stored(history, 1)->calls, 1)->id, "call_search");
    assert_int_equal(stored(history, 2)->role, QUIPU_ROLE_TOOL);
    T_STR(quipu_tool_call_at(stored(history, 2)->calls, 0)->id, "orig");
    T_STR(quipu_tool_call_at(stored(history, 2)->calls, 0)->name, "search");
    T_STR(quipu_tool_call_at(stored(history, 2)->calls, 0)->output, "{\"hits\":2}");
    T_STR(stored(history, 2)->content, "{\"hits\":2}");
    quipu_free(history);
    quipu_live_free(session);
    adk_close(world);
}

static void open_calls_are_closed_once_by_their_authors(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_history *history;
    int64_t closed = -1;
    quipu_error err = {0};

    (void)state;
    T_OK(quipu_live_fail_turn(session, (quipu_str){NULL, 0}, NULL, &closed, &err));
    assert_int_equal(closed, 0);
    adk_append(session, "{\"author\":\"alpha\",\"content\":{\"role\":\"model\",\"parts\":[{"
                        "\"functionCall\":{\"name\":\"exec\",\"args\":{}}},{\"functionCall\":{"
                        "\"name\":\"exec\",\"args\":{}}},{\"functionCall\":{\"id\":\"c1\",\"name\":"
                        "\"f\",\"args\":{}}}]}}");
    adk_append(session, "{\"author\":\"tool\",\"content\":{\"role\":\"user\",\"parts\":[{"
                        "\"functionResponse\":{\"name\":\"exec\",\"response\":{}}}]}}");
    adk_append(session, "{\"author\":\"beta\",\"content\":{\"role\":\"model\",\"parts\":[{"
                        "\"functionCall\":{\"id\":\"c2\",\"name\":\"g\",\"args\":{}}}]}}");
    T_OK(quipu_live_fail_turn(session, (quipu_str){NULL, 0}, NULL, &closed, &err));
    assert_int_equal(closed, 3); /* one exec, c1, c2 */
    assert_int_equal(t_live_event_count(session), 6);
    history = st_get(world->store, "adk:app/u/s", NULL);
    assert_int_equal(history->messages.count, 6);
    assert_int_equal(stored(history, 3)->role, QUIPU_ROLE_TOOL);
    T_STR(stored(history, 3)->author, "alpha");
    T_STR(quipu_tool_call_at(stored(history, 3)->calls, 0)->id, "call_exec");
    T_STR(quipu_tool_call_at(stored(history, 3)->calls, 0)->output,
          "{\"error\":\"tool call was interrupted and did not complete\"}");
    T_STR(stored(history, 3)->content,
          "{\"error\":\"tool call was interrupted and did not complete\"}");
    T_STR(quipu_tool_call_at(stored(history, 4)->calls, 0)->id, "c1");
    T_STR(stored(history, 5)->author, "beta");
    quipu_free(history);
    T_OK(quipu_live_fail_turn(session, (quipu_str){NULL, 0}, NULL, &closed, &err));
    assert_int_equal(closed, 0);
    adk_append(session, adk_says(world, "n", "user", "next", 9)); /* the session is not stale */
    quipu_live_free(session);
    adk_close(world);
}

/* ---- golden_test.go ---------------------------------------------------------------------------
 */

/* What answers what follows from the order of the appends, however events are shown. */
static void open_calls_are_found_in_the_order_of_appends(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_BY_TIME);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    int64_t closed = -1;
    quipu_error err = {0};

    (void)state;
    adk_append(session, "{\"id\":\"e1\",\"author\":\"a\",\"timestamp\":20.0,\"content\":{\"role\":"
                        "\"model\",\"parts\":[{\"functionCall\":{\"id\":\"c\",\"name\":\"f\","
                        "\"args\":{}}}]}}");
    adk_append(session, "{\"id\":\"e2\",\"author\":\"a\",\"timestamp\":10.0,\"content\":{\"role\":"
                        "\"user\",\"parts\":[{\"functionResponse\":{\"id\":\"c\",\"name\":\"f\","
                        "\"response\":{}}}]}}");
    quipu_live_free(session);
    session = adk_get(world, "u", "s", NULL);
    assert_non_null(strstr(adk_event(world, session, 0).p, "\"e2\""));
    T_OK(quipu_live_fail_turn(session, (quipu_str){NULL, 0}, NULL, &closed, &err));
    assert_int_equal(closed, 0);
    assert_int_equal(t_live_event_count(session), 2);
    quipu_live_free(session);
    adk_close(world);
}

static void a_whole_exchange_survives_save_and_restore(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    qp_view view = {.events = NULL};
    quipu_error err = {0};

    (void)state;
    adk_append(session, adk_says(world, "e1", "user", "what?", 1));
    adk_append(session, "{\"id\":\"e2\",\"author\":\"root\",\"content\":{\"role\":\"model\","
                        "\"parts\":[{\"functionCall\":{\"id\":\"c1\",\"name\":\"f\",\"args\":{"
                        "\"a\":{\"b\":[1]}}},\"thought\":true,\"thoughtSignature\":\"//77AHNpZw==\""
                        "},{\"functionCall\":{\"id\":\"c2\",\"name\":\"g\",\"args\":{}},"
                        "\"thoughtSignature\":\"AAEC\"}]}}");
    adk_append(session, "{\"id\":\"e3\",\"author\":\"tool\",\"content\":{\"role\":\"user\","
                        "\"parts\":[{\"functionResponse\":{\"id\":\"c1\",\"name\":\"f\","
                        "\"response\":{\"ok\":true}}},{\"functionResponse\":{\"name\":\"g\","
                        "\"response\":{}}}]}}");
    adk_append(session, adk_says(world, "e4", "root", "that", 4));
    quipu_live_free(session);
    session = adk_get(world, "u", "s", NULL);
    query.flags = QUIPU_LIVE_VIEW;
    T_OK(quipu_live_get(session, &query, &world->arena, &got, &err));
    view.events = quipu_json_at(got.events, 0);
    view.count = got.events.count;
    assert_int_equal(view.count, 4);
    check_event(&view, 0, "user", "{\"role\":\"user\",\"parts\":[{\"text\":\"what?\"}]}");
    check_event(&view, 1, "root",
                "{\"role\":\"assistant\",\"parts\":[{\"functionCall\":{\"id\":\"c1\",\"name\":"
                "\"f\",\"args\":{\"a\":{\"b\":[1]}}},\"thought\":true,\"thoughtSignature\":"
                "\"//77AHNpZw==\"},{\"functionCall\":{\"id\":\"c2\",\"name\":\"g\",\"args\":{}},"
                "\"thoughtSignature\":\"AAEC\"}]}");
    check_event(&view, 2, "tool",
                "{\"role\":\"function\",\"parts\":[{\"functionResponse\":{\"id\":\"c1\",\"name\":"
                "\"f\",\"response\":{\"ok\":true}}},{\"functionResponse\":{\"id\":\"call_g\","
                "\"name\":\"g\",\"response\":{}}}]}");
    check_event(&view, 3, "root", "{\"role\":\"assistant\",\"parts\":[{\"text\":\"that\"}]}");
    quipu_live_free(session);
    adk_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_messages_give_two_events_with_their_times),
        cmocka_unit_test(authors_are_stored_or_by_role),
        cmocka_unit_test(budget_keeps_the_newest_and_at_least_one),
        cmocka_unit_test(budgets_of_models),
        cmocka_unit_test(calls_are_rebuilt_with_names_and_arguments),
        cmocka_unit_test(responses_are_rebuilt_from_output_from_order_or_as_text),
        cmocka_unit_test(neighbours_of_one_role_and_author_are_one_event),
        cmocka_unit_test(a_cut_never_parts_calls_from_answers),
        cmocka_unit_test(events_are_stored_as_lango_reads_them),
        cmocka_unit_test(open_calls_are_closed_once_by_their_authors),
        cmocka_unit_test(open_calls_are_found_in_the_order_of_appends),
        cmocka_unit_test(a_whole_exchange_survives_save_and_restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
