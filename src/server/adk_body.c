/* Bodies of ADK's routes: read as its api_server reads them, and refused with the list of faults
 * that its framework writes, 422 {"detail":[{type, loc, msg, input}]}. All faults of a body are
 * listed, in the order of ADK's own fields.
 *
 * Checked of an event are its members, those of its actions and of its content, and the names
 * inside of a part; what the values inside of a part are is left to the library.
 *
 * Called by: routes_adk.c, on workers. Owns: what a qp_adk_body holds. Locks: none.
 * Two kinds of refusal leave here. 422 lists what the framework of ADK's server would refuse before
 * any code of ADK runs; 400 is what ADK's own code refuses, with its text. A client that was
 * written against ADK's server reads both as it does there. Memory: the parsed document lies in the
 * body, and what a later step needs (ids and messages) in the call's arena, so that the
 * body is freed at the end of the handler. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "server/adk_json.h"

/* Sizes of texts on the stack; places and names that are longer are cut or left out, never written
 * beyond their end. */
#define BODY_FAULTS_MAX 64     /* faults that are listed; a client corrects the first ones first */
#define BODY_NAME_SIZE 48      /* of a member's name, with its NUL */
#define BODY_LOC_SIZE 160      /* of a place, as items of a JSON array */
#define BODY_EVENT_LOC_SIZE 40 /* of an event's place, which begins those inside of it */
#define BODY_TEXTS_MAX (QP_HTTP_BODY_CAP * 2) /* bytes of faults, or of an event */

/* Members of customMetadata that begin so are ADK's own: a client's are dropped, or it could forge
 * what ADK relies on. */
#define BODY_RESTORED QUIPU_STR("__adk_internal_restored_event") /* ADK's mark: from outside */
#define BODY_INTERNAL QUIPU_STR("__adk_internal_")

/* The type of a member. Null is allowed where ADK's field is optional. */
typedef enum body_kind {
    BODY_ANY,    /* no check: ADK takes every value */
    BODY_TEXT,   /* a string; numbers are not converted */
    BODY_FLAG,   /* true or false */
    BODY_NUMBER, /* of Python's float, an integer too */
    BODY_LIST,   /* of anything; some lists have checks of their own */
    BODY_DICT,   /* an object with names of the user's */
    BODY_MODEL   /* an object with names of ADK's */
} body_kind;

typedef struct body_field {
    const char *name; /* camelCase */
    body_kind kind;
    bool required; /* null is wrong */
} body_field;

/* ADK 2.13's Event.
 * The order is that of the model's fields: body_check_event() lists faults in it, and
 * body_put_event() stores members in it. A field of a newer ADK is added here, or it is dropped
 * from the events that a client sends. */
static const body_field body_of_event[] = {
    {"modelVersion", BODY_TEXT, false},
    {"content", BODY_MODEL, false},
    {"groundingMetadata", BODY_MODEL, false},
    {"partial", BODY_FLAG, false},
    {"turnComplete", BODY_FLAG, false},
    {"turnCompleteReason", BODY_TEXT, false},
    {"interactionStatus", BODY_TEXT, false},
    {"finishReason", BODY_TEXT, false},
    {"errorCode", BODY_TEXT, false},
    {"errorMessage", BODY_TEXT, false},
    {"interrupted", BODY_FLAG, false},
    {"customMetadata", BODY_DICT, false},
    {"usageMetadata", BODY_MODEL, false},
    {"liveSessionResumptionUpdate", BODY_MODEL, false},
    {"liveSessionId", BODY_TEXT, false},
    {"goAway", BODY_MODEL, false},
    {"voiceActivity", BODY_MODEL, false},
    {"inputTranscription", BODY_MODEL, false},
    {"outputTranscription", BODY_MODEL, false},
    {"avgLogprobs", BODY_NUMBER, false},
    {"logprobsResult", BODY_MODEL, false},
    {"cacheMetadata", BODY_MODEL, false},
    {"citationMetadata", BODY_MODEL, false},
    {"interactionId", BODY_TEXT, false},
    {"environmentId", BODY_TEXT, false},
    {"invocationId", BODY_TEXT, true},
    {"author", BODY_TEXT, true},
    {"actions", BODY_MODEL, true},
    {"output", BODY_ANY, false},
    {"nodeInfo", BODY_MODEL, true},
    {"longRunningToolIds", BODY_LIST, false},
    {"branch", BODY_TEXT, false},
    {"isolationScope", BODY_TEXT, false},
    {"id", BODY_TEXT, true},
    {"timestamp", BODY_NUMBER, true},
};

