/* quipu export: a store or a session as JSON Lines, to stdout or to a file that appears when it is
 * complete (output.c). Format: docs/export.md. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "export_as.h"
#include "output.h"

static const app_option export_options[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "write to FILE instead of stdout; it appears when it is complete"},
    {.name = "force", .help = "replace FILE when it exists"},
    {.name = "format",
     .value = "NAME",
     .choices = APP_EXPORT_FORMATS,
     .help = "the form of one session: to read, or for other programs"},
    {.name = "flat", .help = "write each fork with all its messages, as a session of its own"},
    {.name = "encrypt", .help = "encrypt the export; without a key's file, ask for a passphrase"},
    APP_EXPORT_KEY_OPTIONS,
    {.name = NULL},
};

typedef struct export_run {
    FILE *out;
    app_progress progress;
    int64_t lines;
    bool encrypted; /* what is written has no lines */
    int error;      /* errno of a write that failed */
} export_run;

/* The library's write callback; counts lines for the bar and remembers errno. */
static quipu_status export_write(void *ctx, const void *bytes, size_t n)
{
    export_run *run = ctx;
    const char *const end = (const char *)bytes + n;

    if (!app_json_lines(run->out, (quipu_str){bytes, n})) {
        run->error = errno;
        return run->error == ENOSPC ? QUIPU_FULL : QUIPU_IO;
    }
    for (const char *at = run->encrypted ? NULL : memchr(bytes, '\n', n); at != NULL;
         at = memchr(at + 1, '\n', (size_t)(end - at - 1))) {
        run->lines++;
    }
    app_progress_to(&run->progress, run->lines);
    return QUIPU_OK;
}

/* An estimate of the number of lines. */
static int64_t export_total(const app_call *call, quipu_store *store)
{
    const quipu_stats stats = app_progress_stats(call, store);

    return call->argument_count > 0 ? 0 : stats.sessions + stats.messages;
}

/* One session in a format of other programs; `ret_done` stays zero. */
static int export_foreign(const app_call *call, quipu_store *store, FILE *out)
{
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    within.cancel = app_signals_begin();
    status = app_export_as(store, app_argument(call, 0), app_value(call, "format"), out, &within,
                           &error);
    if (status == QUIPU_OK && (fflush(out) != 0 || ferror(out) != 0)) {
        return app_fail_errno(call, out == stdout ? "stdout" : app_value(call, "output"));
    }
    return status == QUIPU_OK ? APP_OK
                              : app_fail_session(call, app_argument(call, 0), status, &error);
}

/* Whether another format than our own is asked for. */
static bool export_is_foreign(const app_call *call)
{
    const char *format = app_value(call, "format");

    return format != NULL && strcmp(format, "quipu") != 0;
}

/* --encrypt: the key, from where it was named. False: reported. */
static bool export_key(const app_call *call, quipu_export_options *options)
{
    quipu_open_options key = QUIPU_OPEN_OPTIONS_INIT;

    if (!app_given(call, "encrypt")) {
        return true;
    }
    if (!app_export_key_options(call, true, &key)) {
        return false;
    }
    options->flags |= (key.flags & QUIPU_OPEN_PASSPHRASE) != 0 ? QUIPU_EXPORT_PASSPHRASE : 0;
    options->encryption_key = key.key;
    options->encryption_key_ctx = key.key_ctx;
    return true;
}

/* Exports to a stream. A write error is reported by errno, everything else by the library's
 * error. */
