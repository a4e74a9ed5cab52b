/* The session service: the rules that ADK's own contract tests state, for the option sets of Python
 * and Go. Each test opens a service of its own. */
#include "contract/adk_t.h"
#include "lib/short.h"

static void created_and_fetched_session_are_equal(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *made = adk_create(world, "u", "s1", "{\"k\":[1,2.50],\"app:a\":true}");
        quipu_live *got = adk_get(world, "u", "s1", NULL);
        quipu_session_ref ref;
        quipu_time made_at;
        quipu_time got_at;

        T_OK(t_live_identity(made, &world->arena, &ref, &made_at, NULL));
        T_STR(ref.session_id, "s1");
        T_OK(t_live_identity(got, &world->arena, &ref, &got_at, NULL));
        T_STR(ref.app_name, "app");
        T_STR(ref.user_id, "u");
        T_STR(ref.session_id, "s1");
        assert_int_equal(quipu_time_cmp(made_at, got_at), 0);
        adk_check_state(world, made, "{\"k\":[1,2.50],\"app:a\":true}");
        adk_check_state(world, got, "{\"k\":[1,2.50],\"app:a\":true}");
        assert_int_equal(t_live_event_count(got), 0);
        quipu_live_free(made);
        quipu_live_free(got);
    }
}

static void an_empty_session_id_gets_a_random_one(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *a = adk_create(world, "u", "", NULL);
        quipu_live *b = adk_create(world, "u", "", NULL);
        quipu_session_ref ra;
        quipu_session_ref rb;

        T_OK(t_live_identity(a, &world->arena, &ra, NULL, NULL));
        T_OK(t_live_identity(b, &world->arena, &rb, NULL, NULL));
        assert_int_equal(ra.session_id.n, 36);
        assert_false(quipu_str_eq(ra.session_id, rb.session_id));
        quipu_live_free(a);
        quipu_live_free(b);
    }
}

static void creating_twice_is_exists(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        const quipu_session_ref ref = adk_ref("app", "u", "s");
        quipu_live *session = NULL;
        quipu_error err = {0};

        quipu_live_free(adk_create(world, "u", "s", "{\"k\":1}"));
        T_STATUS(quipu_service_create(world->service, &ref, (quipu_json){{NULL, 0}}, NULL, &session,
                                      &err),
                 QUIPU_EXISTS);
        assert_null(session);
        quipu_live_free(adk_create(world, "other", "s", NULL));
    }
}

static void a_new_session_has_the_callers_time(void **state)
{
    T_NOT_SERVED("the clock of the server counts");
    (void)state;
    ADK_BOTH(world)
    {
        const quipu_session_ref ref = adk_ref("app", "u", "s");
        const quipu_time at = {981173106, 789000};
        quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
        quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;
        quipu_service_list *page = NULL;
        quipu_live *made = NULL;
        quipu_live *got;
        quipu_error err = {0};

        call.now = at;
        T_OK(quipu_service_create(world->service, &ref, (quipu_json){{NULL, 0}}, &call, &made,
                                  &err));
        T_OK(t_live_get_identity(made, &world->arena, &identity, &err));
        assert_int_equal(quipu_time_cmp(identity.last_update_time, at), 0);
        got = adk_get(world, "u", "s", NULL);
        T_OK(t_live_get_identity(got, &world->arena, &identity, &err));
        assert_int_equal(quipu_time_cmp(identity.last_update_time, at), 0);
        T_OK(quipu_service_find(world->service, QUIPU_STR("app"), QUIPU_STR("u"), NULL, &page,
                                &err));
        assert_int_equal(page->sessions.count, 1);
        assert_int_equal(
            quipu_time_cmp(quipu_service_entry_at(page->sessions, 0)->last_update_time, at), 0);
        assert_memory_equal(quipu_service_entry_at(page->sessions, 0)->uid.b, identity.uid.b,
                            sizeof(identity.uid.b));
        quipu_free(page);
        quipu_live_free(made);
        quipu_live_free(got);

        call.now = (quipu_time){0, 1000000000};
        T_STATUS(
            quipu_service_create(world->service, &ref, (quipu_json){{NULL, 0}}, &call, &made, &err),
            QUIPU_MISUSE);
    }
}

