/* The inside of the public arena: the chunk, the inline fast path that decoding uses once a text,
 * and marks to free what a failed call took. */
#ifndef QP_BASE_ARENA_H
#define QP_BASE_ARENA_H

#include <stddef.h>

#include <quipu/base.h>

#include "base/attr.h"

#define QP_ARENA_ALIGN 16
#define QP_ARENA_CHUNK_MIN ((size_t)4096)
#define QP_ARENA_CHUNK_MAX ((size_t)1 << 20)

/* `at` and `end` are multiples of QP_ARENA_ALIGN apart from the first data byte, so what is left is
 * always a multiple too: a size that fits also fits when rounded up. */
struct qp_arena_chunk {
    struct qp_arena_chunk *next;
    char *at;
    char *end;
    size_t size; /* of the whole chunk, this head included */
};

/* A place to rewind to. */
typedef struct qp_arena_mark {
    struct qp_arena_chunk *head;
    struct qp_arena_chunk *next; /* what followed `head`: big chunks are put behind it */
    char *at;
} qp_arena_mark;

/* Add a chunk and take from it. Only for qp_arena_take(). */
void *qp_arena_grow(quipu_arena *arena, size_t size);

/* quipu_arena_alloc() without the call in the common case. */
QP_INLINE_FAST void *qp_arena_take(quipu_arena *arena, size_t size)
{
    struct qp_arena_chunk *chunk = arena->head;

    if (QP_LIKELY(chunk != NULL && size <= (size_t)(chunk->end - chunk->at))) {
        char *p = chunk->at;
        chunk->at += (size + (QP_ARENA_ALIGN - 1)) & ~(size_t)(QP_ARENA_ALIGN - 1);
        return p;
    }
    return qp_arena_grow(arena, size);
}

/* Whether something was taken since the arena was made or reset: there is something to reset. */
#define QP_ARENA_IS_USED(arena)                                                                    \
    ((arena)->head != NULL &&                                                                      \
     ((arena)->head->next != NULL ||                                                               \
      (arena)->head->at != (char *)(arena)->head + sizeof(*(arena)->head)))

/* Why a take of `size` bytes gave NULL: QUIPU_LIMIT or QUIPU_NOMEM. */
quipu_status qp_arena_why(const quipu_arena *arena, size_t size);

qp_arena_mark qp_arena_save(const quipu_arena *arena);

/* Drop everything taken since the mark. The arena must not have been reset since. */
void qp_arena_rewind(quipu_arena *arena, qp_arena_mark mark);

#endif
