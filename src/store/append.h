/* Writing messages behind a session's last one, in the open transaction. */
#ifndef QP_STORE_APPEND_H
#define QP_STORE_APPEND_H

#include "store/message.h"
#include "store/store.h"

#define QP_COMPACT_KEEP (-1) /* the append changes nothing about the compaction */

/* Place and insert a checked batch, move the session's row, hold the history cap. `compact_seq` is
 * where the default view shall begin. */
QUIPU_MUST_USE quipu_status qp_append_write(const quipu_store *store, ent_db *db,
                                            quipu_arena *scratch, const qp_session *row,
                                            qp_batch *batch, int64_t compact_seq, quipu_time now,
                                            quipu_error *reterr);

#endif