static void live_sessions_can_be_read_after_their_store_is_closed(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", "{\"k\":1}");
        quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;
        quipu_snapshot snapshot = QUIPU_SNAPSHOT_INIT;
        quipu_error err = {0};

        (void)adk_append(session, adk_says(world, "e", "user", "still here", 1.0));
        quipu_close(world->store);
        world->store = NULL;
        assert_int_equal(t_live_event_count(session), 1);
        assert_non_null(strstr(adk_event(world, session, 0).p, "still here"));
        adk_check_state(world, session, "{\"k\":1}");
        T_OK(t_live_get_identity(session, &world->arena, &identity, &err));
        T_OK(t_live_snapshot(session, &world->arena, &snapshot, &err));
        assert_int_equal(snapshot.count, 1);
        quipu_live_free(session);
    }
}

static void a_missing_session_is_null_for_python_and_an_error_for_go(void **state)
{
    const quipu_session_ref ref = adk_ref("app", "u", "ghost");
    quipu_error err = {0};

    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = NULL;

        T_STATUS(quipu_service_get(world->service, &ref, NULL, NULL, &session, &err),
                 turn_ == 0 ? QUIPU_OK : QUIPU_NOT_FOUND);
        assert_null(session);
        T_OK(quipu_service_delete(world->service, &ref, NULL, &err));
    }
}

static void go_needs_app_and_user(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_GO);
    const quipu_session_ref refs[] = {adk_ref("", "u", "s"), adk_ref("app", "", "s")};
    quipu_service_list *list = NULL;
    quipu_live *session = NULL;
    quipu_error err = {0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        T_STATUS(quipu_service_create(world->service, &refs[i], (quipu_json){{NULL, 0}}, NULL,
                                      &session, &err),
                 QUIPU_INVALID);
        T_STATUS(quipu_service_get(world->service, &refs[i], NULL, NULL, &session, &err),
                 QUIPU_INVALID);
        T_STATUS(quipu_service_delete(world->service, &refs[i], NULL, &err), QUIPU_INVALID);
    }
    T_STATUS(quipu_service_find(world->service, QUIPU_STR(""), QUIPU_STR("u"), NULL, &list, &err),
             QUIPU_INVALID);
    adk_close(world);
}

static void a_session_that_cannot_exist_is_missing(void **state)
{
    char longest[QUIPU_KEY_MAX + 1];

    (void)state;
    memset(longest, 'x', sizeof(longest));
    ADK_BOTH(world)
    {
        const quipu_str odd[] = {
            {longest, sizeof(longest)}, {"a\0b", 3}, {"\xed\xa0\x80", 3}, {"\xff", 1}};
        const bool fails = turn_ == 1;

        for (size_t i = 0; i < 4; i++) {
            const quipu_session_ref ref = {QUIPU_STR("app"), QUIPU_STR("u"), odd[i]};
            quipu_service_list *page = NULL;
            quipu_live *session = NULL;
            quipu_json found = {{NULL, 0}};
            quipu_error err = {0};

            T_STATUS(quipu_service_get(world->service, &ref, NULL, NULL, &session, &err),
                     fails ? QUIPU_NOT_FOUND : QUIPU_OK);
            assert_null(session);
            T_OK(quipu_service_delete(world->service, &ref, NULL, &err));
            T_OK(quipu_service_find(world->service, QUIPU_STR("app"), odd[i], NULL, &page, &err));
            assert_int_equal(page->sessions.count, 0);
            quipu_free(page);
            T_OK(quipu_service_get_user_state(world->service, QUIPU_STR("app"), odd[i], NULL,
                                              &world->arena, &found, &err));
            adk_check_json(found.text, "{}");
            assert_int_not_equal(quipu_service_create(world->service, &ref, (quipu_json){{NULL, 0}},
                                                      NULL, &session, &err),
                                 QUIPU_OK);
            assert_null(session);
        }
    }
}

static void python_strips_ids_on_create_get_and_delete(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    const quipu_session_ref padded = adk_ref("app", "u", " s \n");
    quipu_live *session = adk_create(world, "u", "  s ", NULL);
    quipu_session_ref ref;
    quipu_error err = {0};

    (void)state;
    T_OK(t_live_identity(session, &world->arena, &ref, NULL, NULL));
    T_STR(ref.session_id, "s");
    quipu_live_free(session);
    session = adk_get(world, "u", "\ts", NULL);
    assert_non_null(session);
    quipu_live_free(session);
    T_OK(quipu_service_delete(world->service, &padded, NULL, &err));
    assert_null(adk_get(world, "u", "s", NULL));
    adk_close(world);
}

