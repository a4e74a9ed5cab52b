/* The one pass over JSON text (check, and tape) and the walk over the tape. UTF-8 is checked first
 * for the whole text, so that the grammar pass may treat bytes past 0x7f as plain.
 *
 * Owns: the tape of a qp_json_doc, until qp_json_free(). The text is borrowed.
 * Called by: every room that reads JSON; src/ent/row.c for each JSON field that is written.
 * Threads: a document belongs to one thread at a time; a parsed one may be read by several.
 * On return from a failed parse the document is empty: readers find no value.
 *
 * A text of few tokens allocates nothing: the first ones lie in the document (`near`). More move to
 * the heap, which doubles. Containers that are open are kept on a stack of fixed depth, never on
 * the C stack: a text of brackets alone is refused, and cannot overflow anything.
 *
 *   {"a": [1, 2]}      token  0 object  1 "a"  2 array  3 1  4 2
 *                       next   5         2      5        4    5     the token behind the value */
#include "base/json.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_scan.h"
#include "base/str.h"

/* The class of a byte, by a table of 256 entries: one load instead of a chain of comparisons. */
enum json_class { JSON_BAD = 0, JSON_SPACE, JSON_QUOTE, JSON_DIGIT, JSON_WORD, JSON_OPEN };

/* The token that a byte can begin where a value or white space may be. */
static const uint8_t json_class[256] = {
    [' '] = JSON_SPACE, ['\t'] = JSON_SPACE, ['\n'] = JSON_SPACE, ['\r'] = JSON_SPACE,
    ['"'] = JSON_QUOTE, ['-'] = JSON_DIGIT,  ['0'] = JSON_DIGIT,  ['1'] = JSON_DIGIT,
    ['2'] = JSON_DIGIT, ['3'] = JSON_DIGIT,  ['4'] = JSON_DIGIT,  ['5'] = JSON_DIGIT,
    ['6'] = JSON_DIGIT, ['7'] = JSON_DIGIT,  ['8'] = JSON_DIGIT,  ['9'] = JSON_DIGIT,
    ['t'] = JSON_WORD,  ['f'] = JSON_WORD,   ['n'] = JSON_WORD,   ['{'] = JSON_OPEN,
    ['['] = JSON_OPEN};

/* How many bytes an escape has after the backslash's next byte; 1-based, 0 is "no escape". */
static const uint8_t json_escape[256] = {['"'] = 1, ['\\'] = 1, ['/'] = 1, ['b'] = 1, ['f'] = 1,
                                         ['n'] = 1, ['r'] = 1,  ['t'] = 1, ['u'] = 5};

/* The state of one pass. Values nest on `open` and not on the C stack, so that a hostile text
 * cannot overflow it. Invariant: depth <= depth_max <= QP_JSON_DEPTH_CAP. */
typedef struct json_scan {
    const unsigned char *begin;
    const unsigned char *end;
    qp_json_token *tokens;
    uint32_t count;
    uint32_t cap;
    uint32_t step; /* 1: keep tokens; 0: only check, and let all go to one spare token */
    uint32_t depth;
    uint32_t depth_max;
    quipu_status status;
    qp_json_fault fault;
    qp_json_doc *doc;
    uint32_t open[QP_JSON_DEPTH_CAP]; /* token of each open container * 2, + 1 for an object */
} json_scan;

/* For callers that state none. */
static const qp_json_limits json_limits = {QP_JSON_SIZE_MAX, QP_JSON_DEPTH_MAX};

/* Records the first fault: where, and what was expected. Returns NULL, the end of the scan. Out of
 * line and never expected: the pass over good text should not carry its code. */
QP_NOINLINE static const unsigned char *json_fail(json_scan *scan, const unsigned char *at,
                                                  const char *expected)
{
    scan->status = QUIPU_INVALID;
    scan->fault.offset = (size_t)(at - scan->begin);
    scan->fault.expected = expected;
    return NULL;
}

/* A longer tape. The first one on the heap fits most texts: a token every eight bytes. Doubling
 * keeps the cost linear. The sizes fit uint32_t: a text has at most QP_JSON_SIZE_CAP bytes, and
 * every token at least one. */
