/* Contents to messages: one role for each, the system instruction first, a message for each tool
 * response, ids for all calls, empty parts dropped. Calls and responses are paired first
 * (base/tool_pair.h), so that a response is sent with the id of its call.
 *
 *   contents ─▶ convert_pairs(): list, pair ─▶ convert_content(): parts, same order ─▶ messages
 *
 * Owns: nothing: input is borrowed, output lies in the arena; texts are shared with the input where
 * possible.
 * Called by: generate.c, and users of the C API who write their own provider.
 * On return every message has a role, parts and its joined text; what a failed call put into the
 * arena stays there until the caller rewinds it.
 * Locks: none. */
#include <assert.h>
#include <string.h>

#include <quipu/model.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/tool_pair.h"
#include "model/call_id.h"
#include "model/message.h"

/* One conversion: the messages so far, and the calls and responses of all contents with their
 * pairs. tool_at follows the parts as they are converted, in the order in which convert_pairs()
 * listed them. */
typedef struct convert {
    quipu_arena *arena;
    quipu_error *reterr;
    quipu_model_message *items;
    size_t count;
    size_t cap;
    qp_call_ids ids;
    qp_tool_item *tools; /* calls and responses of all contents, paired */
    quipu_str *tool_ids; /* of the calls among them, as sent */
    size_t tool_count;
    size_t tool_at; /* the next one to be written */
} convert;

/* The arena's reason: out of memory, or over its limit. */
static quipu_status convert_no_room(convert *self, size_t size)
{
    return qp_error_set(self->reterr, qp_arena_why(self->arena, size), "no room for the messages");
}

/* Joins the texts of a message. Most messages have one, which is borrowed. With one text `total`
 * equals its length, which is how the loop notices it. */
quipu_status qp_message_content(quipu_arena *arena, quipu_model_message *message)
{
    size_t total = 0;
    char *p;

    for (size_t i = 0; i < message->parts.count; i++) {
        const quipu_part *part = quipu_part_at(message->parts, i);
        quipu_str piece = qp_part_content(part, message->role);

        if (piece.n > 0 && total == 0) {
            message->content = piece; /* most messages have one text: borrow it */
        }
        total += piece.n;
    }
    if (total == message->content.n) {
        message->content = total != 0 ? message->content : (quipu_str){"", 0};
        return QUIPU_OK;
    }
    /* One more for the NUL, which C programs expect. */
    p = qp_arena_take(arena, total + 1);
    if (p == NULL) {
        return qp_arena_why(arena, total + 1);
    }
    message->content = (quipu_str){p, total};
    for (size_t i = 0; i < message->parts.count; i++) {
        quipu_str piece = qp_part_content(quipu_part_at(message->parts, i), message->role);

        if (piece.n > 0) {
            memcpy(p, piece.p, piece.n);
            p += piece.n;
        }
    }
    *p = '\0';
    return QUIPU_OK;
}

/* Appends a message; qp_model_convert() has counted the most that there can be. The parts must
 * outlive the messages: they lie in the arena, too. */
static quipu_status convert_add(convert *self, quipu_role role, const quipu_part *parts,
                                size_t count)
{
    quipu_model_message message = {.role = role, .parts = quipu_parts_of(parts, count)};
    quipu_status status = qp_message_content(self->arena, &message);

    assert(self->count < self->cap);
    if (status != QUIPU_OK) {
        return qp_error_set(self->reterr, status, "no room for the messages");
    }
    self->items[self->count++] = message;
    return QUIPU_OK;
}

/* Two names for the same role become one; 0 for an unknown role, which convert_content()
 * refuses. */
static quipu_role convert_role(quipu_role role)
{
    switch (role) {
    case QUIPU_ROLE_MODEL:
    case QUIPU_ROLE_ASSISTANT:
        return QUIPU_ROLE_ASSISTANT;
    case QUIPU_ROLE_FUNCTION:
    case QUIPU_ROLE_TOOL:
        return QUIPU_ROLE_TOOL;
    case QUIPU_ROLE_USER:
    case QUIPU_ROLE_SYSTEM:
        return role;
    }
    return (quipu_role)0;
}

