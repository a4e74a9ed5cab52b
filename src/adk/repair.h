/* Calls of tools that nobody answered, and the answers that close them. */
#ifndef QP_ADK_REPAIR_H
#define QP_ADK_REPAIR_H

#include <quipu/store.h>

/* A call, and whether an answer came after it. */
typedef struct qp_open_call {
    const quipu_message *message;
    const quipu_tool_call *call;
    bool answered;
} qp_open_call;

/* All calls of some messages; free `calls` with qp_free(). */
typedef struct qp_open_calls {
    qp_open_call *calls;
    size_t count;
    size_t open; /* of them without an answer */
} qp_open_calls;

/* Each response answers the oldest call of its id that waits, and only one. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_open_calls_find(const quipu_message *messages, size_t count,
                                               qp_open_calls *ret);

/* One tool message for each open call, by the author of the call or by `root`; both arrays have
 * room for list->open. Texts are borrowed from the calls. */
void qp_open_calls_close(const qp_open_calls *list, quipu_str root, quipu_message *ret_messages,
                         quipu_tool_call *ret_answers);

#endif