/* The members of an event's actions. A client's events must have no actions (body_has_actions());
 * whether they are well-formed is checked before, by this table. */
static const body_field body_of_actions[] = {
    {"skipSummarization", BODY_FLAG, false},
    {"stateDelta", BODY_DICT, true},
    {"artifactDelta", BODY_DICT, true},
    {"transferToAgent", BODY_TEXT, false},
    {"transferReason", BODY_TEXT, false},
    {"escalate", BODY_FLAG, false},
    {"requestedAuthConfigs", BODY_DICT, true},
    {"requestedToolConfirmations", BODY_DICT, true},
    {"compaction", BODY_MODEL, false},
    {"endOfAgent", BODY_FLAG, false},
    {"agentState", BODY_DICT, false},
    {"rewindBeforeInvocationId", BODY_TEXT, false},
    {"route", BODY_ANY, false},
    {"renderUiWidgets", BODY_LIST, false},
    {"setModelResponse", BODY_ANY, false},
};

/* Of Google's GenAI: who speaks, and the parts of what is said. */
static const body_field body_of_content[] = {
    {"parts", BODY_LIST, false},
    {"role", BODY_TEXT, false},
};

/* A part has one of these as a rule, but the model does not demand it. */
static const body_field body_of_part[] = {
    {"mediaResolution", BODY_MODEL, false},
    {"codeExecutionResult", BODY_MODEL, false},
    {"executableCode", BODY_MODEL, false},
    {"fileData", BODY_MODEL, false},
    {"functionCall", BODY_MODEL, false},
    {"functionResponse", BODY_MODEL, false},
    {"inlineData", BODY_MODEL, false},
    {"text", BODY_TEXT, false},
    {"thought", BODY_FLAG, false},
    {"thoughtSignature", BODY_TEXT, false},
    {"videoMetadata", BODY_MODEL, false},
    {"toolCall", BODY_MODEL, false},
    {"toolResponse", BODY_MODEL, false},
    {"partMetadata", BODY_DICT, false},
    {"audioTranscription", BODY_MODEL, false},
    {"mediaProcessing", BODY_ANY, false},
    {"speechMetadata", BODY_MODEL, false},
};

#define BODY_COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

/* ---- names ----------------------------------------------------------------------------------- */

/* "sessionId" becomes "session_id".
 * BODY_NAME_SIZE holds the longest name of the tables in this spelling, which the assert checks. */
static void body_snake(const char *from, char to[BODY_NAME_SIZE])
{
    size_t n = 0;

    for (; *from != '\0'; from++) {
        const bool is_upper = *from >= 'A' && *from <= 'Z';

        assert(n + 3 < BODY_NAME_SIZE);
        if (is_upper) {
            to[n++] = '_';
        }
        to[n++] = (char)(is_upper ? *from - 'A' + 'a' : *from);
    }
    to[n] = '\0';
}

/* A member in either spelling, camelCase first; `ret_name` is the one that was found. When a member
 * has both spellings, the first counts, as in the framework. The name is kept for the place in a
 * fault: a client finds it as it wrote it. */
static qp_json_node body_get(qp_json_node object, const char *name, char ret_name[BODY_NAME_SIZE])
{
    qp_json_node value = qp_json_get(object, quipu_cstr(name));

    (void)snprintf(ret_name, BODY_NAME_SIZE, "%s", name);
    if (qp_json_kind_of(value) == QP_JSON_NONE) {
        char snake[BODY_NAME_SIZE];

        body_snake(name, snake);
        value = qp_json_get(object, quipu_cstr(snake));
        if (qp_json_kind_of(value) != QP_JSON_NONE) {
            (void)snprintf(ret_name, BODY_NAME_SIZE, "%s", snake);
        }
    }
    return value;
}

