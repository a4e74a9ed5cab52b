/* A file that appears under its name whole or not at all: it is written under another name beside
 * it, which tells our process, and renamed at the end. What a killed process has left goes when the
 * next one writes the same file. */
#ifndef APPS_QUIPU_OUTPUT_H
#define APPS_QUIPU_OUTPUT_H

#include "app.h"

#define APP_OUTPUT_MARK ".part-" /* and the number of the process */

typedef struct app_output {
    char path[APP_PATH_MAX];
    char part[APP_PATH_MAX]; /* where to write it */
    bool replace;
    FILE *file; /* of app_output_open(); or NULL */
} app_output;

/* Choose the names. Unless it is to be replaced, nothing may have the path. An exit code; told. */
int app_output_begin(const app_call *call, const char *path, bool replace, app_output *ret_output);

/* Open `part` for writing, for our user only. An exit code; told. */
int app_output_open(const app_call *call, app_output *output);

/* Give the file its name, when it is on the disk. An exit code; told. After a failure there is no
 * file, and no part of it. */
int app_output_keep(const app_call *call, app_output *output);

/* Remove what was written. */
void app_output_drop(app_output *output);

/* Remove the files beside `path` that are named like it, with `mark`, the number of a process that
 * is gone, and `tail` behind. */
void app_output_sweep(const char *path, const char *mark, const char *tail);

#endif
