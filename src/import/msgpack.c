/* Reading msgpack: a head of one to nine bytes says what follows, so that a value is skipped
 * without looking into it, and written as JSON by one function that calls itself.
 *
 *   0x82            a map of two pairs
 *     0xa2 i d        a text of two bytes
 *     0x07            7
 *     0xa1 m          a text of one byte
 *     0xc7 n 0x05 …   an extension of n bytes and of code 5: an object of pydantic, msgpack itself
 *
 * Input is untrusted: each length is compared with the bytes that are left before anything is read,
 * an element costs at least a byte, and depth is bounded, so that the cost is bounded by the size
 * of the input. Called by: langgraph.c. Owns nothing; no locks. */
#include "import/msgpack.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/jsonw.h"

/* LangGraph's codes of extensions (its module serde/jsonplus). The payload of all but two is a list
 * in msgpack that says how Python would build the object again; its third element has the data. */
enum {
    MSGPACK_EXT_ONE_ARGUMENT = 0, /* [module, class, argument] */
    MSGPACK_EXT_ARGUMENTS = 1,
    MSGPACK_EXT_FIELDS = 2,
    MSGPACK_EXT_METHOD = 3,   /* [module, class, argument, method]: a date, for one */
    MSGPACK_EXT_PYDANTIC = 4, /* version 1, then 2 */
    MSGPACK_EXT_PYDANTIC_2 = 5,
    MSGPACK_EXT_NUMPY = 6,
    MSGPACK_EXT_SNAPSHOT = 7, /* the value itself */
};

/* The forms of a value. The order counts: kinds from MSGPACK_TEXT on announce bytes or elements
 * that follow the head (msgpack_announces()). */
typedef enum msgpack_kind {
    MSGPACK_NIL,
    MSGPACK_BOOL,
    MSGPACK_INT,
    MSGPACK_UINT, /* above the range of int64_t */
    MSGPACK_FLOAT,
    MSGPACK_TEXT,
    MSGPACK_BYTES,
    MSGPACK_LIST,
    MSGPACK_MAP,
    MSGPACK_EXT,
} msgpack_kind;

/* The head of a value. */
typedef struct msgpack_head {
    msgpack_kind kind;
    uint64_t n; /* bytes of a text, elements of a list, pairs of a map, an unsigned number */
    int64_t number;
    double real;
    int code; /* of an extension */
} msgpack_head;

/* A place within bytes that somebody else owns. A copy of it is a bookmark: assigning it back
 * rereads (qp_msgpack_get()). */
typedef struct msgpack_reader {
    const uint8_t *p;
    size_t n; /* bytes left */
} msgpack_reader;

/* The bytes reach to the end of what holds the value, not to the value's own end: a reader stops
 * when it has read one value. */
static msgpack_reader msgpack_reader_of(qp_msgpack value)
{
    return (msgpack_reader){value.bytes.p, value.bytes.n};
}

static quipu_status msgpack_cut(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_INVALID, "the msgpack is cut off");
}

/* A big-endian number of 1 to 8 bytes. The caller has checked that they are there. */
static uint64_t msgpack_number(msgpack_reader *reader, size_t size)
{
    uint64_t value = 0;

    assert(size <= 8 && size <= reader->n);
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | reader->p[i];
    }
    reader->p += size;
    reader->n -= size;
    return value;
}

/* Heads of one byte hold their length or number. False: the head has more bytes.
 *
 *   0xxxxxxx  0 to 127             101xxxxx  a text of xxxxx bytes
 *   1000xxxx  a map of xxxx pairs  11000000  nil
 *   1001xxxx  a list of xxxx       1100001x  false, true
 *                                  111xxxxx  -32 to -1 */
static bool msgpack_short_head(uint8_t first, msgpack_head *ret)
{
    if (first < 0x80 || first >= 0xe0) {
        *ret = (msgpack_head){.kind = MSGPACK_INT, .number = (int8_t)first};
    } else if (first < 0x90) {
        *ret = (msgpack_head){.kind = MSGPACK_MAP, .n = first & 0x0f};
    } else if (first < 0xa0) {
        *ret = (msgpack_head){.kind = MSGPACK_LIST, .n = first & 0x0f};
    } else if (first < 0xc0) {
        *ret = (msgpack_head){.kind = MSGPACK_TEXT, .n = first & 0x1f};
    } else if (first == 0xc0) {
        *ret = (msgpack_head){.kind = MSGPACK_NIL};
    } else if (first == 0xc2 || first == 0xc3) {
        *ret = (msgpack_head){.kind = MSGPACK_BOOL, .n = first & 1};
    } else {
        return false;
    }
    return true;
}

/* The formats 0xc4 to 0xdf, in the order of these bytes: the kind, and how many bytes its length or
 * number has. All of them are big-endian. */
