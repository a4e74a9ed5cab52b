/* Shared by the wire formats: parsing events, finding members, passing deltas on, writing common
 * members, lists and embeddings.
 *
 * Owns: qp_wire_reader, one for each answer.
 * Called by: client.c (reader) and the formats (helpers), on the thread of the request; no locks.
 * On return texts handed to the sink lie in the event's text or in reader->scratch, and are valid
 * until the next event: the sink copies what it keeps. */
#include "provider/wire.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/base64.h"
#include "base/error.h"
#include "model/message.h"

/* Enough to recognize a proxy's page, and little enough for a line of a log. */
#define WIRE_SHOWN_MAX 200 /* bytes of a strange body that an error quotes */

/* The outcome of an event, unless one of its texts could not be stored: formats need not check each
 * text.
 * A status that the format returned comes first: it is the earlier fault. */
static quipu_status wire_lost(const qp_wire_reader *reader, quipu_status status,
                              quipu_error *reterr)
{
    if (status == QUIPU_OK && reader->lost != QUIPU_OK) {
        return qp_error_set(reterr, reader->lost, "no room for the model's answer");
    }
    return status;
}

/* Each event starts with an empty scratch arena. An error ends the stream: the parser passes it up
 * and reads no further.
 * On the thread of the request, inside of libcurl's callback. */
static quipu_status wire_event(void *ctx, const qp_sse_event *event, quipu_error *reterr)
{
    qp_wire_reader *reader = ctx;

    if (reader->ended) {
        return QUIPU_OK; /* bytes after the end of the answer are ignored */
    }
    quipu_arena_reset(&reader->scratch);
    return wire_lost(reader, reader->wire->event(reader, event, reterr), reterr);
}

/* One reader for each answer; nothing is allocated yet. */
void qp_wire_reader_init(qp_wire_reader *reader, const qp_wire *wire, const quipu_sink *sink)
{
    *reader = (qp_wire_reader){.wire = wire, .sink = sink, .usage = QUIPU_MODEL_USAGE_INIT};
    qp_sse_init(&reader->sse, 0, 0, wire_event, reader);
    qp_json_init(&reader->doc);
}

/* NULL is fine. */
void qp_wire_reader_free(qp_wire_reader *reader)
{
    if (reader != NULL) {
        qp_sse_free(&reader->sse);
        qp_json_free(&reader->doc);
        quipu_arena_free(&reader->scratch);
    }
}

/* Bytes as they arrive, cut anywhere; each complete event goes to the format at once.
 * The parser keeps what is incomplete, within its own limits. */
quipu_status qp_wire_feed(qp_wire_reader *reader, quipu_str bytes, quipu_error *reterr)
{
    return qp_sse_feed(&reader->sse, bytes, reterr);
}

/* An error object may come with status 200, also in place of an answer. The sink gets the same
 * deltas as from a stream, in one go. */
quipu_status qp_wire_whole(qp_wire_reader *reader, quipu_str body, quipu_error *reterr)
{
    qp_json_node root = {NULL, 0};
    quipu_status status = qp_wire_parse(reader, body, &root, reterr);

    if (status == QUIPU_OK && qp_wire_is_error(root)) {
        return qp_wire_error(body, 0, reterr);
    }
    if (status == QUIPU_OK) {
        status = wire_lost(reader, reader->wire->whole(reader, root, reterr), reterr);
    }
    return status;
}

/* The error quotes the beginning of the body, which is often an HTML page of a proxy. */
quipu_status qp_wire_parse(qp_wire_reader *reader, quipu_str data, qp_json_node *ret_root,
                           quipu_error *reterr)
{
    quipu_status status = qp_json_parse(&reader->doc, data, NULL, reterr);
    qp_json_node root = qp_json_root(&reader->doc);

    /* Faults of this process, not of the answer. */
    if (status == QUIPU_NOMEM || status == QUIPU_LIMIT) {
        return status;
    }
    if (status != QUIPU_OK || qp_json_kind_of(root) != QP_JSON_OBJECT) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "%s sent an answer that is not a JSON object: %.*s", reader->wire->id,
                            (int)(data.n < WIRE_SHOWN_MAX ? data.n : WIRE_SHOWN_MAX),
                            data.n > 0 ? data.p : "");
    }
    *ret_root = root;
    return QUIPU_OK;
}

