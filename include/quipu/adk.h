/* Sessions as Google's Agent Development Kit (ADK) knows them, over a store: events with every
 * field kept, state in scopes, live sessions whose history is in step with the store. */
#ifndef QUIPU_ADK_H
#define QUIPU_ADK_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_EVENT_DEPTH_MAX 510      /* arrays and objects inside each other in an event */
#define QUIPU_ROOT_AGENT "lango-agent" /* author of an agent's message that has none */

/* ---- events ------------------------------------------------------------------------------------
 */

typedef enum quipu_key_case {
    QUIPU_KEYS_AS_STORED = 0, /* as the event was appended */
    QUIPU_KEYS_CAMEL,         /* stateDelta: the wire, and ADK for Go */
    QUIPU_KEYS_SNAKE          /* state_delta: what ADK for Python stores */
} quipu_key_case;

typedef enum quipu_bytes_form {
    QUIPU_BYTES_AS_STORED = 0,
    QUIPU_BYTES_STD, /* base64's standard alphabet: ADK for Go reads no other */
    QUIPU_BYTES_URL  /* the one for URLs: what ADK for Python writes */
} quipu_bytes_form;

typedef enum quipu_time_form {
    QUIPU_TIMES_AS_STORED = 0,
    QUIPU_TIMES_SECONDS, /* a number of seconds since 1970: ADK for Python */
    QUIPU_TIMES_RFC3339  /* text: ADK for Go */
} quipu_time_form;

/* How events are written for a reader. Only names that ADK has are rewritten, never the user's. */
typedef struct quipu_event_dialect {
    uint32_t struct_size;
    quipu_key_case key_case;
    quipu_bytes_form bytes;
    quipu_time_form time;
} quipu_event_dialect;

#define QUIPU_EVENT_DIALECT_INIT                                                                   \
    {(uint32_t)sizeof(quipu_event_dialect), QUIPU_KEYS_AS_STORED, QUIPU_BYTES_AS_STORED,           \
     QUIPU_TIMES_AS_STORED}

/**
 * An ADK event, in camelCase or snake_case, as a message that holds all of it. Texts of parts make
 * the content, or what responses say when there is no text; function calls and responses become
 * tool calls, an id that is missing is "call_" and the name; roles are normalised
 * (model: assistant, function: tool, responses only: tool); what the message's members cannot
 * express stands in its `extra`.
 *
 * Ownership: texts of *ret_message lie in the event's text and in the arena.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (no JSON object), QUIPU_LIMIT (too deep or too large), QUIPU_NOMEM,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_event_to_message(quipu_json event, quipu_arena *arena,
                                                             quipu_message *ret_message,
                                                             quipu_error *reterr);

/**
 * The event of a message: the same JSON tree that was appended, number spellings and unknown
 * members included. A message that never was an event becomes one: its text, then its calls.
 * `dialect` NULL: as it was appended.
 *
 * Ownership: the text is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_CORRUPT (`extra` does not fit the message), QUIPU_NOMEM, QUIPU_LIMIT,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_to_event(const quipu_message *message,
                                                             const quipu_event_dialect *dialect,
                                                             quipu_arena *arena,
                                                             quipu_json *ret_event,
                                                             quipu_error *reterr);

/* ---- the service -------------------------------------------------------------------------------
 */

/* Sessions of apps and their users over a store; shared by all threads. */
typedef struct quipu_service quipu_service;

/* A live session: its history and state in memory, in step with the store. Threads may share one:
 * its calls take turns. */
typedef struct quipu_live quipu_live;

/* Who a session is. The same session id under another user is another session. With an empty app
 * and user it is the plain session whose key is the session id. */
typedef struct quipu_session_ref {
    quipu_str app_name;
    quipu_str user_id;
    quipu_str session_id;
} quipu_session_ref;

/* What happens to the children of isolated agents. */
typedef enum quipu_child_change {
    QUIPU_CHILD_FORKED = 1,
    QUIPU_CHILD_MERGED,
    QUIPU_CHILD_DISCARDED
} quipu_child_change;

/* Told about it on the caller's thread after the call did it, with no lock held. */
typedef void (*quipu_child_fn)(void *ctx, quipu_child_change change, quipu_str agent);

typedef struct quipu_service_options {
    uint32_t struct_size;
    uint32_t flags;          /* QUIPU_SERVICE_* */
    int64_t ttl_ms;          /* of new sessions; 0: the store's; -1: none */
    quipu_str root_agent;    /* author of an agent's message that has none */
    quipu_key_case key_case; /* in which dialect events come out */
    quipu_bytes_form bytes;
    quipu_time_form time;
    const quipu_str *isolated; /* agents that work in child sessions: see quipu_live_append() */
    size_t isolated_count;
    quipu_child_fn on_child; /* or NULL */
    void *on_child_ctx;
} quipu_service_options;

