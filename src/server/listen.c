/* The listening socket (listen.h). An address that another machine could reach needs TLS, for
 * requests carry tokens, and a token on a network is everybody's; a token, so that a public server
 * is one that somebody meant; and a public URL, whose host is the only one that is answered.
 *
 * Owns: the socket until it is returned. Called by: quipu_server_start(), before any thread of the
 * server runs: umask() concerns the whole process for a moment. Locks: none. Holds on return: the
 * socket listens and does not block, and the server knows the address that a client can use, with
 * the port that the system chose for port 0; or nothing is open. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

/* Clients that the system may accept before the loop does; systems lower it to their own limit.
 * LISTEN_HOST_SIZE holds the longest IPv6 address with its NUL. */
#define LISTEN_BACKLOG 1024
#define LISTEN_HOST_SIZE 64

/* Closes the descriptor, and reports errno as it was. Another server on the same address is
 * QUIPU_EXISTS: the caller may want to ask that one. */
static quipu_status listen_fail(quipu_error *reterr, int fd, const char *what, int code)
{
    char reason[128] = "";

    if (fd >= 0) {
        (void)close(fd);
    }
    if (strerror_r(code, reason, sizeof(reason)) != 0) {
        (void)snprintf(reason, sizeof(reason), "error %d", code);
    }
    return qp_error_set(reterr, code == EADDRINUSE ? QUIPU_EXISTS : QUIPU_IO, "%s: %s", what,
                        reason);
}

/* CLOEXEC, so that programs which the host program starts do not keep the address busy. */
static int listen_socket(int family)
{
    int fd = socket(family, SOCK_STREAM, 0);

    if (fd >= 0 && (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* ---- TCP ------------------------------------------------------------------------------------- */

/* Splits "host:port"; the host of "[::1]:8420" is "::1".
 * The last colon separates the port. Names other than "localhost" are refused later: nothing is
 * resolved, because a name could mean another interface tomorrow. */
static bool listen_split(const char *address, char host[LISTEN_HOST_SIZE], unsigned *ret_port)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon != NULL ? (size_t)(colon - address) : 0;
    unsigned port = 0;
    size_t digits = 0;

    /* A colon in front, or none: there is no host. */
    if (n == 0) {
        return false;
    }
    if (address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    }
    if (n == 0 || n >= LISTEN_HOST_SIZE) {
        return false;
    }
    memcpy(host, address, n);
    host[n] = '\0';
    for (const char *p = colon + 1; *p != '\0'; p++, digits++) {
        if (*p < '0' || *p > '9' || digits == 5) {
            return false;
        }
        port = port * 10 + (unsigned)(*p - '0');
    }
    *ret_port = port;
    return digits > 0 && port <= 65535;
}

/* Fills in the address of an interface; false: the host is no number. *ret_public: other machines
 * could reach it.
 * All of 127.0.0.0/8 and ::1 are this machine; 0.0.0.0 and :: are every interface, and so public.
 * */
static bool listen_parse(const char *host, unsigned port, struct sockaddr_storage *ret_address,
                         socklen_t *ret_size, bool *ret_public)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};

    /* One address of the two: clients that try ::1 first go on with 127.0.0.1. */
    host = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(ret_address, &v4, sizeof(v4));
        *ret_size = sizeof(v4);
        *ret_public = ntohl(v4.sin_addr.s_addr) >> 24 != 127;
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(ret_address, &v6, sizeof(v6));
        *ret_size = sizeof(v6);
        *ret_public = !IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
        return true;
    }
    return false;
}

/* Whether a public address may be served.
 * Four conditions, each with an error that says what to do: TLS, a public name, a token, and no app
 * that is open without one. The tokens may be removed later; then every request gets 401. */
static quipu_status listen_check_public(const quipu_server *server, const char *address,
                                        quipu_error *reterr)
{
    if (server->tls == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s could be reached by other machines, and there is no TLS: give a "
                            "certificate and its key, or listen on 127.0.0.1 or a unix socket, "
                            "put a proxy with TLS before it, and name its address as the public "
                            "URL",
                            address);
    }
    if (server->public_host[0] == '\0') {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s could be reached by other machines: the public URL must say by "
                            "which name, for no other host is answered",
                            address);
    }
    if (server->tokens.table->count == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s could be reached by other machines, and there is no token: make "
                            "one first with \"quipu token new\"",
                            address);
    }
    if (server->adk_app[0] != '\0') {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s could be reached by other machines, and an app that is open needs "
                            "no token: listen on 127.0.0.1 or a unix socket",
                            address);
    }
    return QUIPU_OK;
}

