/* Rules that ADK's services follow and no other file tests, each for the option
 * sets of Python and of Go. docs/traceability/adk-rules.md lists them all. */
#include "contract/adk_t.h"
#include "lib/short.h"

static quipu_status rules_get(adk_world *world, const char *user, const char *id,
                              const quipu_get_options *options, quipu_live **ret)
{
    const quipu_session_ref ref = adk_ref("app", user, id);

    *ret = NULL;
    return quipu_service_get(world->service, &ref, options, NULL, ret, NULL);
}

static void a_session_is_read_under_its_own_user_only(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *ours = adk_create(world, "u", "s", "{\"k\":1,\"user:u\":1}");
        quipu_live *theirs = NULL;

        adk_append(ours, adk_says(world, "e1", "user", "mine", 1));
        T_STATUS(rules_get(world, "v", "s", NULL, &theirs),
                 turn_ == 0 ? QUIPU_OK : QUIPU_NOT_FOUND);
        assert_null(theirs);
        theirs = adk_create(world, "v", "s", NULL);
        assert_int_equal(t_live_event_count(theirs), 0);
        adk_check_state(world, theirs, "{}");
        adk_append(theirs, adk_says(world, "e1", "user", "theirs", 1));
        quipu_live_free(ours);
        ours = adk_get(world, "u", "s", NULL);
        assert_int_equal(t_live_event_count(ours), 1);
        assert_non_null(strstr(adk_event(world, ours, 0).p, "mine"));
        quipu_live_free(ours);
        quipu_live_free(theirs);
    }
}

static void what_was_read_is_a_copy(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *a = adk_create(world, "u", "s", "{\"k\":1}");
        quipu_live *b = adk_get(world, "u", "s", NULL);

        adk_append(a, adk_says(world, "e1", "user", "x", 1));
        T_OK(quipu_live_set(a, QUIPU_STR("temp:t"), (quipu_json){QUIPU_STR("1")}, NULL, NULL));
        T_OK(quipu_live_set(a, QUIPU_STR("k"), (quipu_json){QUIPU_STR("2")}, NULL, NULL));
        assert_int_equal(t_live_event_count(b), 0);
        adk_check_state(world, b, "{\"k\":1}");
        quipu_live_free(a);
        quipu_live_free(b);
    }
}

static void an_event_past_the_end_is_none(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_json event = {{NULL, 0}};

        adk_append(session, adk_says(world, "e1", "user", "x", 1));
        T_OK(t_live_event(session, 0, &world->arena, &event, NULL));
        T_STATUS(t_live_event(session, 1, &world->arena, &event, NULL), QUIPU_NOT_FOUND);
        T_STATUS(t_live_event(session, SIZE_MAX, &world->arena, &event, NULL), QUIPU_NOT_FOUND);
        quipu_live_free(session);
    }
}

static void a_number_of_events_is_minus_one_or_more(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
        quipu_live *session = adk_create(world, "u", "s", NULL);

        quipu_live_free(session);
        options.num_recent = -2;
        T_STATUS(rules_get(world, "u", "s", &options, &session), QUIPU_MISUSE);
        options.num_recent = INT64_MAX;
        T_OK(rules_get(world, "u", "s", &options, &session));
        quipu_live_free(session);
    }
}

static void a_session_id_is_needed_to_get_and_to_delete(void **state)
{
    const quipu_session_ref none = adk_ref("app", "u", "");
    const quipu_session_ref blank = adk_ref("app", "u", " \t\n");

    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = NULL;

        T_STATUS(quipu_service_get(world->service, &none, NULL, NULL, &session, NULL),
                 QUIPU_INVALID);
        T_STATUS(quipu_service_delete(world->service, &none, NULL, NULL), QUIPU_INVALID);
        /* White space is an id for Go only; Python makes one up at create. */
        T_STATUS(quipu_service_get(world->service, &blank, NULL, NULL, &session, NULL),
                 turn_ == 0 ? QUIPU_INVALID : QUIPU_NOT_FOUND);
        if (turn_ == 1 && t_server()) {
            continue; /* no path can have such a key, so that a server refuses to create it */
        }
        session = adk_create(world, "u", " \t\n", NULL);
        quipu_session_ref ref;
        T_OK(t_live_identity(session, &world->arena, &ref, NULL, NULL));
        assert_int_equal(ref.session_id.n, turn_ == 0 ? 36 : 3);
        quipu_live_free(session);
    }
}

