/* JSON-RPC 2.0: one message in, at most one response out. Decides what a message is (request,
 * notification, response, batch), which era a request belongs to, and writes results and errors in
 * their envelope.
 *
 * Owns: nothing after a call; a request's arena and buffers live in rpc_turn. Called by: transports
 * such as stdio.c. Locks: none; several threads may answer different messages of one server.
 * Holds on return: the buffer has one whole JSON value, or is empty. An error whose request has no
 * readable id carries no id, as MCP's schema wants it; plain JSON-RPC would write null.
 * A message takes this way; a fault at any step becomes the one error response: parse, envelope
 * (rpc_read()), params and era (rpc_admit()), method (qp_mcp_method()), result or error. Errors of
 * the protocol are for programs; what a model should read is a tool's result. */
#include "mcp/request.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"

#define RPC_META_VERSION QUIPU_STR("io.modelcontextprotocol/protocolVersion")
#define RPC_META_CAPABILITIES QUIPU_STR("io.modelcontextprotocol/clientCapabilities")
#define RPC_ECHO_MAX 256 /* bytes of a client's text that an error repeats */
/* Bytes of a result that fits any batch. A tool that writes has written before its result
 * could be refused; its results are smaller than this, so that none is. All results of a batch may
 * be that large behind QUIPU_MCP_RESPONSE_MAX bytes of others: transports give the buffer
 * QUIPU_MCP_REQUEST_MAX bytes more. */
#define RPC_SMALL_MAX 32768

/* One message while it is answered. */
typedef struct rpc_turn {
    const qp_mcp *server; /* shared by threads, which only read it */
    qp_mcp_peer *peer;    /* the client's: `initialize` writes its revision */
    qp_buf *ret;          /* the transport's: the response */
    qp_buf body;          /* the object `result` */
    quipu_arena arena;    /* of one request; a batch empties it in between */
    bool is_batch;        /* inside of an array */
    qp_mcp_answer answer; /* what a transport needs for its status */
} rpc_turn;

/* The parts of a message. */
typedef struct rpc_envelope {
    quipu_str id; /* as it is written; absent: a notification */
    quipu_str method;
    qp_json_node params;
    bool is_response;
} rpc_envelope;

/* Returns false, so that a method can `return` it. The last fault of a request counts.
 * The text is cut at its size; it may repeat what the client sent, or a message of the library. */
bool qp_mcp_fail(qp_mcp_request *request, int code, const char *format, ...)
{
    va_list args;

    request->fault.code = code;
    va_start(args, format);
    (void)vsnprintf(request->fault.message, sizeof(request->fault.message), format, args);
    va_end(args);
    /* snprintf() counts bytes; half a character at the end would not be JSON. */
    request->fault.message[qp_utf8_prefix(quipu_cstr(request->fault.message))] = '\0';
    return false;
}

/* An error without a message, or none at all, has the text of its status. */
const char *qp_mcp_failure(const qp_mcp *server, quipu_status status, const quipu_error *error)
{
    assert(status != QUIPU_OK);
    if (server->faults != NULL && qp_error_is_fault(status)) {
        qp_log_fault(server->faults, "/mcp", status); /* the route of every server that has one */
        return quipu_status_text(status);
    }
    return error != NULL && error->message[0] != '\0' ? error->message : quipu_status_text(status);
}

