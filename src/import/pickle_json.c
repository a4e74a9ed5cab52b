/* A pickled value as JSON, as ADK itself would have written it.
 *
 * Called by: pickle.c. Values may be shared, and a hostile pickle may put a list into itself:
 * QP_PICKLE_DEPTH_MAX and QP_PICKLE_STEPS_MAX bound the walk.
 * Owns: nothing. On failure the buffer holds a part of the text, which the caller throws away.
 * Locks: none. */
#include "import/pickle.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "import/pickle_value.h"

#define PICKLE_JSON_DIGITS (QP_PICKLE_LONG_MAX * 5 / 2) /* 2.41 decimal digits a byte */
#define PICKLE_JSON_CHUNK 1000000000u /* 10^9, the largest power of ten in 32 bits */

/* One value being written; `steps` bounds the work for values that are shared many times. */
typedef struct pickle_writer {
    qp_jsonw out; /* writes into buf, and knows where commas belong */
    qp_buf *buf;  /* the caller's */
    size_t steps; /* values and members so far, shared ones each time */
    quipu_error *reterr;
} pickle_writer;

/* An integer of any size: two's complement to sign and magnitude, then nine decimal digits at a
 * time. The buffers have room for QP_PICKLE_LONG_MAX bytes, which pickle_long() has checked. Square
 * in the number of bytes, at most 256 limbs by 275 rounds. */
static void pickle_json_long(pickle_writer *writer, quipu_str bytes)
{
    uint32_t limbs[QP_PICKLE_LONG_MAX / 4 + 1] = {0}; /* the magnitude, lowest first */
    uint32_t chunks[PICKLE_JSON_DIGITS / 9 + 2];      /* nine digits each, lowest first */
    char text[PICKLE_JSON_DIGITS + 16];
    const bool negative = bytes.n > 0 && ((unsigned char)bytes.p[bytes.n - 1] & 0x80u) != 0;
    size_t n = (bytes.n + 3) / 4;
    size_t chunk_count = 0;
    uint64_t carry = negative ? 1 : 0;

    /* Sign-extended little-endian bytes to 32-bit limbs. */
    for (size_t i = 0; i < n * 4; i++) {
        uint32_t byte = i < bytes.n ? (unsigned char)bytes.p[i] : negative ? 0xffu : 0u;
        limbs[i / 4] |= byte << (i % 4 * 8);
    }
    /* Two's complement: invert and add one. */
    for (size_t i = 0; negative && i < n; i++) {
        uint64_t sum = (uint64_t)(uint32_t)~limbs[i] + carry;
        limbs[i] = (uint32_t)sum;
        carry = sum >> 32;
    }
    /* Divide by 10^9 until nothing is left; the remainders are the digits, lowest first. */
    do {
        uint64_t rest = 0;
        for (size_t i = n; i > 0; i--) {
            uint64_t part = rest << 32 | limbs[i - 1];
            limbs[i - 1] = (uint32_t)(part / PICKLE_JSON_CHUNK);
            rest = part % PICKLE_JSON_CHUNK;
        }
        chunks[chunk_count++] = (uint32_t)rest; /* at least one: zero is "0" */
        while (n > 0 && limbs[n - 1] == 0) {
            n--;
        }
    } while (n > 0);
    /* The highest chunk has no leading zeros; all others have their nine digits. */
    size_t at = (size_t)snprintf(text, sizeof(text), "%s%u", negative ? "-" : "",
                                 (unsigned)chunks[chunk_count - 1]);
    for (size_t i = chunk_count - 1; i > 0; i--) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%09u", (unsigned)chunks[i - 1]);
    }
    qp_jsonw_raw(&writer->out, (quipu_str){text, at});
}

/* As Python writes it: whole values have ".0". NaN and infinities are not JSON. Two bytes more than
 * QP_DOUBLE_TEXT_SIZE leave room for them. */
