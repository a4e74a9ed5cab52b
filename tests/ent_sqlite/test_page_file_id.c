/* Each page says for which file it was written: a page of another file in the same place is found,
 * and nothing that quipu does gives one file two ids. */
#include "lib/t.h"

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/open.h"
#include "ent_sqlite/page_seal.h"

#define PAGE 4096
#define TORN 1024        /* bytes of page 1 that reached the disk before a crash */
#define FOREIGN 10       /* the page, from 1, that comes from another file */
#define MIXED UINT64_MAX /* no id: pages have several */

static ent_db *fi_open(const char *path)
{
    quipu_error error = {0};
    ent_db *db = NULL;

    if (ent_sqlite_open(path, NULL, &db, &error) != QUIPU_OK) {
        fail_msg("%s: %s", path, error.message);
    }
    return db;
}

static void fi_run(ent_db *db, const char *sql)
{
    quipu_error error = {0};

    if (db->engine->execute(db->conn, quipu_cstr(sql), &error) != QUIPU_OK) {
        fail_msg("%s: %s", sql, error.message);
    }
}

static void fi_path(const char *name, char path[T_PATH_MAX])
{
    t_path(t_tmpdir(), name, path);
}

/* The file has about 60 pages, all of them in the file and not in the log. */
static void fi_make(const char *path, const char *text)
{
    ent_db *db = fi_open(path);
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
                   "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);"
                   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
                   "INSERT INTO t SELECT i, '%s' || hex(i * 7919) || hex(zeroblob(30)) FROM n",
                   text);
    fi_run(db, sql);
    T_OK(qp_maintenance_flush(db, NULL));
    ent_close(db);
}

/* The id of all pages of a file, 0: none has one; MIXED. */
static uint64_t fi_id(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = (uint8_t *)t_file_read(path, &size);
    uint64_t id = 0;

    assert_true(size > 0 && size % PAGE == 0);
    id = qp_page_file_id(bytes, PAGE);
    for (size_t i = 0; i < size / PAGE; i++) {
        const uint8_t *page = bytes + i * PAGE;
        assert_int_equal(qp_page_judge(page, PAGE, (uint32_t)i + 1), QP_PAGE_FITS);
        id = qp_page_file_id(page, PAGE) == id ? id : MIXED;
    }
    free(bytes);
    return id;
}

/* Seals the pages [from, to) of a file, from 1, as a program does that knows this id. */
static void fi_write_id(const char *path, size_t from, size_t to, uint64_t id)
{
    size_t size = 0;
    uint8_t *bytes = (uint8_t *)t_file_read(path, &size);

    assert_true(from > 0);
    for (size_t i = from; i < to && i <= size / PAGE; i++) {
        qp_page_seal(bytes + (i - 1) * PAGE, PAGE, (uint32_t)i, false, id);
    }
    t_file_write(path, bytes, size);
    free(bytes);
}

static quipu_status fi_finding(void *ctx, quipu_str text)
{
    char *texts = ctx;
    const size_t n = strlen(texts);

    (void)snprintf(texts + n, 1024 - n, "%.*s\n", (int)text.n, text.p);
    return QUIPU_OK;
}

/* What a check of the whole file finds, as lines. */
static void fi_check(ent_db *db, char ret_texts[1024])
{
    quipu_error error = {0};

    ret_texts[0] = '\0';
    if (qp_maintenance_intact(db, fi_finding, ret_texts, &error) != QUIPU_OK) {
        (void)fi_finding(ret_texts, quipu_cstr(error.message));
    }
}

/* Writes through quipu to every page of the table, and to page 1, and moves all into the file. */
static void fi_change(const char *path, const char *table)
{
    ent_db *db = fi_open(path);
    char texts[1024];
    char sql[128];

    (void)snprintf(sql, sizeof(sql), "UPDATE t SET a = a || 'x'; CREATE TABLE %s (a)", table);
    fi_run(db, sql);
    T_OK(qp_maintenance_flush(db, NULL));
    fi_check(db, texts);
    assert_string_equal(texts, "");
    ent_close(db);
}

static void a_page_of_another_file_in_the_same_place_is_found(void **state)
{
    char ours[T_PATH_MAX];
    char theirs[T_PATH_MAX];
    char texts[1024];
    uint8_t page[PAGE];

    (void)state;
    fi_path("ours.db", ours);
    fi_path("theirs.db", theirs);
    fi_make(ours, "ours ");
    fi_make(theirs, "theirs ");
    FILE *from = fopen(theirs, "rb");
    FILE *to = fopen(ours, "r+b");
    assert_true(from != NULL && to != NULL);
    (void)fseek(from, (long)(FOREIGN - 1) * PAGE, SEEK_SET);
    assert_int_equal(fread(page, 1, PAGE, from), PAGE);
    (void)fseek(to, (long)(FOREIGN - 1) * PAGE, SEEK_SET);
    assert_int_equal(fwrite(page, 1, PAGE, to), PAGE);
    (void)fclose(from);
    (void)fclose(to);
    ent_db *db = fi_open(ours);
    fi_check(db, texts);
    assert_non_null(strstr(texts, "page 10 ("));
    ent_close(db);
}

