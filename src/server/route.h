/* The table of routes: everything that the server answers, stated once. Requests are matched and
 * their parameters checked by it, the OpenAPI document is written from it, and the test of tokens
 * and scopes walks through it. */
#ifndef QP_SERVER_ROUTE_H
#define QP_SERVER_ROUTE_H

#include "server/call.h"

typedef enum qp_need {
    QP_NEED_NOTHING, /* open: health, and the description of the routes */
    QP_NEED_READ,
    QP_NEED_WRITE,
    QP_NEED_WHOLE /* read, and a token without app and user: it is about the whole store */
} qp_need;

typedef enum qp_parameter_kind {
    QP_PARAMETER_TEXT,
    QP_PARAMETER_NUMBER, /* digits */
    QP_PARAMETER_FLAG,   /* true or false */
    QP_PARAMETER_TIME
} qp_parameter_kind;

/* A parameter of the query; a route refuses all others. */
typedef struct qp_parameter {
    const char *name; /* NULL ends a list */
    qp_parameter_kind kind;
    int64_t least; /* of a number */
    int64_t most;
    bool required;
    const char *help;
} qp_parameter;

/* Where a route's handler runs. */
typedef enum qp_route_kind {
    QP_ROUTE_WORKER, /* it calls the store */
    QP_ROUTE_LOOP,   /* it needs nothing but the server's own memory */
    QP_ROUTE_PROBE,  /* the same, behind a worker's question to the store unless that is fresh */
    QP_ROUTE_STREAM  /* on a worker, and it goes on as server-sent events */
} qp_route_kind;

/* On failure the answer is made from the status and the error. */
typedef quipu_status (*qp_handler)(qp_call *call, quipu_error *reterr);

typedef struct qp_route {
    qp_http_method method;
    const char *path; /* "/v1/sessions/{key}" */
    qp_need need;
    const char *name; /* the operation's, in the OpenAPI document; NULL: not in it */
    const char *summary;
    const qp_parameter *parameters; /* NULL: none */
    const char *body;               /* the schema of its JSON body; NULL: it has none */
    qp_route_kind kind;
    qp_handler handler;
} qp_route;

/* All of them; ends with a NULL path. */
extern const qp_route qp_routes[];

/* Whether a route is one of ADK's, which is what its name begins with: errors have ADK's form, and
 * parameters that are unknown are ignored. */
bool qp_route_is_adk(const qp_route *route);

/* Finds the route of a request and sets route, path and key of the call. false: the answer says
 * why, 404 or 405. */
QUIPU_MUST_USE bool qp_route_match(qp_call *call);

/* Checks the query against the route's parameters. false: the answer is 400 and names the parameter
 * and what it must be. */
QUIPU_MUST_USE bool qp_route_check(qp_call *call);

/* Handlers, by file. */
quipu_status qp_route_session_list(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_create(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_get(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_update(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_delete(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_append(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_fork(qp_call *call, quipu_error *reterr);

quipu_status qp_route_window(qp_call *call, quipu_error *reterr);
quipu_status qp_route_context(qp_call *call, quipu_error *reterr);
quipu_status qp_route_context_make(qp_call *call, quipu_error *reterr);
quipu_status qp_route_search(qp_call *call, quipu_error *reterr);
quipu_status qp_route_recall(qp_call *call, quipu_error *reterr);

quipu_status qp_route_state_get(qp_call *call, quipu_error *reterr);
quipu_status qp_route_state_patch(qp_call *call, quipu_error *reterr);
quipu_status qp_route_user_state(qp_call *call, quipu_error *reterr);
quipu_status qp_route_state_changes(qp_call *call, quipu_error *reterr);
quipu_status qp_route_export(qp_call *call, quipu_error *reterr);
quipu_status qp_route_tail(qp_call *call, quipu_error *reterr);
quipu_status qp_route_stats(qp_call *call, quipu_error *reterr);
quipu_status qp_route_feed(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_compact(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_uncompact(qp_call *call, quipu_error *reterr);
quipu_status qp_route_session_prune(qp_call *call, quipu_error *reterr);
quipu_status qp_route_usage(qp_call *call, quipu_error *reterr);

quipu_status qp_route_memory_list(qp_call *call, quipu_error *reterr);
quipu_status qp_route_memory_update(qp_call *call, quipu_error *reterr);
quipu_status qp_route_memory_progress(qp_call *call, quipu_error *reterr);
quipu_status qp_route_memories_find(qp_call *call, quipu_error *reterr);
quipu_status qp_route_memories_save(qp_call *call, quipu_error *reterr);
quipu_status qp_route_memories_delete(qp_call *call, quipu_error *reterr);

quipu_status qp_route_artifact_list(qp_call *call, quipu_error *reterr);
quipu_status qp_route_artifact_save(qp_call *call, quipu_error *reterr);
quipu_status qp_route_artifact_get(qp_call *call, quipu_error *reterr);
quipu_status qp_route_artifact_delete(qp_call *call, quipu_error *reterr);

quipu_status qp_route_page(qp_call *call, quipu_error *reterr);
quipu_status qp_route_page_file(qp_call *call, quipu_error *reterr);

quipu_status qp_route_adk_list(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_create(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_create_id(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_get(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_patch(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_delete(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_memory(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_apps(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_version(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_health(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_config(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_names(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_save(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_get(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_delete(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_versions(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_metadatas(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_version(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_artifact_metadata(qp_call *call, quipu_error *reterr);
quipu_status qp_route_adk_run(qp_call *call, quipu_error *reterr);

quipu_status qp_route_mcp(qp_call *call, quipu_error *reterr);

quipu_status qp_route_health(qp_call *call, quipu_error *reterr);
quipu_status qp_route_identity(qp_call *call, quipu_error *reterr);
quipu_status qp_route_ready(qp_call *call, quipu_error *reterr);
quipu_status qp_route_metrics(qp_call *call, quipu_error *reterr);
quipu_status qp_route_openapi(qp_call *call, quipu_error *reterr);

#endif
