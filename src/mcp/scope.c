/* The scope of a server: the only place that decides which sessions a client may see. Every read
 * and write of a tool or a resource goes through here first.
 *
 * Owns: nothing. Called by: tools and resources. Transactions: each read is one snapshot; the scope
 * is checked on the session that the read returned. A write checks the key by a read of its own
 * before; between the two, somebody could delete the session and create one of the same key for
 * another user.
 * Locks: none. Three names narrow a scope: app, user of the app, one session. Absent ones admit
 * everything; a client learns nothing of what they exclude. */
#include "mcp/tool.h"

#include <assert.h>

#include "base/error.h"
#include "base/str.h"

/* Whether a name of the scope admits a session's.
 * An absent name of a session is the empty one. */
static bool scope_admits(quipu_str wanted, quipu_str has)
{
    return wanted.p == NULL ||
           (wanted.n == has.n && memcmp(wanted.p, has.p != NULL ? has.p : "", wanted.n) == 0);
}

/* One text for missing and for foreign sessions, with the way to those that are there. */
static quipu_status scope_missing(quipu_str key, quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOT_FOUND,
                        "there is no session \"%.*s\" here; list_sessions lists those that there "
                        "are",
                        (int)qp_utf8_cut(key, 200), key.p);
}

/* The key is compared before the store is asked, app and user on what it returned.
 * *ret_history is set only when the session is in the scope; the caller frees it. */
quipu_status qp_mcp_scope_get(const qp_mcp *server, quipu_str key, const quipu_range *range,
                              quipu_history **ret_history, quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status;

    if (!scope_admits(server->session_key, key)) {
        return scope_missing(key, reterr);
    }
    status = quipu_session_get(server->store, key, range, NULL, &history, reterr);
    if (status == QUIPU_NOT_FOUND) {
        return scope_missing(key, reterr);
    }
    if (status != QUIPU_OK && status != QUIPU_EXPIRED) {
        return status;
    }
    /* The app and user of an expired session are not known: in a scope it is missing. */
    if (status == QUIPU_EXPIRED) {
        return server->app_name.p != NULL ? scope_missing(key, reterr) : status;
    }
    if (!scope_admits(server->app_name, history->session->app_name) ||
        !scope_admits(server->user_id, history->session->user_id)) {
        quipu_free(history);
        return scope_missing(key, reterr);
    }
    *ret_history = history;
    return QUIPU_OK;
}

/* The session that the tool's argument names, or the only one of the server.
 * On failure the call has its error, and the tool returns false. */
bool qp_mcp_call_get(qp_mcp_call *call, const quipu_range *range, quipu_history **ret_history)
{
    const qp_mcp_value *named = qp_mcp_argument(call, "session");
    quipu_error error = {0};
    quipu_status status;

    assert(named->given || call->server->session_key.p != NULL);
    status = qp_mcp_scope_get(call->server, named->given ? named->text : call->server->session_key,
                              range, ret_history, &error);
    return status == QUIPU_OK || qp_mcp_call_fail_status(call, status, &error);
}

/* For tools that need only the key: a header is read, to see that the session is in the scope. */
bool qp_mcp_call_key(qp_mcp_call *call, quipu_str *ret_key)
{
    const qp_mcp_value *named = qp_mcp_argument(call, "session");
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;

    header.flags = QUIPU_RANGE_HEADER;
    if (!qp_mcp_call_get(call, &header, &history)) {
        return false;
    }
    quipu_free(history);
    *ret_key = named->given ? named->text : call->server->session_key;
    return true;
}

/* Only where there is a choice; a server for one session has no list. */
quipu_status qp_mcp_scope_list(const qp_mcp *server, int64_t limit, quipu_str after,
                               quipu_session_page **ret_page, quipu_error *reterr)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;

    assert(server->session_key.p == NULL);
    options.app_name = server->app_name;
    options.user_id = server->user_id;
    options.limit = limit;
    options.after = after;
    return quipu_session_list(server->store, &options, NULL, ret_page, reterr);
}
