/* Events to messages: what a column can hold goes to the column, everything else into `extra`
 * (format: event.h), so that event_decode.c can write the same event again.
 *
 *   {"id": "e1", "timestamp": 1774000003.5, "author": "planner", "invocationId": "t1",
 *    "content": {"role": "model", "parts": [{"text": "Hi."}]}, "actions": {"stateDelta": {"n": 1}}}
 *
 * becomes
 *
 *   event_id "e1", timestamp ...03.5, author "planner", invocation_id "t1", role assistant,
 *   content "Hi.",
 *   extra {"adk": {"f": "", "e": {"actions": {"stateDelta": {"n": 1}}}}}
 *
 * Called by: event.c, live_append.c, isolate.c, agent/ and import/. Owns nothing beyond the call;
 * no locks. Rule: a member is either made from its column, or kept in "e" as it stands with a mark
 * that says so; never both, never neither. encode_event.kept[] records the choice. On return: texts
 * of the message point into the event's text or into the arena; nothing is written on failure. */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/event_parts.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"

/* Members of an event that have a column, or a usual form. */
typedef enum encode_member {
    ENCODE_ID,
    ENCODE_TIMESTAMP,
    ENCODE_AUTHOR,
    ENCODE_BRANCH,
    ENCODE_CONTENT,
    ENCODE_ACTIONS,
    ENCODE_INVOCATION,
    ENCODE_INVOCATION_SNAKE,
    ENCODE_NODE,
    ENCODE_NODE_SNAKE,
    ENCODE_MEMBERS, /* any other */
} encode_member;

/* With their lengths: encode_which() compares these first. */
static const quipu_str encode_names[ENCODE_MEMBERS] = {
    [ENCODE_ID] = {"id", 2},
    [ENCODE_TIMESTAMP] = {"timestamp", 9},
    [ENCODE_AUTHOR] = {"author", 6},
    [ENCODE_BRANCH] = {"branch", 6},
    [ENCODE_CONTENT] = {"content", 7},
    [ENCODE_ACTIONS] = {"actions", 7},
    [ENCODE_INVOCATION] = {"invocationId", 12},
    [ENCODE_INVOCATION_SNAKE] = {"invocation_id", 13},
    [ENCODE_NODE] = {"nodeInfo", 8},
    [ENCODE_NODE_SNAKE] = {"node_info", 9},
};

/* More than there are marks of QP_MARK_*: each is set at most once. */
#define ENCODE_MARKS_MAX 16

/* One encoding: the event's members by name, what stays in extra, and the marks so far. */
typedef struct encode_event {
    const qp_json_doc *doc;
    quipu_arena *arena;
    quipu_message *message;
    /* When a name occurs twice, JSON readers take the last value. */
    qp_json_node members[ENCODE_MEMBERS]; /* the last one of its name */
    bool kept[ENCODE_MEMBERS];            /* it also stands in extra as it is */
    size_t others;                        /* other members */
    size_t doubles;                       /* of a name that was there */
    /* Which of ADK's two spellings the event uses; found by its members. */
    bool snake;
    size_t mark_count;
    char marks[ENCODE_MARKS_MAX]; /* in the order in which they are set */
    qp_parts parts;
    qp_buf odd; /* members of "o", commas between them */
} encode_event;

/* Each mark is set at most once, and there are fewer marks than ENCODE_MARKS_MAX. */
static void encode_mark(encode_event *event, char mark)
{
    assert(event->mark_count < ENCODE_MARKS_MAX);
    event->marks[event->mark_count++] = mark;
}

/* Runs for every member of every event: length and first letter decide for most names. Names with
 * escapes take the slow way. */
