/* Opening: files that are new, odd, foreign, damaged or read-only, each with a clear answer and no
 * byte changed that need not be. */
#include "lib/t.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include <ent/sqlite.h>

#include "ent/db.h"

static quipu_status try_open(const char *path, uint32_t flags, ent_db **ret_db, quipu_error *err)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;

    options.flags = flags;
    options.busy_ms = 200;
    return ent_sqlite_open(path, &options, ret_db, err);
}

static ent_db *must_open(const char *path, uint32_t flags)
{
    quipu_error err = {0};
    ent_db *db = NULL;

    if (try_open(path, flags, &db, &err) != QUIPU_OK) {
        fail_msg("cannot open %s: %s", path, err.message);
    }
    return db;
}

/* Refused with this status and a message that names the path; the output is untouched. */
static void must_refuse(const char *path, uint32_t flags, quipu_status expected, const char *says)
{
    quipu_error err = {0};
    ent_db *db = NULL;

    T_STATUS(try_open(path, flags, &db, &err), expected);
    assert_null(db);
    assert_int_equal(err.status, expected);
    if (strstr(err.message, path) == NULL || strstr(err.message, says) == NULL) {
        fail_msg("\"%s\" does not name %s and \"%s\"", err.message, path, says);
    }
}

static void run_sql(ent_db *db, const char *sql)
{
    quipu_error err = {0};

    if (db->engine->execute(db->conn, quipu_cstr(sql), &err) != QUIPU_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
}

static int64_t ask(ent_db *db, const char *sql)
{
    const uint8_t kind = QP_INT;
    qp_statement *statement = NULL;
    quipu_error err = {0};
    qp_value value = {.kind = QP_NULL};
    bool is_row = false;

    if (db->engine->prepare(db->conn, quipu_cstr(sql), &statement, &err) != QUIPU_OK ||
        db->engine->step(statement, &kind, 1, &value, &is_row, &err) != QUIPU_OK || !is_row) {
        fail_msg("%s: %s", sql, err.message);
    }
    db->engine->finalize(statement);
    return value.as.i;
}

/* A file with a table and a row; `wal` as ours are, else as SQLite makes them by default. */
static void make_file(const char *path, bool wal)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (wal) {
        assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(
        sqlite3_exec(db, "CREATE TABLE t(x); INSERT INTO t VALUES (42);", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_new_file_is_private_and_in_wal_mode(void **state)
{
    char path[T_PATH_MAX];
    char wal[T_PATH_MAX + 8];
    struct stat info;
    mode_t before = umask(0);
    ent_db *db;

    (void)state;
    t_path(t_tmpdir(), "new.db", path);
    db = must_open(path, 0);
    (void)umask(before);
    run_sql(db, "CREATE TABLE t(x); INSERT INTO t VALUES (1)");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    (void)snprintf(wal, sizeof(wal), "%s-wal", path);
    assert_int_equal(stat(wal, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(ask(db, "PRAGMA foreign_keys"), 1);
    assert_int_equal(ask(db, "PRAGMA synchronous"), 2);
    assert_int_equal(ask(db, "PRAGMA secure_delete"), 1);
    ent_close(db);
    db = must_open(path, ENT_SQLITE_MUST_EXIST);
    assert_int_equal(ask(db, "SELECT x FROM t"), 1);
    ent_close(db);
}

static void a_strict_umask_does_not_lock_us_out(void **state)
{
    char path[T_PATH_MAX];
    struct stat info;
    mode_t before;

    (void)state;
    t_path(t_tmpdir(), "new.db", path);
    before = umask(0777);
    ent_close(must_open(path, 0));
    (void)umask(before);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void options_are_honoured_and_checked(void **state)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    ent_db *db = NULL;

    (void)state;
    options.durability = ENT_SQLITE_NORMAL;
    options.secure_delete = false;
    T_OK(ent_sqlite_open(":memory:", &options, &db, NULL));
    assert_int_equal(ask(db, "PRAGMA synchronous"), 1);
    assert_int_equal(ask(db, "PRAGMA secure_delete"), 0);
    ent_close(db);
    db = NULL;
    options.busy_ms = -1;
    T_STATUS(ent_sqlite_open(":memory:", &options, &db, NULL), QUIPU_MISUSE);
    options = (ent_sqlite_options)ENT_SQLITE_OPTIONS_INIT;
    options.flags = 64;
    T_STATUS(ent_sqlite_open(":memory:", &options, &db, NULL), QUIPU_MISUSE);
    options = (ent_sqlite_options)ENT_SQLITE_OPTIONS_INIT;
    options.durability = (ent_sqlite_durability)9;
    T_STATUS(ent_sqlite_open(":memory:", &options, &db, NULL), QUIPU_MISUSE);
    options = (ent_sqlite_options)ENT_SQLITE_OPTIONS_INIT;
    options.struct_size = 3;
    T_STATUS(ent_sqlite_open(":memory:", &options, &db, NULL), QUIPU_MISUSE);
    options = (ent_sqlite_options)ENT_SQLITE_OPTIONS_INIT;
    options.vfs = "no such vfs";
    assert_true(ent_sqlite_open(":memory:", &options, &db, NULL) != QUIPU_OK);
    T_STATUS(ent_sqlite_open(NULL, NULL, &db, NULL), QUIPU_MISUSE);
    T_STATUS(ent_sqlite_open("", NULL, &db, NULL), QUIPU_MISUSE);
    T_STATUS(ent_sqlite_open(":memory:", NULL, NULL, NULL), QUIPU_MISUSE);
    assert_null(db);
}

static void a_path_is_limited(void **state)
{
    char *path = calloc(1, 5000);
    ent_db *db = NULL;
    quipu_error err = {0};

    (void)state;
    assert_non_null(path);
    memset(path, '/', 4096);
    T_STATUS(ent_sqlite_open(path, NULL, &db, NULL), QUIPU_MISUSE);
    path[4095] = '\0'; /* the longest: many slashes, which is the root folder */
    T_STATUS(ent_sqlite_open(path, NULL, &db, &err), QUIPU_IO);
    free(path);
}

static void odd_names_are_only_names(void **state)
{
    static const char *const names[] = {"a b.db",     "what?mode=ro.db", "100%.db", "%41.db",
                                        "#hash.db",   "file:x.db",       "q'\".db", "\xc3\xa9.db",
                                        "a&b=c;d.db", ":memory:.db",     "tab\t.db"};
    char path[T_PATH_MAX];
    const char *dir = t_tmpdir();

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ent_db *db;

        t_path(dir, names[i], path);
        db = must_open(path, 0);
        run_sql(db, "CREATE TABLE t(x); INSERT INTO t VALUES (7)");
        ent_close(db);
        assert_true(t_file_exists(path));
        db = must_open(path, ENT_SQLITE_READ_ONLY);
        assert_int_equal(ask(db, "SELECT x FROM t"), 7);
        ent_close(db);
    }
}

static void a_relative_path_and_double_slashes_work(void **state)
{
    char before[T_PATH_MAX];
    char path[T_PATH_MAX];
    const char *dir = t_tmpdir();
    ent_db *db;

    (void)state;
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(dir), 0);
    db = must_open("here.db", 0);
    ent_close(db);
    assert_true(t_file_exists("here.db"));
    assert_int_equal(chdir(before), 0);
    assert_true(snprintf(path, sizeof(path), "/%s//here.db", dir) > 0);
    db = must_open(path, ENT_SQLITE_MUST_EXIST);
    ent_close(db);
}

static void missing_things_are_named(void **state)
{
    char path[T_PATH_MAX];
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "none.db", path);
    must_refuse(path, ENT_SQLITE_MUST_EXIST, QUIPU_NOT_FOUND, "does not exist");
    must_refuse(path, ENT_SQLITE_READ_ONLY, QUIPU_NOT_FOUND, "does not exist");
    assert_false(t_file_exists(path));
    t_path(dir, "no/such/folder.db", path);
    must_refuse(path, 0, QUIPU_NOT_FOUND, "folder");
    must_refuse(dir, 0, QUIPU_IO, "folder");
    must_refuse("/dev/null", 0, QUIPU_IO, "regular");
}

static void files_that_are_no_store_are_refused_unchanged(void **state)
{
    static const char text[] = "Dear diary, this file is not a database at all, and it is longer "
                               "than a hundred bytes so that only its content decides.";
    char noise[4096];
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    uint64_t seed = t_seed();
    const char *dir = t_tmpdir();

    (void)state;
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (char)t_random(&seed);
    }
    t_path(dir, "odd.db", path);
    t_path(dir, "copy.db", copy);
    for (int i = 0; i < 4; i++) {
        const struct {
            const void *bytes;
            size_t n;
        } files[] = {
            {text, sizeof(text)}, {noise, sizeof(noise)}, {"x", 1}, {"SQLite format 3\0 cut", 20}};
        t_file_write(path, files[i].bytes, files[i].n);
        t_file_copy(path, copy);
        must_refuse(path, 0, QUIPU_CORRUPT, i == 3 ? "truncated" : "encrypted");
        must_refuse(path, ENT_SQLITE_READ_ONLY, QUIPU_CORRUPT, "");
        assert_true(t_file_equal(path, copy));
    }
}

static void a_truncated_store_is_refused(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    const char *dir = t_tmpdir();
    size_t size = 0;
    char *bytes;

    (void)state;
    t_path(dir, "whole.db", path);
    t_path(dir, "cut.db", copy);
    make_file(path, true);
    bytes = t_file_read(path, &size);
    assert_true(size >= 8192);
    t_file_write(copy, bytes, size - 4096);
    must_refuse(copy, 0, QUIPU_CORRUPT, "truncated");
    must_refuse(copy, ENT_SQLITE_READ_ONLY, QUIPU_CORRUPT, "truncated");
    memset(bytes + 100, 0x5a, 400); /* the schema page */
    t_file_write(copy, bytes, size);
    must_refuse(copy, 0, QUIPU_CORRUPT, "damaged");
    free(bytes);
}

/* Whether some process holds SQLite's shared lock on the file, as another process sees it: one that
 * asks for its own locks gets the answer that there are none. */
static bool is_locked(const char *path)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK,
                             .l_whence = SEEK_SET,
                             .l_start = 0x40000000 + 2, /* SQLite's lock bytes */
                             .l_len = 510};
        int fd = open(path, O_RDWR | O_CLOEXEC);
        bool asked = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0;
        _exit(asked && lock.l_type != F_UNLCK ? 1 : 0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
}

/* A process loses all its locks on a file when it closes any descriptor of it. Then another process
 * would take the log away from under us. */
static void another_connection_keeps_the_locks_of_the_first(void **state)
{
    char path[T_PATH_MAX];
    ent_db *first;
    ent_db *second;

    (void)state;
    t_path(t_tmpdir(), "locks.db", path);
    first = must_open(path, 0);
    run_sql(first, "CREATE TABLE t(x)");
    assert_true(is_locked(path));
    second = must_open(path, ENT_SQLITE_READ_ONLY);
    assert_true(is_locked(path));
    ent_close(second);
    assert_true(is_locked(path));
    ent_close(must_open(path, 0));
    assert_true(is_locked(path));
    ent_close(first);
    assert_false(is_locked(path));
}

static void an_empty_file_becomes_a_store_only_when_writing(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db;

    (void)state;
    t_path(t_tmpdir(), "empty.db", path);
    t_file_write(path, "", 0);
    must_refuse(path, ENT_SQLITE_READ_ONLY, QUIPU_CORRUPT, "empty");
    db = must_open(path, 0);
    run_sql(db, "CREATE TABLE t(x)");
    ent_close(db);
    ent_close(must_open(path, ENT_SQLITE_READ_ONLY));
}

static void opening_changes_no_byte_of_an_existing_file(void **state)
{
    const char *dir = t_tmpdir();

    (void)state;
    for (int wal = 0; wal < 2; wal++) {
        for (int read_only = 0; read_only < 2; read_only++) {
            char path[T_PATH_MAX];
            char copy[T_PATH_MAX];
            char name[32];
            ent_db *db;

            (void)snprintf(name, sizeof(name), "%d%d.db", wal, read_only);
            t_path(dir, name, path);
            t_path(dir, "copy.db", copy);
            make_file(path, wal == 1);
            t_file_copy(path, copy);
            db = must_open(path, read_only == 1 ? ENT_SQLITE_READ_ONLY : 0);
            assert_int_equal(ask(db, "SELECT x FROM t"), 42);
            ent_close(db);
            assert_true(t_file_equal(path, copy));
        }
    }
}

/* The side files: bit 0 the log, bit 1 its index. */
static int beside(const char *path)
{
    char log[T_PATH_MAX + 8];
    char index[T_PATH_MAX + 8];

    (void)snprintf(log, sizeof(log), "%s-wal", path);
    (void)snprintf(index, sizeof(index), "%s-shm", path);
    return (t_file_exists(log) ? 1 : 0) | (t_file_exists(index) ? 2 : 0);
}

static void the_last_reader_leaves_nothing_beside_the_file(void **state)
{
    char path[T_PATH_MAX];
    ent_db *first;
    ent_db *second;

    (void)state;
    t_path(t_tmpdir(), "tidy.db", path);
    make_file(path, true);
    assert_int_equal(beside(path), 0);
    first = must_open(path, ENT_SQLITE_READ_ONLY);
    assert_int_equal(ask(first, "SELECT x FROM t"), 42);
    second = must_open(path, ENT_SQLITE_READ_ONLY);
    assert_int_equal(ask(second, "SELECT x FROM t"), 42);
    ent_close(first);
    assert_int_equal(beside(path), 3);
    assert_int_equal(ask(second, "SELECT x FROM t"), 42);
    ent_close(second);
    assert_int_equal(beside(path), 0);
}

/* What a writer that died has left in the log stays there, and the file as it is. */
static void a_reader_leaves_a_log_with_rows_alone(void **state)
{
    char path[T_PATH_MAX];
    char moved[T_PATH_MAX];
    char copy[T_PATH_MAX];
    char from[T_PATH_MAX + 8];
    char to[T_PATH_MAX + 8];
    const char *dir = t_tmpdir();
    ent_db *writer;
    ent_db *reader;

    (void)state;
    t_path(dir, "alive.db", path);
    t_path(dir, "dead.db", moved);
    t_path(dir, "copy.db", copy);
    writer = must_open(path, 0);
    run_sql(writer, "CREATE TABLE t(x); INSERT INTO t VALUES (42)");
    t_file_copy(path, moved);
    (void)snprintf(from, sizeof(from), "%s-wal", path);
    (void)snprintf(to, sizeof(to), "%s-wal", moved);
    t_file_copy(from, to);
    ent_close(writer);
    t_file_copy(moved, copy);
    reader = must_open(moved, ENT_SQLITE_READ_ONLY);
    assert_int_equal(ask(reader, "SELECT x FROM t"), 42);
    ent_close(reader);
    assert_true(t_file_equal(moved, copy));
    assert_int_equal(beside(moved) & 1, 1);
    reader = must_open(moved, ENT_SQLITE_READ_ONLY);
    assert_int_equal(ask(reader, "SELECT x FROM t"), 42);
    ent_close(reader);
}

static void adopting_an_existing_file_turns_the_wal_on(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db;

    (void)state;
    t_path(t_tmpdir(), "old.db", path);
    make_file(path, false);
    db = must_open(path, 0);
    T_OK(db->engine->adopt(db->conn, NULL));
    assert_int_equal(ask(db, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    ent_close(db);
}

static void a_read_only_connection_refuses_to_write(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    t_path(t_tmpdir(), "ro.db", path);
    make_file(path, true);
    db = must_open(path, ENT_SQLITE_READ_ONLY);
    T_STATUS(ent_begin(db, ENT_WRITE, &err), QUIPU_MISUSE);
    T_STATUS(db->engine->execute(db->conn, QUIPU_STR("INSERT INTO t VALUES (1)"), &err),
             QUIPU_MISUSE);
    assert_non_null(strstr(err.message, "read-only"));
    T_OK(ent_begin(db, ENT_READ, &err));
    T_OK(ent_commit(db, &err));
    ent_close(db);
}

static void a_reader_sees_what_a_live_writer_commits(void **state)
{
    char path[T_PATH_MAX];
    ent_db *writer;
    ent_db *reader;

    (void)state;
    t_path(t_tmpdir(), "live.db", path);
    writer = must_open(path, 0);
    run_sql(writer, "CREATE TABLE t(x); INSERT INTO t VALUES (1)");
    reader = must_open(path, ENT_SQLITE_READ_ONLY);
    assert_int_equal(ask(reader, "SELECT count(*) FROM t"), 1);
    run_sql(writer, "INSERT INTO t VALUES (2)");
    assert_int_equal(ask(reader, "SELECT count(*) FROM t"), 2);
    ent_close(reader);
    ent_close(writer);
}

static void a_read_only_folder_can_be_read(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    char other[T_PATH_MAX];
    const char *dir = t_tmpdir();
    ent_db *db;

    (void)state;
    t_path(dir, "wal.db", path);
    t_path(t_tmpdir(), "copy.db", copy);
    t_path(dir, "new.db", other);
    make_file(path, true);
    t_file_copy(path, copy);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    db = must_open(path, ENT_SQLITE_READ_ONLY);
    assert_int_equal(ask(db, "SELECT x FROM t"), 42);
    ent_close(db);
    if (geteuid() != 0) { /* root may write anywhere */
        must_refuse(other, 0, QUIPU_IO, "ermission");
        must_refuse(path, 0, QUIPU_IO, "");
    }
    assert_true(t_file_equal(path, copy));
    assert_int_equal(chmod(dir, 0755), 0);
}

static void a_busy_file_answers_busy_after_the_deadline(void **state)
{
    char path[T_PATH_MAX];
    sqlite3 *locker = NULL;

    (void)state;
    t_path(t_tmpdir(), "busy.db", path);
    make_file(path, false);
    assert_int_equal(sqlite3_open(path, &locker), SQLITE_OK);
    assert_int_equal(sqlite3_exec(locker, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    must_refuse(path, 0, QUIPU_BUSY, "try again");
    assert_int_equal(sqlite3_exec(locker, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    ent_close(must_open(path, 0));
    assert_int_equal(sqlite3_close(locker), SQLITE_OK);
}

static void open_body(void *ctx)
{
    ent_db *db = NULL;
    quipu_error err = {0};
    quipu_status status = ent_sqlite_open(ctx, NULL, &db, &err);

    assert_true(status == QUIPU_OK || (status == QUIPU_NOMEM && t_fault_fired() > 0));
    assert_true((db != NULL) == (status == QUIPU_OK));
    ent_close(db);
}

static void opening_survives_every_fault(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "fault.db", path);
    assert_true(t_fault_sweep(open_body, path) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_is_private_and_in_wal_mode),
        cmocka_unit_test(a_strict_umask_does_not_lock_us_out),
        cmocka_unit_test(options_are_honoured_and_checked),
        cmocka_unit_test(a_path_is_limited),
        cmocka_unit_test(odd_names_are_only_names),
        cmocka_unit_test(a_relative_path_and_double_slashes_work),
        cmocka_unit_test(missing_things_are_named),
        cmocka_unit_test(files_that_are_no_store_are_refused_unchanged),
        cmocka_unit_test(a_truncated_store_is_refused),
        cmocka_unit_test(another_connection_keeps_the_locks_of_the_first),
        cmocka_unit_test(an_empty_file_becomes_a_store_only_when_writing),
        cmocka_unit_test(opening_changes_no_byte_of_an_existing_file),
        cmocka_unit_test(the_last_reader_leaves_nothing_beside_the_file),
        cmocka_unit_test(a_reader_leaves_a_log_with_rows_alone),
        cmocka_unit_test(adopting_an_existing_file_turns_the_wal_on),
        cmocka_unit_test(a_read_only_connection_refuses_to_write),
        cmocka_unit_test(a_reader_sees_what_a_live_writer_commits),
        cmocka_unit_test(a_read_only_folder_can_be_read),
        cmocka_unit_test(a_busy_file_answers_busy_after_the_deadline),
        cmocka_unit_test(opening_survives_every_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
