/* The meaning of JSON strings: unescaping and order. A string without an escape never leaves the
 * source.
 *
 *   in the source           in the text
 *   \b \f \n \r \t          the control character
 *   \" \\ \/                the character behind the backslash
 *   \u0041                  its code point, as UTF-8
 *   \ud83d\ude00            both halves together, four bytes
 *   \ud83d alone            U+FFFD; QP_JSON_TEXT_SURROGATE is set
 *   \u0000                  U+FFFD; QP_JSON_TEXT_NUL is set; qp_json_text_copy() keeps it
 *
 * Owns: nothing; unescaped texts lie in the caller's arena.
 * Called by: every reader of JSON. The parser has checked the grammar: no function here looks for
 * the end of an escape.
 * Locks: none; a parsed document may be read by several threads. */
#include "base/json.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/json_scan.h"
#include "base/str.h"

#define JSON_TEXT_REPLACEMENT 0xfffdU

/* The bytes between the quotes. The node must be a string. */
static quipu_str json_text_body(qp_json_node node)
{
    quipu_str raw = qp_json_raw(node);

    assert(qp_json_kind_of(node) == QP_JSON_STRING && raw.n >= 2);
    return (quipu_str){raw.p + 1, raw.n - 2};
}

/* The parser has noted it, so that no reader searches for a backslash. */
static bool json_text_is_escaped(qp_json_node node)
{
    return node.doc->tokens[node.at].escaped != 0;
}

