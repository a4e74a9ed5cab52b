/* quipu verify: checks the whole store and changes nothing. */
#include "problems.h"

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

/* Read-only. APP_FAILURE: problems were found, and repair may help. */
static int verify_run(const app_call *call)
{
    quipu_store *store = NULL;
    int code = app_open(call, APP_NEED_READ, &store);

    if (code == APP_OK) {
        code = app_problems(call, store, false);
        if (code == APP_FAILURE) {
            app_report(call, "copy the file first; then \"quipu repair\" fixes what can be "
                             "derived from the messages");
        }
        verify_checksums(call, store);
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_verify = {
    .name = "verify",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "check the store, and report what is damaged",
    .common = APP_STORE | APP_READ_ONLY | APP_JSON | APP_COLOR | APP_QUIET,
    .run = verify_run,
};
