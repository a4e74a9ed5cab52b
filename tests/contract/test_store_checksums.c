/* Page checksums of a store's file: who may write, how an old file gets them, what verify says. */
#include "contract/store_t.h"

#include <ent/migrate.h>
#include <ent/sqlite.h>
#include <quipu/search.h>
#include <sqlite3.h>

#include "gen/quipu.h"

static quipu_checksums sc_state(quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    return stats.checksums;
}

/* Another program. */
static void sc_plain(const char *path, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static quipu_status sc_count(void *ctx, const void *bytes, size_t n)
{
    uint64_t *hash = ctx;

    for (size_t i = 0; i < n; i++) {
        *hash = *hash * 31 + ((const unsigned char *)bytes)[i];
    }
    return QUIPU_OK;
}

/* Everything the store holds, in one number. */
static uint64_t sc_contents(quipu_store *store)
{
    uint64_t hash = 7;
    quipu_error error = {0};

    if (quipu_store_export(store, NULL, sc_count, &hash, NULL, NULL, &error) != QUIPU_OK) {
        fail_msg("export: %s", error.message);
    }
    return hash;
}

/* The oldest version of the schema whose programs may write to the file, which nobody has open. */
static int sc_min_writer(const char *path)
{
    char uri[T_PATH_MAX + 32];
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int version;

    (void)snprintf(uri, sizeof(uri), "file:%s?immutable=1", path);
    assert_int_equal(sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT min_writer FROM ent_journal ORDER BY seq DESC "
                                        "LIMIT 1",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    version = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return version;
}

static void a_new_store_has_checksums_and_asks_for_a_writer_that_knows_them(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    ent_schema older = qp_quipu_schema;
    ent_db *db = NULL;

    (void)state;
    st_create(store, "a");
    (void)st_append(store, "a", "hello");
    assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_ON);
    quipu_close(store);
    assert_int_equal(sc_min_writer(path), qp_quipu_schema.min_writer);
    older.version = 2; /* what the last programs before checksums call themselves */
    T_OK(ent_sqlite_open(path, &options, &db, NULL));
    T_STATUS(ent_migrate(db, &older, NULL, NULL, NULL), QUIPU_NEWER);
    ent_close(db);
    options.flags = ENT_SQLITE_READ_ONLY;
    T_OK(ent_sqlite_open(path, &options, &db, NULL));
    T_OK(ent_migrate(db, &older, NULL, NULL, NULL));
    ent_close(db);
}

static void an_older_file_gets_checksums_and_keeps_its_contents(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    t_file_copy(QUIPU_SOURCE_DIR "/tests/fixtures/older/97fe72c.db", path);
    quipu_store *store = st_open(path);
    const uint64_t contents = sc_contents(store);
    assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_OFF);
    T_OK(quipu_store_update(store,
                            &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                 .set = QUIPU_STORE_SET_CHECKSUMS},
                            NULL, NULL));
    assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_ON);
    assert_true(sc_contents(store) == contents);
    T_OK(quipu_store_update(store,
                            &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                 .set = QUIPU_STORE_SET_CHECKSUMS},
                            NULL, NULL)); /* nothing to do */
    quipu_close(store);
    store = st_open(path);
    assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_ON);
    assert_true(sc_contents(store) == contents);
    quipu_close(store);
}

static void sc_whole(quipu_store *store)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_verified verified = QUIPU_VERIFIED_INIT;

    options.query = QUIPU_STR("Cusco");
    T_OK(quipu_search(store, &options, NULL, &results, NULL));
    assert_int_equal(results->hits.count, 1);
    quipu_free(results);
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
}

/* Version 1 does not mark what its index lacks, version 2 does, version 3 writes checksums, version
 * 4 hashes: a file takes the steps that it lacks, and is closed for programs without them. */
static void a_file_of_each_version_takes_the_steps_that_it_lacks(void **state)
{
    static const char *const files[] = {"97fe72c.db", "f0d1dbe.db", "9d9f59e.db", "985549f.db"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char fixture[T_PATH_MAX];
        char path[T_PATH_MAX];

        t_path(QUIPU_SOURCE_DIR "/tests/fixtures/older", files[i], fixture);
        t_path(t_tmpdir(), files[i], path);
        t_file_copy(fixture, path);
        quipu_store *store = st_open(path);
        assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_OFF);
        sc_whole(store);
        const uint64_t contents = sc_contents(store);
        quipu_close(store);
        /* Appends are hashed from now on, so that an older writer is refused already. */
        assert_int_equal(sc_min_writer(path), qp_quipu_schema.min_writer);
        store = st_open(path);
        T_OK(quipu_store_update(store,
                                &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                     .set = QUIPU_STORE_SET_CHECKSUMS},
                                NULL, NULL));
        assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_ON);
        sc_whole(store);
        assert_true(sc_contents(store) == contents);
        quipu_close(store);
        assert_int_equal(sc_min_writer(path), qp_quipu_schema.min_writer);
    }
}

