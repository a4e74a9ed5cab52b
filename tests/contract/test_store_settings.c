/* An append that changes settings in its transaction. */
#include "contract/maintain_t.h"

static quipu_status append(quipu_store *store, const char *key, const char *id, uint32_t flags,
                           quipu_session_patch patch)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "hello");
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;

    patch.struct_size = sizeof(patch);
    message.event_id = quipu_cstr(id);
    options.flags = flags;
    options.settings = &patch;
    return quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), &options,
                                NULL, NULL, NULL);
}

static void check(quipu_store *store, const char *key, const char *title, const char *model,
                  int64_t messages, int64_t revision)
{
    quipu_history *history = st_get(store, key, NULL);
    const quipu_session_info *session = history->session;

    assert_true(title == NULL ? session->title.p == NULL
                              : quipu_str_eq(session->title, quipu_cstr(title)));
    assert_true(model == NULL ? session->model.p == NULL
                              : quipu_str_eq(session->model, quipu_cstr(model)));
    assert_int_equal(session->message_count, messages);
    assert_int_equal(session->revision, revision);
    quipu_free(history);
}

static void settings_change_with_the_append_and_its_revision(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = {
        .set = QUIPU_SET_TITLE | QUIPU_SET_MODEL, .title = QUIPU_STR("T"), .model = QUIPU_STR("m")};

    st_create(store, "s");
    T_OK(append(store, "s", "e1", 0, patch));
    check(store, "s", "T", "m", 1, 1);
    /* The next append, whose row the session cache has, leaves them; then one clears one of them.
     * */
    st_append(store, "s", "more");
    check(store, "s", "T", "m", 2, 2);
    T_OK(append(store, "s", "e2", 0, (quipu_session_patch){.set = QUIPU_SET_TITLE}));
    check(store, "s", NULL, "m", 3, 3);
    mt_clean(store);
}

static void a_repeated_append_changes_nothing(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = {.set = QUIPU_SET_TITLE, .title = QUIPU_STR("T")};

    st_create(store, "s");
    T_OK(append(store, "s", "e1", 0, patch));
    patch.title = QUIPU_STR("another");
    T_OK(append(store, "s", "e1", 0, patch));
    check(store, "s", "T", NULL, 1, 1);
}

static void an_append_that_creates_a_session_gives_it_settings(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = {.set = QUIPU_SET_TITLE, .title = QUIPU_STR("T")};

    T_OK(append(store, "new", "e1", QUIPU_APPEND_CREATE, patch));
    check(store, "new", "T", NULL, 1, 1);
    mt_clean(store);
}

static void a_new_time_to_live_begins_with_the_append(void **state)
{
    quipu_store *store = *state;
    quipu_history *history;

    st_create(store, "s");
    T_OK(append(store, "s", "e1", 0,
                (quipu_session_patch){.set = QUIPU_SET_TTL, .ttl_ms = 3600000}));
    st_append(store, "s", "slides");
    history = st_get(store, "s", NULL);
    assert_true(history->session->has_expiry);
    quipu_free(history);
    T_OK(append(store, "s", "e2", 0, (quipu_session_patch){.set = QUIPU_SET_TTL, .ttl_ms = -1}));
    history = st_get(store, "s", NULL);
    assert_false(history->session->has_expiry);
    quipu_free(history);
}

static void a_refused_setting_appends_nothing(void **state)
{
    quipu_store *store = *state;
    char title[QUIPU_TITLE_MAX + 1];
    quipu_session_patch patch = {.set = QUIPU_SET_TITLE, .title = {title, QUIPU_TITLE_MAX}};

    memset(title, 't', sizeof(title));
    st_create(store, "s");
    T_OK(append(store, "s", "max", 0, patch));
    patch.title.n++;
    assert_int_equal(append(store, "s", "more", 0, patch), QUIPU_INVALID);
    patch = (quipu_session_patch){.set = QUIPU_SET_METADATA, .metadata = {QUIPU_STR("[]")}};
    assert_int_equal(append(store, "s", "json", 0, patch), QUIPU_INVALID);
    patch = (quipu_session_patch){.set = QUIPU_SET_MODEL, .model = {"\xff", 1}};
    assert_int_equal(append(store, "s", "utf8", 0, patch), QUIPU_INVALID);
    patch = (quipu_session_patch){.set = QUIPU_SET_TITLE | QUIPU_SET_IF_REVISION};
    assert_int_equal(append(store, "s", "revision", 0, patch), QUIPU_MISUSE);
    assert_int_equal(append(store, "s", "none", 0, (quipu_session_patch){.set = 0}), QUIPU_MISUSE);
    assert_int_equal(append(store, "s", "bits", 0, (quipu_session_patch){.set = 1u << 30}),
                     QUIPU_MISUSE);
    quipu_history *history = st_get(store, "s", NULL);
    assert_int_equal(history->session->message_count, 1);
    quipu_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(settings_change_with_the_append_and_its_revision),
        ST_TEST(a_repeated_append_changes_nothing),
        ST_TEST(an_append_that_creates_a_session_gives_it_settings),
        ST_TEST(a_new_time_to_live_begins_with_the_append),
        ST_TEST(a_refused_setting_appends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
