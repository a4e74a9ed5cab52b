/* Deadline, cancellation and naps of an engine's connection. */
#include "ent/interrupt.h"

#include "base/thread.h"

void qp_interrupt_set(qp_interrupt *interrupt, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    interrupt->deadline_ns = deadline_ns;
    interrupt->stop = stop;
    interrupt->stop_ctx = ctx;
    interrupt->stopped = QUIPU_OK;
}

bool qp_interrupt_check(qp_interrupt *interrupt)
{
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

int64_t qp_interrupt_deadline(const qp_interrupt *interrupt)
{
    return interrupt->deadline_ns != 0 ? interrupt->deadline_ns
                                       : qp_clock_ns() + interrupt->busy_ms * QP_NS_PER_MS;
}

bool qp_interrupt_backoff(qp_interrupt *interrupt, int64_t deadline_ns, int32_t min_ms,
                          int32_t more_ms)
{
    int64_t left_ns = deadline_ns - qp_clock_ns();

    if (left_ns <= 0 || qp_interrupt_check(interrupt)) {
        return false;
    }
    qp_sleep_jitter(min_ms, more_ms, left_ns);
    return true;
}
