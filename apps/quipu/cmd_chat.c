/* quipu chat: a conversation with a model, stored and continued by its key.
 *
 *   line ─▶ quipu_turn() ─▶ streamed text to stdout ─▶ next line
 *
 * Threads: the main thread runs turns; a signal thread sets the turn's cancel flag; with --observe
 * the store has a worker of memory, which no turn waits for. run->mutex guards `cancel` and
 * `ended`, which the first two use. Ctrl-C stops the current answer; without one it
 * ends the input. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include <quipu/agent.h>

#include "chat_command.h"
#include "edit.h"
#include "lines.h"
#include "memory.h"
#include "provider.h"
#include "tags.h"
#include "tools.h"
#include "tree.h"

#define CHAT_MILLION 1e6     /* prices are millionths for a million tokens */
#define CHAT_SYSTEM "system" /* the member of the metadata with the system instruction */
#define CHAT_KEY "chat"      /* the default session */
#define CHAT_OBSERVE_MS 5000 /* the longest that an ending chat observes by rules */
#define CHAT_MODELS_SHOWN 12 /* models listed when one must be chosen */
#define CHAT_PASTE_MS 20     /* lines that follow each other so fast were not typed */
#define CHAT_PROMPT "> "
#define CHAT_BRACKETS 2 /* columns around a note about a call */

static const app_option chat_options[] = {
    {.name = "model",
     .value = "NAME",
     .help = "else $QUIPU_MODEL, else the session's, else the endpoint's only model"},
    APP_PROVIDER_OPTIONS(""),
    {.name = "system",
     .value = "TEXT",
     .help = "the system instruction; the session keeps it, an empty one removes it"},
    {.name = "text", .value = "TEXT", .help = "send this, print the answer and exit"},
    {.name = "lines", .help = "from a pipe: each line is a turn, not the whole input"},
    {.name = "budget", .value = "N", .help = "tokens of a prompt; default: by the model"},
    {.name = "embed",
     .value = "MODEL",
     .help = "recall by meaning, too: this model of the endpoint makes vectors"},
    {.name = "no-recall", .help = "send nothing of what no longer fits the budget"},
    {.name = "no-memory", .help = "send nothing of what is remembered, and log no prompt"},
    {.name = "observe", .help = "observe what is said, by rules, beside the chat"},
    {.name = "observe-model", .value = "NAME", .help = "the same by a model of this endpoint"},
    {.name = "observer-prompt",
     .value = "FILE",
     .help = "observe-model: what it is asked to write down"},
    {.name = "reflector-prompt",
     .value = "FILE",
     .help = "observe-model: how to condense what is known"},
    {.name = "max-tokens", .value = "N", .help = "the most tokens of an answer"},
    {.name = "timeout", .value = "SECONDS", .help = "the deadline of a turn"},
    APP_TOOL_OPTIONS,
    {.name = NULL},
};

typedef struct chat_run {
    const app_call *call;
    quipu_store *store;
    quipu_provider *provider;
    quipu_arena arena; /* texts that live until the verb ends */
    quipu_str key;
    quipu_str model;
    quipu_part system;
    quipu_json metadata; /* of the session, as it was */
    quipu_model_request request;
    int64_t budget;
    int64_t timeout_s;
    bool terminal; /* stdin is a terminal */
    bool edits;    /* its lines are edited by a library */
    char *pasted;  /* several lines that came at once; or NULL */
    bool shown;    /* stdout is a terminal: output must be made safe */
    bool colours;
    char last; /* the last byte printed of an answer */
    app_lines lines;
    app_chat_state state;         /* what commands work on; key and model are taken back from it */
    quipu_memory_options observe; /* of the worker that --observe asks for */
    bool observes;
    app_tools tools;
    bool asks;           /* a person can be asked before a tool runs */
    atomic_bool stopped; /* a signal came in this turn: ends a tool's call */

    pthread_mutex_t mutex; /* guards the next two */
    quipu_cancel *cancel;  /* of the current turn, or NULL */
    bool ended;            /* SIGTERM or SIGHUP arrived */
    int wake[2];           /* a pipe: one byte for each signal that arrived between turns */
} chat_run;

/* ---- signals ---------------------------------------------------------------------------------
 */

/* Runs on the signal thread. Cancels the current turn, or wakes chat_line(), which waits for
 * input. */
