/* Reading columns: stored forms to logical values. Tolerant, because files of other programs are
 * read, too: times in many shapes, UUIDs as text or bytes, JSON as text or bytes.
 *
 * Owns: nothing; texts and bytes are borrowed from SQLite until the next step.
 * Called by: qp_sqlite_step(), for every row: the hottest code of this room.
 * On return each value has the kind that was asked for, QP_NULL, or the kind that is stored.
 * Locks: none; the statement is the caller's. */
#include "ent_sqlite/stmt.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"

/* The value as it is stored; src/ent refuses it with the field's name. Never inlined: it is the
 * rare case of every branch of the hottest loop. No memory for a text gives a NULL text with 0
 * bytes. */
static QP_NOINLINE void value_raw(sqlite3_value *from, qp_value *ret)
{
    assert(from != NULL && ret != NULL);
    switch (sqlite3_value_type(from)) {
    case SQLITE_INTEGER:
        ret->kind = QP_INT;
        ret->as.i = sqlite3_value_int64(from);
        break;
    case SQLITE_FLOAT:
        ret->kind = QP_FLOAT;
        ret->as.f = sqlite3_value_double(from);
        break;
    case SQLITE_NULL:
        ret->kind = QP_NULL;
        break;
    default:
        ret->kind = QP_TEXT;
        ret->as.text.p = (const char *)sqlite3_value_text(from);
        ret->as.text.n = (size_t)sqlite3_value_bytes(from);
        break;
    }
}

/* Numbers are read by the same parser, from their digits (Unix seconds of other programs). The text
 * comes first, because a time of this library is stored as text; for numbers SQLite makes the
 * digits. */
static void value_time(sqlite3_value *from, qp_value *ret)
{
    assert(ret != NULL);
    quipu_str text = {(const char *)sqlite3_value_text(from), 0};

    if (text.p != NULL) {
        text.n = (size_t)sqlite3_value_bytes(from);
        if (QP_LIKELY(quipu_time_parse(text, &ret->as.time) == QUIPU_OK)) {
            ret->kind = QP_TIME;
            return;
        }
    }
    value_raw(from, ret);
}

/* Text in either case, or 16 bytes, which other programs store. Anything else is handed up raw. */
static void value_uuid(sqlite3_value *from, int type, qp_value *ret)
{
    quipu_uuid uuid;

    assert(ret != NULL);
    if (type == SQLITE_TEXT) {
        quipu_str text = {(const char *)sqlite3_value_text(from), 0};
        text.n = (size_t)sqlite3_value_bytes(from);
        if (text.p != NULL && quipu_uuid_parse(text, &uuid) == QUIPU_OK) {
            ret->kind = QP_UUID;
            ret->as.uuid = uuid;
            return;
        }
    } else if (type == SQLITE_BLOB && sqlite3_value_bytes(from) == (int)sizeof(uuid.b)) {
        ret->kind = QP_UUID;
        memcpy(ret->as.uuid.b, sqlite3_value_blob(from), sizeof(uuid.b));
        return;
    }
    value_raw(from, ret);
}

/* Floats and booleans; integers are read in qp_sqlite_read() itself. An integer in a float column
 * is a float that SQLite has stored in fewer bytes. */
static void value_number(sqlite3_value *from, int type, uint8_t kind, qp_value *ret)
{
    assert(kind == QP_FLOAT || kind == QP_BOOL);
    if (kind == QP_FLOAT && (type == SQLITE_FLOAT || type == SQLITE_INTEGER)) {
        ret->kind = QP_FLOAT;
        ret->as.f = sqlite3_value_double(from);
    } else if (kind == QP_BOOL && type == SQLITE_INTEGER) {
        ret->kind = QP_BOOL;
        ret->as.b = sqlite3_value_int64(from) != 0;
    } else {
        value_raw(from, ret);
    }
}

/* A column without a pointer that is not NULL: an empty blob, for which SQLite returns none, or a
 * text for which there was no memory. To src/ent a NULL pointer means absent. */
static void value_nothing(sqlite3_value *from, uint8_t kind, qp_value *ret)
{
    assert(kind == QP_TEXT || kind == QP_BYTES);
    ret->kind = QP_NULL;
    if (kind == QP_BYTES && sqlite3_value_type(from) != SQLITE_NULL) { /* NULL: no memory */
        *ret = (qp_value){.kind = QP_BYTES, .as.bytes = {"", 0}};
    }
}

/* Text, JSON and labels: SQLite converts numbers and bytes to text by itself. */
QP_INLINE void value_text(sqlite3_value *from, qp_value *ret)
{
    ret->as.text.p = (const char *)sqlite3_value_text(from);
    if (QP_UNLIKELY(ret->as.text.p == NULL)) {
        value_nothing(from, QP_TEXT, ret);
        return;
    }
    ret->as.text.n = (size_t)sqlite3_value_bytes(from);
    ret->kind = QP_TEXT;
}

/* Bytes; a text column gives its bytes. */
static void value_bytes(sqlite3_value *from, qp_value *ret)
{
    assert(from != NULL);
    ret->as.bytes.p = sqlite3_value_blob(from);
    if (ret->as.bytes.p == NULL) {
        value_nothing(from, QP_BYTES, ret);
        return;
    }
    ret->as.bytes.n = (size_t)sqlite3_value_bytes(from);
    ret->kind = QP_BYTES;
}

/* One value. Half of a message's columns are NULL, which the type says for all kinds alike; text
 * and integers come next: they are most of the others. */
QP_INLINE void value_read(sqlite3_value *from, uint8_t kind, qp_value *ret)
{
    const int type = sqlite3_value_type(from);

    if (type == SQLITE_NULL) {
        ret->kind = QP_NULL;
    } else if (kind == QP_TEXT) {
        value_text(from, ret);
    } else if (kind == QP_INT) {
        if (QP_UNLIKELY(type != SQLITE_INTEGER)) {
            value_raw(from, ret);
            return;
        }
        ret->kind = QP_INT;
        ret->as.i = sqlite3_value_int64(from);
    } else if (kind == QP_TIME) {
        value_time(from, ret);
    } else if (kind == QP_BYTES) {
        value_bytes(from, ret);
    } else if (kind == QP_UUID) {
        value_uuid(from, type, ret);
    } else {
        value_number(from, type, kind, ret);
    }
}

/* sqlite3_column_value() returns an unprotected value, which may be read directly because the
 * connection has one thread and no mutex: cheaper than sqlite3_column_*(), which looks the column
 * up again for type, text and size. The
 * pointers stay valid until the next step, reset, or a conversion of the same column. */
void qp_sqlite_read(sqlite3_stmt *stmt, const uint8_t *kinds, size_t n, qp_value *ret)
{
    assert(n == 0 || (kinds != NULL && ret != NULL));
    assert(n <= (size_t)sqlite3_column_count(stmt));
    for (size_t i = 0; i < n; i++, ret++) {
        value_read(sqlite3_column_value(stmt, (int)i), kinds[i], ret);
    }
}

/* The same for a value that is not a column: an argument of a function. */
void qp_sqlite_read_value(sqlite3_value *from, uint8_t kind, qp_value *ret)
{
    assert(from != NULL && ret != NULL);
    value_read(from, kind, ret);
}