static int export_do(const app_call *call, quipu_store *store, FILE *out, quipu_transfer *ret_done)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;
    export_run run = {.out = out, .encrypted = app_given(call, "encrypt")};
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    if (export_is_foreign(call)) {
        return export_foreign(call, store, out);
    }
    options.key = app_argument(call, 0);
    options.flags = app_given(call, "flat") ? QUIPU_EXPORT_FLAT : 0;
    if (!export_key(call, &options)) {
        return APP_USAGE;
    }
    within.cancel = app_signals_begin();
    app_progress_begin(&run.progress, call, "exporting", "lines", export_total(call, store));
    status = quipu_store_export(store, &options, export_write, &run, &within, ret_done, &error);
    app_progress_end(&run.progress);
    if (status == QUIPU_OK) {
        return APP_OK;
    }
    if (run.error != 0) {
        errno = run.error;
        return app_fail_errno(call, out == stdout ? "stdout" : app_value(call, "output"));
    }
    return call->argument_count > 0 ? app_fail_session(call, options.key, status, &error)
                                    : app_fail(call, "export", status, &error);
}

/* Only for a file: on stdout the export itself is the output. */
static void export_print(const app_call *call, const quipu_transfer *done)
{
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "file", app_value(call, "output"));
        if (export_is_foreign(call)) {
            app_json_cstr(&json, "format", app_value(call, "format"));
            app_json_close(&json, '}');
            return;
        }
        app_json_int(&json, "lines", done->lines);
        app_json_int(&json, "sessions", done->sessions);
        app_json_int(&json, "messages", done->messages);
        app_json_int(&json, "states", done->states);
        app_json_int(&json, "memories", done->memories);
        app_json_close(&json, '}');
        return;
    }
    app_put(stdout, app_text_value(call, "output"));
    if (export_is_foreign(call)) {
        printf(": the session, as %s\n", app_value(call, "format"));
        return;
    }
    printf(": %" PRId64 " sessions, %" PRId64 " messages, %" PRId64 " keys of state, %" PRId64
           " memories\n",
           done->sessions, done->messages, done->states, done->memories);
}

/* Options that do not go together. `file`: the export goes to one, and not to stdout. */
static int export_check(const app_call *call, bool file)
{
    const bool encrypted = app_given(call, "encrypt");

    if (!file && (app_given(call, "json") || app_given(call, "force"))) {
        return app_usage(call, "--json and --force go with --output FILE");
    }
    if (export_is_foreign(call) &&
        (call->argument_count == 0 || app_given(call, "flat") || encrypted)) {
        return app_usage(call, "--format %s needs a KEY, and goes without --flat and --encrypt",
                         app_value(call, "format"));
    }
    if (!encrypted && app_export_key_is_named(call)) {
        return app_usage(call, "a key of the export goes with --encrypt");
    }
    if (encrypted && !file && isatty(STDOUT_FILENO) == 1) {
        return app_usage(call, "--encrypt writes bytes, not text: name a file by --output");
    }
    return APP_OK;
}

/* To a file: written beside it, then renamed; to stdout: as it comes. */
static int export_verb(const app_call *call)
{
    const char *path = app_value(call, "output");
    const bool file = path != NULL && strcmp(path, "-") != 0;
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    app_output output;
    quipu_store *store = NULL;
    int code = export_check(call, file);

    if (code != APP_OK) {
        return code;
    }
    code = app_open(call, APP_NEED_READ, &store);
    if (code == APP_OK && !file) {
        code = export_do(call, store, stdout, &done);
    } else if (code == APP_OK) {
        code = app_output_begin(call, path, app_given(call, "force"), &output);
        if (code == APP_OK) {
            code = app_output_open(call, &output);
        }
        if (code == APP_OK) {
            code = export_do(call, store, output.file, &done);
            if (code == APP_OK) {
                code = app_output_keep(call, &output);
            } else {
                app_output_drop(&output);
            }
        }
        if (code == APP_OK) {
            export_print(call, &done);
        }
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_export = {
    .name = "export",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "[KEY]",
    .arguments_max = 1,
    .summary = "write the store, or a session, as JSON Lines",
    .note = "Examples:\n"
            "  quipu export trip --format html --output trip.html\n"
            "  quipu export > chats.jsonl\n"
            "  quipu export --encrypt --export-passphrase-file p.txt -o trip.enc",
    .common = APP_STORE | APP_READ_ONLY | APP_JSON | APP_QUIET,
    .options = export_options,
    .run = export_verb,
};
