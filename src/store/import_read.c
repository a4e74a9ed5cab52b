/* Cutting a stream of bytes into lines.
 *
 * Owns: the buffer of a qp_line_reader.
 * Called by: import.c, import_lines.c, on the caller's thread.
 * Locks: takes none. A group that outgrows the buffer is read while the import holds the write
 * lock.
 * On return: every byte of the stream is part of exactly one line; the last needs no line break.
 *
 *    buf:  | lines that were returned | the next line ...| room |
 *          0                          at                 n
 */
#include "store/import_read.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

#define IMPORT_READ_CHUNK ((size_t)64 * 1024) /* asked of the caller at a time */

/* Room for the longest line and for what a read brings behind it. */
void qp_lines_begin(qp_line_reader *reader, quipu_read_fn read, void *ctx, size_t line_max)
{
    assert(read != NULL && line_max > 0);
    *reader = (qp_line_reader){.read = read, .ctx = ctx, .line_max = line_max};
    qp_buf_init(&reader->buf, line_max + 2 * IMPORT_READ_CHUNK);
}

/* Safe after a failure: the buffer is all that a reader has. */
void qp_lines_end(qp_line_reader *reader)
{
    qp_buf_free(&reader->buf);
}

/* Drop the lines that were returned: what is left of the buffer begins with the next one. */
static void import_read_shift(qp_line_reader *reader)
{
    size_t left = reader->buf.n - reader->at;

    assert(reader->at <= reader->buf.n);
    if (reader->at > 0) {
        memmove(reader->buf.p, reader->buf.p + reader->at, left);
        qp_buf_cut(&reader->buf, left);
        reader->at = 0;
    }
}

/* Ask the caller for another chunk. 0 bytes are the end of the stream. */
static quipu_status import_read_more(qp_line_reader *reader, quipu_error *reterr)
{
    size_t n = 0;
    char *room;
    quipu_status status;

    assert(!reader->ended);
    import_read_shift(reader);
    room = qp_buf_room(&reader->buf, IMPORT_READ_CHUNK);
    if (room == NULL) {
        return qp_error_set(reterr, qp_buf_status(&reader->buf), "no memory for line %lld",
                            (long long)reader->number + 1);
    }
    status = reader->read(reader->ctx, room, IMPORT_READ_CHUNK, &n);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the import could not be read on (%s)",
                            quipu_status_name(status));
    }
    if (n > IMPORT_READ_CHUNK) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the reader gave more bytes than were asked for");
    }
    qp_buf_added(&reader->buf, n);
    reader->ended = n == 0;
    return QUIPU_OK;
}

/* The next line without its break; absent behind the last. Bytes that were searched for a break
 * before are not searched again, so that a long line costs its length and not its square. */
quipu_status qp_lines_next(qp_line_reader *reader, quipu_str *ret_line, quipu_error *reterr)
{
    size_t looked = reader->at; /* up to here there is no end of a line */
    const char *end = NULL;
    size_t n = 0;

    assert(reader->at <= reader->buf.n);
    for (;;) {
        size_t left = reader->buf.n - looked;
        end = left == 0 ? NULL : memchr(reader->buf.p + looked, '\n', left);
        n = end != NULL ? (size_t)(end - reader->buf.p) - reader->at : reader->buf.n - reader->at;
        if (n > reader->line_max) {
            return qp_error_set(reterr, QUIPU_LIMIT,
                                "line %lld has more than %zu bytes (line_bytes_max)",
                                (long long)reader->number + 1, reader->line_max);
        }
        if (end != NULL || reader->ended) {
            break;
        }
        /* The buffer is shifted before it grows: then the line begins at 0. */
        looked = n;
        quipu_status status = import_read_more(reader, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    if (end == NULL && n == 0) {
        *ret_line = QP_STR_ABSENT;
        return QUIPU_OK;
    }
    assert(n <= reader->line_max && reader->at + n <= reader->buf.n);
    *ret_line = (quipu_str){reader->buf.p + reader->at, n};
    reader->at += n + (end != NULL);
    reader->number++;
    return QUIPU_OK;
}
