/* pthreads, wrapped. The error codes that POSIX reserves for misuse are asserted. Called by every
 * room that has threads. Timed waits and latches have two forms (base/port.h): Linux waits on the
 * monotonic clock and on futexes; the portable form needs neither, and owns the list of threads
 * that sleep on a latch.
 *
 *                      Linux                        portable
 *   timed wait         until a monotonic instant    until a wall clock time, from what is left
 *   latch              a futex on its value         the list of sleepers, under one mutex
 *
 * Owns: no object of a caller. Locks: in the portable form the mutex of that list, which a fork
 * holds so that the child's copy of the list is whole. */
#include "base/port.h"

#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#if QP_LINUX
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <time.h>

#include "base/attr.h"
#include "base/uuid.h"

/* An ordinary mutex: not recursive, and a thread that locks it twice deadlocks. */
quipu_status qp_mutex_init(qp_mutex *mutex)
{
    assert(mutex != NULL);
    return pthread_mutex_init(mutex, NULL) == 0 ? QUIPU_OK : QUIPU_NOMEM;
}

/* A mutex that somebody still holds cannot be destroyed: POSIX says EBUSY, the assertion says
 * where. */
void qp_mutex_done(qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_mutex_destroy(mutex);
    assert(rc == 0);
}

/* Never fails for a mutex that was set up: the errors of POSIX are deadlock and misuse. */
void qp_mutex_lock(qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_mutex_lock(mutex);
    assert(rc == 0);
}

/* By the thread that locked it. */
void qp_mutex_unlock(qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_mutex_unlock(mutex);
    assert(rc == 0);
}

#if QP_LINUX

/* On the monotonic clock: the wall clock may be set back while a thread waits. */
quipu_status qp_cond_init(qp_cond *cond)
{
    pthread_condattr_t attr;
    quipu_status status = QUIPU_NOMEM;

    assert(cond != NULL);
    if (pthread_condattr_init(&attr) != 0) {
        return status;
    }
    if (pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
        pthread_cond_init(cond, &attr) == 0) {
        status = QUIPU_OK;
    }
    (void)pthread_condattr_destroy(&attr);
    return status;
}

/* The moment of a deadline on the clock that conditions wait on. */
static struct timespec thread_at(int64_t deadline_ns)
{
    assert(deadline_ns >= 0);
    return (struct timespec){(time_t)(deadline_ns / QP_NS_PER_S),
                             (long)(deadline_ns % QP_NS_PER_S)};
}

#else

#define THREAD_WAIT_NS_MAX (3600 * QP_NS_PER_S) /* the longest single wait: sums stay in range */

/* macOS cannot bind a condition to the monotonic clock. */
quipu_status qp_cond_init(qp_cond *cond)
{
    assert(cond != NULL);
    return pthread_cond_init(cond, NULL) == 0 ? QUIPU_OK : QUIPU_NOMEM;
}

/* The moment of a deadline on the wall clock, which conditions wait on by default. macOS takes it
 * as an interval from now on, so that setting the clock does not change a wait under way. */
static struct timespec thread_at(int64_t deadline_ns)
{
    struct timespec at = {0, 0};
    int64_t left_ns = deadline_ns - qp_clock_ns();
    int rc QP_UNUSED = clock_gettime(CLOCK_REALTIME, &at);

    assert(rc == 0);
    left_ns = left_ns > 0 ? left_ns : 0;
    left_ns = left_ns < THREAD_WAIT_NS_MAX ? left_ns : THREAD_WAIT_NS_MAX;
    left_ns += at.tv_nsec;
    at.tv_sec += (time_t)(left_ns / QP_NS_PER_S);
    at.tv_nsec = (long)(left_ns % QP_NS_PER_S);
    return at;
}

#endif

/* No thread waits any more. */
void qp_cond_done(qp_cond *cond)
{
    int rc QP_UNUSED = pthread_cond_destroy(cond);
    assert(rc == 0);
}

/* May wake without a signal: callers wait in a loop over their condition. */
void qp_cond_wait(qp_cond *cond, qp_mutex *mutex)
{
    int rc QP_UNUSED = pthread_cond_wait(cond, mutex);
    assert(rc == 0);
}

/* A spurious wake-up returns true: callers check their condition in a loop. So does a wait that
 * ended early, because the wall clock was set or THREAD_WAIT_NS_MAX passed. */
