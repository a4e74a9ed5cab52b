/* The parts of an event's content. Texts are concatenated for the content column, function calls
 * and responses become tool calls; one entry of "p" for each part says how to take them apart again
 * (format: event.h).
 *
 *   {"text": "Look: "}, {"functionCall": {"id": "c1", "name": "f", "args": {}}},
 *   {"text": "ok", "x": 1}
 *
 * become content "Look: ok", one tool call, and "p": [6, "c", [{"x": 1}, 2]].
 *
 * Owns: the buffers of qp_parts, freed by qp_parts_free().
 * Called by: event_encode.c for qp_parts, event_decode.c and view.c for the small shared writers.
 * Locks: none. Invariant: a part is stored either in columns plus its entry, or raw in its entry.
 * Whatever is unusual (a name twice, a value of another type) goes the raw way. */
#include "adk/event_parts.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"

/* One part, by its members. A node without a document: the part lacks that member. */
typedef struct parts_one {
    qp_json_node part;
    qp_json_node text;
    qp_json_node call[2]; /* a function call, a response */
    bool other[2];        /* named in the other spelling */
    qp_json_node thought;
    qp_json_node signature;
    char marks[2][QP_CALL_MARKS_MAX + 1];
    size_t call_others[2]; /* members of the call that the column does not hold */
    size_t others;         /* members of the part that stay as they are */
} parts_one;

/* The names of calls and responses, and of what each carries. */
static const quipu_str parts_calls[2][2] = {{{"functionCall", 12}, {"function_call", 13}},
                                            {{"functionResponse", 16}, {"function_response", 17}}};
/* By the same index: 0 for a call, 1 for a response. */
static const quipu_str parts_bodies[2] = {{"args", 4}, {"response", 8}};
static const quipu_str parts_signatures[2] = {{"thoughtSignature", 16}, {"thought_signature", 17}};

/* Allocates nothing: most contents have one text and use none of the buffers. */
void qp_parts_init(qp_parts *parts)
{
    *parts = (qp_parts){.text = {"", 0}};
    qp_buf_init(&parts->text_buf, QP_EVENT_JSON_MAX);
    qp_buf_init(&parts->entries, QP_EVENT_JSON_MAX);
    qp_buf_init(&parts->odd, QP_EVENT_JSON_MAX);
}

/* Called after a failed encoding, too. The message's texts lie in the arena and stay. */
void qp_parts_free(qp_parts *parts)
{
    qp_buf_free(&parts->text_buf);
    qp_buf_free(&parts->entries);
    qp_buf_free(&parts->odd);
}

/* ADK's role for a message's. A tool's answer has the role "user" in ADK; encoding restores the
 * tool's from the responses. */
quipu_str qp_event_role(quipu_role role)
{
    switch (role) {
    case QUIPU_ROLE_ASSISTANT:
    case QUIPU_ROLE_MODEL:
        return QUIPU_STR("model");
    case QUIPU_ROLE_SYSTEM:
        return QUIPU_STR("system");
    default:
        return QUIPU_STR("user"); /* responses of tools are the user's in ADK */
    }
}

/* A number in decimal, with leading zeros up to `width`; returns the end. */
static char *parts_digits(char *text, uint64_t value, size_t width)
{
    char digits[20];
    size_t n = 0;

    /* The digits come out backwards. */
    for (; value > 0 || n < width; value /= 10) {
        digits[n++] = (char)('0' + value % 10);
    }
    while (n > 0) {
        *text++ = digits[--n];
    }
    return text;
}

/* Seconds as Python writes a float of that value: at least one decimal, no trailing zeros. Times
 * before 1970 count down: -0.5 is second -1 and half a second. */
quipu_str qp_event_seconds(quipu_time time, bool whole, char text[QP_EVENT_TIME_SIZE])
{
    uint64_t s = time.s < 0 ? 0 - (uint64_t)time.s : (uint64_t)time.s;
    uint32_t ns = time.ns;
    char *end = text;

    if (time.s < 0) {
        *end++ = '-';
    }
    if (time.s < 0 && ns > 0 && !whole) { /* -0.5 is second -1 and a half */
        s--;
        ns = UINT32_C(1000000000) - ns;
    }
    end = parts_digits(end, s, 1);
    if (!whole) {
        *end++ = '.';
        end = parts_digits(end, ns, 9);
        /* One decimal stays: "1.0", as Python writes it. */
        while (end[-1] == '0' && end[-2] != '.') {
            end--;
        }
    }
    *end = '\0';
    return (quipu_str){text, (size_t)(end - text)};
}

