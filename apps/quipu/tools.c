/* The table of a chat's tools (tools.h): what the command line declares, and what servers list.
 *
 * Owns: app_tools from app_tools_begin() to app_tools_end(), with the servers' processes. Called
 * by: cmd_chat.c, tools_file.c, on the main thread. Names are unique: a model could not say which
 * of two it means. The names that a server lists are checked: a name that providers refuse would
 * make every request fail. */
#include "tools.h"

#include <assert.h>
#include <string.h>

#include "text.h"

#define TOOLS_PAGES_MAX 100        /* of a server's list: one that never ends is abandoned */
#define TOOLS_DESCRIPTION_SIZE 512 /* bytes of a command's without one, with its NUL */
#define TOOLS_ANY_ARGUMENTS "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":true}"
#define TOOLS_NAME_RULE                                                                            \
    "a name has 1 to 64 letters, digits, \"_\" or \"-\", and begins with a letter"

bool app_tools_wanted(const app_call *call)
{
    return app_given(call, "tool") || app_given(call, "mcp") || app_given(call, "tools");
}

/* ---- names -----------------------------------------------------------------------------------
 */

static bool tools_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* How many bytes at the beginning can be of a name. */
static size_t tools_span(quipu_str text)
{
    size_t n = 0;

    while (n < text.n && (tools_letter(text.p[n]) || (n > 0 && text.p[n] == '-') ||
                          (n > 0 && text.p[n] >= '0' && text.p[n] <= '9'))) {
        n++;
    }
    return n;
}

static bool tools_is_name(quipu_str name)
{
    return name.n > 0 && name.n <= APP_TOOL_NAME_MAX && tools_span(name) == name.n;
}

bool app_tools_is_schema(const app_tree *schema)
{
    return quipu_str_eq(app_tree_text(schema, "type"), quipu_cstr("object"));
}

app_tool *app_tools_find(app_tools *tools, quipu_str name)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (quipu_str_eq(tools->tools[i].offered.name, name)) {
            return &tools->tools[i];
        }
    }
    return NULL;
}

/* A copy in the arena, with its NUL; absent: no memory, or nothing to copy. */
static quipu_str tools_keep(app_tools *tools, quipu_str text)
{
    quipu_str kept = {NULL, 0};

    return quipu_arena_copy(&tools->arena, text, &kept) == QUIPU_OK ? kept : (quipu_str){NULL, 0};
}

static int tools_too_many(const app_tools *tools)
{
    return app_usage(tools->call, "a chat has at most %d tools", APP_TOOLS_MAX);
}

/* Adds a tool with a checked name; its texts are copied. */
static int tools_add(app_tools *tools, const app_tool *tool)
{
    app_tool *place = &tools->tools[tools->count];
    const quipu_str name = tool->offered.name;

    assert(tools_is_name(name));
    if (app_tools_find(tools, name) != NULL) {
        return app_usage(tools->call,
                         "two tools have the name \"%.*s\"; --mcp NAME=COMMAND puts a name before "
                         "those of a server",
                         (int)name.n, name.p);
    }
    if (tools->count == APP_TOOLS_MAX) {
        return tools_too_many(tools);
    }
    *place = *tool;
    place->offered.name = tools_keep(tools, name);
    place->offered.description = tools_keep(tools, tool->offered.description);
    place->offered.schema.text = tools_keep(tools, tool->offered.schema.text);
    place->name_at_server = tools_keep(tools, tool->name_at_server);
    if (place->offered.name.p == NULL || place->offered.schema.text.p == NULL) {
        return app_fail(tools->call, "tools", QUIPU_NOMEM, NULL);
    }
    tools->count++;
    return APP_OK;
}

/* ---- commands --------------------------------------------------------------------------------
 */

/* The description of a command that has none: models know most programs by their names. */
static void tools_describe(char *const *words, char *ret_text, size_t size)
{
    size_t n = (size_t)snprintf(ret_text, size,
                                "The arguments are a JSON object on standard input,"
                                " the result is standard output. Runs:");

    for (size_t i = 0; words[i] != NULL && n < size; i++) {
        n += (size_t)snprintf(ret_text + n, size - n, " %s", words[i]);
    }
    while (!app_is_utf8(quipu_cstr(ret_text))) { /* cut within a character, or of other bytes */
        ret_text[strlen(ret_text) - 1] = '\0';
    }
}

