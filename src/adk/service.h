/* Internal types of the ADK service and of live sessions, shared by the files of this room.
 *
 * Lock order: a parent's mutex before its child's. The service itself is immutable after
 * quipu_service_new() and needs no lock. */
#ifndef QP_ADK_SERVICE_H
#define QP_ADK_SERVICE_H

#include <quipu/adk.h>

#include "adk/delta.h"
#include "base/thread.h"
#include "store/state.h"

/* Immutable after quipu_service_new(), so threads share it without a lock. The arena holds the
 * copied names. */
struct quipu_service {
    quipu_store *store;
    quipu_service_options options;
    quipu_event_dialect dialect;
    quipu_arena arena;
};

/* A session in memory. Messages are in the order in which they are shown:
 *
 *   inherited from the parent │ own │ overlay of the active child
 *   0 ... inherited           │ ... │ count - overlay ... count */
struct quipu_live {
    quipu_service *service;
    qp_mutex mutex; /* guards all below */
    quipu_str key;
    quipu_session_ref ref;
    quipu_uuid uid;
    int64_t revision;
    int64_t stored_revision; /* the store's, as reported with the last conflict */
    int64_t next_seq;        /* of the first message that memory does not hold */
    quipu_time last_update;
    bool behind;          /* the store may have more than memory */
    quipu_history *first; /* the first read; owns the texts of its messages */
    quipu_message *messages;
    size_t count;
    size_t room;
    qp_state_map state;
    size_t inherited;     /* child: messages at the beginning that are the parent's */
    int64_t max_messages; /* child: how many of its own memory keeps; 0: all */
    quipu_str agent;      /* child: its agent; absent: this session is not a child */
    quipu_str parent;     /* child: the parent's session id */
    int64_t fork_seq;     /* child: its own messages have higher numbers */
    quipu_live *active;   /* the child of the isolated agent that works now, or NULL */
    size_t overlay;       /* messages at the end that are the active child's */
    quipu_arena arena;    /* names, and texts of messages after the first read */
};

/* The key of a session: distinct for distinct (app, user, session) ids. The ids are checked and,
 * with QUIPU_SERVICE_STRIP_IDS, stripped; *ret_ref holds the result. `make`: an empty session id
 * is replaced by a random one. */
QUIPU_MUST_USE quipu_status qp_ref_key(const quipu_service *service, const quipu_session_ref *ref,
                                       bool make, quipu_arena *arena, quipu_session_ref *ret_ref,
                                       quipu_str *ret_key, quipu_error *reterr);

/* Makes a live session of what was read. On success the session owns live->history, which becomes
 * NULL. */
QUIPU_MUST_USE quipu_status qp_session_live(quipu_service *service, quipu_str key,
                                            const quipu_session_ref *ref, qp_live *live,
                                            quipu_live **ret_session, quipu_error *reterr);

/* With the lock held: adds newer messages, and reads state and revision again. */
QUIPU_MUST_USE quipu_status qp_session_catch_up(quipu_live *session, const quipu_call_options *call,
                                                quipu_error *reterr);

/* Sets agent, parent and inherited messages when the session's metadata say that it is a child. */
QUIPU_MUST_USE quipu_status qp_session_adopt(quipu_live *session, const quipu_session_info *info);

/* Drops a child's oldest own messages above its limit from memory. */
void qp_session_trim(quipu_live *session);

/* Copies a message behind the last one without counting it; adding one to count shows it. */
QUIPU_MUST_USE quipu_status qp_session_prepare(quipu_live *session, const quipu_message *message,
                                               quipu_error *reterr);

/* Name, uid, revision and time, under the session's lock; texts go to the arena. */
QUIPU_MUST_USE quipu_status qp_live_identity_read(quipu_live *session, quipu_arena *arena,
                                                  quipu_live_identity *ret_identity,
                                                  quipu_error *reterr);

/* The state as an object. The session's lock is held. */
QUIPU_MUST_USE quipu_status qp_session_state(const quipu_live *session, quipu_arena *arena,
                                             quipu_json *ret_state, quipu_error *reterr);

/* The value of one name; QUIPU_NOT_FOUND: the state has no such name. The lock is held. */
QUIPU_MUST_USE quipu_status qp_session_value(const quipu_live *session, quipu_str name,
                                             quipu_arena *arena, quipu_json *ret_value,
                                             quipu_error *reterr);

/* Frees what a session holds, but neither the session itself nor its lock. */
void qp_session_release(quipu_live *session);

/* Appends to this session, for any author. The session's lock is held. */
QUIPU_MUST_USE quipu_status qp_session_append(quipu_live *session, quipu_json event,
                                              const quipu_call_options *call,
                                              quipu_event_result *ret_result, quipu_error *reterr);

/* Answers open calls. The session's lock is held. */
QUIPU_MUST_USE quipu_status qp_session_close_calls(quipu_live *session,
                                                   const quipu_call_options *call,
                                                   int64_t *ret_closed, quipu_error *reterr);

/* Begin, merge and discard a child. The parent's lock is held. */
QUIPU_MUST_USE quipu_status qp_child_spawn(quipu_live *parent, quipu_str agent,
                                           const quipu_child_options *options,
                                           const quipu_call_options *call, quipu_live **ret_child,
                                           quipu_error *reterr);
/* QUIPU_MISUSE unless the child is one of this parent. */
QUIPU_MUST_USE quipu_status qp_child_check(const quipu_live *parent, const quipu_live *child,
                                           quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_child_merge(quipu_live *parent, quipu_live *child, quipu_str summary,
                                           quipu_str author, const quipu_call_options *call,
                                           quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_child_discard(quipu_live *parent, quipu_live *child,
                                             quipu_str reason, const quipu_call_options *call,
                                             quipu_error *reterr);

/* A text without leading and trailing white space; whether a text has nothing else. */
quipu_str qp_text_strip(quipu_str text);
bool qp_text_is_blank(quipu_str text);

/* Changes of children to report through the hook after the lock is released. */
#define QP_NOTICES_MAX 4
typedef struct qp_notices {
    size_t count;
    quipu_child_change changes[QP_NOTICES_MAX];
    quipu_str agents[QP_NOTICES_MAX]; /* texts of the service */
} qp_notices;

/* Appends an event in a service with isolated agents. The session's lock is held. */
QUIPU_MUST_USE quipu_status qp_isolate_append(quipu_live *session, quipu_json event,
                                              const quipu_call_options *call,
                                              quipu_event_result *ret_result, qp_notices *notices,
                                              quipu_error *reterr);
void qp_notices_report(const quipu_service *service, const qp_notices *notices);

/* Events made from messages, oldest first. */
typedef struct qp_view {
    const quipu_json *events;
    size_t count;
    size_t first;   /* index of the first message of the view */
    int64_t tokens; /* of its messages */
} qp_view;

/* view.c: the newest messages within a token budget, as events; see QUIPU_LIVE_VIEW. */
QUIPU_MUST_USE quipu_status qp_view_make(const quipu_message *messages, size_t count,
                                         int64_t token_budget, quipu_str root_agent,
                                         quipu_arena *arena, qp_view *ret_view,
                                         quipu_error *reterr);

/* Whether ids are texts that a column can hold: a session with others cannot exist. */
bool qp_service_are_texts(quipu_str app_name, quipu_str user_id, quipu_str session_id);

/* The root agent's name. */
quipu_str qp_service_root(const quipu_service *service);

#endif
