/* Messages of chat programs as events of ADK, and the sessions that they belong to (chat.h).
 *
 * Called by: llm.c, openai_agents.c and langgraph.c, within the read transaction of run.c. Owns
 * nothing: texts lie in the source's buffers, which the next message and the next session reuse. On
 * return a message is a row as an append would make it; a failure has written nothing. */
#include "import/chat.h"

#include <assert.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"

/* ---- parts ------------------------------------------------------------------------------------
 */

/* The event that a message becomes, by the calls that write it:
 *
 *   {"id":…, "timestamp":…, "author":…, "modelVersion":…, "usageMetadata":{…},
 *    "content":{"role":…, "parts":[                       qp_chat_begin()
 *       {"text":…}                                        qp_chat_text(), "thought" for a thought
 *       {"functionCall":{"id","name","args"}}             qp_chat_call()
 *       {"functionResponse":{"id","name","response"}}     qp_chat_result()
 *       {"inlineData":{…}} or {"fileData":{…}}            qp_chat_bytes(), qp_chat_uri()
 *    ]}}                                                  qp_chat_end()
 *
 * The names are ADK's. A message without a time has that of its import. Tokens are written only
 * when the program counted both directions: half a count would be taken for the price of a whole
 * answer. The parts report no errors; the writer keeps the first one, and qp_chat_end() returns it.
 */
void qp_chat_begin(qp_chat *chat, qp_source *source, const qp_chat_said *said)
{
    qp_jsonw *json = &chat->json;

    assert(said->id.n > 0 && said->role != NULL);
    chat->source = source;
    qp_buf_reset(&source->buf);
    qp_jsonw_begin(json, &source->buf);
    qp_jsonw_object(json);
    qp_jsonw_put_text(json, "id", said->id);
    if (said->time.has) {
        qp_jsonw_put_time(json, "timestamp", said->time.v);
    }
    qp_jsonw_put_text(json, "author",
                      said->author.n > 0                 ? said->author
                      : strcmp(said->role, "model") == 0 ? QUIPU_STR("assistant")
                                                         : quipu_cstr(said->role));
    if (said->model.n > 0) {
        qp_jsonw_put_text(json, "modelVersion", said->model);
    }
    if (said->tokens_in.has && said->tokens_out.has && said->tokens_in.v >= 0 &&
        said->tokens_out.v >= 0) {
        qp_jsonw_key(json, QUIPU_STR("usageMetadata"));
        qp_jsonw_object(json);
        qp_jsonw_put_i64(json, "promptTokenCount", said->tokens_in.v);
        qp_jsonw_put_i64(json, "candidatesTokenCount", said->tokens_out.v);
        qp_jsonw_object_end(json);
    }
    qp_jsonw_key(json, QUIPU_STR("content"));
    qp_jsonw_object(json);
    qp_jsonw_put(json, "role", said->role);
    qp_jsonw_key(json, QUIPU_STR("parts"));
    qp_jsonw_array(json);
}

/* An empty text makes no part: an answer of tool calls alone has none, and a part without a text
 * would not be what the program showed. */
void qp_chat_text(qp_chat *chat, quipu_str text, bool thought)
{
    if (text.n > 0) {
        qp_jsonw_object(&chat->json);
        qp_jsonw_put_text(&chat->json, "text", text);
        if (thought) {
            qp_jsonw_put_bool(&chat->json, "thought", true);
        }
        qp_jsonw_object_end(&chat->json);
    }
}

/* Whether a text is a JSON object, which then stands in the event as it is. The first character is
 * looked at before the parser: most results are prose, and a check of megabytes of prose would cost
 * the import its speed. */
static bool chat_is_object(quipu_str text)
{
    static const char blanks[] = {' ', '\t', '\r', '\n'};
    size_t at = 0;

    while (at < text.n && memchr(blanks, text.p[at], sizeof(blanks)) != NULL) {
        at++;
    }
    return at < text.n && text.p[at] == '{' && qp_json_check(text, NULL, NULL) == QUIPU_OK;
}

/* Begins a call or a response: a model's id for it, and the tool's name, which ADK always has. The
 * part stays open until chat_tool_end(). */
