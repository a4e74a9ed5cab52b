/* Shared by all verbs: exit codes, error messages that say what to do, the location of the store,
 * confirmation.
 *
 * Called by: all verbs. Messages take progress.c's lock, so that a bar and a message never mix. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "mask.h"

#define COMMON_KEYS_MAX 1000 /* sessions whose keys are compared with a mistyped one */
#define COMMON_ANSWER_SIZE 16
#define COMMON_WAIT_S_MAX 86400
#define COMMON_MAGIC_SIZE 16 /* of an SQLite database */

/* ---- messages ---------------------------------------------------------------------------------
 */

static void common_vreport(const app_call *call, bool more, const char *format, va_list list)
    QUIPU_PRINTF(3, 0);

/* Writes a message after "quipu VERB: ", or another line of it. Passwords in URIs are masked,
 * control characters made visible: a newline may be part of a key. */
static void common_vreport(const app_call *call, bool more, const char *format, va_list list)
{
    char text[APP_MESSAGE_MAX];
    char shown[APP_MESSAGE_MAX];

    fflush(stdout); /* a note comes behind the data that it is about */
    app_pager_end();

    vsnprintf(text, sizeof(text), format, list);
    app_mask(text, shown, sizeof(shown));
    app_progress_pause();
    if (!more) {
        fprintf(stderr, "quipu %s: ", call->verb->name);
    }
    app_put(stderr, quipu_cstr(shown));
    fputc('\n', stderr);
    app_progress_resume();
}

/* One call writes one line, complete with its end. */
void app_report(const app_call *call, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    common_vreport(call, false, format, list);
    va_end(list);
}

void app_report_more(const app_call *call, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    common_vreport(call, true, format, list);
    va_end(list);
}

/* For errors of the command line. */
int app_usage(const app_call *call, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    common_vreport(call, false, format, list);
    va_end(list);
    return APP_USAGE;
}

/* Expired counts as not found: for a user there is no difference. */
int app_exit_code(quipu_status status)
{
    switch (status) {
    case QUIPU_OK:
        return APP_OK;
    case QUIPU_NOT_FOUND:
    case QUIPU_EXPIRED:
        return APP_NOT_FOUND;
    case QUIPU_EXISTS:
    case QUIPU_CONFLICT:
        return APP_CONFLICT;
    case QUIPU_BUSY:
        return APP_BUSY;
    default:
        return APP_FAILURE;
    }
}

/* Advice for a failure; NULL where the message itself must suffice. */
static const char *common_advice(quipu_status status, const char *message)
{
    /* Another program's file has nothing to repair: the message says what to do. */
    if (strstr(message, "no SQLite database") != NULL) {
        return NULL;
    }
    /* Nor has an export; "quipu verify" would look at the store, which is sound. */
    if (status == QUIPU_CORRUPT && strstr(message, "encrypted export") != NULL) {
        return "nothing of it was used: take another copy of it, or export again";
    }
    switch (status) {
    case QUIPU_CONFLICT:
        return "another writer changed it meanwhile: read it again and repeat";
    case QUIPU_BUSY:
        return "another process holds the store, or the call takes long: try --wait SECONDS";
    case QUIPU_FULL:
        return "free space on the disk, delete sessions, or raise the size cap";
    case QUIPU_UNKNOWN:
        return "it may or may not have been done: check, and repeat it if not";
    case QUIPU_CORRUPT:
        return "\"quipu verify\" reports what is damaged, \"quipu repair\" fixes what can be fixed";
    case QUIPU_NEWER:
        return "a newer version of quipu wrote it: install that version";
    case QUIPU_UNSUPPORTED:
        return "\"quipu doctor\" reports more about the store";
    case QUIPU_NOMEM:
        return "there is not enough memory: close other programs";
    default:
        return NULL;
    }
}

