/* The allocator of the shared libraries beside libquipu: libquipu-provider and libquipu-server.
 * Each has its own hidden copy of the rooms below it, but must use the allocator that
 * quipu_set_allocator() set in libquipu, because results pass from one library to the other. Static
 * programs use base/alloc.c for all. */
#include "base/alloc.h"

#include <stdint.h>
#include <string.h>

/* libquipu's allocator, asked for on each call: it may be set after this library was loaded. */
static void *alloc_ask(void *p, size_t size)
{
    quipu_allocator allocator;

    (void)quipu_set_allocator(NULL, &allocator); /* only asks */
    return allocator.realloc(allocator.ctx, p, size);
}

/* Size 0 allocates one byte, so that NULL always means failure. */
void *qp_malloc(size_t size)
{
    return alloc_ask(NULL, size != 0 ? size : 1);
}

/* Checks the product for overflow before it allocates. */
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

/* As qp_malloc() for size 0. */
void *qp_realloc(void *p, size_t size)
{
    return alloc_ask(p, size != 0 ? size : 1);
}

/* NULL is fine; the allocator frees with size 0. */
void qp_free(void *p)
{
    if (p != NULL) {
        (void)alloc_ask(p, 0);
    }
}
