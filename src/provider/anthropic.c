/* Anthropic's Messages API, requests: https://docs.anthropic.com/en/api/messages. Answers are in
 * anthropic_read.c.
 *
 *   {"model": "m", "stream": true, "max_tokens": 8192,
 *    "tools": [{"name": "f", "input_schema": {...}}],
 *    "system": [{"type": "text", "text": "...", "cache_control": {"type": "ephemeral"}}],
 *    "messages": [{"role": "user", "content": [{"type": "text", "text": "..."}]},
 *                 {"role": "assistant", "content": [
 *                     {"type": "thinking", "thinking": "...", "signature": "..."},
 *                     {"type": "tool_use", "id": "call_1", "name": "f", "input": {...}}]},
 *                 {"role": "user", "content": [
 *                     {"type": "tool_result", "tool_use_id": "call_1", "content": "...",
 *                      "cache_control": {"type": "ephemeral"}}]}]}
 *
 * Cache marks: the provider's prompt cache covers tools, system and messages in that order, up to a
 * mark. A mark stands at the end of the fixed part (system, else tools), before the memory block
 * that ends it, and at the ends of the last two user turns, so that the next request finds the
 * prefix up to the turn before: as many marks as the API allows.
 *
 *   tools, system ▲ its memory block ▲ │ user · assistant · user ▲ · assistant · user ▲
 *
 * Owns: the constant table qp_wire_anthropic. Called by: client.c, for each request. Locks: none;
 * what a request needs while it is written is in its anthropic_state. Writers have no errors of
 * their own: a failure sticks to the JSON writer's buffer, and client.c asks it at the end. */
#include <string.h>

#include "base/base64.h"
#include "provider/wire.h"

#define ANTHROPIC_MAX_TOKENS 8192 /* sent when the request has none: the field is required */
#define ANTHROPIC_MARKED_TURNS 2  /* user turns that end with a mark */

/* Position within a request while it is written. */
typedef struct anthropic_state {
    const quipu_model_params *params;
    qp_jsonw *writer;
    bool open;         /* a turn is open, of `role` */
    quipu_role role;   /* USER or ASSISTANT */
    size_t turns_left; /* user turns that begin after the current one */
} anthropic_state;

/* One path for every model: the model's name is in the body. */
static quipu_status anthropic_path(const quipu_model_params *params, qp_buf *url,
                                   quipu_error *reterr)
{
    (void)params;
    (void)reterr;
    qp_buf_puts(url, "/v1/messages");
    return QUIPU_OK;
}

/* Asks the provider to cache the prompt up to and including the block that this member belongs
 * to.
 * The API allows four marks: the head of this file says where they stand. */
static void anthropic_mark(qp_jsonw *writer)
{
    qp_wire_key(writer, "cache_control");
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"ephemeral\"}"));
}

/* Ids may contain letters, digits, '_' and '-' only; every other byte becomes '_'. Calls and
 * results take the same way, so they still match.
 * Two ids that differ in such bytes alone become the same. */
static void anthropic_id(qp_jsonw *writer, const char *key, quipu_str id)
{
    qp_buf text;
    quipu_str made;

    qp_buf_init(&text, QUIPU_REQUEST_BYTES_MAX);
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

        qp_buf_putc(&text, plain || c == '-' ? c : '_');
    }
    if (qp_buf_status(&text) != QUIPU_OK) {
        qp_buf_fail(writer->buf, qp_buf_status(&text));
    }
    made = qp_buf_str(&text);
    qp_wire_member(writer, key, made);
    qp_buf_free(&text);
}

/* Tools without a name are skipped. The mark goes on the last one written, when there is no system
 * instruction. They are written in the request's order: another one would be another prefix to the
 * provider's cache. */
