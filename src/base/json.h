/* JSON by slices. One pass checks the text and lays out a tape of 16-byte tokens; every value then
 * is a slice of the source, so number spellings, key order, unknown fields, duplicate keys, big
 * integers and escapes survive, because nothing is ever converted unless a caller asks.
 *
 * The grammar is RFC 8259, strictly, over valid UTF-8. SQLite 3.40's json_valid() agrees except
 * that it does not look at UTF-8, stops at a NUL byte, and allows a depth of 2000. Duplicate keys:
 * the text is kept, the last one wins on lookup.
 *
 *   qp_json_init(&doc);
 *   status = qp_json_parse(&doc, text, NULL, reterr);
 *   iter = qp_json_each(qp_json_get(qp_json_root(&doc), QUIPU_STR("parts")));
 *   while (qp_json_next(&iter)) { ... }           no round where "parts" is missing or no list
 *   qp_json_free(&doc);
 */
#ifndef QP_BASE_JSON_H
#define QP_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#include "base/attr.h"

#define QP_JSON_DEPTH_MAX 512               /* default: arrays and objects inside each other */
#define QP_JSON_DEPTH_CAP 1024              /* the most that limits may ask for */
#define QP_JSON_SIZE_MAX ((size_t)64 << 20) /* default, in bytes */
#define QP_JSON_SIZE_CAP ((size_t)1 << 30)  /* the most that limits may ask for */
#define QP_JSON_NEAR 32                     /* tokens that need no allocation */

typedef enum qp_json_kind {
    QP_JSON_NONE = 0, /* the value does not exist */
    QP_JSON_NULL,
    QP_JSON_FALSE,
    QP_JSON_TRUE,
    QP_JSON_NUMBER,
    QP_JSON_STRING,
    QP_JSON_ARRAY,
    QP_JSON_OBJECT,
} qp_json_kind;

typedef struct qp_json_limits {
    size_t size_max;    /* at most QP_JSON_SIZE_CAP */
    uint32_t depth_max; /* at most QP_JSON_DEPTH_CAP; 0 allows only scalars */
} qp_json_limits;

/* Where a text stops being JSON, and what would have fitted there. */
typedef struct qp_json_fault {
    size_t offset;
    const char *expected; /* static text, such as "',' or '}'" */
} qp_json_fault;

typedef struct qp_json_token {
    uint32_t start; /* bytes from the beginning of the text */
    uint32_t end;   /* one past the last byte */
    uint32_t next;  /* the token after this value and all inside it */
    uint8_t kind;
    uint8_t escaped; /* a string with a backslash in it */
} qp_json_token;

/* A parsed text. Never copy the struct: short tapes live inside it. The text is borrowed and must
 * outlive it. May be used again and again; the memory is kept until qp_json_free(). */
typedef struct qp_json_doc {
    quipu_str text;
    qp_json_token *tokens;
    uint32_t count;
    uint32_t cap;
    qp_json_fault fault; /* of the last parse that answered QUIPU_INVALID */
    qp_json_token near[QP_JSON_NEAR];
} qp_json_doc;

/* One value in a document. `doc` NULL means no value: every reader below takes that, as kind
 * QP_JSON_NONE, so that lookups can be chained. */
typedef struct qp_json_node {
    const qp_json_doc *doc;
    uint32_t at;
} qp_json_node;

/* ---- checking and parsing ------------------------------------------------------------------ */

/* Whether the whole text is one JSON value, without allocating. `limits` NULL: the defaults.
 * QUIPU_INVALID fills *ret_fault (NULL is fine); QUIPU_LIMIT when it is too large or too deep. */
QUIPU_MUST_USE quipu_status qp_json_check(quipu_str text, const qp_json_limits *limits,
                                          qp_json_fault *ret_fault);

void qp_json_init(qp_json_doc *doc);

/* Check the text and lay out its tape. QUIPU_INVALID (doc->fault says where), QUIPU_LIMIT,
 * QUIPU_NOMEM; after a failure the document is empty. */
