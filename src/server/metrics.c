/* Counters, in the text format of Prometheus: requests by route and class, a histogram of
 * latencies, gauges of what is open, and figures of the store.
 *
 * Owns: nothing; the counters are the server's, and the store's figures those of its last probe.
 * Called by: conn.c before every answer, and the route /metrics. Locks: none; answers are
 * counted by workers, too, all else by the loop's thread alone, which answers /metrics. */
#include <assert.h>
#include <inttypes.h>

#include "server/server.h"

/* Upper bounds of the histogram's buckets, in microseconds.
 * From 100 microseconds, a session in the page cache, to 10 s, beyond which clients have left.
 * Changing a bound breaks the dashboards that compare with earlier figures. */
static const int64_t metrics_bounds[QP_SERVER_BUCKETS] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000, 100000, 500000, 2500000, 10000000,
};

/* Three classes instead of each status: series = routes * classes, which a monitor can hold. 3xx
 * counts as success: it is the page that a browser has already. */
static const char *const metrics_classes[QP_SERVER_CLASSES] = {"2xx", "4xx", "5xx"};

/* Routes are counted by their place in the table and never by the path of a request: a client
 * cannot make the number of series grow. The latency is that from the complete request to its
 * answer, without the time that a client takes to send or to read. */
void qp_metrics_count(qp_metrics *metrics, const qp_call *call, int64_t begun_ns)
{
    int64_t us = (qp_clock_ns() - begun_ns) / 1000;
    size_t bucket = 0;
    size_t class = call->answer.status < 400 ? 0 : call->answer.status < 500 ? 1 : 2;

    if (call->route == NULL) {
        return; /* counted as refused */
    }
    assert(call->route - qp_routes < QP_SERVER_ROUTES_MAX);
    (void)atomic_fetch_add(&metrics->requests[call->route - qp_routes][class], 1);
    /* The bucket behind the last bound is that of all longer ones. */
    while (bucket < QP_SERVER_BUCKETS && us > metrics_bounds[bucket]) {
        bucket++;
    }
    (void)atomic_fetch_add(&metrics->latency[bucket], 1);
    (void)atomic_fetch_add(&metrics->latency_us, us);
}

/* One figure with its HELP and TYPE lines, as the format wants them. */
static void metrics_put(qp_buf *text, const char *name, const char *type, const char *help,
                        int64_t value)
{
    qp_buf_printf(text, "# HELP quipu_%s %s\n# TYPE quipu_%s %s\nquipu_%s %" PRId64 "\n", name,
                  help, name, type, name, value);
}

/* Series that are 0 are left out: most routes of most servers are never asked. */
static void metrics_put_requests(qp_buf *text, const qp_metrics *metrics)
{
    qp_buf_puts(text, "# HELP quipu_requests_total Answered requests.\n"
                      "# TYPE quipu_requests_total counter\n");
    for (size_t i = 0; qp_routes[i].path != NULL; i++) {
        for (size_t class = 0; class < QP_SERVER_CLASSES; class ++) {
            if (metrics->requests[i][class] > 0) {
                qp_buf_printf(
                    text,
                    "quipu_requests_total{method=\"%s\",route=\"%s\",code=\"%s\"} %" PRId64 "\n",
                    qp_http_method_name(qp_routes[i].method), qp_routes[i].path,
                    metrics_classes[class], metrics->requests[i][class]);
            }
        }
    }
}

/* Buckets of the format are cumulative, ours are not: each line adds those before it. */
static void metrics_put_latency(qp_buf *text, const qp_metrics *metrics)
{
    int64_t below = 0;
    int64_t all;

    qp_buf_puts(text, "# HELP quipu_request_seconds From a complete request to its answer.\n"
                      "# TYPE quipu_request_seconds histogram\n");
    for (size_t i = 0; i < QP_SERVER_BUCKETS; i++) {
        below += metrics->latency[i];
        qp_buf_printf(text, "quipu_request_seconds_bucket{le=\"%g\"} %" PRId64 "\n",
                      (double)metrics_bounds[i] / 1e6, below);
    }
    all = below + metrics->latency[QP_SERVER_BUCKETS]; /* so that the buckets never exceed it */
    qp_buf_printf(text,
                  "quipu_request_seconds_bucket{le=\"+Inf\"} %" PRId64
                  "\nquipu_request_seconds_sum %.6f\nquipu_request_seconds_count %" PRId64 "\n",
                  all, (double)metrics->latency_us / 1e6, all);
}

