/* Sessions of Google's Agent Development Kit (ADK) over a store: events with every field kept,
 * state in scopes, and live sessions, which hold their history and state in memory. */
#ifndef QUIPU_ADK_H
#define QUIPU_ADK_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_EVENT_DEPTH_MAX 510      /* nesting of arrays and objects in an event */
#define QUIPU_ROOT_AGENT "lango-agent" /* author of an agent's message without one */

/* ---- events ---------------------------------------------------------------------------------- */

typedef enum quipu_key_case {
    QUIPU_KEYS_AS_STORED = 0, /* as the event was appended */
    QUIPU_KEYS_CAMEL,         /* stateDelta: the wire format, ADK for Go */
    QUIPU_KEYS_SNAKE          /* state_delta: ADK for Python */
} quipu_key_case;

typedef enum quipu_bytes_form {
    QUIPU_BYTES_AS_STORED = 0,
    QUIPU_BYTES_STD, /* base64's standard alphabet: ADK for Go */
    QUIPU_BYTES_URL  /* its alphabet for URLs: ADK for Python */
} quipu_bytes_form;

typedef enum quipu_time_form {
    QUIPU_TIMES_AS_STORED = 0,
    QUIPU_TIMES_SECONDS, /* a number of seconds since 1970: ADK for Python */
    QUIPU_TIMES_RFC3339  /* text: ADK for Go */
} quipu_time_form;

/* How events are written. Only ADK's own names are rewritten, never the user's. */
typedef struct quipu_event_dialect {
    uint32_t struct_size;
    quipu_key_case key_case;
    quipu_bytes_form bytes;
    quipu_time_form time;
} quipu_event_dialect;

#define QUIPU_EVENT_DIALECT_INIT QUIPU_INIT(quipu_event_dialect)

/**
 * Convert an ADK event, in camelCase or snake_case, to a message that holds all of it, a slice of
 * one. The content is the text of the parts or, without any, what the responses say. Function calls
 * and responses become tool calls; a missing id is "call_" and the name on both sides. Roles are
 * normalised (model: assistant, function: tool, only responses: tool). `extra` holds what the
 * message's members cannot express.
 *
 * Ownership: texts of the message lie in the event's text and in the arena.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (no JSON object), QUIPU_LIMIT (too deep or too large), QUIPU_NOMEM,
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_event_to_message(quipu_json event, quipu_arena *arena,
                                                             quipu_messages *ret_messages,
                                                             quipu_error *reterr);

/**
 * Return the event of message `index` of a slice: the JSON tree that was appended, number spellings
 * and unknown members included. A message that never was an event becomes one: its text, then its
 * calls. `dialect` NULL: as it was appended.
 *
 * Ownership: the arena owns the text.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_CORRUPT (`extra` does not fit the message), QUIPU_UNSUPPORTED, QUIPU_NOMEM,
 *            QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_to_event(quipu_messages messages, size_t index,
                                                             const quipu_event_dialect *dialect,
                                                             quipu_arena *arena,
                                                             quipu_json *ret_event,
                                                             quipu_error *reterr);

/* ---- the service ----------------------------------------------------------------------------- */

/* Sessions of apps and their users over a store; all threads may share it. */
typedef struct quipu_service quipu_service;

/* A live session: its events and state in memory, equal to the store's when it was read and after
 * each append. Threads may share one: its calls run one at a time. */
typedef struct quipu_live quipu_live;

/* The name of a session. The same session id under another user is another session. With an empty
 * app and user it names the plain session whose key is the session id. The layout is final. */
typedef struct quipu_session_ref {
    quipu_str app_name;
    quipu_str user_id;
    quipu_str session_id;
} quipu_session_ref;

/* What happened to the child session of an isolated agent. */
typedef enum quipu_child_change {
    QUIPU_CHILD_FORKED = 1,
    QUIPU_CHILD_MERGED,
    QUIPU_CHILD_DISCARDED
} quipu_child_change;

/* Called on the caller's thread after the change, with no lock held. */
typedef void (*quipu_child_fn)(void *ctx, quipu_child_change change, quipu_str agent);

