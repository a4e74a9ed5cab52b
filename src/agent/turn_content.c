/* Between a model's contents and the store's messages. A content becomes an ADK event and thereby a
 * message that holds all of it; a message becomes a content again. Events that this turn appends
 * are read back as a later turn reads them, so that both send the provider the same bytes and its
 * cache keeps matching.
 *
 *   quipu_content ──▶ event (JSON) ──▶ quipu_message ──▶ store
 *         ▲                                  │
 *         └────────── event (JSON) ◀─────────┘
 *
 * An answer with a thought and a call, as an event:
 *
 *   {"invocationId": "...", "author": "root", "content": {"role": "model", "parts": [
 *       {"text": "I look it up.", "thought": true, "thoughtSignature": "..."},
 *       {"functionCall": {"id": "call_1", "name": "find", "args": {"q": "x"}}}]},
 *    "modelVersion": "...", "finishReason": "STOP", "usageMetadata": {"promptTokenCount": 812}}
 *
 * Called by: turn.c, turn_record.c and turn_window.c. No locks; memory is the turn's arena.
 * Owns: the form in which a turn is stored, which later turns and other programs read.
 * On return of either direction the texts lie in the turn's or the caller's arena; a failure has
 * changed nothing but its arena. Invariant: a content that was stored and read again gives the
 * provider the bytes of the first time. */

#include "adk/event.h"
#include "agent/turn.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/token.h"
#include "base/uuid.h"

#define TURN_CONTENT_META "customMetadata"
#define TURN_CONTENT_REDACTED "quipuRedacted" /* in it: indexes of redacted thoughts... */
#define TURN_CONTENT_RECALL "quipuRecall"     /* ...and what was recalled */

/* ---- content to message -------------------------------------------------------------------- */

/* A member's name from a literal. */
static void turn_content_key(qp_jsonw *writer, const char *key)
{
    qp_jsonw_key(writer, quipu_cstr(key));
}

/* Writes a text member; empty texts are left out. */
static void turn_content_member(qp_jsonw *writer, const char *key, quipu_str text)
{
    if (text.n > 0) {
        turn_content_key(writer, key);
        qp_jsonw_str(writer, text);
    }
}

/* A tool's result must be an object. Other JSON is wrapped as {"result": value}, and text that is
 * not JSON as a string. ADK and Gemini know no other result; the wrapping is undone nowhere, so
 * that models see it, too. */
static void turn_content_result(qp_jsonw *writer, quipu_str json)
{
    qp_json_doc doc;

    qp_json_init(&doc);
    /* Parsed, because a text may begin like an object and be none. */
    if (json.n > 0 && qp_json_parse(&doc, json, NULL, NULL) == QUIPU_OK &&
        qp_json_kind_of(qp_json_root(&doc)) == QP_JSON_OBJECT) {
        qp_jsonw_raw(writer, json);
    } else {
        qp_jsonw_object(writer);
        turn_content_key(writer, "result");
        if (json.n == 0) {
            qp_jsonw_null(writer);
        } else if (qp_json_check(json, NULL, NULL) == QUIPU_OK) {
            qp_jsonw_raw(writer, json);
        } else {
            qp_jsonw_str(writer, json); /* a tool's plain words */
        }
        qp_jsonw_object_end(writer);
    }
    qp_json_free(&doc);
}

/* A functionCall or functionResponse by ADK's names. */
static void turn_content_function(qp_jsonw *writer, const quipu_part *part)
{
    bool call = part->kind == QUIPU_PART_CALL;

    turn_content_key(writer, call ? "functionCall" : "functionResponse");
    qp_jsonw_object(writer);
    turn_content_member(writer, "id", part->id);
    turn_content_member(writer, "name", part->name);
    turn_content_key(writer, call ? "args" : "response");
    if (call) {
        /* A call without arguments has an empty object: providers want one. */
        qp_jsonw_raw(writer, part->json.text.n > 0 ? part->json.text : QUIPU_STR("{}"));
    } else {
        turn_content_result(writer, part->json.text);
    }
    qp_jsonw_object_end(writer);
}

