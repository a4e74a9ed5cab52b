/* Prompts as JSON (prompt_json.h). A text that JSON cannot hold, because it is not UTF-8 or has a
 * NUL, is the object {"base64": ...} in the place of a string.
 *
 * Owns: nothing. Called by: src/server, which reads what is asked and writes the answer, and
 * src/remote, which does the opposite, from any thread. Locks: none. Holds on return of a reader:
 * nothing of a context points into the document, which its caller frees.
 *
 * The readers do not trust the sender: a value of another type, a name that is in no list and a
 * number that does not fit its member fail the whole object. Each takes `good`, sets it to false
 * and never back to true, so that a caller reads all members and asks once. */
#include "base/prompt_json.h"

#include <assert.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"

/* By quipu_part_kind; 0 is not a kind. Kinds and roles go over the wire by name: a number would
 * bind the two sides to one version of the enum. The place in the list is the enum's value, so that
 * a new value gets its name at the end, which the assertions below ask for. */
static const char *const prompt_kinds[] = {"",         "text", "thought", "call",
                                           "response", "data", "other"};
/* By quipu_role; 0 is not a role. */
static const char *const prompt_roles[] = {"",         "user",  "assistant", "tool",
                                           "function", "model", "system"};

#define PROMPT_KINDS (sizeof(prompt_kinds) / sizeof(prompt_kinds[0]))
#define PROMPT_ROLES (sizeof(prompt_roles) / sizeof(prompt_roles[0]))

_Static_assert(PROMPT_KINDS == QUIPU_PART_OTHER + 1, "a kind of part has no name");
_Static_assert(PROMPT_ROLES == QUIPU_ROLE_SYSTEM + 1, "a role has no name");

/* ---- values ---------------------------------------------------------------------------------- */

/* An absent text is left out, an empty one is not: readers distinguish them. A text that JSON
 * cannot hold goes as base64: with other characters in the place of its bytes it would be another
 * prompt, with another hash. */
static void prompt_put_text(qp_jsonw *writer, const char *name, quipu_str text)
{
    if (text.p == NULL || qp_text_check(text, NULL) == QP_TEXT_OK) {
        qp_jsonw_put_text(writer, name, text);
        return;
    }
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_object(writer);
    qp_jsonw_key(writer, QUIPU_STR("base64"));
    qp_base64_json(writer, (quipu_bytes){text.p, text.n});
    qp_jsonw_object_end(writer);
}

/* Signatures of providers and media: absent bytes are left out, as absent texts are. */
static void prompt_put_bytes(qp_jsonw *writer, const char *name, quipu_bytes bytes)
{
    if (bytes.p != NULL) {
        qp_jsonw_key(writer, quipu_cstr(name));
        qp_base64_json(writer, bytes);
    }
}

/* JSON of the caller's, raw: written anew it could have another spelling, and prompts are compared
 * byte for byte. */
static void prompt_put_json(qp_jsonw *writer, const char *name, quipu_json json)
{
    if (json.text.n > 0) {
        qp_jsonw_key(writer, quipu_cstr(name));
        qp_jsonw_raw(writer, json.text);
    }
}

/* false is left out, and 0 below: most parts have neither. */
static void prompt_put_flag(qp_jsonw *writer, const char *name, bool value)
{
    if (value) {
        qp_jsonw_put_bool(writer, name, true);
    }
}

/* For members whose 0 means "not set"; figures of an answer, where 0 says something, are always
 * written (qp_prompt_write()). */
static void prompt_put_number(qp_jsonw *writer, const char *name, int64_t value)
{
    if (value != 0) {
        qp_jsonw_put_i64(writer, name, value);
    }
}

/* The readers set *good to false for a value of another type, or when memory is used up. A member
 * that is missing, or null, leaves the value as it is. An object in the place of a string is what
 * prompt_put_text() made of bytes; any other members of it are ignored. */
