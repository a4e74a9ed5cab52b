/* Lines of a file, a pipe or a terminal, with a way to learn that the next line has not arrived: a
 * verb that follows a slow writer can store what it has. */
#ifndef APPS_QUIPU_LINES_H
#define APPS_QUIPU_LINES_H

#include "app.h"

typedef struct app_lines {
    int fd;
    char *buf;
    size_t at;     /* where the next line begins */
    size_t n;      /* bytes in the buffer */
    size_t looked; /* no line ends before this */
    size_t size;
    size_t max;     /* the most bytes of a line; 0: no limit */
    int64_t passed; /* bytes consumed before the buffer's first */
    bool ended;
} app_lines;

typedef enum app_line {
    APP_LINE_GOT,
    APP_LINE_NOT_YET, /* only without `wait` */
    APP_LINE_END,
    APP_LINE_FAILED /* errno is set; EMSGSIZE: the line is too long */
} app_line;

/* `file` must not have been read from before. */
void app_lines_begin(app_lines *lines, FILE *file);

/* The next line without its line end; valid until the next call. */
app_line app_lines_next(app_lines *lines, bool wait, quipu_str *ret_line);

/* Whether a line lies in the buffer already. */
bool app_lines_waiting(const app_lines *lines);

/* The bytes of all lines returned so far. */
int64_t app_lines_bytes(const app_lines *lines);

void app_lines_end(app_lines *lines);

#endif
