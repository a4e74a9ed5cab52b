/* Thin wrappers over pthreads: mutex, condition on the monotonic clock, latch, threads, and that
 * clock. Failures that only a bug can cause are asserted, not returned. */
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

/* A one-shot latch that carries a small value from one thread to another. Cheaper than a mutex and
 * a condition: setting it takes no lock and makes no system call unless the other thread sleeps. A
 * futex on Linux, where the woken thread takes no lock either. One thread waits for it. All zero is
 * an unset latch; nothing has to be freed. */
typedef struct qp_latch {
    atomic_uint word;
} qp_latch;

/* Sets the latch to a value of 1 to QP_LATCH_VALUE_MAX. Everything written before is visible to the
 * thread that waits (release/acquire). The latch may be freed by that thread as soon as it is set.
 */
#define QP_LATCH_VALUE_MAX 255U
void qp_latch_set(qp_latch *latch, unsigned value);

/* Waits for the value until qp_clock_ns() reaches `deadline_ns` (INT64_MAX: without end); 0:
 * timeout. */
unsigned qp_latch_wait(qp_latch *latch, int64_t deadline_ns);

/* QUIPU_NOMEM when the system gives no thread. The program's signals are never delivered to it: the
 * handlers of a program must not run on the stack of a thread that it does not know. */
QUIPU_MUST_USE quipu_status qp_thread_start(qp_thread *ret_thread, void *(*run)(void *), void *arg);
void *qp_thread_join(qp_thread thread);

void qp_once_run(qp_once *once, void (*run)(void));

/* Nanoseconds of a clock that never steps back; only differences mean something. */
int64_t qp_clock_ns(void);

/* For tests: moves qp_clock_ns() forward by so many milliseconds; 0 ends it. */
void qp_clock_step(int64_t ms);

/* Sleeps for `min_ms` and a random 0 to `more_ms` - 1 more, at most `left_ns`: jitter keeps two
 * threads from retrying in step. */
void qp_sleep_jitter(int32_t min_ms, int32_t more_ms, int64_t left_ns);

#endif
