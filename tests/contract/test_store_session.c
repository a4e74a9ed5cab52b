/* Sessions through the public API: create, get, get-or-create, update, delete. */
#include "contract/store_t.h"
#include "lib/short.h"

#define KEY QUIPU_STR("telegram:1:2")

/* ---- create and get ---------------------------------------------------------------------------
 */

static void created_session_comes_back_as_given(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_history *made = NULL;
    quipu_error err = {0};

    values.key = KEY;
    values.agent_id = QUIPU_STR("planner");
    values.channel_type = QUIPU_STR("telegram");
    values.channel_id = QUIPU_STR("1");
    values.model = QUIPU_STR("claude");
    values.metadata.text = QUIPU_STR("{ \"thinking\": 1.50 }");
    T_OK(quipu_session_create(store, &values, NULL, &made, &err));
    quipu_history *got = st_get(store, "telegram:1:2", NULL);
    T_STR(got->session->key, "telegram:1:2");
    T_STR(got->session->agent_id, "planner");
    T_STR(got->session->channel_type, "telegram");
    T_STR(got->session->channel_id, "1");
    T_STR(got->session->model, "claude");
    T_STR(got->session->metadata.text, "{ \"thinking\": 1.50 }");
    T_STR(got->session->session_id, "telegram:1:2");
    T_STR(got->session->app_name, "");
    assert_int_equal(got->session->revision, 0);
    assert_int_equal(got->session->next_seq, 1);
    assert_int_equal(got->messages.count, 0);
    assert_false(got->session->has_expiry);
    assert_memory_equal(&got->session->uid, &made->session->uid, sizeof(quipu_uuid));
    assert_int_equal(quipu_time_cmp(got->session->created_at, made->session->created_at), 0);
    quipu_free(made);
    quipu_free(got);
}

static void what_was_not_given_is_absent(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    quipu_history *got = st_get(store, "k", NULL);
    assert_null(got->session->agent_id.p);
    assert_null(got->session->model.p);
    assert_null(got->session->metadata.text.p);
    quipu_free(got);
}

static void unknown_key_is_not_found_and_the_message_names_it(void **state)
{
    quipu_store *store = *state;
    quipu_history *history = NULL;
    quipu_error err = {0};

    T_STATUS(quipu_session_get(store, QUIPU_STR("ghost"), NULL, NULL, &history, &err),
             QUIPU_NOT_FOUND);
    assert_null(history);
    assert_non_null(strstr(err.message, "\"ghost\""));
    assert_non_null(strstr(err.message, "create it"));
}

static void second_create_of_a_key_exists(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("k");
    quipu_error err = {0};

    st_create(store, "k");
    assert_int_equal(st_append(store, "k", "kept"), 1);
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "\"k\""));
    quipu_history *got = st_get(store, "k", NULL);
    assert_int_equal(got->messages.count, 1);
    quipu_free(got);
}

static void initial_history_comes_with_the_session(void **state)
{
    quipu_store *store = *state;
    quipu_message messages[3] = {st_says(QUIPU_ROLE_SYSTEM, "be kind"),
                                 st_says(QUIPU_ROLE_USER, "hello"),
                                 st_says(QUIPU_ROLE_ASSISTANT, "hello you")};
    quipu_session_new values = st_values("k");
    quipu_history *made = NULL;
    quipu_error err = {0};

    values.messages = quipu_messages_of(messages, 3);
    T_OK(quipu_session_create(store, &values, NULL, &made, &err));
    st_check_whole(made);
    assert_int_equal(made->messages.count, 3);
    T_STR(quipu_message_at(made->messages, 2)->content, "hello you");
    assert_int_equal(quipu_message_at(made->messages, 0)->role, QUIPU_ROLE_SYSTEM);
    quipu_free(made);
    assert_int_equal(st_append(store, "k", "more"), 4);
    quipu_history *got = st_get(store, "k", NULL);
    st_check_whole(got);
    quipu_free(got);
}

static void create_with_a_bad_message_leaves_nothing(void **state)
{
    quipu_store *store = *state;
    quipu_message messages[2] = {st_says(QUIPU_ROLE_USER, "a"), st_says(QUIPU_ROLE_USER, "b")};
    quipu_session_new values = st_values("k");
    quipu_error err = {0};

    messages[0].event_id = messages[1].event_id = QUIPU_STR("same");
    values.messages = quipu_messages_of(messages, 2);
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_EXISTS);
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
}

