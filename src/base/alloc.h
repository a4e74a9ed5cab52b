/* Memory for the whole library: everything allocates through these four functions, which call the
 * allocator set with quipu_set_allocator(). */
#ifndef QP_BASE_ALLOC_H
#define QP_BASE_ALLOC_H

#include <stddef.h>

#include <quipu/base.h>

/* NULL when memory is used up. A size of 0 still gives a pointer of its own. */
QUIPU_MUST_USE void *qp_malloc(size_t size);

/* Zeroed; NULL also when count * size does not fit a size_t. */
QUIPU_MUST_USE void *qp_calloc(size_t count, size_t size);

/* NULL leaves `p` as it was. A size of 0 counts as 1: free with qp_free(). */
QUIPU_MUST_USE void *qp_realloc(void *p, size_t size);

/* NULL is fine. */
void qp_free(void *p);

#endif
