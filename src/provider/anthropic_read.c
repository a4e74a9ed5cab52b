/* Anthropic's answers: https://docs.anthropic.com/en/docs/build-with-claude/streaming.
 *
 *   message_start ─▶ (content_block_start ─▶ content_block_delta* ─▶ content_block_stop)*
 *                 ─▶ message_delta ─▶ message_stop
 *
 *   {"type": "message_start", "message": {"id": "1", "model": "m", "usage": {"input_tokens": 12}}}
 *   {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
 *   {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}
 *   {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
 *
 * Owns: nothing; state is in qp_wire_reader. Called by: wire.c for each event, or once for a whole
 * answer. Unknown events, blocks and deltas are skipped, as the API's documentation asks of
 * clients. */
#include "provider/wire.h"

#include <string.h>

/* stop_reason of message_delta and of a whole answer. The last row is for words that this version
 * does not know. */
static const qp_wire_reason anthropic_read_reasons[] = {
    {"end_turn", QUIPU_FINISH_STOP},     {"stop_sequence", QUIPU_FINISH_STOP},
    {"max_tokens", QUIPU_FINISH_LENGTH}, {"model_context_window_exceeded", QUIPU_FINISH_LENGTH},
    {"tool_use", QUIPU_FINISH_TOOLS},    {"refusal", QUIPU_FINISH_FILTER},
    {NULL, QUIPU_FINISH_OTHER}};

/* The "type" of an object, as written: types contain no escapes.
 * Valid as long as the event's text. */
static quipu_str anthropic_read_type(qp_json_node object)
{
    qp_json_node node = qp_wire_get(object, "type");
    quipu_str raw = qp_json_raw(node);

    if (qp_json_kind_of(node) != QP_JSON_STRING) {
        return (quipu_str){"", 0};
    }
    return (quipu_str){raw.p + 1, raw.n - 2};
}

/* Compares a type with a literal. */
static bool anthropic_read_is(quipu_str type, const char *name)
{
    size_t n = strlen(name);

    return type.n == n && memcmp(type.p, name, n) == 0;
}

/* The provider's input count excludes tokens that its cache read or wrote; quipu_model_usage.input
 * includes them. Counts are cumulative and come twice; a missing one keeps the value before. */
static quipu_status anthropic_read_usage(qp_wire_reader *reader, qp_json_node usage,
                                         quipu_error *reterr)
{
    int64_t fresh = qp_wire_tokens(usage, "input_tokens");
    int64_t cached = qp_wire_tokens(usage, "cache_read_input_tokens");
    int64_t written = qp_wire_tokens(usage, "cache_creation_input_tokens");
    int64_t output = qp_wire_tokens(usage, "output_tokens");

    if (qp_json_kind_of(usage) != QP_JSON_OBJECT) {
        return QUIPU_OK;
    }
    reader->usage.cached = cached >= 0 ? cached : reader->usage.cached;
    reader->usage.cache_write = written >= 0 ? written : reader->usage.cache_write;
    if (fresh >= 0) {
        reader->usage.input = fresh;
        reader->usage.input += reader->usage.cached > 0 ? reader->usage.cached : 0;
        reader->usage.input += reader->usage.cache_write > 0 ? reader->usage.cache_write : 0;
    }
    reader->usage.output = output >= 0 ? output : reader->usage.output;
    return qp_wire_put_usage(reader, reterr);
}

/* A block at its beginning; in a whole answer this is the complete block. */
static quipu_status anthropic_read_block(qp_wire_reader *reader, qp_json_node block, int64_t index,
                                         bool whole, quipu_error *reterr)
{
    quipu_delta delta = {
        .struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_TEXT, .block = true};
    quipu_str type = anthropic_read_type(block);
    quipu_str signature;

    if (anthropic_read_is(type, "text")) {
        delta.text = qp_wire_text(reader, block, "text");
    } else if (anthropic_read_is(type, "thinking")) {
        delta.kind = QUIPU_DELTA_THOUGHT;
        delta.text = qp_wire_text(reader, block, "thinking");
        signature = qp_wire_text(reader, block, "signature");
        delta.signature = (quipu_bytes){signature.p, signature.n};
    } else if (anthropic_read_is(type, "redacted_thinking")) {
        delta.kind = QUIPU_DELTA_THOUGHT;
        delta.redacted = true;
        signature = qp_wire_text(reader, block, "data");
        delta.signature = (quipu_bytes){signature.p, signature.n};
    } else if (anthropic_read_is(type, "tool_use")) {
        delta = (quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta),
                              .kind = QUIPU_DELTA_CALL,
                              .has_index = true,
                              .index = index,
                              .id = qp_wire_text(reader, block, "id"),
                              .name = qp_wire_text(reader, block, "name")};
        /* In a stream the input is an empty object here; the real one follows in
         * input_json_delta. */
        if (whole) {
            delta.text = qp_json_raw(qp_wire_get(block, "input"));
        }
    } else {
        return QUIPU_OK;
    }
    return qp_wire_put(reader, &delta, reterr);
}

