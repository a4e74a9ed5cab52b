/* The door to memory of the shared libquipu-provider. It carries its own hidden copy of the rooms
 * below it, and must still use the allocator that quipu_set_allocator() set in libquipu: results
 * cross from one library to the other. In static programs base/alloc.c serves both. */
#include "base/alloc.h"

#include <stdint.h>
#include <string.h>

static void *alloc_ask(void *p, size_t size)
{
    quipu_allocator allocator = quipu_get_allocator();

    return allocator.realloc(allocator.ctx, p, size);
}

void *qp_malloc(size_t size)
{
    return alloc_ask(NULL, size != 0 ? size : 1);
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
    return alloc_ask(p, size != 0 ? size : 1);
}

void qp_free(void *p)
{
    if (p != NULL) {
        (void)alloc_ask(p, 0);
    }
}
