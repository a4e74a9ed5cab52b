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
        T_OK(quipu_message_append(store, page->sessions[i].key, &message, 1, NULL, NULL, &appended,
                                  &err));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_of_the_mattn_driver_is_adopted_and_goes_on),
        cmocka_unit_test(file_of_the_modernc_driver_is_adopted_and_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
