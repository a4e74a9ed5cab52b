/* A growing byte buffer with a mandatory maximum. Errors are sticky: append everything, then check
 * qp_buf_status() once. There is always a NUL after the last byte.
 *
 *   qp_buf_init(&text, TEXT_MAX);
 *   qp_buf_puts(&text, "a");                      any number of writes, none of them checked
 *   status = qp_buf_status(&text);                then qp_buf_str(&text) is complete
 *   qp_buf_free(&text);                           also after a failure
 */
#ifndef QP_BASE_BUF_H
#define QP_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#include "base/attr.h"

typedef struct qp_buf {
    char *p; /* NULL until the first byte; read it through qp_buf_str() */
    size_t n;
    size_t cap; /* without the byte for the NUL */
    size_t size_max;
    quipu_status status;
} qp_buf;

/* An empty buffer that holds at most `size_max` bytes (the NUL does not count). Allocates nothing.
 */
void qp_buf_init(qp_buf *buf, size_t size_max);

/* Frees the memory; the buffer is empty and usable, its maximum stays. NULL is fine. */
void qp_buf_free(qp_buf *buf);

/* Empty it and clear the error, keeping the memory. */
void qp_buf_reset(qp_buf *buf);

/* Drop everything after the first `size` bytes; never grows. The error stays. */
void qp_buf_cut(qp_buf *buf, size_t size);

/* QUIPU_OK, or the first error: QUIPU_NOMEM, QUIPU_LIMIT, or that of qp_buf_fail(). */
QP_INLINE quipu_status qp_buf_status(const qp_buf *buf)
{
    return buf->status;
}

/* Records an error of the caller, unless there is one already. */
void qp_buf_fail(qp_buf *buf, quipu_status status);

/* The buffer's bytes, NUL-terminated; valid until the next change. */
QP_INLINE_FAST quipu_str qp_buf_str(const qp_buf *buf)
{
    return buf->p != NULL ? (quipu_str){buf->p, buf->n} : (quipu_str){"", 0};
}

/* Makes room for `size` more bytes and returns where they go, or NULL (with the error recorded).
 * The caller writes there and then calls qp_buf_added(). */
char *qp_buf_room(qp_buf *buf, size_t size);
void qp_buf_added(qp_buf *buf, size_t size);

void qp_buf_put(qp_buf *buf, quipu_str text);
void qp_buf_puts(qp_buf *buf, const char *text);
void qp_buf_i64(qp_buf *buf, int64_t value);
void qp_buf_u64(qp_buf *buf, uint64_t value);
void qp_buf_printf(qp_buf *buf, const char *format, ...) QUIPU_PRINTF(2, 3);

QP_INLINE_FAST void qp_buf_putc(qp_buf *buf, char c)
{
    if (QP_LIKELY(buf->n < buf->cap && buf->status == QUIPU_OK)) {
        buf->p[buf->n++] = c;
        buf->p[buf->n] = '\0';
        return;
    }
    qp_buf_put(buf, (quipu_str){&c, 1});
}

#endif
