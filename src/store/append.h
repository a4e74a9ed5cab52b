/* Writing messages behind a session's last one, in the open transaction. */
#ifndef QP_STORE_APPEND_H
#define QP_STORE_APPEND_H

#include "store/message.h"
#include "store/store.h"

/* Place and insert a checked batch, move the session's row, hold the history cap. */
QUIPU_MUST_USE quipu_status qp_append_write(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                            const qp_session *row, qp_batch *batch, quipu_time now,
                                            quipu_error *reterr);

/* For the group's carry: whether an append (its work's context) goes on with the run. */
bool qp_append_goes_on(const void *run, const void *work_ctx);

#endif
