/* The frame of the program: what a verb is, and what all verbs share. The program uses the public
 * headers only: whatever it does, anybody's program can do.
 *
 * A verb is a file, cmd_<verb>.c, that defines one `const app_verb app_verb_<verb>`; its name
 * stands in APP_VERBS below. That table drives parsing, --help, completion and the synopsis of the
 * manual pages. */
#ifndef APPS_QUIPU_APP_H
#define APPS_QUIPU_APP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <quipu/store.h>

/* Exit codes: docs/man/quipu.1 tells them. */
#define APP_OK 0
#define APP_FAILURE 1
#define APP_USAGE 2
#define APP_NOT_FOUND 3
#define APP_CONFLICT 4
#define APP_BUSY 5

#define APP_OPTIONS_MAX 16 /* of one verb, the common ones not counted */
#define APP_PATH_MAX 4096
#define APP_MESSAGE_MAX 2048 /* bytes of one line to a person; longer ones are cut */

/* ---- verbs -----------------------------------------------------------------------------------
 */

/* Every verb, in the order in which --help tells them within their group. */
#define APP_VERBS(X)                                                                               \
    X(demo)                                                                                        \
    X(init)                                                                                        \
    X(doctor)                                                                                      \
    X(bench)                                                                                       \
    X(version)                                                                                     \
    X(completion)                                                                                  \
    X(ls)                                                                                          \
    X(show)                                                                                        \
    X(tail)                                                                                        \
    X(search)                                                                                      \
    X(stats)                                                                                       \
    X(memory)                                                                                      \
    X(chat)                                                                                        \
    X(append)                                                                                      \
    X(fork)                                                                                        \
    X(rewind)                                                                                      \
    X(compact)                                                                                     \
    X(prune)                                                                                       \
    X(rm)                                                                                          \
    X(erase)                                                                                       \
    X(export)                                                                                      \
    X(import)                                                                                      \
    X(copy)                                                                                        \
    X(backup)                                                                                      \
    X(verify)                                                                                      \
    X(repair)                                                                                      \
    X(sweep)

/* An option: --name, or --name VALUE when `value` says what the value is. */
typedef struct app_option {
    const char *name;
    const char *value;   /* for people: "N", "FILE" */
    const char *choices; /* the values that there are, parted by spaces; NULL: any */
    const char *help;    /* begins with a small letter, without a full stop */
    char letter;         /* -x means the same; 0: none */
} app_option;

/* Options that many verbs have; a verb says which. --help is everybody's. */
#define APP_STORE 1u     /* --store, --tenant, --wait: use app_open() */
#define APP_JSON 2u      /* --json */
#define APP_READ_ONLY 4u /* --read-only */
#define APP_YES 8u       /* --yes: use app_confirm() */
#define APP_COLOR 16u    /* --color WHEN: use app_style() */
#define APP_QUIET 32u    /* --quiet: progress keeps still */
#define APP_STORES 64u   /* --tenant, --wait for stores that arguments name: app_open_options() */
#define APP_ADDS 128u    /* --durability, --index, --max-size: of the opening, not of the file */
#define APP_READS (APP_STORE | APP_JSON | APP_READ_ONLY | APP_COLOR)

/* The words of quipu_durability and quipu_search_mode, in their order. */
#define APP_DURABILITIES "full relaxed"
#define APP_INDEX_WORDS "lazy inline off"

typedef enum app_group {
    APP_GROUP_BEGIN,
    APP_GROUP_READ,
    APP_GROUP_WRITE,
    APP_GROUP_KEEP,
    APP_GROUP_COUNT
} app_group;

struct app_call;

typedef struct app_verb {
    const char *name;
    app_group group;
    const char *arguments; /* for people and the manual: "KEY", "[FILE]"; "" for none */
    int arguments_min;
    int arguments_max;
    const char *words;   /* the first argument is one of these, parted by spaces; NULL: anything */
    const char *summary; /* one line, begins with a small letter */
    const char *note;    /* more lines for --help, behind the options; NULL: none */
    uint32_t common;     /* APP_STORE... */
    const app_option *options; /* ends with a NULL name; NULL: none of its own */
    int (*run)(const struct app_call *call);
} app_verb;

#define APP_VERB_DECLARE(name) extern const app_verb app_verb_##name;
APP_VERBS(APP_VERB_DECLARE)
#undef APP_VERB_DECLARE

/* All verbs; ends with NULL. */
extern const app_verb *const app_verbs[];

