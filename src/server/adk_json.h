/* Sessions and bodies in the form of ADK's api_server: what it shows of a session, and what it
 * says about a body that is wrong. */
#ifndef QP_SERVER_ADK_JSON_H
#define QP_SERVER_ADK_JSON_H

#include "server/call.h"

/* ---- adk_show.c ------------------------------------------------------------------------------ */

/* Members that every event and its actions have in ADK, whatever they say. */
#define QP_ADK_ACTIONS                                                                             \
    "\"artifactDelta\":{},\"requestedAuthConfigs\":{},\"requestedToolConfirmations\":{}"
#define QP_ADK_NODE_INFO "{\"path\":\"\"}"

/* Writes a live session with all its events. */
QUIPU_MUST_USE quipu_status qp_adk_put_live(qp_call *call, qp_jsonw *writer, quipu_live *live,
                                            quipu_error *reterr);

/* Writes a session of a list, without events. */
QUIPU_MUST_USE quipu_status qp_adk_put_entry(qp_jsonw *writer, const quipu_service_entry *entry,
                                             quipu_error *reterr);

/* ---- routes_state.c -------------------------------------------------------------------------- */

/* Writes an event that only changes the state: all names in one transaction. */
QUIPU_MUST_USE quipu_status qp_call_state_event(quipu_json names, qp_buf *event,
                                                quipu_error *reterr);

/* QUIPU_MISUSE: a token of one user names the app's state, which is every user's. */
QUIPU_MUST_USE quipu_status qp_call_check_state(qp_call *call, quipu_json names,
                                                quipu_error *reterr);

/* ---- adk_body.c ------------------------------------------------------------------------------ */

/* The faults of a body: the items of FastAPI's list, with commas between them. */
typedef struct qp_adk_faults {
    qp_buf items;
    size_t count;
} qp_adk_faults;

/* A body that was read. Texts lie in the call's arena, nodes in `doc`. */
typedef struct qp_adk_body {
    qp_json_doc doc;
    qp_adk_faults faults;
    quipu_str session_id; /* absent: none */
    quipu_json state;     /* an object, or absent */
    qp_json_node events;  /* an array, or none */
    qp_json_node options; /* an object, or none */
} qp_adk_body;

typedef enum qp_adk_form {
    QP_ADK_NEW,         /* {sessionId, state, events, options}, all optional, as is the body */
    QP_ADK_STATE,       /* the state itself; optional */
    QP_ADK_STATE_DELTA, /* {stateDelta} */
    QP_ADK_SESSION_ID,  /* {sessionId} */
    QP_ADK_ARTIFACT     /* {filename, artifact, customMetadata}: as session_id, options, state */
} qp_adk_form;

/* Reads the body of a call; unknown members are ignored, names may be camelCase or snake_case.
 * false: the answer is 422 with the list of faults, or 503 without memory. Free it in any case. */
QUIPU_MUST_USE bool qp_adk_body_read(qp_call *call, qp_adk_form form, qp_adk_body *body);
void qp_adk_body_free(qp_adk_body *body);

/* Answers 422: this parameter of the query is neither true nor false. */
void qp_adk_refuse_flag(qp_call *call, const char *parameter);

/* Converts the events of a new session to messages: with an id, a time, and ADK's mark that they
 * come from outside. false: the answer is 400, and names the event, or 422. */
QUIPU_MUST_USE bool qp_adk_body_events(qp_call *call, qp_json_node events,
                                       quipu_messages *ret_messages);

#endif
