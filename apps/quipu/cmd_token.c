/* quipu token: makes, lists and removes the tokens of the server. A token is shown once, when it is
 * made; the file keeps its hash. */
#include <inttypes.h>
#include <string.h>

#include "render.h"
#include "serve.h"

#define TOKEN_DAYS_MAX 36500

static const app_option token_options[] = {
    {.name = "app", .value = "NAME", .help = "new: only the sessions of this app"},
    {.name = "user", .value = "ID", .help = "new: only those of this user of the app"},
    {.name = "verbs",
     .value = "WHICH",
     .choices = "read write both",
     .help = "new: what it may do; default both"},
    {.name = "days", .value = "N", .help = "new: it expires after N days; default: never"},
    {.name = "note", .value = "TEXT", .help = "new: what it is for"},
    SERVE_TOKENS_OPTION,
    {.name = NULL},
};

/* In the order of the option's words. */
static const uint32_t token_verbs[] = {QUIPU_ACCESS_TOKEN_READ, QUIPU_ACCESS_TOKEN_WRITE,
                                       QUIPU_ACCESS_TOKEN_READ | QUIPU_ACCESS_TOKEN_WRITE};

static const char *token_verbs_text(uint32_t verbs)
{
    return verbs == QUIPU_ACCESS_TOKEN_READ    ? "read"
           : verbs == QUIPU_ACCESS_TOKEN_WRITE ? "write"
                                               : "both";
}

/* The token goes to stdout alone, for a pipe into a file or an environment. */
static int token_new(const app_call *call, const app_http *http, const char *path)
{
    quipu_access_token_options options = QUIPU_ACCESS_TOKEN_OPTIONS_INIT;
    const char *verbs = app_value(call, "verbs");
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    quipu_error error = {0};
    int64_t days = 0;
    quipu_status status;

    if (!app_number(call, "days", 1, TOKEN_DAYS_MAX, &days)) {
        return APP_USAGE;
    }
    if (app_given(call, "user") && !app_given(call, "app")) {
        return app_usage(call, "--user needs --app: users belong to an app");
    }
    options.tenant = app_text_value(call, "tenant");
    options.app_name = app_text_value(call, "app");
    options.user_id = app_text_value(call, "user");
    options.note = app_text_value(call, "note");
    options.ttl_ms = days * INT64_C(86400000);
    options.verbs = token_verbs[verbs != NULL ? app_word_number("read write both", verbs) : 2];
    status = http->token_add(path, &options, token, &error);
    if (status != QUIPU_OK) {
        return app_fail(call, path, status, &error);
    }
    if (app_given(call, "json")) {
        app_json json = {.out = stdout};

        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "token", token);
        app_json_close(&json, '}');
    } else {
        printf("%s\n", token);
    }
    app_report(call, "this is the only time that the token is shown");
    return APP_OK;
}

static void token_json(const quipu_access_token *token)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_text(&json, "id", token->id);
    app_json_cstr(&json, "verbs", token_verbs_text(token->verbs));
    app_json_text(&json, "tenant", token->tenant);
    app_json_text(&json, "app", token->app_name);
    app_json_text(&json, "user", token->user_id);
    app_json_text(&json, "note", token->note);
    app_json_time(&json, "created_at", token->created_at);
    if (token->has_expiry) {
        app_json_time(&json, "expires_at", token->expires_at);
    }
    app_json_close(&json, '}');
}

static void token_print(const app_call *call, quipu_access_tokens tokens)
{
    static const app_column columns[] = {
        {.title = "ID"},
        {.title = "VERBS"},
        {.title = "APP", .fits = true},
        {.title = "USER", .fits = true},
        {.title = "EXPIRES"},
        {.title = "NOTE", .fits = true, .spare = true},
    };
    app_table table = {.out = stdout,
                       .colours = app_colours(call),
                       .columns = app_table_width(),
                       .kinds = columns,
                       .count = sizeof(columns) / sizeof(columns[0])};

    for (size_t i = 0; i < tokens.count; i++) {
        const quipu_access_token *token = quipu_access_token_at(tokens, i);
        char expires[QUIPU_TIME_TEXT_SIZE] = "never";
        quipu_str cells[6];

        if (token->has_expiry) {
            app_time_text(token->expires_at, expires, sizeof(expires));
        }
        cells[0] = token->id;
        cells[1] = quipu_cstr(token_verbs_text(token->verbs));
        cells[2] = token->app_name.p != NULL ? token->app_name : QUIPU_STR("any");
        cells[3] = token->user_id.p != NULL ? token->user_id : QUIPU_STR("any");
        cells[4] = quipu_cstr(expires);
        cells[5] = token->note.p != NULL ? token->note : QUIPU_STR("");
        app_table_print(&table, cells, 1);
    }
}

static int token_ls(const app_call *call, const app_http *http, const char *path)
{
    quipu_access_token_list *list = NULL;
    quipu_error error = {0};
    quipu_status status = http->token_find(path, &list, &error);

    if (status != QUIPU_OK) {
        return app_fail(call, path, status, &error);
    }
    for (size_t i = 0; i < list->tokens.count && app_given(call, "json"); i++) {
        token_json(quipu_access_token_at(list->tokens, i));
    }
    if (!app_given(call, "json")) {
        token_print(call, list->tokens);
    }
    if (list->tokens.count == 0) {
        app_report(call, "there are no tokens: \"quipu token new\" makes one");
    }
    http->free(list);
    return APP_OK;
}

static int token_rm(const app_call *call, const app_http *http, const char *path)
{
    quipu_error error = {0};
    quipu_status status;

    if (call->argument_count < 2) {
        return app_usage(call, "rm needs the id of a token: \"quipu token ls\" lists them");
    }
    status = http->token_remove(path, app_argument(call, 1), &error);
    return status == QUIPU_OK ? APP_OK : app_fail(call, call->arguments[1], status, &error);
}

static int token_run(const app_call *call)
{
    const char *word = call->arguments[0];
    char path[APP_PATH_MAX];
    app_http http;

    if (strcmp(word, "rm") != 0 && call->argument_count > 1) {
        return app_usage(call, "%s takes no argument", word);
    }
    if (!app_token_path(call, path) || !app_http_begin(call, &http)) {
        return APP_FAILURE;
    }
    return strcmp(word, "new") == 0  ? token_new(call, &http, path)
           : strcmp(word, "ls") == 0 ? token_ls(call, &http, path)
                                     : token_rm(call, &http, path);
}

const app_verb app_verb_token = {
    .name = "token",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "new|ls|rm [ID]",
    .arguments_min = 1,
    .arguments_max = 2,
    .words = "new ls rm",
    .summary = "make, list and remove the tokens of \"quipu serve\"",
    .note = "A token is shown once, when it is made; the file keeps its SHA-256.\n"
            "A running server reads the file again: a removed token ends with the next request."
            "\n"
            "\n"
            "Examples:\n"
            "  quipu token new --note 'the phone'\n"
            "  quipu token ls --json",
    .common = APP_STORE | APP_JSON | APP_COLOR,
    .options = token_options,
    .run = token_run,
};
