/* quipu import: sessions from other programs' files or from a quipu export. The report is data and
 * goes to stdout; progress and orphans go to stderr. The kind of a file is decided by its first
 * bytes: a database or JSON Lines. */
#include <inttypes.h>
#include <string.h>

#include <quipu/import.h>

#include "app.h"

static const app_option import_options[] = {
    {.name = "dry-run", .help = "read and check everything, write nothing"},
    {.name = "kind",
     .value = "KIND",
     .choices = "auto adk-database adk-v0 adk-sqlite adk-go lango export",
     .help = "the kind of FILE; auto detects it"},
    {.name = NULL},
};

typedef struct import_view {
    bool quiet;
    app_progress progress;
} import_view;

/* ---- callbacks --------------------------------------------------------------------------------
 */

/* Two passes over the messages share one bar: checking is its first half. */
static void import_on_progress(void *ctx, const quipu_source_progress *progress)
{
    import_view *view = ctx;
    /* The first pass counts as half of the work. */
    const int64_t half = progress->writing ? progress->messages_total : 0;

    view->progress.what = progress->writing ? "writing" : "reading";
    view->progress.total = 2 * progress->messages_total;
    app_progress_to(&view->progress, half + progress->messages);
}

/* A message whose session does not exist; reported, not imported. */
static void import_on_orphan(void *ctx, const quipu_orphan *orphan)
{
    import_view *view = ctx;

    if (view->quiet) {
        return;
    }
    app_progress_end(&view->progress);
    fprintf(stderr, "orphan: the session of row %" PRId64 " does not exist", orphan->row);
    if (orphan->session_id.n > 0) {
        fputs(": ", stderr);
        app_put(stderr, orphan->app_name);
        fputs(" / ", stderr);
        app_put(stderr, orphan->user_id);
        fputs(" / ", stderr);
        app_put(stderr, orphan->session_id);
    }
    fputc('\n', stderr);
}

/* ---- report -----------------------------------------------------------------------------------
 */

/* The same report for files of other programs and for exports. */
static void import_print(const app_call *call, const char *kind, const quipu_source_report *report)
{
    const bool dry = app_given(call, "dry-run");
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_text(&json, "file", app_argument(call, 0));
        app_json_cstr(&json, "kind", kind);
        app_json_bool(&json, "dryRun", dry);
        app_json_int(&json, "sessions", report->sessions);
        app_json_int(&json, "messages", report->messages);
        app_json_int(&json, "states", report->states);
        app_json_int(&json, "memories", report->memories);
        app_json_int(&json, "skipped", report->skipped);
        app_json_int(&json, "orphans", report->orphans);
        app_json_close(&json, '}');
        return;
    }
    printf("%s, %s: %" PRId64 " sessions, %" PRId64 " messages, %" PRId64 " keys of state, %" PRId64
           " memories",
           kind, dry ? "would import" : "imported", report->sessions, report->messages,
           report->states, report->memories);
    if (report->skipped > 0) {
        printf("; %" PRId64 " sessions were imported before", report->skipped);
    }
    if (report->orphans > 0) {
        printf("; %" PRId64 " orphans skipped", report->orphans);
    }
    printf("\n");
}

/* ---- foreign files ----------------------------------------------------------------------------
 */

/* The kind that --kind names; the parser has checked it. */
static quipu_source_kind import_kind(const char *name)
{
    int kind = QUIPU_SOURCE_LANGO;

    while (kind > QUIPU_SOURCE_AUTO &&
           strcmp(quipu_source_name((quipu_source_kind)kind), name) != 0) {
        kind--;
    }
    return (quipu_source_kind)kind;
}

