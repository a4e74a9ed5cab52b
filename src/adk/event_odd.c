/* Text with U+0000 or a lone surrogate, which JSON allows and a text column cannot hold. The column
 * shows U+FFFD in its place, and `extra` holds the places.
 *
 * Format, in the letters of base64url: the gap since the end of the previous odd character, five
 * bits a letter, least significant first, bit 32 means "more follows"; then two letters with the
 * character: 0 for U+0000, else its distance from U+D7FF. An odd character costs about what its
 * escape did.
 *
 * Owns: nothing; called by the codec and by delta.c for odd names. Packed text that is damaged ends
 * the list of places; the text is then shown with U+FFFD.
 * Locks: none; pure functions over the caller's text and buffer. */
#include <string.h>

#include "adk/event.h"
#include "base/str.h"

#define ODD_REPLACEMENT_SIZE 3 /* bytes of U+FFFD */
#define ODD_UNIT_BASE 0xD7FFU
#define ODD_GAP_BITS 5
#define ODD_GAP_MASK 31U
#define ODD_GAP_MORE 32U
#define ODD_UNIT_MASK 63U
#define ODD_UNIT_BITS 6

/* base64url: none of these letters needs an escape in JSON. */
static const char odd_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* A code point that no column holds. */
static bool odd_is(uint32_t point)
{
    return point == 0 || (point >= 0xD800 && point < 0xE000);
}

/* Four hexadecimal digits, which the parser has checked. */
static uint32_t odd_hex(const char *p)
{
    uint32_t value = 0;

    for (size_t i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i];
        value = value << 4 | (c <= '9' ? c - (uint32_t)'0' : (c | 0x20U) - 'a' + 10U);
    }
    return value;
}

/* The code point of the escape at raw.p[at], which the parser has checked, and the escape's length.
 * A surrogate pair is one code point; half of one is odd. */
static uint32_t odd_escape(quipu_str raw, size_t at, size_t *ret_size)
{
    uint32_t point;
    uint32_t low;

    *ret_size = 2;
    if (raw.p[at + 1] != 'u') {
        return ' '; /* one byte, whichever it is */
    }
    *ret_size = 6;
    point = odd_hex(raw.p + at + 2);
    if (point >= 0xD800 && point < 0xDC00 && raw.n - at >= 12 && raw.p[at + 6] == '\\' &&
        raw.p[at + 7] == 'u') {
        low = odd_hex(raw.p + at + 8);
        if (low >= 0xDC00 && low < 0xE000) {
            *ret_size = 12;
            return 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return point;
}

/* One place: the gap, then the character. */
static void odd_put(size_t gap, uint32_t point, qp_buf *odd)
{
    uint32_t unit = point == 0 ? 0 : point - ODD_UNIT_BASE;

    while (gap > ODD_GAP_MASK) {
        qp_buf_putc(odd, odd_letters[(gap & ODD_GAP_MASK) | ODD_GAP_MORE]);
        gap >>= ODD_GAP_BITS;
    }
    qp_buf_putc(odd, odd_letters[gap]);
    qp_buf_putc(odd, odd_letters[unit >> ODD_UNIT_BITS]);
    qp_buf_putc(odd, odd_letters[unit & ODD_UNIT_MASK]);
}

/* Walks the raw string; `offset` counts bytes of the decoded text, in which U+FFFD has three. */
void qp_odd_pack(quipu_str raw, size_t offset, size_t *last, qp_buf *odd)
{
    char bytes[4];

    /* Without the quotes. Only escapes can be odd: raw bytes were checked as UTF-8. */
    raw = (quipu_str){raw.p + 1, raw.n - 2}; /* without the quotes */
    for (size_t i = 0; i < raw.n;) {
        uint32_t point = ' ';
        size_t size = 1;

        if (raw.p[i] != '\\') {
            offset++;
        } else {
            point = odd_escape(raw, i, &size);
            if (odd_is(point)) {
                odd_put(offset - *last, point, odd);
                offset += ODD_REPLACEMENT_SIZE;
                *last = offset;
            } else {
                offset += qp_utf8_put(point, bytes);
            }
        }
        i += size;
    }
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* The value of the next packed letter; false past the end or for a letter outside the alphabet. */
static bool odd_letter(qp_odd *odd, uint32_t *ret_value)
{
    const char *at = odd->at < odd->packed.n && odd->packed.p[odd->at] != '\0'
                         ? strchr(odd_letters, odd->packed.p[odd->at])
                         : NULL;

    odd->at++;
    *ret_value = at != NULL ? (uint32_t)(at - odd_letters) : 0;
    return at != NULL;
}

/* Reads the next place, relative to `end` of the one before. Anything that is not packed text ends
 * the list. */
static void odd_next(qp_odd *odd, size_t end)
{
    size_t gap = 0;
    uint32_t value = ODD_GAP_MORE;
    uint32_t high = 0;
    uint32_t low = 0;
    bool good = true;

    for (unsigned shift = 0; good && (value & ODD_GAP_MORE) != 0; shift += ODD_GAP_BITS) {
        good = odd_letter(odd, &value) && shift < 40;
        gap |= good ? (size_t)(value & ODD_GAP_MASK) << shift : 0;
    }
    good = good && odd_letter(odd, &high) && odd_letter(odd, &low);
    odd->unit = high << ODD_UNIT_BITS | low;
    good = good && odd->unit <= 0x800;
    odd->place = good ? end + gap : SIZE_MAX;
}

/* Reads the first place; an empty list has none. */
qp_odd qp_odd_begin(quipu_str packed)
{
    qp_odd odd = {.packed = packed, .place = SIZE_MAX};

    if (packed.n > 0) {
        odd_next(&odd, 0);
    }
    return odd;
}

/* A JSON string without its quotes: the writer adds them, and they are removed again. */
static void odd_plain(quipu_str text, qp_buf *buf)
{
    size_t before = buf->n;
    qp_jsonw writer;

    qp_jsonw_begin(&writer, buf);
    qp_jsonw_str(&writer, text);
    if (qp_buf_status(buf) == QUIPU_OK) {
        memmove(buf->p + before, buf->p + before + 1, buf->n - before - 2);
        qp_buf_cut(buf, buf->n - 2);
    }
}

/* Writes one slice of the text. A place that would overlap the previous one or run past the slice
 * ends the loop: damage never reads out of bounds. */
void qp_odd_write(qp_odd *odd, quipu_str text, size_t from, qp_buf *buf)
{
    size_t at = 0;

    qp_buf_putc(buf, '"');
    while (odd->place >= from && odd->place < from + text.n) {
        size_t place = odd->place - from;
        uint32_t unit = odd->unit == 0 ? 0 : odd->unit + ODD_UNIT_BASE;

        /* Damaged places: show the rest of the text as it is. */
        if (place < at || text.n - place < ODD_REPLACEMENT_SIZE) {
            break;
        }
        odd_plain((quipu_str){text.p + at, place - at}, buf);
        qp_buf_printf(buf, "\\u%04x", (unsigned)unit);
        at = place + ODD_REPLACEMENT_SIZE;
        odd_next(odd, from + at);
    }
    odd_plain((quipu_str){text.p == NULL ? "" : text.p + at, text.n - at}, buf);
    qp_buf_putc(buf, '"');
}
