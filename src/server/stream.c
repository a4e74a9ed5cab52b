/* Streams: the tail of a session as server-sent events. A stream is never a thread: a job looks for
 * new messages without waiting, and one is queued when this server has written to the session, when
 * the store has changed otherwise (watch.c), or when a slow client has taken what it was sent.
 *
 *   idle ──notify, change──▶ busy (a worker reads) ──done──▶ idle
 *     dirty: look again as soon as it is idle and the client keeps up
 *
 * The id of an event is the message's number, so that Last-Event-ID goes on without gap or repeat.
 * Runs on the loop's thread, but for stream_run().
 * Owns: the streams of a server, a list of the loop's thread; a stream owns its tail. Called by:
 * conn.c, and server.c for the tick and the change watch. Locks: none. While a worker is busy it
 * alone touches tail and text. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/alloc.h"
#include "server/conn.h"

#define STREAM_POLL_MS 500    /* between two looks because the store has changed somewhere */
#define STREAM_IDLE_MS 5000   /* between two looks without any change: a session may expire */
#define STREAM_QUIET_MS 15000 /* without an event, until a comment shows that it lives */
/* Bytes that a slow client may be behind when the next batch is read for it. A stream's memory is
 * bounded by this and by one batch, QUIPU_TAIL_BYTES or one longer message. */
#define STREAM_AHEAD_MAX ((size_t)64 << 10)

typedef struct qp_stream {
    qp_job job;
    struct qp_stream *next;
    struct qp_stream *before;
    qp_conn *conn;
    quipu_tail *tail;
    quipu_str key; /* in `bytes` */
    bool is_busy;
    bool is_dirty;
    int64_t looked_ns; /* when it last looked... */
    int64_t seen;      /* ...and the number of the store's changes then */
    int64_t sent_ns;   /* when it last sent anything */
    /* The result of a worker: */
    qp_buf text;
    bool has_more; /* behind the batch */
    bool has_ended;
    char bytes[];
} qp_stream;

/* ---- on a worker ----------------------------------------------------------------------------- */

/* "id: 7\nevent: message\ndata: {...}\n\n"; JSON has no line ends inside. */
static quipu_status stream_put(qp_stream *stream, quipu_messages messages, size_t index,
                               quipu_arena *arena, quipu_error *reterr)
{
    quipu_str json;
    quipu_status status;

    quipu_arena_reset(arena);
    status = quipu_message_json(messages, index, arena, &json, reterr);
    if (status == QUIPU_OK) {
        qp_buf_printf(&stream->text, "id: %" PRId64 "\nevent: message\ndata: ",
                      quipu_message_at(messages, index)->seq);
        qp_buf_put(&stream->text, json);
        qp_buf_puts(&stream->text, "\n\n");
        status = qp_buf_status(&stream->text);
    }
    return status;
}

/* Failures that pass leave the stream as it is: the next look repeats. */
static bool stream_is_over(quipu_status status)
{
    return status != QUIPU_OK && status != QUIPU_BUSY && status != QUIPU_CANCELLED;
}

/* On a worker. Reads one batch without waiting and writes its events. A message that cannot be
 * written ends the stream: the client comes again with the last id that it got. */
static void stream_run(qp_job *job)
{
    qp_stream *stream = job->owner;
    quipu_history *batch = NULL;
    quipu_error error = {.status = QUIPU_OK};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = quipu_tail_next(stream->tail, 0, NULL, &batch, &error);

    stream->has_more = false;
    if (status == QUIPU_OK && batch != NULL) {
        stream->has_more = batch->more_after;
        for (size_t i = 0; i < batch->messages.count && status == QUIPU_OK; i++) {
            status = stream_put(stream, batch->messages, i, &arena, &error);
        }
    }
    if (stream_is_over(status)) {
        stream->has_ended = true;
        qp_log_fault(&stream->conn->server->log, stream->conn->call.route->path, status);
        qp_buf_printf(&stream->text, "event: end\ndata: {\"status\":\"%s\"}\n\n",
                      quipu_status_name(status));
    }
    quipu_free(batch);
    quipu_arena_free(&arena);
}

/* ---- on the loop ----------------------------------------------------------------------------- */

/* Bytes that the client has not taken yet. */
static size_t stream_behind(const qp_stream *stream)
{
    return evbuffer_get_length(bufferevent_get_output(stream->conn->bev));
}

