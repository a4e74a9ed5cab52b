/* How long an engine's calls may take and who may stop them: every connection has one. */
#ifndef QP_ENT_WATCH_H
#define QP_ENT_WATCH_H

#include <ent/ent.h>

typedef struct qp_watch {
    int32_t busy_ms;     /* patience of a call that has no deadline */
    int64_t deadline_ns; /* of the calls under way (ent_watch), or 0 */
    ent_stop_fn stop;    /* or NULL */
    void *stop_ctx;
    quipu_status stopped; /* why the statement under way was stopped, or OK */
} qp_watch;

/* See ent_watch(). */
void qp_watch_set(qp_watch *watch, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

/* Whether the statement or the wait under way ends; the reason is left in `stopped`. */
bool qp_watch_stops(qp_watch *watch);

/* When a wait that begins now must end. */
int64_t qp_watch_patience(const qp_watch *watch);

/* Sleep for `min_ms` and up to `more_ms` - 1 more, differently long each time; false when the
 * deadline of this wait has passed or the watch says stop. */
bool qp_watch_nap(qp_watch *watch, int64_t deadline_ns, int32_t min_ms, int32_t more_ms);

#endif
