/* What a pickle holds as JSON, the way ADK itself would have written it. Values may be shared, and
 * a hostile pickle may put a list into itself: depth and steps are bounded. */
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
#define PICKLE_JSON_CHUNK 1000000000u

typedef struct pickle_writer {
    qp_jsonw out;
    qp_buf *buf;
    size_t steps;
    quipu_error *reterr;
} pickle_writer;

/* A whole number of any size: nine decimal digits at a time. */
static void pickle_json_long(pickle_writer *writer, quipu_str bytes)
{
    uint32_t limbs[QP_PICKLE_LONG_MAX / 4 + 1] = {0};
    uint32_t chunks[PICKLE_JSON_DIGITS / 9 + 2];
    char text[PICKLE_JSON_DIGITS + 16];
    const bool negative = bytes.n > 0 && ((unsigned char)bytes.p[bytes.n - 1] & 0x80u) != 0;
    size_t n = (bytes.n + 3) / 4;
    size_t chunk_count = 0;
    uint64_t carry = negative ? 1 : 0;

    for (size_t i = 0; i < n * 4; i++) {
        uint32_t byte = i < bytes.n ? (unsigned char)bytes.p[i] : negative ? 0xffu : 0u;
        limbs[i / 4] |= byte << (i % 4 * 8);
    }
    for (size_t i = 0; negative && i < n; i++) {
        uint64_t sum = (uint64_t)(uint32_t)~limbs[i] + carry;
        limbs[i] = (uint32_t)sum;
        carry = sum >> 32;
    }
    do {
        uint64_t rest = 0;
        for (size_t i = n; i > 0; i--) {
            uint64_t part = rest << 32 | limbs[i - 1];
            limbs[i - 1] = (uint32_t)(part / PICKLE_JSON_CHUNK);
            rest = part % PICKLE_JSON_CHUNK;
        }
        chunks[chunk_count++] = (uint32_t)rest;
        while (n > 0 && limbs[n - 1] == 0) {
            n--;
        }
    } while (n > 0);
    size_t at = (size_t)snprintf(text, sizeof(text), "%s%u", negative ? "-" : "",
                                 (unsigned)chunks[chunk_count - 1]);
    for (size_t i = chunk_count - 1; i > 0; i--) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%09u", (unsigned)chunks[i - 1]);
    }
    qp_jsonw_raw(&writer->out, (quipu_str){text, at});
}

/* As Python writes it: a whole one has ".0". */
static quipu_status pickle_json_float(pickle_writer *writer, double value)
{
    char text[QP_DOUBLE_TEXT_SIZE + 2];

    if (!qp_double_text(value, text)) {
        return qp_error_set(writer->reterr, QUIPU_INVALID,
                            "the pickle holds a number that JSON cannot say: %s",
                            isnan(value) ? "NaN" : "an infinity");
    }
    if (strpbrk(text, ".eE") == NULL) {
        size_t n = strlen(text);
        memcpy(text + n, ".0", sizeof(".0"));
    }
    qp_jsonw_raw(&writer->out, quipu_cstr(text));
    return QUIPU_OK;
}

/* Base64 in the alphabet for URLs, as ADK for Python writes bytes. */
static void pickle_json_bytes(pickle_writer *writer, quipu_str bytes)
{
    size_t from = writer->buf->n;

    qp_base64_json(&writer->out, (quipu_bytes){bytes.p, bytes.n});
    for (size_t i = from; qp_buf_status(writer->buf) == QUIPU_OK && i < writer->buf->n; i++) {
        char *c = &writer->buf->p[i];
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    }
}

static quipu_status pickle_json_value(pickle_writer *writer, const pickle_value *value, int depth);

/* What sticks in the buffer, with a reason. */
static quipu_status pickle_json_told(const pickle_writer *writer)
{
    const quipu_status status = qp_buf_status(writer->buf);

    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(writer->reterr, status, "%s",
                              status == QUIPU_INVALID ? "a text of the pickle is no UTF-8"
                                                      : "no room for what the pickle holds");
}

static quipu_status pickle_json_key(pickle_writer *writer, const pickle_value *key)
{
    char number[24];

    if (key->kind == PICKLE_TEXT) {
        qp_jsonw_key(&writer->out, key->as.text);
    } else if (key->kind == PICKLE_INT) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)key->as.i);
        qp_jsonw_key(&writer->out, quipu_cstr(number));
    } else {
        return qp_error_set(writer->reterr, QUIPU_INVALID,
                            "the pickle has a dictionary with a key that is no text");
    }
    return QUIPU_OK;
}

/* The members of a dictionary; those of a record without the ones that are None. */
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

/* A pydantic object: its fields, and what it holds beside them. */
static quipu_status pickle_json_record(pickle_writer *writer, const pickle_value *value, int depth)
{
    static const char *const parts[] = {"__dict__", "__pydantic_extra__"};
    quipu_status status = QUIPU_OK;

    qp_jsonw_object(&writer->out);
    if (value->as.items.n == 1) {
        const pickle_items *made_of = &value->as.items.p[0]->as.items;

        if (pickle_json_find(made_of, "__dict__") == NULL) {
            status = pickle_json_members(writer, made_of, true, depth);
        }
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == QUIPU_OK; i++) {
            const pickle_value *part = pickle_json_find(made_of, parts[i]);

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

static quipu_status pickle_json_value(pickle_writer *writer, const pickle_value *value, int depth)
{
    quipu_status status = QUIPU_OK;

    if (++writer->steps > QP_PICKLE_STEPS_MAX || depth >= QP_PICKLE_DEPTH_MAX) {
        return qp_error_set(writer->reterr, QUIPU_LIMIT,
                            "the pickle unfolds to more than %d values, or %d inside each other",
                            QP_PICKLE_STEPS_MAX, QP_PICKLE_DEPTH_MAX);
    }
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
    default:
        return qp_error_set(writer->reterr, QUIPU_INVALID,
                            "the pickle holds a class where data should be");
    }
    return pickle_json_told(writer);
}

quipu_status qp_pickle_write(const pickle_value *value, qp_buf *json, quipu_error *reterr)
{
    pickle_writer writer = {.buf = json, .reterr = reterr};
    quipu_status status;

    qp_jsonw_begin(&writer.out, json);
    status = pickle_json_value(&writer, value, 0);
    return status == QUIPU_OK ? pickle_json_told(&writer) : status;
}
