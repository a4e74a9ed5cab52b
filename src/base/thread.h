/* Thin wrappers over pthreads: a mutex, a condition that waits on the monotonic clock, threads, and
 * that clock. Failures that only a bug can cause are asserted, not returned. */
#ifndef QP_BASE_THREAD_H
#define QP_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_NS_PER_MS INT64_C(1000000)
#define QP_NS_PER_S INT64_C(1000000000)

typedef pthread_mutex_t qp_mutex;
typedef pthread_cond_t qp_cond;
typedef pthread_t qp_thread;
typedef pthread_once_t qp_once;

#define QP_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#define QP_ONCE_INIT PTHREAD_ONCE_INIT

QUIPU_MUST_USE quipu_status qp_mutex_init(qp_mutex *mutex);
void qp_mutex_done(qp_mutex *mutex);
void qp_mutex_lock(qp_mutex *mutex);
void qp_mutex_unlock(qp_mutex *mutex);

QUIPU_MUST_USE quipu_status qp_cond_init(qp_cond *cond);
void qp_cond_done(qp_cond *cond);
void qp_cond_wait(qp_cond *cond, qp_mutex *mutex);

/* Wait until woken or until qp_clock_ns() reaches `deadline_ns`; false when the deadline came. */
bool qp_cond_wait_until(qp_cond *cond, qp_mutex *mutex, int64_t deadline_ns);
void qp_cond_signal(qp_cond *cond);
void qp_cond_broadcast(qp_cond *cond);

/* News for one thread that waits, told once by another. Cheaper than a mutex and a condition: the
 * one who tells makes no system call unless somebody sleeps, and nobody has to lock anything again
 * after it woke. All zero is an event without news; nothing is to be freed. */
typedef struct qp_latch {
    atomic_uint word;
} qp_latch;

/* `news` is from 1 to QP_LATCH_VALUE_MAX. What was written before is seen by the one who waits. The
 * event may be gone as soon as it is told. */
#define QP_LATCH_VALUE_MAX 255U
void qp_latch_set(qp_latch *event, unsigned news);

/* Wait for the news until qp_clock_ns() reaches `deadline_ns` (INT64_MAX: never); 0: it did. */
unsigned qp_latch_wait(qp_latch *event, int64_t deadline_ns);

/* QUIPU_NOMEM when the system gives no thread. */
QUIPU_MUST_USE quipu_status qp_thread_start(qp_thread *ret_thread, void *(*run)(void *), void *arg);
void *qp_thread_join(qp_thread thread);

void qp_once_run(qp_once *once, void (*run)(void));

/* Nanoseconds of a clock that never steps back; only differences mean something. */
int64_t qp_clock_ns(void);

/* Sleep for `min_ms` and by chance up to `more_ms` - 1 more, but no longer than `left_ns`: two that
 * woke together must not keep doing so. */
void qp_sleep_jitter(int32_t min_ms, int32_t more_ms, int64_t left_ns);

#endif
