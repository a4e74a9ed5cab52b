/* quipu memory run, and memory status: a worker in this process, and where all of them stand. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "provider.h"
#include "render.h"

#define MEMORY_RUN_PASS_MS 30000    /* how long one pass may take... */
#define MEMORY_RUN_MODEL_MS 1800000 /* ...and one that asks a model */
#define MEMORY_RUN_WORKER_SIZE 128
#define MEMORY_RUN_MICROS 1e6 /* costs are millionths of a dollar */

/* --app, --user, --tokens and the key, of run and status. */
static int memory_run_options(const app_call *call, quipu_memory_options *ret)
{
    *ret = (quipu_memory_options)QUIPU_MEMORY_OPTIONS_INIT;
    ret->session_key = app_argument(call, 1);
    ret->app_name = app_text_value(call, "app");
    ret->user_id = app_text_value(call, "user");
    if (ret->session_key.p != NULL && (ret->app_name.p != NULL || ret->user_id.p != NULL)) {
        return app_usage(call, "give a key, or --app and --user, not both");
    }
    if (ret->user_id.p != NULL && ret->app_name.p == NULL) {
        return app_usage(call, "--user needs --app: a user is a user of an app");
    }
    return app_number(call, "tokens", 1, INT32_MAX, &ret->observe_tokens) ? APP_OK : APP_USAGE;
}

/* Reports the first of some options that is given, which need `wanted`. */
static int memory_run_needs(const app_call *call, const char *const *options, size_t count,
                            const char *wanted)
{
    for (size_t i = 0; i < count; i++) {
        if (app_given(call, options[i])) {
            return app_usage(call, "--%s is about a model: give %s, too", options[i], wanted);
        }
    }
    return APP_OK;
}

/* The file that an option names, byte for byte: its SHA-256 is in the origin of what comes of it.
 * `buffer` has QUIPU_MEMORY_PROMPT_MAX + 1 bytes. */
static int memory_run_prompt(const app_call *call, const char *option, char *buffer,
                             quipu_str *ret_prompt)
{
    const char *path = app_value(call, option);
    int code = APP_OK;
    FILE *file;
    size_t n;

    if (path == NULL) {
        return APP_OK;
    }
    file = app_input_open(call, path);
    if (file == NULL) {
        return errno == ENOENT ? APP_NOT_FOUND : APP_FAILURE;
    }
    n = fread(buffer, 1, QUIPU_MEMORY_PROMPT_MAX + 1, file);
    if (ferror(file) != 0) {
        code = app_fail_errno(call, path);
    } else if (n == 0) {
        code = app_usage(call, "the prompt in \"%s\" is empty", path);
    } else if (n > QUIPU_MEMORY_PROMPT_MAX) {
        code = app_usage(call, "the prompt in \"%s\" is longer than %d bytes", path,
                         QUIPU_MEMORY_PROMPT_MAX);
    }
    app_input_close(file);
    *ret_prompt = (quipu_str){buffer, n};
    return code;
}

int memory_prompts_read(const app_call *call, memory_prompts *texts, quipu_memory_options *options)
{
    int code = memory_run_prompt(call, "observer-prompt", texts->observe, &options->observe_prompt);

    return code == APP_OK ? memory_run_prompt(call, "reflector-prompt", texts->reflect,
                                              &options->reflect_prompt)
                          : code;
}

/* The options of --embed. */
static void memory_run_flags(const app_call *call, quipu_memory_options *options)
{
    options->flags |= app_given(call, "embed-only") ? QUIPU_MEMORY_RUN_EMBED_ONLY : 0;
    options->flags |= app_given(call, "replace") ? QUIPU_MEMORY_RUN_EMBED_REPLACE : 0;
}

/* --model and --embed, and what belongs to them, of run; close the provider, which serves both.
 * Without a model the rules observe. */
static int memory_run_model(const app_call *call, quipu_memory_options *options,
                            quipu_provider **ret_provider)
{
    static const char *const asking[] = {"reflect", "ask", "observer-prompt", "reflector-prompt"};
    static const char *const embedding[] = {"embed-only", "replace"};
    static const char *const both[] = {"base-url", "provider", "key-file", "key-env"};
    int code = APP_OK;

    options->model = app_text_value(call, "model");
    options->embed_model = app_text_value(call, "embed");
    if (options->model.n == 0) {
        code = memory_run_needs(call, asking, 4, "--model");
    }
    if (code == APP_OK && options->embed_model.n == 0) {
        code = memory_run_needs(call, embedding, 2, "--embed");
    }
    if (code == APP_OK && options->model.n + options->embed_model.n == 0) {
        code = memory_run_needs(call, both, 4, "--model or --embed");
    }
    if (code != APP_OK || options->model.n + options->embed_model.n == 0) {
        return code;
    }
    memory_run_flags(call, options);
    if (!app_number(call, "reflect", 0, INT32_MAX, &options->reflect_tokens) ||
        !app_number(call, "ask", QUIPU_MEMORY_ASK_TOKENS_MIN, QUIPU_MEMORY_ASK_TOKENS_MAX,
                    &options->ask_tokens)) {
        return APP_USAGE;
    }
    if (app_given(call, "reflect") && options->reflect_tokens == 0) {
        options->reflect_tokens = -1;
    }
    code = app_provider_open(call, ret_provider);
    options->provider = options->model.n > 0 ? *ret_provider : NULL;
    options->embedder = options->embed_model.n > 0 ? *ret_provider : NULL;
    return code;
}

