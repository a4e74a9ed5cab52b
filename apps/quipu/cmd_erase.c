/* quipu erase: deletes a session, or everything of a user, and removes every byte of it from the
 * file. Prints a receipt, which also names copies that are out of reach. */
#include <inttypes.h>

#include "app.h"

/* How often rewriting a file reads or writes each byte, through the copy, the log and back;
 * measured. */
#define ERASE_PASSES 7

static const app_option erase_options[] = {
    {.name = "user", .value = "ID", .help = "all sessions and the state of this user"},
    {.name = "app", .value = "NAME", .help = "with --user: of this app only"},
    {.name = "quick", .help = "do not rewrite the file: enough when only quipu has written to it"},
    {.name = NULL},
};

/* ---- the receipt ------------------------------------------------------------------------------
 */

/* A list of texts as a JSON array. */
static void erase_json_texts(app_json *json, const char *name, const quipu_str *texts, size_t n)
{
    app_json_open(json, name, '[');
    for (size_t i = 0; i < n; i++) {
        app_json_text(json, NULL, texts[i]);
    }
    app_json_close(json, ']');
}

/* The receipt as one object. */
static void erase_print_json(const quipu_erasure *receipt)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    erase_json_texts(&json, "sessions", receipt->sessions, receipt->session_count);
    erase_json_texts(&json, "forks", receipt->forks, receipt->fork_count);
    app_json_int(&json, "hidden", receipt->hidden);
    app_json_int(&json, "messages", receipt->messages);
    app_json_int(&json, "states", receipt->states);
    app_json_int(&json, "memories", receipt->memories);
    erase_json_texts(&json, "backups", receipt->backups, receipt->backup_count);
    erase_json_texts(&json, "kept", receipt->kept, receipt->kept_count);
    app_json_close(&json, '}');
}

/* One line for each text, after its label. */
static void erase_print_texts(const char *what, const quipu_str *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf("%-8s ", what);
        app_put(stdout, texts[i]);
        fputc('\n', stdout);
    }
}

/* The receipt as text, keys first. */
static void erase_print(const quipu_erasure *receipt)
{
    erase_print_texts("session", receipt->sessions, receipt->session_count);
    erase_print_texts("fork", receipt->forks, receipt->fork_count);
    printf("erased: %zu sessions, %zu forks, %" PRId64 " hidden sessions, %" PRId64
           " messages, %" PRId64 " keys of state, %" PRId64 " memories\n",
           receipt->session_count, receipt->fork_count, receipt->hidden, receipt->messages,
           receipt->states, receipt->memories);
    if (receipt->session_count == 0) {
        printf("there was no such session; the file was rewritten all the same\n");
    }
    erase_print_texts("backup", receipt->backups, receipt->backup_count);
    erase_print_texts("kept by", receipt->kept, receipt->kept_count);
    printf("%s\n", receipt->backup_count > 0
                       ? "these backups, and any exports, may still contain the text"
                       : "exports and backups elsewhere are out of reach");
}

/* ---- the verb ---------------------------------------------------------------------------------
 */

/* Runs the erasure with a bar over the bytes read and written. */
static quipu_status erase_do(const app_call *call, quipu_store *store, quipu_erasure **ret_receipt,
                             quipu_error *reterr)
{
    const bool quick = app_given(call, "quick");
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status;
    app_watch watch;

    within.cancel = app_signals_begin();
    app_watch_begin(&watch, call, "erasing", NULL, NULL,
                    quick ? 0 : ERASE_PASSES * app_progress_stats(call, store).file_bytes);
    options.flags = quick ? QUIPU_ERASE_QUICK : 0;
    if (app_given(call, "user")) {
        options.app_name = app_text_value(call, "app");
        options.user_id = app_text_value(call, "user");
    } else {
        options.key = app_argument(call, 0);
    }
    status = quipu_erase(store, &options, &within, ret_receipt, reterr);
    app_watch_end(&watch);
    return status;
}

/* Asks before it deletes; a key and --user exclude each other. */
static int erase_run(const app_call *call)
{
    const bool user = app_given(call, "user");
    const char *what = user ? app_value(call, "user") : call->arguments[0];
    quipu_erasure *receipt = NULL;
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status;
    int code;

    if (user == (call->argument_count > 0) || (app_given(call, "app") && !user)) {
        return app_usage(call, "give either a session's KEY or --user ID (with --app NAME)");
    }
    code = app_open(call, APP_NEED_WRITE, &store);
    if (code == APP_OK) {
        code = user ? app_confirm(call, "erase all sessions of the user \"%s\" for good", what)
                    : app_confirm(call, "erase the session \"%s\" and its forks for good", what);
    }
    if (code == APP_OK) {
        status = erase_do(call, store, &receipt, &error);
        code = status == QUIPU_OK ? APP_OK : app_fail(call, what, status, &error);
    }
    quipu_close(store);
    if (code == APP_OK && app_given(call, "json")) {
        erase_print_json(receipt);
    } else if (code == APP_OK) {
        erase_print(receipt);
    }
    /* As rm does. The file is rewritten all the same: its session may be deleted already. */
    if (code == APP_OK && !user && receipt->session_count == 0) {
        code = app_fail_session(call, quipu_cstr(what), QUIPU_NOT_FOUND, NULL);
    }
    quipu_free(receipt);
    return code;
}

const app_verb app_verb_erase = {
    .name = "erase",
    .group = APP_GROUP_WRITE,
    .arguments = "[KEY]",
    .arguments_max = 1,
    .summary = "delete a session or all of a user's, leaving no byte of the text in the file",
    .note = "Examples:\n"
            "  quipu erase notes --yes\n"
            "  quipu erase --yes --json trip/other > receipt.json",
    .common = APP_STORE | APP_JSON | APP_YES | APP_SILENT,
    .options = erase_options,
    .run = erase_run,
};