QP_NOINLINE static bool json_more(json_scan *scan)
{
    qp_json_doc *doc = scan->doc;
    size_t cap = (size_t)scan->cap * 2;
    size_t guess = (size_t)(scan->end - scan->begin) / 8;
    qp_json_token *tokens;

    assert(scan->step == 1);
    cap = cap < guess ? guess : cap;
    tokens = qp_realloc(doc->tokens == doc->near ? NULL : doc->tokens, cap * sizeof(*tokens));
    if (tokens == NULL) {
        scan->status = QUIPU_NOMEM;
        return false;
    }
    if (doc->tokens == doc->near) {
        memcpy(tokens, doc->near, sizeof(doc->near));
    }
    doc->tokens = tokens;
    doc->cap = (uint32_t)cap;
    scan->tokens = tokens;
    scan->cap = (uint32_t)cap;
    return true;
}

/* One token on the tape; the tape grows as needed. When only checking, `step` is 0: every token
 * overwrites the one spare token, so that both uses share this code without a branch. */
QP_INLINE bool json_emit(json_scan *scan, qp_json_kind kind, bool escaped,
                         const unsigned char *start, const unsigned char *end)
{
    qp_json_token *token;

    if (QP_UNLIKELY(scan->count == scan->cap) && !json_more(scan)) {
        return false;
    }
    token = &scan->tokens[scan->count];
    scan->count += scan->step;
    token->start = (uint32_t)(start - scan->begin);
    token->end = (uint32_t)(end - scan->begin);
    token->next = scan->count;
    token->kind = (uint8_t)kind;
    token->escaped = escaped;
    return true;
}

/* Behind white space. Most values follow at once, which the first test catches. */
QP_INLINE const unsigned char *json_space(const json_scan *scan, const unsigned char *p)
{
    if (QP_LIKELY(p < scan->end && *p > ' ')) {
        return p;
    }
    while (p < scan->end && json_class[*p] == JSON_SPACE) {
        p++;
    }
    return p;
}

/* Whether this byte stands at `p`. */
QP_INLINE bool json_at(const json_scan *scan, const unsigned char *p, unsigned char byte)
{
    return p < scan->end && *p == byte;
}