/* ---- run -------------------------------------------------------------------------------------
 */

static void memory_run_print(const app_call *call, const quipu_memory_ran *ran)
{
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_int(&json, "sessions", ran->sessions);
        app_json_int(&json, "messages", ran->messages);
        app_json_int(&json, "observations", ran->observations);
        app_json_int(&json, "repeats", ran->repeats);
        app_json_int(&json, "lost", ran->lost);
        app_json_int(&json, "failed", ran->failed);
        app_json_int(&json, "reflections", ran->reflections);
        app_json_int(&json, "condensed", ran->condensed);
        app_json_int(&json, "model_calls", ran->model_calls);
        app_json_int(&json, "embedded", ran->embedded);
        app_json_bool(&json, "more", ran->more);
        app_json_close(&json, '}');
    } else {
        printf("%" PRId64 " sessions, %" PRId64 " messages: %" PRId64 " observations, %" PRId64
               " said again",
               ran->sessions, ran->messages, ran->observations, ran->repeats);
        if (ran->reflections > 0) {
            printf(", %" PRId64 " condensed into %" PRId64 " reflections", ran->condensed,
                   ran->reflections);
        }
        if (ran->embedded > 0) {
            printf(", %" PRId64 " messages embedded", ran->embedded);
        }
        if (ran->failed > 0 || ran->lost > 0) {
            printf("; %" PRId64 " failed, %" PRId64 " taken over", ran->failed, ran->lost);
        }
        printf("\n");
    }
    fflush(stdout);
}

/* Everything that is due, in as many passes as it takes: a line for each. A pass that cannot begin
 * because another process holds the store fails when its time is over. */
static quipu_status memory_run_once(const app_call *call, quipu_store *store,
                                    const quipu_memory_options *options, quipu_cancel *cancel,
                                    quipu_error *error)
{
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status;

    within.deadline_ms = options->provider != NULL || options->embedder != NULL
                             ? MEMORY_RUN_MODEL_MS
                             : MEMORY_RUN_PASS_MS;
    within.cancel = cancel;
    do {
        status = quipu_memory_run(store, options, &within, &ran, error);
        if (status == QUIPU_OK) {
            memory_run_print(call, &ran);
        }
    } while (status == QUIPU_OK && ran.more);
    return status;
}

/* The on_pass of --follow. */
static void memory_run_passed(void *ctx, const quipu_memory_ran *ran, const quipu_error *error)
{
    const app_call *const *call = ctx;

    if (error == NULL) { /* otherwise the run ends with it */
        memory_run_print(*call, ran);
    }
}

/* Until a signal comes. */
static quipu_status memory_run_follow(const app_call *call, quipu_store *store,
                                      quipu_memory_options *options, quipu_cancel *cancel,
                                      quipu_error *error)
{
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;

    options->flags |= QUIPU_MEMORY_RUN_FOLLOW;
    options->on_pass = memory_run_passed;
    options->pass_ctx = &call;
    within.deadline_ms = -1;
    within.cancel = cancel;
    return quipu_memory_run(store, options, &within, NULL, error);
}

int memory_work(const app_call *call, quipu_store *store)
{
    char worker[MEMORY_RUN_WORKER_SIZE];
    char host[64] = "";
    memory_prompts texts;
    quipu_memory_options options;
    quipu_provider *provider = NULL;
    quipu_cancel *cancel;
    quipu_error error = {0};
    quipu_status status;
    int code = memory_run_options(call, &options);

    cancel = app_signals_begin(); /* before libcurl starts threads, which inherit the mask */
    if (code == APP_OK) {
        code = memory_prompts_read(call, &texts, &options);
    }
    if (code == APP_OK) {
        code = memory_run_model(call, &options, &provider);
    }
    if (code != APP_OK) {
        return code;
    }
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(worker, sizeof(worker), "%s:%ld", host[0] != '\0' ? host : "quipu", (long)getpid());
    options.worker = quipu_cstr(worker);
    status = app_given(call, "follow") ? memory_run_follow(call, store, &options, cancel, &error)
                                       : memory_run_once(call, store, &options, cancel, &error);
    quipu_provider_close(provider);
    if (status == QUIPU_OK) {
        return APP_OK;
    }
    return options.session_key.p != NULL
               ? app_fail_session(call, options.session_key, status, &error)
               : app_fail(call, "memory", status, &error);
}

