/* Opening a server as a store: its address, its token, and whether both are right (store/remote.h).
 * The token comes from a file or the environment, never from the address, which others may read.
 *
 * Owns: qp_remote_server, until its close. Called by: src/front. Locks: none; quipu_open() runs on
 * one thread, and the server's struct is constant afterwards but for the pool of connections, which
 * has its own lock. A failure leaves nothing open: open_close() undoes each step. */
#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "base/thread.h"
#include "remote/remote.h"

#define OPEN_UNIX "unix:"
#define OPEN_HOST_MAX 64 /* of a host that may be on this machine, with its NUL */
#define OPEN_TOKEN_FILE "QUIPU_TOKEN_FILE"
#define OPEN_TOKEN "QUIPU_TOKEN"
#define OPEN_CA_FILE "QUIPU_CA_FILE"
#define OPEN_AUTH "Authorization: Bearer "

/* ---- the token ------------------------------------------------------------------------------- */

/* Reads the first line of a file that nobody else may read. A file that others may read is refused:
 * its token may be known to them already. A line that does not fit is cut, and the server refuses
 * the rest as an unknown token. The mode is that of the descriptor: a name could be given to
 * another file in between. Only the first line counts, so that an editor's newline at its end does
 * no harm. */
static quipu_status open_token_file(const char *path, char text[QP_REMOTE_TOKEN_MAX],
                                    quipu_error *reterr)
{
    struct stat about;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &about) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return qp_error_set(reterr, QUIPU_IO, "the file of " OPEN_TOKEN_FILE " cannot be read");
    }
    if ((about.st_mode & 077) != 0) {
        (void)close(fd);
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "others may read the file of " OPEN_TOKEN_FILE ": chmod 600 it");
    }
    n = read(fd, text, QP_REMOTE_TOKEN_MAX - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    return QUIPU_OK;
}

/* The header with the token. Without one, the server says what is missing.
 * The file comes before the variable. Control characters are refused: they could end the header. */
static quipu_status open_auth(qp_remote_server *server, quipu_error *reterr)
{
    const char *file = getenv(OPEN_TOKEN_FILE);
    const char *given = getenv(OPEN_TOKEN);
    char text[QP_REMOTE_TOKEN_MAX] = "";
    quipu_status status = QUIPU_OK;
    size_t n;

    if (file != NULL && file[0] != '\0') {
        status = open_token_file(file, text, reterr);
        given = text;
    }
    n = given != NULL ? strlen(given) : 0;
    if (status != QUIPU_OK || n == 0) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        /* The length counts for QUIPU_TOKEN alone: a file's token fits. */
        if (given[i] <= ' ' || given[i] > '~' || n >= QP_REMOTE_TOKEN_MAX) {
            return qp_error_set(reterr, QUIPU_MISUSE, "the token is no token of quipu");
        }
    }
    server->auth = qp_malloc(sizeof(OPEN_AUTH) + n);
    if (server->auth == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    memcpy(server->auth, OPEN_AUTH, sizeof(OPEN_AUTH) - 1);
    memcpy(server->auth + sizeof(OPEN_AUTH) - 1, given, n + 1);
    return QUIPU_OK;
}

/* ---- the certificates ------------------------------------------------------------------------ */

/* Copied: the environment may change while the store is open.
 * NULL: the certificates of the system. */