#define APP_COMMON_COUNT 12

/* The common options; `bit` is 0 for --help; of several bits one will do. Ends with a NULL name. */
typedef struct app_common {
    app_option option;
    uint32_t bit;
} app_common;

extern const app_common app_commons[APP_COMMON_COUNT + 1];

/* A verb with what the command line says. */
typedef struct app_call {
    const app_verb *verb;
    const char *values[APP_OPTIONS_MAX]; /* by the option's number; NULL: not given */
    const char *common[APP_COMMON_COUNT];
    const char *const *arguments;
    int argument_count;
} app_call;

/* ---- options.c: the command line --------------------------------------------------------------
 */

/* Read the command line behind the verb's name; what is wrong is told. Options and arguments may be
 * mixed; behind "--" everything is an argument. With --help nothing else is checked. */
bool app_parse(const app_verb *verb, int argc, char **argv, app_call *ret_call);

/* An option's value, "" for one without; NULL when it was not given. Common ones too. */
const char *app_value(const app_call *call, const char *name);

/* Whether an option was given. */
bool app_given(const app_call *call, const char *name);

/* An option's number; `*ret_value` stays as it is when the option was not given. False: it is no
 * number from `least` to `most`, which was told; exit with APP_USAGE. */
bool app_number(const app_call *call, const char *name, int64_t least, int64_t most,
                int64_t *ret_value);

/* An option's size in bytes, with K, M, G or T for powers of 1024; otherwise as app_number(). */
bool app_size(const app_call *call, const char *name, int64_t least, int64_t *ret_bytes);

/* An option's instant, in any form that quipu_time_parse() reads, or an age such as 30s, 15m, 2h,
 * 7d. False: it is none, which was told. */
bool app_instant(const app_call *call, const char *name, bool *ret_given, quipu_time *ret_time);

/* An argument as text; absent when it is not there. */
quipu_str app_argument(const app_call *call, int number);

/* An option's value as text; absent when it was not given. */
quipu_str app_text_value(const app_call *call, const char *name);

/* ---- words.c: "did you mean" ------------------------------------------------------------------
 */

#define APP_WORDS_MAX 64

/* The word among `names` (ends with NULL) that is nearest to a mistyped one, or NULL. */
const char *app_nearest(const char *word, const char *const *names);

/* Whether a word is one of `words`, which are parted by spaces; -1, or its number. */
int app_word_number(const char *words, const char *word);

/* The word of `words` nearest to a mistyped one, NUL-terminated; "" when none is near. */
void app_word_nearest(const char *words, const char *word, char *ret_word, size_t size);

/* ---- help.c ----------------------------------------------------------------------------------
 */

void app_print_verbs(FILE *out);
void app_print_help(FILE *out, const app_verb *verb);

/* The generated parts of a manual page, SYNOPSIS and OPTIONS, in roff. A NULL verb: quipu.1's. */
void app_print_roff(FILE *out, const app_verb *verb);

/* ---- common.c: errors, the store, asking ------------------------------------------------------
 */

/* The exit code that a status means. */
int app_exit_code(quipu_status status);

