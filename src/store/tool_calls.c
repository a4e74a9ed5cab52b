/* Reading the tool_calls column. */
#include "store/tool_calls.h"

#include "base/json.h"
#include "base/token.h"

static quipu_status tool_calls_piece(qp_json_node call, quipu_str name, quipu_arena *arena,
                                     int64_t *tokens)
{
    qp_json_node node = qp_json_get(call, name);
    quipu_str text = {NULL, 0};

    if (qp_json_kind_of(node) != QP_JSON_STRING) {
        return QUIPU_OK;
    }
    quipu_status status = qp_json_text(node, arena, &text, NULL);
    *tokens += quipu_token_estimate(text);
    return status;
}

quipu_status qp_tool_calls_tokens(quipu_str content, quipu_str json, int64_t *ret_tokens)
{
    static const quipu_str pieces[] = {{"id", 2}, {"name", 4}, {"input", 5}, {"output", 6}};
    int64_t tokens = qp_token_message(content, NULL, 0);
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_json_doc doc;
    quipu_status status = QUIPU_OK;

    qp_json_init(&doc);
    if (json.p != NULL) {
        status = qp_json_parse(&doc, json, NULL, NULL);
    }
    if (status == QUIPU_OK && json.p != NULL) {
        qp_json_iter calls = qp_json_each(qp_json_root(&doc));
        while (status == QUIPU_OK && qp_json_next(&calls)) {
            for (size_t i = 0; i < 4 && status == QUIPU_OK; i++) {
                status = tool_calls_piece(calls.value, pieces[i], &arena, &tokens);
            }
            quipu_arena_reset(&arena);
        }
    }
    if (status == QUIPU_OK) {
        *ret_tokens = tokens;
    }
    qp_json_free(&doc);
    quipu_arena_free(&arena);
    return status;
}
