/* Writing and reading the tool_calls column.
 *
 * Owns the form of the column and the token estimate of calls. Called by message.c and
 * message_read.c for every message with calls, by message_json.c and message_parse.c for the public
 * JSON form, by tool_pairs.c and the ADK room for pairs. Pure: no statement, no lock. What is read
 * lies in the caller's arena, or in the content that the caller passes.
 *
 * Two forms differ from plain JSON strings, in the column only:
 *
 *  input, output   a text that is a JSON object stands as that object
 *  output          a number: so many bytes of the message's content, behind the output before */
#include "store/tool_calls.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/str.h"
#include "base/token.h"

/* Whether a byte continues a UTF-8 character: its two upper bits are 10. */
static bool tool_calls_is_tail(char byte)
{
    return ((unsigned char)byte & 0xc0u) == 0x80u;
}

/* Whether an output stands in the content where the one before it ended. An output that begins
 * inside of a UTF-8 character is not valid text alone and could not be read back.
 *
 *   content "aabcc", outputs of three calls "aa", "b", "cc": *at is 2, 3 and 5 behind them */
static bool tool_calls_follows(quipu_str content, size_t *at, quipu_str output)
{
    const bool follows = output.n <= content.n - *at &&
                         (output.n == 0 || (!tool_calls_is_tail(output.p[0]) &&
                                            memcmp(content.p + *at, output.p, output.n) == 0));

    assert(*at <= content.n);
    *at += follows ? output.n : 0;
    return follows;
}

/* Whether outputs that followed each other up to `at` are the whole content. A content with U+0000
 * is stored in another way (message.c), and its bytes in the column are not the true ones. */
static bool tool_calls_fill(quipu_str content, size_t at)
{
    assert(at <= content.n);
    return content.n > 0 && at == content.n && memchr(content.p, '\0', content.n) == NULL;
}

/* Stops at the first output that does not follow: most messages are decided by one comparison. */
bool qp_tool_calls_are(quipu_str content, quipu_tool_calls calls)
{
    bool follows = true;
    size_t at = 0;

    for (size_t i = 0; i < calls.count && follows; i++) {
        follows = tool_calls_follows(content, &at, quipu_tool_call_at(calls, i)->output);
    }
    return follows && tool_calls_fill(content, at);
}

/* Estimates add up, part by part; an output that is the content counts once, with the content. */
int64_t qp_tool_calls_estimate(quipu_str content, quipu_tool_calls calls)
{
    /* The bytes of the column count once, as they are stored once. */
    const bool shared = calls.count > 0 && qp_tool_calls_are(content, calls);
    int64_t tokens = qp_token_message(content, NULL, 0);

    for (size_t i = 0; i < calls.count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(calls, i);

        tokens += quipu_token_estimate(call->id) + quipu_token_estimate(call->name) +
                  quipu_token_estimate(call->input) +
                  (shared ? 0 : quipu_token_estimate(call->output));
    }
    assert(tokens >= QP_TOKEN_MESSAGE);
    return tokens;
}

/* A member's text, as far as it has one. Numbers and arrays, which other programs may have written,
 * count nothing. */
static quipu_status tool_calls_piece(qp_json_node call, quipu_str name, quipu_arena *arena,
                                     quipu_str *ret)
{
    qp_json_node node = qp_json_get(call, name);

    assert(name.n > 0);
    *ret = QUIPU_STR("");
    if (qp_json_kind_of(node) == QP_JSON_OBJECT) {
        *ret = qp_json_raw(node);
    } else if (qp_json_kind_of(node) == QP_JSON_STRING) {
        return qp_json_text(node, arena, ret, NULL);
    }
    return QUIPU_OK;
}

/* Estimates the tokens of a column's calls. *ret_outputs gets the tokens of their outputs, which
 * the caller adds unless the content is made of them. The arena is reset after each call: texts are
 * only counted. */
