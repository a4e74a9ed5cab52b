/* A request on its way through the server: what a handler gets, and the answer that it makes. A
 * call belongs to its connection; while a worker runs it, nobody else touches it. */
#ifndef QP_SERVER_CALL_H
#define QP_SERVER_CALL_H

#include <quipu/adk.h>
#include <quipu/server.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "http/request.h"
#include "server/token.h"

#define QP_REPLY_MAX ((size_t)256 << 20) /* bytes of an answer that is built in memory */
#define QP_REPLY_ALLOW_SIZE 64           /* of the Allow header of a 405, with its NUL */
#define QP_RETRY_AFTER_S 1               /* what a 503 asks a client to wait */
#define QP_PATH_VALUES_MAX 5             /* {names} of a path */

/* The answer of a worker, or of the loop itself. */
typedef struct qp_reply {
    int status;                      /* of HTTP */
    const char *type;                /* Content-Type */
    qp_buf body;                     /* or... */
    const struct qp_asset *asset;    /* ...a file of the page; NULL: none; or... */
    struct qp_spool *spool;          /* ...this temporary file; NULL: none */
    char allow[QP_REPLY_ALLOW_SIZE]; /* with 405; "" otherwise */
    bool has_detail;                 /* errors have ADK's form, {"detail":...} */
} qp_reply;

struct qp_route;

typedef struct qp_call {
    struct qp_server *server;
    quipu_store *store;
    quipu_service *service;             /* for the state of sessions */
    const struct qp_route *route;       /* NULL: none fits */
    const qp_http_request *request;     /* the reader's, until the answer is sent */
    const qp_identity *identity;        /* who asks; NULL: the route is open to everybody */
    quipu_str path[QP_PATH_VALUES_MAX]; /* the values of the path's {names}, in their order */
    quipu_str key; /* the session's: {key}, or what an ADK route wrote to; absent: neither */
    quipu_call_options limits;
    quipu_arena arena; /* scratch memory of the call */
    qp_reply answer;
    quipu_tail *tail; /* set by the handler of a stream, which goes on with it */
} qp_call;

/* Answers with the JSON of an error: {"error":{"status":...,"message":...}}, or ADK's form. */
void qp_reply_error(qp_reply *answer, int http_status, const char *status, const char *message);

/* The same for a failed call of the library: one table maps its status to one of HTTP. */
void qp_reply_failure(qp_reply *answer, quipu_status status, const quipu_error *error);

/* Ends a JSON answer: what the writer has is the body. */
QUIPU_MUST_USE quipu_status qp_reply_json(qp_reply *answer, int http_status, const qp_jsonw *writer,
                                          quipu_error *reterr);

void qp_reply_init(qp_reply *answer);
void qp_reply_free(qp_reply *answer);

/* Parameters of the query. They are checked against the route's table before a handler runs, so
 * that reading one cannot fail. */
quipu_str qp_call_text(const qp_call *call, const char *name);
bool qp_call_flag(const qp_call *call, const char *name);
int64_t qp_call_number(const qp_call *call, const char *name, int64_t otherwise);
bool qp_call_time(const qp_call *call, const char *name, quipu_time *ret_time);

/* Whether a text contains a word, which is not empty. */
bool qp_call_holds(quipu_str text, const char *word);

/* Whether the identity may read: an answer to a write shows nothing else. */
bool qp_call_may_read(const qp_call *call);

/* Whether the identity is limited to an app or to a user. */
bool qp_call_is_scoped(const qp_call *call);

/* Reads the session's header and checks that it lies in the identity's scope: what lies outside of
 * it does not exist (QUIPU_NOT_FOUND). *ret_history is to be freed with quipu_free(). */
QUIPU_MUST_USE quipu_status qp_call_session(qp_call *call, quipu_history **ret_history,
                                            quipu_error *reterr);

/* The same with a range of the session's messages, and its state: all of one snapshot. */
QUIPU_MUST_USE quipu_status qp_call_history(qp_call *call, const quipu_range *range,
                                            quipu_history **ret_history, quipu_error *reterr);

/* The same check, for a handler that needs nothing of the header; reads only if there is a scope.
 */
QUIPU_MUST_USE quipu_status qp_call_check_session(qp_call *call, quipu_error *reterr);

/* QUIPU_INVALID: a scoped token names a new session by an ADK key (adk:app/user/id) of another app
 * or user, whose agent would then write into it. */
QUIPU_MUST_USE quipu_status qp_call_check_new_key(const qp_call *call, quipu_str key,
                                                  quipu_str app_name, quipu_str user_id,
                                                  quipu_error *reterr);

/* The key of a session of the ADK service, adk:app/user/id, in the call's arena. */
QUIPU_MUST_USE quipu_status qp_call_adk_key(qp_call *call, const quipu_session_ref *ref,
                                            quipu_str *ret_key, quipu_error *reterr);

/* Applies the scope to the app and the user that a request names: absent ones become the
 * identity's, others are QUIPU_NOT_FOUND. */
QUIPU_MUST_USE quipu_status qp_call_scope(const qp_call *call, quipu_str *app_name,
                                          quipu_str *user_id, quipu_error *reterr);

#endif
