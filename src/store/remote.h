/* A store behind a server: the table that takes the place of connections and transactions. A public
 * call checks its arguments, enters the store and allocates its result as always; where it would
 * run a work, it asks this table instead. A call that the table lacks fails with QUIPU_UNSUPPORTED
 * (qp_store_check_local()).
 *
 * Functions get the call's deadline and cancel flag, fill results whose memory is the caller's, and
 * are called by any thread. Implemented by src/remote; the store owns it and closes it once. */
#ifndef QP_STORE_REMOTE_H
#define QP_STORE_REMOTE_H

#include <quipu/agent.h>
#include <quipu/artifact.h>
#include <quipu/history.h>
#include <quipu/maintain.h>
#include <quipu/memory.h>
#include <quipu/recall.h>
#include <quipu/search.h>
#include <quipu/store.h>
#include <quipu/tail.h>
#include <quipu/usage.h>

#include "store/call.h"
#include "store/state.h"

/* One request for messages: what quipu_session_get() and tails ask for. */
typedef struct qp_remote_read {
    quipu_str key;
    const quipu_range *range;
    quipu_arena *arena;          /* everything below is in it */
    quipu_session_info *session; /* filled, as `history` */
    quipu_history *history;
} qp_remote_read;

/* One request for the newest messages within a budget: what quipu_window_get() asks for. */
typedef struct qp_remote_budget {
    quipu_str key;
    const quipu_window_options *options;
    quipu_arena *arena; /* of the result */
    quipu_session_info *session;
    quipu_window *window;
} qp_remote_budget;

/* One append: what quipu_message_append() and live sessions ask for. */
typedef struct qp_remote_batch {
    quipu_str key;
    quipu_messages messages;
    bool creates;
    int64_t expected_revision;           /* -1: do not check */
    const quipu_session_patch *settings; /* or NULL */
    const qp_append_also *also;          /* or NULL */
} qp_remote_batch;

