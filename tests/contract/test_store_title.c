/* Titles and first words: set, shown, limited, inherited. What becomes of them when a session goes
 * is test_store_fields.c's. */
#include "contract/maintain_t.h"

static void title_check(quipu_store *store, const char *key, const char *title, const char *words)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_history *history = st_get(store, key, NULL);

    assert_true(quipu_str_eq(history->session->title,
                             title != NULL ? quipu_cstr(title) : (quipu_str){NULL, 0}));
    assert_true(quipu_str_eq(history->session->first_words,
                             words != NULL ? quipu_cstr(words) : (quipu_str){NULL, 0}));
    T_OK(quipu_session_list(store, &options, NULL, &page, NULL));
    for (size_t i = 0; i < page->sessions.count; i++) {
        const quipu_session_info *one = quipu_session_info_at(page->sessions, i);
        if (quipu_str_eq(one->key, quipu_cstr(key))) {
            assert_true(quipu_str_eq(one->title, history->session->title));
            assert_true(quipu_str_eq(one->first_words, history->session->first_words));
        }
    }
    quipu_free(page);
    quipu_free(history);
}

static quipu_status title_set(quipu_store *store, quipu_str title)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = QUIPU_SET_TITLE;
    patch.title = title;
    return quipu_session_update(store, QUIPU_STR("s"), &patch, NULL, NULL, NULL);
}

static void a_title_is_given_changed_and_cleared(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_session_new values = st_values("s");

    (void)state;
    values.title = QUIPU_STR("About zebras");
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    title_check(store, "s", "About zebras", NULL);
    T_OK(title_set(store, QUIPU_STR("About \xc3\xa9lephants")));
    title_check(store, "s", "About \xc3\xa9lephants", NULL);
    T_OK(title_set(store, (quipu_str){NULL, 0}));
    title_check(store, "s", NULL, NULL);
    quipu_close(store);
}

static void a_title_has_a_limit(void **state)
{
    T_NOT_SERVED("a server names no fields in its errors");
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_session_new values = st_values("s");
    quipu_error err = {0};
    char text[QUIPU_TITLE_MAX + 2];

    (void)state;
    memset(text, 't', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    values.title = (quipu_str){text, QUIPU_TITLE_MAX + 1};
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_INVALID);
    assert_string_equal(err.field, "title");
    assert_string_equal(err.rule, "len");
    values.title.n = QUIPU_TITLE_MAX;
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    T_STATUS(title_set(store, (quipu_str){text, QUIPU_TITLE_MAX + 1}), QUIPU_INVALID);
    T_OK(title_set(store, (quipu_str){text, QUIPU_TITLE_MAX}));
    text[QUIPU_TITLE_MAX] = '\0';
    title_check(store, "s", text, NULL);
    quipu_close(store);
}

static void the_first_user_message_gives_the_first_words(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_session_new values = st_values("created");
    const quipu_message said[] = {st_says(QUIPU_ROLE_SYSTEM, "be good"),
                                  st_says(QUIPU_ROLE_USER, "  How\nmany zebras? "),
                                  st_says(QUIPU_ROLE_USER, "and lions")};

    (void)state;
    values.messages = (quipu_messages)QUIPU_SLICE_INIT(said);
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    title_check(store, "created", NULL, "How many zebras?");
    st_create(store, "appended");
    for (size_t i = 0; i < 3; i++) {
        T_OK(quipu_message_append(store, QUIPU_STR("appended"), quipu_messages_of(&said[i], 1),
                                  NULL, NULL, NULL, NULL));
        title_check(store, "appended", NULL, i == 0 ? NULL : "How many zebras?");
    }
    quipu_close(store);
}

/* Many appends share a commit and a row: the words of the first are those that stay. */
static void later_messages_do_not_change_them(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    st_create(store, "s");
    for (int i = 0; i < 20; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "message %d", i);
        st_append(store, "s", text);
    }
    title_check(store, "s", NULL, "message 0");
    mt_clean(store);
    quipu_close(store);
}

