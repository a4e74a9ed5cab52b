/* A reader for the pickles that ADK for Python stores in old files. It turns data into JSON and
 * executes nothing: a class is only a name, accepted when it is one of ADK's, and an object of it
 * is a record of its fields. Any other operation fails with QUIPU_INVALID. */
#ifndef QP_IMPORT_PICKLE_H
#define QP_IMPORT_PICKLE_H

#include <quipu/base.h>

#include "base/buf.h"

#define QP_PICKLE_BYTES_MAX ((size_t)16 << 20) /* of one pickle */
#define QP_PICKLE_VALUES_MAX 1000000           /* values that one pickle may make, or remember */
#define QP_PICKLE_DEPTH_MAX 500                /* values inside each other */
#define QP_PICKLE_STEPS_MAX 4000000            /* values written, shared ones each time */
#define QP_PICKLE_LONG_MAX 1024                /* bytes of a whole number */

/* Appends the pickled value to `json`. Fields of a record that are None are left out, as ADK does;
 * bytes are URL-safe base64. QUIPU_INVALID (truncated, an unknown class or operation, a value that
 * JSON cannot express), QUIPU_LIMIT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_pickle_json(quipu_bytes pickle, qp_buf *json, quipu_error *reterr);

#endif