#define QUIPU_SERVICE_OPTIONS_INIT                                                                 \
    {(uint32_t)sizeof(quipu_service_options),                                                      \
     0,                                                                                            \
     0,                                                                                            \
     {NULL, 0},                                                                                    \
     QUIPU_KEYS_AS_STORED,                                                                         \
     QUIPU_BYTES_AS_STORED,                                                                        \
     QUIPU_TIMES_AS_STORED,                                                                        \
     NULL,                                                                                         \
     0,                                                                                            \
     NULL,                                                                                         \
     NULL}

#define QUIPU_SERVICE_MISSING_FAILS 1u /* get: a missing session is QUIPU_NOT_FOUND, not NULL */
#define QUIPU_SERVICE_ZERO_IS_ALL 2u   /* get: num_recent 0 means all events, not none */
#define QUIPU_SERVICE_STRIP_IDS 4u     /* session ids lose the white space around them */
#define QUIPU_SERVICE_NEEDS_IDS 8u     /* empty app or user: QUIPU_INVALID; list: empty user: any */
#define QUIPU_SERVICE_AUTO_CREATE                                                                  \
    16u /* get: a missing session is created, an expired one renewed */
#define QUIPU_SERVICE_RECORD_STATE 32u /* events that only change state are events of the history */
#define QUIPU_SERVICE_REBASE 64u       /* append: a stale session appends and catches up */
#define QUIPU_SERVICE_BY_TIME 128u     /* get: events by their time, not by their number */

/* The rules of ADK's own services. */
#define QUIPU_SERVICE_PYTHON (QUIPU_SERVICE_STRIP_IDS | QUIPU_SERVICE_RECORD_STATE)
#define QUIPU_SERVICE_GO                                                                           \
    (QUIPU_SERVICE_MISSING_FAILS | QUIPU_SERVICE_ZERO_IS_ALL | QUIPU_SERVICE_NEEDS_IDS |           \
     QUIPU_SERVICE_RECORD_STATE)

/**
 * Make a service over a store.
 *
 * Ownership: free with quipu_service_free(), before the store is closed; options are copied.
 * Threads:   any.
 * Errors:    QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_new(quipu_store *store,
                                                        const quipu_service_options *options,
                                                        quipu_service **ret_service,
                                                        quipu_error *reterr);

/**
 * Free a service whose sessions are all freed. NULL is fine.
 *
 * Ownership: the service is gone; the store stays.
 * Threads:   one, when no other uses it.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_service_free(quipu_service *service);

/**
 * Create a session with a first state, an object or absent, in one transaction. Names that begin
 * with "app:" and "user:" go to the app's and the user's state, "temp:" stays in the live session.
 * An empty session id gets a random one.
 *
 * Ownership: free *ret_session with quipu_live_free().
 * Threads:   any, same service.
 * Errors:    QUIPU_EXISTS, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status
quipu_service_create(quipu_service *service, const quipu_session_ref *ref, quipu_json state,
                     const quipu_call_options *call, quipu_live **ret_session, quipu_error *reterr);

/* Which events a live session begins with. The state is always whole. */
typedef struct quipu_get_options {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_GET_* */
    int64_t num_recent; /* the newest so many; -1: all; 0: by the service's options */
    quipu_time after;   /* with QUIPU_GET_AFTER: events of this time or later */
} quipu_get_options;

#define QUIPU_GET_OPTIONS_INIT {(uint32_t)sizeof(quipu_get_options), 0, -1, {0, 0}}

#define QUIPU_GET_AFTER 1u
#define QUIPU_GET_CREATE 2u /* create a missing session, renew an expired one, atomically */

/**
 * Read a session. A missing one gives NULL and success, or QUIPU_NOT_FOUND, or is created: see
 * QUIPU_SERVICE_*; an expired one counts as missing.
 *
 * Ownership: free *ret_session with quipu_live_free().
 * Threads:   any, same service.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_get(
    quipu_service *service, const quipu_session_ref *ref, const quipu_get_options *options,
    const quipu_call_options *call, quipu_live **ret_session, quipu_error *reterr);

typedef struct quipu_service_entry {
    quipu_session_ref ref;
    quipu_json state; /* merged: session, "app:" and "user:" names */
    quipu_time last_update_time;
    quipu_time created_at;
    int64_t revision;
    int64_t event_count;
} quipu_service_entry;

