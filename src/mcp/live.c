/* The state of a session (live.h). The ADK service finds sessions by app, user and session id, and
 * callers of this room and of the server by key: only a session that both ways lead to is opened.
 *
 * Owns: nothing. Called by: the tool get_state, and the server's routes of state. Transactions: a
 * call of the library is one snapshot; the uid shows that both read the same life of the
 * session. */
#include "mcp/live.h"

#include <string.h>

#include "base/error.h"

/* The session of the ADK service that has this app, user and id must be the one of the header, by
 * its uid. A fork has the names of its parent and would be shown the parent's state. */
quipu_status qp_live_of_session(quipu_service *service, const quipu_session_info *info,
                                const quipu_call_options *call, quipu_arena *arena,
                                quipu_live **ret_live, quipu_error *reterr)
{
    const bool named = info->app_name.n > 0 || info->user_id.n > 0;
    const quipu_session_ref ref = {info->app_name, info->user_id,
                                   named ? info->session_id : info->key};
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_snapshot now = QUIPU_SNAPSHOT_INIT;
    quipu_live *live = NULL;
    quipu_status status;

    options.num_recent = 0;
    status = quipu_service_get(service, &ref, &options, call, &live, reterr);
    if (status == QUIPU_OK && live != NULL) {
        status = quipu_live_get(live, NULL, arena, &now, reterr);
    }
    if (status == QUIPU_OK &&
        (live == NULL || memcmp(&now.identity->uid, &info->uid, sizeof(info->uid)) != 0)) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND,
                              "this session has no state: the state of a fork stays with the "
                              "session that it was made from, and a key with an app and a user has "
                              "the form adk:app/user/id");
    }
    if (status != QUIPU_OK) {
        quipu_live_free(live);
        return status;
    }
    *ret_live = live;
    return QUIPU_OK;
}