/* A member by its key, or no value; for members that are read once. Loops use qp_wire_fields(). */
qp_json_node qp_wire_get(qp_json_node object, const char *key)
{
    return qp_json_get(object, quipu_cstr(key));
}

/* Which of the keys a member spelled with escapes is; `count` when it is another. */
static size_t wire_escaped(qp_json_node key, const qp_wire_keys *keys)
{
    size_t i = 0;

    while (i < keys->count && !qp_json_text_is(key, keys->names[i])) {
        i++;
    }
    return i;
}

/* Walks the tokens of an object once. `lengths` rejects most members by a bit test; the last letter
 * distinguishes most of the rest before memcmp. This is the hottest function of a stream: an event
 * has a dozen members, of which three are wanted. A key that occurs twice counts with its last
 * value, as everywhere. */
void qp_wire_fields(qp_json_node object, const qp_wire_keys *keys, qp_json_node *ret)
{
    const qp_json_doc *doc = object.doc;
    const quipu_str *names = keys->names;
    const size_t count = keys->count;
    const qp_json_token *tokens;
    uint32_t stop;

    /* Without a document: a member that is missing. */
    memset(ret, 0, count * sizeof(*ret));
    if (qp_json_kind_of(object) != QP_JSON_OBJECT) {
        return;
    }
    /* The tokens of an object: key, value, key, value; `next` skips a whole value. */
    tokens = doc->tokens;
    stop = tokens[object.at].next;
    for (uint32_t at = object.at + 1; at < stop; at = tokens[at + 1].next) {
        const qp_json_token *key = &tokens[at];
        size_t n = key->end - key->start - 2; /* without the quotes */
        size_t i = 0;

        if (QP_UNLIKELY(key->escaped)) {
            i = wire_escaped((qp_json_node){doc, at}, keys);
        } else if (n >= 64 || (keys->lengths >> n & 1) == 0) {
            continue; /* most members have no wanted length */
        } else {
            const char *text = doc->text.p + key->start + 1;

            while (i < count && (names[i].n != n || names[i].p[n - 1] != text[n - 1] ||
                                 memcmp(names[i].p, text, n) != 0)) {
                i++;
            }
        }
        if (i < count) {
            ret[i] = (qp_json_node){doc, at + 1};
        }
    }
}

/* Compares the token itself: an index is written as one digit. A missing index is not another one:
 * many servers send none. */
bool qp_wire_is_other(qp_json_node index)
{
    const qp_json_token *token;

    if (qp_json_kind_of(index) != QP_JSON_NUMBER) {
        return false;
    }
    token = &index.doc->tokens[index.at];
    return token->end - token->start != 1 || index.doc->text.p[token->start] != '0';
}

/* The text of a string member; empty for a missing member or another type.
 * The text is valid until the next event. */
quipu_str qp_wire_text(qp_wire_reader *reader, qp_json_node object, const char *key)
{
    return qp_wire_text_of(reader, qp_wire_get(object, key));
}

/* Returns an empty text on failure and records the reason in reader->lost. */
quipu_str qp_wire_text_of(qp_wire_reader *reader, qp_json_node node)
{
    quipu_status status;
    quipu_str text = {"", 0};

    if (qp_json_kind_of(node) != QP_JSON_STRING) {
        return text;
    }
    status = qp_json_text(node, &reader->scratch, &text, NULL);
    if (status != QUIPU_OK) {
        reader->lost = status;
        return (quipu_str){"", 0};
    }
    return text;
}

/* A count of tokens, or -1 where the member is missing, no number, or negative. A fraction is cut
 * off. */