static void a_file_keeps_its_id_through_every_rewrite(void **state)
{
    char path[T_PATH_MAX];
    uint64_t id = 0;

    (void)state;
    fi_path("store.db", path);
    fi_make(path, "row ");
    id = fi_id(path);
    assert_true(id != 0 && id != MIXED);
    fi_change(path, "one");
    assert_true(fi_id(path) == id);
    ent_db *db = fi_open(path);
    fi_run(db, "VACUUM");
    T_OK(qp_maintenance_flush(db, NULL));
    ent_close(db);
    assert_true(fi_id(path) == id);
    db = fi_open(path);
    T_OK(qp_maintenance_seal(db, NULL));
    ent_close(db);
    assert_true(fi_id(path) == id);
}

static void a_backup_is_a_file_of_its_own(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];

    (void)state;
    fi_path("store.db", path);
    fi_path("backup.db", copy);
    fi_make(path, "row ");
    ent_db *db = fi_open(path);
    T_OK(qp_maintenance_copy(db, copy, NULL));
    ent_close(db);
    const uint64_t id = fi_id(copy);
    assert_true(id != 0 && id != MIXED && id != fi_id(path));
    fi_change(copy, "one");
    assert_true(fi_id(copy) == id);
}

/* Its pages and its log may have one that page 1 does not state any more: only a new file gets an
 * id, and one that had no checksums. */
static void a_file_of_an_earlier_version_has_no_id_and_its_backup_has_one(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];

    (void)state;
    fi_path("store.db", path);
    fi_path("backup.db", copy);
    fi_make(path, "row ");
    fi_write_id(path, 1, SIZE_MAX, 0);
    assert_true(fi_id(path) == 0);
    fi_change(path, "one");
    assert_true(fi_id(path) == 0);
    ent_db *db = fi_open(path);
    T_OK(qp_maintenance_seal(db, NULL));
    T_OK(qp_maintenance_copy(db, copy, NULL));
    ent_close(db);
    assert_true(fi_id(path) == 0);
    assert_true(fi_id(copy) != 0 && fi_id(copy) != MIXED);
}

/* It writes pages without an id, page 1 in the end: nothing is compared any more. */
static void an_earlier_version_may_write_to_the_file(void **state)
{
    char path[T_PATH_MAX];
    char texts[1024];

    (void)state;
    fi_path("store.db", path);
    fi_make(path, "row ");
    const uint64_t id = fi_id(path);
    fi_write_id(path, FOREIGN, FOREIGN + 5, 0);
    ent_db *db = fi_open(path);
    fi_check(db, texts);
    assert_string_equal(texts, "");
    ent_close(db);
    fi_write_id(path, 1, 2, 0);
    assert_true(id != 0 && fi_id(path) == MIXED);
    fi_change(path, "one");
    db = fi_open(path);
    T_OK(qp_maintenance_seal(db, NULL));
    ent_close(db);
    assert_true(fi_id(path) != MIXED);
    fi_change(path, "two");
}

/* The log has page 1 with the id: what a crash tore in the file does not count. */
static void a_crash_that_tears_page_1_keeps_the_id(void **state)
{
    char path[T_PATH_MAX];
    char crashed[T_PATH_MAX];
    char log[T_PATH_MAX + 8];
    char crashed_log[T_PATH_MAX + 8];
    uint8_t torn[TORN];

    (void)state;
    fi_path("store.db", path);
    fi_path("crashed.db", crashed);
    (void)snprintf(log, sizeof(log), "%s-wal", path);
    (void)snprintf(crashed_log, sizeof(crashed_log), "%s-wal", crashed);
    fi_make(path, "row ");
    const uint64_t id = fi_id(path);
    ent_db *db = fi_open(path);
    fi_run(db, "CREATE TABLE one (a); UPDATE t SET a = a || 'y' WHERE id < 100");
    t_file_copy(path, crashed);
    t_file_copy(log, crashed_log);
    ent_close(db);
    memset(torn, 0x5a, sizeof(torn));
    FILE *file = fopen(crashed, "r+b");
    assert_non_null(file);
    (void)fseek(file, PAGE - 2 * TORN, SEEK_SET);
    assert_int_equal(fwrite(torn, 1, sizeof(torn), file), sizeof(torn));
    (void)fclose(file);
    fi_change(crashed, "two");
    assert_true(fi_id(crashed) == id);
}

