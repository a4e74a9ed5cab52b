/* The replaceable allocator, and the only raw malloc and free of the library. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *alloc_libc(void *ctx, void *p, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, size);
}

/* Set before anything else runs (see quipu_set_allocator), so it needs no lock. */
static quipu_allocator alloc_now = {NULL, alloc_libc};

quipu_status quipu_set_allocator(const quipu_allocator *allocator)
{
    if (allocator == NULL) {
        alloc_now = (quipu_allocator){NULL, alloc_libc};
        return QUIPU_OK;
    }
    if (allocator->realloc == NULL) {
        return QUIPU_MISUSE;
    }
    alloc_now = *allocator;
    return QUIPU_OK;
}

quipu_allocator quipu_get_allocator(void)
{
    return alloc_now;
}

void *qp_malloc(size_t size)
{
    return alloc_now.realloc(alloc_now.ctx, NULL, size != 0 ? size : 1);
}

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

void *qp_realloc(void *p, size_t size)
{
    return alloc_now.realloc(alloc_now.ctx, p, size != 0 ? size : 1);
}

void qp_free(void *p)
{
    if (p != NULL) {
        (void)alloc_now.realloc(alloc_now.ctx, p, 0);
    }
}
