/* TLS (tls.h): the only file that knows OpenSSL. TLS 1.2 and newer, without renegotiation; the rest
 * are OpenSSL's defaults. Called on the loop's thread, but for qp_tls_open(). Owns the context; the
 * state of a connection belongs to its buffers.
 * Without OpenSSL in the build the functions exist and qp_tls_open() refuses: an operator who asks
 * for TLS gets an error and never plain HTTP. */
#include "server/tls.h"

#include "base/alloc.h"
#include "base/error.h"

#ifdef QP_SERVER_TLS

#include <sys/stat.h>

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

typedef struct qp_tls {
    SSL_CTX *context; /* the server's; SSL objects hold references */
} qp_tls;

/* Reports the last error of OpenSSL about a file, and clears the others.
 * The queue of errors is the thread's: what is left in it would be reported by a later handshake.
 * */
static quipu_status tls_refuse(const char *what, quipu_error *reterr)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return qp_error_set(reterr, QUIPU_INVALID, "%s cannot be used: %s", what,
                        reason != NULL ? reason : "it is no PEM file");
}

/* A key that every user can read is lost already, so that the server does not start with it. The
 * group may: Debian's certificates belong to a group of the servers that use them.
 * Checked by the mode alone; whether this process may read the file is found out by the read. */
static quipu_status tls_check_key(const char *key, quipu_error *reterr)
{
    struct stat about;

    if (stat(key, &about) != 0) {
        return qp_error_set(reterr, QUIPU_IO, "the key of the certificate cannot be read");
    }
    if ((about.st_mode & 07) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "every user may read the key of the certificate: chmod 600 it, and "
                            "get a new one");
    }
    return QUIPU_OK;
}

/* The chain, not the certificate alone: clients do not fetch what is between it and a root.
 * The files are read once, at the start: a certificate that is renewed needs a restart. Key and
 * certificate must belong together, or every handshake would fail later. */
static quipu_status tls_read(SSL_CTX *context, const char *certificate, const char *key,
                             quipu_error *reterr)
{
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) {
        return tls_refuse("the certificate", reterr);
    }
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return tls_refuse("the key of the certificate", reterr);
    }
    return QUIPU_OK;
}

/* On the caller's thread, before any connection exists: a wrong file fails the start of the server
 * and not a handshake. */
quipu_status qp_tls_open(const char *certificate, const char *key, qp_tls **ret_tls,
                         quipu_error *reterr)
{
    quipu_status status = tls_check_key(key, reterr);
    qp_tls *tls;

    if (status != QUIPU_OK) {
        return status;
    }
    tls = qp_calloc(1, sizeof(*tls));
    if (tls != NULL) {
        tls->context = SSL_CTX_new(TLS_server_method());
    }
    /* qp_tls_free() accepts both stages: NULL, and a struct without a context. */
    if (tls == NULL || tls->context == NULL ||
        SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1) {
        qp_tls_free(tls);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for TLS");
    }
    /* Renegotiation lets a client make the server compute at will; compression leaks lengths. */
    (void)SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    status = tls_read(tls->context, certificate, key, reterr);
    if (status != QUIPU_OK) {
        qp_tls_free(tls);
        return status;
    }
    *ret_tls = tls;
    return QUIPU_OK;
}

/* Connections hold references of their own to the context. */
void qp_tls_free(qp_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        qp_free(tls);
    }
}

/* Returns before the handshake, which the loop goes on with as bytes come. */
struct bufferevent *qp_tls_accept(qp_tls *tls, struct event_base *base, int fd)
{
    SSL *ssl = SSL_new(tls->context);
    struct bufferevent *bev =
        ssl != NULL ? bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                                     BEV_OPT_CLOSE_ON_FREE)
                    : NULL;

    /* With BEV_OPT_CLOSE_ON_FREE libevent frees `ssl` where it fails, but not the descriptor. */
    if (bev == NULL) {
        return NULL;
    }
    /* Requests have their own framing: a client that closes without a word has closed. */
    bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

/* One way: the client's own end is not waited for, because it may never come. */
void qp_tls_end(struct bufferevent *bev)
{
    /* Sends "close notify", by which clients distinguish an end from a cut. */
    (void)SSL_shutdown(bufferevent_openssl_get_ssl(bev));
    ERR_clear_error();
}

#else

quipu_status qp_tls_open(const char *certificate, const char *key, struct qp_tls **ret_tls,
                         quipu_error *reterr)
{
    (void)certificate;
    (void)key;
    (void)ret_tls;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "this build has no TLS: libevent_openssl was missing");
}

void qp_tls_free(struct qp_tls *tls)
{
    (void)tls;
}

struct bufferevent *qp_tls_accept(struct qp_tls *tls, struct event_base *base, int fd)
{
    (void)tls;
    (void)base;
    (void)fd;
    return NULL;
}

void qp_tls_end(struct bufferevent *bev)
{
    (void)bev;
}

#endif