/* ADK's models take both spellings of a name.
 * An escape inside of the key does not matter: the decoded text is compared. */
static bool body_is_name(qp_json_node key, const char *name)
{
    char snake[BODY_NAME_SIZE];

    body_snake(name, snake);
    return qp_json_text_is(key, quipu_cstr(name)) || qp_json_text_is(key, quipu_cstr(snake));
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* `input` is JSON; `more` are further members, or "".
 * Beyond BODY_FAULTS_MAX faults are counted and not listed: the answer stays small however wrong a
 * body is. `type`, `message` and `more` are constant texts; `loc` and `input` are valid JSON, so
 * that nothing here needs escaping. */
static void body_fault(qp_adk_faults *faults, const char *type, const char *loc,
                       const char *message, quipu_str input, const char *more)
{
    if (faults->count++ >= BODY_FAULTS_MAX) {
        return;
    }
    qp_buf_printf(&faults->items, "%s{\"type\":\"%s\",\"loc\":[%s],\"msg\":\"%s\",\"input\":",
                  faults->count > 1 ? "," : "", type, loc, message);
    qp_buf_put(&faults->items, input);
    qp_buf_printf(&faults->items, "%s}", more);
}

/* Answers 422 with what was found.
 * Where the list does not fit, one fault without details is the answer, and the status is the same.
 * */
static void body_answer(qp_reply *answer, qp_adk_faults *faults)
{
    assert(faults->count > 0);
    qp_buf_reset(&answer->body);
    qp_buf_puts(&answer->body, "{\"detail\":[");
    qp_buf_put(&answer->body, qp_buf_str(&faults->items));
    qp_buf_puts(&answer->body, "]}");
    answer->status = 422;
    if (qp_buf_status(&faults->items) != QUIPU_OK || qp_buf_status(&answer->body) != QUIPU_OK) {
        qp_reply_error(answer, 422, "INVALID", "the body is wrong");
    }
}

/* A value of the wrong kind, in pydantic's words.
 * A text where a flag or a number is wanted is another fault than an object: the framework tries to
 * read texts. Those that it could read, such as "true", are refused here all the same. */
static void body_fault_kind(qp_adk_faults *faults, body_kind kind, const char *loc,
                            qp_json_node value)
{
    const bool is_text = qp_json_kind_of(value) == QP_JSON_STRING;
    const quipu_str input = qp_json_raw(value);

    switch (kind) {
    case BODY_TEXT:
        body_fault(faults, "string_type", loc, "Input should be a valid string", input, "");
        break;
    case BODY_FLAG:
        body_fault(faults, is_text ? "bool_parsing" : "bool_type", loc,
                   is_text ? "Input should be a valid boolean, unable to interpret input"
                           : "Input should be a valid boolean",
                   input, "");
        break;
    case BODY_NUMBER:
        body_fault(faults, is_text ? "float_parsing" : "float_type", loc,
                   is_text ? "Input should be a valid number, unable to parse string as a number"
                           : "Input should be a valid number",
                   input, "");
        break;
    case BODY_LIST:
        body_fault(faults, "list_type", loc, "Input should be a valid list", input, "");
        break;
    case BODY_DICT:
        body_fault(faults, "dict_type", loc, "Input should be a valid dictionary", input, "");
        break;
    case BODY_MODEL:
        body_fault(faults, "model_attributes_type", loc,
                   "Input should be a valid dictionary or object to extract fields from", input,
                   "");
        break;
    case BODY_ANY:
        break;
    }
}

/* Text of a request as JSON; what is not UTF-8 cannot be shown. The caller frees `ret_json`, also
 * where nothing could be written. */
static void body_quote(quipu_str text, qp_buf *ret_json)
{
    qp_jsonw writer;

    qp_buf_init(ret_json, BODY_TEXTS_MAX);
    qp_jsonw_begin(&writer, ret_json);
    qp_jsonw_str(&writer, qp_utf8_valid(text) ? text : QUIPU_STR(""));
}

/* FastAPI's text for a query parameter that is not a boolean. On the loop's thread, before the
 * request is queued. */
void qp_adk_refuse_flag(qp_call *call, const char *parameter)
{
    qp_adk_faults faults = {.count = 0};
    char loc[BODY_LOC_SIZE];
    qp_buf input;

    (void)snprintf(loc, sizeof(loc), "\"query\",\"%s\"", parameter);
    qp_buf_init(&faults.items, BODY_TEXTS_MAX);
    body_quote(qp_call_text(call, parameter), &input);
    body_fault(&faults, "bool_parsing", loc,
               "Input should be a valid boolean, unable to interpret input", qp_buf_str(&input),
               "");
    body_answer(&call->answer, &faults);
    qp_buf_free(&input);
    qp_buf_free(&faults.items);
}

/* An integer where a float is wanted is a number, as in Python.
 * Null has no kind here; body_member() has dealt with it before. */
static bool body_is_kind(body_kind kind, qp_json_node value)
{
    const qp_json_kind found = qp_json_kind_of(value);

    switch (kind) {
    case BODY_TEXT:
        return found == QP_JSON_STRING;
    case BODY_FLAG:
        return found == QP_JSON_TRUE || found == QP_JSON_FALSE;
    case BODY_NUMBER:
        return found == QP_JSON_NUMBER;
    case BODY_LIST:
        return found == QP_JSON_ARRAY;
    case BODY_DICT:
    case BODY_MODEL:
        return found == QP_JSON_OBJECT;
    case BODY_ANY:
        break;
    }
    return true;
}

/* Checks the member of a field and returns it; none: it is missing, null or wrong.
 * A wrong member is reported and then treated as missing, so that one mistake is one fault. */
static qp_json_node body_member(qp_adk_faults *faults, qp_json_node object, const body_field *field,
                                const char *loc)
{
    char name[BODY_NAME_SIZE];
    char place[BODY_LOC_SIZE];
    const qp_json_node value = body_get(object, field->name, name);
    const qp_json_kind kind = qp_json_kind_of(value);

    if (kind == QP_JSON_NONE || (kind == QP_JSON_NULL && !field->required)) {
        return (qp_json_node){NULL, 0};
    }
    if (!body_is_kind(field->kind, value)) {
        (void)snprintf(place, sizeof(place), "%s,\"%s\"", loc, name);
        body_fault_kind(faults, field->kind, place, value);
        return (qp_json_node){NULL, 0};
    }
    return value;
}

/* Unknown members. Their names come from the client and may hold anything, so they are written as
 * JSON. */
static void body_extras(qp_adk_faults *faults, qp_json_node object, const body_field *fields,
                        size_t count, const char *loc)
{
    qp_json_iter each = qp_json_each(object);

    while (qp_json_next(&each)) {
        bool is_known = false;

        for (size_t i = 0; i < count && !is_known; i++) {
            is_known = body_is_name(each.key, fields[i].name);
        }
        if (!is_known) {
            const quipu_str name = qp_json_raw(each.key);
            char place[BODY_LOC_SIZE];

            /* A name of 64 bytes or more is left out of the place, which has a fixed size. */
            (void)snprintf(place, sizeof(place), "%s%s%.*s", loc, name.n < 64 ? "," : "",
                           name.n < 64 ? (int)name.n : 0, name.p);
            body_fault(faults, "extra_forbidden", place, "Extra inputs are not permitted",
                       qp_json_raw(each.value), "");
        }
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Every part of a content, with its place in the list of faults.
 * An absent list has no parts, and no fault. */
static void body_check_parts(qp_adk_faults *faults, qp_json_node parts, const char *loc)
{
    qp_json_iter each = qp_json_each(parts);
    char place[BODY_LOC_SIZE];

    /* The index is a part of the place, as in pydantic's list. */
    for (size_t at = 0; qp_json_next(&each); at++) {
        (void)snprintf(place, sizeof(place), "%s,\"content\",\"parts\",%zu", loc, at);
        if (!body_is_kind(BODY_MODEL, each.value)) {
            body_fault_kind(faults, BODY_MODEL, place, each.value);
            continue;
        }
        for (size_t i = 0; i < BODY_COUNT(body_of_part); i++) {
            (void)body_member(faults, each.value, &body_of_part[i], place);
        }
        body_extras(faults, each.value, body_of_part, BODY_COUNT(body_of_part), place);
    }
}

/* The content, or the actions, of an event. An absent object needs no check: each of its members is
 * absent, too. */
static void body_check_inner(qp_adk_faults *faults, qp_json_node object, bool is_content,
                             const char *loc)
{
    const body_field *fields = is_content ? body_of_content : body_of_actions;
    const size_t count = is_content ? BODY_COUNT(body_of_content) : BODY_COUNT(body_of_actions);
    char place[BODY_LOC_SIZE];

    (void)snprintf(place, sizeof(place), "%s,\"%s\"", loc, is_content ? "content" : "actions");
    for (size_t i = 0; i < count; i++) {
        const qp_json_node value = body_member(faults, object, &fields[i], place);

        if (is_content && fields[i].kind == BODY_LIST) {
            body_check_parts(faults, value, loc);
        }
    }
    body_extras(faults, object, fields, count, place);
}

/* Members in the order of ADK's model, so that the list of faults has that order. Unknown members
 * of an event are accepted and not stored, as in ADK. */
static void body_check_event(qp_adk_faults *faults, qp_json_node event, size_t index)
{
    char loc[BODY_EVENT_LOC_SIZE];

    (void)snprintf(loc, sizeof(loc), "\"body\",\"events\",%zu", index);
    if (!body_is_kind(BODY_MODEL, event)) {
        body_fault_kind(faults, BODY_MODEL, loc, event);
        return;
    }
    for (size_t i = 0; i < BODY_COUNT(body_of_event); i++) {
        const qp_json_node value = body_member(faults, event, &body_of_event[i], loc);
        const bool is_content = strcmp(body_of_event[i].name, "content") == 0;

        if (is_content || strcmp(body_of_event[i].name, "actions") == 0) {
            body_check_inner(faults, value, is_content, loc);
        }
    }
}

/* Whether actions say anything: ADK takes none from outside.
 * null and {} are what clients send for "no actions". */
static bool body_has_actions(qp_json_node actions)
{
    qp_json_iter each = qp_json_each(actions);

    while (qp_json_next(&each)) {
        const qp_json_kind kind = qp_json_kind_of(each.value);

        if (kind != QP_JSON_NULL && !(kind == QP_JSON_OBJECT && qp_json_count(each.value) == 0)) {
            return true;
        }
    }
    return false;
}

/* Whether a part calls, or answers, a function that ADK keeps for itself.
 * Such a call would look as if the framework itself had asked the user, for a credential or for a
 * confirmation. */
static bool body_is_reserved(qp_json_node part)
{
    static const char *const members[] = {"functionCall", "functionResponse"};
    static const char *const names[] = {"adk_request_credential", "adk_request_confirmation",
                                        "adk_request_input"};
    char spelling[BODY_NAME_SIZE];

    for (size_t i = 0; i < BODY_COUNT(members); i++) {
        const qp_json_node name =
            qp_json_get(body_get(part, members[i], spelling), QUIPU_STR("name"));

        for (size_t j = 0; j < BODY_COUNT(names); j++) {
            if (qp_json_kind_of(name) == QP_JSON_STRING &&
                qp_json_text_is(name, quipu_cstr(names[j]))) {
                return true;
            }
        }
    }
    return false;
}

/* The name of a member that an event must not have; NULL when it has none. The texts end a sentence
 * of ADK's: "Session initialization event 0 cannot include ...". */
static const char *body_disallowed(qp_json_node event)
{
    char name[BODY_NAME_SIZE];
    qp_json_iter parts =
        qp_json_each(qp_json_get(body_get(event, "content", name), QUIPU_STR("parts")));

    if (qp_json_count(body_get(event, "longRunningToolIds", name)) > 0) {
        return "long-running tool IDs";
    }
    if (body_has_actions(body_get(event, "actions", name))) {
        return "event actions";
    }
    while (qp_json_next(&parts)) {
        if (body_is_reserved(parts.value)) {
            return "ADK protocol function calls";
        }
    }
    return NULL;
}

/* The user's metadata, and ADK's mark that the event comes from outside of the session. Names are
 * compared by what they mean: an escape must not hide a forged mark.
 * A lack of memory goes to the writer's buffer, whose status the caller reads: it must not look
 * like a name that is harmless. */
static void body_put_metadata(qp_jsonw *writer, qp_json_node metadata, quipu_arena *arena)
{
    const quipu_str head = BODY_INTERNAL;
    qp_json_iter each = qp_json_each(metadata);

    qp_jsonw_key(writer, QUIPU_STR("customMetadata"));
    qp_jsonw_object(writer);
    while (qp_json_next(&each)) {
        quipu_str name = {NULL, 0};

        if (qp_json_text(each.key, arena, &name, NULL) != QUIPU_OK) {
            qp_buf_fail(writer->buf, QUIPU_NOMEM);
        }
        if (name.n < head.n || memcmp(name.p, head.p, head.n) != 0) {
            qp_jsonw_raw_key(writer, qp_json_raw(each.key));
            qp_jsonw_raw(writer, qp_json_raw(each.value));
        }
    }
    qp_jsonw_key(writer, BODY_RESTORED);
    qp_jsonw_bool(writer, true);
    qp_jsonw_object_end(writer);
}

/* Writes the event that is stored: the fields that ADK knows, in camelCase, with an id and a time.
 * An id that the client sent is kept. Without a time the event gets the one of the request, the
 * same for all events of a body. */
static quipu_status body_put_event(qp_json_node event, quipu_time now, quipu_arena *arena,
                                   qp_buf *buf)
{
    char name[BODY_NAME_SIZE];
    char made[QUIPU_UUID_TEXT_SIZE];
    const qp_json_node id = body_get(event, "id", name);
    quipu_uuid uuid;
    quipu_status status = qp_uuid_v4(&uuid);
    qp_jsonw writer;

    if (status != QUIPU_OK) {
        return status;
    }
    quipu_uuid_format(uuid, made);
    qp_jsonw_begin(&writer, buf);
    qp_jsonw_object(&writer);
    for (size_t i = 0; i < BODY_COUNT(body_of_event); i++) {
        const char *field = body_of_event[i].name;
        const qp_json_node value = body_get(event, field, name);

        if (qp_json_kind_of(value) > QP_JSON_NULL && strcmp(field, "id") != 0 &&
            strcmp(field, "customMetadata") != 0) {
            qp_jsonw_key(&writer, quipu_cstr(field));
            qp_jsonw_raw(&writer, qp_json_raw(value));
        }
    }
    body_put_metadata(&writer, body_get(event, "customMetadata", name), arena);
    qp_jsonw_key(&writer, QUIPU_STR("id"));
    if (qp_json_raw(id).n > 2) { /* more than its quotes */
        qp_jsonw_raw(&writer, qp_json_raw(id));
    } else {
        qp_jsonw_str(&writer, quipu_cstr(made));
    }
    if (qp_json_kind_of(body_get(event, "timestamp", name)) == QP_JSON_NONE) {
        qp_jsonw_put_double(&writer, "timestamp", (double)now.s + (double)now.ns / 1e9);
    }
    qp_jsonw_object_end(&writer);
    return qp_jsonw_end(&writer);
}

/* Converts one event; the message's texts lie in the arena.
 * The JSON is copied to the arena before it is converted, because the message refers to it. */
static quipu_status body_convert(qp_call *call, qp_json_node event, quipu_time now,
                                 quipu_message *ret_message, quipu_error *reterr)
{
    quipu_messages one;
    quipu_json json;
    quipu_status status;
    qp_buf buf;

    qp_buf_init(&buf, BODY_TEXTS_MAX);
    status = body_put_event(event, now, &call->arena, &buf);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&call->arena, qp_buf_str(&buf), &json.text);
    }
    qp_buf_free(&buf);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for an event");
    }
    status = quipu_event_to_message(json, &call->arena, &one, reterr);
    if (status == QUIPU_OK) {
        assert(one.count == 1);
        *ret_message = *quipu_message_at(one, 0);
    }
    return status;
}

