/* One file, one log: several names for a file are refused where they would give it several logs,
 * and nothing else is. Other processes hold the file, as in life; each test forks before it opens
 * anything. */
#define _GNU_SOURCE 1 /* unshare() */

#include "lib/t.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "base/thread.h"
#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/identity.h"

#define NO_PRIVILEGE 77

/* ---- a process that has the file open -------------------------------------------------------- */

typedef struct id_holder {
    pid_t pid;
    int go; /* a byte ends it */
} id_holder;

static ent_db *id_open(const char *path)
{
    quipu_error error = {0};
    ent_db *db = NULL;

    if (ent_sqlite_open(path, NULL, &db, &error) != QUIPU_OK) {
        fail_msg("%s: %s", path, error.message);
    }
    return db;
}

static void id_run(ent_db *db, const char *sql)
{
    T_OK(db->engine->execute(db->conn, quipu_cstr(sql), NULL));
}

static void id_make(const char *path)
{
    ent_db *db = id_open(path);

    id_run(db, "CREATE TABLE t (a); INSERT INTO t VALUES (1)");
    ent_close(db);
}

static id_holder id_hold(const char *path)
{
    int ready[2];
    int go[2];
    char byte = 0;
    id_holder self;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    self.pid = fork();
    assert_true(self.pid >= 0);
    if (self.pid == 0) {
        ent_db *db = NULL;
        (void)close(go[1]);
        if (ent_sqlite_open(path, NULL, &db, NULL) != QUIPU_OK ||
            db->engine->execute(db->conn, QUIPU_STR("INSERT INTO t VALUES (2)"), NULL) !=
                QUIPU_OK ||
            write(ready[1], "r", 1) != 1) {
            _exit(1);
        }
        (void)!read(go[0], &byte, 1);
        ent_close(db);
        _exit(0);
    }
    (void)close(ready[1]);
    (void)close(go[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    self.go = go[1];
    return self;
}

static void id_release(id_holder self)
{
    int how = 0;

    (void)close(self.go);
    assert_int_equal(waitpid(self.pid, &how, 0), self.pid);
    assert_int_equal(how, 0);
}

static void id_refused(const char *path, uint32_t flags, const char *words)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};
    ent_db *db = NULL;

    options.flags = flags;
    T_STATUS(ent_sqlite_open(path, &options, &db, &error), QUIPU_UNSUPPORTED);
    assert_null(db);
    if (strstr(error.message, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", error.message, words);
    }
}

/* Opens, writes, closes. */
static void id_works(const char *path)
{
    ent_db *db = id_open(path);

    id_run(db, "INSERT INTO t VALUES (3)");
    ent_close(db);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void a_hard_link_is_refused_until_the_file_has_one_name(void **state)
{
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "store.db", path);
    t_path(dir, "other.db", other);
    id_make(path);
    assert_int_equal(link(path, other), 0);
    id_refused(other, 0, "hard links");
    id_refused(path, 0, "2 names");
    id_refused(path, ENT_SQLITE_READ_ONLY, "hard links");
    assert_int_equal(unlink(other), 0);
    id_works(path);
}

static void a_symbolic_link_opens_also_while_the_file_is_open(void **state)
{
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    t_path(t_tmpdir(), "other.db", other);
    id_make(path);
    assert_int_equal(symlink(path, other), 0);
    id_holder holder = id_hold(path);
    id_works(other);
    id_works(path);
    id_release(holder);
    id_works(other);
}

static void a_file_that_is_renamed_while_it_is_open_waits_for_its_log(void **state)
{
    char path[T_PATH_MAX];
    char moved[T_PATH_MAX];
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "store.db", path);
    t_path(dir, "moved.db", moved);
    id_make(path);
    id_holder holder = id_hold(path);
    assert_int_equal(rename(path, moved), 0);
    id_refused(moved, 0, "another name");
    id_refused(moved, ENT_SQLITE_READ_ONLY, "another name");
    assert_int_equal(rename(moved, path), 0);
    id_works(path);
    id_release(holder);
    assert_int_equal(rename(path, moved), 0);
    id_works(moved); /* nobody has it open: a move is a move */
}

