/* quipu fork: a new session that shares the history of another one up to a message. */
#include "fork.h"

static const app_option fork_options[] = {
    {.name = "at", .value = "SEQ", .help = "share messages up to this one; default: all"},
    {.name = "agent", .value = "ID", .help = "agent of the new session; default: the parent's"},
    {.name = "model", .value = "NAME", .help = "model of the new session; default: the parent's"},
    {.name = NULL},
};

/* Without --at the fork is at the newest message. An existing key is reported under the new
 * name. */
static int fork_run(const app_call *call)
{
    const quipu_str key = app_argument(call, 0);
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};
    int64_t seq = -1;
    int code;

    if (!app_number(call, "at", 0, INT64_MAX, &seq)) {
        return APP_USAGE;
    }
    values.key = app_argument(call, 1);
    values.agent_id = app_text_value(call, "agent");
    values.model = app_text_value(call, "model");
    code = app_open(call, APP_NEED_WRITE, &store);
    if (code == APP_OK && seq < 0) {
        code = app_seq_newest(call, store, key, &seq);
    }
    if (code == APP_OK) {
        quipu_status status = quipu_session_fork(store, key, seq, &values, NULL, NULL, &error);
        const quipu_str about = status == QUIPU_EXISTS ? values.key : key;
        code = status == QUIPU_OK ? APP_OK : app_fail_session(call, about, status, &error);
    }
    quipu_close(store);
    if (code == APP_OK) {
        app_fork_print(call, values.key, seq);
    }
    return code;
}

const app_verb app_verb_fork = {
    .name = "fork",
    .group = APP_GROUP_WRITE,
    .arguments = "KEY NEW_KEY",
    .arguments_min = 2,
    .arguments_max = 2,
    .summary = "create a session that shares the history of another one",
    .note = "Examples:\n"
            "  quipu fork trip trip/by-bus\n"
            "  quipu fork trip trip/by-train --at 2",
    .common = APP_STORE | APP_ADDS | APP_JSON | APP_SILENT,
    .options = fork_options,
    .run = fork_run,
};
