/* Deadline and cancellation inside SQLite: asked by the busy handler between two naps, and by the
 * progress handler every so many steps of the virtual machine. */
#include "ent_sqlite/open.h"

#include "base/thread.h"

#define WATCH_STEPS 1000 /* about 50 microseconds of work */

bool qp_sqlite_stops(qp_sqlite *conn)
{
    if (conn->stop != NULL && conn->stop(conn->stop_ctx)) {
        conn->stopped = QUIPU_CANCELLED;
        return true;
    }
    if (conn->deadline_ns != 0 && qp_clock_ns() >= conn->deadline_ns) {
        conn->stopped = QUIPU_BUSY;
        return true;
    }
    return false;
}

int64_t qp_sqlite_patience(const qp_sqlite *conn)
{
    return conn->deadline_ns != 0 ? conn->deadline_ns
                                  : qp_clock_ns() + conn->busy_ms * QP_NS_PER_MS;
}

static int watch_progress(void *ctx)
{
    return qp_sqlite_stops(ctx) ? 1 : 0;
}

void qp_sqlite_watch(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    qp_sqlite *self = conn;

    self->deadline_ns = deadline_ns;
    self->stop = stop;
    self->stop_ctx = ctx;
    self->stopped = QUIPU_OK;
    if (!self->watching && (deadline_ns != 0 || stop != NULL)) {
        /* Stays: with nothing to watch it costs a call every so many steps. */
        sqlite3_progress_handler(self->db, WATCH_STEPS, watch_progress, self);
        self->watching = true;
    }
}