/* What str.strip() of Python takes off: all that Unicode calls white space, and four controls. */
static void python_strips_white_space_of_every_script(void **state)
{
    static const char *const spaces[] = {" ",        "\t",     "\v",     "\x1c",   "\x1f",
                                         "\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u200a",
                                         "\u2028",   "\u2029", "\u202f", "\u205f", "\u3000"};
    static const char *const others[] = {"\x1b", "\u200b", "\ufeff", "\u2060"};
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    char id[32];

    (void)state;
    quipu_live_free(adk_create(world, "u", "s", NULL));
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        quipu_live *session;

        (void)snprintf(id, sizeof(id), "%s%ss%s", spaces[i], spaces[0], spaces[i]);
        session = adk_get(world, "u", id, NULL);
        if (session == NULL) {
            fail_msg("space %zu stays", i);
        }
        quipu_live_free(session);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        (void)snprintf(id, sizeof(id), "%ss", others[i]);
        assert_null(adk_get(world, "u", id, NULL));
    }
    adk_close(world);
}

static void go_takes_ids_as_they_are(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_GO);
    quipu_live *a = adk_create(world, "u", "s", NULL);
    quipu_live *b = adk_create(world, "u", " s", NULL);

    (void)state;
    quipu_live_free(a);
    quipu_live_free(b);
    adk_close(world);
}

static void every_triple_is_a_session_of_its_own(void **state)
{
    static const char *const triples[][3] = {
        {"a", "b", "c"},     {"a/b", "c", "d"},      {"a", "b/c", "d"},     {"a", "b", "c/d"},
        {"a%2Fb", "c", "d"}, {"", "", "c"},          {"", "", "adk:a/b/c"}, {"", "", "adk://c"},
        {"", "b", "c"},      {"a", "", "c"},         {"", "", "adk:"},      {"%", "%25", "/"},
        {"", "", "a/b/c"},   {"a", "b", "adk:a/b/c"}};
    adk_world *world = adk_open(0);
    quipu_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(triples) / sizeof(triples[0]); i++) {
        const quipu_session_ref ref = adk_ref(triples[i][0], triples[i][1], triples[i][2]);
        quipu_live *session = NULL;

        T_OK(quipu_service_create(world->service, &ref, (quipu_json){{NULL, 0}}, NULL, &session,
                                  &err));
        quipu_live_free(session);
    }
    quipu_history *plain = st_get(world->store, "c", NULL); /* a plain session keeps its key */
    T_STR(plain->session->session_id, "c");
    quipu_free(plain);
    adk_close(world);
}

/* ---- state ------------------------------------------------------------------------------------
 */

static void scopes_are_shared_as_their_names_say(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *one = adk_create(
            world, "u1", "s1",
            "{\"app:a\":1,\"user:u\":2,\"k\":3,\"temp:t\":4,\"session:x\":5,\"_adk\":6}");
        quipu_live *same_user = adk_create(world, "u1", "s2", NULL);
        quipu_live *other_user = adk_create(world, "u2", "s1", "{\"user:u\":9}");

        adk_check_state(world, one,
                        "{\"app:a\":1,\"user:u\":2,\"k\":3,\"temp:t\":4,\"session:x\":5,"
                        "\"_adk\":6}");
        adk_check_state(world, same_user, "{\"app:a\":1,\"user:u\":2}");
        adk_check_state(world, other_user, "{\"app:a\":1,\"user:u\":9}");
        quipu_live_free(one);
        one = adk_get(world, "u1", "s1", NULL);
        adk_check_state(world, one,
                        "{\"app:a\":1,\"user:u\":2,\"k\":3,\"session:x\":5,\"_adk\":6}");
        quipu_live_free(one);
        quipu_live_free(same_user);
        quipu_live_free(other_user);
    }
}

