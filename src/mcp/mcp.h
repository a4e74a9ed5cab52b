/* A server of the Model Context Protocol over a store, without any transport: message bytes in,
 * response bytes out. stdio.c serves it over two descriptors; for an HTTP server see http.h.
 *
 * Two eras share the methods. A request whose params have `_meta` with a protocol version is modern
 * (revision 2026-07-28) and stands for itself. Any other is legacy: `initialize` agrees on a
 * revision, which the transport keeps for the client in a qp_mcp_peer.
 *
 *   bytes ──rpc.c──▶ envelope, era ──methods.c──▶ method ──tools.c──▶ arguments, tool
 */
#ifndef QP_MCP_MCP_H
#define QP_MCP_MCP_H

#include <stdbool.h>

#include <quipu/adk.h>
#include <quipu/server.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/log.h"

/* Error codes of JSON-RPC and of MCP. */
#define QP_MCP_PARSE_ERROR (-32700)
#define QP_MCP_INVALID_REQUEST (-32600)
#define QP_MCP_METHOD_NOT_FOUND (-32601)
#define QP_MCP_INVALID_PARAMS (-32602)
#define QP_MCP_INTERNAL_ERROR (-32603)
#define QP_MCP_LEGACY_NO_RESOURCE (-32002)
#define QP_MCP_HEADER_MISMATCH (-32020)
#define QP_MCP_UNSUPPORTED_VERSION (-32022)

/* Revisions of the protocol, oldest first; the order is used. */
typedef enum qp_mcp_version {
    QP_MCP_NO_VERSION = 0, /* a legacy client that has not sent `initialize` */
    QP_MCP_2025_03_26,
    QP_MCP_2025_06_18,
    QP_MCP_2025_11_25,
    QP_MCP_2026_07_28
} qp_mcp_version;

#define QP_MCP_LEGACY_LATEST QP_MCP_2025_11_25
#define QP_MCP_MODERN QP_MCP_2026_07_28

/* The revision's name, such as "2025-06-18". */
const char *qp_mcp_version_name(qp_mcp_version version);

/* The revision of a name; QP_MCP_NO_VERSION for any other. */
qp_mcp_version qp_mcp_version_of(quipu_str name);

/* A store with what may be seen and done in it. Immutable while it serves; threads may share it. */
typedef struct qp_mcp {
    quipu_store *store;
    quipu_service *service; /* reads state */
    bool writes;
    quipu_str app_name; /* the scope; absent: any */
    quipu_str user_id;
    quipu_str session_key;
    /* Gets faults of the store in place of the client, because their texts show where the store
     * lies. NULL: the client has the store itself, and gets them. */
    const qp_log *faults;
} qp_mcp;

/* Fills in a server; its texts are borrowed. QUIPU_MISUSE, QUIPU_UNSUPPORTED, QUIPU_NOMEM. Free
 * with qp_mcp_end(), which accepts a zeroed one. */
QUIPU_MUST_USE quipu_status qp_mcp_begin(quipu_store *store, const quipu_mcp_options *options,
                                         qp_mcp *ret_server, quipu_error *reterr);
void qp_mcp_end(qp_mcp *server);

/* The text that a client gets about a failure of the store; faults go to the log. */
const char *qp_mcp_failure(const qp_mcp *server, quipu_status status, const quipu_error *error);

/* Headers of HTTP that mirror a body; absent: not sent. */
typedef struct qp_mcp_headers {
    quipu_str protocol_version; /* MCP-Protocol-Version */
    quipu_str method;           /* Mcp-Method */
    quipu_str name;             /* Mcp-Name */
} qp_mcp_headers;

/* A transport's state of a client. Zeroed for a new one. */
typedef struct qp_mcp_peer {
    qp_mcp_version legacy;         /* the revision that it agreed on */
    const qp_mcp_headers *headers; /* of this message; NULL: the transport has none */
} qp_mcp_peer;

/* How a message was answered, for transports that have a status of their own. */
typedef struct qp_mcp_answer {
    bool modern; /* it was a modern request */
    int code;    /* of the error that was sent; 0: a result, a batch, or nothing */
} qp_mcp_answer;

/* Answers one message, and writes the response to `ret`, which it empties first; empty: none is
 * sent. Every failure but QUIPU_NOMEM is a response. `ret_answer` may be NULL. */
QUIPU_MUST_USE quipu_status qp_mcp_respond(const qp_mcp *server, qp_mcp_peer *peer,
                                           quipu_str message, qp_buf *ret,
                                           qp_mcp_answer *ret_answer);

/* Writes the error response for a message of more than QUIPU_MCP_REQUEST_MAX bytes. */
QUIPU_MUST_USE quipu_status qp_mcp_refuse_size(qp_buf *ret);

#endif
