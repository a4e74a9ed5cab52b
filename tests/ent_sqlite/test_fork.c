/* A child of fork(2) that opens files which its parent has open: its locks are its own, whatever
 * the parent was doing. SQLite keeps the locks of a process in lists that a child inherits with the
 * memory, while the system gives it none of the locks. */
#include "lib/t.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include <ent/sqlite.h>

#include "ent/db.h"

#define BUSY_MS 500                /* a lock of the parent's that nobody releases ends a test */
#define SHARED_AT (0x40000000 + 2) /* SQLite's bytes of a shared lock on a main file... */
#define SHARED_SIZE 510
#define SWITCH_AT 128 /* ...and of the one on -shm that says that the log is in use */
#define FIRST_MUTEX SQLITE_MUTEX_STATIC_MAIN
#define LAST_MUTEX SQLITE_MUTEX_STATIC_VFS1
#define IS_APPLICATIONS(mutex)                                                                     \
    ((mutex) == SQLITE_MUTEX_STATIC_APP2 || (mutex) == SQLITE_MUTEX_STATIC_APP3)

/* A child process, and the pipes by which both wait for each other. */
typedef struct fork_child {
    pid_t pid;
    int to;   /* the parent's bytes for the child */
    int from; /* the child's for the parent */
} fork_child;

typedef bool (*fork_work)(const char *path, fork_child self);

static ent_db *fork_open(const char *path)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    ent_db *db = NULL;
    quipu_error err = {0};

    options.busy_ms = BUSY_MS;
    if (ent_sqlite_open(path, &options, &db, &err) != QUIPU_OK) {
        (void)fprintf(stderr, "cannot open: %s\n", err.message);
    }
    return db;
}

static bool fork_runs(ent_db *db, const char *sql)
{
    quipu_error err = {0};
    const bool right =
        db != NULL && db->engine->execute(db->conn, quipu_cstr(sql), &err) == QUIPU_OK;

    if (!right) {
        (void)fprintf(stderr, "%s: %s\n", sql, err.message);
    }
    return right;
}

/* One of the two goes on when the other has come to the same place. */
static bool fork_meet(fork_child other)
{
    char byte = 'x';

    return write(other.to, &byte, 1) == 1 && read(other.from, &byte, 1) == 1;
}

/* The work runs in a child, which ends without closing anything. */
static fork_child fork_start(const char *path, fork_work work)
{
    int down[2];
    int up[2];
    pid_t pid;

    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        _exit(work(path, (fork_child){.to = up[1], .from = down[0]}) ? 0 : 1);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    return (fork_child){.pid = pid, .to = down[1], .from = up[0]};
}

static void fork_join(fork_child child)
{
    int how = 0;

    assert_int_equal(waitpid(child.pid, &how, 0), child.pid);
    (void)close(child.to);
    (void)close(child.from);
    assert_int_equal(how, 0);
}

static ent_db *fork_new(char path[T_PATH_MAX])
{
    ent_db *db;

    t_path(t_tmpdir(), "fork.db", path);
    db = fork_open(path);
    assert_true(fork_runs(db, "CREATE TABLE t (a)"));
    return db;
}

/* By SQLite alone: no connection of the library has the file open. */
static int64_t fork_count(const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *rows = NULL;
    int64_t count;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &rows, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
    count = sqlite3_column_int64(rows, 0);
    assert_int_equal(sqlite3_finalize(rows), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return count;
}

/* Whether a process, the asking one included, holds a shared lock there. The question is a child's:
 * a process's own locks are none to itself, and closing a descriptor would drop them. */
static bool fork_is_locked(const char *path, const char *suffix, off_t at, off_t size)
{
    char name[T_PATH_MAX + 8];
    int how = 0;
    pid_t pid;

    (void)snprintf(name, sizeof(name), "%s%s", path, suffix);
    pid = fork();
    if (pid == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = size};
        const int fd = open(name, O_RDWR | O_CLOEXEC);
        const bool asked = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0;
        _exit(asked && lock.l_type == F_RDLCK ? 1 : 0);
    }
    return pid > 0 && waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 1;
}

static bool fork_has_locks(const char *path)
{
    return fork_is_locked(path, "", SHARED_AT, SHARED_SIZE) &&
           fork_is_locked(path, "-shm", SWITCH_AT, 1);
}

/* ---- a parent that writes, reads, closes ----------------------------------------------------- */

static bool write_after_the_parent(const char *path, fork_child parent)
{
    ent_db *db = fork_open(path);

    return fork_meet(parent) && fork_runs(db, "INSERT INTO t VALUES ('child')");
}

/* Without locks of its own, the child finds the parent's write lock in its lists, for ever. */
static void a_child_writes_although_its_parent_was_writing(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = fork_new(path);

    (void)state;
    assert_true(fork_runs(db, "BEGIN IMMEDIATE; INSERT INTO t VALUES ('parent')"));
    const fork_child child = fork_start(path, write_after_the_parent);
    assert_true(fork_runs(db, "COMMIT"));
    assert_true(fork_meet(child));
    fork_join(child);
    assert_true(fork_runs(db, "INSERT INTO t VALUES ('parent')"));
    ent_close(db);
    assert_int_equal(fork_count(path), 3);
}

static bool be_busy(const char *path, fork_child parent)
{
    ent_db *db = fork_open(path);
    quipu_error err = {0};

    (void)parent;
    return db != NULL &&
           db->engine->execute(db->conn, QUIPU_STR("INSERT INTO t VALUES (1)"), &err) == QUIPU_BUSY;
}

