/* The pulse of a store: beats when something was committed, by this process or by another. Our own
 * commits beat at once; others' are noticed by asking the file for its data version, often after a
 * change and ever more rarely when nothing happens. Where the system tells that the file is
 * written, that is the time to ask; the questions in between go on, because news may be lost. */
#ifndef QP_STORE_CHANGE_SIGNAL_H
#define QP_STORE_CHANGE_SIGNAL_H

#include <stdatomic.h>

#include <ent/ent.h>

#include "base/thread.h"
#include "ent/change_watch.h"
#include "store/pool.h"

#define QP_CHANGE_SIGNAL_NS_MIN (1 * QP_NS_PER_MS) /* between two questions to the file */
#define QP_CHANGE_SIGNAL_NS_MAX (250 * QP_NS_PER_MS)

typedef struct qp_change_signal {
    const qp_connector *connector; /* NULL: never set up */
    qp_mutex mutex;
    qp_cond beat;
    atomic_int listeners; /* nobody: a commit costs one look at this */
    uint64_t beats;
    ent_db *db;           /* the connection that asks; opened by the first wait */
    qp_change_watch news; /* of the file; opened with the connection */
    bool asking;          /* one of the waiting threads asks, or listens to the news */
    bool listening;       /* it listens: a beat must wake it */
    bool told;            /* there was news since the last question */
    int64_t version;
    int64_t asked_ns; /* when the last question was asked */
    int64_t interval_ns;
    int64_t next_ns; /* when to ask again */
} qp_change_signal;

QUIPU_MUST_USE quipu_status qp_change_signal_init(qp_change_signal *pulse,
                                                  const qp_connector *connector,
                                                  quipu_error *reterr);
void qp_change_signal_done(qp_change_signal *pulse);

/* From the first to the second call every commit beats. Gives the number of beats so far: look at
 * the store after it, and nothing is missed. */
uint64_t qp_change_signal_listen(qp_change_signal *pulse);
void qp_change_signal_leave(qp_change_signal *pulse);

uint64_t qp_change_signal_count(qp_change_signal *pulse);

/* After a commit of this process. */
void qp_change_signal_notify(qp_change_signal *pulse);

/* Wait for a beat after `seen`, or until `wake_ns`. A failure of the asking connection is passed
 * on; the next wait tries again. */
QUIPU_MUST_USE quipu_status qp_change_signal_wait(qp_change_signal *pulse, uint64_t seen,
                                                  int64_t wake_ns, quipu_error *reterr);

#endif
