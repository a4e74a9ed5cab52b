/* Stores of an older layout, opened read-only: what the calls give is what they give after an
 * upgrade, whichever columns, tables and indexes the file lacks, and the file stays as it is. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <dirent.h>
#include <sys/stat.h>

#include <quipu/history.h>
#include <quipu/search.h>
#include <quipu/tail.h>

#include "contract/search_t.h"
#include "ent/db.h"
#include "ent/diff.h"

#define OLDER_JOURNAL "UPDATE \"ent_journal\" SET \"schema_hash\" = 'older', \"schema_text\" = ''"
#define OLDER_SQL_MAX ((size_t)64 << 10)

/* ---- what a store shows -------------------------------------------------------------------------
 */

static void older_problem(void *ctx, const quipu_problem *problem)
{
    T_OK(mt_write(ctx, problem->text.p, problem->text.n));
    T_OK(mt_write(ctx, "\n", 1));
}

static void older_note(mt_stream *out, const char *what, quipu_status status)
{
    T_OK(mt_write(out, what, strlen(what)));
    T_OK(mt_write(out, quipu_status_name(status), strlen(quipu_status_name(status))));
    T_OK(mt_write(out, "\n", 1));
}

/* What the reading calls give, as text. A call may fail, but then the same way each time. */
static mt_stream older_show(quipu_store *store, bool indexed)
{
    quipu_session_page *page = NULL;
    quipu_window *window = NULL;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};
    mt_stream out = {0};
    char text[256];
    quipu_status status = quipu_store_export(store, NULL, mt_write, &out, NULL, NULL, &err);

    older_note(&out, "export ", status);
    status = quipu_session_list(store, NULL, NULL, &page, &err);
    snprintf(text, sizeof(text), "%zu listed ", status == QUIPU_OK ? page->sessions.count : 0);
    older_note(&out, text, status);
    quipu_free(page);
    status = quipu_window_read(store, QUIPU_STR("root"), NULL, NULL, &window, &err);
    older_note(&out, "window ", status);
    quipu_free(window);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    snprintf(text, sizeof(text), "%lld %lld %lld %lld ", (long long)stats.sessions,
             (long long)stats.messages, (long long)stats.tokens, (long long)stats.forks);
    older_note(&out, text, QUIPU_OK);
    if (indexed) { /* an index that is made anew is empty, which verify finds */
        status = quipu_store_verify(store, T_VERIFY(0, older_problem, &out), NULL, &verified, &err);
        older_note(&out, "verify ", status);
    }
    return out;
}

static quipu_store *older_open(const char *uri)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status;

    options.flags = QUIPU_OPEN_READ_ONLY;
    status = quipu_open(uri, &options, &store, &err);
    if (status != QUIPU_OK) {
        fail_msg("open %s: %s (%s)", uri, quipu_status_name(status), err.message);
    }
    return store;
}

/* ---- the file stays as it is --------------------------------------------------------------------
 */

