/* quipu mcp: a server of the Model Context Protocol on stdin and stdout, for programs that run
 * language models. The library does the work (libquipu-server); this verb opens the store and says
 * what may be seen and done. */
#include <signal.h>
#include <unistd.h>

#include "library.h"

static const app_option mcp_options[] = {
    {.name = "app", .value = "NAME", .help = "only the sessions of this app"},
    {.name = "user", .value = "ID", .help = "only those of this user of the app"},
    {.name = "session", .value = "KEY", .help = "only this session"},
    {.name = "write", .help = "offer the tools that write: remember, append_note, fork_session"},
    {.name = NULL},
};

/* Serves until stdin ends. A client that closes its end is not an error. */
static int mcp_serve(const app_call *call, const app_server *server,
                     const quipu_mcp_options *options)
{
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status;
    int code = app_open_by(call, APP_NEED_WRITE, server->open, &store);

    if (code != APP_OK) {
        return code;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    status = server->mcp_serve(store, options, STDIN_FILENO, STDOUT_FILENO, &error);
    server->close(store);
    return status == QUIPU_OK ? APP_OK : app_fail(call, "the server", status, &error);
}

static int mcp_run(const app_call *call)
{
    quipu_mcp_options options = QUIPU_MCP_OPTIONS_INIT;
    app_server server;
    const char *why;

    options.app_name = app_text_value(call, "app");
    options.user_id = app_text_value(call, "user");
    options.session_key = app_text_value(call, "session");
    options.flags = app_given(call, "write") ? QUIPU_MCP_WRITE : 0;
    if (options.user_id.p != NULL && options.app_name.p == NULL) {
        return app_usage(call, "--user needs --app: users belong to an app");
    }
    if (app_given(call, "write") && app_given(call, "read-only")) {
        return app_usage(call, "--write and --read-only exclude each other");
    }
    why = app_server_load(&server);
    if (why != NULL) {
        app_report(call, "the server library cannot be loaded: %s", why);
        return APP_FAILURE;
    }
    return mcp_serve(call, &server, &options);
}

const app_verb app_verb_mcp = {
    .name = "mcp",
    .group = APP_GROUP_READ,
    .arguments = "",
    .summary = "serve sessions to language models over MCP, on stdin and stdout",
    .note = "A client starts this program and speaks to it: see docs/mcp.md for configurations.\n"
            "The scope is fixed at the start: no tool reaches a session outside of it."
            "\n"
            "\n"
            "Examples:\n"
            "  claude mcp add memory -- quipu mcp --app travel --user ana\n"
            "  quipu mcp --session notes --write",
    .common = APP_STORE | APP_READ_ONLY,
    .options = mcp_options,
    .run = mcp_run,
};
