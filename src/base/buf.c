/* The growing buffer. Capacity doubles up to the maximum; after an error nothing is written.
 *
 *   empty ──put──▶ text ──put──▶ text, in twice the memory
 *     └───────┬─────┘
 *             ▼ no memory, or beyond size_max
 *           failed: the first error stays in `status`, writes do nothing, the text so far is kept
 *
 * Invariants: n <= cap <= size_max, and p[n] is a NUL as soon as there is memory.
 * Owns: the bytes at p, from the first write until qp_buf_free().
 * Called by: every room that builds text. Callers look at the status once, at the end.
 * Locks: none; a buffer has one user at a time. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define BUF_CAP_MIN ((size_t)63) /* 64 with the NUL */
#define BUF_I64_SIZE 20          /* digits and sign of the longest 64-bit integer */

/* Allocates nothing. */
void qp_buf_init(qp_buf *buf, size_t size_max)
{
    assert(buf != NULL);
    assert(size_max < SIZE_MAX);
    *buf = (qp_buf){NULL, 0, 0, size_max, QUIPU_OK};
}

/* Keeps the maximum, so that the buffer can be used again. */
void qp_buf_free(qp_buf *buf)
{
    if (buf != NULL) {
        qp_free(buf->p);
        *buf = (qp_buf){NULL, 0, 0, buf->size_max, QUIPU_OK};
    }
}

/* Keeps the memory. */
void qp_buf_reset(qp_buf *buf)
{
    assert(buf != NULL);
    buf->status = QUIPU_OK;
    qp_buf_cut(buf, 0);
}

/* Shortens the text to `size` bytes. Never grows; the error stays. */
void qp_buf_cut(qp_buf *buf, size_t size)
{
    assert(buf->n <= buf->cap);
    if (buf->p != NULL && size <= buf->n) {
        buf->n = size;
        buf->p[size] = '\0';
    }
}

/* The first error wins; QUIPU_OK changes nothing. Also called by writers that find a value they
 * cannot write. */
void qp_buf_fail(qp_buf *buf, quipu_status status)
{
    if (buf->status == QUIPU_OK) {
        buf->status = status;
    }
}

/* At least `need`, at most the maximum, and one byte more for the NUL. On failure the old bytes
 * stay, so that the text so far can still be freed or read. */
static bool buf_grow(qp_buf *buf, size_t need)
{
    size_t cap = buf->cap > buf->size_max / 2 ? buf->size_max : buf->cap * 2;
    char *p;

    assert(need <= buf->size_max);
    if (cap < need) {
        cap = need;
    }
    if (cap < BUF_CAP_MIN) {
        cap = BUF_CAP_MIN < buf->size_max ? BUF_CAP_MIN : buf->size_max;
    }
    p = qp_realloc(buf->p, cap + 1);
    if (p == NULL) {
        buf->status = QUIPU_NOMEM;
        return false;
    }
    if (buf->p == NULL) {
        p[0] = '\0';
    }
    assert(cap >= need && cap <= buf->size_max);
    buf->p = p;
    buf->cap = cap;
    return true;
}

/* Room for `size` more bytes and a NUL, or NULL: the buffer has failed, now or before. QUIPU_LIMIT
 * beyond the maximum. The pointer is valid until the next call on the buffer. */
char *qp_buf_room(qp_buf *buf, size_t size)
{
    assert(buf->n <= buf->size_max);
    if (buf->status != QUIPU_OK) {
        return NULL;
    }
    if (size > buf->size_max - buf->n) {
        buf->status = QUIPU_LIMIT;
        return NULL;
    }
    if (buf->p == NULL || size > buf->cap - buf->n) {
        if (!buf_grow(buf, buf->n + size)) {
            return NULL;
        }
    }
    return buf->p + buf->n;
}

/* Only after qp_buf_room() for at least as much. */
void qp_buf_added(qp_buf *buf, size_t size)
{
    assert(buf->status == QUIPU_OK);
    assert(size <= buf->cap - buf->n);
    buf->n += size;
    buf->p[buf->n] = '\0';
}

/* A text of 0 bytes may have a NULL pointer, which memcpy() does not take. The usual one fits: a
 * buffer without memory has no capacity either. */
void qp_buf_put(qp_buf *buf, quipu_str text)
{
    char *to;

    if (QP_LIKELY(buf->status == QUIPU_OK && text.n != 0 && text.n <= buf->cap - buf->n)) {
        memcpy(buf->p + buf->n, text.p, text.n);
        buf->n += text.n;
        buf->p[buf->n] = '\0';
        return;
    }
    to = qp_buf_room(buf, text.n);
    if (to != NULL) {
        if (text.n != 0) {
            memcpy(to, text.p, text.n);
        }
        qp_buf_added(buf, text.n);
    }
}

/* NULL counts as empty. */
void qp_buf_puts(qp_buf *buf, const char *text)
{
    qp_buf_put(buf, quipu_cstr(text));
}

/* Faster than printf, and independent of the locale. */
void qp_buf_u64(qp_buf *buf, uint64_t value)
{
    char digits[BUF_I64_SIZE];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    qp_buf_put(buf, (quipu_str){digits + at, sizeof(digits) - at});
}

/* The negation is done on unsigned numbers: INT64_MIN has no positive counterpart. */
void qp_buf_i64(qp_buf *buf, int64_t value)
{
    if (value < 0) {
        qp_buf_putc(buf, '-');
        qp_buf_u64(buf, UINT64_C(0) - (uint64_t)value);
    } else {
        qp_buf_u64(buf, (uint64_t)value);
    }
}

/* For texts that are not hot. Formatted twice: the first pass measures. Numbers that a locale may
 * format do not go through here. */
void qp_buf_printf(qp_buf *buf, const char *format, ...)
{
    va_list args;
    va_list again;
    int n;
    char *to;

    assert(format != NULL);
    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n < 0) {
        qp_buf_fail(buf, QUIPU_INVALID);
    } else {
        to = qp_buf_room(buf, (size_t)n);
        if (to != NULL) {
            (void)vsnprintf(to, (size_t)n + 1, format, again);
            qp_buf_added(buf, (size_t)n);
        }
    }
    va_end(again);
    va_end(args);
}
