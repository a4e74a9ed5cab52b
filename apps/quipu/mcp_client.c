/* Client of an MCP server (mcp_client.h).
 *
 *   app_mcp_start(): "initialize" ─▶ app_mcp_tools(): page after page ─▶ app_mcp_call() ...
 *
 * Owns: the server's process and what was not sent yet. Called by: tools.c, one request at a time.
 * One thread. Reading and writing take turns, so that neither side waits for a full pipe. A server
 * is not trusted: lines that are not messages are skipped, answers to other requests too; a message
 * above APP_MCP_LINE_MAX ends it, and a deadline holds for each request. */
#include "mcp_client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* The revision that is asked for. From 2026-07-28 on requests have another form; servers of that
 * revision speak this one, too. */
#define MCP_VERSION "2025-11-25"

#define MCP_GRACE_MS 2000 /* a server whose stdin is closed ends by itself */
#define MCP_LAST_MS 500   /* for one that closed its stdout, or that is dropped */
#define MCP_NO_METHOD (-32601)

/* ---- ending ----------------------------------------------------------------------------------
 */

/* Ends a server that is of no more use; the end of its stderr says most. */
static app_mcp_outcome mcp_give_up(app_mcp *mcp, const char *what)
{
    const int status = app_child_end(&mcp->child, MCP_LAST_MS);
    const quipu_str said = app_child_said(&mcp->child);
    char how[64] = "";

    assert(mcp->why[0] == '\0');
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        (void)snprintf(how, sizeof(how), " with status %d", WEXITSTATUS(status));
    }
    (void)snprintf(mcp->why, sizeof(mcp->why), "%s%s%s%.*s", what, how, said.n > 0 ? ": " : "",
                   (int)said.n, said.p);
    return APP_MCP_ENDED;
}

void app_mcp_end(app_mcp *mcp)
{
    (void)app_child_end(&mcp->child, MCP_GRACE_MS);
    app_lines_end(&mcp->lines);
    quipu_arena_free(&mcp->arena);
    free(mcp->sending);
    mcp->sending = NULL;
}

/* ---- sending ---------------------------------------------------------------------------------
 */

/* A message in memory. */
typedef struct mcp_message {
    char *text;
    size_t n;
    app_json json;
} mcp_message;

/* False: no memory. A request has an id, a notification none. */
static bool mcp_begin(mcp_message *message, int64_t id, const char *method)
{
    *message = (mcp_message){.text = NULL};
    message->json.out = open_memstream(&message->text, &message->n);
    if (message->json.out == NULL) {
        return false;
    }
    app_json_open(&message->json, NULL, '{');
    app_json_cstr(&message->json, "jsonrpc", "2.0");
    if (id > 0) {
        app_json_int(&message->json, "id", id);
    }
    if (method != NULL) {
        app_json_cstr(&message->json, "method", method);
    }
    return true;
}

/* Puts a message, with its line end, behind those that are not sent yet. */
static bool mcp_send(app_mcp *mcp, mcp_message *message)
{
    char *grown = NULL;

    app_json_close(&message->json, '}');
    if (fclose(message->json.out) == 0) {
        if (mcp->sent > 0) {
            memmove(mcp->sending, mcp->sending + mcp->sent, mcp->size - mcp->sent);
        }
        mcp->size -= mcp->sent;
        mcp->sent = 0;
        grown = realloc(mcp->sending, mcp->size + message->n);
    }
    if (grown != NULL) {
        memcpy(grown + mcp->size, message->text, message->n);
        mcp->sending = grown;
        mcp->size += message->n;
    }
    free(message->text);
    return grown != NULL;
}

/* Cancels a request that the server did not answer in time. */
static void mcp_cancel(app_mcp *mcp, int64_t id)
{
    mcp_message message;

    if (mcp_begin(&message, 0, "notifications/cancelled")) {
        app_json_open(&message.json, "params", '{');
        app_json_int(&message.json, "requestId", id);
        app_json_close(&message.json, '}');
        (void)mcp_send(mcp, &message); /* sent with the next request */
    }
}

/* A request of the server: a ping is answered, nothing else is offered. False: no memory, or it
 * asks and asks without reading what it is answered. */
