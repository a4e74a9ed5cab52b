/* quipu import: sessions from other programs' files or from a quipu export. The report is data and
 * goes to stdout; progress and orphans go to stderr. The kind of a file is decided by its first
 * bytes: a database, an export, or JSON of another program (foreign.h). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <quipu/import.h>

#include "foreign.h"

#define IMPORT_HEAD 4096   /* bytes that decide what a file is */
#define IMPORT_MARK_MAX 64 /* the first line of an export is shorter */
#define IMPORT_FILES_MAX 10000
#define IMPORT_DATABASES "adk-database adk-v0 adk-sqlite adk-go lango llm openai-agents langgraph"

static const app_option import_options[] = {
    {.name = "dry-run", .help = "read and check everything, write nothing"},
    {.name = "kind",
     .value = "KIND",
     .choices = "auto " IMPORT_DATABASES " " APP_FOREIGN_KINDS " export",
     .help = "the kind of FILE; auto detects it"},
    {.name = "on-conflict",
     .value = "WHAT",
     .choices = "fail skip rename",
     .help = "when another session has the key; default: fail"},
    {.name = "prefix", .value = "TEXT", .help = "keys begin with this, not with the kind"},
    {.name = "map", .value = "LIST", .help = "chat: other names of members: role=who,content=text"},
    APP_EXPORT_KEY_OPTIONS,
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
    /* A chat program's: without its session, of another branch, or a thread without messages. */
    if (orphan->app_name.n == 0 && orphan->session_id.n > 0) {
        fprintf(stderr, "orphan: row %" PRId64 " of \"", orphan->row);
        app_put(stderr, orphan->session_id);
        fputs("\" is not part of a conversation\n", stderr);
        return;
    }
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

static const char *import_s(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* The same report for files of other programs and for exports. */
static void import_print(const app_call *call, const char *path, const char *kind,
                         const quipu_source_report *report)
{
    const bool dry = app_given(call, "dry-run");
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "file", path);
        app_json_cstr(&json, "kind", kind);
        app_json_bool(&json, "dry_run", dry);
        app_json_int(&json, "sessions", report->sessions);
        app_json_int(&json, "messages", report->messages);
        app_json_int(&json, "states", report->states);
        app_json_int(&json, "memories", report->memories);
        app_json_int(&json, "skipped", report->skipped);
        app_json_int(&json, "orphans", report->orphans);
        app_json_close(&json, '}');
        return;
    }
    printf("%s, %s: %" PRId64 " session%s, %" PRId64 " message%s", kind,
           dry ? "would import" : "imported", report->sessions, import_s(report->sessions),
           report->messages, import_s(report->messages));
    if (report->states > 0) {
        printf(", %" PRId64 " key%s of state", report->states, import_s(report->states));
    }
    if (report->memories > 0) {
        printf(", %" PRId64 " memor%s", report->memories, report->memories == 1 ? "y" : "ies");
    }
    if (report->skipped > 0) {
        printf("; %" PRId64 " session%s there before", report->skipped,
               report->skipped == 1 ? " was" : "s were");
    }
    if (report->orphans > 0) {
        printf("; %" PRId64 " orphan%s skipped", report->orphans, import_s(report->orphans));
    }
    printf("\n");
}

/* ---- foreign files ----------------------------------------------------------------------------
 */

/* The kind that --kind names; the parser has checked it. */
static quipu_source_kind import_kind(const char *name)
{
    int kind = QUIPU_SOURCE_LANGGRAPH;

    while (kind > QUIPU_SOURCE_AUTO &&
           strcmp(quipu_source_name((quipu_source_kind)kind), name) != 0) {
        kind--;
    }
    return (quipu_source_kind)kind;
}

/* The kinds of files that can be imported, for a file of another kind. */
static void import_report_kinds(const app_call *call)
{
    app_report(call, "known kinds: " IMPORT_DATABASES " (databases), " APP_FOREIGN_KINDS
                     " (JSON), export; other messages can be stored with \"quipu append\"");
}

/* Sessions that were stored before a signal stay. */
static void import_advise(const app_call *call, quipu_status status)
{
    if (status == QUIPU_CANCELLED) {
        app_report(call, "what was imported so far is stored: run the same command to continue");
    }
}

