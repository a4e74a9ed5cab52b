/* The life of a server: start, loop, stop (server.h). quipu_server_start() opens the socket and
 * starts the workers and the loop's thread; everything after that runs on that thread until
 * quipu_server_stop() has joined it.
 *
 *   running ──stop──▶ stopping: no new connections, idle ones close, others finish
 *                        └──the last one is closed, or stop_ms passed──▶ ended
 *
 * Called by: programs. Owns everything but the store. */
#include "server/server.h"

#include <assert.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/listener.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/option.h"
#include "base/str.h"
#include "http/request.h"
#include "server/listen.h"
#include "server/tls.h"

/* How often the loop looks at what no event reports: four times a second is soon enough for a stop
 * and for streams, and costs an idle server nothing that could be measured. */
#define SERVER_TICK_MS 250
#define SERVER_EXTRA_MAX 64 /* connections beyond the limit that get an answer, 503 */

/* Descriptors. A connection has its socket and may have the file of a large answer; a worker reads
 * with a connection of its own to the store (the file, its log, a temporary file); the rest is for
 * the writer, the token file and the program around. */
#define SERVER_CONN_FILES 2
#define SERVER_WORKER_FILES 3
#define SERVER_SPARE_FILES 32

/* ---- the loop -------------------------------------------------------------------------------- */

/* On the loop's thread. The limit holds for connections of all kinds, idle ones included. The
 * peer's address is not looked at: a token identifies the client, and a proxy's address would
 * not. */
static void server_on_accept(struct evconnlistener *listener, evutil_socket_t fd,
                             struct sockaddr *peer, int size, void *arg)
{
    qp_server *server = arg;
    int on = 1;

    (void)listener;
    (void)peer;
    (void)size;
    /* Some beyond the limit get an answer, which needs a connection of its own: closing at once
     * would reset it, and the client might not read why. */
    if (server->conn_count >= (size_t)server->options.connections_max + SERVER_EXTRA_MAX) {
        server->metrics.turned_away++;
        (void)evutil_closesocket(fd);
        return;
    }
    /* Answers are written in two pieces, head and body: Nagle's algorithm would hold the second one
     * back until the client has acknowledged the first. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* no-op on unix sockets */
    qp_conn_open(server, fd);
}

/* The process has no descriptor left: wait for some to close; the tick accepts again.
 * The listener stays disabled until then: it would be called again at once and take a whole
 * processor. Clients wait in the backlog of the socket meanwhile. */
static void server_on_accept_error(struct evconnlistener *listener, void *arg)
{
    qp_server *server = arg;

    QP_LOG(&server->log, QUIPU_LOG_ERROR, "server", "accept_failed",
           QP_LOG_NUMBER("connections", server->conn_count));
    (void)evconnlistener_disable(listener);
}

/* On the loop's thread, woken by quipu_server_stop(). Idle connections and streams end here;
 * requests that are under way have until stop_ns.
 * The order of what a client sees: /readyz answers 503, new connections are refused by the system,
 * streams end, and the answers of requests under way carry "Connection: close". */
static void server_begin_stop(qp_server *server)
{
    QP_LOG(&server->log, QUIPU_LOG_INFO, "server", "stopping",
           QP_LOG_NUMBER("connections", server->conn_count));
    server->stopping = true;
    server->stop_ns = qp_clock_ns() + server->options.stop_ms * QP_NS_PER_MS;
    /* Closes the socket, too: another server can listen on the address from here on. */
    evconnlistener_free(server->listener);
    server->listener = NULL;
    qp_conns_stop(server);
    if (server->conn_count == 0) {
        (void)event_base_loopbreak(server->base);
    }
}

/* Workers have finished jobs, or the server is asked to stop.
 * The pipe is drained before the lists are taken: a byte that comes between the two wakes the loop
 * once more, so that no job is left in `finished`. */
static void server_on_wake(evutil_socket_t fd, short events, void *arg)
{
    qp_server *server = arg;
    char bytes[256];

    (void)events;
    while (read(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes)) {
    }
    qp_pool_finish(&server->pool);
    qp_streams_follow(server);
    if (atomic_load(&server->stop_asked) && !server->stopping) {
        server_begin_stop(server);
    }
}

/* A few times a second: accepts again after the system had no descriptor left, lets streams look
 * for what other processes wrote, and ends a stop whose time is over.
 * A stop by time leaves requests that a worker is at: quipu_server_stop() waits for the worker, and
 * server_free() closes the connection without an answer. */
