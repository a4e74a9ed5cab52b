/* quipu backup: a copy of the store in a file of its own, while other processes write. The library
 * checks the copy before it gets its name (output.c). */
#include <inttypes.h>
#include <sys/stat.h>

#include "output.h"

/* The engine copies pages without reporting progress: the bar polls the size of the part. */
static int64_t backup_look(void *part)
{
    struct stat info;

    return stat(part, &info) == 0 ? (int64_t)info.st_size : -1;
}

/* Writes the backup to `part`, with a bar. */
static int backup_do(const app_call *call, quipu_store *store, char *part)
{
    app_watch watch;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    within.cancel = app_signals_begin();
    app_watch_begin(&watch, call, "writing", backup_look, part,
                    app_progress_stats(call, store).file_bytes);
    status = quipu_store_backup(store, part, &within, &error);
    app_watch_end(&watch);
    return status == QUIPU_OK ? APP_OK : app_fail(call, call->arguments[0], status, &error);
}

/* A log file left beside the new name would be replayed into the backup when it is opened. */
static int backup_check_log(const app_call *call, const char *path)
{
    static const char *const tails[] = {"-wal", "-journal", NULL};
    char name[APP_PATH_MAX + 16];
    struct stat info;

    for (size_t i = 0; tails[i] != NULL; i++) {
        snprintf(name, sizeof(name), "%s%s", path, tails[i]);
        if (lstat(name, &info) == 0) {
            app_report(call, "%s belongs to another file: give another name", name);
            return APP_CONFLICT;
        }
    }
    return APP_OK;
}

/* The size of the finished file. */
static int backup_print(const app_call *call)
{
    app_json json = {.out = stdout};
    struct stat info;

    if (stat(call->arguments[0], &info) != 0) {
        return app_fail_errno(call, call->arguments[0]);
    }
    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "file", call->arguments[0]);
        app_json_int(&json, "bytes", (int64_t)info.st_size);
        app_json_close(&json, '}');
        return APP_OK;
    }
    app_put(stdout, app_argument(call, 0));
    printf(": %" PRId64 " bytes, checked\n", (int64_t)info.st_size);
    return APP_OK;
}

/* Names and leftovers are checked before the store is opened. */
static int backup_run(const app_call *call)
{
    const char *path = call->arguments[0];
    app_output output;
    quipu_store *store = NULL;
    int code = app_output_begin(call, path, false, &output);

    if (code == APP_OK) {
        code = backup_check_log(call, path);
    }
    if (code == APP_OK) {
        code = app_open(call, APP_NEED_READ, &store);
    }
    if (code == APP_OK) {
        code = backup_do(call, store, output.part);
        if (code == APP_OK) {
            code = app_output_keep(call, &output);
        } else {
            app_output_drop(&output);
        }
    }
    quipu_close(store);
    return code == APP_OK ? backup_print(call) : code;
}

const app_verb app_verb_backup = {
    .name = "backup",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "FILE",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "copy the store to a new file while it is in use, and check the copy",
    .note = "Examples:\n"
            "  quipu backup chats-before.db\n"
            "  quipu backup \"chats-$(date +%F).db\" --json",
    .common = APP_STORE | APP_READ_ONLY | APP_JSON | APP_SILENT,
    .run = backup_run,
};
