/* quipu append: messages as JSON Lines, or one message from options.
 *
 *   gather (JSON Lines ─▶ messages) ─▶ store one batch ─▶ report
 *   with --keep-going: repeat until the input ends; a rejected batch is retried message by message
 *
 * Without --keep-going all lines are read and checked first, so that wrong input stores nothing; up
 * to QUIPU_BATCH_MAX messages are one transaction. With it wrong lines are reported and skipped. A
 * missing session is created with --create, in the same transaction as its first messages. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"
#include "render.h"

#define APPEND_BATCH 500 /* messages of one transaction with --keep-going */

static const app_option append_options[] = {
    {.name = "create", .help = "create the session when it does not exist"},
    {.name = "app", .value = "NAME", .help = "with --create: the app of the session"},
    {.name = "user", .value = "ID", .help = "with --create: the user of the session"},
    {.name = "agent", .value = "ID", .help = "with --create: the agent of the session"},
    {.name = "model", .value = "NAME", .help = "with --create: the model of the session"},
    {.name = "keep-going", .help = "skip wrong lines, and report them"},
    {.name = "text", .value = "TEXT", .help = "one message of this text, instead of JSON Lines"},
    {.name = "role",
     .value = "ROLE",
     .choices = APP_ROLES,
     .help = "with --text: the role of the message; default: user"},
    {.name = "author", .value = "NAME", .help = "with --text: the author of the message"},
    {.name = "event-id",
     .value = "ID",
     .help = "with --text: repeating the same id stores nothing twice"},
    {.name = NULL},
};

typedef struct append_run {
    const app_call *call;
    quipu_store *store;
    quipu_str key;
    const char *source; /* the input's name in messages */
    bool going;         /* --keep-going */
    FILE *file;         /* NULL: --text */
    app_lines lines;
    int64_t line_number;

    quipu_arena arena; /* texts of the gathered messages */
    quipu_message *messages;
    int64_t *numbers; /* the line of each message */
    size_t count;
    size_t cap; /* the most messages gathered at a time */

    app_progress progress;
    bool created;
    bool repeated; /* all messages were stored before */
    int64_t stored;
    int64_t bad;
    int64_t first_seq;
    int64_t last_seq;
    int64_t revision;
} append_run;

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Reports a wrong line. APP_OK with --keep-going, which skips it; otherwise nothing has been
 * stored. */
static int append_bad(append_run *run, int64_t line, quipu_status status, const quipu_error *error)
{
    const char *message = error->message[0] != '\0' ? error->message : quipu_status_text(status);

    if (line > 0) {
        app_report(run->call, "%s, line %" PRId64 ": %s", run->source, line, message);
    } else {
        app_report(run->call, "%s", message);
    }
    run->bad++;
    if (run->going) {
        return APP_OK;
    }
    app_report(run->call, "nothing was stored%s",
               line > 0 ? "; --keep-going skips such lines" : "");
    return app_exit_code(status);
}

/* Room for more messages than one batch: they are stored batch by batch. */
static bool append_grow(append_run *run)
{
    quipu_message *messages = realloc(run->messages, run->cap * 2 * sizeof(*messages));
    int64_t *numbers;

    if (messages == NULL) {
        return false;
    }
    run->messages = messages;
    numbers = realloc(run->numbers, run->cap * 2 * sizeof(*numbers));
    if (numbers == NULL) {
        return false;
    }
    run->numbers = numbers;
    run->cap *= 2;
    return true;
}

/* Parses one line and adds the message. */
static int append_parse(append_run *run, quipu_str text)
{
    quipu_messages message = quipu_messages_of(NULL, 0);
    quipu_error error = {0};
    quipu_status status = quipu_message_parse(text, &run->arena, &message, &error);

    if (status == QUIPU_NOMEM) {
        return app_fail(run->call, run->source, status, &error);
    }
    if (status != QUIPU_OK) {
        return append_bad(run, run->line_number, status, &error);
    }
    if (run->count == run->cap && !append_grow(run)) {
        return app_fail(run->call, run->source, QUIPU_NOMEM, NULL);
    }
    run->messages[run->count] = *quipu_message_at(message, 0);
    run->numbers[run->count++] = run->line_number;
    return APP_OK;
}

