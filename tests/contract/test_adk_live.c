/* Live sessions: memory in step with the store, events that only change state, staleness by
 * revision, repeats, get-or-create, failures that change nothing. */
#include "contract/adk_t.h"

#include "adk/service.h"
#include "lib/short.h"
#include "store/state.h"
#include "store/store.h"

#define STATE_EVENT(id, n)                                                                         \
    "{\"id\":\"" id "\",\"timestamp\":1.0,\"actions\":{\"stateDelta\":{\"n\":" n "}}}"

static quipu_status try_append(quipu_live *session, const char *event, quipu_error *err)
{
    return quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, err);
}

static int64_t stored_count(adk_world *world)
{
    quipu_history *history = st_get(world->store, "adk:app/u/s", NULL);
    int64_t count = (int64_t)history->messages.count;

    quipu_free(history);
    return count;
}

/* ---- append ------------------------------------------------------------------------------------
 */

static void an_appended_event_is_stored_and_visible_at_once(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);

    (void)state;
    assert_int_equal(adk_append(session, adk_says(world, "e1", "user", "hello", 1)).seq, 1);
    assert_int_equal(stored_count(world), 1);
    assert_int_equal(t_live_event_count(session), 1);
    assert_non_null(strstr(adk_event(world, session, 0).p, "hello"));
    quipu_live_free(session);
    adk_close(world);
}

static void events_accumulate_in_order(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_history *history;

    (void)state;
    adk_append(session, adk_says(world, "e1", "user", "one", 1));
    adk_append(session, adk_says(world, "e2", "agent", "two", 2));
    adk_append(session, adk_says(world, "e3", "user", "three", 1));
    assert_int_equal(t_live_event_count(session), 3);
    for (size_t i = 0; i < 3; i++) {
        static const char *const texts[] = {"one", "two", "three"};
        assert_non_null(strstr(adk_event(world, session, i).p, texts[i]));
    }
    history = st_get(world->store, "adk:app/u/s", NULL);
    assert_int_equal(quipu_message_at(history->messages, 1)->role,
                     QUIPU_ROLE_ASSISTANT); /* model, normalised */
    T_STR(quipu_message_at(history->messages, 1)->author, "agent");
    quipu_free(history);
    quipu_live_free(session);
    adk_close(world);
}

/* The append returns the time that the store filled in, so that memory needs no read. */
static void an_event_without_a_time_gets_the_stored_one_without_a_read(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    const size_t readers = qp_pool_open(&world->store->pool);
    quipu_history *history;

    (void)state;
    adk_append(session, "{\"id\":\"e1\",\"author\":\"user\",\"content\":{\"role\":\"user\","
                        "\"parts\":[{\"text\":\"no time\"}]}}");
    assert_int_equal(qp_pool_open(&world->store->pool), readers);
    history = st_get(world->store, "adk:app/u/s", NULL);
    assert_int_equal(history->messages.count, 1);
    assert_int_equal(t_live_event_count(session), 1);
    assert_true(session->messages[0].has_timestamp);
    assert_int_equal(quipu_time_cmp(session->messages[0].timestamp,
                                    quipu_message_at(history->messages, 0)->timestamp),
                     0);
    quipu_free(history);
    quipu_live_free(session);
    adk_close(world);
}

static void a_delta_alone_is_no_event(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_event_result result = adk_append(session, STATE_EVENT("e1", "1"));
    quipu_live *again;

    (void)state;
    assert_int_equal(result.seq, 0);
    assert_true(result.stored);
    assert_int_equal(result.revision, 1);
    assert_int_equal(t_live_event_count(session), 0);
    assert_int_equal(stored_count(world), 0);
    adk_check_state(world, session, "{\"n\":1}");
    again = adk_get(world, "u", "s", NULL);
    adk_check_state(world, again, "{\"n\":1}");
    quipu_live_free(again);
    /* With anything else in it that a reader would miss, it is one. */
    assert_int_equal(adk_append(session, "{\"id\":\"e2\",\"errorCode\":\"X\",\"actions\":{"
                                         "\"stateDelta\":{\"n\":2}}}")
                         .seq,
                     1);
    assert_int_equal(adk_append(session, "{\"id\":\"e3\",\"actions\":{\"escalate\":true,"
                                         "\"stateDelta\":{\"n\":3}}}")
                         .seq,
                     2);
    assert_int_equal(adk_append(session, "{\"id\":\"e4\",\"author\":\"user\"}").seq, 3);
    adk_check_state(world, session, "{\"n\":3}");
    quipu_live_free(session);
    adk_close(world);
}

