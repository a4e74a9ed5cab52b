/* Statements: prepare, bind, step, reset.
 *
 * Owns: struct qp_statement, and the texts that bound times and UUIDs become, so that binding
 * copies nothing inside SQLite.
 * Called by: src/ent through qp_engine.
 * Locks: those that the statement takes; src/ent begins a transaction for more than one.
 * On return of reset the values of the caller may be freed: bound texts are borrowed until then. */
#include "ent_sqlite/stmt.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent_sqlite/search.h"

#define STMT_TEXT_SIZE 40
#define STMT_WORDS_MAX ((size_t)1 << 20)
#define STMT_VALUED_MAX                                                                            \
    64 /* parameters whose NULL is remembered: the bits of qp_statement.valued */

static_assert(STMT_TEXT_SIZE >= QUIPU_TIME_TEXT_SIZE && STMT_TEXT_SIZE >= QUIPU_UUID_TEXT_SIZE,
              "a slot holds either text");

/* Storage for a parameter beside the caller's value: the text of a time or UUID, or a pointer to a
 * list. It lives until the statement is reset (SQLITE_STATIC). */
typedef union stmt_slot {
    char text[STMT_TEXT_SIZE];
    const qp_list_operand *list;
} stmt_slot;

/* One prepared statement, used by one thread at a time: src/ent keeps it in the connection's cache
 * between two uses. */
struct qp_statement {
    sqlite3_stmt *stmt;
    qp_sqlite *conn;
    stmt_slot *slots; /* one a parameter, allocated when the first is needed */
    qp_buf words;     /* FTS5 expressions of full-text matches, one behind the other */
    uint64_t valued;  /* bit i: parameter i + 1 may hold another value than NULL */
};

