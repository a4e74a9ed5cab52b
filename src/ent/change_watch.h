/* News of what others commit, told by the system and not asked for. News come early or twice, and
 * may not come at all: whoever listens still asks for the data version, only less often. What an
 * engine offers is a table of its own. */
#ifndef QP_ENT_CHANGE_WATCH_H
#define QP_ENT_CHANGE_WATCH_H

#include <ent/ent.h>

typedef struct qp_change_watch_source {
    uint32_t version; /* 1; functions are only ever appended */
    /* NULL when there is none: no file, no support by the system, no memory. Lives on its own,
     * also when the connection is closed. */
    void *(*open)(void *conn);
    bool (*wait)(void *self, int64_t until_ns);
    void (*wake)(void *self);
    void (*close)(void *self);
} qp_change_watch_source;

/* All zero: no news. */
typedef struct qp_change_watch {
    const qp_change_watch_source *source;
    void *self;
} qp_change_watch;

/* Begin to listen at the connection's file; false: there will be no news. */
bool qp_change_watch_open(ent_db *db, qp_change_watch *ret_watch);

/* Wait until something may have changed (true), until woken or until qp_clock_ns() reaches
 * `until_ns` (false). One thread at a time. The change may not be visible yet: a log is written
 * before the commit counts. */
bool qp_change_watch_wait(const qp_change_watch *watch, int64_t until_ns);

/* End a wait, from any thread; the next one when none is under way. */
void qp_change_watch_wake(const qp_change_watch *watch);

void qp_change_watch_close(qp_change_watch *watch);

#endif
