/* quipu repair: recomputes what can be derived from the messages: counts, totals, the search
 * index. A file that Lango has migrated after its adoption is adopted again by the open. */
#include "problems.h"

static const app_option repair_options[] = {
    {.name = "no-index", .help = "do not update the search index first"},
    {.name = NULL},
};

/* The index can be compared with the messages only when it is up to date. A failure here does not
 * prevent the repair. */
static void repair_index(const app_call *call, quipu_store *store)
{
    quipu_error error = {0};
    quipu_status status = app_index(call, store, &error);

    if (status != QUIPU_OK) {
        app_report(call, "the search index: %s; continuing", error.message);
    }
}

/* APP_FAILURE: something is left that only a backup can restore. */
static int repair_run(const app_call *call)
{
    quipu_store *store = NULL;
    int code = app_open(call, APP_NEED_REPAIR, &store);

    if (code == APP_OK && !app_given(call, "no-index")) {
        repair_index(call, store);
    }
    if (code == APP_OK) {
        code = app_problems(call, store, true, NULL);
        if (code == APP_FAILURE) {
            app_report(call, "the rest cannot be repaired: restore those sessions from a backup");
        }
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_repair = {
    .name = "repair",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "repair counts, totals and the search index; reports what stays damaged",
    .note = "Examples:\n"
            "  quipu repair\n"
            "  quipu repair --json",
    .common = APP_STORE | APP_JSON | APP_COLOR | APP_SILENT,
    .options = repair_options,
    .run = repair_run,
};
