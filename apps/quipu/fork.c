/* Shared by fork, rewind and compact (fork.h). No state. */
#include "fork.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* 0 is allowed: a fork before the first message. */
bool app_seq_argument(const app_call *call, int number, int64_t *ret_seq)
{
    const char *text = call->arguments[number];
    char *end = NULL;
    long long seq;

    errno = 0;
    seq = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || seq < 0) {
        app_report(call, "\"%s\" is not a message number; \"quipu show\" lists them", text);
        return false;
    }
    *ret_seq = seq;
    return true;
}

/* 0 for a session without messages. */
int app_seq_newest(const app_call *call, quipu_store *store, quipu_str key, int64_t *ret_seq)
{
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status = app_session_header(store, key, NULL, &history, &error);

    if (status != QUIPU_OK) {
        return app_fail_session(call, key, status, &error);
    }
    *ret_seq = history->session->next_seq - 1;
    quipu_free(history);
    return APP_OK;
}

/* The parent is the verb's first argument. */
void app_fork_print(const app_call *call, quipu_str key, int64_t seq)
{
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_text(&json, "key", key);
        app_json_cstr(&json, "parent", call->arguments[0]);
        app_json_int(&json, "fork_seq", seq);
        app_json_close(&json, '}');
        return;
    }
    app_put(stdout, key);
    fputs(" shares the past of ", stdout);
    app_put(stdout, app_argument(call, 0));
    printf(" up to message %" PRId64 "\n", seq);
}
