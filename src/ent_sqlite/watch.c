/* Deadline and cancellation inside SQLite: asked by the busy handler between two naps, and by the
 * progress handler every so many steps of the virtual machine. */
#include "ent_sqlite/open.h"

#define WATCH_STEPS 1000 /* about 50 microseconds of work */

static int watch_progress(void *ctx)
{
    qp_sqlite *self = ctx;

    return qp_watch_stops(&self->watch) ? 1 : 0;
}

void qp_sqlite_watch(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    qp_sqlite *self = conn;

    qp_watch_set(&self->watch, deadline_ns, stop, ctx);
    if (!self->watching && (deadline_ns != 0 || stop != NULL)) {
        /* Stays: with nothing to watch it costs a call every so many steps. */
        sqlite3_progress_handler(self->db, WATCH_STEPS, watch_progress, self);
        self->watching = true;
    }
}
