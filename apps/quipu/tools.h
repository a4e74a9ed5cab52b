/* Tools of a chat: commands, and what servers of the Model Context Protocol offer. Declared by
 * --tool, --mcp and --tools; called by the model through quipu_turn(). */
#ifndef APPS_QUIPU_TOOLS_H
#define APPS_QUIPU_TOOLS_H

#include <quipu/agent.h>

#include "mcp_client.h"

#define APP_TOOLS_MAX 128          /* of one chat: OpenAI takes no more in a request */
#define APP_TOOL_NAME_MAX 64       /* bytes; letters, digits, "_" and "-", as all providers take */
#define APP_TOOL_SERVERS_MAX 16    /* that one chat starts */
#define APP_TOOL_OUTPUT_MAX 131072 /* bytes of a result: 128 KiB, about 32,000 tokens */
#define APP_TOOL_FILE_MAX 1048576  /* bytes of a file of --tools */
#define APP_TOOL_SECONDS 60        /* of a call without --tool-timeout */
#define APP_TOOL_SECONDS_MAX 86400 /* the maximum of the option */
#define APP_TOOL_START_MS 30000    /* for a server to start and to list its tools */

/* A tool: a command, or a tool of a server. */
typedef struct app_tool {
    quipu_tool offered;       /* as the model sees it */
    char *const *words;       /* the command; NULL: a server's */
    app_mcp *server;          /* or NULL */
    quipu_str name_at_server; /* without the prefix of the server's name */
    bool allowed;             /* to run without a question */
} app_tool;

/* Texts lie in the arena. */
typedef struct app_tools {
    const app_call *call;
    const atomic_bool *stopped; /* set by a signal: ends a call */
    quipu_arena arena;
    app_tool tools[APP_TOOLS_MAX];
    quipu_tool offered[APP_TOOLS_MAX]; /* the same, for a request */
    size_t count;
    app_mcp servers[APP_TOOL_SERVERS_MAX];
    size_t server_count;
    int64_t timeout_ms;
} app_tools;

/* The options of a chat. */
#define APP_TOOL_OPTIONS                                                                           \
    {.name = "tool",                                                                               \
     .value = "NAME=COMMAND",                                                                      \
     .repeats = true,                                                                              \
     .help = "a tool: gets its arguments as JSON on stdin; may be repeated"},                      \
        {.name = "mcp",                                                                            \
         .value = "COMMAND",                                                                       \
         .repeats = true,                                                                          \
         .help = "an MCP server to start for its tools; NAME=COMMAND names it"},                   \
        {.name = "tools",                                                                          \
         .value = "FILE",                                                                          \
         .repeats = true,                                                                          \
         .help = "tools and mcpServers, declared in JSON"},                                        \
        {.name = "allow",                                                                          \
         .value = "NAME",                                                                          \
         .repeats = true,                                                                          \
         .help = "run this tool without a question; --yes: all"},                                  \
        {.name = "tool-timeout", .value = "SECONDS", .help = "limit of a tool call; default: 60"}

/* Whether the command line declares any. */
bool app_tools_wanted(const app_call *call);

/* Reads the declarations and starts the servers; `asks`: there is a terminal for questions. Returns
 * an exit code; failures are reported. End it in any case. */
int app_tools_begin(app_tools *tools, const app_call *call, bool asks, const atomic_bool *stopped);

/* tools_file.c: adds what a file declares. Returns an exit code. */
int app_tools_file(app_tools *tools, const char *path);

/* Adds a command; an empty description gets a general one, an absent schema takes any arguments.
 * Returns an exit code, as app_tools_server() does: `words` and `more` as for app_child_start(), a
 * server's name (may be empty) stands before those of its tools. */
int app_tools_command(app_tools *tools, quipu_str name, quipu_str description, quipu_json schema,
                      char *const *words);
int app_tools_server(app_tools *tools, quipu_str name, char *const *words, char *const *more);

/* Whether providers take it as the schema of arguments. */
bool app_tools_is_schema(const app_tree *schema);

/* The tool that the model calls; NULL: it was not offered. */
app_tool *app_tools_find(app_tools *tools, quipu_str name);

/* Runs a call; the result lies in the arena. A failure of the tool is a result with a member
 * "error". QUIPU_CANCELLED: a signal came; QUIPU_NOMEM. */
quipu_status app_tools_run(app_tools *tools, const app_tool *tool, const quipu_part *call,
                           int64_t left_ms, quipu_arena *arena, quipu_json *ret_result);

/* A result that says why the tool has none. */
quipu_status app_tools_error(const char *why, quipu_arena *arena, quipu_json *ret_result);

/* Ends the servers. */
void app_tools_end(app_tools *tools);

#endif
