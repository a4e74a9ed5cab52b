/* quipu window: the messages that a token budget holds, as a turn without memory sends them. Reads
 * only. */
#include <inttypes.h>

#include <quipu/models.h>

#include "app.h"
#include "render.h"

static const app_option window_options[] = {
    {.name = "budget",
     .value = "N",
     .help = "tokens of the window; default: by the session's model"},
    {.name = "cut",
     .help = "cut a newest turn that exceeds the budget, instead of keeping it whole"},
    {.name = NULL},
};

enum { WINDOW_SEQ, WINDOW_ROLE, WINDOW_TOKENS, WINDOW_TEXT, WINDOW_COLUMNS };

static const app_column window_columns[WINDOW_COLUMNS] = {
    [WINDOW_SEQ] = {.title = "MESSAGE", .right = true},
    [WINDOW_ROLE] = {.title = "ROLE"},
    [WINDOW_TOKENS] = {.title = "TOKENS", .right = true},
    [WINDOW_TEXT] = {.title = "TEXT", .fits = true, .spare = true},
};

/* Members are named as in an export. */
static void window_json(const quipu_window *window, int64_t budget)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_text(&json, "key", window->session->key);
    app_json_int(&json, "token_budget", budget);
    app_json_int(&json, "tokens", window->tokens);
    app_json_bool(&json, "more_before", window->more_before);
    app_json_bool(&json, "over_budget", window->over_budget);
    app_json_bool(&json, "cut", window->cut);
    app_json_open(&json, "messages", '[');
    for (size_t i = 0; i < window->messages.count; i++) {
        const quipu_message *message = quipu_message_at(window->messages, i);

        app_json_open(&json, NULL, '{');
        app_json_int(&json, "seq", message->seq);
        app_json_cstr(&json, "role", app_role_name(message->role));
        app_json_text(&json, "author", message->author);
        app_json_time(&json, "timestamp", message->timestamp);
        app_json_int(&json, "tokens", message->tokens);
        app_json_text(&json, "content", message->content);
        app_json_close(&json, '}');
    }
    app_json_close(&json, ']');
    app_json_close(&json, '}');
}

static quipu_status window_cells(quipu_arena *arena, const quipu_message *message,
                                 quipu_str cells[WINDOW_COLUMNS])
{
    quipu_status status = app_cell_number(arena, message->seq, &cells[WINDOW_SEQ]);

    cells[WINDOW_ROLE] = quipu_cstr(app_role_name(message->role));
    cells[WINDOW_TEXT] = message->content;
    return status == QUIPU_OK ? app_cell_number(arena, message->tokens, &cells[WINDOW_TOKENS])
                              : status;
}

static quipu_status window_table(const app_call *call, const quipu_window *window)
{
    app_table table = {.out = stdout,
                       .colours = app_colours(call),
                       .columns = app_table_width(),
                       .kinds = window_columns,
                       .count = WINDOW_COLUMNS};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str *cells =
        quipu_arena_alloc(&arena, (window->messages.count + 1) * WINDOW_COLUMNS * sizeof(*cells));
    quipu_status status = cells != NULL ? QUIPU_OK : QUIPU_NOMEM;

    for (size_t i = 0; i < window->messages.count && status == QUIPU_OK; i++) {
        status =
            window_cells(&arena, quipu_message_at(window->messages, i), cells + i * WINDOW_COLUMNS);
    }
    if (status == QUIPU_OK && window->messages.count > 0) {
        app_table_print(&table, cells, window->messages.count);
    }
    quipu_arena_free(&arena);
    return status;
}

/* What is known of the window, on stderr: stdout has its messages. */
static void window_report(const app_call *call, const quipu_window *window, int64_t budget)
{
    app_report(call, "%zu message%s, %" PRId64 " of %" PRId64 " tokens%s%s%s",
               window->messages.count, window->messages.count == 1 ? "" : "s", window->tokens,
               budget, window->over_budget ? ": the newest turn alone exceeds the budget" : "",
               window->cut ? "; the newest turn is cut" : "",
               window->more_before ? "; older messages are left out" : "");
}

/* Without --budget it is the one of the session's model. */
static quipu_status window_budget(quipu_store *store, quipu_str key, int64_t *budget,
                                  quipu_error *error)
{
    quipu_history *history = NULL;
    quipu_status status = QUIPU_OK;

    if (*budget == 0) {
        status = app_session_header(store, key, NULL, &history, error);
    }
    if (history != NULL) {
        const quipu_model_row *row = quipu_model_find(history->session->model, NULL);

        *budget = row->budget > 0 ? row->budget : row->window / 2;
    }
    quipu_free(history);
    return status;
}

static int window_show(const app_call *call, quipu_store *store, int64_t budget)
{
    const quipu_str key = app_argument(call, 0);
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_error error = {0};
    quipu_status status = window_budget(store, key, &budget, &error);

    options.token_budget = budget;
    options.flags = app_given(call, "cut") ? QUIPU_WINDOW_CUT : 0;
    if (status == QUIPU_OK) {
        status = quipu_window_read(store, key, &options, NULL, &window, &error);
    }
    if (status == QUIPU_OK && app_given(call, "json")) {
        window_json(window, budget);
    } else if (status == QUIPU_OK) {
        status = window_table(call, window);
        fflush(stdout); /* the note comes behind the table */
        window_report(call, window, budget);
    }
    quipu_free(window);
    return status == QUIPU_OK ? APP_OK : app_fail_session(call, key, status, &error);
}

static int window_run(const app_call *call)
{
    quipu_store *store = NULL;
    int64_t budget = 0;
    int code;

    if (!app_number(call, "budget", 1, INT64_MAX, &budget)) {
        return APP_USAGE;
    }
    code = app_open(call, APP_NEED_READ, &store);
    if (code == APP_OK) {
        app_pager_begin(call);
        code = window_show(call, store, budget);
        quipu_close(store);
    }
    return code;
}

const app_verb app_verb_window = {
    .name = "window",
    .group = APP_GROUP_READ,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "show which messages a token budget holds",
    .note = "Examples:\n"
            "  quipu window trip --budget 4000\n"
            "  quipu window trip --budget 100 --cut --json",
    .common = APP_READS | APP_PAGED,
    .options = window_options,
    .run = window_run,
};
