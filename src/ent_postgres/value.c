/* Values between src/ent and the server, in PostgreSQL's binary formats: integers and floats in
 * network byte order, UUIDs and bytea as they are; times, enum labels and JSON as text.
 *
 * Owns: nothing; pure functions over qp_value, qp_pg_param and PGresult.
 * Called by: stmt.c for parameters and columns, search_text.c for arrays. Texts and bytes are
 * borrowed in both directions: a parameter points to the caller's, a column to the PGresult's. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <string.h>

#include "ent/row.h"

#define VALUE_ARRAY_DIMENSIONS 1 /* lists are never nested */

static_assert(QP_PG_SLOT_SIZE >= QUIPU_TIME_TEXT_SIZE, "a slot holds a time's text");

/* The low `size` bytes of a value, in network byte order. */
static void value_put(char *to, uint64_t value, size_t size)
{
    /* The most significant byte first, whatever the machine. */
    assert(size <= sizeof(value));
    for (size_t i = 0; i < size; i++) {
        to[i] = (char)(unsigned char)(value >> (8 * (size - 1 - i)));
    }
}

/* Reads what value_put() writes. */
static uint64_t value_take(const char *from, size_t size)
{
    uint64_t value = 0;

    assert(size <= sizeof(uint64_t));
    /* The reverse, also without looking at the machine's order. */
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | (unsigned char)from[i];
    }
    return value;
}

