/* Reading a session and a range of its messages into one result. */
#ifndef QP_STORE_READ_H
#define QP_STORE_READ_H

#include "store/store.h"

/* The result that callers get: the public struct first, its memory behind it. */
typedef struct qp_history {
    quipu_history pub;
    quipu_arena arena;
} qp_history;

/* An empty result, or NULL. */
qp_history *qp_history_new(void);

/* A row as the API shows it; texts stay where they are. */
quipu_session_info qp_session_info(const qp_session *row);

/* Fill a result from the open transaction; what it held before is gone. The row of the session and
 * the messages go to its arena. */
QUIPU_MUST_USE quipu_status qp_history_read(const quipu_store *store, ent_db *db, quipu_str key,
                                            const quipu_range *range, quipu_time now,
                                            qp_history *history, quipu_error *reterr);

#endif
