/* Keeping a file in order: sizes, the cap at its maximum and one past it, the log, the rewrite,
 * copies, checks, the list of backups. */
#include "crash/model.h"

#include <sys/stat.h>

#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/backup.h"
#include "ent_sqlite/open.h"

#define PAGE 4096

static ent_db *maintenance_open(char path[T_PATH_MAX])
{
    ent_db *db = NULL;

    t_path(t_tmpdir(), "store.db", path);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_OK(db->engine->execute(db->conn, QUIPU_STR("CREATE TABLE t (id INTEGER PRIMARY KEY, a)"),
                             NULL));
    return db;
}

static quipu_status maintenance_run(ent_db *db, const char *sql, quipu_error *reterr)
{
    return db->engine->execute(db->conn, quipu_cstr(sql), reterr);
}

static int64_t maintenance_pages(ent_db *db)
{
    qp_sizes sizes = {0};

    T_OK(qp_maintenance_flush(db, NULL));
    T_OK(qp_maintenance_sizes(db, &sizes, NULL));
    assert_int_equal(sizes.page_bytes, PAGE);
    return sizes.file_bytes / PAGE;
}

static bool maintenance_find(const char *bytes, size_t size, const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i + n <= size; i++) {
        if (memcmp(bytes + i, text, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool maintenance_holds(const char *path, const char *text)
{
    size_t size = 0;
    char *bytes = t_file_read(path, &size);
    bool found = maintenance_find(bytes, size, text);

    free(bytes);
    return found;
}

static void sizes_report_file_log_and_free_pages(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = maintenance_open(path);
    qp_sizes sizes = {0};

    (void)state;
    T_OK(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(100000))", NULL));
    T_OK(qp_maintenance_sizes(db, &sizes, NULL));
    assert_true(sizes.log_bytes > 100000);
    T_OK(qp_maintenance_flush(db, NULL));
    T_OK(qp_maintenance_sizes(db, &sizes, NULL));
    assert_int_equal(sizes.log_bytes, 0);
    assert_true(sizes.file_bytes > 100000);
    assert_int_equal(sizes.free_bytes, 0);
    T_OK(maintenance_run(db, "DELETE FROM t", NULL));
    T_OK(qp_maintenance_sizes(db, &sizes, NULL));
    assert_true(sizes.free_bytes >= 96000);
    T_OK(qp_maintenance_rewrite(db, NULL));
    T_OK(qp_maintenance_flush(db, NULL));
    T_OK(qp_maintenance_sizes(db, &sizes, NULL));
    assert_int_equal(sizes.free_bytes, 0);
    assert_true(sizes.file_bytes < 5 * PAGE);
    ent_close(db);
}

static void cap_lets_the_last_page_in_and_refuses_the_next(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = maintenance_open(path);
    quipu_error error = {0};
    int64_t pages;

    (void)state;
    pages = maintenance_pages(db);
    /* An overflow page for each row of a page and a half. */
    T_OK(qp_maintenance_limit(db, (pages + 1) * PAGE, NULL));
    T_OK(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(6000))", NULL));
    assert_int_equal(maintenance_pages(db), pages + 1);
    T_STATUS(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(6000))", &error), QUIPU_FULL);
    assert_int_equal(maintenance_pages(db), pages + 1);
    model_check(path, "SELECT count(*) FROM t", "1\n");
    /* One page more, less one byte, is no page more. */
    T_OK(qp_maintenance_limit(db, (pages + 2) * PAGE - 1, NULL));
    T_STATUS(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(6000))", NULL), QUIPU_FULL);
    T_OK(qp_maintenance_limit(db, (pages + 2) * PAGE, NULL));
    T_OK(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(1000))", NULL));
    T_OK(maintenance_run(db, "DELETE FROM t", NULL));
    T_OK(qp_maintenance_limit(db, 1, NULL)); /* the file keeps its size */
    T_STATUS(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(90000))", NULL), QUIPU_FULL);
    T_OK(qp_maintenance_limit(db, 0, NULL));
    T_OK(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(90000))", NULL));
    ent_close(db);
}

static bool maintenance_never(void *ctx)
{
    (void)ctx;
    return false;
}

static void flush_is_busy_while_somebody_reads(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = maintenance_open(path);
    ent_db *reader = NULL;
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};

    (void)state;
    options.flags = ENT_SQLITE_READ_ONLY;
    T_OK(ent_sqlite_open(path, &options, &reader, NULL));
    T_OK(ent_begin(reader, ENT_READ, NULL));
    T_OK(maintenance_run(db, "INSERT INTO t (a) VALUES (1)", NULL));
    ent_watch(db, 1, maintenance_never, NULL); /* long past */
    T_STATUS(qp_maintenance_flush(db, &error), QUIPU_BUSY);
    ent_watch(db, 0, NULL, NULL);
    ent_rollback(reader);
    T_OK(qp_maintenance_flush(db, &error));
    ent_close(reader);
    ent_close(db);
}

static void calls_inside_a_transaction_are_misuse(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = maintenance_open(path);

    (void)state;
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_STATUS(qp_maintenance_flush(db, NULL), QUIPU_MISUSE);
    T_STATUS(qp_maintenance_rewrite(db, NULL), QUIPU_MISUSE);
    T_STATUS(qp_maintenance_copy(db, "x", NULL), QUIPU_MISUSE);
    ent_rollback(db);
    ent_close(db);
}

static void rewrite_leaves_no_remains(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    options.secure_delete = false;
    T_OK(ent_sqlite_open(path, &options, &db, NULL));
    T_OK(maintenance_run(db, "CREATE TABLE t (a); INSERT INTO t VALUES ('a-marker-of-its-own')",
                         NULL));
    T_OK(maintenance_run(db, "DELETE FROM t", NULL));
    T_OK(qp_maintenance_flush(db, NULL));
    assert_true(maintenance_holds(path, "a-marker-of-its-own"));
    T_OK(qp_maintenance_rewrite(db, NULL));
    T_OK(qp_maintenance_flush(db, NULL));
    assert_false(maintenance_holds(path, "a-marker-of-its-own"));
    ent_close(db);
}

static void copy_goes_to_any_path_that_the_system_knows(void **state)
{
    static const char *const names[] = {"/twice.db", "a b?c#d%41&e.db", "file:x.db"};
    char path[T_PATH_MAX];
    quipu_error error = {0};
    ent_db *db = NULL;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    model_exec(path, "CREATE TABLE t (a); INSERT INTO t VALUES (1)");
    T_OK(ent_sqlite_open(path, NULL, &db, &error));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char copy[T_PATH_MAX + 1] = "/";

        t_path(t_tmpdir(), names[i], copy + 1); /* two slashes, which a URI would misread */
        if (qp_maintenance_copy(db, copy, &error) != QUIPU_OK) {
            fail_msg("%s", error.message);
        }
        model_check(copy + 1, "SELECT a FROM t", "1\n");
    }
    /* SQLite would copy into memory, and the file would stay empty. */
    T_STATUS(qp_maintenance_copy(db, ":memory:", &error), QUIPU_MISUSE);
    assert_false(t_file_exists(":memory:"));
    ent_close(db);
}

static void copy_is_private_checked_and_never_overwrites(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    char far[QP_SQLITE_PATH_MAX + 1];
    struct stat info;
    ent_db *db = maintenance_open(path);
    ent_db *memory = NULL;
    quipu_error error = {0};

    (void)state;
    T_OK(maintenance_run(db, "INSERT INTO t (a) VALUES (1), (2)", NULL));
    t_path(t_tmpdir(), "copy.db", copy);
    T_OK(qp_maintenance_copy(db, copy, &error));
    model_same(model_dump(path, true), model_dump(copy, true));
    assert_int_equal(stat(copy, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    T_STATUS(qp_maintenance_copy(db, copy, &error), QUIPU_EXISTS);
    T_STATUS(qp_maintenance_copy(db, "no/such/folder/x", &error), QUIPU_IO);
    memset(far, 'x', QP_SQLITE_PATH_MAX);
    far[QP_SQLITE_PATH_MAX] = '\0';
    T_STATUS(qp_maintenance_copy(db, far, &error), QUIPU_LIMIT);
    far[QP_SQLITE_PATH_MAX - 1] = '\0'; /* the system has a limit of its own on names */
    T_STATUS(qp_maintenance_copy(db, far, &error), QUIPU_IO);
    ent_close(db);

    T_OK(ent_sqlite_open(":memory:", NULL, &memory, NULL));
    T_OK(maintenance_run(memory, "CREATE TABLE u (a); INSERT INTO u VALUES (7)", NULL));
    t_path(t_tmpdir(), "memory.db", copy);
    T_OK(qp_maintenance_copy(memory, copy, &error));
    model_check(copy, "SELECT a FROM u", "7\n");
    ent_close(memory);
}

static bool maintenance_stop(void *ctx)
{
    int *left = ctx;

    return --*left < 0;
}

static void cancelled_copy_leaves_no_file(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    ent_db *db = maintenance_open(path);
    int left = 1;

    (void)state;
    T_OK(maintenance_run(db, "INSERT INTO t (a) VALUES (zeroblob(20000000))",
                         NULL)); /* several steps */
    t_path(t_tmpdir(), "copy.db", copy);
    ent_watch(db, 0, maintenance_stop, &left);
    T_STATUS(qp_maintenance_copy(db, copy, NULL), QUIPU_CANCELLED);
    assert_false(t_file_exists(copy));
    ent_watch(db, 0, NULL, NULL);
    T_OK(qp_maintenance_copy(db, copy, NULL));
    ent_close(db);
}

typedef struct report_texts {
    int count;
    char last[256];
} report_texts;

static quipu_status maintenance_hear(void *ctx, quipu_str text)
{
    report_texts *reported = ctx;

    reported->count++;
    snprintf(reported->last, sizeof(reported->last), "%.*s", (int)text.n, text.p);
    return QUIPU_OK;
}

static quipu_status maintenance_refuse(void *ctx, quipu_str text)
{
    (void)ctx;
    (void)text;
    return QUIPU_CANCELLED;
}

static int64_t maintenance_rows(ent_db *db)
{
    sqlite3_stmt *stmt = NULL;
    sqlite3 *raw = ((qp_sqlite *)db->conn)->db;

    assert_int_equal(sqlite3_prepare_v2(raw, "SELECT count(*) FROM t", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return count;
}

/* Also of rows that are in the log only, and out of a connection that may not write. */
static void image_is_a_private_copy_that_can_be_written(void **state)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    char path[T_PATH_MAX];
    ent_db *db = maintenance_open(path);
    ent_db *reader = NULL;
    ent_db *image = NULL;
    qp_sizes sizes = {0};

    (void)state;
    T_OK(maintenance_run(db, "INSERT INTO t VALUES (1, zeroblob(5000000)), (2, 'x')", NULL));
    options.flags = ENT_SQLITE_READ_ONLY;
    T_OK(ent_sqlite_open(path, &options, &reader, NULL));
    T_OK(qp_maintenance_image(reader, &image, NULL));
    ent_close(reader);
    assert_int_equal(maintenance_rows(image), 2);
    T_OK(maintenance_run(image, "BEGIN; DELETE FROM t WHERE id = 1; COMMIT", NULL));
    T_OK(maintenance_run(db, "INSERT INTO t VALUES (3, 'y')", NULL));
    assert_int_equal(maintenance_rows(image), 1);
    assert_int_equal(maintenance_rows(db), 3);
    T_OK(qp_maintenance_sizes(image, &sizes, NULL));
    assert_int_equal(sizes.log_bytes, 0);
    assert_true(sizes.file_bytes > 5000000);
    T_OK(qp_maintenance_rewrite(image, NULL));
    ent_close(image);
    T_OK(ent_begin(db, ENT_READ, NULL));
    T_STATUS(qp_maintenance_image(db, &image, NULL), QUIPU_MISUSE);
    ent_rollback(db);
    ent_close(db);
}

static void check_reports_damage_and_dangling_references(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = maintenance_open(path);
    report_texts reported = {0};

    (void)state;
    T_OK(maintenance_run(db, "CREATE TABLE u (t REFERENCES t (id))", NULL));
    T_OK(qp_maintenance_check(db, maintenance_hear, &reported, NULL));
    assert_int_equal(reported.count, 0);
    model_exec(path, "PRAGMA foreign_keys = OFF; INSERT INTO u VALUES (99)");
    T_OK(qp_maintenance_check(db, maintenance_hear, &reported, NULL));
    assert_int_equal(reported.count, 1);
    assert_string_equal(reported.last, "row 1 of u refers to no row of t");
    T_STATUS(qp_maintenance_check(db, maintenance_refuse, NULL, NULL), QUIPU_CANCELLED);
    /* At most so many are reported. */
    model_exec(path, "PRAGMA foreign_keys = OFF; WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 "
                     "FROM n WHERE i < 100) INSERT INTO u SELECT 99 FROM n");
    reported.count = 0;
    T_OK(qp_maintenance_check(db, maintenance_hear, &reported, NULL));
    assert_int_equal(reported.count, QP_MAINTENANCE_FINDINGS_MAX);
    ent_close(db);
}

static void backups_are_listed_oldest_first(void **state)
{
    char path[T_PATH_MAX];
    char backup[1024];
    ent_db *db = maintenance_open(path);
    report_texts reported = {0};

    (void)state;
    T_OK(qp_maintenance_backups(db, maintenance_hear, &reported, NULL));
    assert_int_equal(reported.count, 0);
    T_OK(qp_sqlite_backup(db->conn, "a", (quipu_time){1767225600, 5}, backup, 1024, NULL));
    T_OK(qp_sqlite_backup(db->conn, "b", (quipu_time){1767225601, 5}, backup, 1024, NULL));
    T_OK(qp_maintenance_backups(db, maintenance_hear, &reported, NULL));
    assert_int_equal(reported.count, 2);
    assert_string_equal(reported.last, backup);
    T_STATUS(qp_maintenance_backups(db, maintenance_refuse, NULL, NULL), QUIPU_CANCELLED);
    ent_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_report_file_log_and_free_pages),
        cmocka_unit_test(cap_lets_the_last_page_in_and_refuses_the_next),
        cmocka_unit_test(flush_is_busy_while_somebody_reads),
        cmocka_unit_test(calls_inside_a_transaction_are_misuse),
        cmocka_unit_test(rewrite_leaves_no_remains),
        cmocka_unit_test(copy_goes_to_any_path_that_the_system_knows),
        cmocka_unit_test(copy_is_private_checked_and_never_overwrites),
        cmocka_unit_test(cancelled_copy_leaves_no_file),
        cmocka_unit_test(image_is_a_private_copy_that_can_be_written),
        cmocka_unit_test(check_reports_damage_and_dangling_references),
        cmocka_unit_test(backups_are_listed_oldest_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
