/* Gemini's generateContent: https://ai.google.dev/api/generate-content. A stream is a sequence of
 * complete answers, each with the parts that are new; a tool call always comes in one piece.
 *
 * A request:
 *
 *   {"generationConfig": {"temperature": 0.2}, "systemInstruction": {"parts": [{"text": "..."}]},
 *    "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {...}}]}],
 *    "contents": [{"role": "user", "parts": [{"text": "..."}]},
 *                 {"role": "model", "parts": [
 *                     {"functionCall": {"id": "call_1", "name": "f", "args": {...}},
 *                      "thoughtSignature": "..."}]},
 *                 {"role": "user", "parts": [
 *                     {"functionResponse": {"id": "call_1", "name": "f", "response": {...}}}]}]}
 *
 * An event of its stream:
 *
 *   {"responseId": "...", "modelVersion": "m", "usageMetadata": {"promptTokenCount": 12},
 *    "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Hel"}]},
 *                    "finishReason": "STOP"}]}
 *
 * Owns: the constant table qp_wire_gemini. Called by: client.c for requests, wire.c for answers.
 * Writers have no errors of their own: a failure sticks to the JSON writer's buffer.
 * Locks: none. */
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "provider/wire.h"

/* ---- requests ------------------------------------------------------------------------------ */

/* The model's name becomes part of the path, so only characters that need no escape there are
 * allowed. A '/' or '?' in the name would otherwise choose another method of the API. */