int app_tools_command(app_tools *tools, quipu_str name, quipu_str description, quipu_json schema,
                      char *const *words)
{
    char general[TOOLS_DESCRIPTION_SIZE];
    app_tool tool = {.offered = {.name = name, .description = description, .schema = schema},
                     .words = words};

    if (!tools_is_name(name)) {
        return app_usage(tools->call, "there can be no tool \"%.*s\": " TOOLS_NAME_RULE,
                         (int)(name.n < APP_TOOL_NAME_MAX ? name.n : APP_TOOL_NAME_MAX),
                         name.n > 0 ? name.p : "");
    }
    if (!app_program_is_there(words[0])) { /* now, not when the model calls it */
        return app_usage(tools->call, "the tool \"%.*s\" needs \"%s\", which is no program here",
                         (int)name.n, name.p, words[0]);
    }
    if (description.n == 0) {
        tools_describe(words, general, sizeof(general));
        tool.offered.description = quipu_cstr(general);
    }
    if (schema.text.n == 0) {
        tool.offered.schema.text = quipu_cstr(TOOLS_ANY_ARGUMENTS);
    }
    return tools_add(tools, &tool);
}

/* NAME=COMMAND, or a command alone, whose name is then empty. False: reported. */
static bool tools_declared(app_tools *tools, const char *option, const char *value, bool named,
                           quipu_str *ret_name, char *const **ret_words)
{
    const size_t n = tools_span(quipu_cstr(value));
    const char *command = value;
    const char *why = NULL;

    *ret_name = (quipu_str){"", 0};
    if (n > 0 && value[n] == '=') {
        *ret_name = (quipu_str){value, n};
        command = value + n + 1;
    } else if (named) {
        (void)app_usage(
            tools->call,
            "--%s needs NAME=COMMAND, such as 'today=date +%%F', not \"%s\"; " TOOLS_NAME_RULE,
            option, value);
        return false;
    }
    *ret_words = app_command_words(quipu_cstr(command), &tools->arena, &why);
    if (*ret_words == NULL) {
        (void)app_usage(tools->call, "--%s: the command \"%s\" cannot be used: %s", option, command,
                        why);
    }
    return *ret_words != NULL;
}

/* ---- servers ---------------------------------------------------------------------------------
 */

/* Adds one of the tools that a server lists. A tool whose name or schema no provider takes is left
 * out, so that the others can be used. */
static int tools_listed(app_tools *tools, app_mcp *server, quipu_str prefix, const app_tree *listed)
{
    const quipu_str own = app_tree_text(listed, "name");
    const app_tree *schema = app_tree_get(listed, "inputSchema");
    char name[2 * APP_TOOL_NAME_MAX + 2];
    app_tool tool = {.server = server, .name_at_server = own};
    int n = -1;

    if (own.n <= APP_TOOL_NAME_MAX) {
        n = snprintf(name, sizeof(name), "%.*s%s%.*s", (int)prefix.n, prefix.p,
                     prefix.n > 0 ? "_" : "", (int)own.n, own.n > 0 ? own.p : "");
    }
    if (n < 0 || !tools_is_name(quipu_cstr(name)) || !app_tools_is_schema(schema)) {
        app_report(tools->call,
                   "a tool of the server is left out, \"%.*s\": it needs an inputSchema "
                   "of type object, and " TOOLS_NAME_RULE,
                   (int)(own.n < APP_TOOL_NAME_MAX ? own.n : APP_TOOL_NAME_MAX),
                   own.n > 0 ? own.p : "");
        return APP_OK;
    }
    tool.offered.name = quipu_cstr(name);
    tool.offered.description = app_tree_text(listed, "description");
    tool.offered.schema.text = schema->raw;
    return tools_add(tools, &tool);
}

/* Why a server cannot be used. */
static int tools_server_failed(const app_tools *tools, const app_mcp *server, const char *command,
                               app_mcp_outcome outcome)
{
    const char *why = server->why;

    switch (outcome) {
    case APP_MCP_LATE:
        why = "it did not answer in time";
        break;
    case APP_MCP_STOPPED:
        why = "interrupted";
        break;
    case APP_MCP_ERROR:
        why = "it lists no tools";
        break;
    default:
        break;
    }
    app_report(tools->call, "the MCP server %s cannot be used: %s", command, why);
    return APP_FAILURE;
}

/* All pages of a server's list. */
static int tools_list(app_tools *tools, app_mcp *server, quipu_str prefix, const char *command,
                      const app_until *until)
{
    quipu_str cursor = {NULL, 0};
    size_t listed = 0; /* with those that are left out: a note about each must end, too */
    int code = APP_OK;

    for (int page = 0; code == APP_OK && page < TOOLS_PAGES_MAX; page++) {
        const app_tree *result = NULL;
        const app_tree *list;
        const app_mcp_outcome outcome = app_mcp_tools(server, cursor, until, &result);

        if (outcome != APP_MCP_OK) {
            return tools_server_failed(tools, server, command, outcome);
        }
        list = app_tree_get(result, "tools");
        for (const app_tree *one = list != NULL ? list->first : NULL; one != NULL && code == APP_OK;
             one = one->next) {
            code = ++listed <= APP_TOOLS_MAX ? tools_listed(tools, server, prefix, one)
                                             : tools_too_many(tools);
        }
        cursor = app_tree_text(result, "nextCursor");
        if (cursor.n == 0) {
            return code;
        }
    }
    return code == APP_OK ? tools_server_failed(tools, server, command, APP_MCP_ERROR) : code;
}