/* The library's message, then advice on a line of its own. */
int app_fail(const app_call *call, const char *what, quipu_status status, const quipu_error *error)
{
    const char *message =
        error != NULL && error->message[0] != '\0' ? error->message : quipu_status_text(status);
    const char *advice = common_advice(status, message);

    if (status == QUIPU_CANCELLED) {
        app_report(call, "%s: interrupted", what);
    } else {
        app_report(call, "%s: %s", what, message);
        if (advice != NULL) {
            app_report_more(call, "%s", advice);
        }
    }
    return app_exit_code(status);
}

/* The sessions among which a mistyped key is looked for: the last changed ones. NULL: none. */
static quipu_session_page *common_sessions(const app_call *call)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_store *store = NULL;

    options.limit = COMMON_KEYS_MAX;
    if (app_open(call, APP_NEED_READ, &store) != APP_OK ||
        quipu_session_list(store, &options, NULL, &page, NULL) != QUIPU_OK) {
        page = NULL;
    }
    quipu_close(store);
    return page;
}

/* The session's key that is nearest to one without a session; NULL: none is near. It lies in the
 * page, which the caller frees. */
static const char *common_nearest(const app_call *call, quipu_str key,
                                  quipu_session_page **ret_page)
{
    const char *keys[COMMON_KEYS_MAX + 1] = {NULL};
    quipu_session_page *page = common_sessions(call);

    for (size_t i = 0; page != NULL && i < page->sessions.count; i++) {
        keys[i] = quipu_session_info_at(page->sessions, i)->key.p;
    }
    *ret_page = page;
    return app_nearest(key.p, keys);
}

bool app_key_is_near(const app_call *call, quipu_str key)
{
    quipu_session_page *page = NULL;
    const bool near = common_nearest(call, key, &page) != NULL;

    quipu_free(page);
    return near;
}

/* Only the plain "not found" has better advice than the library's message. */
int app_fail_session(const app_call *call, quipu_str key, quipu_status status,
                     const quipu_error *error)
{
    quipu_session_page *page = NULL;
    const char *nearest;

    if (status != QUIPU_NOT_FOUND) {
        return app_fail(call, key.p, status, error);
    }
    nearest = common_nearest(call, key, &page);
    app_report(call, "there is no session \"%s\"; %s%s%s\"quipu ls\" lists them", key.p,
               nearest != NULL ? "did you mean \"" : "", nearest != NULL ? nearest : "",
               nearest != NULL ? "\"? " : "");
    quipu_free(page);
    return APP_NOT_FOUND;
}

/* ENOENT becomes APP_NOT_FOUND. */
const char *app_errno_text(int number, char ret_text[APP_ERRNO_SIZE])
{
    if (strerror_r(number, ret_text, APP_ERRNO_SIZE) != 0) {
        snprintf(ret_text, APP_ERRNO_SIZE, "error %d", number);
    }
    return ret_text;
}

int app_fail_errno(const app_call *call, const char *what)
{
    const int number = errno;
    char text[APP_ERRNO_SIZE];

    app_report(call, "%s: %s", what, app_errno_text(number, text));
    return number == ENOENT ? APP_NOT_FOUND : APP_FAILURE;
}

/* ---- the store --------------------------------------------------------------------------------
 */

/* Creates the missing folders of a path, for the user only. `path` is restored. */
static bool common_make_folders(const app_call *call, char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (!made) {
            app_fail_errno(call, path);
        }
        *slash = '/';
        if (!made) {
            return false;
        }
    }
    return true;
}

/* Only folders of the default location are created; a path that the user gave is used as it is. */
bool app_store_path(const app_call *call, bool make, char ret_path[APP_PATH_MAX])
{
    const char *given = app_value(call, "store");
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    bool ours = false;
    int n;

    given = given != NULL ? given : getenv("QUIPU_STORE");
    if (given != NULL && given[0] != '\0') {
        n = snprintf(ret_path, APP_PATH_MAX, "%s", given);
    } else if (data != NULL && data[0] == '/') {
        n = snprintf(ret_path, APP_PATH_MAX, "%s/quipu/store.db", data);
        ours = true;
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(ret_path, APP_PATH_MAX, "%s/.local/share/quipu/store.db", home);
        ours = true;
    } else {
        app_report(call, "no location for the store: give --store or set QUIPU_STORE");
        return false;
    }
    if (n < 0 || n >= APP_PATH_MAX) {
        app_report(call, "the store's path is too long: more than %d bytes", APP_PATH_MAX - 1);
        return false;
    }
    return !make || !ours || common_make_folders(call, ret_path);
}

