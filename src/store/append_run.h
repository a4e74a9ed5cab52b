/* A run of appends to one session in one transaction of the commit group. Its row is read by the
 * first of them and written once, after the last, so that callers who append to one session
 * together cost little more than their messages. In a transaction that writes beside others the
 * rows of all its sessions are read when they are locked, or believed to be as this process left
 * them. Belongs to whoever leads the group. */
#ifndef QP_STORE_APPEND_RUN_H
#define QP_STORE_APPEND_RUN_H

#include <ent/ent.h>
#include <quipu/store.h>

#include "gen/quipu.h"
#include "store/known.h"

typedef struct qp_append_run {
    bool held;              /* `row` is the session's row as it will be */
    bool dirty;             /* `patch` is not written yet */
    qp_session row;         /* its texts are in the arena */
    qp_session_patch patch; /* of all appends so far */
    quipu_arena arena;
    quipu_str tenant;                          /* the store's */
    const qp_session *locked[QUIPU_GROUP_MAX]; /* the rows as they were then; NULL: taken, and may
                                                * have changed since */
    quipu_str keys[QUIPU_GROUP_MAX];           /* theirs */
    size_t locked_count;
    size_t next; /* where the next one is looked for: works come sorted */
    quipu_arena locked_arena;
    qp_known known;
    bool believing; /* the rows are known, and not locked */
} qp_append_run;

void qp_append_run_free(qp_append_run *run);

/* For a qp_carry: lock sessions, and read their rows. */
QUIPU_MUST_USE quipu_status qp_append_run_lock(void *run, ent_db *db, const quipu_str *keys,
                                               size_t n, quipu_error *reterr);

/* For a qp_carry: go on with the rows as they were left, without a lock. */
bool qp_append_run_believe(void *run, const quipu_str *keys, size_t n);

/* As qp_session_load(), for a work that concerns one session: the row as it was read when it was
 * locked, or left, unless a work before may have changed it. */
QUIPU_MUST_USE quipu_status qp_session_load_locked(quipu_store *store, ent_db *db,
                                                   quipu_arena *arena, quipu_str key,
                                                   quipu_time now, const qp_session **ret_row,
                                                   quipu_error *reterr);

/* Whether an append to this session goes on with the run; if not, it must be settled first. */
bool qp_append_run_goes_on(const qp_append_run *run, quipu_str key);

/* The row of a session, or NULL when there is none; that of the run, or another run begins with it.
 */
QUIPU_MUST_USE quipu_status qp_append_run_row(const quipu_store *store, qp_append_run *run,
                                              ent_db *db, quipu_str key, const qp_session **ret_row,
                                              quipu_error *reterr);

/* The row moved by an append, whose messages are inserted. */
void qp_append_run_move(qp_append_run *run, const qp_session_patch *patch);

/* Change the row of a session that an append has read. One that was only believed must still be as
 * it was: else the transaction fails with QUIPU_BUSY, now or later (qp_update_must_match()). */
QUIPU_MUST_USE quipu_status qp_append_run_write(qp_append_run *run, ent_db *db,
                                                const qp_session *row,
                                                const qp_session_patch *patch, quipu_error *reterr);

/* What an append's patch makes of a row. */
void qp_append_patch_apply(const qp_session_patch *patch, qp_session *row);

/* The end of a run, for a qp_carry: write the row, or forget everything with the transaction. */
QUIPU_MUST_USE quipu_status qp_append_run_settle(void *run, ent_db *db, quipu_error *reterr);
void qp_append_run_forget(void *run);
void qp_append_run_stored(void *run);

#endif
