/* quipu rm: deletes sessions. All of them must exist before any is deleted. */
#include <inttypes.h>

#include "app.h"

#define RM_KEYS_MAX 1000 /* sessions of one call */

/* How often deleting reads or writes each byte, roughly; measured. */
#define RM_PASSES 6

static const app_option rm_options[] = {
    {.name = "with-forks", .help = "also delete the forks of the sessions, and their forks"},
    {.name = NULL},
};

/* The number of messages of a session. An expired session can be deleted and counts none. */
static quipu_status rm_look(quipu_store *store, quipu_str key, int64_t *ret_messages,
                            quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status = app_session_header(store, key, NULL, &history, reterr);

    *ret_messages = status == QUIPU_OK ? history->session->message_count : 0;
    quipu_free(history);
    return status == QUIPU_EXPIRED ? QUIPU_OK : status;
}

/* Checks that all sessions exist, then asks. *ret_messages is what will be deleted. */
static int rm_ask(const app_call *call, quipu_store *store, int64_t *ret_messages)
{
    const char *forks = app_given(call, "with-forks") ? ", and all forks" : "";
    int64_t messages = 0;

    for (int i = 0; i < call->argument_count; i++) {
        quipu_error error = {0};
        int64_t n = 0;
        quipu_status status = rm_look(store, app_argument(call, i), &n, &error);
        if (status != QUIPU_OK) {
            return app_fail_session(call, app_argument(call, i), status, &error);
        }
        messages += n;
    }
    *ret_messages = messages;
    return call->argument_count == 1
               ? app_confirm(call, "delete the session \"%s\" with %" PRId64 " message%s%s",
                             call->arguments[0], messages, messages == 1 ? "" : "s", forks)
               : app_confirm(call, "delete %d sessions with %" PRId64 " messages%s",
                             call->argument_count, messages, forks);
}

/* Deletes one session after the other; the first failure stops. */
static int rm_each(const app_call *call, quipu_store *store, int64_t *removed)
{
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_delete_options options = QUIPU_DELETE_OPTIONS_INIT;

    within.cancel = app_signals_begin();
    options.flags = app_given(call, "with-forks") ? QUIPU_DELETE_TREE : 0;
    for (int i = 0; i < call->argument_count; i++) {
        const quipu_str key = app_argument(call, i);
        quipu_error error = {0};
        int64_t n = 0;
        quipu_status status = quipu_session_delete(store, key, &options, &within, &n, &error);
        if (status != QUIPU_OK) {
            return app_fail_session(call, app_argument(call, i), status, &error);
        }
        *removed += n;
    }
    return APP_OK;
}

/* A long session takes long to delete without reporting progress: the bar polls the bytes read and
 * written. */
static int rm_delete(const app_call *call, quipu_store *store, int64_t messages, int64_t *removed)
{
    const quipu_stats stats = app_progress_stats(call, store);
    const double share = stats.messages > 0 ? (double)messages / (double)stats.messages : 0;
    app_watch watch;
    int code;

    (void)app_signals_begin();
    app_watch_begin(&watch, call, "deleting", NULL, NULL,
                    (int64_t)(share * RM_PASSES * (double)stats.file_bytes));
    code = rm_each(call, store, removed);
    app_watch_end(&watch);
    return code;
}

/* Check and ask, then delete, then report. */
static int rm_run(const app_call *call)
{
    int64_t messages = 0;
    quipu_store *store = NULL;
    int64_t removed = 0;
    int code = app_open(call, APP_NEED_WRITE, &store);

    if (code == APP_OK) {
        code = rm_ask(call, store, &messages);
    }
    if (code == APP_OK) {
        code = rm_delete(call, store, messages, &removed);
    }
    quipu_close(store);
    if (code == APP_OK) {
        app_print_deleted(call, removed);
    }
    return code;
}

const app_verb app_verb_rm = {
    .name = "rm",
    .group = APP_GROUP_WRITE,
    .arguments = "KEY...",
    .arguments_min = 1,
    .arguments_max = RM_KEYS_MAX,
    .summary = "delete sessions",
    .note = "Examples:\n"
            "  quipu rm notes --yes\n"
            "  quipu rm --yes trip/other",
    .common = APP_STORE | APP_JSON | APP_YES | APP_SILENT,
    .options = rm_options,
    .run = rm_run,
};
