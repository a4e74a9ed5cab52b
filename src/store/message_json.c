/* A message as JSON: Lango's names first, in Lango's order, then what quipu added.
 *
 * Owns the written form; message_parse.c reads it back. Called by programs and bindings through
 * quipu_message_json(). Pure: no store and no lock. On success the text is in the caller's arena;
 * after a failure the arena may hold remains, which its owner frees. */
#include <assert.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/jsonw.h"
#include "base/time.h"
#include "gen/quipu.h"
#include "store/message.h"
#include "store/tool_calls.h"

#define MESSAGE_JSON_SIZE_MAX ((size_t)1 << 30) /* bytes of the text: as large as a column */

/* Empty and absent texts are left out: the reader's default is the same. */
static void message_json_text(qp_jsonw *writer, quipu_str name, quipu_str text)
{
    assert(name.n > 0);
    if (text.n > 0) {
        qp_jsonw_key(writer, name);
        qp_jsonw_str(writer, text);
    }
}

/* The same where an empty text is not the same as none. */
static void message_json_given(qp_jsonw *writer, quipu_str name, quipu_str text)
{
    if (text.p != NULL) {
        qp_jsonw_key(writer, name);
        qp_jsonw_str(writer, text);
    }
}

/* Zero is the reader's default. */
static void message_json_number(qp_jsonw *writer, quipu_str name, int64_t value)
{
    if (value != 0) {
        qp_jsonw_key(writer, name);
        qp_jsonw_i64(writer, value);
    }
}

/* The order of the members is part of the format: programs compare these texts. `extra` is JSON
 * that the caller has checked, and is copied as it is.
 *
 *   {"role":"user","content":"hi","timestamp":"...","toolCalls":[...],"author":"...",
 *    "eventId":"...","invocationId":"...","branch":"...","seq":1,"tokens":5,"mark":"...",
 *    "coversFrom":1,"coversTo":4,"replaces":0,"model":"...","promptTokens":812,
 *    "cachedTokens":512,"answerTokens":40,"extra":{...}} */
static quipu_status message_json_write(const quipu_message *message, const char *role,
                                       const char *timestamp, qp_buf *buf)
{
    qp_jsonw writer;

    assert(role != NULL && timestamp[0] != '\0');
    qp_jsonw_begin(&writer, buf);
    qp_jsonw_object(&writer);
    message_json_text(&writer, QUIPU_STR("role"), quipu_cstr(role));
    qp_jsonw_key(&writer, QUIPU_STR("content"));
    qp_jsonw_str(&writer, message->content);
    message_json_text(&writer, QUIPU_STR("timestamp"), quipu_cstr(timestamp));
    /* Calls are written in full: outputs that the column shares with the content are repeated
     * here. */
    if (message->calls.count > 0) {
        qp_jsonw_key(&writer, QUIPU_STR("toolCalls"));
        qp_tool_calls_write(&writer, message->calls);
    }
    message_json_text(&writer, QUIPU_STR("author"), message->author);
    message_json_text(&writer, QUIPU_STR("eventId"), message->event_id);
    message_json_given(&writer, QUIPU_STR("invocationId"), message->invocation_id);
    message_json_given(&writer, QUIPU_STR("branch"), message->branch);
    message_json_number(&writer, QUIPU_STR("seq"), message->seq);
    message_json_number(&writer, QUIPU_STR("tokens"), message->tokens);
    message_json_text(&writer, QUIPU_STR("mark"),
                      quipu_cstr(qp_message_mark_text((qp_message_mark)message->mark)));
    message_json_number(&writer, QUIPU_STR("coversFrom"), message->covers_from);
    message_json_number(&writer, QUIPU_STR("coversTo"), message->covers_to);
    message_json_number(&writer, QUIPU_STR("replaces"), message->replaces);
    message_json_text(&writer, QUIPU_STR("model"), message->model);
    message_json_number(&writer, QUIPU_STR("promptTokens"), message->prompt_tokens);
    message_json_number(&writer, QUIPU_STR("cachedTokens"), message->cached_tokens);
    message_json_number(&writer, QUIPU_STR("answerTokens"), message->answer_tokens);
    if (message->extra.text.p != NULL) {
        qp_jsonw_key(&writer, QUIPU_STR("extra"));
        qp_jsonw_raw(&writer, message->extra.text);
    }
    qp_jsonw_object_end(&writer);
    return qp_jsonw_end(&writer);
}

/* The message may come from a caller's program, not from a store: role, time and extra are checked
 * here, texts by the writer. */
quipu_status quipu_message_json(quipu_messages messages, size_t index, quipu_arena *arena,
                                quipu_str *ret_json, quipu_error *reterr)
{
    char timestamp[QP_TIME_RFC3339_SIZE];
    const quipu_message *message = NULL;
    quipu_message room;
    const char *role;
    quipu_status status;
    qp_buf buf;

    if (arena == NULL || ret_json == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "quipu_message_json needs an arena and a place for the text");
    }
    status = qp_message_take(messages, index, arena, &room, &message, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    assert(message != NULL);
    role = qp_message_role_text((qp_message_role)message->role);
    if (role == NULL || qp_time_rfc3339(message->timestamp, timestamp, NULL) != QUIPU_OK ||
        (message->extra.text.p != NULL &&
         qp_json_check(message->extra.text, NULL, NULL) != QUIPU_OK)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the message has no role, no instant of the years 1 to 9999, or an "
                            "extra that is no JSON");
    }
    /* The writer checks UTF-8; a text that is not leaves QUIPU_INVALID in the buffer. */
    qp_buf_init(&buf, MESSAGE_JSON_SIZE_MAX);
    status = message_json_write(message, role, timestamp, &buf);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&buf), ret_json);
    }
    qp_buf_free(&buf);
    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(reterr, status,
                              status == QUIPU_INVALID ? "a text of the message is not UTF-8"
                                                      : "no room for the message as JSON");
}
