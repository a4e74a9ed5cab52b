/* quipu upgrade: brings an older store to what new ones have. Opening it for writing upgrades the
 * layout; --checksums rewrites the file, and --encrypt puts an encrypted one in its place. */
#include "mask.h"
#include "problems.h"

static const app_option upgrade_options[] = {
    {.name = "checksums", .help = "verify the store, then write a checksum on every page"},
    {.name = "encrypt",
     .help = "encrypt a plain store with the key that $QUIPU_KEY_FILE or $QUIPU_PASSPHRASE_FILE "
             "names"},
    {.name = NULL},
};

/* Verifies and rewrites, with the same progress as "quipu verify". */
static int upgrade_checksums(const app_call *call, quipu_store *store)
{
    app_checking checking;
    quipu_store_patch patch = QUIPU_STORE_PATCH_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    patch.set = QUIPU_STORE_SET_CHECKSUMS;
    app_checking_begin(&checking, call, store, &within);
    status = quipu_store_update(store, &patch, &within, &error);
    app_checking_pause(&checking);
    return status == QUIPU_OK ? APP_OK : app_fail(call, "upgrade", status, &error);
}

/* The key is that of the other verbs, which refuse a plain store with it. */
static int upgrade_encrypt(const app_call *call)
{
    quipu_open_options options;
    quipu_open_options given = QUIPU_OPEN_OPTIONS_INIT;
    char path[APP_PATH_MAX];
    char shown[APP_PATH_MAX];
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status;

    if (!app_open_options(call, APP_NEED_WRITE, &options)) {
        return APP_USAGE;
    }
    if (options.key == NULL) {
        app_report(call, "--encrypt needs a key: name its file in QUIPU_KEY_FILE, or that of a "
                         "passphrase in QUIPU_PASSPHRASE_FILE");
        app_report_more(call, APP_KEY_ADVICE);
        return APP_USAGE;
    }
    if (!app_store_path(call, false, path)) {
        return APP_FAILURE;
    }
    given.flags = QUIPU_OPEN_ENCRYPT | (options.flags & QUIPU_OPEN_PASSPHRASE);
    given.key = options.key;
    given.key_ctx = options.key_ctx;
    given.deadline_ms = options.deadline_ms;
    given.log = options.log;
    given.log_ctx = options.log_ctx;
    given.log_level = options.log_level;
    app_mask(path, shown, sizeof(shown));
    status = quipu_open(path, &given, &store, &error);
    quipu_close(store);
    return status == QUIPU_OK ? APP_OK : app_fail(call, shown, status, &error);
}

/* Says what cannot be overwritten: the caller decides about it. */
static void upgrade_print_encrypted(void)
{
    fputs("the store is encrypted; its plain file, log and journal were overwritten with zeros and "
          "deleted\n"
          "not within reach: backups and exports, snapshots, and what the file system or a flash "
          "disk moved before\n",
          stdout);
}

/* Prints what the store has now. */
static int upgrade_print(const app_call *call, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};
    quipu_status status = quipu_store_stats(store, NULL, NULL, &stats, &error);

    if (status != QUIPU_OK) {
        return app_fail(call, "upgrade", status, &error);
    }
    if (app_given(call, "json")) {
        app_json json = {.out = stdout};

        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "layout", "up to date");
        app_json_cstr(&json, "checksums", app_checksums_name(stats.checksums));
        if (app_given(call, "encrypt")) {
            app_json_bool(&json, "encrypted", true);
        }
        app_json_close(&json, '}');
    } else {
        printf("the layout is up to date; checksums are %s\n", app_checksums_name(stats.checksums));
        if (app_given(call, "encrypt")) {
            upgrade_print_encrypted();
        }
    }
    return APP_OK;
}

/* APP_OK also when nothing had to be done. */
static int upgrade_run(const app_call *call)
{
    quipu_store *store = NULL;
    int code = app_given(call, "encrypt") ? upgrade_encrypt(call) : APP_OK;

    if (code == APP_OK) {
        code = app_open(call, APP_NEED_WRITE, &store);
    }
    if (code == APP_OK && app_given(call, "checksums")) {
        code = upgrade_checksums(call, store);
    }
    if (code == APP_OK) {
        code = upgrade_print(call, store);
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_upgrade = {
    .name = "upgrade",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "bring an older store to the newest layout; adds checksums, encrypts",
    .note = "Examples:\n"
            "  quipu upgrade\n"
            "  quipu upgrade --json\n"
            "  QUIPU_KEY_FILE=old.key quipu upgrade --encrypt",
    .common = APP_STORE | APP_JSON | APP_SILENT,
    .options = upgrade_options,
    .run = upgrade_run,
};
