/* Chat completions as OpenAI defined them and most servers speak them (vLLM, llama.cpp, Ollama,
 * gateways): https://platform.openai.com/docs/api-reference/chat. Members that do not change from
 * turn to turn are written first, so that the beginnings of requests are equal byte for byte and
 * the server's prefix cache matches.
 *
 * A request:
 *
 *   {"model": "m", "stream": true, "stream_options": {"include_usage": true}, "tools": [...],
 *    "messages": [{"role": "system", "content": "..."}, {"role": "user", "content": "..."},
 *                 {"role": "assistant", "content": null, "tool_calls": [
 *                     {"id": "call_1", "type": "function",
 *                      "function": {"name": "f", "arguments": "{\"x\":1}"}}]},
 *                 {"role": "tool", "tool_call_id": "call_1", "content": "..."}]}
 *
 * Its stream, ended by [DONE]:
 *
 *   {"id": "...", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hel"}}]}
 *   {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", ...}]}}]}
 *   {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
 *   {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}}
 *
 * Owns: the constant table qp_wire_openai. Called by: client.c for requests, wire.c for answers.
 * Writers have no errors of their own: a failure sticks to the JSON writer's buffer.
 * Locks: none. */
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "provider/wire.h"

/* ---- requests ------------------------------------------------------------------------------ */

/* One path for every model: the model's name is in the body.
 * The base URL ends with the version, so that a gateway may have another one. */
static quipu_status openai_path(const quipu_model_params *params, qp_buf *url, quipu_error *reterr)
{
    (void)params;
    (void)reterr;
    qp_buf_puts(url, "/chat/completions");
    return QUIPU_OK;
}

/* Tools without a name are skipped. `strict` is written only where the tool asks for it: compatible
 * servers may not know the member.
 * In the order of the request: a changed order would miss the server's cache. */
