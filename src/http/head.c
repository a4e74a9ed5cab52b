/* The head of a request: the request line, the headers, and how the body is framed. Everything that
 * decides where a request ends is required to be unambiguous: one Host, one Content-Length of
 * digits or one "Transfer-Encoding: chunked", never both, no folded lines, no space before a colon.
 * Works on the reader's bytes in place. Called by reader.c once a head is complete; owns
 * nothing.
 * Locks: none. On return the request is complete but for its body, or the refusal says why not. */
#include "http/head.h"

#include <assert.h>
#include <string.h>

#include "base/str.h"

/* A second one of these is refused: a proxy and this server may choose differently. A header that
 * a handler relies on belongs here. */
static const char *const head_single[] = {
    "authorization",        "content-encoding", "content-length",
    "content-type",         "expect",           "host",
    "last-event-id",        "mcp-method",       "mcp-name",
    "mcp-protocol-version", "mcp-session-id",   "origin",
    "transfer-encoding",
};

/* By the enum. A method that is missing is answered with 501; one that a path lacks, with 405. */
static const char *const head_methods[QP_HTTP_METHODS] = {
    [QP_HTTP_GET] = "GET",         [QP_HTTP_HEAD] = "HEAD",   [QP_HTTP_POST] = "POST",
    [QP_HTTP_PUT] = "PUT",         [QP_HTTP_PATCH] = "PATCH", [QP_HTTP_DELETE] = "DELETE",
    [QP_HTTP_OPTIONS] = "OPTIONS",
};

/* In upper case, as they are sent. */
const char *qp_http_method_name(qp_http_method method)
{
    assert(method < QP_HTTP_METHODS);
    return head_methods[method];
}

/* The first of that name. A header that may come once only (head_single) and a parameter are
 * refused when they come twice.
 * The value points into the reader's head, and is valid until the next request. */
static quipu_str head_find(const qp_http_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (quipu_str_eq(fields[i].name, quipu_cstr(name))) {
            return fields[i].value;
        }
    }
    return QP_STR_ABSENT;
}

/* `name` in lower case, as head_lower() left the names. */
quipu_str qp_http_header(const qp_http_request *request, const char *name)
{
    return head_find(request->headers, request->header_count, name);
}

/* Names of parameters are compared as they are, case included. */
quipu_str qp_http_parameter(const qp_http_request *request, const char *name)
{
    return head_find(request->parameters, request->parameter_count, name);
}

/* A byte of a token: a method, or the name of a header (RFC 9110, 5.6.2).
 * strchr() would find a NUL at the end of the list: it is looked at first. */
static bool head_is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* ASCII only: names of headers have nothing else.
 * In place: the reader's bytes are this parser's own. */
static void head_lower(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] >= 'A' && text[i] <= 'Z') {
            text[i] = (char)(text[i] - 'A' + 'a');
        }
    }
}

/* Whether a text is `word`, which is in lower case, in any case. */
static bool head_is_word(quipu_str text, const char *word)
{
    if (text.n != strlen(word)) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != word[i]) {
            return false;
        }
    }
    return true;
}

/* A text without the spaces and tabs around it.
 * An empty text stays a present one: a header without a value was sent. */
static quipu_str head_trim(quipu_str text)
{
    while (text.n > 0 && (text.p[0] == ' ' || text.p[0] == '\t')) {
        text = (quipu_str){text.p + 1, text.n - 1};
    }
    while (text.n > 0 && (text.p[text.n - 1] == ' ' || text.p[text.n - 1] == '\t')) {
        text.n--;
    }
    return text;
}

/* The part before the parameters, "; charset=utf-8", is compared as a whole. */
bool qp_http_has_type(const qp_http_request *request, const char *type)
{
    quipu_str given = qp_http_header(request, "content-type");
    const char *end = given.n > 0 ? memchr(given.p, ';', given.n) : NULL;

    given.n = end != NULL ? (size_t)(end - given.p) : given.n;
    return head_is_word(head_trim(given), type);
}

/* Whether a comma-separated list has `word`.
 * Items are compared as a whole: "closed" is not "close". */
static bool head_list_has(quipu_str list, const char *word)
{
    size_t begin = 0;

    for (size_t i = 0; i <= list.n; i++) {
        if (i == list.n || list.p[i] == ',') {
            quipu_str item = head_trim((quipu_str){list.p + begin, i - begin});

            if (head_is_word(item, word)) {
                return true;
            }
            begin = i + 1;
        }
    }
    return false;
}

/* ---- the request line ------------------------------------------------------------------------ */

/* "METHOD target HTTP/1.1", with one space in both places. Gives the target's place: its meaning
 * depends on the Host header.
 * More than two spaces are refused: a proxy may see another target in such a line than this
 * server. */