/* A database of another program. */
static int import_database(const app_call *call, const char *path, quipu_store *store,
                           quipu_source_kind kind)
{
    import_view view = {.quiet = app_given(call, "quiet")};
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_source_report report = QUIPU_SOURCE_REPORT_INIT;
    const char *policy = app_value(call, "on-conflict");
    const char *prefix = app_value(call, "prefix");
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    within.cancel = app_signals_begin(); /* begun already: import_cancel() */
    app_progress_begin(&view.progress, call, "reading", "messages", 0);
    options.flags = app_given(call, "dry-run") ? QUIPU_SOURCE_DRY_RUN : 0;
    options.kind = kind;
    if (policy != NULL) {
        options.on_conflict = (quipu_source_conflict)app_word_number("fail skip rename", policy);
    }
    if (prefix != NULL) {
        options.prefix = quipu_cstr(prefix);
    }
    options.progress = import_on_progress;
    options.orphan = import_on_orphan;
    options.ctx = &view;
    status = quipu_source_import(store, path, &options, &within, &report, &error);
    app_progress_end(&view.progress);
    if (status != QUIPU_OK) {
        const int code = app_fail(call, path, status, &error);

        import_advise(call, status);
        if (status == QUIPU_UNSUPPORTED) {
            import_report_kinds(call);
        } else if (status == QUIPU_EXISTS) {
            app_report(call,
                       "nothing was imported: --on-conflict skip leaves it out; only sessions "
                       "of chat programs get another key, by --on-conflict rename or --prefix");
        }
        return status == QUIPU_MISUSE ? APP_USAGE : code; /* options that do not go with the kind */
    }
    import_print(call, path, quipu_source_name(report.kind), &report);
    return APP_OK;
}

/* ---- exports ----------------------------------------------------------------------------------
 */

/* A file whose first bytes were read to see what it is. */
typedef struct import_input {
    FILE *file;
    const char *path;
    char head[IMPORT_HEAD];
    size_t n;
    bool database;
    bool is_export;
    bool encrypted; /* the export */
} import_input;

typedef struct import_stream {
    const import_input *input;
    size_t at; /* of the head that is passed on already */
    int64_t done;
    app_progress progress;
} import_stream;

/* The flag that a signal sets, from before the store is opened. NULL: a signal ends the process,
 * because a process that waits for input would not see the flag. */
static quipu_cancel *import_cancel(const import_input *input)
{
    return input->file == stdin ? NULL : app_signals_begin();
}

/* The library's read callback: first what was read already. */
static quipu_status import_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    import_stream *stream = ctx;
    const size_t left = stream->input->n - stream->at;

    if (left > 0) {
        *ret_n = left < size ? left : size;
        memcpy(ret_bytes, stream->input->head + stream->at, *ret_n);
        stream->at += *ret_n;
    } else {
        *ret_n = fread(ret_bytes, 1, size, stream->input->file);
    }
    stream->done += (int64_t)*ret_n;
    app_progress_to(&stream->progress, stream->done);
    return ferror(stream->input->file) ? QUIPU_IO : QUIPU_OK;
}

/* A quipu export, as a stream. */
static int import_export(const app_call *call, const import_input *input, quipu_store *store)
{
    const char *path = input->path;
    import_stream stream = {.input = input};
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_import_options options = QUIPU_IMPORT_OPTIONS_INIT;
    quipu_open_options key = QUIPU_OPEN_OPTIONS_INIT;
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    quipu_error error = {0};
    quipu_status status;

    if (input->encrypted || app_export_key_is_named(call)) {
        if (!app_export_key_options(call, false, &key)) {
            return APP_USAGE;
        }
        options.encryption_key = key.key;
        options.encryption_key_ctx = key.key_ctx;
    }
    within.cancel = import_cancel(input);
    app_progress_begin(&stream.progress, call, "reading", APP_BYTES, app_input_bytes(input->file));
    status = quipu_store_import(store, &options, import_read, &stream, &within, &done, &error);
    app_progress_end(&stream.progress);
    if (status != QUIPU_OK) {
        const int code = app_fail(call, path, status, &error);

        import_advise(call, status);
        return code;
    }
    const quipu_source_report report = {.sessions = done.sessions,
                                        .messages = done.messages,
                                        .states = done.states,
                                        .memories = done.memories,
                                        .skipped = done.skipped};
    import_print(call, path, "export", &report);
    return APP_OK;
}