static quipu_status tool_calls_count(qp_json_node calls, quipu_str content, int64_t *ret_tokens,
                                     int64_t *ret_outputs, bool *ret_shared)
{
    static const quipu_str pieces[] = {{"id", 2}, {"name", 4}, {"input", 5}, {"output", 6}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_json_iter iter = qp_json_each(calls);
    quipu_status status = QUIPU_OK;
    bool follows = true;
    size_t at = 0;

    static_assert(sizeof(pieces) / sizeof(pieces[0]) == 4, "the output is the last of four");
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        for (size_t i = 0; i < 4 && status == QUIPU_OK; i++) {
            quipu_str text;

            status = tool_calls_piece(iter.value, pieces[i], &arena, &text);
            if (status == QUIPU_OK) {
                *(i == 3 ? ret_outputs : ret_tokens) += quipu_token_estimate(text);
                follows = follows && (i < 3 || tool_calls_follows(content, &at, text));
            }
        }
        /* The texts of one call are counted, and not needed any more. */
        quipu_arena_reset(&arena);
    }
    *ret_shared = follows && tool_calls_fill(content, at);
    quipu_arena_free(&arena);
    return status;
}

/* For every message that a window, a cap or a pair looks at: decides by the first bytes, without
 * parsing. The store itself writes no column where there is no call; Lango writes an empty list or
 * null. */
bool qp_tool_calls_none(quipu_str json)
{
    static const char blanks[] = {' ', '\t', '\r', '\n'};
    char seen[sizeof("null")] = ""; /* without white space; one byte more than is looked for */
    size_t n = 0;

    for (size_t i = 0; i < json.n && n < sizeof(seen); i++) {
        if (memchr(blanks, json.p[i], sizeof(blanks)) == NULL) {
            seen[n++] = json.p[i];
        }
    }
    const quipu_str word = {seen, n};
    return json.p == NULL || quipu_str_eq(word, QUIPU_STR("[]")) ||
           quipu_str_eq(word, QUIPU_STR("null"));
}