/* One part of the event. Thoughts are texts with "thought": true, as Gemini writes them. A
 * signature is kept with its part: the provider rejects it anywhere else. Only those members of
 * quipu_part that belong to its kind are written: a text in a part of data is not. */
static void turn_content_part(qp_jsonw *writer, const quipu_part *part)
{
    if (part->kind == QUIPU_PART_OTHER) {
        qp_jsonw_raw(writer, part->json.text); /* it is ADK's form already */
        return;
    }
    qp_jsonw_object(writer);
    switch (part->kind) {
    case QUIPU_PART_TEXT:
    case QUIPU_PART_THOUGHT:
        turn_content_key(writer, "text");
        qp_jsonw_str(writer, part->text);
        break;
    case QUIPU_PART_CALL:
    case QUIPU_PART_RESPONSE:
        turn_content_function(writer, part);
        break;
    case QUIPU_PART_DATA:
        turn_content_key(writer, "inlineData");
        qp_jsonw_object(writer);
        turn_content_member(writer, "mimeType", part->mime);
        turn_content_key(writer, "data");
        qp_base64_json(writer, part->data);
        qp_jsonw_object_end(writer);
        break;
    case QUIPU_PART_OTHER:
        break; /* written above */
    }
    /* A call that belongs to a thought says so in the call's own part. */
    if (part->kind == QUIPU_PART_THOUGHT || (part->kind == QUIPU_PART_CALL && part->thought)) {
        turn_content_key(writer, "thought");
        qp_jsonw_bool(writer, true);
    }
    if (part->signature.n > 0) {
        turn_content_key(writer, "thoughtSignature");
        qp_base64_json(writer, part->signature);
    }
    qp_jsonw_object_end(writer);
}

/* ADK's role. Unlike events that ADK writes, responses keep the role "function", which the codec
 * reads back as a tool's. */
static const char *turn_content_role(quipu_role role)
{
    switch (role) {
    case QUIPU_ROLE_ASSISTANT:
    case QUIPU_ROLE_MODEL:
        return "model";
    case QUIPU_ROLE_TOOL:
    case QUIPU_ROLE_FUNCTION:
        return "function";
    case QUIPU_ROLE_SYSTEM:
        return "system";
    case QUIPU_ROLE_USER:
        break;
    }
    return "user";
}

/* -1 means that the provider did not report the counter. */
static void turn_content_count(qp_jsonw *writer, const char *key, int64_t count)
{
    if (count >= 0) {
        turn_content_key(writer, key);
        qp_jsonw_i64(writer, count);
    }
}

/* Model, finish reason and usage, by ADK's names. The same members that ADK writes for Gemini, also
 * for other providers: views and bills read them. */
static void turn_content_facts(qp_jsonw *writer, const quipu_model_response *response)
{
    /* In the order of QUIPU_FINISH_*; tool calls end a turn like "STOP". */
    static const char *const finishes[] = {NULL, "STOP", "MAX_TOKENS", "STOP", "SAFETY", "OTHER"};
    const quipu_model_usage *usage = response->usage;

    turn_content_member(writer, "modelVersion", response->model);
    if (response->finish > QUIPU_FINISH_NONE && response->finish <= QUIPU_FINISH_OTHER) {
        turn_content_member(writer, "finishReason", quipu_cstr(finishes[response->finish]));
    }
    /* Missing figures are better than zeros, which look like a report. */
    if (usage->input < 0 && usage->output < 0) {
        return;
    }
    turn_content_key(writer, "usageMetadata");
    qp_jsonw_object(writer);
    turn_content_count(writer, "promptTokenCount", usage->input);
    turn_content_count(writer, "candidatesTokenCount", usage->output);
    turn_content_count(writer, "totalTokenCount", usage->total);
    turn_content_count(writer, "cachedContentTokenCount", usage->cached);
    turn_content_count(writer, "thoughtsTokenCount", usage->thoughts);
    qp_jsonw_object_end(writer);
}

