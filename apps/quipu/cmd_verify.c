/* quipu verify: checks the whole store and changes nothing; with --against also whether it has lost
 * what it had. */
#include <string.h>

#include "problems.h"

static const app_option verify_options[] = {
    {.name = "against",
     .value = "FILE",
     .help = "prove that nothing of FILE is lost: heads, an export or a backup; -: stdin"},
    APP_EXPORT_KEY_OPTIONS,
    {.name = NULL},
};

/* What no check of the contents can show: pages that could not be verified. */
static void verify_checksums(const app_call *call, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    if (quipu_store_stats(store, NULL, &stats, NULL) == QUIPU_OK &&
        stats.checksums == QUIPU_CHECKSUMS_STALE) {
        app_report(call, "another program has written to the file without its checksums; \"quipu "
                         "upgrade --checksums\" writes them again");
    }
}

/* The heads of a backup, on their way to a stream. */
typedef struct verify_copy {
    FILE *to;
    bool any; /* there was a head */
} verify_copy;

/* A quipu_write_fn. */
static quipu_status verify_write(void *ctx, const void *bytes, size_t n)
{
    verify_copy *copy = ctx;

    copy->any = copy->any || n > 0;
    return fwrite(bytes, 1, n, copy->to) == n ? QUIPU_OK : QUIPU_IO;
}

/* The heads of a store that is not the call's: of a backup. *ret_none: it has no session. Returns
 * an exit code. */
static int verify_heads(const app_call *call, const char *path, FILE *to, bool *ret_none)
{
    quipu_export_options heads = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_open_options options;
    verify_copy copy = {.to = to};
    quipu_store *backup = NULL;
    quipu_error error = {0};
    quipu_status status;

    *ret_none = false;
    if (!app_open_options(call, APP_NEED_READ, &options)) {
        return APP_USAGE;
    }
    heads.flags = QUIPU_EXPORT_HEADS;
    status = quipu_open(path, &options, &backup, &error);
    if (status == QUIPU_OK) {
        status = quipu_store_export(backup, &heads, verify_write, &copy, NULL, NULL, &error);
    }
    quipu_close(backup);
    *ret_none = !copy.any;
    if (status == QUIPU_OK && fseek(to, 0, SEEK_SET) != 0) {
        return app_fail_errno(call, path);
    }
    return status == QUIPU_OK ? APP_OK : app_fail(call, path, status, &error);
}

/* What --against names, as a stream of lines; NULL without it. Returns an exit code. */
static int verify_known(const app_call *call, FILE **ret_known)
{
    const char *path = app_value(call, "against");
    bool database = false;
    bool none = false;
    FILE *file;
    int code = APP_OK;

    *ret_known = NULL;
    if (path == NULL) {
        return APP_OK;
    }
    file = strcmp(path, "-") == 0 ? stdin : app_file_open(path, &database);
    if (file != NULL && database) {
        fclose(file);
        file = tmpfile();
        code = file != NULL ? verify_heads(call, path, file, &none) : APP_OK;
    }
    if (file == NULL) {
        return app_fail_errno(call, path);
    }
    if (none) { /* a backup from before the first session: nothing was known */
        fclose(file);
    } else {
        *ret_known = file;
    }
    return code;
}

/* Read-only. APP_FAILURE: problems were found, and repair may help. */
static int verify_run(const app_call *call)
{
    quipu_store *store = NULL;
    FILE *known = NULL;
    int code = verify_known(call, &known);

    if (code == APP_OK) {
        code = app_open(call, APP_NEED_READ, &store);
    }
    if (code == APP_OK) {
        code = app_problems(call, store, false, known);
        verify_checksums(call, store);
    }
    quipu_close(store);
    if (known != NULL) { /* the standard input as well: nobody reads it after this */
        fclose(known);
    }
    return code;
}

const app_verb app_verb_verify = {
    .name = "verify",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "check the store, and report what is damaged",
    .note = "Examples:\n"
            "  quipu verify\n"
            "  quipu verify --json",
    .common = APP_STORE | APP_READ_ONLY | APP_JSON | APP_COLOR | APP_QUIET,
    .options = verify_options,
    .run = verify_run,
};