static void server_on_tick(evutil_socket_t fd, short events, void *arg)
{
    qp_server *server = arg;

    (void)fd;
    (void)events;
    if (server->listener != NULL) {
        (void)evconnlistener_enable(server->listener);
    }
    qp_pool_finish(&server->pool); /* answers that workers have sent, and clients that pause */
    qp_streams_tick(server);
    if (server->stopping && qp_clock_ns() > server->stop_ns) {
        (void)event_base_loopbreak(server->base);
    }
}

/* EVLOOP_NO_EXIT_ON_EMPTY: a server without connections waits for the next one.
 * The one thread that moves connections and streams on and reads the token file anew; a worker has
 * the call of its job alone. */
static void *server_loop(void *arg)
{
    qp_server *server = arg;

    (void)event_base_loop(server->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

/* ---- start ----------------------------------------------------------------------------------- */

/* The value of an option, or its default when it is 0. */
static quipu_status server_option(int64_t *value, int64_t otherwise, int64_t most, const char *name,
                                  quipu_error *reterr)
{
    *value = *value == 0 ? otherwise : *value;
    if (*value < 1 || *value > most) {
        return qp_error_field(reterr, QUIPU_LIMIT, "quipu_server_options", name, "range",
                              "%s must be from 1 to %lld", name, (long long)most);
    }
    return QUIPU_OK;
}

/* The same for options of 32 bits. */
static quipu_status server_option_int(int32_t *value, int32_t otherwise, int32_t most,
                                      const char *name, quipu_error *reterr)
{
    int64_t wide = *value;
    quipu_status status = server_option(&wide, otherwise, most, name, reterr);

    *value = (int32_t)wide;
    return status;
}

/* 0 is the default, and every limit has a largest value: a server must not be asked for more
 * threads or descriptors than a process can have.
 * A row is: the option, its default, its largest value, and its name in the error. */
static quipu_status server_read_limits(quipu_server_options *options, quipu_error *reterr)
{
    const struct {
        int32_t *value;
        int32_t otherwise;
        int32_t most;
        const char *name;
    } limits[] = {
        {&options->workers, QUIPU_SERVER_WORKERS, QUIPU_SERVER_WORKERS_LIMIT, "workers"},
        {&options->queue_max, QUIPU_SERVER_QUEUE_MAX, 65536, "queue_max"},
        {&options->connections_max, QUIPU_SERVER_CONNECTIONS_MAX, 65536, "connections_max"},
        {&options->tails_max, QUIPU_SERVER_TAILS_MAX, 65536, "tails_max"},
        {&options->token_tails_max, QUIPU_SERVER_TOKEN_TAILS_MAX, 65536, "token_tails_max"},
        {&options->idle_ms, QUIPU_SERVER_IDLE_MS, 3600000, "idle_ms"},
        {&options->request_ms, QUIPU_SERVER_REQUEST_MS, 3600000, "request_ms"},
        {&options->stop_ms, QUIPU_SERVER_STOP_MS, 3600000, "stop_ms"},
    };
    quipu_status status = server_option(&options->body_max, QUIPU_SERVER_BODY_MAX,
                                        (int64_t)QP_HTTP_BODY_CAP, "body_max", reterr);

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]) && status == QUIPU_OK; i++) {
        status = server_option_int(limits[i].value, limits[i].otherwise, limits[i].most,
                                   limits[i].name, reterr);
    }
    return status;
}

/* The host of "https://host[:port]", in lower case.
 * The port stays part of it, because a client's Host header has it, too. */
