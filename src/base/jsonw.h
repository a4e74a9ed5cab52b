/* Writing JSON into a buffer. Commas come by themselves; errors stick in the buffer, so that a
 * caller writes everything and checks qp_jsonw_end() once. The order of calls must make JSON: a key
 * before each member's value, ends that match; breaking that is a bug, and asserted.
 *
 *   qp_jsonw_begin(&writer, &buf);
 *   qp_jsonw_object(&writer);                     {
 *   qp_jsonw_key(&writer, QUIPU_STR("a"));        "a":
 *   qp_jsonw_i64(&writer, 1);                     1
 *   qp_jsonw_object_end(&writer);                 }
 *   status = qp_jsonw_end(&writer);
 */
#ifndef QP_BASE_JSONW_H
#define QP_BASE_JSONW_H

#include <stdbool.h>
#include <stdint.h>

#include <quipu/base.h>

#include "base/buf.h"
#include "base/json.h"

typedef struct qp_jsonw {
    qp_buf *buf;
    uint32_t depth;
    bool comma;                               /* a value stands before in this container */
    bool keyed;                               /* a key waits for its value */
    uint64_t objects[QP_JSON_DEPTH_MAX / 64]; /* a bit a level: 1 for an object */
} qp_jsonw;

/* Write to `buf`, after what it holds. Nesting past QP_JSON_DEPTH_MAX is QUIPU_LIMIT: what is
 * written can be read back. */
void qp_jsonw_begin(qp_jsonw *writer, qp_buf *buf);

/* The buffer's status; a whole value must have been written unless it failed. */
QUIPU_MUST_USE quipu_status qp_jsonw_end(const qp_jsonw *writer);

void qp_jsonw_object(qp_jsonw *writer);
void qp_jsonw_object_end(qp_jsonw *writer);
void qp_jsonw_array(qp_jsonw *writer);
void qp_jsonw_array_end(qp_jsonw *writer);

/* Text that is not UTF-8 makes QUIPU_INVALID stick; a NUL byte is written as \u0000. */
void qp_jsonw_key(qp_jsonw *writer, quipu_str key);
void qp_jsonw_str(qp_jsonw *writer, quipu_str text);

/* JSON text as it is: a number, or a kept subtree. The caller vouches for it. */
void qp_jsonw_raw(qp_jsonw *writer, quipu_str json);

/* The key as it stands in a source, quotes and escapes included. */
void qp_jsonw_raw_key(qp_jsonw *writer, quipu_str json);

void qp_jsonw_i64(qp_jsonw *writer, int64_t value);
void qp_jsonw_double(qp_jsonw *writer, double value); /* NaN and infinities: QUIPU_INVALID */
void qp_jsonw_bool(qp_jsonw *writer, bool value);
void qp_jsonw_null(qp_jsonw *writer);

/* A member of an object: its name and its value. An absent text, and a time that RFC 3339 cannot
 * write, are left out. */
void qp_jsonw_put(qp_jsonw *writer, const char *name, const char *text);
void qp_jsonw_put_text(qp_jsonw *writer, const char *name, quipu_str text);
void qp_jsonw_put_i64(qp_jsonw *writer, const char *name, int64_t value);
void qp_jsonw_put_double(qp_jsonw *writer, const char *name, double value);
void qp_jsonw_put_bool(qp_jsonw *writer, const char *name, bool value);
void qp_jsonw_put_time(qp_jsonw *writer, const char *name, quipu_time time);

#endif
