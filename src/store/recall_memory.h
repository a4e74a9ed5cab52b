/* Which observations and reflections a recall looks at: those of the sessions of its scope that are
 * active, the newest QUIPU_RECALL_MEMORIES_MAX of them.
 *
 * Owns: qp_recall_memories, with its texts.
 * Called by: recall.c, in the transaction that then reads the messages. Takes no lock. */
#ifndef QP_STORE_RECALL_MEMORY_H
#define QP_STORE_RECALL_MEMORY_H

#include "base/sha256.h"
#include "store/recall_scope.h"

typedef struct qp_recall_memory {
    quipu_memory memory;          /* its texts lie in the list's arena */
    int64_t number;               /* the order of creation within its session */
    size_t group;                 /* its session, or the fork that shares what it was made of */
    uint8_t hash[QP_SHA256_SIZE]; /* equal for texts that say the same (store/memory.h) */
} qp_recall_memory;

/* The newest first. */
typedef struct qp_recall_memories {
    quipu_arena texts;
    qp_buf items; /* qp_recall_memory */
    size_t count;
} qp_recall_memories;

/* The memory at a place of the list. */
static inline const qp_recall_memory *qp_recall_memory_at(const qp_recall_memories *list, size_t at)
{
    return (const qp_recall_memory *)(const void *)qp_buf_str(&list->items).p + at;
}

/* Begins with an empty list; free it in any case. */
void qp_recall_memories_init(qp_recall_memories *list);
void qp_recall_memories_free(qp_recall_memories *list);

/* Reads the memories of the scope's sessions, and those of ancestors of the same user that were
 * made of nothing but messages which a fork in the scope shows. With a range of messages in the
 * options: only what was made of nothing but these. *list is empty. QUIPU_CORRUPT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_recall_memories_read(const quipu_store *store, ent_db *db,
                                                    const quipu_recall_options *options,
                                                    const qp_recall_scope *scope,
                                                    qp_recall_memories *list, quipu_error *reterr);

/* Hands the memories of a list to a ranker, each under its place in it. QUIPU_NOMEM,
 * QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_recall_memories_rank(const qp_recall_memories *list,
                                                    qp_recall_ranker *ranker);

/* Copies a memory with its texts. QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_recall_memory_copy(const quipu_memory *from, quipu_arena *arena,
                                                  quipu_memory *ret_memory);

#endif