static const struct {
    uint8_t kind;
    uint8_t size;
    uint8_t fixed; /* of an extension whose length is in its first byte */
} msgpack_long[] = {
    {MSGPACK_BYTES, 1, 0}, {MSGPACK_BYTES, 2, 0}, {MSGPACK_BYTES, 4, 0}, {MSGPACK_EXT, 1, 0},
    {MSGPACK_EXT, 2, 0},   {MSGPACK_EXT, 4, 0},   {MSGPACK_FLOAT, 4, 0}, {MSGPACK_FLOAT, 8, 0},
    {MSGPACK_UINT, 1, 0},  {MSGPACK_UINT, 2, 0},  {MSGPACK_UINT, 4, 0},  {MSGPACK_UINT, 8, 0},
    {MSGPACK_INT, 1, 0},   {MSGPACK_INT, 2, 0},   {MSGPACK_INT, 4, 0},   {MSGPACK_INT, 8, 0},
    {MSGPACK_EXT, 0, 1},   {MSGPACK_EXT, 0, 2},   {MSGPACK_EXT, 0, 4},   {MSGPACK_EXT, 0, 8},
    {MSGPACK_EXT, 0, 16},  {MSGPACK_TEXT, 1, 0},  {MSGPACK_TEXT, 2, 0},  {MSGPACK_TEXT, 4, 0},
    {MSGPACK_LIST, 2, 0},  {MSGPACK_LIST, 4, 0},  {MSGPACK_MAP, 2, 0},   {MSGPACK_MAP, 4, 0},
};

/* The number of a head, by its kind and the bytes that it had. `size` is 8 where the length was
 * part of the first byte. Shifting up and down again extends the sign: 0xd0 0xff is -1, not 255. An
 * unsigned number that fits becomes a signed one, so that writers have one case for both. */
static void msgpack_set(msgpack_head *head, uint64_t value, size_t size)
{
    const unsigned shift = (unsigned)(64 - 8 * size);

    head->n = value;
    if (head->kind == MSGPACK_UINT && value <= INT64_MAX) {
        head->kind = MSGPACK_INT;
        head->number = (int64_t)value;
    } else if (head->kind == MSGPACK_INT) {
        head->number = (int64_t)(value << shift) >> shift; /* the sign of the shorter number */
    } else if (head->kind == MSGPACK_FLOAT && size == 4) {
        const uint32_t bits = (uint32_t)value;
        float real = 0;

        memcpy(&real, &bits, sizeof(real));
        head->real = (double)real;
    } else if (head->kind == MSGPACK_FLOAT) {
        memcpy(&head->real, &value, sizeof(head->real));
    }
}

/* The least bytes that follow a head: an element of a list or a pair of a map has one at least.
 * That bounds every loop below by the size of the input, whatever a length in it claims. */
static uint64_t msgpack_announces(const msgpack_head *head)
{
    return head->kind >= MSGPACK_TEXT ? head->n : 0;
}

/* Reads a head; what it announces in bytes is there when this returns. 0xc1 is the one first byte
 * that the format leaves unused. */
static quipu_status msgpack_read(msgpack_reader *reader, msgpack_head *ret, quipu_error *reterr)
{
    uint8_t first;
    size_t size;

    if (reader->n == 0) {
        return msgpack_cut(reterr);
    }
    first = *reader->p;
    reader->p++;
    reader->n--;
    if (!msgpack_short_head(first, ret)) {
        if (first == 0xc1) {
            return qp_error_set(reterr, QUIPU_INVALID, "the msgpack has a byte 0xc1");
        }
        assert(first >= 0xc4 && first <= 0xdf);
        *ret = (msgpack_head){.kind = (msgpack_kind)msgpack_long[first - 0xc4].kind};
        size = msgpack_long[first - 0xc4].size;
        if (size + (ret->kind == MSGPACK_EXT ? 1 : 0) > reader->n) {
            return msgpack_cut(reterr);
        }
        msgpack_set(ret, size > 0 ? msgpack_number(reader, size) : msgpack_long[first - 0xc4].fixed,
                    size > 0 ? size : 8);
        if (ret->kind == MSGPACK_EXT) {
            const int code = (int)msgpack_number(reader, 1); /* a signed byte */

            ret->code = code < 0x80 ? code : code - 0x100;
        }
    }
    return msgpack_announces(ret) > reader->n ? msgpack_cut(reterr) : QUIPU_OK;
}

/* The bytes of a text, of bytes or of an extension. A slice of the input; msgpack_read() has
 * compared its length with what is left. */
static quipu_str msgpack_take(msgpack_reader *reader, const msgpack_head *head)
{
    const quipu_str taken = {(const char *)reader->p, (size_t)head->n};

    assert(head->n <= reader->n);
    reader->p += head->n;
    reader->n -= (size_t)head->n;
    return taken;
}