typedef struct quipu_service_list {
    const quipu_service_entry *items;
    size_t count;
} quipu_service_list;

/**
 * The sessions of an app, or of one user of it (`user_id` absent: of all), without events, sorted
 * by last update time, user and session id.
 *
 * Ownership: free *ret_list with quipu_service_list_free().
 * Threads:   any, same service.
 * Errors:    QUIPU_INVALID, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_list_get(quipu_service *service,
                                                             quipu_str app_name, quipu_str user_id,
                                                             const quipu_call_options *call,
                                                             quipu_service_list **ret_list,
                                                             quipu_error *reterr);

/**
 * Free a list. NULL is fine.
 *
 * Ownership: everything reached from it is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_service_list_free(quipu_service_list *list);

/**
 * Delete a session with its events and its own state; the app's and the user's stay. A missing one
 * is fine.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same service.
 * Errors:    QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_delete(quipu_service *service,
                                                           const quipu_session_ref *ref,
                                                           const quipu_call_options *call,
                                                           quipu_error *reterr);

/**
 * The state of a user of an app as an object, names without "user:"; {} when there is none.
 *
 * Ownership: the text is the arena's.
 * Threads:   any, same service; the arena one at a time.
 * Errors:    QUIPU_INVALID, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_user_state(
    quipu_service *service, quipu_str app_name, quipu_str user_id, const quipu_call_options *call,
    quipu_arena *arena, quipu_json *ret_state, quipu_error *reterr);

/* ---- a live session ----------------------------------------------------------------------------
 */

/* What became of an event. */
typedef struct quipu_event_result {
    int64_t seq;      /* its number; 0: it is no event of the history */
    int64_t revision; /* of the session after it */
    bool stored;      /* it was written now: as an event, or only its state */
    bool repeated;    /* it had been there already: nothing was written */
} quipu_event_result;

/**
 * Append an event and apply its state delta, in one transaction. When the call returns it is in the
 * store and in the live session; when it fails, in neither. A partial event has no effect. "temp:"
 * names reach the live session only. A delta without content or anything else is applied but is no
 * event of the history, unless the service records it.
 *
 * Repeating an event with the same id applies nothing twice. A session that somebody else changed
 * since it was read is QUIPU_CONFLICT: quipu_live_revision() then tells both revisions; or, with
 * QUIPU_SERVICE_REBASE, the event is appended behind the others' and the live session catches up.
 * After QUIPU_UNKNOWN the live session reloads at its next use: repeat the event to settle it.
 *
 * Events of an isolated agent go to a child session, begun with its first event, and show in this
 * live session until the child ends; the session's own stored history does not get them. An event
 * by anybody else ends the child first, as quipu_live_end_child() does. An isolated agent that
 * hands over without a text or a call has its child discarded. Names of the session's state that it
 * sets are the child's: they show until the child ends; "app:" and "user:" names are kept.
 *
 * Ownership: the event is borrowed; `ret_result` may be NULL.
 * Threads:   any, same session.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT, QUIPU_EXISTS (the id is there and says
 *            something else), QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_append(quipu_live *session, quipu_json event,
                                                        const quipu_call_options *call,
                                                        quipu_event_result *ret_result,
                                                        quipu_error *reterr);

/**
 * Catch up with the store: newer events are added, the state is read anew, "temp:" names stay.
 *
 * Ownership: none.
 * Threads:   any, same session.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_refresh(quipu_live *session,
                                                         const quipu_call_options *call,
                                                         quipu_error *reterr);

/**
 * Who the session is, copied to the arena, and its last update time; either output may be NULL.
 *
 * Ownership: texts are the arena's.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_identity(quipu_live *session, quipu_arena *arena,
                                                          quipu_session_ref *ret_ref,
                                                          quipu_time *ret_last_update_time,
                                                          quipu_error *reterr);

/**
 * The revision that the live session has, and in *ret_stored the one that the store had when it
 * last answered QUIPU_CONFLICT, or the same one. `ret_stored` may be NULL.
 *
 * Ownership: none.
 * Threads:   any, same session.
 * Errors:    none: -1 without a session.
 * Since:     0.1
 */
QUIPU_API int64_t quipu_live_revision(quipu_live *session, int64_t *ret_stored);

/**
 * How many events the live session holds.
 *
 * Ownership: none.
 * Threads:   any, same session.
 * Errors:    none: 0 without a session.
 * Since:     0.1
 */
QUIPU_API size_t quipu_live_event_count(quipu_live *session);

