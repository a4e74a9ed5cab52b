/* Reading a pickle: a stack machine with a memo, reduced to the operations that data needs.
 *
 * Input is untrusted. The reader executes nothing: a class is a name that is checked against a
 * list, and a call is only accepted as "enum class with one value". Sizes are checked before memory
 * is taken, so the cost is bounded by the input's size and the limits of pickle.h. tests/fuzz runs
 * this code on random input.
 *
 * An object EventActions(state_delta={"n": 1}) is, on the stack from left to right:
 *
 *   "google.adk..." "EventActions" STACK_GLOBAL    class
 *   EMPTY_TUPLE NEWOBJ                             record
 *   EMPTY_DICT MARK "__dict__" {...} SETITEMS      record, dict
 *   BUILD STOP                                     record with its fields
 *
 * Called by: adk_event.c. Owns: an arena for the call; no locks. */
#include "import/pickle.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "import/pickle_value.h"

/* The textual operations of protocol 0 are rejected. */
#define PICKLE_PROTOCOL_MAX 5

/* The operations that ADK's databases have; all others are refused by pickle_scalar(). */
enum {
    PICKLE_OP_MARK = '(',
    PICKLE_OP_STOP = '.',
    PICKLE_OP_BINFLOAT = 'G',
    PICKLE_OP_BININT = 'J',
    PICKLE_OP_BININT1 = 'K',
    PICKLE_OP_BININT2 = 'M',
    PICKLE_OP_NONE = 'N',
    PICKLE_OP_REDUCE = 'R',
    PICKLE_OP_BINUNICODE = 'X',
    PICKLE_OP_BINBYTES = 'B',
    PICKLE_OP_SHORT_BINBYTES = 'C',
    PICKLE_OP_EMPTY_LIST = ']',
    PICKLE_OP_APPEND = 'a',
    PICKLE_OP_APPENDS = 'e',
    PICKLE_OP_BUILD = 'b',
    PICKLE_OP_BINGET = 'h',
    PICKLE_OP_LONG_BINGET = 'j',
    PICKLE_OP_BINPUT = 'q',
    PICKLE_OP_LONG_BINPUT = 'r',
    PICKLE_OP_SETITEM = 's',
    PICKLE_OP_SETITEMS = 'u',
    PICKLE_OP_TUPLE = 't',
    PICKLE_OP_EMPTY_DICT = '}',
    PICKLE_OP_EMPTY_TUPLE = ')',
    PICKLE_OP_PROTO = 0x80,
    PICKLE_OP_NEWOBJ = 0x81,
    PICKLE_OP_TUPLE1 = 0x85,
    PICKLE_OP_TUPLE2 = 0x86,
    PICKLE_OP_TUPLE3 = 0x87,
    PICKLE_OP_NEWTRUE = 0x88,
    PICKLE_OP_NEWFALSE = 0x89,
    PICKLE_OP_LONG1 = 0x8a,
    PICKLE_OP_LONG4 = 0x8b,
    PICKLE_OP_SHORT_BINUNICODE = 0x8c,
    PICKLE_OP_BINUNICODE8 = 0x8d,
    PICKLE_OP_BINBYTES8 = 0x8e,
    PICKLE_OP_EMPTY_SET = 0x8f,
    PICKLE_OP_ADDITEMS = 0x90,
    PICKLE_OP_FROZENSET = 0x91,
    PICKLE_OP_STACK_GLOBAL = 0x93,
    PICKLE_OP_MEMOIZE = 0x94,
    PICKLE_OP_FRAME = 0x95
};

/* The machine: its input, its stack, its memo. Values lie in the arena and are freed together. */
typedef struct pickle_reader {
    const unsigned char *p; /* the input; borrowed */
    size_t n;
    size_t at;    /* the next byte to read */
    size_t op_at; /* of the current operation, for errors */
    quipu_arena arena;
    pickle_items stack; /* a mark is NULL */
    pickle_items memo;
    size_t memoized;      /* puts so far, which is the index of the next MEMOIZE */
    size_t values;        /* pushed so far, for the limit */
    pickle_value *result; /* set by STOP */
    quipu_error *reterr;
} pickle_reader;

