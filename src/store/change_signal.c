/* The pulse of a store. One of the waiting threads asks the file for all of them; the mutex is not
 * held meanwhile. */
#include "store/change_signal.h"

#include "base/error.h"

quipu_status qp_change_signal_init(qp_change_signal *pulse, const qp_connector *connector,
                                   quipu_error *reterr)
{
    if (qp_mutex_init(&pulse->mutex) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_cond_init(&pulse->beat) != QUIPU_OK) {
        qp_mutex_done(&pulse->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    atomic_init(&pulse->listeners, 0);
    pulse->connector = connector;
    pulse->interval_ns = QP_CHANGE_SIGNAL_NS_MIN;
    return QUIPU_OK;
}

void qp_change_signal_done(qp_change_signal *pulse)
{
    if (pulse->connector == NULL) {
        return;
    }
    qp_change_watch_close(&pulse->news);
    ent_close(pulse->db);
    qp_cond_done(&pulse->beat);
    qp_mutex_done(&pulse->mutex);
    pulse->connector = NULL;
}

uint64_t qp_change_signal_count(qp_change_signal *pulse)
{
    uint64_t beats;

    qp_mutex_lock(&pulse->mutex);
    beats = pulse->beats;
    qp_mutex_unlock(&pulse->mutex);
    return beats;
}

uint64_t qp_change_signal_listen(qp_change_signal *pulse)
{
    (void)atomic_fetch_add(&pulse->listeners, 1);
    return qp_change_signal_count(pulse);
}

void qp_change_signal_leave(qp_change_signal *pulse)
{
    (void)atomic_fetch_sub(&pulse->listeners, 1);
}

void qp_change_signal_notify(qp_change_signal *pulse)
{
    qp_mutex_lock(&pulse->mutex);
    pulse->beats++;
    qp_cond_broadcast(&pulse->beat);
    if (pulse->listening) {
        qp_change_watch_wake(&pulse->news);
    }
    qp_mutex_unlock(&pulse->mutex);
}

/* Ask the file, without the mutex. */
static quipu_status change_signal_ask(qp_change_signal *pulse, int64_t *ret_version,
                                      quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (pulse->db == NULL) {
        status = pulse->connector->open(pulse->connector->ctx, true, &pulse->db, reterr);
        if (status == QUIPU_OK) {
            (void)qp_change_watch_open(pulse->db, &pulse->news);
        }
    }
    return status == QUIPU_OK ? ent_data_version(pulse->db, ret_version, reterr) : status;
}

/* It is time to ask; with the mutex held, which is given up meanwhile. */
static quipu_status change_signal_turn(qp_change_signal *pulse, quipu_error *reterr)
{
    int64_t version = 0;
    quipu_status status;

    pulse->asking = true;
    pulse->told = false;
    pulse->asked_ns = qp_clock_ns();
    qp_mutex_unlock(&pulse->mutex);
    status = change_signal_ask(pulse, &version, reterr);
    qp_mutex_lock(&pulse->mutex);
    pulse->asking = false;
    if (status == QUIPU_OK && version != pulse->version) {
        pulse->version = version;
        pulse->beats++;
        pulse->interval_ns = QP_CHANGE_SIGNAL_NS_MIN;
        qp_cond_broadcast(&pulse->beat);
    } else {
        pulse->interval_ns *= 2;
        if (pulse->interval_ns > QP_CHANGE_SIGNAL_NS_MAX) {
            pulse->interval_ns = QP_CHANGE_SIGNAL_NS_MAX;
        }
    }
    pulse->next_ns = qp_clock_ns() + pulse->interval_ns;
    return status;
}

/* Listen to the news until then; with the mutex held, which is given up meanwhile. A log is written
 * before its commit counts, and an fsync may lie between: so news makes the questions frequent, and
 * not more frequent than that. */
static void change_signal_hear(qp_change_signal *pulse, int64_t until_ns)
{
    bool told;

    pulse->asking = true;
    pulse->listening = true;
    qp_mutex_unlock(&pulse->mutex);
    told = qp_change_watch_wait(&pulse->news, until_ns);
    qp_mutex_lock(&pulse->mutex);
    pulse->asking = false;
    pulse->listening = false;
    if (told) {
        pulse->told = true;
        pulse->interval_ns = QP_CHANGE_SIGNAL_NS_MIN;
        if (pulse->next_ns > pulse->asked_ns + QP_CHANGE_SIGNAL_NS_MIN) {
            pulse->next_ns = pulse->asked_ns + QP_CHANGE_SIGNAL_NS_MIN;
        }
    }
}

quipu_status qp_change_signal_wait(qp_change_signal *pulse, uint64_t seen, int64_t wake_ns,
                                   quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool heard = false;

    qp_mutex_lock(&pulse->mutex);
    while (status == QUIPU_OK && pulse->beats == seen) {
        int64_t now_ns = qp_clock_ns();
        int64_t until_ns = wake_ns;

        if (now_ns >= wake_ns) {
            break;
        }
        if (!pulse->connector->single) { /* a store in memory is changed by nobody else */
            if (!pulse->asking && now_ns >= pulse->next_ns) {
                status = change_signal_turn(pulse, reterr);
                continue;
            }
            int64_t next_ns = pulse->asking ? now_ns + pulse->interval_ns : pulse->next_ns;
            until_ns = next_ns < wake_ns ? next_ns : wake_ns;
            if (!pulse->asking && !pulse->told && pulse->news.source != NULL) {
                change_signal_hear(pulse, until_ns);
                heard = true;
                continue;
            }
        }
        if (until_ns == QP_NEVER) {
            qp_cond_wait(&pulse->beat, &pulse->mutex);
        } else {
            (void)qp_cond_wait_until(&pulse->beat, &pulse->mutex, until_ns);
        }
    }
    if (heard) {
        qp_cond_signal(&pulse->beat); /* let another one listen */
    }
    qp_mutex_unlock(&pulse->mutex);
    return status;
}