static void openai_tools(const quipu_model_request *request, qp_jsonw *writer)
{
    qp_wire_key(writer, "tools");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < request->tools.count; i++) {
        const quipu_tool *tool = quipu_tool_at(request->tools, i);

        if (tool->name.n == 0) {
            continue;
        }
        qp_jsonw_object(writer);
        qp_wire_member(writer, "type", QUIPU_STR("function"));
        qp_wire_key(writer, "function");
        qp_jsonw_object(writer);
        qp_wire_tool(writer, tool, "parameters");
        if (tool->strict) {
            qp_wire_key(writer, "strict");
            qp_jsonw_bool(writer, true);
        }
        qp_jsonw_object_end(writer);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* A mode by name, or an object that names one function. */
static void openai_choice(const quipu_model_request *request, qp_jsonw *writer)
{
    /* By quipu_tool_choice; NULL is the default, which is not written. */
    static const char *const names[] = {NULL, "auto", "none", "required"};

    if (request->choice == QUIPU_CHOICE_DEFAULT) {
        return;
    }
    qp_wire_key(writer, "tool_choice");
    if (request->choice != QUIPU_CHOICE_NAMED) {
        qp_jsonw_str(writer, quipu_cstr(names[request->choice]));
        return;
    }
    qp_jsonw_object(writer);
    qp_wire_member(writer, "type", QUIPU_STR("function"));
    qp_wire_key(writer, "function");
    qp_jsonw_object(writer);
    qp_wire_member(writer, "name", request->choice_name);
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* A structured answer: the schema is always strict, and needs a name.
 * "response" is a name for servers alone: no answer repeats it. */
static void openai_format(const quipu_model_request *request, qp_jsonw *writer)
{
    qp_wire_key(writer, "response_format");
    qp_jsonw_object(writer);
    qp_wire_member(writer, "type", QUIPU_STR("json_schema"));
    qp_wire_key(writer, "json_schema");
    qp_jsonw_object(writer);
    qp_wire_member(writer, "name",
                   request->response_name.n > 0 ? request->response_name : QUIPU_STR("response"));
    qp_wire_key(writer, "strict");
    qp_jsonw_bool(writer, true);
    qp_wire_key(writer, "schema");
    qp_jsonw_raw(writer, request->response_schema.text);
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* Writes the members before tools and messages. `own`: the request goes to OpenAI itself. */
static void openai_settings(const quipu_model_request *request, bool own, qp_jsonw *writer)
{
    qp_wire_sampling(writer, request, "top_p", "seed");
    if (request->max_tokens > 0) {
        /* OpenAI renamed this member; compatible servers know the old name. */
        qp_wire_key(writer, own ? "max_completion_tokens" : "max_tokens");
        qp_jsonw_i64(writer, request->max_tokens);
    }
    qp_wire_stops(writer, request, "stop");
    if (request->response_schema.text.n > 0) {
        openai_format(request, writer);
    }
}

/* Whether a part's MIME type begins with `prefix`, in lower case. */
static bool openai_mime_is(const quipu_part *part, const char *prefix)
{
    size_t n = strlen(prefix);

    return part->mime.n >= n && memcmp(part->mime.p, prefix, n) == 0;
}

/* Three kinds of attachment: image, audio, and any other file. "mp3" is the API's name for MPEG
 * audio; other subtypes, such as wav, are the same word. */
static void openai_data(const quipu_part *part, qp_jsonw *writer)
{
    qp_jsonw_object(writer);
    if (openai_mime_is(part, "image/")) {
        qp_wire_member(writer, "type", QUIPU_STR("image_url"));
        qp_wire_key(writer, "image_url");
        qp_jsonw_object(writer);
        qp_wire_key(writer, "url");
        qp_wire_data_url(writer, part);
    } else if (openai_mime_is(part, "audio/")) {
        quipu_str format = {part->mime.p + 6, part->mime.n - 6};

        qp_wire_member(writer, "type", QUIPU_STR("input_audio"));
        qp_wire_key(writer, "input_audio");
        qp_jsonw_object(writer);
        qp_wire_key(writer, "data");
        qp_base64_json(writer, part->data);
        qp_wire_member(writer, "format",
                       quipu_str_eq(format, QUIPU_STR("mpeg")) ? QUIPU_STR("mp3") : format);
    } else {
        qp_wire_member(writer, "type", QUIPU_STR("file"));
        qp_wire_key(writer, "file");
        qp_jsonw_object(writer);
        qp_wire_member(writer, "filename", QUIPU_STR("file"));
        qp_wire_key(writer, "file_data");
        qp_wire_data_url(writer, part);
    }
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* The content of a user's or system message: a string, which every compatible server understands,
 * or an array when there are attachments.
 * Other parts (calls, responses, thoughts) are left out. */
static void openai_said(const quipu_model_message *message, qp_jsonw *writer)
{
    bool data = false;

    for (size_t i = 0; i < message->parts.count; i++) {
        data = data || quipu_part_at(message->parts, i)->kind == QUIPU_PART_DATA;
    }
    qp_wire_key(writer, "content");
    if (!data) {
        qp_jsonw_str(writer, message->content);
        return;
    }
    qp_jsonw_array(writer);
    for (size_t i = 0; i < message->parts.count; i++) {
        if (quipu_part_at(message->parts, i)->kind == QUIPU_PART_DATA) {
            openai_data(quipu_part_at(message->parts, i), writer);
        } else if (quipu_part_at(message->parts, i)->kind == QUIPU_PART_TEXT) {
            qp_jsonw_object(writer);
            qp_wire_member(writer, "type", QUIPU_STR("text"));
            qp_wire_member(writer, "text", quipu_part_at(message->parts, i)->text);
            qp_jsonw_object_end(writer);
        }
    }
    qp_jsonw_array_end(writer);
}

/* Arguments are JSON inside a string in this format. Calls made while thinking cannot be
 * expressed. */
static void openai_calls(const quipu_model_message *message, qp_jsonw *writer)
{
    qp_wire_key(writer, "tool_calls");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < message->parts.count; i++) {
        const quipu_part *part = quipu_part_at(message->parts, i);

        if (part->kind != QUIPU_PART_CALL || part->thought) {
            continue;
        }
        qp_jsonw_object(writer);
        qp_wire_member(writer, "id", part->id);
        qp_wire_member(writer, "type", QUIPU_STR("function"));
        qp_wire_key(writer, "function");
        qp_jsonw_object(writer);
        qp_wire_member(writer, "name", part->name);
        qp_wire_member(writer, "arguments", part->json.text);
        qp_jsonw_object_end(writer);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* Thoughts, and calls made while thinking, have no place in this format; a message of nothing else
 * is left out. */
static void openai_assistant(const quipu_model_message *message, qp_jsonw *writer)
{
    bool calls = false;

    for (size_t i = 0; i < message->parts.count; i++) {
        /* One call that can be written is enough. */
        calls = calls || (quipu_part_at(message->parts, i)->kind == QUIPU_PART_CALL &&
                          !quipu_part_at(message->parts, i)->thought);
    }
    if (!calls && message->content.n == 0) {
        return;
    }
    qp_jsonw_object(writer);
    qp_wire_member(writer, "role", QUIPU_STR("assistant"));
    qp_wire_key(writer, "content");
    /* null where there are calls alone, as the API writes it itself. */
    if (message->content.n > 0) {
        qp_jsonw_str(writer, message->content);
    } else {
        qp_jsonw_null(writer);
    }
    if (calls) {
        openai_calls(message, writer);
    }
    qp_jsonw_object_end(writer);
}

/* A tool's message refers to the call that it answers; without that call the server would reject
 * the whole request, so it is left out. */
static void openai_message(const quipu_model_params *params, size_t at, qp_jsonw *writer)
{
    const quipu_model_message *message = quipu_model_message_at(params->messages, at);
    const quipu_part *call;

    if (message->role == QUIPU_ROLE_ASSISTANT) {
        openai_assistant(message, writer);
        return;
    }
    /* A response without its call, or to a call that could not be written, must be left out as
     * well. */
    if (message->role == QUIPU_ROLE_TOOL) {
        call = qp_wire_call_of(params, at);
        if (call == NULL || call->thought) {
            return;
        }
        qp_jsonw_object(writer);
        qp_wire_member(writer, "role", QUIPU_STR("tool"));
        qp_wire_member(writer, "tool_call_id", call->id);
        qp_wire_member(writer, "content", message->content);
        qp_jsonw_object_end(writer);
        return;
    }
    qp_jsonw_object(writer);
    qp_wire_member(writer, "role",
                   message->role == QUIPU_ROLE_SYSTEM ? QUIPU_STR("system") : QUIPU_STR("user"));
    openai_said(message, writer);
    qp_jsonw_object_end(writer);
}

/* The body. include_usage makes a stream end with a usage chunk. */
static void openai_write(const quipu_model_params *params, bool own, qp_jsonw *writer)
{
    qp_jsonw_object(writer);
    qp_wire_member(writer, "model", params->model);
    if (params->stream) {
        qp_wire_key(writer, "stream");
        qp_jsonw_bool(writer, true);
        qp_wire_key(writer, "stream_options");
        qp_jsonw_raw(writer, QUIPU_STR("{\"include_usage\":true}"));
    }
    openai_settings(params->request, own, writer);
    if (qp_wire_offers(params->request)) {
        openai_tools(params->request, writer);
        openai_choice(params->request, writer);
    }
    qp_wire_key(writer, "messages");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < params->messages.count; i++) {
        openai_message(params, i, writer);
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* finish_reason; "function_call" belongs to the older form of calls. */
static const qp_wire_reason openai_reasons[] = {{"stop", QUIPU_FINISH_STOP},
                                                {"length", QUIPU_FINISH_LENGTH},
                                                {"tool_calls", QUIPU_FINISH_TOOLS},
                                                {"function_call", QUIPU_FINISH_TOOLS},
                                                {"content_filter", QUIPU_FINISH_FILTER},
                                                {NULL, QUIPU_FINISH_OTHER}};

/* The counts of one request, cached and reasoning tokens included. The usage chunk has no choices
 * and comes behind the finish reason. */
static quipu_status openai_usage(qp_wire_reader *reader, qp_json_node usage, quipu_error *reterr)
{
    if (qp_json_kind_of(usage) != QP_JSON_OBJECT) {
        return QUIPU_OK;
    }
    reader->usage.input = qp_wire_tokens(usage, "prompt_tokens");
    reader->usage.output = qp_wire_tokens(usage, "completion_tokens");
    reader->usage.total = qp_wire_tokens(usage, "total_tokens");
    reader->usage.cached =
        qp_wire_tokens(qp_wire_get(usage, "prompt_tokens_details"), "cached_tokens");
    reader->usage.thoughts =
        qp_wire_tokens(qp_wire_get(usage, "completion_tokens_details"), "reasoning_tokens");
    return qp_wire_put_usage(reader, reterr);
}

/* A call or a piece of one; `call` has no document for the old function_call form.
 * Pieces of one call have the same index, where the server sends one. */
static quipu_status openai_call(qp_wire_reader *reader, qp_json_node call, qp_json_node function,
                                quipu_error *reterr)
{
    qp_json_node arguments = qp_wire_get(function, "arguments");
    quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta),
                         .kind = QUIPU_DELTA_CALL,
                         .id = qp_wire_text(reader, call, "id"),
                         .name = qp_wire_text(reader, function, "name"),
                         .text = qp_wire_text(reader, function, "arguments")};

    delta.has_index = qp_json_int64(qp_wire_get(call, "index"), &delta.index) == QP_JSON_EXACT;
    if (qp_json_kind_of(arguments) == QP_JSON_OBJECT) {
        delta.text = qp_json_raw(arguments); /* some servers send the object itself */
    }
    return qp_wire_put(reader, &delta, reterr);
}

/* The delta of a stream or the message of a whole answer: both have the same members. */
static quipu_status openai_delta(qp_wire_reader *reader, qp_json_node delta, quipu_error *reterr)
{
    enum { CONTENT, REFUSAL, REASONING, THINKING, CALLS, FUNCTION, FIELDS };
    static const quipu_str keys[FIELDS] = {{"content", 7},     {"refusal", 7},
                                           {"reasoning", 9},   {"reasoning_content", 17},
                                           {"tool_calls", 10}, {"function_call", 13}};
    static const qp_wire_keys wanted = {keys, FIELDS,
                                        QP_WIRE_LENGTH(7) | QP_WIRE_LENGTH(9) | QP_WIRE_LENGTH(10) |
                                            QP_WIRE_LENGTH(13) | QP_WIRE_LENGTH(17)};
    qp_json_node fields[FIELDS];
    quipu_status status = QUIPU_OK;
    quipu_str thought;
    qp_json_iter iter;

    qp_wire_fields(delta, &wanted, fields);
    if (fields[THINKING].doc != NULL || fields[REASONING].doc != NULL) {
        /* Servers that send both members send the same thought twice. */
        thought = qp_wire_text_of(reader, fields[THINKING]);
        thought = thought.n > 0 ? thought : qp_wire_text_of(reader, fields[REASONING]);
        status = qp_wire_put_text(reader, QUIPU_DELTA_THOUGHT, thought, reterr);
    }
    for (size_t i = CONTENT; i <= REFUSAL && status == QUIPU_OK; i++) {
        if (fields[i].doc != NULL) {
            status = qp_wire_put_text(reader, QUIPU_DELTA_TEXT, qp_wire_text_of(reader, fields[i]),
                                      reterr);
        }
    }
    /* Calls come after the text of the same delta. function_call is the older form of a single
     * call. */
    iter = qp_json_each(fields[CALLS]);
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        status = openai_call(reader, iter.value, qp_wire_get(iter.value, "function"), reterr);
    }
    if (status == QUIPU_OK && qp_json_kind_of(fields[FUNCTION]) == QP_JSON_OBJECT) {
        status = openai_call(reader, (qp_json_node){NULL, 0}, fields[FUNCTION], reterr);
    }
    return status;
}

/* One choice; only the first was asked for, and some gateways send more. Its text is in "delta"
 * when streaming, else in "message". */
static quipu_status openai_choice_read(qp_wire_reader *reader, qp_json_node choice,
                                       quipu_error *reterr)
{
    enum { DELTA, INDEX, REASON, MESSAGE, FIELDS };
    static const quipu_str keys[FIELDS] = {
        {"delta", 5}, {"index", 5}, {"finish_reason", 13}, {"message", 7}};
    static const qp_wire_keys wanted = {keys, FIELDS,
                                        QP_WIRE_LENGTH(5) | QP_WIRE_LENGTH(7) | QP_WIRE_LENGTH(13)};
    qp_json_node fields[FIELDS];
    quipu_status status;

    qp_wire_fields(choice, &wanted, fields);
    /* Only the first choice was asked for; some gateways send more. */
    if (qp_wire_is_other(fields[INDEX])) {
        return QUIPU_OK;
    }
    status = openai_delta(reader, fields[fields[DELTA].doc != NULL ? DELTA : MESSAGE], reterr);
    if (status == QUIPU_OK && qp_json_kind_of(fields[REASON]) == QP_JSON_STRING) {
        status = qp_wire_put_finish(reader, qp_wire_finish(openai_reasons, fields[REASON]), reterr);
    }
    return status;
}

/* An event of a stream, or a whole answer. */
static quipu_status openai_chunk(qp_wire_reader *reader, qp_json_node root, quipu_error *reterr)
{
    /* The last three in the order of qp_wire_open(). */
    enum { CHOICES, USAGE, ERROR, ID, MODEL, FIELDS };
    static const quipu_str keys[FIELDS] = {
        {"choices", 7}, {"usage", 5}, {"error", 5}, {"id", 2}, {"model", 5}};
    /* Every chunk repeats the id and the model; the first one is enough. */
    static const qp_wire_keys later = {keys, ID, QP_WIRE_LENGTH(5) | QP_WIRE_LENGTH(7)};
    static const qp_wire_keys first = {keys, FIELDS,
                                       QP_WIRE_LENGTH(2) | QP_WIRE_LENGTH(5) | QP_WIRE_LENGTH(7)};
    qp_json_node fields[FIELDS];
    quipu_status status;
    qp_json_iter iter;

    qp_wire_fields(root, reader->started ? &later : &first, fields);
    status = qp_wire_open(reader, root, &fields[ERROR], reterr);
    iter = qp_json_each(fields[CHOICES]);
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        status = openai_choice_read(reader, iter.value, reterr);
    }
    return status == QUIPU_OK ? openai_usage(reader, fields[USAGE], reterr) : status;
}

/* One event; "[DONE]" ends the stream and is not JSON. "[DONE]" sets `ended`, behind which wire.c
 * ignores every byte. */
static quipu_status openai_event(qp_wire_reader *reader, const qp_sse_event *event,
                                 quipu_error *reterr)
{
    qp_json_node root = {NULL, 0};
    quipu_status status;

    if (event->data.n == 6 && memcmp(event->data.p, "[DONE]", 6) == 0) {
        reader->ended = true;
        return QUIPU_OK;
    }
    status = qp_wire_parse(reader, event->data, &root, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Some servers name the event and send the error without its object. */
    if (event->type.n == 5 && memcmp(event->type.p, "error", 5) == 0) {
        return qp_wire_error(event->data, 0, reterr);
    }
    return openai_chunk(reader, root, reterr);
}

/* ---- models and embeddings ----------------------------------------------------------------- */

/* All models come in one page.
 * `page` is always empty: the list has no next page. */
static void openai_list_path(quipu_str page, qp_buf *url)
{
    (void)page;
    qp_buf_puts(url, "/models");
}

/* One page with everything; a list without next page. Servers name the context's length
 * differently. */
static quipu_status openai_list_read(qp_json_node root, qp_wire_list *list)
{
    qp_json_iter iter = qp_json_each(qp_wire_get(root, "data"));
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && qp_json_next(&iter)) {
        int64_t context = qp_wire_count(iter.value, "context_length");
        quipu_model_info info = {.context_tokens = context > 0 ? context : 0, .name = {"", 0}};

        if (context <= 0) {
            context = qp_wire_count(iter.value, "max_model_len"); /* vLLM's name for it */
            info.context_tokens = context > 0 ? context : 0;
        }
        status = qp_wire_list_text(list, iter.value, "id", &info.id);
        if (status == QUIPU_OK && info.id.n > 0) {
            status = qp_wire_list_add(list, &info);
        }
    }
    return status;
}

/* The model's name is in the body. */
static quipu_status openai_embed_path(quipu_str model, qp_buf *url, quipu_error *reterr)
{
    (void)model;
    (void)reterr;
    qp_buf_puts(url, "/embeddings");
    return QUIPU_OK;
}

/* Floats as JSON numbers: base64 would be smaller, but not every server supports it. */
static void openai_embed_write(const quipu_embed_request *request, qp_jsonw *writer)
{
    qp_jsonw_object(writer);
    qp_wire_member(writer, "model", request->model);
    qp_wire_member(writer, "encoding_format", QUIPU_STR("float"));
    qp_wire_key(writer, "input");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < request->text_count; i++) {
        qp_jsonw_str(writer, request->texts[i]);
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
}

/* Vectors by their "index"; usage counts input tokens only. */
static quipu_status openai_embed_read(qp_json_node root, quipu_arena *arena, quipu_embeddings *ret,
                                      quipu_error *reterr)
{
    qp_json_node reported = qp_wire_get(root, "usage");
    quipu_model_usage *usage = quipu_arena_alloc(arena, sizeof(*usage));

    if (usage == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for the usage");
    }
    *usage = (quipu_model_usage)QUIPU_MODEL_USAGE_INIT;
    /* -1 where the server reports none. */
    usage->input = qp_wire_tokens(reported, "prompt_tokens");
    usage->total = qp_wire_tokens(reported, "total_tokens");
    ret->usage = usage;
    return qp_wire_vectors(qp_wire_get(root, "data"), "embedding", arena, ret, reterr);
}

const qp_wire qp_wire_openai = {.id = "openai",
                                .base_url = "https://api.openai.com/v1",
                                .key_env = "OPENAI_API_KEY",
                                .auth = "Authorization: Bearer ",
                                .path = openai_path,
                                .write = openai_write,
                                .event = openai_event,
                                .whole = openai_chunk,
                                .list_path = openai_list_path,
                                .list_read = openai_list_read,
                                .embed_path = openai_embed_path,
                                .embed_write = openai_embed_write,
                                .embed_read = openai_embed_read};
