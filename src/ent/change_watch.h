/* The change watch: wakes a thread when another process may have committed, so that it need not
 * poll the data version. It is a hint: a wake-up may come early, twice, or not at all, so that a
 * listener still reads the data version, only less often. Each engine has a table of its own for
 * it. */
#ifndef QP_ENT_CHANGE_WATCH_H
#define QP_ENT_CHANGE_WATCH_H

#include <ent/ent.h>

typedef struct qp_change_watch_source {
    uint32_t version; /* 1; functions are only ever appended */
    /* NULL: no file, no support by the system, or no memory. The watch outlives the connection. */
    void *(*open)(void *conn);
    bool (*wait)(void *self, int64_t until_ns);
    void (*wake)(void *self);
    void (*close)(void *self);
} qp_change_watch_source;

/* All zero: no watch. */
typedef struct qp_change_watch {
    const qp_change_watch_source *source;
    void *self;
} qp_change_watch;

/* Begins to watch the connection's database; false: the caller has to poll. */
bool qp_change_watch_open(ent_db *db, qp_change_watch *ret_watch);

/* Waits until something may have changed (true), until woken or until qp_clock_ns() reaches
 * `until_ns` (false). One thread at a time. The change may not be visible yet: the log is written
 * before its commit takes effect. */
bool qp_change_watch_wait(const qp_change_watch *watch, int64_t until_ns);

/* Ends a wait, from any thread; the next one when none is under way. */
void qp_change_watch_wake(const qp_change_watch *watch);

void qp_change_watch_close(qp_change_watch *watch);

#endif
