/* The tool_calls column: a JSON array of objects with id, name, input, output, thought and
 * thoughtSignature, as Lango writes it; and the calls and responses of messages for the pairing
 * rule.
 *
 * Pure functions over the caller's memory. message.c writes the column, message_read.c reads it;
 * adk uses the estimate and the pairs of messages in memory. */
#ifndef QP_STORE_TOOL_CALLS_H
#define QP_STORE_TOOL_CALLS_H

#include <quipu/store.h>

#include "base/attr.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/tool_pair.h"

/* Limits of a JSON column: escapes make a text six times as long as the message that was within its
 * limit, so the parser's own default would refuse to read what was stored. */
#define QP_COLUMN_LIMITS                                                                           \
    ((const qp_json_limits){.size_max = QP_JSON_SIZE_CAP, .depth_max = QP_JSON_DEPTH_MAX})

/* The estimate of a message (rule 1): its content and the pieces of its calls, each counted on its
 * own; outputs that are the content count once. */
int64_t qp_tool_calls_estimate(quipu_str content, quipu_tool_calls calls);

/* The same out of a column. `json` may be absent; anything but an array of objects counts 0.
 * QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_tool_calls_tokens(quipu_str content, quipu_str json,
                                                 int64_t *ret_tokens);

/* Whether a column holds no call: it is absent, or Lango wrote its empty list, "[]" or "null". */
bool qp_tool_calls_none(quipu_str json);

/* Write calls as a JSON array. Text that is not UTF-8 makes QUIPU_INVALID stick in the buffer. */
void qp_tool_calls_write(qp_jsonw *writer, quipu_tool_calls calls);

/* Whether a message's content is what its calls put out, one after another, and nothing else. Then
 * the texts are stored, and counted, once. */
bool qp_tool_calls_are(quipu_str content, quipu_tool_calls calls);

/* How the column says what it holds. */
typedef struct qp_tool_calls_form {
    bool shared; /* outputs stand in the content: the column has their sizes */
    bool made;   /* a text that begins with a brace is an object, and need not be looked at */
} qp_tool_calls_form;

/* The same for the column: a text that is a JSON object stands there as it is, not as a string, so
 * that a quote in it costs one byte and a reader of the table sees the object. */
void qp_tool_calls_write_column(qp_jsonw *writer, quipu_tool_calls calls, qp_tool_calls_form form);

/* Read an array of calls into the arena. `doc` is the caller's, used again from call to call.
 * QUIPU_CORRUPT when the text is not what a column may hold; QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_tool_calls_read(quipu_str json, qp_json_doc *doc, quipu_arena *arena,
                                               quipu_tool_calls *ret_calls);

/* The same for the column: an output that is a size is so much of the content, which lives as long
 * as the calls. */
QUIPU_MUST_USE quipu_status qp_tool_calls_read_column(quipu_str json, quipu_str content,
                                                      qp_json_doc *doc, quipu_arena *arena,
                                                      quipu_tool_calls *ret_calls);

/* ---- for the pairing rule -------------------------------------------------------------------- */

/* The kind of one entry of a message. It is a response when it has an output or its message is an
 * answer; it is a call when it has arguments. An entry with neither is not shown to a model and
 * pairs with nothing. */
QP_INLINE qp_tool_item_kind qp_tool_call_kind(bool answers, bool has_input, bool has_output)
{
    return answers || has_output ? QP_TOOL_RESPONSE : has_input ? QP_TOOL_CALL : QP_TOOL_NOTHING;
}

/* Whether a message answers tool calls: a tool's, or a user's with tool calls. */
bool qp_message_is_answer(const quipu_message *message);

/* The calls and responses of some messages, paired; `message` is an index of `messages`. A tool's
 * message without an entry is a response that names nothing. Free *ret_items with qp_free().
 * QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_message_items(const quipu_message *messages, size_t count,
                                             qp_tool_item **ret_items, size_t *ret_count);

/* The calls or responses of a column, not yet paired; `answers` is the message's. Errors as
 * qp_tool_calls_read(). */
QUIPU_MUST_USE quipu_status qp_tool_calls_items(quipu_str json, bool answers, qp_json_doc *doc,
                                                quipu_arena *arena, qp_tool_item **ret_items,
                                                size_t *ret_count);

#endif