static void anthropic_tools(const quipu_model_request *request, bool marked, qp_jsonw *writer)
{
    size_t last = 0;

    for (size_t i = 0; i < request->tools.count; i++) {
        /* The last one that is written, for the mark. */
        last = quipu_tool_at(request->tools, i)->name.n > 0 ? i : last;
    }
    qp_wire_key(writer, "tools");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < request->tools.count; i++) {
        const quipu_tool *tool = quipu_tool_at(request->tools, i);

        if (tool->name.n == 0) {
            continue;
        }
        qp_jsonw_object(writer);
        qp_wire_tool(writer, tool, "input_schema");
        if (tool->strict) {
            qp_wire_key(writer, "strict");
            qp_jsonw_bool(writer, true);
        }
        if (marked && i == last) {
            anthropic_mark(writer);
        }
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* Whether calls or results are written: of tools that an earlier turn had. */
static bool anthropic_called(const quipu_model_params *params)
{
    for (size_t i = 0; i < params->messages.count; i++) {
        const quipu_model_message *message = quipu_model_message_at(params->messages, i);

        for (size_t j = 0; j < message->parts.count; j++) {
            const quipu_part_kind kind = quipu_part_at(message->parts, j)->kind;

            if (kind == QUIPU_PART_CALL || kind == QUIPU_PART_RESPONSE) {
                return true;
            }
        }
    }
    return false;
}

/* The API refuses calls and results in a request that declares no tools. A tool that cannot be
 * called takes the place of those that are not offered any more. */
static void anthropic_no_tools(qp_jsonw *writer)
{
    qp_wire_key(writer, "tools");
    qp_jsonw_raw(writer, QUIPU_STR("[{\"name\":\"unavailable\",\"description\":\"No tool can be "
                                   "called.\",\"input_schema\":{\"type\":\"object\"}}]"));
    qp_wire_key(writer, "tool_choice");
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"none\"}"));
}

/* Names by quipu_tool_choice; the default is left to the provider. */
static void anthropic_choice(const quipu_model_request *request, qp_jsonw *writer)
{
    static const char *const names[] = {NULL, "auto", "none", "any", "tool"};

    if (request->choice == QUIPU_CHOICE_DEFAULT) {
        return;
    }
    qp_wire_key(writer, "tool_choice");
    qp_jsonw_object(writer);
    qp_wire_member(writer, "type", quipu_cstr(names[request->choice]));
    if (request->choice == QUIPU_CHOICE_NAMED) {
        qp_wire_member(writer, "name", request->choice_name);
    }
    qp_jsonw_object_end(writer);
}

/* Extended thinking with a token budget, when the request asks for it.
 * The API wants max_tokens to be larger than the budget: that is the caller's to see to. */
static void anthropic_thinking(const quipu_model_request *request, qp_jsonw *writer)
{
    if (request->thinking_tokens > 0) {
        qp_wire_key(writer, "thinking");
        qp_jsonw_object(writer);
        qp_wire_member(writer, "type", QUIPU_STR("enabled"));
        qp_wire_key(writer, "budget_tokens");
        qp_jsonw_i64(writer, request->thinking_tokens);
        qp_jsonw_object_end(writer);
    }
}

/* Writes the members before tools and messages. Anthropic has no seed. */
static void anthropic_settings(const quipu_model_request *request, qp_jsonw *writer)
{
    qp_wire_key(writer, "max_tokens");
    /* Required by the API, also where the caller sets no limit. */
    qp_jsonw_i64(writer, request->max_tokens > 0 ? request->max_tokens : ANTHROPIC_MAX_TOKENS);
    qp_wire_sampling(writer, request, "top_p", NULL); /* no seed in this API */
    qp_wire_stops(writer, request, "stop_sequences");
    anthropic_thinking(request, writer);
    if (request->response_schema.text.n > 0) {
        qp_wire_key(writer, "output_config");
        qp_jsonw_object(writer);
        qp_wire_key(writer, "format");
        qp_jsonw_object(writer);
        qp_wire_member(writer, "type", QUIPU_STR("json_schema"));
        qp_wire_key(writer, "schema");
        qp_jsonw_raw(writer, request->response_schema.text);
        qp_jsonw_object_end(writer);
        qp_jsonw_object_end(writer);
    }
}

