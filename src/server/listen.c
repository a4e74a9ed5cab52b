/* The listening socket (listen.h). An address that another machine could reach needs TLS, for
 * requests carry tokens, and a token on a network is everybody's; a token, so that a public server
 * is one that somebody meant; and a public URL, whose host is the only one that is answered.
 *
 * A unix socket has a lock file beside it, which its server holds from before the first look at the
 * path until after the socket is removed:
 *
 *   lock ─▶ is it stale? ─▶ unlink ─▶ bind ─▶ listen ─▶ ... serves ... ─▶ unlink ─▶ unlock
 *   └ held by another: QUIPU_EXISTS                      a kill ─▶ the system unlocks
 *
 * So no server removes a path that another has just bound, at its start or at its end.
 *
 * Owns: the socket until it is returned. Called by: the start and the stop of a server, on any
 * thread. Locks: the lock file; where umask() is needed, listen_mutex. Holds on return: the
 * socket listens and does not block, and the server knows the address that a client can use, with
 * the port that the system chose for port 0; or nothing is open, and what was locked is released by
 * qp_listen_close(). */
#include "base/port.h"

#include "server/listen.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

/* Clients that the system may accept before the loop does; systems lower it to their own limit.
 * LISTEN_HOST_SIZE holds the longest IPv6 address with its NUL. */
#define LISTEN_BACKLOG 1024
#define LISTEN_HOST_SIZE 64
#define LISTEN_LOCK_SIZE (QP_SERVER_PATH_MAX + sizeof(".lock"))

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

/* Fills in the address of an interface; false: the host is not a number. *ret_public: other
 * machines could reach it. All of 127.0.0.0/8 and ::1 are this machine; 0.0.0.0 and :: are every
 * interface, and so public.
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
static quipu_status listen_check_public(const qp_server *server, const char *address,
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
static quipu_status listen_tcp(qp_server *server, const char *address, int *ret_fd,
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

/* Whether the descriptor is the file that the path leads to now: the server before may have removed
 * it between our open() and our flock(). A lock on a file without a name excludes nobody. */
static bool listen_is_at(int fd, const char *path)
{
    struct stat held;
    struct stat named;

    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

/* Takes the lock of a socket, without waiting: its holder serves there. flock() and not fcntl():
 * two servers of one process exclude each other, too. */
static quipu_status listen_lock(qp_server *server, const char *path, quipu_error *reterr)
{
    char lock[LISTEN_LOCK_SIZE];
    int fd;

    assert(server->lock_fd < 0);
    (void)snprintf(lock, sizeof(lock), "%s.lock", path);
    for (;;) {
        fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            return listen_fail(reterr, fd, lock, errno);
        }
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            const int code = errno == EWOULDBLOCK ? EADDRINUSE : errno;

            return listen_fail(reterr, fd, path, code);
        }
        if (listen_is_at(fd, lock)) {
            server->lock_fd = fd;
            (void)snprintf(server->socket_path, sizeof(server->socket_path), "%s", path);
            return QUIPU_OK;
        }
        (void)close(fd);
    }
}

/* Removes a socket that nobody listens on: a server that was killed left it. Only ECONNREFUSED
 * shows that no server listens; a file that is not a socket is never removed. The caller holds the
 * lock, so that no other server is between its bind() and its listen(). The socket does not block:
 * a server that is stopped, and whose backlog is full, would keep a connect() for ever. */
static void listen_remove_stale(const struct sockaddr_un *bound)
{
    const int fd = listen_socket(AF_UNIX);
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

/* Binds so that the socket's owner alone may connect, from its first moment: a chmod() afterwards
 * would leave one in which others do. */
static bool listen_bind_private(int fd, const struct sockaddr_un *bound)
{
#if QP_LINUX
    /* A socket's mode goes to the file that bind() makes; the mask of the process stays. */
    return fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)bound, sizeof(*bound)) == 0;
#else
    static qp_mutex listen_mutex = QP_MUTEX_INIT; /* two masks at once would not both come back */
    mode_t mask;
    bool is_bound;

    qp_mutex_lock(&listen_mutex);
    mask = umask(0177);
    is_bound = bind(fd, (const struct sockaddr *)bound, sizeof(*bound)) == 0;
    (void)umask(mask);
    qp_mutex_unlock(&listen_mutex);
    return is_bound;
#endif
}

/* A socket of an earlier server that was killed is still in the folder, and bind() would fail: it
 * is removed when nobody answers on it. The path is the server's to remove from its bind() on,
 * also when listen() fails. */
static quipu_status listen_unix(qp_server *server, const char *path, int *ret_fd,
                                quipu_error *reterr)
{
    struct sockaddr_un bound = {.sun_family = AF_UNIX};
    quipu_status status;
    int fd;

    if (path[0] == '\0' || strlen(path) >= sizeof(bound.sun_path)) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the path of a unix socket has 1 to %zu bytes",
                            sizeof(bound.sun_path) - 1);
    }
    memcpy(bound.sun_path, path, strlen(path));
    status = listen_lock(server, path, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    listen_remove_stale(&bound);
    fd = listen_socket(AF_UNIX);
    if (fd < 0 || !listen_bind_private(fd, &bound)) {
        return listen_fail(reterr, fd, path, errno);
    }
    server->is_bound = true;
    if (listen(fd, LISTEN_BACKLOG) != 0) {
        return listen_fail(reterr, fd, path, errno);
    }
    (void)snprintf(server->address, sizeof(server->address), "unix:%s", path);
    *ret_fd = fd;
    return QUIPU_OK;
}

/* The lock file goes while it is locked: the next server makes a new one, and listen_is_at() shows
 * one that waits at the old one that it is gone. flock() itself ends the lock: a child that the
 * program forked meanwhile shares the descriptor. */
void qp_listen_close(qp_server *server)
{
    char lock[LISTEN_LOCK_SIZE];

    if (server->lock_fd < 0) {
        return;
    }
    if (server->is_bound) {
        (void)unlink(server->socket_path);
    }
    (void)snprintf(lock, sizeof(lock), "%s.lock", server->socket_path);
    (void)unlink(lock);
    (void)flock(server->lock_fd, LOCK_UN);
    (void)close(server->lock_fd);
    server->lock_fd = -1;
}

/* A path of this machine, or an address and a port; each function decides what its own may be. */
quipu_status qp_listen_open(qp_server *server, const char *address, int *ret_fd,
                            quipu_error *reterr)
{
    return strncmp(address, "unix:", 5) == 0 ? listen_unix(server, address + 5, ret_fd, reterr)
                                             : listen_tcp(server, address, ret_fd, reterr);
}
