/* One HTTP exchange over libcurl: sends a body, delivers the answer as it arrives, with a deadline,
 * a cancel flag and three timeouts. Retries are the caller's. */
#ifndef QP_NET_HTTP_H
#define QP_NET_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include <quipu/store.h>

#include "base/thread.h"

#define QP_HTTP_NEVER INT64_MAX
#define QP_HTTP_IDLE_MAX 8 /* connections that are kept for later */

struct qp_http_line;

/* Connections that are kept, shared by all threads of their owner. */
typedef struct qp_http_pool {
    qp_mutex mutex;
    struct qp_http_line *idle; /* a list */
    size_t count;
    const char *ca_file;   /* or NULL; the owner's */
    bool direct;           /* no proxy: the server is on this machine */
    const char *unix_path; /* of the socket to connect to; or NULL; the owner's */
} qp_http_pool;

QUIPU_MUST_USE quipu_status qp_http_pool_init(qp_http_pool *pool, quipu_error *reterr);
void qp_http_pool_done(qp_http_pool *pool);

/* One exchange. Everything is borrowed until qp_http_run() returns. */
typedef struct qp_http_request {
    const char *url;
    const char *const *headers;
    size_t header_count;
    quipu_str body;     /* absent: GET; else POST... */
    const char *method; /* ...unless this names another one; or NULL */
    int64_t deadline_ns;
    quipu_cancel *cancel;
    int32_t connect_ms; /* -1: none, and so are the next two */
    int32_t first_byte_ms;
    int32_t idle_ms;

    /* Receives the bytes of the answer, on the calling thread; an error status ends the
     * exchange. */
    quipu_status (*on_bytes)(void *ctx, int http_status, quipu_str bytes, quipu_error *reterr);
    void *ctx;
} qp_http_request;

/* The facts of the answer besides its body. */
typedef struct qp_http_answer {
    int http_status;        /* 0: no answer came */
    int64_t retry_after_ms; /* from the server; -1: none */
    bool bytes;             /* some of the body arrived */
    bool was_sent;          /* the server may have seen the request */
} qp_http_answer;

/* QUIPU_OK whatever the HTTP status; QUIPU_CANCELLED, QUIPU_BUSY (the deadline), QUIPU_IO,
 * QUIPU_NOMEM, or the status of on_bytes. *ret_answer is filled on failure, too. */
QUIPU_MUST_USE quipu_status qp_http_run(qp_http_pool *pool, const qp_http_request *request,
                                        qp_http_answer *ret_answer, quipu_error *reterr);

/* The library's version, with that of its TLS. Loads it. */
const char *qp_http_library(void);

/* The value of a Retry-After header in milliseconds: seconds, or a date; -1 for anything else. */
int64_t qp_http_retry_after(quipu_str value);

#endif