static bool mcp_reply(app_mcp *mcp, const app_tree *request)
{
    const app_tree *id = app_tree_get(request, "id");
    const quipu_str method = app_tree_text(request, "method");
    mcp_message message;

    if (mcp->size - mcp->sent > APP_MCP_LINE_MAX || !mcp_begin(&message, 0, NULL)) {
        return false;
    }
    app_json_raw(&message.json, "id", id->raw);
    if (quipu_str_eq(method, quipu_cstr("ping"))) {
        app_json_raw(&message.json, "result", quipu_cstr("{}"));
    } else {
        app_json_open(&message.json, "error", '{');
        app_json_int(&message.json, "code", MCP_NO_METHOD);
        app_json_cstr(&message.json, "message", "this client offers nothing");
        app_json_close(&message.json, '}');
    }
    return mcp_send(mcp, &message);
}

/* ---- asking ----------------------------------------------------------------------------------
 */

typedef enum mcp_taken { MCP_OTHER, MCP_ANSWER, MCP_NO_MEMORY } mcp_taken;

/* Looks at a line: the answer to request `id`, or something else, which is dealt with. */
static mcp_taken mcp_take(app_mcp *mcp, quipu_str line, int64_t id, const app_tree **ret_answer)
{
    quipu_str copy = {NULL, 0};
    const app_tree *root = NULL;
    quipu_status status;

    if (!app_is_utf8(line)) {
        return MCP_OTHER; /* no message: skipped */
    }
    quipu_arena_reset(&mcp->arena);
    status = quipu_arena_copy(&mcp->arena, line, &copy); /* the line is gone with the next one */
    if (status == QUIPU_OK) {
        status = app_tree_read(copy, &mcp->arena, &root);
    }
    if (status != QUIPU_OK || root->kind != APP_TREE_OBJECT) {
        return status == QUIPU_NOMEM ? MCP_NO_MEMORY : MCP_OTHER;
    }
    if (app_tree_get(root, "method") != NULL) {
        return app_tree_get(root, "id") == NULL || mcp_reply(mcp, root) ? MCP_OTHER : MCP_NO_MEMORY;
    }
    if (app_tree_int(root, "id", 0) != id) {
        return MCP_OTHER; /* late: nobody waits for it any more */
    }
    *ret_answer = root;
    return MCP_ANSWER;
}

/* Sends what is to be sent, and reads until the answer to `id` is there. */
static app_mcp_outcome mcp_await(app_mcp *mcp, int64_t id, const app_until *until,
                                 const app_tree **ret_answer)
{
    for (;;) {
        quipu_str line;
        quipu_str rest = {mcp->sending + mcp->sent, mcp->size - mcp->sent};
        const app_line got = app_lines_next(&mcp->lines, false, &line);
        mcp_taken taken = MCP_OTHER;
        app_wait waited;

        if (got == APP_LINE_END) {
            return mcp_give_up(mcp, "it ended");
        }
        if (got == APP_LINE_FAILED) {
            return mcp_give_up(mcp, errno == EMSGSIZE ? "it sent a message above 4 MiB"
                                                      : "it could not be read");
        }
        if (got == APP_LINE_GOT) {
            taken = mcp_take(mcp, line, id, ret_answer);
        } else {
            (void)app_child_write(&mcp->child, &rest); /* closed: its stdout ends, too */
            mcp->sent = mcp->size - rest.n;
        }
        if (taken == MCP_ANSWER) {
            return APP_MCP_OK;
        }
        if (taken == MCP_NO_MEMORY) {
            return mcp_give_up(mcp, "no memory for its messages");
        }
        waited = got == APP_LINE_GOT ? app_until_look(until) /* more may lie in the buffer */
                                     : app_child_wait(&mcp->child, until, rest.n > 0);
        if (waited != APP_WAIT_GO_ON) {
            return waited == APP_WAIT_LATE ? APP_MCP_LATE : APP_MCP_STOPPED;
        }
    }
}

/* Begins a request, whose params follow. */
static bool mcp_request(app_mcp *mcp, const char *method, mcp_message *message)
{
    if (mcp->why[0] != '\0') {
        return false;
    }
    if (!mcp_begin(message, mcp->last_id + 1, method)) {
        (void)mcp_give_up(mcp, "no memory for a request");
        return false;
    }
    mcp->last_id++;
    app_json_open(&message->json, "params", '{');
    return true;
}