static encode_member encode_which(qp_json_node key)
{
    const qp_json_token *token = &key.doc->tokens[key.at];
    /* Behind the quote, without the quotes: names are compared as bytes. */
    const char *p = key.doc->text.p + token->start + 1;
    const size_t n = (size_t)(token->end - token->start - 2);
    encode_member member = ENCODE_ID;

    if (token->escaped != 0) {
        while (member < ENCODE_MEMBERS && !qp_key_is(key, encode_names[member])) {
            member++;
        }
        return member;
    }
    while (member < ENCODE_MEMBERS &&
           (encode_names[member].n != n || encode_names[member].p[0] != p[0] ||
            memcmp(encode_names[member].p, p, n) != 0)) {
        member++;
    }
    return member;
}

/* ---- single members ---------------------------------------------------------------------------
 */

/* A text for a column; places of odd characters go into "o" under `name`. Most texts have none, and
 * the column then is a slice of the event. */
static quipu_status encode_text(encode_event *event, qp_json_node node, const char *name,
                                quipu_str *ret)
{
    uint32_t flags = 0;
    quipu_status status = qp_json_text(node, event->arena, ret, &flags);
    size_t last = 0;

    /* Rare: a NUL or half a surrogate pair, which no column holds. */
    if (status == QUIPU_OK && flags != 0) {
        qp_buf_puts(&event->odd, event->odd.n > 0 ? ",\"" : "\"");
        qp_buf_puts(&event->odd, name);
        qp_buf_puts(&event->odd, "\":\"");
        qp_odd_pack(qp_json_raw(node), 0, &last, &event->odd);
        qp_buf_putc(&event->odd, '"');
        status = qp_buf_status(&event->odd);
    }
    return status;
}

/* An id with odd characters stays in extra. Its column gets the readable part and the packed
 * places, so that two different odd ids stay different and a repeat is still recognized. */
static quipu_status encode_odd_id(encode_event *event, qp_json_node node, quipu_str view)
{
    size_t last = 0;
    quipu_status status;
    qp_buf buf;

    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    qp_buf_put(&buf, view);
    /* No id of ADK has this sign. */
    qp_buf_putc(&buf, '#');
    qp_odd_pack(qp_json_raw(node), 0, &last, &buf);
    status = qp_buf_status(&buf);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(event->arena, qp_buf_str(&buf), &event->message->event_id);
    }
    qp_buf_free(&buf);
    return status;
}

/* Order of choice: the event's own id, the id that the caller made, none. An id that is not a plain
 * text is kept in "e". `made` is used only where the event has none: an event that comes twice
 * keeps its id. */