typedef struct quipu_service_options {
    uint32_t struct_size;
    uint32_t flags;          /* QUIPU_SERVICE_* */
    int64_t ttl_ms;          /* of new sessions; 0: the store's; -1: none */
    quipu_str root_agent;    /* author of an agent's message without one */
    quipu_key_case key_case; /* the dialect of returned events */
    quipu_bytes_form bytes;
    quipu_time_form time;
    const quipu_str *isolated; /* agents that work in child sessions: see quipu_live_append() */
    size_t isolated_count;
    quipu_child_fn on_child; /* or NULL */
    void *on_child_ctx;
} quipu_service_options;

#define QUIPU_SERVICE_OPTIONS_INIT QUIPU_INIT(quipu_service_options)

#define QUIPU_SERVICE_MISSING_FAILS 1u /* get: a missing session is QUIPU_NOT_FOUND, not NULL */
#define QUIPU_SERVICE_ZERO_IS_ALL 2u   /* get: num_recent 0 means all events, not none */
#define QUIPU_SERVICE_STRIP_IDS 4u     /* strip white space around session ids */
#define QUIPU_SERVICE_NEEDS_IDS 8u     /* empty app or user: QUIPU_INVALID; list: empty user: any */
#define QUIPU_SERVICE_AUTO_CREATE 16u  /* get: create a missing session, renew an expired one */
#define QUIPU_SERVICE_RECORD_STATE 32u /* keep events that only change state in the history */
#define QUIPU_SERVICE_REBASE 64u       /* append: refresh a stale session, then append */
#define QUIPU_SERVICE_BY_TIME 128u     /* get: order events by time, not by number */

/* The rules of ADK's own services for Python and for Go. */
#define QUIPU_SERVICE_PYTHON (QUIPU_SERVICE_STRIP_IDS | QUIPU_SERVICE_RECORD_STATE)
#define QUIPU_SERVICE_GO                                                                           \
    (QUIPU_SERVICE_MISSING_FAILS | QUIPU_SERVICE_ZERO_IS_ALL | QUIPU_SERVICE_NEEDS_IDS |           \
     QUIPU_SERVICE_RECORD_STATE)

/**
 * Create a service over a store.
 *
 * Ownership: free with quipu_service_free(); options are copied. Close the store when no call of
 *            the service runs. Afterwards the service and its live sessions can only be freed and,
 *            with quipu_live_get(), be read.
 * Threads:   any.
 * Errors:    QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_new(quipu_store *store,
                                                        const quipu_service_options *options,
                                                        quipu_service **ret_service,
                                                        quipu_error *reterr);

/**
 * Free a service after all its live sessions. NULL does nothing.
 *
 * Ownership: the service is gone; the store stays.
 * Threads:   one, when no other thread uses it.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_service_free(quipu_service *service);

/**
 * Create a session with an initial state, an object or absent, in one transaction. Names that begin
 * with "app:" and "user:" go to the app's and the user's state; "temp:" names stay in the live
 * session. An empty session id becomes a random one. The last update is call->now, or the clock's.
 *
 * Ownership: free *ret_session, the new session, with quipu_live_free().
 * Threads:   any, same service.
 * Errors:    QUIPU_EXISTS, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status
quipu_service_create(quipu_service *service, const quipu_session_ref *ref, quipu_json state,
                     const quipu_call_options *call, quipu_live **ret_session, quipu_error *reterr);

/* Which events a live session begins with. The state is always complete. */
typedef struct quipu_get_options {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_GET_* */
    int64_t num_recent; /* the newest this many; -1: all; 0: by the service's options */
    quipu_time after;   /* with QUIPU_GET_AFTER: events of this time or later */
} quipu_get_options;

#define QUIPU_GET_OPTIONS_INIT QUIPU_INIT_WITH(quipu_get_options, num_recent, -1)

#define QUIPU_GET_AFTER 1u
#define QUIPU_GET_CREATE 2u /* create a missing session, renew an expired one, atomically */