static void key_of_the_greatest_length_works_and_one_more_does_not(void **state)
{
    quipu_store *store = *state;
    char key[QUIPU_KEY_MAX + 2];
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error err = {0};

    memset(key, 'k', sizeof(key));
    values.key = (quipu_str){key, QUIPU_KEY_MAX};
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    values.key.n++;
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_LIMIT);
}

static void keys_that_are_no_text_are_refused(void **state)
{
    quipu_store *store = *state;
    const quipu_str bad[] = {{NULL, 0}, {"", 0}, {"a\0b", 3}, {"\xff", 1}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        quipu_history *history = NULL;
        quipu_error err = {0};
        values.key = bad[i];
        T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_INVALID);
        assert_string_equal(err.field, "key");
        T_STATUS(quipu_session_get(store, bad[i], NULL, NULL, &history, &err), QUIPU_INVALID);
        T_STATUS(quipu_session_delete(store, bad[i], NULL, NULL, NULL, &err), QUIPU_INVALID);
    }
}

static void metadata_must_be_an_object(void **state)
{
    quipu_store *store = *state;
    static const char *const bad[] = {"[]", "1", "{\"a\":}", "", "null"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        quipu_session_new values = st_values("k");
        quipu_error err = {0};
        values.metadata.text = quipu_cstr(bad[i]);
        T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_INVALID);
    }
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
}

/* ---- ranges -----------------------------------------------------------------------------------
 */

static void check_range(quipu_store *store, const quipu_range *range, int64_t from, int64_t to,
                        bool before, bool after)
{
    quipu_history *history = st_get(store, "k", range);

    assert_int_equal(history->messages.count, to - from + 1);
    for (int64_t seq = from; seq <= to; seq++) {
        char text[32];
        snprintf(text, sizeof(text), "m%lld", (long long)seq);
        assert_int_equal(quipu_message_at(history->messages, (size_t)(seq - from))->seq, seq);
        T_STR(quipu_message_at(history->messages, (size_t)(seq - from))->content, text);
    }
    assert_int_equal(history->more_before, before);
    assert_int_equal(history->more_after, after);
    assert_int_equal(history->session->message_count, 10);
    quipu_free(history);
}

static quipu_range range_of(uint32_t flags, int64_t after, int64_t before, int64_t limit)
{
    quipu_range range = QUIPU_RANGE_INIT;

    range.flags = flags;
    range.after_seq = after;
    range.before_seq = before;
    range.limit = limit;
    return range;
}

static void ranges_give_exactly_what_they_ask_for(void **state)
{
    quipu_store *store = *state;
    static const struct {
        uint32_t flags;
        int64_t after, before, limit;
        int64_t from, to;
        bool more_before, more_after;
    } cases[] = {
        {0, 0, 0, 0, 1, 10, false, false},
        {QUIPU_RANGE_LAST, 0, 0, 3, 8, 10, true, false},
        {QUIPU_RANGE_LAST, 0, 0, 10, 1, 10, false, false},
        {QUIPU_RANGE_LAST, 0, 0, 99, 1, 10, false, false},
        {0, 7, 0, 0, 8, 10, true, false},
        {0, 10, 0, 0, 11, 10, true, false},
        {0, 99, 0, 0, 11, 10, true, false},
        {0, 0, 0, 4, 1, 4, false, true},               /* a page forwards */
        {0, 4, 0, 4, 5, 8, true, true},                /* the next one */
        {0, 8, 0, 4, 9, 10, true, false},              /* the last one */
        {QUIPU_RANGE_LAST, 0, 8, 4, 4, 7, true, true}, /* a page backwards */
        {QUIPU_RANGE_LAST, 0, 4, 4, 1, 3, false, true},
        {0, 0, 1, 0, 1, 0, false, true},
        {0, 3, 6, 0, 4, 5, true, true},
        {QUIPU_RANGE_LAST, 3, 9, 2, 7, 8, true, true},
    };

    st_create(store, "k");
    st_append_many(store, "k", 10);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_range range =
            range_of(cases[i].flags, cases[i].after, cases[i].before, cases[i].limit);
        check_range(store, &range, cases[i].from, cases[i].to, cases[i].more_before,
                    cases[i].more_after);
    }
}