static void a_delta_replaces_whole_values_and_keeps_types(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session =
            adk_create(world, "u", "s",
                       "{\"d\":{\"a\":1,\"b\":2},\"t\":true,\"f\":0.30000000000000004,\"big\":"
                       "123456789012345678901234567890,\"app:d\":{\"x\":1},\"user:n\":1}");
        const char *expected = "{\"d\":{\"c\":3},\"t\":true,\"f\":0.30000000000000004,\"big\":"
                               "123456789012345678901234567890,\"n\":null,\"app:d\":{\"y\":2},"
                               "\"user:n\":null}";

        adk_append(session,
                   "{\"id\":\"e1\",\"timestamp\":1.0,\"author\":\"a\",\"content\":{\"parts\":[]},"
                   "\"actions\":{\"stateDelta\":{\"d\":{\"c\":3},\"n\":null,\"app:d\":{\"y\":2},"
                   "\"user:n\":null}}}");
        adk_check_state(world, session, expected);
        quipu_live_free(session);
        session = adk_get(world, "u", "s", NULL);
        adk_check_state(world, session, expected);
        quipu_live_free(session);
    }
}

static void temp_names_live_in_the_session_only(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);

        adk_append(session, "{\"id\":\"e1\",\"timestamp\":1.0,\"actions\":{\"stateDelta\":{"
                            "\"temp:a\":1,\"k\":2,\"\\u0074emp:b\":3},\"escalate\":true},"
                            "\"content\":{\"parts\":[]}}");
        adk_check_state(world, session, "{\"k\":2,\"temp:a\":1,\"temp:b\":3}");
        adk_append(session, adk_says(world, "e2", "user", "next", 2));
        adk_check_state(world, session, "{\"k\":2,\"temp:a\":1,\"temp:b\":3}");
        adk_check_json(adk_event(world, session, 0),
                       "{\"id\":\"e1\",\"timestamp\":1.0,\"actions\":{\"stateDelta\":{\"k\":2},"
                       "\"escalate\":true},\"content\":{\"parts\":[]}}");
        T_OK(quipu_live_refresh(session, NULL, NULL));
        adk_check_state(world, session, "{\"k\":2,\"temp:a\":1,\"temp:b\":3}");
        quipu_live_free(session);
        session = adk_get(world, "u", "s", NULL);
        adk_check_state(world, session, "{\"k\":2}");
        quipu_live_free(session);
    }
}

/* An event may say its delta twice; whichever counts, temp: names are never written. */
static void temp_names_of_any_delta_are_not_stored(void **state)
{
    static const char *const events[] = {
        "{\"id\":\"d1\",\"content\":{\"parts\":[{\"text\":\"x\"}]},\"actions\":{\"stateDelta\":{"
        "\"a\":1,\"temp:t\":\"hush\"},\"state_delta\":{\"b\":2,\"temp:u\":\"hush\"}}}",
        "{\"id\":\"d2\",\"content\":{\"parts\":[{\"text\":\"x\"}]},\"actions\":{\"stateDelta\":{"
        "\"temp:t\":\"hush\"},\"stateDelta\":{\"a\":3,\"temp:u\":\"hush\"}}}",
        "{\"id\":\"d3\",\"content\":{\"parts\":[{\"text\":\"x\"}]},\"actions\":{\"stateDelta\":{"
        "\"a\":4},\"state_delta\":{\"temp:u\":\"hush\"}}}",
        "{\"id\":\"d4\",\"content\":{\"parts\":[{\"text\":\"x\"}]},\"actions\":{\"stateDelta\":"
        "null,\"state_delta\":{\"temp:u\":\"hush\"}}}"};
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live *session = adk_create(world, "u", "s", NULL);

    (void)state;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        (void)adk_append(session, events[i]);
    }
    quipu_live_free(session);
    session = adk_get(world, "u", "s", NULL);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        quipu_str event = adk_event(world, session, i);

        if (strstr(event.p, "hush") != NULL) {
            fail_msg("event %zu: %s", i, event.p);
        }
    }
    quipu_live_free(session);
    adk_close(world);
}

