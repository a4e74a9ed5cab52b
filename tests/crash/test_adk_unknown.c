/* A live session when the disk fails: nothing of a failed append shows in memory, an unknown
 * outcome is settled by repeating the event, and nothing is applied twice. */
#include "contract/adk_t.h"
#include "crash/faultvfs.h"
#include "lib/short.h"

#include <sqlite3.h>

#define STATE_EVENT "{\"id\":\"s1\",\"actions\":{\"stateDelta\":{\"n\":1}}}"

static int use_fault_vfs(void **state)
{
    (void)state;
    faultvfs_install();
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
    return 0;
}

static void fail_next_sync(void)
{
    faultvfs_arm((faultvfs_plan){1u << FAULTVFS_SYNC, 1, false, FAULTVFS_EIO});
}

static quipu_status try_append(quipu_live *session, const char *event)
{
    quipu_error err = {0};

    return quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, &err);
}

/* Whether or not it had been written: after the repeat it is there once. */
static void unknown_is_settled_by_repeating(const char *event, bool written, size_t events)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", "{\"n\":0}");
    quipu_live *other;

    fail_next_sync();
    T_STATUS(try_append(session, event), QUIPU_UNKNOWN);
    faultvfs_arm((faultvfs_plan){0});
    assert_int_equal(t_live_event_count(session), 0);
    adk_check_state(world, session, "{\"n\":0}");
    other = adk_get(world, "u", "s", NULL);
    if (written) { /* as if the commit had come through */
        (void)adk_append(other, event);
    }
    (void)adk_append(session, event);
    assert_int_equal(t_live_event_count(session), events);
    adk_check_state(world, session, "{\"n\":1}");
    assert_true(adk_append(session, event).repeated);
    assert_int_equal(t_live_revision(session, NULL), 1);
    quipu_live_free(other);
    other = adk_get(world, "u", "s", NULL);
    assert_int_equal(t_live_event_count(other), events);
    adk_check_state(world, other, "{\"n\":1}");
    quipu_live_free(other);
    quipu_live_free(session);
    adk_close(world);
}

static void repeating_settles_an_event(void **state)
{
    static const char event[] =
        "{\"id\":\"e1\",\"timestamp\":1.0,\"content\":{\"parts\":[{\"text\":"
        "\"x\"}]},\"actions\":{\"stateDelta\":{\"n\":1}}}";

    (void)state;
    unknown_is_settled_by_repeating(event, false, 1);
    unknown_is_settled_by_repeating(event, true, 1);
}

static void repeating_settles_an_event_that_only_changes_state(void **state)
{
    (void)state;
    unknown_is_settled_by_repeating(STATE_EVENT, false, 0);
    unknown_is_settled_by_repeating(STATE_EVENT, true, 0);
}

static void full_disk_changes_neither_store_nor_memory(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *session = adk_create(world, "u", "s", NULL);

    (void)state;
    adk_append(session, adk_says(world, "e1", "user", "one", 1));
    faultvfs_room(0);
    T_STATUS(try_append(session, adk_says(world, "e2", "user", "two", 2)), QUIPU_FULL);
    T_STATUS(try_append(session, STATE_EVENT), QUIPU_FULL);
    assert_int_equal(t_live_event_count(session), 1);
    adk_check_state(world, session, "{}");
    faultvfs_room(-1);
    assert_int_equal(adk_append(session, adk_says(world, "e2", "user", "two", 2)).seq, 2);
    quipu_live_free(session);
    adk_close(world);
}

/* An expired session goes and the new one comes in one transaction: a failure is reported, and
 * changes nothing. */
static void a_renewal_that_fails_says_so_and_can_be_repeated(void **state)
{
    adk_world *world = adk_open(QUIPU_SERVICE_AUTO_CREATE);
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    const quipu_session_ref ref = adk_ref("app", "u", "s");
    quipu_service *brief = NULL;
    quipu_live *session = NULL;
    quipu_error err = {0};

    (void)state;
    options.ttl_ms = 1;
    T_OK(quipu_service_new(world->store, &options, &brief, &err));
    T_OK(quipu_service_create(brief, &ref, (quipu_json){QUIPU_STR("{\"k\":1}")}, NULL, &session,
                              &err));
    quipu_live_free(session);
    st_nap();
    faultvfs_room(0);
    session = NULL;
    T_STATUS(quipu_service_get(world->service, &ref, NULL, NULL, &session, &err), QUIPU_FULL);
    assert_null(session);
    assert_non_null(strstr(err.message, "adk:app/u/s"));
    faultvfs_room(-1);
    session = adk_get(world, "u", "s", NULL);
    adk_check_state(world, session, "{}");
    quipu_live_free(session);
    quipu_service_free(brief);
    adk_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeating_settles_an_event),
        cmocka_unit_test(repeating_settles_an_event_that_only_changes_state),
        cmocka_unit_test(full_disk_changes_neither_store_nor_memory),
        cmocka_unit_test(a_renewal_that_fails_says_so_and_can_be_repeated),
    };
    return cmocka_run_group_tests(tests, use_fault_vfs, NULL);
}
