/* Results that the library allocates and quipu_free() frees: a head that callers do not see, then
 * the public struct, whose address they get. The head's arena owns everything reached from it.
 *
 *   qp_result {arena, mark} | public struct | what else the type has
 *                           └ the caller's pointer, and what quipu_free() takes
 */
#ifndef QP_BASE_RESULT_H
#define QP_BASE_RESULT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_RESULT_MARK UINT64_C(0x717569707572636f) /* of a result that is not freed */

typedef struct qp_result {
    quipu_arena arena;
    uint64_t mark;
} qp_result;

/* States of a struct that it is such a result: its first members are `qp_result head` and the
 * public struct `pub`, without a gap. */
#define QP_RESULT(type)                                                                            \
    static_assert(offsetof(type, head) == 0 && offsetof(type, pub) == sizeof(qp_result),           \
                  #type " begins with its head and its public struct")

/* A zeroed result of `size` bytes; NULL when memory is used up. */
QUIPU_MUST_USE void *qp_result_new(size_t size);

#endif