/* Sends a request and waits. *ret_result: its result, or the message of its error. */
static app_mcp_outcome mcp_ask(app_mcp *mcp, mcp_message *message, const app_until *until,
                               const app_tree **ret_result)
{
    const int64_t id = mcp->last_id;
    const app_tree *answer = NULL;
    app_mcp_outcome outcome;

    app_json_close(&message->json, '}');
    if (!mcp_send(mcp, message)) {
        return mcp_give_up(mcp, "no memory for a request");
    }
    outcome = mcp_await(mcp, id, until, &answer);
    if (outcome == APP_MCP_LATE || outcome == APP_MCP_STOPPED) {
        mcp_cancel(mcp, id);
    }
    if (outcome != APP_MCP_OK) {
        return outcome;
    }
    *ret_result = app_tree_get(answer, "result");
    if (*ret_result != NULL && (*ret_result)->kind == APP_TREE_OBJECT) {
        return APP_MCP_OK;
    }
    *ret_result = app_tree_get(app_tree_get(answer, "error"), "message");
    return APP_MCP_ERROR;
}

/* ---- methods ---------------------------------------------------------------------------------
 */

/* Whether a revision lists and calls tools in the same form. */
static bool mcp_knows(quipu_str version)
{
    static const char *const names[] = {"2024-11-05", "2025-03-26", "2025-06-18", MCP_VERSION};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (quipu_str_eq(version, quipu_cstr(names[i]))) {
            return true;
        }
    }
    return false;
}

/* The server may answer with another revision: one that we know, or it is of no use. */
static app_mcp_outcome mcp_initialize(app_mcp *mcp, const app_until *until)
{
    const app_tree *result = NULL;
    mcp_message message;
    app_mcp_outcome outcome;

    if (!mcp_request(mcp, "initialize", &message)) {
        return APP_MCP_ENDED;
    }
    app_json_cstr(&message.json, "protocolVersion", MCP_VERSION);
    app_json_raw(&message.json, "capabilities", quipu_cstr("{}"));
    app_json_open(&message.json, "clientInfo", '{');
    app_json_cstr(&message.json, "name", "quipu");
    app_json_cstr(&message.json, "version", QUIPU_VERSION_TEXT);
    app_json_close(&message.json, '}');
    outcome = mcp_ask(mcp, &message, until, &result);
    if (outcome == APP_MCP_ERROR) {
        return mcp_give_up(mcp, "it refused to initialize");
    }
    if (outcome != APP_MCP_OK) {
        return outcome;
    }
    if (!mcp_knows(app_tree_text(result, "protocolVersion"))) {
        return mcp_give_up(mcp, "it speaks none of the revisions up to " MCP_VERSION);
    }
    if (!mcp_begin(&message, 0, "notifications/initialized") || !mcp_send(mcp, &message)) {
        return mcp_give_up(mcp, "no memory for a request");
    }
    return APP_MCP_OK;
}

app_mcp_outcome app_mcp_start(app_mcp *mcp, char *const *words, char *const *more,
                              const app_until *until)
{
    *mcp = (app_mcp){.lines = {.max = APP_MCP_LINE_MAX}};
    if (!app_child_start(&mcp->child, words, more)) {
        char text[APP_ERRNO_SIZE];

        (void)snprintf(mcp->why, sizeof(mcp->why), "it cannot be started: %s",
                       app_errno_text(errno, text));
        return APP_MCP_ENDED;
    }
    mcp->lines.fd = mcp->child.output;
    return mcp_initialize(mcp, until);
}

app_mcp_outcome app_mcp_tools(app_mcp *mcp, quipu_str cursor, const app_until *until,
                              const app_tree **ret_result)
{
    mcp_message message;

    if (!mcp_request(mcp, "tools/list", &message)) {
        return APP_MCP_ENDED;
    }
    app_json_text(&message.json, "cursor", cursor);
    return mcp_ask(mcp, &message, until, ret_result);
}

app_mcp_outcome app_mcp_call(app_mcp *mcp, quipu_str name, quipu_str arguments,
                             const app_until *until, const app_tree **ret_result)
{
    mcp_message message;

    if (!mcp_request(mcp, "tools/call", &message)) {
        return APP_MCP_ENDED;
    }
    app_json_text(&message.json, "name", name);
    app_json_raw(&message.json, "arguments", arguments.n > 0 ? arguments : quipu_cstr("{}"));
    return mcp_ask(mcp, &message, until, ret_result);
}