static void chat_on_signal(void *ctx, int number)
{
    chat_run *run = ctx;

    pthread_mutex_lock(&run->mutex);
    run->ended = run->ended || number != SIGINT;
    atomic_store(&run->stopped, true);
    if (run->cancel != NULL) {
        quipu_cancel_set(run->cancel);
    } else if (write(run->wake[1], "", 1) != 1) {
        run->ended = true; /* the pipe is full of unread signals */
    }
    pthread_mutex_unlock(&run->mutex);
}

/* Must come before any other thread exists. */
static bool chat_signals_begin(chat_run *run)
{
    return pthread_mutex_init(&run->mutex, NULL) == 0 && pipe(run->wake) == 0 &&
           app_signals_listen(chat_on_signal, run);
}

/* Sets or clears the flag of the current turn; returns whether the program must end. */
static bool chat_signals_turn(chat_run *run, quipu_cancel *cancel)
{
    bool ended;

    pthread_mutex_lock(&run->mutex);
    run->cancel = cancel;
    ended = run->ended;
    pthread_mutex_unlock(&run->mutex);
    return ended;
}

/* ---- the provider ----------------------------------------------------------------------------
 */

/* The variable that the endpoint's key is read from. */
static const char *chat_key_variable(const app_call *call)
{
    static const char *const keys[] = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"};
    const char *kind = app_value(call, "provider");
    const int number = kind != NULL ? app_word_number(APP_PROVIDERS, kind) : 0;
    const char *own = app_value(call, "key-env");

    return own != NULL ? own : keys[number > 0 ? number : 0];
}

/* Where the endpoint and its key come from, when it cannot be reached or refuses. */
static void chat_advise(const chat_run *run, quipu_status status)
{
    if (status == QUIPU_IO || status == QUIPU_UNSUPPORTED || status == QUIPU_NOT_FOUND ||
        status == QUIPU_MISUSE) { /* as a wrong key is */
        app_report(
            run->call,
            "--base-url URL or $QUIPU_BASE_URL names the endpoint; its key is read from $%s, "
            "another variable (--key-env) or a file (--key-file)",
            chat_key_variable(run->call));
    }
}

/* The endpoint's only model. With more than one, lists some and fails with APP_USAGE. */
static int chat_only_model(chat_run *run)
{
    quipu_model_infos list = quipu_model_infos_of(NULL, 0);
    quipu_error error = {0};
    quipu_status status = run->provider->list(run->provider->ctx, NULL, &run->arena, &list, &error);

    if (status != QUIPU_OK) {
        (void)app_fail(run->call, "the list of models", status, &error);
        chat_advise(run, status);
        return app_usage(run->call, "choose a model: --model NAME");
    }
    if (list.count == 1) {
        run->model = quipu_model_info_at(list, 0)->id;
        return APP_OK;
    }
    app_report(run->call, "choose a model: --model NAME. There are %zu:", list.count);
    for (size_t i = 0; i < list.count && i < CHAT_MODELS_SHOWN; i++) {
        app_report(run->call, "  %s", quipu_model_info_at(list, i)->id.p);
    }
    return APP_USAGE;
}

/* ---- the session -----------------------------------------------------------------------------
 */

/* The system instruction that an earlier chat was given, unless this one is given another. */
static quipu_status chat_system(chat_run *run, const quipu_session_info *session)
{
    const app_tree *root = NULL;
    quipu_str kept = {NULL, 0};
    quipu_status status =
        quipu_arena_copy(&run->arena, session->metadata.text, &run->metadata.text);

    if (status == QUIPU_OK && run->metadata.text.n > 0 && !app_given(run->call, "system") &&
        app_tree_read(run->metadata.text, &run->arena, &root) == QUIPU_OK) {
        kept = app_tree_text(root, CHAT_SYSTEM);
    }
    if (kept.n > 0) {
        run->system = (quipu_part){.kind = QUIPU_PART_TEXT, .text = kept};
        run->request.system = quipu_parts_of(&run->system, 1);
    }
    return status;
}

/* Records the model and a new instruction in the session: the next chat continues with them. */
static quipu_status chat_store_model(chat_run *run, quipu_error *error)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = QUIPU_SET_MODEL;
    patch.model = run->model;
    if (app_given(run->call, "system")) {
        quipu_status status =
            app_metadata_put(run->metadata, CHAT_SYSTEM, app_text_value(run->call, "system"),
                             &run->arena, &patch.metadata);

        if (status != QUIPU_OK) {
            return status;
        }
        patch.set |= QUIPU_SET_METADATA;
    }
    return quipu_session_update(run->store, run->key, &patch, NULL, NULL, error);
}

