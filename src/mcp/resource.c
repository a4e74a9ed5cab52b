/* Sessions as resources: quipu://session/KEY, with the key percent-encoded as RFC 3986 wants it.
 *
 * Owns: nothing after a call. Called by: methods.c. Transactions: each call of the library is one
 * snapshot, and the scope is checked on what it returned.
 * Locks: none. A resource is what a user attaches to a conversation by hand; tools are what a model
 * calls. Both show the same sessions, in the same form. */
#include "mcp/tool.h"

#include <assert.h>

#include "base/str.h"

#define RESOURCE_PREFIX "quipu://session/"
#define RESOURCE_DATA_SIZE 16 /* what stands around a URI in an error */
#define RESOURCE_MIME "application/json"
#define RESOURCE_TTL_MS 300000 /* of the templates; sessions change at any time */

/* ---- URIs ------------------------------------------------------------------------------------ */

/* The characters that a URI needs not escape: RFC 3986's unreserved ones. */
static bool resource_is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* Everything but RFC 3986's unreserved characters is encoded, slashes too: one key has one URI, and
 * a URI has one segment. */
void qp_mcp_uri_put(quipu_str key, qp_buf *ret_uri)
{
    qp_buf_puts(ret_uri, RESOURCE_PREFIX);
    for (size_t i = 0; i < key.n; i++) {
        if (resource_is_plain(key.p[i])) {
            qp_buf_putc(ret_uri, key.p[i]);
        } else {
            qp_buf_printf(ret_uri, "%%%02X", (unsigned)(unsigned char)key.p[i]);
        }
    }
}

/* Clients may write hexadecimal digits in either case.
 * -1: no digit. */
static int resource_hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* false: no URI of a session. A character that qp_mcp_uri_put() encodes is refused where it stands
 * plain; more escapes than it writes are read.
 * The decoded bytes must be a text, because a key is one. */
bool qp_mcp_uri_key(quipu_str uri, quipu_arena *arena, quipu_str *ret_key)
{
    const size_t skip = sizeof(RESOURCE_PREFIX) - 1;
    char *key;
    size_t n = 0;

    if (uri.n <= skip || memcmp(uri.p, RESOURCE_PREFIX, skip) != 0) {
        return false;
    }
    /* An escape becomes one byte of three: the key fits. */
    key = quipu_arena_alloc(arena, uri.n);
    for (size_t i = skip; key != NULL && i < uri.n; i++) {
        char c = uri.p[i];

        if (c == '%') {
            /* An escape that the end of the URI cuts off is not an escape. */
            const int high = i + 2 < uri.n ? resource_hex(uri.p[i + 1]) : -1;
            const int low = high >= 0 ? resource_hex(uri.p[i + 2]) : -1;

            if (low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        } else if (!resource_is_plain(c)) {
            return false;
        }
        key[n++] = c;
    }
    *ret_key = (quipu_str){key, n};
    return key != NULL && qp_text_check(*ret_key, NULL) == QP_TEXT_OK;
}

/* Room for a key in which every byte is encoded.
 * A failure goes to the writer of the result, whose end reports it. */
static void resource_put_uri(qp_jsonw *out, quipu_str key)
{
    qp_buf uri;

    qp_buf_init(&uri, sizeof(RESOURCE_PREFIX) + 3 * (size_t)QUIPU_KEY_MAX);
    qp_mcp_uri_put(key, &uri);
    qp_jsonw_put_text(out, "uri", qp_buf_str(&uri));
    if (qp_buf_status(&uri) != QUIPU_OK) {
        qp_buf_fail(out->buf, qp_buf_status(&uri));
    }
    qp_buf_free(&uri);
}

/* ---- resources/list -------------------------------------------------------------------------- */

/* A resource of a list: the key is its name; title and first words help to choose.
 * `title` exists from revision 2025-06-18 on; earlier clients may refuse members that they do not
 * have. */
static void resource_put(qp_mcp_request *request, const quipu_session_info *info)
{
    qp_jsonw *out = request->out;

    qp_jsonw_object(out);
    resource_put_uri(out, info->key);
    qp_jsonw_put_text(out, "name", info->key);
    if (info->title.n > 0 && request->version >= QP_MCP_2025_06_18) {
        qp_jsonw_put_text(out, "title", info->title);
    }
    if (info->first_words.n > 0) {
        qp_jsonw_put_text(out, "description", info->first_words);
    }
    qp_jsonw_put(out, "mimeType", RESOURCE_MIME);
    qp_jsonw_object_end(out);
}

/* The one session of the scope, if it exists.
 * A session of the scope that is missing makes an empty list and no error: it may come. */
static bool resource_put_only(qp_mcp_request *request)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status;

    header.flags = QUIPU_RANGE_HEADER;
    status =
        qp_mcp_scope_get(request->server, request->server->session_key, &header, &history, &error);
    if (status == QUIPU_OK) {
        resource_put(request, history->session);
        quipu_free(history);
    }
    return status == QUIPU_OK || status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED ||
           qp_mcp_fail_status(request, status, &error);
}