/* Indexes of redacted thoughts; false: there are none. turn_content_is_redacted() reads them
 * back. */
static bool turn_content_redacted(qp_jsonw *writer, const quipu_content *content)
{
    bool begun = false;

    for (size_t i = 0; i < content->parts.count; i++) {
        const quipu_part *part = quipu_part_at(content->parts, i);

        if (part->kind != QUIPU_PART_THOUGHT || !part->redacted) {
            continue;
        }
        /* The member is written only where it is needed: most events have none. */
        if (!begun) {
            turn_content_key(writer, TURN_CONTENT_META);
            qp_jsonw_object(writer);
            turn_content_key(writer, TURN_CONTENT_REDACTED);
            qp_jsonw_array(writer);
            begun = true;
        }
        qp_jsonw_i64(writer, (int64_t)i);
    }
    if (begun) {
        qp_jsonw_array_end(writer);
    }
    return begun;
}

/* ADK has no fields for redacted thoughts and for what was recalled: they stand in its
 * customMetadata, which other runtimes keep as it is. */
static void turn_content_metadata(qp_jsonw *writer, const quipu_content *content,
                                  const qp_turn_recall *recall)
{
    bool begun = turn_content_redacted(writer, content);

    if (recall != NULL && recall->count > 0) {
        if (!begun) {
            turn_content_key(writer, TURN_CONTENT_META);
            qp_jsonw_object(writer);
            begun = true;
        }
        /* Numbers of messages: their texts stay where they are. */
        turn_content_key(writer, TURN_CONTENT_RECALL);
        qp_jsonw_object(writer);
        turn_content_key(writer, "seqs");
        qp_jsonw_array(writer);
        for (size_t i = 0; i < recall->count; i++) {
            qp_jsonw_i64(writer, recall->seqs[i]);
        }
        qp_jsonw_array_end(writer);
        /* The prompt's cost before, for a later look at the price. */
        turn_content_count(writer, "tokensBefore", recall->before);
        turn_content_member(writer, "text", recall->text);
        qp_jsonw_object_end(writer);
    }
    if (begun) {
        qp_jsonw_object_end(writer);
    }
}

/* The event of a content, without id and time: the codec and the store add them. */
static void turn_content_event(const qp_turn *turn, const quipu_content *content, quipu_str author,
                               const quipu_model_response *response, const qp_turn_recall *recall,
                               qp_jsonw *writer)
{
    qp_jsonw_object(writer);
    turn_content_member(writer, "invocationId", quipu_cstr(turn->invocation));
    turn_content_member(writer, "author", author);
    turn_content_key(writer, "content");
    qp_jsonw_object(writer);
    turn_content_member(writer, "role", quipu_cstr(turn_content_role(content->role)));
    turn_content_key(writer, "parts");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < content->parts.count; i++) {
        turn_content_part(writer, quipu_part_at(content->parts, i));
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
    /* Only answers of a model have them. */
    if (response != NULL) {
        turn_content_facts(writer, response);
    }
    turn_content_metadata(writer, content, recall);
    qp_jsonw_object_end(writer);
}

/* The event's text is copied to the turn's memory first, because the message points into it. The id
 * is made here, once: every repeat of the append uses it. */
static quipu_status turn_content_encode(qp_turn *turn, quipu_str json, quipu_message *ret_message,
                                        quipu_error *reterr)
{
    char id[QUIPU_UUID_TEXT_SIZE];
    quipu_str kept = {NULL, 0};
    quipu_message message;
    quipu_uuid uuid;
    qp_json_doc doc;
    /* Version 7: ids of one turn sort by time. */
    quipu_status status = qp_uuid_v7(&uuid);

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the system has no randomness for an id");
    }
    quipu_uuid_format(uuid, id);
    status = quipu_arena_copy(&turn->memory, json, &json);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&turn->memory, quipu_cstr(id), &kept);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for an event");
    }
    qp_json_init(&doc);
    status = qp_event_parse(&doc, json, reterr);
    if (status == QUIPU_OK) {
        status = qp_event_encode(&doc, kept, &turn->memory, &message, NULL, reterr);
    }
    /* Texts of the message lie in the turn's memory, not in the document. */
    qp_json_free(&doc);
    if (status == QUIPU_OK) {
        *ret_message = message;
    }
    return status;
}