/* A database of another program. */
static int import_foreign(const app_call *call, quipu_store *store, quipu_source_kind kind)
{
    import_view view = {.quiet = app_given(call, "quiet")};
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_source_report report = QUIPU_SOURCE_REPORT_INIT;
    quipu_error error = {0};
    quipu_status status;

    app_progress_begin(&view.progress, call, "reading", "messages", 0);
    options.flags = app_given(call, "dry-run") ? QUIPU_SOURCE_DRY_RUN : 0;
    options.kind = kind;
    options.progress = import_on_progress;
    options.orphan = import_on_orphan;
    options.ctx = &view;
    status = quipu_source_import(store, call->arguments[0], &options, NULL, &report, &error);
    app_progress_end(&view.progress);
    if (status != QUIPU_OK) {
        return app_fail(call, call->arguments[0], status, &error);
    }
    import_print(call, quipu_source_name(report.kind), &report);
    return APP_OK;
}

/* ---- exports ----------------------------------------------------------------------------------
 */

typedef struct import_stream {
    FILE *file;
    int64_t done;
    app_progress progress;
} import_stream;

/* The library's read callback. */
static quipu_status import_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    import_stream *stream = ctx;

    *ret_n = fread(ret_bytes, 1, size, stream->file);
    stream->done += (int64_t)*ret_n;
    app_progress_to(&stream->progress, stream->done);
    return ferror(stream->file) ? QUIPU_IO : QUIPU_OK;
}

/* A quipu export, as a stream. */
static int import_export(const app_call *call, quipu_store *store, FILE *file)
{
    import_stream stream = {.file = file};
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    quipu_error error = {0};
    quipu_status status;

    app_progress_begin(&stream.progress, call, "reading", APP_BYTES, app_input_bytes(file));
    status = quipu_store_import(store, NULL, import_read, &stream, NULL, &done, &error);
    app_progress_end(&stream.progress);
    if (status != QUIPU_OK) {
        return app_fail(call, call->arguments[0], status, &error);
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

/* The target is created, except for a dry run. */
static int import_into(const app_call *call, const char *path, FILE *file, bool database,
                       quipu_source_kind kind)
{
    const bool dry = app_given(call, "dry-run");
    quipu_open_options options;
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status;
    int code;

    if (!app_open_options(call, dry ? APP_NEED_READ : APP_NEED_NEW, &options)) {
        return APP_USAGE;
    }
    /* A dry run writes nothing: it compares with the existing store, or with an empty one. An
     * export is imported into an empty store in memory. */
    status = dry && !database ? QUIPU_NOT_FOUND : quipu_open(path, &options, &store, &error);
    if (dry && status == QUIPU_NOT_FOUND) {
        status = quipu_open(":memory:", NULL, &store, &error);
    }
    if (status != QUIPU_OK) {
        return app_fail(call, path, status, &error);
    }
    code = database ? import_foreign(call, store, kind) : import_export(call, store, file);
    quipu_close(store);
    return code;
}

/* --kind must agree with what the file is. */
static int import_run(const app_call *call)
{
    const char *wanted = app_value(call, "kind");
    const bool export_wanted = wanted != NULL && strcmp(wanted, "export") == 0;
    const bool piped = strcmp(call->arguments[0], "-") == 0;
    quipu_source_kind kind = QUIPU_SOURCE_AUTO;
    char path[APP_PATH_MAX];
    bool database = false;
    FILE *file;
    int code;

    if (wanted != NULL && !export_wanted) {
        kind = import_kind(wanted);
    }
    if (!app_store_path(call, !app_given(call, "dry-run"), path)) {
        return APP_FAILURE;
    }
    file = piped ? stdin : app_file_open(call->arguments[0], &database);
    if (file == NULL) {
        return app_fail_errno(call, call->arguments[0]);
    }
    if (wanted != NULL && strcmp(wanted, "auto") != 0 && database == export_wanted) {
        app_report(call, "%s is %s, not %s", call->arguments[0],
                   database ? "a database" : "not a database", wanted);
        code = APP_FAILURE;
    } else {
        code = import_into(call, path, file, database, kind);
    }
    if (!piped) {
        fclose(file);
    }
    return code;
}

const app_verb app_verb_import = {
    .name = "import",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "FILE",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "import sessions from Google ADK, Lango or an export",
    .common = APP_STORE | APP_ADDS | APP_JSON | APP_QUIET,
    .options = import_options,
    .run = import_run,
};