/* Failures of the store are internal errors: the request was right. */
bool qp_mcp_fail_status(qp_mcp_request *request, quipu_status status, const quipu_error *error)
{
    assert(status != QUIPU_OK);
    return qp_mcp_fail(request, QP_MCP_INTERNAL_ERROR, "%s: %s", quipu_status_name(status),
                       qp_mcp_failure(request->server, status, error));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* `id` is raw JSON, as it came: 1 and "1" are different ids.
 * The caller writes `result` or `error` and ends the object. */
static void rpc_envelope_begin(qp_jsonw *out, qp_buf *ret, quipu_str id)
{
    qp_jsonw_begin(out, ret);
    qp_jsonw_object(out);
    qp_jsonw_put(out, "jsonrpc", "2.0");
    if (id.p != NULL) {
        qp_jsonw_key(out, QUIPU_STR("id"));
        qp_jsonw_raw(out, id);
    }
}

/* Written instead of a result: what a method has written so far is dropped with its buffer. */
static void rpc_write_error(rpc_turn *turn, quipu_str id, const qp_mcp_fault *fault)
{
    qp_jsonw out;

    assert(fault->code < 0);
    turn->answer.code = fault->code;
    rpc_envelope_begin(&out, turn->ret, id);
    qp_jsonw_key(&out, QUIPU_STR("error"));
    qp_jsonw_object(&out);
    qp_jsonw_put_i64(&out, "code", fault->code);
    qp_jsonw_put(&out, "message", fault->message);
    if (fault->data.p != NULL) {
        qp_jsonw_key(&out, QUIPU_STR("data"));
        qp_jsonw_raw(&out, fault->data);
    }
    qp_jsonw_object_end(&out);
    qp_jsonw_object_end(&out);
}

/* An error about the message itself.
 * `id` may be absent: then the client cannot match the error to a request. */
static void rpc_refuse(rpc_turn *turn, quipu_str id, int code, const char *why)
{
    qp_mcp_fault fault = {.code = code};

    (void)snprintf(fault.message, sizeof(fault.message), "%s", why);
    rpc_write_error(turn, id, &fault);
}

/* The result was written apart, so that a late fault leaves nothing of it behind. */
static void rpc_write_result(rpc_turn *turn, quipu_str id)
{
    qp_jsonw out;

    rpc_envelope_begin(&out, turn->ret, id);
    qp_jsonw_key(&out, QUIPU_STR("result"));
    qp_jsonw_raw(&out, qp_buf_str(&turn->body));
    qp_jsonw_object_end(&out);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Whether a node may be a request's id: a text or an integer, as it is written. null is refused as
 * an id: MCP forbids it. The size is bounded, because every response repeats it. */
static bool rpc_is_id(qp_json_node node)
{
    int64_t value;

    return qp_json_raw(node).n <= QUIPU_MCP_ID_MAX &&
           (qp_json_kind_of(node) == QP_JSON_STRING ||
            qp_json_int64(node, &value) == QP_JSON_EXACT);
}

/* Takes a message apart. Returns NULL, or why it is not a message; the id is set as soon as it is
 * known to be one, so that the refusal can carry it. A message with a method and a result is a
 * request: the method decides. */
static const char *rpc_read(qp_json_node message, quipu_arena *arena, rpc_envelope *ret)
{
    const qp_json_node id = qp_json_get(message, QUIPU_STR("id"));
    const qp_json_node method = qp_json_get(message, QUIPU_STR("method"));
    bool repeats = false;
    quipu_status status;

    if (qp_json_kind_of(message) != QP_JSON_OBJECT) {
        return "a message is a JSON object with jsonrpc, method and, for a request, id";
    }
    /* Two programs could read it in two ways: none is right, and its id is not known either. */
    status = qp_json_repeats(message, &repeats);
    if (status != QUIPU_OK || repeats) {
        return status != QUIPU_OK ? quipu_status_text(status) : "a message has a member twice";
    }
    if (qp_json_kind_of(id) != QP_JSON_NONE) {
        if (!rpc_is_id(id)) {
            return "id must be a text or an integer, of at most 1024 bytes";
        }
        ret->id = qp_json_raw(id);
    }
    if (!qp_json_text_is(qp_json_get(message, QUIPU_STR("jsonrpc")), QUIPU_STR("2.0"))) {
        return "jsonrpc must be \"2.0\"";
    }
    ret->is_response =
        qp_json_kind_of(method) == QP_JSON_NONE &&
        (qp_json_kind_of(qp_json_get(message, QUIPU_STR("result"))) != QP_JSON_NONE ||
         qp_json_kind_of(qp_json_get(message, QUIPU_STR("error"))) != QP_JSON_NONE);
    if (ret->is_response) {
        return NULL;
    }
    if (qp_json_text(method, arena, &ret->method, NULL) != QUIPU_OK) {
        return "method must be a text";
    }
    ret->params = qp_json_get(message, QUIPU_STR("params"));
    return NULL;
}

/* The versions that a modern request may name, and the one that it named, as an error's data.
 * A client can choose another revision by the list and try again, without a person. */
static bool rpc_fail_version(qp_mcp_request *request, qp_json_node version)
{
    quipu_str requested = qp_json_raw(version);
    qp_buf data;
    qp_jsonw out;
    quipu_status status;

    qp_buf_init(&data, QUIPU_MCP_RESPONSE_MAX);
    qp_jsonw_begin(&out, &data);
    qp_jsonw_object(&out);
    qp_jsonw_key(&out, QUIPU_STR("supported"));
    qp_jsonw_array(&out);
    qp_jsonw_str(&out, quipu_cstr(qp_mcp_version_name(QP_MCP_MODERN)));
    qp_jsonw_array_end(&out);
    qp_jsonw_key(&out, QUIPU_STR("requested"));
    qp_jsonw_raw(&out, requested.n <= RPC_ECHO_MAX ? requested : QUIPU_STR("\"\""));
    qp_jsonw_object_end(&out);
    status = qp_jsonw_end(&out);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(request->arena, qp_buf_str(&data), &request->fault.data);
    }
    qp_buf_free(&data);
    if (status != QUIPU_OK) {
        return qp_mcp_fail_status(request, status, NULL);
    }
    return qp_mcp_fail(request, QP_MCP_UNSUPPORTED_VERSION,
                       "Unsupported protocol version: a request with this _meta must name %s",
                       qp_mcp_version_name(QP_MCP_MODERN));
}

/* Whether a request belongs to the modern era: by `_meta` or by its header, never by the method,
 * except that server/discover exists in the modern one alone.
 * A request of neither is legacy: its revision is what `initialize` agreed on, or what the header
 * names. */
static bool rpc_is_modern(const qp_mcp_request *request, qp_json_node version,
                          qp_json_node capabilities)
{
    const qp_mcp_headers *headers = request->peer->headers;

    return qp_json_kind_of(version) != QP_JSON_NONE ||
           qp_json_kind_of(capabilities) != QP_JSON_NONE ||
           quipu_str_eq(request->method, QUIPU_STR("server/discover")) ||
           (headers != NULL && qp_mcp_version_of(headers->protocol_version) == QP_MCP_MODERN);
}

/* A header must name a revision that is served, whatever the method is. Without one the revision is
 * that of `initialize`, or not known yet.
 * Stdio has no headers, so that nothing is to be checked there. */
static bool rpc_knows_version(qp_mcp_request *request)
{
    const qp_mcp_headers *headers = request->peer->headers;

    return headers == NULL || headers->protocol_version.p == NULL ||
           request->version != QP_MCP_NO_VERSION ||
           qp_mcp_fail(request, QP_MCP_INVALID_REQUEST,
                       "the header MCP-Protocol-Version names no revision that is served here");
}

/* A modern request must carry its version and its client's capabilities; then its headers must say
 * the same, so that a client that contradicts itself learns that first. */
static bool rpc_find_era(qp_mcp_request *request, bool *ret_modern)
{
    const qp_json_node meta = qp_json_get(request->params, QUIPU_STR("_meta"));
    const qp_json_node version = qp_json_get(meta, RPC_META_VERSION);
    const qp_json_node capabilities = qp_json_get(meta, RPC_META_CAPABILITIES);

    *ret_modern = rpc_is_modern(request, version, capabilities);
    if (!*ret_modern) {
        request->version = request->peer->legacy;
        return rpc_knows_version(request);
    }
    request->version = QP_MCP_MODERN;
    if (qp_json_kind_of(version) != QP_JSON_STRING) {
        return qp_mcp_fail(
            request, QP_MCP_INVALID_PARAMS,
            "params._meta must have io.modelcontextprotocol/protocolVersion, a text");
    }
    if (qp_json_kind_of(capabilities) != QP_JSON_OBJECT) {
        return qp_mcp_fail(
            request, QP_MCP_INVALID_PARAMS,
            "params._meta must have io.modelcontextprotocol/clientCapabilities, an object");
    }
    if (!qp_mcp_check_headers(request, version)) {
        return false;
    }
    return qp_json_text_is(version, quipu_cstr(qp_mcp_version_name(QP_MCP_MODERN))) ||
           rpc_fail_version(request, version);
}

/* Whether a request may run at all: its params, its era, and what a batch may hold.
 * Batches exist in one legacy revision: `initialize` in one would change the revision of its
 * siblings. */
static bool rpc_admit(rpc_turn *turn, qp_mcp_request *request)
{
    const qp_json_kind kind = qp_json_kind_of(request->params);
    bool repeats = false;

    if (kind != QP_JSON_NONE && kind != QP_JSON_OBJECT) {
        return qp_mcp_fail(request, QP_MCP_INVALID_PARAMS, "params must be an object");
    }
    if (kind == QP_JSON_OBJECT) {
        const quipu_status status = qp_json_repeats(request->params, &repeats);

        if (status != QUIPU_OK || repeats) {
            return status != QUIPU_OK
                       ? qp_mcp_fail_status(request, status, NULL)
                       : qp_mcp_fail(request, QP_MCP_INVALID_PARAMS, "params have a member twice");
        }
    }
    if (!rpc_find_era(request, &turn->answer.modern)) {
        return false;
    }
    if (turn->is_batch &&
        (turn->answer.modern || quipu_str_eq(request->method, QUIPU_STR("initialize")))) {
        return qp_mcp_fail(request, QP_MCP_INVALID_REQUEST,
                           "this request must not be part of a batch: send it alone");
    }
    return true;
}

/* Whether the result fits behind what the batch has so far. A batch is one response, and has the
 * limit of one. */
static bool rpc_has_room(const rpc_turn *turn, qp_mcp_request *request)
{
    static_assert(QUIPU_MCP_BATCH_MAX * (RPC_SMALL_MAX + QUIPU_MCP_ID_MAX + RPC_ECHO_MAX) <
                      QUIPU_MCP_REQUEST_MAX,
                  "small results fit behind the largest batch");

    return turn->body.n <= RPC_SMALL_MAX || turn->ret->n + turn->body.n <= QUIPU_MCP_RESPONSE_MAX ||
           qp_mcp_fail(request, QP_MCP_INTERNAL_ERROR,
                       "the results of this batch have more than %d bytes: send it alone, or ask "
                       "for less",
                       QUIPU_MCP_RESPONSE_MAX);
}

/* Runs a request and writes its response. A result that does not fit becomes an error. Only a lack
 * of memory is returned as a status: then there is no response, and the transport reports that in
 * its own way. */
static quipu_status rpc_run(rpc_turn *turn, const rpc_envelope *envelope)
{
    qp_jsonw out;
    qp_mcp_request request = {.server = turn->server,
                              .peer = turn->peer,
                              .method = envelope->method,
                              .params = envelope->params,
                              .arena = &turn->arena,
                              .out = &out};
    bool done = rpc_admit(turn, &request);
    quipu_status status;

    qp_buf_reset(&turn->body);
    qp_jsonw_begin(&out, &turn->body);
    if (done) {
        qp_jsonw_object(&out);
        done = qp_mcp_method(&request);
    }
    if (done) {
        qp_jsonw_object_end(&out);
        status = qp_jsonw_end(&out);
        if (status == QUIPU_NOMEM) {
            return status;
        }
        done = status == QUIPU_OK || qp_mcp_fail(&request, QP_MCP_INTERNAL_ERROR,
                                                 "%s: the result does not fit a response of %d "
                                                 "bytes: ask for less",
                                                 quipu_status_name(status), QUIPU_MCP_RESPONSE_MAX);
        done = done && rpc_has_room(turn, &request);
    }
    if (done) {
        rpc_write_result(turn, envelope->id);
    } else {
        rpc_write_error(turn, envelope->id, &request.fault);
    }
    return QUIPU_OK;
}

/* One message, not a batch. Notifications and responses are read and get no answer. A request that
 * only looks like a notification, by a missing id, runs nothing: nobody could read its result. */
static quipu_status rpc_one(rpc_turn *turn, qp_json_node message)
{
    rpc_envelope envelope = {.id = {NULL, 0}};
    const char *why = rpc_read(message, &turn->arena, &envelope);

    if (why != NULL) {
        rpc_refuse(turn, envelope.id, QP_MCP_INVALID_REQUEST, why);
        return QUIPU_OK;
    }
    if (envelope.is_response || envelope.id.p == NULL) {
        return QUIPU_OK;
    }
    return rpc_run(turn, &envelope);
}

/* The messages of an array, one after the other; their responses are an array, too.
 * Members are answered in their order. When all are notifications the answer is empty, as JSON-RPC
 * wants it. */
static quipu_status rpc_batch(rpc_turn *turn, qp_json_node batch)
{
    const size_t count = qp_json_count(batch);
    quipu_status status = QUIPU_OK;
    qp_json_iter iter = qp_json_each(batch);

    if (turn->peer->legacy != QP_MCP_2025_03_26) {
        rpc_refuse(turn, (quipu_str){NULL, 0}, QP_MCP_INVALID_REQUEST,
                   "batches exist in revision 2025-03-26 alone: send one message a time");
        return QUIPU_OK;
    }
    if (count == 0 || count > QUIPU_MCP_BATCH_MAX) {
        rpc_refuse(turn, (quipu_str){NULL, 0}, QP_MCP_INVALID_REQUEST,
                   "a batch has 1 to 100 messages");
        return QUIPU_OK;
    }
    turn->is_batch = true;
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        const size_t before = turn->ret->n;

        qp_buf_putc(turn->ret, before == 0 ? '[' : ',');
        const size_t begun = turn->ret->n;
        status = rpc_one(turn, iter.value);
        /* No response: the bracket or comma is taken back. */
        if (turn->ret->n == begun) {
            qp_buf_cut(turn->ret, before);
        }
        quipu_arena_reset(&turn->arena);
    }
    if (turn->ret->n > 0) {
        qp_buf_putc(turn->ret, ']');
    }
    /* No member decides the status of HTTP: it is 200, or 202 where nothing is answered. */
    turn->answer = (qp_mcp_answer){0};
    return status;
}