/* How many parts have this kind. */
static size_t convert_count(const quipu_part *parts, size_t count, quipu_part_kind kind)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        found += parts[i].kind == kind ? 1 : 0;
    }
    return found;
}

/* The meaning of a whole content for the pairing rule: the beginning of a turn, or a tool's text
 * that names no call. Such a content is one item of the pairing rule, whatever parts it has. Called
 * twice for each content, for the list and for the messages, which is why it depends on nothing
 * else:
 *
 *   role   parts                        item
 *   user   no response                  TURN
 *   tool   neither response nor call    RESPONSE, without id and name
 *   any    others                       nothing
 */
static qp_tool_item_kind convert_alone(const quipu_content *content, quipu_role role)
{
    bool answers = false;
    bool calls = false;

    for (size_t i = 0; i < content->parts.count; i++) {
        const quipu_part_kind kind = quipu_part_at(content->parts, i)->kind;
        /* Both may be true for contents that other programs wrote. */

        answers = answers || kind == QUIPU_PART_RESPONSE;
        calls = calls || kind == QUIPU_PART_CALL;
    }
    return answers || (calls && role == QUIPU_ROLE_TOOL) ? QP_TOOL_NOTHING
           : role == QUIPU_ROLE_USER                     ? QP_TOOL_TURN
           : role == QUIPU_ROLE_TOOL                     ? QP_TOOL_RESPONSE
                                                         : QP_TOOL_NOTHING;
}

/* Lists the calls and responses of one content for the pairing rule. The conditions are those under
 * which convert_part() keeps a part: every kept call and response has an item, and no other has
 * one. tool_at relies on it. */
static void convert_list(convert *self, const quipu_content *content, int64_t number)
{
    const qp_tool_item_kind alone = convert_alone(content, convert_role(content->role));

    /* It stands before the parts' own items, as it is converted before them. */
    if (alone != QP_TOOL_NOTHING) {
        self->tools[self->tool_count++] = (qp_tool_item){.kind = alone, .message = number};
    }
    for (size_t i = 0; i < content->parts.count; i++) {
        const quipu_part *part = quipu_part_at(content->parts, i);
        const bool call = part->kind == QUIPU_PART_CALL && part->name.n > 0;
        const bool response =
            part->kind == QUIPU_PART_RESPONSE && (part->name.n > 0 || part->id.n > 0);

        if (call || response) {
            self->tools[self->tool_count++] =
                (qp_tool_item){.kind = call ? QP_TOOL_CALL : QP_TOOL_RESPONSE,
                               .message = number,
                               .id = part->id,
                               .name = part->name};
        }
    }
}

/* Pairs all contents, in the order in which parts are converted later. A message has at most one
 * item more than it has parts, which is what `cap` counts. */
static quipu_status convert_pairs(convert *self, const quipu_model_request *request)
{
    const size_t most = self->cap;

    /* Temporary, but in the arena: it is freed with the result. */
    self->tools = qp_arena_take(self->arena, most * sizeof(*self->tools));
    self->tool_ids = qp_arena_take(self->arena, most * sizeof(*self->tool_ids));
    if (self->tools == NULL || self->tool_ids == NULL) {
        return convert_no_room(self, most * sizeof(*self->tools));
    }
    for (size_t i = 0; i < request->contents.count; i++) {
        const quipu_content *content = quipu_content_at(request->contents, i);

        if (content->parts.items != NULL && content->parts.count > 0) {
            convert_list(self, content, (int64_t)i);
        }
    }
    assert(self->tool_count <= most);
    qp_tool_pair_match(self->tools, self->tool_count, QUIPU_PAIR_REACH);
    return QUIPU_OK;
}

/* Checks the JSON of a call (an object) or response (any value); absent becomes {}. Checked here,
 * before anything is sent: a provider would answer a bad request with an error that names no
 * part. */