static quipu_status gemini_model(quipu_str model, qp_buf *url, quipu_error *reterr)
{
    static const char prefix[] = "models/";

    if (model.n >= sizeof(prefix) - 1 && memcmp(model.p, prefix, sizeof(prefix) - 1) == 0) {
        model = (quipu_str){model.p + sizeof(prefix) - 1, model.n - (sizeof(prefix) - 1)};
    }
    for (size_t i = 0; i < model.n; i++) {
        char c = model.p[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

        if (!plain && (c == '\0' || strchr("-._@", c) == NULL)) {
            return qp_error_set(reterr, QUIPU_INVALID,
                                "a Gemini model's name has letters, digits and -._@ only");
        }
    }
    /* "models/" alone, too: the prefix was cut off above. */
    if (model.n == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a request to Gemini needs a model");
    }
    qp_buf_puts(url, "/v1beta/models/");
    qp_buf_put(url, model);
    return QUIPU_OK;
}

/* Streaming is another method of the API, not a member of the body.
 * alt=sse makes the stream one of server-sent events; without it the API sends one array. */
static quipu_status gemini_path(const quipu_model_params *params, qp_buf *url, quipu_error *reterr)
{
    quipu_status status = gemini_model(params->model, url, reterr);

    qp_buf_puts(url, params->stream ? ":streamGenerateContent?alt=sse" : ":generateContent");
    return status;
}

/* All functions are declarations of one tool.
 * A tool without a name could not be called, and is left out. */
static void gemini_tools(const quipu_model_request *request, qp_jsonw *writer)
{
    qp_wire_key(writer, "tools");
    qp_jsonw_array(writer);
    qp_jsonw_object(writer);
    qp_wire_key(writer, "functionDeclarations");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < request->tools.count; i++) {
        const quipu_tool *tool = quipu_tool_at(request->tools, i);

        if (tool->name.n == 0) {
            continue;
        }
        qp_jsonw_object(writer);
        qp_wire_tool(writer, tool, "parametersJsonSchema");
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
    qp_jsonw_array_end(writer);
}

/* The tool choice, where the request makes one. A named function is the mode ANY with one allowed
 * name. Written only beside tools. */
static void gemini_choice(const quipu_model_request *request, qp_jsonw *writer)
{
    /* By quipu_tool_choice; NAMED is ANY with one name. */
    static const char *const modes[] = {NULL, "AUTO", "NONE", "ANY", "ANY"};

    if (request->choice == QUIPU_CHOICE_DEFAULT) {
        return;
    }
    qp_wire_key(writer, "toolConfig");
    qp_jsonw_object(writer);
    qp_wire_key(writer, "functionCallingConfig");
    qp_jsonw_object(writer);
    qp_wire_member(writer, "mode", quipu_cstr(modes[request->choice]));
    if (request->choice == QUIPU_CHOICE_NAMED) {
        qp_wire_key(writer, "allowedFunctionNames");
        qp_jsonw_array(writer);
        qp_jsonw_str(writer, request->choice_name);
        qp_jsonw_array_end(writer);
    }
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* A member only when the request gives it.
 * Members that are not given keep the API's own defaults. */
static void gemini_number(qp_jsonw *writer, bool given, const char *key, int64_t value)
{
    if (given) {
        qp_wire_key(writer, key);
        qp_jsonw_i64(writer, value);
    }
}

/* generationConfig: sampling, limits, thinking, and the schema of a structured answer. Written even
 * where it is empty, so that requests begin alike. */
static void gemini_settings(const quipu_model_request *request, qp_jsonw *writer)
{
    qp_wire_key(writer, "generationConfig");
    qp_jsonw_object(writer);
    qp_wire_sampling(writer, request, "topP", "seed");
    gemini_number(writer, request->max_tokens > 0, "maxOutputTokens", request->max_tokens);
    qp_wire_stops(writer, request, "stopSequences");
    if (request->thinking_tokens > 0) {
        qp_wire_key(writer, "thinkingConfig");
        qp_jsonw_object(writer);
        qp_wire_key(writer, "includeThoughts");
        qp_jsonw_bool(writer, true);
        gemini_number(writer, true, "thinkingBudget", request->thinking_tokens);
        qp_jsonw_object_end(writer);
    }
    if (request->response_schema.text.n > 0) {
        qp_wire_member(writer, "responseMimeType", QUIPU_STR("application/json"));
        qp_wire_key(writer, "responseJsonSchema");
        qp_jsonw_raw(writer, request->response_schema.text);
    }
    qp_jsonw_object_end(writer);
}

/* A result must be an object in this API; anything else is wrapped as {"result": value}.
 * Only the first byte is looked at: the text is JSON already. */
static void gemini_result(const quipu_part *part, qp_jsonw *writer)
{
    quipu_str json = part->json.text;
    size_t at = 0;

    while (at < json.n && json.p[at] != '\0' && strchr(" \t\r\n", json.p[at]) != NULL) {
        at++;
    }
    if (at < json.n && json.p[at] == '{') {
        qp_jsonw_raw(writer, json);
        return;
    }
    qp_jsonw_object(writer);
    qp_wire_key(writer, "result");
    qp_jsonw_raw(writer, json);
    qp_jsonw_object_end(writer);
}

/* functionCall and functionResponse; the id relates them.
 * The API also relates them by name; the id distinguishes two calls of one function. */
static void gemini_function(const quipu_part *part, qp_jsonw *writer)
{
    bool call = part->kind == QUIPU_PART_CALL;

    qp_wire_key(writer, call ? "functionCall" : "functionResponse");
    qp_jsonw_object(writer);
    qp_wire_member(writer, "id", part->id);
    qp_wire_member(writer, "name", part->name);
    qp_wire_key(writer, call ? "args" : "response");
    if (call) {
        qp_jsonw_raw(writer, part->json.text);
    } else {
        gemini_result(part, writer);
    }
    qp_jsonw_object_end(writer);
}

/* One part, with the thought signature that must be sent back. Signatures are bytes here and base64
 * in JSON. */
static void gemini_part(const quipu_part *part, qp_jsonw *writer)
{
    if (part->kind == QUIPU_PART_OTHER) {
        qp_jsonw_raw(writer, part->json.text); /* with its signature, if it has one */
        return;
    }
    qp_jsonw_object(writer);
    /* Exactly one member of the part says what it is. */
    switch (part->kind) {
    case QUIPU_PART_TEXT:
    case QUIPU_PART_THOUGHT:
        qp_wire_member(writer, "text", part->text);
        break;
    case QUIPU_PART_CALL:
    case QUIPU_PART_RESPONSE:
        gemini_function(part, writer);
        break;
    case QUIPU_PART_DATA:
        qp_wire_key(writer, "inlineData");
        qp_jsonw_object(writer);
        qp_wire_member(writer, "mimeType", part->mime);
        qp_wire_key(writer, "data");
        qp_base64_json(writer, part->data);
        qp_jsonw_object_end(writer);
        break;
    case QUIPU_PART_OTHER:
        break; /* written above */
    }
    if (part->kind == QUIPU_PART_THOUGHT || (part->kind == QUIPU_PART_CALL && part->thought)) {
        qp_wire_key(writer, "thought");
        qp_jsonw_bool(writer, true);
    }
    if (part->signature.n > 0) {
        qp_wire_key(writer, "thoughtSignature");
        qp_base64_json(writer, part->signature);
    }
    qp_jsonw_object_end(writer);
}

/* Consecutive messages of one side are one content: the API expects the sides to alternate. Tool
 * responses count as the user's side, as in the API's own examples.
 * `before` is the side of the open content, -1 while none is open. */
static void gemini_contents(const quipu_model_params *params, size_t from, qp_jsonw *writer)
{
    int before = -1;

    qp_wire_key(writer, "contents");
    qp_jsonw_array(writer);
    for (size_t i = from; i < params->messages.count; i++) {
        const quipu_model_message *message = quipu_model_message_at(params->messages, i);
        int model = message->role == QUIPU_ROLE_ASSISTANT ? 1 : 0;

        if (model != before) {
            if (before >= 0) {
                qp_jsonw_array_end(writer);
                qp_jsonw_object_end(writer);
            }
            before = model;
            qp_jsonw_object(writer);
            qp_wire_member(writer, "role", model ? QUIPU_STR("model") : QUIPU_STR("user"));
            qp_wire_key(writer, "parts");
            qp_jsonw_array(writer);
        }
        for (size_t p = 0; p < message->parts.count; p++) {
            gemini_part(quipu_part_at(message->parts, p), writer);
        }
    }
    if (before >= 0) {
        qp_jsonw_array_end(writer);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* The body; system messages at the beginning become systemInstruction.
 * `own` is for formats that differ between the maker's server and compatible ones. */
static void gemini_write(const quipu_model_params *params, bool own, qp_jsonw *writer)
{
    size_t system = 0;

    (void)own;
    while (system < params->messages.count &&
           quipu_model_message_at(params->messages, system)->role == QUIPU_ROLE_SYSTEM) {
        system++;
    }
    qp_jsonw_object(writer);
    gemini_settings(params->request, writer);
    if (system > 0) {
        qp_wire_key(writer, "systemInstruction");
        qp_jsonw_object(writer);
        qp_wire_key(writer, "parts");
        qp_jsonw_array(writer);
        for (size_t i = 0; i < system; i++) {
            qp_jsonw_object(writer);
            qp_wire_member(writer, "text", quipu_model_message_at(params->messages, i)->content);
            qp_jsonw_object_end(writer);
        }
        qp_jsonw_array_end(writer);
        qp_jsonw_object_end(writer);
    }
    if (qp_wire_offers(params->request)) {
        gemini_tools(params->request, writer);
        gemini_choice(params->request, writer);
    }
    gemini_contents(params, system, writer);
    qp_jsonw_object_end(writer);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* finishReason; blocked prompts have a blockReason instead. The last row is for words that this
 * version does not know. */
static const qp_wire_reason gemini_reasons[] = {
    {"STOP", QUIPU_FINISH_STOP},        {"MAX_TOKENS", QUIPU_FINISH_LENGTH},
    {"SAFETY", QUIPU_FINISH_FILTER},    {"RECITATION", QUIPU_FINISH_FILTER},
    {"BLOCKLIST", QUIPU_FINISH_FILTER}, {"PROHIBITED_CONTENT", QUIPU_FINISH_FILTER},
    {"SPII", QUIPU_FINISH_FILTER},      {"IMAGE_SAFETY", QUIPU_FINISH_FILTER},
    {NULL, QUIPU_FINISH_OTHER}};

/* Thoughts are counted apart from candidates there; quipu_model_usage.output includes both. Missing
 * counts are -1, which answer.c takes as not reported. */
static quipu_status gemini_usage(qp_wire_reader *reader, qp_json_node usage, quipu_error *reterr)
{
    int64_t said = qp_wire_tokens(usage, "candidatesTokenCount");
    int64_t thought = qp_wire_tokens(usage, "thoughtsTokenCount");

    if (qp_json_kind_of(usage) != QP_JSON_OBJECT) {
        return QUIPU_OK;
    }
    reader->usage.input = qp_wire_tokens(usage, "promptTokenCount");
    reader->usage.cached = qp_wire_tokens(usage, "cachedContentTokenCount");
    reader->usage.total = qp_wire_tokens(usage, "totalTokenCount");
    reader->usage.thoughts = thought;
    if (said >= 0 || thought >= 0) {
        reader->usage.output = (said > 0 ? said : 0) + (thought > 0 ? thought : 0);
    }
    return qp_wire_put_usage(reader, reterr);
}

/* A call is complete: arguments are an object, not text in pieces. One without a name is
 * skipped.
 * The id may be empty: not every model sends one. */
static quipu_status gemini_read_call(qp_wire_reader *reader, qp_json_node call, quipu_delta *delta,
                                     quipu_error *reterr)
{
    delta->kind = QUIPU_DELTA_CALL;
    delta->id = qp_wire_text(reader, call, "id");
    delta->name = qp_wire_text(reader, call, "name");
    delta->text = qp_json_raw(qp_wire_get(call, "args"));
    return delta->name.n > 0 ? qp_wire_put(reader, delta, reterr) : QUIPU_OK;
}

/* Whether a part without text and call has something else in it: code that ran, its result, an
 * image, a file. It is passed on as it is, to be kept and sent back unchanged. */
static bool gemini_is_other(qp_json_node part)
{
    qp_json_iter iter = qp_json_each(part);

    while (qp_json_next(&iter)) {
        if (!qp_json_text_is(iter.key, QUIPU_STR("text")) &&
            !qp_json_text_is(iter.key, QUIPU_STR("thought")) &&
            !qp_json_text_is(iter.key, QUIPU_STR("thoughtSignature"))) {
            return qp_json_kind_of(part) == QP_JSON_OBJECT;
        }
    }
    return false;
}

/* One part of an answer: text, thought or call, with its signature; or any other. */
static quipu_status gemini_read_part(qp_wire_reader *reader, qp_json_node part, quipu_error *reterr)
{
    /* Places in `fields`, in the order of `keys`; `wanted` has the lengths of the keys. */
    enum { TEXT, THOUGHT, SIGNATURE, CALL, FIELDS };
    static const quipu_str keys[FIELDS] = {
        {"text", 4}, {"thought", 7}, {"thoughtSignature", 16}, {"functionCall", 12}};
    static const qp_wire_keys wanted = {keys, FIELDS,
                                        QP_WIRE_LENGTH(4) | QP_WIRE_LENGTH(7) | QP_WIRE_LENGTH(12) |
                                            QP_WIRE_LENGTH(16)};
    qp_json_node fields[FIELDS];
    quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_TEXT};
    quipu_str signature;

    qp_wire_fields(part, &wanted, fields);
    /* Base64 of bytes that only the provider understands: kept, and sent back as they are. */
    signature = qp_wire_text_of(reader, fields[SIGNATURE]);
    if (signature.n > 0) {
        quipu_status status = qp_base64_read(signature, &reader->scratch, &delta.signature);

        if (status != QUIPU_OK) {
            return qp_error_set(reterr, status == QUIPU_INVALID ? QUIPU_CORRUPT : status,
                                "gemini sent a thought signature that cannot be read");
        }
    }
    delta.thought = qp_json_kind_of(fields[THOUGHT]) == QP_JSON_TRUE;
    /* A call comes before a text: a part has one of the two. */
    if (qp_json_kind_of(fields[CALL]) == QP_JSON_OBJECT) {
        return gemini_read_call(reader, fields[CALL], &delta, reterr);
    }
    delta.kind = delta.thought ? QUIPU_DELTA_THOUGHT : QUIPU_DELTA_TEXT;
    delta.thought = false; /* this flag is for calls only */
    delta.text = qp_wire_text_of(reader, fields[TEXT]);
    if (qp_json_kind_of(fields[TEXT]) == QP_JSON_NONE && gemini_is_other(part)) {
        delta = (quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta),
                              .kind = QUIPU_DELTA_PART,
                              .text = qp_json_raw(part)};
    }
    return delta.text.n > 0 || delta.signature.n > 0 ? qp_wire_put(reader, &delta, reterr)
                                                     : QUIPU_OK;
}

/* One candidate; only the first was asked for. The finish reason comes with the last parts, so that
 * it is passed on behind them. */
static quipu_status gemini_candidate(qp_wire_reader *reader, qp_json_node candidate,
                                     quipu_error *reterr)
{
    enum { CONTENT, REASON, INDEX, FIELDS };
    static const quipu_str keys[FIELDS] = {{"content", 7}, {"finishReason", 12}, {"index", 5}};
    static const qp_wire_keys wanted = {keys, FIELDS,
                                        QP_WIRE_LENGTH(5) | QP_WIRE_LENGTH(7) | QP_WIRE_LENGTH(12)};
    qp_json_node fields[FIELDS];
    quipu_status status = QUIPU_OK;
    qp_json_iter iter;

    qp_wire_fields(candidate, &wanted, fields);
    if (qp_wire_is_other(fields[INDEX])) {
        return QUIPU_OK;
    }
    iter = qp_json_each(qp_json_get(fields[CONTENT], QUIPU_STR("parts")));
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        status = gemini_read_part(reader, iter.value, reterr);
    }
    if (status != QUIPU_OK || qp_json_kind_of(fields[REASON]) != QP_JSON_STRING) {
        return status;
    }
    /* The model tried to call a tool and failed: an error rather than an answer without the
     * call. */
    if (qp_json_text_is(fields[REASON], QUIPU_STR("MALFORMED_FUNCTION_CALL"))) {
        quipu_str why = qp_wire_text(reader, candidate, "finishMessage");

        return qp_error_set(reterr, QUIPU_INVALID, "the model made a malformed tool call: %.*s",
                            (int)(why.n < 200 ? why.n : 200), why.p);
    }
    return qp_wire_put_finish(reader, qp_wire_finish(gemini_reasons, fields[REASON]), reterr);
}

/* An event of a stream or a whole answer: both are the same object, which is why one function reads
 * them. promptFeedback comes instead of candidates where the prompt itself was blocked. */
static quipu_status gemini_answer(qp_wire_reader *reader, qp_json_node root, quipu_error *reterr)
{
    /* The last three in the order of qp_wire_open(). */
    enum { CANDIDATES, USAGE, FEEDBACK, ERROR, ID, MODEL, FIELDS };
    static const quipu_str keys[FIELDS] = {{"candidates", 10},     {"usageMetadata", 13},
                                           {"promptFeedback", 14}, {"error", 5},
                                           {"responseId", 10},     {"modelVersion", 12}};
    /* Every event repeats the id and the model; the first one is enough. */
    static const qp_wire_keys later = {
        keys, ID, QP_WIRE_LENGTH(5) | QP_WIRE_LENGTH(10) | QP_WIRE_LENGTH(13) | QP_WIRE_LENGTH(14)};
    static const qp_wire_keys first = {keys, FIELDS,
                                       QP_WIRE_LENGTH(5) | QP_WIRE_LENGTH(10) | QP_WIRE_LENGTH(12) |
                                           QP_WIRE_LENGTH(13) | QP_WIRE_LENGTH(14)};
    qp_json_node fields[FIELDS];
    quipu_status status;
    qp_json_iter iter;

    qp_wire_fields(root, reader->started ? &later : &first, fields);
    status = qp_wire_open(reader, root, &fields[ERROR], reterr);
    iter = qp_json_each(fields[CANDIDATES]);
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        status = gemini_candidate(reader, iter.value, reterr);
    }
    if (status == QUIPU_OK && fields[FEEDBACK].doc != NULL &&
        qp_json_kind_of(qp_wire_get(fields[FEEDBACK], "blockReason")) == QP_JSON_STRING) {
        /* A blocked prompt is an answer without text, and no error. */
        status = qp_wire_put_finish(reader, QUIPU_FINISH_FILTER, reterr);
    }
    /* Every event has a running count of tokens; only the last one is final. */
    return status == QUIPU_OK && reader->stopped ? gemini_usage(reader, fields[USAGE], reterr)
                                                 : status;
}

/* One event: an answer like a whole one. The stream ends with its connection; the finish reason
 * says whether it was complete. */
static quipu_status gemini_event(qp_wire_reader *reader, const qp_sse_event *event,
                                 quipu_error *reterr)
{
    qp_json_node root = {NULL, 0};
    quipu_status status = qp_wire_parse(reader, event->data, &root, reterr);

    return status == QUIPU_OK ? gemini_answer(reader, root, reterr) : status;
}

/* ---- models and embeddings ----------------------------------------------------------------- */

/* Pages of models; `page` is the token from the page before.
 * 1000 is the largest page that the API gives. */
static void gemini_list_path(quipu_str page, qp_buf *url)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    qp_buf_puts(url, "/v1beta/models?pageSize=1000");
    if (page.n > 0) {
        qp_buf_puts(url, "&pageToken=");
    }
    /* The token is the server's: opaque bytes, which may mean something else in a query. */
    for (size_t i = 0; i < page.n; i++) {
        if (page.p[i] != '\0' && strchr(plain, page.p[i]) != NULL) {
            qp_buf_putc(url, page.p[i]);
        } else {
            qp_buf_printf(url, "%%%02X", (unsigned)(unsigned char)page.p[i]);
        }
    }
}

