/* Releasing messages that a session does not show any more: what no living session reaches is
 * removed, the rest stays for the forks that share it. Messages are removed here only.
 *
 * Owns: the removal of messages, of hidden rows and of their entries in the search index.
 * Called by: session_delete.c, erase.c and repair.c for whole sessions, cap.c for the oldest
 * messages (the history cap, and pruning).
 * Transactions: the caller's open, exclusive one: which forks reach a message must not change
 * between the look and the removal. */
#ifndef QP_STORE_FORK_RELEASE_H
#define QP_STORE_FORK_RELEASE_H

#include "gen/quipu.h"

/* The session `id` no longer shows the messages `from` to `to`; its row says so already (first_seq,
 * or no key). Removes what no other session reaches of them, wherever it lies. Cost: the forks of
 * the sessions that hold them are read. */
QUIPU_MUST_USE quipu_status qp_fork_release(ent_db *db, quipu_arena *scratch, int64_t id,
                                            int64_t from, int64_t to, quipu_error *reterr);

/* Remove a session's messages and row; with forks, hide the row and keep what they share. What only
 * this session reached in its ancestors is removed too, and so are hidden ancestors that were kept
 * for it alone. */
QUIPU_MUST_USE quipu_status qp_fork_remove(ent_db *db, const qp_session *row, quipu_error *reterr);

/* Leave a session to its forks: clears every field of its row but the bookkeeping (classes.h).
 * Without a key no call finds it any more. */
QUIPU_MUST_USE quipu_status qp_fork_hide(ent_db *db, const qp_session *row, quipu_error *reterr);

/* The session itself, its forks, their forks and so on, parents before their forks; hidden ones are
 * among them. */
QUIPU_MUST_USE quipu_status qp_fork_tree(ent_db *db, quipu_arena *arena, const qp_session *row,
                                         const qp_session *const **ret_rows, size_t *ret_count,
                                         quipu_error *reterr);

/* Remove messages `from` to `to` of one cluster, and their words from the search index. */
QUIPU_MUST_USE quipu_status qp_messages_remove(ent_db *db, int64_t session, int64_t from,
                                               int64_t to, quipu_error *reterr);

#endif