static void chat_tool(qp_chat *chat, const char *kind, quipu_str id, quipu_str name)
{
    qp_jsonw_object(&chat->json);
    qp_jsonw_key(&chat->json, quipu_cstr(kind));
    qp_jsonw_object(&chat->json);
    if (id.n > 0) {
        qp_jsonw_put_text(&chat->json, "id", id);
    }
    qp_jsonw_put_text(&chat->json, "name", name.n > 0 ? name : QUIPU_STR("tool"));
}

/* Ends it with its value. ADK's `args` and `response` are always objects: any other value stands in
 * an object, under the name `inner`. An absent value leaves that object empty. */
static void chat_tool_end(qp_chat *chat, const char *member, const char *inner, quipu_str value)
{
    qp_jsonw *json = &chat->json;

    qp_jsonw_key(json, quipu_cstr(member));
    if (chat_is_object(value)) {
        qp_jsonw_raw(json, value);
    } else {
        qp_jsonw_object(json);
        if (value.p != NULL) {
            qp_jsonw_put_text(json, inner, value);
        }
        qp_jsonw_object_end(json);
    }
    qp_jsonw_object_end(json);
    qp_jsonw_object_end(json);
}

/* Programs write a call without arguments as an empty text; ADK's form of it is an empty object. */
void qp_chat_call(qp_chat *chat, quipu_str id, quipu_str name, quipu_str arguments)
{
    chat_tool(chat, "functionCall", id, name);
    chat_tool_end(chat, "args", "input", arguments.n > 0 ? arguments : QUIPU_STR("{}"));
}

/* The store pairs a result with its call by `id`, so that it stays as the model gave it. */
void qp_chat_result(qp_chat *chat, quipu_str id, quipu_str name, quipu_str text)
{
    chat_tool(chat, "functionResponse", id, name);
    chat_tool_end(chat, "response", "result", text);
}

/* A text is the result itself; of a list of one text block its text; other JSON stays as it is. */
void qp_chat_result_json(qp_chat *chat, quipu_str id, quipu_str name, qp_json_node result)
{
    qp_json_node only = qp_json_count(result) == 1 ? qp_json_at(result, 0) : result;
    const quipu_str inner = qp_chat_member(chat->source, only, "text");

    if (qp_json_kind_of(result) == QP_JSON_STRING) {
        qp_chat_result(chat, id, name, qp_chat_string(chat->source, result));
    } else if (qp_json_kind_of(result) == QP_JSON_ARRAY && inner.p != NULL) {
        qp_chat_result(chat, id, name, inner);
    } else {
        qp_chat_result(chat, id, name, qp_json_raw(result));
    }
}

/* Begins a part of media. */
static void chat_media(qp_chat *chat, const char *kind, quipu_str mime)
{
    qp_jsonw_object(&chat->json);
    qp_jsonw_key(&chat->json, quipu_cstr(kind));
    qp_jsonw_object(&chat->json);
    if (mime.n > 0) {
        qp_jsonw_put_text(&chat->json, "mimeType", mime);
    }
}

/* Bytes go straight from the row into the event as base64: no copy of an image lies between. */
void qp_chat_bytes(qp_chat *chat, quipu_str mime, quipu_bytes bytes)
{
    chat_media(chat, "inlineData", mime);
    qp_jsonw_key(&chat->json, QUIPU_STR("data"));
    qp_base64_json(&chat->json, bytes);
    qp_jsonw_object_end(&chat->json);
    qp_jsonw_object_end(&chat->json);
}

/* "data:image/png;base64,…" is media inside of the message, any other address a file elsewhere. The
 * data is base64 already and is not decoded. A data address without ";base64," is kept as an
 * address: inlineData holds base64 only. */
void qp_chat_uri(qp_chat *chat, quipu_str mime, quipu_str uri)
{
    static const char mark[] = ";base64,";
    const size_t n = sizeof(mark) - 1;
    size_t at = 5;

    if (uri.n == 0) {
        return;
    }
    while (uri.n > n && at + n <= uri.n && memcmp(uri.p + at, mark, n) != 0) {
        at++;
    }
    if (uri.n > 5 && memcmp(uri.p, "data:", 5) == 0 && at + n <= uri.n) {
        chat_media(chat, "inlineData", (quipu_str){uri.p + 5, at - 5});
        qp_jsonw_put_text(&chat->json, "data", (quipu_str){uri.p + at + n, uri.n - at - n});
    } else {
        chat_media(chat, "fileData", mime);
        qp_jsonw_put_text(&chat->json, "fileUri", uri);
    }
    qp_jsonw_object_end(&chat->json);
    qp_jsonw_object_end(&chat->json);
}

