/* Letting go of messages that a session does not show any more: what no living session reaches is
 * removed, the rest stays for the forks that share it. Messages are removed here only. */
#ifndef QP_STORE_FORK_RELEASE_H
#define QP_STORE_FORK_RELEASE_H

#include "gen/quipu.h"

/* The session `id`, whose row says so already, does not show the messages `from` to `to` any more.
 * Costs a look at the forks of the sessions that hold them. */
QUIPU_MUST_USE quipu_status qp_fork_release(ent_db *db, quipu_arena *scratch, int64_t id,
                                            int64_t from, int64_t to, quipu_error *reterr);

/* Remove a session's messages and row; with forks, hide the row and keep what they share. What only
 * this session reached in its ancestors goes too, and ancestors that were kept for it alone. */
QUIPU_MUST_USE quipu_status qp_fork_remove(ent_db *db, const qp_session *row, quipu_error *reterr);

/* Leave a session to its forks: its row keeps its bookkeeping only (classes.h), and without a key
 * nobody finds it. */
QUIPU_MUST_USE quipu_status qp_fork_hide(ent_db *db, const qp_session *row, quipu_error *reterr);

/* The session itself, its forks, their forks and so on, parents before their forks; hidden ones are
 * among them. */
QUIPU_MUST_USE quipu_status qp_fork_tree(ent_db *db, quipu_arena *arena, const qp_session *row,
                                         const qp_session *const **ret_rows, size_t *ret_count,
                                         quipu_error *reterr);

/* Remove messages of one cluster for good. */
QUIPU_MUST_USE quipu_status qp_messages_remove(ent_db *db, int64_t session, int64_t from,
                                               int64_t to, quipu_error *reterr);

#endif
