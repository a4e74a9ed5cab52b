/* Sessions that the caller keeps: one reading has all of it, an append needs no live session. */
#include "base/buf.h"
#include "contract/adk_t.h"
#include "lib/short.h"

static quipu_snapshot snapshot(adk_world *world, const char *id)
{
    quipu_live *session = adk_get(world, "u", id, NULL);
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_error err = {0};

    assert_non_null(session);
    T_OK(t_live_snapshot(session, &world->arena, &got, &err));
    quipu_live_free(session);
    return got;
}

/* The events as one array. */
static quipu_str snapshot_array(adk_world *world, quipu_jsons events)
{
    quipu_str all = QUIPU_STR("[");
    qp_buf buf;

    qp_buf_init(&buf, 100000);
    qp_buf_puts(&buf, "[");
    for (size_t i = 0; i < events.count; i++) {
        qp_buf_puts(&buf, i > 0 ? "," : "");
        qp_buf_put(&buf, quipu_json_at(events, i)->text);
    }
    qp_buf_puts(&buf, "]");
    T_OK(quipu_arena_copy(&world->arena, qp_buf_str(&buf), &all));
    qp_buf_free(&buf);
    return all;
}

static quipu_status append(adk_world *world, quipu_live_identity *identity, const char *event,
                           quipu_event_result *ret)
{
    quipu_error err = {0};

    return quipu_service_append(world->service, identity, (quipu_json){quipu_cstr(event)}, NULL,
                                ret, &err);
}

static void a_snapshot_has_names_state_and_all_events(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live *session = adk_create(world, "u", "s", "{\"k\":1,\"temp:t\":2}");
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_time time;
    quipu_error err = {0};

    (void)state;
    T_OK(t_live_snapshot(session, &world->arena, &got, &err));
    assert_int_equal(got.events.count, 0);
    adk_check_json(got.state.text, "{\"k\":1,\"temp:t\":2}");
    (void)adk_append(session, adk_says(world, "e1", "user", "hello", 10.0));
    (void)adk_append(session, adk_says(world, "e2", "bot", "hi", 11.0));
    T_OK(t_live_snapshot(session, &world->arena, &got, &err));
    T_OK(t_live_identity(session, &world->arena, NULL, &time, &err));
    T_STR(got.identity->ref.app_name, "app");
    T_STR(got.identity->ref.user_id, "u");
    T_STR(got.identity->ref.session_id, "s");
    assert_int_equal(got.identity->revision, t_live_revision(session, NULL));
    assert_int_equal(quipu_time_cmp(got.identity->last_update_time, time), 0);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.events.count, 2);
    adk_check_json(snapshot_array(world, got.events),
                   "[{\"id\":\"e1\",\"author\":\"user\",\"timestamp\":10.0,\"content\":{\"role\":"
                   "\"user\",\"parts\":[{\"text\":\"hello\"}]}},{\"id\":\"e2\",\"author\":\"bot\","
                   "\"timestamp\":11.0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":"
                   "\"hi\"}]}}]");
    quipu_live_free(session);
    adk_close(world);
}

static void appends_without_a_live_session_follow_each_other(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;

    (void)state;
    quipu_live_free(adk_create(world, "u", "s", NULL));
    identity = *snapshot(world, "s").identity;
    T_OK(append(world, &identity, adk_says(world, "e1", "user", "a", 10.0), &result));
    assert_int_equal(result.seq, 1);
    assert_true(result.stored);
    T_OK(append(world, &identity,
                "{\"id\":\"e2\",\"timestamp\":11.0,\"actions\":{\"stateDelta\":{\"k\":7,\"temp:t\":"
                "1,\"user:n\":\"x\"}}}",
                &result));
    assert_int_equal(result.seq, 2);
    assert_int_equal(identity.revision, result.revision);
    assert_int_equal(identity.last_update_time.s, 11);
    assert_int_equal(snapshot(world, "s").identity->revision, identity.revision);
    assert_int_equal(snapshot(world, "s").count, 2);
    adk_check_json(snapshot(world, "s").state.text, "{\"k\":7,\"user:n\":\"x\"}");
    adk_close(world);
}

