/* Tool calls without an answer, and the messages that answer them in the tool's place. */
#ifndef QP_ADK_REPAIR_H
#define QP_ADK_REPAIR_H

#include <quipu/store.h>

/* A call without a response. */
typedef struct qp_open_call {
    const quipu_message *message;
    const quipu_tool_call *call;
} qp_open_call;

/* The open calls of some messages; free `calls` with qp_free(). */
typedef struct qp_open_calls {
    qp_open_call *calls;
    size_t count;
} qp_open_calls;

/* The calls that a response appended behind these messages would answer: those without one, not
 * more than QUIPU_PAIR_REACH messages away. So closing them twice closes nothing. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_open_calls_find(const quipu_message *messages, size_t count,
                                               qp_open_calls *ret);

/* Writes one tool message for each open call, by the author of the call or by `root`; both arrays
 * have room for list->count entries. Texts are borrowed from the calls. */
void qp_open_calls_close(const qp_open_calls *list, quipu_str root, quipu_message *ret_messages,
                         quipu_tool_call *ret_answers);

#endif
