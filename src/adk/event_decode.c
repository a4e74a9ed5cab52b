/* Messages to events: the inverse of event_encode.c. An event comes out with the members, values
 * and spellings that it was appended with. A message that never was an event (appended through the
 * store, imported, a merged summary) becomes the event that an agent would have written.
 *
 * Owns: nothing beyond the call; no locks.
 * Called by: event.c.
 * On failure: what encoding can never have written (a count past the text, a missing call) is
 * QUIPU_CORRUPT; decode_refuse() sets it on the buffer, after which writes are ignored. */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/event_parts.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "store/tool_calls.h"

/* One decoding: the message, the parsed members of "adk" in its extra, and how far content and tool
 * calls have been used. Positions only move forward, since parts were stored in their order. */
typedef struct decode_event {
    const quipu_message *message; /* with its calls; borrowed from the caller */
    qp_jsonw writer;              /* counts commas, and writes into buf */
    qp_buf *buf;
    quipu_str marks;      /* letters of QP_MARK_* */
    qp_json_node rest;    /* "e" */
    qp_json_node content; /* "c" */
    qp_json_node parts;   /* "p" */
    qp_json_node odd;     /* "o" */
    bool snake;           /* ADK's spelling of this event: snake_case */
    size_t text_at;       /* bytes of the content that are written */
    size_t calls_at;      /* tool calls that are written */
    qp_odd text_odd;      /* odd characters of the content, from text_at on */
} decode_event;

/* Whether encoding set a mark of QP_MARK_*. */
static bool decode_marked(const decode_event *event, char mark)
{
    return event->marks.n > 0 && memchr(event->marks.p, mark, event->marks.n) != NULL;
}

/* Marks the output as corrupt; later writes to the buffer do nothing. Returns false for the caller
 * to pass on. */
static bool decode_refuse(decode_event *event)
{
    qp_buf_fail(event->buf, QUIPU_CORRUPT);
    return false;
}

/* Whether a text is a JSON object. Bodies of calls come from columns, which hold any text. Checked
 * although encoding has checked it: the column may have been changed since by another program. */
static bool decode_is_object(quipu_str text)
{
    size_t at = 0;

    /* JSON's blanks, and VT and FF, which qp_json_check() refuses afterwards. */
    while (at < text.n && (text.p[at] == ' ' || (text.p[at] >= '\t' && text.p[at] <= '\r'))) {
        at++;
    }
    return at < text.n && text.p[at] == '{' && qp_json_check(text, NULL, NULL) == QUIPU_OK;
}

/* Copies the members of an object as they are; anything else has no members. */
static void decode_members(decode_event *event, qp_json_node object)
{
    qp_json_iter iter = qp_json_each(object);

    while (qp_json_kind_of(object) == QP_JSON_OBJECT && qp_json_next(&iter)) {
        qp_jsonw_raw_key(&event->writer, qp_json_raw(iter.key));
        qp_jsonw_raw(&event->writer, qp_json_raw(iter.value));
    }
}

/* The inside of a string that encoding wrote: marks and packed places never contain escapes, so no
 * copy is needed. */
static quipu_str decode_slice(qp_json_node node)
{
    quipu_str raw = qp_json_raw(node);

    /* Without the quotes. */
    return qp_json_kind_of(node) == QP_JSON_STRING ? (quipu_str){raw.p + 1, raw.n - 2}
                                                   : QP_STR_ABSENT;
}

/* Writes a column's text as a JSON string, restoring its odd characters. The writer gets a quote,
 * so that it writes the comma and registers the value; the quote is then replaced by the real
 * string. `from` is the place of the text in its column: odd characters are counted from the
 * column's start. */
static void decode_text(decode_event *event, qp_odd *odd, quipu_str text, size_t from)
{
    /* Most texts have no odd characters. */
    if (odd->place == SIZE_MAX) {
        qp_jsonw_str(&event->writer, text);
        return;
    }
    qp_jsonw_raw(&event->writer, QUIPU_STR("\""));
    if (qp_buf_status(event->buf) == QUIPU_OK) {
        /* The opening quote goes again: the restored text brings its own. */
        qp_buf_cut(event->buf, event->buf->n - 1);
        qp_odd_write(odd, text, from, event->buf);
    }
}