/* Gathers messages: all of them, or with --keep-going a batch, or fewer when the next line has not
 * arrived yet, so that a slow writer's messages are stored promptly. *ret_more is false at the
 * end. */
static int append_gather(append_run *run, bool *ret_more)
{
    quipu_str line = {NULL, 0};
    int code = APP_OK;

    *ret_more = true;
    while (code == APP_OK && !(run->going && run->count == run->cap)) {
        switch (app_lines_next(&run->lines, !run->going || run->count == 0, &line)) {
        case APP_LINE_GOT:
            run->line_number++;
            code = app_is_blank(line) ? APP_OK : append_parse(run, line);
            break;
        case APP_LINE_NOT_YET:
            return APP_OK;
        case APP_LINE_END:
            *ret_more = false;
            return APP_OK;
        default:
            return app_fail_errno(run->call, run->source);
        }
    }
    return code;
}

/* ---- storing ----------------------------------------------------------------------------------
 */

/* The session that --create creates. */
static quipu_session_new append_session(const append_run *run)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    values.key = run->key;
    values.app_name = app_text_value(run->call, "app");
    values.user_id = app_text_value(run->call, "user");
    values.agent_id = app_text_value(run->call, "agent");
    values.model = app_text_value(run->call, "model");
    return values;
}

/* Creates the session with these messages as its first. */
static quipu_status append_create(append_run *run, quipu_messages messages, quipu_error *reterr)
{
    quipu_session_new values = append_session(run);
    quipu_history *history = NULL;
    quipu_status status;

    values.messages = messages;
    status = quipu_session_create(run->store, &values, NULL, &history, reterr);
    if (status == QUIPU_OK) {
        run->created = true;
        run->repeated = false;
        run->first_seq = 1;
        run->last_seq = (int64_t)messages.count;
        run->revision = history->session->revision;
        quipu_free(history);
    }
    return status;
}

/* Stores `n` messages from `from` on. A missing session is created with them, in one
 * transaction. */
static quipu_status append_store(append_run *run, size_t from, size_t n, quipu_error *reterr)
{
    const quipu_messages messages = quipu_messages_of(run->messages + from, n);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_status status =
        quipu_message_append(run->store, run->key, messages, NULL, NULL, &appended, reterr);

    if ((status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) && app_given(run->call, "create")) {
        status = append_create(run, messages, reterr);
        if (status == QUIPU_EXISTS) { /* another process created it meanwhile */
            status =
                quipu_message_append(run->store, run->key, messages, NULL, NULL, &appended, reterr);
        }
    }
    if (status == QUIPU_OK && appended.first_seq > 0) {
        run->first_seq = run->first_seq == 0 ? appended.first_seq : run->first_seq;
        run->last_seq = appended.first_seq + (int64_t)n - 1;
        run->revision = appended.revision;
        run->repeated = run->repeated && appended.repeated;
    }
    run->stored += status == QUIPU_OK ? (int64_t)n : 0;
    return status;
}

/* Whether a failure is caused by the messages, not by the store. */
static bool append_is_about_messages(quipu_status status)
{
    return status == QUIPU_INVALID || status == QUIPU_LIMIT || status == QUIPU_EXISTS;
}

/* The line of the first message that any session would reject, and why; 0 when none is found. Each
 * message is tried in a store in memory, since an error of a batch does not name its message. */
static int64_t append_culprit(const append_run *run, quipu_error *error)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_store *trial = NULL;
    int64_t line = 0;

    values.key = run->key;
    if (quipu_open(":memory:", NULL, &trial, NULL) != QUIPU_OK ||
        quipu_session_create(trial, &values, NULL, NULL, NULL) != QUIPU_OK) {
        quipu_close(trial);
        return 0;
    }
    for (size_t i = 0; i < run->count && line == 0; i++) {
        const quipu_messages one = quipu_messages_of(run->messages + i, 1);
        quipu_error why = {0};
        if (append_is_about_messages(
                quipu_message_append(trial, run->key, one, NULL, NULL, NULL, &why))) {
            line = run->numbers[i];
            *error = why;
        }
    }
    quipu_close(trial);
    return line;
}

/* Reports a failure of the store. */
static int append_failed(const append_run *run, quipu_status status, const quipu_error *error)
{
    if (status == QUIPU_NOT_FOUND) {
        app_report(run->call, "there is no session \"%s\"; --create creates it", run->key.p);
        return APP_NOT_FOUND;
    }
    return app_fail(run->call, run->key.p, status, error);
}