/* ---- status ----------------------------------------------------------------------------------
 */

static void memory_run_status_json(const quipu_memory_progress *item)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_text(&json, "key", item->session_key);
    app_json_text(&json, "scope", item->scope);
    app_json_int(&json, "watermark", item->watermark);
    app_json_int(&json, "last", item->last_seq);
    app_json_int(&json, "pending_messages", item->pending_messages);
    app_json_int(&json, "pending_tokens", item->pending_tokens);
    app_json_int(&json, "observe_tokens", item->observe_tokens);
    app_json_int(&json, "generation", item->generation);
    app_json_int(&json, "observations", item->observations);
    app_json_int(&json, "reflections", item->reflections);
    app_json_int(&json, "standing_tokens", item->standing_tokens);
    app_json_int(&json, "fence", item->fence);
    app_json_int(&json, "tries", item->tries);
    if (item->owner.p != NULL) {
        app_json_text(&json, "owner", item->owner);
    }
    if (item->has_lease_until) {
        app_json_time(&json, "lease_until", item->lease_until);
    }
    if (item->has_next_at) {
        app_json_time(&json, "next_at", item->next_at);
    }
    if (item->last_error.p != NULL) {
        app_json_text(&json, "last_error", item->last_error);
    }
    if (item->reflect_error.p != NULL) {
        app_json_text(&json, "reflect_error", item->reflect_error);
    }
    app_json_int(&json, "model_calls", item->model_calls);
    app_json_int(&json, "model_input", item->model_input);
    app_json_int(&json, "model_output", item->model_output);
    app_json_int(&json, "model_cost_micros", item->model_cost);
    app_json_int(&json, "model_unpriced", item->model_unpriced);
    app_json_close(&json, '}');
}

/* One line a session, and one more for a failure. */
static void memory_run_status_print(const app_call *call, const quipu_memory_progress *item)
{
    const bool colours = app_colours(call);
    char until[QUIPU_TIME_TEXT_SIZE];
    char pending[APP_NUMBER_SIZE * 4] = "";
    char rest[APP_MESSAGE_MAX];

    if (item->pending_messages > 0) {
        (void)snprintf(pending, sizeof(pending),
                       ", %" PRId64 " messages and %" PRId64 " tokens pending",
                       item->pending_messages, item->pending_tokens);
    }
    (void)snprintf(rest, sizeof(rest),
                   "observed to %" PRId64 " of %" PRId64 "%s  generation %" PRId64 "  %" PRId64
                   " observations, %" PRId64 " reflections, %" PRId64 " standing tokens",
                   item->watermark, item->last_seq, pending, item->generation, item->observations,
                   item->reflections, item->standing_tokens);
    app_key_line(colours, item->session_key, quipu_cstr(rest));
    if (item->owner.p != NULL && item->has_lease_until) {
        app_time_text(item->lease_until, until, sizeof(until));
        printf("    leased to ");
        app_put(stdout, item->owner);
        printf(" until %s\n", until);
    }
    if (item->model_calls > 0) {
        printf("    asked a model %" PRId64 " times: %" PRId64 " tokens in, %" PRId64
               " out, about $%.4f",
               item->model_calls, item->model_input, item->model_output,
               (double)item->model_cost / MEMORY_RUN_MICROS);
        if (item->model_unpriced > 0) {
            printf(", without %" PRId64 " questions to a model of unknown price",
                   item->model_unpriced);
        }
        printf("\n");
    }
    if (item->reflect_error.p != NULL) {
        printf("    %sreflecting failed: ", app_style(colours, APP_RED));
        app_put(stdout, item->reflect_error);
        printf("%s\n", app_style(colours, APP_PLAIN));
    }
    if (item->last_error.p != NULL) {
        printf("    %s%" PRId64 " tries, the last: ", app_style(colours, APP_RED), item->tries);
        app_put(stdout, item->last_error);
        printf("%s\n", app_style(colours, APP_PLAIN));
    }
}

int memory_status(const app_call *call, quipu_store *store)
{
    quipu_memory_status_list *list = NULL;
    quipu_memory_options options;
    quipu_error error = {0};
    quipu_status status;
    int code = memory_run_options(call, &options);

    if (code != APP_OK) {
        return code;
    }
    status = quipu_memory_status(store, &options, NULL, &list, &error);
    if (status != QUIPU_OK) {
        return options.session_key.p != NULL
                   ? app_fail_session(call, options.session_key, status, &error)
                   : app_fail(call, "memory", status, &error);
    }
    for (size_t i = 0; i < list->sessions.count; i++) {
        const quipu_memory_progress *item = quipu_memory_progress_at(list->sessions, i);

        if (app_given(call, "json")) {
            memory_run_status_json(item);
        } else {
            memory_run_status_print(call, item);
        }
    }
    if (list->more) {
        app_report(call, "more than %d sessions; name a key, or --app", QUIPU_PAGE_MAX);
    }
    quipu_free(list);
    return APP_OK;
}