/* Base64 with the alphabet and padding that the event came with. */
void qp_signature_write(quipu_bytes bytes, bool url, bool bare, qp_buf *buf)
{
    size_t start = buf->n;

    qp_base64_put(buf, bytes);
    if (qp_buf_status(buf) != QUIPU_OK) {
        return;
    }
    for (size_t i = start; url && i < buf->n; i++) {
        /* The same values in the other alphabet. */
        buf->p[i] = buf->p[i] == '+' ? '-' : buf->p[i] == '/' ? '_' : buf->p[i];
    }
    while (bare && buf->n > start && buf->p[buf->n - 1] == '=') {
        qp_buf_cut(buf, buf->n - 1);
    }
}

/* ---- taking a part to pieces ------------------------------------------------------------------
 */

/* Whether a name is this one in either spelling; *ret_other: not in the spelling of the event. */
static bool parts_named(qp_json_node key, const quipu_str names[2], bool snake, bool *ret_other)
{
    if (qp_key_is(key, names[snake])) {
        *ret_other = false;
        return true;
    }
    if (qp_key_is(key, names[!snake])) {
        *ret_other = true;
        return true;
    }
    return false;
}

/* The slot of parts_one for a member, or NULL when the member stays as it is: an unknown name, or a
 * value of another type than ADK writes. Only values that a column gives back exactly get a
 * slot. */
static qp_json_node *parts_place(parts_one *one, const qp_json_iter *iter, bool snake)
{
    qp_json_kind kind = qp_json_kind_of(iter->value);
    bool other = false;

    if (qp_key_is(iter->key, QUIPU_STR("text"))) {
        return kind == QP_JSON_STRING ? &one->text : NULL;
    }
    if (qp_key_is(iter->key, QUIPU_STR("thought"))) {
        return kind == QP_JSON_TRUE ? &one->thought : NULL;
    }
    if (parts_named(iter->key, parts_signatures, snake, &other)) {
        return kind == QP_JSON_STRING && !other ? &one->signature : NULL;
    }
    for (size_t i = 0; i < 2; i++) {
        if (parts_named(iter->key, parts_calls[i], snake, &other)) {
            if (kind != QP_JSON_OBJECT) {
                return NULL;
            }
            one->other[i] = other;
            return &one->call[i];
        }
    }
    return NULL;
}

/* Fills the slots. A slot that is taken means that a name occurs twice: false, and the part is
 * stored raw. */
static bool parts_split(parts_one *one, bool snake)
{
    qp_json_iter iter = qp_json_each(one->part);

    while (qp_json_next(&iter)) {
        qp_json_node *place = parts_place(one, &iter, snake);

        if (place == NULL) {
            one->others++;
            continue;
        }
        /* Twice: the writer of the event meant one of them, and nobody knows which. */
        if (place->doc != NULL) {
            return false;
        }
        *place = iter.value;
    }
    return true;
}

/* Whether one of ADK's names occurs twice, once in a slot and once among the other members: the
 * later one would win when the event is read, so such a part is stored raw. */