static void prompt_take_text(qp_json_node object, const char *name, quipu_arena *arena,
                             quipu_str *text, bool *good)
{
    const qp_json_node value = qp_json_get(object, quipu_cstr(name));
    quipu_str coded = QP_STR_ABSENT;
    quipu_bytes bytes;

    switch (qp_json_kind_of(value)) {
    case QP_JSON_NONE:
    case QP_JSON_NULL:
        break;
    case QP_JSON_OBJECT:
        *good =
            *good &&
            qp_json_text_copy(qp_json_get(value, QUIPU_STR("base64")), arena, &coded) == QUIPU_OK &&
            qp_base64_read(coded, arena, &bytes) == QUIPU_OK &&
            quipu_arena_copy(arena, (quipu_str){bytes.p, bytes.n}, text) == QUIPU_OK;
        break;
    default:
        *good = *good && qp_json_text_copy(value, arena, text) == QUIPU_OK;
        break;
    }
}

/* Base64 with other characters, or with padding in a wrong place, is refused. */
static void prompt_take_bytes(qp_json_node object, const char *name, quipu_arena *arena,
                              quipu_bytes *bytes, bool *good)
{
    const qp_json_node value = qp_json_get(object, quipu_cstr(name));
    quipu_str coded = QP_STR_ABSENT;

    if (qp_json_kind_of(value) > QP_JSON_NULL) {
        *good = *good && qp_json_text_copy(value, arena, &coded) == QUIPU_OK &&
                qp_base64_read(coded, arena, bytes) == QUIPU_OK;
    }
}

/* null is a value here, unlike in the other readers: it is JSON that the caller gave. */
static void prompt_take_json(qp_json_node object, const char *name, quipu_arena *arena,
                             quipu_json *json, bool *good)
{
    const qp_json_node value = qp_json_get(object, quipu_cstr(name));

    if (qp_json_kind_of(value) != QP_JSON_NONE) {
        *good = *good && quipu_arena_copy(arena, qp_json_raw(value), &json->text) == QUIPU_OK;
    }
}

/* Only true and false are flags: 1 and "true" are refused. */
static void prompt_take_flag(qp_json_node object, const char *name, bool *flag, bool *good)
{
    const qp_json_kind kind = qp_json_kind_of(qp_json_get(object, quipu_cstr(name)));

    if (kind > QP_JSON_NULL) {
        *flag = kind == QP_JSON_TRUE;
        *good = *good && (kind == QP_JSON_TRUE || kind == QP_JSON_FALSE);
    }
}

/* A whole number within int64_t, 1e3 and 1000.0 included. A number that would have to be rounded is
 * refused. */
static void prompt_take_number(qp_json_node object, const char *name, int64_t *number, bool *good)
{
    const qp_json_node value = qp_json_get(object, quipu_cstr(name));

    if (qp_json_kind_of(value) > QP_JSON_NULL) {
        *good = *good && qp_json_int64(value, number) == QP_JSON_EXACT;
    }
}

/* The place of a name; 0, and no longer good: it is not in the list. Unlike a missing number, a
 * missing name is a fault: a part without a kind has no meaning. */
static size_t prompt_take_name(qp_json_node object, const char *name, const char *const *names,
                               size_t count, bool *good)
{
    const qp_json_node value = qp_json_get(object, quipu_cstr(name));

    for (size_t i = 1; i < count && qp_json_kind_of(value) == QP_JSON_STRING; i++) {
        if (qp_json_text_is(value, quipu_cstr(names[i]))) {
            return i;
        }
    }
    *good = false;
    return 0;
}

/* Room for the rows of an array, zeroed; NULL: it is not an array, or memory is used up. Every row
 * is an object: of another value no member would be found, and it would count as an empty row. The
 * rows have this version's size: the sender's members that it does not know are ignored, those that
 * it lacks are zero. The count comes from an array that was parsed whole, so that the memory is
 * bounded by the size of the body times the size of a row. */
