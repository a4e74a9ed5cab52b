/* quipu import: sessions out of other programs' files, or out of an export of our own. The report
 * is data and goes to stdout; progress and orphans are for people. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <quipu/import.h>

#include "app.h"

#define IMPORT_HEAD_SIZE 16

const app_option app_import_options[] = {
    {"store", "URI", "the store; default: $QUIPU_STORE, or a file in your data folder"},
    {"dry-run", NULL, "read and check everything, write nothing"},
    {"kind", "KIND", "what FILE must be: adk-database, adk-v0, adk-sqlite, adk-go, lango, export"},
    {"json", NULL, "the report as a JSON object"},
    {"quiet", NULL, "no progress, no orphans"},
    {NULL, NULL, NULL},
};

typedef struct import_view {
    bool quiet;
    bool terminal;
    bool shown; /* a progress line stands there */
    time_t begun;
} import_view;

/* ---- while it runs ----------------------------------------------------------------------------
 */

static void import_hear_progress(void *ctx, const quipu_source_progress *progress)
{
    import_view *view = ctx;
    const double seconds = difftime(time(NULL), view->begun);
    /* Reading is half of the work. */
    const int64_t half = progress->writing ? progress->messages_total : 0;
    const int64_t done = half + progress->messages;
    const int64_t all = 2 * progress->messages_total;

    if (view->quiet || !view->terminal || seconds < 1 || done == 0) {
        return;
    }
    view->shown = true;
    fprintf(stderr,
            "\r%s %" PRId64 "/%" PRId64 " sessions, %3" PRId64 "%%, %.0f messages/s, %.0f s left ",
            progress->writing ? "writing" : "reading", progress->sessions, progress->sessions_total,
            done * 100 / all, (double)done / seconds,
            seconds * (double)(all - done) / (double)done);
}

static void import_hear_orphan(void *ctx, const quipu_orphan *orphan)
{
    const import_view *view = ctx;

    if (!view->quiet) {
        fprintf(stderr, "orphan: row %" PRId64 " belongs to a session that is gone", orphan->row);
        if (orphan->session_id.n > 0) {
            fprintf(stderr, ":\n");
            app_print_wrapped(stderr, orphan->app_name, 8, 70);
            app_print_wrapped(stderr, orphan->user_id, 8, 70);
            app_print_wrapped(stderr, orphan->session_id, 8, 70);
        } else {
            fputc('\n', stderr);
        }
    }
}

/* ---- what it did ------------------------------------------------------------------------------
 */

static void import_print(const app_call *call, const char *kind, const quipu_source_report *report)
{
    const bool dry = app_value(call, "dry-run") != NULL;

    if (app_value(call, "json") != NULL) {
        printf("{\"file\":");
        app_print_json(stdout, call->arguments[0]);
        printf(",\"kind\":\"%s\",\"dryRun\":%s,\"sessions\":%" PRId64 ",\"messages\":%" PRId64
               ",\"states\":%" PRId64 ",\"memories\":%" PRId64 ",\"skipped\":%" PRId64
               ",\"orphans\":%" PRId64 "}\n",
               kind, dry ? "true" : "false", report->sessions, report->messages, report->states,
               report->memories, report->skipped, report->orphans);
        return;
    }
    printf("%s, %s: %" PRId64 " sessions, %" PRId64 " messages, %" PRId64 " keys of state, %" PRId64
           " memories",
           kind, dry ? "would bring" : "brought", report->sessions, report->messages,
           report->states, report->memories);
    if (report->skipped > 0) {
        printf("; %" PRId64 " sessions were there already", report->skipped);
    }
    if (report->orphans > 0) {
        printf("; %" PRId64 " without a session left out", report->orphans);
    }
    printf("\n");
}

/* ---- foreign files ----------------------------------------------------------------------------
 */

static bool import_kind(const char *name, quipu_source_kind *ret_kind)
{
    static const char *const names[] = {"auto",   "adk-database", "adk-v0", "adk-sqlite",
                                        "adk-go", "lango",        NULL};
    const char *nearest = app_nearest(name, names);

    for (int kind = QUIPU_SOURCE_AUTO; kind <= QUIPU_SOURCE_LANGO; kind++) {
        if (strcmp(quipu_source_name((quipu_source_kind)kind), name) == 0) {
            *ret_kind = (quipu_source_kind)kind;
            return true;
        }
    }
    fprintf(stderr, "quipu import: there is no kind \"%s\"%s%s%s\n", name,
            nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "?" : "");
    return false;
}

