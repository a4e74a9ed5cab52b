/* A reader of HTTP/1.1 requests from a stream of bytes that arrives in pieces. Pure: no socket, no
 * clock. However the stream is cut, the requests and the refusal are the same.
 *
 *   qp_http_reader_init(&reader, QP_HTTP_BODY_MAX);
 *   switch (qp_http_read(&reader, bytes, &used)) {   `used` bytes are consumed
 *   case QP_HTTP_MORE:     all of them were; give it the next ones
 *   case QP_HTTP_BODY_FOLLOWS:  all of reader.request but the body is known; refuse it now, before
 *                          a byte of the body is kept, or give it the bytes behind `used`
 *   case QP_HTTP_REQUEST:  reader.request is complete; answer it, then qp_http_reader_next();
 *                          bytes behind `used` belong to the next request (pipelining)
 *   case QP_HTTP_REFUSED:  answer reader.refusal and close: where the next request begins is
 *                          unknown
 *   }
 *   qp_http_reader_free(&reader);
 */
#ifndef QP_HTTP_READER_H
#define QP_HTTP_READER_H

#include <stdint.h>

#include "base/buf.h"
#include "http/request.h"

typedef enum qp_http_result {
    QP_HTTP_MORE,
    QP_HTTP_BODY_FOLLOWS, /* once for a request that has a body */
    QP_HTTP_REQUEST,
    QP_HTTP_REFUSED
} qp_http_result;

/* Where the reader stands; reader.c draws the transitions. */
typedef enum qp_http_state {
    QP_HTTP_IN_HEAD,
    QP_HTTP_IN_BODY, /* of a stated length */
    QP_HTTP_CHUNK_SIZE,
    QP_HTTP_CHUNK_SIZE_LF,
    QP_HTTP_CHUNK_DATA,
    QP_HTTP_CHUNK_DATA_CR,
    QP_HTTP_CHUNK_DATA_LF,
    QP_HTTP_CHUNK_END_CR, /* behind the chunk of size 0 */
    QP_HTTP_CHUNK_END_LF,
    QP_HTTP_COMPLETE,
    QP_HTTP_FAILED,
} qp_http_state;

typedef struct qp_http_reader {
    qp_http_state state;
    size_t body_max;
    qp_buf head;
    qp_buf body;
    size_t line_size;    /* of the head's current line */
    bool in_first_line;  /* which is the request line */
    bool after_cr;       /* only LF may follow */
    uint64_t body_left;  /* bytes that the body, or the current chunk, still has */
    size_t chunk_digits; /* of the current chunk's size, so far */
    qp_http_request request;
    qp_http_refusal refusal;
} qp_http_reader;

/* `body_max` is at most QP_HTTP_BODY_CAP. Allocates nothing. */
void qp_http_reader_init(qp_http_reader *reader, size_t body_max);

/* NULL is fine. */
void qp_http_reader_free(qp_http_reader *reader);

/* Reads from `bytes` up to the end of a head that a body follows, or of the first request, and says
 * in *ret_used how many it consumed. After REFUSED every further call returns REFUSED. Must not be
 * called between REQUEST and qp_http_reader_next(). */
qp_http_result qp_http_read(qp_http_reader *reader, quipu_str bytes, size_t *ret_used);

/* Ends the request that was read; its texts are gone. */
void qp_http_reader_next(qp_http_reader *reader);

/* Whether no byte of a request has arrived: a connection may be closed without loss. */
bool qp_http_reader_is_idle(const qp_http_reader *reader);

/* Whether the client waits for "100 Continue": its head is accepted and its body has not begun. */
bool qp_http_reader_awaits_continue(const qp_http_reader *reader);

#endif
