/* The replaceable allocator, and the only raw realloc and free of the library.
 *
 * Owns: the one mutable global, the allocator. It is set before anything else runs, so that it
 * needs no lock.
 * Called by: every room, through qp_malloc() and its siblings; users of the C API set the
 * allocator. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The default: size 0 frees. */
static void *alloc_libc(void *ctx, void *p, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, size);
}

/* See quipu_set_allocator(). */
static quipu_allocator alloc_now = {NULL, alloc_libc};

/* Memory that one allocator gave must go back to the same one: set it before the first call of the
 * library, or when everything is freed. */
quipu_status quipu_set_allocator(const quipu_allocator *allocator, quipu_allocator *ret_before)
{
    const quipu_allocator before = alloc_now;

    if (allocator != NULL && allocator->realloc == NULL) {
        return QUIPU_MISUSE;
    }
    if (allocator != NULL) {
        alloc_now = *allocator;
    }
    if (ret_before != NULL) {
        *ret_before = before;
    }
    return QUIPU_OK;
}

/* Size 0 still gives a pointer, so that NULL always means no memory. */
void *qp_malloc(size_t size)
{
    return alloc_now.realloc(alloc_now.ctx, NULL, size != 0 ? size : 1);
}

/* The multiplication is checked. */
void *qp_calloc(size_t count, size_t size)
{
    void *p;

    if (size != 0 && count > SIZE_MAX / size) {
        return NULL;
    }
    p = qp_malloc(count * size);
    if (p != NULL) {
        memset(p, 0, count * size);
    }
    return p;
}

/* NULL leaves `p` as it was. Size 0 must not free here: the callers' pointer would dangle. */
void *qp_realloc(void *p, size_t size)
{
    return alloc_now.realloc(alloc_now.ctx, p, size != 0 ? size : 1);
}

/* The only way memory is returned. */
void qp_free(void *p)
{
    if (p != NULL) {
        (void)alloc_now.realloc(alloc_now.ctx, p, 0);
    }
}
