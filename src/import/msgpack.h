/* A reader for the msgpack of LangGraph's checkpoints. It turns values into JSON and executes
 * nothing: an object of Python is an extension that names its class and its fields, and becomes the
 * fields. */
#ifndef QP_IMPORT_MSGPACK_H
#define QP_IMPORT_MSGPACK_H

#include <quipu/base.h>

#include "base/buf.h"

#define QP_MSGPACK_DEPTH_MAX 100 /* values inside each other */

/* A value within the caller's msgpack; `bytes.p` is NULL when there is none. */
typedef struct qp_msgpack {
    quipu_bytes bytes; /* from the value on, to the end of what holds it */
} qp_msgpack;

/* The value of a map's member; none when it has no such key. QUIPU_INVALID when the bytes are not a
 * map, or end too early. */
QUIPU_MUST_USE quipu_status qp_msgpack_get(qp_msgpack map, const char *key, qp_msgpack *ret_value,
                                           quipu_error *reterr);

/* How many elements a list has, and its first one; QUIPU_INVALID when it is not a list. */
QUIPU_MUST_USE quipu_status qp_msgpack_list(qp_msgpack list, uint32_t *ret_count,
                                            qp_msgpack *ret_first, quipu_error *reterr);

/* Appends a value to `json` and moves `value` behind it. Bytes are base64; a key of a map must be a
 * text or a whole number; NaN, infinities and arrays of numpy have no form in JSON and are null.
 * QUIPU_INVALID, QUIPU_LIMIT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_msgpack_json(qp_msgpack *value, qp_buf *json, quipu_error *reterr);

#endif
