/* quipu copy: all of a store into another one, of any engine, then both are compared. An
 * interrupted copy continues when it is run again. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "app.h"
#include "mask.h"

typedef struct copy_view {
    const app_call *call;
    app_progress progress;
    bool checking;
} copy_view;

/* The library's progress callback; the second phase gets a bar of its own. */
static void copy_on_progress(void *ctx, const quipu_copy_progress *progress)
{
    copy_view *view = ctx;

    if (progress->checking && !view->checking) {
        app_progress_end(&view->progress);
        app_progress_begin(&view->progress, view->call, "checking", "lines", progress->lines_total);
        view->checking = true;
    }
    app_progress_to(&view->progress, progress->lines);
}

/* Opens the store that argument `number` names, not the one of --store. */
static int copy_open(const app_call *call, int number, app_need need, quipu_store **ret_store)
{
    quipu_open_options options;
    quipu_error error = {0};
    quipu_status status;

    if (!app_open_options(call, need, &options)) {
        return APP_USAGE;
    }
    status = quipu_open(call->arguments[number], &options, ret_store, &error);
    return status == QUIPU_OK ? APP_OK : app_fail(call, call->arguments[number], status, &error);
}

/* The counts of the target, and the digest that both exports share. */
static void copy_print(const app_call *call, const quipu_copied *copied)
{
    char sha256[2 * QUIPU_SHA256_SIZE + 1];
    char shown[APP_PATH_MAX];
    app_json json = {.out = stdout};

    for (size_t i = 0; i < QUIPU_SHA256_SIZE; i++) {
        snprintf(sha256 + 2 * i, 3, "%02x", (unsigned)copied->sha256[i]);
    }
    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_mask(call->arguments[0], shown, sizeof(shown));
        app_json_cstr(&json, "from", shown);
        app_mask(call->arguments[1], shown, sizeof(shown));
        app_json_cstr(&json, "to", shown);
        app_json_int(&json, "sessions", copied->sessions);
        app_json_int(&json, "messages", copied->messages);
        app_json_int(&json, "states", copied->states);
        app_json_int(&json, "memories", copied->memories);
        app_json_int(&json, "brought", copied->added_sessions);
        app_json_int(&json, "skipped", copied->skipped);
        app_json_int(&json, "bytes", copied->bytes);
        app_json_cstr(&json, "sha256", sha256);
        app_json_close(&json, '}');
        return;
    }
    printf("%" PRId64 " sessions, %" PRId64 " messages, %" PRId64 " keys of state, %" PRId64
           " memories",
           copied->sessions, copied->messages, copied->states, copied->memories);
    if (copied->skipped > 0) {
        printf("; %" PRId64 " of the sessions were copied before", copied->skipped);
    }
    printf("\nboth stores export the same data: sha256 %s\n", sha256);
}

/* Runs the copy; a conflict leaves both stores unchanged. */
static int copy_do(const app_call *call, quipu_store *source, quipu_store *target,
                   quipu_cancel *cancel)
{
    copy_view view = {.call = call};
    quipu_copy_options options = QUIPU_COPY_OPTIONS_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_copied copied = QUIPU_COPIED_INIT;
    quipu_error error = {0};
    const quipu_stats stats = app_progress_stats(call, source);
    quipu_status status;

    app_progress_begin(&view.progress, call, "copying", "lines", stats.sessions + stats.messages);
    options.progress = copy_on_progress;
    options.ctx = &view;
    within.cancel = cancel;
    status = quipu_store_copy(source, target, &options, &within, &copied, &error);
    app_progress_end(&view.progress);
    if (status == QUIPU_OK) {
        copy_print(call, &copied);
        return APP_OK;
    }
    if (status == QUIPU_CANCELLED || status == QUIPU_BUSY) {
        app_report(call, "what was copied so far is stored: run the same command to continue");
    } else if (status == QUIPU_CONFLICT || status == QUIPU_EXISTS) {
        app_report(call, "%s: %s", call->arguments[1], error.message);
        app_report_more(call, "both stores are unchanged; copy into a new one");
        return app_exit_code(status);
    }
    return app_fail(call, call->arguments[1], status, &error);
}

/* Whether both name one store: by the same words, or one file by two paths. */
static bool copy_is_same(const char *from, const char *to)
{
    struct stat one = {0};
    struct stat two = {0};

    return strcmp(from, to) == 0 || (stat(from, &one) == 0 && stat(to, &two) == 0 &&
                                     one.st_dev == two.st_dev && one.st_ino == two.st_ino);
}

/* Signals first, then the stores: opening may take long, too. */
static int copy_run(const app_call *call)
{
    quipu_store *source = NULL;
    quipu_store *target = NULL;
    quipu_cancel *cancel = app_signals_begin();
    int code = APP_OK;

    if (copy_is_same(call->arguments[0], call->arguments[1])) {
        app_report(call, "%s: FROM and TO are the same store; name a new one to copy into",
                   call->arguments[1]);
        return APP_USAGE;
    }
    code = copy_open(call, 0, APP_NEED_READ, &source);
    if (code == APP_OK) {
        code = copy_open(call, 1, APP_NEED_NEW, &target);
    }
    if (code == APP_OK) {
        code = copy_do(call, source, target, cancel);
    }
    quipu_close(target);
    quipu_close(source);
    return code;
}

const app_verb app_verb_copy = {
    .name = "copy",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "FROM TO",
    .arguments_min = 2,
    .arguments_max = 2,
    .summary = "copy a store into another one and compare them; continues when run again",
    .note = "Examples:\n"
            "  quipu copy chats.db copy.db\n"
            "  quipu copy --json chats.db other.db",
    .common = APP_STORES | APP_ADDS | APP_JSON | APP_SILENT,
    .run = copy_run,
};