/* A member made from a column; `letter` names the column's odd characters in "o". */
static void decode_column(decode_event *event, const char *name, quipu_str text, const char *letter)
{
    qp_odd odd = qp_odd_begin(decode_slice(qp_json_get(event->odd, quipu_cstr(letter))));

    qp_jsonw_key(&event->writer, quipu_cstr(name));
    decode_text(event, &odd, text, 0);
}

/* ---- parts ------------------------------------------------------------------------------------
 */

/* The next `size` bytes of the content, as the text of a part. `text_at` advances, so parts read
 * the content in order. The comparison is a subtraction, because n comes from the row and may be
 * huge. */
static bool decode_text_part(decode_event *event, qp_json_node size)
{
    const quipu_str content = event->message->content;
    int64_t n = 0;

    if (qp_json_int64(size, &n) != QP_JSON_EXACT || n < 0 ||
        /* The bytes that are left, not all: parts share one content. */
        (uint64_t)n > content.n - event->text_at) {
        return decode_refuse(event);
    }
    qp_jsonw_key(&event->writer, QUIPU_STR("text"));
    decode_text(event, &event->text_odd, (quipu_str){content.p + event->text_at, (size_t)n},
                event->text_at);
    event->text_at += (size_t)n;
    return true;
}

/* Marks of a call begin at the second letter; the first says call or response. */
static bool decode_call_marked(quipu_str marks, char mark)
{
    return marks.n > 1 && memchr(marks.p + 1, mark, marks.n - 1) != NULL;
}

/* Thought and signature stand beside the call in its part. The signature is written in the alphabet
 * and padding that it came with. */
static void decode_thought(decode_event *event, const quipu_tool_call *call, quipu_str marks)
{
    const bool url = decode_call_marked(marks, QP_CALL_URL);

    if (decode_call_marked(marks, QP_CALL_THOUGHT)) {
        qp_jsonw_key(&event->writer, QUIPU_STR("thought"));
        qp_jsonw_bool(&event->writer, true);
    }
    if (url || decode_call_marked(marks, QP_CALL_STD)) {
        qp_jsonw_key(&event->writer,
                     event->snake ? QUIPU_STR("thought_signature") : QUIPU_STR("thoughtSignature"));
        qp_jsonw_raw(&event->writer, QUIPU_STR("\""));
        qp_signature_write(call->thought_signature, url, decode_call_marked(marks, QP_CALL_BARE),
                           event->buf);
        qp_buf_putc(event->buf, '"');
    }
}

/* Writes the next tool call as its marks say. `rest` are the members that no column holds. A body
 * that is not an object is corrupt: encoding stores others among the part's own members. */
static bool decode_call(decode_event *event, quipu_str marks, qp_json_node rest)
{
    static const char *const names[2][2] = {{"functionCall", "function_call"},
                                            {"functionResponse", "function_response"}};
    const quipu_message *message = event->message;
    const bool response = marks.n > 0 && marks.p[0] == QP_CALL_RESPONSE;
    const bool snake = event->snake != decode_call_marked(marks, QP_CALL_OTHER);
    const quipu_tool_call *call;
    quipu_str body;

    /* A mark without a call, or a call too many, was never written. */
    if (marks.n == 0 || event->calls_at >= message->calls.count) {
        return decode_refuse(event);
    }
    call = quipu_tool_call_at(message->calls, event->calls_at++);
    decode_thought(event, call, marks);
    qp_jsonw_key(&event->writer, quipu_cstr(names[response][snake]));
    qp_jsonw_object(&event->writer);
    if (!decode_call_marked(marks, QP_CALL_NO_ID)) {
        qp_jsonw_key(&event->writer, QUIPU_STR("id"));
        qp_jsonw_str(&event->writer, call->id);
    }
    if (!decode_call_marked(marks, QP_CALL_NO_NAME)) {
        qp_jsonw_key(&event->writer, QUIPU_STR("name"));
        qp_jsonw_str(&event->writer, call->name);
    }
    body = response ? call->output : call->input;
    /* Without this mark the body is an object, as encoding has checked. */
    if (!decode_call_marked(marks, QP_CALL_NO_BODY)) {
        if (!decode_is_object(body)) {
            return decode_refuse(event);
        }
        qp_jsonw_key(&event->writer, response ? QUIPU_STR("response") : QUIPU_STR("args"));
        qp_jsonw_raw(&event->writer, body);
    }
    decode_members(event, rest);
    qp_jsonw_object_end(&event->writer);
    return true;
}

