/* pthreads, wrapped. The return codes that POSIX reserves for misuse are asserted. */
#include "base/port.h"

#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/uuid.h"

quipu_status qp_mutex_init(qp_mutex *mutex)
{
    return pthread_mutex_init(mutex, NULL) == 0 ? QUIPU_OK : QUIPU_NOMEM;
}

void qp_mutex_done(qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_mutex_destroy(mutex);
    assert(rc == 0);
}

void qp_mutex_lock(qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_mutex_lock(mutex);
    assert(rc == 0);
}

void qp_mutex_unlock(qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_mutex_unlock(mutex);
    assert(rc == 0);
}

quipu_status qp_cond_init(qp_cond *cond)
{
    pthread_condattr_t attr;
    quipu_status status = QUIPU_NOMEM;

    if (pthread_condattr_init(&attr) != 0) {
        return status;
    }
    /* The wall clock may be set back while somebody waits. */
    if (pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
        pthread_cond_init(cond, &attr) == 0) {
        status = QUIPU_OK;
    }
    (void)pthread_condattr_destroy(&attr);
    return status;
}

void qp_cond_done(qp_cond *cond)
{
    int rc QP_UNUSED = pthread_cond_destroy(cond);
    assert(rc == 0);
}

void qp_cond_wait(qp_cond *cond, qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_cond_wait(cond, mutex);
    assert(rc == 0);
}

bool qp_cond_wait_until(qp_cond *cond, qp_mutex *mutex, int64_t deadline_ns)
{
    struct timespec at;
    int rc;

    if (deadline_ns < 0) {
        deadline_ns = 0;
    }
    at.tv_sec = (time_t)(deadline_ns / QP_NS_PER_S);
    at.tv_nsec = (long)(deadline_ns % QP_NS_PER_S);
    rc = pthread_cond_timedwait(cond, mutex, &at);
    assert(rc == 0 || rc == ETIMEDOUT);
    return rc == 0;
}

void qp_cond_signal(qp_cond *cond)
{
    int rc QP_UNUSED = pthread_cond_signal(cond);
    assert(rc == 0);
}

void qp_cond_broadcast(qp_cond *cond)
{
    int rc QP_UNUSED = pthread_cond_broadcast(cond);
    assert(rc == 0);
}

#define THREAD_ASLEEP (QP_LATCH_VALUE_MAX + 1) /* the word while somebody sleeps on it */

void qp_latch_set(qp_latch *event, unsigned news)
{
    assert(news >= 1 && news <= QP_LATCH_VALUE_MAX);
    if (atomic_exchange(&event->word, news) == THREAD_ASLEEP) {
        /* The event may be gone already: then this wakes nobody, or somebody who looks again. */
        (void)syscall(SYS_futex, &event->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

unsigned qp_latch_wait(qp_latch *event, int64_t deadline_ns)
{
    struct timespec at = {(time_t)(deadline_ns / QP_NS_PER_S), (long)(deadline_ns % QP_NS_PER_S)};
    const struct timespec *until = deadline_ns == INT64_MAX ? NULL : &at;
    unsigned word = 0;

    assert(deadline_ns >= 0);
    (void)atomic_compare_exchange_strong(&event->word, &word, THREAD_ASLEEP);
    for (;;) {
        word = atomic_load(&event->word);
        if (word != THREAD_ASLEEP) {
            return word;
        }
        /* A timeout of this form is absolute, on the monotonic clock. */
        if (syscall(SYS_futex, &event->word, FUTEX_WAIT_BITSET_PRIVATE, THREAD_ASLEEP, until, NULL,
                    FUTEX_BITSET_MATCH_ANY) != 0 &&
            errno == ETIMEDOUT) {
            word = atomic_load(&event->word);
            return word == THREAD_ASLEEP ? 0 : word;
        }
    }
}

quipu_status qp_thread_start(qp_thread *ret_thread, void *(*run)(void *), void *arg)
{
    qp_thread thread;

    if (pthread_create(&thread, NULL, run, arg) != 0) {
        return QUIPU_NOMEM;
    }
    *ret_thread = thread;
    return QUIPU_OK;
}

void *qp_thread_join(qp_thread thread)
{
    void *result = NULL;
    int rc QP_UNUSED = pthread_join(thread, &result);

    assert(rc == 0);
    return result;
}

void qp_once_run(qp_once *once, void (*run)(void))
{
    int rc QP_UNUSED = pthread_once(once, run);
    assert(rc == 0);
}

int64_t qp_clock_ns(void)
{
    struct timespec now = {0, 0};
    int rc QP_UNUSED = clock_gettime(CLOCK_MONOTONIC, &now);

    assert(rc == 0);
    return (int64_t)now.tv_sec * QP_NS_PER_S + now.tv_nsec;
}

void qp_sleep_jitter(int32_t min_ms, int32_t more_ms, int64_t left_ns)
{
    uint8_t chance = 0;
    int64_t nap_ns;
    struct timespec nap;

    if (qp_random(&chance, sizeof(chance)) != QUIPU_OK) {
        chance = 0; /* a fixed nap is as good, only less fair */
    }
    nap_ns = (min_ms + chance % more_ms) * QP_NS_PER_MS;
    nap_ns = nap_ns < left_ns ? nap_ns : left_ns;
    nap = (struct timespec){0, (long)nap_ns};
    (void)nanosleep(&nap, NULL);
}
