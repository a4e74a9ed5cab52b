/* The arena that owns results: a list of chunks with a bump pointer. Chunks double from 4 KiB to 1
 * MiB. A request larger than the next chunk gets one of its own, linked behind the current one,
 * whose free room is then not lost.
 *
 *   arena ─▶ head (at, end) ─▶ large chunk ─▶ older chunk ─▶ ...    `bytes`: sum of their sizes
 *
 *   request that fits     `at` moves on; nothing is allocated
 *   one that does not     a chunk of twice the size becomes the head
 *   one larger than that  gets its own chunk behind the head, and `at` stays where it was
 *   save, rewind          a mark is (head, what is behind it, at): what came since is freed
 *   reset                 one chunk of ordinary size stays, so that a loop allocates once
 *   limit                 bounds the chunks; near it a chunk takes what the limit leaves
 *
 * Owns: the chunks. Called by every room; a caller's arena belongs to one thread at a time. */
#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

#define ARENA_HEAD sizeof(struct qp_arena_chunk)

static_assert(sizeof(struct qp_arena_chunk) % QP_ARENA_ALIGN == 0, "data must start aligned");
static_assert(QP_ARENA_CHUNK_MIN % QP_ARENA_ALIGN == 0, "chunks must end aligned");

/* The size of a chunk that holds `size` bytes; 0: it would overflow. */
static size_t arena_need(size_t size)
{
    if (size > SIZE_MAX - ARENA_HEAD - QP_ARENA_ALIGN) {
        return 0;
    }
    return ARENA_HEAD + ((size + (QP_ARENA_ALIGN - 1)) & ~(size_t)(QP_ARENA_ALIGN - 1));
}

/* The bytes that the limit leaves, rounded down so that chunks stay multiples of the alignment. The
 * limit bounds chunks and not requests: the unused end of a chunk counts as used. */
static size_t arena_room(const quipu_arena *arena)
{
    if (arena->limit == 0) {
        return SIZE_MAX;
    }
    if (arena->limit <= arena->bytes) {
        return 0;
    }
    return (arena->limit - arena->bytes) & ~(size_t)(QP_ARENA_ALIGN - 1);
}

/* Twice the current chunk, within the bounds. A first request beyond the maximum makes a larger
 * head, which the chunks behind it do not follow. */
static size_t arena_next_size(const quipu_arena *arena)
{
    size_t size = QP_ARENA_CHUNK_MIN;

    if (arena->head != NULL) {
        size =
            arena->head->size < QP_ARENA_CHUNK_MAX / 2 ? arena->head->size * 2 : QP_ARENA_CHUNK_MAX;
    }
    assert(size <= QP_ARENA_CHUNK_MAX);
    return size < QP_ARENA_CHUNK_MIN ? QP_ARENA_CHUNK_MIN : size;
}

/* Frees a chunk that is no longer in the list. */
static void arena_drop(quipu_arena *arena, struct qp_arena_chunk *chunk)
{
    assert(arena->bytes >= chunk->size);
    arena->bytes -= chunk->size;
    qp_free(chunk);
}

/* The first byte of a chunk's data. */
#define ARENA_FIRST(chunk) ((char *)(chunk) + ARENA_HEAD)

/* The slow path of qp_arena_take(). NULL: the limit, or no memory; the arena is as it was then.
 * Near its limit an arena takes what the limit leaves instead of failing a small request. */
void *qp_arena_grow(quipu_arena *arena, size_t size)
{
    size_t need = arena_need(size);
    size_t room = arena_room(arena);
    size_t take = arena_next_size(arena);
    struct qp_arena_chunk *chunk;
    bool own;

    assert(arena != NULL);
    if (need == 0 || need > room) {
        return NULL;
    }
    own = need > take;
    if (own || take > room) {
        take = own ? need : room;
    }
    chunk = qp_malloc(take);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->size = take;
    chunk->at = ARENA_FIRST(chunk) + (need - ARENA_HEAD);
    chunk->end = (char *)chunk + take;
    if (own && arena->head != NULL) {
        chunk->next = arena->head->next;
        arena->head->next = chunk;
    } else {
        chunk->next = arena->head;
        arena->head = chunk;
    }
    assert(take % QP_ARENA_ALIGN == 0 && chunk->at <= chunk->end);
    arena->bytes += take;
    return ARENA_FIRST(chunk);
}

