/* How long an engine's calls may take and who may stop them: every connection has one. */
#ifndef QP_ENT_INTERRUPT_H
#define QP_ENT_INTERRUPT_H

#include <ent/ent.h>

typedef struct qp_interrupt {
    int32_t busy_ms;     /* patience of a call that has no deadline */
    int64_t deadline_ns; /* of the calls under way (ent_watch), or 0 */
    ent_stop_fn stop;    /* or NULL */
    void *stop_ctx;
    quipu_status stopped; /* why the statement under way was stopped, or OK */
} qp_interrupt;

/* See ent_watch(). */
void qp_interrupt_set(qp_interrupt *interrupt, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

/* Whether the statement or the wait under way ends; the reason is left in `stopped`. */
bool qp_interrupt_check(qp_interrupt *interrupt);

/* When a wait that begins now must end. */
int64_t qp_interrupt_deadline(const qp_interrupt *interrupt);

/* Sleep for `min_ms` and up to `more_ms` - 1 more, differently long each time; false when the
 * deadline of this wait has passed or the watch says stop. */
bool qp_interrupt_backoff(qp_interrupt *interrupt, int64_t deadline_ns, int32_t min_ms,
                          int32_t more_ms);

#endif