/* Writes the event, then encodes it as the ADK codec does for every event. */
quipu_status qp_turn_message(qp_turn *turn, const quipu_content *content, quipu_str author,
                             const quipu_model_response *response, const qp_turn_recall *recall,
                             quipu_message *ret_message, quipu_error *reterr)
{
    quipu_status status;
    qp_jsonw writer;
    qp_buf json;

    /* An input that does not fit here could not be stored as one message either: it fails before
     * the store is asked. */
    qp_buf_init(&json, QUIPU_MESSAGE_BYTES_LIMIT);
    qp_jsonw_begin(&writer, &json);
    turn_content_event(turn, content, author, response, recall, &writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        status = turn_content_encode(turn, qp_buf_str(&json), ret_message, reterr);
    } else {
        (void)qp_error_set(reterr, status,
                           status == QUIPU_INVALID ? "a text is not UTF-8"
                                                   : "what was said is too large for a message");
    }
    qp_buf_free(&json);
    return status;
}

/* ---- message to content -------------------------------------------------------------------- */

/* A member by a literal name. */
static qp_json_node turn_content_get(qp_json_node object, const char *key)
{
    return qp_json_get(object, quipu_cstr(key));
}

/* A string member's text; empty when the member is missing or has another type. Another program may
 * have written the event: what has the wrong type is not worth failing a turn. */
static quipu_status turn_content_text(qp_json_node node, quipu_arena *arena, quipu_str *ret_text)
{
    if (qp_json_kind_of(node) != QP_JSON_STRING) {
        *ret_text = (quipu_str){"", 0};
        return QUIPU_OK;
    }
    return qp_json_text_copy(node, arena, ret_text);
}

/* Bytes in base64. A value that is not base64 counts as absent. The alphabet may be either:
 * runtimes differ in it. */
static quipu_status turn_content_bytes(qp_json_node node, quipu_arena *arena, quipu_bytes *ret)
{
    quipu_str text = {"", 0};
    quipu_status status = turn_content_text(node, arena, &text);

    if (status == QUIPU_OK && text.n > 0) {
        status = qp_base64_read(text, arena, ret);
    }
    return status == QUIPU_INVALID ? QUIPU_OK : status;
}

/* Id, name and body of a call or response; a missing body is {}. */
static quipu_status turn_content_read_function(qp_json_node function, const char *body,
                                               quipu_arena *arena, quipu_part *part)
{
    qp_json_node json = turn_content_get(function, body);
    quipu_status status = turn_content_text(turn_content_get(function, "id"), arena, &part->id);

    if (status == QUIPU_OK) {
        status = turn_content_text(turn_content_get(function, "name"), arena, &part->name);
    }
    part->json.text = QUIPU_STR("{}");
    if (qp_json_kind_of(json) != QP_JSON_NONE) {
        part->json.text = qp_json_raw(json); /* points into the event's text, in the arena */
    }
    return status;
}

/* Whether a part is one that Gemini understands and this library does not. It goes back as it is.
 * The names are those of Gemini's API; the object behind one is not looked at. */
static bool turn_content_is_other(qp_json_node node)
{
    static const char *const names[] = {"executableCode", "codeExecutionResult", "fileData",
                                        "toolCall", "toolResponse"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (qp_json_kind_of(turn_content_get(node, names[i])) == QP_JSON_OBJECT) {
            return true;
        }
    }
    return false;
}

/* One part of an event. The kind stays 0 for a part that has nothing for a model. A signature
 * without text is kept, because a redacted thought consists of it. */
