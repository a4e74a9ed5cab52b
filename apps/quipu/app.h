/* The frame of the program: what a verb is, and what all verbs share. The program uses the public
 * headers only, so that any other program can do the same.
 *
 * A verb is a file, cmd_<verb>.c, that defines one `const app_verb app_verb_<verb>`; APP_VERBS
 * below lists its name. That table drives parsing, --help, completion and the synopsis of the
 * manual pages. To add a verb, see CONTRIBUTING.md.
 *
 * Conventions: a function that returns an exit code or false has already reported the error on
 * stderr. stdout carries data, stderr messages for people. Text from a store reaches a terminal
 * only through app_put() and its relatives. */
#ifndef APPS_QUIPU_APP_H
#define APPS_QUIPU_APP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <quipu/store.h>

/* Exit codes, documented in docs/man/quipu.1. */
#define APP_OK 0
#define APP_FAILURE 1
#define APP_USAGE 2
#define APP_NOT_FOUND 3
#define APP_CONFLICT 4
#define APP_BUSY 5

#define APP_OPTIONS_MAX 32 /* options of one verb, besides the common ones */
#define APP_REPEATS_MAX 64 /* values of options that may be repeated, in one call */
#define APP_PATH_MAX 4096
#define APP_MESSAGE_MAX 2048 /* bytes of one message on stderr; longer ones are cut */

/* ---- verbs -----------------------------------------------------------------------------------
 */

/* Every verb, in the order in which --help lists them within their group. */
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
    X(tree)                                                                                        \
    X(diff)                                                                                        \
    X(feed)                                                                                        \
    X(search)                                                                                      \
    X(recall)                                                                                      \
    X(state)                                                                                       \
    X(stats)                                                                                       \
    X(usage)                                                                                       \
    X(memory)                                                                                      \
    X(context)                                                                                     \
    X(window)                                                                                      \
    X(mcp)                                                                                         \
    X(chat)                                                                                        \
    X(append)                                                                                      \
    X(set)                                                                                         \
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
    X(head)                                                                                        \
    X(verify)                                                                                      \
    X(repair)                                                                                      \
    X(upgrade)                                                                                     \
    X(rekey)                                                                                       \
    X(sweep)                                                                                       \
    X(serve)                                                                                       \
    X(token)

/* An option: --name, or --name VALUE when `value` names the value. */
typedef struct app_option {
    const char *name;
    const char *value;   /* shown in --help: "N", "FILE"; NULL: the option has no value */
    const char *choices; /* the allowed values, separated by spaces; NULL: any */
    const char *help;    /* begins in lower case, without a full stop */
    char letter;         /* the short form -x; 0: none */
    bool repeats;        /* each value counts: use app_each_value() */
} app_option;

/* Common options; a verb selects them by these bits. Every verb has --help. */
#define APP_STORE 1u     /* --store, --tenant, --wait: use app_open() */
#define APP_JSON 2u      /* --json */
#define APP_READ_ONLY 4u /* --read-only */
#define APP_YES 8u       /* --yes: use app_confirm() */
#define APP_COLOR 16u    /* --color WHEN: use app_style() */
#define APP_QUIET 32u    /* --quiet: no progress bar */
#define APP_STORES 64u   /* --tenant, --wait for stores that arguments name: app_open_options() */
#define APP_ADDS 128u    /* --durability, --index, --max-size: apply to this opening only */
#define APP_SILENT (APP_QUIET | 256u) /* what it prints is a report: --quiet prints nothing */
#define APP_UTC 512u                  /* --utc: times for people are not in the local zone */
#define APP_PAGED 1024u               /* --no-pager: use app_pager_begin() */
#define APP_READS (APP_STORE | APP_JSON | APP_READ_ONLY | APP_COLOR | APP_UTC)

/* The names of quipu_durability and quipu_search_mode, in the order of their values. */
#define APP_DURABILITIES "full relaxed"
#define APP_INDEX_WORDS "lazy inline off"

typedef enum app_group {
    APP_GROUP_BEGIN,
    APP_GROUP_READ,
    APP_GROUP_WRITE,
    APP_GROUP_MAINTAIN,
    APP_GROUP_COUNT
} app_group;

struct app_call;

typedef struct app_verb {
    const char *name;
    app_group group;
    const char *arguments; /* shown in --help and the manual: "KEY", "[FILE]"; "" for none */
    int arguments_min;
    int arguments_max;
    const char *words;         /* allowed first arguments, separated by spaces; NULL: anything */
    const char *summary;       /* one line, begins in lower case */
    const char *note;          /* more lines for --help, after the options; NULL: none */
    uint32_t common;           /* APP_STORE... */
    const app_option *options; /* ends with a NULL name; NULL: the verb has no options */
    int (*run)(const struct app_call *call);
} app_verb;