/* Four hexadecimal digits, which json_skip_escape() has checked. */
static uint32_t json_text_hex4(const unsigned char *p)
{
    uint32_t value = 0;

    for (size_t i = 0; i < 4; i++) {
        uint32_t c = p[i];
        value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

/* The code point of the escape at **p, which the parser has checked; half a pair comes as it is. A
 * high surrogate that no low one follows is returned alone; the caller reads on behind it. */
static uint32_t json_text_escape(const unsigned char **p, const unsigned char *end)
{
    static const char letters[] = "bfnrt";
    static const char meanings[] = "\b\f\n\r\t";
    const unsigned char *at = *p;
    const char *letter;
    uint32_t point;
    uint32_t low;

    if (at[1] != 'u') {
        *p = at + 2;
        letter = strchr(letters, at[1]);
        return letter != NULL ? (unsigned char)meanings[letter - letters] : at[1];
    }
    point = json_text_hex4(at + 2);
    *p = at + 6;
    if (point >= 0xd800 && point < 0xdc00 && end - at >= 12 && at[6] == '\\' && at[7] == 'u') {
        low = json_text_hex4(at + 8);
        if (low >= 0xdc00 && low < 0xe000) {
            *p = at + 12;
            return 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return point;
}

/* Unescape `body` to `to`, which has room for it: no escape grows. The shortest escape has two
 * bytes and gives one, \uXXXX has six and gives at most three, a pair has twelve and gives four. */
static size_t json_text_unescape(quipu_str body, bool keep_nul, char *to, uint32_t *ret_flags)
{
    const unsigned char *p = (const unsigned char *)body.p;
    const unsigned char *end = p + body.n;
    const unsigned char *plain;
    char *start = to;
    uint32_t point;

    while (p < end) {
        plain = qp_json_plain(p, end);
        memcpy(to, p, (size_t)(plain - p));
        to += plain - p;
        p = plain;
        if (p == end) {
            break;
        }
        point = json_text_escape(&p, end);
        if ((point == 0 && !keep_nul) || (point >= 0xd800 && point < 0xe000)) {
            *ret_flags |= point == 0 ? QP_JSON_TEXT_NUL : QP_JSON_TEXT_SURROGATE;
            point = JSON_TEXT_REPLACEMENT;
        }
        to += qp_utf8_put(point, to);
    }
    assert((size_t)(to - start) <= body.n);
    return (size_t)(to - start);
}

/* See json.h. Without an escape this is two loads and no copy: the usual case. */
quipu_status qp_json_text(qp_json_node node, quipu_arena *arena, quipu_str *ret_text,
                          uint32_t *ret_flags)
{
    quipu_str body;
    uint32_t flags = 0;
    char *to;
    size_t n;

    if (qp_json_kind_of(node) != QP_JSON_STRING) {
        return QUIPU_INVALID;
    }
    body = json_text_body(node);
    if (json_text_is_escaped(node)) {
        to = qp_arena_take(arena, body.n + 1);
        if (to == NULL) {
            return qp_arena_why(arena, body.n + 1);
        }
        n = json_text_unescape(body, false, to, &flags);
        assert(n < body.n);
        to[n] = '\0';
        body = (quipu_str){to, n};
    }
    *ret_text = body;
    if (ret_flags != NULL) {
        *ret_flags = flags;
    }
    return QUIPU_OK;
}

/* See json.h. Keeps U+0000, for callers that store odd text as bytes; lone surrogates have no UTF-8
 * and become U+FFFD here as well. */
quipu_status qp_json_text_copy(qp_json_node node, quipu_arena *arena, quipu_str *ret_text)
{
    uint32_t flags = 0;
    quipu_str body;
    char *to;
    size_t n;

    if (qp_json_kind_of(node) != QP_JSON_STRING) {
        return QUIPU_INVALID;
    }
    body = json_text_body(node);
    to = qp_arena_take(arena, body.n + 1);
    if (to == NULL) {
        return qp_arena_why(arena, body.n + 1);
    }
    n = json_text_unescape(body, true, to, &flags);
    to[n] = '\0';
    *ret_text = (quipu_str){to, n};
    return QUIPU_OK;
}

/* The next code point of a string's body. Half a pair is a value of its own, between its
 * neighbours: that keeps the order total. */
static uint32_t json_text_point(const unsigned char **p, const unsigned char *end, bool escapes)
{
    uint32_t point = 0;
    size_t n;

    if (escapes && **p == '\\') {
        return json_text_escape(p, end);
    }
    n = qp_utf8_step(*p, end, &point);
    assert(n != 0 || !escapes);
    *p += n != 0 ? n : 1;
    return point;
}

/* Order by code points; each side is read with or without escapes. Half a pair has no UTF-8, so
 * that escaped strings are compared by code points instead. */
static int json_text_order(quipu_str a, bool a_escapes, quipu_str b, bool b_escapes)
{
    const unsigned char *pa = (const unsigned char *)a.p;
    const unsigned char *pb = (const unsigned char *)b.p;
    const unsigned char *ea = pa + a.n;
    const unsigned char *eb = pb + b.n;

    /* Byte order of UTF-8 is code point order. */
    if (!a_escapes && !b_escapes) {
        return qp_str_cmp(a, b);
    }
    while (pa < ea && pb < eb) {
        uint32_t ca = json_text_point(&pa, ea, a_escapes);
        uint32_t cb = json_text_point(&pb, eb, b_escapes);
        if (ca != cb) {
            return ca < cb ? -1 : 1;
        }
    }
    return (pa < ea) - (pb < eb);
}

/* Decodes on the way and allocates nothing. */
int qp_json_text_cmp(qp_json_node a, qp_json_node b)
{
    return json_text_order(json_text_body(a), json_text_is_escaped(a), json_text_body(b),
                           json_text_is_escaped(b));
}

/* An escaped string that stands for invalid UTF-8 equals no text; the length says nothing then. */
bool qp_json_text_is(qp_json_node node, quipu_str text)
{
    quipu_str body;

    if (qp_json_kind_of(node) != QP_JSON_STRING || text.p == NULL) {
        return false;
    }
    body = json_text_body(node);
    if (!json_text_is_escaped(node)) {
        return body.n == text.n && memcmp(body.p, text.p, text.n) == 0;
    }
    return qp_utf8_valid(text) && json_text_order(body, true, text, false) == 0;
}
