/* A message out of JSON, as message_json.c writes it.
 *
 * Owns the table of members that a message may have, and the errors for everything else: a
 * misspelled member is refused, not ignored. Called by programs and bindings through
 * quipu_message_parse(). Pure: no store and no lock. On success the message and all its texts are
 * in the caller's arena. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "store/tool_calls.h"

#define MESSAGE_PARSE_NAME_SHOWN 60 /* bytes of a strange member's name in an error */

/* How the value of a member is read. */
typedef enum message_parse_kind {
    MESSAGE_PARSE_TEXT,
    MESSAGE_PARSE_NUMBER,
    MESSAGE_PARSE_ROLE,
    MESSAGE_PARSE_MARK,
    MESSAGE_PARSE_TIME,
    MESSAGE_PARSE_CALLS,
    MESSAGE_PARSE_EXTRA
} message_parse_kind;

/* One member of the object: how its value is read, and where it goes. */
typedef struct message_parse_member {
    const char *name;        /* as it stands in JSON */
    message_parse_kind kind; /* chooses the function that reads the value */
    size_t offset;           /* of the text or the number in a quipu_message */
} message_parse_member;

/* All members of a message. The names are those of message_json.c; contract.store_message_parse
 * checks that what is written can be read. */
static const message_parse_member message_parse_members[] = {
    {"role", MESSAGE_PARSE_ROLE, 0},
    {"content", MESSAGE_PARSE_TEXT, offsetof(quipu_message, content)},
    {"timestamp", MESSAGE_PARSE_TIME, 0},
    {"toolCalls", MESSAGE_PARSE_CALLS, 0},
    {"author", MESSAGE_PARSE_TEXT, offsetof(quipu_message, author)},
    {"eventId", MESSAGE_PARSE_TEXT, offsetof(quipu_message, event_id)},
    {"invocationId", MESSAGE_PARSE_TEXT, offsetof(quipu_message, invocation_id)},
    {"branch", MESSAGE_PARSE_TEXT, offsetof(quipu_message, branch)},
    {"seq", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, seq)},
    {"tokens", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, tokens)},
    {"mark", MESSAGE_PARSE_MARK, 0},
    {"coversFrom", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, covers_from)},
    {"coversTo", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, covers_to)},
    {"replaces", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, replaces)},
    {"model", MESSAGE_PARSE_TEXT, offsetof(quipu_message, model)},
    {"promptTokens", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, prompt_tokens)},
    {"cachedTokens", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, cached_tokens)},
    {"answerTokens", MESSAGE_PARSE_NUMBER, offsetof(quipu_message, answer_tokens)},
    {"extra", MESSAGE_PARSE_EXTRA, 0},
};

/* Every refusal of a value names the member and what it must be. */
static quipu_status message_parse_invalid(const char *name, const char *wanted, quipu_error *reterr)
{
    assert(name != NULL && wanted != NULL);
    return qp_error_field(reterr, QUIPU_INVALID, "Message", name, NULL, "\"%s\" must be %s", name,
                          wanted);
}

/* The number of the label that a text is, from 1 on; 0 for none. Enums of the API have the same
 * numbers as the labels of the schema, in the same order. */
static int message_parse_label(qp_json_node value, const char *const *labels)
{
    assert(labels[0] != NULL);
    for (int i = 0; labels[i] != NULL; i++) {
        /* Compared by meaning: an escaped letter is the letter. */
        if (qp_json_kind_of(value) == QP_JSON_STRING &&
            qp_json_text_is(value, quipu_cstr(labels[i]))) {
            return i + 1;
        }
    }
    return 0;
}

/* A role is required and has no default: a wrong guess would change who said something. Labels
 * stand in the order of the numbers of quipu_role. */