/* Stores a rejected batch message by message, skipping wrong ones. */
static int append_one_by_one(append_run *run)
{
    int code = APP_OK;

    for (size_t i = 0; i < run->count && code == APP_OK; i++) {
        quipu_error error = {0};
        quipu_status status = append_store(run, i, 1, &error);
        if (append_is_about_messages(status)) {
            code = append_bad(run, run->numbers[i], status, &error);
        } else if (status != QUIPU_OK) {
            code = append_failed(run, status, &error);
        }
    }
    return code;
}

/* Stores all that was gathered. More than one batch holds is tried first, so that a wrong message
 * still leaves nothing behind; a store that fails between batches keeps those before it. */
static quipu_status append_all(append_run *run, quipu_error *error)
{
    quipu_status status = QUIPU_OK;

    if (run->count > QUIPU_BATCH_MAX && append_culprit(run, error) > 0) {
        return QUIPU_INVALID;
    }
    for (size_t at = 0; at < run->count && status == QUIPU_OK; at += QUIPU_BATCH_MAX) {
        const size_t left = run->count - at;

        status = append_store(run, at, left < QUIPU_BATCH_MAX ? left : QUIPU_BATCH_MAX, error);
        if (status != QUIPU_OK && at > 0) {
            app_report(run->call, "the first %zu messages are stored", at);
        }
    }
    return status;
}

/* Stores what was gathered and empties it. */
static int append_batch(append_run *run)
{
    quipu_error error = {0};
    quipu_status status = append_all(run, &error);
    int code = APP_OK;

    if (append_is_about_messages(status) && run->going) {
        code = append_one_by_one(run);
    } else if (append_is_about_messages(status)) {
        const int64_t line = run->file != NULL ? append_culprit(run, &error) : 0;
        code = append_bad(run, line, status, &error);
    } else if (status != QUIPU_OK) {
        code = append_failed(run, status, &error);
    }
    run->count = 0;
    quipu_arena_reset(&run->arena);
    app_progress_to(&run->progress, app_lines_bytes(&run->lines));
    return code;
}

/* ---- the verb ---------------------------------------------------------------------------------
 */

/* Input without messages: the session must exist, or is created. */
static int append_nothing(append_run *run)
{
    quipu_session_new values = append_session(run);
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status = app_session_header(run->store, run->key, NULL, &history, &error);

    if ((status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) && app_given(run->call, "create")) {
        values.flags = QUIPU_CREATE_OR_GET;
        status = quipu_session_create(run->store, &values, NULL, &history, &error);
    }
    if (status != QUIPU_OK) {
        return append_failed(run, status, &error);
    }
    run->created = history->created;
    run->revision = history->session->revision;
    run->repeated = false;
    quipu_free(history);
    return APP_OK;
}

/* Gather and store until the input ends. */
static int append_lines(append_run *run)
{
    bool more = true;
    int code = APP_OK;

    if (run->file == stdin && isatty(STDIN_FILENO) == 1) {
        app_report(run->call, "reading JSON Lines from the terminal; end with Ctrl-D");
    }
    app_lines_begin(&run->lines, run->file);
    while (code == APP_OK && more) {
        code = append_gather(run, &more);
        if (code == APP_OK) {
            code = append_batch(run);
        }
    }
    app_lines_end(&run->lines);
    return code;
}

/* One message from --text and its options. */
static int append_text(append_run *run)
{
    const char *role = app_value(run->call, "role");

    run->messages[0] = (quipu_message){
        .role = role == NULL ? QUIPU_ROLE_USER : (quipu_role)(app_word_number(APP_ROLES, role) + 1),
        .content = app_text_value(run->call, "text"),
        .author = app_text_value(run->call, "author"),
        .event_id = app_text_value(run->call, "event-id")};
    run->numbers[0] = 0;
    run->count = 1;
    return append_batch(run);
}

