/* The change watch by itself: nothing here polls the file, so that a test which is not woken hangs
 * and is ended by its time limit. */
#include "lib/t.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ent/sqlite.h>

#include "ent/change_watch.h"
#include "ent/db.h"

#define NEVER INT64_MAX

typedef struct watch_world {
    ent_db *db;
    qp_change_watch watch;
    char path[T_PATH_MAX];
} watch_world;

static void watch_run(ent_db *db, const char *sql)
{
    T_OK(db->engine->execute(db->conn, quipu_cstr(sql), NULL));
}

static int watch_setup(void **state)
{
    watch_world *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    t_path(t_tmpdir(), "store.db", self->path);
    T_OK(ent_sqlite_open(self->path, NULL, &self->db, NULL));
    watch_run(self->db, "CREATE TABLE t (a)");
    *state = self;
    return 0;
}

static int watch_teardown(void **state)
{
    watch_world *self = *state;

    qp_change_watch_close(&self->watch);
    ent_close(self->db);
    free(self);
    return 0;
}

/* Opens a watch, or skips where the system has no inotify. */
static void watch_begin(watch_world *self)
{
    if (!qp_change_watch_open(self->db, &self->watch)) {
        (void)fprintf(stderr, "SKIP: this system has no change watch for files\n");
        skip();
    }
}

/* Take what is there, until nothing comes without waiting. */
static void watch_drain(watch_world *self)
{
    while (qp_change_watch_wait(&self->watch, 0)) {
    }
}

/* In another process: one commit, and its connection is closed. */
static void watch_commit_elsewhere(const char *path)
{
    int how = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        ent_db *db = NULL;
        bool done =
            ent_sqlite_open(path, NULL, &db, NULL) == QUIPU_OK &&
            db->engine->execute(db->conn, QUIPU_STR("INSERT INTO t VALUES (1)"), NULL) == QUIPU_OK;
        ent_close(db);
        _exit(done ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void commit_of_another_process_wakes_the_watch(void **state)
{
    watch_world *self = *state;

    watch_begin(self);
    for (int i = 0; i < 3; i++) {
        watch_drain(self);
        watch_commit_elsewhere(self->path);
        while (!qp_change_watch_wait(&self->watch, NEVER)) {
        }
    }
}

static void watch_stays_quiet_when_nothing_happens(void **state)
{
    watch_world *self = *state;

    watch_begin(self);
    watch_drain(self);
    assert_false(qp_change_watch_wait(&self->watch, 0));
    /* Other files in the same folder do not wake the watch. */
    char other[T_PATH_MAX + 8];
    snprintf(other, sizeof(other), "%s.other", self->path);
    t_file_write(other, "x", 1);
    assert_false(qp_change_watch_wait(&self->watch, 0));
}

/* The last connection that closes moves the log into the file and deletes it; the next one makes a
 * new log. The watch has no connection of its own here. */
static void log_that_is_deleted_and_recreated_still_wakes_the_watch(void **state)
{
    watch_world *self = *state;
    char log[T_PATH_MAX + 8];

    watch_begin(self);
    ent_close(self->db);
    self->db = NULL;
    snprintf(log, sizeof(log), "%s-wal", self->path);
    for (int i = 0; i < 3; i++) {
        assert_false(t_file_exists(log));
        watch_drain(self);
        watch_commit_elsewhere(self->path);
        while (!qp_change_watch_wait(&self->watch, NEVER)) {
        }
    }
    /* And a log that stays is watched again, too. */
    ent_db *holder = NULL;
    T_OK(ent_sqlite_open(self->path, NULL, &holder, NULL));
    watch_run(holder, "INSERT INTO t VALUES (2)");
    assert_true(t_file_exists(log));
    for (int i = 0; i < 3; i++) {
        watch_drain(self);
        watch_commit_elsewhere(self->path);
        while (!qp_change_watch_wait(&self->watch, NEVER)) {
        }
    }
    ent_close(holder);
}

static void checkpoint_that_empties_the_log_does_not_silence_the_watch(void **state)
{
    watch_world *self = *state;

    watch_begin(self);
    watch_commit_elsewhere(self->path);
    watch_run(self->db, "PRAGMA wal_checkpoint(TRUNCATE)");
    watch_drain(self);
    watch_commit_elsewhere(self->path);
    while (!qp_change_watch_wait(&self->watch, NEVER)) {
    }
}

static void *watch_wake(void *arg)
{
    qp_change_watch_wake(arg);
    return NULL;
}

static void wait_can_be_ended_from_another_thread(void **state)
{
    watch_world *self = *state;
    pthread_t thread;

    watch_begin(self);
    watch_drain(self);
    assert_int_equal(pthread_create(&thread, NULL, watch_wake, &self->watch), 0);
    assert_false(qp_change_watch_wait(&self->watch, NEVER));
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* A wake before the wait counts, once. */
    qp_change_watch_wake(&self->watch);
    qp_change_watch_wake(&self->watch);
    assert_false(qp_change_watch_wait(&self->watch, NEVER));
    assert_false(qp_change_watch_wait(&self->watch, 0));
}

static void store_in_memory_has_no_change_watch(void **state)
{
    ent_db *db = NULL;
    qp_change_watch watch = {0};

    (void)state;
    T_OK(ent_sqlite_open(":memory:", NULL, &db, NULL));
    assert_false(qp_change_watch_open(db, &watch));
    qp_change_watch_close(&watch);
    ent_close(db);
}

#define WATCH_TEST(name) cmocka_unit_test_setup_teardown(name, watch_setup, watch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WATCH_TEST(commit_of_another_process_wakes_the_watch),
        WATCH_TEST(watch_stays_quiet_when_nothing_happens),
        WATCH_TEST(log_that_is_deleted_and_recreated_still_wakes_the_watch),
        WATCH_TEST(checkpoint_that_empties_the_log_does_not_silence_the_watch),
        WATCH_TEST(wait_can_be_ended_from_another_thread),
        cmocka_unit_test(store_in_memory_has_no_change_watch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