static quipu_status turn_content_read_part(qp_json_node node, quipu_arena *arena,
                                           quipu_part *ret_part)
{
    qp_json_node call = turn_content_get(node, "functionCall");
    qp_json_node response = turn_content_get(node, "functionResponse");
    qp_json_node data = turn_content_get(node, "inlineData");
    qp_json_node text = turn_content_get(node, "text");
    bool thought = qp_json_kind_of(turn_content_get(node, "thought")) == QP_JSON_TRUE;
    quipu_part part = {.kind = (quipu_part_kind)0};
    quipu_status status =
        turn_content_bytes(turn_content_get(node, "thoughtSignature"), arena, &part.signature);

    if (status != QUIPU_OK) {
        return status;
    }
    if (qp_json_kind_of(call) == QP_JSON_OBJECT) {
        part.kind = QUIPU_PART_CALL;
        part.thought = thought;
        status = turn_content_read_function(call, "args", arena, &part);
    } else if (qp_json_kind_of(response) == QP_JSON_OBJECT) {
        part.kind = QUIPU_PART_RESPONSE;
        status = turn_content_read_function(response, "response", arena, &part);
    } else if (qp_json_kind_of(data) == QP_JSON_OBJECT) {
        part.kind = QUIPU_PART_DATA;
        status = turn_content_text(turn_content_get(data, "mimeType"), arena, &part.mime);
        if (status == QUIPU_OK) {
            status = turn_content_bytes(turn_content_get(data, "data"), arena, &part.data);
        }
    } else if (turn_content_is_other(node)) {
        part.kind = QUIPU_PART_OTHER;
        part.json.text = qp_json_raw(node); /* points into the event's text, in the arena */
        part.signature = (quipu_bytes){NULL, 0};
    } else if (qp_json_kind_of(text) == QP_JSON_STRING || part.signature.n > 0) {
        part.kind = thought ? QUIPU_PART_THOUGHT : QUIPU_PART_TEXT;
        status = turn_content_text(text, arena, &part.text);
    }
    *ret_part = part;
    return status;
}

/* Whether customMetadata lists this part as a redacted thought. Searched anew for each thought: an
 * event has few, and most have no list at all. */
static bool turn_content_is_redacted(qp_json_node event, size_t index)
{
    qp_json_iter iter = qp_json_each(
        turn_content_get(turn_content_get(event, TURN_CONTENT_META), TURN_CONTENT_REDACTED));
    int64_t value = -1;

    while (qp_json_next(&iter)) {
        if (qp_json_int64(iter.value, &value) == QP_JSON_EXACT && value == (int64_t)index) {
            return true;
        }
    }
    return false;
}

/* The messages that were recalled for the event; a value of another form counts as none. `seqs` has
 * room for all elements; an element that is not a whole number is overwritten by the next. */
static quipu_status turn_content_recall(qp_json_node event, quipu_arena *arena, qp_turn_recall *ret)
{
    qp_json_node node =
        turn_content_get(turn_content_get(event, TURN_CONTENT_META), TURN_CONTENT_RECALL);
    qp_json_node list = turn_content_get(node, "seqs");
    qp_json_iter iter = qp_json_each(list);
    size_t size = (qp_json_count(list) + 1) * sizeof(int64_t);
    int64_t *seqs = qp_arena_take(arena, size);
    quipu_status status = seqs != NULL ? QUIPU_OK : qp_arena_why(arena, size);

    *ret = (qp_turn_recall){.seqs = seqs};
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        ret->count += qp_json_int64(iter.value, &seqs[ret->count]) == QP_JSON_EXACT ? 1 : 0;
    }
    if (status == QUIPU_OK) {
        status = turn_content_text(turn_content_get(node, "text"), arena, &ret->text);
        ret->tokens = quipu_token_estimate(ret->text);
    }
    if (qp_json_int64(turn_content_get(node, "tokensBefore"), &ret->before) != QP_JSON_EXACT ||
        ret->before < 0) {
        ret->before = 0;
    }
    return status;
}

/* The parts of an event's content that a model takes; what was recalled is the first. The index
 * that customMetadata names is that in the event, not that in the list of parts. Room for two more
 * than the event has: the recalled text, and one more, so that an empty list does not look like a
 * lack of memory. */
