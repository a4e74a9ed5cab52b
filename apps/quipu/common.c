/* What every verb needs: exit codes, errors that say what to do, where the store is, asking. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "mask.h"

#define COMMON_ANSWER_SIZE 16
#define COMMON_WAIT_S_MAX 86400

/* ---- telling ----------------------------------------------------------------------------------
 */

static void common_vtell(const app_call *call, const char *format, va_list list) QUIPU_PRINTF(2, 0);

/* The lines of a message, each harmless, behind "quipu VERB: ". */
static void common_vtell(const app_call *call, const char *format, va_list list)
{
    char text[APP_MESSAGE_MAX];
    char shown[APP_MESSAGE_MAX];
    const char *line = shown;

    vsnprintf(text, sizeof(text), format, list);
    app_mask(text, shown, sizeof(shown));
    app_progress_hush();
    fprintf(stderr, "quipu %s: ", call->verb->name);
    for (const char *end = strchr(line, '\n'); end != NULL; end = strchr(line, '\n')) {
        app_put(stderr, (quipu_str){line, (size_t)(end - line)});
        fputc('\n', stderr);
        line = end + 1;
    }
    app_put(stderr, quipu_cstr(line));
    fputc('\n', stderr);
    app_progress_go_on();
}

void app_tell(const app_call *call, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    common_vtell(call, format, list);
    va_end(list);
}

int app_usage(const app_call *call, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    common_vtell(call, format, list);
    va_end(list);
    return APP_USAGE;
}

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

/* What a person can do about a failure; NULL where the message itself must be enough. */
static const char *common_advice(quipu_status status)
{
    switch (status) {
    case QUIPU_CONFLICT:
        return "somebody else changed it meanwhile: look at it again and repeat";
    case QUIPU_BUSY:
        return "another process holds the store, or it takes long: see, and give --wait SECONDS";
    case QUIPU_FULL:
        return "make room on the disk, remove sessions, or raise the size cap";
    case QUIPU_UNKNOWN:
        return "it may have been done: look, and repeat it if not";
    case QUIPU_CORRUPT:
        return "\"quipu verify\" tells what is damaged, \"quipu repair\" mends what can be mended";
    case QUIPU_NEWER:
        return "a newer quipu wrote it: install that one";
    case QUIPU_UNSUPPORTED:
        return "\"quipu doctor\" tells more about the store";
    case QUIPU_NOMEM:
        return "there is not enough memory: close other programs";
    default:
        return NULL;
    }
}

int app_fail(const app_call *call, const char *what, quipu_status status, const quipu_error *error)
{
    const char *advice = common_advice(status);
    const char *message =
        error != NULL && error->message[0] != '\0' ? error->message : quipu_status_text(status);

    if (status == QUIPU_CANCELLED) {
        app_tell(call, "%s: interrupted", what);
    } else if (advice != NULL) {
        app_tell(call, "%s: %s\n%s", what, message, advice);
    } else {
        app_tell(call, "%s: %s", what, message);
    }
    return app_exit_code(status);
}

int app_fail_session(const app_call *call, quipu_str key, quipu_status status,
                     const quipu_error *error)
{
    if (status == QUIPU_NOT_FOUND) {
        app_tell(call, "there is no session \"%s\"; \"quipu ls\" lists them", key.p);
        return APP_NOT_FOUND;
    }
    return app_fail(call, key.p, status, error);
}

int app_fail_errno(const app_call *call, const char *what)
{
    const int number = errno;
    char text[APP_MESSAGE_MAX / 4];

    if (strerror_r(number, text, sizeof(text)) != 0) {
        snprintf(text, sizeof(text), "error %d", number);
    }
    app_tell(call, "%s: %s", what, text);
    return number == ENOENT ? APP_NOT_FOUND : APP_FAILURE;
}

/* ---- the store --------------------------------------------------------------------------------
 */

/* Make the folders of a path that are missing. */
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
        app_tell(call, "no place for the store: give --store or set QUIPU_STORE");
        return false;
    }
    if (n < 0 || n >= APP_PATH_MAX) {
        app_tell(call, "the store's path is too long: more than %d bytes", APP_PATH_MAX - 1);
        return false;
    }
    return !make || !ours || common_make_folders(call, ret_path);
}

/* The number of an option's word among its choices; 0, which is the default, when not given. */
static int common_choice(const app_call *call, const char *name, const char *words)
{
    const char *given = app_value(call, name);

    return given != NULL ? app_word_number(words, given) : 0;
}

/* One line of JSON on stderr for each entry of the log. Names and texts are the library's own
 * words: nothing in them needs an escape. */
static void common_log(void *ctx, const quipu_log_entry *entry)
{
    static const char *const levels[] = {"", "error", "warn", "info", "debug"};

    (void)ctx;
    flockfile(stderr); /* threads of a store write whole lines */
    fprintf(stderr, "{\"level\":\"%s\",\"component\":\"%s\",\"event\":\"%s\"", levels[entry->level],
            entry->component, entry->event);
    for (size_t i = 0; i < entry->fields.count; i++) {
        const quipu_log_field *field = quipu_log_field_at(entry, i);

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
        app_tell(call, "QUIPU_LOG is \"%s\": say error, warn, info or debug", given);
        return false;
    }
    options->log = common_log;
    options->log_level = (quipu_log_level)(QUIPU_LOG_ERROR + level);
    return true;
}

bool app_open_options(const app_call *call, app_need need, quipu_open_options *ret_options)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    int64_t wait_s = -1;

    if (!app_number(call, "wait", 0, COMMON_WAIT_S_MAX, &wait_s) ||
        !app_size(call, "max-size", 1, &options.max_bytes) || !common_log_options(call, &options)) {
        return false;
    }
    if (need == APP_NEED_READ || app_given(call, "read-only")) {
        options.flags |= QUIPU_OPEN_READ_ONLY;
    }
    if (need != APP_NEED_NEW) {
        options.flags |= QUIPU_OPEN_MUST_EXIST;
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

int app_open(const app_call *call, app_need need, quipu_store **ret_store)
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
    status = quipu_open(path, &options, ret_store, &error);
    if (status == QUIPU_NOT_FOUND) {
        app_tell(call, "%s: there is no store\n\"quipu init\" makes one; --store names another",
                 path);
        return APP_NOT_FOUND;
    }
    return status == QUIPU_OK ? APP_OK : app_fail(call, path, status, &error);
}

quipu_status app_session_header(quipu_store *store, quipu_str key, const quipu_call_options *within,
                                quipu_history **ret_history, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;

    range.flags = QUIPU_RANGE_HEADER;
    return quipu_session_get(store, key, &range, within, ret_history, reterr);
}

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

/* ---- asking, reading --------------------------------------------------------------------------
 */

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
        return app_usage(call, "%s? Nobody can be asked: give --yes to go on", question);
    }
    fprintf(stderr, "quipu %s: ", call->verb->name);
    app_put(stderr, quipu_cstr(question));
    fputs("? [y/N] ", stderr);
    fflush(stderr);
    if (fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y')) {
        return APP_OK;
    }
    app_tell(call, "nothing was done");
    return APP_FAILURE;
}

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

void app_input_close(FILE *file)
{
    if (file != NULL && file != stdin) {
        fclose(file);
    }
}

int64_t app_input_bytes(FILE *file)
{
    struct stat info;

    return fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) ? (int64_t)info.st_size : 0;
}
