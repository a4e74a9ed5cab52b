/* The state of a session as rows, each with who set it last. The names and values are those that
 * ADK's services see (<quipu/adk.h>). */
#ifndef QUIPU_STATE_H
#define QUIPU_STATE_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_STATE_SET_BY_MAX 256 /* bytes of who set it; a longer author is cut */

/* Who shares a name of state. */
typedef enum quipu_scope {
    QUIPU_SCOPE_APP = 1, /* all sessions of an app: "app:" */
    QUIPU_SCOPE_USER,    /* all sessions of a user of an app: "user:" */
    QUIPU_SCOPE_SESSION
} quipu_scope;

/* One name, what it is, and who set it last. */
typedef struct quipu_state_entry {
    quipu_scope scope;
    quipu_str name; /* without the scope's prefix */
    quipu_json value;
    quipu_time set_at;
    quipu_str set_by; /* the author of the event; absent: it had none, or its session is gone */
    int64_t set_seq;  /* the event's message; 0: the event only changed state, or was none */
    quipu_str set_in; /* the session, for the scopes of apps and users; absent: it is gone */
} quipu_state_entry;

QUIPU_SLICE(quipu_state_entries, quipu_state_entry)

/* A name that is set or, without a value, removed. */
typedef struct quipu_state_change {
    quipu_scope scope;
    quipu_str name; /* without the scope's prefix */
    quipu_json value;
} quipu_state_change;

QUIPU_SLICE(quipu_state_changes, quipu_state_change)

/* What an append changes beside messages: quipu_append_options.event. It is stored with the
 * messages, or nothing is. When a name occurs twice, the later change counts. */
typedef struct quipu_state_event {
    uint32_t struct_size;
    quipu_state_changes changes;
    /* For an append without messages; otherwise the last message's values count. */
    quipu_str event_id; /* required: the same id again changes nothing */
    quipu_str author;
    quipu_time time;
} quipu_state_event;

#define QUIPU_STATE_EVENT_INIT QUIPU_INIT(quipu_state_event)

typedef struct quipu_state_list {
    quipu_state_entries entries; /* by scope and name */
} quipu_state_list;

/**
 * Read the state that a session sees, its own and that of its app and its user, from one snapshot,
 * with who set each name last. A name that an older version set has the time of its change, but no
 * author.
 *
 * Ownership: free *ret_list with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_state_get(quipu_store *store, quipu_str key,
                                                      const quipu_call_options *call,
                                                      quipu_state_list **ret_list,
                                                      quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
