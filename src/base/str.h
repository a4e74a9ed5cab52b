/* Text: UTF-8 checks that run on every stored text, word-at-a-time helpers, and a hash. */
#ifndef QP_BASE_STR_H
#define QP_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <quipu/base.h>

#include "base/attr.h"

#define QP_STR_ONES UINT64_C(0x0101010101010101)
#define QP_STR_HIGHS UINT64_C(0x8080808080808080)
#define QP_STR_ABSENT ((quipu_str){NULL, 0})

/* Eight bytes, the first one lowest, on every machine. */
QP_INLINE uint64_t qp_load64(const void *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof(x));
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = (x >> 56) | ((x >> 40) & UINT64_C(0xff00)) | ((x >> 24) & UINT64_C(0xff0000)) |
        ((x >> 8) & UINT64_C(0xff000000)) | ((x & UINT64_C(0xff000000)) << 8) |
        ((x & UINT64_C(0xff0000)) << 24) | ((x & UINT64_C(0xff00)) << 40) | (x << 56);
#endif
    return x;
}

/* The index of the lowest byte whose high bit is set in `hits`, a nonzero mask of high bits. The
 * lone bit moves byte 7 - i of the constant, which is i, to the top. */
QP_INLINE size_t qp_first_hit(uint64_t hits)
{
    return (size_t)((((hits & (~hits + 1)) >> 7) * UINT64_C(0x0001020304050607)) >> 56);
}

/* High bits at the bytes of `x` that equal `byte`; exact up to and including the lowest hit. */
QP_INLINE uint64_t qp_match_byte(uint64_t x, unsigned char byte)
{
    uint64_t diff = x ^ (QP_STR_ONES * byte);
    return (diff - QP_STR_ONES) & ~diff & QP_STR_HIGHS;
}

/* The length in bytes of the valid UTF-8 character at `p` (p < end), or 0. Its code point goes to
 * *ret_point. Strict: no surrogates, no overlong forms, nothing past U+10FFFF. */
size_t qp_utf8_step(const unsigned char *p, const unsigned char *end, uint32_t *ret_point);

/* How many leading bytes are valid UTF-8: text.n when all of it is. */
size_t qp_utf8_prefix(quipu_str text);

QP_INLINE_FAST bool qp_utf8_valid(quipu_str text)
{
    return qp_utf8_prefix(text) == text.n;
}

/* The largest length <= size_max that does not split a character. */
size_t qp_utf8_cut(quipu_str text, size_t size_max);

/* Whether "." or ".." stands between the slashes of a text: it is refused as part of a path. */
bool qp_text_has_dots(quipu_str text);

/* Whether a text, escaped, can be a segment of a URL's path at a server: it is not empty and has
 * neither dots as above nor control bytes. */
bool qp_text_is_segment(quipu_str text);

/* Write a code point as UTF-8 (1 to 4 bytes); gives the length. */
size_t qp_utf8_put(uint32_t point, char ret_bytes[4]);

typedef enum qp_text_fault {
    QP_TEXT_OK = 0,
    QP_TEXT_NUL,  /* a NUL byte */
    QP_TEXT_UTF8, /* a byte that is not part of valid UTF-8 */
} qp_text_fault;

/* Checks that a text column may hold it: valid UTF-8 without NUL. On a fault *ret_offset (NULL is
 * fine) is the byte it is at; otherwise it is untouched. */
qp_text_fault qp_text_check(quipu_str text, size_t *ret_offset);

/* A 64-bit hash for tables in memory. Not stable across versions: never store it. Not meant against
 * chosen keys. */
uint64_t qp_hash64(quipu_str text, uint64_t seed);

/* memcmp order, a shorter prefix first. */
int qp_str_cmp(quipu_str a, quipu_str b);

#endif