#define APP_VERB_DECLARE(name) extern const app_verb app_verb_##name;
APP_VERBS(APP_VERB_DECLARE)
#undef APP_VERB_DECLARE

/* All verbs; ends with NULL. */
extern const app_verb *const app_verbs[];

#define APP_COMMON_COUNT 14

/* The common options. A verb has an option when it sets any of its bits; --help has bit 0. Ends
 * with a NULL name. */
typedef struct app_common {
    app_option option;
    uint32_t bit;
} app_common;

extern const app_common app_commons[APP_COMMON_COUNT + 1];

/* A verb with its parsed command line. */
typedef struct app_call {
    const app_verb *verb;
    const char *values[APP_OPTIONS_MAX]; /* by index in verb->options; NULL: not given */
    const char *common[APP_COMMON_COUNT];
    struct {
        const app_option *option;
        const char *value;
    } repeats[APP_REPEATS_MAX]; /* in the order of the command line */
    size_t repeat_count;
    const char *const *arguments;
    int argument_count;
} app_call;

/* ---- options.c: the command line --------------------------------------------------------------
 */

/* Parses the command line after the verb's name; errors are reported. Options and arguments may be
 * mixed; after "--" everything is an argument. With --help nothing else is checked. */
bool app_parse(const app_verb *verb, int argc, char **argv, app_call *ret_call);

/* An option's value, "" for one without; NULL when it was not given. Common ones too. */
const char *app_value(const app_call *call, const char *name);

/* The next value of an option that may be repeated; *at begins with 0. NULL at the end. */
const char *app_each_value(const app_call *call, const char *name, size_t *at);

/* Whether an option was given. */
bool app_given(const app_call *call, const char *name);

/* An option's number; `*ret_value` is unchanged when the option was not given. False, reported: it
 * is not a number from `least` to `most`; exit with APP_USAGE. */
bool app_number(const app_call *call, const char *name, int64_t least, int64_t most,
                int64_t *ret_value);

/* An option's size in bytes, with K, M, G or T for powers of 1024; otherwise as app_number(). */
bool app_size(const app_call *call, const char *name, int64_t least, int64_t *ret_bytes);

/* An option's time, in any form that quipu_time_parse() reads, a day, or an age such as 30s, 15m,
 * 2h, 7d. False, reported: it has no such form. */
bool app_instant(const app_call *call, const char *name, bool *ret_given, quipu_time *ret_time);

/* An option's duration in milliseconds, such as 30s, 15m, 2h, 7d; otherwise as app_number(). */
bool app_duration(const app_call *call, const char *name, int64_t *ret_ms);

/* An argument as text; absent when it is not there. */
quipu_str app_argument(const app_call *call, int number);

/* Joins all arguments by spaces, so that quoting them is optional; false: they do not fit into
 * `size` bytes with their NUL. */
bool app_join(const app_call *call, char *ret_text, size_t size);

/* An option's value as text; absent when it was not given. */
quipu_str app_text_value(const app_call *call, const char *name);

/* ---- words.c: "did you mean" ------------------------------------------------------------------
 */

#define APP_WORDS_MAX 64

/* The word among `names` (ends with NULL) that is nearest to a mistyped one, or NULL. */
const char *app_nearest(const char *word, const char *const *names);

/* The index of a word among `words`, which are separated by spaces, or -1. */
int app_word_number(const char *words, const char *word);

/* The word of `words` nearest to a mistyped one, NUL-terminated; "" when none is close. */
void app_word_nearest(const char *words, const char *word, char *ret_word, size_t size);

/* ---- help.c ----------------------------------------------------------------------------------
 */

void app_print_verbs(FILE *out);
void app_print_help(FILE *out, const app_verb *verb);

/* The generated parts of a manual page, SYNOPSIS and OPTIONS, in roff. A NULL verb: quipu.1's. */
void app_print_roff(FILE *out, const app_verb *verb);

/* ---- common.c: errors, the store, asking ------------------------------------------------------
 */

/* The exit code for a status. */
int app_exit_code(quipu_status status);