/* Without memory the text is absent and the message fails at its end, in qp_chat_end(). Callers can
 * therefore write a dozen members in a row without a check of each. */
quipu_str qp_chat_string(qp_source *source, qp_json_node node)
{
    quipu_str text = {NULL, 0};
    quipu_status status = QUIPU_OK;

    if (qp_json_kind_of(node) == QP_JSON_STRING) {
        status = qp_json_text(node, &source->row, &text, NULL);
    }
    if (status != QUIPU_OK) {
        source->text_status = status;
    }
    return text;
}

quipu_str qp_chat_member(qp_source *source, qp_json_node object, const char *name)
{
    return qp_chat_string(source, qp_json_get(object, quipu_cstr(name)));
}

/* One block of content: by the members that it has, since each API names its types otherwise. The
 * order decides where a block has several of them: a type that settles the matter comes before
 * members that only hint, and a block that nobody here knows is kept as the text of its JSON, so
 * that an import loses nothing that a later version could read. */
static void chat_block(qp_chat *chat, qp_json_node block)
{
    qp_source *source = chat->source;
    const quipu_str type = qp_chat_member(source, block, "type");
    const qp_json_node image = qp_json_get(block, QUIPU_STR("image_url"));
    const quipu_str text = qp_chat_member(source, block, "text");

    if (qp_json_kind_of(block) == QP_JSON_STRING) {
        qp_chat_text(chat, qp_chat_string(source, block), false);
    } else if (quipu_str_eq(type, QUIPU_STR("thinking"))) {
        qp_chat_text(chat, qp_chat_member(source, block, "thinking"), true);
    } else if (quipu_str_eq(type, QUIPU_STR("tool_use")) ||
               quipu_str_eq(type, QUIPU_STR("tool_call"))) {
        return; /* LangChain has them once more as the message's tool_calls */
    } else if (qp_json_kind_of(image) == QP_JSON_STRING) {
        qp_chat_uri(chat, (quipu_str){NULL, 0}, qp_chat_member(source, block, "image_url"));
    } else if (qp_json_kind_of(image) == QP_JSON_OBJECT) {
        qp_chat_uri(chat, (quipu_str){NULL, 0}, qp_chat_member(source, image, "url"));
    } else if (text.p != NULL) {
        qp_chat_text(chat, text, false);
    } else if (qp_chat_member(source, block, "refusal").p != NULL) {
        qp_chat_text(chat, qp_chat_member(source, block, "refusal"), false);
    } else if (qp_json_kind_of(block) != QP_JSON_NULL) {
        qp_chat_text(chat, qp_json_raw(block), false);
    }
}

/* A message without the member has no parts; its calls, if it has any, are written behind. */
void qp_chat_content(qp_chat *chat, qp_json_node content)
{
    qp_json_iter each = qp_json_each(content);

    if (qp_json_kind_of(content) == QP_JSON_ARRAY) {
        while (qp_json_next(&each)) {
            chat_block(chat, each.value);
        }
    } else if (qp_json_kind_of(content) != QP_JSON_NONE) {
        chat_block(chat, content);
    }
}

/* The same way as every event: through the codec, into a row. The failure of any part before shows
 * here: those of memory and of size in the writer, those of texts in `text_status`. */
quipu_status qp_chat_end(qp_chat *chat, qp_message_new *ret, quipu_error *reterr)
{
    qp_source *source = chat->source;
    quipu_status status;

    qp_jsonw_array_end(&chat->json);
    qp_jsonw_object_end(&chat->json);
    qp_jsonw_object_end(&chat->json);
    status = qp_jsonw_end(&chat->json);
    status = status == QUIPU_OK ? source->text_status : status;
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status,
                            status == QUIPU_INVALID ? "a text is not UTF-8"
                                                    : "the message is too large");
    }
    return qp_source_event(source, ret, reterr);
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* A time that cannot be read is an error rather than no time: the session would begin on the day of
 * its import, and the second import of the file would not find it again. */
quipu_status qp_chat_time(quipu_str text, ent_opt_time *ret_time, quipu_error *reterr)
{
    *ret_time = (ent_opt_time){.has = text.n > 0};
    if (text.n > 0 && qp_adk_time(text, &ret_time->v) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "a time cannot be read");
    }
    return QUIPU_OK;
}

