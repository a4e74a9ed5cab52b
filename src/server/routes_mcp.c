/* The Model Context Protocol over HTTP: the body of a POST goes to the room mcp, with the scope and
 * the rights of the token. Runs on workers.
 * Owns: nothing after a call. Called by: the table of routes. Locks: none; a server of the room
 * mcp is made for each request. */
#include "mcp/http.h"
#include "server/route.h"
#include "server/server.h"

/* Tools that write are offered to a token that may write. */
quipu_status qp_route_mcp(qp_call *call, quipu_error *reterr)
{
    const qp_mcp server = {.store = call->store,
                           .service = call->service,
                           .writes = (call->identity->verbs & QUIPU_ACCESS_TOKEN_WRITE) != 0,
                           .app_name = call->identity->app_name,
                           .user_id = call->identity->user_id,
                           .faults = &call->server->log};
    const qp_mcp_headers headers = {qp_http_header(call->request, "mcp-protocol-version"),
                                    qp_http_header(call->request, "mcp-method"),
                                    qp_http_header(call->request, "mcp-name")};

    (void)reterr; /* what a client does wrong is an answer of the protocol */
    call->answer.type = QP_MCP_HTTP_TYPE;
    return qp_mcp_http(&server, &headers, call->request->body, &call->answer.body,
                       &call->answer.status);
}