/* Writes a message to stderr as "quipu VERB: ...", made safe for a terminal. */
void app_report(const app_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

#define APP_KEY_ADVICE "make one: (umask 077; openssl rand -hex 32 >FILE)"

/* Another line of the message before it. */
void app_report_more(const app_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

/* As app_report(), and returns APP_USAGE. */
int app_usage(const app_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

/* Reports what failed (`what`: the key, the file) and what to do about it; returns the exit
 * code. */
int app_fail(const app_call *call, const char *what, quipu_status status, const quipu_error *error);

/* The same for a session; a missing one gets its own advice. */
int app_fail_session(const app_call *call, quipu_str key, quipu_status status,
                     const quipu_error *error);

/* Whether a session has a key like this one, which has none: it is mistyped. */
bool app_key_is_near(const app_call *call, quipu_str key);

/* The exit code of an errno. */
#define APP_ERRNO_SIZE 256
const char *app_errno_text(int number, char ret_text[APP_ERRNO_SIZE]);

/* Reports a failed system call on `what`, by errno; returns the exit code. */
int app_fail_errno(const app_call *call, const char *what);

/* The path of the store: --store, $QUIPU_STORE, or a file in the user's data folder, which is
 * created with `make`. False: reported. */
bool app_store_path(const app_call *call, bool make, char ret_path[APP_PATH_MAX]);

/* How a verb needs the store. */
typedef enum app_need {
    APP_NEED_READ,  /* it must exist and is not changed, not even migrated */
    APP_NEED_WRITE, /* it must exist */
    APP_NEED_NEW,   /* it is created when it does not exist */
    APP_NEED_REPAIR /* it must exist; one that Lango has migrated is adopted again */
} app_need;

/* Open options from the command line: --read-only, --tenant, --wait, --durability, --index and
 * --max-size. False, reported: an option is wrong; exit with APP_USAGE. */
bool app_open_options(const app_call *call, app_need need, quipu_open_options *ret_options);

/* Adds the key of an encrypted store, when QUIPU_KEY_FILE or QUIPU_PASSPHRASE_FILE names its file;
 * false: it cannot be used, reported. key.c. */
bool app_key_options(const app_call *call, quipu_open_options *options);

/* Whether the store that was opened has one: a key is refused where none is needed. key.c. */
bool app_has_key(void);

/* Sets the key of the options to the new one, from --new-key-file, --new-passphrase-file or the
 * variables of that name. False, and reported: none is given, or it cannot be used. key.c. */
bool app_new_key_options(const app_call *call, quipu_open_options *options);

/* The options of verbs that read an encrypted export. */
#define APP_EXPORT_KEY_OPTIONS                                                                     \
    {.name = "export-key-file",                                                                    \
     .value = "FILE",                                                                              \
     .help = "the key of an encrypted export [$QUIPU_EXPORT_KEY_FILE, else the store's]"},         \
        {.name = "export-passphrase-file",                                                         \
         .value = "FILE",                                                                          \
         .help = "the passphrase of an encrypted export [$QUIPU_EXPORT_PASSPHRASE_FILE]"}

/* Sets the key of the options to that of an encrypted export, and asks on the terminal when no
 * option names it; `makes`: for a new export. False, and reported: there is no key, or it cannot be
 * used. key.c. */
bool app_export_key_options(const app_call *call, bool makes, quipu_open_options *options);

/* Whether an option names it: then an export that is not encrypted is refused. */
bool app_export_key_is_named(const app_call *call);

#define APP_EXPORT_ENCRYPTED "quipu export enc" /* an encrypted export begins with it */

/* Opens the store of the call with these options. Returns an exit code; a failure is reported with
 * the path and what to do. */
int app_open(const app_call *call, app_need need, quipu_store **ret_store);

/* The same by the quipu_open() of another copy of the library: see library.h. */
typedef quipu_status (*app_open_fn)(const char *uri, const quipu_open_options *options,
                                    quipu_store **ret_store, quipu_error *reterr);
int app_open_by(const app_call *call, app_need need, app_open_fn open, quipu_store **ret_store);

/* Whether a file that begins with these bytes is a database. */
bool app_is_database(const char *head, size_t n);

/* Opens a file to read; *ret_database: it begins as an SQLite database does. NULL, with errno:
 * it cannot be read. */
FILE *app_file_open(const char *path, bool *ret_database);

/* A session without its messages, from quipu_session_get(). */
quipu_status app_session_header(quipu_store *store, quipu_str key, const quipu_call_options *within,
                                quipu_history **ret_history, quipu_error *reterr);

/* Brings the search index up to date, without a deadline, with a progress bar. */
quipu_status app_index(const app_call *call, quipu_store *store, quipu_error *error);

/* Asks for confirmation ("delete 3 sessions"). APP_OK: confirmed. Without a terminal --yes is
 * required, and the code is APP_USAGE; a refusal is APP_FAILURE. */
int app_confirm(const app_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

/* A file to read, "-" for stdin; NULL: reported, and errno is set. Close with app_input_close(). */
FILE *app_input_open(const app_call *call, const char *path);
void app_input_close(FILE *file);

/* The size of a file in bytes; 0 for a pipe or a terminal. */
int64_t app_input_bytes(FILE *file);

/* ---- term.c: colours, width, pager, signals ---------------------------------------------------
 */

#define APP_COLUMNS_DEFAULT 80
#define APP_COLUMNS_MIN 20
#define APP_COLUMNS_MAX 1000

/* The width of the terminal on stdout; without one, $COLUMNS or 80. */
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

/* Sends stdout through $PAGER (less, when it is not set) when it is a terminal. Does nothing
 * without a terminal, with an empty $PAGER, or with --no-pager. */
void app_pager_begin(const app_call *call);

/* Waits for the pager to exit, if there is one: behind the last output of a verb, and before each
 * message on stderr, which comes behind the data that it is about. */
void app_pager_end(void);

/* Whether stdout, or the pager's, is a terminal. */
bool app_out_is_terminal(void);

/* Receives SIGINT and SIGTERM on a thread of its own, and may take locks. */
typedef void (*app_signal_fn)(void *ctx, int number);

/* Delivers Ctrl-C (SIGINT) and SIGTERM to `fn` instead of ending the program. Call it once, before
 * other threads start, which inherit the signal mask. `ctx` must stay valid until exit. */
bool app_signals_listen(app_signal_fn fn, void *ctx);

/* A cancel flag for library calls that Ctrl-C (SIGINT) and SIGTERM set instead of ending the
 * program; each call returns the same one. NULL without memory, and after app_signals_listen(),
 * whose receiver keeps the signals. Call it before other threads start. */
quipu_cancel *app_signals_begin(void);

/* Whether a signal has arrived. */
bool app_signals_came(void);

/* ---- progress.c: progress bars ----------------------------------------------------------------
 */

#define APP_BYTES "bytes" /* the unit that is shown as sizes */

/* A progress bar on stderr: only on a terminal, without --quiet, and after a second. */
typedef struct app_progress {
    const char *what; /* "reading" */
    const char *unit; /* "messages" */
    int64_t total;    /* an estimate; 0: unknown; may change */
    bool able;
    int64_t begun_ms;
    int64_t drawn_ms;
} app_progress;

void app_progress_begin(app_progress *progress, const app_call *call, const char *what,
                        const char *unit, int64_t total);
/* Draws `done` of the total; a quipu_progress_fn whose context is the bar. */
void app_progress_to(void *progress, int64_t done);
/* Clears the bar. */
void app_progress_end(app_progress *progress);

/* Clears any bar and keeps it off the screen while other lines are written; resumes it. The two
 * calls bracket a critical section. */
void app_progress_pause(void);
void app_progress_resume(void);

/* The store's statistics, to estimate a total. All zero when no bar would be shown, or when they
 * cannot be read. */
quipu_stats app_progress_stats(const app_call *call, quipu_store *store);

/* "off", "on" or "stale"; part of the output format. */
const char *app_checksums_name(quipu_checksums checksums);

/* The bytes processed so far; -1: unknown. */
typedef int64_t (*app_look_fn)(void *ctx);

/* A bar for a call without progress reports: a thread polls `look` and draws. */
typedef struct app_watch {
    app_progress progress;
    app_look_fn look;
    void *ctx;
    int64_t from; /* the value of `look` at the beginning */
    pthread_t thread;
    int ends[2]; /* a pipe: closing it ends the thread */
    bool watching;
} app_watch;

/* Call it after app_signals_begin(), so that the thread has the signals blocked. Does nothing when
 * no bar would be shown. A NULL look: the bytes that this process reads and writes. */
void app_watch_begin(app_watch *watch, const app_call *call, const char *what, app_look_fn look,
                     void *ctx, int64_t total);
/* Ends the thread and clears the bar; a zeroed watch is fine. */
void app_watch_end(app_watch *watch);

/* ---- text.c: text that cannot harm a terminal -------------------------------------------------
 */

/* Text made visible: control characters, bidirectional controls, invisible tags and bytes that are
 * not UTF-8 are replaced by a visible form (␛, <U+202E>, <FF>); width is counted in columns (wide:
 * 2, combining: 0). Newlines are made visible too, except by app_put_wrapped(). */

/* Whether a text has nothing but spaces, tabs and line ends. */
bool app_is_blank(quipu_str text);

/* Copies the beginning of a text, at most `size` bytes, with each run of white space as one space.
 * Returns the bytes written; *ret_read: how much of the text they are. */
size_t app_flatten(quipu_str text, char *ret_flat, size_t size, size_t *ret_read);

/* The columns of a text as app_put() writes it. */
int app_width(quipu_str text);

/* Writes a complete text on one line. */
void app_put(FILE *out, quipu_str text);

/* Writes the beginning of a text in at most `columns` columns, cut with "…"; returns the columns.
 * Runs of white space become one space. */
int app_put_cut(FILE *out, quipu_str text, int columns);

/* The next line of a text broken to `columns`: begins at *at, which advances; without the space or
 * line end at which it was broken. False at the end. */
bool app_line_next(quipu_str text, int columns, size_t *at, quipu_str *ret_line);

/* Writes a text as lines of at most `columns`, each after `margin`. Returns the number of lines. */
size_t app_put_wrapped(FILE *out, quipu_str text, const char *margin, int columns);

/* ---- table.c: tables that fit the terminal ----------------------------------------------------
 */

#define APP_TABLE_COLUMNS_MAX 8
#define APP_TABLE_GAP 2
#define APP_NUMBER_SIZE 32 /* a number or a size as text */

typedef struct app_column {
    const char *title;
    bool right; /* numbers */
    bool fits;  /* may shrink to APP_TABLE_LEAST columns when the line is too long */
    bool spare; /* shrinks first; may be left out, the last one first, when that is not enough, and
                   on a terminal when it is empty */
} app_column;

#define APP_TABLE_LEAST 8
#define APP_TABLE_SPARE_LEAST 16 /* an optional column shrinks to this before the others do */

/* Set out, colours, columns (0: no limit), kinds and count; leave the rest zero. */
/* In a pipe nothing is cut, but a longer cell does not pad the column of all the others. */
#define APP_TABLE_PIPE_MAX 48

typedef struct app_table {
    FILE *out;
    bool colours;
    int columns;
    const app_column *kinds;
    size_t count;
    bool headed;
    int widths[APP_TABLE_COLUMNS_MAX]; /* 0: left out */
} app_table;

/* Prints rows of `count` cells; the first call prints the titles and fixes the widths. */
void app_table_print(app_table *table, const quipu_str *cells, size_t rows);

/* A number, and a time to the minute, as cells in the arena. */
quipu_status app_cell_number(quipu_arena *arena, int64_t value, quipu_str *ret_cell);
quipu_status app_cell_time(quipu_arena *arena, quipu_time time, quipu_str *ret_cell);

/* The width of tables: the terminal's, or 0 for a pipe, where nothing is cut. */
int app_table_width(void);

/* A session's key, and what is said of it: on one line, or on a narrower terminal the
 * key, cut, on a line of its own. */
void app_key_line(bool colours, quipu_str key, quipu_str rest);

/* A size in bytes in readable form: "1.2 MiB". */
void app_size_text(int64_t bytes, char ret_text[APP_NUMBER_SIZE]);

/* ---- json.c: JSON output ----------------------------------------------------------------------
 */

/* Writes JSON to a stream: app_json_open(&j, NULL, '{'), members, app_json_close(&j, '}'); at depth
 * 0 a newline follows. Invalid UTF-8 becomes U+FFFD; the output is safe for a terminal. */
typedef struct app_json {
    FILE *out;
    int depth;
    bool comma; /* the next value needs a comma before it */
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
/* A message, as quipu_message_json() writes it, with the names of an export; `arena` is scratch
 * memory and is reset. */
quipu_status app_json_message(app_json *json, quipu_messages messages, size_t index,
                              quipu_arena *arena, quipu_error *error);
/* Why stdout, to which a write has failed, takes no more. */
const char *app_output_why(void);

/* Whole lines of JSON as they are; on a terminal what could harm it is escaped. False: errno. */
bool app_json_lines(FILE *out, quipu_str lines);
/* Text that is JSON already; at depth 0 it becomes one line. */
void app_json_raw(app_json *json, const char *name, quipu_str value);
/* The same, with a name of any bytes. */
void app_json_member(app_json *json, quipu_str name, quipu_str value);
/* The report of rm and sweep: how many sessions were deleted, as text or JSON. */
void app_print_deleted(const app_call *call, int64_t sessions);

#endif