/* The result, as text or JSON. */
static void append_print(const append_run *run)
{
    app_json json = {.out = stdout};

    if (app_given(run->call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_text(&json, "key", run->key);
        app_json_int(&json, "messages", run->stored);
        app_json_int(&json, "first_seq", run->first_seq);
        app_json_int(&json, "last_seq", run->last_seq);
        app_json_int(&json, "revision", run->revision);
        app_json_bool(&json, "created", run->created);
        app_json_bool(&json, "repeated", run->repeated);
        app_json_int(&json, "bad", run->bad);
        app_json_close(&json, '}');
        return;
    }
    app_put(stdout, run->key);
    printf(": %" PRId64 " message%s", run->stored, run->stored == 1 ? "" : "s");
    if (run->stored > 0) {
        printf(", %s %" PRId64 " to %" PRId64, run->repeated ? "stored before as" : "now",
               run->first_seq, run->last_seq);
    }
    printf("%s\n", run->created ? ", in a new session" : "");
}

/* Opens the store and runs. Skipped lines make the exit code APP_FAILURE, after everything else was
 * stored. */
static int append_work(append_run *run)
{
    int code = app_open(run->call, app_given(run->call, "create") ? APP_NEED_NEW : APP_NEED_WRITE,
                        &run->store);

    if (code != APP_OK) {
        return code;
    }
    app_progress_begin(&run->progress, run->call, "appending", APP_BYTES,
                       run->file != NULL ? app_input_bytes(run->file) : 0);
    code = run->file == NULL ? append_text(run) : append_lines(run);
    if (code == APP_OK && run->stored == 0 && run->bad == 0) {
        code = append_nothing(run);
    }
    app_progress_end(&run->progress);
    quipu_close(run->store);
    if (code == APP_OK) {
        append_print(run);
    }
    return code == APP_OK && run->bad > 0 ? APP_FAILURE : code;
}

/* Combinations of options that make no sense. */
static int append_check(const app_call *call)
{
    const bool text = app_given(call, "text");

    if (text && (call->argument_count > 1 || app_given(call, "keep-going"))) {
        return app_usage(call, "give either --text or a FILE of JSON Lines");
    }
    if (!text &&
        (app_given(call, "role") || app_given(call, "author") || app_given(call, "event-id"))) {
        return app_usage(call, "--role, --author and --event-id go with --text");
    }
    if (!app_given(call, "create") && (app_given(call, "app") || app_given(call, "user") ||
                                       app_given(call, "agent") || app_given(call, "model"))) {
        return app_usage(call, "--app, --user, --agent and --model go with --create");
    }
    return APP_OK;
}

/* Allocates for the largest batch, opens the input, and cleans up whatever happens. */
static int append_verb(const app_call *call)
{
    append_run run = {.call = call, .key = app_argument(call, 0), .repeated = true};
    int code = append_check(call);

    if (code != APP_OK) {
        return code;
    }
    run.going = app_given(call, "keep-going");
    run.source = call->argument_count > 1 ? call->arguments[1] : "-";
    run.cap = run.going ? APPEND_BATCH : app_given(call, "text") ? 1 : QUIPU_BATCH_MAX;
    run.messages = calloc(run.cap, sizeof(*run.messages));
    run.numbers = calloc(run.cap, sizeof(*run.numbers));
    if (run.messages == NULL || run.numbers == NULL) {
        code = app_fail(call, "append", QUIPU_NOMEM, NULL);
    } else if (!app_given(call, "text")) {
        run.file = app_input_open(call, run.source);
        code = run.file != NULL ? APP_OK : errno == ENOENT ? APP_NOT_FOUND : APP_FAILURE;
    }
    if (code == APP_OK) {
        run.source = strcmp(run.source, "-") == 0 ? "stdin" : run.source;
        code = append_work(&run);
    }
    app_input_close(run.file);
    free(run.messages);
    free(run.numbers);
    quipu_arena_free(&run.arena);
    return code;
}

const app_verb app_verb_append = {
    .name = "append",
    .group = APP_GROUP_WRITE,
    .arguments = "KEY [FILE]",
    .arguments_min = 1,
    .arguments_max = 2,
    .summary = "append messages: JSON Lines from a file or stdin, or one by --text",
    .note = "Examples:\n"
            "  quipu append notes --create --text 'Buy tickets'\n"
            "  echo '{\"role\":\"user\",\"content\":\"Hello\"}' | quipu append notes -",
    .common = APP_STORE | APP_ADDS | APP_JSON | APP_SILENT,
    .options = append_options,
    .run = append_verb,
};
