/* The thread of background.h: starting, waking, ending.
 *
 * Called by src/memory (start, stop, wait), src/agent through it (wake), and quipu_close(). Expects
 * no lock. On return of a stop the thread has ended, and no call of its is inside of the store.
 * Owns: the thread, its cancel flag and the count of wakes.
 *
 *   none ──start──▶ runs ──stop──▶ flag set, woken, joined ──▶ none
 *     └──────────────┴────close──▶ closed: a later start is refused
 *
 * Two mutexes: `gate` is held for a whole start, stop or close, also while a thread is joined;
 * `mutex` guards the count of wakes alone, so that a turn that wakes the worker never waits for
 * a stop. */
#include "store/background.h"

#include <assert.h>

#include "base/cancel.h"
#include "base/error.h"

/* Called by the opening of a store: failing here is cheaper than when a worker is wanted. */
quipu_status qp_background_init(qp_background *background, quipu_error *reterr)
{
    assert(!background->is_set_up);
    if (qp_mutex_init(&background->gate) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_mutex_init(&background->mutex) != QUIPU_OK) {
        qp_mutex_done(&background->gate);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_cond_init(&background->woken) != QUIPU_OK) {
        qp_mutex_done(&background->gate);
        qp_mutex_done(&background->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    atomic_init(&background->runs, false);
    background->is_set_up = true;
    return QUIPU_OK;
}

/* The thread is gone since qp_background_close(); also for a store that failed to open. */
void qp_background_done(qp_background *background)
{
    if (background->is_set_up) {
        assert(!atomic_load(&background->runs) && background->cancel == NULL);
        qp_cond_done(&background->woken);
        qp_mutex_done(&background->mutex);
        qp_mutex_done(&background->gate);
        background->is_set_up = false;
    }
}

/* Everything that the thread reads is written before it starts, and stays until it is joined. */
static void *background_thread(void *arg)
{
    qp_background *background = arg;

    assert(background->cancel != NULL);
    background->work.run(background->work.ctx, background->cancel);
    return NULL;
}

/* The gate lets one thread start, stop or close at a time. `runs` is looked at before it, so that
 * the common "there is one already" takes no lock. */
quipu_status qp_background_start(qp_background *background, qp_background_work work,
                                 quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(work.run != NULL && work.free != NULL);
    if (atomic_load(&background->runs)) {
        return qp_error_set(reterr, QUIPU_EXISTS, "the store has a worker already");
    }
    qp_mutex_lock(&background->gate);
    if (background->closed) {
        status = qp_error_set(reterr, QUIPU_CANCELLED, "the store is being closed");
    } else if (atomic_load(&background->runs)) { /* another thread was faster */
        status = qp_error_set(reterr, QUIPU_EXISTS, "the store has a worker already");
    } else {
        background->work = work;
        background->cancel = quipu_cancel_new();
        if (background->cancel == NULL ||
            qp_thread_start(&background->thread, background_thread, background) != QUIPU_OK) {
            quipu_free(background->cancel);
            background->cancel = NULL;
            status = qp_error_set(reterr, QUIPU_NOMEM, "the system gave no thread for a worker");
        } else {
            atomic_store(&background->runs, true);
        }
    }
    qp_mutex_unlock(&background->gate);
    return status;
}

/* Ends the thread; the gate is held. */
static qp_background_work background_end(qp_background *background)
{
    qp_background_work work = {.run = NULL};

    if (atomic_load(&background->runs)) {
        assert(background->cancel != NULL);
        work = background->work;
        /* The flag first: the work that is woken must find it set. */
        quipu_cancel_set(background->cancel);
        qp_background_wake(background);
        (void)qp_thread_join(background->thread);
        quipu_free(background->cancel);
        background->cancel = NULL;
        atomic_store(&background->runs, false);
    }
    return work;
}

/* Waits for the thread with the gate held: a start meanwhile waits, too, and then begins a new
 * thread. */
qp_background_work qp_background_stop(qp_background *background)
{
    qp_background_work work;

    assert(background->is_set_up);
    qp_mutex_lock(&background->gate);
    work = background_end(background);
    qp_mutex_unlock(&background->gate);
    return work;
}

/* As a stop, and no start succeeds any more. */
void qp_background_close(qp_background *background)
{
    qp_background_work work;

    assert(background->is_set_up);
    qp_mutex_lock(&background->gate);
    background->closed = true;
    work = background_end(background);
    qp_mutex_unlock(&background->gate);
    if (work.run != NULL) {
        work.free(work.ctx);
    }
}

/* Read before a worker looks for work: what is woken for afterwards is not missed. */
uint64_t qp_background_count(qp_background *background)
{
    uint64_t wakes;

    assert(background->is_set_up);
    qp_mutex_lock(&background->mutex);
    wakes = background->wakes;
    qp_mutex_unlock(&background->mutex);
    return wakes;
}

/* Called by a turn that has appended (qp_memory_wake()), and by background_end() with the gate
 * held: the gate is taken before this mutex, never behind it. */
void qp_background_wake(qp_background *background)
{
    qp_mutex_lock(&background->mutex);
    background->wakes++;
    qp_cond_broadcast(&background->woken);
    qp_mutex_unlock(&background->mutex);
}

/* In slices, because a cancel flag wakes nobody. */
void qp_background_wait(qp_background *background, uint64_t seen, int64_t until_ns,
                        quipu_cancel *cancel)
{
    int64_t now_ns = qp_clock_ns();

    qp_mutex_lock(&background->mutex);
    while (background->wakes == seen && now_ns < until_ns && !qp_cancel_is_set(cancel)) {
        const int64_t slice_ns = now_ns + QP_BACKGROUND_SLICE_NS;

        (void)qp_cond_wait_until(&background->woken, &background->mutex,
                                 slice_ns < until_ns ? slice_ns : until_ns);
        now_ns = qp_clock_ns();
    }
    qp_mutex_unlock(&background->mutex);
}
