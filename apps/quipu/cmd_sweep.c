/* quipu sweep: deletes the sessions whose time to live has passed. Runs without a deadline; Ctrl-C
 * stops it between sessions. */
#include "app.h"

/* Sessions are deleted a hundred in a transaction; an interrupted sweep keeps what it did. */
static int sweep_run(const app_call *call)
{
    app_progress progress;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};
    int64_t removed = 0;
    int code = app_open(call, APP_NEED_WRITE, &store);

    if (code != APP_OK) {
        return code;
    }
    within.deadline_ms = -1;
    within.cancel = app_signals_begin();
    within.progress = app_progress_to;
    within.progress_ctx = &progress;
    app_progress_begin(&progress, call, "deleting", "sessions",
                       app_progress_stats(call, store).expired);
    quipu_status status = quipu_store_sweep(store, &within, &removed, &error);
    app_progress_end(&progress);
    quipu_close(store);
    if (status != QUIPU_OK) {
        return app_fail(call, "sweep", status, &error);
    }
    app_print_deleted(call, removed);
    return APP_OK;
}

const app_verb app_verb_sweep = {
    .name = "sweep",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "delete the sessions whose time to live has passed",
    .note = "Examples:\n"
            "  quipu sweep\n"
            "  quipu sweep --json",
    .common = APP_STORE | APP_JSON | APP_SILENT,
    .run = sweep_run,
};
