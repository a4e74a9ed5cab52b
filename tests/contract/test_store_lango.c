/* A file that Lango wrote, opened as a store: adopted, and then a session like any other; or read
 * as it is. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <pthread.h>

static void check_lango_file(const char *name)
{
    char path[T_PATH_MAX];
    quipu_session_page *page = NULL;
    quipu_error err = {0};
    size_t messages = 0;
    size_t calls = 0;

    t_fixture(name, path);
    quipu_store *store = st_open(path);
    T_OK(quipu_session_list(store, NULL, NULL, &page, &err));
    assert_true(page->sessions.count > 0);
    for (size_t i = 0; i < page->sessions.count; i++) {
        quipu_history *history = NULL;
        quipu_message message = st_says(QUIPU_ROLE_USER, "and on it goes");
        quipu_appended appended = QUIPU_APPENDED_INIT;
        T_OK(quipu_session_get(store, quipu_session_info_at(page->sessions, i)->key, NULL, NULL,
                               &history, &err));
        st_check_whole(history);
        messages += history->messages.count;
        for (size_t k = 0; k < history->messages.count; k++) {
            assert_true(quipu_message_at(history->messages, k)->role != 0);
            assert_true(quipu_message_at(history->messages, k)->event_id.n > 0);
            calls += quipu_message_at(history->messages, k)->calls.count;
        }
        T_OK(quipu_message_append(store, quipu_session_info_at(page->sessions, i)->key,
                                  quipu_messages_of(&message, 1), NULL, NULL, &appended, &err));
        assert_int_equal(appended.first_seq, history->session->next_seq);
        quipu_free(history);
    }
    assert_true(messages > 0);
    assert_true(calls > 0);
    quipu_free(page);
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

/* Lango writes "[]" or "null" where a message has no tool calls. Such a message of the user begins
 * a turn; it is no answer, which a window would leave out without its call. */
static void check_turns(const char *calls)
{
    const quipu_str key = QUIPU_STR("telegram:123:456");
    char path[T_PATH_MAX];
    char sql[128];
    quipu_history *history = NULL;
    quipu_window *window = NULL;
    quipu_error err = {0};

    t_fixture("lango-mattn.db", path);
    snprintf(sql, sizeof(sql), "UPDATE messages SET tool_calls = %s WHERE role = 'user'", calls);
    mt_sql(path, sql);
    quipu_store *store = st_open(path);
    T_OK(quipu_session_get(store, key, NULL, NULL, &history, &err));
    assert_true(quipu_str_eq(history->session->first_words, QUIPU_STR("list the files")));
    T_OK(quipu_window_get(store, key.p, 1000, &window, &err)); /* all of it */
    assert_int_equal(window->messages.count, history->messages.count);
    assert_false(window->more_before);
    quipu_free(window);
    T_OK(quipu_window_get(store, key.p, 40, &window, &err)); /* the newest turn */
    assert_int_equal(window->messages.count, 2);
    assert_int_equal(quipu_message_at(window->messages, 0)->role, QUIPU_ROLE_USER);
    quipu_free(window);
    quipu_free(history);
    quipu_close(store);
}

static void a_user_message_of_lango_begins_a_turn(void **state)
{
    (void)state;
    check_turns("NULL");
    check_turns("'[]'");
    check_turns("'null'");
    check_turns("' [ ] '");
}

/* ---- read-only --------------------------------------------------------------------------------
 */

static quipu_store *open_read_only(const char *path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status = 0;

    options.flags = QUIPU_OPEN_READ_ONLY;
    status = quipu_open(path, &options, &store, &err);
    if (status != QUIPU_OK) {
        fail_msg("open %s read-only: %s", path, err.message);
    }
    return store;
}

static void check_same_messages(quipu_messages a, quipu_messages b)
{
    quipu_arena arena = QUIPU_ARENA_INIT;

    assert_int_equal(a.count, b.count);
    for (size_t i = 0; i < a.count; i++) {
        quipu_str left = {NULL, 0};
        quipu_str right = {NULL, 0};
        T_OK(t_message_json(quipu_message_at(a, i), &arena, &left, NULL));
        T_OK(t_message_json(quipu_message_at(b, i), &arena, &right, NULL));
        assert_string_equal(left.p, right.p);
    }
    quipu_arena_free(&arena);
}

