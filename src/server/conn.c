/* Connections (conn.h): bytes in, requests to the queue, answers out. Everything has a limit: the
 * time for a request, for an idle connection, for a client that does not read, and for one that
 * does not close.
 *
 * Owns: the connections of a server, a list that only the loop's thread touches. Called by:
 * server.c, which accepts, and by libevent's callbacks. Locks: none; a worker gets the connection's
 * job and touches nothing but its call until conn_done() runs.
 *
 *    bytes ─▶ reader ─▶ head complete: conn_begin() checks host, route, token, query
 *                   ─▶ body complete: conn_execute() ─▶ loop, or a worker ─▶ conn_answer()
 *
 * The life of a request, and on which thread each step runs:
 *
 *    loop    bytes arrive, in pieces of any size; the reader takes them (src/http/reader.c)
 *    loop    the head is complete: host, origin, route, token, parameters. A client that is refused
 *            here has cost no memory for a body, no place in the queue and no read of the store
 *    loop    the body is complete: the job goes into the queue (pool.c), or the answer is 503
 *    worker  conn_run(): the handler calls the library and writes into call.answer, and the socket
 *            takes head and body at once. The worker does not wake the loop for that: the loop sees
 *            it when the client sends more or leaves, or with its next tick
 *    loop    conn_done(): tails of the session look; what the worker has not sent is sent, or the
 *            memory of the rest goes over to the output without a copy
 *    loop    all is sent: the same connection reads on, or lingers
 *
 * Between submit and done the call and the socket are the worker's alone. For this a connection
 * whose client leaves meanwhile is marked and not freed, and every callback looks at the state
 * first.
 *
 * Holds on return of every callback: the connection is in one state of conn.h, or freed. */
#include "server/conn.h"
#include "server/tls.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/alloc.h"
#include "server/page.h"
#include "server/spool.h"

/* Long enough for a client to read an answer of some kilobytes over a slow network, and short
 * enough that refused clients do not fill the limit of connections. */
#define CONN_LINGER_MS 2000
#define CONN_READ_MAX 65536 /* bytes that are read ahead */

static void conn_feed(qp_conn *conn);

/* ---- time ------------------------------------------------------------------------------------ */

