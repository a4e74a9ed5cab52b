/* A provider's error as a quipu_error, from the many shapes of error bodies.
 *
 * Called by: client.c with an HTTP status, and the formats for errors inside a stream. No state.
 * Contract: QUIPU_BUSY means "try again later", QUIPU_MISUSE a wrong key, QUIPU_INVALID a wrong
 * request; error.rule is the provider's own type and engine_code the HTTP status.
 * Locks: none. */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "provider/wire.h"

#define WIRE_ERROR_SHOWN_MAX 300 /* bytes of a body without a message that the error quotes */

/* OpenAI, Anthropic and Gemini use an object; some servers a string. */
bool qp_wire_is_error(qp_json_node root)
{
    qp_json_kind kind = qp_json_kind_of(qp_wire_get(root, "error"));

    return kind == QP_JSON_OBJECT || kind == QP_JSON_STRING;
}

/* The status of a call for an HTTP status: what the caller can do about it. 529 is Anthropic's
 * "overloaded".
 * A status that is not listed, such as 500 or 502, is I/O: client.c may try again. */
static quipu_status wire_error_http(int code)
{
    switch (code) {
    case 400:
    case 422:
        return QUIPU_INVALID;
    case 401:
    case 403:
        return QUIPU_MISUSE;
    case 404:
        return QUIPU_NOT_FOUND;
    case 405:
    case 501:
        return QUIPU_UNSUPPORTED;
    case 413:
        return QUIPU_LIMIT;
    case 408:
    case 409:
    case 429:
    case 503:
    case 529:
        return QUIPU_BUSY;
    default:
        return QUIPU_IO;
    }
}

/* An error inside a stream has no HTTP status, only a type or, from Gemini, a code in its body. A
 * quota that is used up is BUSY, too: it passes. */
static quipu_status wire_error_type(quipu_str type, int64_t code)
{
    /* A row is a provider's type and the status of the call; types that are new fall back to the
     * code. */
    static const struct {
        const char *name;
        quipu_status status;
    } types[] = {{"overloaded_error", QUIPU_BUSY},         {"rate_limit_error", QUIPU_BUSY},
                 {"rate_limit_exceeded", QUIPU_BUSY},      {"insufficient_quota", QUIPU_BUSY},
                 {"invalid_request_error", QUIPU_INVALID}, {"authentication_error", QUIPU_MISUSE},
                 {"permission_error", QUIPU_MISUSE},       {"not_found_error", QUIPU_NOT_FOUND},
                 {"request_too_large", QUIPU_LIMIT}};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (quipu_str_eq(type, quipu_cstr(types[i].name))) {
            return types[i].status;
        }
    }
    return code >= 400 && code < 600 ? wire_error_http((int)code) : QUIPU_IO;
}

/* The findings in an error body; texts may be empty, the code 0 or -1. */
typedef struct wire_error {
    quipu_str message;
    quipu_str type;
    int64_t code;
} wire_error;

/* A string member copied to the arena; empty when it is missing, and when memory is used up: an
 * error must be reported in any case. */
static quipu_str wire_error_text(qp_json_node object, const char *key, quipu_arena *arena)
{
    quipu_str text = {"", 0};
    qp_json_node node = qp_wire_get(object, key);

    if (qp_json_kind_of(node) != QP_JSON_STRING ||
        qp_json_text_copy(node, arena, &text) != QUIPU_OK) {
        return (quipu_str){"", 0};
    }
    return text;
}

/* {"error":{"message","type","code"}}, {"error":"text"}, {"message"}, {"detail"}, or
 * [{"error"}]. */
static wire_error wire_error_read(qp_json_node root, quipu_arena *arena)
{
    wire_error found = {.message = {"", 0}, .type = {"", 0}, .code = 0};
    qp_json_node object;

    /* Some servers wrap the error in an array. */
    if (qp_json_kind_of(root) == QP_JSON_ARRAY) {
        root = qp_json_at(root, 0);
    }
    /* The object with the members; the root itself where there is none. */
    object = qp_wire_get(root, "error");
    if (qp_json_kind_of(object) != QP_JSON_OBJECT) {
        found.message = wire_error_text(root, "error", arena);
        object = root;
    }
    if (found.message.n == 0) {
        found.message = wire_error_text(object, "message", arena);
    }
    if (found.message.n == 0) {
        found.message = wire_error_text(object, "detail", arena);
    }
    found.type = wire_error_text(object, "type", arena);
    /* Gemini has "status" ("RESOURCE_EXHAUSTED") in place of a type; others have only a "code". */
    if (found.type.n == 0 || quipu_str_eq(found.type, QUIPU_STR("error"))) {
        found.type = wire_error_text(object, "status", arena);
    }
    if (found.type.n == 0) {
        found.type = wire_error_text(object, "code", arena);
    }
    found.code = qp_wire_count(object, "code");
    return found;
}

/* A body without a message is quoted, up to WIRE_ERROR_SHOWN_MAX bytes. Never fails itself. The
 * text is the provider's; client.c masks the key in it. */
quipu_status qp_wire_error(quipu_str body, int http_status, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    wire_error found = {.message = {"", 0}, .type = {"", 0}, .code = 0};
    quipu_status status;
    qp_json_doc doc;

    qp_json_init(&doc);
    if (qp_json_parse(&doc, body, NULL, NULL) == QUIPU_OK) {
        found = wire_error_read(qp_json_root(&doc), &arena);
    }
    if (found.message.n == 0) {
        found.message = body;
        found.message.n = qp_utf8_cut(body, WIRE_ERROR_SHOWN_MAX);
    }
    /* The HTTP status decides; inside a stream there is none. */
    status =
        http_status != 0 ? wire_error_http(http_status) : wire_error_type(found.type, found.code);
    (void)qp_error_field(reterr, status, "provider", NULL, found.type.n > 0 ? found.type.p : NULL,
                         "%.*s", (int)found.message.n, found.message.n > 0 ? found.message.p : "");
    if (reterr != NULL) {
        if (found.message.n == 0) {
            (void)qp_error_set(reterr, status, "the provider answered HTTP %d without a reason",
                               http_status);
        }
        reterr->engine_code =
            http_status != 0 ? http_status : (int32_t)(found.code > 0 ? found.code : 0);
    }
    qp_json_free(&doc);
    quipu_arena_free(&arena);
    return status;
}