static quipu_status message_parse_role(qp_json_node value, quipu_message *ret, quipu_error *reterr)
{
    static const char *const labels[] = {"user",  "assistant", "tool", "function",
                                         "model", "system",    NULL};

    static_assert(sizeof(labels) / sizeof(labels[0]) == QUIPU_ROLE_SYSTEM + 1, "one label a role");
    ret->role = (quipu_role)message_parse_label(value, labels);
    return ret->role != 0 ? QUIPU_OK
                          : message_parse_invalid(
                                "role", "user, assistant, tool, function, model or system", reterr);
}

/* A mark that is there must be known. A summary parses here, and the store refuses to append it:
 * quipu_session_compact() makes those. */
static quipu_status message_parse_mark(qp_json_node value, quipu_message *ret, quipu_error *reterr)
{
    static const char *const labels[] = {"compaction", "timeout", NULL};

    static_assert(sizeof(labels) / sizeof(labels[0]) == QUIPU_MARK_TIMEOUT + 1, "one label a mark");
    ret->mark = (quipu_mark)message_parse_label(value, labels);
    return ret->mark != QUIPU_MARK_NONE
               ? QUIPU_OK
               : message_parse_invalid("mark", "compaction or timeout", reterr);
}

/* Any instant that quipu_time_parse() reads, in whatever spelling. */
static quipu_status message_parse_time(qp_json_node value, quipu_arena *arena, quipu_message *ret,
                                       quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = qp_json_text(value, arena, &text, NULL);

    if (status == QUIPU_OK) {
        status = quipu_time_parse(text, &ret->timestamp);
    }
    /* Without a time the store sets its own when the message is appended. */
    ret->has_timestamp = status == QUIPU_OK;
    return status == QUIPU_INVALID
               ? message_parse_invalid("timestamp", "a time such as \"2026-01-31T12:00:00Z\"",
                                       reterr)
               : status;
}

/* The calls have a document of their own, so that the outer one, which is being walked, stays
 * intact. An error of their form is the caller's mistake here, not damage to a store. */
static quipu_status message_parse_calls(qp_json_node value, quipu_arena *arena, quipu_message *ret,
                                        quipu_error *reterr)
{
    qp_json_doc doc;
    quipu_status status;

    qp_json_init(&doc);
    status = qp_tool_calls_read(qp_json_raw(value), &doc, arena, &ret->calls);
    qp_json_free(&doc);
    /* The same text is refused as damage when a column holds it. */
    return status == QUIPU_CORRUPT
               ? message_parse_invalid("toolCalls",
                                       "an array of objects with id, name, input and output, whose "
                                       "values are texts or objects",
                                       reterr)
               : status;
}

/* Numbers that the store gives out (seq, tokens) are read back, too: a program that copies messages
 * sees them, and an append ignores them. */
static quipu_status message_parse_number(const message_parse_member *member, qp_json_node value,
                                         quipu_message *ret, quipu_error *reterr)
{
    int64_t number = 0;

    assert(member->kind == MESSAGE_PARSE_NUMBER);
    assert(member->offset <= sizeof(*ret) - sizeof(number));
    if (qp_json_int64(value, &number) != QP_JSON_EXACT || number < 0) {
        return message_parse_invalid(member->name, "a whole number, 0 or more", reterr);
    }
    memcpy((char *)ret + member->offset, &number, sizeof(number));
    return QUIPU_OK;
}

/* Whether a value is a string with half of a surrogate pair, which UTF-8 cannot hold. */
static bool message_parse_is_half(qp_json_node value, quipu_arena *arena)
{
    quipu_str text = QP_STR_ABSENT;
    uint32_t flags = 0;

    return qp_json_kind_of(value) == QP_JSON_STRING &&
           qp_json_text(value, arena, &text, &flags) == QUIPU_OK &&
           (flags & QP_JSON_TEXT_SURROGATE) != 0;
}

/* Refused, because it would be stored as U+FFFD. JSON that is kept as it was given ("extra", the
 * objects of tool calls) may hold it. */