/* libevent counts in seconds and microseconds. */
static struct timeval conn_time(int64_t ms)
{
    return (struct timeval){.tv_sec = (time_t)(ms / 1000),
                            .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
}

/* One timer for each connection: the state says what its end means (conn_on_timer). */
static void conn_arm(qp_conn *conn, int64_t ms)
{
    struct timeval time = conn_time(ms);

    (void)evtimer_add(conn->timer, &time);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Which states may follow which: the arrows of conn.h. A stream that ends, and an answer that is
 * the last one, pass through WRITING, because output may still be under way. */
static bool conn_may_move(qp_conn_state from, qp_conn_state to)
{
    switch (from) {
    case QP_CONN_READING:
        return to == QP_CONN_WAITING || to == QP_CONN_WRITING;
    case QP_CONN_WAITING:
        return to == QP_CONN_WRITING || to == QP_CONN_STREAMING;
    case QP_CONN_WRITING:
        return to == QP_CONN_READING || to == QP_CONN_WRITING || to == QP_CONN_LINGERING;
    case QP_CONN_STREAMING:
        return to == QP_CONN_WRITING;
    case QP_CONN_LINGERING:
        break; /* nothing but its end follows */
    }
    return false;
}

/* The one place where a connection changes its state. */
void qp_conn_move(qp_conn *conn, qp_conn_state to)
{
    /* Outside of the assert, which must have no effect. */
    const bool is_arrow = conn_may_move(conn->state, to);

    assert(is_arrow);
    (void)is_arrow; /* without assertions it is asked for nothing */
    assert(to != QP_CONN_WAITING ||
           conn->is_checked); /* only an authorized request gets to a worker */
    assert(to != QP_CONN_STREAMING || conn->stream != NULL);
    conn->state = to;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Frees what a request has taken; the connection may read the next one. */
static void conn_release_call(qp_conn *conn)
{
    quipu_tail_close(conn->call.tail);
    qp_reply_free(&conn->call.answer);
    quipu_arena_free(&conn->call.arena); /* the head is in it */
    conn->head = NULL;
    conn->sent = 0;
    qp_token_release(conn->held);
    conn->held = NULL;
    conn->call = (qp_call){.server = NULL};
}

/* A worker that is at the call, or at a stream's read, uses the memory: then the connection is only
 * marked, reads and writes nothing any more, and conn_done() or the stream comes back here. The
 * last connection of a stopping server ends the loop. */
void qp_conn_close(qp_conn *conn)
{
    qp_server *server = conn->server;

    if (conn->state == QP_CONN_WAITING || (conn->stream != NULL && !qp_stream_free(conn->stream))) {
        server->metrics.left +=
            conn->state == QP_CONN_WAITING && !atomic_load(&conn->is_answered) ? 1 : 0;
        conn->is_gone = true;
        atomic_store(&conn->has_left, true);
        quipu_cancel_set(conn->cancel);
        /* The cancel flag ends a read of the store soon, and a write that waits for its turn. A
         * write that runs in a batch is finished, although its client has left. */
        (void)bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
        return;
    }
    conn_release_call(conn);
    if (conn->before != NULL) {
        conn->before->next = conn->next;
    } else {
        server->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->before = conn->before;
    }
    server->conn_count--;
    event_free(conn->timer);
    bufferevent_free(conn->bev);
    quipu_free(conn->cancel);
    qp_http_reader_free(&conn->reader);
    qp_free(conn);
    if (server->stopping && server->conn_count == 0) {
        (void)event_base_loopbreak(server->base);
    }
}

/* Sends no more, and waits for the client to close: closing at once would reset the connection, and
 * the client could lose the answer that it has not read. */
static void conn_linger(qp_conn *conn)
{
    struct evbuffer *input = bufferevent_get_input(conn->bev);

    qp_conn_move(conn, QP_CONN_LINGERING);
    (void)evbuffer_drain(input, evbuffer_get_length(input)); /* a full one would not be read */
    if (conn->server->tls != NULL) {
        qp_tls_end(conn->bev);
    }
    (void)shutdown(bufferevent_getfd(conn->bev), SHUT_WR);
    (void)bufferevent_enable(conn->bev, EV_READ);
    conn_arm(conn, CONN_LINGER_MS);
}

/* Output that is still to be sent leaves by conn_on_write(), which lingers then. */
void qp_conn_finish(qp_conn *conn)
{
    conn->closes = true;
    if (conn->state == QP_CONN_LINGERING) {
        return;
    }
    qp_conn_move(conn, QP_CONN_WRITING);
    if (evbuffer_get_length(bufferevent_get_output(conn->bev)) == 0) {
        conn_linger(conn);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* An evbuffer_ref_cleanup_cb: the output has sent the bytes of a body that it took over. */
static void conn_cleanup(const void *data, size_t size, void *ctx)
{
    (void)data;
    (void)size;
    qp_free(ctx);
}

/* Hands the body's memory from byte `from` on over to the output. A temporary file follows when the
 * head is sent: conn_send_more(). */
static void conn_write_body(qp_conn *conn, qp_reply *answer, size_t from)
{
    struct evbuffer *output = bufferevent_get_output(conn->bev);

    if (answer->asset != NULL) {
        if (answer->status == 200) {
            (void)evbuffer_add_reference(output, answer->asset->bytes, answer->asset->size, NULL,
                                         NULL);
        }
        return;
    }
    assert(from <= answer->body.n);
    if (answer->body.n > from &&
        evbuffer_add_reference(output, answer->body.p + from, answer->body.n - from, conn_cleanup,
                               answer->body.p) == 0) {
        qp_buf_init(&answer->body, QP_REPLY_MAX);
    }
}

/* Whether the socket may be given an answer at once: TLS frames the bytes itself, output that waits
 * comes first, and behind the next request, which has arrived already, its client waits its turn in
 * the loop like everybody else. */
static bool conn_is_alone(const qp_conn *conn)
{
    return conn->server->tls == NULL &&
           evbuffer_get_length(bufferevent_get_output(conn->bev)) == 0 &&
           evbuffer_get_length(bufferevent_get_input(conn->bev)) == 0;
}

/* Whether a client gets a body: not to a HEAD. */
static bool conn_has_body(const qp_conn *conn)
{
    return conn->call.request == NULL || conn->call.request->method != QP_HTTP_HEAD;
}

/* Bytes of the answer's body. */
static int64_t conn_size(const qp_reply *answer)
{
    return answer->asset != NULL   ? (int64_t)answer->asset->size
           : answer->spool != NULL ? qp_spool_size(answer->spool)
                                   : (int64_t)answer->body.n;
}

/* Gives the socket what it takes at once of the head and of a body in memory: nearly always all of
 * it, by one call of the system and without a change of what the loop waits for. Returns whether it
 * took all. An error shows again when the rest is written. */
static bool conn_send(qp_conn *conn, qp_head *head)
{
    qp_buf *body = &conn->call.answer.body;
    const bool has_body = conn_has_body(conn) && body->n > 0;
    struct iovec pieces[2] = {{.iov_base = head->text, .iov_len = head->n},
                              {.iov_base = body->p, .iov_len = body->n}};
    const ssize_t sent = writev(conn->fd, pieces, has_body ? 2 : 1);

    conn->sent = sent > 0 ? (size_t)sent : 0;
    return conn->sent == head->n + (has_body ? body->n : 0);
}

/* Sends the answer, or hands what the socket does not take to the output. Returns whether all is
 * sent; a worker may have begun. */
static bool conn_write(qp_conn *conn)
{
    qp_reply *answer = &conn->call.answer;
    qp_head own;
    qp_head *head = conn->head;

    if (head == NULL) {
        head = &own;
        qp_conn_head(conn, conn_size(answer), head);
        if (answer->asset == NULL && answer->spool == NULL && conn_is_alone(conn) &&
            conn_send(conn, head)) {
            return true;
        }
    }
    (void)bufferevent_disable(conn->bev, EV_READ);
    if (conn->sent < head->n) {
        (void)bufferevent_write(conn->bev, head->text + conn->sent, head->n - conn->sent);
    }
    if (conn_has_body(conn)) {
        conn_write_body(conn, answer, conn->sent > head->n ? conn->sent - head->n : 0);
    }
    return false;
}

/* Before the answer leaves, so that the next request for the counters sees it. */
static void conn_count(qp_conn *conn)
{
    qp_server *server = conn->server;

    qp_metrics_count(&server->metrics, &conn->call, conn->begun_ns);
    QP_LOG(&server->log, QUIPU_LOG_DEBUG, "server", "request",
           QP_LOG_TEXT("method", conn->call.request != NULL
                                     ? qp_http_method_name(conn->call.request->method)
                                     : "?"),
           QP_LOG_TEXT("route", conn->call.route != NULL ? conn->call.route->path : "?"),
           QP_LOG_NUMBER("code", conn->call.answer.status),
           QP_LOG_NUMBER("bytes", conn_size(&conn->call.answer)),
           QP_LOG_NUMBER("us", (qp_clock_ns() - conn->begun_ns) / 1000));
}

/* An answer that was sent: the connection is ready for the next request, or ends. */
static void conn_next(qp_conn *conn)
{
    assert(conn->state == QP_CONN_WRITING && conn->stream == NULL);
    conn_release_call(conn);
    if (conn->closes || conn->server->stopping) {
        conn_linger(conn);
        return;
    }
    qp_http_reader_next(&conn->reader);
    qp_conn_move(conn, QP_CONN_READING);
    conn->is_checked = false;
    conn->has_continued = false;
    conn->is_timing_request = false;
    conn_arm(conn, conn->server->options.idle_ms);
}

/* Sends the call's answer. */
static void conn_answer(qp_conn *conn)
{
    assert(conn->state == QP_CONN_READING || conn->state == QP_CONN_WAITING);
    qp_conn_move(conn, QP_CONN_WRITING);
    (void)evtimer_del(conn->timer);
    conn->closes = conn->closes || conn->server->stopping;
    if (conn->head == NULL) {
        conn_count(conn);
    }
    if (conn_write(conn)) {
        conn_next(conn);
    }
}

/* The output is empty: the next part of a temporary file follows. When it cannot be read, nothing
 * can be answered any more: the connection ends, and the client misses the rest. */
static void conn_send_more(qp_conn *conn)
{
    const quipu_status status =
        qp_spool_send(conn->call.answer.spool, bufferevent_get_output(conn->bev));

    assert(conn->state == QP_CONN_WRITING);
    if (status != QUIPU_OK) {
        qp_log_fault(&conn->server->log, conn->call.route->path, status);
        qp_conn_close(conn);
    }
}

/* All output has left: sends on, or reads on, where the next request may have arrived already. */
static void conn_sent(qp_conn *conn)
{
    const qp_spool *spool = conn_has_body(conn) ? conn->call.answer.spool : NULL;

    if (spool != NULL && !qp_spool_is_sent(spool)) {
        conn_send_more(conn);
        return;
    }
    conn_next(conn);
    if (conn->state == QP_CONN_READING) {
        (void)bufferevent_enable(conn->bev, EV_READ);
        conn_feed(conn);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A handler that fails leaves its answer to the table of statuses. */
static void conn_handle(qp_call *call)
{
    quipu_error error = {.status = QUIPU_OK};
    quipu_status status = call->route->handler(call, &error);

    if (status != QUIPU_OK) {
        qp_log_fault(&call->server->log, call->route->path, status);
        qp_reply_failure(&call->answer, status, &error);
    }
}

/* Whether a worker may answer itself, and nobody waits for the loop then: the connection goes on
 * behind a usual answer, and no tail is to look before it leaves. */
static bool conn_may_send(const qp_conn *conn)
{
    qp_server *server = conn->server;
    const qp_call *call = &conn->call;

    return conn->may_send && !conn->closes && !atomic_load(&server->stop_asked) &&
           call->tail == NULL && call->answer.asset == NULL && call->answer.spool == NULL &&
           (call->route->need != QP_NEED_WRITE || atomic_load(&server->stream_count) == 0);
}

/* On a worker. An answer that is sent from here saves the loop one way there and back: it learns of
 * it when the next request comes. The loop sends what the socket does not take. */
static void conn_run(qp_job *job)
{
    qp_conn *conn = job->owner;
    qp_call *call = &conn->call;

    if (atomic_load(&conn->has_left)) {
        return; /* nobody waits for it, and nobody was promised anything */
    }
    if (call->route->kind == QP_ROUTE_PROBE) {
        qp_probe_run(call);
        return;
    }
    conn_handle(call);
    if (conn_may_send(conn)) {
        conn->head = quipu_arena_alloc(&call->arena, sizeof(*conn->head));
    }
    if (conn->head != NULL) {
        qp_conn_head(conn, conn_size(&call->answer), conn->head);
        conn_count(conn);
        atomic_store(&conn->is_answered, true);
        job->is_quiet = conn_send(conn, conn->head);
    }
}

/* Streams live long: no Retry-After could say when one of them ends. */
static void conn_refuse_tail(qp_call *call)
{
    qp_reply_error(&call->answer, 503, "LIMIT", "there are too many tails: try again later");
}

/* On the loop's thread, behind conn_run(). Streams of the session that was written to are notified
 * here, before the answer leaves: a client that reads its own answer first still finds the event in
 * its tail. */
static void conn_done(qp_job *job)
{
    qp_conn *conn = job->owner;
    qp_call *call = &conn->call;

    assert(conn->state == QP_CONN_WAITING);
    if (call->route->kind == QP_ROUTE_PROBE) {
        qp_probe_end(call);
        conn_handle(call);
    } else if (!job->has_run) {
        qp_reply_error(&call->answer, 503, "CANCELLED", "the server stops: try again");
    }
    if (call->route->need == QP_NEED_WRITE && call->answer.status < 300 && call->key.p != NULL) {
        qp_streams_notify(conn->server, call->key);
    }
    if (conn->is_gone) {
        qp_conn_move(conn, QP_CONN_WRITING);
        qp_conn_close(conn);
    } else if (job->is_quiet) {
        qp_conn_move(conn, QP_CONN_WRITING);
        conn_next(conn);
        if (conn->state == QP_CONN_READING) {
            conn_feed(conn); /* the next request may have arrived meanwhile */
        }
    } else if (call->tail == NULL) {
        conn_answer(conn);
    } else if (!qp_streams_have_room(conn->server, call->identity)) {
        /* Others that were checked with it have begun since: the check of the head counts none that
         * waits for a worker. */
        conn_refuse_tail(call);
        conn_answer(conn);
    } else if (!qp_stream_begin(conn)) {
        qp_reply_error(&call->answer, 503, "NOMEM", "out of memory");
        conn_answer(conn);
    }
}

/* Checks in the order of what they reveal: where, what, who, how. */
static bool conn_check(qp_conn *conn)
{
    qp_server *server = conn->server;
    qp_call *call = &conn->call;

    if (conn->is_extra) {
        qp_reply_error(&call->answer, 503, "LIMIT", "there are too many connections: try again");
        conn->closes = true;
        return false;
    }
    /* 1. Where: a page of another site learns nothing, not even which paths exist. */
    if (!qp_auth_origin(server, call)) {
        server->metrics.unauthorized++;
        return false;
    }
    /* 2. What: paths are public, they stand in the OpenAPI document. */
    if (!qp_route_match(call)) {
        return false;
    }
    /* 3. Who: from here on the client is known, and may learn what its request lacks. */
    if (!qp_auth_token(server, call, &conn->held)) {
        server->metrics.unauthorized++;
        return false;
    }
    /* 4. How: limits and parameters. */
    if (call->route->kind == QP_ROUTE_STREAM && !qp_streams_have_room(server, call->identity)) {
        conn_refuse_tail(call);
        return false;
    }
    return qp_route_check(call);
}

/* The head of a request is complete: checks it, and answers when it is refused. The body follows,
 * or the request has none. */
static void conn_begin(qp_conn *conn)
{
    qp_server *server = conn->server;
    qp_call *call = &conn->call;

    assert(conn->state == QP_CONN_READING && !conn->is_checked);
    conn_release_call(conn);
    *call = (qp_call){.server = server,
                      .store = server->store,
                      .service = server->service,
                      .request = &conn->reader.request,
                      .limits = QUIPU_CALL_OPTIONS_INIT};
    call->limits.cancel = conn->cancel;
    qp_reply_init(&call->answer);
    conn->begun_ns = qp_clock_ns();
    conn->closes = !conn->reader.request.keep_alive;
    conn->is_checked = conn_check(conn);
    if (!conn->is_checked) {
        /* Without reading the body, the beginning of the next request is unknown. */
        conn->closes = conn->closes || conn->reader.state != QP_HTTP_COMPLETE;
        conn_answer(conn);
    }
}

/* The queue is full. Requests about the server itself are answered nevertheless, because operators
 * ask exactly then. */
static void conn_answer_busy(qp_conn *conn)
{
    qp_call *call = &conn->call;

    if (call->route->kind == QP_ROUTE_PROBE) {
        qp_probe_end(call);
        conn_handle(call);
    } else {
        conn->server->metrics.queue_full++;
        qp_reply_error(&call->answer, 503, "BUSY", "the server is busy: try again");
    }
    conn_answer(conn);
}

/* A request is complete, and its head was found right: runs it here or on a worker. */
static void conn_execute(qp_conn *conn)
{
    qp_server *server = conn->server;
    qp_call *call = &conn->call;
    const bool is_probe = call->route->kind == QP_ROUTE_PROBE;

    assert(conn->state == QP_CONN_READING && conn->is_checked);
    conn->begun_ns = qp_clock_ns();
    if (call->route->kind == QP_ROUTE_LOOP || (is_probe && !qp_probe_begin(call))) {
        conn_handle(call);
        conn_answer(conn);
        return;
    }
    conn->job.run = conn_run;
    conn->job.done = conn_done;
    conn->may_send = conn_is_alone(conn);
    atomic_store(&conn->is_answered, false);
    if (!qp_pool_submit(&server->pool, &conn->job)) {
        conn_answer_busy(conn);
        return;
    }
    qp_conn_move(conn,
                 QP_CONN_WAITING); /* it reads on, up to CONN_READ_MAX, to notice a client's end */
    (void)evtimer_del(conn->timer);
}

/* Answers what the reader refuses, and closes: where the next request begins is unknown. */
static void conn_refuse(qp_conn *conn, int status, const char *reason)
{
    conn_release_call(conn);
    qp_reply_init(&conn->call.answer);
    qp_reply_error(&conn->call.answer, status,
                   status == 413 || status == 414 || status == 431 ? "LIMIT" : "INVALID", reason);
    conn->server->metrics.refused++;
    conn->begun_ns = qp_clock_ns();
    conn->closes = true;
    conn_answer(conn);
}

/* A request is under way: it has a time to be complete. A client may wait to be asked for it. */
static void conn_expect_more(qp_conn *conn)
{
    if (!conn->is_timing_request && !qp_http_reader_is_idle(&conn->reader)) {
        conn->is_timing_request = true;
        conn_arm(conn, conn->server->options.request_ms);
    }
    if (!conn->has_continued && qp_http_reader_awaits_continue(&conn->reader)) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

        conn->has_continued = true;
        (void)bufferevent_write(conn->bev, go_on, sizeof(go_on) - 1);
    }
}

/* Gives the reader what has arrived, until a request is complete. */
static void conn_feed(qp_conn *conn)
{
    struct evbuffer *input = bufferevent_get_input(conn->bev);

    while (conn->state == QP_CONN_READING && evbuffer_get_length(input) > 0) {
        size_t n = evbuffer_get_contiguous_space(input);
        const char *bytes = (const char *)evbuffer_pullup(input, (ev_ssize_t)n);
        size_t used = 0;
        qp_http_result result = qp_http_read(&conn->reader, (quipu_str){bytes, n}, &used);

        (void)evbuffer_drain(input, used);
        if (result == QP_HTTP_BODY_FOLLOWS || (result == QP_HTTP_REQUEST && !conn->is_checked)) {
            conn_begin(conn);
        }
        if (result == QP_HTTP_REQUEST && conn->is_checked) {
            conn_execute(conn);
        } else if (result == QP_HTTP_REFUSED) {
            conn_refuse(conn, conn->reader.refusal.status, conn->reader.refusal.reason);
        }
    }
    if (conn->state == QP_CONN_READING) {
        conn_expect_more(conn);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Bytes behind a request that is not answered yet stay in the input: pipelined requests are
 * answered in their order. Usually the answer has been sent, and this is how the loop learns it. A
 * lingering or streaming client has nothing more to say. */
static void conn_on_read(struct bufferevent *bev, void *arg)
{
    qp_conn *conn = arg;
    struct evbuffer *input = bufferevent_get_input(bev);

    if (conn->state == QP_CONN_WAITING) {
        qp_pool_await(&conn->server->pool, &conn->job);
    }
    if (conn->state == QP_CONN_READING) {
        conn_feed(conn);
    } else if (conn->state == QP_CONN_LINGERING || conn->state == QP_CONN_STREAMING) {
        (void)evbuffer_drain(input, evbuffer_get_length(input));
    }
}

/* All output was sent. */
static void conn_on_write(struct bufferevent *bev, void *arg)
{
    qp_conn *conn = arg;

    (void)bev;
    if (conn->state == QP_CONN_WRITING && conn->stream == NULL) {
        conn_sent(conn);
    } else if (conn->state == QP_CONN_WRITING) {
        conn_linger(conn);
    } else if (conn->state == QP_CONN_STREAMING) {
        qp_stream_sent(conn->stream);
    }
}

/* The client closed, the connection broke, or the client does not read. The end of a TLS handshake
 * does not close it. */
static void conn_on_event(struct bufferevent *bev, short events, void *arg)
{
    qp_conn *conn = arg;

    (void)bev;
    if ((events & BEV_EVENT_CONNECTED) != 0) {
        return;
    }
    if (conn->state == QP_CONN_WAITING) {
        qp_pool_await(&conn->server->pool, &conn->job); /* it may have its answer */
    }
    qp_conn_close(conn);
}

/* While a request is under way its time is over: 408. Otherwise the connection is idle or lingers,
 * and is closed without a word. */
static void conn_on_timer(evutil_socket_t fd, short events, void *arg)
{
    qp_conn *conn = arg;

    (void)fd;
    (void)events;
    if (conn->state == QP_CONN_READING && conn->is_timing_request) {
        conn_refuse(conn, 408, "the request did not come in time");
    } else {
        qp_conn_close(conn);
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Makes what belongs to a connection. false: without memory, and the descriptor is the caller's to
 * close. The bufferevent, which closes it, comes last: closed twice, it could be another's by then.
 */
static bool conn_make(qp_server *server, int fd, qp_conn *conn)
{
    struct timeval write_time = conn_time(server->options.request_ms);

    conn->timer = evtimer_new(server->base, conn_on_timer, conn);
    if (conn->timer == NULL) {
        return false;
    }
    conn->bev = server->tls != NULL
                    ? qp_tls_accept(server->tls, server->base, fd)
                    : bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (conn->bev == NULL) {
        event_free(conn->timer);
        return false;
    }
    conn->fd = fd;
    bufferevent_setcb(conn->bev, conn_on_read, conn_on_write, conn_on_event, conn);
    bufferevent_setwatermark(conn->bev, EV_READ, 0, CONN_READ_MAX);
    (void)bufferevent_set_timeouts(conn->bev, NULL, &write_time);
    return true;
}

/* Beyond the limit a connection is taken all the same, and its first request is answered with 503:
 * a client whose connection only closes would take the server for broken. */
void qp_conn_open(qp_server *server, int fd)
{
    qp_conn *conn = qp_calloc(1, sizeof(*conn));

    if (conn != NULL) {
        conn->cancel = quipu_cancel_new();
    }
    if (conn == NULL || conn->cancel == NULL || !conn_make(server, fd, conn)) {
        (void)evutil_closesocket(fd);
        quipu_free(conn != NULL ? conn->cancel : NULL);
        qp_free(conn);
        return;
    }
    conn->server = server;
    conn->job.owner = conn;
    conn->is_extra = server->conn_count >= (size_t)server->options.connections_max;
    server->metrics.turned_away += conn->is_extra ? 1 : 0;
    qp_http_reader_init(&conn->reader, (size_t)server->options.body_max);
    conn->next = server->conns;
    if (conn->next != NULL) {
        conn->next->before = conn;
    }
    server->conns = conn;
    server->conn_count++;
    server->metrics.accepted++;
    conn_arm(conn, server->options.idle_ms);
    (void)bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
}

/* Idle ones have nothing to lose. A stream gets its end, so that its client comes again with the
 * last id; a request that has begun is answered, with "Connection: close". */
void qp_conns_stop(qp_server *server)
{
    for (qp_conn *conn = server->conns, *next; conn != NULL; conn = next) {
        next = conn->next;
        if (conn->state == QP_CONN_READING && qp_http_reader_is_idle(&conn->reader)) {
            qp_conn_close(conn);
        } else if (conn->state == QP_CONN_STREAMING) {
            qp_conn_finish(conn);
        }
    }
}

/* Behind the loop's end, when no worker is left: every connection is freed, not only marked. */
void qp_conns_free(qp_server *server)
{
    for (qp_conn *conn = server->conns, *next; conn != NULL; conn = next) {
        next = conn->next;
        qp_conn_close(conn);
    }
}
