/* Expiry and creation of sessions, for the files that write session rows: append.c, compact.c,
 * fork.c and src/import.
 *
 * The expiry functions read no row. qp_session_ensure() is part of a work: it runs in the
 * transaction of its caller and commits nothing. */
#ifndef QP_STORE_SESSION_H
#define QP_STORE_SESSION_H

#include "store/state.h"
#include "store/store.h"

/* Every write moves the expiry of a session with a time to live: puts the new one into the patch of
 * that write. It never moves back, so that a clock that stepped back ends no session early. A
 * session without a time to live keeps the patch as it is. */
void qp_session_slide(const qp_session *row, quipu_time now, qp_session_patch *patch);

/* Settings that a caller changes, with an update or with an append: checked before any lock, so
 * that one caller's mistake fails no other's write. *ret_ttl_ms must be absent. QUIPU_MISUSE,
 * QUIPU_INVALID, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_session_settings_check(const quipu_store *store,
                                                      const quipu_session_patch *given,
                                                      ent_opt_int *ret_ttl_ms, quipu_error *reterr);

/* Puts checked settings into the patch of a write at `now`. */
void qp_session_settings_put(const quipu_session_patch *given, ent_opt_int ttl_ms, quipu_time now,
                             qp_session_patch *patch);

/* When a session that is written at `now` expires: at the latest when the calendar ends. */
quipu_time qp_session_expiry(int64_t ttl_ms, quipu_time now);

/* The time to live that a caller's number means: 0 the store's, -1 none. QUIPU_MISUSE, or
 * QUIPU_INVALID when it ends after the year 9999. */
QUIPU_MUST_USE quipu_status qp_session_ttl(const quipu_store *store, int64_t given,
                                           ent_opt_int *ret_ttl, quipu_error *reterr);

/* A write whose work creates the session of within->session when it is missing. Replacing an
 * expired session changes its forks, too: when the work returns QUIPU_EXPIRED, it is repeated as
 * the only writer. */
QUIPU_MUST_USE quipu_status qp_session_write_new(quipu_store *store, qp_call *within,
                                                 qp_work_fn work, void *ctx, quipu_error *reterr);

/* In the open transaction: create the plain session of a key with a new uid, or renew it when it
 * has expired; in a locked batch that is QUIPU_EXPIRED. A living one stays as it is. */
QUIPU_MUST_USE quipu_status qp_session_ensure(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                              quipu_str key, quipu_uuid uid, quipu_error *reterr);

#endif
