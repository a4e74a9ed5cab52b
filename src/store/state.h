/* State in scopes: one row a key, changed in the transaction of the append that brings the change.
 * Also the reading of a session together with its state, from one snapshot. This header shows
 * nothing of the rooms below the store, because the ADK room includes it. */
#ifndef QP_STORE_STATE_H
#define QP_STORE_STATE_H

#include <quipu/store.h>

#define QP_STATE_EVENTS_MAX 64  /* ids of state-only events that a session remembers */
#define QP_STATE_NAME_MAX 1024  /* bytes of a key */
#define QP_STATE_SET_BY_MAX 256 /* bytes of the author that set it; a longer one is cut */

typedef enum qp_scope { QP_SCOPE_APP = 1, QP_SCOPE_USER, QP_SCOPE_SESSION } qp_scope;

/* One key and what becomes of it, or what it is. */
typedef struct qp_state_item {
    qp_scope scope;
    quipu_str name;  /* without the scope's prefix */
    quipu_str value; /* JSON; a change without one removes the key */
} qp_state_item;

typedef struct qp_state_items {
    const qp_state_item *items;
    size_t count;
} qp_state_items;

/* Whether a store can be used by this process. QUIPU_MISUSE: it is NULL, or was opened before
 * fork(2). Any other call says the same by itself. */
QUIPU_MUST_USE quipu_status qp_store_check(quipu_store *store, quipu_error *reterr);

/* QUIPU_UNSUPPORTED, with the name of the public call: the store is behind a server, which has
 * nothing that the call needs. For calls of several steps, before the first one. */
QUIPU_MUST_USE quipu_status qp_store_check_here(quipu_store *store, const char *name,
                                                quipu_error *reterr);

/* ---- appending --------------------------------------------------------------------------------
 */

/* The part of an append beside its messages. */
typedef struct qp_append_also {
    qp_state_items changes;
    bool made;    /* the messages were made out of parsed JSON: QP_MESSAGES_PARSED */
    bool has_uid; /* QUIPU_CONFLICT unless the session still lives the same life */
    quipu_uuid uid;
    quipu_str author;   /* of an append without messages, or absent */
    quipu_str event_id; /* of an append without messages: required */
    quipu_time time; /* and when it happened. With messages it is set to the time of the last one,
                      * which the store fills in where the message has none */
    int64_t expected_revision; /* -1: do not check */
    int64_t revision;          /* set when the answer is QUIPU_CONFLICT: the session's */
} qp_append_also;

/* Append messages, or none, and apply changes, all or nothing. A repeat applies nothing. The result
 * of an append without messages has first_seq 0. Errors as quipu_message_append(). */
QUIPU_MUST_USE quipu_status qp_append_also_state(quipu_store *store, quipu_str key,
                                                 quipu_messages messages, qp_append_also *also,
                                                 const quipu_call_options *call,
                                                 quipu_appended *ret_appended, quipu_error *reterr);

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Which messages to read: a range, or those not older than a time. */
typedef struct qp_live_want {
    quipu_range range; /* with a time only its limit counts: the newest so many of those */
    bool has_after;
    quipu_time after;
} qp_live_want;

/* A session with its state. Items are sorted by scope and name. */
typedef struct qp_live {
    quipu_history *history; /* owns everything here; quipu_free() */
    qp_state_items state;   /* app, user, session */
    quipu_time last_event_at;
    bool created;
} qp_live;

/* Reads a session with its state, from one snapshot. Errors as quipu_session_get(). */
QUIPU_MUST_USE quipu_status qp_live_get(quipu_store *store, quipu_str key, const qp_live_want *want,
                                        const quipu_call_options *call, qp_live *ret_live,
                                        quipu_error *reterr);

/* A session to be: with its first state, or with `reuse` the one that is there. */
typedef struct qp_live_new {
    const quipu_session_new *values;
    bool reuse;
    qp_state_items changes; /* apply only when it is created */
    const qp_live_want *want;
} qp_live_new;

/* Creates a session with its first state in one transaction, or gets the one that is there. Errors
 * as quipu_session_create(). */
QUIPU_MUST_USE quipu_status qp_live_create(quipu_store *store, const qp_live_new *given,
                                           const quipu_call_options *call, qp_live *ret_live,
                                           quipu_error *reterr);

/* Sessions of an app, or of one of its users, with their state, in no order; expired ones are left
 * out. `history->messages` is empty. */
typedef struct qp_live_list {
    qp_live *items; /* `history` of an item is not a result of its own: never free it */
    size_t count;
} qp_live_list;

QUIPU_MUST_USE quipu_status qp_live_find(quipu_store *store, quipu_str app_name, quipu_str user_id,
                                         const quipu_call_options *call, quipu_arena *arena,
                                         qp_live_list *ret_list, quipu_error *reterr);

/* The state of a user of an app, copied to the arena. */
QUIPU_MUST_USE quipu_status qp_state_of_user(quipu_store *store, quipu_str app_name,
                                             quipu_str user_id, const quipu_call_options *call,
                                             quipu_arena *arena, qp_state_items *ret_state,
                                             quipu_error *reterr);

#endif