bool qp_cond_wait_until(qp_cond *cond, qp_mutex *mutex, int64_t deadline_ns)
{
    struct timespec at;
    int rc;

    assert(cond != NULL && mutex != NULL);
    if (deadline_ns < 0) {
        deadline_ns = 0;
    }
    at = thread_at(deadline_ns);
    rc = pthread_cond_timedwait(cond, mutex, &at);
    assert(rc == 0 || rc == ETIMEDOUT);
    return rc == 0 || qp_clock_ns() < deadline_ns;
}

/* Wakes one waiter at least. */
void qp_cond_signal(qp_cond *cond)
{
    int rc QP_UNUSED = pthread_cond_signal(cond);
    assert(rc == 0);
}

/* Wakes all waiters; each looks at its condition again. */
void qp_cond_broadcast(qp_cond *cond)
{
    int rc QP_UNUSED = pthread_cond_broadcast(cond);
    assert(rc == 0);
}

/* The latch's word: 0 unset, THREAD_ASLEEP a thread waits for it, else the value.
 *
 *   0 ──wait──▶ ASLEEP ──set v──▶ v      0 ──set v──▶ v      ASLEEP ──timeout──▶ ASLEEP, wait again
 */
#define THREAD_ASLEEP (QP_LATCH_VALUE_MAX + 1)

#if QP_LINUX

/* The latch may be freed between the exchange and the wake: the futex call then wakes nobody, or a
 * thread that finds its own word unchanged. */