QUIPU_MUST_USE quipu_status qp_json_parse(qp_json_doc *doc, quipu_str text,
                                          const qp_json_limits *limits, quipu_error *reterr);

/* NULL is fine. */
void qp_json_free(qp_json_doc *doc);

/* ---- walking ------------------------------------------------------------------------------- */

qp_json_node qp_json_root(const qp_json_doc *doc);

QP_INLINE qp_json_kind qp_json_kind_of(qp_json_node node)
{
    return node.doc != NULL ? (qp_json_kind)node.doc->tokens[node.at].kind : QP_JSON_NONE;
}

/* The value as it stands in the source, quotes and all; absent for no value. */
quipu_str qp_json_raw(qp_json_node node);

/* Walk an array's elements or an object's members in the order of the text, duplicates included;
 * anything else has none. `key` is a string node, or no value inside an array. */
typedef struct qp_json_iter {
    qp_json_node key;
    qp_json_node value;
    const qp_json_doc *doc;
    uint32_t at;
    uint32_t stop;
    bool members;
} qp_json_iter;

qp_json_iter qp_json_each(qp_json_node node);
bool qp_json_next(qp_json_iter *iter);

/* How many elements or members (duplicates counted). */
size_t qp_json_count(qp_json_node node);

/* The member of that name, compared by meaning; the last one when there are several. */
qp_json_node qp_json_get(qp_json_node object, quipu_str key);

/* The element at an index, from 0. */
qp_json_node qp_json_at(qp_json_node array, size_t index);

/* ---- values -------------------------------------------------------------------------------- */

#define QP_JSON_TEXT_NUL 1U       /* it holds \u0000 */
#define QP_JSON_TEXT_SURROGATE 2U /* it holds half a surrogate pair */

/* A string's text: a slice of the source when it has no escape (then without a NUL after it), else
 * unescaped into the arena. U+0000 and lone surrogates, which a text column cannot hold, become
 * U+FFFD and are reported in *ret_flags (NULL is fine). QUIPU_INVALID when the node is not a
 * string; QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_json_text(qp_json_node node, quipu_arena *arena, quipu_str *ret_text,
                                         uint32_t *ret_flags);

/* The same, always copied to the arena with a NUL after it, and U+0000 kept as a NUL byte. */
QUIPU_MUST_USE quipu_status qp_json_text_copy(qp_json_node node, quipu_arena *arena,
                                              quipu_str *ret_text);

/* Order of two strings by what they mean, by code points; both must be strings. */
int qp_json_text_cmp(qp_json_node a, qp_json_node b);

/* Whether a string means exactly this text. */
bool qp_json_text_is(qp_json_node node, quipu_str text);

typedef enum qp_json_exact {
    QP_JSON_NO_NUMBER = 0, /* the node is not a number; the output is untouched */
    QP_JSON_EXACT,         /* the output equals the number */
    QP_JSON_ROUNDED,       /* int64: cut towards zero; double: the nearest one */
    QP_JSON_RANGE,         /* int64: the nearest end of the range; double: an infinity */
} qp_json_exact;

qp_json_exact qp_json_int64(qp_json_node node, int64_t *ret_value);
qp_json_exact qp_json_double(qp_json_node node, double *ret_value);

/* The shortest text that reads back as the same double; false for NaN and infinities. */
#define QP_DOUBLE_TEXT_SIZE 32
bool qp_double_text(double value, char ret_text[QP_DOUBLE_TEXT_SIZE]);

/* Whether two values are the same tree: members in any order, of duplicates only the last, strings
 * by meaning, numbers by spelling. QUIPU_NOMEM when a large object cannot be sorted. */
QUIPU_MUST_USE quipu_status qp_json_equal(qp_json_node a, qp_json_node b, bool *ret_equal);

/* Whether an object has two members of the same name, by meaning; anything else has none. n log n
 * comparisons. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_json_repeats(qp_json_node object, bool *ret_repeats);

#endif
