/* Checks whether a request may be answered: the host that it names, the page it comes from, and its
 * token. Runs on the loop's thread before a request reaches the queue, and before its body is read,
 * so that nobody without a token can fill either.
 *
 * Owns: nothing; the table of tokens is the server's, and a call holds its reference. Called by:
 * conn_check(). Locks: none, the table is replaced by the loop alone. Holds on return: the call has
 * the identity that its route needs, or its answer says why not (401: none, 403: not this one).
 *
 * Why the host is checked: a page of another site can make a browser send requests to this address
 * under the name of that site (DNS rebinding); the name gives it away. */
#include <assert.h>
#include <string.h>

#include "base/str.h"
#include "server/server.h"

/* ---- host and origin ------------------------------------------------------------------------- */

/* Whether a host is this name, alone or with a port: "localhost", "[::1]:8420". */
static bool auth_host_is(quipu_str host, const char *name)
{
    const size_t n = strlen(name);
    size_t digits = 0;

    if (host.n < n || memcmp(host.p, name, n) != 0) {
        return false;
    }
    while (n + 1 + digits < host.n && host.p[n + 1 + digits] >= '0' &&
           host.p[n + 1 + digits] <= '9') {
        digits++;
    }
    return host.n == n || (host.p[n] == ':' && digits > 0 && host.n == n + 1 + digits);
}

/* A page of another site may reach this server by a name that it points to a loopback address (DNS
 * rebinding). Such a name is in the Host header: only our own names pass. */
static bool auth_host_is_ours(const qp_server *server, quipu_str host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    if (host.n == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (auth_host_is(host, names[i])) {
            return true;
        }
    }
    return server->public_host[0] != '\0' && quipu_str_eq(host, quipu_cstr(server->public_host));
}

/* "http://host" or "https://host" of one of our hosts. Pages of no origin ("null") are foreign. */
static bool auth_origin_is_ours(const qp_server *server, quipu_str origin)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t n = strlen(schemes[i]);

        if (origin.n > n && memcmp(origin.p, schemes[i], n) == 0) {
            return auth_host_is_ours(server, (quipu_str){origin.p + n, origin.n - n});
        }
    }
    return false;
}

/* A request without an origin comes from a program, not from a page. */
bool qp_auth_origin(const qp_server *server, qp_call *call)
{
    quipu_str origin = qp_http_header(call->request, "origin");

    if (!auth_host_is_ours(server, call->request->host)) {
        qp_reply_error(&call->answer, 403, "MISUSE",
                       "this server does not answer for that host: --public-url names one");
        return false;
    }
    if (origin.p != NULL && !auth_origin_is_ours(server, origin)) {
        qp_reply_error(&call->answer, 403, "MISUSE", "pages of other sites may not ask");
        return false;
    }
    return true;
}

/* ---- token ----------------------------------------------------------------------------------- */

/* The token of "Authorization: Bearer ...", or the absent text. */
static quipu_str auth_bearer(const qp_http_request *request)
{
    static const char scheme[] = "bearer ";
    quipu_str value = qp_http_header(request, "authorization");
    size_t n = sizeof(scheme) - 1;

    /* The scheme is compared without regard to case, as HTTP asks; the token itself with it. */
    for (size_t i = 0; i < n; i++) {
        char c = i < value.n ? value.p[i] : '\0';

        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != scheme[i]) {
            return QP_STR_ABSENT;
        }
    }
    return (quipu_str){value.p + n, value.n - n};
}

/* The right that an identity lacks for a need; NULL when it has all. */
static const char *auth_lack(const qp_identity *identity, qp_need need)
{
    uint32_t verb = need == QP_NEED_WRITE ? QUIPU_ACCESS_TOKEN_WRITE : QUIPU_ACCESS_TOKEN_READ;

    if ((identity->verbs & verb) == 0) {
        return need == QP_NEED_WRITE ? "this token may not write" : "this token may not read";
    }
    if (need == QP_NEED_WHOLE && (identity->app_name.p != NULL || identity->user_id.p != NULL)) {
        return "this needs a token of the whole store";
    }
    return NULL;
}

/* ADK's clients send no token: one app may be open to them, by its own routes alone. */
static bool auth_is_open(const qp_server *server, const qp_call *call)
{
    const quipu_str open = server->adk_identity.app_name;

    return open.n > 0 && qp_route_is_adk(call->route) &&
           qp_http_header(call->request, "authorization").p == NULL &&
           (call->path[0].p == NULL || quipu_str_eq(call->path[0], open));
}

/* The table is read again when the file has changed. After a failure nobody gets in; one that may
 * pass (no memory, no descriptor) is followed by another look with the next request, so that it
 * locks nobody out for longer. */
bool qp_auth_token(qp_server *server, qp_call *call, qp_token_table **ret_held)
{
    quipu_str token = auth_bearer(call->request);
    const qp_identity *identity = NULL;
    quipu_error error;
    quipu_status status;
    const char *lack;

    assert(call->route != NULL);
    if (call->route->need == QP_NEED_NOTHING) {
        return true;
    }
    /* Only a request without a token gets the open app's rights; with one, the token's count. */
    if (auth_is_open(server, call)) {
        call->identity = &server->adk_identity;
        return true;
    }
    status = qp_token_refresh(&server->tokens, &error);
    if (status != QUIPU_OK) {
        QP_LOG(&server->log, QUIPU_LOG_ERROR, "server", "token_file", QP_LOG_STATUS(status));
    }
    if (server->tokens.table != NULL && token.n > 0) {
        /* One answer for a token that is missing, unknown, expired or another tenant's: 401 does
         * not say which, so that guesses learn nothing. */
        identity = qp_token_find(server->tokens.table, quipu_cstr(server->tenant), token);
    }
    if (identity == NULL) {
        qp_reply_error(&call->answer, 401, "MISUSE",
                       "a token is needed: Authorization: Bearer ...; \"quipu token new\" "
                       "makes one");
        return false;
    }
    lack = auth_lack(identity, call->route->need);
    if (lack != NULL) {
        qp_reply_error(&call->answer, 403, "MISUSE", lack);
        return false;
    }
    call->identity = identity;
    *ret_held = qp_token_hold(server->tokens.table);
    return true;
}