/* What a session shows through every way of reading it. */
static void check_same_session(quipu_store *a, quipu_store *b, const char *key)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *windows[2] = {NULL, NULL};
    quipu_memory_list *lists[2] = {NULL, NULL};
    quipu_history *left = st_get(a, key, NULL);
    quipu_history *right = st_get(b, key, NULL);

    st_check_whole(left);
    check_same_messages(left->messages, right->messages);
    quipu_free(left);
    quipu_free(right);
    options.token_budget = 20;
    T_OK(quipu_window_read(a, quipu_cstr(key), &options, NULL, &windows[0], NULL));
    T_OK(quipu_window_read(b, quipu_cstr(key), &options, NULL, &windows[1], NULL));
    check_same_messages(windows[0]->messages, windows[1]->messages);
    quipu_free(windows[0]);
    quipu_free(windows[1]);
    T_OK(t_memory_list(a, QUIPU_OBSERVATION, quipu_cstr(key), 0, NULL, &lists[0], NULL));
    T_OK(t_memory_list(b, QUIPU_OBSERVATION, quipu_cstr(key), 0, NULL, &lists[1], NULL));
    assert_int_equal(lists[0]->memories.count, lists[1]->memories.count);
    quipu_free(lists[0]);
    quipu_free(lists[1]);
}

static size_t count_lines(quipu_store *store)
{
    mt_stream stream = mt_export(store, NULL);
    size_t lines = 0;

    for (size_t i = 0; i < stream.n; i++) {
        lines += stream.p[i] == '\n';
    }
    mt_free(&stream);
    return lines;
}

static void check_same_store(quipu_store *a, quipu_store *b)
{
    quipu_session_page *page = NULL;
    quipu_stats stats[2] = {QUIPU_STATS_INIT, QUIPU_STATS_INIT};

    T_OK(quipu_session_list(a, NULL, NULL, &page, NULL));
    assert_true(page->sessions.count > 0);
    for (size_t i = 0; i < page->sessions.count; i++) {
        check_same_session(a, b, quipu_session_info_at(page->sessions, i)->key.p);
    }
    quipu_free(page);
    T_OK(quipu_store_stats(a, NULL, NULL, &stats[0], NULL));
    T_OK(quipu_store_stats(b, NULL, NULL, &stats[1], NULL));
    assert_int_equal(stats[0].sessions, stats[1].sessions);
    assert_int_equal(stats[0].messages, stats[1].messages);
    assert_int_equal(stats[0].tokens, stats[1].tokens);
    assert_int_equal(count_lines(a), count_lines(b));
    mt_clean(a);
}

/* A fixture to read, what it was, and one to adopt. */
static void read_only_copies(const char *name, char ret_path[T_PATH_MAX],
                             char ret_before[T_PATH_MAX], char ret_adopted[T_PATH_MAX])
{
    char fixture[T_PATH_MAX];

    t_fixture(name, fixture);
    t_path(t_tmpdir(), "before.db", ret_before);
    t_file_copy(fixture, ret_before);
    t_path(t_tmpdir(), "adopted.db", ret_adopted);
    t_file_copy(fixture, ret_adopted);
    t_path(t_tmpdir(), "lango.db", ret_path);
    t_file_copy(fixture, ret_path);
}

static void check_read_only(const char *name)
{
    char path[T_PATH_MAX];
    char before[T_PATH_MAX];
    char adopted[T_PATH_MAX];
    quipu_history *none = NULL;
    quipu_message message = st_says(QUIPU_ROLE_USER, "no");

    read_only_copies(name, path, before, adopted);
    quipu_store *store = open_read_only(path);
    quipu_store *ours = st_open(adopted);
    check_same_store(store, ours);
    T_STATUS(quipu_session_get(store, QUIPU_STR("no such"), NULL, NULL, &none, NULL),
             QUIPU_NOT_FOUND);
    T_STATUS(quipu_message_append(store, QUIPU_STR("no such"), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, NULL),
             QUIPU_MISUSE);
    assert_true(t_file_equal(path, before));
    quipu_close(ours);
    quipu_close(store);
    assert_true(t_file_equal(path, before));
}

static void file_of_the_mattn_driver_is_read_and_stays_as_it_is(void **state)
{
    (void)state;
    check_read_only("lango-mattn.db");
}

static void file_of_the_modernc_driver_is_read_and_stays_as_it_is(void **state)
{
    (void)state;
    check_read_only("lango-modernc.db");
}