/* The index of an option's value among its choices; 0, the default, when not given. */
static int common_choice(const app_call *call, const char *name, const char *words)
{
    const char *given = app_value(call, name);

    return given != NULL ? app_word_number(words, given) : 0;
}

/* Writes a log entry as one line of JSON to stderr. The library makes all names and texts of an
 * entry, so that none needs an escape. */
static void common_log(void *ctx, const quipu_log_entry *entry)
{
    static const char *const levels[] = {"", "error", "warn", "info", "debug"};

    (void)ctx;
    flockfile(stderr); /* threads of a store write whole lines */
    fprintf(stderr, "{\"level\":\"%s\",\"component\":\"%s\",\"event\":\"%s\"", levels[entry->level],
            entry->component, entry->event);
    for (size_t i = 0; i < entry->fields.count; i++) {
        const quipu_log_field *field = quipu_log_field_at(entry->fields, i);

        if (field->text != NULL) {
            fprintf(stderr, ",\"%s\":\"%s\"", field->name, field->text);
        } else {
            fprintf(stderr, ",\"%s\":%" PRId64, field->name, field->number);
        }
    }
    fputs("}\n", stderr);
    funlockfile(stderr);
}

/* $QUIPU_LOG names a level; without it nothing is logged. */
static bool common_log_options(const app_call *call, quipu_open_options *options)
{
    const char *given = getenv("QUIPU_LOG");
    int level;

    if (given == NULL || given[0] == '\0') {
        return true;
    }
    level = app_word_number("error warn info debug", given);
    if (level < 0) {
        app_report(call, "QUIPU_LOG is \"%s\": say error, warn, info or debug", given);
        return false;
    }
    options->log = common_log;
    options->log_level = (quipu_log_level)(QUIPU_LOG_ERROR + level);
    return true;
}

/* --wait 0 becomes 1 ms, because 0 means the default in the library. */
bool app_open_options(const app_call *call, app_need need, quipu_open_options *ret_options)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    const char *const feed = getenv("QUIPU_FEED");
    int64_t wait_s = -1;

    if (!app_number(call, "wait", 0, COMMON_WAIT_S_MAX, &wait_s) ||
        !app_size(call, "max-size", 1, &options.max_bytes) || !common_log_options(call, &options) ||
        !app_key_options(call, &options)) {
        return false;
    }
    if (need == APP_NEED_READ || app_given(call, "read-only")) {
        options.flags |= QUIPU_OPEN_READ_ONLY;
    }
    if (need != APP_NEED_NEW) {
        options.flags |= QUIPU_OPEN_MUST_EXIST;
    }
    if (need == APP_NEED_REPAIR) {
        options.flags |= QUIPU_OPEN_REPAIR;
    }
    if (app_given(call, "feed") || (feed != NULL && strcmp(feed, "on") == 0)) {
        options.flags |= QUIPU_OPEN_FEED; /* for quipu feed, which other programs may follow */
    }
    options.tenant = app_text_value(call, "tenant");
    if (wait_s >= 0) {
        options.deadline_ms = wait_s > 0 ? (int32_t)(wait_s * 1000) : 1;
    }
    options.durability = (quipu_durability)common_choice(call, "durability", APP_DURABILITIES);
    options.search = (quipu_search_mode)common_choice(call, "index", APP_INDEX_WORDS);
    *ret_options = options;
    return true;
}

