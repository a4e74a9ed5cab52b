/* Values at the border to SQLite: reading stored forms tolerantly (times in many shapes, UUIDs as
 * text or bytes, JSON as text or bytes), and quoting the words of a full-text match. */
#include "ent_sqlite/stmt.h"

#include <string.h>

#include "base/attr.h"

/* The value with the kind that it is stored as: the runtime refuses it by name. */
static QP_NOINLINE void value_raw(sqlite3_value *from, qp_value *ret)
{
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

static void value_time(sqlite3_value *from, int type, qp_value *ret)
{
    quipu_str text;
    quipu_time time;

    if (type == SQLITE_TEXT || type == SQLITE_INTEGER) {
        /* An integer is read by the same parser, from its digits. */
        text.p = (const char *)sqlite3_value_text(from);
        text.n = (size_t)sqlite3_value_bytes(from);
        if (text.p != NULL && quipu_time_parse(text, &time) == QUIPU_OK) {
            ret->kind = QP_TIME;
            ret->as.time = time;
            return;
        }
    }
    value_raw(from, ret);
}

static void value_uuid(sqlite3_value *from, int type, qp_value *ret)
{
    quipu_uuid uuid;

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

static void value_number(sqlite3_value *from, int type, uint8_t kind, qp_value *ret)
{
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

void qp_sqlite_read(sqlite3_value *from, uint8_t kind, qp_value *ret)
{
    int type = sqlite3_value_type(from);

    if (type == SQLITE_NULL) {
        ret->kind = QP_NULL;
        return;
    }
    switch (kind) {
    case QP_INT:
        ret->as.i = sqlite3_value_int64(from);
        ret->kind = QP_INT;
        if (QP_UNLIKELY(type != SQLITE_INTEGER)) {
            value_raw(from, ret);
        }
        break;
    case QP_TEXT:
        ret->as.text.p = (const char *)sqlite3_value_text(from);
        ret->as.text.n = (size_t)sqlite3_value_bytes(from);
        ret->kind = QP_TEXT;
        if (QP_UNLIKELY(type == SQLITE_INTEGER || type == SQLITE_FLOAT)) {
            value_raw(from, ret);
        }
        break;
    case QP_BYTES:
        ret->as.bytes.p = sqlite3_value_blob(from);
        ret->as.bytes.n = (size_t)sqlite3_value_bytes(from);
        if (ret->as.bytes.p == NULL) {
            ret->as.bytes.p = ""; /* SQLite gives NULL for empty bytes; ours means absent */
        }
        ret->kind = QP_BYTES;
        break;
    case QP_TIME:
        value_time(from, type, ret);
        break;
    case QP_UUID:
        value_uuid(from, type, ret);
        break;
    default:
        value_number(from, type, kind, ret);
        break;
    }
}

static bool value_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Each word becomes an FTS5 string, so that no word can be read as an operator; one * at its end
 * stays outside the quotes and asks for a prefix. */
void qp_sqlite_words(quipu_str words, qp_buf *ret)
{
    size_t empty = ret->n;
    size_t at = 0;

    while (at < words.n) {
        size_t start = at;
        size_t end;
        bool prefix;

        while (at < words.n && !value_is_space(words.p[at])) {
            at++;
        }
        end = at;
        at++;
        prefix = end > start + 1 && words.p[end - 1] == '*';
        end -= prefix ? 1 : 0;
        if (end == start) {
            continue;
        }
        qp_buf_putc(ret, '"');
        for (size_t i = start; i < end; i++) {
            if (words.p[i] == '"') {
                qp_buf_putc(ret, '"');
            }
            qp_buf_putc(ret, words.p[i]);
        }
        qp_buf_puts(ret, prefix ? "\"* " : "\" ");
    }
    if (ret->n == empty) {
        qp_buf_puts(ret, "\"\""); /* no words match nothing; an empty text would be an error */
    }
}