/* The port that the system chose for port 0.
 * 0 when the system does not say, which happens to no socket that is bound. */
static unsigned listen_port(int fd)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (getsockname(fd, (struct sockaddr *)&bound, &size) != 0) {
        return 0;
    }
    memcpy(&v4, &bound, sizeof(v4));
    memcpy(&v6, &bound, sizeof(v6));
    return ntohs(bound.ss_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
}

/* SO_REUSEADDR: after a restart, connections of the server before may still be in TIME_WAIT. */
static quipu_status listen_tcp(quipu_server *server, const char *address, int *ret_fd,
                               quipu_error *reterr)
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t size = 0;
    char host[LISTEN_HOST_SIZE];
    unsigned port = 0;
    bool is_public = false;
    int on = 1;
    int fd;

    if (!listen_split(address, host, &port) ||
        !listen_parse(host, port, &bound, &size, &is_public)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s is no address: 127.0.0.1:8420, [::1]:8420 or unix:PATH", address);
    }
    /* Checked before the socket exists: a wrong set of options never opens a port, not for a
     * moment. */
    if (is_public) {
        quipu_status status = listen_check_public(server, address, reterr);

        if (status != QUIPU_OK) {
            return status;
        }
    }
    fd = listen_socket(bound.ss_family);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (const struct sockaddr *)&bound, size) != 0 || listen(fd, LISTEN_BACKLOG) != 0) {
        return listen_fail(reterr, fd, address, errno);
    }
    (void)snprintf(server->address, sizeof(server->address),
                   bound.ss_family == AF_INET6 ? "%s://[%s]:%u" : "%s://%s:%u",
                   server->tls != NULL ? "https" : "http", host, listen_port(fd));
    *ret_fd = fd;
    return QUIPU_OK;
}

/* ---- unix sockets ---------------------------------------------------------------------------- */

/* Removes a socket that nobody listens on: a server that was killed left it.
 * Only ECONNREFUSED shows that nobody listens; a file that is no socket is never removed. There is
 * no lock: of two servers that start at once beside a stale socket, one may remove what the other
 * has just bound, or finds it between its bind() and its listen(). */
static void listen_remove_stale(const struct sockaddr_un *bound)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct stat about;

    if (fd >= 0) {
        if (lstat(bound->sun_path, &about) == 0 && S_ISSOCK(about.st_mode) &&
            connect(fd, (const struct sockaddr *)bound, sizeof(*bound)) != 0 &&
            errno == ECONNREFUSED) {
            (void)unlink(bound->sun_path);
        }
        (void)close(fd);
    }
}

/* A socket of an earlier server that was killed is still in the folder, and bind() would fail: it
 * is removed when nobody answers on it. The mask gives the file its mode at its creation; a chmod()
 * afterwards would leave a moment in which others connect. */
static quipu_status listen_unix(quipu_server *server, const char *path, int *ret_fd,
                                quipu_error *reterr)
{
    struct sockaddr_un bound = {.sun_family = AF_UNIX};
    mode_t mask;
    int fd;
    int failed;

    if (path[0] == '\0' || strlen(path) >= sizeof(bound.sun_path)) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the path of a unix socket has 1 to %zu bytes",
                            sizeof(bound.sun_path) - 1);
    }
    memcpy(bound.sun_path, path, strlen(path));
    listen_remove_stale(&bound);
    fd = listen_socket(AF_UNIX);
    mask = umask(0177); /* its owner alone may connect */
    failed = fd < 0 || bind(fd, (const struct sockaddr *)&bound, sizeof(bound)) != 0 ||
             listen(fd, LISTEN_BACKLOG) != 0;
    (void)umask(mask);
    if (failed) {
        return listen_fail(reterr, fd, path, errno);
    }
    (void)snprintf(server->socket_path, sizeof(server->socket_path), "%s", path);
    (void)snprintf(server->address, sizeof(server->address), "unix:%s", path);
    *ret_fd = fd;
    return QUIPU_OK;
}

/* A path of this machine, or an address and a port; each function decides what its own may be. */
quipu_status qp_listen_open(quipu_server *server, const char *address, int *ret_fd,
                            quipu_error *reterr)
{
    return strncmp(address, "unix:", 5) == 0 ? listen_unix(server, address + 5, ret_fd, reterr)
                                             : listen_tcp(server, address, ret_fd, reterr);
}
