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
        [QUIPU_PROBLEM_FACTOR] = "factor",     [QUIPU_PROBLEM_COUNTER] = "counter",
        [QUIPU_PROBLEM_HASH] = "hash",         [QUIPU_PROBLEM_LOST] = "lost"};
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

/* The state of the sessions that the heads name. */
static void problems_print_compared(problems_view *view, const quipu_compared *compared)
{
    if (view->json) {
        app_json_open(&view->out, "against", '{');
        app_json_int(&view->out, "sessions", compared->sessions);
        app_json_int(&view->out, "proved", compared->proved);
        app_json_int(&view->out, "pruned", compared->pruned);
        app_json_int(&view->out, "unhashed", compared->unhashed);
        app_json_int(&view->out, "removed", compared->removed);
        app_json_int(&view->out, "found", compared->problems);
        app_json_close(&view->out, '}');
        return;
    }
    printf("%" PRId64 " sessions were known: %" PRId64 " proved", compared->sessions,
           compared->proved);
    if (compared->pruned > 0) {
        printf(", %" PRId64 " pruned since", compared->pruned);
    }
    if (compared->unhashed > 0) {
        printf(", %" PRId64 " without a hash", compared->unhashed);
    }
    if (compared->removed > 0) {
        printf(", %" PRId64 " deleted since", compared->removed);
    }
    printf(", %" PRId64 " lost or changed\n", compared->problems);
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
        app_json_int(&view->out, "unhashed", verified->unhashed);
        return;
    }
    printf("%" PRId64 " sessions, %" PRId64 " messages: ", verified->sessions, verified->messages);
    if (verified->problems == 0) {
        printf("no problems\n");
    } else {
        printf("%" PRId64 " found, %" PRId64 " repaired, %" PRId64 " left\n", verified->problems,
               verified->repaired, left);
    }
    if (verified->unhashed > 0) {
        printf("%" PRId64
               " messages are in no hash chain: an older version wrote them, or a repair "
               "began the chain anew\n",
               verified->unhashed);
    }
}

/* A quipu_read_fn over the stream of what was known. */
static quipu_status problems_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    FILE *file = ctx;

    *ret_n = fread(ret_bytes, 1, size, file);
    return *ret_n == 0 && ferror(file) ? QUIPU_IO : QUIPU_OK;
}

/* The findings of a check. `what` names the part that failed. */
typedef struct problems_done {
    quipu_verified verified;
    quipu_compared compared;
    const char *what;
} problems_done;

/* Runs the check, then the comparison with what was known. */
static quipu_status problems_check(problems_view *view, quipu_store *store, bool repair,
                                   const app_known *known, problems_done *done, quipu_error *error)
{
    const app_call *call = view->checking.call;
    quipu_verify_options checks = QUIPU_VERIFY_OPTIONS_INIT;
    quipu_verify_against_options compares = QUIPU_VERIFY_AGAINST_OPTIONS_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status;

    checks.flags = repair ? QUIPU_VERIFY_REPAIR : 0;
    checks.on_problem = compares.on_problem = problems_on_problem;
    checks.problem_ctx = compares.problem_ctx = view;
    done->what = call->verb->name;
    app_checking_begin(&view->checking, call, store, &within);
    status = quipu_store_verify(store, &checks, &within, &done->verified, error);
    if (status == QUIPU_OK && known != NULL) {
        done->what = app_value(call, "against");
        within.progress = NULL; /* the bar has ended with the sessions */
        compares.encryption_key = known->key;
        compares.encryption_key_ctx = known->key_ctx;
        status = quipu_store_verify_against(store, &compares, problems_read, known->file, &within,
                                            &done->compared, error);
    }
    app_checking_pause(&view->checking);
    return status;
}

/* A check that fails in the middle still closes its JSON document. */
int app_problems(const app_call *call, quipu_store *store, bool repair, const app_known *known)
{
    problems_view view = {.json = app_given(call, "json"),
                          .colours = app_colours(call),
                          .checking = {.call = call},
                          .out = {.out = stdout}};
    problems_done done = {.verified = QUIPU_VERIFIED_INIT, .compared = QUIPU_COMPARED_INIT};
    quipu_error error = {0};
    quipu_status status;

    if (view.json) {
        app_json_open(&view.out, NULL, '{');
        app_json_open(&view.out, "problems", '[');
    }
    status = problems_check(&view, store, repair, known, &done, &error);
    if (view.json) {
        app_json_close(&view.out, ']');
    }
    if (status == QUIPU_OK) {
        problems_print(&view, &done.verified);
        if (known != NULL) {
            problems_print_compared(&view, &done.compared);
        }
    } else if (view.json) {
        app_json_cstr(&view.out, "failed", error.message);
    }
    if (view.json) {
        app_json_close(&view.out, '}');
    }
    if (status != QUIPU_OK) {
        return app_fail(call, done.what, status, &error);
    }
    if (!repair && done.verified.problems > 0) {
        app_report(call,
                   "copy the file first; then \"quipu repair\" fixes what can be derived from "
                   "the messages");
    }
    return done.verified.problems > done.verified.repaired || done.compared.problems > 0
               ? APP_FAILURE
               : APP_OK;
}