/* How many files a file's folder holds. */
static int older_files(const char *path)
{
    char folder[T_PATH_MAX];
    int n = 0;

    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

typedef struct older_file {
    char *bytes;
    size_t size;
    struct stat stat;
    int files;
} older_file;

static older_file older_remember(const char *path)
{
    older_file file = {0};

    if (!et_is_server(path)) {
        file.bytes = t_file_read(path, &file.size);
        assert_int_equal(stat(path, &file.stat), 0);
        file.files = older_files(path);
    }
    return file;
}

static void older_unchanged(const char *path, older_file *before)
{
    older_file now = older_remember(path);

    assert_int_equal(now.size, before->size);
    if (now.size > 0) {
        assert_memory_equal(now.bytes, before->bytes, now.size);
    }
    assert_int_equal(now.stat.st_mtim.tv_sec, before->stat.st_mtim.tv_sec);
    assert_int_equal(now.stat.st_mtim.tv_nsec, before->stat.st_mtim.tv_nsec);
    assert_int_equal(now.files, before->files);
    free(now.bytes);
    free(before->bytes);
}

/* ---- files that lack something ------------------------------------------------------------------
 */

static void older_execute(const char *uri, const char *sql)
{
    quipu_error err = {0};
    ent_db *db;

    if (et_is_server(uri)) {
        t_pg_execute(uri, sql);
        return;
    }
    db = et_connect(uri, 0);
    if (db->engine->execute(db->conn, quipu_cstr(sql), &err) != QUIPU_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
    ent_close(db);
}

/* Read the store as it is, upgrade it, read it again: the same. `missing` is a text that says what
 * an upgrade adds. */
static void older_compare(const char *uri, const char *missing, bool indexed)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    older_file before = older_remember(uri);
    quipu_store *store = older_open(uri);
    quipu_error err = {0};
    mt_stream read = older_show(store, indexed);

    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    if (strstr(stats.missing, missing) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", missing, stats.missing);
    }
    quipu_close(store);
    older_unchanged(uri, &before);
    store = st_open(uri);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    assert_string_equal(stats.missing, "");
    mt_stream upgraded = older_show(store, indexed);
    quipu_close(store);
    if (strcmp(read.p, upgraded.p) != 0) {
        fail_msg("without %s:\n%s\nafter an upgrade:\n%s", missing, read.p, upgraded.p);
    }
    mt_free(&read);
    mt_free(&upgraded);
}

static bool older_is_among(const uint8_t *fields, size_t n, size_t number)
{
    for (size_t i = 0; i < n; i++) {
        if (fields[i] == number) {
            return true;
        }
    }
    return false;
}

/* Whether a layout without this column can be read: it has a constant default or none, and no key
 * holds it. */
static bool older_may_lack(const ent_entity *entity, size_t number)
{
    const ent_field *field = &entity->fields[number];
    const ent_shard *shard = entity->shard;
    bool may = (field->flags & (ENT_F_NULLABLE | ENT_F_DEFAULT)) != 0 &&
               (field->flags & (ENT_F_NOW | ENT_F_RANDOM)) == 0 &&
               qp_entity_reference(entity, field) == NULL &&
               !older_is_among(entity->key, entity->key_count, number);

    for (size_t i = 0; i < entity->index_count; i++) {
        const ent_index *index = &entity->indexes[i];
        may = may && !(index->unique && older_is_among(index->fields, index->count, number));
    }
    return may && (shard == NULL || !older_is_among(shard->texts, shard->text_count, number));
}

/* A text in the making. */
typedef struct older_sql {
    char text[OLDER_SQL_MAX];
    size_t n;
} older_sql;

static void older_add(older_sql *sql, const char *format, ...) QUIPU_PRINTF(2, 3);

static void older_add(older_sql *sql, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(sql->text + sql->n, OLDER_SQL_MAX - sql->n, format, args);
    va_end(args);
    assert_true(n >= 0 && sql->n + (size_t)n < OLDER_SQL_MAX);
    sql->n += (size_t)n;
}

static void older_drop(older_sql *sql, const ent_entity *entity, size_t number)
{
    for (size_t i = 0; i < entity->index_count; i++) {
        const ent_index *index = &entity->indexes[i];
        if (older_is_among(index->fields, index->count, number)) {
            older_add(sql, "DROP INDEX IF EXISTS \"%s\";", index->name);
        }
    }
    older_add(sql, "ALTER TABLE \"%s\" DROP COLUMN \"%s\";", entity->table,
              entity->fields[number].column);
}

/* A store that has everything, indexed; its place. */
static void older_fill(char ret_uri[T_PATH_MAX])
{
    quipu_store *store = st_open_new(NULL, ret_uri);
    quipu_error err = {0};

    mt_fill(store, ret_uri);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    quipu_close(store);
}

/* A store to take something from: a copy of the file, or the same schema again, which an upgrade
 * has made whole. */
static void older_fresh(const char *full, char ret_uri[T_PATH_MAX])
{
    if (et_is_server(full)) {
        memcpy(ret_uri, full, T_PATH_MAX);
    } else {
        t_path(t_tmpdir(), "older.db", ret_uri);
        t_file_copy(full, ret_uri);
    }
}

static void each_column_may_be_missing(void **state)
{
    static older_sql sql;
    char full[T_PATH_MAX];
    char uri[T_PATH_MAX];
    int columns = 0;

    (void)state;
    older_fill(full);
    for (size_t i = 0; i < qp_quipu_schema.entity_count; i++) {
        const ent_entity *entity = qp_quipu_schema.entities[i];
        for (size_t j = 0; j < entity->field_count; j++) {
            char missing[256];

            if (!older_may_lack(entity, j)) {
                continue;
            }
            sql.n = 0;
            older_drop(&sql, entity, j);
            older_add(&sql, OLDER_JOURNAL);
            older_fresh(full, uri);
            older_execute(uri, sql.text);
            snprintf(missing, sizeof(missing), "column \"%s\" of table \"%s\"",
                     entity->fields[j].column, entity->table);
            older_compare(uri, missing, true);
            columns++;
        }
    }
    assert_true(columns >= 30);
}

static void all_columns_may_be_missing_at_once(void **state)
{
    static older_sql sql;
    char uri[T_PATH_MAX];

    (void)state;
    sql.n = 0;
    older_fill(uri);
    for (size_t i = 0; i < qp_quipu_schema.entity_count; i++) {
        const ent_entity *entity = qp_quipu_schema.entities[i];
        for (size_t j = 0; j < entity->field_count; j++) {
            if (older_may_lack(entity, j)) {
                older_drop(&sql, entity, j);
            }
        }
    }
    older_add(&sql, OLDER_JOURNAL);
    older_execute(uri, sql.text);
    older_compare(uri, "columns of table \"sessions\"", true); /* one of a list */
}

static void tables_and_indexes_may_be_missing(void **state)
{
    static const char *const tables[] = {"state",       "state_events", "observations",
                                         "reflections", "feed",         "model_factors"};
    static older_sql sql;
    char uri[T_PATH_MAX];

    (void)state;
    sql.n = 0;
    older_fill(uri);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        older_add(&sql, "DROP TABLE \"%s\";", tables[i]);
    }
    for (size_t i = 0; i < qp_session_entity.index_count; i++) {
        if (!qp_session_entity.indexes[i].unique) {
            older_add(&sql, "DROP INDEX \"%s\";", qp_session_entity.indexes[i].name);
        }
    }
    older_add(&sql, OLDER_JOURNAL);
    older_execute(uri, sql.text);
    older_compare(uri, "table \"feed\"", true);
}