/* ---- bytes and memory -------------------------------------------------------------------------
 */

/* An error with the position of the current operation. The text names the position and never the
 * content: a pickle may hold what users said. */
static quipu_status pickle_fail(const pickle_reader *in, quipu_status status, const char *what)
{
    (void)qp_error_set(in->reterr, status, "the pickle, at byte %zu: %s", in->op_at, what);
    return status;
}

/* A number of `size` bytes, little-endian. */
static quipu_status pickle_number(pickle_reader *in, size_t size, uint64_t *ret)
{
    uint64_t value = 0;

    /* Subtracted, not added: `size` cannot make the sum overflow. */
    if (in->n - in->at < size) {
        return pickle_fail(in, QUIPU_INVALID, "it is truncated");
    }
    for (size_t i = size; i > 0; i--) {
        value = value << 8 | in->p[in->at + i - 1];
    }
    in->at += size;
    *ret = value;
    return QUIPU_OK;
}

/* Bytes after their length, which itself has `size` bytes. No copy. The length is checked against
 * what is left before it is used: no memory is taken for a lie. */
static quipu_status pickle_slice(pickle_reader *in, size_t size, quipu_str *ret)
{
    uint64_t n = 0;
    quipu_status status = pickle_number(in, size, &n);

    if (status == QUIPU_OK && n > in->n - in->at) {
        status = pickle_fail(in, QUIPU_INVALID, "it is truncated");
    }
    if (status == QUIPU_OK) {
        *ret = (quipu_str){(const char *)in->p + in->at, (size_t)n};
        in->at += (size_t)n;
    }
    return status;
}

/* Doubles from 4; old arrays stay in the arena. At most as much again as the list itself is lost,
 * and the arena is freed with the call. */
static quipu_status pickle_items_add(pickle_reader *in, pickle_items *items, pickle_value *value)
{
    if (items->n == items->cap) {
        size_t cap = items->cap == 0 ? 4 : items->cap * 2;
        pickle_value **p = qp_arena_take(&in->arena, cap * sizeof(*p));

        if (p == NULL) {
            return pickle_fail(in, QUIPU_NOMEM, "out of memory");
        }
        if (items->n > 0) {
            memcpy(p, items->p, items->n * sizeof(*p));
        }
        items->p = p;
        items->cap = cap;
    }
    items->p[items->n++] = value;
    return QUIPU_OK;
}

/* Each pushed value counts against QP_PICKLE_VALUES_MAX. */
static quipu_status pickle_push(pickle_reader *in, pickle_value value)
{
    pickle_value *kept;

    if (in->values == QP_PICKLE_VALUES_MAX) {
        return qp_error_set(in->reterr, QUIPU_LIMIT, "the pickle makes more than %d values",
                            QP_PICKLE_VALUES_MAX);
    }
    /* A value of its own, since memo and containers refer to it by address. */
    kept = qp_arena_take(&in->arena, sizeof(*kept));
    if (kept == NULL) {
        return pickle_fail(in, QUIPU_NOMEM, "out of memory");
    }
    /* Counted even when the stack shrinks again: a loop of pushes and pops is bounded, too. */
    in->values++;
    *kept = value;
    return pickle_items_add(in, &in->stack, kept);
}

/* The value `below` places under the top; it stays on the stack. QUIPU_INVALID for a mark or an
 * empty stack. */
static quipu_status pickle_top(pickle_reader *in, size_t below, pickle_value **ret)
{
    /* A NULL on the stack is a mark, not a value. */
    if (in->stack.n <= below || in->stack.p[in->stack.n - 1 - below] == NULL) {
        return pickle_fail(in, QUIPU_INVALID, "the operation has no value to work on");
    }
    *ret = in->stack.p[in->stack.n - 1 - below];
    return QUIPU_OK;
}