/* ---- JSON of other programs -------------------------------------------------------------------
 */

static int import_foreign(const app_call *call, app_foreign *foreign, quipu_store *store)
{
    app_foreign_report done = {0};
    const char *const names[] = {"claude-code", "codex", "chatgpt", "chat"};
    const int code = app_foreign_store(foreign, store, &done);

    if (code != APP_OK && app_signals_came()) {
        import_advise(call, QUIPU_CANCELLED);
    } else if (code == APP_OK) {
        const quipu_source_report report = {.sessions = done.sessions,
                                            .messages = done.messages,
                                            .skipped = done.skipped,
                                            .orphans = done.left_out};

        import_print(call, foreign->path, names[foreign->kind], &report);
    }
    return code;
}

/* ---- the verb ---------------------------------------------------------------------------------
 */

/* Opens the target, which is created, except for a dry run. */
static int import_open(const app_call *call, bool memory, quipu_store **ret_store)
{
    const bool dry = app_given(call, "dry-run");
    quipu_open_options options;
    quipu_error error = {0};
    quipu_status status;
    char path[APP_PATH_MAX];

    if (!app_store_path(call, !dry, path)) {
        return APP_FAILURE;
    }
    if (!app_open_options(call, dry ? APP_NEED_READ : APP_NEED_NEW, &options)) {
        return APP_USAGE;
    }
    /* A dry run writes nothing: it compares with the existing store, or with an empty one. An
     * export is imported into an empty store in memory. */
    status = dry && memory ? QUIPU_NOT_FOUND : quipu_open(path, &options, ret_store, &error);
    if (dry && status == QUIPU_NOT_FOUND) {
        status = quipu_open(":memory:", NULL, ret_store, &error);
    }
    return status == QUIPU_OK ? APP_OK : app_fail(call, path, status, &error);
}

/* Reads JSON of another program before the store is opened: a wrong file creates none. */
static int import_json(const app_call *call, const import_input *input, app_foreign_kind wanted)
{
    app_foreign foreign;
    quipu_store *store = NULL;
    int code = app_foreign_read(call, input->file, (quipu_str){input->head, input->n}, input->path,
                                wanted, &foreign);

    if (code == APP_OK && foreign.kind == APP_FOREIGN_NONE) {
        app_report(call, "%s is of no known kind", input->path);
        import_report_kinds(call);
        code = APP_FAILURE;
    }
    if (code == APP_OK) {
        (void)app_signals_begin(); /* all is read: nothing waits for input any more */
        code = import_open(call, false, &store);
    }
    if (code == APP_OK) {
        code = import_foreign(call, &foreign, store);
    }
    quipu_close(store);
    app_foreign_free(&foreign);
    return code;
}

/* Options that go with other files. False: reported. */
static bool import_options_fit(const app_call *call, bool database)
{
    static const char *const names[] = {"map", "on-conflict", "prefix"};
    const size_t n = database ? 1 : sizeof(names) / sizeof(names[0]);

    for (size_t i = 0; i < n; i++) {
        if (app_given(call, names[i])) {
            app_report(call,
                       i == 0 ? "--%s goes with JSON of other programs: " APP_FOREIGN_KINDS
                              : "--%s goes with files of other programs, not with an export",
                       names[i]);
            return false;
        }
    }
    return true;
}

/* The number of a kind of JSON; -1: another kind, or none. */
static int import_foreign_kind(const char *kind)
{
    return kind != NULL ? app_word_number(APP_FOREIGN_KINDS, kind) : -1;
}

