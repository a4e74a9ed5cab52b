/* Running statements: prepare, bind, step, reset. A statement owns the small texts (times, UUIDs)
 * that its values turn into, so that binding copies nothing inside SQLite. */
#include "ent_sqlite/stmt.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent_sqlite/search.h"

#define STMT_TEXT_SIZE 40
#define STMT_WORDS_MAX ((size_t)1 << 20)

static_assert(STMT_TEXT_SIZE >= QUIPU_TIME_TEXT_SIZE && STMT_TEXT_SIZE >= QUIPU_UUID_TEXT_SIZE,
              "a slot holds either text");

typedef union stmt_slot {
    char text[STMT_TEXT_SIZE];
    const qp_list_operand *list;
} stmt_slot;

struct qp_statement {
    sqlite3_stmt *stmt;
    qp_sqlite *conn;
    stmt_slot *slots; /* one a parameter, made when the first one is needed */
    qp_buf words;     /* of a full-text match: at most one a statement level, so appended */
};

quipu_status qp_sqlite_prepare(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    qp_statement *statement = qp_calloc(1, sizeof(*statement));
    int rc;

    if (statement == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while preparing a statement");
    }
    assert(sql.n < INT32_MAX);
    statement->conn = self;
    qp_buf_init(&statement->words, STMT_WORDS_MAX);
    rc = sqlite3_prepare_v3(self->db, sql.p, (int)sql.n, SQLITE_PREPARE_PERSISTENT,
                            &statement->stmt, NULL);
    if (rc != SQLITE_OK) {
        quipu_status status = qp_sqlite_fail(self, rc, "cannot prepare a statement on", reterr);
        qp_free(statement);
        return status;
    }
    *ret = statement;
    return QUIPU_OK;
}

void qp_sqlite_finalize(qp_statement *statement)
{
    if (statement != NULL) {
        (void)sqlite3_finalize(statement->stmt);
        qp_buf_free(&statement->words);
        qp_free(statement->slots);
        qp_free(statement);
    }
}

static stmt_slot *stmt_slot_at(qp_statement *statement, size_t at)
{
    if (statement->slots == NULL) {
        int n = sqlite3_bind_parameter_count(statement->stmt);
        statement->slots = qp_calloc((size_t)n, sizeof(*statement->slots));
    }
    return statement->slots == NULL ? NULL : &statement->slots[at];
}

/* Text goes in as SQLITE_STATIC: the caller keeps it until the statement is reset. */
static int stmt_bind_text(qp_statement *statement, int at, const char *p, size_t n)
{
    return sqlite3_bind_text64(statement->stmt, at, p, n, SQLITE_STATIC, SQLITE_UTF8);
}

/* A value whose stored form is made here. */
static int stmt_bind_made(qp_statement *statement, int at, const qp_value *value)
{
    stmt_slot *slot = stmt_slot_at(statement, (size_t)at - 1);
    size_t start = statement->words.n;

    if (slot == NULL) {
        return SQLITE_NOMEM;
    }
    switch (value->kind) {
    case QP_TIME:
        if (quipu_time_format(value->as.time, slot->text) != QUIPU_OK) {
            return SQLITE_MISUSE; /* the runtime has checked it */
        }
        return stmt_bind_text(statement, at, slot->text, QUIPU_TIME_TEXT_SIZE - 1);
    case QP_UUID:
        quipu_uuid_format(value->as.uuid, slot->text);
        return stmt_bind_text(statement, at, slot->text, QUIPU_UUID_TEXT_SIZE - 1);
    case QP_LIST:
        slot->list = value->as.list;
        return sqlite3_bind_pointer(statement->stmt, at, slot, QP_SQLITE_LIST_TYPE, NULL);
    default:
        assert(value->kind == QP_WORDS);
        qp_sqlite_words(value->as.text, &statement->words);
        if (qp_buf_status(&statement->words) != QUIPU_OK) {
            return qp_buf_status(&statement->words) == QUIPU_LIMIT ? SQLITE_TOOBIG : SQLITE_NOMEM;
        }
        /* Several matches in one statement may move the buffer: SQLite copies this one. */
        return sqlite3_bind_text64(statement->stmt, at, qp_buf_str(&statement->words).p + start,
                                   statement->words.n - start, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

static int stmt_bind_one(qp_statement *statement, int at, const qp_value *value)
{
    switch (value->kind) {
    case QP_NULL:
        return sqlite3_bind_null(statement->stmt, at);
    case QP_INT:
        return sqlite3_bind_int64(statement->stmt, at, value->as.i);
    case QP_FLOAT:
        return sqlite3_bind_double(statement->stmt, at, value->as.f);
    case QP_BOOL:
        return sqlite3_bind_int(statement->stmt, at, value->as.b ? 1 : 0);
    case QP_TEXT:
        return stmt_bind_text(statement, at, value->as.text.p, value->as.text.n);
    case QP_BYTES:
        return sqlite3_bind_blob64(statement->stmt, at, value->as.bytes.p, value->as.bytes.n,
                                   SQLITE_STATIC);
    default:
        return stmt_bind_made(statement, at, value);
    }
}

quipu_status qp_sqlite_bind(qp_statement *statement, const qp_value *values, size_t n,
                            quipu_error *reterr)
{
    qp_buf_reset(&statement->words);
    for (size_t i = 0; i < n; i++) {
        int rc = stmt_bind_one(statement, (int)i + 1, &values[i]);
        if (rc != SQLITE_OK) {
            return qp_sqlite_fail(statement->conn, rc, "cannot pass a value to", reterr);
        }
    }
    return QUIPU_OK;
}

quipu_status qp_sqlite_step(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                            bool *ret_row, quipu_error *reterr)
{
    sqlite3_stmt *stmt = statement->stmt;
    int rc = sqlite3_step(stmt);

    if (rc == SQLITE_ROW) {
        qp_sqlite_read(stmt, kinds, n, ret);
        *ret_row = true;
        return QUIPU_OK;
    }
    if (rc == SQLITE_DONE) {
        *ret_row = false;
        return QUIPU_OK;
    }
    return qp_sqlite_fail(statement->conn, rc, "cannot use", reterr);
}

void qp_sqlite_reset(qp_statement *statement)
{
    (void)sqlite3_reset(statement->stmt);
}

quipu_status qp_sqlite_execute(void *conn, quipu_str sql, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    const char *at = sql.p;
    const char *end = sql.p + sql.n;
    int rc = SQLITE_OK;

    while (at < end && rc == SQLITE_OK) {
        sqlite3_stmt *stmt = NULL;
        rc = sqlite3_prepare_v2(self->db, at, (int)(end - at), &stmt, &at);
        while (rc == SQLITE_OK && stmt != NULL) {
            rc = sqlite3_step(stmt);
            if (rc != SQLITE_ROW) {
                break;
            }
            rc = SQLITE_OK;
        }
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
        if (rc != SQLITE_OK) {
            quipu_status status = qp_sqlite_fail(self, rc, "cannot change", reterr);
            (void)sqlite3_finalize(stmt);
            return status;
        }
        (void)sqlite3_finalize(stmt);
    }
    return QUIPU_OK;
}