/* One page of models. Names begin with "models/", which the other calls add again. A model without
 * a name is skipped.
 * Limits that are missing or negative are 0, unknown. */
static quipu_status gemini_list_read(qp_json_node root, qp_wire_list *list)
{
    qp_json_iter iter = qp_json_each(qp_wire_get(root, "models"));
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && qp_json_next(&iter)) {
        int64_t context = qp_wire_count(iter.value, "inputTokenLimit");
        int64_t output = qp_wire_count(iter.value, "outputTokenLimit");
        quipu_model_info info = {.context_tokens = context > 0 ? context : 0,
                                 .output_tokens = output > 0 ? output : 0};

        status = qp_wire_list_text(list, iter.value, "name", &info.id);
        if (status == QUIPU_OK) {
            status = qp_wire_list_text(list, iter.value, "displayName", &info.name);
        }
        /* "models/" has 7 bytes. */
        if (info.id.n > 7 && memcmp(info.id.p, "models/", 7) == 0) {
            info.id = (quipu_str){info.id.p + 7, info.id.n - 7};
        }
        if (status == QUIPU_OK && info.id.n > 0) {
            status = qp_wire_list_add(list, &info);
        }
    }
    return status == QUIPU_OK ? qp_wire_list_text(list, root, "nextPageToken", &list->next)
                              : status;
}

