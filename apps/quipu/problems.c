/* Shared by verify and repair: runs the check, prints each problem as text or JSON, then the
 * totals.
 *
 * The library calls back on this thread. Exit code: APP_FAILURE while a problem remains. */
#include "problems.h"

#include <inttypes.h>

/* How often the check of the file's structure reads each byte; measured, an upper bound. */
#define PROBLEMS_PASSES 2

/* ---- progress ---------------------------------------------------------------------------------
 */

/* The first checked session means that the file's structure is done: switches to the second bar. */
static void problems_on_session(void *ctx, int64_t done)
{
    app_checking *checking = ctx;

    if (checking->file.look != NULL) {
        app_watch_end(&checking->file);
        checking->file.look = NULL;
        app_progress_begin(&checking->sessions, checking->call, "checking", "sessions",
                           checking->total);
    }
    app_progress_to(&checking->sessions, done);
}

/* Ctrl-C cancels the check; problems found so far have been printed. */
void app_checking_begin(app_checking *checking, const app_call *call, quipu_store *store,
                        quipu_call_options *within)
{
    const quipu_stats stats = app_progress_stats(call, store);

    *checking = (app_checking){.call = call, .total = stats.sessions};
    within->progress = problems_on_session;
    within->progress_ctx = checking;
    within->cancel = app_signals_begin();
    app_watch_begin(&checking->file, call, "checking the file", NULL, NULL,
                    PROBLEMS_PASSES * stats.file_bytes);
}

void app_checking_pause(app_checking *checking)
{
    app_watch_end(&checking->file);
    app_progress_end(&checking->sessions);
}

/* ---- problems ---------------------------------------------------------------------------------
 */

typedef struct problems_view {
    bool json;
    bool colours;
    app_checking checking;
    app_json out;
} problems_view;

/* The name of a kind in output; "other" for one that this program does not know. */
static const char *problems_kind(quipu_problem_kind kind)
{
    static const char *const names[] = {
        [QUIPU_PROBLEM_FILE] = "file",         [QUIPU_PROBLEM_SEQ] = "seq",
        [QUIPU_PROBLEM_NEXT_SEQ] = "next-seq", [QUIPU_PROBLEM_COUNT] = "count",
        [QUIPU_PROBLEM_TOTALS] = "totals",     [QUIPU_PROBLEM_MESSAGE] = "message",
        [QUIPU_PROBLEM_VIEW] = "view",         [QUIPU_PROBLEM_FORK] = "fork",
        [QUIPU_PROBLEM_STATE] = "state",       [QUIPU_PROBLEM_SEARCH] = "search",
        [QUIPU_PROBLEM_DELETED] = "deleted",   [QUIPU_PROBLEM_SESSION] = "session",
        [QUIPU_PROBLEM_MEMORY] = "memory",     [QUIPU_PROBLEM_FEED] = "feed",
        [QUIPU_PROBLEM_FACTOR] = "factor",     [QUIPU_PROBLEM_COUNTER] = "counter"};
    const size_t number = (size_t)kind;

    return number > 0 && number < sizeof(names) / sizeof(names[0]) ? names[number] : "other";
}

/* One line, or one element of the JSON array. */
static void problems_on_problem(void *ctx, const quipu_problem *problem)
{
    problems_view *view = ctx;

    app_checking_pause(&view->checking);
    if (view->json) {
        app_json_open(&view->out, NULL, '{');
        app_json_cstr(&view->out, "kind", problems_kind(problem->kind));
        app_json_text(&view->out, "tenant", problem->tenant);
        app_json_text(&view->out, "session", problem->session_key);
        app_json_int(&view->out, "seq", problem->seq);
        app_json_text(&view->out, "text", problem->text);
        app_json_bool(&view->out, "repaired", problem->repaired);
        app_json_close(&view->out, '}');
        return;
    }
    printf("%s%-8s%s ", app_style(view->colours, problem->repaired ? APP_GREEN : APP_RED),
           problem->repaired ? "repaired" : "damaged", app_style(view->colours, APP_PLAIN));
    printf("%-8s ", problems_kind(problem->kind));
    if (problem->session_key.p != NULL) {
        app_put(stdout, problem->session_key);
        fputs(problem->seq > 0 ? " " : ": ", stdout);
    }
    if (problem->seq > 0) {
        printf("message %" PRId64 ": ", problem->seq);
    }
    app_put(stdout, problem->text);
    fputc('\n', stdout);
}

/* The totals; in JSON they follow the array of problems. */
static void problems_print(problems_view *view, const quipu_verified *verified)
{
    const int64_t left = verified->problems - verified->repaired;

    if (view->json) {
        app_json_int(&view->out, "sessions", verified->sessions);
        app_json_int(&view->out, "messages", verified->messages);
        app_json_int(&view->out, "found", verified->problems);
        app_json_int(&view->out, "repaired", verified->repaired);
        return;
    }
    printf("%" PRId64 " sessions, %" PRId64 " messages: ", verified->sessions, verified->messages);
    if (verified->problems == 0) {
        printf("no problems\n");
    } else {
        printf("%" PRId64 " found, %" PRId64 " repaired, %" PRId64 " left\n", verified->problems,
               verified->repaired, left);
    }
}

/* A check that fails in the middle still closes its JSON document. */
int app_problems(const app_call *call, quipu_store *store, bool repair)
{
    problems_view view = {
        .json = app_given(call, "json"), .colours = app_colours(call), .out = {.out = stdout}};
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    app_checking_begin(&view.checking, call, store, &within);
    if (view.json) {
        app_json_open(&view.out, NULL, '{');
        app_json_open(&view.out, "problems", '[');
    }
    status = quipu_store_verify(store, repair ? QUIPU_VERIFY_REPAIR : 0, problems_on_problem, &view,
                                &within, &verified, &error);
    app_checking_pause(&view.checking);
    if (view.json) {
        app_json_close(&view.out, ']');
    }
    if (status == QUIPU_OK) {
        problems_print(&view, &verified);
    } else if (view.json) {
        app_json_cstr(&view.out, "failed", error.message);
    }
    if (view.json) {
        app_json_close(&view.out, '}');
    }
    if (status != QUIPU_OK) {
        return app_fail(call, call->verb->name, status, &error);
    }
    return verified.problems > verified.repaired ? APP_FAILURE : APP_OK;
}
