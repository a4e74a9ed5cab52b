/* A reader for the pickles that ADK for Python keeps in old files. It makes JSON out of data and
 * executes nothing: a class is only a name, allowed when it is one of ADK's own, and an object of
 * it is a record of its fields. Everything else is refused. */
#ifndef QP_IMPORT_PICKLE_H
#define QP_IMPORT_PICKLE_H

#include <quipu/base.h>

#include "base/buf.h"

#define QP_PICKLE_BYTES_MAX ((size_t)16 << 20) /* of one pickle */
#define QP_PICKLE_VALUES_MAX 1000000           /* values that one pickle may make, or remember */
#define QP_PICKLE_DEPTH_MAX 500                /* values inside each other */
#define QP_PICKLE_STEPS_MAX 4000000            /* values written, shared ones each time */
#define QP_PICKLE_LONG_MAX 1024                /* bytes of a whole number */

/* Write the value that a pickle holds behind what `json` has: fields of a record that are None are
 * left out, as ADK does, bytes are base64 for URLs. QUIPU_INVALID (cut, a class or an operation
 * that data does not need, no JSON), QUIPU_LIMIT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_pickle_json(quipu_bytes pickle, qp_buf *json, quipu_error *reterr);

#endif
