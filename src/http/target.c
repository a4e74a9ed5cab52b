/* The target of a request: path and query, checked and decoded in place.
 *
 *   /v1/sessions/adk%3Aapp%2Fu%2F1/tail?after=7
 *    └┘ └──────┘ └───────────────┘ └──┘ └─────┘
 *   segments, split at the slashes of the text, then decoded one by one: a slash that is part of a
 *   key cannot become a border
 *
 * Refused: an escape that is not a byte, a decoded control byte (%00 above all), text that is no
 * UTF-8, "." and ".." between slashes in any spelling, a backslash, a fragment, a parameter that
 * comes twice, and an absolute form of another host. Called by head.c; owns nothing. Locks:
 * none. */
#include <assert.h>
#include <string.h>

#include "base/str.h"
#include "http/head.h"

/* The characters that RFC 3986 allows in a path and a query, besides letters, digits and
 * escapes. */
static const char target_marks[] = "-._~!$&'()*+,;=:@/?";

/* RFC 3986's characters of a path and a query; others must come as escapes. */
static bool target_is_allowed(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '%' ||
           (c != '\0' && strchr(target_marks, c) != NULL);
}

/* The value of a hexadecimal digit, or -1. */
static int target_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes in place: the text only gets shorter.
 * false: a wrong escape, a control byte, or no UTF-8; all are 400. A plus is a space in a query
 * alone, as forms send it. */
static bool target_decode(char *from, size_t size, bool plus_is_space, quipu_str *ret_text)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        char c = from[i];

        if (c == '%') {
            int high = size - i > 2 ? target_digit(from[i + 1]) : -1;
            int low = size - i > 2 ? target_digit(from[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f) {
            return false;
        }
        from[n++] = c;
    }
    *ret_text = (quipu_str){from, n};
    return qp_utf8_valid(*ret_text);
}

/* The path, which begins with a slash.
 * "/" has no segment; a slash at the end makes an empty last one, which fits no route. */
static bool target_path(char *text, size_t size, qp_http_request *request,
                        qp_http_refusal *ret_refusal)
{
    size_t begin = 1;

    assert(size > 0 && text[0] == '/');
    for (size_t i = 1; size > 1 && i <= size; i++) {
        quipu_str *segment = &request->segments[request->segment_count];

        if (i < size && text[i] != '/') {
            continue;
        }
        /* Before the segment is decoded into its place in the array. */
        if (request->segment_count == QP_HTTP_SEGMENTS_MAX) {
            return qp_http_refuse(ret_refusal, 414, "the path has too many segments");
        }
        if (!target_decode(text + begin, i - begin, false, segment)) {
            return qp_http_refuse(ret_refusal, 400, "the path has a wrong escape");
        }
        /* After decoding: %2e%2e is the same. */
        if (qp_text_has_dots(*segment)) {
            return qp_http_refuse(ret_refusal, 400, "the path has . or .. in it");
        }
        request->segment_count++;
        begin = i + 1;
    }
    return true;
}

/* One "name=value" of the query; without "=" the value is empty.
 * The walk for repeats is bounded by QP_HTTP_PARAMETERS_MAX. */
static bool target_parameter(char *text, size_t size, qp_http_request *request,
                             qp_http_refusal *ret_refusal)
{
    qp_http_field *parameter = &request->parameters[request->parameter_count];
    char *equals = memchr(text, '=', size);
    size_t name_size = equals != NULL ? (size_t)(equals - text) : size;
    size_t value_at = equals != NULL ? name_size + 1 : size;

    if (request->parameter_count == QP_HTTP_PARAMETERS_MAX) {
        return qp_http_refuse(ret_refusal, 414, "the query has too many parameters");
    }
    if (!target_decode(text, name_size, true, &parameter->name) ||
        !target_decode(text + value_at, size - value_at, true, &parameter->value)) {
        return qp_http_refuse(ret_refusal, 400, "the query has a wrong escape");
    }
    for (size_t i = 0; i < request->parameter_count; i++) {
        if (quipu_str_eq(request->parameters[i].name, parameter->name)) {
            return qp_http_refuse(ret_refusal, 400, "the query has a parameter twice");
        }
    }
    request->parameter_count++;
    return true;
}

/* Empty parameters ("a=1&&b=2") are passed over. */
static bool target_query(char *text, size_t size, qp_http_request *request,
                         qp_http_refusal *ret_refusal)
{
    size_t begin = 0;

    for (size_t i = 0; i <= size; i++) {
        if (i < size && text[i] != '&') {
            continue;
        }
        if (i > begin && !target_parameter(text + begin, i - begin, request, ret_refusal)) {
            return false;
        }
        begin = i + 1;
    }
    return true;
}

/* The bytes of "http://<host>" before the path of an absolute form; 0: it has another form, or
 * names another host.
 * A scheme in upper case is refused: no client of today sends the absolute form to a server. */
static size_t target_authority(const char *text, size_t size, quipu_str host)
{
    static const char scheme[] = "http://";
    size_t scheme_size = sizeof(scheme) - 1;

    if (size <= scheme_size + host.n || memcmp(text, scheme, scheme_size) != 0) {
        return 0;
    }
    for (size_t i = 0; i < host.n; i++) {
        char c = text[scheme_size + i];

        if (host.p[i] != (c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c)) {
            return 0;
        }
    }
    return text[scheme_size + host.n] == '/' ? scheme_size + host.n : 0;
}

/* Bytes are checked before anything is decoded, the path is split before its segments are decoded:
 * an escape can neither become a separator nor hide one. */
bool qp_http_target_parse(char *text, size_t size, quipu_str host, qp_http_request *ret_request,
                          qp_http_refusal *ret_refusal)
{
    size_t path_at = 0;
    char *question;
    size_t path_size;

    for (size_t i = 0; i < size; i++) {
        if (!target_is_allowed(text[i])) {
            return qp_http_refuse(ret_refusal, 400, "the target has a byte that needs an escape");
        }
    }
    if (size == 0 || text[0] != '/') {
        path_at = target_authority(text, size, host);
        if (path_at == 0) {
            return qp_http_refuse(ret_refusal, 400, "the target is no path of this host");
        }
    }
    text += path_at;
    size -= path_at;
    /* The first one; further ones are part of the query. */
    question = memchr(text, '?', size);
    path_size = question != NULL ? (size_t)(question - text) : size;
    if (!target_path(text, path_size, ret_request, ret_refusal)) {
        return false;
    }
    return question == NULL ||
           target_query(question + 1, size - path_size - 1, ret_request, ret_refusal);
}
