/* Lines of a descriptor (lines.h). Reads with read(2) rather than stdio, so that poll(2) knows
 * whether a read would block: stdio's buffer would hide input from it.
 *
 * Owns: the buffer, which grows to the longest line, at most to `max`. One thread. */
#include "lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES_CHUNK ((size_t)64 * 1024) /* read at a time */

void app_lines_begin(app_lines *lines, FILE *file)
{
    *lines = (app_lines){.fd = fileno(file)};
}

void app_lines_end(app_lines *lines)
{
    free(lines->buf);
    *lines = (app_lines){.fd = -1};
}

bool app_lines_waiting(const app_lines *lines)
{
    return lines->n > lines->at &&
           memchr(lines->buf + lines->at, '\n', lines->n - lines->at) != NULL;
}

int64_t app_lines_bytes(const app_lines *lines)
{
    return lines->passed + (int64_t)lines->at;
}

/* Whether a read would not block; a file never does. Errors count as ready: the read reports
 * them. */
static bool lines_ready(const app_lines *lines)
{
    struct pollfd look = {.fd = lines->fd, .events = POLLIN};

    return poll(&look, 1, 0) != 0;
}

/* Moves the unread rest to the front and reads more behind it; false: errno is set. */
static bool lines_read(app_lines *lines)
{
    ssize_t got;

    if (lines->at > 0) {
        lines->passed += (int64_t)lines->at;
        lines->n -= lines->at;
        memmove(lines->buf, lines->buf + lines->at, lines->n);
        lines->looked -= lines->at;
        lines->at = 0;
    }
    if (lines->size - lines->n < LINES_CHUNK) {
        const size_t size = lines->size * 2 + LINES_CHUNK;
        char *more = realloc(lines->buf, size);
        if (more == NULL) {
            errno = ENOMEM;
            return false;
        }
        lines->buf = more;
        lines->size = size;
    }
    do {
        got = read(lines->fd, lines->buf + lines->n, LINES_CHUNK);
    } while (got < 0 && errno == EINTR);
    lines->ended = got == 0;
    lines->n += got > 0 ? (size_t)got : 0;
    return got >= 0;
}

/* The last line may lack its line end. `looked` avoids scanning a long line again after each
 * read. */
app_line app_lines_next(app_lines *lines, bool wait, quipu_str *ret_line)
{
    for (;;) {
        const size_t left = lines->n - lines->looked;
        const char *end = left > 0 ? memchr(lines->buf + lines->looked, '\n', left) : NULL;

        const size_t to = end != NULL ? (size_t)(end - lines->buf) : lines->n;

        if (lines->max > 0 && to - lines->at > lines->max) {
            errno = EMSGSIZE;
            return APP_LINE_FAILED;
        }
        if (end != NULL || (lines->ended && lines->n > lines->at)) {
            *ret_line = (quipu_str){lines->buf + lines->at, to - lines->at};
            lines->at = lines->looked = end != NULL ? to + 1 : to;
            return APP_LINE_GOT;
        }
        lines->looked = lines->n;
        if (lines->ended) {
            return APP_LINE_END;
        }
        if (!wait && !lines_ready(lines)) {
            return APP_LINE_NOT_YET;
        }
        if (!lines_read(lines)) {
            return APP_LINE_FAILED;
        }
    }
}
