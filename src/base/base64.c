/* Base64 (RFC 4648), both ways. The reader takes the URL alphabet too, because ADK's runtimes
 * differ in it. Called by the rooms that keep bytes in JSON; results lie in the caller's arena or
 * buffer.
 *
 *   bytes        aaaaaaaa bbbbbbbb cccccccc
 *   characters   aaaaaa aabbbb bbbbcc cccccc
 *
 * Owns: the two alphabets. Locks: none; pure functions. */
#include "base/base64.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"

static const char base64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The standard alphabet with padding: what Python and Go write by default. Three bytes give four
 * characters; the last group is padded with '='. */
void qp_base64_put(qp_buf *buf, quipu_bytes bytes)
{
    const unsigned char *p = bytes.p;
    size_t left = bytes.n;

    while (left > 0) {
        unsigned a = p[0];
        unsigned b = left > 1 ? p[1] : 0;
        unsigned c = left > 2 ? p[2] : 0;
        char out[4] = {base64_alphabet[a >> 2], base64_alphabet[(a & 3) << 4 | b >> 4],
                       left > 1 ? base64_alphabet[(b & 15) << 2 | c >> 6] : '=',
                       left > 2 ? base64_alphabet[c & 63] : '='};
        qp_buf_put(buf, (quipu_str){out, sizeof(out)});
        size_t taken = left < 3 ? left : 3;
        p += taken;
        left -= taken;
    }
}

/* The bytes as a JSON string, without a second pass over the text. */
void qp_base64_json(qp_jsonw *writer, quipu_bytes bytes)
{
    /* The alphabet needs no escape, so the text between the quotes is written as it comes. */
    qp_jsonw_raw(writer, QUIPU_STR("\""));
    qp_base64_put(writer->buf, bytes);
    qp_buf_putc(writer->buf, '"');
}

/* The value of a character in either alphabet, or -1. Both alphabets at once: a text that mixes
 * them is read, since each character has one meaning. */
static int base64_value(char c)
{
    if (c == '-' || c == '+') {
        return 62;
    }
    if (c == '_' || c == '/') {
        return 63;
    }
    const char *at = c == '\0' ? NULL : strchr(base64_alphabet, c);
    return at == NULL ? -1 : (int)(at - base64_alphabet);
}

/* Padding may be left out, but where there is some it must be complete. Bits behind the last byte
 * are ignored. A NUL stands behind the bytes, which are not empty memory then even for an empty
 * text. */
quipu_status qp_base64_read(quipu_str text, quipu_arena *arena, quipu_bytes *ret_bytes)
{
    size_t n = text.n;

    while (n > 0 && text.n - n < 2 && text.p[n - 1] == '=') {
        n--;
    }
    if (n % 4 == 1 || (n < text.n && text.n % 4 != 0)) {
        return QUIPU_INVALID;
    }
    size_t size = n / 4 * 3 + (n % 4 == 0 ? 0 : n % 4 - 1);
    unsigned char *out = qp_arena_take(arena, size + 1);
    if (out == NULL) {
        return qp_arena_why(arena, size + 1);
    }
    size_t at = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        int value = base64_value(text.p[i]);
        if (value < 0) {
            return QUIPU_INVALID;
        }
        bits = bits << 6 | (uint32_t)value;
        /* Each character but the first of four completes a byte; 4, 2 or 0 bits of it are left
         * over. */
        if (i % 4 != 0) {
            out[at++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
        }
    }
    assert(at == size);
    out[size] = '\0';
    *ret_bytes = (quipu_bytes){out, size};
    return QUIPU_OK;
}
