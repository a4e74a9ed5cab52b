/* A file that Lango wrote, opened as a store: adopted, and then a session like any other. */
#include "contract/store_t.h"

static void check_lango_file(const char *name)
{
    char path[T_PATH_MAX];
    quipu_session_page *page = NULL;
    quipu_error err = {0};
    size_t messages = 0;
    size_t calls = 0;

    if (!t_fixture(name, path)) {
        skip();
    }
    quipu_store *store = st_open(path);
    T_OK(quipu_session_list(store, NULL, NULL, &page, &err));
    assert_true(page->count > 0);
    for (size_t i = 0; i < page->count; i++) {
        quipu_history *history = NULL;
        quipu_message message = st_says(QUIPU_ROLE_USER, "and on it goes");
        quipu_appended appended = {0};
        T_OK(quipu_session_get(store, page->sessions[i].key, NULL, NULL, &history, &err));
        st_check_whole(history);
        messages += history->message_count;
        for (size_t k = 0; k < history->message_count; k++) {
            assert_true(history->messages[k].role != 0);
            assert_true(history->messages[k].event_id.n > 0);
            calls += history->messages[k].call_count;
        }
        T_OK(quipu_message_append(store, page->sessions[i].key, (quipu_messages){&message, 1}, NULL,
                                  NULL, &appended, &err));
        assert_int_equal(appended.first_seq, history->session.next_seq);
        quipu_history_free(history);
    }
    assert_true(messages > 0);
    assert_true(calls > 0);
    quipu_session_page_free(page);
    quipu_close(store);
    quipu_close(st_open(path)); /* adopted once, then opened as it is */
}

static void file_of_the_mattn_driver_is_adopted_and_goes_on(void **state)
{
    (void)state;
    check_lango_file("lango-mattn.db");
}

static void file_of_the_modernc_driver_is_adopted_and_goes_on(void **state)
{
    (void)state;
    check_lango_file("lango-modernc.db");
}

/* A store's calls need message numbers, which only the adoption gives. */
static void read_only_open_names_the_two_ways_out_and_changes_nothing(void **state)
{
    static const char *const names[] = {"lango-mattn.db", "lango-modernc.db"};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];

    (void)state;
    options.flags = QUIPU_OPEN_READ_ONLY;
    for (size_t i = 0; i < 2; i++) {
        quipu_store *store = NULL;
        quipu_error err = {0};
        if (!t_fixture(names[i], path)) {
            skip();
        }
        t_path(t_tmpdir(), names[i], copy);
        t_file_copy(path, copy);
        T_STATUS(quipu_open(path, &options, &store, &err), QUIPU_UNSUPPORTED);
        assert_non_null(strstr(err.message, "Lango"));
        assert_non_null(strstr(err.message, "for writing"));
        assert_non_null(strstr(err.message, "copy"));
        assert_true(t_file_equal(path, copy));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_of_the_mattn_driver_is_adopted_and_goes_on),
        cmocka_unit_test(file_of_the_modernc_driver_is_adopted_and_goes_on),
        cmocka_unit_test(read_only_open_names_the_two_ways_out_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
