/* The string scan that reader and writer share: json.c skips a string's body with it, jsonw.c
 * copies up to the next character that needs an escape. Pure functions; `end` is never read. */
#ifndef QP_BASE_JSON_SCAN_H
#define QP_BASE_JSON_SCAN_H

#include "base/str.h"

#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#define QP_JSON_SSE2 1
#endif

#ifdef QP_JSON_SSE2
/* As qp_json_plain() below, by whole sixteens, which every such processor compares at once.
 * *ret_found: it stopped at a hit, not before what is left. min(x, 0x1f) == x finds control
 * characters: SSE2 compares unsigned bytes in no other way. */
QP_INLINE const unsigned char *qp_json_plain16(const unsigned char *p, const unsigned char *end,
                                               bool *ret_found)
{
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(0x1f);

    *ret_found = false;
    while (end - p >= 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)p);
        const __m128i hits =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, backslash)),
                         _mm_cmpeq_epi8(_mm_min_epu8(x, control), x));
        const int mask = _mm_movemask_epi8(hits);

        if (mask != 0) {
            *ret_found = true;
            return p + __builtin_ctz((unsigned)mask);
        }
        p += 16;
    }
    return p;
}
#endif

/* The first quote, backslash or control character from `p` on, or `end`. Eight bytes at a time:
 * with its bit 1 turned a quote is 0x20, and no other byte comes to stand below 0x21 but control
 * characters; those borrow when 0x21 is taken off, and the mask drops bytes past 0x7f. */
QP_INLINE const unsigned char *qp_json_plain(const unsigned char *p, const unsigned char *end)
{
    uint64_t x;
    uint64_t hits;

#ifdef QP_JSON_SSE2
    bool found;

    p = qp_json_plain16(p, end, &found);
    if (QP_LIKELY(found)) {
        return p;
    }
#endif
    while (end - p >= 8) {
        x = qp_load64(p);
        hits = ((x ^ QP_STR_ONES * 0x02) - QP_STR_ONES * 0x21) & ~x & QP_STR_HIGHS;
        hits |= qp_match_byte(x, '\\');
        if (hits != 0) {
            return p + qp_first_hit(hits);
        }
        p += 8;
    }
    while (p < end && *p >= 0x20 && *p != '"' && *p != '\\') {
        p++;
    }
    return p;
}

/* Hits among eight bytes: as above, and bytes past 0x7f. */
QP_INLINE uint64_t qp_json_odd8(uint64_t x)
{
    const uint64_t low = (x ^ QP_STR_ONES * 0x02) - QP_STR_ONES * 0x21;

    return ((low | x) & QP_STR_HIGHS) | qp_match_byte(x, '\\');
}

/* Whether no byte needs an escape or is part of a longer character: then a text can be copied as it
 * is, without a look at its UTF-8. The last eight may overlap those before them. */
QP_INLINE bool qp_json_is_simple(const unsigned char *p, const unsigned char *end)
{
    const bool is_long = end - p >= 8;

    for (; end - p >= 8; p += 8) {
        if (qp_json_odd8(qp_load64(p)) != 0) {
            return false;
        }
    }
    if (is_long) {
        return qp_json_odd8(qp_load64(end - 8)) == 0;
    }
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
        p++;
    }
    return p == end;
}

#endif
