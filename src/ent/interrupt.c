/* Deadline, cancellation and backoff of an engine's connection.
 *
 * Owns: nothing; works on the qp_interrupt of a connection.
 * Called by: the engines, while they wait. */
#include "ent/interrupt.h"

#include <assert.h>

#include "base/thread.h"

/* See ent_watch(). Forgets why an earlier statement was stopped. */
void qp_interrupt_set(qp_interrupt *interrupt, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    assert(deadline_ns >= 0);
    interrupt->deadline_ns = deadline_ns;
    interrupt->stop = stop;
    interrupt->stop_ctx = ctx;
    interrupt->stopped = QUIPU_OK;
}

/* Cancel wins over the deadline: a caller that cancels wants to see that it did. */
bool qp_interrupt_check(qp_interrupt *interrupt)
{
    assert(interrupt != NULL);
    if (interrupt->stop != NULL && interrupt->stop(interrupt->stop_ctx)) {
        interrupt->stopped = QUIPU_CANCELLED;
        return true;
    }
    if (interrupt->deadline_ns != 0 && qp_clock_ns() >= interrupt->deadline_ns) {
        interrupt->stopped = QUIPU_BUSY;
        return true;
    }
    return false;
}

/* The call's own deadline, or busy_ms from now. */
int64_t qp_interrupt_deadline(const qp_interrupt *interrupt)
{
    assert(interrupt->busy_ms >= 0);
    return interrupt->deadline_ns != 0 ? interrupt->deadline_ns
                                       : qp_clock_ns() + interrupt->busy_ms * QP_NS_PER_MS;
}

/* A stop function is not called while it sleeps: sleeps are short. */
bool qp_interrupt_backoff(qp_interrupt *interrupt, int64_t deadline_ns, int32_t min_ms,
                          int32_t more_ms)
{
    int64_t left_ns = deadline_ns - qp_clock_ns();

    assert(min_ms >= 0 && more_ms > 0);
    if (left_ns <= 0 || qp_interrupt_check(interrupt)) {
        return false;
    }
    qp_sleep_jitter(min_ms, more_ms, left_ns);
    return true;
}