/* An entry that is an array: members of the part first, then texts and calls. An array in an array
 * is a part that was not an object. On failure the writer is left inside of a container, which the
 * failed buffer makes harmless. */
static bool decode_mixture(decode_event *event, qp_json_node entry)
{
    qp_json_iter iter = qp_json_each(entry);
    bool more = qp_json_next(&iter);
    bool good = true;

    /* An empty array is never written. */
    if (!more) {
        return decode_refuse(event);
    }
    /* [[value]]: the part was not an object. */
    if (qp_json_kind_of(iter.value) == QP_JSON_ARRAY) {
        qp_json_node value = qp_json_at(iter.value, 0); /* a part that is not an object */
        if (value.doc == NULL) {
            return decode_refuse(event);
        }
        qp_jsonw_raw(&event->writer, qp_json_raw(value));
        return true;
    }
    /* A part: an object with its own members, then what columns hold. */
    qp_jsonw_object(&event->writer);
    if (qp_json_kind_of(iter.value) == QP_JSON_OBJECT) {
        decode_members(event, iter.value);
        more = qp_json_next(&iter);
    }
    while (more && good) {
        qp_json_node piece = iter.value;
        qp_json_node rest = {NULL, 0};

        /* The next entry is read ahead: an object behind a call holds the call's other members. */
        more = qp_json_next(&iter);
        if (qp_json_kind_of(piece) == QP_JSON_NUMBER) {
            good = decode_text_part(event, piece);
            continue;
        }
        if (more && qp_json_kind_of(iter.value) == QP_JSON_OBJECT) {
            rest = iter.value;
            more = qp_json_next(&iter);
        }
        good = decode_call(event, decode_slice(piece), rest);
    }
    qp_jsonw_object_end(&event->writer);
    return good;
}

/* One entry of "p"; its JSON type says what it is (see event.h). */
static bool decode_part(decode_event *event, qp_json_node entry)
{
    const qp_json_kind kind = qp_json_kind_of(entry);
    bool good;

    if (kind == QP_JSON_OBJECT) {
        qp_jsonw_raw(&event->writer, qp_json_raw(entry));
        return true;
    }
    if (kind == QP_JSON_ARRAY) {
        return decode_mixture(event, entry);
    }
    qp_jsonw_object(&event->writer);
    good = kind == QP_JSON_NUMBER
               ? decode_text_part(event, entry)
               : decode_call(event, decode_slice(entry), (qp_json_node){NULL, 0});
    qp_jsonw_object_end(&event->writer);
    return good;
}

/* Without "p" the content has exactly one part with the whole text, which is by far the most common
 * event. */
static bool decode_parts(decode_event *event)
{
    qp_json_iter iter = qp_json_each(event->parts);
    bool good = true;

    qp_jsonw_key(&event->writer, QUIPU_STR("parts"));
    qp_jsonw_array(&event->writer);
    /* By far the most frequent event. */
    if (event->parts.doc == NULL) { /* one part with the whole text */
        qp_jsonw_object(&event->writer);
        qp_jsonw_key(&event->writer, QUIPU_STR("text"));
        decode_text(event, &event->text_odd, event->message->content, 0);
        qp_jsonw_object_end(&event->writer);
    }
    while (good && qp_json_next(&iter)) {
        good = decode_part(event, iter.value);
    }
    if (good) {
        qp_jsonw_array_end(&event->writer);
    }
    return good;
}