static void a_store_without_a_search_index_is_read_but_not_searched(void **state)
{
    char uri[T_PATH_MAX];
    quipu_search_results *results = NULL;
    quipu_search_options options = ask("word");
    quipu_store *store = NULL;
    quipu_error err = {0};

    (void)state;
    older_fill(uri);
    older_execute(uri, "DROP TABLE \"messages_search\";" OLDER_JOURNAL);
    store = older_open(uri);
    T_STATUS(quipu_search(store, &options, NULL, &results, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "for writing once"));
    mt_clean(store);
    quipu_close(store);
    older_compare(uri, "full-text index of table \"messages\"", false);
}

static void a_reader_takes_an_upgrade_in(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *reader = NULL;
    quipu_store *writer = NULL;
    quipu_feed_page *feed = NULL;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    older_fill(uri);
    older_execute(uri, "DROP TABLE \"feed\";" OLDER_JOURNAL);
    reader = older_open(uri);
    T_OK(quipu_feed_read(reader, NULL, NULL, &feed, &err));
    assert_int_equal(feed->changes.count, 0);
    quipu_free(feed);
    options.flags = QUIPU_OPEN_FEED;
    T_OK(quipu_open(uri, &options, &writer, &err));
    st_create(writer, "newer");
    T_OK(quipu_feed_read(reader, NULL, NULL, &feed, &err));
    assert_int_equal(feed->changes.count, 1);
    quipu_free(feed);
    quipu_close(writer);
    quipu_close(reader);
}

/* ---- files that earlier programs wrote ----------------------------------------------------------
 */