static void names_of_state_may_be_odd(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live *session = adk_create(
        world, "u", "s", "{\"a\\u0000\":1,\"user:\\ud800\":2,\"\\u0001x\":3,\"\":4,\"\\uD800\":5}");
    const char *expected =
        "{\"a\\u0000\":1,\"user:\\ud800\":2,\"\\u0001x\":3,\"\":4,\"\\ud800\":5}";
    quipu_json value = {{NULL, 0}};

    (void)state;
    adk_check_state(world, session, expected);
    quipu_live_free(session);
    session = adk_get(world, "u", "s", NULL);
    adk_check_state(world, session, expected);
    T_OK(t_live_state(session, (quipu_str){"a\0", 2}, &world->arena, &value, NULL));
    T_STR(value.text, "1");
    T_OK(t_live_state(session, QUIPU_STR("\x01x"), &world->arena, &value, NULL));
    T_STR(value.text, "3");
    quipu_live_free(session);
    adk_close(world);
}

static void a_name_can_be_set_read_and_removed(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_live *again;
        quipu_json value = {{NULL, 0}};
        quipu_error err = {0};

        T_STATUS(t_live_state(session, QUIPU_STR("k"), &world->arena, &value, &err),
                 QUIPU_NOT_FOUND);
        T_OK(quipu_live_set(session, QUIPU_STR("k"), (quipu_json){QUIPU_STR("\"123\"")}, NULL,
                            &err));
        T_OK(quipu_live_set(session, QUIPU_STR("o"), (quipu_json){QUIPU_STR("{\"a\":1}")}, NULL,
                            &err));
        T_OK(quipu_live_set(session, QUIPU_STR("user:z"), (quipu_json){QUIPU_STR("null")}, NULL,
                            &err));
        T_OK(
            quipu_live_set(session, QUIPU_STR("temp:z"), (quipu_json){QUIPU_STR("1")}, NULL, &err));
        T_STATUS(quipu_live_set(session, QUIPU_STR("k"), (quipu_json){QUIPU_STR("{")}, NULL, &err),
                 QUIPU_INVALID);
        T_OK(t_live_state(session, QUIPU_STR("k"), &world->arena, &value, &err));
        T_STR(value.text, "\"123\"");
        again = adk_get(world, "u", "s", NULL);
        adk_check_state(world, again, "{\"k\":\"123\",\"o\":{\"a\":1},\"user:z\":null}");
        assert_int_equal(t_live_event_count(again), 0);
        quipu_live_free(again);
        T_OK(quipu_live_set(session, QUIPU_STR("k"), (quipu_json){{NULL, 0}}, NULL, &err));
        T_OK(quipu_live_set(session, QUIPU_STR("ghost"), (quipu_json){{NULL, 0}}, NULL, &err));
        adk_check_state(world, session, "{\"o\":{\"a\":1},\"user:z\":null,\"temp:z\":1}");
        again = adk_get(world, "u", "s", NULL);
        adk_check_state(world, again, "{\"o\":{\"a\":1},\"user:z\":null}");
        quipu_live_free(again);
        quipu_live_free(session);
    }
}

static quipu_str user_state(adk_world *world, const char *app, const char *user)
{
    quipu_json state = {{NULL, 0}};

    T_OK(quipu_service_get_user_state(world->service, quipu_cstr(app), quipu_cstr(user), NULL,
                                      &world->arena, &state, NULL));
    return state.text;
}

static void state_of_a_user_has_bare_names(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        const quipu_session_ref ref = adk_ref("app", "u", "s");
        quipu_live *session = adk_create(world, "u", "s", "{\"user:a\":1,\"k\":1,\"app:b\":1}");

        T_STR(user_state(world, "app", "u"), "{\"a\":1}");
        T_STR(user_state(world, "app", "v"), "{}");
        T_STR(user_state(world, "other", "u"), "{}");
        T_OK(
            quipu_live_set(session, QUIPU_STR("user:a"), (quipu_json){QUIPU_STR("2")}, NULL, NULL));
        T_STR(user_state(world, "app", "u"), "{\"a\":2}");
        quipu_live_free(session);
        T_OK(quipu_service_delete(world->service, &ref, NULL, NULL));
        T_STR(user_state(world, "app", "u"), "{\"a\":2}");
    }
}

/* ---- list and delete --------------------------------------------------------------------------
 */

