/* The size cap: writes stop at it, reads and deletes go on. */
#include "contract/maintain_t.h"
#include "lib/short.h"

static quipu_store *capped(const char *path, int64_t max_bytes)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    options.max_bytes = max_bytes;
    T_OK(quipu_open(path, &options, &store, &err));
    return store;
}

static quipu_stats stats_of(quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};

    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    return stats;
}

/* Append texts of `size` bytes until the store is full; gives how many went in. */
static int fill(quipu_store *store, const char *key, size_t size)
{
    char *text = malloc(size + 1);
    quipu_message message;
    quipu_error err = {0};
    quipu_status status;
    int count = -1;

    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = '\0';
    message = st_says(QUIPU_ROLE_USER, text);
    do {
        count++;
        status = quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                                      NULL, NULL, &err);
    } while (status == QUIPU_OK && count < 1000);
    T_STATUS(status, QUIPU_FULL);
    free(text);
    return count;
}

static void full_store_reads_and_deletes_but_does_not_write(void **state)
{
    static const quipu_search_mode modes[] = {QUIPU_SEARCH_LAZY, QUIPU_SEARCH_INLINE};
    const int64_t max_bytes = 400 * 4096;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[T_PATH_MAX];
        quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
        quipu_search_options search = QUIPU_SEARCH_OPTIONS_INIT;
        quipu_search_results *results = NULL;
        quipu_error err = {0};

        options.max_bytes = max_bytes;
        options.search = modes[i];
        quipu_store *store = st_open_new(&options, path);
        st_create(store, "k");
        st_create(store, "other");
        st_append(store, "other", "needle");
        int count = fill(store, "k", 9000);
        assert_true(count > 20);
        assert_true(stats_of(store).file_bytes <= max_bytes);

        quipu_history *history = st_get(store, "k", NULL);
        assert_int_equal(history->messages.count, count);
        quipu_free(history);
        search.query = QUIPU_STR("needle");
        T_OK(quipu_search(store, &search, NULL, &results, &err)); /* catches up first */
        assert_int_equal(results->hits.count, 1);
        quipu_free(results);
        mt_clean(store);

        T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, &err));
        assert_int_equal(st_get_status(store, "k"), QUIPU_NOT_FOUND);
        st_create(store, "k"); /* there is room again */
        st_append_many(store, "k", 20);
        mt_clean(store);
        quipu_close(store);
    }
}

static void cap_is_exact_to_the_page(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_message message = st_says(QUIPU_ROLE_USER, NULL);
    char *text = malloc(50001);
    quipu_error err = {0};

    (void)state;
    assert_non_null(text);
    memset(text, 'x', 50000);
    text[50000] = '\0';
    message.content = quipu_cstr(text);
    st_create(store, "k");
    quipu_close(store); /* the log is in the file */
    store = st_open(path);
    int64_t before = stats_of(store).file_bytes;
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
    quipu_close(store);
    store = st_open(path);
    int64_t needs = stats_of(store).file_bytes - before; /* pages for one such message */
    assert_true(needs >= 12 * 4096);
    quipu_close(store);

    /* One page less than the next one needs, then exactly enough; then there is no room. */
    store = capped(path, before + 2 * needs - 4096);
    T_STATUS(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_FULL);
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 1); /* nothing is left of it */
    quipu_free(history);
    quipu_close(store);
    store = capped(path, before + 2 * needs);
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
    T_STATUS(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_FULL);
    mt_clean(store);
    quipu_close(store);
    free(text);
}

static void cap_below_the_file_only_stops_growth(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 300);
    quipu_close(store);
    store = capped(path, 1);
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 300);
    quipu_free(history);
    (void)fill(store, "k", 9000);
    T_OK(t_session_erase(store, QUIPU_STR("k"), 0, NULL, NULL, &err));
    st_create(store, "k");
    mt_clean(store);
    quipu_close(store);
}

static void one_full_caller_does_not_fail_the_others(void **state)
{
    char path[T_PATH_MAX];
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    options.max_bytes = 100 * 4096;
    quipu_store *store = st_open_new(&options, path);
    st_create(store, "k");
    (void)fill(store, "k", 100000);
    st_append_many(store, "k", 3); /* small ones still fit */
    mt_clean(store);
    quipu_close(store);
}

static void options_out_of_range_are_misuse(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    (void)state;
    options.max_bytes = -1;
    T_STATUS(quipu_open(":memory:", &options, &store, &err), QUIPU_MISUSE);
    options.max_bytes = INT64_MAX;
    T_OK(quipu_open(":memory:", &options, &store, &err));
    st_create(store, "k");
    quipu_close(store);
}

/* ---- statistics -------------------------------------------------------------------------------
 */