/* Reads the session, if it exists; its model is used unless another is named. */
static int chat_resume(chat_run *run, int64_t *ret_messages)
{
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status = app_session_header(run->store, run->key, NULL, &history, &error);

    if (status == QUIPU_OK) {
        *ret_messages = history->session->message_count;
        if (run->model.n == 0) {
            status = quipu_arena_copy(&run->arena, history->session->model, &run->model);
        }
        if (status == QUIPU_OK) {
            status = chat_system(run, history->session);
        }
    }
    quipu_free(history);
    return status == QUIPU_OK || status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED
               ? APP_OK
               : app_fail(run->call, run->key.p, status, &error);
}

/* Finds the model, then creates the session: a chat that cannot start leaves nothing behind. */
static int chat_begin(chat_run *run)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    int64_t messages = 0;
    quipu_error error = {0};
    quipu_status status;
    int code = chat_resume(run, &messages);

    if (code == APP_OK && run->model.n == 0) {
        code = chat_only_model(run);
    }
    if (code != APP_OK) {
        return code;
    }
    values.key = run->key;
    values.model = run->model;
    values.channel_type = quipu_cstr("terminal");
    values.flags = QUIPU_CREATE_OR_GET;
    status = quipu_session_create(run->store, &values, NULL, NULL, &error);
    if (status == QUIPU_OK) {
        status = chat_store_model(run, &error);
    }
    if (status != QUIPU_OK) {
        return app_fail(run->call, run->key.p, status, &error);
    }
    if (run->terminal && !app_given(run->call, "quiet")) {
        app_report(run->call, "session \"%s\", %" PRId64 " message%s so far, model %s", run->key.p,
                   messages, messages == 1 ? "" : "s", run->model.p);
        app_report(
            run->call,
            "Ctrl-C interrupts an answer, Ctrl-D ends the conversation, /help lists commands");
    }
    return APP_OK;
}

/* ---- a turn ----------------------------------------------------------------------------------
 */

/* To a terminal line by line, each made safe; to a pipe unchanged. */
static void chat_print(chat_run *run, quipu_str text)
{
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t n = end != NULL ? (size_t)(end - text.p) : text.n;

        run->last = text.p[text.n - 1];
        if (!run->shown) {
            (void)fwrite(text.p, 1, text.n, stdout);
            break;
        }
        app_put(stdout, (quipu_str){text.p, n});
        if (end != NULL) {
            fputc('\n', stdout);
            n++;
        }
        text = (quipu_str){text.p + n, text.n - n};
    }
    fflush(stdout);
}

/* The turn's event callback. A stdout that cannot be written ends the turn. */
static quipu_status chat_on_event(void *ctx, const quipu_model_event *event)
{
    chat_run *run = ctx;

    if (event->kind == QUIPU_MODEL_TEXT) {
        chat_print(run, event->text);
    }
    return ferror(stdout) ? QUIPU_IO : QUIPU_OK;
}

/* The price of a turn by the table of models, in millionths of a dollar; -1: unknown. */
static double chat_cost(quipu_str model, const quipu_model_usage *usage)
{
    const quipu_model_row *row = quipu_model_find(model, NULL);
    const int64_t cached = usage->cached > 0 ? usage->cached : 0;
    const int64_t written = usage->cache_write > 0 ? usage->cache_write : 0;
    const int64_t output = usage->output > 0 ? usage->output : 0;

    if (row->price_input == 0 || row->price_output == 0 || (cached > 0 && row->price_cached == 0) ||
        (written > 0 && row->price_write == 0)) {
        return -1;
    }
    return ((double)(usage->input - cached - written) * (double)row->price_input +
            (double)cached * (double)row->price_cached +
            (double)written * (double)row->price_write +
            (double)output * (double)row->price_output) /
           CHAT_MILLION;
}