/* A page of sessions; *ret_next is its cursor, in the arena.
 * A wrong cursor is the client's fault (invalid params); others are the store's. */
static bool resource_put_page(qp_mcp_request *request, quipu_str after, quipu_str *ret_next)
{
    quipu_session_page *page = NULL;
    quipu_error error = {0};
    quipu_status status =
        qp_mcp_scope_list(request->server, QUIPU_PAGE_DEFAULT, after, &page, &error);

    if (status == QUIPU_INVALID || status == QUIPU_LIMIT) {
        return qp_mcp_fail(request, QP_MCP_INVALID_PARAMS, "cursor: %s", error.message);
    }
    for (size_t i = 0; status == QUIPU_OK && i < page->sessions.count; i++) {
        resource_put(request, quipu_session_info_at(page->sessions, i));
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(request->arena, page->next, ret_next);
    }
    quipu_free(page);
    return status == QUIPU_OK || qp_mcp_fail_status(request, status, &error);
}

/* A server for one session lists that one, and has no pages. Lists are not to be cached (0 ms):
 * sessions come and go.
 * `nextCursor` is absent at the end, as the protocol wants it. */
bool qp_mcp_resources_list(qp_mcp_request *request)
{
    const qp_json_node cursor = qp_json_get(request->params, QUIPU_STR("cursor"));
    quipu_str after = {NULL, 0};
    quipu_str next = {NULL, 0};

    /* The cursor is this server's own text, which a client sends back. */
    if (qp_json_kind_of(cursor) != QP_JSON_NONE &&
        qp_json_text_copy(cursor, request->arena, &after) != QUIPU_OK) {
        return qp_mcp_fail(request, QP_MCP_INVALID_PARAMS, "cursor must be a text");
    }
    qp_jsonw_key(request->out, QUIPU_STR("resources"));
    qp_jsonw_array(request->out);
    if (request->server->session_key.p != NULL ? !resource_put_only(request)
                                               : !resource_put_page(request, after, &next)) {
        return false;
    }
    qp_jsonw_array_end(request->out);
    qp_jsonw_put_text(request->out, "nextCursor", next);
    qp_mcp_put_cache(request, 0);
    return true;
}

/* For clients that know a key and no list.
 * One page; the template has one variable, which takes one segment. */
bool qp_mcp_resource_templates_list(qp_mcp_request *request)
{
    qp_jsonw *out = request->out;

    qp_jsonw_key(out, QUIPU_STR("resourceTemplates"));
    qp_jsonw_array(out);
    qp_jsonw_object(out);
    qp_jsonw_put(out, "uriTemplate", RESOURCE_PREFIX "{key}");
    qp_jsonw_put(out, "name", "session");
    if (request->version >= QP_MCP_2025_06_18) {
        qp_jsonw_put(out, "title", "A session");
    }
    qp_jsonw_put(out, "description",
                 "A session and its newest messages; the key is percent-encoded.");
    qp_jsonw_put(out, "mimeType", RESOURCE_MIME);
    qp_jsonw_object_end(out);
    qp_jsonw_array_end(out);
    qp_mcp_put_cache(request, RESOURCE_TTL_MS);
    return true;
}

/* ---- resources/read -------------------------------------------------------------------------- */

/* The session and its newest messages that fit QP_MCP_RESOURCE_TOKENS, oldest first.
 * `ret_text` is the caller's, empty, and bounded by the size of a response. */
