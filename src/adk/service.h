/* The inside of the service and of live sessions. */
#ifndef QP_ADK_SERVICE_H
#define QP_ADK_SERVICE_H

#include <quipu/adk.h>

#include "adk/delta.h"
#include "base/thread.h"
#include "store/state.h"

struct quipu_service {
    quipu_store *store;
    quipu_service_options options;
    quipu_event_dialect dialect;
    quipu_arena arena;
};

struct quipu_live {
    quipu_service *service;
    qp_mutex mutex; /* guards all below */
    quipu_str key;
    quipu_session_ref ref;
    quipu_uuid uid;
    int64_t revision;
    int64_t stored_revision; /* the store's at the last conflict */
    int64_t next_seq;        /* of the first message that is not here */
    quipu_time last_update;
    bool behind;          /* the store may know more */
    quipu_history *first; /* what was read first: texts of messages lie in it */
    quipu_message *messages;
    size_t count;
    size_t room;
    qp_state_map state;
    size_t inherited;     /* messages at the beginning that are a parent's */
    int64_t max_messages; /* a child's own that are kept; 0: all */
    quipu_str agent;      /* a child's; absent: it is none */
    quipu_str parent;     /* and the session id of whose child it is */
    int64_t fork_seq;     /* a child's own messages come after this one */
    quipu_live *active;   /* the child of an isolated agent at work, or NULL */
    size_t overlay;       /* messages at the end that are the active child's */
    quipu_arena arena;    /* texts of later messages, and names */
};

/* The key of a session: injective over the triple. The ids are checked and, where the service wants
 * it, stripped: *ret_ref says what became of them. `make`: an empty session id gets a random one.
 * */
QUIPU_MUST_USE quipu_status qp_ref_key(const quipu_service *service, const quipu_session_ref *ref,
                                       bool make, quipu_arena *arena, quipu_session_ref *ret_ref,
                                       quipu_str *ret_key, quipu_error *reterr);

/* A live session over what was read; its history is the session's then, and NULL in `live`. */
QUIPU_MUST_USE quipu_status qp_session_live(quipu_service *service, quipu_str key,
                                            const quipu_session_ref *ref, qp_live *live,
                                            quipu_live **ret_session, quipu_error *reterr);

/* The same under its lock: newer messages are added, state and revision are read anew. */
QUIPU_MUST_USE quipu_status qp_session_catch_up(quipu_live *session, const quipu_call_options *call,
                                                quipu_error *reterr);

/* Find out whether a session that was read is somebody's child: agent and inherited messages. */
QUIPU_MUST_USE quipu_status qp_session_adopt(quipu_live *session, const quipu_session_info *info);

/* Forget the oldest messages of a child's own above its limit. */
void qp_session_trim(quipu_live *session);

/* Make room for one more message and copy it to the session's memory, without showing it. */
QUIPU_MUST_USE quipu_status qp_session_prepare(quipu_live *session, const quipu_message *message,
                                               quipu_error *reterr);

/* Name, uid, revision and time, under the session's lock; texts go to the arena. */
QUIPU_MUST_USE quipu_status qp_session_head_read(quipu_live *session, quipu_arena *arena,
                                                 quipu_session_head *ret_head, quipu_error *reterr);

/* The state as an object, under the session's lock. */
QUIPU_MUST_USE quipu_status qp_session_state(const quipu_live *session, quipu_arena *arena,
                                             quipu_json *ret_state, quipu_error *reterr);

/* Free what a session holds, not the session itself nor its lock. */
void qp_session_release(quipu_live *session);

/* Append under the session's lock, without a look at who isolated agents are. */
QUIPU_MUST_USE quipu_status qp_session_append(quipu_live *session, quipu_json event,
                                              const quipu_call_options *call,
                                              quipu_event_result *ret_result, quipu_error *reterr);

/* Close open calls under the session's lock. */
QUIPU_MUST_USE quipu_status qp_session_close_calls(quipu_live *session,
                                                   const quipu_call_options *call,
                                                   int64_t *ret_closed, quipu_error *reterr);

/* Begin, merge and discard a child under the parent's lock. */
QUIPU_MUST_USE quipu_status qp_child_spawn(quipu_live *parent, quipu_str agent,
                                           const quipu_child_options *options,
                                           const quipu_call_options *call, quipu_live **ret_child,
                                           quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_child_merge(quipu_live *parent, quipu_live *child, quipu_str summary,
                                           quipu_str author, const quipu_call_options *call,
                                           quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_child_discard(quipu_live *parent, quipu_live *child,
                                             quipu_str reason, const quipu_call_options *call,
                                             quipu_error *reterr);

/* A text without the white space around it, and whether nothing else is in it. */
quipu_str qp_text_strip(quipu_str text);
bool qp_text_is_blank(quipu_str text);

/* What the hook hears when the lock is free again. */
#define QP_NOTICES_MAX 4
typedef struct qp_notices {
    size_t count;
    quipu_child_change changes[QP_NOTICES_MAX];
    quipu_str agents[QP_NOTICES_MAX]; /* the service's */
} qp_notices;

/* Append an event in a service with isolated agents, under the session's lock. */
QUIPU_MUST_USE quipu_status qp_isolate_append(quipu_live *session, quipu_json event,
                                              const quipu_call_options *call,
                                              quipu_event_result *ret_result, qp_notices *notices,
                                              quipu_error *reterr);
void qp_notices_tell(const quipu_service *service, const qp_notices *notices);

/* view.c: the newest messages within a token budget, as events; see quipu_live_view(). */
QUIPU_MUST_USE quipu_status qp_view_make(const quipu_message *messages, size_t count,
                                         const quipu_view_options *options, quipu_arena *arena,
                                         quipu_view *ret_view, quipu_error *reterr);

/* The root agent's name. */
quipu_str qp_service_root(const quipu_service *service);

#endif