/* The token counts of a turn and its price, on stderr. */
static void chat_print_usage(const chat_run *run, const quipu_turn_result *result)
{
    const char *dim = app_style(run->colours, APP_DIM);
    const char *plain = app_style(run->colours, APP_PLAIN);
    double cost;

    if (app_given(run->call, "quiet") || result->usage->input < 0) {
        return;
    }
    fprintf(stderr, "%s[%" PRId64 " tokens in", dim, result->usage->input);
    if (result->usage->cached >= 0) {
        fprintf(stderr, ", %" PRId64 " of them cached", result->usage->cached);
    }
    if (result->expected_cached > 0) {
        fprintf(stderr, " (%" PRId64 " expected)", result->expected_cached);
    }
    fprintf(stderr, ", %" PRId64 " out", result->usage->output > 0 ? result->usage->output : 0);
    cost = chat_cost(run->model, result->usage);
    if (cost >= 0) {
        fprintf(stderr, ", about $%.4f", cost / CHAT_MILLION);
    }
    fprintf(stderr, "%s]%s\n", result->more_before ? "; the oldest messages did not fit" : "",
            plain);
}

/* ---- input -----------------------------------------------------------------------------------
 */

/* The next line; false at the end, or after a signal. */
static bool chat_line(chat_run *run, quipu_str *ret_line)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = run->wake[0], .events = POLLIN}};

    for (;;) {
        switch (app_lines_next(&run->lines, false, ret_line)) {
        case APP_LINE_GOT:
            return true;
        case APP_LINE_NOT_YET:
            break;
        case APP_LINE_FAILED:
            (void)app_fail_errno(run->call, "stdin");
            return false;
        case APP_LINE_END:
            return false;
        }
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            return false;
        }
        if (fds[1].revents != 0) {
            return false;
        }
    }
}

/* The next line of a person, by the library that edits it. */
static bool chat_edited(chat_run *run, const char *prompt, quipu_str *ret_line)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = run->wake[0], .events = POLLIN}};
    app_edit got = APP_EDIT_MORE;

    app_edit_begin(prompt);
    while (got == APP_EDIT_MORE) {
        if ((poll(fds, 2, -1) < 0 && errno != EINTR) || fds[1].revents != 0) {
            break;
        }
        if (fds[0].revents != 0) {
            got = app_edit_read(ret_line);
        }
    }
    app_edit_end();
    return got == APP_EDIT_GOT;
}

/* One line, with its prompt. */
static bool chat_asked(chat_run *run, const char *prompt, quipu_str *ret_line)
{
    if (run->edits) {
        return chat_edited(run, prompt, ret_line);
    }
    fputs(prompt, stderr);
    return chat_line(run, ret_line);
}

/* Whether an answer is this word, in any case. */
static bool chat_is(quipu_str line, const char *word)
{
    while (line.n > 0 && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\r')) {
        line.n--;
    }
    return line.n == strlen(word) && strncasecmp(line.p, word, line.n) == 0;
}

/* ---- tools -----------------------------------------------------------------------------------
 */

/* Whether a call runs. */
typedef enum chat_consent { CHAT_RUNS, CHAT_REFUSED, CHAT_NOT_ALLOWED, CHAT_STOPPED } chat_consent;

/* Asks before a call, and shows all of its arguments, because the part that is cut off could
 * matter. Text that was typed before the question does not answer it. Ctrl-C here ends the turn. */
static chat_consent chat_ask(chat_run *run, app_tool *tool)
{
    quipu_cancel *const cancel = run->cancel; /* written by this thread only */
    quipu_str line = {NULL, 0};
    bool answered;
    char byte;

    (void)tcflush(STDIN_FILENO, TCIFLUSH);
    (void)chat_signals_turn(run, NULL); /* a signal wakes the question */
    answered =
        !atomic_load(&run->stopped) && chat_asked(run, "Run it? [y]es, [n]o, [a]lways: ", &line);
    (void)chat_signals_turn(run, cancel);
    if (atomic_load(&run->stopped)) {
        struct pollfd wake = {.fd = run->wake[0], .events = POLLIN};

        if (poll(&wake, 1, 0) > 0 && read(run->wake[0], &byte, 1) == 1) {
            fputc('\n', stderr);
        }
        return CHAT_STOPPED;
    }
    if (answered && (chat_is(line, "a") || chat_is(line, "always"))) {
        tool->allowed = true;
        return CHAT_RUNS;
    }
    return answered && (chat_is(line, "y") || chat_is(line, "yes")) ? CHAT_RUNS : CHAT_REFUSED;
}

