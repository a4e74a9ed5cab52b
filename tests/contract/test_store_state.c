/* State with who set it last: quipu_state_get(). */
#include "contract/adk_t.h"
#include "contract/maintain_t.h"

#include <quipu/state.h>

#define KEY "adk:app/user/s"

static quipu_state_list *state_of(quipu_store *store, const char *key)
{
    quipu_state_list *list = NULL;
    quipu_error err = {0};

    if (quipu_state_get(store, quipu_cstr(key), NULL, &list, &err) != QUIPU_OK) {
        fail_msg("%s", err.message);
    }
    return list;
}

static bool same(quipu_str text, const char *expected)
{
    return expected == NULL ? text.p == NULL : quipu_str_eq(text, quipu_cstr(expected));
}

static void check(const quipu_state_list *list, size_t at, quipu_scope scope, const char *name,
                  const char *value, const char *by, int64_t seq, const char *in)
{
    const quipu_state_entry *entry;

    assert_true(at < list->entries.count);
    entry = quipu_state_entry_at(list->entries, at);
    if (entry->scope != scope || !same(entry->name, name) || !same(entry->value.text, value) ||
        !same(entry->set_by, by) || entry->set_seq != seq || !same(entry->set_in, in) ||
        entry->set_at.s == 0) {
        fail_msg("entry %zu is %d %s = %s, by %s at %lld in %s", at, (int)entry->scope,
                 entry->name.p, entry->value.text.p, entry->set_by.p, (long long)entry->set_seq,
                 entry->set_in.p);
    }
}

/* A session of a user with state in every scope, set by different events. */
static quipu_live *fill(adk_world *world)
{
    quipu_live *live = adk_create(world, "user", "s", "{\"born\":1}");

    (void)adk_append(live,
                     "{\"id\":\"e1\",\"author\":\"planner\",\"timestamp\":1.5,"
                     "\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"actions\":{\"stateDelta\":"
                     "{\"plan\":\"a\",\"user:name\":\"Ada\",\"app:tier\":2}}}");
    (void)adk_append(live, "{\"id\":\"e2\",\"author\":\"worker\",\"timestamp\":2.5,"
                           "\"content\":{\"parts\":[{\"text\":\"ho\"}]},"
                           "\"actions\":{\"stateDelta\":{\"plan\":\"b\"}}}");
    (void)adk_append(live, "{\"id\":\"e3\",\"author\":\"user\",\"timestamp\":3.5,"
                           "\"actions\":{\"stateDelta\":{\"only\":true}}}");
    return live;
}

static void state_says_who_set_it_last(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *live = fill(world);
    quipu_state_list *list = state_of(world->store, KEY);

    (void)state;
    assert_int_equal(list->entries.count, 5);
    check(list, 0, QUIPU_SCOPE_APP, "tier", "2", "planner", 1, KEY);
    check(list, 1, QUIPU_SCOPE_USER, "name", "\"Ada\"", "planner", 1, KEY);
    check(list, 2, QUIPU_SCOPE_SESSION, "born", "1", NULL, 0, NULL);
    check(list, 3, QUIPU_SCOPE_SESSION, "only", "true", "user", 0, NULL);
    check(list, 4, QUIPU_SCOPE_SESSION, "plan", "\"b\"", "worker", 2, NULL);
    quipu_free(list);
    /* What is set without an event says nobody, and not who set it before. */
    T_OK(quipu_live_set(live, QUIPU_STR("plan"), (quipu_json){QUIPU_STR("3")}, NULL, NULL));
    list = state_of(world->store, KEY);
    check(list, 4, QUIPU_SCOPE_SESSION, "plan", "3", NULL, 0, NULL);
    quipu_free(list);
    quipu_live_free(live);
    mt_clean(world->store);
    adk_close(world);
}