/* Sizes of commits: how many calls shared a transaction and its sync.
 * The count of a bucket is that of commits with at most so many calls; sum / count is what group
 * commit gains. */
static void metrics_put_commits(qp_buf *text, const quipu_stats *figures)
{
    int64_t below = 0;

    qp_buf_puts(text, "# HELP quipu_commit_writes Calls in a commit.\n"
                      "# TYPE quipu_commit_writes histogram\n");
    for (size_t i = 0; i < QUIPU_COMMIT_SIZES; i++) {
        below += figures->commit_sizes[i];
        qp_buf_printf(text, "quipu_commit_writes_bucket{le=\"%d\"} %" PRId64 "\n", 1 << i, below);
    }
    qp_buf_printf(text,
                  "quipu_commit_writes_bucket{le=\"+Inf\"} %" PRId64
                  "\nquipu_commit_writes_sum %" PRId64 "\nquipu_commit_writes_count %" PRId64 "\n",
                  below, figures->writes, below);
}

/* Figures of a store that does not answer are left out: an old figure would mislead. */
static void metrics_put_store(qp_buf *text, const qp_server *server)
{
    const quipu_stats *figures = &server->figures_last;
    const bool is_up = server->figures.has_ended && qp_probe_status(&server->figures) == QUIPU_OK;

    metrics_put(text, "store_up", "gauge", "Whether the store answered when it was asked last.",
                is_up);
    if (!is_up) {
        return;
    }
    metrics_put_commits(text, figures);
    metrics_put(text, "syncs_total", "counter", "Syncs of database files; not those of a server.",
                figures->syncs);
    metrics_put(text, "store_bytes", "gauge", "Size of the store.", figures->file_bytes);
    metrics_put(text, "store_log_bytes", "gauge", "Size of its write-ahead log.",
                figures->log_bytes);
    metrics_put(text, "store_free_bytes", "gauge", "Unused bytes inside the store.",
                figures->free_bytes);
    metrics_put(text, "store_readers", "gauge", "Open reading connections.", figures->readers);
    metrics_put(text, "memory_jobs_pending", "gauge", "Sessions that workers of memory have to do.",
                figures->jobs_pending);
    metrics_put(text, "memory_jobs_leased", "gauge", "Those of them that a worker is at.",
                figures->jobs_leased);
    metrics_put(text, "memory_jobs_failed", "gauge", "Those of them whose last try failed.",
                figures->jobs_failed);
}

/* On the loop, so that it is answered while all workers wait for a store that hangs. The store's
 * figures are those of the last probe, and are left out until a probe has succeeded.
 * */
quipu_status qp_route_metrics(qp_call *call, quipu_error *reterr)
{
    qp_server *server = call->server;
    const qp_metrics *metrics = &server->metrics;
    qp_buf *text = &call->answer.body;

    (void)reterr;
    metrics_put_requests(text, metrics);
    metrics_put_latency(text, metrics);
    metrics_put(text, "refused_total", "counter", "Requests that are no valid HTTP, or late.",
                metrics->refused);
    metrics_put(text, "unauthorized_total", "counter", "Requests without the right to ask.",
                metrics->unauthorized);
    metrics_put(text, "queue_full_total", "counter", "Requests answered 503.", metrics->queue_full);
    metrics_put(text, "requests_left_total", "counter", "Clients that left before their answer.",
                metrics->left);
    metrics_put(text, "queue_length", "gauge", "Requests that wait for a worker.",
                (int64_t)qp_pool_waiting(&server->pool));
    metrics_put(text, "connections_total", "counter", "Accepted connections.", metrics->accepted);
    metrics_put(text, "connections_turned_away_total", "counter", "Connections beyond the limit.",
                metrics->turned_away);
    metrics_put(text, "connections", "gauge", "Open connections.", (int64_t)server->conn_count);
    metrics_put(text, "tails", "gauge", "Open streams.", (int64_t)server->stream_count);
    metrics_put_store(text, server);
    call->answer.type = "text/plain; version=0.0.4; charset=utf-8";
    call->answer.status = 200;
    return qp_buf_status(text);
}
