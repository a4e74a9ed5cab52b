/* A connection: its reader, the call that it makes, and where it stands. For conn.c and stream.c;
 * only the loop's thread touches one, but for the call while a worker runs it.
 *
 *   READING ──request──▶ WAITING ──done──▶ WRITING ──sent──▶ READING, or LINGERING
 *      │                    └──done, a stream──▶ STREAMING ──ended──▶ LINGERING
 *      └──refused──▶ WRITING ──sent──▶ LINGERING ──the client closed, or 2 s──▶ gone
 */
#ifndef QP_SERVER_CONN_H
#define QP_SERVER_CONN_H

#include "http/reader.h"
#include "server/server.h"

struct bufferevent;

typedef enum qp_conn_state {
    QP_CONN_READING,
    QP_CONN_WAITING, /* for a worker */
    QP_CONN_WRITING,
    QP_CONN_STREAMING,
    QP_CONN_LINGERING /* all is sent; what the client still sends is dropped */
} qp_conn_state;

/* The head of an answer. */
typedef struct qp_head {
    char text[1024];
    size_t n;
} qp_head;

typedef struct qp_conn {
    qp_job job; /* of the call */
    struct qp_conn *next;
    struct qp_conn *before;
    qp_server *server;
    struct bufferevent *bev;
    struct event *timer;
    int fd; /* bev's */
    qp_conn_state state;
    bool is_gone;            /* the client left while a worker was at it: freed when that is done */
    atomic_bool has_left;    /* the same for the worker, which does not begin then */
    atomic_bool is_answered; /* a worker sends: a client that leaves may have its answer */
    quipu_cancel *cancel;    /* of the call that a worker is at */
    bool closes;             /* behind this answer */
    bool may_send;           /* the worker may give its answer to the socket itself... */
    qp_head *head;           /* ...made this head of it, in the call's arena; NULL: none... */
    size_t sent;             /* ...and the socket took so many bytes */
    bool is_extra;           /* beyond the limit: its request is answered 503 */
    bool is_checked;         /* the request's head: host, route, token and parameters are right */
    bool has_continued;
    bool is_timing_request; /* the timer counts the request, not the idle time */
    int64_t begun_ns;       /* when the request was complete, or refused */
    qp_http_reader reader;
    qp_call call;
    qp_token_table *held; /* the identity's */
    struct qp_stream *stream;
} qp_conn;

/* Changes the state; asserts that the picture above has the arrow. On the loop's thread. */
void qp_conn_move(qp_conn *conn, qp_conn_state to);

/* Writes the head of the call's answer. `size` is the body's, -1: it has no end. On any thread. */
void qp_conn_head(const qp_conn *conn, int64_t size, qp_head *ret_head);

/* Ends a connection once its output is sent. */
void qp_conn_finish(qp_conn *conn);

/* Frees a connection, or marks it as gone while a worker is at it. */
void qp_conn_close(qp_conn *conn);

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Goes on with the call's tail as a stream. false: without memory. */
QUIPU_MUST_USE bool qp_stream_begin(qp_conn *conn);

/* Output was sent: a stream that waited for that goes on. */
void qp_stream_sent(struct qp_stream *stream);

/* Ends a stream; false: a worker is at it, and the connection is to be freed by
 * qp_conn_close() when that is done. */
QUIPU_MUST_USE bool qp_stream_free(struct qp_stream *stream);

#endif
