/* The history cap: the oldest turns go when a session passes it. */
#ifndef QP_STORE_CAP_H
#define QP_STORE_CAP_H

#include "store/store.h"

/* Hold the cap of the store for a session whose row and messages are written; `row` is what is
 * stored now. Does nothing in a store without a cap. */
QUIPU_MUST_USE quipu_status qp_cap_hold(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                        const qp_session *row, quipu_error *reterr);

/* Move a session's beginning to `first_seq` and let go of what lies before it. The caller's patch
 * carries whatever else changes. */
QUIPU_MUST_USE quipu_status qp_first_move(ent_db *db, quipu_arena *scratch, const qp_session *row,
                                          int64_t first_seq, qp_session_patch *patch,
                                          quipu_error *reterr);

#endif