/* Quick statistics have what is counted anyway, and nothing of sessions. */
static void check_quick(quipu_store *store, const quipu_stats *whole)
{
    quipu_stats_options options = QUIPU_STATS_OPTIONS_INIT;
    quipu_stats quick = QUIPU_STATS_INIT;
    int64_t commits = 0;

    options.flags = QUIPU_STATS_QUICK;
    T_OK(quipu_store_stats(store, &options, NULL, &quick, NULL));
    assert_int_equal(quick.sessions, 0);
    assert_int_equal(quick.messages, 0);
    assert_int_equal(quick.file_bytes, whole->file_bytes);
    assert_int_equal(quick.commits, whole->commits);
    for (size_t i = 0; i < QUIPU_COMMIT_SIZES; i++) {
        commits += quick.commit_sizes[i];
    }
    assert_int_equal(commits, quick.commits);
    assert_true(quick.commit_sizes[0] > 0);
    options.flags = QUIPU_STATS_QUICK << 1;
    T_STATUS(quipu_store_stats(store, &options, NULL, &quick, NULL), QUIPU_MISUSE);
    options = (quipu_stats_options){.flags = QUIPU_STATS_QUICK}; /* no size */
    T_STATUS(quipu_store_stats(store, &options, NULL, &quick, NULL), QUIPU_MISUSE);
    T_OK(quipu_store_stats(store, NULL, NULL, &quick, NULL));
    assert_int_equal(quick.sessions, whole->sessions);
}

/* A file is synced by this process for every durable commit. */
static void check_syncs(quipu_store *store)
{
    quipu_stats before = stats_of(store);
    quipu_stats after;

    st_append(store, "root", "and another");
    after = stats_of(store);
    assert_true(t_pg() ? after.syncs == 0 : after.syncs > before.syncs);
}

static void stats_count_and_measure(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    quipu_stats stats = stats_of(store);
    assert_int_equal(stats.sessions, 0);
    assert_string_equal(stats.largest_key, "");
    mt_fill(store, path);
    stats = stats_of(store);
    assert_int_equal(stats.sessions, 9);
    assert_int_equal(stats.forks, 4);
    assert_int_equal(stats.largest_messages, 9);
    assert_string_equal(stats.largest_key, "compact");
    assert_int_equal(stats.messages, 5 + 6 + 7 + 6 + 0 + 4 + 9);
    assert_true(stats.tokens > 0);
    assert_true(stats.file_bytes > 0);
    assert_true(stats.log_bytes > 0);
    assert_true(stats.readers >= 1);
    assert_true(stats.commits > 20);
    assert_true(stats.writes >= stats.commits);
    assert_true(stats.largest_commit >= 1);
    int64_t commits = stats.commits;
    st_append(store, "root", "one more");
    stats = stats_of(store);
    assert_int_equal(stats.commits, commits + 1);
    check_quick(store, &stats);
    check_syncs(store);
    T_OK(t_session_erase(store, QUIPU_STR("root"), 0, NULL, NULL, &err));
    assert_int_equal(stats_of(store).log_bytes, 0);
    T_STATUS(quipu_store_stats(store, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    quipu_close(store);
    T_OK(quipu_open(":memory:", NULL, &store, &err));
    st_create(store, "k");
    stats = stats_of(store);
    assert_int_equal(stats.sessions, 1);
    assert_int_equal(stats.readers, 0);
    assert_true(stats.file_bytes > 0);
    quipu_close(store);
}

static void engine_names_itself_and_its_version(void **state)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    assert_true(strncmp(stats.engine, "SQLite 3.", strlen("SQLite 3.")) == 0);
    T_STATUS(quipu_store_stats(store, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_store_stats(NULL, NULL, NULL, &stats, &err), QUIPU_MISUSE);
    quipu_close(store);
}

static void stats_count_what_waits_for_the_index_and_the_sweep(void **state)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "a");
    st_append_many(store, "a", 3);
    assert_int_equal(stats_of(store).unindexed, 3);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    assert_int_equal(stats_of(store).unindexed, 0);
    st_append_many(store, "a", 2);
    assert_int_equal(stats_of(store).unindexed, 2);
    assert_int_equal(stats_of(store).expired, 0);
    values.key = QUIPU_STR("short");
    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_nap();
    assert_int_equal(stats_of(store).expired, 1);
    T_OK(quipu_store_sweep(store, NULL, NULL, &err));
    assert_int_equal(stats_of(store).expired, 0);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_store_reads_and_deletes_but_does_not_write),
        cmocka_unit_test(cap_is_exact_to_the_page),
        cmocka_unit_test(cap_below_the_file_only_stops_growth),
        cmocka_unit_test(one_full_caller_does_not_fail_the_others),
        cmocka_unit_test(options_out_of_range_are_misuse),
        cmocka_unit_test(stats_count_and_measure),
        cmocka_unit_test(engine_names_itself_and_its_version),
        cmocka_unit_test(stats_count_what_waits_for_the_index_and_the_sweep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
