/* Which messages a recall looks at: the living sessions of its scope, and where each one's messages
 * lie. Every message belongs to one session only, also when forks share it.
 *
 * Owns: qp_recall_scope, in the caller's arena.
 * Called by: recall.c and search_find.c, in the transaction that then reads the messages. Takes no
 * lock. */
#ifndef QP_STORE_RECALL_SCOPE_H
#define QP_STORE_RECALL_SCOPE_H

#include "store/recall_rank.h"
#include "store/store.h"

#define QP_RECALL_SESSIONS_ANY SIZE_MAX

/* The sessions by key, and the parts of their messages by session and number. */
typedef struct qp_recall_scope {
    quipu_str *keys;
    size_t count;
    qp_recall_part *parts;
    size_t part_count;
} qp_recall_scope;

/* When there are more than `sessions_max` sessions, only their count is returned, as `sessions_max`
 * + 1. QUIPU_NOT_FOUND, QUIPU_EXPIRED (the one session that is asked for), QUIPU_CORRUPT,
 * QUIPU_NOMEM.
 */
QUIPU_MUST_USE quipu_status qp_recall_scope_read(const quipu_store *store, ent_db *db,
                                                 const quipu_recall_options *options,
                                                 size_t sessions_max, quipu_arena *arena,
                                                 qp_recall_scope *ret_scope, quipu_error *reterr);

#endif