void qp_latch_set(qp_latch *latch, unsigned value)
{
    assert(latch != NULL);
    assert(value >= 1 && value <= QP_LATCH_VALUE_MAX);
    if (atomic_exchange(&latch->word, value) == THREAD_ASLEEP) {
        (void)syscall(SYS_futex, &latch->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* FUTEX_WAIT_BITSET takes an absolute timeout on the monotonic clock. A latch that timed out can be
 * waited for again. */
unsigned qp_latch_wait(qp_latch *latch, int64_t deadline_ns)
{
    struct timespec at = {(time_t)(deadline_ns / QP_NS_PER_S), (long)(deadline_ns % QP_NS_PER_S)};
    const struct timespec *until = deadline_ns == INT64_MAX ? NULL : &at;
    unsigned word = 0;

    assert(deadline_ns >= 0);
    (void)atomic_compare_exchange_strong(&latch->word, &word, THREAD_ASLEEP);
    for (;;) {
        word = atomic_load(&latch->word);
        if (word != THREAD_ASLEEP) {
            return word;
        }
        if (syscall(SYS_futex, &latch->word, FUTEX_WAIT_BITSET_PRIVATE, THREAD_ASLEEP, until, NULL,
                    FUTEX_BITSET_MATCH_ANY) != 0 &&
            errno == ETIMEDOUT) {
            word = atomic_load(&latch->word);
            return word == THREAD_ASLEEP ? 0 : word;
        }
    }
}

#else

/* A thread that sleeps on a latch; lies on its stack. */
typedef struct thread_sleeper {
    const qp_latch *latch;
    qp_cond woken;
    struct thread_sleeper *next;
} thread_sleeper;

/* Everybody who sleeps on a latch in this process. The latch itself cannot hold a condition: it may
 * be freed as soon as it is set, before the setting thread has signalled. */
static qp_mutex thread_lock = QP_MUTEX_INIT;
static qp_once thread_once = QP_ONCE_INIT;
static thread_sleeper *thread_sleepers;

/* pthread_atfork(): holds the lock over fork(), so that the child's copy can be locked. */
static void thread_fork_before(void)
{
    qp_mutex_lock(&thread_lock);
}

static void thread_fork_parent(void)
{
    qp_mutex_unlock(&thread_lock);
}

/* The sleeping threads are the parent's. */
static void thread_fork_child(void)
{
    thread_sleepers = NULL;
    qp_mutex_unlock(&thread_lock);
}

/* Registered once a process. */
static void thread_setup(void)
{
    int rc QP_UNUSED = pthread_atfork(thread_fork_before, thread_fork_parent, thread_fork_child);
    assert(rc == 0);
}

/* After the exchange the latch may be gone: only its address is compared. An address that is used
 * again finds the new latch's thread, which looks at its own word and sleeps on. */
void qp_latch_set(qp_latch *latch, unsigned value)
{
    assert(latch != NULL);
    assert(value >= 1 && value <= QP_LATCH_VALUE_MAX);
    if (atomic_exchange(&latch->word, value) != THREAD_ASLEEP) {
        return;
    }
    qp_mutex_lock(&thread_lock);
    for (thread_sleeper *sleeper = thread_sleepers; sleeper != NULL; sleeper = sleeper->next) {
        if (sleeper->latch == latch) {
            qp_cond_signal(&sleeper->woken);
        }
    }
    qp_mutex_unlock(&thread_lock);
}

/* The word is read under the lock before each sleep, and a latch is set before its thread is looked
 * for under the lock: no wake-up is lost. */
static unsigned thread_sleep(qp_latch *latch, thread_sleeper *self, int64_t deadline_ns)
{
    thread_sleeper **at = &thread_sleepers;
    unsigned word;
    bool over = false;

    assert(self->latch == latch);
    self->next = thread_sleepers;
    thread_sleepers = self;
    while ((word = atomic_load(&latch->word)) == THREAD_ASLEEP && !over) {
        if (deadline_ns == INT64_MAX) {
            qp_cond_wait(&self->woken, &thread_lock);
        } else {
            over = !qp_cond_wait_until(&self->woken, &thread_lock, deadline_ns);
        }
    }
    while (*at != self) {
        at = &(*at)->next;
    }
    *at = self->next;
    return word == THREAD_ASLEEP ? 0 : word;
}

/* A latch that timed out can be waited for again. */
unsigned qp_latch_wait(qp_latch *latch, int64_t deadline_ns)
{
    thread_sleeper self = {latch, PTHREAD_COND_INITIALIZER, NULL};
    unsigned word = 0;

    assert(deadline_ns >= 0);
    if (!atomic_compare_exchange_strong(&latch->word, &word, THREAD_ASLEEP) &&
        word != THREAD_ASLEEP) {
        return word;
    }
    qp_once_run(&thread_once, thread_setup);
    qp_mutex_lock(&thread_lock);
    word = thread_sleep(latch, &self, deadline_ns);
    qp_mutex_unlock(&thread_lock);
    qp_cond_done(&self.woken);
    return word;
}

#endif

/* QUIPU_NOMEM when the system has no thread to give. */
/* A new thread inherits the mask: the caller's own is restored as soon as it runs. Faults stay,
 * they belong to the thread that causes them. */
quipu_status qp_thread_start(qp_thread *ret_thread, void *(*run)(void *), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t blocked;
    sigset_t before;
    qp_thread thread;
    int rc;

    assert(run != NULL);
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        (void)sigdelset(&blocked, faults[i]);
    }
    rc = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    assert(rc == 0);
    rc = pthread_create(&thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        return QUIPU_NOMEM;
    }
    *ret_thread = thread;
    return QUIPU_OK;
}

/* Everything that the thread wrote is visible to the caller afterwards. */
void *qp_thread_join(qp_thread thread)
{
    void *result = NULL;
    int rc QP_UNUSED = pthread_join(thread, &result);

    assert(rc == 0);
    return result;
}

/* A second caller waits until the first has run it. */
void qp_once_run(qp_once *once, void (*run)(void))
{
    int rc QP_UNUSED = pthread_once(once, run);
    assert(rc == 0);
}

/* How far a test has moved the clock; 0 in every program. */
static _Atomic int64_t thread_step_ns;

/* For tests of deadlines: how far the monotonic clock is ahead of the system's. */
void qp_clock_step(int64_t ms)
{
    assert(ms >= 0);
    atomic_store(&thread_step_ns, ms * QP_NS_PER_MS);
}

/* Only differences have a meaning. */
int64_t qp_clock_ns(void)
{
    struct timespec now = {0, 0};
    int rc QP_UNUSED = clock_gettime(CLOCK_MONOTONIC, &now);

    assert(rc == 0);
    return (int64_t)now.tv_sec * QP_NS_PER_S + now.tv_nsec +
           atomic_load_explicit(&thread_step_ns, memory_order_relaxed);
}

/* Without randomness the sleep is fixed, which is only less fair. */
void qp_sleep_jitter(int32_t min_ms, int32_t more_ms, int64_t left_ns)
{
    uint8_t chance = 0;
    int64_t sleep_ns;
    struct timespec interval;

    assert(min_ms >= 0 && more_ms > 0);
    if (qp_random(&chance, sizeof(chance)) != QUIPU_OK) {
        chance = 0;
    }
    sleep_ns = (min_ms + chance % more_ms) * QP_NS_PER_MS;
    sleep_ns = sleep_ns < left_ns ? sleep_ns : left_ns;
    interval = (struct timespec){0, (long)sleep_ns};
    (void)nanosleep(&interval, NULL);
}