/* A hexadecimal digit. */
static bool json_is_hex(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Past the escape whose backslash is at `p`; NULL when the escape is invalid. \u takes four digits
 * of any value: a lone surrogate is valid JSON, and json_text.c decides what it means. */
static const unsigned char *json_skip_escape(json_scan *scan, const unsigned char *p)
{
    size_t size = p + 1 < scan->end ? json_escape[p[1]] : 0;

    if (size == 0) {
        return json_fail(scan, p + 1, "one of \"\\/bfnrtu after a backslash");
    }
    for (size_t i = 1; i < size; i++) {
        if (p + 1 + i >= scan->end || !json_is_hex(p[1 + i])) {
            return json_fail(scan, p + 1 + i, "four hex digits after \\u");
        }
    }
    return p + 1 + size;
}

/* A string: the body is skipped, escapes are checked, nothing is decoded. The flag `escaped` spares
 * readers of the usual string the unescaping. */
QP_INLINE const unsigned char *json_string(json_scan *scan, const unsigned char *p)
{
    const unsigned char *start = p++;
    bool escaped = false;

    for (;;) {
        p = qp_json_plain(p, scan->end);
        if (QP_UNLIKELY(p == scan->end)) {
            return json_fail(scan, p, "a closing quote");
        }
        if (*p == '"') {
            break;
        }
        if (*p != '\\') {
            return json_fail(scan, p, "no bare control character in a string");
        }
        p = json_skip_escape(scan, p);
        if (p == NULL) {
            return NULL;
        }
        escaped = true;
    }
    p++;
    return json_emit(scan, QP_JSON_STRING, escaped, start, p) ? p : NULL;
}

/* Behind a run of digits. */
QP_INLINE const unsigned char *json_digits(const json_scan *scan, const unsigned char *p)
{
    while (p < scan->end && (unsigned)*p - '0' <= 9) {
        p++;
    }
    return p;
}

/* The grammar of RFC 8259: no leading zeros, a digit on both sides of the point. Only the form is
 * checked; its value is computed when a caller asks (json_number.c). */
static const unsigned char *json_number(json_scan *scan, const unsigned char *p)
{
    const unsigned char *start = p;
    const unsigned char *digits;

    p += *p == '-' ? 1 : 0;
    digits = p;
    /* No number has a second digit behind a leading zero: what follows is read as the next thing.
     */
    p = json_at(scan, p, '0') ? p + 1 : json_digits(scan, p);
    if (p == digits) {
        return json_fail(scan, p, "a digit");
    }
    if (json_at(scan, p, '.')) {
        digits = p + 1;
        p = json_digits(scan, digits);
        if (p == digits) {
            return json_fail(scan, p, "a digit after the point");
        }
    }
    if (json_at(scan, p, 'e') || json_at(scan, p, 'E')) {
        p++;
        p += json_at(scan, p, '+') || json_at(scan, p, '-') ? 1 : 0;
        digits = p;
        p = json_digits(scan, digits);
        if (p == digits) {
            return json_fail(scan, p, "a digit in the exponent");
        }
    }
    return json_emit(scan, QP_JSON_NUMBER, false, start, p) ? p : NULL;
}

/* true, false, null: compared as a whole, since no other word begins with their letters. */
static const unsigned char *json_word(json_scan *scan, const unsigned char *p)
{
    size_t left = (size_t)(scan->end - p);
    qp_json_kind kind = QP_JSON_NONE;
    size_t size = 4;

    if (left >= 4 && memcmp(p, "true", 4) == 0) {
        kind = QP_JSON_TRUE;
    } else if (left >= 4 && memcmp(p, "null", 4) == 0) {
        kind = QP_JSON_NULL;
    } else if (left >= 5 && memcmp(p, "false", 5) == 0) {
        kind = QP_JSON_FALSE;
        size = 5;
    } else {
        return json_fail(scan, p, "a value");
    }
    return json_emit(scan, kind, false, p, p + size) ? p + size : NULL;
}

/* A member's key and colon, up to its value. The fast path reads p[1], and p[2] behind a space:
 * three bytes are left. */
QP_INLINE const unsigned char *json_member(json_scan *scan, const unsigned char *p)
{
    if (!json_at(scan, p, '"')) {
        return json_fail(scan, p, "a key in quotes");
    }
    p = json_string(scan, p);
    if (p == NULL) {
        return NULL;
    }
    if (QP_LIKELY(scan->end - p > 2 && *p == ':')) { /* as nearly everybody writes it */
        p += p[1] == ' ' ? 2 : 1;
        return QP_LIKELY(*p > ' ') ? p : json_space(scan, p);
    }
    p = json_space(scan, p);
    if (!json_at(scan, p, ':')) {
        return json_fail(scan, p, "':'");
    }
    return json_space(scan, p + 1);
}

/* Enter the container at `p`; gives the first byte inside that is not white space. The token's end
 * and next are preliminary: json_leave() sets them when the container closes. */
QP_INLINE const unsigned char *json_enter(json_scan *scan, const unsigned char *p)
{
    bool object = *p == '{';

    if (scan->depth == scan->depth_max) {
        scan->status = QUIPU_LIMIT;
        return NULL;
    }
    scan->open[scan->depth++] = scan->count * 2 + (object ? 1 : 0);
    if (!json_emit(scan, object ? QP_JSON_OBJECT : QP_JSON_ARRAY, false, p, p + 1)) {
        return NULL;
    }
    return json_space(scan, p + 1);
}

/* After a value: leave the containers that close here. Gives where the next value begins, or the
 * end of the outermost one when depth is back at 0. A comma must be followed by a value or a key,
 * which is why "[1,]" fails in the caller. */
QP_INLINE const unsigned char *json_leave(json_scan *scan, const unsigned char *p)
{
    qp_json_token *token;
    uint32_t open;
    bool object;

    while (scan->depth != 0) {
        open = scan->open[scan->depth - 1];
        object = (open & 1) != 0;
        p = json_space(scan, p);
        if (json_at(scan, p, ',')) {
            p = json_space(scan, p + 1);
            return object ? json_member(scan, p) : p;
        }
        if (!json_at(scan, p, object ? '}' : ']')) {
            return json_fail(scan, p, object ? "',' or '}'" : "',' or ']'");
        }
        p++;
        token = &scan->tokens[open >> 1];
        token->end = (uint32_t)(p - scan->begin);
        token->next = scan->count;
        scan->depth--;
    }
    return p;
}

/* Any value that is not a container. */
QP_INLINE const unsigned char *json_scalar(json_scan *scan, const unsigned char *p)
{
    switch (p < scan->end ? json_class[*p] : JSON_BAD) {
    case JSON_QUOTE:
        return json_string(scan, p);
    case JSON_DIGIT:
        return json_number(scan, p);
    case JSON_WORD:
        return json_word(scan, p);
    default:
        return json_fail(scan, p, "a value");
    }
}

/* One whole value; returns where it ends. A loop instead of recursion: each round enters a
 * container or reads a scalar, then leaves the containers that end behind it. */
static const unsigned char *json_value(json_scan *scan, const unsigned char *p)
{
    for (;;) {
        if (p < scan->end && json_class[*p] == JSON_OPEN) {
            bool object = *p == '{';
            p = json_enter(scan, p);
            if (p == NULL) {
                return NULL;
            }
            if (!json_at(scan, p, object ? '}' : ']')) {
                p = object ? json_member(scan, p) : p;
                if (p == NULL) {
                    return NULL;
                }
                continue;
            }
        } else {
            p = json_scalar(scan, p);
            if (p == NULL) {
                return NULL;
            }
        }
        p = json_leave(scan, p);
        if (p == NULL || scan->depth == 0) {
            return p;
        }
    }
}

/* UTF-8 first, then one value, then nothing but white space. Two passes over the text are faster
 * than one that decodes: both skip eight or sixteen bytes at a time. */
static quipu_status json_run(json_scan *scan, quipu_str text, const qp_json_limits *limits)
{
    const unsigned char *p;
    size_t valid;

    assert(limits->size_max <= QP_JSON_SIZE_CAP && limits->depth_max <= QP_JSON_DEPTH_CAP);
    if (text.n > limits->size_max) {
        return QUIPU_LIMIT;
    }
    /* An absent text reads as an empty one: no arithmetic on a null pointer. */
    scan->begin = (const unsigned char *)(text.p != NULL ? text.p : "");
    scan->end = scan->begin + text.n;
    scan->depth = 0;
    scan->depth_max = limits->depth_max;
    scan->status = QUIPU_OK;
    valid = qp_utf8_prefix(text);
    if (valid != text.n) {
        (void)json_fail(scan, scan->begin + valid, "valid UTF-8");
        return scan->status;
    }
    p = json_value(scan, json_space(scan, scan->begin));
    if (p == NULL) {
        return scan->status;
    }
    p = json_space(scan, p);
    if (p != scan->end) {
        (void)json_fail(scan, p, "the end of the text");
    }
    return scan->status;
}

/* A scan without a tape. Allocates nothing, so that it cannot fail for lack of memory. */
quipu_status qp_json_check(quipu_str text, const qp_json_limits *limits, qp_json_fault *ret_fault)
{
    qp_json_token spare;
    json_scan scan;
    quipu_status status;

    scan.doc = NULL;
    scan.tokens = &spare;
    scan.count = 0;
    scan.cap = 1;
    scan.step = 0;
    status = json_run(&scan, text, limits != NULL ? limits : &json_limits);
    if (status == QUIPU_INVALID && ret_fault != NULL) {
        *ret_fault = scan.fault;
    }
    return status;
}

/* A document that allocates nothing yet: QP_JSON_NEAR tokens lie in the struct, enough for most
 * columns. */
void qp_json_init(qp_json_doc *doc)
{
    doc->text = QP_STR_ABSENT;
    doc->tokens = doc->near;
    doc->count = 0;
    doc->cap = QP_JSON_NEAR;
    doc->fault = (qp_json_fault){0, ""};
}

/* Frees a document that failed to parse, too. */
void qp_json_free(qp_json_doc *doc)
{
    if (doc != NULL) {
        if (doc->tokens != doc->near) {
            qp_free(doc->tokens);
        }
        qp_json_init(doc);
    }
}

/* The tape of a text; the text must outlive it. The tape of an earlier parse is used again, however
 * large it was. */
quipu_status qp_json_parse(qp_json_doc *doc, quipu_str text, const qp_json_limits *limits,
                           quipu_error *reterr)
{
    json_scan scan;
    quipu_status status;

    limits = limits != NULL ? limits : &json_limits;
    scan.doc = doc;
    scan.tokens = doc->tokens;
    scan.count = 0;
    scan.cap = doc->cap;
    scan.step = 1;
    doc->count = 0;
    doc->text = text;
    status = json_run(&scan, text, limits);
    switch (status) {
    case QUIPU_OK:
        doc->count = scan.count;
        return QUIPU_OK;
    case QUIPU_INVALID:
        doc->fault = scan.fault;
        return qp_error_set(reterr, status, "not JSON: expected %s at byte %zu",
                            scan.fault.expected, scan.fault.offset);
    case QUIPU_LIMIT:
        return qp_error_set(reterr, status, "the JSON text of %zu bytes is too %s", text.n,
                            text.n > limits->size_max ? "large" : "deep");
    default:
        return qp_error_set(reterr, status, "no memory for %zu bytes of JSON", text.n);
    }
}

/* ---- walking ------------------------------------------------------------------------------- */

static const qp_json_node json_none = {NULL, 0};

/* The whole document. */
qp_json_node qp_json_root(const qp_json_doc *doc)
{
    return doc->count != 0 ? (qp_json_node){doc, 0} : json_none;
}

/* The text of a value as it stands in the source. Exact: copying it keeps digits, escapes and
 * order. */
quipu_str qp_json_raw(qp_json_node node)
{
    const qp_json_token *token;

    if (node.doc == NULL) {
        return QP_STR_ABSENT;
    }
    token = &node.doc->tokens[node.at];
    return (quipu_str){node.doc->text.p + token->start, token->end - token->start};
}

/* An iterator over the members or items; nothing for a scalar. It copies two numbers of the
 * container and stays valid as long as the document is not parsed again. */
qp_json_iter qp_json_each(qp_json_node node)
{
    qp_json_kind kind = qp_json_kind_of(node);
    qp_json_iter iter = {json_none, json_none, node.doc, 0, 0, kind == QP_JSON_OBJECT};

    if (kind == QP_JSON_OBJECT || kind == QP_JSON_ARRAY) {
        iter.at = node.at + 1;
        iter.stop = node.doc->tokens[node.at].next;
    }
    return iter;
}

/* Moves to the next member or item; false at the end. `next` of a token skips everything inside of
 * a value, so that a step costs the same for any value. */
bool qp_json_next(qp_json_iter *iter)
{
    if (iter->at >= iter->stop) {
        iter->key = json_none;
        iter->value = json_none;
        return false;
    }
    if (iter->members) {
        iter->key = (qp_json_node){iter->doc, iter->at++};
    }
    iter->value = (qp_json_node){iter->doc, iter->at};
    iter->at = iter->doc->tokens[iter->at].next;
    return true;
}

/* By walking: the tape has no counts. */
size_t qp_json_count(qp_json_node node)
{
    qp_json_iter iter = qp_json_each(node);
    size_t count = 0;

    while (qp_json_next(&iter)) {
        count++;
    }
    return count;
}

/* Returns the last of several members with the key, as other parsers do. Linear: objects of this
 * library's formats have few members, and a hash table would cost more than it saves. Keys without
 * an escape are compared as bytes. */
qp_json_node qp_json_get(qp_json_node object, quipu_str key)
{
    const qp_json_doc *doc = object.doc;
    qp_json_node found = json_none;
    uint32_t stop;

    if (qp_json_kind_of(object) != QP_JSON_OBJECT || key.p == NULL) {
        return json_none;
    }
    stop = doc->tokens[object.at].next;
    for (uint32_t at = object.at + 1; at < stop; at = doc->tokens[at + 1].next) {
        const qp_json_token *token = &doc->tokens[at];
        bool same;

        if (QP_UNLIKELY(token->escaped)) {
            same = qp_json_text_is((qp_json_node){doc, at}, key);
        } else {
            /* Most keys differ in length already; the quotes count in the token. */
            same = (size_t)(token->end - token->start) == key.n + 2 &&
                   memcmp(doc->text.p + token->start + 1, key.p, key.n) == 0;
        }
        found = same ? (qp_json_node){doc, at + 1} : found;
    }
    return found;
}

/* The item, or none. Linear as well; loops use qp_json_each(). */
qp_json_node qp_json_at(qp_json_node array, size_t index)
{
    qp_json_iter iter = qp_json_each(array);

    if (iter.members) {
        return json_none;
    }
    while (qp_json_next(&iter)) {
        if (index-- == 0) {
            return iter.value;
        }
    }
    return json_none;
}