static void a_delta_alone_is_an_event_when_the_service_records_it(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_RECORD_STATE);
    quipu_live *session = adk_create(world, "u", "s", NULL);

    (void)state;
    assert_int_equal(adk_append(session, STATE_EVENT("e1", "1")).seq, 1);
    assert_int_equal(t_live_event_count(session), 1);
    assert_int_equal(stored_count(world), 1);
    adk_check_state(world, session, "{\"n\":1}");
    adk_check_json(adk_event(world, session, 0), STATE_EVENT("e1", "1"));
    quipu_live_free(session);
    adk_close(world);
}

static void temp_alone_does_not_reach_the_store(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_event_result result =
        adk_append(session, "{\"id\":\"e\",\"actions\":{\"stateDelta\":{\"temp:a\":1}}}");

    (void)state;
    assert_false(result.stored);
    assert_int_equal(t_live_revision(session, NULL), 0);
    adk_check_state(world, session, "{\"temp:a\":1}");
    quipu_live_free(session);
    adk_close(world);
}

/* ---- staleness --------------------------------------------------------------------------------
 */

static void a_stale_session_conflicts_and_reports_both_revisions(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live *a = adk_create(world, "u", "s", NULL);
    quipu_live *b = adk_get(world, "u", "s", NULL);
    int64_t stored = -1;
    quipu_error err = {0};

    (void)state;
    adk_append(a, adk_says(world, "e1", "user", "a", 1));
    adk_append(a, adk_says(world, "e2", "user", "a", 1));
    /* Equal and older times hide nothing. */
    T_STATUS(try_append(b, adk_says(world, "e3", "user", "b", 1), &err), QUIPU_CONFLICT);
    T_STATUS(try_append(b, STATE_EVENT("e4", "1"), &err), QUIPU_CONFLICT);
    assert_int_equal(t_live_revision(b, &stored), 0);
    assert_int_equal(stored, 2);
    assert_int_equal(t_live_event_count(b), 0);
    adk_check_state(world, b, "{}");
    T_OK(quipu_live_refresh(b, NULL, &err));
    assert_int_equal(t_live_event_count(b), 2);
    assert_int_equal(adk_append(b, adk_says(world, "e3", "user", "b", 0.5)).seq, 3);
    T_STATUS(try_append(a, adk_says(world, "e5", "user", "a", 9), &err), QUIPU_CONFLICT);
    quipu_live_free(a);
    quipu_live_free(b);
    adk_close(world);
}

static void a_session_is_never_stale_by_itself(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_live *other = adk_create(world, "u", "t", NULL);
    char id[16];

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof(id), "e%d", i);
        adk_append(session, adk_says(world, id, "user", "x", 20 - i));
        (void)snprintf(id, sizeof(id), "t%d", i);
        adk_append(session, "{\"actions\":{\"stateDelta\":{\"app:n\":1,\"n\":1}}}");
        adk_append(other, adk_says(world, id, "user", "x", i)); /* another session's business */
        adk_append(session,
                   "{\"author\":\"user\",\"content\":{\"parts\":[]}}"); /* no id, no time */
    }
    assert_int_equal(t_live_event_count(session), 40);
    quipu_live_free(session);
    quipu_live_free(other);
    adk_close(world);
}

static void rebase_appends_and_catches_up(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_REBASE);
    quipu_live *a = adk_create(world, "u", "s", NULL);
    quipu_live *b = adk_get(world, "u", "s", NULL);

    (void)state;
    adk_append(a, adk_says(world, "e1", "user", "one", 1));
    adk_append(a, STATE_EVENT("x", "7"));
    assert_int_equal(adk_append(b, adk_says(world, "e2", "user", "two", 2)).seq, 2);
    assert_int_equal(t_live_event_count(b), 2);
    assert_non_null(strstr(adk_event(world, b, 0).p, "one"));
    assert_non_null(strstr(adk_event(world, b, 1).p, "two"));
    adk_check_state(world, b, "{\"n\":7}");
    adk_append(a, STATE_EVENT("y", "8"));
    adk_check_state(world, a, "{\"n\":8}");
    assert_int_equal(t_live_event_count(a), 2);
    quipu_live_free(a);
    quipu_live_free(b);
    adk_close(world);
}