static void lists_are_sorted_and_carry_merged_state(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *b2 = adk_create(world, "b", "s2", "{\"app:a\":1}");
        quipu_live *b1 = adk_create(world, "b", "s1", "{\"k\":1,\"user:u\":2}");
        quipu_live *a1 = adk_create(world, "a", "s1", NULL);
        quipu_service_list *list = NULL;
        quipu_error err = {0};

        adk_append(b2, adk_says(world, "e", "user", "x", 5));
        adk_append(b1, adk_says(world, "e", "user", "x", 5));
        adk_append(a1, adk_says(world, "e", "user", "x", 9));
        T_OK(quipu_service_find(world->service, QUIPU_STR("app"),
                                turn_ == 0 ? (quipu_str){NULL, 0} : QUIPU_STR(""), NULL, &list,
                                &err));
        assert_int_equal(list->sessions.count, 3);
        T_STR(quipu_service_entry_at(list->sessions, 0)->ref.session_id, "s1");
        T_STR(quipu_service_entry_at(list->sessions, 0)->ref.user_id, "b");
        adk_check_json(quipu_service_entry_at(list->sessions, 0)->state.text,
                       "{\"k\":1,\"user:u\":2,\"app:a\":1}");
        T_STR(quipu_service_entry_at(list->sessions, 1)->ref.session_id, "s2");
        adk_check_json(quipu_service_entry_at(list->sessions, 1)->state.text,
                       "{\"user:u\":2,\"app:a\":1}");
        T_STR(quipu_service_entry_at(list->sessions, 2)->ref.user_id, "a");
        adk_check_json(quipu_service_entry_at(list->sessions, 2)->state.text, "{\"app:a\":1}");
        assert_int_equal(quipu_service_entry_at(list->sessions, 2)->last_update_time.s, 9);
        assert_int_equal(quipu_service_entry_at(list->sessions, 2)->event_count, 1);
        quipu_free(list);
        T_OK(quipu_service_find(world->service, QUIPU_STR("app"), QUIPU_STR("a"), NULL, &list,
                                &err));
        assert_int_equal(list->sessions.count, 1);
        quipu_free(list);
        T_OK(quipu_service_find(world->service, QUIPU_STR("none"), QUIPU_STR("a"), NULL, &list,
                                &err));
        assert_int_equal(list->sessions.count, 0);
        quipu_free(list);
        quipu_live_free(a1);
        quipu_live_free(b1);
        quipu_live_free(b2);
    }
}

static void delete_takes_the_session_and_nothing_else(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        const quipu_session_ref theirs = adk_ref("app", "v", "s");
        const quipu_session_ref ours = adk_ref("app", "u", "s");
        quipu_live *session = adk_create(world, "u", "s", "{\"k\":1,\"app:a\":1,\"user:b\":1}");
        quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
        quipu_error err = {0};

        adk_append(session, adk_says(world, "e1", "user", "hi", 1));
        T_OK(quipu_service_delete(world->service, &theirs, NULL, &err));
        quipu_live *again = adk_get(world, "u", "s", NULL);
        assert_int_equal(t_live_event_count(again), 1);
        quipu_live_free(again);
        T_OK(quipu_service_delete(world->service, &ours, NULL, &err));
        T_STATUS(quipu_live_append(session,
                                   (quipu_json){quipu_cstr(adk_says(world, "e2", "user", "x", 2))},
                                   NULL, &result, &err),
                 QUIPU_NOT_FOUND);
        assert_int_equal(t_live_event_count(session), 1);
        again = adk_create(world, "u", "s", NULL);
        assert_int_equal(t_live_event_count(again), 0);
        adk_check_state(world, again, "{\"app:a\":1,\"user:b\":1}");
        /* The old handle does not write into the new life. */
        T_STATUS(quipu_live_append(session,
                                   (quipu_json){quipu_cstr(adk_says(world, "e2", "user", "x", 2))},
                                   NULL, &result, &err),
                 QUIPU_CONFLICT);
        T_OK(quipu_live_refresh(session, NULL, &err));
        assert_int_equal(t_live_event_count(session), 0);
        quipu_live_free(again);
        quipu_live_free(session);
    }
}

/* ---- events -----------------------------------------------------------------------------------
 */

