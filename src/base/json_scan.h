/* The string scan that reader and writer share. */
#ifndef QP_BASE_JSON_SCAN_H
#define QP_BASE_JSON_SCAN_H

#include "base/str.h"

/* The first quote, backslash or control character from `p` on, or `end`. Eight bytes at a time:
 * with its bit 1 turned a quote is 0x20, and no other byte comes to stand below 0x21 but control
 * characters; those borrow when 0x21 is taken off, and the mask drops bytes past 0x7f. */
QP_INLINE const unsigned char *qp_json_plain(const unsigned char *p, const unsigned char *end)
{
    uint64_t x;
    uint64_t hits;

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

#endif