/* Behind one value, without looking into it: lists and maps add what they hold to what is left. A
 * counter instead of a stack: nesting that is deeper than any limit is skipped in constant memory.
 * `left` counts the values that are still to come; each has a byte at least. msgpack_read() bounds
 * n, so that 2 * n does not overflow. */
static quipu_status msgpack_skip(msgpack_reader *reader, quipu_error *reterr)
{
    msgpack_head head = {.kind = MSGPACK_NIL};

    for (uint64_t left = 1; left > 0; left--) {
        const quipu_status status = msgpack_read(reader, &head, reterr);

        if (status != QUIPU_OK) {
            return status;
        }
        if (head.kind == MSGPACK_LIST || head.kind == MSGPACK_MAP) {
            left += head.kind == MSGPACK_MAP ? 2 * head.n : head.n;
        } else if (head.kind == MSGPACK_TEXT || head.kind == MSGPACK_BYTES ||
                   head.kind == MSGPACK_EXT) {
            (void)msgpack_take(reader, &head);
        }
        if (left > reader->n + 1) {
            return msgpack_cut(reterr); /* an element has at least a byte */
        }
    }
    return QUIPU_OK;
}

/* Keys are compared in turn, and values that are not wanted are skipped: a checkpoint is read once
 * or twice, so that an index of its keys would cost more than it saves. When a key occurs twice,
 * the first one counts. Keys of other types are passed over. */
quipu_status qp_msgpack_get(qp_msgpack map, const char *key, qp_msgpack *ret_value,
                            quipu_error *reterr)
{
    msgpack_reader reader = msgpack_reader_of(map);
    msgpack_head head = {.kind = MSGPACK_NIL};
    quipu_status status = msgpack_read(&reader, &head, reterr);
    qp_msgpack found = {{NULL, 0}};

    if (status == QUIPU_OK && head.kind != MSGPACK_MAP) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the msgpack is no map");
    }
    for (uint64_t pairs = head.n; status == QUIPU_OK && pairs > 0 && found.bytes.p == NULL;
         pairs--) {
        const msgpack_reader before = reader;
        msgpack_head name;
        bool same = false;

        status = msgpack_read(&reader, &name, reterr);
        if (status == QUIPU_OK && name.kind == MSGPACK_TEXT) {
            same = quipu_str_eq(msgpack_take(&reader, &name), quipu_cstr(key));
        } else if (status == QUIPU_OK) {
            reader = before;
            status = msgpack_skip(&reader, reterr);
        }
        if (same) {
            found.bytes = (quipu_bytes){reader.p, reader.n};
        }
        if (status == QUIPU_OK) {
            status = msgpack_skip(&reader, reterr);
        }
    }
    if (status == QUIPU_OK) {
        *ret_value = found;
    }
    return status;
}

/* The elements follow each other without separators: the second begins where the first one ends,
 * and qp_msgpack_json() moves there. */
quipu_status qp_msgpack_list(qp_msgpack list, uint32_t *ret_count, qp_msgpack *ret_first,
                             quipu_error *reterr)
{
    msgpack_reader reader = msgpack_reader_of(list);
    msgpack_head head = {.kind = MSGPACK_NIL};
    quipu_status status = msgpack_read(&reader, &head, reterr);

    if (status == QUIPU_OK && head.kind != MSGPACK_LIST) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the msgpack is no list");
    }
    if (status == QUIPU_OK) {
        *ret_count = (uint32_t)head.n; /* its form has at most 32 bits */
        ret_first->bytes = (quipu_bytes){reader.p, reader.n};
    }
    return status;
}

/* ---- as JSON ----------------------------------------------------------------------------------
 */

static quipu_status msgpack_write(msgpack_reader *reader, qp_jsonw *json, int depth,
                                  quipu_error *reterr);

/* A key: a text, or a whole number as its digits. JSON has no other keys. Python's dictionaries may
 * have them; an import that invented a spelling for a tuple could not be trusted with the rest. */
static quipu_status msgpack_write_key(msgpack_reader *reader, qp_jsonw *json, quipu_error *reterr)
{
    char digits[24];
    msgpack_head head = {.kind = MSGPACK_NIL};
    quipu_status status = msgpack_read(reader, &head, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (head.kind == MSGPACK_TEXT) {
        qp_jsonw_key(json, msgpack_take(reader, &head));
    } else if (head.kind == MSGPACK_INT) {
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)head.number);
        qp_jsonw_key(json, quipu_cstr(digits));
    } else {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the msgpack has a key that is neither a text nor a number");
    }
    return status;
}