/* PERSISTENT: src/ent caches statements, so that they should not take lookaside memory. */
quipu_status qp_sqlite_prepare(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    qp_statement *statement = qp_calloc(1, sizeof(*statement));
    int rc;

    assert(sql.p != NULL && ret != NULL);
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

/* NULL is fine, and so is a statement that runs: migration finalizes behind its last step. */
void qp_sqlite_finalize(qp_statement *statement)
{
    if (statement != NULL) {
        (void)sqlite3_finalize(statement->stmt);
        qp_buf_free(&statement->words);
        qp_free(statement->slots);
        qp_free(statement);
    }
}

/* Binds a value whose stored form is made here: times and UUIDs as text, lists by pointer, search
 * words as an FTS5 expression. Several matches in one statement may move the buffer of words, so
 * that SQLite copies those. */
static int stmt_bind_made(qp_statement *statement, int at, const qp_value *value)
{
    const int count = sqlite3_bind_parameter_count(statement->stmt);
    const size_t start = statement->words.n;
    stmt_slot *slot;

    assert(at >= 1 && at <= count);
    /* Once for all parameters, and kept with the statement: a cached one binds again and again, and
     * most have no time, UUID or list at all. */
    if (statement->slots == NULL) {
        statement->slots = qp_calloc((size_t)count, sizeof(*statement->slots));
    }
    if (statement->slots == NULL) {
        return SQLITE_NOMEM;
    }
    slot = &statement->slots[at - 1];
    switch (value->kind) {
    case QP_TIME:
        if (quipu_time_format(value->as.time, slot->text) != QUIPU_OK) {
            return SQLITE_MISUSE; /* cannot happen: src/ent has checked the time */
        }
        return sqlite3_bind_text64(statement->stmt, at, slot->text, QUIPU_TIME_TEXT_SIZE - 1,
                                   SQLITE_STATIC, SQLITE_UTF8);
    case QP_UUID:
        quipu_uuid_format(value->as.uuid, slot->text);
        return sqlite3_bind_text64(statement->stmt, at, slot->text, QUIPU_UUID_TEXT_SIZE - 1,
                                   SQLITE_STATIC, SQLITE_UTF8);
    case QP_LIST:
        slot->list = value->as.list;
        return sqlite3_bind_pointer(statement->stmt, at, slot, QP_SQLITE_LIST_TYPE, NULL);
    default:
        assert(value->kind == QP_WORDS);
        qp_sqlite_words(value->as.text, &statement->words);
        if (qp_buf_status(&statement->words) != QUIPU_OK) {
            return qp_buf_status(&statement->words) == QUIPU_LIMIT ? SQLITE_TOOBIG : SQLITE_NOMEM;
        }
        return sqlite3_bind_text64(statement->stmt, at, qp_buf_str(&statement->words).p + start,
                                   statement->words.n - start, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

/* Binds one value in its stored form. SQLITE_STATIC: the caller keeps texts and bytes until the
 * statement is reset, so that nothing is copied. */
static int stmt_bind_one(qp_statement *statement, int at, const qp_value *value)
{
    assert(at >= 1);
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
        return sqlite3_bind_text64(statement->stmt, at, value->as.text.p, value->as.text.n,
                                   SQLITE_STATIC, SQLITE_UTF8);
    case QP_BYTES:
        return sqlite3_bind_blob64(statement->stmt, at, value->as.bytes.p, value->as.bytes.n,
                                   SQLITE_STATIC);
    default:
        return stmt_bind_made(statement, at, value);
    }
}

/* Binds all parameters; src/ent always gives every one. A failure leaves earlier parameters bound,
 * which is harmless: the next bind replaces them, and an unstarted statement reads none. */
quipu_status qp_sqlite_bind(qp_statement *statement, const qp_value *values, size_t n,
                            quipu_error *reterr)
{
    assert(n == 0 || values != NULL);
    assert(n == (size_t)sqlite3_bind_parameter_count(statement->stmt));
    if (statement->words.n > 0 || statement->words.status != QUIPU_OK) {
        qp_buf_reset(&statement->words);
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t bit = i < STMT_VALUED_MAX ? UINT64_C(1) << i : 0;
        int rc;

        /* A cached statement binds the same absent values again and again: those hold NULL. */
        if (values[i].kind == QP_NULL && bit != 0 && (statement->valued & bit) == 0) {
            continue;
        }
        statement->valued |= bit;
        rc = stmt_bind_one(statement, (int)i + 1, &values[i]);
        if (values[i].kind == QP_NULL && rc == SQLITE_OK) {
            statement->valued &= ~bit;
        }
        if (rc != SQLITE_OK) {
            return qp_sqlite_fail(statement->conn, rc, "cannot pass a value to", reterr);
        }
    }
    return QUIPU_OK;
}

/* One row or the end. The kinds are those that src/ent wants; a column of another type is converted
 * or handed up as it is stored (value.c). After a failure src/ent resets the statement. Texts and
 * bytes of a row are SQLite's and valid until the next step. */
quipu_status qp_sqlite_step(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                            bool *ret_row, quipu_error *reterr)
{
    sqlite3_stmt *stmt = statement->stmt;
    int rc = sqlite3_step(stmt);

    assert(ret_row != NULL);
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

/* The result code repeats that of the last step, which was reported. */
void qp_sqlite_reset(qp_statement *statement)
{
    assert(statement != NULL);
    (void)sqlite3_reset(statement->stmt);
}

/* Runs several statements one by one; sqlite3_exec() would need a NUL-terminated text. The first
 * failure ends it, and what ran before stays: the caller has a transaction, or one statement. */
quipu_status qp_sqlite_execute(void *conn, quipu_str sql, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    const char *at = sql.p;
    const char *end = sql.p + sql.n;
    int rc = SQLITE_OK;

    assert(sql.p != NULL);
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

/* Counts foreign key actions and triggers, too. */
int64_t qp_sqlite_total_changes(void *conn)
{
    assert(conn != NULL);
    return sqlite3_total_changes64(((qp_sqlite *)conn)->db);
}

/* Rows of the last INSERT, UPDATE or DELETE itself. */
int64_t qp_sqlite_changes(void *conn)
{
    assert(conn != NULL);
    return sqlite3_changes64(((qp_sqlite *)conn)->db);
}