static bool head_request_line(char *line, size_t size, qp_http_request *request, bool *ret_is_1_0,
                              quipu_str *ret_target, qp_http_refusal *ret_refusal)
{
    char *target = memchr(line, ' ', size);
    size_t method_size = target != NULL ? (size_t)(target - line) : 0;
    char *version;
    size_t rest;

    for (size_t i = 0; i < method_size; i++) {
        if (!head_is_token(line[i])) {
            return qp_http_refuse(ret_refusal, 400, "the method has a wrong byte");
        }
    }
    if (method_size == 0) {
        return qp_http_refuse(ret_refusal, 400, "the request line has a wrong form");
    }
    target++;
    rest = size - method_size - 1;
    version = memchr(target, ' ', rest);
    if (version == NULL ||
        memchr(version + 1, ' ', rest - (size_t)(version + 1 - target)) != NULL) {
        return qp_http_refuse(ret_refusal, 400, "the request line has a wrong form");
    }
    *ret_target = (quipu_str){target, (size_t)(version - target)};
    version++;
    rest -= ret_target->n + 1;
    /* 8 bytes: "HTTP/", a digit, a dot, a digit. */
    if (rest != 8 || memcmp(version, "HTTP/", 5) != 0 || version[6] != '.') {
        return qp_http_refuse(ret_refusal, 400, "the request line names no version of HTTP");
    }
    if (version[5] != '1' || (version[7] != '1' && version[7] != '0')) {
        return qp_http_refuse(ret_refusal, 505, "only HTTP/1.1 and HTTP/1.0 are served");
    }
    *ret_is_1_0 = version[7] == '0';
    for (size_t i = 0; i < QP_HTTP_METHODS; i++) {
        if (quipu_str_eq((quipu_str){line, method_size}, quipu_cstr(head_methods[i]))) {
            request->method = (qp_http_method)i;
            return true;
        }
    }
    return qp_http_refuse(ret_refusal, 501, "the method is not served");
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Whether a request has a header already that may come once only.
 * Names are in lower case here. */
static bool head_is_repeated(const qp_http_request *request, quipu_str name)
{
    for (size_t i = 0; i < sizeof(head_single) / sizeof(head_single[0]); i++) {
        if (quipu_str_eq(name, quipu_cstr(head_single[i]))) {
            return qp_http_header(request, head_single[i]).p != NULL;
        }
    }
    return false;
}

/* One header line. Its name is a token directly before the colon.
 * Bytes of the value are not looked at: control bytes were refused by the reader, and others are
 * the handler's. The limit of headers bounds the walk for repeats. */
static bool head_field(char *line, size_t size, qp_http_request *request,
                       qp_http_refusal *ret_refusal)
{
    size_t name_size = 0;
    qp_http_field field;

    if (request->header_count == QP_HTTP_HEADERS_MAX) {
        return qp_http_refuse(ret_refusal, 431, "the request has too many headers");
    }
    /* Folding is obsolete, and proxies join such lines in different ways. */
    if (line[0] == ' ' || line[0] == '\t') {
        return qp_http_refuse(ret_refusal, 400, "a header is folded over two lines");
    }
    while (name_size < size && head_is_token(line[name_size])) {
        name_size++;
    }
    if (name_size == 0 || name_size == size || line[name_size] != ':') {
        return qp_http_refuse(ret_refusal, 400, "a header has no name directly before its colon");
    }
    head_lower(line, name_size);
    field.name = (quipu_str){line, name_size};
    field.value = head_trim((quipu_str){line + name_size + 1, size - name_size - 1});
    /* Names of hosts have no case: comparing bytes is then enough. */
    if (quipu_str_eq(field.name, QUIPU_STR("host"))) {
        head_lower(line + (field.value.p - line), field.value.n);
    }
    if (head_is_repeated(request, field.name)) {
        return qp_http_refuse(ret_refusal, 400, "a header comes twice");
    }
    request->headers[request->header_count++] = field;
    return true;
}

/* The Host header: required, and a name or an address with at most a port.
 * Whether the host is one of this server is decided by auth.c. */
static bool head_host(qp_http_request *request, qp_http_refusal *ret_refusal)
{
    quipu_str host = qp_http_header(request, "host");

    if (host.n == 0) {
        return qp_http_refuse(ret_refusal, 400, "the Host header is missing");
    }
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            strchr("-._:[]", c) == NULL) {
            return qp_http_refuse(ret_refusal, 400, "the Host header names no host");
        }
    }
    request->host = host;
    return true;
}

/* Digits only: no sign, no list, no spaces. Too many digits are too large a number.
 * 413 comes before the body: a client that waits for "100 Continue" never sends it. */
static bool head_length(quipu_str text, size_t body_max, uint64_t *ret_length,
                        qp_http_refusal *ret_refusal)
{
    uint64_t length = 0;
    bool is_large = false;

    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') {
            return qp_http_refuse(ret_refusal, 400, "Content-Length must be digits");
        }
        length = length * 10 + (uint64_t)(text.p[i] - '0');
        is_large = is_large || length > body_max;
        length = is_large ? 0 : length; /* no overflow */
    }
    if (text.n == 0) {
        return qp_http_refuse(ret_refusal, 400, "Content-Length must be digits");
    }
    if (is_large) {
        return qp_http_refuse(ret_refusal, 413, "the body is too large");
    }
    *ret_length = length;
    return true;
}