static quipu_status convert_json(convert *self, const char *what, quipu_part *part, bool object)
{
    quipu_str json = part->json.text;
    size_t at = 0;

    /* Providers want arguments even of a tool that takes none. */
    if (json.n == 0) {
        part->json.text = QUIPU_STR("{}");
        return QUIPU_OK;
    }
    /* Arguments must be an object: look at the first character that is not white space. */
    while (at < json.n && (json.p[at] == ' ' || (json.p[at] >= '\t' && json.p[at] <= '\r'))) {
        at++;
    }
    if (qp_json_check(json, NULL, NULL) != QUIPU_OK || (object && json.p[at] != '{')) {
        return qp_error_field(
            self->reterr, QUIPU_INVALID, what, NULL, "json", "the %s of \"%.*s\" must be %s",
            object ? "arguments" : "result", (int)(part->name.n < 64 ? part->name.n : 64),
            part->name.n > 0 ? part->name.p : "", object ? "a JSON object" : "JSON");
    }
    return QUIPU_OK;
}

/* Gives a call its unique id and remembers it for the response, which comes later in the
 * history. */
static quipu_status convert_call_id(convert *self, quipu_part *part)
{
    quipu_status status = qp_call_ids_add(&self->ids, part->id, part->name, &part->id);

    /* The id as it is sent: the response looks it up by its pair. */
    assert(self->tool_at < self->tool_count && self->tools[self->tool_at].kind == QP_TOOL_CALL);
    self->tool_ids[self->tool_at++] = part->id;
    return status;
}

/* Gives a response the id of the call that it answers, or one that no call has. A pair is always a
 * call before it, whose id is known already. */
static quipu_status convert_response_id(convert *self, quipu_part *part)
{
    const qp_tool_item *item = &self->tools[self->tool_at++];

    assert(self->tool_at <= self->tool_count && item->kind == QP_TOOL_RESPONSE);
    /* A response to nothing keeps an id of its own, so that it answers no call by chance. */
    if (item->pair == QP_TOOL_PAIR_NONE) {
        return qp_call_ids_orphan(&self->ids, part->id, part->name, &part->id);
    }
    part->id = self->tool_ids[item->pair];
    return QUIPU_OK;
}

/* One part with its id and JSON filled in. *ret_keep is false for a part without content, such as
 * an empty text. The item of the part is consumed with it; a failure in between ends the
 * conversion. */
static quipu_status convert_part(convert *self, const quipu_part *from, quipu_part *ret_part,
                                 bool *ret_keep)
{
    quipu_status status = QUIPU_OK;

    /* A copy of the struct, whose texts stay the caller's. */
    *ret_part = *from;
    *ret_keep = true;
    switch (from->kind) {
    case QUIPU_PART_TEXT:
    case QUIPU_PART_THOUGHT:
        *ret_keep = from->text.n > 0 || from->signature.n > 0;
        return QUIPU_OK;
    case QUIPU_PART_DATA:
        *ret_keep = from->data.n > 0;
        return QUIPU_OK;
    case QUIPU_PART_OTHER:
        *ret_keep = from->json.text.n > 0;
        status = *ret_keep ? convert_json(self, "part", ret_part, true) : QUIPU_OK;
        break;
    case QUIPU_PART_CALL:
        *ret_keep = from->name.n > 0;
        if (*ret_keep) {
            status = convert_json(self, "call", ret_part, true);
        }
        if (*ret_keep && status == QUIPU_OK) {
            status = convert_call_id(self, ret_part);
        }
        break;
    case QUIPU_PART_RESPONSE:
        *ret_keep = from->name.n > 0 || from->id.n > 0;
        if (*ret_keep) {
            status = convert_json(self, "response", ret_part, false);
        }
        if (*ret_keep && status == QUIPU_OK) {
            status = convert_response_id(self, ret_part);
        }
        break;
    default:
        return qp_error_set(self->reterr, QUIPU_INVALID, "a part has the unknown kind %d",
                            (int)from->kind);
    }
    if (status == QUIPU_NOMEM || status == QUIPU_LIMIT) {
        return qp_error_set(self->reterr, status, "no room for the messages");
    }
    return status;
}

/* A tool's content: one message for each response, with the texts that follow it. Texts before the
 * first response go with it: providers know no tool message without a response. */