/* Messages keep the order in which they are added: the time of their place is the same for all. The
 * row of the place is the index of the item, which grows: it decides the order within the session.
 * `count` of the session follows when all places are sorted, in qp_source_open(). */
quipu_status qp_chat_add(qp_source *source, size_t session, const qp_source_item *item,
                         quipu_error *reterr)
{
    const int64_t at = (int64_t)source->item_count;
    quipu_status status = qp_source_add_item(source, item, reterr);

    assert(session < source->session_count);
    return status == QUIPU_OK
               ? qp_source_add_place(source, (qp_source_place){session, {0, 0}, at}, reterr)
               : status;
}

/* {"imported":{"kind":"llm","id":"01h…"}}, by which a second import finds the session. The key
 * alone does not say so: a caller's prefix changes it, and a session with that key may be another
 * program's. */
static quipu_status chat_metadata(qp_source *source, const qp_source_session *session,
                                  quipu_json *ret, quipu_error *reterr)
{
    qp_jsonw json;
    quipu_status status;

    qp_buf_reset(&source->buf);
    qp_jsonw_begin(&json, &source->buf);
    qp_jsonw_object(&json);
    qp_jsonw_key(&json, QUIPU_STR("imported"));
    qp_jsonw_object(&json);
    qp_jsonw_put(&json, "kind", quipu_source_name(source->kind));
    qp_jsonw_put_text(&json, "id", session->ref.session_id);
    qp_jsonw_object_end(&json);
    qp_jsonw_object_end(&json);
    status = qp_jsonw_end(&json);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&source->scratch, qp_buf_str(&source->buf), &ret->text);
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "its id is no text that can be kept");
}

/* The title is cut where a character ends. Texts that are made here lie in `scratch`, which run.c
 * resets after the session; those of `about` belong to the layout. */
quipu_status qp_chat_session(qp_source *source, const qp_source_session *session,
                             const qp_chat_about *about, qp_source_values *ret, quipu_error *reterr)
{
    qp_source_values values = {.row = {.created_at = about->created,
                                       .updated_at = about->updated,
                                       .last_event_at = about->updated,
                                       .model = about->model}};
    quipu_str title = about->title;
    quipu_status status = chat_metadata(source, session, &values.row.metadata, reterr);

    if (title.n > QUIPU_TITLE_MAX) {
        title.n = qp_utf8_cut(title, QUIPU_TITLE_MAX);
    }
    if (status == QUIPU_OK && title.n > 0 &&
        quipu_arena_copy(&source->scratch, title, &values.row.title) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "no memory for a title");
    }
    if (status == QUIPU_OK) {
        *ret = values;
    }
    return qp_source_fail(source, "the session", session->row, status, reterr);
}

/* Metadata that are not JSON, or lack one of the two members, say nothing: the answer is no, and
 * the import reports a clash of keys instead of adding to a session of somebody else. */
bool qp_chat_is_from(const qp_source *source, const qp_source_session *session, quipu_str metadata)
{
    qp_json_doc doc;
    qp_json_node imported = {NULL, 0};
    qp_json_node kind = {NULL, 0};
    qp_json_node id = {NULL, 0};
    bool same = false;

    qp_json_init(&doc);
    if (metadata.n > 0 && qp_json_parse(&doc, metadata, NULL, NULL) == QUIPU_OK) {
        imported = qp_json_get(qp_json_root(&doc), QUIPU_STR("imported"));
        kind = qp_json_get(imported, QUIPU_STR("kind"));
        id = qp_json_get(imported, QUIPU_STR("id"));
        same = qp_json_kind_of(kind) == QP_JSON_STRING && qp_json_kind_of(id) == QP_JSON_STRING &&
               qp_json_text_is(kind, quipu_cstr(quipu_source_name(source->kind))) &&
               qp_json_text_is(id, session->ref.session_id);
    }
    qp_json_free(&doc);
    return same;
}

/* ADK keeps state of users and apps; these programs keep conversations only. */
quipu_status qp_chat_no_shared(qp_source *source, qp_source_shared_fn fn, void *ctx,
                               quipu_error *reterr)
{
    (void)source;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return QUIPU_OK;
}
