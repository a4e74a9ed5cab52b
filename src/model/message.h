/* Messages as the files of this room and the wire formats of provider/ share them: a request goes
 * through qp_request_read(), qp_model_convert() and qp_model_repair(), in this order, and each may
 * rely on what the one before it has checked. */
#ifndef QP_MODEL_MESSAGE_H
#define QP_MODEL_MESSAGE_H

#include <quipu/model.h>

#include "base/attr.h"
#include "base/jsonw.h"

/* The answer that repair gives to an unanswered call. */
#define QP_MESSAGE_NO_ANSWER "{\"error\":\"the call was interrupted and has no result\"}"

/* The text that a part contributes to the content of a message with this role; may be absent. */
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

/* A request of a caller's as this version reads it; copies go to the arena. QUIPU_UNSUPPORTED,
 * QUIPU_MISUSE, QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_request_read(const quipu_model_request *given, quipu_arena *arena,
                                            quipu_model_request *ret_request, quipu_error *reterr);

/* The same for contents alone. */
QUIPU_MUST_USE quipu_status qp_contents_read(quipu_contents *contents, quipu_arena *arena,
                                             quipu_error *reterr);

/* Turn the system instruction and the contents of a request into messages, by the rules that
 * <quipu/model.h> states above quipu_model_message. The messages borrow the request; the rest is
 * the arena's. QUIPU_INVALID (an unknown role or kind, arguments or a result that are not JSON),
 * QUIPU_LIMIT, QUIPU_NOMEM, QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_model_convert(const quipu_model_request *request, quipu_arena *arena,
                                             quipu_model_messages *ret_messages,
                                             quipu_error *reterr);

/* Make a history that every provider accepts: a call left unanswered when the conversation went on
 * gets a TOOL message that says so, responses that answer no call are dropped. QUIPU_NOMEM,
 * QUIPU_LIMIT, QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_model_repair(const quipu_model_messages *messages,
                                            quipu_arena *arena, quipu_model_messages *ret_messages,
                                            quipu_error *reterr);

/* Sets message->content from its parts; borrowed when a single part has text. QUIPU_NOMEM,
 * QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_message_content(quipu_arena *arena, quipu_model_message *message);

/* Writes the JSON Schema of a tool's arguments: `schema`, else `parameters` with its OpenAPI types
 * in lower case, else an object without properties. A value that is not an object counts as
 * absent. */
void qp_tool_schema(const quipu_tool *tool, qp_jsonw *writer);

#endif