static void a_fork_begins_with_its_parents(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    st_create(store, "s");
    T_OK(title_set(store, QUIPU_STR("Zebras")));
    st_append(store, "s", "How many?");
    mt_fork(store, "s", 1, "fork");
    mt_fork(store, "s", 0, "early");
    st_append(store, "early", "Another question");
    title_check(store, "fork", "Zebras", "How many?");
    title_check(store, "early", "Zebras", "Another question");
    quipu_close(store);
}

/* First words are of the messages: a fork has its parent's when it shares that message. */
static void a_fork_before_the_first_user_message_has_no_first_words(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = st_open_new(NULL, NULL);
    const quipu_message greets = st_says(QUIPU_ROLE_ASSISTANT, "Hello");

    (void)state;
    st_create(store, "s");
    T_OK(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&greets, 1), NULL, NULL,
                              NULL, NULL));
    st_append(store, "s", "How many?");
    st_append(store, "s", "And zebras?");
    mt_fork(store, "s", 0, "none");
    mt_fork(store, "s", 1, "greeted");
    mt_fork(store, "s", 2, "asked");
    T_OK(quipu_session_delete(store, QUIPU_STR("s"), NULL, NULL, NULL, NULL));
    title_check(store, "none", NULL, NULL);
    title_check(store, "greeted", NULL, NULL);
    title_check(store, "asked", NULL, "How many?");
    st_append(store, "greeted", "Something else");
    title_check(store, "greeted", NULL, "Something else");
    mt_clean(store);
    quipu_close(store);
}

/* The beginning of a session is searched for a user's message once, and only so far. */
static void first_words_may_come_after_a_hundred_messages(void **state)
{
    for (int before = 100; before <= 101; before++) {
        quipu_store *store = st_open_new(NULL, NULL);

        (void)state;
        st_create(store, "s");
        for (int i = 0; i < before; i++) {
            const quipu_message says = st_says(QUIPU_ROLE_ASSISTANT, "Anybody there?");
            T_OK(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&says, 1), NULL,
                                      NULL, NULL, NULL));
        }
        st_append(store, "s", "How many?");
        title_check(store, "s", NULL, before == 100 ? "How many?" : NULL);
        quipu_close(store);
    }
}

/* An append that makes its session reports no error of the look that did not find it. */
static void an_append_that_creates_gives_first_words_and_no_error(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    const quipu_message says = st_says(QUIPU_ROLE_USER, "How many?");
    quipu_error err = {0};

    (void)state;
    options.flags = QUIPU_APPEND_CREATE;
    T_OK(quipu_message_append(store, QUIPU_STR("new"), quipu_messages_of(&says, 1), &options, NULL,
                              NULL, &err));
    assert_int_equal(err.status, QUIPU_OK);
    assert_string_equal(err.message, "");
    title_check(store, "new", NULL, "How many?");
    /* What a call writes only when it fails stays as it is. */
    err = (quipu_error){.status = QUIPU_EXPIRED, .message = "of an earlier call"};
    T_OK(quipu_say(store, "newer", QUIPU_ROLE_USER, "How many?", &err));
    assert_int_equal(err.status, QUIPU_EXPIRED);
    assert_string_equal(err.message, "of an earlier call");
    quipu_close(store);
}

static void a_renewed_session_has_neither(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    st_create(store, "s");
    T_OK(title_set(store, QUIPU_STR("Zebras")));
    st_append(store, "s", "How many?");
    T_OK(quipu_session_delete(store, QUIPU_STR("s"), NULL, NULL, NULL, NULL));
    st_create(store, "s");
    title_check(store, "s", NULL, NULL);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_title_is_given_changed_and_cleared),
        cmocka_unit_test(a_title_has_a_limit),
        cmocka_unit_test(the_first_user_message_gives_the_first_words),
        cmocka_unit_test(later_messages_do_not_change_them),
        cmocka_unit_test(a_fork_begins_with_its_parents),
        cmocka_unit_test(a_fork_before_the_first_user_message_has_no_first_words),
        cmocka_unit_test(first_words_may_come_after_a_hundred_messages),
        cmocka_unit_test(an_append_that_creates_gives_first_words_and_no_error),
        cmocka_unit_test(a_renewed_session_has_neither),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
