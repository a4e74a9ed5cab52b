/* The search index is derived: damage in it stops searches at most, and a repair makes it anew. */
#include "contract/maintain_t.h"
#include "lib/short.h"

/* What is done to the index: SQL, or garbage over the first page of one of its tables. */
typedef struct index_damage {
    const char *sql;
    const char *table;
} index_damage;

static const index_damage index_damages[] = {
    {.sql = "UPDATE messages_search_data SET block = x'00' WHERE id > 10"},
    {.sql = "UPDATE messages_search_data SET block = x'ffffffffffff' WHERE id <= 10"},
    {.sql = "UPDATE messages_search_data SET block = x'' WHERE id = 10"},
    {.sql = "DELETE FROM messages_search_data WHERE id > 10"},
    {.sql = "DELETE FROM messages_search_docsize"},
    {.sql = "UPDATE messages_search_docsize SET sz = x'ff'"},
    {.sql = "UPDATE messages_search_docsize SET sz = x'ffffffff7f00000000'"},
    {.sql = "UPDATE messages_search_idx SET pgno = pgno + 40"},
    {.sql = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, "
            "'content_rowid', 'content_rowyd') WHERE name = 'messages_search'"},
    {.table = "messages_search_data"},
    {.table = "messages_search_idx"},
    {.table = "messages_search_docsize"},
};

/* The page where a table begins, and the size of a page. */
static void index_page(const char *path, const char *table, int64_t *ret_page, int64_t *ret_size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT rootpage, (SELECT page_size FROM "
                                        "pragma_page_size) FROM sqlite_schema WHERE name = ?1",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    *ret_page = sqlite3_column_int64(stmt, 0);
    *ret_size = sqlite3_column_int64(stmt, 1);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void index_hurt(const char *path, const index_damage *damage)
{
    int64_t page = 0;
    int64_t size = 0;
    size_t n = 0;
    char *bytes = NULL;

    if (damage->sql != NULL) {
        mt_sql(path, damage->sql);
        return;
    }
    index_page(path, damage->table, &page, &size);
    bytes = t_file_read(path, &n);
    assert_true((size_t)(page * size) <= n);
    memset(bytes + (page - 1) * size, 0xa5, (size_t)size / 2);
    t_file_write(path, bytes, n);
    free(bytes);
}

static quipu_store *index_store(quipu_search_mode mode, const index_damage *damage,
                                char path[T_PATH_MAX])
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    options.search = mode;
    store = st_open_new(&options, path);
    st_create(store, "gone");
    st_append(store, "gone", "a needle that goes");
    st_create(store, "kept");
    st_append_many(store, "kept", 6);
    st_append(store, "kept", "a needle that stays");
    mt_fork(store, "kept", 4, "fork");
    st_create(store, "erased");
    st_append(store, "erased", "a needle that nobody may find");
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    quipu_close(store);
    index_hurt(path, damage);
    T_OK(quipu_open(path, &options, &store, &err));
    return store;
}

static size_t needles(quipu_store *store)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    size_t count = 0;

    options.query = QUIPU_STR("needle");
    T_OK(quipu_search(store, &options, NULL, &results, &err));
    count = results->hits.count;
    quipu_free(results);
    return count;
}

static void every_other_call_works_over_a_damaged_index(void **state)
{
    T_SQLITE_ONLY("the damage is SQLite's");
    static const quipu_search_mode modes[] = {QUIPU_SEARCH_LAZY, QUIPU_SEARCH_INLINE};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(index_damages) / sizeof(index_damages[0]); i++) {
        const index_damage *damage = &index_damages[i / 2];
        char path[T_PATH_MAX];
        quipu_store *store = index_store(modes[i % 2], damage, path);
        mt_problems heard = {0};
        quipu_error err = {0};

        heard = mt_verify(store);
        if (heard.kinds[QUIPU_PROBLEM_SEARCH] == 0) {
            fail_msg("%s%s: verify found %d, the last: %s", damage->sql ? damage->sql : "",
                     damage->table ? damage->table : "", heard.count, heard.text);
        }
        T_OK(quipu_session_delete(store, QUIPU_STR("gone"), NULL, NULL, NULL, &err));
        assert_int_equal(st_append(store, "kept", "goes on"), 8);
        st_create(store, "new");
        st_append(store, "new", "a needle that is new");
        mt_fork(store, "kept", 8, "second fork");
        T_OK(quipu_session_compact(store, QUIPU_STR("kept"), T_COMPACT(3, QUIPU_STR("short")), NULL,
                                   NULL, &err));
        T_OK(quipu_session_prune(store, QUIPU_STR("kept"), NULL, NULL, &err));
        T_OK(quipu_session_delete(store, QUIPU_STR("fork"), NULL, NULL, NULL, &err));
        mt_stream stream = mt_export(store, NULL);
        mt_free(&stream);
        T_OK(t_session_erase(store, QUIPU_STR("erased"), QUIPU_ERASE_QUICK, NULL, NULL, &err));
        quipu_close(store);
        assert_false(mt_files_hold(path, "nobody may"));
        assert_false(mt_files_hold(path, "obody")); /* a word of the index */
        store = st_open(path);
        /* Where cleaning the index met no damage, it is the repair's. */
        T_OK(quipu_store_verify(store, T_REPAIR, NULL, NULL, &err));
        mt_clean(store);
        assert_int_equal(needles(store), 2);
        quipu_history *history = st_get(store, "new", NULL);
        st_check_whole(history);
        quipu_free(history);
        quipu_close(store);
    }
}

static void a_damaged_index_never_answers_that_nothing_was_found(void **state)
{
    T_SQLITE_ONLY("the damage is SQLite's");

    (void)state;
    for (size_t i = 0; i < sizeof(index_damages) / sizeof(index_damages[0]); i++) {
        char path[T_PATH_MAX];
        quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
        quipu_search_results *results = NULL;
        quipu_error err = {0};
        quipu_store *store = index_store(QUIPU_SEARCH_LAZY, &index_damages[i], path);

        options.query = QUIPU_STR("needle");
        if (quipu_search(store, &options, NULL, &results, &err) == QUIPU_OK) {
            if (results->hits.count != 3) {
                fail_msg("%zu: %zu hits", i, results->hits.count);
            }
            quipu_free(results);
        } else {
            assert_true(strlen(err.message) > 0);
        }
        quipu_close(store);
    }
}

static void repair_makes_a_damaged_index_anew(void **state)
{
    T_SQLITE_ONLY("the damage is SQLite's");

    (void)state;
    for (size_t i = 0; i < sizeof(index_damages) / sizeof(index_damages[0]); i++) {
        char path[T_PATH_MAX];
        quipu_store *store = index_store(QUIPU_SEARCH_LAZY, &index_damages[i], path);
        mt_problems heard = {0};
        quipu_error err = {0};

        if (quipu_session_delete(store, QUIPU_STR("gone"), NULL, NULL, NULL, &err) != QUIPU_OK) {
            fail_msg("%zu: %s", i, err.message);
        }
        T_OK(quipu_store_verify(store, T_VERIFY(QUIPU_VERIFY_REPAIR, mt_hear, &heard), NULL, NULL,
                                &err));
        assert_true(heard.kinds[QUIPU_PROBLEM_SEARCH] > 0);
        mt_clean(store);
        assert_int_equal(needles(store), 2);
        mt_clean(store);
        quipu_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_other_call_works_over_a_damaged_index),
        cmocka_unit_test(a_damaged_index_never_answers_that_nothing_was_found),
        cmocka_unit_test(repair_makes_a_damaged_index_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