int app_tools_server(app_tools *tools, quipu_str name, char *const *words, char *const *more)
{
    const app_until until = {app_clock_ms() + APP_TOOL_START_MS, tools->stopped};
    app_mcp *server = &tools->servers[tools->server_count];
    app_mcp_outcome outcome;

    if (tools->server_count == APP_TOOL_SERVERS_MAX) {
        return app_usage(tools->call, "a chat starts at most %d MCP servers", APP_TOOL_SERVERS_MAX);
    }
    if (name.n > 0 && !tools_is_name(name)) {
        return app_usage(tools->call,
                         "an MCP server cannot have the name \"%.*s\": " TOOLS_NAME_RULE,
                         (int)name.n, name.p);
    }
    tools->server_count++;
    outcome = app_mcp_start(server, words, more, &until);
    return outcome == APP_MCP_OK ? tools_list(tools, server, name, words[0], &until)
                                 : tools_server_failed(tools, server, words[0], outcome);
}

/* ---- the command line ------------------------------------------------------------------------
 */

/* The tools that may run without a question. */
static int tools_allow(app_tools *tools)
{
    const char *value;

    for (size_t at = 0; (value = app_each_value(tools->call, "allow", &at)) != NULL;) {
        app_tool *tool = app_tools_find(tools, quipu_cstr(value));

        if (tool == NULL) {
            app_report(tools->call, "--allow: there is no tool \"%s\"; there are:", value);
            for (size_t i = 0; i < tools->count; i++) {
                app_report(tools->call, "  %s", tools->tools[i].offered.name.p);
            }
            return APP_USAGE;
        }
        tool->allowed = true;
    }
    for (size_t i = 0; app_given(tools->call, "yes") && i < tools->count; i++) {
        tools->tools[i].allowed = true;
    }
    return APP_OK;
}

/* Files first, then commands, then servers: the order in which the model sees them. */
static int tools_declare(app_tools *tools)
{
    const char *value;
    char *const *words;
    quipu_str name;
    int code = APP_OK;

    for (size_t at = 0;
         code == APP_OK && (value = app_each_value(tools->call, "tools", &at)) != NULL;) {
        code = app_tools_file(tools, value);
    }
    for (size_t at = 0;
         code == APP_OK && (value = app_each_value(tools->call, "tool", &at)) != NULL;) {
        code = tools_declared(tools, "tool", value, true, &name, &words)
                   ? app_tools_command(tools, name, (quipu_str){NULL, 0}, (quipu_json){{NULL, 0}},
                                       words)
                   : APP_USAGE;
    }
    for (size_t at = 0;
         code == APP_OK && (value = app_each_value(tools->call, "mcp", &at)) != NULL;) {
        code = tools_declared(tools, "mcp", value, false, &name, &words)
                   ? app_tools_server(tools, name, words, NULL)
                   : APP_USAGE;
    }
    return code;
}

int app_tools_begin(app_tools *tools, const app_call *call, bool asks, const atomic_bool *stopped)
{
    int64_t seconds = APP_TOOL_SECONDS;
    int code;

    *tools = (app_tools){.call = call, .stopped = stopped};
    if (!app_number(call, "tool-timeout", 1, APP_TOOL_SECONDS_MAX, &seconds)) {
        return APP_USAGE;
    }
    tools->timeout_ms = seconds * 1000;
    /* Before a server starts and a model is paid for nothing. */
    if (app_tools_wanted(call) && !asks && !app_given(call, "yes") && !app_given(call, "allow")) {
        return app_usage(call, "there is no terminal to ask on before a tool runs: give --yes, or "
                               "--allow NAME for each that may");
    }
    code = tools_declare(tools);
    if (code == APP_OK) {
        code = tools_allow(tools);
    }
    for (size_t i = 0; i < tools->count; i++) {
        tools->offered[i] = tools->tools[i].offered;
    }
    return code;
}

void app_tools_end(app_tools *tools)
{
    for (size_t i = 0; i < tools->server_count; i++) {
        app_mcp_end(&tools->servers[i]);
    }
    quipu_arena_free(&tools->arena);
    *tools = (app_tools){.count = 0};
}
