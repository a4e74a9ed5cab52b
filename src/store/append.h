/* Writing messages behind a session's last one, in the open transaction. */
#ifndef QP_STORE_APPEND_H
#define QP_STORE_APPEND_H

#include "store/message.h"
#include "store/store.h"

/* Places and inserts a checked batch, moves the session's row by a statement of its own, holds the
 * history cap. For works that do not go through the session cache. */
QUIPU_MUST_USE quipu_status qp_append_write(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                            const qp_session *row, qp_encoded *encoded,
                                            quipu_time now, quipu_error *reterr);

#endif