int64_t qp_wire_count(qp_json_node object, const char *key)
{
    int64_t value = -1;

    if (qp_json_int64(qp_wire_get(object, key), &value) == QP_JSON_NO_NUMBER || value < 0) {
        return -1;
    }
    return value;
}

/* Tokens that a provider reports. A number that no request can have counts as not reported, because
 * readers add these numbers up. */
int64_t qp_wire_tokens(qp_json_node usage, const char *key)
{
    const int64_t tokens = qp_wire_count(usage, key);

    return tokens <= QUIPU_MODEL_USAGE_MAX ? tokens : -1;
}

/* Passes a delta to the sink; its status, which may be the caller's own, ends the answer. */
quipu_status qp_wire_put(qp_wire_reader *reader, const quipu_delta *delta, quipu_error *reterr)
{
    return reader->sink->put(reader->sink->ctx, delta, reterr);
}

/* Empty pieces are dropped: several APIs send them at the beginning and at the end. */
quipu_status qp_wire_put_text(qp_wire_reader *reader, quipu_delta_kind kind, quipu_str text,
                              quipu_error *reterr)
{
    if (text.n == 0) {
        return QUIPU_OK;
    }
    return qp_wire_put(
        reader,
        &(quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta), .kind = kind, .text = text},
        reterr);
}

/* Sent once; an answer without id and model has none. */
quipu_status qp_wire_put_start(qp_wire_reader *reader, quipu_str id, quipu_str model,
                               quipu_error *reterr)
{
    quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta),
                         .kind = QUIPU_DELTA_START,
                         .id = id,
                         .text = model};

    /* A later event may be the first one that names them. */
    if (reader->started || (id.n == 0 && model.n == 0)) {
        return QUIPU_OK;
    }
    reader->started = true;
    return qp_wire_put(reader, &delta, reterr);
}

/* The beginning of every event: an error, or id and model. An error in the first event, or in any
 * later one, fails the answer. */
quipu_status qp_wire_open(qp_wire_reader *reader, qp_json_node root, const qp_json_node head[3],
                          quipu_error *reterr)
{
    if (head[0].doc != NULL && qp_wire_is_error(root)) {
        return qp_wire_error(qp_json_raw(root), 0, reterr);
    }
    if (reader->started) {
        return QUIPU_OK;
    }
    return qp_wire_put_start(reader, qp_wire_text_of(reader, head[1]),
                             qp_wire_text_of(reader, head[2]), reterr);
}

/* The running totals of the reader; the answer takes the last ones. A delta of its own for each
 * report: answer.c keeps the last value of each counter. */
quipu_status qp_wire_put_usage(qp_wire_reader *reader, quipu_error *reterr)
{
    quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta),
                         .kind = QUIPU_DELTA_USAGE,
                         .usage = &reader->usage};

    return qp_wire_put(reader, &delta, reterr);
}

/* Remembered in `stopped`: some formats send usage only afterwards. */
quipu_status qp_wire_put_finish(qp_wire_reader *reader, quipu_finish finish, quipu_error *reterr)
{
    quipu_delta delta = {
        .struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_FINISH, .finish = finish};

    reader->stopped = true;
    return qp_wire_put(reader, &delta, reterr);
}

/* The reason by the format's own table. Unknown reasons are QUIPU_FINISH_OTHER: a new one must not
 * break old programs. */