static quipu_status turn_content_read(qp_json_node event, quipu_arena *arena,
                                      quipu_content *content, qp_turn_recall *recall)
{
    qp_json_node list = turn_content_get(turn_content_get(event, "content"), "parts");
    qp_json_iter iter = qp_json_each(list);
    size_t size = (qp_json_count(list) + 2) * sizeof(quipu_part);
    quipu_part *parts = qp_arena_take(arena, size);
    quipu_status status = parts != NULL ? QUIPU_OK : qp_arena_why(arena, size);

    content->parts = quipu_parts_of(parts, 0);
    if (status == QUIPU_OK) {
        status = turn_content_recall(event, arena, recall);
    }
    if (parts != NULL && status == QUIPU_OK && recall->text.n > 0) {
        parts[content->parts.count++] = (quipu_part){.kind = QUIPU_PART_TEXT, .text = recall->text};
    }
    for (size_t i = 0; parts != NULL && status == QUIPU_OK && qp_json_next(&iter); i++) {
        quipu_part *part = &parts[content->parts.count];

        status = turn_content_read_part(iter.value, arena, part);
        part->redacted = part->kind == QUIPU_PART_THOUGHT && turn_content_is_redacted(event, i);
        content->parts.count += part->kind != (quipu_part_kind)0 ? 1 : 0;
    }
    return status;
}

/* A message that never was an event and calls no tool: its text is its only part, as the codec has
 * it. Most messages of other programs are such, and a prompt has hundreds of them. The text is
 * copied: the content may outlive the history that the message is of. */
static quipu_status turn_content_plain(const quipu_message *message, quipu_arena *arena,
                                       quipu_content *ret_content, quipu_error *reterr)
{
    quipu_part *part = qp_arena_take(arena, sizeof(*part));
    quipu_str text = {"", 0};

    if (part == NULL || quipu_arena_copy(arena, message->content, &text) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for a message");
    }
    *part = (quipu_part){.kind = QUIPU_PART_TEXT, .text = text};
    *ret_content = (quipu_content){.role = message->role, .parts = quipu_parts_of(part, 1)};
    return QUIPU_OK;
}

/* Goes through the message's event, also for messages that never were one: the codec has one rule
 * for both. The dialect is the one that turn_content_read() expects: camelCase, the standard
 * alphabet. */
quipu_status qp_turn_content(const quipu_message *message, quipu_arena *arena,
                             quipu_content *ret_content, qp_turn_recall *ret_recall,
                             quipu_error *reterr)
{
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_content content = {.role = message->role};
    quipu_json event = {{NULL, 0}};
    quipu_status status;
    qp_json_doc doc;

    if (message->extra.text.p == NULL && message->calls.count == 0) {
        *ret_recall = (qp_turn_recall){.count = 0};
        return turn_content_plain(message, arena, ret_content, reterr);
    }
    dialect.key_case = QUIPU_KEYS_CAMEL;
    dialect.bytes = QUIPU_BYTES_STD;
    qp_json_init(&doc);
    status =
        quipu_message_to_event(quipu_messages_of(message, 1), 0, &dialect, arena, &event, reterr);
    if (status == QUIPU_OK) {
        status = qp_event_parse(&doc, event.text, reterr);
    }
    if (status == QUIPU_OK) {
        status = turn_content_read(qp_json_root(&doc), arena, &content, ret_recall);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for a message");
        }
    }
    qp_json_free(&doc);
    if (status == QUIPU_OK) {
        *ret_content = content;
    }
    return status;
}

/* The same estimate that the store writes into the message's row. A window is cut by these numbers,
 * so that both must count alike. */
int64_t qp_turn_tokens(const quipu_message *message)
{
    int64_t tokens = qp_token_message(message->content, NULL, 0);

    for (size_t i = 0; i < message->calls.count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(message->calls, i);

        tokens += quipu_token_estimate(call->id) + quipu_token_estimate(call->name) +
                  quipu_token_estimate(call->input) + quipu_token_estimate(call->output);
    }
    return tokens;
}