static void header_comes_without_messages(void **state)
{
    quipu_store *store = *state;
    quipu_range range = range_of(QUIPU_RANGE_HEADER, 0, 0, 0);

    st_create(store, "k");
    st_append_many(store, "k", 2);
    quipu_history *history = st_get(store, "k", &range);
    assert_int_equal(history->messages.count, 0);
    assert_int_equal(history->session->message_count, 2);
    quipu_free(history);
}

static void senseless_ranges_are_misuse(void **state)
{
    quipu_store *store = *state;
    const quipu_range bad[] = {range_of(0x80, 0, 0, 0), range_of(0, -1, 0, 0),
                               range_of(0, 0, -1, 0), range_of(0, 0, 0, -1)};
    quipu_history *history = NULL;

    st_create(store, "k");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        T_STATUS(quipu_session_get(store, QUIPU_STR("k"), &bad[i], NULL, &history, NULL),
                 QUIPU_MISUSE);
    }
    T_STATUS(quipu_session_get(store, QUIPU_STR("k"), NULL, NULL, NULL, NULL), QUIPU_MISUSE);
}

/* ---- get-or-create ----------------------------------------------------------------------------
 */

static void get_or_create_creates_once_and_then_gets(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("k");
    quipu_history *first = NULL;
    quipu_history *second = NULL;
    bool created = false;
    quipu_error err = {0};

    values.model = QUIPU_STR("one");
    T_OK(t_session_reuse(store, &values, NULL, &first, &created, &err));
    assert_int_equal(err.status, QUIPU_OK); /* that nothing was there is no failure */
    assert_true(created);
    T_STR(first->session->model, "one");
    st_append_many(store, "k", 2);
    values.model = QUIPU_STR("two");
    T_OK(t_session_reuse(store, &values, NULL, &second, &created, &err));
    assert_false(created);
    T_STR(second->session->model, "one");
    assert_int_equal(second->messages.count, 2);
    assert_memory_equal(&first->session->uid, &second->session->uid, sizeof(quipu_uuid));
    quipu_free(first);
    quipu_free(second);
    T_OK(t_session_reuse(store, &values, NULL, NULL, NULL, &err));
}

/* ---- update -----------------------------------------------------------------------------------
 */

static quipu_session_patch patch_of(uint32_t set)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = set;
    return patch;
}

static void update_changes_what_it_names_and_nothing_else(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("k");
    quipu_session_patch patch = patch_of(QUIPU_SET_MODEL | QUIPU_SET_METADATA);
    int64_t revision = -1;
    quipu_error err = {0};

    values.agent_id = QUIPU_STR("planner");
    values.model = QUIPU_STR("old");
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_append_many(store, "k", 1);
    patch.model = QUIPU_STR("new");
    patch.agent_id = QUIPU_STR("not meant");
    patch.metadata.text = QUIPU_STR("{\"thinking\":\"high\"}");
    T_OK(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, &revision, &err));
    assert_int_equal(revision, 2);
    quipu_history *got = st_get(store, "k", NULL);
    T_STR(got->session->model, "new");
    T_STR(got->session->agent_id, "planner");
    T_STR(got->session->metadata.text, "{\"thinking\":\"high\"}");
    assert_int_equal(got->session->revision, 2);
    st_check_whole(got);
    quipu_free(got);
}

static void update_clears_a_field(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("k");
    quipu_session_patch patch = patch_of(QUIPU_SET_MODEL | QUIPU_SET_METADATA | QUIPU_SET_AGENT_ID);
    quipu_error err = {0};

    values.agent_id = QUIPU_STR("planner");
    values.model = QUIPU_STR("old");
    values.metadata.text = QUIPU_STR("{}");
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    patch.agent_id = QUIPU_STR("");
    T_OK(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, NULL, &err));
    quipu_history *got = st_get(store, "k", NULL);
    assert_null(got->session->model.p);
    assert_null(got->session->metadata.text.p);
    T_STR(got->session->agent_id, "");
    quipu_free(got);
}

static void update_of_an_unknown_key_is_not_found(void **state)
{
    quipu_session_patch patch = patch_of(QUIPU_SET_MODEL);

    T_STATUS(quipu_session_update(*state, QUIPU_STR("ghost"), &patch, NULL, NULL, NULL),
             QUIPU_NOT_FOUND);
}

