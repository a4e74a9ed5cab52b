/* One request on its way through the room: what methods and tools read, and where they write. */
#ifndef QP_MCP_REQUEST_H
#define QP_MCP_REQUEST_H

#include "mcp/mcp.h"

#define QP_MCP_FAULT_SIZE 512 /* bytes of an error's message, with its NUL */

/* Why a request fails, as a JSON-RPC error. */
typedef struct qp_mcp_fault {
    int code;
    char message[QP_MCP_FAULT_SIZE];
    quipu_str data; /* JSON, in the request's arena; absent: none */
} qp_mcp_fault;

typedef struct qp_mcp_request {
    const qp_mcp *server;
    qp_mcp_peer *peer;
    qp_mcp_version version; /* QP_MCP_MODERN, or what the peer agreed on */
    quipu_str method;
    qp_json_node params; /* an object, or no value */
    quipu_arena *arena;  /* lives as long as the request */
    qp_jsonw *out;       /* inside of the object `result` */
    qp_mcp_fault fault;
} qp_mcp_request;

/* Fails a request: sets its fault and returns false, for `return`. */
bool qp_mcp_fail(qp_mcp_request *request, int code, const char *format, ...) QUIPU_PRINTF(3, 4);

/* Fails a request by a failed call of the library. */
bool qp_mcp_fail_status(qp_mcp_request *request, quipu_status status, const quipu_error *error);

/* Whether the headers of a modern request say the same as its body; `version` is what its _meta
 * names. Fails the request where they do not. */
bool qp_mcp_check_headers(qp_mcp_request *request, qp_json_node version);

/* Runs the method of a request: writes the members of its result, or fails. */
bool qp_mcp_method(qp_mcp_request *request);

/* The hints of revision 2026-07-28: how long a client may keep the result, and that it belongs to
 * this client, whose scope decided about it. */
void qp_mcp_put_cache(qp_mcp_request *request, int64_t ttl_ms);

/* Stored JSON as a value, without white space between its tokens: a line end would end the message
 * on stdio. */
void qp_mcp_put_json(qp_jsonw *out, const char *name, quipu_json json);

#endif