static void another_session_of_the_user_sees_who_set_it(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *live = fill(world);
    quipu_live *other = adk_create(world, "user", "t", NULL);
    quipu_state_list *list = state_of(world->store, "adk:app/user/t");

    (void)state;
    assert_int_equal(list->entries.count, 2);
    check(list, 1, QUIPU_SCOPE_USER, "name", "\"Ada\"", "planner", 1, KEY);
    quipu_free(list);
    quipu_live_free(other);
    quipu_live_free(live);
    adk_close(world);
}

/* Who set state of the app goes with the session; the state stays, and so does its time. */
static void a_deleted_session_is_not_named_any_more(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *live = fill(world);
    quipu_live *other = adk_create(world, "user", "t", NULL);
    quipu_state_list *list = state_of(world->store, "adk:app/user/t");
    const quipu_time at = quipu_state_entry_at(list->entries, 0)->set_at;

    (void)state;
    quipu_free(list);
    T_OK(quipu_session_delete(world->store, QUIPU_STR(KEY), NULL, NULL, NULL, NULL));
    list = state_of(world->store, "adk:app/user/t");
    assert_int_equal(list->entries.count, 2);
    check(list, 0, QUIPU_SCOPE_APP, "tier", "2", NULL, 0, NULL);
    check(list, 1, QUIPU_SCOPE_USER, "name", "\"Ada\"", NULL, 0, NULL);
    assert_int_equal(quipu_time_cmp(quipu_state_entry_at(list->entries, 0)->set_at, at), 0);
    quipu_free(list);
    quipu_live_free(other);
    quipu_live_free(live);
    adk_close(world);
}

static void a_long_author_is_cut(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *live = adk_create(world, "user", "s", NULL);
    char event[2048];

    (void)state;
    for (int more = 0; more <= 1; more++) {
        quipu_state_list *list;

        (void)snprintf(event, sizeof(event),
                       "{\"id\":\"e%d\",\"author\":\"%0*d\",\"timestamp\":1.5,"
                       "\"actions\":{\"stateDelta\":{\"n\":%d}}}",
                       more, QUIPU_STATE_SET_BY_MAX + more, 0, more);
        (void)adk_append(live, event);
        list = state_of(world->store, KEY);
        assert_int_equal(quipu_state_entry_at(list->entries, 0)->set_by.n, QUIPU_STATE_SET_BY_MAX);
        quipu_free(list);
    }
    quipu_live_free(live);
    adk_close(world);
}

static void an_export_carries_who_set_it(void **state)
{
    T_NOT_SERVED("a server imports nothing");
    adk_world *world = adk_open(0);
    quipu_live *live = fill(world);
    quipu_store *other = st_open_new(NULL, NULL);
    mt_stream stream = mt_export(world->store, NULL);
    quipu_state_list *list;

    (void)state;
    mt_import(other, &stream);
    mt_free(&stream);
    list = state_of(other, KEY);
    check(list, 0, QUIPU_SCOPE_APP, "tier", "2", "planner", 1, KEY);
    check(list, 4, QUIPU_SCOPE_SESSION, "plan", "\"b\"", "worker", 2, NULL);
    quipu_free(list);
    quipu_close(other);
    quipu_live_free(live);
    adk_close(world);
}

static void a_missing_session_has_no_state(void **state)
{
    quipu_state_list *list = NULL;

    assert_int_equal(quipu_state_get(*state, QUIPU_STR("missing"), NULL, &list, NULL),
                     QUIPU_NOT_FOUND);
    st_create(*state, "plain");
    list = state_of(*state, "plain");
    assert_int_equal(list->entries.count, 0);
    quipu_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_says_who_set_it_last),
        cmocka_unit_test(another_session_of_the_user_sees_who_set_it),
        cmocka_unit_test(a_deleted_session_is_not_named_any_more),
        cmocka_unit_test(a_long_author_is_cut),
        cmocka_unit_test(an_export_carries_who_set_it),
        ST_TEST(a_missing_session_has_no_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
