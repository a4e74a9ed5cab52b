/* Tools that are declared in a file (tools.h): commands with descriptions and schemas in the names
 * of MCP, and servers in the form that clients share.
 *
 *   {"tools": [{"name": "...", "description": "...", "inputSchema": {...}, "command": "..."}],
 *    "mcpServers": {"NAME": {"command": "...", "args": ["..."], "env": {"NAME": "..."}}}}
 *
 * Owns: nothing; texts lie in the arena of the tools. Called by: tools.c. Other members are left
 * alone, so that another client's file can be used as it is. */
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "tools.h"

/* A text with its NUL in the arena; NULL: no memory, or not a string. */
static char *file_text(app_tools *tools, const app_tree *tree)
{
    char *text = tree != NULL && tree->kind == APP_TREE_STRING
                     ? quipu_arena_alloc(&tools->arena, tree->text.n + 1)
                     : NULL;

    if (text != NULL) {
        memcpy(text, tree->text.p, tree->text.n);
        text[tree->text.n] = '\0';
    }
    return text;
}

/* The words of "command" and "args". A tool's command without "args" is split as that of --tool is;
 * a server's is the program, as other clients take it. NULL: *ret_why. */
static char **file_words(app_tools *tools, const app_tree *entry, bool splits, const char **ret_why)
{
    const app_tree *command = app_tree_get(entry, "command");
    const app_tree *args = app_tree_get(entry, "args");
    size_t count = 0;
    char **words;

    *ret_why = "it needs a \"command\", a text, and its \"args\" are texts in an array";
    if (splits && args == NULL) {
        return command != NULL && command->kind == APP_TREE_STRING
                   ? app_command_words(command->text, &tools->arena, ret_why)
                   : NULL;
    }
    words =
        quipu_arena_alloc(&tools->arena, ((args != NULL ? args->count : 0) + 2) * sizeof(*words));
    if (words == NULL) {
        return NULL;
    }
    words[count] = file_text(tools, command);
    if (words[count++] == NULL) {
        return NULL;
    }
    for (const app_tree *one = args != NULL ? args->first : NULL; one != NULL; one = one->next) {
        words[count] = file_text(tools, one);
        if (words[count++] == NULL) {
            return NULL;
        }
    }
    words[count] = NULL;
    return words;
}

/* "NAME=VALUE" of each member of "env", ending with NULL. NULL: *ret_why. */
static char **file_environment(app_tools *tools, const app_tree *entry, const char **ret_why)
{
    const app_tree *env = app_tree_get(entry, "env");
    char **names =
        quipu_arena_alloc(&tools->arena, ((env != NULL ? env->count : 0) + 1) * sizeof(*names));
    size_t count = 0;

    *ret_why = "\"env\" is an object of texts";
    if (names == NULL) {
        return NULL;
    }
    for (const app_tree *one = env != NULL ? env->first : NULL; one != NULL; one = one->next) {
        const size_t size = one->name.n + one->text.n + 2;
        char *name = one->kind == APP_TREE_STRING && one->name.n > 0
                         ? quipu_arena_alloc(&tools->arena, size)
                         : NULL;

        if (name == NULL) {
            return NULL;
        }
        (void)snprintf(name, size, "%.*s=%.*s", (int)one->name.n, one->name.p, (int)one->text.n,
                       one->text.p);
        names[count++] = name;
    }
    names[count] = NULL;
    return names;
}

/* ---- entries ---------------------------------------------------------------------------------
 */

static int file_fail(const app_tools *tools, const char *path, quipu_str name, const char *why)
{
    return app_usage(tools->call, "%s: \"%.*s\" cannot be used: %s", path,
                     (int)(name.n < APP_TOOL_NAME_MAX ? name.n : APP_TOOL_NAME_MAX),
                     name.n > 0 ? name.p : "", why);
}

static int file_tool(app_tools *tools, const char *path, const app_tree *entry)
{
    const quipu_str name = app_tree_text(entry, "name");
    const app_tree *schema = app_tree_get(entry, "inputSchema");
    const char *why = NULL;
    char **words = file_words(tools, entry, true, &why);

    if (words == NULL) {
        return file_fail(tools, path, name, why);
    }
    if (schema != NULL && !app_tools_is_schema(schema)) {
        return file_fail(tools, path, name,
                         "its \"inputSchema\" is an object with \"type\": \"object\"");
    }
    return app_tools_command(tools, name, app_tree_text(entry, "description"),
                             (quipu_json){schema != NULL ? schema->raw : (quipu_str){NULL, 0}},
                             words);
}

static int file_server(app_tools *tools, const char *path, const app_tree *entry)
{
    const char *why = NULL;
    char **words = NULL;
    char **names = NULL;

    if (app_tree_get(entry, "url") != NULL) {
        return file_fail(tools, path, entry->name, "only servers with a \"command\" can be");
    }
    words = file_words(tools, entry, false, &why);
    if (words != NULL) {
        names = file_environment(tools, entry, &why);
    }
    return names != NULL ? app_tools_server(tools, entry->name, words, names)
                         : file_fail(tools, path, entry->name, why);
}

/* Everything that a file declares. */
static int file_entries(app_tools *tools, const char *path, const app_tree *root)
{
    const app_tree *list = app_tree_get(root, "tools");
    const app_tree *servers = app_tree_get(root, "mcpServers");
    int code = APP_OK;

    if (list == NULL && servers == NULL) {
        return app_usage(tools->call, "%s has neither \"tools\" nor \"mcpServers\"", path);
    }
    for (const app_tree *one = list != NULL ? list->first : NULL; one != NULL && code == APP_OK;
         one = one->next) {
        code = file_tool(tools, path, one);
    }
    for (const app_tree *one = servers != NULL ? servers->first : NULL;
         one != NULL && code == APP_OK; one = one->next) {
        code = file_server(tools, path, one);
    }
    return code;
}

int app_tools_file(app_tools *tools, const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = quipu_arena_alloc(&tools->arena, APP_TOOL_FILE_MAX + 1);
    const app_tree *root = NULL;
    size_t n;
    bool failed;

    if (file == NULL || text == NULL) {
        const int code = file == NULL ? app_fail_errno(tools->call, path)
                                      : app_fail(tools->call, path, QUIPU_NOMEM, NULL);

        if (file != NULL) {
            (void)fclose(file);
        }
        return code;
    }
    n = fread(text, 1, APP_TOOL_FILE_MAX + 1, file);
    failed = ferror(file) != 0;
    (void)fclose(file);
    if (failed) {
        return app_fail_errno(tools->call, path);
    }
    if (n > APP_TOOL_FILE_MAX) {
        return app_usage(tools->call, "%s is larger than %d bytes", path, APP_TOOL_FILE_MAX);
    }
    return app_is_utf8((quipu_str){text, n}) &&
                   app_tree_read((quipu_str){text, n}, &tools->arena, &root) == QUIPU_OK
               ? file_entries(tools, path, root)
               : app_usage(tools->call, "%s is not JSON", path);
}