/* ---- the entry point ------------------------------------------------------------------------ */

/* Without an id: a message of this size is not parsed. */
quipu_status qp_mcp_refuse_size(qp_buf *ret)
{
    rpc_turn turn = {.ret = ret};

    qp_buf_reset(ret);
    rpc_refuse(&turn, (quipu_str){NULL, 0}, QP_MCP_INVALID_REQUEST,
               "the message has more than 4194304 bytes: send less at a time");
    return qp_buf_status(ret);
}

/* Parses a message and answers it.
 * A JSON that is too deep or too large is an invalid request; other text is a parse error. */
static quipu_status rpc_answer(rpc_turn *turn, qp_json_doc *doc, quipu_str message)
{
    const qp_json_limits limits = {QUIPU_MCP_REQUEST_MAX, QP_JSON_DEPTH_MAX};
    quipu_error error = {0};
    const quipu_status status = qp_json_parse(doc, message, &limits, &error);

    if (status == QUIPU_NOMEM) {
        return status;
    }
    if (status != QUIPU_OK) {
        rpc_refuse(turn, (quipu_str){NULL, 0},
                   status == QUIPU_INVALID ? QP_MCP_PARSE_ERROR : QP_MCP_INVALID_REQUEST,
                   error.message);
        return QUIPU_OK;
    }
    return qp_json_kind_of(qp_json_root(doc)) == QP_JSON_ARRAY ? rpc_batch(turn, qp_json_root(doc))
                                                               : rpc_one(turn, qp_json_root(doc));
}