static quipu_status convert_tool(convert *self, const quipu_part *parts, size_t count)
{
    quipu_status status = QUIPU_OK;
    size_t from = 0;
    bool answered = false;

    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        if (parts[i].kind != QUIPU_PART_RESPONSE) {
            continue;
        }
        if (answered) {
            status = convert_add(self, QUIPU_ROLE_TOOL, parts + from, i - from);
            from = i;
        }
        answered = true;
    }
    return status == QUIPU_OK ? convert_add(self, QUIPU_ROLE_TOOL, parts + from, count - from)
                              : status;
}

/* A tool's text that names no call, as the response to call number `call`. Words that are a JSON
 * object already are sent as they are; others as {"result": words}. Gemini takes only objects as
 * results, and all providers get the same. */
static quipu_status convert_words(convert *self, const quipu_part *parts, size_t count, size_t call)
{
    quipu_model_message words = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(parts, count)};
    quipu_part *part = qp_arena_take(self->arena, sizeof(*part));
    quipu_status status = part != NULL ? qp_message_content(self->arena, &words)
                                       : qp_arena_why(self->arena, sizeof(*part));
    qp_jsonw writer;
    qp_buf json;

    assert(call < self->tool_count && self->tools[call].kind == QP_TOOL_CALL);
    if (part == NULL || status != QUIPU_OK) {
        return qp_error_set(self->reterr, status, "no room for the messages");
    }
    *part = (quipu_part){.kind = QUIPU_PART_RESPONSE,
                         .id = self->tool_ids[call],
                         .name = self->tools[call].name,
                         .json = {words.content}};
    if (words.content.n > 0 && words.content.p[0] == '{' &&
        qp_json_check(words.content, NULL, NULL) == QUIPU_OK) {
        return convert_add(self, QUIPU_ROLE_TOOL, part, 1);
    }
    qp_buf_init(&json, QUIPU_REQUEST_BYTES_MAX);
    qp_jsonw_begin(&writer, &json);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("result"));
    qp_jsonw_str(&writer, words.content);
    qp_jsonw_object_end(&writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(self->arena, qp_buf_str(&json), &part->json.text);
    }
    qp_buf_free(&json);
    if (status != QUIPU_OK) {
        return qp_error_set(self->reterr, status, "a tool's words cannot be sent as its result");
    }
    return convert_add(self, QUIPU_ROLE_TOOL, part, 1);
}

/* Responses within a user's or model's content: they become messages of their own, first, because
 * they must follow their calls. The rest keeps its role. One array holds both halves, responses
 * first; the order inside each half is kept. */
static quipu_status convert_mixed(convert *self, quipu_role role, quipu_part *parts, size_t count)
{
    quipu_status status = QUIPU_OK;
    size_t responses = convert_count(parts, count, QUIPU_PART_RESPONSE);
    quipu_part *sorted = qp_arena_take(self->arena, count * sizeof(*sorted));
    size_t at = 0;
    size_t rest = responses;

    assert(count > 0);
    if (sorted == NULL) {
        return convert_no_room(self, count * sizeof(*sorted));
    }
    for (size_t i = 0; i < count; i++) {
        sorted[parts[i].kind == QUIPU_PART_RESPONSE ? at++ : rest++] = parts[i];
    }
    assert(at == responses && rest == count);
    for (size_t i = 0; i < responses && status == QUIPU_OK; i++) {
        status = convert_add(self, QUIPU_ROLE_TOOL, sorted + i, 1);
    }
    if (status == QUIPU_OK && count > responses) {
        status = convert_add(self, role, sorted + responses, count - responses);
    }
    return status;
}

/* The messages of converted parts; `alone` is the item of the content as a whole, or NULL. A tool's
 * words without a pair stay a tool's text; repair.c makes a user's message of it. */
static quipu_status convert_said(convert *self, quipu_role role, quipu_part *parts, size_t count,
                                 const qp_tool_item *alone)
{
    if (alone != NULL && alone->kind == QP_TOOL_RESPONSE && alone->pair != QP_TOOL_PAIR_NONE) {
        return convert_words(self, parts, count, alone->pair);
    }
    if (role == QUIPU_ROLE_TOOL) {
        return convert_tool(self, parts, count);
    }
    if (convert_count(parts, count, QUIPU_PART_RESPONSE) > 0) {
        return convert_mixed(self, role, parts, count);
    }
    return convert_add(self, role, parts, count);
}