static void a_file_that_replaces_an_open_one_does_not_get_its_log(void **state)
{
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    char old[T_PATH_MAX];
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "store.db", path);
    t_path(dir, "other.db", other);
    t_path(dir, "old.db", old);
    id_make(path);
    id_make(other);
    id_holder holder = id_hold(path);
    assert_int_equal(rename(path, old), 0);
    assert_int_equal(rename(other, path), 0);
    id_refused(path, 0, "in use for another file");
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(rename(old, path), 0);
    id_release(holder);
    id_works(path);
    id_works(other);
}

static void a_copy_made_while_the_file_is_open_is_a_file_of_its_own(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "store.db", path);
    t_path(dir, "copy.db", copy);
    id_make(path);
    id_holder holder = id_hold(path);
    t_file_copy(path, copy);
    id_works(copy);
    id_works(path);
    id_release(holder);
    id_works(path);
}

static void connections_of_one_process_open_while_others_have_the_file(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    id_make(path);
    id_holder holder = id_hold(path);
    ent_db *first = id_open(path);
    id_run(first, "INSERT INTO t VALUES (4)");
    id_works(path);
    id_release(holder);
    id_works(path);
    id_run(first, "INSERT INTO t VALUES (5)");
    ent_close(first);
    id_works(path);
}

/* The other name may be opened by the very process that has the file open. */
static void one_process_cannot_open_a_file_under_two_names(void **state)
{
    char path[T_PATH_MAX];
    char moved[T_PATH_MAX];
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "store.db", path);
    t_path(dir, "moved.db", moved);
    id_make(path);
    ent_db *db = id_open(path);
    id_run(db, "INSERT INTO t VALUES (6)");
    assert_int_equal(rename(path, moved), 0);
    id_refused(moved, 0, "another name");
    assert_int_equal(rename(moved, path), 0);
    id_run(db, "INSERT INTO t VALUES (7)");
    ent_close(db);
    id_works(path);
}

/* SQLite would open the log by its name, and join the connections that have it for the old file. */
static void a_process_does_not_give_its_log_to_a_file_that_replaced_its_own(void **state)
{
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    char log[T_PATH_MAX + 8];
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "store.db", path);
    t_path(dir, "other.db", other);
    id_make(path);
    id_make(other);
    ent_db *db = id_open(path);
    id_run(db, "INSERT INTO t VALUES (8)");
    assert_int_equal(rename(other, path), 0);
    id_refused(path, 0, "in use for another file");
    ent_close(db); /* SQLite leaves the log, because the file is not in its place */
    id_refused(path, 0, "was written for another file");
    (void)snprintf(log, sizeof(log), "%s-wal", path);
    assert_int_equal(remove(log), 0);
    id_works(path);
}

/* What is written there is acknowledged, and gone when the connection closes. */
static void a_writer_whose_file_was_replaced_or_deleted_is_refused(void **state)
{
    const struct timespec pause = {.tv_nsec = 2 * QP_SQLITE_PLACE_MS * QP_NS_PER_MS};
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    char old[T_PATH_MAX];
    quipu_error error = {0};
    const char *dir = t_tmpdir();

    (void)state;
    t_path(dir, "store.db", path);
    t_path(dir, "other.db", other);
    t_path(dir, "old.db", old);
    id_make(path);
    id_make(other);
    ent_db *db = id_open(path);
    T_OK(ent_begin(db, ENT_WRITE, &error));
    T_OK(ent_commit(db, &error));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rename(path, old), 0);
        if (i == 0) {
            assert_int_equal(rename(other, path), 0);
        }
        (void)nanosleep(&pause, NULL);
        T_STATUS(ent_begin(db, ENT_WRITE, &error), QUIPU_IO);
        assert_non_null(strstr(error.message, "replaced, moved or deleted"));
        assert_int_equal(ent_depth(db), 0);
        T_OK(ent_begin(db, ENT_READ, &error)); /* what was there can still be read */
        ent_rollback(db);
        assert_int_equal(rename(old, path), 0);
        T_OK(ent_begin(db, ENT_WRITE, &error)); /* it is back in its place */
        T_OK(ent_commit(db, &error));
    }
    ent_close(db);
}

