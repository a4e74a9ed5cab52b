/* State inside of the store: what state.c and state_live.c give to the works that write (append.c,
 * session.c). Every function but qp_state_check() expects the transaction of its caller to be
 * open. */
#ifndef QP_STORE_STATE_INTERNAL_H
#define QP_STORE_STATE_INTERNAL_H

#include <quipu/state.h>

#include "store/read.h"
#include "store/state.h"
#include "store/store.h"

/* Names and values that can be stored. QUIPU_INVALID, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_state_check(qp_state_items changes, int64_t bytes_max,
                                           quipu_error *reterr);

/* The changes of a caller in this room's form, in the arena; their texts are borrowed.
 * QUIPU_MISUSE: a scope is not in the enum. */
QUIPU_MUST_USE quipu_status qp_state_given(const quipu_state_changes *given, quipu_arena *arena,
                                           qp_state_items *ret_changes, quipu_error *reterr);

/* The author of a change of state, and the number of its message; 0 when the event is not a
 * message. */
typedef struct qp_state_origin {
    quipu_str author; /* may be absent */
    int64_t seq;
    quipu_time at;
} qp_state_origin;

/* Apply changes in the open transaction. */
QUIPU_MUST_USE quipu_status qp_state_apply(const quipu_store *store, ent_db *db,
                                           const qp_session *row, qp_state_items changes,
                                           const qp_state_origin *origin, quipu_error *reterr);

/* For a session that is deleted: the state of app and user that it set last stays, without its
 * author. */
QUIPU_MUST_USE quipu_status qp_state_forget_session(const quipu_store *store, ent_db *db,
                                                    const qp_session *row, quipu_error *reterr);

/* Whether a session remembers the id of a state-only event. QUIPU_EXISTS when it meant others. */
QUIPU_MUST_USE quipu_status qp_state_event_known(ent_db *db, quipu_arena *scratch,
                                                 const qp_session *row, quipu_str event_id,
                                                 qp_state_items changes, bool *ret_known,
                                                 quipu_error *reterr);

/* Remember one that makes revision `number`; the oldest above the limit are forgotten. */
QUIPU_MUST_USE quipu_status qp_state_event_add(ent_db *db, const qp_session *row, int64_t number,
                                               quipu_str event_id, qp_state_items changes,
                                               quipu_error *reterr);

/* The rows of one scope of a session's state, sorted by name, in the arena. */
QUIPU_MUST_USE quipu_status qp_state_rows(const quipu_store *store, ent_db *db,
                                          const qp_session *row, qp_scope scope, quipu_arena *arena,
                                          qp_state_list *ret_list, quipu_error *reterr);

/* Read one scope of a session's state to the arena, behind what `state` holds. */
QUIPU_MUST_USE quipu_status qp_state_read_scope(const quipu_store *store, ent_db *db,
                                                const qp_session *row, qp_scope scope,
                                                quipu_arena *arena, qp_state_items *state,
                                                quipu_error *reterr);

/* Read a session's state to the arena: app, user, session. */
QUIPU_MUST_USE quipu_status qp_state_read(const quipu_store *store, ent_db *db,
                                          const qp_session *row, quipu_arena *arena,
                                          qp_state_items *ret_state, quipu_error *reterr);

/* The same with who set each name last, for callers of the library. */
QUIPU_MUST_USE quipu_status qp_state_entries(const quipu_store *store, ent_db *db,
                                             const qp_session *row, quipu_arena *arena,
                                             quipu_state_entries *ret_entries, quipu_error *reterr);

/* When a session's last event was; without one, when the session was created. */
quipu_time qp_live_time(const qp_session *row);

/* Read a session, its messages and its state from the open transaction into `history`. */
QUIPU_MUST_USE quipu_status qp_live_read(const quipu_store *store, ent_db *db, quipu_str key,
                                         const qp_live_want *want, qp_history *history,
                                         qp_live *ret_live, quipu_error *reterr);

/* The same from the server of a remote store. */
QUIPU_MUST_USE quipu_status qp_live_ask(quipu_store *store, const qp_call *call, quipu_str key,
                                        const qp_live_want *want, qp_history *history,
                                        qp_live *ret_live, quipu_error *reterr);

/* Names in the call what a write to one session, with these changes of state, touches, so that it
 * may be shared (the table in call.h). With a history cap that is the session's family as well,
 * because a cap looks at forks. */
void qp_store_make_shared(const quipu_store *store, quipu_str key, qp_state_items changes,
                          qp_call *within);

#endif
