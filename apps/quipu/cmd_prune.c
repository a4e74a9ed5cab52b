/* quipu prune: deletes the messages that the newest compaction covers, permanently. */
#include <inttypes.h>

#include "app.h"

/* Asks first: a pruned message cannot be restored. */
static int prune_run(const app_call *call)
{
    app_json json = {.out = stdout};
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    int64_t removed = 0;
    app_watch watch;
    int code = app_open(call, APP_NEED_WRITE, &store);

    if (code == APP_OK) {
        code =
            app_confirm(call, "permanently delete the messages of \"%s\" that its summary covers",
                        call->arguments[0]);
    }
    if (code == APP_OK) {
        quipu_status status;

        within.cancel = app_signals_begin();
        app_watch_begin(&watch, call, "deleting", NULL, NULL, 0);
        status = quipu_session_prune(store, app_argument(call, 0), &within, &removed, &error);
        app_watch_end(&watch);
        code = status == QUIPU_OK ? APP_OK
                                  : app_fail_session(call, app_argument(call, 0), status, &error);
    }
    quipu_close(store);
    if (code == APP_OK && app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "key", call->arguments[0]);
        app_json_int(&json, "messages", removed);
        app_json_close(&json, '}');
    } else if (code == APP_OK) {
        printf("deleted %" PRId64 " message%s\n", removed, removed == 1 ? "" : "s");
    }
    return code;
}

const app_verb app_verb_prune = {
    .name = "prune",
    .group = APP_GROUP_WRITE,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "permanently delete the messages that a compaction covers",
    .note = "Examples:\n"
            "  quipu prune trip --yes\n"
            "  quipu prune --yes --json trip",
    .common = APP_STORE | APP_JSON | APP_YES | APP_SILENT,
    .run = prune_run,
};