/* Streams take at most half of the queue: thousands of tails that look at once must not make the
 * server refuse requests. */
static bool stream_may_wait(qp_server *server)
{
    return 2 * qp_pool_waiting(&server->pool) < (size_t)server->options.queue_max;
}

/* Looks for messages, unless a worker is at it, the client is behind, or the streams' part of the
 * queue is full; then it stays dirty, and the next occasion tries again. */
static void stream_look(qp_stream *stream)
{
    qp_server *server = stream->conn->server;

    stream->is_dirty = true;
    stream->looked_ns = qp_clock_ns();
    stream->seen = atomic_load(&server->changes);
    if (stream->is_busy || stream->conn->state != QP_CONN_STREAMING ||
        stream_behind(stream) > STREAM_AHEAD_MAX || !stream_may_wait(server) ||
        !qp_pool_submit(&server->pool, &stream->job)) {
        return;
    }
    stream->is_busy = true;
    stream->is_dirty = false;
}

/* Looks when the store has changed since the last look, but not more often than every
 * STREAM_POLL_MS: the change may be of any session. Without the watch every such stretch counts as
 * a change. */
static void stream_follow(qp_stream *stream, int64_t now)
{
    const qp_server *server = stream->conn->server;
    const bool changed = !server->watch_runs || stream->seen != atomic_load(&server->changes);
    const int64_t wait_ms = changed ? STREAM_POLL_MS : STREAM_IDLE_MS;

    if (stream->is_dirty || now - stream->looked_ns >= wait_ms * QP_NS_PER_MS) {
        stream_look(stream);
    }
}

/* All of them: which session has changed, the store does not say. A tail that looks and finds
 * nothing costs one read of a session's header. */
void qp_streams_follow(qp_server *server)
{
    const int64_t now = qp_clock_ns();

    for (qp_stream *stream = server->streams; stream != NULL; stream = stream->next) {
        stream_follow(stream, now);
    }
}

/* On the loop's thread. While a worker was busy the client may have left, or the server may have
 * begun to stop; only a stream that is still wanted is written to. */
static void stream_done(qp_job *job)
{
    qp_stream *stream = job->owner;
    qp_conn *conn = stream->conn;

    assert(stream->is_busy);
    stream->is_busy = false;
    if (conn->is_gone) {
        qp_conn_close(conn);
        return;
    }
    if (conn->state != QP_CONN_STREAMING) {
        return; /* the server stops: what was read is sent to the next connection */
    }
    if (stream->text.n > 0) {
        (void)bufferevent_write(conn->bev, stream->text.p, stream->text.n);
        stream->sent_ns = qp_clock_ns();
        qp_buf_free(&stream->text);
    }
    if (stream->has_ended) {
        qp_conn_finish(conn);
    } else if (stream->has_more || stream->is_dirty) {
        stream_look(stream);
    }
}

/* A slow client has taken all: now is the time to look for more. */
void qp_stream_sent(qp_stream *stream)
{
    assert(stream->conn->state == QP_CONN_STREAMING);
    if (stream->is_dirty) {
        stream_look(stream);
    }
}

/* Into the list of the server, in front; the order means nothing. */
static void stream_link(qp_server *server, qp_stream *stream)
{
    stream->next = server->streams;
    if (stream->next != NULL) {
        stream->next->before = stream;
    }
    server->streams = stream;
    server->stream_count++;
}

/* Takes the tail over from the call. From here on the connection's end is the stream's end; the
 * call keeps the identity, which streams_check_tokens() looks at. */
bool qp_stream_begin(qp_conn *conn)
{
    qp_server *server = conn->server;
    const quipu_str key = conn->call.key;
    qp_stream *stream = qp_calloc(1, sizeof(*stream) + key.n);
    qp_head head;

    assert(conn->state == QP_CONN_WAITING && conn->call.tail != NULL);
    if (stream == NULL) {
        return false;
    }
    memcpy(stream->bytes, key.p, key.n);
    stream->key = (quipu_str){stream->bytes, key.n};
    stream->conn = conn;
    stream->tail = conn->call.tail;
    stream->job.owner = stream;
    stream->job.run = stream_run;
    stream->job.done = stream_done;
    stream->sent_ns = qp_clock_ns();
    qp_buf_init(&stream->text, QP_REPLY_MAX);
    conn->call.tail = NULL;
    conn->stream = stream;
    conn->closes = true; /* a stream has no length: its end is the connection's */
    stream_link(server, stream);
    qp_watch_start(server);
    qp_conn_move(conn, QP_CONN_STREAMING);
    qp_metrics_count(&server->metrics, &conn->call, conn->begun_ns);
    qp_conn_head(conn, -1, &head);
    (void)bufferevent_write(conn->bev, head.text, head.n);
    (void)bufferevent_enable(conn->bev, EV_READ); /* to notice that the client left */
    if (server->stopping || conn->call.request->method == QP_HTTP_HEAD) {
        qp_conn_finish(conn);
    } else {
        stream_look(stream);
    }
    return true;
}