static quipu_status encode_id(encode_event *event, quipu_str made)
{
    qp_json_node node = event->members[ENCODE_ID];
    quipu_str text = {NULL, 0};
    uint32_t flags = 0;
    quipu_status status = QUIPU_OK;

    /* A number or an object as id is kept, and the column stays empty. */
    if (qp_json_kind_of(node) == QP_JSON_STRING) {
        status = qp_json_text(node, event->arena, &text, &flags);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (text.n > 0 && flags == 0) {
        event->message->event_id = text;
        return QUIPU_OK;
    }
    /* An empty text is ADK's way to say that there is no id yet. */
    if (text.n == 0 && made.n > 0) {
        event->message->event_id = made;
        return QUIPU_OK;
    }
    encode_mark(event, QP_MARK_NO_ID);
    event->kept[ENCODE_ID] = true;
    return text.n > 0 ? encode_odd_id(event, node, text) : QUIPU_OK;
}

/* Reads decimal digits; false when there are none or more than `digits_max`. */
static bool encode_digits(quipu_str raw, size_t *at, size_t digits_max, int64_t *ret)
{
    size_t start = *at;
    int64_t value = 0;

    while (*at < raw.n && raw.p[*at] >= '0' && raw.p[*at] <= '9') {
        /* More digits than a time has: the caller keeps the original. */
        if (*at - start >= digits_max) {
            return false;
        }
        value = value * 10 + (raw.p[(*at)++] - '0');
    }
    *ret = value;
    return *at > start;
}

/* Reads seconds since 1970. Plain digits with at most nine decimals are read exactly, without going
 * through a double; *ret_plain says so. Other spellings (an exponent, a sign) lose precision and
 * are kept in "e" as well. */
static bool encode_seconds(qp_json_node node, quipu_time *ret, bool *ret_plain)
{
    quipu_str raw = qp_json_raw(node);
    int64_t fraction = 0;
    size_t at = 0;
    double value = 0;

    *ret_plain = false;
    if (encode_digits(raw, &at, 12, &ret->s) && (at == raw.n || raw.p[at] == '.')) {
        const size_t from = at + 1;

        *ret_plain = at == raw.n;
        if (at < raw.n) {
            at++;
            *ret_plain = encode_digits(raw, &at, 9, &fraction) && at == raw.n;
        }
        /* Nine decimals are nanoseconds: what is missing are zeros. */
        for (size_t n = at - from; *ret_plain && from < raw.n && n < 9; n++) {
            fraction *= 10;
        }
    }
    if (*ret_plain) {
        ret->ns = (uint32_t)fraction;
        return qp_time_valid(*ret);
    }
    (void)qp_json_double(node, &value);
    /* False for NaN, too: every comparison with it is false. */
    if (!(value >= (double)QP_TIME_S_MIN && value <= (double)QP_TIME_S_MAX)) {
        return false;
    }
    /* Rounds down: the fraction of a time is never negative. */
    ret->s = (int64_t)value - (value < 0 && value != (double)(int64_t)value);
    ret->ns = (uint32_t)((value - (double)ret->s) * 1e9);
    ret->ns = ret->ns > QP_TIME_NS_MAX ? QP_TIME_NS_MAX : ret->ns;
    return qp_time_valid(*ret);
}

/* Also for event_convert.c, which needs no exact digits. */
bool qp_event_read_seconds(qp_json_node node, quipu_time *ret_time)
{
    bool plain = false;

    return qp_json_kind_of(node) == QP_JSON_NUMBER && encode_seconds(node, ret_time, &plain);
}

/* Chooses the mark whose form writes exactly the same text again; QP_MARK_NO_TIME keeps the
 * original when none does. Compared as text, because the event must come back byte for byte. */
static char encode_time_mark(qp_json_node node, quipu_time time, bool plain)
{
    quipu_str raw = qp_json_raw(node);
    char text[QP_EVENT_TIME_SIZE];

    if (qp_json_kind_of(node) == QP_JSON_STRING) {
        return qp_time_rfc3339(time, text, NULL) == QUIPU_OK &&
                       quipu_str_eq((quipu_str){raw.p + 1, raw.n - 2}, quipu_cstr(text))
                   ? QP_MARK_RFC3339
                   : QP_MARK_NO_TIME;
    }
    /* The text that decoding would write decides, not the value. */
    if (plain && quipu_str_eq(raw, qp_event_seconds(time, false, text))) {
        return 0;
    }
    return plain && quipu_str_eq(raw, qp_event_seconds(time, true, text)) ? QP_MARK_WHOLE
                                                                          : QP_MARK_NO_TIME;
}

/* The event's time. Without one, and with `fill`, the store's time becomes the event's. */
static quipu_status encode_timestamp(encode_event *event, bool fill)
{
    qp_json_node node = event->members[ENCODE_TIMESTAMP];
    qp_json_kind kind = qp_json_kind_of(node);
    quipu_message *message = event->message;
    quipu_str text = {NULL, 0};
    char mark = QP_MARK_NO_TIME;
    bool plain = false;
    quipu_status status = QUIPU_OK;

    /* A text that is not a time is kept as it is, and the store's time counts. */
    if (kind == QP_JSON_STRING) {
        status = qp_json_text(node, event->arena, &text, NULL);
        message->has_timestamp =
            status == QUIPU_OK && quipu_time_parse(text, &message->timestamp) == QUIPU_OK;
    } else if (kind == QP_JSON_NUMBER) {
        message->has_timestamp = encode_seconds(node, &message->timestamp, &plain);
    }
    if (message->has_timestamp) {
        mark = encode_time_mark(node, message->timestamp, plain);
    } else if (fill && kind == QP_JSON_NONE) {
        mark = 0; /* the store's time will be the event's */
    }
    if (mark != 0) {
        encode_mark(event, mark);
    }
    event->kept[ENCODE_TIMESTAMP] = mark == QP_MARK_NO_TIME;
    return status;
}

/* Author, branch and invocation id, each from a string; other values are kept in "e". */
static quipu_status encode_texts(encode_event *event)
{
    const encode_member invocation = event->snake ? ENCODE_INVOCATION_SNAKE : ENCODE_INVOCATION;
    const encode_member unused = event->snake ? ENCODE_INVOCATION : ENCODE_INVOCATION_SNAKE;
    const encode_member members[] = {ENCODE_AUTHOR, ENCODE_BRANCH, invocation};
    quipu_str *const columns[] = {&event->message->author, &event->message->branch,
                                  &event->message->invocation_id};
    static const char *const names[] = {"a", "b", "i"};

    /* The name in the other spelling is an unknown member of this event. */
    event->kept[unused] = true;
    for (size_t i = 0; i < 3; i++) {
        qp_json_node node = event->members[members[i]];
        const bool is_text = qp_json_kind_of(node) == QP_JSON_STRING;
        quipu_status status = is_text ? encode_text(event, node, names[i], columns[i]) : QUIPU_OK;

        event->kept[members[i]] = !is_text;
        if (status != QUIPU_OK) {
            return status;
        }
    }
    if (event->kept[ENCODE_AUTHOR]) {
        encode_mark(event, QP_MARK_NO_AUTHOR);
    }
    return QUIPU_OK;
}

/* ---- usual forms ------------------------------------------------------------------------------
 */

/* Whether an object has exactly the four members that ADK for Python always writes, all empty. */
static bool encode_usual_actions(qp_json_node actions, bool snake)
{
    static const char *const names[2][4] = {
        {"stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations"},
        {"state_delta", "artifact_delta", "requested_auth_configs",
         "requested_tool_confirmations"}};
    bool usual = qp_json_count(actions) == 4;

    /* All four and nothing else: a fifth member would be lost. */
    for (size_t i = 0; i < 4 && usual; i++) {
        qp_json_node member = qp_json_get(actions, quipu_cstr(names[snake][i]));
        usual = qp_json_kind_of(member) == QP_JSON_OBJECT && qp_json_count(member) == 0;
    }
    return usual;
}

/* Replaces values that stand in nearly every event by one mark each; this is most of what `extra`
 * saves. */
static void encode_usual(encode_event *event)
{
    qp_json_node actions = event->members[ENCODE_ACTIONS];
    const encode_member node = event->snake ? ENCODE_NODE_SNAKE : ENCODE_NODE;
    qp_json_node info = event->members[node];

    /* Until a mark stands for them they are kept. */
    event->kept[ENCODE_NODE] = event->kept[ENCODE_NODE_SNAKE] = event->kept[ENCODE_ACTIONS] = true;
    if (qp_json_kind_of(actions) == QP_JSON_OBJECT) {
        if (qp_json_count(actions) == 0) {
            encode_mark(event, QP_MARK_NO_ACTION);
            event->kept[ENCODE_ACTIONS] = false;
        } else if (encode_usual_actions(actions, event->snake)) {
            encode_mark(event, QP_MARK_ACTIONS);
            event->kept[ENCODE_ACTIONS] = false;
        }
    }
    /* ADK writes the empty path into every event. */
    if (qp_json_kind_of(info) == QP_JSON_OBJECT && qp_json_count(info) == 1 &&
        quipu_str_eq(qp_json_raw(qp_json_get(info, QUIPU_STR("path"))), QUIPU_STR("\"\""))) {
        encode_mark(event, QP_MARK_NODE);
        event->kept[node] = false;
    }
}

/* ---- content ----------------------------------------------------------------------------------
 */

/* The role column, from the content's role; without one, the author decides. */
static quipu_role encode_role_of(qp_json_node role, quipu_str author)
{
    static const struct {
        quipu_str text;
        quipu_role role;
    } roles[] = {{{"user", 4}, QUIPU_ROLE_USER},           {{"model", 5}, QUIPU_ROLE_ASSISTANT},
                 {{"assistant", 9}, QUIPU_ROLE_ASSISTANT}, {{"function", 8}, QUIPU_ROLE_TOOL},
                 {{"tool", 4}, QUIPU_ROLE_TOOL},           {{"system", 6}, QUIPU_ROLE_SYSTEM}};

    /* Spellings of all ADKs; other words leave it to the author. */
    for (size_t i = 0;
         qp_json_kind_of(role) == QP_JSON_STRING && i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (qp_json_text_is(role, roles[i].text)) {
            return roles[i].role;
        }
    }
    return quipu_str_eq(author, QUIPU_STR("user")) ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT;
}

/* Role and parts of the content, as far as they have the expected types. A message with responses
 * and no calls is a tool's, whatever role ADK gave it (it writes "user"). */
static quipu_status encode_content(encode_event *event, quipu_error *reterr)
{
    qp_json_node content = event->members[ENCODE_CONTENT];
    quipu_message *message = event->message;
    qp_json_node role = {NULL, 0};
    quipu_status status;

    /* A content that is not an object has no parts: it stays whole. */
    if (qp_json_kind_of(content) != QP_JSON_OBJECT) {
        encode_mark(event, QP_MARK_NO_CONTENT);
        event->kept[ENCODE_CONTENT] = true;
        message->role = encode_role_of(role, message->author);
        return QUIPU_OK;
    }
    status = qp_parts_encode(&event->parts, content, event->snake, event->arena, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    role = event->parts.role;
    message->role = encode_role_of(role, message->author);
    /* ADK writes responses as the user's; readers of messages look for the role "tool". */
    if (event->parts.responses > 0 && event->parts.calls == 0) {
        message->role = QUIPU_ROLE_TOOL;
    }
    message->content = event->parts.text;
    message->calls =
        quipu_tool_calls_of(event->parts.tool_calls, event->parts.calls + event->parts.responses);
    /* The role that decoding would write is not stored again. */
    if (qp_json_kind_of(role) == QP_JSON_STRING &&
        qp_json_text_is(role, qp_event_role(message->role))) {
        event->parts.role_kept = false;
    } else {
        encode_mark(event, QP_MARK_NO_ROLE);
        event->parts.role_kept = qp_json_kind_of(role) != QP_JSON_NONE;
    }
    if (!event->parts.has_parts) {
        encode_mark(event, QP_MARK_NO_PARTS);
    }
    return QUIPU_OK;
}

/* ---- extra ------------------------------------------------------------------------------------
 */

/* Whether a member stands in extra as it is. When a name occurs twice only the last one counts, as
 * in Python and Go. By position in the document, which costs no comparison of names. */
static bool encode_keeps(const encode_event *event, const qp_json_iter *iter)
{
    /* Rare: a name occurs twice, and only the last one counts. */
    if (event->doubles > 0) {
        encode_member member = encode_which(iter->key);

        return member == ENCODE_MEMBERS ||
               (event->kept[member] && event->members[member].at == iter->value.at);
    }
    /* By the position in the document: values are not compared. */
    for (size_t i = 0; i < ENCODE_MEMBERS; i++) {
        if (event->members[i].at == iter->value.at && event->members[i].doc != NULL) {
            return event->kept[i];
        }
    }
    return true;
}

/* Writes "e": the members that neither a column nor a mark represents. */
static void encode_rest(const encode_event *event, qp_jsonw *writer)
{
    qp_json_iter iter = qp_json_each(qp_json_root(event->doc));

    qp_jsonw_raw_key(writer, QUIPU_STR("\"e\""));
    qp_jsonw_object(writer);
    while (qp_json_next(&iter)) {
        if (encode_keeps(event, &iter)) {
            qp_jsonw_raw_key(writer, qp_json_raw(iter.key));
            qp_jsonw_raw(writer, qp_json_raw(iter.value));
        }
    }
    qp_jsonw_object_end(writer);
}

/* Whether "e" is needed: most events have nothing that columns and marks do not cover. */
static bool encode_has_rest(const encode_event *event)
{
    bool has = event->others > 0;

    for (size_t i = 0; i < ENCODE_MEMBERS && !has; i++) {
        /* A member that the event lacks is not kept. */
        has = event->kept[i] && event->members[i].doc != NULL;
    }
    return has;
}

/* Writes the member "adk": a string when marks say everything, else an object. */
static quipu_status encode_extra(encode_event *event)
{
    const quipu_str marks = {event->marks, event->mark_count};
    const bool rest = encode_has_rest(event);
    qp_jsonw writer;
    quipu_status status;
    qp_buf buf;

    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    if (rest) {
        (void)qp_buf_room(&buf, event->doc->text.n / 2); /* grown once, not piece by piece */
    }
    qp_jsonw_begin(&writer, &buf);
    qp_jsonw_object(&writer);
    qp_jsonw_raw_key(&writer, QUIPU_STR("\"" QP_EVENT_MEMBER "\""));
    if (!rest && !qp_parts_has_rest(&event->parts) && event->odd.n == 0) {
        qp_jsonw_str(&writer, marks);
    } else {
        qp_jsonw_object(&writer);
        qp_jsonw_raw_key(&writer, QUIPU_STR("\"f\""));
        qp_jsonw_str(&writer, marks);
        if (rest) {
            encode_rest(event, &writer);
        }
        qp_parts_write(&event->parts, &writer);
        if (event->odd.n > 0) {
            qp_jsonw_raw_key(&writer, QUIPU_STR("\"o\""));
            qp_jsonw_object(&writer);
            qp_buf_put(&buf, qp_buf_str(&event->odd));
            qp_jsonw_object_end(&writer);
        }
        qp_jsonw_object_end(&writer);
    }
    qp_jsonw_object_end(&writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(event->arena, qp_buf_str(&buf), &event->message->extra.text);
    }
    qp_buf_free(&buf);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

/* Whether the event carries a state delta and nothing else that a reader of the history would miss.
 * Such an event is not stored as a message unless the service asks for it. Unknown members count as
 * content: dropping the event would lose them. */
static bool encode_only_state(const encode_event *event, const qp_event_facts *facts)
{
    qp_json_node content = event->members[ENCODE_CONTENT];
    qp_json_node actions = event->members[ENCODE_ACTIONS];
    qp_json_iter iter = qp_json_each(actions);
    bool only = qp_json_kind_of(facts->delta) == QP_JSON_OBJECT &&
                qp_json_count(facts->delta) > 0 && event->others == 0 &&
                (content.doc == NULL || qp_json_kind_of(content) == QP_JSON_NULL);

    while (only && qp_json_next(&iter)) {
        only = iter.value.at == facts->delta.at || qp_json_kind_of(iter.value) == QP_JSON_NULL ||
               (qp_json_kind_of(iter.value) == QP_JSON_OBJECT && qp_json_count(iter.value) == 0);
    }
    for (size_t i = ENCODE_NODE; i <= ENCODE_NODE_SNAKE && only; i++) {
        qp_json_node path = qp_json_get(event->members[i], QUIPU_STR("path"));

        only = qp_json_count(event->members[i]) <= 1 &&
               (path.doc == NULL || qp_json_text_is(path, QUIPU_STR("")));
    }
    return only;
}

/* One pass over the members: finds those with columns, decides the spelling, and collects the
 * facts. An event is taken for snake_case only when it has a snake_case name and no camelCase
 * one. */
static void encode_scan(encode_event *event, qp_event_facts *facts)
{
    qp_json_iter iter = qp_json_each(qp_json_root(event->doc));
    const qp_json_node *members = event->members;

    while (qp_json_next(&iter)) {
        encode_member member = encode_which(iter.key);

        if (member < ENCODE_MEMBERS) {
            event->doubles += event->members[member].doc != NULL;
            event->members[member] = iter.value;
            continue;
        }
        event->others++;
        if (qp_key_is(iter.key, QUIPU_STR("partial"))) {
            facts->partial = qp_json_kind_of(iter.value) == QP_JSON_TRUE;
        }
    }
    facts->delta = qp_json_get(members[ENCODE_ACTIONS], QUIPU_STR("stateDelta"));
    /* Spelling: one camelCase name with an underscore counterpart decides for camelCase. */
    if (members[ENCODE_INVOCATION].doc == NULL && members[ENCODE_NODE].doc == NULL) {
        event->snake = members[ENCODE_INVOCATION_SNAKE].doc != NULL ||
                       members[ENCODE_NODE_SNAKE].doc != NULL ||
                       (facts->delta.doc == NULL && members[ENCODE_ACTIONS].doc != NULL &&
                        qp_json_get(members[ENCODE_ACTIONS], QUIPU_STR("state_delta")).doc != NULL);
    }
    if (facts->delta.doc == NULL) {
        facts->delta = qp_json_get(members[ENCODE_ACTIONS], QUIPU_STR("state_delta"));
    }
    facts->actions = members[ENCODE_ACTIONS];
    facts->has_content = qp_json_kind_of(members[ENCODE_CONTENT]) == QP_JSON_OBJECT;
    facts->only_state = encode_only_state(event, facts);
}

/* A count of tokens; 0 when it is missing. */
static int64_t encode_tokens(qp_json_node usage, quipu_str camel, quipu_str snake)
{
    qp_json_node node = qp_json_get(usage, camel);
    int64_t count = 0;

    if (qp_json_kind_of(node) == QP_JSON_NONE) {
        node = qp_json_get(usage, snake);
    }
    return qp_json_int64(node, &count) == QP_JSON_EXACT && count > 0 ? count : 0;
}

/* The usage of the answer, from usageMetadata, and its model, from modelVersion. Both stay in extra
 * as they are: the columns are for sums. The answer is what the total has beyond the prompt,
 * because providers count thoughts with the candidates or beside them. A name that no column holds
 * is left out. */
static quipu_status encode_usage(encode_event *event)
{
    const qp_json_node root = qp_json_root(event->doc);
    quipu_message *message = event->message;
    qp_json_node usage = qp_json_get(root, QUIPU_STR("usageMetadata"));
    qp_json_node model = qp_json_get(root, QUIPU_STR("modelVersion"));
    uint32_t flags = 0;
    quipu_status status = QUIPU_OK;

    if (usage.doc == NULL) {
        usage = qp_json_get(root, QUIPU_STR("usage_metadata"));
    }
    if (qp_json_kind_of(usage) != QP_JSON_OBJECT) {
        return QUIPU_OK;
    }
    if (model.doc == NULL) {
        model = qp_json_get(root, QUIPU_STR("model_version"));
    }
    message->prompt_tokens =
        encode_tokens(usage, QUIPU_STR("promptTokenCount"), QUIPU_STR("prompt_token_count")) +
        encode_tokens(usage, QUIPU_STR("toolUsePromptTokenCount"),
                      QUIPU_STR("tool_use_prompt_token_count"));
    message->cached_tokens = encode_tokens(usage, QUIPU_STR("cachedContentTokenCount"),
                                           QUIPU_STR("cached_content_token_count"));
    message->answer_tokens =
        encode_tokens(usage, QUIPU_STR("totalTokenCount"), QUIPU_STR("total_token_count")) -
        message->prompt_tokens;
    if (message->answer_tokens <= 0) {
        message->answer_tokens = encode_tokens(usage, QUIPU_STR("candidatesTokenCount"),
                                               QUIPU_STR("candidates_token_count")) +
                                 encode_tokens(usage, QUIPU_STR("thoughtsTokenCount"),
                                               QUIPU_STR("thoughts_token_count"));
    }
    if (qp_json_kind_of(model) == QP_JSON_STRING) {
        status = qp_json_text(model, event->arena, &message->model, &flags);
    }
    if (flags != 0 || message->model.n > QUIPU_MODEL_NAME_MAX) {
        message->model = QP_STR_ABSENT;
    }
    return status;
}

/* The limits of an event are checked here, before anything is allocated for it. */
quipu_status qp_event_parse(qp_json_doc *doc, quipu_str json, quipu_error *reterr)
{
    const qp_json_limits limits = {QUIPU_MESSAGE_BYTES_LIMIT, QUIPU_EVENT_DEPTH_MAX};
    quipu_status status;

    if (json.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "there is no event");
    }
    status = qp_json_parse(doc, json, &limits, reterr);
    if (status == QUIPU_INVALID) {
        return qp_error_set(reterr, status, "the event is not JSON: byte %zu should be %s",
                            doc->fault.offset, doc->fault.expected);
    }
    if (status == QUIPU_LIMIT) {
        return qp_error_set(reterr, status,
                            "the event is larger than %d bytes or deeper than %d levels",
                            QUIPU_MESSAGE_BYTES_LIMIT, QUIPU_EVENT_DEPTH_MAX);
    }
    if (status == QUIPU_OK && qp_json_kind_of(qp_json_root(doc)) != QP_JSON_OBJECT) {
        return qp_error_set(reterr, QUIPU_INVALID, "the event is not a JSON object");
    }
    return status;
}

/* Order matters: the scan finds the spelling that the rest relies on, and extra is written when all
 * marks are known. On failure the arena holds what was made so far; *ret_message is untouched. */
quipu_status qp_event_encode(const qp_json_doc *doc, quipu_str id, quipu_arena *arena,
                             quipu_message *ret_message, qp_event_facts *ret_facts,
                             quipu_error *reterr)
{
    quipu_message message = {.content = {"", 0}};
    qp_event_facts facts = {.partial = false};
    encode_event event = {.doc = doc, .arena = arena, .message = &message};
    quipu_status status;

    qp_buf_init(&event.odd, QP_EVENT_JSON_MAX);
    qp_parts_init(&event.parts);
    encode_scan(&event, &facts);
    if (event.snake) {
        encode_mark(&event, QP_MARK_SNAKE);
    }
    status = encode_id(&event, id);
    if (status == QUIPU_OK) {
        status = encode_timestamp(&event, id.n > 0);
    }
    if (status == QUIPU_OK) {
        status = encode_texts(&event);
    }
    if (status == QUIPU_OK) {
        status = encode_content(&event, reterr);
    }
    encode_usual(&event);
    if (status == QUIPU_OK && event.others > 0) {
        status = encode_usage(&event);
    }
    if (status == QUIPU_OK && event.parts.odd.n > 0) {
        qp_buf_puts(&event.odd, event.odd.n > 0 ? ",\"t\":\"" : "\"t\":\"");
        qp_buf_put(&event.odd, qp_buf_str(&event.parts.odd));
        qp_buf_putc(&event.odd, '"');
        status = qp_buf_status(&event.odd);
    }
    if (status == QUIPU_OK) {
        status = encode_extra(&event);
    }
    qp_parts_free(&event.parts);
    qp_buf_free(&event.odd);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the event as a message");
    }
    *ret_message = message;
    if (ret_facts != NULL) {
        *ret_facts = facts;
    }
    return QUIPU_OK;
}