static quipu_status resource_write(const quipu_history *history, qp_buf *ret_text)
{
    const quipu_messages messages = history->messages;
    int64_t left = QP_MCP_RESOURCE_TOKENS;
    size_t from = messages.count;
    qp_jsonw out;

    while (from > 0) {
        left -= qp_mcp_message_tokens(quipu_message_at(messages, from - 1)) + QP_MCP_ITEM_TOKENS;
        /* The newest message is shown in any case, cut if need be. */
        if (left < 0 && from < messages.count) {
            break;
        }
        from--;
    }
    qp_jsonw_begin(&out, ret_text);
    qp_jsonw_object(&out);
    qp_jsonw_key(&out, QUIPU_STR("session"));
    qp_jsonw_object(&out);
    qp_mcp_put_session(&out, history->session);
    qp_jsonw_object_end(&out);
    qp_jsonw_key(&out, QUIPU_STR("messages"));
    qp_jsonw_array(&out);
    for (size_t i = from; i < messages.count; i++) {
        qp_mcp_put_message(&out, quipu_message_at(messages, i), QP_MCP_RESOURCE_TOKENS);
    }
    qp_jsonw_array_end(&out);
    qp_jsonw_put_bool(&out, "older_messages", from > 0 || history->more_before);
    qp_jsonw_object_end(&out);
    return qp_jsonw_end(&out);
}

/* A missing resource has a code of its own in the legacy era; the error names the URI.
 * The data repeat the URI as it was sent, which the client has anyway: nothing is learned from it.
 * */
static bool resource_fail_missing(qp_mcp_request *request, qp_json_node uri)
{
    qp_buf data;

    qp_buf_init(&data, QUIPU_MCP_REQUEST_MAX + RESOURCE_DATA_SIZE);
    qp_buf_puts(&data, "{\"uri\":");
    qp_buf_put(&data, qp_json_raw(uri));
    qp_buf_putc(&data, '}');
    if (qp_buf_status(&data) != QUIPU_OK ||
        quipu_arena_copy(request->arena, qp_buf_str(&data), &request->fault.data) != QUIPU_OK) {
        request->fault.data = (quipu_str){NULL, 0}; /* the error itself still stands */
    }
    qp_buf_free(&data);
    return qp_mcp_fail(request,
                       request->version == QP_MCP_MODERN ? QP_MCP_INVALID_PARAMS
                                                         : QP_MCP_LEGACY_NO_RESOURCE,
                       "Resource not found: resources/list lists those that there are");
}

/* JSON as text, because that is what a resource's content is. */
static bool resource_put_contents(qp_mcp_request *request, const quipu_history *history)
{
    qp_jsonw *out = request->out;
    qp_buf text;
    quipu_status status;

    qp_buf_init(&text, QUIPU_MCP_RESPONSE_MAX);
    status = resource_write(history, &text);
    if (status == QUIPU_OK) {
        qp_jsonw_key(out, QUIPU_STR("contents"));
        qp_jsonw_array(out);
        qp_jsonw_object(out);
        resource_put_uri(out, history->session->key);
        qp_jsonw_put(out, "mimeType", RESOURCE_MIME);
        qp_jsonw_put_text(out, "text", qp_buf_str(&text));
        qp_jsonw_object_end(out);
        qp_jsonw_array_end(out);
        qp_mcp_put_cache(request, 0);
    }
    qp_buf_free(&text);
    return status == QUIPU_OK || qp_mcp_fail_status(request, status, NULL);
}

/* The newest messages of the view, as a prompt would see them. One answer for what is missing, has
 * expired or lies outside of the scope.
 * A key that is too long (LIMIT) names no session either. */
bool qp_mcp_resources_read(qp_mcp_request *request)
{
    const qp_json_node uri = qp_json_get(request->params, QUIPU_STR("uri"));
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_str text = {NULL, 0};
    quipu_str key = {NULL, 0};
    quipu_status status;
    bool done;

    if (qp_json_text(uri, request->arena, &text, NULL) != QUIPU_OK) {
        return qp_mcp_fail(request, QP_MCP_INVALID_PARAMS, "resources/read needs a uri, a text");
    }
    range.flags = QUIPU_RANGE_LAST | QUIPU_RANGE_VIEW;
    /* More messages than fit the tokens are read at most, not all of a long session. */
    range.limit = QP_MCP_RESOURCE_MESSAGES;
    if (!qp_mcp_uri_key(text, request->arena, &key)) {
        return resource_fail_missing(request, uri);
    }
    status = qp_mcp_scope_get(request->server, key, &range, &history, &error);
    if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED || status == QUIPU_LIMIT) {
        return resource_fail_missing(request, uri);
    }
    if (status != QUIPU_OK) {
        return qp_mcp_fail_status(request, status, &error);
    }
    done = resource_put_contents(request, history);
    quipu_free(history);
    return done;
}