static void a_complete_event_is_the_same_after_a_reload(void **state)
{
    static const char event[] =
        "{\"modelVersion\":\"gemini\",\"content\":{\"parts\":[{\"text\":\"t\",\"thought\":true,"
        "\"thoughtSignature\":\"//77AHNpZw==\"},{\"functionCall\":{\"id\":\"fc\",\"args\":{\"n\":"
        "9007199254740993},\"name\":\"f\"}},{\"inlineData\":{\"data\":\"AAE=\",\"mimeType\":\"x\"}}"
        "],"
        "\"role\":\"model\"},\"invocationId\":\"\",\"author\":\"root\",\"actions\":{\"stateDelta\":"
        "{},"
        "\"artifactDelta\":{\"r\":0},\"requestedToolConfirmations\":{\"fc\":{\"hint\":\"?\"}}},"
        "\"longRunningToolIds\":[\"fc\"],\"branch\":\"a.b\",\"id\":\"ev\",\"timestamp\":"
        "1767225603.000001,\"someFutureField\":[{\"x\":1.0}]}";

    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_time at;

        assert_int_equal(adk_append(session, event).seq, 1);
        adk_check_json(adk_event(world, session, 0), event);
        quipu_live_free(session);
        session = adk_get(world, "u", "s", NULL);
        assert_int_equal(t_live_event_count(session), 1);
        adk_check_json(adk_event(world, session, 0), event);
        T_OK(t_live_identity(session, NULL, NULL, &at, NULL));
        assert_int_equal(at.s, 1767225603);
        assert_int_equal(at.ns, 1000);
        quipu_live_free(session);
    }
}

static void events_of_any_time_are_taken(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_time at;

        adk_append(session,
                   "{\"id\":\"z\",\"timestamp\":\"0001-01-01T00:00:00Z\",\"author\":\"a\"}");
        adk_append(session, "{\"id\":\"n\",\"timestamp\":100,\"author\":\"a\"}");
        adk_append(session, "{\"id\":\"b\",\"timestamp\":50.5,\"author\":\"a\"}");
        T_OK(t_live_identity(session, NULL, NULL, &at, NULL));
        assert_int_equal(at.s, 50);
        quipu_live_free(session);
        session = adk_get(world, "u", "s", NULL);
        assert_int_equal(t_live_event_count(session), 3);
        adk_check_json(adk_event(world, session, 0),
                       "{\"id\":\"z\",\"timestamp\":\"0001-01-01T00:00:00Z\",\"author\":\"a\"}");
        quipu_live_free(session);
    }
}

static void an_event_without_id_and_time_gets_both(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_live *again;

        adk_append(session, "{\"author\":\"user\",\"content\":{\"parts\":[{\"text\":\"x\"}]}}");
        again = adk_get(world, "u", "s", NULL);
        quipu_str event = adk_event(world, session, 0);
        assert_non_null(strstr(event.p, "\"id\":\""));
        assert_non_null(strstr(event.p, "\"timestamp\":"));
        adk_check_json(adk_event(world, again, 0), event.p);
        quipu_live_free(again);
        quipu_live_free(session);
    }
}

static void recent_and_after_select_events(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
        quipu_live *session = adk_create(world, "u", "s", "{\"k\":1}");
        char id[16];

        for (int i = 1; i <= 5; i++) {
            (void)snprintf(id, sizeof(id), "e%d", i);
            adk_append(session, adk_says(world, id, "user", "x", i));
        }
        quipu_live_free(session);

        options.num_recent = 3;
        session = adk_get(world, "u", "s", &options);
        assert_int_equal(t_live_event_count(session), 3);
        assert_non_null(strstr(adk_event(world, session, 0).p, "\"e3\""));
        adk_check_state(world, session, "{\"k\":1}");
        quipu_live_free(session);

        options.num_recent = -1;
        options.flags = QUIPU_GET_AFTER;
        options.after.s = 2;
        session = adk_get(world, "u", "s", &options);
        assert_int_equal(t_live_event_count(session), 4);
        assert_non_null(strstr(adk_event(world, session, 0).p, "\"e2\""));
        quipu_live_free(session);

        options.num_recent = 2;
        session = adk_get(world, "u", "s", &options);
        assert_int_equal(t_live_event_count(session), 2);
        assert_non_null(strstr(adk_event(world, session, 1).p, "\"e5\""));
        quipu_live_free(session);

        options.flags = 0;
        options.num_recent = 0;
        session = adk_get(world, "u", "s", &options);
        assert_int_equal(t_live_event_count(session), turn_ == 0 ? 0 : 5);
        adk_append(session, adk_says(world, "e6", "user", "x", 6));
        assert_int_equal(t_live_event_count(session), turn_ == 0 ? 1 : 6);
        quipu_live_free(session);
    }
}