static bool parts_shadowed(const parts_one *one)
{
    static const char *const names[] = {
        "text",         "thought",       "thoughtSignature", "thought_signature",
        "functionCall", "function_call", "functionResponse", "function_response"};
    qp_json_iter iter = qp_json_each(one->part);
    bool seen[8] = {false};

    while (qp_json_next(&iter)) {
        for (size_t i = 0; i < 8; i++) {
            if (qp_key_is(iter.key, quipu_cstr(names[i]))) {
                if (seen[i]) {
                    return true;
                }
                seen[i] = true;
            }
        }
    }
    return false;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

/* Appends to a zero-terminated list; marks of a call are fewer than QP_CALL_MARKS_MAX. The rest of
 * the array is zero, so that the list stays terminated. */
static void parts_mark(char marks[QP_CALL_MARKS_MAX + 1], char mark)
{
    size_t n = strlen(marks);

    assert(n < QP_CALL_MARKS_MAX);
    marks[n] = mark;
}

/* A text of a call for its column. *ret_kept: it also stays in the entry, because it is missing,
 * has another type, or has odd characters. */
static quipu_status parts_call_text(qp_json_node node, quipu_arena *arena, quipu_str *ret,
                                    bool *ret_kept)
{
    uint32_t flags = 0;
    quipu_status status = QUIPU_OK;

    *ret = QUIPU_STR("");
    *ret_kept = true;
    if (qp_json_kind_of(node) == QP_JSON_STRING) {
        status = qp_json_text(node, arena, ret, &flags);
        /* Odd characters are lost in the column, so that the entry keeps the text. */
        *ret_kept = flags != 0;
    }
    return status;
}

/* The id of a call without one: a prefix and its name, for the call and for the response alike, so
 * that they match. */
static quipu_status parts_fallback_id(quipu_str name, quipu_arena *arena, quipu_str *ret)
{
    static const char prefix[] = QP_CALL_ID_PREFIX;
    const size_t n = sizeof(prefix) - 1 + name.n;
    char *text = qp_arena_take(arena, n + 1);

    if (text == NULL) {
        return qp_arena_why(arena, n + 1);
    }
    memcpy(text, prefix, sizeof(prefix) - 1);
    memcpy(text + sizeof(prefix) - 1, name.p, name.n);
    text[n] = '\0';
    *ret = (quipu_str){text, n};
    return QUIPU_OK;
}

/* A signature goes to its column when writing it again gives the same letters; otherwise it is kept
 * as text. */
static quipu_status parts_signature(qp_json_node node, quipu_arena *arena, quipu_bytes *ret_bytes,
                                    char marks[QP_CALL_MARKS_MAX + 1], bool *ret_kept)
{
    quipu_str raw = qp_json_raw(node);
    quipu_str text = {raw.p + 1, raw.n - 2};
    bool url = memchr(text.p, '-', text.n) != NULL || memchr(text.p, '_', text.n) != NULL;
    bool bare = text.n % 4 != 0;
    quipu_bytes bytes = {NULL, 0};
    quipu_status status = qp_base64_read(text, arena, &bytes);
    qp_buf again;

    *ret_kept = true;
    /* A text that is not base64 is kept as it is in the entry. */
    if (status != QUIPU_OK) {
        return status == QUIPU_INVALID ? QUIPU_OK : status;
    }
    qp_buf_init(&again, QP_EVENT_JSON_MAX);
    qp_signature_write(bytes, url, bare, &again);
    status = qp_buf_status(&again);
    /* The test is the round trip itself: padding and alphabet may be mixed. */
    if (status == QUIPU_OK && qp_str_cmp(qp_buf_str(&again), text) == 0) {
        *ret_kept = false;
        *ret_bytes = bytes;
        parts_mark(marks, url ? QP_CALL_URL : QP_CALL_STD);
        if (bare) {
            parts_mark(marks, QP_CALL_BARE);
        }
    }
    qp_buf_free(&again);
    return status;
}

/* Whether the column holds this member of a call or response. */
static bool parts_call_stored(qp_json_node key, size_t which, const char *marks)
{
    if (qp_key_is(key, QUIPU_STR("id"))) {
        return strchr(marks + 1, QP_CALL_NO_ID) == NULL;
    }
    if (qp_key_is(key, QUIPU_STR("name"))) {
        return strchr(marks + 1, QP_CALL_NO_NAME) == NULL;
    }
    return qp_key_is(key, parts_bodies[which]) && strchr(marks + 1, QP_CALL_NO_BODY) == NULL;
}

/* Makes a tool call of a function call (`which` 0) or of a response (1), sets its marks, and counts
 * the members that need the entry. A response's body is the output, a call's the input: the other
 * stays empty. */
static quipu_status parts_call(parts_one *one, size_t which, quipu_arena *arena,
                               quipu_tool_call *ret)
{
    qp_json_node call = one->call[which];
    qp_json_node body = qp_json_get(call, parts_bodies[which]);
    const bool has_body = qp_json_kind_of(body) == QP_JSON_OBJECT;
    /* A column without a body has an empty object, so that models can be shown the call. */
    const quipu_str text = has_body ? qp_json_raw(body) : QUIPU_STR("{}");
    char *marks = one->marks[which];
    bool kept = false;
    quipu_status status;
    qp_json_iter iter;

    *ret = (quipu_tool_call){.input = {"", 0}};
    /* The first mark says what it is; the others say which members do not come from the tool
     * call. */
    parts_mark(marks, which == 0 ? QP_CALL_CALL : QP_CALL_RESPONSE);
    status = parts_call_text(qp_json_get(call, QUIPU_STR("name")), arena, &ret->name, &kept);
    if (kept) {
        parts_mark(marks, QP_CALL_NO_NAME);
    }
    if (status == QUIPU_OK) {
        status = parts_call_text(qp_json_get(call, QUIPU_STR("id")), arena, &ret->id, &kept);
    }
    /* The column gets a made-up id, the entry keeps that there was none. */
    if (status == QUIPU_OK && ret->id.n == 0) {
        kept = true;
        status = parts_fallback_id(ret->name, arena, &ret->id);
    }
    if (kept) {
        parts_mark(marks, QP_CALL_NO_ID);
    }
    *(which == 0 ? &ret->input : &ret->output) = text;
    if (!has_body) {
        parts_mark(marks, QP_CALL_NO_BODY);
    }
    if (one->other[which]) {
        parts_mark(marks, QP_CALL_OTHER);
    }
    iter = qp_json_each(call);
    while (qp_json_next(&iter)) {
        one->call_others[which] += !parts_call_stored(iter.key, which, marks);
    }
    return status;
}

/* Thought and signature of a part belong to its call, when it has one; otherwise they stay members
 * of the part. */
static quipu_status parts_thought(parts_one *one, quipu_arena *arena, quipu_tool_call *call)
{
    quipu_status status = QUIPU_OK;
    bool kept = true;

    if (call != NULL && one->thought.doc != NULL) {
        call->thought = true;
        parts_mark(one->marks[0], QP_CALL_THOUGHT);
    } else {
        /* A thought without a call stays with its part. */
        one->others += one->thought.doc != NULL;
        one->thought.doc = NULL;
    }
    if (call != NULL && one->signature.doc != NULL) {
        status =
            parts_signature(one->signature, arena, &call->thought_signature, one->marks[0], &kept);
    }
    if (kept) {
        one->others += one->signature.doc != NULL;
        one->signature.doc = NULL;
    }
    return status;
}

/* ---- entries ----------------------------------------------------------------------------------
 */

/* Whether a value went to a slot, by its position in the document. */
static bool parts_taken(const parts_one *one, qp_json_node value)
{
    const qp_json_node *const places[] = {&one->text, &one->call[0], &one->call[1], &one->thought,
                                          &one->signature};
    bool taken = false;

    for (size_t i = 0; i < 5; i++) {
        taken = taken || (places[i]->doc != NULL && places[i]->at == value.at);
    }
    return taken;
}

/* The marks of a call, then its members that no column holds. */
static void parts_entry_call(const parts_one *one, size_t which, qp_jsonw *writer)
{
    qp_json_iter iter = qp_json_each(one->call[which]);

    qp_jsonw_str(writer, quipu_cstr(one->marks[which]));
    if (one->call_others[which] == 0) {
        return;
    }
    qp_jsonw_object(writer);
    while (qp_json_next(&iter)) {
        if (!parts_call_stored(iter.key, which, one->marks[which])) {
            qp_jsonw_raw_key(writer, qp_json_raw(iter.key));
            qp_jsonw_raw(writer, qp_json_raw(iter.value));
        }
    }
    qp_jsonw_object_end(writer);
}

/* One entry of "p" (format: event.h). A part with one piece needs no array. Written behind the
 * entries so far; the count of pieces is known before, which decides about brackets. */
static void parts_entry(const parts_one *one, size_t text_size, qp_buf *entries)
{
    const size_t pieces = (size_t)(one->text.doc != NULL) + (one->call[0].doc != NULL) +
                          (one->call[1].doc != NULL) + (one->others > 0) +
                          (one->call_others[0] > 0) + (one->call_others[1] > 0);
    qp_json_iter iter = qp_json_each(one->part);
    qp_jsonw writer;

    if (entries->n > 0) {
        qp_buf_putc(entries, ',');
    }
    qp_jsonw_begin(&writer, entries);
    if (pieces != 1) {
        qp_jsonw_array(&writer);
    }
    if (one->others > 0) {
        qp_jsonw_object(&writer);
        while (qp_json_next(&iter)) {
            if (!parts_taken(one, iter.value)) {
                qp_jsonw_raw_key(&writer, qp_json_raw(iter.key));
                qp_jsonw_raw(&writer, qp_json_raw(iter.value));
            }
        }
        qp_jsonw_object_end(&writer);
    }
    if (one->text.doc != NULL) {
        qp_jsonw_i64(&writer, (int64_t)text_size);
    }
    for (size_t i = 0; i < 2; i++) {
        if (one->call[i].doc != NULL) {
            parts_entry_call(one, i, &writer);
        }
    }
    if (pieces != 1) {
        qp_jsonw_array_end(&writer);
    }
}

/* A part as it stands: an object, or any other value in two brackets. */
static void parts_entry_raw(qp_json_node part, qp_buf *entries)
{
    const bool object = qp_json_kind_of(part) == QP_JSON_OBJECT;

    qp_buf_puts(entries, entries->n > 0 ? "," : "");
    qp_buf_puts(entries, object ? "" : "[[");
    qp_buf_put(entries, qp_json_raw(part));
    qp_buf_puts(entries, object ? "" : "]]");
}

/* ---- all parts --------------------------------------------------------------------------------
 */

/* Adds a text to the content. A single text is not copied; from the second on they are collected in
 * text_buf. Sizes are those of the decoded text, and so is `offset`: decoding cuts the column by
 * them. */
static quipu_status parts_text(qp_parts *parts, qp_json_node node, quipu_arena *arena,
                               size_t *ret_size)
{
    quipu_str text = {NULL, 0};
    uint32_t flags = 0;
    const size_t offset = parts->texts == 1 ? parts->text.n : parts->text_buf.n;
    quipu_status status = qp_json_text(node, arena, &text, &flags);

    if (status != QUIPU_OK) {
        return status;
    }
    if (flags != 0) {
        qp_odd_pack(qp_json_raw(node), offset, &parts->odd_last, &parts->odd);
    }
    /* The decoded length: that is what the column holds. */
    *ret_size = text.n;
    if (parts->texts++ == 0) {
        parts->text = text; /* the only one needs no copy */
        return qp_buf_status(&parts->odd);
    }
    if (parts->texts == 2) {
        qp_buf_put(&parts->text_buf, parts->text);
    }
    qp_buf_put(&parts->text_buf, text);
    status = qp_buf_status(&parts->text_buf);
    return status == QUIPU_OK ? qp_buf_status(&parts->odd) : status;
}

/* The calls of a part, and the thought and signature that belong to them. */
static quipu_status parts_part_calls(qp_parts *parts, parts_one *one, quipu_arena *arena)
{
    quipu_tool_call *call = NULL;
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < 2 && status == QUIPU_OK; i++) {
        if (one->call[i].doc != NULL) {
            quipu_tool_call *next = &parts->tool_calls[parts->calls + parts->responses];

            status = parts_call(one, i, arena, next);
            call = i == 0 ? next : call;
            *(i == 0 ? &parts->calls : &parts->responses) += 1;
        }
    }
    return status == QUIPU_OK ? parts_thought(one, arena, call) : status;
}