/* A file by what it is. --kind must agree with it. */
static int import_input_run(const app_call *call, const import_input *input)
{
    const char *wanted = app_value(call, "kind");
    const char *kind = wanted != NULL && strcmp(wanted, "auto") != 0 ? wanted : NULL;
    const int foreign = import_foreign_kind(kind);
    const bool is_export = kind != NULL ? strcmp(kind, "export") == 0 : input->is_export;
    quipu_store *store = NULL;
    int code;

    if (kind != NULL && input->database != (foreign < 0 && !is_export)) {
        app_report(call, "%s is %s, not %s", input->path,
                   input->database ? "a database" : "not a database", kind);
        return APP_FAILURE;
    }
    if (!input->database && !is_export) {
        return import_json(call, input, (app_foreign_kind)foreign);
    }
    if (!import_options_fit(call, input->database)) {
        return APP_USAGE;
    }
    (void)import_cancel(input);
    code = import_open(call, !input->database, &store);
    if (code == APP_OK && input->database) {
        code = import_database(call, input->path, store,
                               kind != NULL ? import_kind(kind) : QUIPU_SOURCE_AUTO);
    } else if (code == APP_OK) {
        code = import_export(call, input, store);
    }
    quipu_close(store);
    return code;
}

/* An encrypted export has a mark of its own. */
static bool import_is_encrypted(const import_input *input)
{
    return input->n >= sizeof(APP_EXPORT_ENCRYPTED) - 1 &&
           memcmp(input->head, APP_EXPORT_ENCRYPTED, sizeof(APP_EXPORT_ENCRYPTED) - 1) == 0;
}

/* An export begins with its mark; what is left of one that is cut off or damaged gets the errors of
 * an export, which say so. */
static bool import_is_export(const import_input *input)
{
    static const char mark[] = "{\"quipu\":";
    static const char major[] = "\"major\":";
    const size_t n = input->n < sizeof(mark) - 1 ? input->n : sizeof(mark) - 1;

    if (n > 0 && memcmp(input->head, mark, n) == 0) {
        return true;
    }
    for (size_t i = 0; i < IMPORT_MARK_MAX && i + sizeof(major) - 1 <= input->n; i++) {
        if (memcmp(input->head + i, major, sizeof(major) - 1) == 0) {
            return true;
        }
    }
    return false;
}

static int import_file(const app_call *call, const char *path)
{
    const bool piped = strcmp(path, "-") == 0;
    import_input input = {.path = path};
    int code;

    input.file = app_input_open(call, path);
    if (input.file == NULL) {
        return errno == ENOENT ? APP_NOT_FOUND : APP_FAILURE;
    }
    input.n = fread(input.head, 1, sizeof(input.head), input.file);
    input.database = app_is_database(input.head, input.n);
    input.encrypted = import_is_encrypted(&input);
    input.is_export = input.encrypted || import_is_export(&input);
    if (input.database && (piped || fseek(input.file, 0, SEEK_SET) != 0)) {
        app_report(call, "%s: a database cannot be read from a pipe: name its file", path);
        code = APP_FAILURE;
    } else {
        code = import_input_run(call, &input);
    }
    app_input_close(input.file);
    return code;
}

/* File after file. A file that fails does not stop the others; its exit code is kept. */
static int import_run(const app_call *call)
{
    const char *map = app_value(call, "map");
    int code = APP_OK;

    if (map != NULL && !app_foreign_map_fits(map)) {
        return app_usage(call, "--map is a list such as role=who,content=text; the names before "
                               "\"=\" are: " APP_FOREIGN_MAP);
    }
    for (int i = 0; i < call->argument_count && code != APP_USAGE && !app_signals_came(); i++) {
        const int one = import_file(call, call->arguments[i]);

        code = code == APP_OK || one == APP_USAGE ? one : code;
    }
    return code;
}

const app_verb app_verb_import = {
    .name = "import",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "FILE...",
    .arguments_min = 1,
    .arguments_max = IMPORT_FILES_MAX,
    .summary = "import sessions of other programs, or an export",
    .note = "A second import of the same file adds what is new in it.\n"
            "\n"
            "Examples:\n"
            "  quipu import --dry-run \"$(llm logs path)\"\n"
            "  quipu import conversations.json --prefix gpt/\n"
            "  quipu import chats.enc --export-passphrase-file p.txt",
    .common = APP_STORE | APP_ADDS | APP_JSON | APP_SILENT,
    .options = import_options,
    .run = import_run,
};
