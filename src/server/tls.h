/* TLS by OpenSSL, through libevent's own filter. A build without libevent_openssl has none: then
 * qp_tls_open() refuses, and the other functions are never called. */
#ifndef QP_SERVER_TLS_H
#define QP_SERVER_TLS_H

#include <quipu/base.h>

struct bufferevent;
struct event_base;
struct qp_tls;

/* Reads the certificate chain and the key, both PEM files. QUIPU_MISUSE: others may read the key;
 * QUIPU_INVALID: OpenSSL refuses one, or they do not belong together; QUIPU_IO; QUIPU_NOMEM;
 * QUIPU_UNSUPPORTED: a build without TLS. */
QUIPU_MUST_USE quipu_status qp_tls_open(const char *certificate, const char *key,
                                        struct qp_tls **ret_tls, quipu_error *reterr);

/* NULL is fine. */
void qp_tls_free(struct qp_tls *tls);

/* A connection's buffers, which begin with the handshake; NULL: out of memory, and the descriptor
 * stays the caller's. */
struct bufferevent *qp_tls_accept(struct qp_tls *tls, struct event_base *base, int fd);

/* Says that no more is sent, so that the client can distinguish an end from a cut. */
void qp_tls_end(struct bufferevent *bev);

#endif
