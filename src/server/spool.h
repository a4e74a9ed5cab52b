/* A temporary file without a name: a worker writes an answer to it, in order, and the loop sends
 * it, once. For an encrypted store its content is encrypted. See spool.c. */
#ifndef QP_SERVER_SPOOL_H
#define QP_SERVER_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_SPOOL_TEXT ((size_t)16 * 1024) /* bytes of one encrypted chunk, at most */

struct evbuffer;

typedef struct qp_spool qp_spool;

/* An empty file in $TMPDIR, else in /tmp. QUIPU_IO, QUIPU_NOMEM, QUIPU_UNSUPPORTED (no libcrypto).
 */
QUIPU_MUST_USE quipu_status qp_spool_new(bool encrypted, qp_spool **ret, quipu_error *reterr);

/* A quipu_write_fn over a qp_spool. A full disk is QUIPU_IO. */
quipu_status qp_spool_write(void *ctx, const void *bytes, size_t n);

/* All is written: what follows is sent. */
QUIPU_MUST_USE quipu_status qp_spool_end(qp_spool *self, quipu_error *reterr);

/* Bytes that were written. */
int64_t qp_spool_size(const qp_spool *self);

/* Whether the output has got all of them. */
bool qp_spool_is_sent(const qp_spool *self);

/* Adds what comes next to the output: a chunk, or the whole of a plain file, which the output reads
 * by itself. QUIPU_IO: it cannot be read. QUIPU_CORRUPT: it is not what was written. QUIPU_NOMEM.
 */
QUIPU_MUST_USE quipu_status qp_spool_send(qp_spool *self, struct evbuffer *output);

/* NULL is fine. */
void qp_spool_free(qp_spool *self);

#endif