static quipu_status message_parse_halves(const char *name, qp_json_node value, quipu_arena *arena,
                                         quipu_error *reterr)
{
    bool half = message_parse_is_half(value, arena);
    qp_json_iter calls = qp_json_each(value);

    /* The texts of tool calls stand one level deeper: in the members of each call. */
    while (!half && qp_json_kind_of(value) == QP_JSON_ARRAY && qp_json_next(&calls)) {
        qp_json_iter members = qp_json_each(calls.value);

        while (!half && qp_json_kind_of(calls.value) == QP_JSON_OBJECT && qp_json_next(&members)) {
            half = message_parse_is_half(members.value, arena);
        }
    }
    return half ? message_parse_invalid(name,
                                        "without half of a surrogate pair (\\ud800 to \\udfff): "
                                        "write the whole character, or \\ufffd",
                                        reterr)
                : QUIPU_OK;
}

/* A text may hold U+0000, escaped in JSON: the store can keep it. */
static quipu_status message_parse_text(const message_parse_member *member, qp_json_node value,
                                       quipu_arena *arena, quipu_message *ret, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = qp_json_text_copy(value, arena, &text);

    assert(member->kind == MESSAGE_PARSE_TEXT);
    assert(member->offset <= sizeof(*ret) - sizeof(text));
    /* Written also after a failure, as an absent text: the message is dropped then. */
    memcpy((char *)ret + member->offset, &text, sizeof(text));
    return status == QUIPU_INVALID ? message_parse_invalid(member->name, "a text", reterr) : status;
}