/**
 * Read a session. For a missing one the call succeeds with NULL, or fails with QUIPU_NOT_FOUND, or
 * creates it: see QUIPU_SERVICE_*. An expired session counts as missing, and so does one whose ids
 * no session can have: too long, not UTF-8, or with NUL.
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
    quipu_uuid uid; /* a session that is deleted and created again has another one */
} quipu_service_entry;

QUIPU_SLICE(quipu_service_entries, quipu_service_entry)

typedef struct quipu_service_list {
    quipu_service_entries sessions;
} quipu_service_list;

/**
 * Find the sessions of an app, or of one of its users (`user_id` absent: of all), all of them,
 * without events, sorted by last update time, user and session id.
 *
 * Ownership: free *ret_list with quipu_free().
 * Threads:   any, same service.
 * Errors:    QUIPU_INVALID, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_find(quipu_service *service, quipu_str app_name,
                                                         quipu_str user_id,
                                                         const quipu_call_options *call,
                                                         quipu_service_list **ret_list,
                                                         quipu_error *reterr);

/**
 * Delete a session with its events and its own state; the app's and the user's state stay. A
 * missing session is no error.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same service.
 * Errors:    QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_delete(quipu_service *service,
                                                           const quipu_session_ref *ref,
                                                           const quipu_call_options *call,
                                                           quipu_error *reterr);

/**
 * Return the state of a user of an app as an object, names without "user:"; {} when there is none.
 *
 * Ownership: the arena owns the text.
 * Threads:   any, same service; the arena one at a time.
 * Errors:    QUIPU_INVALID, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_get_user_state(
    quipu_service *service, quipu_str app_name, quipu_str user_id, const quipu_call_options *call,
    quipu_arena *arena, quipu_json *ret_state, quipu_error *reterr);

/* ---- a live session -------------------------------------------------------------------------- */

/* The result of an append. */
typedef struct quipu_event_result {
    uint32_t struct_size;
    bool stored;      /* the call wrote it, as an event or only its state */
    bool repeated;    /* it existed already: nothing was written */
    int64_t seq;      /* its number; 0: it is no event of the history */
    int64_t revision; /* of the session after it */
} quipu_event_result;

#define QUIPU_EVENT_RESULT_INIT QUIPU_INIT(quipu_event_result)

/**
 * Append an event and apply its state delta, in one transaction. When the call succeeds the event
 * is in the store and in the live session; when it fails, in neither. A partial event has no
 * effect. "temp:" names reach the live session only. A delta without content or anything else is
 * applied but is no event of the history, unless the service records it.
 *
 * Repeating an event with the same id applies nothing twice. A session that another writer changed
 * since it was read is QUIPU_CONFLICT: the identity of quipu_live_get() then has both revisions.
 * With QUIPU_SERVICE_REBASE the call instead appends the event behind the others' and refreshes the
 * live session. After QUIPU_UNKNOWN the live session reloads at its next use: repeat the event to
 * settle it.
 *
 * Events of an isolated agent go to a child session, which its first event creates, and are visible
 * in this live session until the child ends; they never enter the session's own stored history. An
 * event by another author ends the child first, as quipu_live_end_child() does. When an isolated
 * agent hands over without a text or a call, its child is discarded. Names of the session's state
 * that it sets belong to the child and are visible until it ends; "app:" and "user:" names are
 * kept.
 *
 * Ownership: the event is borrowed; `ret_result` may be NULL.
 * Threads:   any, same session.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT, QUIPU_EXISTS (the id exists with
 *            another payload), QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_append(quipu_live *session, quipu_json event,
                                                        const quipu_call_options *call,
                                                        quipu_event_result *ret_result,
                                                        quipu_error *reterr);

/**
 * Bring a live session up to date: add newer events, read the state again; "temp:" names stay.
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

/* Identifies one state of a session: what a live session, or a caller of
 * quipu_service_append(), last saw of it. */
typedef struct quipu_live_identity {
    uint32_t struct_size;
    quipu_session_ref ref;
    quipu_uuid uid;   /* a session that is deleted and created again has another one */
    int64_t revision; /* that the live session has */
    int64_t stored;   /* the store's revision at the last QUIPU_CONFLICT; else as `revision` */
    quipu_time last_update_time;
} quipu_live_identity;