static void files_of_earlier_programs_are_read_as_they_are(void **state)
{
    static const struct {
        const char *name;
        const char *missing;
        bool indexed;
    } files[] = {{"97fe72c.db", "columns of table \"sessions\"", false},
                 {"f0d1dbe.db", "full-text index of table \"messages\"", false},
                 {"9d9f59e.db", "table \"model_factors\"", true},
                 {"985549f.db", "", true}};

    (void)state;
    T_SQLITE_ONLY("the fixtures are files");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char from[T_PATH_MAX];
        char path[T_PATH_MAX];

        t_path(QUIPU_SOURCE_DIR "/tests/fixtures/older", files[i].name, from);
        t_path(t_tmpdir(), files[i].name, path);
        t_file_copy(from, path);
        quipu_store *store = older_open(path);
        quipu_history *history = st_get(store, "travel", NULL);
        assert_int_equal(history->messages.count, 4);
        st_check_whole(history);
        quipu_free(history);
        mt_clean(store);
        if (files[i].indexed) {
            assert_string_equal(found(store, "Cusco"), "travel:1 ");
        }
        quipu_close(store);
        older_compare(path, files[i].missing, files[i].indexed);
    }
}

/* Two of the files do not say where a turn begins, so that their sessions look like those without
 * one. */
static void later_messages_do_not_give_older_sessions_first_words(void **state)
{
    static const char *const files[] = {"97fe72c.db", "f0d1dbe.db", "9d9f59e.db"};

    (void)state;
    T_SQLITE_ONLY("the fixtures are files");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char from[T_PATH_MAX];
        char path[T_PATH_MAX];

        t_path(QUIPU_SOURCE_DIR "/tests/fixtures/older", files[i], from);
        t_path(t_tmpdir(), files[i], path);
        t_file_copy(from, path);
        quipu_store *store = st_open(path);
        assert_int_equal(st_append(store, "travel", "later"), 5);
        quipu_history *history = st_get(store, "travel", NULL);
        assert_null(history->session->first_words.p);
        quipu_free(history);
        quipu_close(store);
    }
}

/* One read of a file of an earlier program, in which any allocation may fail. */
static void older_read_once(void *path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_history *history = NULL;
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status;

    options.flags = QUIPU_OPEN_READ_ONLY;
    status = quipu_open(path, &options, &store, &err);
    if (status == QUIPU_OK) {
        status = quipu_session_get(store, QUIPU_STR("travel"), NULL, NULL, &history, &err);
    }
    if (status == QUIPU_OK) {
        assert_int_equal(history->messages.count, 4);
    } else if (t_fault_fired() == 0 || status != QUIPU_NOMEM) {
        fail_msg("%s (%s)", quipu_status_name(status), err.message);
    }
    quipu_free(history);
    quipu_close(store);
}

static void every_failed_allocation_of_a_read_is_reported(void **state)
{
    char path[T_PATH_MAX] = QUIPU_SOURCE_DIR "/tests/fixtures/older/97fe72c.db";

    (void)state;
    T_SQLITE_ONLY("the fixtures are files");
    t_fault_install();
    assert_true(t_fault_sweep(older_read_once, path) > 0);
    t_fault_remove();
}

/* The column that says so is added with the value "nothing is pending". */
static void messages_from_before_the_mark_are_found_by_the_first_search(void **state)
{
    T_SQLITE_ONLY("the fixtures are SQLite's");
    static const char *const names[] = {"97fe72c.db", "f0d1dbe.db"};
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    options.query = QUIPU_STR("Cusco");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[T_PATH_MAX];
        quipu_search_results *results = NULL;
        quipu_store *store = NULL;
        char fixture[T_PATH_MAX];

        t_path(QUIPU_SOURCE_DIR "/tests/fixtures/older", names[i], fixture);
        t_path(t_tmpdir(), "older.db", path);
        t_file_copy(fixture, path);
        store = st_open(path);
        T_OK(quipu_search(store, &options, NULL, &results, &err));
        assert_true(results->hits.count > 0);
        quipu_free(results);
        mt_clean(store);
        quipu_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_from_before_the_mark_are_found_by_the_first_search),
        cmocka_unit_test(each_column_may_be_missing),
        cmocka_unit_test(all_columns_may_be_missing_at_once),
        cmocka_unit_test(tables_and_indexes_may_be_missing),
        cmocka_unit_test(a_store_without_a_search_index_is_read_but_not_searched),
        cmocka_unit_test(a_reader_takes_an_upgrade_in),
        cmocka_unit_test(files_of_earlier_programs_are_read_as_they_are),
        cmocka_unit_test(later_messages_do_not_give_older_sessions_first_words),
        cmocka_unit_test(every_failed_allocation_of_a_read_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
