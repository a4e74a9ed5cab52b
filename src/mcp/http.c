/* MCP over HTTP: which revision a client speaks by its header, whether the headers say the same as
 * the body, and which status an answer gets.
 *
 * Owns: nothing. Called by: HTTP servers, and by rpc.c for the check of headers. Locks: none.
 * Runs on a worker of the server (routes_mcp.c), which has checked host, origin, token and size. */
#include "mcp/http.h"

#include <assert.h>

#include "base/base64.h"
#include "mcp/request.h"

/* 202 is for messages that get no answer: notifications and responses. */
#define HTTP_OK 200
#define HTTP_ACCEPTED 202
#define HTTP_BAD_REQUEST 400
#define HTTP_NOT_FOUND 404

#define HTTP_BASE64_BEGIN QUIPU_STR("=?base64?")
#define HTTP_BASE64_END QUIPU_STR("?=")

/* ---- headers --------------------------------------------------------------------------------- */

/* Case counts: what is compared are values, and names of headers have lost theirs. */
static bool http_begins(quipu_str text, quipu_str with)
{
    return text.n >= with.n && memcmp(text.p, with.p, with.n) == 0;
}

/* The text of a header: values that are not plain ASCII come as =?base64?...?=. Absent when it
 * cannot be decoded. The decoded text lies in the request's arena. */
static quipu_str http_decode(quipu_str value, quipu_arena *arena)
{
    const quipu_str begin = HTTP_BASE64_BEGIN;
    const quipu_str end = HTTP_BASE64_END;
    quipu_bytes bytes = {NULL, 0};

    if (value.p == NULL || !http_begins(value, begin) || value.n < begin.n + end.n ||
        memcmp(value.p + value.n - end.n, end.p, end.n) != 0) {
        return value;
    }
    value = (quipu_str){value.p + begin.n, value.n - begin.n - end.n};
    if (qp_base64_read(value, arena, &bytes) != QUIPU_OK) {
        return (quipu_str){NULL, 0};
    }
    return (quipu_str){bytes.p, bytes.n};
}

/* The member of params that Mcp-Name mirrors; NULL for methods without one. */
static const char *http_name_member(quipu_str method)
{
    return quipu_str_eq(method, QUIPU_STR("tools/call"))       ? "name"
           : quipu_str_eq(method, QUIPU_STR("resources/read")) ? "uri"
                                                               : NULL;
}

/* Whether a header has the same text as a value of the body; a value that is not a text is left to
 * its method. An absent header matches no text. */
static bool http_matches(quipu_str header, qp_json_node node)
{
    return qp_json_kind_of(node) != QP_JSON_STRING ||
           (header.p != NULL && qp_json_text_is(node, header));
}

/* Proxies route and limit by headers, and servers act by the body: both must agree, or one of them
 * was deceived. Over stdio there are no headers. */
bool qp_mcp_check_headers(qp_mcp_request *request, qp_json_node version)
{
    const qp_mcp_headers *headers = request->peer->headers;
    const char *member = http_name_member(request->method);

    if (headers == NULL) {
        return true;
    }
    if (headers->protocol_version.p == NULL || !http_matches(headers->protocol_version, version)) {
        return qp_mcp_fail(request, QP_MCP_HEADER_MISMATCH,
                           "the header MCP-Protocol-Version must be the protocolVersion of _meta");
    }
    if (!quipu_str_eq(headers->method, request->method)) {
        return qp_mcp_fail(request, QP_MCP_HEADER_MISMATCH,
                           "the header Mcp-Method must be the method of the body");
    }
    if (member != NULL && !http_matches(http_decode(headers->name, request->arena),
                                        qp_json_get(request->params, quipu_cstr(member)))) {
        return qp_mcp_fail(request, QP_MCP_HEADER_MISMATCH,
                           "the header Mcp-Name must be the %s of the body's params", member);
    }
    return true;
}

/* ---- statuses -------------------------------------------------------------------------------- */

/* The status of an answer. Legacy errors but malformed messages are answers like others: older
 * clients read the body of a 200 alone. */
static int http_status(const qp_mcp_answer *answer, bool has_body)
{
    if (!has_body) {
        return HTTP_ACCEPTED;
    }
    switch (answer->code) {
    case QP_MCP_PARSE_ERROR:
    case QP_MCP_INVALID_REQUEST:
        return HTTP_BAD_REQUEST;
    case QP_MCP_INVALID_PARAMS:
    case QP_MCP_HEADER_MISMATCH:
    case QP_MCP_UNSUPPORTED_VERSION:
        return answer->modern ? HTTP_BAD_REQUEST : HTTP_OK;
    case QP_MCP_METHOD_NOT_FOUND:
        return answer->modern ? HTTP_NOT_FOUND : HTTP_OK;
    default:
        return HTTP_OK;
    }
}

/* Keeps nothing between requests: the revision of a legacy client is read from its header each
 * time, so that any process can answer any request. */
quipu_status qp_mcp_http(const qp_mcp *server, const qp_mcp_headers *headers, quipu_str body,
                         qp_buf *ret, int *ret_status)
{
    const quipu_str named = headers->protocol_version;
    qp_mcp_peer peer = {.headers = headers};
    qp_mcp_answer answer = {0};
    quipu_status status;

    /* Revision 2025-03-26 has no such header, so that its absence means that one. */
    peer.legacy = named.p == NULL ? QP_MCP_2025_03_26 : qp_mcp_version_of(named);
    if (peer.legacy == QP_MCP_MODERN) {
        peer.legacy = QP_MCP_NO_VERSION; /* rpc.c sees the header and takes the request as modern */
    }
    status = qp_mcp_respond(server, &peer, body, ret, &answer);
    if (status == QUIPU_OK) {
        *ret_status = http_status(&answer, ret->n > 0);
    }
    return status;
}
