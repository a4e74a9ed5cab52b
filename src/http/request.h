/* One HTTP/1.1 request as the reader (reader.h) gives it: checked, decoded, and framed without
 * doubt. Whatever two programs could read in two ways is refused, never repaired: a proxy and this
 * server must not disagree about where a request ends or which resource it names. */
#ifndef QP_HTTP_REQUEST_H
#define QP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include <quipu/base.h>

#define QP_HTTP_LINE_MAX ((size_t)8192)      /* bytes of a line of the head, without its CRLF */
#define QP_HTTP_HEAD_MAX ((size_t)16384)     /* bytes of the request line and all headers */
#define QP_HTTP_HEADERS_MAX 64               /* headers of a request */
#define QP_HTTP_SEGMENTS_MAX 16              /* segments of a path */
#define QP_HTTP_PARAMETERS_MAX 32            /* parameters of a query */
#define QP_HTTP_BODY_MAX ((size_t)8 << 20)   /* default for bytes of a body, chunks joined */
#define QP_HTTP_BODY_CAP ((size_t)256 << 20) /* the most that a reader may be asked to take */
#define QP_HTTP_CHUNK_DIGITS_MAX 8           /* hexadecimal digits of a chunk's size */

typedef enum qp_http_method {
    QP_HTTP_GET,
    QP_HTTP_HEAD,
    QP_HTTP_POST,
    QP_HTTP_PUT,
    QP_HTTP_PATCH,
    QP_HTTP_DELETE,
    QP_HTTP_OPTIONS,
    QP_HTTP_METHODS /* how many there are */
} qp_http_method;

/* "GET" and so on. */
const char *qp_http_method_name(qp_http_method method);

/* A header (its name in lower case) or a parameter of the query. */
typedef struct qp_http_field {
    quipu_str name;
    quipu_str value;
} qp_http_field;

/* All texts lie in the reader's memory, until qp_http_reader_next(). */
typedef struct qp_http_request {
    qp_http_method method;
    bool keep_alive;       /* the client expects to use the connection again */
    bool expects_continue; /* it waits for "100 Continue" before it sends its body */
    quipu_str host;        /* in lower case, with its port if there is one */
    /* The path between its slashes, each segment decoded by itself: "/a%2Fb/c" has "a/b" and "c".
     * "/" has none. Valid UTF-8 without control bytes; no segment has "." or ".." between slashes.
     */
    quipu_str segments[QP_HTTP_SEGMENTS_MAX];
    size_t segment_count;
    qp_http_field parameters[QP_HTTP_PARAMETERS_MAX]; /* decoded; no name twice */
    size_t parameter_count;
    qp_http_field headers[QP_HTTP_HEADERS_MAX];
    size_t header_count;
    quipu_str body; /* empty when there is none */
} qp_http_request;

/* Why a request is refused: a status of HTTP, and a static text that holds nothing of the request.
 */
typedef struct qp_http_refusal {
    int status;
    const char *reason;
} qp_http_refusal;

/* The value of a header (by its name in lower case) or of a parameter; absent when it is missing.
 * The first, when a header occurs more than once. */
quipu_str qp_http_header(const qp_http_request *request, const char *name);
quipu_str qp_http_parameter(const qp_http_request *request, const char *name);

/* Whether the body is of a media type (in lower case): as Content-Type says, in any case and with
 * any parameters. */
bool qp_http_has_type(const qp_http_request *request, const char *type);

#endif