/* The index of the first value above the topmost mark. Linear over the whole pickle: an operation
 * that searches also pops what it passed. */
static quipu_status pickle_marked(pickle_reader *in, size_t *ret_first)
{
    for (size_t i = in->stack.n; i > 0; i--) {
        if (in->stack.p[i - 1] == NULL) {
            *ret_first = i;
            return QUIPU_OK;
        }
    }
    return pickle_fail(in, QUIPU_INVALID, "the operation has no mark to go back to");
}

/* ---- values -----------------------------------------------------------------------------------
 */

/* Integers of 1, 2 and 4 bytes; only the last is signed. */
static quipu_status pickle_int(pickle_reader *in, unsigned op)
{
    pickle_value value = {.kind = PICKLE_INT};
    uint64_t raw = 0;
    quipu_status status = pickle_number(in,
                                        op == PICKLE_OP_BININT1   ? 1
                                        : op == PICKLE_OP_BININT2 ? 2
                                                                  : 4,
                                        &raw);

    if (status != QUIPU_OK) {
        return status;
    }
    /* BININT is signed, the shorter forms are not. */
    value.as.i = (int64_t)raw;
    if (op == PICKLE_OP_BININT && raw > INT32_MAX) {
        value.as.i -= (int64_t)1 << 32;
    }
    return pickle_push(in, value);
}

/* An integer of any size, kept as bytes until it is written: the machine itself never computes with
 * it. */
static quipu_status pickle_long(pickle_reader *in, unsigned op)
{
    /* The slice is the number itself, little-endian, with its sign. */
    pickle_value value = {.kind = PICKLE_LONG};
    quipu_status status = pickle_slice(in, op == PICKLE_OP_LONG1 ? 1 : 4, &value.as.text);

    if (status == QUIPU_OK && value.as.text.n > QP_PICKLE_LONG_MAX) {
        status = qp_error_set(in->reterr, QUIPU_LIMIT,
                              "the pickle has a whole number of %zu bytes; at most %d are read",
                              value.as.text.n, QP_PICKLE_LONG_MAX);
    }
    return status == QUIPU_OK ? pickle_push(in, value) : status;
}

/* An IEEE 754 double, big-endian: the only big-endian number of the format. */
static quipu_status pickle_float(pickle_reader *in)
{
    pickle_value value = {.kind = PICKLE_FLOAT};
    uint64_t bits = 0;

    /* Eight bytes, or the input ends in the middle. */
    if (in->n - in->at < sizeof(bits)) {
        return pickle_fail(in, QUIPU_INVALID, "it is truncated");
    }
    for (size_t i = 0; i < sizeof(bits); i++) {
        bits = bits << 8 | in->p[in->at + i]; /* big-endian */
    }
    in->at += sizeof(bits);
    memcpy(&value.as.f, &bits, sizeof(bits));
    return pickle_push(in, value);
}

/* A text or bytes, as a slice of the input, which outlives the call; UTF-8 is checked when the
 * value is written. */
static quipu_status pickle_text(pickle_reader *in, pickle_kind kind, size_t size)
{
    pickle_value value = {.kind = kind};
    quipu_status status = pickle_slice(in, size, &value.as.text);

    return status == QUIPU_OK ? pickle_push(in, value) : status;
}

/* Replaces the values above the mark, or the topmost `count`, by one list with them. A new value is
 * pushed, as tuples cannot change: other values may share the elements, never the list. */
