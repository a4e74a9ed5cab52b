/* quipu upgrade: brings an older store to what new ones have. Opening it for writing upgrades the
 * layout; --checksums rewrites the file. */
#include "problems.h"

static const app_option upgrade_options[] = {
    {.name = "checksums", .help = "verify the store, then write a checksum on every page"},
    {.name = NULL},
};

/* Verifies and rewrites, with the same progress as "quipu verify". */
static int upgrade_checksums(const app_call *call, quipu_store *store)
{
    app_checking checking;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    app_checking_begin(&checking, call, store, &within);
    status = quipu_store_upgrade(store, QUIPU_UPGRADE_CHECKSUMS, &within, &error);
    app_checking_pause(&checking);
    return status == QUIPU_OK ? APP_OK : app_fail(call, "upgrade", status, &error);
}

/* Prints what the store has now. */
static int upgrade_print(const app_call *call, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};
    quipu_status status = quipu_store_stats(store, NULL, &stats, &error);

    if (status != QUIPU_OK) {
        return app_fail(call, "upgrade", status, &error);
    }
    if (app_given(call, "json")) {
        app_json json = {.out = stdout};

        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "layout", "up to date");
        app_json_cstr(&json, "checksums", app_checksums_name(stats.checksums));
        app_json_close(&json, '}');
    } else {
        printf("the layout is up to date; checksums are %s\n", app_checksums_name(stats.checksums));
    }
    return APP_OK;
}

/* APP_OK also when nothing had to be done. */
static int upgrade_run(const app_call *call)
{
    quipu_store *store = NULL;
    int code = app_open(call, APP_NEED_WRITE, &store);

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
    .summary = "bring an older store to the newest layout; adds page checksums",
    .note = "Examples:\n"
            "  quipu upgrade\n"
            "  quipu upgrade --json",
    .common = APP_STORE | APP_JSON | APP_SILENT,
    .options = upgrade_options,
    .run = upgrade_run,
};