/* System messages at the beginning; they become the separate member "system".
 * Later ones stay where they are. */
static size_t anthropic_system_count(const quipu_model_params *params)
{
    size_t count = 0;

    while (count < params->messages.count &&
           quipu_model_message_at(params->messages, count)->role == QUIPU_ROLE_SYSTEM) {
        count++;
    }
    return count;
}

/* One text block of the system instruction. `marked`: the cache ends with it. */
static void anthropic_system_block(quipu_str text, bool marked, qp_jsonw *writer)
{
    qp_jsonw_object(writer);
    qp_wire_member(writer, "type", QUIPU_STR("text"));
    qp_wire_member(writer, "text", text);
    if (marked) {
        anthropic_mark(writer);
    }
    qp_jsonw_object_end(writer);
}

/* The bytes of the memory block that ends the system instruction; 0: there is none. */
static size_t anthropic_memory(const quipu_model_request *request)
{
    const size_t count = request->memory_last ? request->system.count : 0;

    return count > 0 ? quipu_part_at(request->system, count - 1)->text.n : 0;
}

/* The system instruction as text blocks. The last one carries a cache mark, and so does what stands
 * before a memory block: when that changes, the rest is still found. */
static void anthropic_system(const quipu_model_params *params, size_t count, qp_jsonw *writer)
{
    /* The API charges for writing its cache: a caller whose prompt is not sent again turns the
     * marks off. */
    const bool marks = !params->request->no_cache_marks;
    const size_t memory = anthropic_memory(params->request);

    qp_wire_key(writer, "system");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < count; i++) {
        quipu_str text = quipu_model_message_at(params->messages, i)->content;

        /* The texts were joined by newlines. */
        if (i == 0 && memory > 0 && text.n > memory + 1) {
            anthropic_system_block((quipu_str){text.p, text.n - memory - 1}, marks, writer);
            text = (quipu_str){text.p + text.n - memory, memory};
        }
        anthropic_system_block(text, marks && i + 1 == count, writer);
    }
    qp_jsonw_array_end(writer);
}

/* Images and documents in base64; the API has two block types for them. */
static void anthropic_data(const quipu_part *part, qp_jsonw *writer)
{
    bool image = part->mime.n >= 6 && memcmp(part->mime.p, "image/", 6) == 0;

    qp_wire_member(writer, "type", image ? QUIPU_STR("image") : QUIPU_STR("document"));
    qp_wire_key(writer, "source");
    qp_jsonw_object(writer);
    qp_wire_member(writer, "type", QUIPU_STR("base64"));
    qp_wire_member(writer, "media_type", part->mime);
    qp_wire_key(writer, "data");
    qp_base64_json(writer, part->data);
    qp_jsonw_object_end(writer);
}

/* A thought goes back with the signature that proves it; a redacted one is nothing but its
 * encrypted data. */
static void anthropic_thought(const quipu_part *part, qp_jsonw *writer)
{
    quipu_str signature = {part->signature.p, part->signature.n};

    if (part->redacted) {
        qp_wire_member(writer, "type", QUIPU_STR("redacted_thinking"));
        qp_wire_member(writer, "data", signature);
        return;
    }
    qp_wire_member(writer, "type", QUIPU_STR("thinking"));
    qp_wire_member(writer, "thinking", part->text);
    qp_wire_member(writer, "signature", signature);
}

/* Whether a part can be expressed: empty texts are rejected by the API, and thoughts need a
 * signature. */
static bool anthropic_fits(const quipu_part *part)
{
    switch (part->kind) {
    case QUIPU_PART_TEXT:
        return part->text.n > 0;
    case QUIPU_PART_THOUGHT:
        return part->signature.n > 0;
    case QUIPU_PART_OTHER:
        return false; /* Gemini's */
    default:
        return true;
    }
}

