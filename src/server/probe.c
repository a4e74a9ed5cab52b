/* Probes: what /healthz and /metrics ask the store. Anybody may ask for the health, and a monitor
 * asks for figures while the store is in trouble, so that neither may take the workers, or wait for
 * them: a worker that is free is asked at most once a second for each probe, and every other
 * request is answered by the loop with what was found last. Only a result that is too old to say
 * that the store is healthy makes a request wait for a worker like any other.
 *
 *   idle ──qp_probe_begin()──▶ running (a worker: qp_probe_run()) ──qp_probe_end()──▶ idle
 *
 * Owns: both probes of a server. Called by: conn.c; begin and end on the loop's thread. Locks:
 * none; while a probe runs its worker alone touches `found` and `figures_found`. Holds after
 * qp_probe_end(): the probe is idle, also when its client left before a worker came to it. */
#include "server/server.h"

#include <assert.h>

#include <quipu/history.h>
#include <quipu/maintain.h>

#define PROBE_FRESH_NS QP_NS_PER_S        /* a result counts for so long... */
#define PROBE_STALE_NS (10 * QP_NS_PER_S) /* ...and while no worker is free for so long */
#define PROBE_HEALTH_MODEL QUIPU_FACTOR_PROBE "healthz"

/* The probe behind a route. */
static qp_probe *probe_of(const qp_call *call)
{
    assert(call->route->kind == QP_ROUTE_PROBE);
    return call->route->handler == qp_route_health ? &call->server->health : &call->server->figures;
}

/* Marks the probe as running before the job is queued: two requests of the same turn of the loop
 * must not both become workers' work. */
bool qp_probe_begin(qp_call *call)
{
    qp_server *server = call->server;
    qp_probe *probe = probe_of(call);
    const int64_t now = qp_clock_ns();
    const int64_t age_ns = probe->has_ended ? now - probe->ended_ns : INT64_MAX;

    if (probe->is_running || age_ns <= PROBE_FRESH_NS) {
        return false;
    }
    if (!qp_pool_is_free(&server->pool) &&
        (probe == &server->figures || age_ns <= PROBE_STALE_NS)) {
        return false;
    }
    probe->is_running = true;
    probe->begun_ns = now;
    probe->found = QUIPU_CANCELLED; /* unless a worker comes to it */
    return true;
}

/* One durable write that no list, search, recall or export shows: a row of its own among the
 * factors of models, always the same one. */
static quipu_status probe_write(quipu_store *store)
{
    quipu_call_options limits = QUIPU_CALL_OPTIONS_INIT;
    quipu_model_report report = QUIPU_MODEL_REPORT_INIT;

    limits.deadline_ms = QP_PROBE_DEADLINE_MS;
    report.estimated = report.reported = QUIPU_FACTOR_TOKENS_MIN;
    return quipu_model_factor_learn(store, QUIPU_STR(PROBE_HEALTH_MODEL), &report, &limits, NULL,
                                    NULL);
}

/* Writes to `figures_found` only; the loop copies it when the probe has ended, so that a request is
 * never answered from a struct that a worker is filling in. */
static quipu_status probe_measure(quipu_store *store, quipu_stats *ret_figures)
{
    quipu_call_options limits = QUIPU_CALL_OPTIONS_INIT;
    quipu_stats_options options = QUIPU_STATS_OPTIONS_INIT;
    quipu_stats figures = QUIPU_STATS_INIT;
    quipu_status status;

    limits.deadline_ms = QP_PROBE_DEADLINE_MS;
    options.flags = QUIPU_STATS_QUICK;
    status = quipu_store_stats(store, &options, &limits, &figures, NULL);
    *ret_figures = figures;
    return status;
}

/* Whatever happens, `found` says how it ended; the loop reads it behind the pool's mutex. */
void qp_probe_run(qp_call *call)
{
    qp_server *server = call->server;
    qp_probe *probe = probe_of(call);

    assert(probe->is_running);
    probe->found = probe == &server->health ? probe_write(call->store)
                                            : probe_measure(call->store, &server->figures_found);
}

/* A probe that was cancelled, because its client left before a worker came to it, keeps the earlier
 * result, because it says nothing about the store. */
void qp_probe_end(qp_call *call)
{
    qp_server *server = call->server;
    qp_probe *probe = probe_of(call);

    assert(probe->is_running);
    probe->is_running = false;
    if (probe->found == QUIPU_CANCELLED) {
        return;
    }
    probe->has_ended = true;
    probe->ended_ns = qp_clock_ns();
    probe->status = probe->found;
    qp_log_fault(&server->log, call->route->path, probe->status);
    if (probe == &server->figures && probe->status == QUIPU_OK) {
        server->figures_last = server->figures_found;
    }
}

/* A worker that does not come back is a failure, too, as soon as it exceeds its deadline. */
quipu_status qp_probe_status(const qp_probe *probe)
{
    const int64_t patience_ns = QP_NS_PER_MS * 2 * QP_PROBE_DEADLINE_MS;

    if (probe->is_running && qp_clock_ns() - probe->begun_ns > patience_ns) {
        return QUIPU_BUSY;
    }
    return probe->status;
}
