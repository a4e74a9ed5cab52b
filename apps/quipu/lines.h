/* Lines of a file, a pipe or a terminal, which tells when the next one is not there yet: whoever
 * follows a slow writer can store what came before. */
#ifndef APPS_QUIPU_LINES_H
#define APPS_QUIPU_LINES_H

#include "app.h"

typedef struct app_lines {
    int fd;
    char *buf;
    size_t at;     /* of the next line */
    size_t n;      /* bytes in the buffer */
    size_t looked; /* up to here there is no end of a line */
    size_t size;
    int64_t passed; /* bytes before the buffer's */
    bool ended;
} app_lines;

typedef enum app_line {
    APP_LINE_GOT,
    APP_LINE_NOT_YET, /* only when it is not to be waited for */
    APP_LINE_END,
    APP_LINE_FAILED /* errno tells why */
} app_line;

/* Nothing may have been read from `file` before. */
void app_lines_begin(app_lines *lines, FILE *file);

/* The next line without its end; it lives until the next call. */
app_line app_lines_next(app_lines *lines, bool wait, quipu_str *ret_line);

/* The bytes of all lines that were given so far. */
int64_t app_lines_bytes(const app_lines *lines);

void app_lines_end(app_lines *lines);

#endif