/**
 * Event number `index` of the live session, from 0, oldest first, in the service's dialect.
 *
 * Ownership: the text is the arena's.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_NOT_FOUND (there is none), QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_LIMIT,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_event(quipu_live *session, size_t index,
                                                       quipu_arena *arena, quipu_json *ret_event,
                                                       quipu_error *reterr);

/**
 * The state of the live session as an object: its own names, "app:", "user:" and "temp:" ones,
 * sorted.
 *
 * Ownership: the text is the arena's.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_state(quipu_live *session, quipu_arena *arena,
                                                       quipu_json *ret_state, quipu_error *reterr);

/**
 * The value of one name of the state.
 *
 * Ownership: the text is the arena's.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_value(quipu_live *session, quipu_str name,
                                                       quipu_arena *arena, quipu_json *ret_value,
                                                       quipu_error *reterr);

/**
 * Set one name of the state to a JSON value, or with an absent value remove it, in the store and in
 * the live session; "temp:" names only there.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same session.
 * Errors:    as quipu_live_append().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_set(quipu_live *session, quipu_str name,
                                                     quipu_json value,
                                                     const quipu_call_options *call,
                                                     quipu_error *reterr);

/**
 * Free a live session; the stored one stays. NULL is fine.
 *
 * Ownership: the live session is gone.
 * Threads:   one, when no other uses it.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_live_free(quipu_live *session);

/* ---- sessions that the caller keeps -----------------------------------------------------------
 */

/* What tells one moment of a session from all others. */
typedef struct quipu_session_head {
    quipu_session_ref ref;
    quipu_uuid uid; /* of this life of the session */
    int64_t revision;
    quipu_time last_update_time;
} quipu_session_head;

/* A session at one moment. */
typedef struct quipu_snapshot {
    quipu_session_head head;
    quipu_json state;  /* an object: see quipu_live_state() */
    quipu_json events; /* an array, oldest first, in the service's dialect */
    size_t count;      /* of the events */
} quipu_snapshot;

/**
 * All that a live session holds, for callers that have session objects of their own: take this,
 * free the live session, and append with quipu_service_append().
 *
 * Ownership: everything reached from *ret_snapshot is the arena's.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_snapshot(quipu_live *session, quipu_arena *arena,
                                                          quipu_snapshot *ret_snapshot,
                                                          quipu_error *reterr);

/**
 * Append an event to the session that `head` tells, without a live session; else as
 * quipu_live_append(). A session that is not at this moment any more is QUIPU_CONFLICT, or, with
 * QUIPU_SERVICE_REBASE, gets the event all the same. On success `head` is the moment after it; an
 * event that was there already moves it only when nothing else happened since, so that nobody's
 * change is passed over unseen. Services with isolated agents need live sessions.
 *
 * Ownership: the texts of `head->ref` stay the caller's; `ret_result` may be NULL.
 * Threads:   any, same service; the head one at a time.
 * Errors:    as quipu_live_append().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_append(
    quipu_service *service, quipu_session_head *head, quipu_json event,
    const quipu_call_options *call, quipu_event_result *ret_result, quipu_error *reterr);

/* ---- messages as a model should see them -------------------------------------------------------
 */

#define QUIPU_VIEW_BUDGET 32000 /* tokens of a view that names none */

typedef struct quipu_view_options {
    uint32_t struct_size;
    uint32_t flags;       /* 0 */
    int64_t token_budget; /* 0 or less: QUIPU_VIEW_BUDGET */
    quipu_str root_agent; /* author of an agent's message that has none; absent: QUIPU_ROOT_AGENT */
} quipu_view_options;

#define QUIPU_VIEW_OPTIONS_INIT {(uint32_t)sizeof(quipu_view_options), 0, 0, {NULL, 0}}

/* Events made from messages, oldest first. */
typedef struct quipu_view {
    const quipu_json *events;
    size_t count;
    size_t first;   /* index of the first message that is in it */
    int64_t tokens; /* of its messages */
} quipu_view;