/* The bits of a double; float8send() sends the same ones. */
static uint64_t value_bits(double value)
{
    uint64_t bits;

    assert(sizeof(bits) == sizeof(value));
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* A parameter of fixed size, in its own slot. */
static void value_slot(qp_pg_param *ret, uint64_t value, size_t size, Oid type)
{
    assert(size <= QP_PG_SLOT_SIZE);
    value_put(ret->slot, value, size);
    /* The slot lies in the parameter, which must not move before the statement is sent. */
    ret->p = ret->slot;
    ret->n = size;
    ret->type = type;
}

/* One parameter. An empty text must not have a NULL pointer, which libpq would send as SQL NULL. A
 * NULL value has no type: the server infers it where it is used. */
quipu_status qp_pg_encode(const qp_value *value, qp_pg_param *ret)
{
    assert(value != NULL && ret != NULL);
    ret->listed = false;
    switch (value->kind) {
    /* NULL: the pointer says so, and the length does not matter. */
    case QP_NULL:
        ret->p = NULL;
        ret->n = 0;
        ret->type = 0;
        return QUIPU_OK;
    case QP_INT:
        value_slot(ret, (uint64_t)value->as.i, sizeof(int64_t), QP_PG_INT8);
        return QUIPU_OK;
    case QP_FLOAT:
        value_slot(ret, value_bits(value->as.f), sizeof(double), QP_PG_FLOAT8);
        return QUIPU_OK;
    /* One byte, 0 or 1. */
    case QP_BOOL:
        value_slot(ret, value->as.b ? 1 : 0, 1, QP_PG_BOOL);
        return QUIPU_OK;
    case QP_BYTES:
        /* An address, also of nothing: NULL would be SQL's NULL. */
        ret->p = value->as.bytes.n != 0 ? value->as.bytes.p : ret->slot;
        ret->n = value->as.bytes.n;
        ret->type = QP_PG_BYTEA;
        return QUIPU_OK;
    case QP_UUID:
        memcpy(ret->slot, value->as.uuid.b, sizeof(value->as.uuid.b));
        ret->p = ret->slot;
        ret->n = sizeof(value->as.uuid.b);
        ret->type = QP_PG_UUID;
        return QUIPU_OK;
    case QP_TIME:
        ret->p = ret->slot;
        /* Without the NUL: the length counts. */
        ret->n = QUIPU_TIME_TEXT_SIZE - 1;
        ret->type = QP_PG_TEXT;
        return quipu_time_format(value->as.time, ret->slot);
    /* Labels of enums and JSON are texts as well. */
    default:
        assert(value->kind == QP_TEXT || value->kind == QP_WORDS);
        ret->p = value->as.text.n != 0 ? value->as.text.p : ret->slot;
        ret->n = value->as.text.n;
        ret->type = QP_PG_TEXT;
        return QUIPU_OK;
    }
}

/* ---- lists ------------------------------------------------------------------------------------
 */

/* One item of a list. Items of an enum are numbers, which become labels. */
static qp_value value_item(const qp_list_operand *list, size_t at)
{
    qp_value item = {.kind = list->kind};
    int number = 0;

    assert(at < list->n);
    /* Each enum is an int in memory, whatever its own type is called. */
    if (list->labels != NULL) {
        memcpy(&number, (const char *)list->items + at * sizeof(number), sizeof(number));
        return (qp_value){.kind = QP_TEXT, .as.text = qp_enum_label(list->labels, number)};
    }
    switch (list->kind) {
    case QP_INT:
        item.as.i = ((const int64_t *)list->items)[at];
        break;
    /* The casts are the ones of where.c: the descriptor names the items' type. */
    case QP_FLOAT:
        item.as.f = ((const double *)list->items)[at];
        break;
    case QP_TEXT:
        item.as.text = ((const quipu_str *)list->items)[at];
        break;
    case QP_TIME:
        item.as.time = ((const quipu_time *)list->items)[at];
        break;
    case QP_UUID:
        item.as.uuid = ((const quipu_uuid *)list->items)[at];
        break;
    /* The words of rows, as search_text.c encodes them. */
    case QP_WORDS:
        item.as.text = ((const quipu_str *)list->items)[at];
        break;
    /* No schema has lists of such items. */
    default:
        item.kind = QP_NULL;
        break;
    }
    return item;
}

/* The array type of a list and the type of its items; times and labels are text. */
static Oid value_list_type(const qp_list_operand *list, Oid *ret_item)
{
    assert(ret_item != NULL);
    /* Labels are texts, although their items are ints. */
    if (list->labels == NULL && list->kind == QP_INT) {
        *ret_item = QP_PG_INT8;
        return QP_PG_INT8S;
    }
    if (list->labels == NULL && list->kind == QP_FLOAT) {
        *ret_item = QP_PG_FLOAT8;
        return QP_PG_FLOAT8S;
    }
    if (list->labels == NULL && list->kind == QP_UUID) {
        *ret_item = QP_PG_UUID;
        return QP_PG_UUIDS;
    }
    if (list->labels == NULL && list->kind == QP_WORDS) {
        *ret_item = QP_PG_TSVECTOR;
        return QP_PG_TSVECTORS;
    }
    *ret_item = QP_PG_TEXT;
    return QP_PG_TEXTS;
}

/* An int4 of an array's header. */
static void value_put_word(qp_buf *buf, uint32_t word)
{
    char bytes[sizeof(word)];

    assert(buf != NULL);
    value_put(bytes, word, sizeof(bytes));
    qp_buf_put(buf, (quipu_str){bytes, sizeof(bytes)});
}

/* A one-dimensional array in its binary format:
 *
 *   int4 dimensions (0 for an empty array)   int4 has NULLs = 0   int4 item type
 *   int4 count   int4 lower bound = 1        then for each item: int4 length, bytes
 */
quipu_status qp_pg_encode_list(const qp_list_operand *list, qp_buf *buf, Oid *ret_type)
{
    Oid item_type = 0;
    qp_pg_param item;
    quipu_status status = QUIPU_OK;

    assert(list->n <= INT32_MAX);
    assert(list->n == 0 || list->items != NULL);
    *ret_type = value_list_type(list, &item_type);
    /* An empty array has no dimension, and no header of one. */
    value_put_word(buf, list->n == 0 ? 0 : VALUE_ARRAY_DIMENSIONS);
    value_put_word(buf, 0);
    value_put_word(buf, item_type);
    if (list->n != 0) {
        value_put_word(buf, (uint32_t)list->n);
        value_put_word(buf, 1);
    }
    for (size_t i = 0; i < list->n && status == QUIPU_OK; i++) {
        /* Items cannot be wrong any more: where_check_list() has seen them. */
        const qp_value value = value_item(list, i);
        status = qp_pg_encode(&value, &item);
        value_put_word(buf, (uint32_t)item.n);
        qp_buf_put(buf, (quipu_str){item.p, item.n});
    }
    return status == QUIPU_OK ? qp_buf_status(buf) : status;
}

/* ---- columns ----------------------------------------------------------------------------------
 */

/* The catalog has integers of three widths; ours are all int8. */
int64_t qp_pg_int(const PGresult *result, int row, int column)
{
    const char *from = PQgetvalue(result, row, column);

    assert(row >= 0 && row < PQntuples(result));
    switch (PQftype(result, column)) {
    case QP_PG_INT8:
        return (int64_t)value_take(from, sizeof(int64_t));
    case QP_PG_INT4:
        return (int32_t)value_take(from, sizeof(int32_t));
    case QP_PG_INT2:
        return (int16_t)value_take(from, sizeof(int16_t));
    default:
        return 0;
    }
}

/* PQcmdTuples() gives digits, or "" for commands that change no rows. */
int64_t qp_pg_changed(PGresult *result)
{
    int64_t changed = 0;

    assert(result != NULL);
    /* Digits only: an overflow would need more rows than a table can have. */
    for (const char *text = PQcmdTuples(result); *text >= '0' && *text <= '9'; text++) {
        changed = changed * 10 + (*text - '0');
    }
    return changed;
}

/* A value that cannot be read as asked goes up as the text it is: src/ent refuses it by name. */
static void value_raw(const char *from, size_t n, qp_value *ret)
{
    assert(ret != NULL);
    *ret = (qp_value){.kind = QP_TEXT, .as.text = {from, n}};
}

/* Numbers and booleans by the column's own type, which a foreign schema may have chosen otherwise;
 * an integer is accepted where a float or a boolean is asked for. */
static void value_number(const PGresult *result, int row, int column, uint8_t kind, qp_value *ret)
{
    /* Borrowed from the result, until it is cleared. */
    const char *from = PQgetvalue(result, row, column);
    Oid type = PQftype(result, column);
    uint64_t bits;

    assert(ret != NULL);
    /* By what the column is, not by what was asked for. */
    if (type == QP_PG_BOOL) {
        *ret = (qp_value){.kind = QP_BOOL, .as.b = from[0] != 0};
    } else if (type == QP_PG_FLOAT8) {
        ret->kind = QP_FLOAT;
        bits = value_take(from, sizeof(bits));
        memcpy(&ret->as.f, &bits, sizeof(bits));
    } else if (type == QP_PG_FLOAT4) {
        /* A foreign schema may have `real`; every float fits a double. */
        uint32_t half = (uint32_t)value_take(from, sizeof(half));
        float narrow;
        memcpy(&narrow, &half, sizeof(half));
        *ret = (qp_value){.kind = QP_FLOAT, .as.f = (double)narrow};
    } else if (type == QP_PG_INT8 || type == QP_PG_INT4 || type == QP_PG_INT2) {
        *ret = (qp_value){.kind = QP_INT, .as.i = qp_pg_int(result, row, column)};
        /* Asked for as another kind: an integer can be both. */
        if (kind == QP_FLOAT) {
            *ret = (qp_value){.kind = QP_FLOAT, .as.f = (double)ret->as.i};
        } else if (kind == QP_BOOL) {
            *ret = (qp_value){.kind = QP_BOOL, .as.b = ret->as.i != 0};
        }
    } else {
        value_raw(from, (size_t)PQgetlength(result, row, column), ret);
    }
}

/* One column as the wanted kind. Text is text for every type, because all results are asked for in
 * binary and text's binary format is its bytes. */
void qp_pg_decode(const PGresult *result, int row, int column, uint8_t kind, qp_value *ret)
{
    const char *from = PQgetvalue(result, row, column);
    size_t n = (size_t)PQgetlength(result, row, column);

    assert(row >= 0 && row < PQntuples(result));
    assert(ret != NULL);
    /* Before the switch: NULL has no bytes to look at. */
    if (PQgetisnull(result, row, column) != 0) {
        ret->kind = QP_NULL;
        return;
    }
    switch (kind) {
    case QP_TEXT:
        value_raw(from, n, ret);
        break;
    case QP_BYTES:
        *ret = (qp_value){.kind = QP_BYTES, .as.bytes = {from, n}};
        break;
    case QP_TIME:
        ret->kind = QP_TIME;
        /* Text that is not a time stays text, and src/ent refuses it by the field's name. */
        if (quipu_time_parse((quipu_str){from, n}, &ret->as.time) != QUIPU_OK) {
            value_raw(from, n, ret);
        }
        break;
    case QP_UUID:
        ret->kind = QP_UUID;
        /* Native, or a text of 36 characters in a foreign table. */
        if (PQftype(result, column) == QP_PG_UUID && n == sizeof(ret->as.uuid.b)) {
            memcpy(ret->as.uuid.b, from, n);
        } else if (quipu_uuid_parse((quipu_str){from, n}, &ret->as.uuid) != QUIPU_OK) {
            value_raw(from, n, ret);
        }
        break;
    default:
        value_number(result, row, column, kind, ret);
        break;
    }
}