/* One part: raw when it is unusual or has neither text nor call, otherwise split. The conditions
 * are checked before anything is written, so that a raw part leaves no trace in the columns. */
static quipu_status parts_part(qp_parts *parts, qp_json_node part, bool snake, quipu_arena *arena)
{
    parts_one one = {.part = part};
    size_t text_size = 0;
    quipu_status status = QUIPU_OK;

    if (qp_json_kind_of(part) != QP_JSON_OBJECT || !parts_split(&one, snake) ||
        (one.others > 0 && parts_shadowed(&one)) ||
        (one.text.doc == NULL && one.call[0].doc == NULL && one.call[1].doc == NULL)) {
        parts_entry_raw(part, &parts->entries);
        return qp_buf_status(&parts->entries);
    }
    if (one.text.doc != NULL) {
        status = parts_text(parts, one.text, arena, &text_size);
    }
    if (status == QUIPU_OK) {
        status = parts_part_calls(parts, &one, arena);
    }
    if (status == QUIPU_OK) {
        parts_entry(&one, text_size, &parts->entries);
        status = qp_buf_status(&parts->entries);
    }
    return status;
}

/* Readers of messages look for a tool's answer in the content. Without a text of its own the
 * content is the outputs, one after the other; the store keeps such a content only once
 * (store/tool_calls.h). */