/**
 * The newest messages within a token budget, at least one, as events: texts, function calls,
 * function responses. What was cut parts no pair (see <quipu/history.h>), and begins with no answer
 * and no call that has none; uncut, a pending call stays. A tool's message without an output is the
 * response to the call that it is paired with. Neighbours of one role and one author become one
 * event. Ids are those of the messages, the same at every reading.
 *
 * Ownership: everything reached from *ret_view is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (a text is not UTF-8), QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_view_make(const quipu_message *messages, size_t count,
                                                      const quipu_view_options *options,
                                                      quipu_arena *arena, quipu_view *ret_view,
                                                      quipu_error *reterr);

/**
 * The same over the messages of a live session.
 *
 * Ownership: everything reached from *ret_view is the arena's.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    as quipu_view_make().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_view(quipu_live *session,
                                                      const quipu_view_options *options,
                                                      quipu_arena *arena, quipu_view *ret_view,
                                                      quipu_error *reterr);

/**
 * Answer every function call of the live session that nobody answered, after a turn that failed:
 * one tool message a call, by the call's author, that says it was interrupted; all in one
 * transaction. Which calls have a response, the rule of pairs says (see <quipu/history.h>).
 *
 * Ownership: `ret_closed`, the number of calls, may be NULL.
 * Threads:   any, same session.
 * Errors:    as quipu_live_append().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_close_calls(quipu_live *session,
                                                             const quipu_call_options *call,
                                                             int64_t *ret_closed,
                                                             quipu_error *reterr);

/* ---- child sessions ----------------------------------------------------------------------------
 */

typedef struct quipu_child_options {
    uint32_t struct_size;
    uint32_t flags;       /* 0 */
    int64_t inherit;      /* the parent's newest events that it begins with; 0: none; -1: all */
    int64_t max_messages; /* of its own that its live session keeps; 0: all */
} quipu_child_options;

#define QUIPU_CHILD_OPTIONS_INIT {(uint32_t)sizeof(quipu_child_options), 0, 0, 0}

/**
 * Begin a session for a sub-agent that works apart: a fork of the parent's, stored under the id
 * `<parent>:child:<agent>:<uuid>` of the same app and user. What it appends, the parent does not
 * see before it is merged.
 *
 * Ownership: free *ret_child with quipu_live_free(); the stored child stays.
 * Threads:   any, same session.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_spawn(quipu_live *parent, quipu_str agent,
                                                       const quipu_child_options *options,
                                                       const quipu_call_options *call,
                                                       quipu_live **ret_child, quipu_error *reterr);

/**
 * Merge a child into its parent: with a summary one assistant's message by `author` (absent: the
 * child's agent), without one every event of the child's own that the store has, in order, the last
 * `max_messages` of a child with such a limit. The child is marked as merged in the same
 * transaction: a merge that failed can be repeated, one that succeeded cannot.
 *
 * Ownership: both live sessions stay the caller's.
 * Threads:   any, same sessions.
 * Errors:    QUIPU_EXISTS (merged already), QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT,
 *            QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE (another's child too).
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_merge(quipu_live *parent, quipu_live *child,
                                                       quipu_str summary, quipu_str author,
                                                       const quipu_call_options *call,
                                                       quipu_error *reterr);

/**
 * Delete a child and, with a reason that is not blank, leave a note about it on the parent, by the
 * root agent, in one transaction.
 *
 * Ownership: both live sessions stay the caller's.
 * Threads:   any, same sessions.
 * Errors:    as quipu_live_merge().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_discard(quipu_live *parent, quipu_live *child,
                                                         quipu_str reason,
                                                         const quipu_call_options *call,
                                                         quipu_error *reterr);

typedef struct quipu_child {
    quipu_session_ref ref;
    quipu_str agent;
    bool merged;
} quipu_child;

typedef struct quipu_child_list {
    const quipu_child *items;
    size_t count;
} quipu_child_list;

/**
 * The children of a session that were not discarded, merged ones too, oldest first.
 *
 * Ownership: everything reached from *ret_list is the arena's.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_children(quipu_live *parent,
                                                          const quipu_call_options *call,
                                                          quipu_arena *arena,
                                                          quipu_child_list *ret_list,
                                                          quipu_error *reterr);

/**
 * End the child of the isolated agent that is at work, if there is one: its events leave the live
 * session, and its last text that is not blank, or a note that there is none, becomes one message
 * by the root agent, in the store and in memory.
 *
 * Ownership: none.
 * Threads:   any, same session.
 * Errors:    as quipu_live_merge().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_end_child(quipu_live *session,
                                                           const quipu_call_options *call,
                                                           quipu_error *reterr);

/**
 * Clean up after a turn that failed: calls that nobody answered are closed as by
 * quipu_live_close_calls(), the child of an isolated agent at work is discarded, and with a
 * reason that is not blank a note says so.
 *
 * Ownership: none.
 * Threads:   any, same session.
 * Errors:    as quipu_live_merge().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_fail_turn(quipu_live *session, quipu_str reason,
                                                           const quipu_call_options *call,
                                                           quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