static void *prompt_rows(qp_json_node array, size_t size, quipu_arena *arena, bool *good)
{
    qp_json_iter each = qp_json_each(array);
    const size_t count = qp_json_count(array);
    char *rows = NULL;

    if (qp_json_kind_of(array) == QP_JSON_ARRAY) {
        rows = quipu_arena_alloc(arena, count * size + 1); /* + 1: it may be empty */
    }
    if (rows != NULL) {
        memset(rows, 0, count * size);
    }
    while (qp_json_next(&each)) {
        *good = *good && qp_json_kind_of(each.value) == QP_JSON_OBJECT;
    }
    *good = *good && rows != NULL;
    return rows;
}

/* ---- parts and contents ---------------------------------------------------------------------- */

/* Writes all members of a part that are set, whatever its kind: the reader of the struct decides
 * which ones count. The kind of a newer library's part has no name here: it gets an empty one,
 * which the reader refuses. */
static void prompt_put_parts(qp_jsonw *writer, const char *name, quipu_parts parts)
{
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < parts.count; i++) {
        const quipu_part *part = quipu_part_at(parts, i);

        qp_jsonw_object(writer);
        qp_jsonw_put(writer, "kind",
                     (size_t)part->kind < PROMPT_KINDS ? prompt_kinds[part->kind] : "");
        prompt_put_text(writer, "text", part->text);
        prompt_put_text(writer, "id", part->id);
        prompt_put_text(writer, "name", part->name);
        prompt_put_json(writer, "json", part->json);
        prompt_put_text(writer, "mime", part->mime);
        prompt_put_bytes(writer, "data", part->data);
        prompt_put_flag(writer, "thought", part->thought);
        prompt_put_flag(writer, "redacted", part->redacted);
        prompt_put_bytes(writer, "signature", part->signature);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* No parts unless all of them are good: a prompt that lacks one is another prompt. */
static quipu_parts prompt_take_parts(qp_json_node array, quipu_arena *arena, bool *good)
{
    qp_json_iter each = qp_json_each(array);
    quipu_part *parts = prompt_rows(array, sizeof(*parts), arena, good);
    size_t count = 0;

    while (*good && qp_json_next(&each)) {
        quipu_part *part = &parts[count++];

        part->kind =
            (quipu_part_kind)prompt_take_name(each.value, "kind", prompt_kinds, PROMPT_KINDS, good);
        prompt_take_text(each.value, "text", arena, &part->text, good);
        prompt_take_text(each.value, "id", arena, &part->id, good);
        prompt_take_text(each.value, "name", arena, &part->name, good);
        prompt_take_json(each.value, "json", arena, &part->json, good);
        prompt_take_text(each.value, "mime", arena, &part->mime, good);
        prompt_take_bytes(each.value, "data", arena, &part->data, good);
        prompt_take_flag(each.value, "thought", &part->thought, good);
        prompt_take_flag(each.value, "redacted", &part->redacted, good);
        prompt_take_bytes(each.value, "signature", arena, &part->signature, good);
    }
    return quipu_parts_of(parts, *good ? count : 0);
}

/* A content is a role and its parts, in the order in which the model gets them. */
static void prompt_put_contents(qp_jsonw *writer, quipu_contents contents)
{
    qp_jsonw_key(writer, QUIPU_STR("contents"));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < contents.count; i++) {
        const quipu_content *content = quipu_content_at(contents, i);

        qp_jsonw_object(writer);
        qp_jsonw_put(writer, "role",
                     (size_t)content->role < PROMPT_ROLES ? prompt_roles[content->role] : "");
        prompt_put_parts(writer, "parts", content->parts);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* Contents without parts are kept: an empty array is written for them. */
static quipu_contents prompt_take_contents(qp_json_node array, quipu_arena *arena, bool *good)
{
    qp_json_iter each = qp_json_each(array);
    quipu_content *contents = prompt_rows(array, sizeof(*contents), arena, good);
    size_t count = 0;

    while (*good && qp_json_next(&each)) {
        contents[count].role =
            (quipu_role)prompt_take_name(each.value, "role", prompt_roles, PROMPT_ROLES, good);
        contents[count++].parts =
            prompt_take_parts(qp_json_get(each.value, QUIPU_STR("parts")), arena, good);
    }
    return quipu_contents_of(contents, *good ? count : 0);
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* A tool's schema is JSON of the caller's. The prompt's hash covers its spelling. */
static void prompt_put_tools(qp_jsonw *writer, quipu_tools tools)
{
    qp_jsonw_key(writer, QUIPU_STR("tools"));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < tools.count; i++) {
        const quipu_tool *tool = quipu_tool_at(tools, i);

        qp_jsonw_object(writer);
        prompt_put_text(writer, "name", tool->name);
        prompt_put_text(writer, "description", tool->description);
        prompt_put_json(writer, "schema", tool->schema);
        prompt_put_json(writer, "parameters", tool->parameters);
        prompt_put_flag(writer, "strict", tool->strict);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* The schema goes to the arena as it was sent: its spelling is part of the prompt's hash. */
static quipu_tools prompt_take_tools(qp_json_node array, quipu_arena *arena, bool *good)
{
    qp_json_iter each = qp_json_each(array);
    quipu_tool *tools = prompt_rows(array, sizeof(*tools), arena, good);
    size_t count = 0;

    while (*good && qp_json_next(&each)) {
        quipu_tool *tool = &tools[count++];

        prompt_take_text(each.value, "name", arena, &tool->name, good);
        prompt_take_text(each.value, "description", arena, &tool->description, good);
        prompt_take_json(each.value, "schema", arena, &tool->schema, good);
        prompt_take_json(each.value, "parameters", arena, &tool->parameters, good);
        prompt_take_flag(each.value, "strict", &tool->strict, good);
    }
    return quipu_tools_of(tools, *good ? count : 0);
}

/* The numbers of a row of a model, by their names and places. */
#define PROMPT_ROW(text_name, member) {text_name, offsetof(quipu_model_row, member)}
static const struct prompt_figure {
    const char *name;
    size_t offset; /* of an int64_t */
} prompt_row_figures[] = {
    PROMPT_ROW("window", window),
    PROMPT_ROW("output", output),
    PROMPT_ROW("budget", budget),
    PROMPT_ROW("cacheMin", cache_min),
    PROMPT_ROW("cacheStep", cache_step),
    PROMPT_ROW("priceInput", price_input),
    PROMPT_ROW("priceCached", price_cached),
    PROMPT_ROW("priceWrite", price_write),
    PROMPT_ROW("priceOutput", price_output),
};

#define PROMPT_ROW_FIGURES (sizeof(prompt_row_figures) / sizeof(prompt_row_figures[0]))

/* An int32_t of a row; false when the number does not fit. Cutting it off would turn a price's date
 * or a cache's lifetime into another one. */
static int32_t prompt_narrow(int64_t number, bool *good)
{
    *good = *good && number >= INT32_MIN && number <= INT32_MAX;
    return *good ? (int32_t)number : 0;
}

/* The caller's rows may be shorter or longer than this version's; quipu_model_row_at() steps by
 * their size. */
static void prompt_put_models(qp_jsonw *writer, quipu_model_rows rows)
{
    qp_jsonw_key(writer, QUIPU_STR("models"));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < rows.count; i++) {
        const quipu_model_row *row = quipu_model_row_at(rows, i);

        qp_jsonw_object(writer);
        prompt_put_text(writer, "prefix", row->prefix);
        for (size_t k = 0; k < PROMPT_ROW_FIGURES; k++) {
            prompt_put_number(writer, prompt_row_figures[k].name,
                              *(const int64_t *)((const char *)row + prompt_row_figures[k].offset));
        }
        prompt_put_number(writer, "cache", row->cache);
        prompt_put_number(writer, "cacheTtl", row->cache_ttl);
        prompt_put_number(writer, "asOf", row->as_of);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* The three members that are not int64_t are read as numbers and narrowed. The limit is checked
 * before memory is taken: rows are searched once for each model that is looked up. */
static quipu_model_rows prompt_take_models(qp_json_node array, quipu_arena *arena, bool *good)
{
    qp_json_iter each = qp_json_each(array);
    quipu_model_row *rows = NULL;
    size_t count = 0;

    *good = *good && qp_json_count(array) <= QP_PROMPT_ROWS_MAX;
    rows = prompt_rows(array, sizeof(*rows), arena, good);
    while (*good && qp_json_next(&each)) {
        quipu_model_row *row = &rows[count++];
        int64_t narrow[3] = {0};

        prompt_take_text(each.value, "prefix", arena, &row->prefix, good);
        for (size_t k = 0; k < PROMPT_ROW_FIGURES; k++) {
            prompt_take_number(each.value, prompt_row_figures[k].name,
                               (int64_t *)((char *)row + prompt_row_figures[k].offset), good);
        }
        prompt_take_number(each.value, "cache", &narrow[0], good);
        prompt_take_number(each.value, "cacheTtl", &narrow[1], good);
        prompt_take_number(each.value, "asOf", &narrow[2], good);
        *good = *good && narrow[0] >= QUIPU_CACHE_UNKNOWN && narrow[0] <= QUIPU_CACHE_EXPLICIT;
        row->cache = *good ? (quipu_cache_kind)narrow[0] : QUIPU_CACHE_UNKNOWN;
        row->cache_ttl = prompt_narrow(narrow[1], good);
        row->as_of = prompt_narrow(narrow[2], good);
    }
    return quipu_model_rows_of(rows, *good ? count : 0);
}

/* Numbers of 0 and flags that are not set are their defaults, and left out. */
void qp_prompt_ask_write(qp_jsonw *writer, const quipu_context_options *options)
{
    qp_jsonw_object(writer);
    prompt_put_flag(writer, "log", (options->flags & QUIPU_CONTEXT_LOG) != 0);
    prompt_put_flag(writer, "asBefore", (options->flags & QUIPU_CONTEXT_AS_BEFORE) != 0);
    prompt_put_text(writer, "model", options->model);
    prompt_put_text(writer, "provider", options->provider);
    prompt_put_number(writer, "budget", options->token_budget);
    prompt_put_number(writer, "memoryTokens", options->memory_tokens);
    prompt_put_number(writer, "at", options->at_seq);
    if (options->models != NULL) {
        prompt_put_models(writer, *options->models);
    }
    if (options->usage != NULL) {
        qp_jsonw_key(writer, QUIPU_STR("usage"));
        qp_jsonw_object(writer);
        qp_jsonw_put_i64(writer, "input", options->usage->input);
        qp_jsonw_put_i64(writer, "cached", options->usage->cached);
        qp_jsonw_object_end(writer);
    }
    if (options->request != NULL) {
        qp_jsonw_key(writer, QUIPU_STR("request"));
        qp_jsonw_object(writer);
        prompt_put_text(writer, "model", options->request->model);
        prompt_put_parts(writer, "system", options->request->system);
        prompt_put_tools(writer, options->request->tools);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_object_end(writer);
}

/* The part of a body below "request". */
static void prompt_take_request(qp_json_node object, quipu_arena *arena, qp_prompt_ask *ask,
                                bool *good)
{
    const qp_json_node system = qp_json_get(object, QUIPU_STR("system"));
    const qp_json_node tools = qp_json_get(object, QUIPU_STR("tools"));

    *good = *good && qp_json_kind_of(object) == QP_JSON_OBJECT;
    prompt_take_text(object, "model", arena, &ask->request.model, good);
    if (qp_json_kind_of(system) > QP_JSON_NULL) {
        ask->request.system = prompt_take_parts(system, arena, good);
    }
    if (qp_json_kind_of(tools) > QP_JSON_NULL) {
        ask->request.tools = prompt_take_tools(tools, arena, good);
    }
    ask->options.request = &ask->request;
}

/* Reads one member. *good becomes false when its value is wrong, *is_known when the member is
 * unknown. */
static void prompt_take_member(qp_json_node object, qp_json_node name, qp_json_node value,
                               quipu_arena *arena, qp_prompt_ask *ask, bool *is_known, bool *good)
{
    quipu_context_options *options = &ask->options;
    bool flag = false;

    if (qp_json_text_is(name, QUIPU_STR("log"))) {
        prompt_take_flag(object, "log", &flag, good);
        options->flags |= flag ? QUIPU_CONTEXT_LOG : 0;
    } else if (qp_json_text_is(name, QUIPU_STR("asBefore"))) {
        prompt_take_flag(object, "asBefore", &flag, good);
        options->flags |= flag ? QUIPU_CONTEXT_AS_BEFORE : 0;
    } else if (qp_json_text_is(name, QUIPU_STR("model"))) {
        prompt_take_text(object, "model", arena, &options->model, good);
    } else if (qp_json_text_is(name, QUIPU_STR("provider"))) {
        prompt_take_text(object, "provider", arena, &options->provider, good);
    } else if (qp_json_text_is(name, QUIPU_STR("budget"))) {
        prompt_take_number(object, "budget", &options->token_budget, good);
    } else if (qp_json_text_is(name, QUIPU_STR("memoryTokens"))) {
        prompt_take_number(object, "memoryTokens", &options->memory_tokens, good);
    } else if (qp_json_text_is(name, QUIPU_STR("at"))) {
        prompt_take_number(object, "at", &options->at_seq, good);
    } else if (qp_json_text_is(name, QUIPU_STR("models"))) {
        ask->models = prompt_take_models(value, arena, good);
        options->models = &ask->models;
    } else if (qp_json_text_is(name, QUIPU_STR("usage"))) {
        *good = *good && qp_json_kind_of(value) == QP_JSON_OBJECT;
        prompt_take_number(value, "input", &ask->usage.input, good);
        prompt_take_number(value, "cached", &ask->usage.cached, good);
        options->usage = &ask->usage;
    } else if (qp_json_text_is(name, QUIPU_STR("request"))) {
        prompt_take_request(value, arena, ask, good);
    } else {
        *is_known = false;
    }
}

/* Unknown members and null are refused rather than ignored, as everywhere in the server: a
 * misspelled "asBefore" would give another prompt without a word. The error names the member; when
 * memory is used up the copy of its name fails as well, which separates the two. */
quipu_status qp_prompt_ask_take(qp_json_node object, quipu_arena *arena, qp_prompt_ask *ret_ask,
                                quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(object);
    bool is_known = true;
    bool good = true;

    *ret_ask = (qp_prompt_ask){.options = QUIPU_CONTEXT_OPTIONS_INIT,
                               .request = QUIPU_MODEL_REQUEST_INIT,
                               .usage = QUIPU_MODEL_USAGE_INIT};
    while (qp_json_next(&each)) {
        quipu_str name = QP_STR_ABSENT;

        good = qp_json_kind_of(each.value) != QP_JSON_NULL;
        prompt_take_member(object, each.key, each.value, arena, ret_ask, &is_known, &good);
        if (!is_known) {
            return qp_error_set(reterr, QUIPU_INVALID, "the body has a member that is unknown");
        }
        if (!good && qp_json_text_copy(each.key, arena, &name) == QUIPU_OK) {
            return qp_error_field(reterr, QUIPU_INVALID, "body", name.p, "type",
                                  "%s has a value of a wrong type", name.p);
        }
        if (!good) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
        }
    }
    return QUIPU_OK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

#define PROMPT_FIGURE(text_name, member) {text_name, offsetof(quipu_context, member)}
static const struct prompt_figure prompt_figures[] = {
    PROMPT_FIGURE("from", first_seq),
    PROMPT_FIGURE("to", last_seq),
    PROMPT_FIGURE("tokens", tokens),
    PROMPT_FIGURE("blockTokens", block_tokens),
    PROMPT_FIGURE("shared", shared),
    PROMPT_FIGURE("expectedCached", expected_cached),
    PROMPT_FIGURE("reportedInput", reported_input),
    PROMPT_FIGURE("reportedCached", reported_cached),
};

#define PROMPT_FIGURES (sizeof(prompt_figures) / sizeof(prompt_figures[0]))

/* The reason travels as its number: a client of the same header shows its name. */
void qp_prompt_write(qp_jsonw *writer, const quipu_context *context)
{
    qp_jsonw_object(writer);
    for (size_t i = 0; i < PROMPT_FIGURES; i++) {
        qp_jsonw_put_i64(writer, prompt_figures[i].name,
                         *(const int64_t *)((const char *)context + prompt_figures[i].offset));
    }
    qp_jsonw_put_i64(writer, "reason", context->reason);
    qp_jsonw_put_bool(writer, "moreBefore", context->more_before);
    qp_jsonw_put_bool(writer, "exact", context->exact);
    prompt_put_text(writer, "model", context->model);
    prompt_put_text(writer, "provider", context->provider);
    prompt_put_bytes(writer, "prefixHash", (quipu_bytes){context->prefix_hash, QUIPU_CONTEXT_HASH});
    prompt_put_bytes(writer, "promptHash", (quipu_bytes){context->prompt_hash, QUIPU_CONTEXT_HASH});
    prompt_put_json(writer, "tools", context->tools);
    prompt_put_text(writer, "block", context->block);
    prompt_put_text(writer, "tail", context->tail);
    prompt_put_parts(writer, "system", context->system);
    prompt_put_contents(writer, context->contents);
    qp_jsonw_object_end(writer);
}

/* A hash of another length is refused: the rest of a shorter one would be zeros, and compared as
 * part of it. */
static void prompt_take_hash(qp_json_node object, const char *name, quipu_arena *arena,
                             uint8_t hash[QUIPU_CONTEXT_HASH], bool *good)
{
    quipu_bytes bytes = {NULL, 0};

    prompt_take_bytes(object, name, arena, &bytes, good);
    *good = *good && bytes.n == QUIPU_CONTEXT_HASH;
    if (*good) {
        memcpy(hash, bytes.p, QUIPU_CONTEXT_HASH);
    }
}

/* The client's side. A member that is missing keeps the value that says "not known": -1 for what a
 * provider reported, else 0. ret_context is written only when everything fits. */
bool qp_prompt_take(qp_json_node object, quipu_arena *arena, quipu_context *ret_context)
{
    quipu_context context = {.reported_input = -1, .reported_cached = -1};
    int64_t reason = 0;
    bool good = qp_json_kind_of(object) == QP_JSON_OBJECT;

    for (size_t i = 0; i < PROMPT_FIGURES; i++) {
        prompt_take_number(object, prompt_figures[i].name,
                           (int64_t *)((char *)&context + prompt_figures[i].offset), &good);
    }
    prompt_take_number(object, "reason", &reason, &good);
    context.reason = (quipu_context_reason)prompt_narrow(reason, &good);
    prompt_take_flag(object, "moreBefore", &context.more_before, &good);
    prompt_take_flag(object, "exact", &context.exact, &good);
    prompt_take_text(object, "model", arena, &context.model, &good);
    prompt_take_text(object, "provider", arena, &context.provider, &good);
    prompt_take_hash(object, "prefixHash", arena, context.prefix_hash, &good);
    prompt_take_hash(object, "promptHash", arena, context.prompt_hash, &good);
    prompt_take_json(object, "tools", arena, &context.tools, &good);
    prompt_take_text(object, "block", arena, &context.block, &good);
    prompt_take_text(object, "tail", arena, &context.tail, &good);
    context.system = prompt_take_parts(qp_json_get(object, QUIPU_STR("system")), arena, &good);
    context.contents =
        prompt_take_contents(qp_json_get(object, QUIPU_STR("contents")), arena, &good);
    if (good) {
        *ret_context = context;
    }
    return good;
}
