/* Characters that look like nothing; the head of visible.h says whom they would deceive.
 *
 * Owns: the lists. Called by: memory_put.c and src/memory, from any thread. Locks: none.
 * Holds on return: no byte of a character that is left out is in the buffer, and none of one that
 * is seen is missing, but for the marks that a line begins with. */
#include "base/visible.h"

#include <assert.h>
#include <string.h>

#include "base/str.h"

#define VISIBLE_MARKS "#>"    /* what a heading or a quotation of Markdown begins with... */
#define VISIBLE_BULLETS "-*+" /* ...and with a blank behind it a list */

/* Ranges of characters that are not simply seen, in the order of their numbers. */
static const struct visible_range {
    uint32_t from;
    uint32_t to;
    qp_visible kind;
} visible_ranges[] = {
    {0x0000, 0x001f, QP_VISIBLE_BREAK},   /* controls, tab and line ends among them */
    {0x0020, 0x0020, QP_VISIBLE_BLANK},   /* */
    {0x007f, 0x009f, QP_VISIBLE_BREAK},   /* more controls, with "next line" */
    {0x00a0, 0x00a0, QP_VISIBLE_BLANK},   /* does not break */
    {0x00ad, 0x00ad, QP_VISIBLE_HIDDEN},  /* soft hyphen */
    {0x061c, 0x061c, QP_VISIBLE_HIDDEN},  /* a direction */
    {0x180e, 0x180e, QP_VISIBLE_HIDDEN},  /* a separator of no width */
    {0x2000, 0x200a, QP_VISIBLE_BLANK},   /* of many widths */
    {0x200b, 0x200b, QP_VISIBLE_HIDDEN},  /* of none */
    {0x200c, 0x200d, QP_VISIBLE_JOINER},  /* */
    {0x200e, 0x200f, QP_VISIBLE_HIDDEN},  /* directions */
    {0x2028, 0x2029, QP_VISIBLE_BREAK},   /* separators of lines and paragraphs */
    {0x202a, 0x202e, QP_VISIBLE_HIDDEN},  /* directions that override */
    {0x202f, 0x202f, QP_VISIBLE_BLANK},   /* */
    {0x205f, 0x205f, QP_VISIBLE_BLANK},   /* */
    {0x2060, 0x206f, QP_VISIBLE_HIDDEN},  /* word joiner, invisible operators, directions */
    {0x3000, 0x3000, QP_VISIBLE_BLANK},   /* ideographic */
    {0xfe00, 0xfe0f, QP_VISIBLE_JOINER},  /* variation selectors */
    {0xfeff, 0xfeff, QP_VISIBLE_HIDDEN},  /* byte order mark */
    {0xfff9, 0xfffb, QP_VISIBLE_HIDDEN},  /* marks of annotations */
    {0xe0000, 0xe007f, QP_VISIBLE_HIDDEN} /* letters that no font shows, and that models read */
};

qp_visible qp_visible_kind(const char *p, size_t n, size_t *ret_size)
{
    const unsigned char *at = (const unsigned char *)p;
    uint32_t point = 0;

    assert(n > 0);
    *ret_size = 1;
    if (at[0] > ' ' && at[0] < 0x7f) {
        return QP_VISIBLE_SEEN; /* nearly all of what people write */
    }
    const size_t size = qp_utf8_step(at, at + n, &point);

    if (size == 0) {
        return QP_VISIBLE_SEEN; /* no character: what it is, its reader decides */
    }
    *ret_size = size;
    for (size_t i = 0; i < sizeof(visible_ranges) / sizeof(visible_ranges[0]); i++) {
        const struct visible_range *range = &visible_ranges[i];

        if (point < range->from) {
            break;
        }
        if (point <= range->to) {
            return range->kind;
        }
    }
    return QP_VISIBLE_SEEN;
}

/* Whether a line may not begin with this character: a heading, a quotation, or the bullet of a
 * list. */
static bool visible_is_mark(quipu_str text, size_t at)
{
    const bool blank = at + 1 == text.n || text.p[at + 1] == ' ';

    return strchr(VISIBLE_MARKS, text.p[at]) != NULL ||
           (blank && strchr(VISIBLE_BULLETS, text.p[at]) != NULL);
}

/* Whether the line of a text begins with the character at `i`, which has this kind. */
static bool visible_begins(quipu_str text, size_t i, qp_visible kind)
{
    return kind == QP_VISIBLE_SEEN && !visible_is_mark(text, i);
}

bool qp_visible_shows(quipu_str text)
{
    bool shows = false;
    size_t size = 0;

    for (size_t i = 0; i < text.n && !shows; i += size) {
        shows = visible_begins(text, i, qp_visible_kind(text.p + i, text.n - i, &size));
    }
    return shows;
}

/* Breaks wait until something is seen behind them, so that a line neither begins nor ends with
 * their blank. Blanks that were written stay as they are. */
void qp_visible_put(qp_buf *buf, quipu_str text)
{
    bool begun = false;
    bool broken = false;
    size_t size = 0;

    for (size_t i = 0; i < text.n; i += size) {
        const qp_visible kind = qp_visible_kind(text.p + i, text.n - i, &size);

        assert(size > 0 && size <= text.n - i);
        if (kind == QP_VISIBLE_HIDDEN || kind == QP_VISIBLE_BREAK) {
            broken = broken || kind == QP_VISIBLE_BREAK;
            continue;
        }
        if (!begun && !visible_begins(text, i, kind)) {
            continue;
        }
        if (broken && begun) {
            qp_buf_putc(buf, ' ');
        }
        qp_buf_put(buf, (quipu_str){text.p + i, size});
        begun = true;
        broken = false;
    }
}

/* Bytes that are copied as they are lie between `from` and `i`. */
void qp_visible_put_lines(qp_buf *buf, quipu_str text, const char *indent)
{
    size_t from = 0;
    size_t size = 0;

    for (size_t i = 0; i < text.n; i += size) {
        const qp_visible kind = qp_visible_kind(text.p + i, text.n - i, &size);

        assert(size > 0 && size <= text.n - i);
        if ((kind != QP_VISIBLE_HIDDEN && kind != QP_VISIBLE_BREAK) || text.p[i] == '\t') {
            continue;
        }
        qp_buf_put(buf, (quipu_str){text.p + from, i - from});
        from = i + size;
        if (text.p[i] == '\n') {
            qp_buf_putc(buf, '\n');
            qp_buf_puts(buf, indent);
        } else if (kind == QP_VISIBLE_BREAK && text.p[i] != '\r') {
            qp_buf_putc(buf, ' ');
        }
    }
    qp_buf_put(buf, (quipu_str){text.p + from, text.n - from});
}
