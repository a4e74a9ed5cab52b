/* quipu head: the heads of sessions, a line each, to be kept where the store is not. "quipu verify
 * --against" proves by them later that nothing is lost: docs/integrity.md. */
#include <errno.h>

#include "app.h"

/* The library's write callback. */
static quipu_status head_write(void *ctx, const void *bytes, size_t n)
{
    int *error = ctx;

    if (!app_json_lines(stdout, (quipu_str){bytes, n})) {
        *error = errno;
        return QUIPU_IO;
    }
    return QUIPU_OK;
}

static int head_run(const app_call *call)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};
    int failed = 0;
    int code = app_open(call, APP_NEED_READ, &store);

    if (code == APP_OK) {
        options.flags = QUIPU_EXPORT_HEADS;
        options.key = app_argument(call, 0);
        within.cancel = app_signals_begin();
        const quipu_status status =
            quipu_store_export(store, &options, head_write, &failed, &within, NULL, &error);
        if (failed != 0) {
            errno = failed;
            code = app_fail_errno(call, "stdout");
        } else if (status != QUIPU_OK) {
            code = call->argument_count > 0 ? app_fail_session(call, options.key, status, &error)
                                            : app_fail(call, "head", status, &error);
        }
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_head = {
    .name = "head",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "[KEY]",
    .arguments_max = 1,
    .summary = "print the hash of a session's last message, to keep elsewhere",
    .note = "Examples:\n"
            "  quipu head trip >> heads\n"
            "  quipu head > heads && quipu verify --against heads",
    .common = APP_STORE | APP_READ_ONLY,
    .run = head_run,
};
