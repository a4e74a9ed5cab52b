/* Calls of tools (tools.h): a command for each call, or a request to a server that runs.
 *
 * Owns: a command's process and its output, during a call. Called by: cmd_chat.c, on the main
 * thread. Holds on return: no process of a command is left; a result is at most about
 * APP_TOOL_OUTPUT_MAX bytes, whatever the tool does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"
#include "tools.h"

#define RUN_WHY_SIZE (APP_MCP_WHY_SIZE + 64)

/* ---- results ---------------------------------------------------------------------------------
 */

/* Why a call failed, and what the tool wrote before (absent: nothing). */
typedef struct run_failure {
    const char *why;
    quipu_str output;
    quipu_str said; /* on stderr */
} run_failure;

/* JSON in memory, which is written between these two; the result lies in the arena. */
static bool run_write(app_json *json, char **text, size_t *n)
{
    *json = (app_json){.out = open_memstream(text, n)};
    return json->out != NULL;
}

static quipu_status run_written(app_json *json, char **text, const size_t *n, quipu_arena *arena,
                                quipu_json *ret_result)
{
    const quipu_status status =
        fclose(json->out) == 0 ? quipu_arena_copy(arena, (quipu_str){*text, *n}, &ret_result->text)
                               : QUIPU_NOMEM;

    free(*text);
    return status;
}

/* A failure as a JSON object. */
static quipu_status run_fail(const run_failure *failure, quipu_arena *arena, quipu_json *ret_result)
{
    char *text = NULL;
    size_t n = 0;
    app_json json;

    if (!run_write(&json, &text, &n)) {
        return QUIPU_NOMEM;
    }
    app_json_open(&json, NULL, '{');
    app_json_cstr(&json, "error", failure->why);
    if (failure->output.n > 0) {
        app_json_text(&json, "output", failure->output);
    }
    if (failure->said.n > 0) {
        app_json_text(&json, "stderr", failure->said);
    }
    app_json_close(&json, '}');
    return run_written(&json, &text, &n, arena, ret_result);
}

quipu_status app_tools_error(const char *why, quipu_arena *arena, quipu_json *ret_result)
{
    return run_fail(&(run_failure){.why = why}, arena, ret_result);
}

/* A result above the limit is not cut: half of an answer misleads. Invalid UTF-8 becomes U+FFFD. An
 * empty output is a result, too, and not null. */
static quipu_status run_result(quipu_str result, quipu_arena *arena, quipu_json *ret_result)
{
    char why[RUN_WHY_SIZE];
    char *text = NULL;
    size_t n = 0;
    app_json json;

    if (result.n > APP_TOOL_OUTPUT_MAX) {
        (void)snprintf(why, sizeof(why), "the result has more than %d bytes; ask for less",
                       APP_TOOL_OUTPUT_MAX);
        return app_tools_error(why, arena, ret_result);
    }
    if (result.n > 0 && app_is_utf8(result)) {
        return quipu_arena_copy(arena, result, &ret_result->text);
    }
    if (!run_write(&json, &text, &n)) {
        return QUIPU_NOMEM;
    }
    app_json_text(&json, NULL, (quipu_str){result.n > 0 ? result.p : "", result.n});
    return run_written(&json, &text, &n, arena, ret_result);
}

static quipu_status run_late(int64_t ms, quipu_arena *arena, quipu_json *ret_result)
{
    char why[RUN_WHY_SIZE];

    (void)snprintf(why, sizeof(why), "no answer within %.3g seconds", (double)ms / 1000);
    return app_tools_error(why, arena, ret_result);
}

/* ---- commands --------------------------------------------------------------------------------
 */

/* A command at work. */
typedef struct run_command {
    app_child child;
    quipu_str input; /* what it has not read yet */
    char *output;    /* APP_TOOL_OUTPUT_MAX + 1 bytes */
    size_t n;
} run_command;

/* Reads what is there, at most one byte above the limit. */
static void run_read(run_command *run)
{
    while (run->child.output >= 0 && run->n <= APP_TOOL_OUTPUT_MAX) {
        const ssize_t n =
            read(run->child.output, run->output + run->n, APP_TOOL_OUTPUT_MAX + 1 - run->n);

        if (n > 0) {
            run->n += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n == 0 || errno != EINTR) {
            (void)close(run->child.output);
            run->child.output = -1;
        }
    }
}

/* Speaks with it until it has ended; programs that it left running are not waited for. */
static app_wait run_to_end(run_command *run, const app_until *until)
{
    for (;;) {
        const bool exited = app_child_exited(&run->child); /* before the last look at its output */
        app_wait waited;

        if (run->input.n == 0 || !app_child_write(&run->child, &run->input)) {
            run->input.n = 0;
            app_child_close_input(&run->child);
        }
        run_read(run);
        if (exited || run->n > APP_TOOL_OUTPUT_MAX) {
            return APP_WAIT_GO_ON;
        }
        waited = app_child_wait(&run->child, until, run->input.n > 0);
        if (waited != APP_WAIT_GO_ON) {
            return waited;
        }
    }
}