/* A list or a map; `depth` grows here and in msgpack_write_ext(), the two ways to call itself. */
static quipu_status msgpack_write_items(msgpack_reader *reader, const msgpack_head *head,
                                        qp_jsonw *json, int depth, quipu_error *reterr)
{
    const bool map = head->kind == MSGPACK_MAP;
    quipu_status status = QUIPU_OK;

    if (map) {
        qp_jsonw_object(json);
    } else {
        qp_jsonw_array(json);
    }
    for (uint64_t i = 0; i < head->n && status == QUIPU_OK; i++) {
        if (map) {
            status = msgpack_write_key(reader, json, reterr);
        }
        if (status == QUIPU_OK) {
            status = msgpack_write(reader, json, depth + 1, reterr);
        }
    }
    if (status == QUIPU_OK && map) {
        qp_jsonw_object_end(json);
    } else if (status == QUIPU_OK) {
        qp_jsonw_array_end(json);
    }
    return status;
}

/* An object becomes what it was made from: its third element. Its class is not looked at. The
 * payload is a document of its own within the bytes of the extension, with a reader of its own:
 * what it announces cannot reach beyond them.
 *
 *   0xc7 n 0x05   [ "langchain_core.messages.ai", "AIMessage", {…}, "model_validate_json" ]
 *                   skipped                        skipped      written */
static quipu_status msgpack_write_ext(quipu_str bytes, int code, qp_jsonw *json, int depth,
                                      quipu_error *reterr)
{
    msgpack_reader inner = {(const uint8_t *)bytes.p, bytes.n};
    msgpack_head head = {.kind = MSGPACK_NIL};
    quipu_status status = QUIPU_OK;

    if (code == MSGPACK_EXT_NUMPY) {
        qp_jsonw_null(json);
        return QUIPU_OK;
    }
    if (code < 0 || code > MSGPACK_EXT_SNAPSHOT) {
        return qp_error_set(reterr, QUIPU_INVALID, "the msgpack has an extension %d", code);
    }
    if (code != MSGPACK_EXT_SNAPSHOT) {
        status = msgpack_read(&inner, &head, reterr);
        if (status == QUIPU_OK && (head.kind != MSGPACK_LIST || head.n < 3)) {
            status =
                qp_error_set(reterr, QUIPU_INVALID, "the msgpack has an object without fields");
        }
        for (int i = 0; i < 2 && status == QUIPU_OK; i++) {
            status = msgpack_skip(&inner, reterr); /* module and class */
        }
    }
    return status == QUIPU_OK ? msgpack_write(&inner, json, depth + 1, reterr) : status;
}

/* One value. A failure leaves JSON that is cut off: the caller drops the buffer. */
static quipu_status msgpack_write(msgpack_reader *reader, qp_jsonw *json, int depth,
                                  quipu_error *reterr)
{
    char digits[24];
    quipu_str taken;
    msgpack_head head = {.kind = MSGPACK_NIL};
    quipu_status status = msgpack_read(reader, &head, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (depth > QP_MSGPACK_DEPTH_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "the msgpack has more than %d values in each other",
                            QP_MSGPACK_DEPTH_MAX);
    }
    switch (head.kind) {
    case MSGPACK_NIL:
        qp_jsonw_null(json);
        break;
    case MSGPACK_BOOL:
        qp_jsonw_bool(json, head.n != 0);
        break;
    case MSGPACK_INT:
        qp_jsonw_i64(json, head.number);
        break;
    case MSGPACK_UINT:
        (void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)head.n);
        qp_jsonw_raw(json, quipu_cstr(digits));
        break;
    case MSGPACK_FLOAT:
        if (isfinite(head.real)) {
            qp_jsonw_double(json, head.real);
        } else {
            qp_jsonw_null(json);
        }
        break;
    case MSGPACK_TEXT:
        qp_jsonw_str(json, msgpack_take(reader, &head));
        break;
    case MSGPACK_BYTES:
        taken = msgpack_take(reader, &head);
        qp_base64_json(json, (quipu_bytes){taken.p, taken.n});
        break;
    case MSGPACK_LIST:
    case MSGPACK_MAP:
        return msgpack_write_items(reader, &head, json, depth, reterr);
    case MSGPACK_EXT:
        taken = msgpack_take(reader, &head);
        return msgpack_write_ext(taken, head.code, json, depth, reterr);
    }
    return QUIPU_OK;
}

/* The writer keeps the first error of its texts and of memory; asking once at the end is enough.
 * The value moves only when all of it was written. */
quipu_status qp_msgpack_json(qp_msgpack *value, qp_buf *json, quipu_error *reterr)
{
    msgpack_reader reader = msgpack_reader_of(*value);
    qp_jsonw writer;
    quipu_status status;

    qp_jsonw_begin(&writer, json);
    status = msgpack_write(&reader, &writer, 0, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_buf_status(json);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status,
                            status == QUIPU_INVALID ? "the msgpack has a text that is not UTF-8"
                                                    : "no memory for the msgpack");
    }
    value->bytes = (quipu_bytes){reader.p, reader.n};
    return QUIPU_OK;
}
