/* What the files of this room share: a server, a request to it, and its answer as JSON. */
#ifndef QP_REMOTE_REMOTE_H
#define QP_REMOTE_REMOTE_H

#include "base/fields_json.h"
#include "net/http.h"
#include "store/remote.h"

#define QP_REMOTE_URL_MAX 16384                  /* bytes of a request's URL */
#define QP_REMOTE_BODY_MAX ((size_t)256 << 20)   /* bytes of a request */
#define QP_REMOTE_ANSWER_MAX ((size_t)512 << 20) /* bytes of an answer that is kept */
#define QP_REMOTE_TOKEN_MAX 4096                 /* bytes of a token */

/* A server. Constant after qp_remote_open(), but for the pool, which locks by itself. */
typedef struct qp_remote_server {
    qp_http_pool pool;
    quipu_arena arena;    /* of the texts below */
    const char *base;     /* "https://host:port", without a slash at its end */
    char *auth;           /* the header with the token; NULL: there is none */
    qp_json_fields info;  /* of quipu_session_info */
    qp_json_fields fresh; /* of quipu_session_new */
    qp_json_fields patch; /* of quipu_session_patch */
} qp_remote_server;

/* A request on its way. Begin it, add to the path, ask, read the document, end it. */
typedef struct qp_remote_ask {
    qp_remote_server *server;
    const qp_call *call;
    const char *method;
    bool writes;     /* a lost answer leaves the outcome unknown... */
    bool repeatable; /* ...unless the same request may be sent again */
    bool has_query;
    qp_buf url;
    qp_buf body; /* empty: none */
    qp_buf answer;
    qp_json_doc doc;
    /* Instead of `answer`, the bytes of a good answer; or NULL. */
    quipu_status (*write)(void *ctx, const void *bytes, size_t size);
    void *write_ctx;
    bool once; /* not sent again when the connection fails: bytes were written, or nobody waits */
} qp_remote_ask;

/* Begins a request to "/v1" and these segments, NULL behind the last. */
void qp_remote_begin(qp_remote_ask *ask, void *server, const qp_call *call, const char *method,
                     const quipu_str *segments, size_t count);
void qp_remote_end(qp_remote_ask *ask);

/* Adds a parameter; an absent text and a number of 0 are left out. */
void qp_remote_text(qp_remote_ask *ask, const char *name, quipu_str value);
void qp_remote_words(qp_remote_ask *ask, quipu_str words); /* "q", which is never left out */
void qp_remote_number(qp_remote_ask *ask, const char *name, int64_t value);
void qp_remote_flag(qp_remote_ask *ask, const char *name, bool value);

/* Sends the request, again where that is safe, until there is an answer or the time is over. A good
 * answer with a body is parsed into ask->doc, unless it is written. The statuses are the server's;
 * QUIPU_UNKNOWN: a write was sent and no answer came; QUIPU_IO, QUIPU_BUSY, QUIPU_CANCELLED. */
QUIPU_MUST_USE quipu_status qp_remote_run(qp_remote_ask *ask, quipu_error *reterr);

/* An answer that is not what its route says. */
quipu_status qp_remote_malformed(quipu_error *reterr);

/* ---- session.c, find.c ----------------------------------------------------------------------- */

quipu_status qp_remote_get(void *ctx, const qp_call *call, const qp_remote_read *read,
                           quipu_error *reterr);
quipu_status qp_remote_create(void *ctx, const qp_call *call, const quipu_session_new *values,
                              quipu_error *reterr);
quipu_status qp_remote_fork(void *ctx, const qp_call *call, quipu_str key, int64_t seq,
                            const quipu_session_new *values, quipu_error *reterr);
quipu_status qp_remote_update(void *ctx, const qp_call *call, quipu_str key,
                              const quipu_session_patch *patch, int64_t *ret_revision,
                              quipu_error *reterr);
quipu_status qp_remote_remove(void *ctx, const qp_call *call, quipu_str key, quipu_error *reterr);
quipu_status qp_remote_append(void *ctx, const qp_call *call, quipu_str key,
                              quipu_messages messages, const quipu_append_options *options,
                              quipu_appended *ret_appended, quipu_error *reterr);
quipu_status qp_remote_list(void *ctx, const qp_call *call, const quipu_list_options *options,
                            quipu_arena *arena, quipu_session_page *ret_page, quipu_error *reterr);
quipu_status qp_remote_window(void *ctx, const qp_call *call, quipu_str key,
                              const quipu_window_options *options, quipu_arena *arena,
                              quipu_session_info *ret_session, quipu_window *ret_window,
                              quipu_error *reterr);
quipu_status qp_remote_search(void *ctx, const qp_call *call, const quipu_search_options *options,
                              quipu_arena *arena, quipu_search_results *ret_results,
                              quipu_error *reterr);
quipu_status qp_remote_recall(void *ctx, const qp_call *call, const quipu_recall_options *options,
                              quipu_arena *arena, quipu_recall_results *ret_results,
                              quipu_error *reterr);
quipu_status qp_remote_dump(void *ctx, const qp_call *call, const quipu_export_options *options,
                            quipu_write_fn write, void *write_ctx, quipu_transfer *ret_done,
                            quipu_error *reterr);

/* The messages of an answer, added to a list of quipu_message; their texts go to the arena. */
QUIPU_MUST_USE quipu_status qp_remote_messages(qp_json_node answer, quipu_arena *arena,
                                               qp_buf *list, quipu_error *reterr);

/* The messages of a list, in the arena. */
QUIPU_MUST_USE quipu_status qp_remote_messages_end(const qp_buf *list, quipu_arena *arena,
                                                   quipu_messages *ret_messages,
                                                   quipu_error *reterr);

#endif