static quipu_status pickle_tuple(pickle_reader *in, bool marked, size_t count)
{
    pickle_value value = {.kind = PICKLE_LIST};
    size_t first = 0;
    pickle_value *below = NULL;
    quipu_status status = QUIPU_OK;

    if (marked) {
        status = pickle_marked(in, &first);
    } else {
        /* Each of the values must be one: a tuple holds no mark. */
        for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
            status = pickle_top(in, i, &below);
        }
        first = in->stack.n - (status == QUIPU_OK ? count : 0);
    }
    for (size_t i = first; i < in->stack.n && status == QUIPU_OK; i++) {
        status = pickle_items_add(in, &value.as.items, in->stack.p[i]);
    }
    if (status == QUIPU_OK) {
        /* With the mark, which stood below the first value. */
        in->stack.n = marked ? first - 1 : first;
        status = pickle_push(in, value);
    }
    return status;
}

/* Moves the values above the mark, or the topmost `count`, into the container below them. The
 * container stays on the stack, and in the memo: this is how a pickle puts a list into itself. */
static quipu_status pickle_fill(pickle_reader *in, pickle_kind kind, bool marked, size_t count)
{
    size_t first = in->stack.n - count;
    pickle_value *into = NULL;
    quipu_status status = QUIPU_OK;

    if (marked) {
        /* From the mark on, however many values stand there. */
        status = pickle_marked(in, &first);
    } else if (in->stack.n < count) {
        status = pickle_fail(in, QUIPU_INVALID, "the operation has no value to work on");
    }
    if (status == QUIPU_OK) {
        /* Below the values, and below the mark where there is one. */
        status = pickle_top(in, in->stack.n - first + (marked ? 1 : 0), &into);
    }
    if (status == QUIPU_OK && into->kind != kind) {
        status = pickle_fail(in, QUIPU_INVALID, "values are put into what cannot hold them");
    }
    /* Keys and values alternate. */
    if (status == QUIPU_OK && kind == PICKLE_DICT && (in->stack.n - first) % 2 != 0) {
        status = pickle_fail(in, QUIPU_INVALID, "a key has no value");
    }
    for (size_t i = first; i < in->stack.n && status == QUIPU_OK; i++) {
        status = in->stack.p[i] != NULL
                     ? pickle_items_add(in, &into->as.items, in->stack.p[i])
                     : pickle_fail(in, QUIPU_INVALID, "the operation has no value to work on");
    }
    if (status == QUIPU_OK) {
        in->stack.n = marked ? first - 1 : first;
    }
    return status;
}

/* ---- the memo ---------------------------------------------------------------------------------
 */

/* Stores the top of the stack in the memo. Indexes are bounded, since an entry may be far past the
 * end: a gap costs a pointer for each entry. */
static quipu_status pickle_put(pickle_reader *in, uint64_t index)
{
    pickle_value *value = NULL;
    quipu_status status = pickle_top(in, 0, &value);

    if (status == QUIPU_OK && index >= QP_PICKLE_VALUES_MAX) {
        status = qp_error_set(in->reterr, QUIPU_LIMIT, "the pickle remembers more than %d values",
                              QP_PICKLE_VALUES_MAX);
    }
    /* Entries that were never set are NULL; reading one fails. */
    while (status == QUIPU_OK && in->memo.n <= index) {
        status = pickle_items_add(in, &in->memo, NULL);
    }
    if (status == QUIPU_OK) {
        in->memo.p[index] = value;
        in->memoized++;
    }
    return status;
}

/* Pushes a memoized value again: values may be shared, also with themselves. */
static quipu_status pickle_get(pickle_reader *in, uint64_t index)
{
    /* Never set, or beyond the end: a hostile pickle, or a damaged one. */
    if (index >= in->memo.n || in->memo.p[index] == NULL) {
        return pickle_fail(in, QUIPU_INVALID, "it refers to a value that is not there");
    }
    if (in->stack.n == QP_PICKLE_VALUES_MAX) {
        return pickle_fail(in, QUIPU_LIMIT, "it has too many values");
    }
    return pickle_items_add(in, &in->stack, in->memo.p[index]);
}

