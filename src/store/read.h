/* Reading a session and a range of its messages into one result.
 *
 * Every function expects an open transaction, reading or writing, and takes all it returns from
 * that snapshot. Results live in the arena that the caller names. */
#ifndef QP_STORE_READ_H
#define QP_STORE_READ_H

#include <quipu/state.h>

#include "base/result.h"
#include "store/fork_chain.h"
#include "store/store.h"

/* The result that callers get, and what this room knows besides. */
typedef struct qp_history {
    qp_result head;
    quipu_history pub;
    quipu_session_info session; /* of pub */
    quipu_state_list state;     /* of pub, if it was asked for */
    const qp_session *row;      /* in the arena */
    size_t bytes_max;           /* the range ends before a message that exceeds it; 0: no bound */
} qp_history;

QP_RESULT(qp_history);

/* An empty result, or NULL. */
qp_history *qp_history_new(void);

/* A row as the API shows it, with the key of its parent, which is read to the arena. The texts are
 * borrowed from the rows, which must outlive the result. */
QUIPU_MUST_USE quipu_status qp_session_show(ent_db *db, quipu_arena *arena, const qp_session *row,
                                            quipu_session_info *ret_info, quipu_error *reterr);

/* The cursor behind a row, and the place of one: the last change and the number of the row, which
 * are all that is set. An absent cursor leaves *ret as it is. QUIPU_NOMEM; QUIPU_INVALID. */
QUIPU_MUST_USE quipu_status qp_session_cursor(const qp_session *last, quipu_arena *arena,
                                              quipu_str *ret);
QUIPU_MUST_USE quipu_status qp_session_cursor_read(quipu_str cursor, qp_session *ret,
                                                   quipu_error *reterr);

/* The newest summary of a session, with which its default view begins. */
typedef struct qp_summary {
    quipu_message message; /* seq 0: there is none */
    int64_t view_from;     /* the number at which the view goes on behind it */
} qp_summary;

/* Read it to the arena; a session without a compaction costs no read. */
QUIPU_MUST_USE quipu_status qp_summary_read(ent_db *db, const qp_session *row, quipu_arena *arena,
                                            qp_summary *ret_summary, quipu_error *reterr);

/* The number of the message at place `place` (from 1) of a scan in which summaries do not count; of
 * the last one when there are fewer, 0 when there is none. */
QUIPU_MUST_USE quipu_status qp_view_place(ent_db *db, const qp_chain *chain, const qp_scan *scan,
                                          int64_t place, int64_t *ret_seq, quipu_error *reterr);

/* Which messages are wanted, by number: none when from > to. */
typedef struct qp_extent {
    int64_t from;
    int64_t to;
    bool view;                 /* leave summaries out */
    const quipu_message *head; /* stands before them, or NULL */
    size_t bytes_max;          /* of texts, but at least one message is read; 0: no bound */
} qp_extent;

/* Read messages of a session to the arena. */
QUIPU_MUST_USE quipu_status qp_messages_read(ent_db *db, const qp_session *row,
                                             const qp_extent *extent, quipu_arena *arena,
                                             quipu_messages *ret_messages, quipu_error *reterr);

/* Fill a result from the open transaction; what it held before is gone. The row of the session and
 * the messages go to its arena. */
QUIPU_MUST_USE quipu_status qp_history_read(const quipu_store *store, ent_db *db, quipu_str key,
                                            const quipu_range *range, quipu_time now,
                                            qp_history *history, quipu_error *reterr);

/* The same from the server of a remote store. */
QUIPU_MUST_USE quipu_status qp_history_ask(quipu_store *store, const qp_call *call, quipu_str key,
                                           const quipu_range *range, qp_history *history,
                                           quipu_error *reterr);

#endif
