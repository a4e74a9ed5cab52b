/* The one owner of a result's memory: see base/result.h. */
#include "base/result.h"

#include "base/alloc.h"

void *qp_result_new(size_t size)
{
    qp_result *head = qp_calloc(1, size);

    assert(size > sizeof(*head));
    if (head != NULL) {
        head->mark = QP_RESULT_MARK;
    }
    return head;
}

void quipu_free(const void *result)
{
    if (result != NULL) {
        qp_result *head = (qp_result *)((uintptr_t)result - sizeof(qp_result));

        assert(head->mark == QP_RESULT_MARK); /* a result, and not freed before */
        head->mark = 0;
        quipu_arena_free(&head->arena);
        qp_free(head);
    }
}