static void a_child_waits_while_its_parent_writes(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = fork_new(path);

    (void)state;
    assert_true(fork_runs(db, "BEGIN IMMEDIATE; INSERT INTO t VALUES ('parent')"));
    fork_join(fork_start(path, be_busy));
    assert_true(fork_runs(db, "COMMIT"));
    ent_close(db);
    assert_int_equal(fork_count(path), 1);
}

static bool hold_locks(const char *path, fork_child parent)
{
    ent_db *db = fork_open(path);
    ent_db *second = fork_open(path);
    bool right = fork_meet(parent) && fork_has_locks(path);

    ent_close(second); /* its descriptors are closed when the first connection is */
    right = right && fork_has_locks(path);
    ent_close(db);
    return right;
}

/* Without its locks another process would take the log away from under the child. */
static void a_child_has_locks_that_others_see(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = fork_new(path);
    ent_db *reader = fork_open(path);
    const fork_child child = fork_start(path, hold_locks);

    (void)state;
    ent_close(reader);
    ent_close(db);
    assert_true(fork_meet(child));
    fork_join(child);
    assert_false(fork_is_locked(path, "", SHARED_AT, SHARED_SIZE));
}

static bool write_after_the_close(const char *path, fork_child parent)
{
    ent_db *db = fork_open(path);

    return fork_runs(db, "INSERT INTO t VALUES ('child')") && fork_meet(parent) &&
           fork_meet(parent) && fork_runs(db, "INSERT INTO t VALUES ('child')");
}

/* The last one who closes a file deletes its log: the parent must not take itself for that one. */
static void what_a_child_wrote_stays_when_its_parent_closes(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = fork_new(path);
    const fork_child child = fork_start(path, write_after_the_close);

    (void)state;
    assert_true(fork_meet(child));
    ent_close(db);
    assert_true(fork_meet(child));
    fork_join(child);
    assert_int_equal(fork_count(path), 2);
}

static bool open_and_close(const char *path, fork_child parent)
{
    ent_db *db = fork_open(path);

    (void)parent;
    ent_close(db);
    return db != NULL;
}

static void a_child_s_close_leaves_the_parent_s_locks(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = fork_new(path);

    (void)state;
    fork_join(fork_start(path, open_and_close));
    assert_true(fork_has_locks(path));
    ent_close(db);
}

static bool be_a_parent(const char *path, fork_child parent)
{
    ent_db *db = fork_open(path);
    bool right = fork_runs(db, "BEGIN IMMEDIATE; INSERT INTO t VALUES ('child')");
    const fork_child child = fork_start(path, write_after_the_parent);
    int how = 0;

    (void)parent;
    right = fork_runs(db, "COMMIT") && fork_meet(child) && right;
    return waitpid(child.pid, &how, 0) == child.pid && how == 0 && right;
}

static void a_child_of_a_child_has_locks_of_its_own(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = fork_new(path);

    (void)state;
    assert_true(fork_runs(db, "INSERT INTO t VALUES ('parent')"));
    fork_join(fork_start(path, be_a_parent));
    assert_true(fork_runs(db, "INSERT INTO t VALUES ('parent')"));
    ent_close(db);
    assert_int_equal(fork_count(path), 4);
}

/* ---- threads of the parent ------------------------------------------------------------------- */

static int held_before; /* SQLite's mutexes that were locked when the process was copied */

/* Runs behind the library's handler, which is registered later: then a thread that has a mutex has
 * released it. */
static void look_before(void)
{
    held_before = 0;
    for (int i = FIRST_MUTEX; i <= LAST_MUTEX; i++) {
        sqlite3_mutex *mutex = sqlite3_mutex_alloc(i);
        if (!IS_APPLICATIONS(i) && sqlite3_mutex_try(mutex) == SQLITE_BUSY) {
            held_before++;
        } else if (!IS_APPLICATIONS(i)) {
            sqlite3_mutex_leave(mutex);
        }
    }
}

static bool mutexes_are_free(void)
{
    for (int i = FIRST_MUTEX; i <= LAST_MUTEX; i++) {
        sqlite3_mutex *mutex = sqlite3_mutex_alloc(i);
        if (sqlite3_mutex_try(mutex) != SQLITE_OK) {
            return false;
        }
        sqlite3_mutex_leave(mutex);
    }
    return true;
}

static bool find_mutexes_free(const char *path, fork_child parent)
{
    (void)path;
    (void)parent;
    return mutexes_are_free();
}

/* A thread that has one of SQLite's own mutexes does not exist in the child, and would never
 * release it there. The application's two are not SQLite's. */
static void no_thread_is_inside_of_sqlite_when_a_process_is_copied(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db;

    (void)state;
    db = fork_new(path);
    fork_join(fork_start(path, find_mutexes_free));
    assert_int_equal(held_before, LAST_MUTEX - FIRST_MUTEX + 1 - 2);
    assert_true(mutexes_are_free());
    ent_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_writes_although_its_parent_was_writing),
        cmocka_unit_test(a_child_waits_while_its_parent_writes),
        cmocka_unit_test(a_child_has_locks_that_others_see),
        cmocka_unit_test(what_a_child_wrote_stays_when_its_parent_closes),
        cmocka_unit_test(a_child_s_close_leaves_the_parent_s_locks),
        cmocka_unit_test(a_child_of_a_child_has_locks_of_its_own),
        cmocka_unit_test(no_thread_is_inside_of_sqlite_when_a_process_is_copied),
    };

    (void)sqlite3_initialize();
    (void)pthread_atfork(look_before, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
