/* Deadline and cancellation inside of SQLite.
 *
 * Owns: the progress handler.
 * Called by: ent_watch() through qp_engine. Checked in two places: by the busy handler between two
 * sleeps (open.c), and by the progress handler every INTERRUPT_STEPS instructions of the virtual
 * machine. Either ends the statement with SQLITE_BUSY or SQLITE_INTERRUPT; interrupt.stopped says
 * which status that is (error.c). */
#include "ent_sqlite/open.h"

#include <assert.h>

#define INTERRUPT_STEPS 1000 /* about 50 microseconds of work */

/* Non-zero interrupts the statement. */
static int interrupt_progress(void *ctx)
{
    qp_sqlite *self = ctx;

    assert(self != NULL);
    return qp_interrupt_check(&self->interrupt) ? 1 : 0;
}

/* The handler stays once it is set: without a deadline it costs one call every 1000 instructions.
 */
void qp_sqlite_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    qp_sqlite *self = conn;

    assert(self->db != NULL);
    assert(deadline_ns >= 0);
    qp_interrupt_set(&self->interrupt, deadline_ns, stop, ctx);
    if (!self->has_progress_handler && (deadline_ns != 0 || stop != NULL)) {
        sqlite3_progress_handler(self->db, INTERRUPT_STEPS, interrupt_progress, self);
        self->has_progress_handler = true;
    }
}
