/* The workers: who wakes the loop, and that `done` of every job is called once. */
#include "lib/t.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/thread.h"
#include "server/pool.h"

/* A job that runs until it is let go. */
typedef struct pool_task {
    qp_job job;
    qp_latch begun;
    qp_latch go;
    bool quiet;
    int done;
} pool_task;

static void pool_run(qp_job *job)
{
    pool_task *task = job->owner;

    qp_latch_set(&task->begun, 1);
    (void)qp_latch_wait(&task->go, INT64_MAX);
    job->is_quiet = task->quiet;
}

static void pool_done(qp_job *job)
{
    pool_task *task = job->owner;

    task->done++;
}

static void pool_begin(qp_pool *pool, pool_task *task, bool quiet)
{
    *task = (pool_task){.job = {.run = pool_run, .done = pool_done}, .quiet = quiet};
    task->job.owner = task;
    assert_true(qp_pool_submit(pool, &task->job));
    assert_int_equal(qp_latch_wait(&task->begun, INT64_MAX), 1);
}

/* Lets it end, and waits until it is in the list of finished jobs: the one worker is free again
 * under the same mutex. */
static void pool_end(qp_pool *pool, pool_task *task)
{
    qp_latch_set(&task->go, 1);
    while (!qp_pool_is_free(pool)) {
    }
}

/* How often the loop was woken since the last look. */
static int pool_wakes(int fd)
{
    char bytes[16];
    const ssize_t n = read(fd, bytes, sizeof(bytes));

    return n > 0 ? (int)n : 0;
}

static int pool_setup(void **state)
{
    static int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    *state = fds;
    return 0;
}

static int pool_teardown(void **state)
{
    const int *fds = *state;

    (void)close(fds[0]);
    (void)close(fds[1]);
    return 0;
}

static void a_quiet_job_wakes_nobody_and_is_done_with_the_next_look(void **state)
{
    const int *fds = *state;
    pool_task quiet;
    pool_task loud;
    quipu_error err;
    qp_pool pool;

    T_OK(qp_pool_start(&pool, 1, 8, fds[1], &err));
    pool_begin(&pool, &quiet, true);
    pool_end(&pool, &quiet);
    assert_int_equal(pool_wakes(fds[0]), 0);
    assert_int_equal(quiet.done, 0);
    /* One that somebody waits for wakes the loop, also behind a quiet one that nobody has taken. */
    pool_begin(&pool, &loud, false);
    pool_end(&pool, &loud);
    qp_pool_finish(&pool);
    assert_int_equal(quiet.done, 1);
    assert_int_equal(loud.done, 1);
    qp_pool_stop(&pool);
    assert_int_equal(pool_wakes(fds[0]), 1);
    assert_int_equal(quiet.done, 1);
}

static void an_awaited_job_wakes_the_loop_although_it_is_quiet(void **state)
{
    const int *fds = *state;
    pool_task task;
    quipu_error err;
    qp_pool pool;

    T_OK(qp_pool_start(&pool, 1, 8, fds[1], &err));
    for (int round = 0; round < 3; round++) {
        pool_begin(&pool, &task, true);
        qp_pool_await(&pool, &task.job); /* before it has ended */
        assert_int_equal(task.done, 0);
        pool_end(&pool, &task);
        qp_pool_finish(&pool);
        assert_int_equal(task.done, 1);
        /* Awaited when it has ended already, it is done at once. */
        pool_begin(&pool, &task, true);
        pool_end(&pool, &task);
        qp_pool_await(&pool, &task.job);
        assert_int_equal(task.done, 1);
    }
    qp_pool_stop(&pool);
    assert_int_equal(pool_wakes(fds[0]), 3);
}

static void what_a_stopped_pool_has_not_run_is_done_all_the_same(void **state)
{
    const int *fds = *state;
    pool_task quiet;
    pool_task waits = {.job = {.run = pool_run, .done = pool_done}};
    quipu_error err;
    qp_pool pool;

    T_OK(qp_pool_start(&pool, 1, 8, fds[1], &err));
    pool_begin(&pool, &quiet, true);
    pool_end(&pool, &quiet);
    waits.job.owner = &waits;
    qp_latch_set(&waits.go, 1);
    assert_true(qp_pool_submit(&pool, &waits.job));
    qp_pool_stop(&pool);
    assert_int_equal(quiet.done, 1);
    assert_int_equal(waits.done, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_quiet_job_wakes_nobody_and_is_done_with_the_next_look,
                                        pool_setup, pool_teardown),
        cmocka_unit_test_setup_teardown(an_awaited_job_wakes_the_loop_although_it_is_quiet,
                                        pool_setup, pool_teardown),
        cmocka_unit_test_setup_teardown(what_a_stopped_pool_has_not_run_is_done_all_the_same,
                                        pool_setup, pool_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