static quipu_status server_read_url(const char *url, char host[QP_SERVER_HOST_MAX],
                                    quipu_error *reterr)
{
    const char *begin = url != NULL ? strstr(url, "://") : NULL;
    size_t n = begin != NULL ? strcspn(begin + 3, "/?#") : 0;

    host[0] = '\0';
    if (url == NULL) {
        return QUIPU_OK;
    }
    if (n == 0 || n >= QP_SERVER_HOST_MAX ||
        (strncmp(url, "http:", 5) != 0 && strncmp(url, "https:", 6) != 0)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the public URL must look like https://sessions.example.org");
    }
    for (size_t i = 0; i < n; i++) {
        char c = begin[3 + i];

        host[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    host[n] = '\0';
    return QUIPU_OK;
}

/* The app that is open to clients without a token.
 * The identity reads and writes that app alone; requests that bring a token get the token's rights
 * instead (auth_is_open()). */
static quipu_status server_read_adk(qp_server *server, const char *app, quipu_error *reterr)
{
    const quipu_str name = quipu_cstr(app != NULL ? app : "");

    if (app == NULL) {
        return QUIPU_OK;
    }
    if (name.n == 0 || name.n >= sizeof(server->adk_app) || !qp_utf8_valid(name)) {
        return qp_error_set(reterr, QUIPU_MISUSE, "an app that is open has a name of 1 to %d bytes",
                            QP_SERVER_APP_MAX - 1);
    }
    memcpy(server->adk_app, app, name.n + 1);
    server->adk_identity =
        (qp_identity){.app_name = {server->adk_app, name.n},
                      .verbs = QUIPU_ACCESS_TOKEN_READ | QUIPU_ACCESS_TOKEN_WRITE};
    return QUIPU_OK;
}

/* Copied: the options are the caller's, and workers compare tokens with it for as long as the
 * server runs. */
static quipu_status server_read_tenant(qp_server *server, const char *tenant, quipu_error *reterr)
{
    const quipu_str name = quipu_cstr(tenant != NULL ? tenant : "");

    if (name.n >= sizeof(server->tenant)) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a tenant's name has at most %d bytes",
                            QP_SERVER_TENANT_MAX - 1);
    }
    memcpy(server->tenant, name.p, name.n);
    return QUIPU_OK;
}

/* Both files or neither: a certificate without its key would end as plain HTTP. */
static quipu_status server_read_tls(qp_server *server, const quipu_server_options *options,
                                    quipu_error *reterr)
{
    if ((options->tls_cert == NULL) != (options->tls_key == NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE, "TLS needs a certificate and its key");
    }
    return options->tls_cert != NULL
               ? qp_tls_open(options->tls_cert, options->tls_key, &server->tls, reterr)
               : QUIPU_OK;
}

/* Texts are copied: the caller's options may be gone once the start returns.
 * The struct's pointers to texts are used during the start only; server.h says that they are not
 * kept. */