/* One content block. A tool result carries the whole content of its message, texts included. */
static void anthropic_block(const quipu_model_message *message, const quipu_part *part, bool marked,
                            qp_jsonw *writer)
{
    qp_jsonw_object(writer);
    switch (part->kind) {
    case QUIPU_PART_TEXT:
        qp_wire_member(writer, "type", QUIPU_STR("text"));
        qp_wire_member(writer, "text", part->text);
        break;
    case QUIPU_PART_THOUGHT:
        anthropic_thought(part, writer);
        break;
    case QUIPU_PART_CALL:
        qp_wire_member(writer, "type", QUIPU_STR("tool_use"));
        anthropic_id(writer, "id", part->id);
        qp_wire_member(writer, "name", part->name);
        qp_wire_key(writer, "input");
        qp_jsonw_raw(writer, part->json.text);
        break;
    case QUIPU_PART_RESPONSE:
        qp_wire_member(writer, "type", QUIPU_STR("tool_result"));
        anthropic_id(writer, "tool_use_id", part->id);
        qp_wire_member(writer, "content", message->content);
        break;
    case QUIPU_PART_DATA:
        anthropic_data(part, writer);
        break;
    case QUIPU_PART_OTHER:
        break; /* anthropic_fits() has left it out */
    }
    if (marked) {
        anthropic_mark(writer);
    }
    qp_jsonw_object_end(writer);
}

/* The API has two roles; tool results are the user's, and so is everything else. */
static quipu_role anthropic_role(const quipu_model_message *message)
{
    return message->role == QUIPU_ROLE_ASSISTANT ? QUIPU_ROLE_ASSISTANT : QUIPU_ROLE_USER;
}

/* A TOOL message is written as its result alone: the result's content holds the texts too. */
static bool anthropic_written(const quipu_model_message *message, const quipu_part *part)
{
    return anthropic_fits(part) &&
           (message->role != QUIPU_ROLE_TOOL || part->kind == QUIPU_PART_RESPONSE);
}

/* Whether anything of a message is written; empty messages must not open a turn, which the API
 * would reject. */
static bool anthropic_says(const quipu_model_message *message)
{
    for (size_t i = 0; i < message->parts.count; i++) {
        if (anthropic_written(message, quipu_part_at(message->parts, i))) {
            return true;
        }
    }
    return false;
}

/* Whether this part is the last that is written in its turn: a turn is a run of messages of one
 * role. */
static bool anthropic_ends_turn(const quipu_model_params *params, size_t at, size_t part)
{
    const quipu_model_message *message = quipu_model_message_at(params->messages, at);

    for (size_t i = part + 1; i < message->parts.count; i++) {
        if (anthropic_written(message, quipu_part_at(message->parts, i))) {
            return false;
        }
    }
    for (size_t i = at + 1; i < params->messages.count; i++) {
        const quipu_model_message *next = quipu_model_message_at(params->messages, i);

        if (anthropic_says(next)) {
            return anthropic_role(next) != anthropic_role(message);
        }
    }
    return true;
}

/* Counts user turns, to know which are the last two. */
static size_t anthropic_user_turns(const quipu_model_params *params, size_t from)
{
    size_t turns = 0;
    quipu_role before = (quipu_role)0;

    for (size_t i = from; i < params->messages.count; i++) {
        quipu_role role = anthropic_role(quipu_model_message_at(params->messages, i));

        if (anthropic_says(quipu_model_message_at(params->messages, i))) {
            turns += role == QUIPU_ROLE_USER && role != before ? 1 : 0;
            before = role;
        }
    }
    return turns;
}

/* Writes the blocks of a message into the open turn, or closes it and opens the next. The API
 * demands alternating roles. */