/* ---- repeats ----------------------------------------------------------------------------------
 */

static void a_repeated_event_applies_nothing_twice(void **state)
{
    static const char event[] =
        "{\"id\":\"e1\",\"timestamp\":1.0,\"content\":{\"parts\":[{\"text\":\"x\"}]},"
        "\"actions\":{\"stateDelta\":{\"n\":1,\"temp:t\":1}}}";
    adk_world *world = adk_open(0);
    quipu_live *a = adk_create(world, "u", "s", NULL);
    quipu_live *b = adk_get(world, "u", "s", NULL);
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_error err = {0};

    (void)state;
    adk_append(a, event);
    adk_append(a, STATE_EVENT("e2", "2"));
    result = adk_append(a, event);
    assert_true(result.repeated);
    assert_int_equal(result.seq, 1);
    assert_int_equal(t_live_event_count(a), 1);
    adk_check_state(world, a, "{\"n\":2,\"temp:t\":1}");
    /* From a stale handle too: it is settled, and visible. */
    assert_true(adk_append(b, event).repeated);
    assert_int_equal(t_live_event_count(b), 1);
    assert_int_equal(stored_count(world), 1);
    T_STATUS(try_append(a, "{\"id\":\"e1\",\"timestamp\":1.0,\"content\":{\"parts\":[]}}", &err),
             QUIPU_EXISTS);
    assert_int_equal(t_live_event_count(a), 1);
    quipu_live_free(a);
    quipu_live_free(b);
    adk_close(world);
}

static void state_events_are_remembered_up_to_their_limit(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    char event[128];
    quipu_error err = {0};

    (void)state;
    for (int i = 0; i < QP_STATE_EVENTS_MAX; i++) {
        (void)snprintf(event, sizeof(event),
                       "{\"id\":\"s%d\",\"actions\":{\"stateDelta\":{\"n\":%d}}}", i, i);
        assert_false(adk_append(session, event).repeated);
    }
    assert_true(adk_append(session, "{\"id\":\"s0\",\"actions\":{\"stateDelta\":{\"n\":0}}}")
                    .repeated); /* the oldest of 64 */
    adk_check_state(world, session, "{\"n\":63}");
    T_STATUS(try_append(session, "{\"id\":\"s1\",\"actions\":{\"stateDelta\":{\"n\":9}}}", &err),
             QUIPU_EXISTS);
    adk_append(session, "{\"id\":\"s64\",\"actions\":{\"stateDelta\":{\"n\":64}}}");
    assert_false(adk_append(session, "{\"id\":\"s0\",\"actions\":{\"stateDelta\":{\"n\":0}}}")
                     .repeated); /* forgotten by the 65th */
    quipu_live_free(session);
    adk_close(world);
}

/* ---- get-or-create ----------------------------------------------------------------------------
 */

static void get_creates_what_is_missing_when_asked(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_AUTO_CREATE);
    adk_world *plain = adk_open(QUIPU_SERVICE_GO);
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_live *session = adk_get(world, "u", "s", NULL);

    (void)state;
    assert_non_null(session);
    adk_append(session, adk_says(world, "e1", "user", "x", 1));
    quipu_live_free(session);
    session = adk_get(world, "u", "s", NULL);
    assert_int_equal(t_live_event_count(session), 1);
    quipu_live_free(session);
    options.flags = QUIPU_GET_CREATE;
    session = adk_get(plain, "u", "s", &options);
    assert_int_equal(t_live_event_count(session), 0);
    quipu_live_free(session);
    adk_close(world);
    adk_close(plain);
}

