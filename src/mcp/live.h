/* The state of a session, by the header that a caller has checked. */
#ifndef QP_MCP_LIVE_H
#define QP_MCP_LIVE_H

#include <quipu/adk.h>

/* Opens the session of a header with its state and without events; free it with quipu_live_free().
 * QUIPU_NOT_FOUND: the session has no state, because the service finds another one by its names, or
 * none: a fork, or a session whose key is not that of its app, user and session id. Otherwise
 * errors as quipu_service_get(). `arena` holds what is compared. */
QUIPU_MUST_USE quipu_status qp_live_of_session(quipu_service *service,
                                               const quipu_session_info *info,
                                               const quipu_call_options *call, quipu_arena *arena,
                                               quipu_live **ret_live, quipu_error *reterr);

#endif
