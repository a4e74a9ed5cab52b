/* A file that appears under its name complete or not at all: it is written under another name
 * beside it, which contains the process id, and renamed at the end. Leftovers of a killed process
 * are deleted when the same file is next written. */
#ifndef APPS_QUIPU_OUTPUT_H
#define APPS_QUIPU_OUTPUT_H

#include "app.h"

#define APP_OUTPUT_MARK ".part-" /* followed by the process id */

typedef struct app_output {
    char path[APP_PATH_MAX];
    char part[APP_PATH_MAX]; /* where to write it */
    bool replace;
    FILE *file; /* from app_output_open(), or NULL */
} app_output;

/* Chooses the names. Without `replace` the path must not exist. Returns an exit code. */
int app_output_begin(const app_call *call, const char *path, bool replace, app_output *ret_output);

/* Opens `part` for writing, readable by this user only. Returns an exit code. */
int app_output_open(const app_call *call, app_output *output);

/* Syncs the file and gives it its name. Returns an exit code. After a failure neither the file nor
 * its part exists. */
int app_output_keep(const app_call *call, app_output *output);

/* Closes and deletes the part. */
void app_output_drop(app_output *output);

/* Deletes files beside `path` named `path` + `mark` + the id of a dead process + `tail`. */
void app_output_sweep(const char *path, const char *mark, const char *tail);

#endif