static quipu_status parts_answers(qp_parts *parts, quipu_arena *arena)
{
    const quipu_tool_call *calls = parts->tool_calls;
    const size_t count = parts->calls + parts->responses;

    if (parts->responses == 1) {
        for (size_t i = 0; i < count; i++) {
            parts->text = calls[i].output.p != NULL ? calls[i].output : parts->text;
        }
        return QUIPU_OK;
    }
    for (size_t i = 0; i < count; i++) {
        qp_buf_put(&parts->text_buf, calls[i].output);
    }
    return qp_buf_status(&parts->text_buf) == QUIPU_OK
               ? quipu_arena_copy(arena, qp_buf_str(&parts->text_buf), &parts->text)
               : qp_buf_status(&parts->text_buf);
}

/* A part may hold a call and a response, hence two tool calls for each. */
static quipu_status parts_list(qp_parts *parts, bool snake, quipu_arena *arena)
{
    const size_t count = qp_json_count(parts->list);
    qp_json_iter iter = qp_json_each(parts->list);
    quipu_status status = QUIPU_OK;

    if (count > 0) {
        /* A part may hold a call and a response. */
        parts->tool_calls = qp_arena_take(arena, 2 * count * sizeof(*parts->tool_calls));
        status = parts->tool_calls != NULL ? QUIPU_OK : QUIPU_NOMEM;
    }
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        status = parts_part(parts, iter.value, snake, arena);
    }
    if (status == QUIPU_OK && parts->texts > 1) {
        status = quipu_arena_copy(arena, qp_buf_str(&parts->text_buf), &parts->text);
    } else if (status == QUIPU_OK && parts->texts == 0 && parts->responses > 0) {
        status = parts_answers(parts, arena);
    }
    return status;
}

