/* quipu verify: look at everything, change nothing. */
#include "problems.h"

static int verify_run(const app_call *call)
{
    quipu_store *store = NULL;
    int code = app_open(call, APP_NEED_READ, &store);

    if (code == APP_OK) {
        code = app_problems(call, store, false);
        if (code == APP_FAILURE) {
            app_tell(call, "make a copy of the file first; then \"quipu repair\" mends what "
                           "follows from the messages that are there");
        }
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_verify = {
    .name = "verify",
    .group = APP_GROUP_KEEP,
    .arguments = "",
    .summary = "check that the store is sound; says what is damaged",
    .common = APP_STORE | APP_READ_ONLY | APP_JSON | APP_COLOR | APP_QUIET,
    .run = verify_run,
};