static int import_foreign(const app_call *call, quipu_store *store, quipu_source_kind kind)
{
    import_view view = {.quiet = app_value(call, "quiet") != NULL,
                        .terminal = isatty(STDERR_FILENO) == 1,
                        .begun = time(NULL)};
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_source_report report = {.kind = QUIPU_SOURCE_AUTO};
    quipu_error error = {0};
    quipu_status status;

    options.flags = app_value(call, "dry-run") != NULL ? QUIPU_SOURCE_DRY_RUN : 0;
    options.kind = kind;
    options.progress = import_hear_progress;
    options.orphan = import_hear_orphan;
    options.ctx = &view;
    status = quipu_import(store, call->arguments[0], &options, NULL, &report, &error);
    if (view.shown) {
        fprintf(stderr, "\r\033[K");
    }
    if (status != QUIPU_OK) {
        return app_fail("import", status, &error);
    }
    import_print(call, quipu_source_name(report.kind), &report);
    return APP_OK;
}

/* ---- exports ----------------------------------------------------------------------------------
 */

static quipu_status import_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    FILE *file = ctx;

    *ret_n = fread(ret_bytes, 1, size, file);
    return ferror(file) ? QUIPU_IO : QUIPU_OK;
}

static int import_export(const app_call *call, quipu_store *store, FILE *file)
{
    quipu_transfer done = {0};
    quipu_error error = {0};
    quipu_status status = quipu_store_import(store, NULL, import_read, file, NULL, &done, &error);

    if (status != QUIPU_OK) {
        return app_fail(call->arguments[0], status, &error);
    }
    const quipu_source_report report = {.sessions = done.sessions,
                                        .messages = done.messages,
                                        .states = done.states,
                                        .memories = done.memories,
                                        .skipped = done.skipped};
    import_print(call, "export", &report);
    return APP_OK;
}

/* ---- the verb ---------------------------------------------------------------------------------
 */

/* Open FILE and see whether it is a database; a stream is read from its start. */
static FILE *import_open(const char *path, bool *ret_database)
{
    static const char magic[IMPORT_HEAD_SIZE] = "SQLite format 3";
    char head[IMPORT_HEAD_SIZE];
    FILE *file;

    *ret_database = false;
    file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    size_t n = fread(head, 1, sizeof(head), file);
    *ret_database = n == sizeof(head) && memcmp(head, magic, sizeof(head)) == 0;
    if (fseek(file, 0, SEEK_SET) != 0) {
        fclose(file);
        return NULL;
    }
    return file;
}

static int import_into(const app_call *call, const char *path, FILE *file, bool database,
                       quipu_source_kind kind)
{
    const bool dry = app_value(call, "dry-run") != NULL;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status;
    int code;

    /* A dry run writes nothing: it compares with the store that is there, or with an empty one. An
     * export is tried on an empty store in memory. */
    options.flags = dry ? QUIPU_OPEN_READ_ONLY | QUIPU_OPEN_MUST_EXIST : 0;
    status = dry && !database ? QUIPU_NOT_FOUND : quipu_open(path, &options, &store, &error);
    if (dry && status == QUIPU_NOT_FOUND) {
        status = quipu_open(":memory:", NULL, &store, &error);
    }
    if (status != QUIPU_OK) {
        return app_fail(path, status, &error);
    }
    code = database ? import_foreign(call, store, kind) : import_export(call, store, file);
    quipu_close(store);
    return code;
}

int app_import(const app_call *call)
{
    const char *wanted = app_value(call, "kind");
    const bool export_wanted = wanted != NULL && strcmp(wanted, "export") == 0;
    const bool piped = strcmp(call->arguments[0], "-") == 0;
    quipu_source_kind kind = QUIPU_SOURCE_AUTO;
    char path[APP_PATH_MAX];
    bool database = false;
    FILE *file;
    int code;

    if (wanted != NULL && !export_wanted && !import_kind(wanted, &kind)) {
        return APP_USAGE;
    }
    if (!app_store_path(call, path)) {
        return APP_FAILURE;
    }
    file = piped ? stdin : import_open(call->arguments[0], &database);
    if (file == NULL) {
        code = errno == ENOENT ? APP_NOT_FOUND : APP_FAILURE;
        perror(call->arguments[0]); /* which looks at errno itself */
        return code;
    }
    if (wanted != NULL && database == export_wanted) {
        fprintf(stderr, "quipu: %s is %s, not %s\n", call->arguments[0],
                database ? "a database" : "no database", wanted);
        code = APP_FAILURE;
    } else {
        code = import_into(call, path, file, database, kind);
    }
    if (!piped) {
        fclose(file);
    }
    return code;
}
