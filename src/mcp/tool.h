/* Tools: a table of what they take and give, one call of one, and what they share. One list of
 * fields is both the schema that clients read and the rule by which arguments are checked.
 *
 * A tool writes the members of its structured result, or fails with a text for the model that names
 * the thing and the fix. scope.c alone decides what it may see. */
#ifndef QP_MCP_TOOL_H
#define QP_MCP_TOOL_H

#include "mcp/request.h"

/* ---- limits ---------------------------------------------------------------------------------- */

#define QP_MCP_ARGUMENTS_MAX 8     /* of one tool */
#define QP_MCP_ERROR_SIZE 2048     /* bytes of a tool's error, with its NUL */
#define QP_MCP_TOKENS_DEFAULT 4000 /* of a result without max_tokens */
#define QP_MCP_TOKENS_MIN 50
#define QP_MCP_ITEM_TOKENS 30 /* what the JSON around one message costs, about */

/* ---- fields ---------------------------------------------------------------------------------- */

typedef enum qp_mcp_kind {
    QP_MCP_TEXT = 1,
    QP_MCP_INTEGER,
    QP_MCP_NUMBER,
    QP_MCP_BOOLEAN,
    QP_MCP_OBJECT,
    QP_MCP_LIST, /* of objects */
    QP_MCP_ANY
} qp_mcp_kind;

/* A member of a tool's arguments or of its result. A list of them ends with a NULL name. */
typedef struct qp_mcp_field {
    const char *name;
    qp_mcp_kind kind;
    bool required;
    int64_t least;       /* arguments: of an integer, or of a text's bytes... */
    int64_t most;        /* ...and the most */
    int64_t otherwise;   /* an integer that is not given */
    const char *choices; /* the texts that are allowed, separated by spaces; NULL: any */
    const char *help;
    const struct qp_mcp_field *of; /* the members of an object, or of each object of a list */
} qp_mcp_field;

/* ---- calls ----------------------------------------------------------------------------------- */

/* An argument as it was given, or its default. */
typedef struct qp_mcp_value {
    bool given;
    quipu_str text; /* absent: not given */
    int64_t number;
} qp_mcp_value;

struct qp_mcp_tool;

typedef struct qp_mcp_call {
    const qp_mcp *server;
    const struct qp_mcp_tool *tool;
    quipu_arena *arena;
    qp_jsonw *out; /* inside of the object `structuredContent` */
    qp_mcp_value arguments[QP_MCP_ARGUMENTS_MAX];
    char error[QP_MCP_ERROR_SIZE];
} qp_mcp_call;

#define QP_MCP_WRITES 1u     /* offered to servers that may write */
#define QP_MCP_IDEMPOTENT 2u /* the same call again changes nothing */
#define QP_MCP_MANY 4u       /* makes no sense in the scope of one session */

typedef struct qp_mcp_tool {
    const char *name;
    const char *title;
    const char *description;
    uint32_t flags;
    const qp_mcp_field *input;
    const qp_mcp_field *output;
    bool (*run)(qp_mcp_call *call);
} qp_mcp_tool;

/* Every tool, in the order in which clients see them; ends with a NULL name. */
extern const qp_mcp_tool qp_mcp_tools[];

bool qp_mcp_search_sessions(qp_mcp_call *call);
bool qp_mcp_list_sessions(qp_mcp_call *call);
bool qp_mcp_session_overview(qp_mcp_call *call);
bool qp_mcp_read_messages(qp_mcp_call *call);
bool qp_mcp_recall(qp_mcp_call *call);
bool qp_mcp_get_state(qp_mcp_call *call);
bool qp_mcp_remember(qp_mcp_call *call);
bool qp_mcp_append_note(qp_mcp_call *call);
bool qp_mcp_fork_session(qp_mcp_call *call);

/* Whether a server offers a tool. */
bool qp_mcp_tool_is_offered(const qp_mcp *server, const qp_mcp_tool *tool);

/* The methods that list tools and call one. */
bool qp_mcp_tools_list(qp_mcp_request *request);
bool qp_mcp_tools_call(qp_mcp_request *request);

/* ---- arguments.c ----------------------------------------------------------------------------- */

/* Writes a list of fields as a JSON Schema. With a server: the schema of arguments. */
void qp_mcp_put_schema(qp_jsonw *out, const qp_mcp_field *fields, const qp_mcp *server);