/* A line about a call on stderr, cut to the terminal's width. */
static void chat_note(const chat_run *run, const app_tool *tool, const char *between,
                      quipu_str text)
{
    const int room = app_columns() - (int)(tool->offered.name.n + strlen(between)) - CHAT_BRACKETS;

    if (app_given(run->call, "quiet")) {
        return;
    }
    fprintf(stderr, "%s[%s%s", app_style(run->colours, APP_DIM), tool->offered.name.p, between);
    (void)app_put_cut(stderr, text, room > 0 ? room : 0);
    fprintf(stderr, "]%s\n", app_style(run->colours, APP_PLAIN));
}

/* Arguments without white space between their parts: with it, a model could push what matters off
 * the screen. Absent: no memory. */
static quipu_str chat_arguments(quipu_str json, quipu_arena *arena)
{
    char *text = quipu_arena_alloc(arena, json.n + 1);
    size_t n = 0;
    bool quoted = false;

    for (size_t i = 0; text != NULL && i < json.n; i++) {
        const char c = json.p[i];

        if (!quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
            continue;
        }
        text[n++] = c;
        if (quoted && c == '\\' && i + 1 < json.n) {
            text[n++] = json.p[++i];
        } else if (c == '"') {
            quoted = !quoted;
        }
    }
    return (quipu_str){text, n};
}

/* Shows a call, and asks where it is not allowed yet. */
static chat_consent chat_consents(chat_run *run, app_tool *tool, quipu_str arguments)
{
    if (run->last != '\n') { /* an answer's text stands before it */
        chat_print(run, quipu_cstr("\n"));
    }
    if (!tool->allowed && run->asks) {
        fprintf(stderr, "The model calls %s with:\n", tool->offered.name.p);
        (void)app_put_wrapped(stderr, arguments, "  ", app_columns() - 2);
        return chat_ask(run, tool);
    }
    if (!tool->allowed) {
        app_report(run->call, "%s was not run: give --allow %s, or --yes", tool->offered.name.p,
                   tool->offered.name.p);
        return CHAT_NOT_ALLOWED;
    }
    chat_note(run, tool, " ", arguments);
    return CHAT_RUNS;
}

/* Runs a call; why it failed is shown, too. */
static quipu_status chat_run_tool(chat_run *run, const app_tool *tool, const quipu_part *call,
                                  int64_t left_ms, quipu_arena *arena, quipu_json *ret_result)
{
    static const char error[] = "{\"error\":";
    const quipu_status status = app_tools_run(&run->tools, tool, call, left_ms, arena, ret_result);

    if (status == QUIPU_OK && ret_result->text.n >= sizeof(error) &&
        memcmp(ret_result->text.p, error, sizeof(error) - 1) == 0) {
        chat_note(run, tool, ": ", ret_result->text);
    }
    return status;
}

/* The turn's tool callback. A tool's failure is a result, which the model reads. */
static quipu_status chat_on_tool(void *ctx, const quipu_part *call,
                                 const quipu_call_options *within, quipu_arena *arena,
                                 quipu_json *ret_result)
{
    chat_run *run = ctx;
    app_tool *tool = app_tools_find(&run->tools, call->name);
    const quipu_str arguments = chat_arguments(call->json.text, arena);

    if (arguments.p == NULL) {
        return QUIPU_NOMEM;
    }
    if (tool == NULL) {
        return app_tools_error("there is no such tool", arena, ret_result);
    }
    switch (chat_consents(run, tool, arguments)) {
    case CHAT_RUNS:
        return chat_run_tool(run, tool, call, within->deadline_ms, arena, ret_result);
    case CHAT_REFUSED:
        return app_tools_error("the user refused this call", arena, ret_result);
    case CHAT_NOT_ALLOWED:
        return app_tools_error("this tool is not allowed to run", arena, ret_result);
    case CHAT_STOPPED:
        break;
    }
    return QUIPU_CANCELLED;
}

/* ---- one turn --------------------------------------------------------------------------------
 */

/* Adds the files that go with a message behind its text; returns the number of parts. */
static size_t chat_files(app_chat_state *state, quipu_part parts[APP_CHAT_FILES_MAX + 1])
{
    const size_t n = state->file_count;

    memcpy(parts + 1, state->files, n * sizeof(*parts));
    state->file_count = 0;
    return n + 1;
}

/* One turn; failures are reported. The cancel flag is registered before the turn starts, so that no
 * signal is lost. */