/* The status for a take that returned NULL. */
quipu_status qp_arena_why(const quipu_arena *arena, size_t size)
{
    size_t need = arena_need(size);

    assert(arena != NULL);
    if (arena->limit != 0 && (need == 0 || need > arena_room(arena))) {
        return QUIPU_LIMIT;
    }
    return QUIPU_NOMEM;
}

/* The public form: tolerates NULL. */
void *quipu_arena_alloc(quipu_arena *arena, size_t size)
{
    if (arena == NULL) {
        return NULL;
    }
    return qp_arena_take(arena, size);
}

/* An absent text stays absent; every other copy ends with a NUL. */
quipu_status quipu_arena_copy(quipu_arena *arena, quipu_str text, quipu_str *ret_copy)
{
    char *p;

    if (arena == NULL || ret_copy == NULL) {
        return QUIPU_MISUSE;
    }
    if (text.p == NULL) {
        *ret_copy = (quipu_str){NULL, 0};
        return QUIPU_OK;
    }
    if (text.n == SIZE_MAX) {
        return arena->limit != 0 ? QUIPU_LIMIT : QUIPU_NOMEM;
    }
    p = qp_arena_take(arena, text.n + 1);
    if (p == NULL) {
        return qp_arena_why(arena, text.n + 1);
    }
    memcpy(p, text.p, text.n);
    p[text.n] = '\0';
    *ret_copy = (quipu_str){p, text.n};
    return QUIPU_OK;
}

/* Keeps the largest chunk of ordinary size: one huge result must not pin its memory for ever. */
void quipu_arena_reset(quipu_arena *arena)
{
    struct qp_arena_chunk *keep = NULL;
    struct qp_arena_chunk *next;

    if (arena == NULL) {
        return;
    }
    for (struct qp_arena_chunk *c = arena->head; c != NULL; c = c->next) {
        if (c->size <= QP_ARENA_CHUNK_MAX && (keep == NULL || c->size > keep->size)) {
            keep = c;
        }
    }
    for (struct qp_arena_chunk *c = arena->head; c != NULL; c = next) {
        next = c->next;
        if (c != keep) {
            arena_drop(arena, c);
        }
    }
    arena->head = keep;
    if (keep != NULL) {
        keep->next = NULL;
        keep->at = ARENA_FIRST(keep);
    }
}

/* A rewind to the very beginning. */
void quipu_arena_free(quipu_arena *arena)
{
    if (arena != NULL) {
        qp_arena_rewind(arena, (qp_arena_mark){NULL, NULL, NULL});
    }
}

/* Costs nothing: a mark is three pointers. */
qp_arena_mark qp_arena_save(const quipu_arena *arena)
{
    qp_arena_mark mark = {NULL, NULL, NULL};

    assert(arena != NULL);
    if (arena->head != NULL) {
        mark.head = arena->head;
        mark.next = arena->head->next;
        mark.at = arena->head->at;
    }
    return mark;
}

/* Frees the chunks that came since the mark: those in front of its head, and large ones linked
 * behind it.
 *
 *   at the mark   A ─▶ B
 *   now           D ─▶ C ─▶ A ─▶ large ─▶ B       frees D, C, then large
 */
void qp_arena_rewind(quipu_arena *arena, qp_arena_mark mark)
{
    struct qp_arena_chunk *chunk;

    assert(arena != NULL);
    while (arena->head != mark.head) {
        chunk = arena->head;
        assert(chunk != NULL);
        arena->head = chunk->next;
        arena_drop(arena, chunk);
    }
    if (mark.head == NULL) {
        return;
    }
    while (mark.head->next != mark.next) {
        chunk = mark.head->next;
        assert(chunk != NULL);
        mark.head->next = chunk->next;
        arena_drop(arena, chunk);
    }
    mark.head->at = mark.at;
}