/* Checks the arguments of a call against its tool's input and keeps them; or fails the call. */
bool qp_mcp_read_arguments(qp_mcp_call *call, qp_json_node arguments);

/* The argument of that name, which the tool must have. */
const qp_mcp_value *qp_mcp_argument(const qp_mcp_call *call, const char *name);

/* Fails a call with a text for the model; returns false, for `return`. */
bool qp_mcp_call_fail(qp_mcp_call *call, const char *format, ...) QUIPU_PRINTF(2, 3);

/* Fails a call by a failed call of the library. */
bool qp_mcp_call_fail_status(qp_mcp_call *call, quipu_status status, const quipu_error *error);

/* ---- scope.c --------------------------------------------------------------------------------- */

/* Reads a session of the scope, as quipu_session_get(). A session outside of the scope is
 * QUIPU_NOT_FOUND, as a missing one is: a client cannot distinguish them. */
QUIPU_MUST_USE quipu_status qp_mcp_scope_get(const qp_mcp *server, quipu_str key,
                                             const quipu_range *range, quipu_history **ret_history,
                                             quipu_error *reterr);

/* The session that a call names by `session`, or that of the scope. Fails the call when there is
 * none. */
bool qp_mcp_call_get(qp_mcp_call *call, const quipu_range *range, quipu_history **ret_history);

/* Only that it exists in the scope; *ret_key lives as long as the call. */
bool qp_mcp_call_key(qp_mcp_call *call, quipu_str *ret_key);

/* A page of the scope's sessions, as quipu_session_list(). */
QUIPU_MUST_USE quipu_status qp_mcp_scope_list(const qp_mcp *server, int64_t limit, quipu_str after,
                                              quipu_session_page **ret_page, quipu_error *reterr);

/* ---- items.c: lists that keep to a token budget ---------------------------------------------- */

/* A list in a result. The JSON of each item counts; the first one always fits. */
typedef struct qp_mcp_items {
    qp_jsonw *to;
    qp_buf buf;
    qp_jsonw item;
    int64_t left; /* tokens */
    size_t count;
    bool full; /* an item did not fit */
} qp_mcp_items;

void qp_mcp_items_begin(qp_mcp_items *items, qp_mcp_call *call, const char *name);
/* Begins an item: its members go to the writer that it returns. */
qp_jsonw *qp_mcp_item_begin(qp_mcp_items *items);
/* Ends an item and adds it; false: it does not fit, and is dropped. */
bool qp_mcp_item_end(qp_mcp_items *items);
void qp_mcp_items_end(qp_mcp_items *items);

/* The beginning of a text that has at most so many tokens, whole characters. */
quipu_str qp_mcp_cut(quipu_str text, int64_t tokens);

/* A text as a member, cut to a budget; "NAME_is_cut" says so. */
void qp_mcp_put_cut(qp_jsonw *out, const char *name, quipu_str text, int64_t tokens);

/* ---- show.c: sessions and messages as JSON --------------------------------------------------- */

extern const qp_mcp_field qp_mcp_session_fields[];
extern const qp_mcp_field qp_mcp_message_fields[];

const char *qp_mcp_role_name(quipu_role role);

/* The members of a session. */
void qp_mcp_put_session(qp_jsonw *out, const quipu_session_info *info);

/* The tokens of a message's texts; the store counts none for a summary. */
int64_t qp_mcp_message_tokens(const quipu_message *message);

/* A message as an object; its texts have at most so many tokens together, about. */
void qp_mcp_put_message(qp_jsonw *out, const quipu_message *message, int64_t tokens);

/* ---- resource.c ------------------------------------------------------------------------------ */

#define QP_MCP_RESOURCE_TOKENS 20000 /* of a session that is read as a resource */
#define QP_MCP_RESOURCE_MESSAGES 500 /* and its messages, the newest */

bool qp_mcp_resources_list(qp_mcp_request *request);
bool qp_mcp_resource_templates_list(qp_mcp_request *request);
bool qp_mcp_resources_read(qp_mcp_request *request);

/* Writes the URI of a session. */
void qp_mcp_uri_put(quipu_str key, qp_buf *ret_uri);

/* The key in the URI of a session, in the arena; false: it is another URI. */
bool qp_mcp_uri_key(quipu_str uri, quipu_arena *arena, quipu_str *ret_key);

#endif
