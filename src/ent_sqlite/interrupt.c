/* Deadline and cancellation inside SQLite: asked by the busy handler between two naps, and by the
 * progress handler every so many steps of the virtual machine. */
#include "ent_sqlite/open.h"

#define INTERRUPT_STEPS 1000 /* about 50 microseconds of work */

static int interrupt_progress(void *ctx)
{
    qp_sqlite *self = ctx;

    return qp_interrupt_check(&self->interrupt) ? 1 : 0;
}

void qp_sqlite_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    qp_sqlite *self = conn;

    qp_interrupt_set(&self->interrupt, deadline_ns, stop, ctx);
    if (!self->has_progress_handler && (deadline_ns != 0 || stop != NULL)) {
        /* Stays: with nothing to watch it costs a call every so many steps. */
        sqlite3_progress_handler(self->db, INTERRUPT_STEPS, interrupt_progress, self);
        self->has_progress_handler = true;
    }
}
