/* Deadline, cancellation and naps of an engine's connection. */
#include "ent/watch.h"

#include "base/thread.h"

void qp_watch_set(qp_watch *watch, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    watch->deadline_ns = deadline_ns;
    watch->stop = stop;
    watch->stop_ctx = ctx;
    watch->stopped = QUIPU_OK;
}

bool qp_watch_stops(qp_watch *watch)
{
    if (watch->stop != NULL && watch->stop(watch->stop_ctx)) {
        watch->stopped = QUIPU_CANCELLED;
        return true;
    }
    if (watch->deadline_ns != 0 && qp_clock_ns() >= watch->deadline_ns) {
        watch->stopped = QUIPU_BUSY;
        return true;
    }
    return false;
}

int64_t qp_watch_patience(const qp_watch *watch)
{
    return watch->deadline_ns != 0 ? watch->deadline_ns
                                   : qp_clock_ns() + watch->busy_ms * QP_NS_PER_MS;
}

bool qp_watch_nap(qp_watch *watch, int64_t deadline_ns, int32_t min_ms, int32_t more_ms)
{
    int64_t left_ns = deadline_ns - qp_clock_ns();

    if (left_ns <= 0 || qp_watch_stops(watch)) {
        return false;
    }
    qp_nap(min_ms, more_ms, left_ns);
    return true;
}