static int chat_turn(chat_run *run, quipu_str says)
{
    quipu_part parts[APP_CHAT_FILES_MAX + 1] = {{.kind = QUIPU_PART_TEXT, .text = says}};
    const quipu_content input = {.role = QUIPU_ROLE_USER,
                                 .parts = quipu_parts_of(parts, chat_files(&run->state, parts))};
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};
    quipu_status status;

    options.key = run->key;
    options.input = quipu_contents_of(&input, 1);
    options.request = &run->request;
    options.model = run->model;
    options.author = quipu_cstr("assistant");
    options.token_budget = run->budget;
    options.flags = app_given(run->call, "no-recall") ? QUIPU_TURN_NO_RECALL : 0;
    options.flags |= app_given(run->call, "no-memory") ? 0 : QUIPU_TURN_MEMORY;
    options.observe = run->observes ? &run->observe : NULL;
    options.embed_model = app_text_value(run->call, "embed");
    options.embedder = options.embed_model.n > 0 ? run->provider : NULL;
    options.on_tool = chat_on_tool;
    options.tool_ctx = run;
    options.on_event = chat_on_event;
    options.event_ctx = run;
    call.deadline_ms = (int32_t)(run->timeout_s * 1000);
    call.cancel = quipu_cancel_new();
    atomic_store(&run->stopped, false);
    if (call.cancel == NULL || chat_signals_turn(run, call.cancel)) {
        quipu_cancel_set(call.cancel);
    }
    run->last = '\n';
    status = quipu_turn(run->store, run->provider, &options, &call, &arena, &result, &error);
    (void)chat_signals_turn(run, NULL);
    quipu_free(call.cancel);
    if (run->last != '\n') {
        fputc('\n', stdout);
    }
    fflush(stdout);
    if (status == QUIPU_OK) {
        chat_print_usage(run, &result);
    } else if (status == QUIPU_CANCELLED) {
        app_report(run->call, "interrupted; the answer so far is stored");
    } else if (ferror(stdout)) {
        app_report(run->call, "%s", app_output_why());
    } else {
        app_report(run->call, "%s", error.message);
        chat_advise(run, status);
    }
    quipu_arena_free(&arena);
    return app_exit_code(status);
}

/* ---- the conversation ------------------------------------------------------------------------
 */

/* The user's input: a line, and the lines that arrived with it, as those of a paste do when no
 * library collects them. A command is a line of its own. */
static bool chat_said(chat_run *run, quipu_str *ret_said)
{
    struct pollfd more = {.fd = STDIN_FILENO, .events = POLLIN};
    quipu_str line;
    size_t n = 0;

    if (!chat_asked(run, CHAT_PROMPT, &line)) {
        return false;
    }
    *ret_said = line;
    while (line.n < QUIPU_MESSAGE_BYTES_MAX - n && (line.n == 0 || line.p[0] != '/' || n > 0)) {
        char *text = realloc(run->pasted, n + line.n + 2);

        if (text == NULL) {
            return true; /* what came so far */
        }
        run->pasted = text;
        memcpy(text + n, line.p, line.n);
        n += line.n;
        text[n] = '\0';
        *ret_said = (quipu_str){text, n};
        if ((!app_lines_waiting(&run->lines) && poll(&more, 1, CHAT_PASTE_MS) <= 0) ||
            !chat_asked(run, "", &line)) {
            break;
        }
        text[n++] = '\n';
    }
    return true;
}

/* Whether a line of a person is to be sent; commands may change the session and the model. */
static bool chat_command(chat_run *run, quipu_str *line)
{
    bool send;

    run->state.key = run->key;
    run->state.model = run->model;
    send = app_chat_command(&run->state, *line, line);
    run->key = run->state.key;
    run->model = run->state.model;
    return send;
}

/* Line by line. On a terminal a failed turn does not end the conversation; from a pipe it does. */
static int chat_lines(chat_run *run)
{
    quipu_str line;
    int code = APP_OK;

    for (;;) {
        if (!(run->terminal ? chat_said(run, &line) : chat_line(run, &line))) {
            break;
        }
        app_edit_remember(line);
        if (run->terminal && !chat_command(run, &line)) {
            if (run->state.ended) {
                return APP_OK;
            }
            continue;
        }
        if (!app_is_blank(line)) {
            code = chat_turn(run, line);
        }
        if ((code != APP_OK && !run->terminal) || chat_signals_turn(run, NULL)) {
            return code;
        }
    }
    if (run->terminal) {
        fputc('\n', stderr);
        return APP_OK;
    }
    return code;
}

