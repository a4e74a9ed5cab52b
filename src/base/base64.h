/* Base64 of RFC 4648: the standard alphabet, padded, as Go's encoding/json writes bytes. */
#ifndef QP_BASE_BASE64_H
#define QP_BASE_BASE64_H

#include <quipu/base.h>

#include "base/buf.h"
#include "base/jsonw.h"

void qp_base64_put(qp_buf *buf, quipu_bytes bytes);

/* The bytes as a JSON string. */
void qp_base64_json(qp_jsonw *writer, quipu_bytes bytes);

/* Read it back into the arena. Both alphabets are taken, with padding or without it; QUIPU_INVALID
 * for anything else, QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_base64_read(quipu_str text, quipu_arena *arena,
                                           quipu_bytes *ret_bytes);

#endif