/* ---- an event that was one --------------------------------------------------------------------
 */

/* The timestamp in the form that encoding found: RFC 3339 text, whole seconds, or seconds with a
 * fraction. */
static void decode_time(decode_event *event)
{
    const quipu_time time = event->message->timestamp;
    char text[QP_EVENT_TIME_SIZE];

    qp_jsonw_key(&event->writer, QUIPU_STR("timestamp"));
    if (!decode_marked(event, QP_MARK_RFC3339)) {
        qp_jsonw_raw(&event->writer,
                     qp_event_seconds(time, decode_marked(event, QP_MARK_WHOLE), text));
    } else if (qp_time_rfc3339(time, text, NULL) == QUIPU_OK) {
        /* Years beyond 9999 have no such text: the event then fails below. */
        qp_jsonw_str(&event->writer, quipu_cstr(text));
    } else {
        qp_buf_fail(event->buf, QUIPU_INVALID);
    }
}

/* Values that ADK writes into every event are stored as one mark and written here. The texts are
 * those of ADK for Python, in its order. */
static void decode_usual(decode_event *event)
{
    static const char *const actions[2] = {
        "{\"stateDelta\":{},\"artifactDelta\":{},\"requestedAuthConfigs\":{},"
        "\"requestedToolConfirmations\":{}}",
        "{\"state_delta\":{},\"artifact_delta\":{},\"requested_auth_configs\":{},"
        "\"requested_tool_confirmations\":{}}"};

    if (decode_marked(event, QP_MARK_ACTIONS) || decode_marked(event, QP_MARK_NO_ACTION)) {
        qp_jsonw_key(&event->writer, QUIPU_STR("actions"));
        qp_jsonw_raw(&event->writer, decode_marked(event, QP_MARK_ACTIONS)
                                         ? quipu_cstr(actions[event->snake])
                                         : QUIPU_STR("{}"));
    }
    if (decode_marked(event, QP_MARK_NODE)) {
        qp_jsonw_key(&event->writer, event->snake ? QUIPU_STR("node_info") : QUIPU_STR("nodeInfo"));
        qp_jsonw_raw(&event->writer, QUIPU_STR("{\"path\":\"\"}"));
    }
}

/* The content object: parts, role, and members that no column holds. */
static bool decode_content(decode_event *event)
{
    bool good = true;

    qp_jsonw_key(&event->writer, QUIPU_STR("content"));
    qp_jsonw_object(&event->writer);
    if (!decode_marked(event, QP_MARK_NO_PARTS)) {
        good = decode_parts(event);
    }
    if (good && !decode_marked(event, QP_MARK_NO_ROLE)) {
        qp_jsonw_key(&event->writer, QUIPU_STR("role"));
        qp_jsonw_str(&event->writer, qp_event_role(event->message->role));
    }
    if (good) {
        decode_members(event, event->content);
        qp_jsonw_object_end(&event->writer);
    }
    return good;
}

/* Writes an event that encoding took apart. Members may come in another order than they were
 * appended in; JSON objects have none. */