static void lango_open_body(void *ctx)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status;

    options.flags = QUIPU_OPEN_READ_ONLY;
    status = quipu_open(ctx, &options, &store, &err);
    assert_int_equal(status == QUIPU_OK, store != NULL);
    if (status != QUIPU_OK) {
        assert_true(t_fault_fired() > 0);
        T_STATUS(status, QUIPU_NOMEM);
    }
    quipu_close(store);
}

static void failed_allocation_of_a_read_only_open_is_reported(void **state)
{
    char path[T_PATH_MAX];
    char before[T_PATH_MAX];
    char adopted[T_PATH_MAX];
    const int64_t stride = t_count(9, 1); /* each run adopts a file */
    int64_t points = 0;

    (void)state;
    read_only_copies("lango-mattn.db", path, before, adopted);
    t_fault_install();
    for (int64_t nth = 1; nth == 1 || t_fault_fired() > 0; nth += stride) {
        int64_t live = t_fault_live();
        t_fault_arm(nth, T_FAULT_ONCE);
        lango_open_body(path);
        assert_int_equal(t_fault_live(), live);
        points++;
    }
    t_fault_remove();
    print_message("open read-only: %lld faults\n", (long long)points - 1);
    assert_true(points > 1);
    assert_true(t_file_equal(path, before));
}

typedef struct lango_reader {
    quipu_store *store;
    const char *key;
    size_t count;
    bool same;
} lango_reader;

static void *lango_read(void *arg)
{
    lango_reader *self = arg;

    self->same = true;
    for (int i = 0; i < 20 && self->same; i++) {
        quipu_history *history = NULL;
        self->same = quipu_session_get(self->store, quipu_cstr(self->key), NULL, NULL, &history,
                                       NULL) == QUIPU_OK &&
                     history->messages.count == self->count;
        quipu_free(history);
    }
    return NULL;
}

