/* The one owner of a result's memory: see base/result.h. Called by functions that return structs of
 * varying size, and by their users through quipu_free(). A result belongs to the caller alone: no
 * store or connection refers to it.
 * Owns: the head in front of every result, by which quipu_free() finds its arena. Locks: none. */
#include "base/result.h"

#include "base/alloc.h"

/* Head and public struct in one allocation; the arena stays empty until something is put into
 * it. */
void *qp_result_new(size_t size)
{
    qp_result *head = qp_calloc(1, size);

    assert(size > sizeof(*head));
    if (head != NULL) {
        head->mark = QP_RESULT_MARK;
    }
    return head;
}

/* NULL is fine. By the mark a debug build finds a pointer that is not a result, or was freed
 * before. */
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