static void an_empty_user_is_a_user_for_python_and_any_for_go(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_service_list *list = NULL;

        quipu_live_free(adk_create(world, "u", "s", NULL));
        T_OK(
            quipu_service_find(world->service, QUIPU_STR("app"), QUIPU_STR(""), NULL, &list, NULL));
        assert_int_equal(list->sessions.count, turn_ == 0 ? 0 : 1);
        quipu_free(list);
        if (turn_ == 0) {
            quipu_live_free(adk_create(world, "", "s", NULL));
            T_OK(quipu_service_find(world->service, QUIPU_STR("app"), QUIPU_STR(""), NULL, &list,
                                    NULL));
            assert_int_equal(list->sessions.count, 1);
            T_STR(quipu_service_entry_at(list->sessions, 0)->ref.user_id, "");
            quipu_free(list);
        }
    }
}

/* The runner appends both like any event; the store only keeps them. */
static void rewind_and_compaction_are_events(void **state)
{
    static const char rewound[] =
        "{\"id\":\"e2\",\"timestamp\":2.0,\"invocationId\":\"i2\",\"author\":\"user\",\"actions\":{"
        "\"stateDelta\":{\"k\":null},\"artifactDelta\":{\"f\":1},"
        "\"rewindBeforeInvocationId\":\"i1\"}}";
    static const char compacted[] =
        "{\"id\":\"e3\",\"timestamp\":3.0,\"author\":\"user\",\"actions\":{\"compaction\":{"
        "\"startTimestamp\":1.0,\"endTimestamp\":2.0,\"compactedContent\":{\"role\":\"model\","
        "\"parts\":[{\"text\":\"short\"}]}}}}";

    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", "{\"k\":1,\"app:a\":1}");

        adk_append(session, adk_says(world, "e1", "user", "x", 1));
        adk_append(session, rewound);
        adk_append(session, compacted);
        quipu_live_free(session);
        session = adk_get(world, "u", "s", NULL);
        assert_int_equal(t_live_event_count(session), 3); /* nothing is taken away */
        adk_check_json(adk_event(world, session, 1), rewound);
        adk_check_json(adk_event(world, session, 2), compacted);
        adk_check_state(world, session, "{\"k\":null,\"app:a\":1}");
        quipu_live_free(session);
    }
}

static void a_delta_that_is_null_or_absent_is_none(void **state)
{
    static const char *const events[] = {
        "{\"id\":\"e0\",\"timestamp\":1.0,\"author\":\"a\",\"content\":{\"parts\":[]},\"actions\":{"
        "\"stateDelta\":null,\"artifactDelta\":null}}",
        "{\"id\":\"e1\",\"timestamp\":1.0,\"author\":\"a\",\"content\":{\"parts\":[]},\"actions\":"
        "null}",
        "{\"id\":\"e2\",\"timestamp\":1.0,\"author\":\"a\",\"content\":{\"parts\":[]}}",
        "{\"id\":\"e3\",\"timestamp\":1.0,\"author\":\"a\",\"content\":null,\"actions\":{"
        "\"stateDelta\":{},\"artifactDelta\":{}}}"};

    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", "{\"k\":1}");

        for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
            assert_int_equal(adk_append(session, events[i]).seq, i + 1);
            adk_check_json(adk_event(world, session, i), events[i]);
        }
        adk_check_state(world, session, "{\"k\":1}");
        quipu_live_free(session);
    }
}

/* A failed append changes neither events nor state nor the time, "temp:" names included. */
static void a_failed_append_leaves_the_session_as_it_was(void **state)
{
    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", "{\"k\":1}");
        quipu_live *other = adk_get(world, "u", "s", NULL);
        quipu_time before;
        quipu_time after;

        adk_append(other, adk_says(world, "e1", "user", "first", 7));
        T_OK(t_live_identity(session, NULL, NULL, &before, NULL));
        T_STATUS(quipu_live_append(
                     session,
                     (quipu_json){QUIPU_STR("{\"id\":\"e2\",\"timestamp\":9.0,\"content\":{"
                                            "\"parts\":[]},\"actions\":{\"stateDelta\":{\"k\":2,"
                                            "\"temp:t\":1}}}")},
                     NULL, NULL, NULL),
                 QUIPU_CONFLICT);
        T_OK(t_live_identity(session, NULL, NULL, &after, NULL));
        assert_int_equal(quipu_time_cmp(before, after), 0);
        assert_int_equal(t_live_event_count(session), 0);
        adk_check_state(world, session, "{\"k\":1}");
        quipu_live_free(session);
        quipu_live_free(other);
    }
}

