/* From the bytes of a request's head to its parts. For reader.c. */
#ifndef QP_HTTP_HEAD_H
#define QP_HTTP_HEAD_H

#include <stdint.h>

#include "http/request.h"

/* How the body behind a head ends. */
typedef struct qp_http_framing {
    bool chunked;
    uint64_t length; /* unless chunked; 0: no body */
} qp_http_framing;

/* Parses a head that ends with an empty line, whose lines end with CRLF and hold no other control
 * byte than HTAB. Decodes in place: `text` is changed, and the request's texts point into it.
 * false: *ret_refusal says why, and *ret_request holds no meaning. */
QUIPU_MUST_USE bool qp_http_head_parse(char *text, size_t size, size_t body_max,
                                       qp_http_request *ret_request, qp_http_framing *ret_framing,
                                       qp_http_refusal *ret_refusal);

/* Parses a request's target, the path and the query, in the same way. `host` is the Host header's,
 * which an absolute form must name. */
QUIPU_MUST_USE bool qp_http_target_parse(char *text, size_t size, quipu_str host,
                                         qp_http_request *ret_request,
                                         qp_http_refusal *ret_refusal);

/* Fills in *ret_refusal and returns false. */
bool qp_http_refuse(qp_http_refusal *ret_refusal, int status, const char *reason);

#endif
