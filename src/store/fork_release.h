/* Releasing messages that a session does not show any more: what no living session reaches is
 * removed, the rest stays for the forks that share it. Messages are removed here only, so many in a
 * transaction (QUIPU_DELETE_BATCH); what is more is left to a job (purge.h).
 *
 * Owns: the removal of messages, of hidden rows and of their entries in the search index.
 * Called by: session_delete.c, erase.c and repair.c for whole sessions, cap.c for the oldest
 * messages (the history cap, and pruning), purge.c.
 * Transactions: the caller's open one, which is exclusive or has locked the family (fork_chain.h):
 * which forks reach a message must not change between the look and the removal. */
#ifndef QP_STORE_FORK_RELEASE_H
#define QP_STORE_FORK_RELEASE_H

#include "store/store.h"

/* Messages from number `a` to number `b`. */
typedef struct qp_fork_span {
    int64_t a;
    int64_t b;
} qp_fork_span;

/* Whether the open transaction has removed all that it may: more would be left to a job. */
bool qp_fork_budget_is_used(const quipu_store *store);

/* The session `id` no longer shows the messages `from` to `to`; its row says so already (first_seq,
 * or no key). Removes what no other session reaches of them, wherever it lies. Cost: the forks of
 * the sessions that hold them are read. */
QUIPU_MUST_USE quipu_status qp_fork_release(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                            int64_t id, int64_t from, int64_t to,
                                            quipu_error *reterr);

/* Remove a session's messages and row; with forks, hide the row and keep what they share. Messages
 * of ancestors that only this session reached are removed, too, and so are hidden ancestors that
 * were kept for it alone. */
QUIPU_MUST_USE quipu_status qp_fork_remove(quipu_store *store, ent_db *db, const qp_session *row,
                                           quipu_error *reterr);

/* Leave a session to its forks: clears every field of its row but the bookkeeping (classes.h).
 * Without a key no call finds it any more. */
QUIPU_MUST_USE quipu_status qp_fork_hide(ent_db *db, const qp_session *row, quipu_error *reterr);

/* QUIPU_CORRUPT unless the fork has a larger number than its parent: every walk to forks asks, so
 * that it ends on any bytes. */
QUIPU_MUST_USE quipu_status qp_fork_ascends(int64_t parent, int64_t fork, quipu_error *reterr);

/* The session itself, its forks, their forks and so on, parents before their forks; hidden ones are
 * among them. */
QUIPU_MUST_USE quipu_status qp_fork_tree(ent_db *db, quipu_arena *arena, const qp_session *row,
                                         const qp_session *const **ret_rows, size_t *ret_count,
                                         quipu_error *reterr);

/* Whether a session was deleted and nothing living is forked from it, or from its forks: it is only
 * waiting for its purge. Reads the tree into the arena. */
QUIPU_MUST_USE quipu_status qp_fork_is_dead(ent_db *db, quipu_arena *arena, const qp_session *row,
                                            bool *ret_dead, quipu_error *reterr);

/* Which messages of a range of a session's own living sessions reach: spans by number, with gaps
 * between them, in the arena. Reads only. */
QUIPU_MUST_USE quipu_status qp_fork_reach(ent_db *db, quipu_arena *scratch,
                                          const qp_session *holder, qp_fork_span range,
                                          qp_fork_span **ret_spans, size_t *ret_count,
                                          quipu_error *reterr);

/* For purge.c: removes messages that no session reaches from a range of a session's own messages,
 * as many as one transaction may. *ret_left: the first number that is left; 0: none. */
QUIPU_MUST_USE quipu_status qp_fork_purge(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                          const qp_session *row, qp_fork_span range,
                                          int64_t *ret_left, quipu_error *reterr);

/* For purge.c, when nothing of its range is left: removes a hidden row without forks, and what was
 * kept for it above. *ret_ended false: there was more, and the job has it now. */
QUIPU_MUST_USE quipu_status qp_fork_purged(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                           const qp_session *row, bool *ret_ended,
                                           quipu_error *reterr);

#endif