/* A worker that reads uses the tail and the text, so they are not freed now. qp_conn_close() comes
 * again. */
bool qp_stream_free(qp_stream *stream)
{
    qp_server *server = stream->conn->server;

    if (stream->is_busy) {
        return false;
    }
    if (stream->before != NULL) {
        stream->before->next = stream->next;
    } else {
        server->streams = stream->next;
    }
    if (stream->next != NULL) {
        stream->next->before = stream->before;
    }
    server->stream_count--;
    stream->conn->stream = NULL;
    quipu_tail_close(stream->tail);
    qp_buf_free(&stream->text);
    qp_free(stream);
    return true;
}

/* Counted by the token's hash: its identity is another one after the token file was read anew. */
bool qp_streams_have_room(const qp_server *server, const qp_identity *identity)
{
    int32_t own = 0;

    for (qp_stream *stream = server->streams; stream != NULL; stream = stream->next) {
        own += memcmp(stream->conn->call.identity->hash, identity->hash, QP_SHA256_SIZE) == 0;
    }
    return own < server->options.token_tails_max &&
           server->stream_count < (size_t)server->options.tails_max;
}

/* This server has written to the session: its tails look at once. There are at most tails_max of
 * them, and a comparison of keys is cheaper than an index. */
void qp_streams_notify(qp_server *server, quipu_str key)
{
    for (qp_stream *stream = server->streams; stream != NULL; stream = stream->next) {
        if (quipu_str_eq(stream->key, key)) {
            stream_look(stream);
        }
    }
}

/* Whether the token of a stream still counts. The connection goes on with the newest table, so that
 * a search through the tokens is needed only after the file has changed. */
static bool stream_is_allowed(qp_conn *conn, qp_token_table *table)
{
    const qp_identity *identity = conn->call.identity;

    assert(identity != NULL && conn->held != NULL);
    if (conn->held == table) {
        return !qp_token_has_expired(identity);
    }
    identity = table != NULL ? qp_token_again(table, identity) : NULL;
    if (identity != NULL) {
        qp_token_release(conn->held);
        conn->held = qp_token_hold(table);
        conn->call.identity = identity;
    }
    return identity != NULL;
}

/* Ends the streams of tokens that were removed or have expired: at once, because they must not get
 * what is still to be sent. A token file that cannot be read removes no token, and the next tick
 * tries again; tokens still expire meanwhile. */
static void streams_check_tokens(qp_server *server)
{
    quipu_error error;
    quipu_status status = qp_token_refresh(&server->tokens, &error);

    const bool is_known = status != QUIPU_IO && status != QUIPU_NOMEM;

    if (status != QUIPU_OK && is_known) {
        QP_LOG(&server->log, QUIPU_LOG_ERROR, "server", "token_file", QP_LOG_STATUS(status));
    }
    for (qp_stream *stream = server->streams, *next; stream != NULL; stream = next) {
        qp_conn *conn = stream->conn;

        next = stream->next;
        if (!conn->is_gone &&
            !stream_is_allowed(conn, is_known ? server->tokens.table : conn->held)) {
            qp_conn_close(conn);
        }
    }
}

/* Follows the changes of the store (stream_follow()), ends streams whose token is gone, and sends a
 * comment to quiet ones, so that proxies do not close them. */
void qp_streams_tick(qp_server *server)
{
    int64_t now = qp_clock_ns();

    if (server->streams != NULL) {
        streams_check_tokens(server);
    }
    for (qp_stream *stream = server->streams; stream != NULL; stream = stream->next) {
        stream_follow(stream, now);
        if (now - stream->sent_ns >= STREAM_QUIET_MS * QP_NS_PER_MS &&
            stream->conn->state == QP_CONN_STREAMING) {
            stream->sent_ns = now;
            (void)bufferevent_write(stream->conn->bev, ":\n\n", 3);
        }
    }
}
