/* Deadline and cancellation of an engine's calls. Every connection has one qp_interrupt; the engine
 * checks it wherever it waits or runs for long. */
#ifndef QP_ENT_INTERRUPT_H
#define QP_ENT_INTERRUPT_H

#include <ent/ent.h>

typedef struct qp_interrupt {
    int32_t busy_ms;     /* how long a call without a deadline waits for locks */
    int64_t deadline_ns; /* of the calls under way (ent_watch()), or 0 */
    ent_stop_fn stop;    /* the caller's cancel function, or NULL */
    void *stop_ctx;
    quipu_status stopped; /* why the statement under way ends: QUIPU_CANCELLED, QUIPU_BUSY, or OK */
} qp_interrupt;

/* See ent_watch(). */
void qp_interrupt_set(qp_interrupt *interrupt, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

/* Whether the statement or the wait under way has to end; the reason is in `stopped` then. */
bool qp_interrupt_check(qp_interrupt *interrupt);

/* When a wait for a lock that begins now has to end. */
int64_t qp_interrupt_deadline(const qp_interrupt *interrupt);

/* Sleeps for `min_ms` and a random part of `more_ms`; false, without sleeping, when the deadline of
 * this wait has passed or the caller has cancelled. */
bool qp_interrupt_backoff(qp_interrupt *interrupt, int64_t deadline_ns, int32_t min_ms,
                          int32_t more_ms);

#endif
