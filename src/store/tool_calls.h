/* The tool_calls column: a JSON array of objects with id, name, input, output, thought and
 * thoughtSignature. */
#ifndef QP_STORE_TOOL_CALLS_H
#define QP_STORE_TOOL_CALLS_H

#include <quipu/base.h>

/* The estimate of a message (rule 1): its content and the pieces of its calls, each counted on its
 * own. `json` may be absent; whatever is no array of objects counts nothing. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_tool_calls_tokens(quipu_str content, quipu_str json,
                                                 int64_t *ret_tokens);

#endif
