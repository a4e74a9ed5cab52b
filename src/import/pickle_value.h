/* The values of a pickle, between the reader (pickle.c) and the writer (pickle_json.c). They lie in
 * the reader's arena; texts are slices of the pickle. */
#ifndef QP_IMPORT_PICKLE_VALUE_H
#define QP_IMPORT_PICKLE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* The values that the machine can have on its stack, besides marks. */
typedef enum pickle_kind {
    PICKLE_NONE = 1,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_LONG, /* a whole number past 64 bits: its bytes, lowest first, two's complement */
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_BYTES,
    PICKLE_LIST, /* lists, tuples and sets */
    PICKLE_DICT, /* items are keys and values in turn */
    PICKLE_CLASS,
    PICKLE_RECORD /* an object; its one item is what it was built from */
} pickle_kind;

typedef struct pickle_value pickle_value;

typedef struct pickle_items {
    pickle_value **p;
    size_t n;
    size_t cap;
} pickle_items;

/* A value. Containers may share their elements, also with themselves. */
struct pickle_value {
    pickle_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        quipu_str text; /* of texts, bytes and long numbers: a slice of the pickle */
        pickle_items items;
    } as;
};

/* Write a value and all inside it. QUIPU_INVALID, QUIPU_LIMIT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_pickle_write(const pickle_value *value, qp_buf *json,
                                            quipu_error *reterr);

#endif
