/* Structs that may grow from version to version: how the library reads and writes those of programs
 * that were compiled with another header (docs/decisions/0023-sized-slices.md). Sized structs begin
 * with struct_size; slices state the size of an item. Every entry that takes or fills one goes
 * through here once; behind it all sizes are this library's own.
 *
 *   the caller's size   reading what it gives                  filling what it wants
 *   smaller (older)     what it lacks keeps its default        gets the members that it has
 *   larger (newer)      what we lack must be zero, else        members that we lack become zero
 *                       QUIPU_UNSUPPORTED
 */
#ifndef QP_BASE_OPTION_H
#define QP_BASE_OPTION_H

#include <stddef.h>

#include <quipu/base.h>

#include "base/attr.h"

#define QP_OPTIONS_SIZE_MAX 4096 /* the largest struct_size and item_size */

/* Copy a struct whose first member is struct_size over *ret, which holds the defaults. `given` may
 * be NULL. Members that the caller does not know keep their default; a nonzero member that this
 * library does not know is QUIPU_UNSUPPORTED. QUIPU_MISUSE (no size). */
QUIPU_MUST_USE quipu_status qp_options_read(void *ret, size_t size, const void *given,
                                            const char *name, quipu_error *reterr);

/* Whether *ret, a result struct of the caller's (NULL is fine), has a usable struct_size. Called
 * before the work whose result goes there. QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_output_check(const void *ret, const char *name, quipu_error *reterr);

/* Copy a result to a checked struct of the caller's (NULL is fine), as much as it has room for.
 * Members that this library does not know become zero; struct_size stays. */
void qp_output_put(void *ret, const void *values, size_t size);

/* The slow path of QP_SLICE_READ(). */
QUIPU_MUST_USE quipu_status qp_slice_convert(const void **items, size_t count, size_t *item_size,
                                             size_t size, const char *name, quipu_arena *arena,
                                             quipu_error *reterr);

/* Make *slice, which a caller passed, a slice with this library's item size. Equal sizes cost
 * nothing; smaller items are copied to the arena and extended with zeros, larger ones are shortened
 * when what follows is zero. QUIPU_UNSUPPORTED (it is not), QUIPU_MISUSE (no size, no items),
 * QUIPU_NOMEM, QUIPU_LIMIT. */
#define QP_SLICE_READ(slice, type, arena, reterr)                                                  \
    ((slice)->count == 0 || ((slice)->item_size == sizeof(type) && (slice)->items != NULL)         \
         ? QUIPU_OK                                                                                \
         : qp_slice_convert(&(slice)->items, (slice)->count, &(slice)->item_size, sizeof(type),    \
                            #type, (arena), (reterr)))

#endif
