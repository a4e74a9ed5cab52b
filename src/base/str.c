/* Text: UTF-8 validation that runs on every stored text, comparison, and a hash for tables in
 * memory. Long runs of ASCII, which real texts consist of, go eight bytes at a time. Pure
 * functions.
 *
 *   bytes                                  code points
 *   0xxxxxxx                               U+0000 to U+007F
 *   110xxxxx 10xxxxxx                      U+0080 to U+07FF       overlong: c0, c1
 *   1110xxxx 10xxxxxx 10xxxxxx             U+0800 to U+FFFF       without surrogates, d800 to dfff
 *   11110xxx 10xxxxxx 10xxxxxx 10xxxxxx    U+10000 to U+10FFFF    f5 and above begin nothing
 *
 * Called by: every room. Owns: nothing. Locks: none. Texts need no NUL behind them, and no function
 * reads beyond their length: words of eight bytes are loaded only where eight bytes are left. */
#include "base/str.h"

#include <assert.h>

/* memcmp order; a prefix comes first. */
int qp_str_cmp(quipu_str a, quipu_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n != 0 ? memcmp(a.p, b.p, n) : 0;

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

/* A continuation byte, 10xxxxxx. */
QP_INLINE bool str_is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* str_step() for a lead byte of a four-byte character. Refuses overlong forms and values past
 * U+10FFFF. */
static size_t str_step4(const unsigned char *p, size_t left, uint32_t *ret_point)
{
    uint32_t point;

    if (left < 4 || !str_is_tail(p[1]) || !str_is_tail(p[2]) || !str_is_tail(p[3])) {
        return 0;
    }
    point = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
            (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
    if (point < 0x10000 || point > 0x10ffff) {
        return 0; /* overlong, or past the last code point */
    }
    *ret_point = point;
    return 4;
}

/* The length of the character at `p`, which is not ASCII; 0: it is not valid. Lead bytes by range:
 *
 *   c2..df  2 bytes     e0..ef  3 bytes (no overlong form, no surrogate)     f0..f4  4 bytes
 */
QP_INLINE size_t str_step(const unsigned char *p, const unsigned char *end, uint32_t *ret_point)
{
    size_t left = (size_t)(end - p);
    uint32_t lead = p[0];
    uint32_t point;

    if (lead >= 0xe0 && lead < 0xf0) {
        if (left < 3 || !str_is_tail(p[1]) || !str_is_tail(p[2])) {
            return 0;
        }
        point = (lead & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
        if (point < 0x800 || point - 0xd800 < 0x800) {
            return 0; /* overlong, or a surrogate */
        }
        *ret_point = point;
        return 3;
    }
    if (lead < 0xe0) {
        if (lead < 0xc2 || left < 2 || !str_is_tail(p[1])) {
            return 0;
        }
        *ret_point = (lead & 0x1f) << 6 | (p[1] & 0x3f);
        return 2;
    }
    return lead <= 0xf4 ? str_step4(p, left, ret_point) : 0;
}

/* One character; its code point goes to *ret_point. */
size_t qp_utf8_step(const unsigned char *p, const unsigned char *end, uint32_t *ret_point)
{
    assert(p < end);
    if (p[0] < 0x80) {
        *ret_point = p[0];
        return 1;
    }
    return str_step(p, end, ret_point);
}

/* Skips characters that are not ASCII; stops at ASCII, at the end or at a fault. */
QP_INLINE const unsigned char *str_skip_wide(const unsigned char *p, const unsigned char *end)
{
    uint32_t point;
    size_t n;

    while (p < end && *p >= 0x80) {
        n = str_step(p, end, &point);
        if (n == 0) {
            break;
        }
        p += n;
    }
    return p;
}

/* Skips ASCII: 32 bytes a turn, then 8, then single ones. */
QP_INLINE const unsigned char *str_skip_ascii(const unsigned char *p, const unsigned char *end)
{
    uint64_t hits;

    while (end - p >= 32) {
        hits = qp_load64(p) | qp_load64(p + 8) | qp_load64(p + 16) | qp_load64(p + 24);
        if ((hits & QP_STR_HIGHS) != 0) {
            break;
        }
        p += 32;
    }
    while (end - p >= 8) {
        hits = qp_load64(p) & QP_STR_HIGHS;
        if (hits != 0) {
            return p + qp_first_hit(hits);
        }
        p += 8;
    }
    while (p < end && *p < 0x80) {
        p++;
    }
    return p;
}

/* Alternates between the two loops above; a turn without progress is the end or a fault. */
size_t qp_utf8_prefix(quipu_str text)
{
    const unsigned char *begin = (const unsigned char *)text.p;
    const unsigned char *p = begin;
    const unsigned char *end;
    const unsigned char *wide;

    if (text.n == 0) {
        return 0;
    }
    end = begin + text.n;
    while (p < end) {
        p = str_skip_ascii(p, end);
        wide = str_skip_wide(p, end);
        if (wide == p) {
            break; /* the end, or a fault */
        }
        p = wide;
    }
    return (size_t)(p - begin);
}

/* Steps back over at most three continuation bytes; four in a row are not UTF-8, and are cut
 * anywhere. "añb" is 61 c3 b1 62: a cut at 2 gives 1, a cut at 3 stays. */
size_t qp_utf8_cut(quipu_str text, size_t size_max)
{
    size_t n = size_max;

    if (text.n <= size_max) {
        return text.n;
    }
    while (n > 0 && size_max - n < 4 && str_is_tail((unsigned char)text.p[n])) {
        n--;
    }
    return size_max - n < 4 ? n : size_max;
}

/* The caller gives a valid code point. */
size_t qp_utf8_put(uint32_t point, char ret_bytes[4])
{
    if (point < 0x80) {
        ret_bytes[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        ret_bytes[0] = (char)(0xc0 | point >> 6);
        ret_bytes[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        ret_bytes[0] = (char)(0xe0 | point >> 12);
        ret_bytes[1] = (char)(0x80 | (point >> 6 & 0x3f));
        ret_bytes[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    assert(point <= 0x10ffff);
    ret_bytes[0] = (char)(0xf0 | point >> 18);
    ret_bytes[1] = (char)(0x80 | (point >> 12 & 0x3f));
    ret_bytes[2] = (char)(0x80 | (point >> 6 & 0x3f));
    ret_bytes[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* Skips ASCII without NUL. x - 1 has its high bit set, without a borrow from below, only for 0 and
 * for bytes above 0x80: one test for both. */
QP_INLINE const unsigned char *str_skip_plain(const unsigned char *p, const unsigned char *end)
{
    uint64_t x;
    uint64_t hits;

    while (end - p >= 8) {
        x = qp_load64(p);
        hits = ((x - QP_STR_ONES) | x) & QP_STR_HIGHS;
        if (hits != 0) {
            return p + qp_first_hit(hits);
        }
        p += 8;
    }
    while (p < end && *p != 0 && *p < 0x80) {
        p++;
    }
    return p;
}

/* Valid UTF-8 without NUL, or the first fault. One pass; runs of ASCII cost a test for each eight
 * bytes. The loop ends where neither kind of character goes on: at the end, a NUL or a fault. */
qp_text_fault qp_text_check(quipu_str text, size_t *ret_offset)
{
    const unsigned char *begin = (const unsigned char *)text.p;
    const unsigned char *p = begin;
    const unsigned char *end;
    const unsigned char *wide;

    if (text.n == 0) {
        return QP_TEXT_OK;
    }
    end = begin + text.n;
    for (;;) {
        p = str_skip_plain(p, end);
        wide = str_skip_wide(p, end);
        if (wide == p) {
            break;
        }
        p = wide;
    }
    if (p == end) {
        return QP_TEXT_OK;
    }
    if (ret_offset != NULL) {
        *ret_offset = (size_t)(p - begin);
    }
    return *p == 0 ? QP_TEXT_NUL : QP_TEXT_UTF8;
}

/* Multiply and fold, eight bytes a turn. Not for stored data, and not against chosen keys. The
 * length enters first, so that texts that differ in trailing NUL bytes differ. */
uint64_t qp_hash64(quipu_str text, uint64_t seed)
{
    const char *p = text.p;
    size_t left = text.n;
    uint64_t h = seed ^ ((uint64_t)text.n * UINT64_C(0x9e3779b97f4a7c15));
    uint64_t last = 0;

    for (; left >= 8; left -= 8, p += 8) {
        h = (h ^ qp_load64(p)) * UINT64_C(0x9fb21c651e98df25);
        h ^= h >> 29;
    }
    if (left != 0) {
        memcpy(&last, p, left);
        h ^= qp_load64(&last);
    }
    /* The finalizer: every input bit reaches every output bit. */
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* Such a text could leave its place if it ever became part of a path in a file system, and proxies
 * resolve it before they pass a request on. */
bool qp_text_has_dots(quipu_str text)
{
    size_t begin = 0;

    for (size_t i = 0; i <= text.n; i++) {
        if (i == text.n || text.p[i] == '/' || text.p[i] == '\\') {
            size_t n = i - begin;

            if ((n == 1 || n == 2) && text.p[begin] == '.' && text.p[begin + n - 1] == '.') {
                return true;
            }
            begin = i + 1;
        }
    }
    return false;
}

/* A key or name that can stand in a URL's path: no control characters, which a log or a header
 * would show as something else, and nothing that a proxy would resolve. */
bool qp_text_is_segment(quipu_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f) {
            return false;
        }
    }
    return text.n > 0 && !qp_text_has_dots(text);
}
