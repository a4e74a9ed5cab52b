/* A run of appends to one session in one transaction of the commit group. Its row is read by the
 * first of them and written once, after the last, so that callers who append to one session
 * together cost little more than their messages. Belongs to whoever leads the group. */
#ifndef QP_STORE_APPEND_RUN_H
#define QP_STORE_APPEND_RUN_H

#include <ent/ent.h>
#include <quipu/store.h>

#include "gen/quipu.h"

typedef struct qp_append_run {
    bool held;              /* `row` is the session's row as it will be */
    bool dirty;             /* `patch` is not written yet */
    qp_session row;         /* its texts are in the arena */
    qp_session_patch patch; /* of all appends so far */
    quipu_arena arena;
} qp_append_run;

/* Whether an append to this session goes on with the run; if not, it must be settled first. */
bool qp_append_run_goes_on(const qp_append_run *run, quipu_str key);

/* The row of a session, or NULL when there is none; that of the run, or another run begins with it.
 */
QUIPU_MUST_USE quipu_status qp_append_run_row(const quipu_store *store, qp_append_run *run,
                                              ent_db *db, quipu_str key, const qp_session **ret_row,
                                              quipu_error *reterr);

/* The row moved by an append, whose messages are inserted. */
void qp_append_run_move(qp_append_run *run, const qp_session_patch *patch);

/* What an append's patch makes of a row. */
void qp_append_patch_apply(const qp_session_patch *patch, qp_session *row);

/* The end of a run, for a qp_carry: write the row, or forget everything with the transaction. */
QUIPU_MUST_USE quipu_status qp_append_run_settle(void *run, ent_db *db, quipu_error *reterr);
void qp_append_run_forget(void *run);

#endif