/* How the body ends. Only one of the two headers may say it.
 * Two lengths that differ are how requests are smuggled past a proxy: the second one would be read
 * as a request of its own. */
static bool head_framing(const qp_http_request *request, bool is_1_0, size_t body_max,
                         qp_http_framing *ret_framing, qp_http_refusal *ret_refusal)
{
    quipu_str length = qp_http_header(request, "content-length");
    quipu_str encoding = qp_http_header(request, "transfer-encoding");

    *ret_framing = (qp_http_framing){.chunked = encoding.p != NULL};
    if (encoding.p == NULL) {
        return length.p == NULL || head_length(length, body_max, &ret_framing->length, ret_refusal);
    }
    if (length.p != NULL) {
        return qp_http_refuse(ret_refusal, 400,
                              "Content-Length and Transfer-Encoding contradict each other");
    }
    /* A proxy of that version may pass the header on without its meaning. */
    if (is_1_0) {
        return qp_http_refuse(ret_refusal, 400, "HTTP/1.0 has no Transfer-Encoding");
    }
    return head_is_word(encoding, "chunked") ||
           qp_http_refuse(ret_refusal, 501, "Transfer-Encoding must be chunked");
}

/* Whether the method and the body fit. In HTTP/1.1 no length means no body; in HTTP/1.0 it means
 * "until the connection ends".
 * A DELETE may have a body; it is read, and no route looks at it. */
static bool head_body(const qp_http_request *request, bool is_1_0, const qp_http_framing *framing,
                      qp_http_refusal *ret_refusal)
{
    switch (request->method) {
    case QP_HTTP_GET:
    case QP_HTTP_HEAD:
        return (!framing->chunked && framing->length == 0) ||
               qp_http_refuse(ret_refusal, 400, "a GET or HEAD has no body");
    case QP_HTTP_POST:
    case QP_HTTP_PUT:
    case QP_HTTP_PATCH:
        return !is_1_0 || qp_http_header(request, "content-length").p != NULL ||
               qp_http_refuse(ret_refusal, 411, "the request needs a Content-Length");
    default:
        return true;
    }
}

/* Whether the connection goes on, and whether the client waits for "100 Continue". A Connection
 * header may come several times.
 * "close" wins over "keep-alive". An older client that expects 100 would not understand it. */
static bool head_connection(qp_http_request *request, bool is_1_0, qp_http_refusal *ret_refusal)
{
    quipu_str expect = qp_http_header(request, "expect");

    /* The default of the version, which the header changes. */
    request->keep_alive = !is_1_0;
    for (size_t i = 0; i < request->header_count; i++) {
        const qp_http_field *field = &request->headers[i];

        if (!quipu_str_eq(field->name, QUIPU_STR("connection"))) {
            continue;
        }
        if (head_list_has(field->value, "close")) {
            request->keep_alive = false;
            break;
        }
        request->keep_alive = request->keep_alive || head_list_has(field->value, "keep-alive");
    }
    if (expect.p != NULL && !head_is_word(expect, "100-continue")) {
        return qp_http_refuse(ret_refusal, 417, "Expect must be 100-continue");
    }
    request->expects_continue = expect.p != NULL && !is_1_0;
    return true;
}

/* Every header line up to the empty one.
 * The last two bytes are the empty line. */
static bool head_fields(char *text, size_t size, qp_http_request *request,
                        qp_http_refusal *ret_refusal)
{
    while (size > 2) {
        char *end = memchr(text, '\r', size);
        size_t n;

        /* The reader lets no CR pass without its LF. */
        assert(end != NULL && end[1] == '\n');
        n = (size_t)(end - text);
        if (!head_field(text, n, request, ret_refusal)) {
            return false;
        }
        text = end + 2;
        size -= n + 2;
    }
    return true;
}

/* The order decides which fault is reported: first the line and the fields themselves, then what
 * they mean for the end of the request. Only then is the target looked at, because it may name a
 * host that must be the one of the Host header. */
bool qp_http_head_parse(char *text, size_t size, size_t body_max, qp_http_request *ret_request,
                        qp_http_framing *ret_framing, qp_http_refusal *ret_refusal)
{
    char *end = memchr(text, '\r', size);
    size_t line_size;
    quipu_str target = QP_STR_ABSENT;
    bool is_1_0 = false;

    assert(size >= 4 && memcmp(text + size - 4, "\r\n\r\n", 4) == 0); /* so that end is there */
    line_size = (size_t)(end - text);
    *ret_request = (qp_http_request){.method = QP_HTTP_GET};
    if (!head_request_line(text, line_size, ret_request, &is_1_0, &target, ret_refusal) ||
        !head_fields(end + 2, size - line_size - 2, ret_request, ret_refusal) ||
        !head_host(ret_request, ret_refusal) ||
        !head_framing(ret_request, is_1_0, body_max, ret_framing, ret_refusal) ||
        !head_body(ret_request, is_1_0, ret_framing, ret_refusal) ||
        !head_connection(ret_request, is_1_0, ret_refusal)) {
        return false;
    }
    return qp_http_target_parse(text + (target.p - text), target.n, ret_request->host, ret_request,
                                ret_refusal);
}