typedef struct qp_remote {
    void *ctx;
    void (*close)(void *ctx);
    quipu_status (*get)(void *ctx, const qp_call *call, const qp_remote_read *read,
                        quipu_error *reterr);
    quipu_status (*create)(void *ctx, const qp_call *call, const quipu_session_new *values,
                           qp_state_items changes, quipu_error *reterr);
    quipu_status (*fork)(void *ctx, const qp_call *call, quipu_str key, int64_t seq,
                         const quipu_session_new *values, quipu_error *reterr);
    quipu_status (*update)(void *ctx, const qp_call *call, quipu_str key,
                           const quipu_session_patch *patch, int64_t *ret_revision,
                           quipu_error *reterr);
    quipu_status (*remove)(void *ctx, const qp_call *call, quipu_str key, quipu_error *reterr);
    quipu_status (*append)(void *ctx, const qp_call *call, const qp_remote_batch *append,
                           quipu_appended *ret_appended, quipu_error *reterr);
    quipu_status (*list)(void *ctx, const qp_call *call, const quipu_list_options *options,
                         quipu_arena *arena, quipu_session_page *ret_page, quipu_error *reterr);
    /* The sessions of an app, or of one of its users, with their state: qp_live_find(). */
    quipu_status (*find)(void *ctx, const qp_call *call, quipu_str app_name, quipu_str user_id,
                         quipu_arena *arena, qp_live_list *ret_list, quipu_error *reterr);
    quipu_status (*user_state)(void *ctx, const qp_call *call, quipu_str app_name,
                               quipu_str user_id, quipu_arena *arena, qp_state_items *ret_state,
                               quipu_error *reterr);
    quipu_status (*window)(void *ctx, const qp_call *call, const qp_remote_budget *read,
                           quipu_error *reterr);
    quipu_status (*search)(void *ctx, const qp_call *call, const quipu_search_options *options,
                           quipu_arena *arena, quipu_search_results *ret_results,
                           quipu_error *reterr);
    quipu_status (*recall)(void *ctx, const qp_call *call, const quipu_recall_options *options,
                           quipu_arena *arena, quipu_recall_results *ret_results,
                           quipu_error *reterr);
    quipu_status (*dump)(void *ctx, const qp_call *call, const quipu_export_options *options,
                         quipu_write_fn write, void *write_ctx, quipu_transfer *ret_done,
                         quipu_error *reterr);
    quipu_status (*artifact_get)(void *ctx, const qp_call *call, const quipu_artifact_query *query,
                                 quipu_arena *arena, quipu_artifacts *ret_artifacts,
                                 quipu_error *reterr);
    quipu_status (*artifact_find)(void *ctx, const qp_call *call, const quipu_artifact_query *query,
                                  quipu_arena *arena, quipu_artifacts *ret_artifacts,
                                  quipu_error *reterr);
    quipu_status (*artifact_save)(void *ctx, const qp_call *call, const quipu_artifact *given,
                                  quipu_arena *arena, quipu_artifacts *ret_artifacts,
                                  quipu_error *reterr);
    quipu_status (*artifact_remove)(void *ctx, const qp_call *call,
                                    const quipu_artifact_query *query, int64_t *ret_removed,
                                    quipu_error *reterr);
    quipu_status (*usage)(void *ctx, const qp_call *call, const quipu_usage_query *query,
                          quipu_arena *arena, quipu_usage_report *ret_report, quipu_error *reterr);
    quipu_status (*compact)(void *ctx, const qp_call *call, quipu_str key, int64_t covers_to,
                            quipu_str summary, int64_t *ret_seq, quipu_error *reterr);
    quipu_status (*uncompact)(void *ctx, const qp_call *call, quipu_str key, quipu_error *reterr);
    quipu_status (*prune)(void *ctx, const qp_call *call, quipu_str key, int64_t *ret_removed,
                          quipu_error *reterr);
    quipu_status (*feed)(void *ctx, const qp_call *call, const quipu_feed_options *options,
                         quipu_arena *arena, quipu_feed_page *ret_page, quipu_error *reterr);
    quipu_status (*stats)(void *ctx, const qp_call *call, bool is_quick, quipu_stats *ret_stats,
                          quipu_error *reterr);
    /* A save and an update give the memory as it is then, a slice of one. */
    quipu_status (*memory_find)(void *ctx, const qp_call *call, const quipu_memory_query *query,
                                quipu_arena *arena, quipu_memories *ret_memories,
                                quipu_error *reterr);
    quipu_status (*memory_save)(void *ctx, const qp_call *call, const quipu_memory *given,
                                quipu_arena *arena, quipu_memories *ret_memories,
                                quipu_error *reterr);
    quipu_status (*memory_update)(void *ctx, const qp_call *call, const quipu_memory_patch *patch,
                                  quipu_arena *arena, quipu_memories *ret_memories,
                                  quipu_error *reterr);
    quipu_status (*memory_remove)(void *ctx, const qp_call *call, const quipu_memory_query *query,
                                  int64_t *ret_removed, quipu_error *reterr);
    quipu_status (*memory_status)(void *ctx, const qp_call *call,
                                  const quipu_memory_options *options, quipu_arena *arena,
                                  quipu_memory_status_list *ret_list, quipu_error *reterr);
    /* For the room agent: a prompt, made or read back by the server. */
    quipu_status (*context)(void *ctx, const qp_call *call, const quipu_context_options *options,
                            quipu_arena *arena, quipu_context *ret_context, quipu_error *reterr);
} qp_remote;

/* Connects to the server of a URI, http://, https:// or unix:, and asks whether the token counts.
 * src/remote; a build without libcurl refuses (src/front). */
QUIPU_MUST_USE quipu_status qp_remote_open(const char *uri, const quipu_open_options *options,
                                           qp_remote *ret_remote, quipu_error *reterr);

/* A store over a server, which it owns also when this fails. */
QUIPU_MUST_USE quipu_status qp_store_new_remote(const qp_remote *remote,
                                                const quipu_open_options *options,
                                                quipu_store **ret_store, quipu_error *reterr);

#endif
