/* Prompts as JSON, whole: what quipu_context_make() is asked for and what it answers, as a client
 * of a server sends and reads them. The form is lossless: bytes are base64, and the caller's JSON
 * keeps its spelling, because prompts are compared byte for byte. */
#ifndef QP_BASE_PROMPT_JSON_H
#define QP_BASE_PROMPT_JSON_H

#include <quipu/agent.h>

#include "base/json.h"
#include "base/jsonw.h"

#define QP_PROMPT_ROWS_MAX 1000 /* rows of models of one request */

/* Writes options as an object: all but the key, which is part of the path, and the sections, whose
 * tokens the caller has put into memory_tokens. Every struct and row has the size of this version.
 */
void qp_prompt_ask_write(qp_jsonw *writer, const quipu_context_options *options);

/* The structs that an options struct points to, when it is read. */
typedef struct qp_prompt_ask {
    quipu_context_options options;
    quipu_model_request request;
    quipu_model_rows models;
    quipu_model_usage usage;
} qp_prompt_ask;

/* Reads an object that qp_prompt_ask_write() wrote; what it has of no such member is
 * QUIPU_INVALID, and so is a value of another type: the error names the member. Texts and
 * JSON go to the arena. `ret_ask` points into itself: it is not to be copied. */
QUIPU_MUST_USE quipu_status qp_prompt_ask_take(qp_json_node object, quipu_arena *arena,
                                               qp_prompt_ask *ret_ask, quipu_error *reterr);

/* Writes a context as an object. */
void qp_prompt_write(qp_jsonw *writer, const quipu_context *context);

/* Reads an object that qp_prompt_write() wrote; everything goes to the arena. false: it is not such
 * an object, or memory is used up. */
QUIPU_MUST_USE bool qp_prompt_take(qp_json_node object, quipu_arena *arena,
                                   quipu_context *ret_context);

#endif
