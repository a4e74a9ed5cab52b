/* Sessions and messages as JSON for models: what helps to find and understand them, and no
 * bookkeeping.
 *
 * Owns: nothing. Called by: tools and resources. The lists of fields are the schemas of what the
 * functions write.
 * Locks: none. */
#include "mcp/tool.h"

#include <assert.h>

/* A message with many calls of tools would take the whole budget with its arguments. */
#define SHOW_CALL_TOKENS 100 /* of each text of a tool call in a message that is cut... */
#define SHOW_CALLS_MAX 20    /* ...and how many of them are shown */

/* The schema of a session in every tool that shows one. A member that is not required is left out
 * where it has no value, because models pay for each name that they read. */
const qp_mcp_field qp_mcp_session_fields[] = {
    {.name = "key", .kind = QP_MCP_TEXT, .required = true, .help = "names the session in calls"},
    {.name = "title", .kind = QP_MCP_TEXT},
    {.name = "first_words", .kind = QP_MCP_TEXT, .help = "how the first user message begins"},
    {.name = "app", .kind = QP_MCP_TEXT},
    {.name = "user", .kind = QP_MCP_TEXT},
    {.name = "agent", .kind = QP_MCP_TEXT},
    {.name = "model", .kind = QP_MCP_TEXT},
    {.name = "messages", .kind = QP_MCP_INTEGER, .required = true, .help = "how many there are"},
    {.name = "tokens", .kind = QP_MCP_INTEGER, .required = true, .help = "of all, an estimate"},
    {.name = "first_seq",
     .kind = QP_MCP_INTEGER,
     .required = true,
     .help = "of the oldest message"},
    {.name = "last_seq",
     .kind = QP_MCP_INTEGER,
     .required = true,
     .help = "of the newest; 0: none"},
    {.name = "created_at", .kind = QP_MCP_TEXT},
    {.name = "updated_at", .kind = QP_MCP_TEXT},
    {.name = "expires_at", .kind = QP_MCP_TEXT},
    {.name = "fork_seq",
     .kind = QP_MCP_INTEGER,
     .help = "a fork: shares its parent's messages up "
             "to this one"},
    {.name = NULL},
};

/* Input and output as texts: they are JSON of other programs, and no schema knows its form. */
static const qp_mcp_field show_call_fields[] = {
    {.name = "id", .kind = QP_MCP_TEXT},
    {.name = "name", .kind = QP_MCP_TEXT},
    {.name = "input", .kind = QP_MCP_TEXT, .help = "serialized JSON"},
    {.name = "input_is_cut", .kind = QP_MCP_BOOLEAN},
    {.name = "output", .kind = QP_MCP_TEXT, .help = "of a response"},
    {.name = "output_is_cut", .kind = QP_MCP_BOOLEAN},
    {.name = NULL},
};

/* The members of a message in every tool and resource that shows one. `seq` leads back to
 * read_messages. */
const qp_mcp_field qp_mcp_message_fields[] = {
    {.name = "seq", .kind = QP_MCP_INTEGER, .required = true},
    {.name = "role", .kind = QP_MCP_TEXT, .required = true},
    {.name = "author", .kind = QP_MCP_TEXT},
    {.name = "timestamp", .kind = QP_MCP_TEXT},
    {.name = "text", .kind = QP_MCP_TEXT, .required = true},
    {.name = "text_is_cut", .kind = QP_MCP_BOOLEAN, .help = "raise max_tokens to read all of it"},
    {.name = "tool_calls", .kind = QP_MCP_LIST, .of = show_call_fields},
    {.name = "tokens", .kind = QP_MCP_INTEGER, .required = true, .help = "of the whole message"},
    {.name = "is_summary", .kind = QP_MCP_BOOLEAN, .help = "stands for older messages"},
    {.name = NULL},
};

/* The words of the JSON form of a message. */
const char *qp_mcp_role_name(quipu_role role)
{
    static const char *const names[] = {
        [QUIPU_ROLE_USER] = "user",   [QUIPU_ROLE_ASSISTANT] = "assistant",
        [QUIPU_ROLE_TOOL] = "tool",   [QUIPU_ROLE_FUNCTION] = "function",
        [QUIPU_ROLE_MODEL] = "model", [QUIPU_ROLE_SYSTEM] = "system",
    };

    /* Stored messages have a role of the list: the library refuses others. */
    assert(role >= QUIPU_ROLE_USER && role <= QUIPU_ROLE_SYSTEM);
    return names[role];
}

