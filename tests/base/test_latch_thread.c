/* Latches and timed waits between threads: each wakes its own thread, may be freed at once, and
 * works in a child of fork(2). Runs on both forms of src/base/port.h, and under TSan. */
#include "lib/t.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"

#define T_THREADS 16
#define T_ROUNDS 500

/* A latch on the heap, which the waiting thread frees. */
typedef struct waiter {
    qp_latch *latch;
    qp_thread thread;
    unsigned got;
} waiter;

static void *waiter_run(void *arg)
{
    waiter *self = arg;

    self->got = qp_latch_wait(self->latch, INT64_MAX);
    free(self->latch);
    return NULL;
}

static void each_latch_wakes_its_own_thread(void **state)
{
    waiter waiters[T_THREADS];

    (void)state;
    for (int i = 0; i < T_THREADS; i++) {
        waiters[i] = (waiter){.latch = calloc(1, sizeof(qp_latch))};
        assert_non_null(waiters[i].latch);
        T_OK(qp_thread_start(&waiters[i].thread, waiter_run, &waiters[i]));
    }
    for (int i = T_THREADS - 1; i >= 0; i--) {
        qp_latch_set(waiters[i].latch, (unsigned)i + 1);
        assert_null(qp_thread_join(waiters[i].thread));
        assert_int_equal(waiters[i].got, i + 1);
    }
}

static void latch_may_be_freed_as_soon_as_it_is_set(void **state)
{
    (void)state;
    for (int i = 0; i < T_ROUNDS; i++) {
        waiter one = {.latch = calloc(1, sizeof(qp_latch))};
        waiter two = {.latch = calloc(1, sizeof(qp_latch))};

        assert_non_null(one.latch);
        assert_non_null(two.latch);
        T_OK(qp_thread_start(&one.thread, waiter_run, &one));
        T_OK(qp_thread_start(&two.thread, waiter_run, &two));
        qp_latch_set(one.latch, 1);
        qp_latch_set(two.latch, QP_LATCH_VALUE_MAX);
        assert_null(qp_thread_join(one.thread));
        assert_null(qp_thread_join(two.thread));
        assert_int_equal(one.got, 1);
        assert_int_equal(two.got, QP_LATCH_VALUE_MAX);
    }
}

/* The child has one thread, and the parent's sleeping ones are not there. */
static void child_of_a_fork_has_latches_of_its_own(void **state)
{
    waiter parent = {.latch = calloc(1, sizeof(qp_latch))};
    int status = -1;
    pid_t pid;

    (void)state;
    assert_non_null(parent.latch);
    T_OK(qp_thread_start(&parent.thread, waiter_run, &parent));
    for (int i = 0; i < 20; i++) {
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            qp_latch latch = {0};
            bool good = qp_latch_wait(&latch, qp_clock_ns() + QP_NS_PER_MS) == 0;

            qp_latch_set(&latch, 3);
            _exit(good && qp_latch_wait(&latch, INT64_MAX) == 3 ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    qp_latch_set(parent.latch, 9);
    assert_null(qp_thread_join(parent.thread));
    assert_int_equal(parent.got, 9);
}

typedef struct far_wait {
    qp_mutex mutex;
    qp_cond cond;
    bool ready;
} far_wait;

static void *far_wait_signal(void *arg)
{
    far_wait *self = arg;

    qp_mutex_lock(&self->mutex);
    self->ready = true;
    qp_cond_signal(&self->cond);
    qp_mutex_unlock(&self->mutex);
    return NULL;
}

static void wait_with_the_last_deadline_of_all_is_woken(void **state)
{
    far_wait wait = {.ready = false};
    qp_thread thread;

    (void)state;
    T_OK(qp_mutex_init(&wait.mutex));
    T_OK(qp_cond_init(&wait.cond));
    qp_mutex_lock(&wait.mutex);
    T_OK(qp_thread_start(&thread, far_wait_signal, &wait));
    while (!wait.ready) {
        assert_true(qp_cond_wait_until(&wait.cond, &wait.mutex, INT64_MAX));
    }
    qp_mutex_unlock(&wait.mutex);
    assert_null(qp_thread_join(thread));
    qp_cond_done(&wait.cond);
    qp_mutex_done(&wait.mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_latch_wakes_its_own_thread),
        cmocka_unit_test(latch_may_be_freed_as_soon_as_it_is_set),
        cmocka_unit_test(child_of_a_fork_has_latches_of_its_own),
        cmocka_unit_test(wait_with_the_last_deadline_of_all_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