quipu_finish qp_wire_finish(const qp_wire_reason *reasons, qp_json_node node)
{
    for (; reasons->name != NULL; reasons++) {
        if (qp_json_kind_of(node) == QP_JSON_STRING &&
            qp_json_text_is(node, quipu_cstr(reasons->name))) {
            return reasons->finish;
        }
    }
    return QUIPU_FINISH_OTHER;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* A key from a literal. */
void qp_wire_key(qp_jsonw *writer, const char *key)
{
    qp_jsonw_key(writer, quipu_cstr(key));
}

/* A string member: key and text. */
void qp_wire_member(qp_jsonw *writer, const char *key, quipu_str text)
{
    qp_wire_key(writer, key);
    qp_jsonw_str(writer, text);
}

/* Built in a buffer of its own: the writer then escapes the MIME type. Attachments are the largest
 * parts of a request; the buffer has the request's own limit. */
void qp_wire_data_url(qp_jsonw *writer, const quipu_part *part)
{
    qp_buf url;

    qp_buf_init(&url, QUIPU_REQUEST_BYTES_MAX);
    qp_buf_puts(&url, "data:");
    qp_buf_put(&url, part->mime);
    qp_buf_puts(&url, ";base64,");
    qp_base64_put(&url, part->data);
    if (qp_buf_status(&url) != QUIPU_OK) {
        qp_buf_fail(writer->buf, qp_buf_status(&url));
    }
    qp_jsonw_str(writer, qp_buf_str(&url));
    qp_buf_free(&url);
}

/* A member only when the request gives it. */
static void wire_double(qp_jsonw *writer, bool given, const char *key, double value)
{
    if (given) {
        qp_wire_key(writer, key);
        qp_jsonw_double(writer, value);
    }
}

/* Formats name these differently, or lack the seed. */
void qp_wire_sampling(qp_jsonw *writer, const quipu_model_request *request, const char *top_p,
                      const char *seed)
{
    wire_double(writer, request->has_temperature, "temperature", request->temperature);
    wire_double(writer, request->has_top_p, top_p, request->top_p);
    if (request->has_seed && seed != NULL) {
        qp_wire_key(writer, seed);
        qp_jsonw_i64(writer, request->seed);
    }
}

/* An empty list is left out: some servers reject it. */
void qp_wire_stops(qp_jsonw *writer, const quipu_model_request *request, const char *key)
{
    if (request->stop_count == 0) {
        return;
    }
    qp_wire_key(writer, key);
    qp_jsonw_array(writer);
    for (size_t i = 0; i < request->stop_count; i++) {
        qp_jsonw_str(writer, request->stops[i]);
    }
    qp_jsonw_array_end(writer);
}

/* The schema's name differs between formats; its contents are the same. */
void qp_wire_tool(qp_jsonw *writer, const quipu_tool *tool, const char *schema)
{
    qp_wire_member(writer, "name", tool->name);
    if (tool->description.n > 0) {
        qp_wire_member(writer, "description", tool->description);
    }
    qp_wire_key(writer, schema);
    qp_tool_schema(tool, writer);
}

/* Whether a request offers any tool that can be written. Without one neither tools nor a tool
 * choice are written. */
bool qp_wire_offers(const quipu_model_request *request)
{
    for (size_t i = 0; i < request->tools.count; i++) {
        if (quipu_tool_at(request->tools, i)->name.n > 0) {
            return true;
        }
    }
    return false;
}

/* Conversion has put at most one response into a message.
 * NULL: the message has none. */
const quipu_part *qp_wire_response(const quipu_model_message *message)
{
    for (size_t i = 0; i < message->parts.count; i++) {
        if (quipu_part_at(message->parts, i)->kind == QUIPU_PART_RESPONSE) {
            return quipu_part_at(message->parts, i);
        }
    }
    return NULL;
}

/* Goes back over the tool messages to the assistant's message, and finds the call by id. NULL: no
 * such call is in the message before. repair.c has put responses directly behind their calls. */
const quipu_part *qp_wire_call_of(const quipu_model_params *params, size_t at)
{
    const quipu_part *response = qp_wire_response(quipu_model_message_at(params->messages, at));
    const quipu_model_message *asked;

    while (at > 0 && quipu_model_message_at(params->messages, at)->role == QUIPU_ROLE_TOOL) {
        /* Responses of one turn stand in a row. */
        at--;
    }
    asked = quipu_model_message_at(params->messages, at);
    for (size_t i = 0; i < asked->parts.count && response != NULL; i++) {
        if (quipu_part_at(asked->parts, i)->kind == QUIPU_PART_CALL &&
            quipu_str_eq(quipu_part_at(asked->parts, i)->id, response->id)) {
            return quipu_part_at(asked->parts, i);
        }
    }
    return NULL;
}

/* ---- lists and vectors --------------------------------------------------------------------- */

/* Doubles from 64; old arrays stay in the arena. Pages of a list share one qp_wire_list; the result
 * is contiguous. */
quipu_status qp_wire_list_add(qp_wire_list *list, const quipu_model_info *info)
{
    if (list->count == list->cap) {
        /* Doubling keeps the sum of the old arrays below the size of the last one. */
        size_t cap = list->cap != 0 ? list->cap * 2 : 64;
        quipu_model_info *items = qp_arena_take(list->arena, cap * sizeof(*items));

        if (items == NULL) {
            return qp_arena_why(list->arena, cap * sizeof(*items));
        }
        if (list->count > 0) {
            memcpy(items, list->items, list->count * sizeof(*items));
        }
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = *info;
    return QUIPU_OK;
}

/* A missing or differently typed member becomes an empty text. */
quipu_status qp_wire_list_text(qp_wire_list *list, qp_json_node object, const char *key,
                               quipu_str *ret_text)
{
    qp_json_node node = qp_wire_get(object, key);

    if (qp_json_kind_of(node) != QP_JSON_STRING) {
        *ret_text = (quipu_str){"", 0};
        return QUIPU_OK;
    }
    return qp_json_text_copy(node, list->arena, ret_text);
}

/* The numbers of one vector. All vectors of an answer have the same length, which the first one
 * sets. */
static quipu_status wire_vector(qp_json_node numbers, size_t dimensions, float *ret_values,
                                quipu_error *reterr)
{
    qp_json_iter iter = qp_json_each(numbers);
    size_t at = 0;

    while (at < dimensions && qp_json_next(&iter)) {
        double value = 0;

        if (qp_json_double(iter.value, &value) == QP_JSON_NO_NUMBER) {
            return qp_error_set(reterr, QUIPU_CORRUPT,
                                "an embedding has a value that is not a number");
        }
        ret_values[at++] = (float)value;
    }
    if (at != dimensions || qp_json_next(&iter)) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "embeddings of different lengths came back");
    }
    return QUIPU_OK;
}

