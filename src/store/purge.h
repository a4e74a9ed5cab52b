/* Purging: the removal, in bounded steps, of messages that no session reaches any more.
 *
 *    delete, prune, cap   one transaction: the session is gone, or shows less; up to
 *          │              QUIPU_DELETE_BATCH messages are removed at once
 *          │ there are more: a job "purge", in the same transaction
 *          ▼
 *    step, step, ...      each a transaction that removes a batch and moves the job's range
 *          │ nothing of the range is left
 *          ▼
 *    end                  removes the row of a hidden session without forks, and the job
 *
 * The call that made the job does QUIPU_DELETE_BATCHES steps of it before it returns, so that a
 * delete takes a moment, however long the session is. The rest, also after a crash or a deadline,
 * is found by every later call that removes messages, and by workers (quipu_search_index(),
 * quipu_memory_run()), which do as many steps, too; a sweep and an erase do all of it. A purge that
 * two processes do at once removes nothing twice and nothing else: the fence of job.h keeps the
 * range right, and a removed message stays removed.
 *
 * Owns: jobs of the kind QP_JOB_PURGE. Their scope is the number of a session, which is never used
 * again. */
#ifndef QP_STORE_PURGE_H
#define QP_STORE_PURGE_H

#include "store/job.h"

/* Leave messages of a session to a purge, in the transaction that releases them. */
QUIPU_MUST_USE quipu_status qp_purge_make_due(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                              int64_t session, int64_t from, int64_t to,
                                              quipu_error *reterr);

/* Forget the purge of a session whose row goes, in the same transaction: nothing is left to do. */
QUIPU_MUST_USE quipu_status qp_purge_forget(const quipu_store *store, ent_db *db, int64_t session,
                                            quipu_error *reterr);

/* The session that a purge's scope names; 0: none, which is damage. */
int64_t qp_purge_session(quipu_str scope);

/* Whether a purge of any session is due or under way; of this one, when `session` is not 0. In the
 * caller's snapshot. */
QUIPU_MUST_USE quipu_status qp_purge_exists(ent_db *db, quipu_str tenant, int64_t session,
                                            bool *ret_exists, quipu_error *reterr);

#define QP_PURGE_ALL INT64_MAX /* as many steps as it takes */

/* Do so many steps of the purges that are due, outside of any transaction. QUIPU_BUSY and
 * QUIPU_CANCELLED: the time is up; what is done stays, and the rest stays due. A purge that another
 * process works on is passed over. */
QUIPU_MUST_USE quipu_status qp_purge_run(quipu_store *store, const qp_call *call, int64_t steps,
                                         quipu_error *reterr);

/* The same at the end of a call whose own work is done: does nothing unless a job may be there. A
 * failure is logged and kept in the job; the call still succeeds. */
void qp_purge_after(quipu_store *store, const qp_call *call, int64_t steps);

#endif