/* All of stdin as one message. */
static int chat_whole(chat_run *run)
{
    char *text = NULL;
    size_t n = 0;
    quipu_str line;
    int code;

    while (chat_line(run, &line)) {
        char *more = n + line.n < QUIPU_MESSAGE_BYTES_MAX ? realloc(text, n + line.n + 1) : NULL;

        if (more == NULL) {
            free(text);
            return app_usage(run->call, "stdin is too large for one message");
        }
        text = more;
        memcpy(text + n, line.p, line.n);
        n += line.n;
        text[n++] = '\n';
    }
    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    code = app_is_blank((quipu_str){text, n}) ? app_usage(run->call, "stdin is empty")
                                              : chat_turn(run, (quipu_str){text, n});
    free(text);
    return code;
}

/* The session's earlier questions, for the arrow keys. A failure leaves the history empty. */
static void chat_recall_lines(chat_run *run)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};

    range.flags = QUIPU_RANGE_LAST;
    range.limit = INT64_C(2) * APP_EDIT_HISTORY_MAX; /* every other one is an answer */
    if (quipu_session_get(run->store, run->key, &range, NULL, &history, &error) != QUIPU_OK) {
        return;
    }
    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);

        if (message->role == QUIPU_ROLE_USER) {
            app_edit_remember(message->content);
        }
    }
    quipu_free(history);
}

/* --text, lines, or the whole input. */
static int chat_talk(chat_run *run)
{
    quipu_str text = app_text_value(run->call, "text");
    int code;

    app_lines_begin(&run->lines, stdin);
    if (text.p != NULL) {
        code = app_is_blank(text) ? app_usage(run->call, "--text is empty") : chat_turn(run, text);
        app_lines_end(&run->lines);
        return code;
    }
    run->edits = run->terminal && app_edit_load();
    if (run->edits) {
        chat_recall_lines(run);
    }
    code = run->terminal || app_given(run->call, "lines") ? chat_lines(run) : chat_whole(run);
    app_lines_end(&run->lines);
    free(run->pasted);
    return code;
}

/* ---- the verb --------------------------------------------------------------------------------
 */

/* Options and environment. */
static bool chat_read(chat_run *run)
{
    const app_call *call = run->call;
    quipu_str system = app_text_value(call, "system");
    int64_t max_tokens = 0;

    if (!app_number(call, "budget", 1, QUIPU_TURN_BUDGET_MAX, &run->budget) ||
        !app_number(call, "max-tokens", 1, INT32_MAX, &max_tokens) ||
        !app_number(call, "timeout", 1, INT32_MAX / 1000, &run->timeout_s)) {
        return false;
    }
    run->key = call->argument_count > 0 ? app_argument(call, 0) : quipu_cstr(CHAT_KEY);
    run->model = app_text_value(call, "model");
    if (run->model.n == 0) {
        run->model = quipu_cstr(getenv("QUIPU_MODEL"));
    }
    run->request.max_tokens = max_tokens;
    if (system.n > 0) {
        run->system = (quipu_part){.kind = QUIPU_PART_TEXT, .text = system};
        run->request.system = quipu_parts_of(&run->system, 1);
    }
    run->shown = isatty(STDOUT_FILENO) != 0;
    run->terminal = isatty(STDIN_FILENO) != 0;
    run->asks = run->terminal && isatty(STDERR_FILENO) != 0;
    run->colours = app_colours(call);
    return true;
}

/* Ends the worker. Rules have the rest done in a moment, so that a wish of the last turn holds in
 * the next chat; a model is not waited for: its worker of the next chat, or any other, goes on. The
 * chat goes on after a failure: the store keeps the reason (`quipu memory status`). */
static void chat_observed(chat_run *run)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status;

    if (!run->observes || run->store == NULL) {
        return;
    }
    status = quipu_memory_stop(run->store, NULL, NULL);
    call.deadline_ms = CHAT_OBSERVE_MS;
    if (status == QUIPU_OK && run->observe.provider == NULL) {
        status = quipu_memory_run(run->store, &run->observe, &call, NULL, NULL);
    }
    (void)status;
}

