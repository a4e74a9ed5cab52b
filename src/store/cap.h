/* The history cap: an append that exceeds it deletes the oldest turns. Also the one function that
 * moves the beginning of a session, which pruning (compact.c) uses, too. Both expect an open
 * transaction that has the lock of the session's row. */
#ifndef QP_STORE_CAP_H
#define QP_STORE_CAP_H

#include "store/store.h"

/* Holds the cap of the store for a session whose row and messages are written; `row` is what is
 * stored now. Without a cap, or within it by the row's numbers, it costs no statement. */
QUIPU_MUST_USE quipu_status qp_cap_hold(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                        const qp_session *row, quipu_error *reterr);

/* Moves a session's beginning to `first_seq` and releases what lies before it (fork_release.h). The
 * caller's patch carries whatever else changes: the row is written once. */
QUIPU_MUST_USE quipu_status qp_first_move(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                          const qp_session *row, int64_t first_seq,
                                          qp_session_patch *patch, quipu_error *reterr);

#endif
