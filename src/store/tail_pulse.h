/* The pulse of a store: beats when something was committed, by this process or by another. Our own
 * commits beat at once; others' are noticed by asking the file for its data version, often after a
 * change and ever more rarely when nothing happens. Where the system tells that the file is
 * written, that is the time to ask; the questions in between go on, because news may be lost. */
#ifndef QP_STORE_TAIL_PULSE_H
#define QP_STORE_TAIL_PULSE_H

#include <stdatomic.h>

#include <ent/ent.h>

#include "base/thread.h"
#include "ent/news.h"
#include "store/pool.h"

#define QP_PULSE_NS_MIN (1 * QP_NS_PER_MS) /* between two questions to the file */
#define QP_PULSE_NS_MAX (250 * QP_NS_PER_MS)

typedef struct qp_pulse {
    const qp_connector *connector; /* NULL: never set up */
    qp_mutex mutex;
    qp_cond beat;
    atomic_int listeners; /* nobody: a commit costs one look at this */
    uint64_t beats;
    ent_db *db;     /* the connection that asks; opened by the first wait */
    qp_news news;   /* of the file; opened with the connection */
    bool asking;    /* one of the waiting threads asks, or listens to the news */
    bool listening; /* it listens: a beat must wake it */
    bool told;      /* there was news since the last question */
    int64_t version;
    int64_t asked_ns; /* when the last question was asked */
    int64_t interval_ns;
    int64_t next_ns; /* when to ask again */
} qp_pulse;

QUIPU_MUST_USE quipu_status qp_pulse_init(qp_pulse *pulse, const qp_connector *connector,
                                          quipu_error *reterr);
void qp_pulse_done(qp_pulse *pulse);

/* From the first to the second call every commit beats. Gives the number of beats so far: look at
 * the store after it, and nothing is missed. */
uint64_t qp_pulse_listen(qp_pulse *pulse);
void qp_pulse_leave(qp_pulse *pulse);

uint64_t qp_pulse_beats(qp_pulse *pulse);

/* After a commit of this process. */
void qp_pulse_beat(qp_pulse *pulse);

/* Wait for a beat after `seen`, or until `wake_ns`. A failure of the asking connection is passed
 * on; the next wait tries again. */
QUIPU_MUST_USE quipu_status qp_pulse_wait(qp_pulse *pulse, uint64_t seen, int64_t wake_ns,
                                          quipu_error *reterr);

#endif