static quipu_status pickle_json_float(pickle_writer *writer, double value)
{
    char text[QP_DOUBLE_TEXT_SIZE + 2];

    if (!qp_double_text(value, text)) {
        return qp_error_set(writer->reterr, QUIPU_INVALID,
                            "the pickle has a number that JSON cannot express: %s",
                            isnan(value) ? "NaN" : "an infinity");
    }
    /* "3" would be read as an integer, and Python would get another type back. */
    if (strpbrk(text, ".eE") == NULL) {
        size_t n = strlen(text);
        memcpy(text + n, ".0", sizeof(".0"));
    }
    qp_jsonw_raw(&writer->out, quipu_cstr(text));
    return QUIPU_OK;
}

/* URL-safe base64, as ADK for Python writes bytes. base64.h writes the standard alphabet, which is
 * changed in place. */
static void pickle_json_bytes(pickle_writer *writer, quipu_str bytes)
{
    size_t from = writer->buf->n;

    qp_base64_json(&writer->out, (quipu_bytes){bytes.p, bytes.n});
    /* The alphabets differ in two characters, one byte each: nothing moves. */
    for (size_t i = from; qp_buf_status(writer->buf) == QUIPU_OK && i < writer->buf->n; i++) {
        char *c = &writer->buf->p[i];
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    }
}

static quipu_status pickle_json_value(pickle_writer *writer, const pickle_value *value, int depth);

/* The buffer's error, if there is one, with a reason. Looked at after each value: a failed buffer
 * would otherwise go on for millions of steps. */
static quipu_status pickle_json_status(const pickle_writer *writer)
{
    const quipu_status status = qp_buf_status(writer->buf);

    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(writer->reterr, status, "%s",
                              status == QUIPU_INVALID ? "a text of the pickle is not UTF-8"
                                                      : "no room for the contents of the pickle");
}

/* Keys are texts; integers become texts, as Python's json does. Other types that Python allows as a
 * key are refused. */
static quipu_status pickle_json_key(pickle_writer *writer, const pickle_value *key)
{
    char number[24]; /* an int64_t has at most 20 characters */

    if (key->kind == PICKLE_TEXT) {
        qp_jsonw_key(&writer->out, key->as.text);
    } else if (key->kind == PICKLE_INT) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)key->as.i);
        qp_jsonw_key(&writer->out, quipu_cstr(number));
    } else {
        return qp_error_set(writer->reterr, QUIPU_INVALID,
                            "the pickle has a dictionary with a key that is not text");
    }
    return QUIPU_OK;
}

/* The members of a dictionary; those of a record without the ones that are None. A member counts as
 * a step of its own, so that a dictionary of None fields is bounded, too. */
static quipu_status pickle_json_members(pickle_writer *writer, const pickle_items *items,
                                        bool record, int depth)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i + 1 < items->n && status == QUIPU_OK; i += 2) {
        if (++writer->steps > QP_PICKLE_STEPS_MAX) {
            return qp_error_set(writer->reterr, QUIPU_LIMIT,
                                "the pickle unfolds to more than %d values", QP_PICKLE_STEPS_MAX);
        }
        assert(items->p[i] != NULL && items->p[i + 1] != NULL);
        /* ADK leaves out fields that are None when it writes an object as JSON. */
        if (record && items->p[i + 1]->kind == PICKLE_NONE) {
            continue;
        }
        status = pickle_json_key(writer, items->p[i]);
        if (status == QUIPU_OK) {
            status = pickle_json_value(writer, items->p[i + 1], depth);
        }
    }
    return status;
}

/* The value of a text key, or NULL. The first one: a dictionary that Python pickled has no
 * second. */
static const pickle_value *pickle_json_find(const pickle_items *items, const char *name)
{
    for (size_t i = 0; i + 1 < items->n; i += 2) {
        if (items->p[i]->kind == PICKLE_TEXT &&
            quipu_str_eq(items->p[i]->as.text, quipu_cstr(name))) {
            return items->p[i + 1];
        }
    }
    return NULL;
}

/* A pydantic object: its declared fields, then the extra ones. An object that is not pydantic's has
 * no "__dict__" in its state: the state itself is the fields. */
