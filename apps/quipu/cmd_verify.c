/* quipu verify: checks the whole store and changes nothing; with --against also whether it has lost
 * what it had. */
#include <string.h>
#include <sys/random.h> /* getentropy() on macOS; elsewhere <unistd.h> has it */
#include <unistd.h>

#include "problems.h"

#define VERIFY_KEY 32 /* bytes of a random key */

static const app_option verify_options[] = {
    {.name = "against",
     .value = "FILE",
     .help = "prove that nothing of FILE is lost: heads, an export or a backup; -: stdin"},
    APP_EXPORT_KEY_OPTIONS,
    {.name = NULL},
};

/* Reports pages that could not be verified, which no check of the contents can show. */
static void verify_checksums(const app_call *call, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    if (quipu_store_stats(store, NULL, NULL, &stats, NULL) == QUIPU_OK &&
        stats.checksums == QUIPU_CHECKSUMS_STALE) {
        app_report(call, "another program has written to the file without its checksums; \"quipu "
                         "upgrade --checksums\" writes them again");
    }
}

/* ---- what was known -------------------------------------------------------------------------- */

/* A quipu_write_fn over a stream. */
static quipu_status verify_write(void *ctx, const void *bytes, size_t n)
{
    return fwrite(bytes, 1, n, ctx) == n ? QUIPU_OK : QUIPU_IO;
}

/* A quipu_key_fn over VERIFY_KEY bytes. */
static size_t verify_give(void *ctx, void *ret_key, size_t size)
{
    memcpy(ret_key, ctx, size < VERIFY_KEY ? size : VERIFY_KEY);
    return VERIFY_KEY;
}

/* Makes a random key for the heads of an encrypted backup: they name its sessions, and wait in a
 * temporary file. False when no random bytes can be had. */
static bool verify_encrypt(app_known *known)
{
    static unsigned char key[VERIFY_KEY]; /* until the program ends, as the keys of key.c */

    known->key = verify_give;
    known->key_ctx = key;
    return getentropy(key, sizeof(key)) == 0;
}

/* Writes the heads of a store that is not the call's: of a backup. *ret_none: it has no session.
 * Returns an exit code. */
static int verify_heads(const app_call *call, const char *path, app_known *known, bool *ret_none)
{
    quipu_export_options heads = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_transfer written = QUIPU_TRANSFER_INIT;
    quipu_open_options options;
    quipu_store *backup = NULL;
    quipu_error error = {0};
    quipu_status status;

    if (!app_open_options(call, APP_NEED_READ, &options)) {
        return APP_USAGE;
    }
    if (options.key != NULL && !verify_encrypt(known)) {
        return app_fail_errno(call, "random bytes");
    }
    heads.flags = QUIPU_EXPORT_HEADS;
    heads.encryption_key = known->key;
    heads.encryption_key_ctx = known->key_ctx;
    status = quipu_open(path, &options, &backup, &error);
    if (status == QUIPU_OK) {
        status =
            quipu_store_export(backup, &heads, verify_write, known->file, NULL, &written, &error);
    }
    quipu_close(backup);
    *ret_none = written.lines == 0;
    if (status == QUIPU_OK && fseek(known->file, 0, SEEK_SET) != 0) {
        return app_fail_errno(call, path);
    }
    return status == QUIPU_OK ? APP_OK : app_fail(call, path, status, &error);
}

/* Adds the key of a file that is encrypted, or whose key is named. An export and heads begin with a
 * brace. Returns an exit code. */
static int verify_key(const app_call *call, app_known *known)
{
    quipu_open_options key = QUIPU_OPEN_OPTIONS_INIT;
    const int first = getc(known->file);

    if (first != EOF) {
        (void)ungetc(first, known->file);
    }
    if (first != APP_EXPORT_ENCRYPTED[0] && !app_export_key_is_named(call)) {
        return APP_OK;
    }
    if (!app_export_key_options(call, false, &key)) {
        return APP_USAGE;
    }
    known->key = key.key;
    known->key_ctx = key.key_ctx;
    return APP_OK;
}

/* Opens the file of --against, if it is given. Returns an exit code. */
static int verify_known(const app_call *call, app_known *known)
{
    const char *path = app_value(call, "against");
    bool database = false;
    bool none = false;
    int code;

    if (path == NULL) {
        return APP_OK;
    }
    known->file = strcmp(path, "-") == 0 ? stdin : app_file_open(path, &database);
    if (known->file != NULL && database) {
        fclose(known->file);
        known->file = tmpfile();
    }
    if (known->file == NULL) {
        return app_fail_errno(call, path);
    }
    code = database ? verify_heads(call, path, known, &none) : verify_key(call, known);
    if (none) { /* a backup from before the first session: nothing was known */
        fclose(known->file);
        known->file = NULL;
    }
    return code;
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Read-only. APP_FAILURE: problems were found, and repair may help. */
static int verify_run(const app_call *call)
{
    app_known known = {.file = NULL};
    quipu_store *store = NULL;
    int code = verify_known(call, &known);

    if (code == APP_OK) {
        code = app_open(call, APP_NEED_READ, &store);
    }
    if (code == APP_OK) {
        code = app_problems(call, store, false, known.file != NULL ? &known : NULL);
        verify_checksums(call, store);
    }
    quipu_close(store);
    if (known.file != NULL) { /* the standard input as well: nobody reads it after this */
        fclose(known.file);
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