/* The first vector gives the length. An "index" outside the array is QUIPU_CORRUPT. Servers may
 * return vectors in any order; `index` says which text one belongs to. All are in one array, row by
 * row. */
quipu_status qp_wire_vectors(qp_json_node array, const char *key, quipu_arena *arena,
                             quipu_embeddings *ret, quipu_error *reterr)
{
    qp_json_iter iter = qp_json_each(array);
    size_t count = qp_json_count(array);
    size_t dimensions = qp_json_count(qp_wire_get(qp_json_at(array, 0), key));
    size_t size = count * dimensions * sizeof(float);
    float *values;
    size_t at = 0;

    if (count == 0 || dimensions == 0) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "no embeddings came back");
    }
    values = qp_arena_take(arena, size);
    if (values == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, size), "no room for the embeddings");
    }
    /* Zeros where an index is missing; the count below is still that of the answer. */
    memset(values, 0, size);
    while (qp_json_next(&iter)) {
        int64_t index = qp_wire_count(iter.value, "index");
        /* Without an index the vectors are in the order of the texts. */
        size_t slot = index >= 0 ? (size_t)index : at;
        quipu_status status = QUIPU_CORRUPT;

        at++;
        if (slot < count) {
            status = wire_vector(qp_wire_get(iter.value, key), dimensions,
                                 values + slot * dimensions, reterr);
        }
        if (status != QUIPU_OK) {
            return slot < count ? status
                                : qp_error_set(reterr, status, "an embedding has a wrong index");
        }
    }
    ret->values = values;
    ret->dimensions = dimensions;
    ret->count = count;
    return QUIPU_OK;
}