/* The meaning of its exit. */
static quipu_status run_ended(const run_command *run, int status, quipu_arena *arena,
                              quipu_json *ret_result)
{
    quipu_str output = {run->output, run->n};
    char why[RUN_WHY_SIZE];

    if (output.n > APP_TOOL_OUTPUT_MAX) {
        return run_result(output, arena, ret_result);
    }
    while (output.n > 0 && (output.p[output.n - 1] == '\n' || output.p[output.n - 1] == '\r')) {
        output.n--;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return run_result(output, arena, ret_result);
    }
    if (WIFSIGNALED(status)) {
        (void)snprintf(why, sizeof(why), "ended by signal %d", WTERMSIG(status));
    } else {
        (void)snprintf(why, sizeof(why), "exit status %d", WEXITSTATUS(status));
    }
    return run_fail(&(run_failure){why, output, app_child_said(&run->child)}, arena, ret_result);
}

static quipu_status run_command_call(const app_tool *tool, quipu_str arguments,
                                     const app_until *until, int64_t ms, quipu_arena *arena,
                                     quipu_json *ret_result)
{
    run_command run = {.input = arguments.n > 0 ? arguments : quipu_cstr("{}"),
                       .output = malloc(APP_TOOL_OUTPUT_MAX + 1)};
    quipu_status result;
    app_wait waited;
    int status;

    if (run.output == NULL) {
        return QUIPU_NOMEM;
    }
    if (!app_child_start(&run.child, tool->words, NULL)) {
        char why[RUN_WHY_SIZE];
        char text[APP_ERRNO_SIZE];

        (void)snprintf(why, sizeof(why), "%.300s cannot be started: %s", tool->words[0],
                       app_errno_text(errno, text));
        free(run.output);
        return app_tools_error(why, arena, ret_result);
    }
    waited = run_to_end(&run, until);
    status = app_child_end(&run.child, 0);
    if (waited == APP_WAIT_GO_ON) {
        result = run_ended(&run, status, arena, ret_result);
    } else {
        result = waited == APP_WAIT_LATE ? run_late(ms, arena, ret_result) : QUIPU_CANCELLED;
    }
    free(run.output);
    return result;
}

/* ---- servers ---------------------------------------------------------------------------------
 */

/* All texts of a result's content, a line end between them; false: some of it is not text, or
 * memory is used up. */
static bool run_texts(const app_tree *content, char **ret_text, size_t *ret_n)
{
    FILE *out = open_memstream(ret_text, ret_n);
    bool all = out != NULL;

    for (const app_tree *one = content->first; all && one != NULL; one = one->next) {
        const quipu_str text = app_tree_text(one, "text");

        all = quipu_str_eq(app_tree_text(one, "type"), quipu_cstr("text")) && text.p != NULL;
        if (all) {
            (void)fwrite(text.p, 1, text.n, out);
            if (one->next != NULL) {
                fputc('\n', out);
            }
        }
    }
    return out != NULL && fclose(out) == 0 && all;
}

/* The texts are what the server wrote for a model; a result with images or links stays JSON. */
static quipu_status run_answer(const app_tree *result, quipu_arena *arena, quipu_json *ret_result)
{
    const app_tree *content = app_tree_get(result, "content");
    const bool failed = app_tree_true(result, "isError");
    char *text = NULL;
    size_t n = 0;
    quipu_status status;

    if (content == NULL || content->count == 0 || !run_texts(content, &text, &n)) {
        status = run_result(result->raw, arena, ret_result);
    } else if (failed && n <= APP_TOOL_OUTPUT_MAX) {
        status = app_tools_error(text, arena, ret_result);
    } else {
        status = run_result((quipu_str){text, n}, arena, ret_result);
    }
    free(text);
    return status;
}

static quipu_status run_server_call(const app_tool *tool, quipu_str arguments,
                                    const app_until *until, int64_t ms, quipu_arena *arena,
                                    quipu_json *ret_result)
{
    const app_tree *result = NULL;
    char why[RUN_WHY_SIZE];

    switch (app_mcp_call(tool->server, tool->name_at_server, arguments, until, &result)) {
    case APP_MCP_OK:
        return run_answer(result, arena, ret_result);
    case APP_MCP_LATE:
        return run_late(ms, arena, ret_result);
    case APP_MCP_STOPPED:
        return QUIPU_CANCELLED;
    case APP_MCP_ERROR:
        (void)snprintf(why, sizeof(why), "the server refused the call: %.*s",
                       result != NULL
                           ? (int)(result->text.n < RUN_WHY_SIZE ? result->text.n : RUN_WHY_SIZE)
                           : 0,
                       result != NULL ? result->text.p : "");
        return app_tools_error(why, arena, ret_result);
    case APP_MCP_ENDED:
        break;
    }
    (void)snprintf(why, sizeof(why), "the server has ended: %s", tool->server->why);
    return app_tools_error(why, arena, ret_result);
}

quipu_status app_tools_run(app_tools *tools, const app_tool *tool, const quipu_part *call,
                           int64_t left_ms, quipu_arena *arena, quipu_json *ret_result)
{
    const int64_t ms = left_ms > 0 && left_ms < tools->timeout_ms ? left_ms : tools->timeout_ms;
    const app_until until = {app_clock_ms() + ms, tools->stopped};

    return tool->words != NULL
               ? run_command_call(tool, call->json.text, &until, ms, arena, ret_result)
               : run_server_call(tool, call->json.text, &until, ms, arena, ret_result);
}
