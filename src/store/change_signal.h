/* The change signal of a store: counts commits, of this process and of others, and wakes the tails
 * and feeds that wait for one. A commit of this process notifies at once. Commits of others are
 * found by polling the file's data version, often after a change and ever more rarely when nothing
 * happens. Where the system reports writes to the file (change watch), a report makes the next poll
 * come at once; the polls in between go on, because reports may be lost. */
#ifndef QP_STORE_CHANGE_SIGNAL_H
#define QP_STORE_CHANGE_SIGNAL_H

#include <stdatomic.h>

#include <ent/ent.h>

#include "base/thread.h"
#include "ent/change_watch.h"
#include "store/pool.h"

#define QP_CHANGE_SIGNAL_NS_MIN (1 * QP_NS_PER_MS) /* between two polls */
#define QP_CHANGE_SIGNAL_NS_MAX (250 * QP_NS_PER_MS)

/* The signal of one store. Two kinds of threads meet here: commits, which only count and wake, and
 * waiters, of which one at a time polls or watches (`polling`) without the mutex. */
typedef struct qp_change_signal {
    const qp_connector *connector; /* NULL: never set up */
    qp_mutex mutex;                /* guards what follows, but for the atomics */
    qp_cond changed;               /* `changes` moved, or another thread may poll */
    atomic_int listeners;          /* 0: a commit need not notify */
    atomic_bool is_waited_on;      /* quipu_change_wait() is one of them until the close */
    uint64_t changes;              /* commits noticed so far */
    ent_db *db;                    /* the connection that polls; opened by the first wait */
    qp_change_watch watch;         /* of the file; opened with the connection */
    bool polling;                  /* one of the waiting threads polls, or waits for the watch */
    bool watching;                 /* it waits for the watch: a notification must wake it */
    bool fired;                    /* the watch reported a write since the last poll */
    int64_t version;               /* data version at the last poll */
    int64_t polled_ns;             /* when that was */
    int64_t interval_ns;           /* between two polls: doubles up to the maximum */
    int64_t next_poll_ns;
} qp_change_signal;

/* All zero before. The connector outlives the signal. After a failure qp_change_signal_done() does
 * nothing. */
QUIPU_MUST_USE quipu_status qp_change_signal_init(qp_change_signal *signal,
                                                  const qp_connector *connector,
                                                  quipu_error *reterr);
/* Closes the connection and the watch. No thread is inside. */
void qp_change_signal_done(qp_change_signal *signal);

/* Between listen and leave every commit counts. Returns the count so far: a listener that reads the
 * store after this call misses nothing. */
uint64_t qp_change_signal_listen(qp_change_signal *signal);
void qp_change_signal_leave(qp_change_signal *signal);

/* Commits noticed so far. Taken before a read of the store, and passed to qp_change_signal_wait()
 * after it, it misses no commit. */
uint64_t qp_change_signal_count(qp_change_signal *signal);

/* A commit of this process. Needed only while somebody listens. */
void qp_change_signal_notify(qp_change_signal *signal);

/* Waits until the count is no longer `seen`, or until `wake_ns`. Fails when the polling connection
 * does; the next wait tries again. */
QUIPU_MUST_USE quipu_status qp_change_signal_wait(qp_change_signal *signal, uint64_t seen,
                                                  int64_t wake_ns, quipu_error *reterr);

#endif
