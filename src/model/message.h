/* What the files of this room and the writers of requests share about messages. */
#ifndef QP_MODEL_MESSAGE_H
#define QP_MODEL_MESSAGE_H

#include <quipu/model.h>

#include "base/attr.h"
#include "base/jsonw.h"

/* What an unanswered call is answered with. */
#define QP_MESSAGE_NO_ANSWER "{\"error\":\"the call was interrupted and has no result\"}"

/* What a part adds to the content of a message with this role; may be absent. */
QP_INLINE_FAST quipu_str qp_part_content(const quipu_part *part, quipu_role role)
{
    if (part->kind == QUIPU_PART_TEXT) {
        return part->text;
    }
    if (part->kind == QUIPU_PART_RESPONSE && role == QUIPU_ROLE_TOOL) {
        return part->json.text;
    }
    return (quipu_str){NULL, 0};
}

/* Fill in message->content from its parts, borrowed where one part says it all. QUIPU_NOMEM,
 * QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_message_content(quipu_arena *arena, quipu_model_message *message);

/* Write the schema of a tool's arguments: `schema`, else `parameters` with its types in small
 * letters, else an object without members. What is no JSON object counts as absent. */
void qp_tool_schema(const quipu_tool *tool, qp_jsonw *writer);

#endif
