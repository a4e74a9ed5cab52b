/* Shared by the calls of <quipu/maintain.h>. They run long: a call that names no deadline has none,
 * and its work has a connection to itself, outside of a transaction. */
#ifndef QP_STORE_MAINTAIN_H
#define QP_STORE_MAINTAIN_H

#include "store/store.h"

/* As qp_store_enter(), but without a deadline unless the call names one. */
#define qp_maintain_enter(store, call, ret, reterr)                                                \
    qp_maintain_enter_as(__func__, store, call, -1, ret, reterr)

/* As qp_store_enter_as(), with a deadline for a call that names none; one of -1 has none. */
QUIPU_MUST_USE quipu_status qp_maintain_enter_as(const char *name, quipu_store *store,
                                                 const quipu_call_options *call,
                                                 int32_t deadline_ms, qp_call *ret,
                                                 quipu_error *reterr);

/* The deadline of one transaction of a long call: the store's, or what is left of the call's. A
 * long call without a deadline still does not wait without end for a lock. */
qp_call qp_maintain_step(const quipu_store *store, const qp_call *call);

/* As qp_store_read_apart() with the writing connection, while no other caller writes. QUIPU_MISUSE
 * in a store that was opened read-only. */
QUIPU_MUST_USE quipu_status qp_maintain_write(quipu_store *store, const qp_call *call,
                                              qp_work_fn work, void *ctx, quipu_error *reterr);

/* The row whose place a key of state would take, to the arena; NULL when there is none. */
QUIPU_MUST_USE quipu_status qp_maintain_state(ent_db *db, quipu_arena *arena,
                                              const qp_state_new *made, const qp_state **ret_row,
                                              quipu_error *reterr);

/* Whether the numbers of an observation or a reflection can be: no count is negative, and a range
 * does not end before it begins. QUIPU_INVALID. */
QUIPU_MUST_USE quipu_status qp_memory_numbers(int64_t token_count, int64_t source_start,
                                              int64_t source_end, int64_t generation,
                                              quipu_error *reterr);

/* Whether a row of state names exactly the user and session that its scope has: an app's neither, a
 * user's no session, a session's one. */
bool qp_state_placed(qp_state_scope scope, quipu_str user_id, int64_t session_number);

#endif
