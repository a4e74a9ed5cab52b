/* The lines of an import, one by one, from a caller that hands over bytes as they come.
 *
 * Owns: the buffer between both, which holds at most one line of the longest length and two chunks.
 * Called by: import.c and import_lines.c.
 * Locks: none.
 * On return: a line is a slice of the buffer and lives until the next call. */
#ifndef QP_STORE_IMPORT_READ_H
#define QP_STORE_IMPORT_READ_H

#include <quipu/store.h>

#include "base/buf.h"

/* A stream that is being cut into lines; qp_lines_end() frees the buffer. */
typedef struct qp_line_reader {
    quipu_read_fn read;
    void *ctx;
    size_t line_max;
    qp_buf buf;
    size_t at;      /* where the next line begins */
    int64_t number; /* of the line that was given last, from 1 */
    bool ended;     /* the caller has no more bytes */
} qp_line_reader;

/* `line_max` is the longest line without its break. qp_lines_end() also after a failure. */
void qp_lines_begin(qp_line_reader *reader, quipu_read_fn read, void *ctx, size_t line_max);
void qp_lines_end(qp_line_reader *reader);

/* The next line, without its end; absent when there is none. It lives until the next call.
 * QUIPU_LIMIT, QUIPU_NOMEM, and what the caller says. */
QUIPU_MUST_USE quipu_status qp_lines_next(qp_line_reader *reader, quipu_str *ret_line,
                                          quipu_error *reterr);

#endif