static void events_can_come_by_time(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON | QUIPU_SERVICE_BY_TIME);
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_live *session = adk_create(world, "u", "s", NULL);

    (void)state;
    adk_append(session, adk_says(world, "e1", "user", "x", 5));
    adk_append(session, adk_says(world, "e2", "user", "x", 3));
    adk_append(session, adk_says(world, "e3", "user", "x", 5));
    quipu_live_free(session);
    session = adk_get(world, "u", "s", NULL);
    assert_non_null(strstr(adk_event(world, session, 0).p, "\"e2\""));
    assert_non_null(strstr(adk_event(world, session, 1).p, "\"e1\""));
    assert_non_null(strstr(adk_event(world, session, 2).p, "\"e3\""));
    quipu_live_free(session);
    options.num_recent = 2;
    session = adk_get(world, "u", "s", &options);
    assert_int_equal(t_live_event_count(session), 2);
    assert_non_null(strstr(adk_event(world, session, 0).p, "\"e1\""));
    quipu_live_free(session);
    adk_close(world);
}

static void partial_events_have_no_effect(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_event_result result =
            adk_append(session, "{\"id\":\"p\",\"partial\":true,\"content\":{\"parts\":[{\"text\":"
                                "\"x\"}]},\"actions\":{\"stateDelta\":{\"k\":1,\"temp:t\":1}}}");

        assert_false(result.stored);
        assert_int_equal(result.seq, 0);
        assert_int_equal(t_live_event_count(session), 0);
        adk_check_state(world, session, "{}");
        assert_int_equal(t_live_revision(session, NULL), 0);
        quipu_live_free(session);
    }
}

static void what_is_no_event_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_error err = {0};

        T_STATUS(quipu_live_append(session, (quipu_json){QUIPU_STR("[]")}, NULL, NULL, &err),
                 QUIPU_INVALID);
        T_STATUS(quipu_live_append(session, (quipu_json){{NULL, 0}}, NULL, NULL, &err),
                 QUIPU_MISUSE);
        T_STATUS(quipu_live_append(NULL, (quipu_json){QUIPU_STR("{}")}, NULL, NULL, &err),
                 QUIPU_MISUSE);
        assert_int_equal(t_live_event_count(session), 0);
        quipu_live_free(session);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(created_and_fetched_session_are_equal),
        cmocka_unit_test(an_empty_session_id_gets_a_random_one),
        cmocka_unit_test(creating_twice_is_exists),
        cmocka_unit_test(a_new_session_has_the_callers_time),
        cmocka_unit_test(live_sessions_can_be_read_after_their_store_is_closed),
        cmocka_unit_test(a_missing_session_is_null_for_python_and_an_error_for_go),
        cmocka_unit_test(go_needs_app_and_user),
        cmocka_unit_test(a_session_that_cannot_exist_is_missing),
        cmocka_unit_test(python_strips_ids_on_create_get_and_delete),
        cmocka_unit_test(python_strips_white_space_of_every_script),
        cmocka_unit_test(go_takes_ids_as_they_are),
        cmocka_unit_test(every_triple_is_a_session_of_its_own),
        cmocka_unit_test(scopes_are_shared_as_their_names_say),
        cmocka_unit_test(a_delta_replaces_whole_values_and_keeps_types),
        cmocka_unit_test(temp_names_live_in_the_session_only),
        cmocka_unit_test(temp_names_of_any_delta_are_not_stored),
        cmocka_unit_test(names_of_state_may_be_odd),
        cmocka_unit_test(a_name_can_be_set_read_and_removed),
        cmocka_unit_test(state_of_a_user_has_bare_names),
        cmocka_unit_test(lists_are_sorted_and_carry_merged_state),
        cmocka_unit_test(delete_takes_the_session_and_nothing_else),
        cmocka_unit_test(a_complete_event_is_the_same_after_a_reload),
        cmocka_unit_test(events_of_any_time_are_taken),
        cmocka_unit_test(an_event_without_id_and_time_gets_both),
        cmocka_unit_test(recent_and_after_select_events),
        cmocka_unit_test(events_can_come_by_time),
        cmocka_unit_test(partial_events_have_no_effect),
        cmocka_unit_test(what_is_no_event_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
