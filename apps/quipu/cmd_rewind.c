/* quipu rewind: a fork at an earlier message, under a new key; the session itself keeps what came
 * after. */
#include <inttypes.h>

#include "fork.h"

/* Without a NEW_KEY it is KEY@SEQ. */
static int rewind_run(const app_call *call)
{
    char made[QUIPU_KEY_MAX + 32];
    quipu_str new_key = app_argument(call, 2);
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};
    int64_t seq = 0;
    int code;

    if (!app_seq_argument(call, 1, &seq)) {
        return APP_USAGE;
    }
    if (new_key.p == NULL) {
        snprintf(made, sizeof(made), "%s@%" PRId64, call->arguments[0], seq);
        new_key = quipu_cstr(made);
    }
    values.key = new_key;
    code = app_open(call, APP_NEED_WRITE, &store);
    if (code == APP_OK) {
        quipu_status status =
            quipu_session_fork(store, app_argument(call, 0), seq, &values, NULL, NULL, &error);
        const quipu_str about = status == QUIPU_EXISTS ? new_key : app_argument(call, 0);
        code = status == QUIPU_OK ? APP_OK : app_fail_session(call, about, status, &error);
    }
    quipu_close(store);
    if (code == APP_OK) {
        app_fork_print(call, new_key, seq);
    }
    return code;
}

const app_verb app_verb_rewind = {
    .name = "rewind",
    .group = APP_GROUP_WRITE,
    .arguments = "KEY SEQ [NEW_KEY]",
    .arguments_min = 2,
    .arguments_max = 3,
    .summary = "go back to a message, under a new key; the session itself is unchanged",
    .note = "Examples:\n"
            "  quipu rewind trip 2\n"
            "  quipu rewind trip 2 trip/second-try",
    .common = APP_STORE | APP_JSON | APP_SILENT,
    .run = rewind_run,
};
