/* The change signal of a store.
 *
 * Owns the polling connection and the file watch. Called by commits (notify) and by tails and feeds
 * (listen, wait). The mutex guards all state; the one thread that polls or watches for everybody
 * releases it meanwhile, so that commits are never delayed by a poll. */
#include "store/change_signal.h"

#include <assert.h>

#include "base/attr.h"
#include "base/error.h"

/* The polling connection is opened by the first wait: a store that nobody follows has none. */
quipu_status qp_change_signal_init(qp_change_signal *signal, const qp_connector *connector,
                                   quipu_error *reterr)
{
    if (qp_mutex_init(&signal->mutex) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_cond_init(&signal->changed) != QUIPU_OK) {
        qp_mutex_done(&signal->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    assert(signal->db == NULL && !signal->polling);
    atomic_init(&signal->listeners, 0);
    signal->connector = connector;
    signal->interval_ns = QP_CHANGE_SIGNAL_NS_MIN;
    return QUIPU_OK;
}

/* No thread is inside of the store any more. */
void qp_change_signal_done(qp_change_signal *signal)
{
    if (signal->connector == NULL) {
        return;
    }
    assert(!signal->polling && !signal->watching);
    qp_change_watch_close(&signal->watch);
    ent_close(signal->db);
    qp_cond_done(&signal->changed);
    qp_mutex_done(&signal->mutex);
    signal->connector = NULL;
}

/* Read before a reader looks at the store; what changes afterwards raises it. */
uint64_t qp_change_signal_count(qp_change_signal *signal)
{
    uint64_t changes;

    qp_mutex_lock(&signal->mutex);
    changes = signal->changes;
    qp_mutex_unlock(&signal->mutex);
    return changes;
}

/* The listener is counted before the count of changes is read: a commit that does not see the
 * listener came before, and what it stored is visible to the listener's first read. */
uint64_t qp_change_signal_listen(qp_change_signal *signal)
{
    const int before QP_UNUSED = atomic_fetch_add(&signal->listeners, 1);

    assert(before >= 0);
    return qp_change_signal_count(signal);
}

/* The count of listeners lets a commit without readers skip the signal. */
void qp_change_signal_leave(qp_change_signal *signal)
{
    const int before QP_UNUSED = atomic_fetch_sub(&signal->listeners, 1);

    assert(before > 0); /* every leave has its listen */
}

/* Wakes the waiting threads, and also the one that sleeps in the file watch, which no condition
 * reaches. */
void qp_change_signal_notify(qp_change_signal *signal)
{
    qp_mutex_lock(&signal->mutex);
    assert(!signal->watching || (signal->polling && signal->watch.source != NULL));
    signal->changes++;
    qp_cond_broadcast(&signal->changed);
    if (signal->watching) {
        qp_change_watch_wake(&signal->watch);
    }
    qp_mutex_unlock(&signal->mutex);
}

/* Reads the data version, without the mutex; `polling` keeps other threads off the connection. */
static quipu_status change_signal_version(qp_change_signal *signal, int64_t *ret_version,
                                          quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(signal->polling);
    if (signal->db == NULL) {
        status = signal->connector->open(signal->connector->ctx, true, &signal->db, reterr);
        if (status == QUIPU_OK) {
            (void)qp_change_watch_open(signal->db, &signal->watch);
        }
    }
    return status == QUIPU_OK ? ent_data_version(signal->db, ret_version, reterr) : status;
}

/* Polls once, for all waiting threads. The mutex is held, and released meanwhile. A failed poll
 * counts as one without a change: the next one comes later. */
static quipu_status change_signal_poll(qp_change_signal *signal, quipu_error *reterr)
{
    int64_t version = 0;
    quipu_status status;

    assert(!signal->polling && !signal->watching);
    signal->polling = true;
    signal->fired = false;
    /* change_signal_watch() counts from here: its reports do not make polls more frequent than the
     * shortest interval. */
    signal->polled_ns = qp_clock_ns();
    qp_mutex_unlock(&signal->mutex);
    status = change_signal_version(signal, &version, reterr);
    qp_mutex_lock(&signal->mutex);
    signal->polling = false;
    /* Also true for commits of this process, which have notified already: one look more than
     * needed. */
    if (status == QUIPU_OK && version != signal->version) {
        signal->version = version;
        signal->changes++;
        signal->interval_ns = QP_CHANGE_SIGNAL_NS_MIN;
        qp_cond_broadcast(&signal->changed);
    } else {
        signal->interval_ns *= 2;
        if (signal->interval_ns > QP_CHANGE_SIGNAL_NS_MAX) {
            signal->interval_ns = QP_CHANGE_SIGNAL_NS_MAX;
        }
    }
    assert(signal->interval_ns >= QP_CHANGE_SIGNAL_NS_MIN &&
           signal->interval_ns <= QP_CHANGE_SIGNAL_NS_MAX);
    signal->next_poll_ns = qp_clock_ns() + signal->interval_ns;
    return status;
}

/* Waits for the file watch. The mutex is held, and released meanwhile. The watch fires when the log
 * is written, which is before the commit counts, and an fsync may lie between: so a report makes
 * the polls frequent, and no more frequent than that. */
static void change_signal_watch(qp_change_signal *signal, int64_t until_ns)
{
    bool fired;

    assert(!signal->polling && !signal->watching && signal->watch.source != NULL);
    signal->polling = true;
    signal->watching = true;
    qp_mutex_unlock(&signal->mutex);
    fired = qp_change_watch_wait(&signal->watch, until_ns);
    qp_mutex_lock(&signal->mutex);
    signal->polling = false;
    signal->watching = false;
    if (fired) {
        signal->fired = true;
        signal->interval_ns = QP_CHANGE_SIGNAL_NS_MIN;
        if (signal->next_poll_ns > signal->polled_ns + QP_CHANGE_SIGNAL_NS_MIN) {
            signal->next_poll_ns = signal->polled_ns + QP_CHANGE_SIGNAL_NS_MIN;
        }
    }
}

/* Each waiting thread goes round: poll when it is time and no other thread does, otherwise sleep in
 * the file watch, otherwise on the condition. Only one thread polls or watches; when it leaves, it
 * wakes another one that takes over.
 *
 * Three threads that wait, A with the file watch, and what happens when it returns first:
 *
 *     A    sleeps in the watch ─────────── its time is over: signals the condition ─ returns
 *     B    sleeps on the condition ─────────────────────────── wakes: takes the watch over
 *     C    sleeps on the condition ─────────────────────────────────────────────────────▶ */
quipu_status qp_change_signal_wait(qp_change_signal *signal, uint64_t seen, int64_t wake_ns,
                                   quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool watched = false;

    assert(signal->connector != NULL);
    qp_mutex_lock(&signal->mutex);
    while (status == QUIPU_OK && signal->changes == seen) {
        int64_t now_ns = qp_clock_ns();
        int64_t until_ns = wake_ns;

        if (now_ns >= wake_ns) {
            break;
        }
        if (!signal->connector->single) { /* nobody else changes a store in memory */
            if (!signal->polling && now_ns >= signal->next_poll_ns) {
                status = change_signal_poll(signal, reterr);
                continue;
            }
            /* Another thread polls: its result wakes this one; the time is for the case that it
             * leaves. */
            int64_t next_ns = signal->polling ? now_ns + signal->interval_ns : signal->next_poll_ns;
            until_ns = next_ns < wake_ns ? next_ns : wake_ns;
            if (!signal->polling && !signal->fired && signal->watch.source != NULL) {
                change_signal_watch(signal, until_ns);
                watched = true;
                continue;
            }
        }
        if (until_ns == QP_NEVER) {
            qp_cond_wait(&signal->changed, &signal->mutex);
        } else {
            (void)qp_cond_wait_until(&signal->changed, &signal->mutex, until_ns);
        }
    }
    if (watched) {
        qp_cond_signal(&signal->changed); /* another thread may watch now */
    }
    qp_mutex_unlock(&signal->mutex);
    return status;
}