/* One request for many texts. */
static quipu_status gemini_embed_path(quipu_str model, qp_buf *url, quipu_error *reterr)
{
    quipu_status status = gemini_model(model, url, reterr);

    qp_buf_puts(url, ":batchEmbedContents");
    return status;
}

/* Each of the texts repeats the model's name, with its prefix. A failed buffer of the name fails
 * the body as well, before anything is sent. */
static void gemini_embed_write(const quipu_embed_request *request, qp_jsonw *writer)
{
    qp_buf model;

    qp_buf_init(&model, request->model.n + sizeof("models/"));
    if (request->model.n < 7 || memcmp(request->model.p, "models/", 7) != 0) {
        qp_buf_puts(&model, "models/");
    }
    qp_buf_put(&model, request->model);
    if (qp_buf_status(&model) != QUIPU_OK) {
        qp_buf_fail(writer->buf, qp_buf_status(&model));
    }
    qp_jsonw_object(writer);
    qp_wire_key(writer, "requests");
    qp_jsonw_array(writer);
    for (size_t i = 0; i < request->text_count; i++) {
        qp_jsonw_object(writer);
        qp_wire_member(writer, "model", qp_buf_str(&model));
        qp_wire_key(writer, "content");
        qp_jsonw_object(writer);
        qp_wire_key(writer, "parts");
        qp_jsonw_array(writer);
        qp_jsonw_object(writer);
        qp_wire_member(writer, "text", request->texts[i]);
        qp_jsonw_object_end(writer);
        qp_jsonw_array_end(writer);
        qp_jsonw_object_end(writer);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
    qp_buf_free(&model);
}

/* One vector for each request, in their order. */
static quipu_status gemini_embed_read(qp_json_node root, quipu_arena *arena, quipu_embeddings *ret,
                                      quipu_error *reterr)
{
    return qp_wire_vectors(qp_wire_get(root, "embeddings"), "values", arena, ret, reterr);
}

const qp_wire qp_wire_gemini = {.id = "gemini",
                                .base_url = "https://generativelanguage.googleapis.com",
                                .key_env = "GEMINI_API_KEY",
                                .auth = "x-goog-api-key: ",
                                .path = gemini_path,
                                .write = gemini_write,
                                .event = gemini_event,
                                .whole = gemini_answer,
                                .list_path = gemini_list_path,
                                .list_read = gemini_list_read,
                                .embed_path = gemini_embed_path,
                                .embed_write = gemini_embed_write,
                                .embed_read = gemini_embed_read};