/* One content becomes zero or more messages. */
static quipu_status convert_content(convert *self, const quipu_content *content)
{
    quipu_status status = QUIPU_OK;
    quipu_role role = convert_role(content->role);
    const qp_tool_item *alone = NULL;
    quipu_part *parts;
    size_t count = 0;

    if (role == (quipu_role)0) {
        return qp_error_set(self->reterr, QUIPU_INVALID, "a content has the unknown role %d",
                            (int)content->role);
    }
    if (content->parts.count == 0) {
        return QUIPU_OK;
    }
    parts = qp_arena_take(self->arena, content->parts.count * sizeof(*parts));
    if (parts == NULL) {
        return convert_no_room(self, content->parts.count * sizeof(*parts));
    }
    if (convert_alone(content, role) != QP_TOOL_NOTHING) {
        alone = &self->tools[self->tool_at++];
    }
    for (size_t i = 0; i < content->parts.count && status == QUIPU_OK; i++) {
        bool keep = false;

        status = convert_part(self, quipu_part_at(content->parts, i), &parts[count], &keep);
        count += keep ? 1 : 0;
    }
    if (status != QUIPU_OK || count == 0) {
        return status;
    }
    return convert_said(self, role, parts, count, alone);
}

/* The texts of the system instruction, joined by newlines, as the first message. Other parts of it
 * are ignored: providers accept text only. */
static quipu_status convert_system(convert *self, const quipu_model_request *request)
{
    quipu_part *part;
    size_t total = 0;
    char *p;

    for (size_t i = 0; i < request->system.count; i++) {
        const quipu_part *text = quipu_part_at(request->system, i);

        if (text->kind == QUIPU_PART_TEXT && text->text.n > 0) {
            total += text->text.n + 1; /* a newline, or the NUL */
        }
    }
    if (total == 0) {
        return QUIPU_OK;
    }
    p = qp_arena_take(self->arena, total);
    part = qp_arena_take(self->arena, sizeof(*part));
    if (p == NULL || part == NULL) {
        return convert_no_room(self, total);
    }
    *part = (quipu_part){.kind = QUIPU_PART_TEXT, .text = {p, total - 1}};
    for (size_t i = 0; i < request->system.count; i++) {
        quipu_str text = quipu_part_at(request->system, i)->text;

        if (quipu_part_at(request->system, i)->kind == QUIPU_PART_TEXT && text.n > 0) {
            memcpy(p, text.p, text.n);
            p += text.n;
            *p++ = '\n';
        }
    }
    /* The last newline becomes the terminating NUL. */
    p[-1] = '\0';
    return convert_add(self, QUIPU_ROLE_SYSTEM, part, 1);
}

/* See message.h. The cap is the most messages that the contents can become: one for each part, and
 * one for each content as a whole. */
quipu_status qp_model_convert(const quipu_model_request *request, quipu_arena *arena,
                              quipu_model_messages *ret_messages, quipu_error *reterr)
{
    quipu_model_request given = QUIPU_MODEL_REQUEST_INIT;
    convert self = {.arena = arena, .reterr = reterr, .cap = 1};
    quipu_status status;

    if (request == NULL || arena == NULL || ret_messages == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "converting needs a request, an arena and a place for messages");
    }
    status = qp_request_read(request, arena, &given, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    for (size_t i = 0; i < given.contents.count; i++) {
        self.cap += quipu_content_at(given.contents, i)->parts.count + 1;
    }
    self.items = qp_arena_take(arena, self.cap * sizeof(*self.items));
    if (self.items == NULL) {
        return convert_no_room(&self, self.cap * sizeof(*self.items));
    }
    qp_call_ids_init(&self.ids, arena);
    status = convert_pairs(&self, &given);
    if (status == QUIPU_OK) {
        status = convert_system(&self, &given);
    }
    for (size_t i = 0; i < given.contents.count && status == QUIPU_OK; i++) {
        status = convert_content(&self, quipu_content_at(given.contents, i));
    }
    if (status == QUIPU_OK) {
        assert(self.tool_at == self.tool_count); /* every item was met again */
        *ret_messages = quipu_model_messages_of(self.items, self.count);
    }
    return status;
}