/* MEMOIZE uses the next index, the others carry theirs in 1 or 4 bytes. */
static quipu_status pickle_memo(pickle_reader *in, unsigned op)
{
    /* Four bytes of index, otherwise one. */
    const bool wide = op == PICKLE_OP_LONG_BINGET || op == PICKLE_OP_LONG_BINPUT;
    uint64_t index = in->memoized;
    quipu_status status =
        op == PICKLE_OP_MEMOIZE ? QUIPU_OK : pickle_number(in, wide ? 4 : 1, &index);

    if (status != QUIPU_OK) {
        return status;
    }
    return op == PICKLE_OP_BINGET || op == PICKLE_OP_LONG_BINGET ? pickle_get(in, index)
                                                                 : pickle_put(in, index);
}

/* ---- objects ----------------------------------------------------------------------------------
 */

/* ADK's own classes, and those of which its authentication settings consist. The fields of such
 * classes are data. A module of any other name, above all os or builtins, is how pickles execute
 * code. */
static bool pickle_known_module(quipu_str module)
{
    /* Prefixes of modules: a class of any of them is only a record here. */
    static const char *const known[] = {"google.adk.", "google.genai.", "fastapi.openapi.models"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t n = strlen(known[i]);

        if (module.n >= n && memcmp(module.p, known[i], n) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes module and name off the stack. Only the fact that the class is allowed is kept. */
static quipu_status pickle_class(pickle_reader *in)
{
    pickle_value *module = NULL;
    pickle_value *name = NULL;
    /* The module lies below the name. */
    quipu_status status = pickle_top(in, 1, &module);

    if (status == QUIPU_OK) {
        status = pickle_top(in, 0, &name);
    }
    if (status == QUIPU_OK && (module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT)) {
        status = pickle_fail(in, QUIPU_INVALID, "a class name is not text");
    }
    if (status == QUIPU_OK && !pickle_known_module(module->as.text)) {
        /* The part of the name that is shown must be text, too. */
        const bool shown = qp_utf8_valid(module->as.text) && qp_utf8_valid(name->as.text);

        return qp_error_set(
            in->reterr, QUIPU_INVALID,
            "the pickle names %.*s.%.*s, which is not a class of ADK; nothing of it was executed",
            shown ? (int)qp_utf8_cut(module->as.text, 80) : 1, shown ? module->as.text.p : "?",
            shown ? (int)qp_utf8_cut(name->as.text, 80) : 1, shown ? name->as.text.p : "?");
    }
    if (status == QUIPU_OK) {
        in->stack.n -= 2;
        status = pickle_push(in, (pickle_value){.kind = PICKLE_CLASS});
    }
    return status;
}

/* A class and its arguments: without arguments a new record, with one scalar a member of an enum,
 * which is that value. Anything else is a call of a constructor with arguments, which this reader
 * does not make. */
static quipu_status pickle_object(pickle_reader *in, bool reduce)
{
    pickle_value *class = NULL;
    pickle_value *arguments = NULL;
    quipu_status status = pickle_top(in, 1, &class);

    if (status == QUIPU_OK) {
        status = pickle_top(in, 0, &arguments);
    }
    /* NEWOBJ takes no arguments, REDUCE one: the value of an enum's member. */
    if (status == QUIPU_OK && (class->kind != PICKLE_CLASS || arguments->kind != PICKLE_LIST ||
                               arguments->as.items.n != (reduce ? 1u : 0u) ||
                               (reduce && arguments->as.items.p[0]->kind != PICKLE_TEXT &&
                                arguments->as.items.p[0]->kind != PICKLE_INT))) {
        status = pickle_fail(in, QUIPU_INVALID,
                             "it calls something; only data is read, nothing is executed");
    }
    if (status == QUIPU_OK) {
        in->stack.n -= 2;
        /* The member of an enum is its value: the class is dropped. */
        status = reduce ? pickle_items_add(in, &in->stack, arguments->as.items.p[0])
                        : pickle_push(in, (pickle_value){.kind = PICKLE_RECORD});
    }
    return status;
}

/* Gives a record its fields, once. A second BUILD would let a pickle make a record of records; none
 * of ADK's does. */
static quipu_status pickle_build(pickle_reader *in)
{
    pickle_value *record = NULL;
    pickle_value *made_of = NULL;
    quipu_status status = pickle_top(in, 1, &record);

    if (status == QUIPU_OK) {
        status = pickle_top(in, 0, &made_of);
    }
    /* Fields come as one dictionary, and only to a record that has none. */
    if (status == QUIPU_OK && (record->kind != PICKLE_RECORD || made_of->kind != PICKLE_DICT ||
                               record->as.items.n != 0)) {
        status = pickle_fail(in, QUIPU_INVALID, "an object is not built from fields");
    }
    if (status == QUIPU_OK) {
        status = pickle_items_add(in, &record->as.items, made_of);
        in->stack.n--;
    }
    return status;
}

/* ---- the machine ------------------------------------------------------------------------------
 */

/* The protocol's version is checked; frames only help readers that buffer, and their length is not
 * trusted. */
static quipu_status pickle_skip(pickle_reader *in, unsigned op)
{
    uint64_t number = 0;
    quipu_status status = pickle_number(in, op == PICKLE_OP_PROTO ? 1 : 8, &number);

    if (status == QUIPU_OK && op == PICKLE_OP_PROTO && number > PICKLE_PROTOCOL_MAX) {
        status = pickle_fail(in, QUIPU_INVALID, "its protocol is newer than 5");
    }
    return status;
}

/* Exactly one value must be left, at the end of the input. Bytes behind STOP are refused: Python
 * ignores them, but nobody wrote them for a reason. */
static quipu_status pickle_stop(pickle_reader *in)
{
    /* The result is the top, and must be all that is left. */
    quipu_status status = pickle_top(in, 0, &in->result);

    if (status == QUIPU_OK && (in->stack.n != 1 || in->at != in->n)) {
        status = pickle_fail(in, QUIPU_INVALID, "it does not end where it should");
    }
    return status;
}

/* Operations that push one scalar; the last of the three switches, so unknown operations end
 * here. */
static quipu_status pickle_scalar(pickle_reader *in, unsigned op)
{
    switch (op) {
    case PICKLE_OP_NONE:
        return pickle_push(in, (pickle_value){.kind = PICKLE_NONE});
    case PICKLE_OP_NEWTRUE:
    case PICKLE_OP_NEWFALSE:
        return pickle_push(in,
                           (pickle_value){.kind = PICKLE_BOOL, .as.b = op == PICKLE_OP_NEWTRUE});
    case PICKLE_OP_BININT:
    case PICKLE_OP_BININT1:
    case PICKLE_OP_BININT2:
        return pickle_int(in, op);
    case PICKLE_OP_LONG1:
    case PICKLE_OP_LONG4:
        return pickle_long(in, op);
    case PICKLE_OP_BINFLOAT:
        return pickle_float(in);
    case PICKLE_OP_SHORT_BINUNICODE:
        return pickle_text(in, PICKLE_TEXT, 1);
    case PICKLE_OP_BINUNICODE:
        return pickle_text(in, PICKLE_TEXT, 4);
    case PICKLE_OP_BINUNICODE8:
        return pickle_text(in, PICKLE_TEXT, 8);
    case PICKLE_OP_SHORT_BINBYTES:
        return pickle_text(in, PICKLE_BYTES, 1);
    case PICKLE_OP_BINBYTES:
        return pickle_text(in, PICKLE_BYTES, 4);
    case PICKLE_OP_BINBYTES8:
        return pickle_text(in, PICKLE_BYTES, 8);
    default:
        return qp_error_set(in->reterr, QUIPU_INVALID,
                            "the pickle, at byte %zu: operation 0x%02x is not one that data needs; "
                            "nothing was executed",
                            in->op_at, op);
    }
}

/* Operations on lists, tuples, sets and dictionaries. */
static quipu_status pickle_container(pickle_reader *in, unsigned op)
{
    switch (op) {
    case PICKLE_OP_EMPTY_LIST:
    case PICKLE_OP_EMPTY_TUPLE:
    case PICKLE_OP_EMPTY_SET:
        return pickle_push(in, (pickle_value){.kind = PICKLE_LIST});
    case PICKLE_OP_EMPTY_DICT:
        return pickle_push(in, (pickle_value){.kind = PICKLE_DICT});
    case PICKLE_OP_APPEND:
        return pickle_fill(in, PICKLE_LIST, false, 1);
    case PICKLE_OP_APPENDS:
    case PICKLE_OP_ADDITEMS:
        return pickle_fill(in, PICKLE_LIST, true, 0);
    case PICKLE_OP_SETITEM:
        return pickle_fill(in, PICKLE_DICT, false, 2);
    case PICKLE_OP_SETITEMS:
        return pickle_fill(in, PICKLE_DICT, true, 0);
    case PICKLE_OP_TUPLE:
    case PICKLE_OP_FROZENSET:
        return pickle_tuple(in, true, 0);
    case PICKLE_OP_TUPLE1:
    case PICKLE_OP_TUPLE2:
    case PICKLE_OP_TUPLE3:
        return pickle_tuple(in, false, op - PICKLE_OP_TUPLE1 + 1);
    default:
        return pickle_scalar(in, op);
    }
}

/* One operation. Three switches keep each function's complexity within the house's limit. Every
 * limit that depends on the stack is checked where it grows. */
static quipu_status pickle_step(pickle_reader *in, unsigned op)
{
    switch (op) {
    case PICKLE_OP_PROTO:
    case PICKLE_OP_FRAME:
        return pickle_skip(in, op);
    case PICKLE_OP_MARK:
        return in->stack.n == QP_PICKLE_VALUES_MAX
                   ? pickle_fail(in, QUIPU_LIMIT, "it has too many marks")
                   : pickle_items_add(in, &in->stack, NULL);
    case PICKLE_OP_STOP:
        return pickle_stop(in);
    case PICKLE_OP_MEMOIZE:
    case PICKLE_OP_BINPUT:
    case PICKLE_OP_LONG_BINPUT:
    case PICKLE_OP_BINGET:
    case PICKLE_OP_LONG_BINGET:
        return pickle_memo(in, op);
    case PICKLE_OP_STACK_GLOBAL:
        return pickle_class(in);
    case PICKLE_OP_NEWOBJ:
        return pickle_object(in, false);
    case PICKLE_OP_REDUCE:
        return pickle_object(in, true);
    case PICKLE_OP_BUILD:
        return pickle_build(in);
    default:
        return pickle_container(in, op);
    }
}

/* Runs the machine until STOP has set the result. Each step consumes at least one byte, so the loop
 * ends. */
quipu_status qp_pickle_json(quipu_bytes pickle, qp_buf *json, quipu_error *reterr)
{
    pickle_reader in = {.p = pickle.p, .n = pickle.n, .reterr = reterr};
    quipu_status status = QUIPU_OK;

    if (pickle.n > QP_PICKLE_BYTES_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the pickle has %zu bytes; at most %zu are read",
                            pickle.n, QP_PICKLE_BYTES_MAX);
    }
    /* Until STOP, or the first refusal. */
    while (status == QUIPU_OK && in.result == NULL) {
        in.op_at = in.at;
        status = in.at < in.n ? pickle_step(&in, in.p[in.at++])
                              : pickle_fail(&in, QUIPU_INVALID, "it is truncated");
    }
    /* Written only when the whole pickle was accepted. */
    if (status == QUIPU_OK) {
        status = qp_pickle_write(in.result, json, reterr);
    }
    quipu_arena_free(&in.arena);
    return status;
}