#define QUIPU_LIVE_IDENTITY_INIT QUIPU_INIT(quipu_live_identity)

/* JSON texts. */
QUIPU_SLICE(quipu_jsons, quipu_json)

#define QUIPU_VIEW_BUDGET 32000 /* tokens of a view without a budget */

/* What to read of a live session. */
typedef struct quipu_live_query {
    uint32_t struct_size;
    uint32_t flags;       /* QUIPU_LIVE_*; 0: only its identity, and how many events it holds */
    size_t first;         /* events from this one on, from 0... */
    size_t limit;         /* ...at most so many; 0: all */
    quipu_str name;       /* of the state: the value of this name alone; absent: all of it */
    int64_t token_budget; /* of a view; 0 or less: QUIPU_VIEW_BUDGET */
    quipu_str root_agent; /* of a view: author of an agent's message without one; absent:
                           * QUIPU_ROOT_AGENT */
} quipu_live_query;

#define QUIPU_LIVE_QUERY_INIT QUIPU_INIT(quipu_live_query)

#define QUIPU_LIVE_EVENTS 1u /* its events */
#define QUIPU_LIVE_STATE 2u  /* its state */
/* Instead of its events a view, as a model should see it: the newest messages within a token
 * budget, at least one, as events: texts, function calls, function responses. A cut separates no
 * pair (<quipu/history.h>) and begins neither with an answer nor with a call that has none; without
 * a cut a pending call stays. A tool's message without an output is the response to the call that
 * it is paired with. Neighbours of one role and one author become one event. Ids are those of the
 * messages, the same at every reading. */
#define QUIPU_LIVE_VIEW 4u

/* A live session at one moment. */
typedef struct quipu_snapshot {
    uint32_t struct_size;
    const quipu_live_identity *identity;
    size_t count;        /* of the events that it holds */
    quipu_jsons events;  /* that were asked for, oldest first, in the service's dialect */
    quipu_json state;    /* an object: its own names, "app:", "user:" and "temp:" ones, sorted; or
                          * the value of one name; absent: not asked for */
    size_t view_first;   /* of a view: the index of its first message... */
    int64_t view_tokens; /* ...and the tokens of its messages */
} quipu_snapshot;

#define QUIPU_SNAPSHOT_INIT QUIPU_INIT(quipu_snapshot)

/**
 * Return what a live session holds: its identity and, as the query asks, events, state or a view,
 * all of one moment. The query may be NULL. A caller with session objects of its own takes a
 * snapshot, frees the live session, and appends with quipu_service_append().
 *
 * Ownership: the arena owns everything reached from *ret_snapshot.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_NOT_FOUND (the name), QUIPU_INVALID (a view: a text is not UTF-8),
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_get(quipu_live *session,
                                                     const quipu_live_query *query,
                                                     quipu_arena *arena,
                                                     quipu_snapshot *ret_snapshot,
                                                     quipu_error *reterr);

/**
 * Set one name of the state to a JSON value, or remove it with an absent value, in the store and in
 * the live session; "temp:" names in the live session only.
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
 * Free a live session; the stored one stays. NULL does nothing.
 *
 * Ownership: the live session is gone.
 * Threads:   one, when no other thread uses it.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_live_free(quipu_live *session);

/* ---- sessions that the caller holds ---------------------------------------------------------- */

/**
 * Append an event to the session of `identity` without a live session; otherwise as
 * quipu_live_append(). A session whose state is no longer that of `identity` is QUIPU_CONFLICT or,
 * with QUIPU_SERVICE_REBASE, gets the event all the same. On success `identity` is that of the
 * state after the event; an event that existed already moves it only when nothing else happened
 * since, so that no change of another writer is missed. Services with isolated agents need live
 * sessions.
 *
 * Ownership: the texts of `identity->ref` stay the caller's; `ret_result` may be NULL.
 * Threads:   any, same service; the identity one at a time.
 * Errors:    as quipu_live_append().
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_service_append(
    quipu_service *service, quipu_live_identity *identity, quipu_json event,
    const quipu_call_options *call, quipu_event_result *ret_result, quipu_error *reterr);

/* ---- child sessions -------------------------------------------------------------------------- */