/* Everything that a message needs is allocated here and freed at the end: a server keeps nothing
 * between messages but the peer.
 * `ret` is the transport's, reused from message to message. */
quipu_status qp_mcp_respond(const qp_mcp *server, qp_mcp_peer *peer, quipu_str message, qp_buf *ret,
                            qp_mcp_answer *ret_answer)
{
    rpc_turn turn = {.server = server, .peer = peer, .ret = ret, .arena = QUIPU_ARENA_INIT};
    qp_json_doc doc;
    quipu_status status;

    assert(server->store != NULL && peer != NULL);
    if (message.n > QUIPU_MCP_REQUEST_MAX) {
        if (ret_answer != NULL) {
            *ret_answer = (qp_mcp_answer){.code = QP_MCP_INVALID_REQUEST};
        }
        return qp_mcp_refuse_size(ret);
    }
    qp_buf_reset(ret);
    qp_buf_init(&turn.body, QUIPU_MCP_RESPONSE_MAX);
    qp_json_init(&doc);
    status = rpc_answer(&turn, &doc, message);
    qp_json_free(&doc);
    qp_buf_free(&turn.body);
    quipu_arena_free(&turn.arena);
    if (status == QUIPU_OK) {
        status = qp_buf_status(ret);
    }
    if (status == QUIPU_OK && ret_answer != NULL) {
        *ret_answer = turn.answer;
    }
    return status;
}