/* For a column that another program wrote (lango_adopt.c): counts without decoding calls. */
quipu_status qp_tool_calls_tokens(quipu_str content, quipu_str json, int64_t *ret_tokens)
{
    int64_t tokens = qp_token_message(content, NULL, 0);
    int64_t outputs = 0;
    bool shared = false;
    qp_json_doc doc;
    quipu_status status = QUIPU_OK;

    qp_json_init(&doc);
    if (json.p != NULL) {
        status = qp_json_parse(&doc, json, NULL, NULL);
    }
    if (status == QUIPU_OK && json.p != NULL) {
        status = tool_calls_count(qp_json_root(&doc), content, &tokens, &outputs, &shared);
    }
    if (status == QUIPU_OK) {
        *ret_tokens = tokens + (shared ? 0 : outputs);
    }
    qp_json_free(&doc);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

/* One member that is a string. Names come with their quotes: they are written again and again. */
static void tool_calls_put(qp_jsonw *writer, quipu_str name, quipu_str text)
{
    assert(name.n > 2 && name.p[0] == '"' && name.p[name.n - 1] == '"');
    qp_jsonw_raw_key(writer, name);
    qp_jsonw_str(writer, text);
}

/* Whether a text can stand in the column as it is. Two levels are around it there, so that it may
 * be only so deep. With `made` the caller knows that a text with braces is an object. */
static bool tool_calls_is_object(quipu_str text, bool made)
{
    const qp_json_limits limits = {.size_max = QP_JSON_SIZE_CAP,
                                   .depth_max = QP_JSON_DEPTH_MAX - 2};

    static_assert(QP_JSON_DEPTH_MAX > 2, "an object inside of two levels");
    return text.n > 1 && text.p[0] == '{' && text.p[text.n - 1] == '}' &&
           (made || qp_json_check(text, &limits, NULL) == QUIPU_OK);
}

/* One member that may be an object. Outside of the column every text is a string: a reader of the
 * public form need not guess. */
static void tool_calls_put_json(qp_jsonw *writer, quipu_str name, quipu_str text,
                                const qp_tool_calls_form *column)
{
    assert(name.n > 2);
    /* Only an object stands in the column as it is, byte by byte. */
    if (column == NULL || !tool_calls_is_object(text, column->made)) {
        tool_calls_put(writer, name, text);
        return;
    }
    qp_jsonw_raw_key(writer, name);
    qp_jsonw_raw(writer, text);
}

/* The array; `column` NULL: for a reader outside. An output of a shared column is its size: the
 * bytes stand in the content. Empty and absent outputs differ: an absent one is left out.
 *
 *   outside   [{"id":"1","name":"ls","input":"{\"p\":1}","output":"a b"}]
 *   column    [{"id":"1","name":"ls","input":{"p":1},"output":3}]     content: "a b" */
static void tool_calls_write(qp_jsonw *writer, quipu_tool_calls calls,
                             const qp_tool_calls_form *column)
{
    assert(calls.items != NULL || calls.count == 0);
    qp_jsonw_array(writer);
    for (size_t i = 0; i < calls.count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(calls, i);

        qp_jsonw_object(writer);
        tool_calls_put(writer, QUIPU_STR("\"id\""), call->id);
        tool_calls_put(writer, QUIPU_STR("\"name\""), call->name);
        tool_calls_put_json(writer, QUIPU_STR("\"input\""), call->input, column);
        if (call->output.p != NULL && column != NULL && column->shared) {
            qp_jsonw_raw_key(writer, QUIPU_STR("\"output\""));
            qp_jsonw_i64(writer, (int64_t)call->output.n);
        } else if (call->output.p != NULL) {
            tool_calls_put_json(writer, QUIPU_STR("\"output\""), call->output, column);
        }
        if (call->thought) {
            qp_jsonw_raw_key(writer, QUIPU_STR("\"thought\""));
            qp_jsonw_bool(writer, true);
        }
        if (call->thought_signature.p != NULL) {
            qp_jsonw_raw_key(writer, QUIPU_STR("\"thoughtSignature\""));
            qp_base64_json(writer, call->thought_signature);
        }
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* With everything that a call has, for JSON that leaves the store. */
void qp_tool_calls_write(qp_jsonw *writer, quipu_tool_calls calls)
{
    tool_calls_write(writer, calls, NULL);
}

/* In the form of the column: an output that is the message's content is not written twice. */
void qp_tool_calls_write_column(qp_jsonw *writer, quipu_tool_calls calls, qp_tool_calls_form form)
{
    assert(calls.count > 0);
    tool_calls_write(writer, calls, &form);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* A member's text; an absent one and null leave *ret as it is. An object comes back as the text
 * that the caller gave: the column holds it byte by byte. */
static quipu_status tool_calls_text(qp_json_node call, quipu_str name, quipu_arena *arena,
                                    quipu_str *ret)
{
    qp_json_node node = qp_json_get(call, name);
    qp_json_kind kind = qp_json_kind_of(node);
    quipu_status status;

    assert(ret != NULL && name.n > 0);
    if (kind == QP_JSON_NONE || kind == QP_JSON_NULL) {
        return QUIPU_OK;
    }
    if (kind == QP_JSON_OBJECT) {
        return quipu_arena_copy(arena, qp_json_raw(node), ret);
    }
    status = qp_json_text_copy(node, arena, ret);
    return status == QUIPU_INVALID ? QUIPU_CORRUPT : status;
}

/* A thought signature is opaque bytes, in base64. Empty and absent differ. It goes back to its
 * provider byte for byte. */
static quipu_status tool_calls_signature(qp_json_node call, quipu_arena *arena, quipu_bytes *ret)
{
    quipu_str text = {NULL, 0};
    quipu_status status = tool_calls_text(call, QUIPU_STR("thoughtSignature"), arena, &text);

    if (status == QUIPU_OK && text.p != NULL) {
        status = qp_base64_read(text, arena, ret);
        if (status == QUIPU_OK && ret->p == NULL) {
            *ret = (quipu_bytes){"", 0}; /* there, and empty */
        }
    }
    assert(status != QUIPU_OK || text.p == NULL || ret->p != NULL);
    return status == QUIPU_INVALID ? QUIPU_CORRUPT : status;
}

/* An output, which may be the next so many bytes of the content. *content moves behind them. */
static quipu_status tool_calls_output(qp_json_node call, quipu_arena *arena, quipu_str *content,
                                      quipu_str *ret)
{
    qp_json_node node = qp_json_get(call, QUIPU_STR("output"));
    int64_t size = 0;

    if (qp_json_kind_of(node) != QP_JSON_NUMBER) {
        return tool_calls_text(call, QUIPU_STR("output"), arena, ret);
    }
    /* Content and calls are of one row, written together: a size that does not fit is damage. */
    if (qp_json_int64(node, &size) != QP_JSON_EXACT || size < 0 || content->p == NULL ||
        (uint64_t)size > content->n) {
        return QUIPU_CORRUPT;
    }
    assert(size >= 0 && (size_t)size <= content->n);
    *ret = (quipu_str){content->p, (size_t)size};
    *content = (quipu_str){content->p + size, content->n - (size_t)size};
    /* A text that we give out ends with a NUL: only the last one has the content's. */
    return content->n > 0 ? quipu_arena_copy(arena, *ret, ret) : QUIPU_OK;
}

/* One element of the array. A member that Lango left out is empty, not absent, except the output: a
 * call without an output has not been answered. */
static quipu_status tool_calls_one(qp_json_node node, quipu_arena *arena, quipu_str *content,
                                   quipu_tool_call *ret)
{
    quipu_status status;

    *ret = (quipu_tool_call){.id = {"", 0}, .name = {"", 0}, .input = {"", 0}};
    if (qp_json_kind_of(node) != QP_JSON_OBJECT) {
        return QUIPU_CORRUPT;
    }
    status = tool_calls_text(node, QUIPU_STR("id"), arena, &ret->id);
    if (status == QUIPU_OK) {
        status = tool_calls_text(node, QUIPU_STR("name"), arena, &ret->name);
    }
    if (status == QUIPU_OK) {
        status = tool_calls_text(node, QUIPU_STR("input"), arena, &ret->input);
    }
    if (status == QUIPU_OK) {
        status = tool_calls_output(node, arena, content, &ret->output);
    }
    if (status == QUIPU_OK) {
        status = tool_calls_signature(node, arena, &ret->thought_signature);
    }
    ret->thought = qp_json_kind_of(qp_json_get(node, QUIPU_STR("thought"))) == QP_JSON_TRUE;
    return status;
}

/* Parses the column and takes memory for one item of each element. *ret_count is 0, and *ret_items
 * NULL, for an absent column and for null, which Lango writes for "no calls". */
static quipu_status tool_calls_open(quipu_str json, qp_json_doc *doc, quipu_arena *arena,
                                    size_t item_size, void **ret_items, size_t *ret_count)
{
    qp_json_node root;
    quipu_status status;

    assert(item_size > 0);
    *ret_items = NULL;
    *ret_count = 0;
    if (json.p == NULL) {
        return QUIPU_OK;
    }
    status = qp_json_parse(doc, json, &QP_COLUMN_LIMITS, NULL);
    if (status != QUIPU_OK) {
        return status == QUIPU_INVALID ? QUIPU_CORRUPT : status;
    }
    root = qp_json_root(doc);
    if (qp_json_kind_of(root) != QP_JSON_ARRAY && qp_json_kind_of(root) != QP_JSON_NULL) {
        return QUIPU_CORRUPT;
    }
    /* The column may hold null, which counts as no calls. */
    *ret_count = qp_json_count(root);
    if (*ret_count > 0) {
        *ret_items = qp_arena_take(arena, *ret_count * item_size);
        if (*ret_items == NULL) {
            return qp_arena_why(arena, *ret_count * item_size);
        }
    }
    return QUIPU_OK;
}

/* The public form has no sizes in place of outputs: without a content they are refused. */
quipu_status qp_tool_calls_read(quipu_str json, qp_json_doc *doc, quipu_arena *arena,
                                quipu_tool_calls *ret_calls)
{
    return qp_tool_calls_read_column(json, QP_STR_ABSENT, doc, arena, ret_calls);
}

/* The way back: `content` is put in where the column leaves the output out. */
quipu_status qp_tool_calls_read_column(quipu_str json, quipu_str content, qp_json_doc *doc,
                                       quipu_arena *arena, quipu_tool_calls *ret_calls)
{
    void *items = NULL;
    size_t n = 0;
    size_t count = 0;
    quipu_status status = tool_calls_open(json, doc, arena, sizeof(quipu_tool_call), &items, &n);
    quipu_tool_call *calls = items;

    if (status == QUIPU_OK && n > 0) {
        qp_json_iter iter = qp_json_each(qp_json_root(doc));
        /* Each call moves `content` behind its output: both have the same order. */
        while (status == QUIPU_OK && qp_json_next(&iter)) {
            assert(calls != NULL && count < n);
            status = tool_calls_one(iter.value, arena, &content, &calls[count++]);
        }
    }
    if (status == QUIPU_OK) {
        assert(count == n);
        *ret_calls = quipu_tool_calls_of(calls, count);
    }
    return status;
}

/* A member that is a text, else empty: ids and names of other kinds pair with nothing. */
static quipu_status tool_calls_head_text(qp_json_node call, quipu_str name, quipu_arena *arena,
                                         quipu_str *ret)
{
    qp_json_node node = qp_json_get(call, name);

    assert(name.n > 0);
    *ret = (quipu_str){"", 0};
    return qp_json_kind_of(node) == QP_JSON_STRING ? qp_json_text_copy(node, arena, ret) : QUIPU_OK;
}

/* Whether a member is there and says anything; `empty`: an empty text counts, too. The raw text
 * with its quotes shows that without unescaping. */
static bool tool_calls_head_has(qp_json_node call, quipu_str name, bool empty)
{
    qp_json_node node = qp_json_get(call, name);
    qp_json_kind kind = qp_json_kind_of(node);

    assert(name.n > 0);
    return kind != QP_JSON_NONE && kind != QP_JSON_NULL &&
           (empty || kind != QP_JSON_STRING || qp_json_raw(node).n > sizeof("\"\"") - 1);
}

/* Reads only what the pairing rule needs: inputs and outputs, which may be large, are not copied.
 * Entries without either are not items, so that there may be fewer items than elements. */
quipu_status qp_tool_calls_items(quipu_str json, bool answers, qp_json_doc *doc, quipu_arena *arena,
                                 qp_tool_item **ret_items, size_t *ret_count)
{
    void *memory = NULL;
    size_t n = 0;
    size_t count = 0;
    quipu_status status = tool_calls_open(json, doc, arena, sizeof(qp_tool_item), &memory, &n);
    qp_tool_item *items = memory;

    if (status == QUIPU_OK && n > 0) {
        qp_json_iter iter = qp_json_each(qp_json_root(doc));

        while (status == QUIPU_OK && qp_json_next(&iter)) {
            const qp_tool_item_kind kind = qp_tool_call_kind(
                answers, tool_calls_head_has(iter.value, QUIPU_STR("input"), false),
                tool_calls_head_has(iter.value, QUIPU_STR("output"), true));

            assert(items != NULL && count < n);
            if (kind == QP_TOOL_NOTHING) {
                continue;
            }
            items[count] = (qp_tool_item){.kind = kind};
            status = tool_calls_head_text(iter.value, QUIPU_STR("id"), arena, &items[count].id);
            if (status == QUIPU_OK) {
                status =
                    tool_calls_head_text(iter.value, QUIPU_STR("name"), arena, &items[count].name);
            }
            count++;
        }
    }
    if (status == QUIPU_OK) {
        assert(count <= n);
        *ret_items = items;
        *ret_count = count;
    }
    return status;
}

/* The same rule as qp_message_answers() of fork_chain.h, which reads it from a row. Results may
 * come in a message of the user, as some providers have it. */
bool qp_message_is_answer(const quipu_message *message)
{
    return message->role == QUIPU_ROLE_TOOL || message->role == QUIPU_ROLE_FUNCTION ||
           (message->role == QUIPU_ROLE_USER && message->calls.count > 0);
}

/* One array for all messages: at most one item for a message and one for each entry. */
quipu_status qp_message_items(const quipu_message *messages, size_t count, qp_tool_item **ret_items,
                              size_t *ret_count)
{
    size_t most = count + 1;
    size_t n = 0;
    qp_tool_item *items;

    for (size_t i = 0; i < count; i++) {
        most += messages[i].calls.count;
    }
    items = qp_calloc(most, sizeof(*items));
    if (items == NULL) {
        return QUIPU_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const quipu_message *message = &messages[i];
        const bool answers = qp_message_is_answer(message);

        /* A message without entries is an item itself: an answer, or the beginning of a turn. */
        if (message->calls.count == 0 && (answers || message->role == QUIPU_ROLE_USER)) {
            items[n++] = (qp_tool_item){.kind = answers ? QP_TOOL_RESPONSE : QP_TOOL_TURN,
                                        .message = (int64_t)i};
        }
        for (size_t k = 0; k < message->calls.count; k++) {
            const quipu_tool_call *call = quipu_tool_call_at(message->calls, k);
            const qp_tool_item_kind kind =
                qp_tool_call_kind(answers, call->input.n > 0, call->output.p != NULL);

            assert(n < most);
            items[n] = (qp_tool_item){.kind = kind,
                                      .message = (int64_t)i,
                                      .id = call->id,
                                      .name = call->name,
                                      .entry = k};
            n += kind != QP_TOOL_NOTHING ? 1 : 0;
        }
    }
    assert(n < most); /* each message and each entry has room, and one is left */
    qp_tool_pair_match(items, n, QUIPU_PAIR_REACH);
    *ret_items = items;
    *ret_count = n;
    return QUIPU_OK;
}
