/* Shared by the files of this room: a server, a request to it, and its answer as JSON. */
#ifndef QP_REMOTE_REMOTE_H
#define QP_REMOTE_REMOTE_H

#include "base/fields_json.h"
#include "net/http.h"
#include "store/remote.h"

#define QP_REMOTE_URL_MAX 16384                     /* bytes of a request's URL */
#define QP_REMOTE_BODY_MAX ((size_t)256 << 20)      /* bytes of a request */
#define QP_REMOTE_ANSWER_MAX ((size_t)512 << 20)    /* bytes of an answer that is kept */
#define QP_REMOTE_TOKEN_MAX 4096                    /* bytes of a token */
#define QP_REMOTE_NUMBER_MAX INT64_C(1000000000000) /* of a parameter: more than any session has */

/* A server. Constant after qp_remote_open(), but for the pool, which locks by itself. */
typedef struct qp_remote_server {
    qp_http_pool pool;
    quipu_arena arena;       /* of the texts below */
    const char *base;        /* "https://host:port", without a slash at its end */
    char *auth;              /* the header with the token; NULL: there is none */
    qp_json_fields info;     /* of quipu_session_info */
    qp_json_fields fresh;    /* of quipu_session_new */
    qp_json_fields patch;    /* of quipu_session_patch */
    qp_json_fields memory;   /* of quipu_memory */
    qp_json_fields artifact; /* of quipu_artifact */
} qp_remote_server;