static quipu_status open_ca_file(qp_remote_server *server, quipu_error *reterr)
{
    const char *given = getenv(OPEN_CA_FILE);
    quipu_str copy = QP_STR_ABSENT;

    if (given != NULL && quipu_arena_copy(&server->arena, quipu_cstr(given), &copy) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    server->pool.ca_file = copy.p;
    return QUIPU_OK;
}

/* ---- the address ----------------------------------------------------------------------------- */

/* Whether "host:port" is on this machine by its spelling: names that begin alike are not.
 * `host` is not ended by a NUL at `size`. Nothing is resolved: a name could point elsewhere later.
 * */
static bool open_is_loopback(const char *host, size_t size)
{
    struct in_addr address;
    char name[OPEN_HOST_MAX];
    /* The colons of an address of IPv6 stand between brackets. */
    const size_t skip = host[0] == '[' ? strcspn(host, "]") : 0;
    size_t n = skip + strcspn(host + skip, ":");

    n = n < size ? n : size;
    if (n >= sizeof(name)) {
        return false;
    }
    memcpy(name, host, n);
    name[n] = '\0';
    return strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
           (inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* "unix:/path" or "http(s)://host[:port]". Neither a user nor a path: both would end up in logs.
 * The port, where there is one, stays a part of it. A slash at the end is dropped, because paths
 * begin with one. For a unix socket the host is only a name: the server answers for "localhost". */
static quipu_status open_address(qp_remote_server *server, const char *uri, quipu_error *reterr)
{
    const char *host = strstr(uri, "://");
    size_t n = strlen(uri);
    quipu_str copy = QP_STR_ABSENT;

    if (strncmp(uri, OPEN_UNIX, strlen(OPEN_UNIX)) == 0) {
        const char *path = uri + strlen(OPEN_UNIX);

        if (path[0] == '\0') {
            return qp_error_set(reterr, QUIPU_MISUSE, "unix: needs the path of a socket");
        }
        if (quipu_arena_copy(&server->arena, quipu_cstr(path), &copy) != QUIPU_OK) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
        }
        server->pool.unix_path = copy.p;
        server->pool.direct = true;
        server->base = "http://localhost";
        return QUIPU_OK;
    }
    assert(host != NULL);
    while (n > 0 && uri[n - 1] == '/') {
        n--;
    }
    host += 3;
    if (uri + n <= host || strcspn(host, "/?#@ \t") < n - (size_t)(host - uri)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a server's address is http://host:port or https://host:port; the "
                            "token comes from " OPEN_TOKEN_FILE " or " OPEN_TOKEN);
    }
    if (quipu_arena_copy(&server->arena, (quipu_str){uri, n}, &copy) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    server->base = copy.p;
    /* `direct`: no proxy of the environment is asked for addresses of this machine. */
    server->pool.direct = open_is_loopback(host, n - (size_t)(host - uri));
    return QUIPU_OK;
}

/* A token in clear text is for this machine alone.
 * Without a token there is nothing to show, and the server decides what it answers. */
static quipu_status open_check_clear(const qp_remote_server *server, quipu_error *reterr)
{
    if (server->auth != NULL && !server->pool.direct && strncmp(server->base, "http:", 5) == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "http:// would show the token to the network: use https://, or a "
                            "server of this machine");
    }
    return QUIPU_OK;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* The token is overwritten before its memory is given back: it would otherwise stay readable in a
 * dump of the process for as long as nobody takes the block.
 * No call may be under way: the pool is freed without its lock. */
static void open_close(void *ctx)
{
    qp_remote_server *server = ctx;

    qp_http_pool_done(&server->pool);
    if (server->auth != NULL) {
        memset(server->auth, 0, strlen(server->auth));
        qp_free(server->auth);
    }
    quipu_arena_free(&server->arena);
    qp_free(server);
}

/* Which members a session has is asked once, from the same table as the server's own: a field that
 * is added to the schema travels without a line here.
 * Members that this version lacks are ignored in answers, and cannot be sent. */
static quipu_status open_tables(qp_remote_server *server, quipu_error *reterr)
{
    quipu_status status =
        qp_fields_read(quipu_field_get, "quipu_session_info", &server->info, reterr);

    if (status == QUIPU_OK) {
        status = qp_fields_read(quipu_field_get, "quipu_session_new", &server->fresh, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_fields_read(quipu_field_get, "quipu_session_patch", &server->patch, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_fields_read(quipu_field_get, "quipu_memory", &server->memory, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_fields_read(quipu_field_get, "quipu_artifact", &server->artifact, reterr);
    }
    return status;
}

/* Asks who the token is: a wrong address or token shows here, not in the first call.
 * The deadline is that of quipu_open(). A token that only writes fails here: the route needs the
 * right to read. */
static quipu_status open_greet(qp_remote_server *server, const quipu_open_options *options,
                               quipu_error *reterr)
{
    const quipu_str me[] = {QUIPU_STR("me")};
    const qp_call call = {.name = "quipu_open",
                          .deadline_ns = options->deadline_ms < 0
                                             ? QP_NEVER
                                             : qp_clock_ns() + options->deadline_ms * QP_NS_PER_MS};
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, server, &call, "GET", me, 1);
    ask.once = true; /* nobody may be there */
    status = qp_remote_run(&ask, reterr);
    qp_remote_end(&ask);
    return status;
}

/* Each step sees what the ones before it set; the first failure ends them all, and open_close()
 * takes a server in any state between. Opening asks the server once, so that an address or a token
 * that is wrong is reported by quipu_open(). */
quipu_status qp_remote_open(const char *uri, const quipu_open_options *options,
                            qp_remote *ret_remote, quipu_error *reterr)
{
    qp_remote_server *server = qp_calloc(1, sizeof(*server));
    quipu_status status;

    if (server == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    status = qp_http_pool_init(&server->pool, reterr);
    if (status != QUIPU_OK) {
        qp_free(server);
        return status;
    }
    status = open_ca_file(server, reterr);
    status = status == QUIPU_OK ? open_address(server, uri, reterr) : status;
    status = status == QUIPU_OK ? open_auth(server, reterr) : status;
    status = status == QUIPU_OK ? open_check_clear(server, reterr) : status;
    status = status == QUIPU_OK ? open_tables(server, reterr) : status;
    status = status == QUIPU_OK ? open_greet(server, options, reterr) : status;
    if (status != QUIPU_OK) {
        open_close(server);
        return status;
    }
    /* A function that is missing here would be NULL in the store's table. */
    *ret_remote = (qp_remote){.ctx = server,
                              .close = open_close,
                              .get = qp_remote_get,
                              .create = qp_remote_create,
                              .fork = qp_remote_fork,
                              .update = qp_remote_update,
                              .remove = qp_remote_remove,
                              .append = qp_remote_append,
                              .list = qp_remote_list,
                              .find = qp_remote_find,
                              .user_state = qp_remote_user_state,
                              .window = qp_remote_window,
                              .search = qp_remote_search,
                              .recall = qp_remote_recall,
                              .dump = qp_remote_dump,
                              .artifact_get = qp_remote_artifact_get,
                              .artifact_find = qp_remote_artifact_find,
                              .artifact_save = qp_remote_artifact_save,
                              .artifact_remove = qp_remote_artifact_remove,
                              .usage = qp_remote_usage,
                              .compact = qp_remote_compact,
                              .uncompact = qp_remote_uncompact,
                              .prune = qp_remote_prune,
                              .feed = qp_remote_feed,
                              .stats = qp_remote_stats,
                              .memory_find = qp_remote_memory_find,
                              .memory_save = qp_remote_memory_save,
                              .memory_update = qp_remote_memory_update,
                              .memory_remove = qp_remote_memory_remove,
                              .memory_status = qp_remote_memory_status,
                              .context = qp_remote_context};
    return QUIPU_OK;
}