static void anthropic_message(anthropic_state *state, size_t at)
{
    const quipu_model_message *message = quipu_model_message_at(state->params->messages, at);
    quipu_role role = anthropic_role(message);
    bool marks = !state->params->request->no_cache_marks;

    if (!anthropic_says(message)) {
        return;
    }
    if (!state->open || state->role != role) {
        if (state->open) {
            qp_jsonw_array_end(state->writer);
            qp_jsonw_object_end(state->writer);
        }
        state->open = true;
        state->role = role;
        state->turns_left -= role == QUIPU_ROLE_USER ? 1 : 0;
        qp_jsonw_object(state->writer);
        qp_wire_member(state->writer, "role",
                       role == QUIPU_ROLE_USER ? QUIPU_STR("user") : QUIPU_STR("assistant"));
        qp_wire_key(state->writer, "content");
        qp_jsonw_array(state->writer);
    }
    for (size_t i = 0; i < message->parts.count; i++) {
        if (anthropic_written(message, quipu_part_at(message->parts, i))) {
            bool marked = marks && role == QUIPU_ROLE_USER &&
                          state->turns_left < ANTHROPIC_MARKED_TURNS &&
                          anthropic_ends_turn(state->params, at, i);

            anthropic_block(message, quipu_part_at(message->parts, i), marked, state->writer);
        }
    }
}

/* The body. Members that stay the same from turn to turn come first, so that the provider's cache
 * serves them. */
static void anthropic_write(const quipu_model_params *params, bool own, qp_jsonw *writer)
{
    anthropic_state state = {.params = params, .writer = writer};
    size_t system = anthropic_system_count(params);

    (void)own;
    qp_jsonw_object(writer);
    qp_wire_member(writer, "model", params->model);
    if (params->stream) {
        qp_wire_key(writer, "stream");
        qp_jsonw_bool(writer, true);
    }
    anthropic_settings(params->request, writer);
    if (qp_wire_offers(params->request)) {
        anthropic_tools(params->request, system == 0 && !params->request->no_cache_marks, writer);
        anthropic_choice(params->request, writer);
    } else if (anthropic_called(params)) {
        anthropic_no_tools(writer);
    }
    if (system > 0) {
        anthropic_system(params, system, writer);
    }
    /* Counted first: a mark belongs to the last two user turns, and writing goes forward. */
    state.turns_left = anthropic_user_turns(params, system);
    qp_wire_key(writer, "messages");
    qp_jsonw_array(writer);
    for (size_t i = system; i < params->messages.count; i++) {
        anthropic_message(&state, i);
    }
    if (state.open) {
        qp_jsonw_array_end(writer);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
}

/* ---- models -------------------------------------------------------------------------------- */

/* Pages of up to 1000 models; `page` is the last id of the page before. */
static void anthropic_list_path(quipu_str page, qp_buf *url)
{
    qp_buf_puts(url, "/v1/models?limit=1000");
    if (page.n > 0) {
        qp_buf_puts(url, "&after_id=");
        qp_buf_put(url, page);
    }
}

/* One page. list->next stays empty on the last one. */
static quipu_status anthropic_list_read(qp_json_node root, qp_wire_list *list)
{
    qp_json_iter iter = qp_json_each(qp_wire_get(root, "data"));
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && qp_json_next(&iter)) {
        quipu_model_info info = {.context_tokens = 0};

        status = qp_wire_list_text(list, iter.value, "id", &info.id);
        if (status == QUIPU_OK) {
            status = qp_wire_list_text(list, iter.value, "display_name", &info.name);
        }
        if (status == QUIPU_OK && info.id.n > 0) {
            status = qp_wire_list_add(list, &info);
        }
    }
    if (status == QUIPU_OK && qp_json_kind_of(qp_wire_get(root, "has_more")) == QP_JSON_TRUE) {
        status = qp_wire_list_text(list, root, "last_id", &list->next);
    }
    return status;
}

const qp_wire qp_wire_anthropic = {.id = "anthropic",
                                   .base_url = "https://api.anthropic.com",
                                   .key_env = "ANTHROPIC_API_KEY",
                                   .auth = "x-api-key: ",
                                   .extra_header = "anthropic-version: 2023-06-01",
                                   .path = anthropic_path,
                                   .write = anthropic_write,
                                   .event = qp_anthropic_event,
                                   .whole = qp_anthropic_whole,
                                   .list_path = anthropic_list_path,
                                   .list_read = anthropic_list_read};