/* The prompts of --observe-model; stdin is the chat's. */
static int chat_prompts(chat_run *run)
{
    static const char *const names[] = {"observer-prompt", "reflector-prompt"};
    static memory_prompts texts; /* as long as the worker */

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = app_value(run->call, names[i]);

        if (path != NULL && !app_given(run->call, "observe-model")) {
            return app_usage(run->call, "--%s is for a model: give --observe-model, too", names[i]);
        }
        if (path != NULL && strcmp(path, "-") == 0) {
            return app_usage(run->call, "--%s cannot be stdin, which is the chat's", names[i]);
        }
    }
    return memory_prompts_read(run->call, &texts, &run->observe);
}

/* The worker's options: this chat's session only. With --embed alone it makes vectors and observes
 * nothing. */
static void chat_observe(chat_run *run)
{
    const quipu_str model = app_text_value(run->call, "observe-model");
    const quipu_str embed = app_text_value(run->call, "embed");
    const bool observes = model.n > 0 || app_given(run->call, "observe");

    run->observes = observes || embed.n > 0;
    run->observe.session_key = run->key;
    run->observe.worker = quipu_cstr("chat");
    if (model.n > 0) {
        run->observe.provider = run->provider;
        run->observe.model = model;
    }
    if (embed.n > 0) {
        run->observe.embedder = run->provider;
        run->observe.embed_model = embed;
        run->observe.flags |= observes ? 0 : QUIPU_MEMORY_RUN_EMBED_ONLY;
    }
}

/* The store is opened after the provider: a chat that cannot connect creates no file. */
static int chat_run_verb(const app_call *call)
{
    static chat_run run; /* the signal thread may use it until the process exits */
    int code;

    run = (chat_run){
        .call = call, .request = QUIPU_MODEL_REQUEST_INIT, .observe = QUIPU_MEMORY_OPTIONS_INIT};
    if (!chat_read(&run)) {
        return APP_USAGE;
    }
    code = chat_prompts(&run);
    if (code != APP_OK) {
        return code;
    }
    if (!chat_signals_begin(&run)) { /* before libcurl starts threads, which inherit the mask */
        return app_fail_errno(call, "signals");
    }
    if (app_tools_wanted(call)) {
        (void)signal(SIGPIPE, SIG_IGN); /* a tool may end before it has read its arguments */
    }
    code = app_provider_open(call, &run.provider);
    if (app_tools_wanted(call)) { /* the provider has it; tools are not to show or to send it */
        (void)unsetenv(chat_key_variable(call));
    }
    if (code == APP_OK) {
        code = app_tools_begin(&run.tools, call, run.asks, &run.stopped);
    }
    run.request.tools = quipu_tools_of(run.tools.offered, run.tools.count);
    if (code == APP_OK) {
        code = app_open(call, APP_NEED_NEW, &run.store);
    }
    if (code == APP_OK) {
        code = chat_begin(&run);
    }
    run.state = (app_chat_state){
        .call = call, .store = run.store, .arena = &run.arena, .tools = &run.tools};
    if (code == APP_OK) {
        chat_observe(&run);
        code = chat_talk(&run);
    }
    chat_observed(&run);
    quipu_close(run.store);
    quipu_provider_close(run.provider);
    app_tools_end(&run.tools);
    quipu_arena_free(&run.arena);
    return code;
}

const app_verb app_verb_chat = {
    .name = "chat",
    .group = APP_GROUP_WRITE,
    .arguments = "[KEY]",
    .arguments_max = 1,
    .summary = "chat with a model, and store the conversation",
    .note = "On a terminal /help lists commands: /fork, /undo, /model, /file, /memory, /save.\n"
            "You are asked before a tool runs, unless --allow NAME or --yes lets it; without\n"
            "a terminal no other runs. No shell reads a command: sh -c '...' asks for one.\n"
            "\n"
            "Examples:\n"
            "  quipu chat trip --base-url http://127.0.0.1:8080/v1\n"
            "  quipu chat trip --model gpt-4o-mini --text 'When do we leave?'\n"
            "  quipu chat trip --tool 'today=date +%F' --allow today --text 'What day is it?'\n"
            "  quipu chat trip --mcp 'quipu mcp' --yes --text 'What did I note last week?'",
    .common = APP_STORE | APP_ADDS | APP_COLOR | APP_QUIET | APP_YES,
    .options = chat_options,
    .run = chat_run_verb,
};