static void an_expired_session_is_renewed_blank(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_AUTO_CREATE);
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_session_patch at_once = QUIPU_SESSION_PATCH_INIT;
    const quipu_session_ref ref = adk_ref("app", "u", "s");
    quipu_service *brief = NULL;
    quipu_live *session = NULL;
    quipu_live *old = NULL;
    quipu_error err = {0};

    (void)state;
    options.ttl_ms = 3600000;
    at_once.set = QUIPU_SET_TTL;
    at_once.ttl_ms = 1;
    T_OK(quipu_service_new(world->store, &options, &brief, &err));
    T_OK(quipu_service_create(brief, &ref, (quipu_json){QUIPU_STR("{\"k\":1,\"user:u\":1}")}, NULL,
                              &old, &err));
    adk_append(old, adk_says(world, "e1", "user", "x", 1));
    T_OK(quipu_session_update(world->store, QUIPU_STR("adk:app/u/s"), &at_once, NULL, NULL, &err));
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    T_OK(quipu_service_get(brief, &ref, NULL, NULL, &session, &err));
    assert_null(session); /* expired counts as missing */
    T_STATUS(try_append(old, adk_says(world, "e2", "user", "x", 2), &err), QUIPU_EXPIRED);
    session = adk_get(world, "u", "s", NULL);
    assert_int_equal(t_live_event_count(session), 0);
    adk_check_state(world, session, "{\"user:u\":1}");
    T_STATUS(try_append(old, adk_says(world, "e2", "user", "x", 2), &err), QUIPU_CONFLICT);
    quipu_live_free(session);
    quipu_live_free(old);
    quipu_service_free(brief);
    adk_close(world);
}

/* ---- failures ---------------------------------------------------------------------------------
 */

typedef struct swept {
    adk_world *world;
    quipu_live *session;
    int64_t round;
} swept;

static void swept_append(void *ctx)
{
    swept *sweep = ctx;
    quipu_error err = {0};
    char event[256];
    quipu_status status;

    t_fault_pause(true);
    const size_t before = t_live_event_count(sweep->session);
    const int64_t stored_before = stored_count(sweep->world);
    (void)snprintf(event, sizeof(event),
                   "{\"id\":\"f%lld\",\"timestamp\":1.0,\"content\":{\"parts\":[{\"text\":\"x\"},"
                   "{\"functionCall\":{\"name\":\"f\",\"args\":{}}}]},\"actions\":{\"stateDelta\":{"
                   "\"n\":%lld,\"temp:t\":1}}}",
                   (long long)sweep->round, (long long)sweep->round);
    sweep->round++;
    t_fault_pause(false);
    status = try_append(sweep->session, event, &err);
    t_fault_pause(true);
    /* A server may have stored what there is no memory to read the answer of: the same event
     * again settles it. */
    if (t_server() && status == QUIPU_UNKNOWN) {
        status = try_append(sweep->session, event, &err);
        assert_int_equal(status, QUIPU_OK);
    }
    assert_true(status == QUIPU_OK || status == QUIPU_NOMEM);
    const size_t added = status == QUIPU_OK ? 1 : 0;
    assert_int_equal(t_live_event_count(sweep->session), before + added);
    assert_int_equal(stored_count(sweep->world), stored_before + (int64_t)added);
    t_fault_pause(false);
}

static void without_memory_an_append_is_in_both_or_in_neither(void **state)
{
    swept sweep = {.round = 0};

    (void)state;
    sweep.world = adk_open(0);
    sweep.session = adk_create(sweep.world, "u", "s", NULL);
    for (int64_t countdown = 1; countdown < 200; countdown++) {
        t_fault_install();
        t_fault_arm(countdown, T_FAULT_ONCE);
        swept_append(&sweep);
        const bool fired = t_fault_fired() > 0;
        t_fault_arm(0, T_FAULT_ONCE);
        t_fault_uninstall();
        if (!fired) {
            break;
        }
    }
    assert_true(sweep.round > 5);
    quipu_live_free(sweep.session);
    adk_close(sweep.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_appended_event_is_stored_and_visible_at_once),
        cmocka_unit_test(events_accumulate_in_order),
        cmocka_unit_test(an_event_without_a_time_gets_the_stored_one_without_a_read),
        cmocka_unit_test(a_delta_alone_is_no_event),
        cmocka_unit_test(a_delta_alone_is_an_event_when_the_service_records_it),
        cmocka_unit_test(temp_alone_does_not_reach_the_store),
        cmocka_unit_test(a_stale_session_conflicts_and_reports_both_revisions),
        cmocka_unit_test(a_session_is_never_stale_by_itself),
        cmocka_unit_test(rebase_appends_and_catches_up),
        cmocka_unit_test(a_repeated_event_applies_nothing_twice),
        cmocka_unit_test(state_events_are_remembered_up_to_their_limit),
        cmocka_unit_test(get_creates_what_is_missing_when_asked),
        cmocka_unit_test(an_expired_session_is_renewed_blank),
        cmocka_unit_test(without_memory_an_append_is_in_both_or_in_neither),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