/* All events or none. The library's own check comes last: it is stricter than ADK's model about
 * what a part may hold.
 * Nothing is stored here: a refusal of the last event leaves no session with the first ones.
 * QUIPU_BATCH_MAX, because the events are appended in one transaction. */
bool qp_adk_body_events(qp_call *call, qp_json_node events, quipu_messages *ret_messages)
{
    const size_t count = qp_json_count(events);
    const quipu_time now = quipu_time_now();
    qp_json_iter each = qp_json_each(events);
    quipu_message *messages = count <= QUIPU_BATCH_MAX
                                  ? quipu_arena_alloc(&call->arena, count * sizeof(*messages) + 1)
                                  : NULL;
    quipu_error error = {.status = QUIPU_OK};
    char text[128];

    if (messages == NULL) {
        (void)snprintf(text, sizeof(text), "a session begins with at most %d events",
                       QUIPU_BATCH_MAX);
        qp_reply_error(&call->answer, count > QUIPU_BATCH_MAX ? 400 : 503, "LIMIT", text);
        return false;
    }
    for (size_t at = 0; qp_json_next(&each); at++) {
        const char *wrong = body_disallowed(each.value);
        quipu_status status;

        if (wrong != NULL) {
            (void)snprintf(text, sizeof(text),
                           "Session initialization event %zu cannot include %s.", at, wrong);
            qp_reply_error(&call->answer, 400, "INVALID", text);
            return false;
        }
        status = body_convert(call, each.value, now, &messages[at], &error);
        if (status != QUIPU_OK) {
            qp_reply_failure(&call->answer, status, &error);
            return false;
        }
    }
    *ret_messages = quipu_messages_of(messages, count);
    return true;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Parses the body. `optional`: there may be none, or null.
 * false without a fault: there is no body, which is right where it is optional. */
static bool body_parse(qp_call *call, bool optional, body_kind kind, qp_adk_body *body)
{
    const bool is_json = qp_http_has_type(call->request, "application/json");
    const quipu_str text = call->request->body;
    qp_adk_faults *faults = &body->faults;

    if (text.n == 0) {
        if (!optional) {
            body_fault(faults, "missing", "\"body\"", "Field required", QUIPU_STR("null"), "");
        }
        return false;
    }
    if (!is_json) { /* to ADK's framework the body is a text then */
        qp_buf quoted;

        body_quote(text, &quoted);
        body_fault(faults, kind == BODY_DICT ? "dict_type" : "model_attributes_type", "\"body\"",
                   kind == BODY_DICT
                       ? "Input should be a valid dictionary"
                       : "Input should be a valid dictionary or object to extract fields from",
                   qp_buf_str(&quoted), "");
        qp_buf_free(&quoted);
        return false;
    }
    /* The offset takes the place of the position that Python's parser reports. */
    if (qp_json_parse(&body->doc, text, NULL, NULL) != QUIPU_OK) {
        char loc[BODY_LOC_SIZE];

        (void)snprintf(loc, sizeof(loc), "\"body\",%zu", body->doc.fault.offset);
        body_fault(faults, "json_invalid", loc, "JSON decode error", QUIPU_STR("{}"),
                   ",\"ctx\":{\"error\":\"this is no JSON\"}");
        return false;
    }
    if (optional && qp_json_kind_of(qp_json_root(&body->doc)) == QP_JSON_NULL) {
        return false;
    }
    if (!body_is_kind(kind, qp_json_root(&body->doc))) {
        body_fault_kind(faults, kind, "\"body\"", qp_json_root(&body->doc));
        return false;
    }
    return true;
}

/* A member that must be there.
 * Missing and null are two faults: null is a value of the wrong kind. */
static qp_json_node body_required(qp_adk_body *body, const char *name, body_kind kind)
{
    const qp_json_node root = qp_json_root(&body->doc);
    const body_field field = {name, kind, true};
    char spelling[BODY_NAME_SIZE];
    char loc[BODY_LOC_SIZE];

    if (qp_json_kind_of(body_get(root, name, spelling)) == QP_JSON_NONE) {
        (void)snprintf(loc, sizeof(loc), "\"body\",\"%s\"", name);
        body_fault(&body->faults, "missing", loc, "Field required", qp_json_raw(root), "");
        return (qp_json_node){NULL, 0};
    }
    return body_member(&body->faults, root, &field, "\"body\"");
}

/* The members of a new session.
 * Every member is read, also behind one that is wrong: all faults in one answer. */
static qp_json_node body_read_new(qp_adk_body *body)
{
    static const body_field fields[] = {{"sessionId", BODY_TEXT, false},
                                        {"state", BODY_DICT, false},
                                        {"events", BODY_LIST, false},
                                        {"options", BODY_DICT, false}};
    const qp_json_node root = qp_json_root(&body->doc);
    const qp_json_node id = body_member(&body->faults, root, &fields[0], "\"body\"");
    qp_json_iter each;

    body->state.text = qp_json_raw(body_member(&body->faults, root, &fields[1], "\"body\""));
    body->events = body_member(&body->faults, root, &fields[2], "\"body\"");
    each = qp_json_each(body->events);
    for (size_t i = 0; qp_json_next(&each); i++) {
        body_check_event(&body->faults, each.value, i);
    }
    /* Last, as in ADK's model, so that its fault is the last of the list. */
    body->options = body_member(&body->faults, root, &fields[3], "\"body\"");
    return id;
}

/* The members of an artifact; returns its name. The members of a part are checked, not their
 * values. The name takes the place of the session's id in the body: `session_id` holds it then,
 * `options` the part, and `state` the metadata. */
static qp_json_node body_read_artifact(qp_adk_body *body)
{
    static const body_field metadata = {"customMetadata", BODY_DICT, false};
    const qp_json_node root = qp_json_root(&body->doc);
    const qp_json_node id = body_required(body, "filename", BODY_TEXT);

    body->options = body_required(body, "artifact", BODY_MODEL);
    for (size_t i = 0; i < BODY_COUNT(body_of_part) && body->options.doc != NULL; i++) {
        (void)body_member(&body->faults, body->options, &body_of_part[i], "\"body\",\"artifact\"");
    }
    if (body->options.doc != NULL) {
        body_extras(&body->faults, body->options, body_of_part, BODY_COUNT(body_of_part),
                    "\"body\",\"artifact\"");
    }
    body->state.text = qp_json_raw(body_member(&body->faults, root, &metadata, "\"body\""));
    return id;
}

/* A body that may be absent is an empty one. Faults are collected and answered once.
 * false: the answer is written, and the handler returns QUIPU_OK. The caller calls
 * qp_adk_body_free() in both cases. */
bool qp_adk_body_read(qp_call *call, qp_adk_form form, qp_adk_body *body)
{
    /* ADK's framework demands a body for the other forms. */
    const bool optional = form == QP_ADK_NEW || form == QP_ADK_STATE;
    const body_kind kind = form == QP_ADK_STATE ? BODY_DICT : BODY_MODEL;
    qp_json_node id = {NULL, 0};

    *body = (qp_adk_body){.faults = {.count = 0}};
    qp_json_init(&body->doc);
    qp_buf_init(&body->faults.items, BODY_TEXTS_MAX);
    if (body_parse(call, optional, kind, body)) {
        switch (form) {
        case QP_ADK_NEW:
            id = body_read_new(body);
            break;
        case QP_ADK_STATE:
            body->state.text = qp_json_raw(qp_json_root(&body->doc));
            break;
        case QP_ADK_STATE_DELTA:
            body->state.text = qp_json_raw(body_required(body, "stateDelta", BODY_DICT));
            break;
        case QP_ADK_SESSION_ID:
            id = body_required(body, "sessionId", BODY_TEXT);
            break;
        case QP_ADK_ARTIFACT:
            id = body_read_artifact(body);
            break;
        }
    }
    if (body->faults.count > 0) {
        body_answer(&call->answer, &body->faults);
        return false;
    }
    if (qp_json_kind_of(id) == QP_JSON_STRING &&
        qp_json_text_copy(id, &call->arena, &body->session_id) != QUIPU_OK) {
        qp_reply_error(&call->answer, 503, "NOMEM", "out of memory");
        return false;
    }
    return true;
}

/* Safe after a read that failed. */
void qp_adk_body_free(qp_adk_body *body)
{
    qp_json_free(&body->doc);
    qp_buf_free(&body->faults.items);
}