/* The copy has one connection: readers take turns, and a tail waits for nobody. */
static void threads_share_a_file_that_is_read_as_a_copy(void **state)
{
    char path[T_PATH_MAX];
    char before[T_PATH_MAX];
    char adopted[T_PATH_MAX];
    quipu_session_page *page = NULL;
    quipu_history *batch = NULL;
    quipu_tail *tail = NULL;
    pthread_t threads[4];
    lango_reader readers[4];

    (void)state;
    read_only_copies("lango-mattn.db", path, before, adopted);
    quipu_store *store = open_read_only(path);
    T_OK(quipu_session_list(store, NULL, NULL, &page, NULL));
    for (size_t i = 0; i < 4; i++) {
        const quipu_session_info *session =
            quipu_session_info_at(page->sessions, i % page->sessions.count);
        readers[i] = (lango_reader){store, session->key.p, (size_t)session->message_count, false};
        assert_int_equal(pthread_create(&threads[i], NULL, lango_read, &readers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(readers[i].same);
    }
    T_OK(quipu_tail_open(store, quipu_session_info_at(page->sessions, 0)->key,
                         quipu_session_info_at(page->sessions, 0)->next_seq - 1, NULL, &tail,
                         NULL));
    T_OK(quipu_tail_next(tail, 5, NULL, &batch, NULL));
    assert_null(batch);
    quipu_tail_close(tail);
    quipu_free(page);
    quipu_close(store);
}

/* A file that Lango holds open has its newest rows in the log only. */
static void rows_in_the_log_are_read_too(void **state)
{
    char path[T_PATH_MAX];
    char before[T_PATH_MAX];
    char adopted[T_PATH_MAX];
    quipu_session_page *page = NULL;
    sqlite3 *lango = NULL;

    (void)state;
    read_only_copies("lango-mattn.db", path, before, adopted);
    assert_int_equal(sqlite3_open(path, &lango), SQLITE_OK);
    assert_int_equal(sqlite3_exec(lango,
                                  "PRAGMA journal_mode=WAL; INSERT INTO sessions "
                                  "(key, created_at, updated_at) VALUES ('in-the-log', "
                                  "'2026-01-02 03:04:05+00:00', '2036-01-02 03:04:05+00:00')",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    quipu_store *store = open_read_only(path);
    T_OK(quipu_session_list(store, NULL, NULL, &page, NULL));
    assert_string_equal(quipu_session_info_at(page->sessions, 0)->key.p, "in-the-log");
    quipu_free(page);
    quipu_close(store);
    assert_int_equal(sqlite3_close(lango), SQLITE_OK);
}

/* Lango orders by the text of a time: "09:31+00:00" stands before "18:30+09:00", which is a minute
 * earlier. Written in that order, and the other way round, the instants decide; equal ones are in
 * the order of their ids. */
static void check_zones(quipu_store *store)
{
    quipu_history *history = st_get(store, "zones", NULL);

    st_check_whole(history);
    assert_int_equal(history->messages.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const char number[] = {(char)('1' + i), '\0'};
        T_STR(quipu_message_at(history->messages, i)->content, number);
        assert_true(i == 0 ||
                    quipu_time_cmp(quipu_message_at(history->messages, i - 1)->timestamp,
                                   quipu_message_at(history->messages, i)->timestamp) <= 0);
    }
    quipu_free(history);
}

static void messages_of_several_zones_come_in_the_order_of_their_instants(void **state)
{
    char path[T_PATH_MAX];
    char before[T_PATH_MAX];
    char adopted[T_PATH_MAX];

    (void)state;
    read_only_copies("lango-mattn.db", path, before, adopted);
    mt_sql(path, "INSERT INTO sessions (id, key, created_at, updated_at) VALUES (999, 'zones', "
                 "'2026-04-13 18:00:00+09:00', '2026-04-13 09:40:00+00:00');"
                 "INSERT INTO messages (role, content, timestamp, session_messages) VALUES "
                 "('user', '2', '2026-04-13 09:31:00+00:00', 999),"
                 "('assistant', '1', '2026-04-13 18:30:00+09:00', 999),"
                 "('user', '5', '2026-04-13 04:35:00-05:00', 999),"
                 "('assistant', '3', '2026-04-13 18:34:00.5+09:00', 999),"
                 "('user', '4', '2026-04-13 09:34:00.5+00:00', 999)");
    quipu_store *store = open_read_only(path);
    check_zones(store);
    quipu_close(store);
    store = st_open(path);
    check_zones(store);
    assert_int_equal(st_append(store, "zones", "next"), 6);
    quipu_close(store);
}

/* A file of no program that we know is still refused, with what it lacks. */
static void strangers_file_is_refused(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    char path[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "stranger.db", path);
    mt_sql(path, "CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT)");
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_STATUS(quipu_open(path, &options, &store, &err), QUIPU_UNSUPPORTED);
    assert_true(err.message[0] != '\0');
    assert_null(store);
}

/* A copy that was cut goes on by the sessions' uids, which a file of Lango's does not have. */
static void file_exports_the_same_bytes_however_it_is_opened(void **state)
{
    char path[T_PATH_MAX];
    char adopted[T_PATH_MAX];
    char before[T_PATH_MAX];
    quipu_error err = {0};

    (void)state;
    read_only_copies("lango-mattn.db", path, before, adopted);
    quipu_store *first = open_read_only(path);
    quipu_store *second = open_read_only(path);
    quipu_store *third = st_open(adopted);
    quipu_store *target = st_open(":memory:");
    mt_stream a = mt_export(first, NULL);
    mt_stream b = mt_export(second, NULL);
    mt_stream c = mt_export(third, NULL);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    assert_int_equal(a.n, c.n);
    assert_memory_equal(a.p, c.p, a.n);
    T_OK(quipu_store_copy(first, target, NULL, NULL, NULL, &err));
    T_OK(quipu_store_copy(second, target, NULL, NULL, NULL, &err));
    mt_free(&a);
    mt_free(&b);
    mt_free(&c);
    quipu_close(first);
    quipu_close(second);
    quipu_close(third);
    quipu_close(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_of_the_mattn_driver_is_adopted_and_goes_on),
        cmocka_unit_test(file_of_the_modernc_driver_is_adopted_and_goes_on),
        cmocka_unit_test(a_user_message_of_lango_begins_a_turn),
        cmocka_unit_test(file_of_the_mattn_driver_is_read_and_stays_as_it_is),
        cmocka_unit_test(file_of_the_modernc_driver_is_read_and_stays_as_it_is),
        cmocka_unit_test(failed_allocation_of_a_read_only_open_is_reported),
        cmocka_unit_test(threads_share_a_file_that_is_read_as_a_copy),
        cmocka_unit_test(rows_in_the_log_are_read_too),
        cmocka_unit_test(messages_of_several_zones_come_in_the_order_of_their_instants),
        cmocka_unit_test(file_exports_the_same_bytes_however_it_is_opened),
        cmocka_unit_test(strangers_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
