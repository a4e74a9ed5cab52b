/* News of other processes' commits, alone: nothing here asks the file in between, so a test that
 * hears nothing hangs and is ended by its time limit. */
#include "lib/t.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ent/sqlite.h>

#include "ent/change_watch.h"
#include "ent/db.h"

#define NEVER INT64_MAX

typedef struct news_world {
    ent_db *db;
    qp_change_watch news;
    char path[T_PATH_MAX];
} news_world;

static void news_run(ent_db *db, const char *sql)
{
    T_OK(db->engine->execute(db->conn, quipu_cstr(sql), NULL));
}

static int news_setup(void **state)
{
    news_world *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    t_path(t_tmpdir(), "store.db", self->path);
    T_OK(ent_sqlite_open(self->path, NULL, &self->db, NULL));
    news_run(self->db, "CREATE TABLE t (a)");
    *state = self;
    return 0;
}

static int news_teardown(void **state)
{
    news_world *self = *state;

    qp_change_watch_close(&self->news);
    ent_close(self->db);
    free(self);
    return 0;
}

/* Listen, or skip where the system cannot tell. */
static void news_begin(news_world *self)
{
    if (!qp_change_watch_open(self->db, &self->news)) {
        (void)fprintf(stderr, "SKIP: this system tells no news of files\n");
        skip();
    }
}

/* Take what is there, until nothing comes without waiting. */
static void news_drain(news_world *self)
{
    while (qp_change_watch_wait(&self->news, 0)) {
    }
}

/* In another process: one commit, and its connection is closed. */
static void news_commit_elsewhere(const char *path)
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
    news_world *self = *state;

    news_begin(self);
    for (int i = 0; i < 3; i++) {
        news_drain(self);
        news_commit_elsewhere(self->path);
        while (!qp_change_watch_wait(&self->news, NEVER)) {
        }
    }
}

static void watch_stays_quiet_when_nothing_happens(void **state)
{
    news_world *self = *state;

    news_begin(self);
    news_drain(self);
    assert_false(qp_change_watch_wait(&self->news, 0));
    /* Others' files in the same folder are no news. */
    char other[T_PATH_MAX + 8];
    snprintf(other, sizeof(other), "%s.other", self->path);
    t_file_write(other, "x", 1);
    assert_false(qp_change_watch_wait(&self->news, 0));
}

/* The last connection that closes moves the log into the file and deletes it; the next one makes a
 * new log. Who listens has no connection of its own here. */
static void log_that_is_deleted_and_recreated_still_wakes_the_watch(void **state)
{
    news_world *self = *state;
    char log[T_PATH_MAX + 8];

    news_begin(self);
    ent_close(self->db);
    self->db = NULL;
    snprintf(log, sizeof(log), "%s-wal", self->path);
    for (int i = 0; i < 3; i++) {
        assert_false(t_file_exists(log));
        news_drain(self);
        news_commit_elsewhere(self->path);
        while (!qp_change_watch_wait(&self->news, NEVER)) {
        }
    }
    /* And a log that stays is heard again too. */
    ent_db *keeper = NULL;
    T_OK(ent_sqlite_open(self->path, NULL, &keeper, NULL));
    news_run(keeper, "INSERT INTO t VALUES (2)");
    assert_true(t_file_exists(log));
    for (int i = 0; i < 3; i++) {
        news_drain(self);
        news_commit_elsewhere(self->path);
        while (!qp_change_watch_wait(&self->news, NEVER)) {
        }
    }
    ent_close(keeper);
}

static void checkpoint_that_empties_the_log_does_not_silence_the_watch(void **state)
{
    news_world *self = *state;

    news_begin(self);
    news_commit_elsewhere(self->path);
    news_run(self->db, "PRAGMA wal_checkpoint(TRUNCATE)");
    news_drain(self);
    news_commit_elsewhere(self->path);
    while (!qp_change_watch_wait(&self->news, NEVER)) {
    }
}

static void *news_ring(void *arg)
{
    qp_change_watch_wake(arg);
    return NULL;
}

static void wait_can_be_ended_from_another_thread(void **state)
{
    news_world *self = *state;
    pthread_t thread;

    news_begin(self);
    news_drain(self);
    assert_int_equal(pthread_create(&thread, NULL, news_ring, &self->news), 0);
    assert_false(qp_change_watch_wait(&self->news, NEVER));
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* Rung before the wait counts, once. */
    qp_change_watch_wake(&self->news);
    qp_change_watch_wake(&self->news);
    assert_false(qp_change_watch_wait(&self->news, NEVER));
    assert_false(qp_change_watch_wait(&self->news, 0));
}

static void store_in_memory_has_no_change_watch(void **state)
{
    ent_db *db = NULL;
    qp_change_watch news = {0};

    (void)state;
    T_OK(ent_sqlite_open(":memory:", NULL, &db, NULL));
    assert_false(qp_change_watch_open(db, &news));
    qp_change_watch_close(&news);
    ent_close(db);
}

#define NEWS_TEST(name) cmocka_unit_test_setup_teardown(name, news_setup, news_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NEWS_TEST(commit_of_another_process_wakes_the_watch),
        NEWS_TEST(watch_stays_quiet_when_nothing_happens),
        NEWS_TEST(log_that_is_deleted_and_recreated_still_wakes_the_watch),
        NEWS_TEST(checkpoint_that_empties_the_log_does_not_silence_the_watch),
        NEWS_TEST(wait_can_be_ended_from_another_thread),
        cmocka_unit_test(store_in_memory_has_no_change_watch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