/* A file outside of WAL mode has no log that could differ. */
static void a_file_with_a_rollback_journal_opens_while_others_read_it(void **state)
{
    char path[T_PATH_MAX];
    sqlite3 *reader = NULL;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "CREATE TABLE t (a); BEGIN; SELECT * FROM t", NULL, NULL, NULL),
        SQLITE_OK);
    ent_close(id_open(path));
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
}

/* ---- mounts ---------------------------------------------------------------------------------- */

/* A mount namespace of this process's own, as root or as root of a user namespace. */
static bool id_unshare(void)
{
    return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void id_join(const char *dir, const char *name, char ret[T_PATH_MAX])
{
    t_path(dir, name, ret);
}

/* In a child: binds `from` to `to` and opens the file there; its exit code is the status. */
static int id_open_bound(const char *from, const char *to, const char *file)
{
    int how = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        ent_db *db = NULL;
        if (!id_unshare() || mount(from, to, NULL, MS_BIND, NULL) != 0) {
            _exit(NO_PRIVILEGE);
        }
        quipu_status status = ent_sqlite_open(file, NULL, &db, NULL);
        if (status == QUIPU_OK) {
            status = db->engine->execute(db->conn, QUIPU_STR("INSERT INTO t VALUES (8)"), NULL);
            ent_close(db);
        }
        _exit(-(int)status);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

/* The file alone, as containers mount it: its log would be beside the mount point. */
static void a_bind_mount_of_the_file_alone_is_refused_while_it_is_open(void **state)
{
    char path[T_PATH_MAX];
    char point[T_PATH_MAX];

    (void)state;
    id_join(t_tmpdir(), "store.db", path);
    id_join(t_tmpdir(), "store.db", point);
    id_make(path);
    t_file_write(point, "", 0);
    id_holder holder = id_hold(path);
    const int while_open = id_open_bound(path, point, point);
    id_release(holder);
    if (while_open == NO_PRIVILEGE) {
        print_message("SKIP: no right to mount, nor user namespaces\n");
        skip();
    }
    assert_int_equal(while_open, -(int)QUIPU_UNSUPPORTED);
    assert_int_equal(id_open_bound(path, point, point), 0); /* alone it may be opened */
    id_works(path);
}

static void a_bind_mount_of_the_folder_opens_while_the_file_is_open(void **state)
{
    char path[T_PATH_MAX];
    char bound[T_PATH_MAX];
    char point[T_PATH_MAX];
    char dir[T_PATH_MAX];

    (void)state;
    (void)snprintf(dir, sizeof(dir), "%s", t_tmpdir());
    (void)snprintf(point, sizeof(point), "%s", t_tmpdir());
    id_join(dir, "store.db", path);
    id_join(point, "store.db", bound);
    id_make(path);
    id_holder holder = id_hold(path);
    const int while_open = id_open_bound(dir, point, bound);
    id_release(holder);
    if (while_open == NO_PRIVILEGE) {
        print_message("SKIP: no right to mount, nor user namespaces\n");
        skip();
    }
    assert_int_equal(while_open, 0);
    id_works(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hard_link_is_refused_until_the_file_has_one_name),
        cmocka_unit_test(a_symbolic_link_opens_also_while_the_file_is_open),
        cmocka_unit_test(a_file_that_is_renamed_while_it_is_open_waits_for_its_log),
        cmocka_unit_test(a_file_that_replaces_an_open_one_does_not_get_its_log),
        cmocka_unit_test(a_copy_made_while_the_file_is_open_is_a_file_of_its_own),
        cmocka_unit_test(connections_of_one_process_open_while_others_have_the_file),
        cmocka_unit_test(one_process_cannot_open_a_file_under_two_names),
        cmocka_unit_test(a_process_does_not_give_its_log_to_a_file_that_replaced_its_own),
        cmocka_unit_test(a_writer_whose_file_was_replaced_or_deleted_is_refused),
        cmocka_unit_test(a_file_with_a_rollback_journal_opens_while_others_read_it),
        cmocka_unit_test(a_bind_mount_of_the_file_alone_is_refused_while_it_is_open),
        cmocka_unit_test(a_bind_mount_of_the_folder_opens_while_the_file_is_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