/* Reads a content object. One part with a text and nothing else is the common case and needs no
 * entry. */
quipu_status qp_parts_encode(qp_parts *parts, qp_json_node content, bool snake, quipu_arena *arena,
                             quipu_error *reterr)
{
    qp_json_iter iter = qp_json_each(content);
    quipu_status status = QUIPU_OK;

    parts->content = content;
    while (qp_json_next(&iter)) {
        if (qp_key_is(iter.key, QUIPU_STR("role"))) {
            parts->role = iter.value;
        } else if (qp_key_is(iter.key, QUIPU_STR("parts"))) {
            parts->list = iter.value;
        } else {
            parts->others++;
        }
    }
    parts->has_parts = qp_json_kind_of(parts->list) == QP_JSON_ARRAY;
    if (parts->has_parts) {
        qp_json_node only = qp_json_at(parts->list, 0);
        qp_json_node text = qp_json_get(only, QUIPU_STR("text"));

        parts->plain = qp_json_count(parts->list) == 1 && qp_json_kind_of(only) == QP_JSON_OBJECT &&
                       qp_json_count(only) == 1 && qp_json_kind_of(text) == QP_JSON_STRING;
        if (parts->plain) {
            size_t size = 0;
            status = parts_text(parts, text, arena, &size);
        } else {
            status = parts_list(parts, snake, arena);
        }
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "no room for the parts of the event");
}

/* Whether a member of the content goes into "c": everything but role and parts, and these when they
 * have odd types. */
static bool parts_content_kept(const qp_parts *parts, const qp_json_iter *member)
{
    if (qp_key_is(member->key, QUIPU_STR("role"))) {
        return parts->role_kept && member->value.at == parts->role.at;
    }
    return !qp_key_is(member->key, QUIPU_STR("parts")) ||
           (!parts->has_parts && member->value.at == parts->list.at);
}

/* Whether "c" is needed at all. */
static bool parts_content_rest(const qp_parts *parts)
{
    return parts->others > 0 || parts->role_kept || (parts->list.doc != NULL && !parts->has_parts);
}

/* Whether qp_parts_write() writes anything. */
bool qp_parts_has_rest(const qp_parts *parts)
{
    return parts_content_rest(parts) || (parts->has_parts && !parts->plain);
}

/* Writes "c" and "p" into extra, each only when it is needed. */
void qp_parts_write(const qp_parts *parts, qp_jsonw *writer)
{
    qp_json_iter iter = qp_json_each(parts->content);

    if (parts_content_rest(parts)) {
        qp_jsonw_raw_key(writer, QUIPU_STR("\"c\""));
        qp_jsonw_object(writer);
        while (qp_json_next(&iter)) {
            if (parts_content_kept(parts, &iter)) {
                qp_jsonw_raw_key(writer, qp_json_raw(iter.key));
                qp_jsonw_raw(writer, qp_json_raw(iter.value));
            }
        }
        qp_jsonw_object_end(writer);
    }
    if (parts->has_parts && !parts->plain) {
        qp_jsonw_raw_key(writer, QUIPU_STR("\"p\""));
        qp_jsonw_array(writer);
        qp_buf_put(writer->buf, qp_buf_str(&parts->entries));
        qp_jsonw_array_end(writer);
    }
}