/* A process that had the file open when another one sealed it takes the id that it got. */
static void a_connection_from_before_writes_with_the_id_that_the_file_has_now(void **state)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    char path[T_PATH_MAX];
    ent_db *old = NULL;

    (void)state;
    fi_path("store.db", path);
    options.flags = ENT_SQLITE_NO_CHECKSUMS;
    T_OK(ent_sqlite_open(path, &options, &old, NULL));
    fi_run(old, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);"
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
                "INSERT INTO t SELECT i, 'row ' || hex(i * 7919) FROM n");
    ent_db *db = fi_open(path);
    T_OK(qp_maintenance_seal(db, NULL));
    ent_close(db);
    fi_run(old, "UPDATE t SET a = a || 'z'");
    T_OK(qp_maintenance_flush(old, NULL));
    ent_close(old);
    const uint64_t id = fi_id(path);
    assert_true(id != 0 && id != MIXED);
}

/* ---- logs ------------------------------------------------------------------------------------ */

/* Leaves what a crash leaves: the file and its log, with a change of every row in the log. */
static void fi_crash(const char *path, const char *to)
{
    char log[T_PATH_MAX + 8];
    char to_log[T_PATH_MAX + 8];
    ent_db *db = fi_open(path);

    (void)snprintf(log, sizeof(log), "%s-wal", path);
    (void)snprintf(to_log, sizeof(to_log), "%s-wal", to);
    fi_run(db, "UPDATE t SET a = a || 'crash' WHERE id < 100");
    t_file_copy(path, to);
    t_file_copy(log, to_log);
    ent_close(db);
}

/* A restore that forgets the log: neither file is changed, and moving the log away helps. */
static void a_log_of_another_file_is_refused_and_changes_nothing(void **state)
{
    char path[T_PATH_MAX];
    char crashed[T_PATH_MAX];
    char backup[T_PATH_MAX];
    char log[T_PATH_MAX + 8];
    char texts[1024];
    quipu_error error = {0};
    ent_db *db = NULL;

    (void)state;
    fi_path("store.db", path);
    fi_path("crashed.db", crashed);
    fi_path("backup.db", backup);
    (void)snprintf(log, sizeof(log), "%s-wal", crashed);
    fi_make(path, "row ");
    db = fi_open(path);
    T_OK(qp_maintenance_copy(db, backup, NULL));
    ent_close(db);
    fi_crash(path, crashed);
    t_file_copy(backup, crashed);
    T_STATUS(ent_sqlite_open(crashed, NULL, &db, &error), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(error.message, "was written for another file"));
    assert_true(t_file_equal(backup, crashed));
    assert_int_equal(remove(log), 0);
    db = fi_open(crashed);
    fi_check(db, texts);
    assert_string_equal(texts, "");
    ent_close(db);
}

/* Its own log, of a process that read the file and of the one that made it. */
static void a_log_of_the_file_itself_is_recovered(void **state)
{
    char path[T_PATH_MAX];
    char crashed[T_PATH_MAX];
    char log[T_PATH_MAX + 8];
    char crashed_log[T_PATH_MAX + 8];

    (void)state;
    fi_path("store.db", path);
    fi_path("crashed.db", crashed);
    fi_make(path, "row ");
    fi_crash(path, crashed);
    fi_change(crashed, "one");
    fi_path("new.db", path);
    fi_path("crashed-new.db", crashed);
    (void)snprintf(log, sizeof(log), "%s-wal", path);
    (void)snprintf(crashed_log, sizeof(crashed_log), "%s-wal", crashed);
    ent_db *db = fi_open(path);
    fi_run(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1, 'x')");
    t_file_copy(path, crashed);
    t_file_copy(log, crashed_log);
    ent_close(db);
    fi_change(crashed, "one");
}

/* Sealing is a VACUUM into the log: a crash behind it finds that log beside the file. */
static void a_log_that_seals_a_file_is_recovered(void **state)
{
    char path[T_PATH_MAX];
    char crashed[T_PATH_MAX];

    (void)state;
    fi_path("store.db", path);
    fi_path("crashed.db", crashed);
    fi_make(path, "row ");
    fi_write_id(path, 1, 2, 0); /* an earlier version wrote page 1, the others have the id */
    ent_db *db = fi_open(path);
    fi_run(db, "UPDATE t SET a = a || 'z' WHERE id < 100; PRAGMA wal_autocheckpoint = 0");
    T_OK(qp_maintenance_seal(db, NULL));
    ent_close(db);
    fi_crash(path, crashed);
    fi_change(crashed, "one");
    fi_change(path, "one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_another_file_in_the_same_place_is_found),
        cmocka_unit_test(a_file_keeps_its_id_through_every_rewrite),
        cmocka_unit_test(a_backup_is_a_file_of_its_own),
        cmocka_unit_test(a_file_of_an_earlier_version_has_no_id_and_its_backup_has_one),
        cmocka_unit_test(an_earlier_version_may_write_to_the_file),
        cmocka_unit_test(a_crash_that_tears_page_1_keeps_the_id),
        cmocka_unit_test(a_connection_from_before_writes_with_the_id_that_the_file_has_now),
        cmocka_unit_test(a_log_of_another_file_is_refused_and_changes_nothing),
        cmocka_unit_test(a_log_of_the_file_itself_is_recovered),
        cmocka_unit_test(a_log_that_seals_a_file_is_recovered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