static quipu_status server_read_options(qp_server *server, const quipu_server_options *given,
                                        quipu_error *reterr)
{
    quipu_server_options *options = &server->options;
    quipu_status status =
        qp_options_read(options, sizeof(*options), given, "quipu_server_options", reterr);
    int n;

    if (status == QUIPU_OK &&
        (options->token_file == NULL || (options->flags & ~QUIPU_SERVER_ENCRYPTED) != 0)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a token file is required, and flags are QUIPU_SERVER_ENCRYPTED or 0");
    }
    status = status == QUIPU_OK ? server_read_limits(options, reterr) : status;
    if (status == QUIPU_OK) {
        status = server_read_url(options->public_url, server->public_host, reterr);
    }
    if (status == QUIPU_OK) {
        status = server_read_adk(server, options->adk_open, reterr);
    }
    if (status == QUIPU_OK) {
        status = server_read_tenant(server, options->tenant, reterr);
    }
    if (status == QUIPU_OK) {
        status = server_read_tls(server, options, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    n = snprintf(server->token_path, sizeof(server->token_path), "%s", options->token_file);
    if (n <= 0 || n >= (int)sizeof(server->token_path)) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the path of the token file is too long");
    }
    server->log = qp_log_of(options->log, options->log_ctx, options->log_level);
    server->tokens.path = server->token_path;
    return QUIPU_OK;
}

/* Shared by handlers: the service for state, and the tables of fields. The token file is read here
 * for the first time: a damaged one is an error of the start, not of the first request. Two
 * services, because ADK's clients expect camelCase, base64 for URLs and times in seconds, and the
 * /v1 routes the library's own form; both rebase, so that a patch of state never fails because of
 * another writer. */
static quipu_status server_prepare(qp_server *server, quipu_error *reterr)
{
    quipu_service_options service = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_status status =
        qp_fields_read(quipu_field_get, "quipu_session_info", &server->session_fields, reterr);

    service.flags = QUIPU_SERVICE_REBASE;
    if (status == QUIPU_OK) {
        status = qp_fields_read(quipu_field_get, "quipu_session_new", &server->new_fields, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_fields_read(quipu_field_get, "quipu_session_patch", &server->patch_fields, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_fields_read(quipu_field_get, "quipu_memory", &server->memory_fields, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_fields_read(quipu_field_get, "quipu_artifact", &server->artifact_fields, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_service_new(server->store, &service, &server->service, reterr);
    }
    if (status == QUIPU_OK) {
        service.flags = QUIPU_SERVICE_PYTHON | QUIPU_SERVICE_REBASE;
        service.key_case = QUIPU_KEYS_CAMEL;
        service.bytes = QUIPU_BYTES_URL;
        service.time = QUIPU_TIMES_SECONDS;
        status = quipu_service_new(server->store, &service, &server->adk, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_token_refresh(&server->tokens, reterr);
    }
    return status;
}

/* Neither end blocks: a worker that wakes the loop must never wait for it.
 * CLOEXEC: a child of the host program must not hold the write end open. */
static quipu_status server_open_pipe(qp_server *server, quipu_error *reterr)
{
    if (pipe(server->wake_fds) != 0) {
        server->wake_fds[0] = server->wake_fds[1] = server->lock_fd = -1;
        return qp_error_set(reterr, QUIPU_IO, "no descriptor is left for a pipe");
    }
    for (size_t i = 0; i < 2; i++) {
        if (fcntl(server->wake_fds[i], F_SETFD, FD_CLOEXEC) != 0 ||
            fcntl(server->wake_fds[i], F_SETFL, O_NONBLOCK) != 0) {
            return qp_error_set(reterr, QUIPU_IO, "a pipe cannot be set up");
        }
    }
    return QUIPU_OK;
}

/* Sees to it that connections can never take the descriptors that the store needs: raises the
 * process's soft limit, or lowers the number of connections to what fits. The pipe has the lowest
 * free numbers, so that its end shows how many descriptors are in use. */
static quipu_status server_fit_files(qp_server *server, quipu_error *reterr)
{
    quipu_server_options *options = &server->options;
    rlim_t kept = (rlim_t)server->wake_fds[1] + 1 + SERVER_EXTRA_MAX + SERVER_SPARE_FILES +
                  /* The descriptors that the process needs besides connections. */
                  (rlim_t)options->workers * SERVER_WORKER_FILES;
    rlim_t needed = kept + (rlim_t)options->connections_max * SERVER_CONN_FILES;
    struct rlimit files;

    /* Enough already, or a system that has no such limit. */
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed) {
        return QUIPU_OK;
    }
    if (files.rlim_max > files.rlim_cur) {
        struct rlimit raised = files;

        raised.rlim_cur = files.rlim_max < needed ? files.rlim_max : needed;
        files = setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised : files;
    }
    /* Not even one connection would fit: fail now and not with the first client. */
    if (files.rlim_cur < kept + SERVER_CONN_FILES) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "%llu open files are too few for %d workers: allow at least %llu "
                            "(ulimit -n), or take fewer workers",
                            (unsigned long long)files.rlim_cur, options->workers,
                            (unsigned long long)kept + SERVER_CONN_FILES);
    }
    if (files.rlim_cur < needed) {
        options->connections_max = (int32_t)((files.rlim_cur - kept) / SERVER_CONN_FILES);
        QP_LOG(&server->log, QUIPU_LOG_WARN, "server", "connections_lowered",
               QP_LOG_NUMBER("connections", options->connections_max),
               QP_LOG_NUMBER("files", files.rlim_cur));
    }
    return QUIPU_OK;
}

/* The loop with its events; the listener takes over the socket. */
static quipu_status server_open_loop(qp_server *server, int fd, quipu_error *reterr)
{
    struct timeval tick = {.tv_sec = 0, .tv_usec = (suseconds_t)SERVER_TICK_MS * 1000};

    server->base = event_base_new();
    if (server->base != NULL) {
        server->listener = evconnlistener_new(server->base, server_on_accept, server,
                                              LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
        server->wake = event_new(server->base, server->wake_fds[0], EV_READ | EV_PERSIST,
                                 server_on_wake, server);
        server->tick = event_new(server->base, -1, EV_PERSIST, server_on_tick, server);
    }
    /* Without a listener the socket has no owner that would close it. */
    if (server->listener == NULL) {
        (void)close(fd);
    }
    if (server->listener == NULL || server->wake == NULL || server->tick == NULL ||
        event_add(server->wake, NULL) != 0 || event_add(server->tick, &tick) != 0) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the event loop cannot be set up");
    }
    evconnlistener_set_error_cb(server->listener, server_on_accept_error);
    return QUIPU_OK;
}

/* Frees everything; the loop does not run.
 * Threads end before what they use: the watch and the workers first, then the connections, whose
 * timers and buffers are the loop's, and the loop last. */
static void server_free(qp_server *server)
{
    qp_watch_stop(server);
    qp_pool_stop(&server->pool);
    qp_conns_free(server);
    assert(server->conn_count == 0 && server->stream_count == 0);
    if (server->listener != NULL) {
        evconnlistener_free(server->listener);
    }
    if (server->wake != NULL) {
        event_free(server->wake);
    }
    if (server->tick != NULL) {
        event_free(server->tick);
    }
    if (server->base != NULL) {
        event_base_free(server->base);
    }
    for (size_t i = 0; i < 2; i++) {
        if (server->wake_fds[i] >= 0) {
            (void)close(server->wake_fds[i]);
        }
    }
    qp_listen_close(server);
    quipu_service_free(server->service);
    quipu_service_free(server->adk);
    qp_token_release(server->tokens.table);
    qp_tls_free(server->tls);
    qp_free(server);
}

/* The order matters: the address is taken first, so that a second server on it fails before it
 * starts threads; the loop starts last, when everything that it touches is there. */
static quipu_status server_run(qp_server *server, quipu_error *reterr)
{
    const char *address = server->options.listen;
    int fd = -1;
    quipu_status status =
        qp_listen_open(server, address != NULL ? address : QUIPU_SERVER_ADDRESS, &fd, reterr);

    if (status == QUIPU_OK) {
        status = server_open_loop(server, fd, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_pool_start(&server->pool, (size_t)server->options.workers,
                               (size_t)server->options.queue_max, server->wake_fds[1], reterr);
    }
    if (status == QUIPU_OK) {
        /* Once the loop runs, everything here is its own. */
        QP_LOG(&server->log, QUIPU_LOG_INFO, "server", "started",
               QP_LOG_NUMBER("workers", server->options.workers),
               QP_LOG_NUMBER("tokens", server->tokens.table->count));
        status = qp_thread_start(&server->thread, server_loop, server);
        server->has_thread = status == QUIPU_OK;
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "the loop's thread cannot be started");
        }
    }
    return status;
}

/* See <quipu/server.h>. Every step that failed leaves the rest to server_free(), which accepts a
 * server in any stage. */
quipu_status quipu_server_start(quipu_store *store, const quipu_server_options *options,
                                quipu_server **ret_server, quipu_error *reterr)
{
    qp_server *server;
    quipu_status status;

    if (store == NULL || ret_server == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a store and room for the server are required");
    }
    server = qp_calloc(1, sizeof(*server));
    if (server == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    server->store = store;
    server->wake_fds[0] = server->wake_fds[1] = server->lock_fd = -1;
    status = server_read_options(server, options, reterr);
    if (status == QUIPU_OK) {
        status = server_prepare(server, reterr);
    }
    if (status == QUIPU_OK) {
        status = server_open_pipe(server, reterr);
    }
    if (status == QUIPU_OK) {
        status = server_fit_files(server, reterr);
    }
    if (status == QUIPU_OK) {
        status = server_run(server, reterr);
    }
    if (status != QUIPU_OK) {
        server_free(server);
        return status;
    }
    server->pub.address = server->address; /* constant from here on: any thread may read it */
    *ret_server = &server->pub;
    return QUIPU_OK;
}

/* The loop ends first, the workers behind it: no job is submitted while they end. Connections that
 * are still open then are closed by server_free(). */
void quipu_server_stop(quipu_server *pub)
{
    qp_server *server = (qp_server *)pub; /* its first member */
    size_t left;
    ssize_t n;

    if (server == NULL) {
        return;
    }
    atomic_store(&server->stop_asked, true);
    n = write(server->wake_fds[1], "", 1);
    (void)n; /* a full pipe has woken the loop already */
    if (server->has_thread) {
        (void)qp_thread_join(server->thread);
    }
    left = server->conn_count;
    qp_pool_stop(&server->pool);
    QP_LOG(&server->log, QUIPU_LOG_INFO, "server", "stopped", QP_LOG_NUMBER("left", left));
    server_free(server);
}