static bool decode_all(decode_event *event)
{
    const quipu_message *message = event->message;
    bool good = true;

    event->snake = decode_marked(event, QP_MARK_SNAKE);
    event->text_odd = qp_odd_begin(decode_slice(qp_json_get(event->odd, QUIPU_STR("t"))));
    qp_jsonw_object(&event->writer);
    if (!decode_marked(event, QP_MARK_NO_ID)) {
        qp_jsonw_key(&event->writer, QUIPU_STR("id"));
        qp_jsonw_str(&event->writer, message->event_id);
    }
    if (!decode_marked(event, QP_MARK_NO_TIME)) {
        decode_time(event);
    }
    if (message->invocation_id.p != NULL) {
        decode_column(event, event->snake ? "invocation_id" : "invocationId",
                      message->invocation_id, "i");
    }
    if (!decode_marked(event, QP_MARK_NO_AUTHOR)) {
        decode_column(event, "author", message->author, "a");
    }
    if (message->branch.p != NULL) {
        decode_column(event, "branch", message->branch, "b");
    }
    if (!decode_marked(event, QP_MARK_NO_CONTENT)) {
        good = decode_content(event);
    }
    if (good) {
        decode_usual(event);
        decode_members(event, event->rest);
        qp_jsonw_object_end(&event->writer);
    }
    return good;
}

/* ---- a message that never was an event --------------------------------------------------------
 */

/* A call without an id gets QP_CALL_ID_PREFIX and its name. The response uses the same rule, so
 * that the two match. */
static void decode_call_id(qp_jsonw *writer, const quipu_tool_call *call)
{
    qp_buf made;

    qp_jsonw_key(writer, QUIPU_STR("id"));
    /* The own id wins, also when it looks like a made one. */
    if (call->id.n > 0) {
        qp_jsonw_str(writer, call->id);
        return;
    }
    /* The same rule as parts_fallback_id(): a call and its response get one id, each by itself. */
    qp_buf_init(&made, QP_EVENT_JSON_MAX);
    qp_buf_puts(&made, QP_CALL_ID_PREFIX);
    qp_buf_put(&made, call->name);
    if (qp_buf_status(&made) == QUIPU_OK) {
        qp_jsonw_str(writer, qp_buf_str(&made));
    } else {
        qp_buf_fail(writer->buf, qp_buf_status(&made));
    }
    qp_buf_free(&made);
}

/* Used for messages that were not events, and for views: always camelCase, always an id. A body
 * that is not an object is wrapped: {"result": text} for a response, {} for a call. */