/* A request on its way. Begin it, add to the path, ask, read the document, end it. */
typedef struct qp_remote_ask {
    qp_remote_server *server;
    const qp_call *call;
    const char *method;
    bool writes;     /* a lost answer leaves the outcome unknown... */
    bool repeatable; /* ...unless the same request may be sent again */
    bool deletes;    /* what a repeat does not find is what the first try deleted */
    bool has_query;
    bool no_place; /* a segment cannot be part of a path: no such thing is at a server */
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

/* Adds a parameter; an absent text and a number of 0 are left out, and a number is at most
 * QP_REMOTE_NUMBER_MAX. */
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

/* A good answer that cannot be read, for want of memory too: behind a write QUIPU_UNKNOWN. */
quipu_status qp_remote_unread(const qp_remote_ask *ask, quipu_error *reterr);

/* Sends the body that was written, as a write, unless `status` says that writing it failed. */
QUIPU_MUST_USE quipu_status qp_remote_send(qp_remote_ask *ask, const qp_jsonw *writer,
                                           quipu_status status, quipu_error *reterr);

/* ---- answer.c: members of an answer ---------------------------------------------------------- */

/* A member that is missing is false, 0 or absent. Texts, JSON and times go to the arena; *good
 * becomes false when memory is used up, or a text is not a time. */
bool qp_answer_flag(qp_json_node object, const char *name);
int64_t qp_answer_number(qp_json_node object, const char *name);
double qp_answer_double(qp_json_node object, const char *name);
quipu_str qp_answer_text(qp_json_node object, const char *name, quipu_arena *arena, bool *good);
quipu_json qp_answer_json(qp_json_node object, const char *name, quipu_arena *arena, bool *good);
bool qp_answer_has_time(qp_json_node object, const char *name, quipu_arena *arena,
                        quipu_time *ret_time, bool *good);
quipu_time qp_answer_time(qp_json_node object, const char *name, quipu_arena *arena, bool *good);

quipu_status qp_answer_nomem(quipu_error *reterr);

/* Rows of an array: `size` bytes each, filled in by `take`, which says whether the row is good. */
typedef struct qp_answer_kind {
    size_t size;
    bool (*take)(qp_json_node row, const void *ctx, quipu_arena *arena, void *item);
} qp_answer_kind;

/* Reads all rows to the arena, and gives the first. Does nothing unless *status is good; it says
 * then what came of it. */
void *qp_answer_rows(qp_json_node array, const qp_answer_kind *kind, const void *ctx,
                     quipu_arena *arena, size_t *ret_count, quipu_status *status,
                     quipu_error *reterr);

/* ---- session.c, live.c, find.c --------------------------------------------------------------- */

quipu_status qp_remote_get(void *ctx, const qp_call *call, const qp_remote_read *read,
                           quipu_error *reterr);
quipu_status qp_remote_create(void *ctx, const qp_call *call, const quipu_session_new *values,
                              qp_state_items changes, quipu_error *reterr);
quipu_status qp_remote_fork(void *ctx, const qp_call *call, quipu_str key, int64_t seq,
                            const quipu_session_new *values, quipu_error *reterr);
quipu_status qp_remote_update(void *ctx, const qp_call *call, quipu_str key,
                              const quipu_session_patch *patch, int64_t *ret_revision,
                              quipu_error *reterr);
quipu_status qp_remote_remove(void *ctx, const qp_call *call, quipu_str key, quipu_error *reterr);
quipu_status qp_remote_append(void *ctx, const qp_call *call, const qp_remote_batch *append,
                              quipu_appended *ret_appended, quipu_error *reterr);
quipu_status qp_remote_find(void *ctx, const qp_call *call, quipu_str app_name, quipu_str user_id,
                            quipu_arena *arena, qp_live_list *ret_list, quipu_error *reterr);
quipu_status qp_remote_user_state(void *ctx, const qp_call *call, quipu_str app_name,
                                  quipu_str user_id, quipu_arena *arena, qp_state_items *ret_state,
                                  quipu_error *reterr);
quipu_status qp_remote_list(void *ctx, const qp_call *call, const quipu_list_options *options,
                            quipu_arena *arena, quipu_session_page *ret_page, quipu_error *reterr);
quipu_status qp_remote_window(void *ctx, const qp_call *call, const qp_remote_budget *read,
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

/* ---- artifact.c ------------------------------------------------------------------------------ */

quipu_status qp_remote_artifact_get(void *ctx, const qp_call *call,
                                    const quipu_artifact_query *query, quipu_arena *arena,
                                    quipu_artifacts *ret_artifacts, quipu_error *reterr);
quipu_status qp_remote_artifact_find(void *ctx, const qp_call *call,
                                     const quipu_artifact_query *query, quipu_arena *arena,
                                     quipu_artifacts *ret_artifacts, quipu_error *reterr);
quipu_status qp_remote_artifact_save(void *ctx, const qp_call *call, const quipu_artifact *given,
                                     quipu_arena *arena, quipu_artifacts *ret_artifacts,
                                     quipu_error *reterr);
quipu_status qp_remote_artifact_remove(void *ctx, const qp_call *call,
                                       const quipu_artifact_query *query, int64_t *ret_removed,
                                       quipu_error *reterr);
quipu_status qp_remote_usage(void *ctx, const qp_call *call, const quipu_usage_query *query,
                             quipu_arena *arena, quipu_usage_report *ret_report,
                             quipu_error *reterr);

/* ---- whole.c --------------------------------------------------------------------------------- */

quipu_status qp_remote_compact(void *ctx, const qp_call *call, quipu_str key, int64_t covers_to,
                               quipu_str summary, int64_t *ret_seq, quipu_error *reterr);
quipu_status qp_remote_uncompact(void *ctx, const qp_call *call, quipu_str key,
                                 quipu_error *reterr);
quipu_status qp_remote_prune(void *ctx, const qp_call *call, quipu_str key, int64_t *ret_removed,
                             quipu_error *reterr);
quipu_status qp_remote_feed(void *ctx, const qp_call *call, const quipu_feed_options *options,
                            quipu_arena *arena, quipu_feed_page *ret_page, quipu_error *reterr);
quipu_status qp_remote_stats(void *ctx, const qp_call *call, bool is_quick, quipu_stats *ret_stats,
                             quipu_error *reterr);

/* ---- memory.c -------------------------------------------------------------------------------- */

quipu_status qp_remote_memory_find(void *ctx, const qp_call *call, const quipu_memory_query *query,
                                   quipu_arena *arena, quipu_memories *ret_memories,
                                   quipu_error *reterr);
quipu_status qp_remote_memory_save(void *ctx, const qp_call *call, const quipu_memory *given,
                                   quipu_arena *arena, quipu_memories *ret_memories,
                                   quipu_error *reterr);
quipu_status qp_remote_memory_update(void *ctx, const qp_call *call,
                                     const quipu_memory_patch *patch, quipu_arena *arena,
                                     quipu_memories *ret_memories, quipu_error *reterr);
quipu_status qp_remote_memory_remove(void *ctx, const qp_call *call,
                                     const quipu_memory_query *query, int64_t *ret_removed,
                                     quipu_error *reterr);
quipu_status qp_remote_memory_status(void *ctx, const qp_call *call,
                                     const quipu_memory_options *options, quipu_arena *arena,
                                     quipu_memory_status_list *ret_list, quipu_error *reterr);
quipu_status qp_remote_context(void *ctx, const qp_call *call, const quipu_context_options *options,
                               quipu_arena *arena, quipu_context *ret_context, quipu_error *reterr);

/* ---- what files of this room share ----------------------------------------------------------- */

/* The messages of an answer, added to a list of quipu_message; their texts go to the arena. */
QUIPU_MUST_USE quipu_status qp_remote_messages(qp_json_node answer, quipu_arena *arena,
                                               qp_buf *list, quipu_error *reterr);

/* The state of an answer, as rows, and when the last event was. */
QUIPU_MUST_USE quipu_status qp_remote_state(qp_json_node answer, quipu_arena *arena,
                                            quipu_history *history, quipu_error *reterr);

/* Writes changes of state as a member of an object. */
void qp_remote_put_changes(qp_jsonw *writer, const char *name, qp_state_items changes);

/* The messages of a list, in the arena. */
QUIPU_MUST_USE quipu_status qp_remote_messages_end(const qp_buf *list, quipu_arena *arena,
                                                   quipu_messages *ret_messages,
                                                   quipu_error *reterr);

#endif
