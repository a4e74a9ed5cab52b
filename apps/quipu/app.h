/* What the verbs of the program share. The program uses the public headers only: whatever it does,
 * anybody's program can do. */
#ifndef APPS_QUIPU_APP_H
#define APPS_QUIPU_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <quipu/store.h>

/* Exit codes: docs/man/quipu.1 tells them. */
#define APP_OK 0
#define APP_FAILURE 1
#define APP_USAGE 2
#define APP_NOT_FOUND 3
#define APP_CONFLICT 4
#define APP_BUSY 5

#define APP_OPTIONS_MAX 16 /* of one verb */
#define APP_PATH_MAX 4096

/* An option: --name, or --name VALUE when `value` says what the value is. */
typedef struct app_option {
    const char *name;
    const char *value;
    const char *help;
} app_option;

struct app_call;

typedef struct app_verb {
    const char *name;
    const char *arguments; /* for people: "FILE", "[FOLDER]" */
    int arguments_min;
    int arguments_max;
    const char *summary;
    const app_option *options; /* ends with a NULL name */
    int (*run)(const struct app_call *call);
} app_verb;

/* A verb with what the command line says. */
typedef struct app_call {
    const app_verb *verb;
    const char *values[APP_OPTIONS_MAX]; /* by the option's number; NULL: not given */
    const char *const *arguments;
    int argument_count;
} app_call;

/* ---- options.c --------------------------------------------------------------------------------
 */

/* Read the command line behind the verb's name; what is wrong is told. Options and arguments may be
 * mixed; behind "--" everything is an argument. */
bool app_parse(const app_verb *verb, int argc, char **argv, app_call *ret_call);

/* An option's value, "" for one without; NULL when it was not given. */
const char *app_value(const app_call *call, const char *name);

/* The name among `names` (ends with NULL) that is nearest to a mistyped one, or NULL. */
const char *app_nearest(const char *word, const char *const *names);

void app_print_help(FILE *out, const app_verb *verb);

/* ---- common.c ---------------------------------------------------------------------------------
 */

/* The exit code that a status means. */
int app_exit_code(quipu_status status);

/* Say what failed on stderr; gives the exit code. */
int app_fail(const char *what, quipu_status status, const quipu_error *error);

/* Where the store is: --store, QUIPU_STORE, or a file in the user's data folder, which is made. */
bool app_store_path(const app_call *call, char ret_path[APP_PATH_MAX]);

/* A text as a JSON string. */
void app_print_json(FILE *out, const char *text);

/* Text at most `columns` wide behind a margin; control characters are shown harmlessly. */
void app_print_wrapped(FILE *out, quipu_str text, int margin, int columns);

/* ---- verbs ------------------------------------------------------------------------------------
 */

extern const app_option app_demo_options[];
extern const app_option app_import_options[];
extern const app_option app_version_options[];

int app_demo(const app_call *call);
int app_import(const app_call *call);
int app_version(const app_call *call);

#endif