/* Reads one value by the kind of its member. Null means that the member is not there. */
static quipu_status message_parse_value(const message_parse_member *member, qp_json_node value,
                                        quipu_arena *arena, quipu_message *ret, quipu_error *reterr)
{
    if (qp_json_kind_of(value) == QP_JSON_NULL) {
        return QUIPU_OK; /* as if it were not there */
    }
    if (member->kind == MESSAGE_PARSE_TEXT || member->kind == MESSAGE_PARSE_CALLS) {
        quipu_status status = message_parse_halves(member->name, value, arena, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    switch (member->kind) {
    case MESSAGE_PARSE_TEXT:
        return message_parse_text(member, value, arena, ret, reterr);
    case MESSAGE_PARSE_NUMBER:
        return message_parse_number(member, value, ret, reterr);
    case MESSAGE_PARSE_ROLE:
        return message_parse_role(value, ret, reterr);
    case MESSAGE_PARSE_MARK:
        return message_parse_mark(value, ret, reterr);
    case MESSAGE_PARSE_TIME:
        return message_parse_time(value, arena, ret, reterr);
    case MESSAGE_PARSE_CALLS:
        return message_parse_calls(value, arena, ret, reterr);
    default:
        assert(member->kind == MESSAGE_PARSE_EXTRA);
        return qp_json_kind_of(value) == QP_JSON_OBJECT
                   ? quipu_arena_copy(arena, qp_json_raw(value), &ret->extra.text)
                   : message_parse_invalid(member->name, "an object", reterr);
    }
}

/* "tool_calls" of "toolCalls": as an export and the program's --json spell it. */
static void message_parse_snake(const char *camel, char ret_snake[MESSAGE_PARSE_NAME_SHOWN])
{
    size_t n = 0;

    assert(strlen(camel) * 2 < MESSAGE_PARSE_NAME_SHOWN);
    for (; *camel != '\0'; camel++) {
        const bool upper = *camel >= 'A' && *camel <= 'Z';

        if (upper) {
            ret_snake[n++] = '_';
        }
        ret_snake[n++] = upper ? (char)(*camel - 'A' + 'a') : *camel;
    }
    ret_snake[n] = '\0';
}

/* The member of that name, compared by meaning, so that escapes in a key do not matter; NULL:
 * none. */
static const message_parse_member *message_parse_find(qp_json_node key)
{
    char snake[MESSAGE_PARSE_NAME_SHOWN];

    assert(qp_json_kind_of(key) == QP_JSON_STRING);
    for (size_t i = 0; i < sizeof(message_parse_members) / sizeof(message_parse_members[0]); i++) {
        const char *name = message_parse_members[i].name;

        message_parse_snake(name, snake);
        if (qp_json_text_is(key, quipu_cstr(name)) || qp_json_text_is(key, quipu_cstr(snake))) {
            return &message_parse_members[i];
        }
    }
    return NULL;
}

/* Reads the members in the order of the text. A member that stands twice is refused: its
 * writer meant one of the two. Only the role is required. */
static quipu_status message_parse_object(qp_json_node root, quipu_arena *arena, quipu_message *ret,
                                         quipu_error *reterr)
{
    qp_json_iter iter = qp_json_each(root);
    uint32_t seen = 0; /* a bit for each member of the table */
    quipu_status status = QUIPU_OK;

    static_assert(sizeof(message_parse_members) / sizeof(message_parse_members[0]) <= 32,
                  "a bit a member");
    if (qp_json_kind_of(root) != QP_JSON_OBJECT) {
        return qp_error_set(reterr, QUIPU_INVALID, "a message must be a JSON object");
    }
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        const message_parse_member *member = message_parse_find(iter.key);
        const uint32_t bit = member != NULL ? 1u << (member - message_parse_members) : 0;
        quipu_str name = qp_json_raw(iter.key);

        /* A strange name has no bit: it is refused below. */
        if ((seen & bit) != 0) {
            return message_parse_invalid(member->name, "given once", reterr);
        }
        seen |= bit;

        /* An unknown name is cut in the error text, at a character border: it may be as long as the
         * message. */
        status = member != NULL
                     ? message_parse_value(member, iter.value, arena, ret, reterr)
                     : qp_error_set(reterr, QUIPU_INVALID,
                                    "a message has no member %.*s; what is not quipu's own belongs "
                                    "into \"extra\"",
                                    (int)qp_utf8_cut(name, MESSAGE_PARSE_NAME_SHOWN), name.p);
    }
    /* Content may be missing, as in a message with tool calls only; the role may not. */
    if (status == QUIPU_OK && ret->role == 0) {
        status = message_parse_invalid("role", "given", reterr);
    }
    return status;
}

/* The limits allow two levels more than a column: the message itself and the array of its calls
 * stand around what is stored. */
quipu_status quipu_message_parse(quipu_str json, quipu_arena *arena, quipu_messages *ret_messages,
                                 quipu_error *reterr)
{
    const qp_json_limits limits = {.size_max = QP_JSON_SIZE_CAP,
                                   .depth_max = QP_JSON_DEPTH_MAX + 2};
    quipu_message *message;
    quipu_error error = {0};
    qp_json_doc doc;
    quipu_status status;

    if (json.p == NULL || arena == NULL || ret_messages == NULL) {
        return qp_error_set(
            reterr, QUIPU_MISUSE,
            "quipu_message_parse needs a text, an arena and a place for the message");
    }
    message = quipu_arena_alloc(arena, sizeof(*message));
    if (message == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for a message");
    }
    /* Members that the text leaves out stay absent or 0; the content is empty, not absent. */
    *message = (quipu_message){.content = {"", 0}};
    qp_json_init(&doc);
    status = qp_json_parse(&doc, json, &limits, &error);
    if (status == QUIPU_OK) {
        status = message_parse_object(qp_json_root(&doc), arena, message, &error);
    }
    qp_json_free(&doc);
    /* Errors without a text come from the arena or the parser's tape: memory or its limit. */
    if (status != QUIPU_OK) {
        return error.message[0] != '\0' ? qp_error_field(reterr, status, error.entity, error.field,
                                                         NULL, "%s", error.message)
                                        : qp_error_set(reterr, status, "no room for a message");
    }
    assert(message->role >= QUIPU_ROLE_USER && message->role <= QUIPU_ROLE_SYSTEM);
    *ret_messages = quipu_messages_of(message, 1);
    return QUIPU_OK;
}
