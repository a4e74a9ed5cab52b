/* quipu repair: mend what follows from the messages that are there. */
#include "problems.h"

static const app_option repair_options[] = {
    {.name = "no-index", .help = "do not bring the search index up to date first"},
    {.name = NULL},
};

/* The words in the index are compared with the messages only when it does not lag behind them. */
static void repair_index(const app_call *call, quipu_store *store)
{
    quipu_error error = {0};
    quipu_status status = app_index(call, store, &error);

    if (status != QUIPU_OK) {
        app_tell(call, "the search index: %s; going on", error.message);
    }
}

static int repair_run(const app_call *call)
{
    quipu_store *store = NULL;
    int code = app_open(call, APP_NEED_WRITE, &store);

    if (code == APP_OK && !app_given(call, "no-index")) {
        repair_index(call, store);
    }
    if (code == APP_OK) {
        code = app_problems(call, store, true);
        if (code == APP_FAILURE) {
            app_tell(call, "what is left cannot be mended: restore those sessions from a backup");
        }
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_repair = {
    .name = "repair",
    .group = APP_GROUP_KEEP,
    .arguments = "",
    .summary = "mend counts, totals and the search index; tells what stays damaged",
    .common = APP_STORE | APP_JSON | APP_COLOR | APP_QUIET,
    .options = repair_options,
    .run = repair_run,
};
