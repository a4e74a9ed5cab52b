/* MCP's HTTP transport without HTTP: the body of a POST and the headers that mirror it in, a status
 * and a body out. A server adds the rest: Origin and Host, tokens, limits, 405 for other methods.
 *
 * There are no sessions: a modern request stands for itself, and a legacy one names its revision in
 * a header (none: 2025-03-26, which had no such header). Every answer is one JSON value, no
 * stream. */
#ifndef QP_MCP_HTTP_H
#define QP_MCP_HTTP_H

#include "mcp/mcp.h"

#define QP_MCP_HTTP_TYPE "application/json" /* the Content-Type of every body */

/* Answers the body of a POST. *ret_status is 200, 202 (then `ret` is empty), 400 or 404. Fails with
 * QUIPU_NOMEM alone. Threads may share a server. */
QUIPU_MUST_USE quipu_status qp_mcp_http(const qp_mcp *server, const qp_mcp_headers *headers,
                                        quipu_str body, qp_buf *ret, int *ret_status);

#endif