static quipu_status pickle_json_record(pickle_writer *writer, const pickle_value *value, int depth)
{
    static const char *const parts[] = {"__dict__", "__pydantic_extra__"};
    quipu_status status = QUIPU_OK;

    qp_jsonw_object(&writer->out);
    /* BUILD has given the object one dictionary; an object without BUILD has no fields. */
    if (value->as.items.n == 1) {
        const pickle_items *made_of = &value->as.items.p[0]->as.items;

        if (pickle_json_find(made_of, "__dict__") == NULL) {
            status = pickle_json_members(writer, made_of, true, depth);
        }
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == QUIPU_OK; i++) {
            const pickle_value *part = pickle_json_find(made_of, parts[i]);

            /* An object without extra fields has None here. */
            if (part != NULL && part->kind == PICKLE_DICT) {
                status = pickle_json_members(writer, &part->as.items, true, depth);
            }
        }
    }
    if (status == QUIPU_OK) {
        qp_jsonw_object_end(&writer->out);
    }
    return status;
}

/* Lists, tuples and sets. Sets have no order; they come in the order of the pickle. */
static quipu_status pickle_json_list(pickle_writer *writer, const pickle_items *items, int depth)
{
    quipu_status status = QUIPU_OK;

    qp_jsonw_array(&writer->out);
    for (size_t i = 0; i < items->n && status == QUIPU_OK; i++) {
        status = pickle_json_value(writer, items->p[i], depth);
    }
    if (status == QUIPU_OK) {
        qp_jsonw_array_end(&writer->out);
    }
    return status;
}

/* One value and everything in it. Every value is a step, shared ones each time they are written. */
static quipu_status pickle_json_value(pickle_writer *writer, const pickle_value *value, int depth)
{
    quipu_status status = QUIPU_OK;

    if (++writer->steps > QP_PICKLE_STEPS_MAX || depth >= QP_PICKLE_DEPTH_MAX) {
        return qp_error_set(writer->reterr, QUIPU_LIMIT,
                            "the pickle unfolds to more than %d values, or %d inside each other",
                            QP_PICKLE_STEPS_MAX, QP_PICKLE_DEPTH_MAX);
    }
    /* Scalars fall through to the check of the buffer; a container returns, its members checked. */
    switch (value->kind) {
    case PICKLE_NONE:
        qp_jsonw_null(&writer->out);
        break;
    case PICKLE_BOOL:
        qp_jsonw_bool(&writer->out, value->as.b);
        break;
    case PICKLE_INT:
        qp_jsonw_i64(&writer->out, value->as.i);
        break;
    case PICKLE_LONG:
        pickle_json_long(writer, value->as.text);
        break;
    case PICKLE_FLOAT:
        return pickle_json_float(writer, value->as.f);
    case PICKLE_TEXT:
        qp_jsonw_str(&writer->out, value->as.text);
        break;
    case PICKLE_BYTES:
        pickle_json_bytes(writer, value->as.text);
        break;
    case PICKLE_LIST:
        return pickle_json_list(writer, &value->as.items, depth + 1);
    case PICKLE_DICT:
        qp_jsonw_object(&writer->out);
        status = pickle_json_members(writer, &value->as.items, false, depth + 1);
        if (status == QUIPU_OK) {
            qp_jsonw_object_end(&writer->out);
        }
        return status;
    case PICKLE_RECORD:
        return pickle_json_record(writer, value, depth + 1);
    /* A class of which no operation has made an object. */
    default:
        return qp_error_set(writer->reterr, QUIPU_INVALID,
                            "the pickle has a class where data is expected");
    }
    return pickle_json_status(writer);
}

/* See pickle_value.h. The depth starts at 0 for the outermost value; the steps are counted over the
 * whole value. */
quipu_status qp_pickle_write(const pickle_value *value, qp_buf *json, quipu_error *reterr)
{
    pickle_writer writer = {.buf = json, .reterr = reterr};
    quipu_status status;

    qp_jsonw_begin(&writer.out, json);
    status = pickle_json_value(&writer, value, 0);
    return status == QUIPU_OK ? pickle_json_status(&writer) : status;
}