typedef struct quipu_child_options {
    uint32_t struct_size;
    uint32_t flags;       /* 0 */
    int64_t inherit;      /* how many of the parent's newest events it begins with; -1: all */
    int64_t max_messages; /* of its own messages that its live session keeps; 0: all */
} quipu_child_options;

#define QUIPU_CHILD_OPTIONS_INIT QUIPU_INIT(quipu_child_options)

/**
 * Create a session for a sub-agent: a fork of the parent's session, stored under the id
 * `<parent>:child:<agent>:<uuid>` of the same app and user. The parent sees what it appends only
 * after a merge.
 *
 * Ownership: free *ret_child, the new session, with quipu_live_free(); the stored child stays.
 * Threads:   any, same session.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_spawn(quipu_live *parent, quipu_str agent,
                                                       const quipu_child_options *options,
                                                       const quipu_call_options *call,
                                                       quipu_live **ret_child, quipu_error *reterr);

/* What becomes of a child's work. */
typedef struct quipu_child_end {
    uint32_t struct_size;
    uint32_t flags;    /* QUIPU_CHILD_END_DISCARD or 0 */
    quipu_str summary; /* of a merge: this text instead of the child's events; absent: the events */
    quipu_str author;  /* of the summary; absent: the child's agent */
    quipu_str reason;  /* of a discard: a note of the root agent says it, unless it is blank */
} quipu_child_end;

#define QUIPU_CHILD_END_INIT QUIPU_INIT(quipu_child_end)

#define QUIPU_CHILD_END_DISCARD 1u /* delete the child, instead of merging it */

/**
 * End a child session. It is merged into its parent: with a summary, one assistant's message is
 * appended; without one, every event that the child appended, in order, or the last `max_messages`
 * of them. The same transaction marks the child as merged: a merge that failed can be repeated, one
 * that succeeded cannot. With QUIPU_CHILD_END_DISCARD the child is deleted, and a note may stay in
 * the parent, in one transaction.
 *
 * Without `child` (NULL, and `end` NULL) the child of the active isolated agent ends, if there is
 * one: its events leave the live session, and its last text that is not blank, or a note that there
 * is none, becomes one message of the root agent, in the store and in the live session.
 *
 * Ownership: both live sessions stay the caller's. `end` NULL: merge the events.
 * Threads:   any, same sessions.
 * Errors:    QUIPU_EXISTS (merged already), QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT,
 *            QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE (also the child of another
 *            parent).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_end_child(quipu_live *parent, quipu_live *child,
                                                           const quipu_child_end *end,
                                                           const quipu_call_options *call,
                                                           quipu_error *reterr);

typedef struct quipu_child {
    quipu_session_ref ref;
    quipu_str agent;
    bool merged;
} quipu_child;

QUIPU_SLICE(quipu_children, quipu_child)

/**
 * Find the children of a session that were not discarded, merged ones too, oldest first.
 *
 * Ownership: the arena owns everything reached from *ret_children.
 * Threads:   any, same session; the arena one at a time.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_find_children(quipu_live *parent,
                                                               const quipu_call_options *call,
                                                               quipu_arena *arena,
                                                               quipu_children *ret_children,
                                                               quipu_error *reterr);

/**
 * Clean up after a turn that failed. Every unanswered function call of the live session gets one
 * tool message, by the call's author, that says it was interrupted, all in one transaction; the
 * child of an active isolated agent is discarded; with a reason that is not blank a note says so. A
 * later response of its id answers a call, each one call; a missing id is "call_" and the name on
 * both sides.
 *
 * Ownership: `ret_closed`, the number of calls, may be NULL.
 * Threads:   any, same session.
 * Errors:    as quipu_live_end_child().
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_live_fail_turn(quipu_live *session, quipu_str reason,
                                                           const quipu_call_options *call,
                                                           int64_t *ret_closed,
                                                           quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