/* A copy is a new file: it has checksums whatever the source has, and the source stays. */
static void a_copy_has_checksums_and_equal_contents(void **state)
{
    static const char *const sources[] = {"97fe72c.db", "sealed.db"};

    (void)state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        quipu_copied copied = QUIPU_COPIED_INIT;
        char path[T_PATH_MAX];
        char to[T_PATH_MAX];

        t_path(t_tmpdir(), sources[i], path);
        t_path(t_tmpdir(), i == 0 ? "to-0.db" : "to-1.db", to);
        t_file_copy(QUIPU_SOURCE_DIR "/tests/fixtures/older/97fe72c.db", path);
        quipu_store *source = st_open(path);
        if (i > 0) {
            T_OK(quipu_store_update(source,
                                    &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                         .set = QUIPU_STORE_SET_CHECKSUMS},
                                    NULL, NULL));
        }
        const quipu_checksums before = sc_state(source);
        quipu_store *target = st_open(to);
        T_OK(quipu_store_copy(source, target, NULL, NULL, &copied, NULL));
        assert_int_equal(sc_state(source), before);
        assert_int_equal(sc_state(target), QUIPU_CHECKSUMS_ON);
        assert_true(sc_contents(target) == sc_contents(source));
        quipu_close(target);
        target = st_open(to);
        assert_int_equal(sc_state(target), QUIPU_CHECKSUMS_ON);
        sc_whole(target);
        quipu_close(target);
        quipu_close(source);
    }
}

static void a_store_that_another_program_wrote_to_works_and_is_sealed_again(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;

    (void)state;
    st_create(store, "a");
    (void)st_append(store, "a", "hello");
    quipu_close(store);
    sc_plain(path, "UPDATE sessions SET title = 'by others'");
    store = st_open(path);
    assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_STALE);
    (void)st_append(store, "a", "and on");
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    T_OK(quipu_store_update(store,
                            &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                 .set = QUIPU_STORE_SET_CHECKSUMS},
                            NULL, NULL));
    assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_ON);
    quipu_close(store);
}

static void a_store_with_problems_is_not_sealed(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error error = {0};

    (void)state;
    st_create(store, "a");
    (void)st_append(store, "a", "hello");
    quipu_close(store);
    sc_plain(path, "UPDATE sessions SET message_count = 99");
    store = st_open(path);
    T_STATUS(quipu_store_update(store,
                                &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                     .set = QUIPU_STORE_SET_CHECKSUMS},
                                NULL, &error),
             QUIPU_INVALID);
    assert_non_null(strstr(error.message, "nothing was changed"));
    assert_int_equal(sc_state(store), QUIPU_CHECKSUMS_STALE);
    quipu_close(store);
}

static void an_upgrade_needs_a_known_flag_and_a_store_that_can_be_written(void **state)
{
    char path[T_PATH_MAX];
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    T_STATUS(quipu_store_update(
                 store, &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch), .set = 0},
                 NULL, NULL),
             QUIPU_MISUSE);
    T_STATUS(quipu_store_update(
                 store, &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch), .set = 8u},
                 NULL, NULL),
             QUIPU_MISUSE);
    quipu_close(store);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &store, NULL));
    T_STATUS(quipu_store_update(store,
                                &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                     .set = QUIPU_STORE_SET_CHECKSUMS},
                                NULL, NULL),
             QUIPU_MISUSE);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_store_has_checksums_and_asks_for_a_writer_that_knows_them),
        cmocka_unit_test(an_older_file_gets_checksums_and_keeps_its_contents),
        cmocka_unit_test(a_file_of_each_version_takes_the_steps_that_it_lacks),
        cmocka_unit_test(a_copy_has_checksums_and_equal_contents),
        cmocka_unit_test(a_store_that_another_program_wrote_to_works_and_is_sealed_again),
        cmocka_unit_test(a_store_with_problems_is_not_sealed),
        cmocka_unit_test(an_upgrade_needs_a_known_flag_and_a_store_that_can_be_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