/* Run and turn are what an event says of itself; nothing else carries them. */
static void run_and_turn_travel_with_the_event(void **state)
{
    static const char said[] =
        "{\"id\":\"e1\",\"timestamp\":1.0,\"invocationId\":\"turn-7\",\"author\":\"user\","
        "\"customMetadata\":{\"sessionType\":\"workflow\",\"workflowId\":\"wf\",\"runId\":\"r1\"}}";
    static const char silent[] = "{\"id\":\"e2\",\"timestamp\":2.0,\"author\":\"user\"}";

    (void)state;
    ADK_BOTH(world)
    {
        quipu_live *session = adk_create(world, "u", "s", NULL);

        adk_append(session, said);
        adk_append(session, silent);
        quipu_history *history = st_get(world->store, "adk:app/u/s", NULL);
        T_STR(quipu_message_at(history->messages, 0)->invocation_id, "turn-7");
        assert_null(quipu_message_at(history->messages, 1)->invocation_id.p);
        quipu_free(history);
        quipu_live_free(session);
        session = adk_get(world, "u", "s", NULL);
        adk_check_json(adk_event(world, session, 0), said);
        adk_check_json(adk_event(world, session, 1), silent);
        quipu_live_free(session);
    }
}

static void signatures_of_any_length_come_back(void **state)
{
    static const char head[] = "{\"id\":\"e\",\"timestamp\":1.0,\"author\":\"a\",\"content\":{"
                               "\"role\":\"model\",\"parts\":[{\"functionCall\":{\"id\":\"c\","
                               "\"name\":\"f\",\"args\":{}},\"thoughtSignature\":\"";
    const size_t sizes[] = {0, 4, 4096, 1 << 20};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
        quipu_live *session = adk_create(world, "u", "s", NULL);
        char *event = malloc(sizeof(head) + sizes[i] + 8);

        assert_non_null(event);
        memcpy(event, head, sizeof(head) - 1);
        memset(event + sizeof(head) - 1, '/', sizes[i]);
        memcpy(event + sizeof(head) - 1 + sizes[i], "\"}]}}", 6);
        adk_append(session, event);
        quipu_live_free(session);
        session = adk_get(world, "u", "s", NULL);
        adk_check_json(adk_event(world, session, 0), event);
        quipu_history *history = st_get(world->store, "adk:app/u/s", NULL);
        assert_int_equal(quipu_tool_call_at(quipu_message_at(history->messages, 0)->calls, 0)
                             ->thought_signature.n,
                         sizes[i] / 4 * 3);
        quipu_free(history);
        quipu_live_free(session);
        free(event);
        adk_close(world);
    }
}

/* The hour that comes twice when clocks go back: times are instants, whatever TZ says. */
static void local_time_has_no_say(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "America/New_York", 1), 0);
    ADK_BOTH(world)
    {
        quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
        quipu_live *session = adk_create(world, "u", "s", NULL);
        quipu_time at;

        adk_append(session, "{\"id\":\"e1\",\"timestamp\":1762061400.25,\"author\":\"a\"}");
        adk_append(session, "{\"id\":\"e2\",\"timestamp\":1762065000.5,\"author\":\"a\"}");
        quipu_live_free(session);
        options.flags = QUIPU_GET_AFTER;
        options.after = (quipu_time){1762065000, 500000000};
        session = adk_get(world, "u", "s", &options);
        assert_int_equal(t_live_event_count(session), 1);
        adk_check_json(adk_event(world, session, 0),
                       "{\"id\":\"e2\",\"timestamp\":1762065000.5,\"author\":\"a\"}");
        T_OK(t_live_identity(session, NULL, NULL, &at, NULL));
        assert_int_equal(at.s, 1762065000);
        assert_int_equal(at.ns, 500000000);
        quipu_live_free(session);
    }
    assert_int_equal(unsetenv("TZ"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_read_under_its_own_user_only),
        cmocka_unit_test(what_was_read_is_a_copy),
        cmocka_unit_test(an_event_past_the_end_is_none),
        cmocka_unit_test(a_number_of_events_is_minus_one_or_more),
        cmocka_unit_test(a_session_id_is_needed_to_get_and_to_delete),
        cmocka_unit_test(an_empty_user_is_a_user_for_python_and_any_for_go),
        cmocka_unit_test(rewind_and_compaction_are_events),
        cmocka_unit_test(a_delta_that_is_null_or_absent_is_none),
        cmocka_unit_test(a_failed_append_leaves_the_session_as_it_was),
        cmocka_unit_test(run_and_turn_travel_with_the_event),
        cmocka_unit_test(signatures_of_any_length_come_back),
        cmocka_unit_test(local_time_has_no_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