/* Tell a person something on stderr, as "quipu VERB: ..."; nothing in it can harm a terminal. */
void app_tell(const app_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

/* The same, and gives APP_USAGE. */
int app_usage(const app_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

/* Say what failed (`what`: the key, the file) and what to do about it; gives the exit code. */
int app_fail(const app_call *call, const char *what, quipu_status status, const quipu_error *error);

/* The same about a session: one that is not there is told with what to do. */
int app_fail_session(const app_call *call, quipu_str key, quipu_status status,
                     const quipu_error *error);

/* Say that a system call about `what` failed, by errno; gives the exit code. */
int app_fail_errno(const app_call *call, const char *what);

/* Where the store is: --store, QUIPU_STORE, or a file in the user's data folder, which is made when
 * `make` says so. False: told. */
bool app_store_path(const app_call *call, bool make, char ret_path[APP_PATH_MAX]);

/* How a verb needs the store. */
typedef enum app_need {
    APP_NEED_READ,  /* it must exist and is not changed, not even migrated */
    APP_NEED_WRITE, /* it must exist */
    APP_NEED_NEW    /* it is made when it does not exist */
} app_need;

/* What the command line says about an opening: --read-only, --tenant, --wait, --durability, --index
 * and --max-size. False: an option is wrong, which was told; exit with APP_USAGE. */
bool app_open_options(const app_call *call, app_need need, quipu_open_options *ret_options);

/* Open the store of the call by these options. An exit code; what failed was told, with the path
 * and what to do. */
int app_open(const app_call *call, app_need need, quipu_store **ret_store);

/* A session without its messages, as quipu_session_get() tells it. */
quipu_status app_session_header(quipu_store *store, quipu_str key, const quipu_call_options *within,
                                quipu_history **ret_history, quipu_error *reterr);

/* Bring the search index up to date, however long it takes, with a progress bar. */
quipu_status app_index(const app_call *call, quipu_store *store, quipu_error *error);

/* Ask a question that can be answered with yes ("delete 3 sessions"). APP_OK: go on. Without a
 * terminal --yes is needed, which is told, and the code is APP_USAGE; a no is APP_FAILURE. */
int app_confirm(const app_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

/* A file to read, "-" for stdin; NULL: told, and errno says why. Close with app_input_close(). */
FILE *app_input_open(const app_call *call, const char *path);
void app_input_close(FILE *file);

/* How many bytes it has; 0 of a pipe or a terminal: nobody knows. */
int64_t app_input_bytes(FILE *file);

/* ---- term.c: colours, width, pager, signals ---------------------------------------------------
 */

#define APP_COLUMNS_DEFAULT 80
#define APP_COLUMNS_MIN 20
#define APP_COLUMNS_MAX 1000

/* How wide the terminal on stdout is; COLUMNS or 80 without one. */
int app_columns(void);

typedef enum app_look {
    APP_PLAIN, /* back to normal */
    APP_BOLD,
    APP_DIM,
    APP_RED,
    APP_GREEN,
    APP_YELLOW,
    APP_BLUE,
    APP_MAGENTA,
    APP_CYAN
} app_look;

/* Whether stdout gets colours: a terminal without NO_COLOR, or as --color says. */
bool app_colours(const app_call *call);

/* The escape sequence for a look, or "" where `colours` is false. */
const char *app_style(bool colours, app_look look);

/* Send stdout through $PAGER when it is a terminal; app_pager_end() waits until the person leaves
 * it. Nothing happens without a terminal, without $PAGER, or with --no-pager. */
typedef struct app_pager {
    int pid;   /* 0: none */
    int saved; /* the stdout of before */
} app_pager;

void app_pager_begin(app_pager *pager, const app_call *call);
void app_pager_end(app_pager *pager);

/* Told of SIGINT and SIGTERM, on a thread of its own. */
typedef void (*app_signal_fn)(void *ctx, int number);

/* Have Ctrl-C (SIGINT) and SIGTERM told instead of ending the program; once, and before other
 * threads begin, which inherit the mask. `ctx` stays until the program is gone. */
bool app_signals_listen(app_signal_fn fn, void *ctx);

/* A flag that Ctrl-C (SIGINT) and SIGTERM set instead of ending the program; for the `call` of a
 * library function; the same one at every call. NULL when memory is used up. Call it before other
 * threads begin. */
quipu_cancel *app_signals_begin(void);
/* Whether a signal came. */
bool app_signals_came(void);

/* ---- progress.c: how far a verb is ------------------------------------------------------------
 */

#define APP_BYTES "bytes" /* the unit that is shown as sizes */

/* A progress bar on stderr: only on a terminal, without --quiet, and after a second. */
typedef struct app_progress {
    const char *what; /* "reading" */
    const char *unit; /* "messages" */
    int64_t total;    /* about so many; 0: unknown; may change on the way */
    bool able;
    int64_t begun_ms;
    int64_t drawn_ms;
} app_progress;

void app_progress_begin(app_progress *progress, const app_call *call, const char *what,
                        const char *unit, int64_t total);
/* So many are done; a quipu_progress_fn whose context is the bar. */
void app_progress_to(void *progress, int64_t done);
/* Take the bar away. */
void app_progress_end(app_progress *progress);

/* Take away whatever bar there is and keep it still, for other lines; and let it come back. */
void app_progress_hush(void);
void app_progress_go_on(void);

/* What there is to do, for a total. All zero when no bar would be shown, which costs nothing, and
 * when it cannot be told, which is worth no failure. */
quipu_stats app_progress_stats(const app_call *call, quipu_store *store);

/* What has been done so far, in bytes; -1: nobody knows. */
typedef int64_t (*app_look_fn)(void *ctx);

/* A bar over a call that tells nobody how far it is: a thread looks, and draws. */
typedef struct app_watch {
    app_progress progress;
    app_look_fn look;
    void *ctx;
    int64_t from; /* what there was before */
    pthread_t thread;
    int ends[2]; /* a pipe, whose closing ends the thread */
    bool watching;
} app_watch;

/* Begin behind app_signals_begin(), so that no signal meets the thread. Nothing happens when
 * nothing would be shown. A NULL look: at the bytes that the program reads and writes. */
void app_watch_begin(app_watch *watch, const app_call *call, const char *what, app_look_fn look,
                     void *ctx, int64_t total);
/* Take the bar away; also what was not begun, when it is zero. */
void app_watch_end(app_watch *watch);

/* ---- text.c: text that cannot harm a terminal -------------------------------------------------
 */

/* Text as people see it: control characters, bidi controls, invisible tags and bytes that are no
 * UTF-8 are shown as what they are (␛, <U+202E>, <FF>); width is counted in columns (wide: 2,
 * combining: 0). A newline is shown too, but for app_put_wrapped(). */

/* Whether a text is spaces, tabs and line ends alone. */
bool app_is_blank(quipu_str text);

/* The columns of a text as app_put() writes it. */
int app_width(quipu_str text);

/* Write a text on one line, whole. */
void app_put(FILE *out, quipu_str text);

/* Write the beginning of a text in at most `columns` columns, cut with "…"; gives the columns. Runs
 * of space and line ends count as one space. */
int app_put_cut(FILE *out, quipu_str text, int columns);

/* The next of the lines, at most `columns` wide, into which a text is broken: what begins at *at,
 * which moves on, without the space or the end at which it was broken. False: there is none. */
bool app_line_next(quipu_str text, int columns, size_t *at, quipu_str *ret_line);

/* Write a text as lines at most `columns` wide, each behind `margin`. Gives the number of lines. */
size_t app_put_wrapped(FILE *out, quipu_str text, const char *margin, int columns);

/* ---- table.c: tables that fit the terminal ----------------------------------------------------
 */

#define APP_TABLE_COLUMNS_MAX 8
#define APP_TABLE_GAP 2
#define APP_NUMBER_SIZE 32 /* a number or a size as text */

typedef struct app_column {
    const char *title;
    bool right; /* numbers */
    bool fits;  /* gives way, down to APP_TABLE_LEAST columns, when the line is too long */
    bool spare; /* is left out, the last one first, where there is no room */
} app_column;

#define APP_TABLE_LEAST 8

/* Set out, colours, columns (the terminal's; 0: no limit), kinds and count; leave the rest zero. */
typedef struct app_table {
    FILE *out;
    bool colours;
    int columns;
    const app_column *kinds;
    size_t count;
    bool headed;
    int widths[APP_TABLE_COLUMNS_MAX]; /* 0: left out */
} app_table;

/* Print rows of `count` cells each; the first call prints the titles and settles the widths. */
void app_table_print(app_table *table, const quipu_str *cells, size_t rows);

/* The width of tables: the terminal's, or 0 for a pipe, where nothing is cut. */
int app_table_width(void);

/* A size in bytes for people: "1.2 MiB". */
void app_size_text(int64_t bytes, char ret_text[APP_NUMBER_SIZE]);

/* ---- json.c: JSON for programs ----------------------------------------------------------------
 */

/* Writes JSON to a stream: app_json_open(&j, NULL, '{'), members, app_json_close(&j, '}'), and at
 * depth 0 a newline. Text that is no UTF-8 is mended; nothing in it can harm a terminal. */
typedef struct app_json {
    FILE *out;
    int depth;
    bool comma; /* something stands before the next thing */
} app_json;

/* `name` is NULL in an array and at the top. Absent text is left out. */
void app_json_open(app_json *json, const char *name, char bracket);
void app_json_close(app_json *json, char bracket);
void app_json_text(app_json *json, const char *name, quipu_str text);
void app_json_cstr(app_json *json, const char *name, const char *text);
void app_json_int(app_json *json, const char *name, int64_t value);
void app_json_double(app_json *json, const char *name, double value);
void app_json_bool(app_json *json, const char *name, bool value);
void app_json_time(app_json *json, const char *name, quipu_time time); /* RFC 3339 */
/* A message, as quipu_message_json() writes it; `arena` is for the text meanwhile. */
quipu_status app_json_message(app_json *json, quipu_messages messages, size_t index,
                              quipu_arena *arena, quipu_error *error);
/* What is JSON already; at the top it is a line of its own. */
void app_json_raw(app_json *json, const char *name, quipu_str value);

#endif