/* A missing store has its own advice; everything else goes through app_fail(). */
int app_open_by(const app_call *call, app_need need, app_open_fn open, quipu_store **ret_store)
{
    quipu_open_options options;
    char path[APP_PATH_MAX];
    quipu_error error = {0};
    quipu_status status;

    if (!app_open_options(call, need, &options)) {
        return APP_USAGE;
    }
    if (!app_store_path(call, need == APP_NEED_NEW, path)) {
        return APP_FAILURE;
    }
    status = open(path, &options, ret_store, &error);
    if (status == QUIPU_NOT_FOUND) {
        app_report(call, "%s: there is no store", path);
        app_report_more(call, "\"quipu init\" creates one; --store names another");
        return APP_NOT_FOUND;
    }
    return status == QUIPU_OK ? APP_OK : app_fail(call, path, status, &error);
}

int app_open(const app_call *call, app_need need, quipu_store **ret_store)
{
    return app_open_by(call, need, quipu_open, ret_store);
}

bool app_is_database(const char *head, size_t n)
{
    static const char magic[COMMON_MAGIC_SIZE] = "SQLite format 3";
    static const char encrypted[COMMON_MAGIC_SIZE] = "quipu encrypted";

    return n >= COMMON_MAGIC_SIZE && (memcmp(head, magic, COMMON_MAGIC_SIZE) == 0 ||
                                      memcmp(head, encrypted, COMMON_MAGIC_SIZE) == 0);
}

/* A pipe cannot go back but for one byte, and that distinguishes JSON, which is what pipes bring,
 * from a database. */
FILE *app_file_open(const char *path, bool *ret_database)
{
    char head[COMMON_MAGIC_SIZE];
    FILE *file = fopen(path, "rb");
    int first = file != NULL ? getc(file) : EOF;

    *ret_database = false;
    if (file == NULL || first == EOF || ungetc(first, file) == EOF ||
        (first != 'S' && first != 'q')) {
        return file;
    }
    *ret_database = app_is_database(head, fread(head, 1, sizeof(head), file));
    if (fseek(file, 0, SEEK_SET) != 0) {
        fclose(file);
        return NULL;
    }
    return file;
}

/* Costs the same for any length of the history. */
quipu_status app_session_header(quipu_store *store, quipu_str key, const quipu_call_options *within,
                                quipu_history **ret_history, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;

    range.flags = QUIPU_RANGE_HEADER;
    return quipu_session_get(store, key, &range, within, ret_history, reterr);
}

/* Without a deadline: the first indexing of a large store takes minutes. */
quipu_status app_index(const app_call *call, quipu_store *store, quipu_error *error)
{
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    app_progress progress;
    quipu_status status;

    app_progress_begin(&progress, call, "indexing", "messages",
                       app_progress_stats(call, store).unindexed);
    within.deadline_ms = -1;
    within.progress = app_progress_to;
    within.progress_ctx = &progress;
    status = quipu_search_index(store, &within, NULL, error);
    app_progress_end(&progress);
    return status;
}

/* ---- confirmation, input ----------------------------------------------------------------------
 */

/* The question goes to stderr: stdout may be a file. */
int app_confirm(const app_call *call, const char *format, ...)
{
    char question[APP_MESSAGE_MAX];
    char answer[COMMON_ANSWER_SIZE] = "";
    va_list list;

    if (app_given(call, "yes")) {
        return APP_OK;
    }
    va_start(list, format);
    vsnprintf(question, sizeof(question), format, list);
    va_end(list);
    if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) {
        return app_usage(call, "%s? There is no terminal to ask on: give --yes to go on", question);
    }
    fprintf(stderr, "quipu %s: ", call->verb->name);
    app_put(stderr, quipu_cstr(question));
    fputs("? [y/N] ", stderr);
    fflush(stderr);
    if (fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y')) {
        return APP_OK;
    }
    app_report(call, "nothing was done");
    return APP_FAILURE;
}

/* errno survives the report, for the caller's exit code. */
FILE *app_input_open(const app_call *call, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");

    if (file == NULL) {
        const int number = errno;
        app_fail_errno(call, path);
        errno = number;
    }
    return file;
}

/* stdin stays open: other code may still read it. */
void app_input_close(FILE *file)
{
    if (file != NULL && file != stdin) {
        fclose(file);
    }
}

/* For progress bars. */
int64_t app_input_bytes(FILE *file)
{
    struct stat info;

    return fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) ? (int64_t)info.st_size : 0;
}