void qp_call_write(qp_jsonw *writer, const quipu_tool_call *call, bool response, quipu_str body)
{
    qp_jsonw_object(writer);
    if (!response && call->thought) {
        qp_jsonw_key(writer, QUIPU_STR("thought"));
        qp_jsonw_bool(writer, true);
    }
    if (!response && call->thought_signature.p != NULL) {
        qp_jsonw_key(writer, QUIPU_STR("thoughtSignature"));
        qp_base64_json(writer, call->thought_signature);
    }
    qp_jsonw_key(writer, response ? QUIPU_STR("functionResponse") : QUIPU_STR("functionCall"));
    qp_jsonw_object(writer);
    decode_call_id(writer, call);
    qp_jsonw_key(writer, QUIPU_STR("name"));
    qp_jsonw_str(writer, call->name);
    qp_jsonw_key(writer, response ? QUIPU_STR("response") : QUIPU_STR("args"));
    /* Other bodies would make an event that ADK cannot read. */
    if (decode_is_object(body)) {
        qp_jsonw_raw(writer, body);
    } else {
        qp_jsonw_object(writer);
        if (response) {
            qp_jsonw_key(writer, QUIPU_STR("result"));
            qp_jsonw_str(writer, body);
        }
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* The author of a message without one, by its role; `root` speaks for the agent. */
static quipu_str decode_plain_author(const quipu_message *message, quipu_str root)
{
    if (message->author.n > 0) {
        return message->author;
    }
    switch (message->role) {
    /* A message that names no author. */
    case QUIPU_ROLE_USER:
        return QUIPU_STR("user");
    case QUIPU_ROLE_TOOL:
    case QUIPU_ROLE_FUNCTION:
        return QUIPU_STR("tool");
    default:
        return root.n > 0 ? root : QUIPU_STR(QUIPU_ROOT_AGENT);
    }
}

/* Writes the event of a message that was not one. Content that only repeats the outputs of its tool
 * calls is not written a second time as text. */
static void decode_plain(decode_event *event, quipu_str root)
{
    const quipu_message *message = event->message;
    const bool answers = qp_tool_calls_are(message->content, message->calls);
    qp_jsonw *writer = &event->writer;

    qp_jsonw_object(writer);
    qp_jsonw_key(writer, QUIPU_STR("id"));
    qp_jsonw_str(writer, message->event_id);
    decode_time(event);
    if (message->invocation_id.p != NULL) {
        qp_jsonw_key(writer, QUIPU_STR("invocationId"));
        qp_jsonw_str(writer, message->invocation_id);
    }
    qp_jsonw_key(writer, QUIPU_STR("author"));
    qp_jsonw_str(writer, decode_plain_author(message, root));
    if (message->branch.p != NULL) {
        qp_jsonw_key(writer, QUIPU_STR("branch"));
        qp_jsonw_str(writer, message->branch);
    }
    qp_jsonw_key(writer, QUIPU_STR("content"));
    qp_jsonw_object(writer);
    qp_jsonw_key(writer, QUIPU_STR("role"));
    qp_jsonw_str(writer, qp_event_role(message->role));
    qp_jsonw_key(writer, QUIPU_STR("parts"));
    qp_jsonw_array(writer);
    if ((message->content.n > 0 && !answers) || message->calls.count == 0) {
        qp_jsonw_object(writer);
        qp_jsonw_key(writer, QUIPU_STR("text"));
        qp_jsonw_str(writer, message->content);
        qp_jsonw_object_end(writer);
    }
    for (size_t i = 0; i < message->calls.count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(message->calls, i);
        const bool response = call->output.p != NULL;

        /* A call without arguments and without an output has nothing to show. */
        if (response || call->input.n > 0) {
            qp_call_write(writer, call, response, response ? call->output : call->input);
        }
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
    qp_jsonw_key(writer, QUIPU_STR("actions"));
    qp_jsonw_raw(writer, QUIPU_STR("{}"));
    qp_jsonw_object_end(writer);
}

/* Messages with the member "adk" in extra were events; all others are written as plain ones. */
quipu_status qp_event_decode(const quipu_message *message, quipu_str root, qp_buf *buf,
                             quipu_error *reterr)
{
    decode_event event = {.message = message, .buf = buf};
    quipu_status status = QUIPU_OK;
    qp_json_doc doc;

    qp_json_init(&doc);
    qp_jsonw_begin(&event.writer, buf);
    /* Parsed for each event: rows are not kept in parsed form. */
    if (message->extra.text.p != NULL) {
        status = qp_json_parse(&doc, message->extra.text, NULL, NULL);
    }
    qp_json_node ours = qp_json_get(qp_json_root(&doc), QUIPU_STR(QP_EVENT_MEMBER));
    /* Extra of other programs, or none. */
    if (status == QUIPU_OK && ours.doc == NULL) {
        decode_plain(&event, root);
    } else if (status == QUIPU_OK) {
        event.marks = decode_slice(
            qp_json_kind_of(ours) == QP_JSON_STRING ? ours : qp_json_get(ours, QUIPU_STR("f")));
        event.rest = qp_json_get(ours, QUIPU_STR("e"));
        event.content = qp_json_get(ours, QUIPU_STR("c"));
        event.parts = qp_json_get(ours, QUIPU_STR("p"));
        event.odd = qp_json_get(ours, QUIPU_STR("o"));
        status = decode_all(&event) ? QUIPU_OK : QUIPU_CORRUPT;
    }
    qp_json_free(&doc);
    if (status == QUIPU_OK) {
        status = qp_buf_status(buf);
    }
    /* These say nothing about the row, and the caller can try again. */
    if (status == QUIPU_NOMEM || status == QUIPU_LIMIT) {
        return qp_error_set(reterr, status, "no room for the event of message %lld",
                            (long long)message->seq);
    }
    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_error_field(reterr, QUIPU_CORRUPT, "Message", "extra", "type",
                                "message %lld does not hold the event that it should; restore a "
                                "backup",
                                (long long)message->seq);
}