static void a_moment_that_has_passed_is_a_conflict(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live_identity first = QUIPU_LIVE_IDENTITY_INIT;
    quipu_live_identity second = QUIPU_LIVE_IDENTITY_INIT;
    const quipu_session_ref ref = adk_ref("app", "u", "s");

    (void)state;
    quipu_live_free(adk_create(world, "u", "s", NULL));
    first = second = *snapshot(world, "s").identity;
    T_OK(append(world, &first, adk_says(world, "e1", "user", "a", 10.0), NULL));
    T_STATUS(append(world, &second, adk_says(world, "e2", "user", "b", 11.0), NULL),
             QUIPU_CONFLICT);
    /* The same event again is no conflict: it is settled. */
    T_OK(append(world, &second, adk_says(world, "e1", "user", "a", 10.0), NULL));
    assert_int_equal(snapshot(world, "s").count, 1);
    /* Another life of the same name, at the same revision. */
    first = *snapshot(world, "s").identity;
    T_OK(quipu_service_delete(world->service, &ref, NULL, NULL));
    T_STATUS(append(world, &first, adk_says(world, "e3", "user", "c", 12.0), NULL),
             QUIPU_NOT_FOUND);
    quipu_live_free(adk_create(world, "u", "s", NULL));
    second = *snapshot(world, "s").identity;
    T_OK(append(world, &second, adk_says(world, "e4", "user", "d", 13.0), NULL));
    T_STATUS(append(world, &first, adk_says(world, "e5", "user", "e", 14.0), NULL), QUIPU_CONFLICT);
    adk_close(world);
}

static void a_rebasing_service_takes_events_of_passed_moments(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON | QUIPU_SERVICE_REBASE);
    quipu_live_identity first = QUIPU_LIVE_IDENTITY_INIT;
    quipu_live_identity second = QUIPU_LIVE_IDENTITY_INIT;

    (void)state;
    quipu_live_free(adk_create(world, "u", "s", NULL));
    first = second = *snapshot(world, "s").identity;
    T_OK(append(world, &first, adk_says(world, "e1", "user", "a", 10.0), NULL));
    T_OK(append(world, &second, adk_says(world, "e2", "user", "b", 11.0), NULL));
    assert_int_equal(second.revision, snapshot(world, "s").identity->revision);
    assert_int_equal(second.last_update_time.s, 11);
    assert_int_equal(snapshot(world, "s").count, 2);
    adk_close(world);
}

/* A retry after an unknown outcome, and an event that is delivered again. */
static void a_repeat_moves_the_head_over_its_own_event_only(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_live_identity mine = QUIPU_LIVE_IDENTITY_INIT;
    quipu_live_identity other = QUIPU_LIVE_IDENTITY_INIT;

    (void)state;
    quipu_live_free(adk_create(world, "u", "s", NULL));
    mine = other = *snapshot(world, "s").identity;
    T_OK(append(world, &other, adk_says(world, "e1", "user", "a", 10.0), NULL));
    /* As if the answer to e1 had been lost: all that happened is e1. */
    T_OK(append(world, &mine, adk_says(world, "e1", "user", "a", 10.0), &result));
    assert_true(result.repeated);
    assert_int_equal(mine.revision, other.revision);
    assert_int_equal(mine.last_update_time.s, 10);
    T_OK(append(world, &mine, adk_says(world, "e2", "user", "b", 11.0), NULL));
    other = *snapshot(world, "s").identity;
    T_OK(append(world, &other, adk_says(world, "x", "bot", "unseen", 12.0), NULL));
    T_OK(append(world, &mine, adk_says(world, "e2", "user", "b", 11.0), &result));
    assert_true(result.repeated);
    T_STATUS(append(world, &mine, adk_says(world, "e3", "user", "c", 13.0), NULL), QUIPU_CONFLICT);
    assert_int_equal(snapshot(world, "s").count, 3);
    adk_close(world);
}

static void what_is_missing_is_misuse(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    quipu_live *session = adk_create(world, "u", "s", NULL);
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;

    (void)state;
    T_STATUS(t_live_snapshot(NULL, &world->arena, &got, NULL), QUIPU_MISUSE);
    T_STATUS(t_live_snapshot(session, NULL, &got, NULL), QUIPU_MISUSE);
    T_STATUS(t_live_snapshot(session, &world->arena, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(append(world, NULL, "{}", NULL), QUIPU_MISUSE);
    identity = *snapshot(world, "s").identity;
    T_STATUS(append(world, &identity, "[]", NULL), QUIPU_INVALID);
    T_OK(append(world, &identity, "{\"id\":\"p\",\"partial\":true}", NULL));
    assert_int_equal(snapshot(world, "s").identity->revision, identity.revision);
    quipu_live_free(session);
    adk_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_has_names_state_and_all_events),
        cmocka_unit_test(appends_without_a_live_session_follow_each_other),
        cmocka_unit_test(a_moment_that_has_passed_is_a_conflict),
        cmocka_unit_test(a_rebasing_service_takes_events_of_passed_moments),
        cmocka_unit_test(a_repeat_moves_the_head_over_its_own_event_only),
        cmocka_unit_test(what_is_missing_is_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
