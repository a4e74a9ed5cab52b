/* Where a server listens: an address that only this machine reaches. */
#ifndef QP_SERVER_LISTEN_H
#define QP_SERVER_LISTEN_H

#include "server/server.h"

/* Opens the listening socket of an address: "127.0.0.1:8420", "[::1]:0", "localhost:8420" or
 * "unix:/run/quipu.sock". Sets address and socket_path of the server. QUIPU_MISUSE: the address has
 * another form, or other machines could reach it. */
QUIPU_MUST_USE quipu_status qp_listen_open(qp_server *server, const char *address, int *ret_fd,
                                           quipu_error *reterr);

/* Removes a unix socket that qp_listen_open() bound, and gives its path back to other servers; the
 * socket is closed already. Nothing to do for another address, or for a second call. */
void qp_listen_close(qp_server *server);

#endif
