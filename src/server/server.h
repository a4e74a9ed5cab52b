/* A running server: what its files share. One thread runs the loop and owns everything here but the
 * pool's lists and what a probe has found; workers see the store, the service and the tables of
 * fields.
 *
 *   accept ─▶ connection ─▶ reader ─▶ route ─▶ token ─▶ queue ─▶ worker ─▶ store
 *                 ▲                     └─ refused at once          │
 *                 └────────────────── answer ◀──── wake ◀───────────┘
 */
#ifndef QP_SERVER_SERVER_H
#define QP_SERVER_SERVER_H

#include <stdatomic.h>

#include <quipu/maintain.h>

#include "base/log.h"
#include "base/thread.h"
#include "server/pool.h"
#include "server/route.h"
#include "server/session_json.h"
#include "server/token.h"

#define QP_SERVER_ADDRESS_MAX 160 /* bytes of an address, with its NUL */
#define QP_SERVER_HOST_MAX 256    /* bytes of the public host, with its NUL */
#define QP_SERVER_PATH_MAX 4096
#define QP_SERVER_TENANT_MAX 1025 /* bytes of the tenant's name, with its NUL */
#define QP_SERVER_APP_MAX 256     /* bytes of the app that is open, with its NUL */
#define QP_SERVER_BUCKETS 12      /* of the histogram of latencies */
#define QP_SERVER_ROUTES_MAX 96   /* routes that are counted */
#define QP_SERVER_CLASSES 3       /* of statuses: good, the client's fault, the server's */

struct event;
struct event_base;
struct evconnlistener;
struct qp_conn;
struct qp_stream;
struct qp_tls;

/* The counters of /metrics. Answers are counted by the thread that gives them, the rest by the
 * loop's thread.
 */
typedef struct qp_metrics {
    _Atomic int64_t requests[QP_SERVER_ROUTES_MAX][QP_SERVER_CLASSES];
    _Atomic int64_t latency[QP_SERVER_BUCKETS + 1]; /* not cumulated; the last one: longer */
    _Atomic int64_t latency_us;                     /* the sum */
    int64_t refused;      /* requests that the reader refused, and unknown paths */
    int64_t unauthorized; /* 401 and 403 */
    int64_t queue_full;   /* answered 503 */
    int64_t left;         /* clients that left before their answer */
    int64_t accepted;     /* connections */
    int64_t turned_away;  /* connections beyond the limit */
} qp_metrics;

/* A question to the store that one worker at a time asks (probe.c). */
typedef struct qp_probe {
    bool is_running; /* a worker is at it; others answer with the last result */
    bool has_ended;  /* at least once */
    int64_t begun_ns;
    int64_t ended_ns;
    quipu_status found;  /* the worker's; CANCELLED: it did not come to it */
    quipu_status status; /* of the last one that ended */
} qp_probe;

typedef struct qp_server qp_server;

/* The public struct, and behind it the server's own state. */
struct qp_server {
    quipu_server pub; /* first: its address is what the program has */
    quipu_store *store;
    quipu_service *service;
    quipu_service *adk;       /* for ADK's routes: its rules, and events in its form */
    qp_identity adk_identity; /* of requests without a token; without an app: these are refused */
    char adk_app[QP_SERVER_APP_MAX];
    quipu_server_options options; /* its texts are not kept */
    qp_log log;
    char token_path[QP_SERVER_PATH_MAX];
    char tenant[QP_SERVER_TENANT_MAX];
    struct qp_tls *tls;                   /* NULL: plain HTTP */
    char public_host[QP_SERVER_HOST_MAX]; /* of --public-url, in lower case; "": none */
    char address[QP_SERVER_ADDRESS_MAX];  /* where it listens, as a URL */
    char socket_path[QP_SERVER_PATH_MAX]; /* of a unix socket; "": none */
    int lock_fd;                          /* of the lock beside that socket; -1: none */
    bool is_bound;                        /* the socket at the path is this server's */
    qp_json_fields session_fields;
    qp_json_fields new_fields;
    qp_json_fields patch_fields;
    qp_json_fields memory_fields;
    qp_json_fields artifact_fields;
    qp_token_book tokens;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *wake;
    struct event *tick;
    int wake_fds[2];
    qp_pool pool;
    qp_thread thread;
    bool has_thread;
    atomic_bool stop_asked;
    bool stopping;
    int64_t stop_ns; /* until then connections may finish */
    struct qp_conn *conns;
    size_t conn_count;
    struct qp_stream *streams;
    atomic_size_t stream_count; /* changed by the loop alone */
    qp_thread watch;            /* waits for changes of the store (watch.c) */
    bool watch_runs;
    quipu_cancel *watch_cancel;
    _Atomic int64_t changes; /* the number of the last one */
    qp_metrics metrics;
    qp_probe health;
    qp_probe figures;          /* for /metrics */
    quipu_stats figures_found; /* the worker's */
    quipu_stats figures_last;  /* of the last probe that succeeded */
};

/* ---- auth.c ---------------------------------------------------------------------------------- */

/* Checks Host and Origin. false: the answer is 403. */
QUIPU_MUST_USE bool qp_auth_origin(const qp_server *server, qp_call *call);

/* Checks the token against what the route needs and sets the identity, which *ret_held keeps alive.
 * false: the answer is 401 or 403. */
QUIPU_MUST_USE bool qp_auth_token(qp_server *server, qp_call *call, qp_token_table **ret_held);

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* Takes over a new connection's descriptor. */
void qp_conn_open(qp_server *server, int fd);

/* Begins the end of all connections: idle ones are closed, others finish. */
void qp_conns_stop(qp_server *server);

/* Closes all connections that no worker is at. */
void qp_conns_free(qp_server *server);

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Whether a token may open another stream: there is a limit for all, and one for each. */
bool qp_streams_have_room(const qp_server *server, const qp_identity *identity);

/* Messages of a session were added by this server: its tails look at once. */
void qp_streams_notify(qp_server *server, quipu_str key);

/* Lets the streams look that have not since the store changed. */
void qp_streams_follow(qp_server *server);

/* Starts the wait for changes of the store, once; without it streams look by the clock. Stops it.
 * */
void qp_watch_start(qp_server *server);
void qp_watch_stop(qp_server *server);

/* Looks after all streams: those of sessions that other processes write to, and quiet ones. */
void qp_streams_tick(qp_server *server);

/* ---- probe.c --------------------------------------------------------------------------------- */

#define QP_PROBE_DEADLINE_MS 5000 /* of a question to the store */

/* On the loop: whether a worker is to run the probe of the call's route. Then qp_probe_end() must
 * follow, on the loop too, whether it ran or not. */
QUIPU_MUST_USE bool qp_probe_begin(qp_call *call);
void qp_probe_end(qp_call *call);

/* On a worker. */
void qp_probe_run(qp_call *call);

/* The last result, or BUSY while a worker is at it for far too long. */
quipu_status qp_probe_status(const qp_probe *probe);

/* ---- metrics.c ------------------------------------------------------------------------------- */

/* Counts an answered request. */
void qp_metrics_count(qp_metrics *metrics, const qp_call *call, int64_t begun_ns);

#endif