static void update_with_a_stale_revision_conflicts(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = patch_of(QUIPU_SET_MODEL | QUIPU_SET_IF_REVISION);
    int64_t revision = -1;

    st_create(store, "k");
    T_OK(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, &revision, NULL));
    T_STATUS(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, &revision, NULL),
             QUIPU_CONFLICT);
    assert_int_equal(revision, 1);
    patch.expected_revision = 1;
    T_OK(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, &revision, NULL));
}

static void senseless_patches_are_refused(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = patch_of(0);

    st_create(store, "k");
    T_STATUS(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_session_update(store, QUIPU_STR("k"), NULL, NULL, NULL, NULL), QUIPU_MISUSE);
    patch.set = QUIPU_SET_IF_REVISION;
    T_STATUS(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, NULL, NULL), QUIPU_MISUSE);
    patch.set = 0x8000;
    T_STATUS(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, NULL, NULL), QUIPU_MISUSE);
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = -2;
    T_STATUS(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, NULL, NULL), QUIPU_MISUSE);
    patch.set = QUIPU_SET_METADATA;
    patch.metadata.text = QUIPU_STR("[]");
    T_STATUS(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, NULL, NULL), QUIPU_INVALID);
}

/* ---- delete -----------------------------------------------------------------------------------
 */

static void delete_removes_messages_and_memories_and_is_repeatable(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = *state;
    quipu_memory seen = {.kind = QUIPU_OBSERVATION,
                         .session_key = QUIPU_STR("k"),
                         .content = QUIPU_STR("likes tea")};
    quipu_memory thought = {.kind = QUIPU_REFLECTION,
                            .session_key = QUIPU_STR("k"),
                            .content = QUIPU_STR("a tea person")};
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    st_create(store, "k");
    st_create(store, "other");
    st_append_many(store, "k", 3);
    st_append_many(store, "other", 3);
    T_OK(t_memory_save(store, &seen, NULL, NULL, &err));
    T_OK(t_memory_save(store, &thought, NULL, NULL, &err));
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, &err));
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
        T_OK(t_memory_list(store, (quipu_memory_kind)kind, QUIPU_STR("k"), 0, NULL, &list, &err));
        assert_int_equal(list->memories.count, 0);
        quipu_free(list);
    }
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, &err));
    quipu_history *other = st_get(store, "other", NULL);
    assert_int_equal(other->messages.count, 3);
    quipu_free(other);
}

static void recreated_session_has_a_new_uid_and_starts_at_one(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    quipu_history *before = st_get(store, "k", NULL);
    st_append_many(store, "k", 3);
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, NULL));
    st_create(store, "k");
    quipu_history *after = st_get(store, "k", NULL);
    assert_memory_not_equal(&before->session->uid, &after->session->uid, sizeof(quipu_uuid));
    assert_int_equal(after->messages.count, 0);
    assert_int_equal(st_append(store, "k", "first"), 1);
    quipu_free(before);
    quipu_free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(created_session_comes_back_as_given),
        ST_TEST(what_was_not_given_is_absent),
        ST_TEST(unknown_key_is_not_found_and_the_message_names_it),
        ST_TEST(second_create_of_a_key_exists),
        ST_TEST(initial_history_comes_with_the_session),
        ST_TEST(create_with_a_bad_message_leaves_nothing),
        ST_TEST(key_of_the_greatest_length_works_and_one_more_does_not),
        ST_TEST(keys_that_are_no_text_are_refused),
        ST_TEST(metadata_must_be_an_object),
        ST_TEST(ranges_give_exactly_what_they_ask_for),
        ST_TEST(header_comes_without_messages),
        ST_TEST(senseless_ranges_are_misuse),
        ST_TEST(get_or_create_creates_once_and_then_gets),
        ST_TEST(update_changes_what_it_names_and_nothing_else),
        ST_TEST(update_clears_a_field),
        ST_TEST(update_of_an_unknown_key_is_not_found),
        ST_TEST(update_with_a_stale_revision_conflicts),
        ST_TEST(senseless_patches_are_refused),
        ST_TEST(delete_removes_messages_and_memories_and_is_repeatable),
        ST_TEST(recreated_session_has_a_new_uid_and_starts_at_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