/* A piece of the block `index`. Citations and unknown deltas are skipped. Pieces of a call's
 * arguments are passed on as they come: acc.c joins them by index. */
static quipu_status anthropic_read_delta(qp_wire_reader *reader, qp_json_node delta, int64_t index,
                                         quipu_error *reterr)
{
    quipu_delta out = {.struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_THOUGHT};
    quipu_str type = anthropic_read_type(delta);
    quipu_str signature;

    if (anthropic_read_is(type, "text_delta")) {
        return qp_wire_put_text(reader, QUIPU_DELTA_TEXT, qp_wire_text(reader, delta, "text"),
                                reterr);
    }
    if (anthropic_read_is(type, "thinking_delta")) {
        return qp_wire_put_text(reader, QUIPU_DELTA_THOUGHT,
                                qp_wire_text(reader, delta, "thinking"), reterr);
    }
    if (anthropic_read_is(type, "signature_delta")) {
        signature = qp_wire_text(reader, delta, "signature");
        out.signature = (quipu_bytes){signature.p, signature.n};
        return qp_wire_put(reader, &out, reterr);
    }
    if (anthropic_read_is(type, "input_json_delta")) {
        out = (quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta),
                            .kind = QUIPU_DELTA_CALL,
                            .has_index = true,
                            .index = index};
        out.text = qp_wire_text(reader, delta, "partial_json");
        return qp_wire_put(reader, &out, reterr);
    }
    return QUIPU_OK; /* citations, and types that this version does not know */
}

/* Id, model and first usage of an answer. The usage counts the prompt; the answer's tokens follow
 * with message_delta.
 * In a whole answer `message` is the root itself. */
static quipu_status anthropic_read_start(qp_wire_reader *reader, qp_json_node message,
                                         quipu_error *reterr)
{
    quipu_status status = qp_wire_put_start(reader, qp_wire_text(reader, message, "id"),
                                            qp_wire_text(reader, message, "model"), reterr);

    if (status == QUIPU_OK) {
        status = anthropic_read_usage(reader, qp_wire_get(message, "usage"), reterr);
    }
    return status;
}

/* One event of a stream. The finish reason arrives in message_delta and is passed on at
 * message_stop, after everything else. */
quipu_status qp_anthropic_event(qp_wire_reader *reader, const qp_sse_event *event,
                                quipu_error *reterr)
{
    qp_json_node root = {NULL, 0};
    qp_json_node reason;
    quipu_status status = qp_wire_parse(reader, event->data, &root, reterr);
    quipu_str type = anthropic_read_type(root);
    int64_t index = qp_wire_count(root, "index");

    if (status != QUIPU_OK) {
        return status;
    }
    if (anthropic_read_is(type, "error") || qp_wire_is_error(root)) {
        return qp_wire_error(event->data, 0, reterr);
    }
    if (anthropic_read_is(type, "message_start")) {
        return anthropic_read_start(reader, qp_wire_get(root, "message"), reterr);
    }
    if (anthropic_read_is(type, "content_block_start")) {
        return anthropic_read_block(reader, qp_wire_get(root, "content_block"), index, false,
                                    reterr);
    }
    if (anthropic_read_is(type, "content_block_delta")) {
        return anthropic_read_delta(reader, qp_wire_get(root, "delta"), index, reterr);
    }
    if (anthropic_read_is(type, "message_delta")) {
        reason = qp_wire_get(qp_wire_get(root, "delta"), "stop_reason");
        if (qp_json_kind_of(reason) == QP_JSON_STRING) {
            reader->finish = qp_wire_finish(anthropic_read_reasons, reason);
        }
        return anthropic_read_usage(reader, qp_wire_get(root, "usage"), reterr);
    }
    if (anthropic_read_is(type, "message_stop")) {
        reader->ended = true;
        return qp_wire_put_finish(
            reader, reader->finish != QUIPU_FINISH_NONE ? reader->finish : QUIPU_FINISH_OTHER,
            reterr);
    }
    return QUIPU_OK; /* ping, content_block_stop, and types that this version does not know */
}

/* An answer without streaming: the same blocks, each complete. */
quipu_status qp_anthropic_whole(qp_wire_reader *reader, qp_json_node root, quipu_error *reterr)
{
    qp_json_iter iter = qp_json_each(qp_wire_get(root, "content"));
    quipu_status status = anthropic_read_start(reader, root, reterr);
    qp_json_node reason = qp_wire_get(root, "stop_reason");
    int64_t index = 0;

    while (status == QUIPU_OK && qp_json_next(&iter)) {
        status = anthropic_read_block(reader, iter.value, index++, true, reterr);
    }
    if (status == QUIPU_OK && qp_json_kind_of(reason) == QP_JSON_STRING) {
        status = qp_wire_put_finish(reader, qp_wire_finish(anthropic_read_reasons, reason), reterr);
    }
    return status;
}