/* A text that is not empty.
 * Members without a value cost tokens and say nothing. */
static void show_put(qp_jsonw *out, const char *name, quipu_str text)
{
    if (text.n > 0) {
        qp_jsonw_put_text(out, name, text);
    }
}

/* Absent texts are left out: a model pays for every member.
 * The parent's key is left out: it may lie outside of the scope. */
void qp_mcp_put_session(qp_jsonw *out, const quipu_session_info *info)
{
    qp_jsonw_put_text(out, "key", info->key);
    show_put(out, "title", info->title);
    show_put(out, "first_words", info->first_words);
    show_put(out, "app", info->app_name);
    show_put(out, "user", info->user_id);
    show_put(out, "agent", info->agent_id);
    show_put(out, "model", info->model);
    qp_jsonw_put_i64(out, "messages", info->message_count);
    qp_jsonw_put_i64(out, "tokens", info->token_count);
    qp_jsonw_put_i64(out, "first_seq", info->first_seq);
    qp_jsonw_put_i64(out, "last_seq", info->next_seq - 1);
    qp_jsonw_put_time(out, "created_at", info->created_at);
    qp_jsonw_put_time(out, "updated_at", info->updated_at);
    if (info->has_expiry) {
        qp_jsonw_put_time(out, "expires_at", info->expires_at);
    }
    if (info->is_fork) {
        qp_jsonw_put_i64(out, "fork_seq", info->fork_seq);
    }
}

/* Calls of a message that is cut are cut, too, and listed up to SHOW_CALLS_MAX.
 * `whole`: the message fits its budget, and nothing is cut. */
static void show_put_calls(qp_jsonw *out, quipu_tool_calls calls, bool whole)
{
    const int64_t tokens = whole ? INT32_MAX : SHOW_CALL_TOKENS;
    const size_t count = whole || calls.count < SHOW_CALLS_MAX ? calls.count : SHOW_CALLS_MAX;

    qp_jsonw_key(out, QUIPU_STR("tool_calls"));
    qp_jsonw_array(out);
    for (size_t i = 0; i < count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(calls, i);

        qp_jsonw_object(out);
        show_put(out, "id", call->id);
        show_put(out, "name", call->name);
        qp_mcp_put_cut(out, "input", call->input, tokens);
        qp_mcp_put_cut(out, "output", call->output, tokens);
        qp_jsonw_object_end(out);
    }
    qp_jsonw_array_end(out);
}

/* The row of a summary has 0 tokens, because the messages that it stands for are counted; what a
 * reader pays for is its text. */
int64_t qp_mcp_message_tokens(const quipu_message *message)
{
    return message->mark == QUIPU_MARK_COMPACTION ? quipu_token_estimate(message->content)
                                                  : message->tokens;
}

/* A message that fits is shown as a whole; of a larger one, text and calls are cut.
 * A text of absent content is "", because the schema requires the member. */
void qp_mcp_put_message(qp_jsonw *out, const quipu_message *message, int64_t tokens)
{
    const bool whole = qp_mcp_message_tokens(message) <= tokens;

    qp_jsonw_object(out);
    qp_jsonw_put_i64(out, "seq", message->seq);
    qp_jsonw_put(out, "role", qp_mcp_role_name(message->role));
    show_put(out, "author", message->author);
    qp_jsonw_put_time(out, "timestamp", message->timestamp);
    qp_mcp_put_cut(out, "text", message->content.p != NULL ? message->content : QUIPU_STR(""),
                   whole ? INT32_MAX : tokens);
    if (message->calls.count > 0) {
        show_put_calls(out, message->calls, whole);
    }
    qp_jsonw_put_i64(out, "tokens", qp_mcp_message_tokens(message));
    if (message->mark == QUIPU_MARK_COMPACTION) {
        qp_jsonw_put_bool(out, "is_summary", true);
    }
    qp_jsonw_object_end(out);
}
