/* Statements: binding, preparing, running and reading them, inside of a transaction and outside.
 *
 * Owns: struct qp_statement, the guard savepoint, deferred writes, and the chunks of a long SELECT.
 * Called by: src/ent through qp_engine; migrate.c.
 * Locks: those that the statement takes at the server, until the transaction ends.
 * On return from a failed statement the transaction is as it was before it (guarded), or it is
 * rolled back and qp_pg_in_transaction() is false.
 *
 * One execution is one batch:
 *
 *   DEALLOCATE*  CLOSE*  BEGIN/SAVEPOINT*  [SAVEPOINT ent_guard]  [Parse]  Bind Execute  [RELEASE]
 *
 * The guard gives a statement SQLite's behaviour: it fails alone, and the transaction goes on.
 * PostgreSQL would abort the transaction (25P02 from then on). Exclusive writers and reads use it;
 * a shared writer does not, because its caller (the commit group) retries the whole transaction.
 *
 * States of an execution:
 *
 *   reset ──step──▶ deferred (sent, no result: a shared writer's write that nobody counts)
 *     │                 └─ its error comes with a later batch, the COMMIT's at the latest
 *     └────step──▶ result ──row, row...──▶ chunk read ──FETCH──▶ next chunk ... ──▶ no row
 */
#include "ent_postgres/open.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/db.h"

#define STMT_LISTS_MAX ((size_t)256 << 20) /* bytes of the lists of one statement */
#define STMT_TEXT_MAX ((size_t)8 << 20)    /* bytes of one text that is built here */
#define STMT_DEALLOCATE_MIN 64             /* DEALLOCATE is sent for so many at a time */

/* A statement of src/ent's cache. It outlives connections: `generation` says whether the server at
 * the other end still has it prepared. */
struct qp_statement {
    qp_pg *conn;
    char *sql;
    size_t sql_n;
    bool writes;
    bool chunked;        /* a SELECT that ends with QP_PG_CHUNKED */
    qp_pg_cursor cursor; /* from its second chunk on */
    bool locks;          /* FOR UPDATE: it may wait for another writer */
    bool deferrable;     /* nobody asks how many rows this execution changes */
    bool deferred;       /* it was sent as a deferred write: no result will come */
    uint32_t name;       /* of the prepared statement, or 0 */
    uint32_t generation; /* of the connection that knows the name */
    qp_pg_param *params;
    size_t n;
    size_t capacity;
    Oid *types;       /* of the parameters, as the statement was first prepared */
    qp_buf lists;     /* encoded lists of the bound parameters */
    PGresult *result; /* of the execution under way: one chunk, or all rows */
    int row;          /* the next row of `result` */
    /* Where the execution began; a chunk cannot be fetched once the transaction is another, and
     * rows read before a rollback are void. */
    uint32_t rollbacks;
    uint32_t transaction;
    bool in_transaction;
};

/* Whether the text ends so; src/ent writes the suffixes that the engine's table names. */
static bool stmt_ends(quipu_str sql, const char *end)
{
    const size_t n = strlen(end);

    assert(end != NULL);
    return sql.n > n && memcmp(sql.p + sql.n - n, end, n) == 0;
}

/* Makes a statement; the server gets it with its first execution. The text says what it is:
 * anything that is not a SELECT writes. */
quipu_status qp_pg_prepare(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr)
{
    qp_statement *statement = qp_calloc(1, sizeof(*statement));
    char *text = qp_malloc(sql.n + 1);

    assert(conn != NULL && ret != NULL);
    assert(sql.p != NULL);
    if (statement == NULL || text == NULL) {
        qp_free(statement);
        qp_free(text);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while preparing a statement");
    }
    memcpy(text, sql.p, sql.n);
    text[sql.n] = '\0';
    statement->conn = conn;
    statement->sql = text;
    statement->sql_n = sql.n;
    statement->writes = strncmp(text, "SELECT", strlen("SELECT")) != 0;
    statement->locks = stmt_ends(sql, QP_PG_ROW_LOCK);
    statement->chunked = stmt_ends(sql, QP_PG_CHUNKED);
    qp_buf_init(&statement->lists, STMT_LISTS_MAX);
    *ret = statement;
    return QUIPU_OK;
}

/* Sends DEALLOCATE for finalized statements, in a batch that goes out anyway: a batch of its own
 * could fail and lose the open transaction in a call (finalize) that returns no error. */
static void stmt_send_deallocate(qp_pg *conn)
{
    char sql[64];

    assert(conn->deallocate_count <= QP_PG_DEALLOCATE_MAX);
    if (conn->deallocate_count < STMT_DEALLOCATE_MIN) {
        return;
    }
    for (size_t i = 0; i < conn->deallocate_count; i++) {
        (void)snprintf(sql, sizeof(sql), "DEALLOCATE ent_%u", (unsigned)conn->deallocate[i]);
        qp_pg_send(conn, sql);
    }
    conn->deallocate_count = 0;
}

/* Frees a statement and queues its name for DEALLOCATE. A full queue leaves the name prepared until
 * the connection ends. */
void qp_pg_finalize(qp_statement *statement)
{
    if (statement == NULL) {
        return;
    }
    qp_pg *conn = statement->conn;

    if (statement->name != 0 && statement->generation == conn->generation && conn->pg != NULL &&
        conn->deallocate_count < QP_PG_DEALLOCATE_MAX) {
        conn->deallocate[conn->deallocate_count++] = statement->name;
    }
    qp_pg_cursor_end(conn, &statement->cursor);
    PQclear(statement->result);
    qp_buf_free(&statement->lists);
    qp_free(statement->params);
    qp_free(statement->types);
    qp_free(statement->sql);
    qp_free(statement);
}

/* ---- values -----------------------------------------------------------------------------------
 */

/* Makes room for n parameters. It only grows: a statement has the same number each time. */
static quipu_status stmt_room(qp_statement *statement, size_t n, quipu_error *reterr)
{
    assert(statement != NULL);
    if (n > statement->capacity) {
        qp_pg_param *params = qp_realloc(statement->params, n * sizeof(*params));
        if (params == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while passing values");
        }
        statement->params = params;
        statement->capacity = n;
    }
    return QUIPU_OK;
}

/* Encodes the values in binary form. Texts and bytes are borrowed until the statement is reset.
 * Lists share one buffer that may move while later lists are added, so that a parameter keeps its
 * offset. */
quipu_status qp_pg_bind(qp_statement *statement, const qp_value *values, size_t n,
                        quipu_error *reterr)
{
    quipu_status status = stmt_room(statement, n, reterr);

    assert(statement->result == NULL && !statement->deferred);
    assert(n == 0 || values != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_buf_reset(&statement->lists);
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        qp_pg_param *param = &statement->params[i];

        if (values[i].kind == QP_LIST || values[i].kind == QP_WORDS) {
            param->listed = true;
            param->at = statement->lists.n;
            status = values[i].kind == QP_LIST
                         ? qp_pg_encode_list(values[i].as.list, &statement->lists, &param->type)
                         : qp_pg_encode_words(values[i].as.text, &statement->lists, &param->type);
            param->n = statement->lists.n - param->at;
        } else {
            status = qp_pg_encode(&values[i], param);
        }
    }
    statement->n = n;
    return status == QUIPU_OK ? QUIPU_OK : qp_error_set(reterr, status, "a value cannot be passed");
}

/* ---- running ----------------------------------------------------------------------------------
 */

/* Never true behind a pooler in transaction mode, where names are 0. */
static bool stmt_is_prepared(const qp_statement *statement)
{
    assert(statement->conn != NULL);
    return statement->name != 0 && statement->generation == statement->conn->generation;
}

/* Fixes the parameter types with the first values: an absent value has the type of its kind, so
 * that they are the same for every execution. */
static quipu_status stmt_take_types(qp_statement *statement, quipu_error *reterr)
{
    assert(statement->n == 0 || statement->params != NULL);
    if (statement->types == NULL) {
        statement->types = qp_calloc(statement->n + 1, sizeof(*statement->types));
        if (statement->types == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while preparing a statement");
        }
        for (size_t i = 0; i < statement->n; i++) {
            statement->types[i] = statement->params[i].type;
        }
    }
    return QUIPU_OK;
}

/* Parse, under a new name. Its own failure (bad SQL, no such table) fails the batch. */
static void stmt_send_prepare(qp_statement *statement)
{
    qp_pg *conn = statement->conn;
    char name[QP_PG_STATEMENT_SIZE];

    assert(statement->types != NULL);
    statement->name = qp_pg_new_name(conn);
    statement->generation = conn->generation;
    qp_pg_name(statement->name, name);
    if (!conn->broken &&
        PQsendPrepare(conn->pg, name, statement->sql, (int)statement->n, statement->types) == 1) {
        conn->sent++;
    } else {
        conn->broken = true;
    }
}

/* Bind and Execute of the prepared statement or, with `text`, of that text with the same parameters
 * (a DECLARE). libpq copies the values, so that the arrays are freed at once. */
static quipu_status stmt_send_run(qp_statement *statement, const char *text, quipu_error *reterr)
{
    const size_t n = statement->n;
    qp_pg *conn = statement->conn;
    char name[QP_PG_STATEMENT_SIZE];
    const char **values = qp_calloc(n + 1, sizeof(*values));
    int *lengths = qp_calloc(2 * n + 1, sizeof(*lengths));
    int *formats;
    int sent = 0;

    assert(text == NULL || statement->types != NULL);
    if (values == NULL || lengths == NULL) {
        qp_free(values);
        qp_free(lengths);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while passing values");
    }
    formats = lengths + n;
    for (size_t i = 0; i < n; i++) {
        const qp_pg_param *param = &statement->params[i];
        values[i] = param->listed ? qp_buf_str(&statement->lists).p + param->at : param->p;
        lengths[i] = (int)param->n;
        formats[i] = 1;
    }
    qp_pg_name(statement->name, name);
    if (!conn->broken) {
        sent = text == NULL
                   ? PQsendQueryPrepared(conn->pg, name, (int)n, values, lengths, formats, 1)
                   : PQsendQueryParams(conn->pg, text, (int)n, statement->types, values, lengths,
                                       formats, 1);
    }
    conn->sent += sent;
    conn->broken = sent != 1;
    qp_free(values);
    qp_free(lengths);
    return QUIPU_OK;
}

/* After a failure inside of a transaction: back to the guard savepoint where there is one,
 * otherwise (or where that fails, too) rollback of the whole transaction. With a lost connection
 * there is nothing to do: qp_pg_drop() has ended the transaction. */
static void stmt_recover(qp_pg *conn, bool guarded)
{
    qp_pg_call call = {.doing = "cannot roll back", .wanted = -1, .no_cancel = true};

    if (conn->pg == NULL) {
        return;
    }
    if (guarded) {
        qp_pg_batch(conn);
        qp_pg_send(conn, "ROLLBACK TO SAVEPOINT ent_guard");
        qp_pg_send_fixed(conn, QP_PG_GUARD_RELEASE);
        if (qp_pg_run(conn, &call, NULL) == QUIPU_OK) {
            return;
        }
        qp_pg_call_done(&call);
    }
    qp_pg_rollback_all(conn);
}

/* Indexes of a statement's commands in its batch: which of them failed decides how to recover. */
typedef struct stmt_layout {
    int begun;    /* commands before the statement's own: DEALLOCATE, CLOSE, BEGIN, SAVEPOINT */
    bool begins;  /* they hold the BEGIN of a shared write */
    bool guard;   /* the statement runs behind SAVEPOINT ent_guard... */
    int guarded;  /* ...which is this command */
    bool fresh;   /* the batch prepares the statement... */
    int prepared; /* ...with this command */
} stmt_layout;

/* Sends the whole batch of one execution and notes where its commands are. */
static quipu_status stmt_send(qp_statement *statement, stmt_layout *layout, int *ret_wanted,
                              quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    assert(conn->in_transaction || !layout->guard);
    qp_pg_batch(conn);
    stmt_send_deallocate(conn);
    qp_pg_send_closing(conn);
    qp_pg_send_pending_tx(conn);
    layout->begun = conn->sent;
    if (!conn->in_transaction) {
        qp_pg_send_tenant(conn); /* a pipeline is an implicit transaction: SET LOCAL works */
    }
    if (layout->guard) {
        qp_pg_send_fixed(conn, QP_PG_GUARD_SAVEPOINT);
    }
    layout->guarded = conn->sent - 1;
    layout->prepared = conn->sent;
    if (layout->fresh) {
        stmt_send_prepare(statement);
    }
    *ret_wanted = conn->sent;
    status = stmt_send_run(statement, NULL, reterr);
    if (layout->guard) {
        qp_pg_send_fixed(conn, QP_PG_GUARD_RELEASE);
    }
    return status;
}

/* Whether the open transaction is a shared write: it holds one slot, not all. */
static bool stmt_is_shared(const qp_pg *conn)
{
    assert(!conn->writes || conn->moved >= 1);
    return conn->writes && conn->moved < QP_PG_WRITER_SLOTS;
}

/* Whether a failure is another writer's doing, so that the whole transaction may be retried. A
 * failure of the BEGIN itself: nothing was done. A key that is taken, in a shared write: the writer
 * looked for it before it inserted the row, so that another one has taken it since. */
static bool stmt_is_conflict(const qp_pg *conn, const stmt_layout *layout, const qp_pg_call *call)
{
    const bool unbegun = layout->begins && conn->interrupt.stopped == QUIPU_OK &&
                         (call->failure == NULL || call->failed < layout->begun);

    assert(!layout->guard || !stmt_is_shared(conn));
    return unbegun ||
           (conn->in_transaction && stmt_is_shared(conn) && qp_pg_has_sqlstate(call, "23505"));
}

/* Cleans up behind a failed batch. A statement whose Parse was not reached has no name. A transient
 * failure behind the guard still rolls everything back, because its retry has to begin with the
 * transaction. */
static void stmt_failed(qp_statement *statement, const stmt_layout *layout, const qp_pg_call *call,
                        bool in_transaction, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const bool conflict = stmt_is_conflict(conn, layout, call); /* before it is rolled back */

    assert(!layout->guard || in_transaction);
    if (layout->fresh && call->failed <= layout->prepared) {
        statement->name = 0;
    }
    if (in_transaction) {
        stmt_recover(conn, layout->guard && call->failed > layout->guarded &&
                               !qp_failure_is_transient(conn->failure));
    }
    if (call->failure != NULL) {
        qp_pg_explain_unique(conn, call->failure, reterr);
    }
    if (conflict && !qp_failure_is_transient(conn->failure)) {
        conn->failure = QP_FAILURE_CONFLICT;
    }
}

/* Whether the statement gets a savepoint: a write may violate a constraint, and a first execution
 * may fail to parse. A shared writer is spared the two commands, see the head of this file. */
static bool stmt_needs_guard(const qp_statement *statement, bool fresh)
{
    assert(statement->conn->in_transaction);
    return !stmt_is_shared(statement->conn) && (fresh || statement->writes);
}

/* Runs the batch and takes its result; `status` is that of building it. Where recovering lost the
 * connection, the caller gets that error instead of the statement's: an error that it could live
 * with (QUIPU_EXISTS) would hide that the transaction is gone. */
static quipu_status stmt_take(qp_statement *statement, const stmt_layout *layout, qp_pg_call *call,
                              bool in_transaction, quipu_status status, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status ran = qp_pg_run(conn, call, status == QUIPU_OK ? reterr : NULL);
    const bool alive = conn->pg != NULL;

    if (ran != QUIPU_OK) {
        stmt_failed(statement, layout, call, in_transaction, reterr);
    }
    if (alive && conn->pg == NULL) {
        ran = qp_pg_fail_lost(conn, call->doing, reterr);
    }
    status = status == QUIPU_OK ? ran : status;
    if (status == QUIPU_OK) {
        PQclear(statement->result);
        statement->result = call->result;
        statement->row = 0;
        call->result = NULL;
    }
    qp_pg_call_done(call);
    return status;
}

/* One execution. A statement that may queue for a row lock, or for a slot with its BEGIN, is
 * bounded by the call's deadline; any other only by the interrupt. */
static quipu_status stmt_try(qp_statement *statement, bool in_transaction, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const bool begins = conn->writes && qp_pg_is_begin_pending(conn);
    stmt_layout layout = {.begins = begins, .fresh = !stmt_is_prepared(statement)};
    qp_pg_call call = {
        .doing = statement->writes ? "cannot write to" : "cannot read",
        .deadline_ns = statement->locks || begins ? qp_interrupt_deadline(&conn->interrupt) : 0};
    quipu_status status = layout.fresh ? stmt_take_types(statement, reterr) : QUIPU_OK;

    assert(in_transaction == conn->in_transaction);
    if (status != QUIPU_OK) {
        return status;
    }
    layout.guard = in_transaction && stmt_needs_guard(statement, layout.fresh);
    status = stmt_send(statement, &layout, &call.wanted, reterr);
    return stmt_take(statement, &layout, &call, in_transaction, status, reterr);
}

/* An execution whose batch holds the BEGIN of a shared write can be retried when that fails for a
 * passing reason, because nothing has been done: the transaction then begins with the retries of
 * qp_pg_begin_shared(), and the statement runs in it. */
static quipu_status stmt_run(qp_statement *statement, bool in_transaction, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const bool begins = conn->writes && qp_pg_is_begin_pending(conn) && conn->pending_tx_count == 1;
    quipu_error error = {0};
    quipu_status status = stmt_try(statement, in_transaction, &error);

    if (status != QUIPU_OK && begins && qp_failure_is_transient(conn->failure)) {
        status = qp_pg_begin_shared(conn, &error);
        status = status == QUIPU_OK ? stmt_try(statement, true, &error) : status;
    }
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* ---- chunks -----------------------------------------------------------------------------------
 */

/* Whether rows may follow those of the result: a chunk that is full, as a cursor's end only shows
 * by a FETCH that brings fewer rows than it asked for. */
static bool stmt_has_more(const qp_statement *statement)
{
    const qp_pg_cursor *cursor = &statement->cursor;

    assert(statement->result != NULL);
    return statement->chunked &&
           PQntuples(statement->result) ==
               (cursor->number != 0 ? cursor->requested_rows : QP_PG_CHUNK_FIRST);
}

/* DECLARE for the same SELECT without its LIMIT, behind the rows that were already read. REPEATABLE
 * READ makes both see the same rows in the same order; a writer skips none (stmt_start()). */
static quipu_status stmt_send_declare(qp_statement *statement, int skip, quipu_error *reterr)
{
    const quipu_str select = {statement->sql, statement->sql_n - strlen(QP_PG_CHUNKED)};
    quipu_status status;
    qp_buf text;

    assert(statement->chunked && statement->cursor.number == 0);
    assert(statement->sql_n > strlen(QP_PG_CHUNKED));
    qp_buf_init(&text, STMT_TEXT_MAX);
    qp_pg_cursor_declare(statement->conn, &statement->cursor, select, skip, &text);
    status = qp_buf_status(&text);
    status = status == QUIPU_OK ? stmt_send_run(statement, qp_buf_str(&text).p, reterr)
                                : qp_error_set(reterr, status, "no memory to read on");
    qp_buf_free(&text);
    return status;
}

/* Replaces the result by the next chunk: DECLARE where there is no cursor yet, and FETCH, in one
 * batch. QUIPU_CANCELLED: the transaction of the first chunk is over, and its cursor with it. */
static quipu_status stmt_next_chunk(qp_statement *statement, int skip, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const stmt_layout layout = {.guard = false};
    qp_pg_call call = {.doing = "cannot read"};
    quipu_status status = QUIPU_OK;

    assert(statement->chunked && statement->result != NULL);
    assert(skip >= 0);
    if (!statement->in_transaction || !conn->in_transaction ||
        statement->transaction != conn->transactions) {
        return qp_error_set(reterr, QUIPU_CANCELLED,
                            "the transaction ended while its rows were being read");
    }
    qp_pg_batch(conn);
    qp_pg_send_closing(conn);
    qp_pg_send_pending_tx(conn);
    if (statement->cursor.number == 0) {
        status = stmt_send_declare(statement, skip, reterr);
    }
    qp_pg_cursor_fetch(conn, &statement->cursor, statement->result);
    call.wanted = conn->sent - 1;
    return stmt_take(statement, &layout, &call, true, status, reterr);
}

/* ---- outside of a transaction, and inside -----------------------------------------------------
 */

/* A read outside of a transaction is a batch of its own. With row security on a distributed store
 * it gets a transaction: Citus sends SET LOCAL on to the workers inside of one only. Its end costs
 * no round trip. */
static quipu_status stmt_read_alone(qp_statement *statement, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    assert(!conn->in_transaction && !statement->writes);
    if (!conn->citus || conn->tenant == NULL) {
        status = qp_pg_ensure_connected(conn, reterr);
        return status == QUIPU_OK ? stmt_run(statement, false, reterr) : status;
    }
    status = qp_pg_begin(conn, 0, QP_TX_DEFERRED, reterr);
    if (status == QUIPU_OK) {
        status = stmt_run(statement, true, reterr);
        qp_pg_rollback(conn, 0);
    }
    return status;
}

/* One attempt at a statement outside of a transaction: a read is a batch of its own, a write gets
 * an exclusive transaction. *ret_committing: COMMIT was sent, so that a failure is of unknown
 * outcome and must not be retried. QUIPU_BUSY from COMMIT is the exception: the server refused
 * before it stored. */
static quipu_status stmt_try_autocommit(qp_statement *statement, bool *ret_committing,
                                        quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    assert(!conn->in_transaction);
    *ret_committing = false;
    PQclear(statement->result); /* of an attempt whose COMMIT failed */
    statement->result = NULL;
    if (!statement->writes) {
        return stmt_read_alone(statement, reterr);
    }
    status = qp_pg_begin(conn, 0, ENT_WRITE, reterr);
    if (status == QUIPU_OK) {
        status = stmt_run(statement, true, reterr);
        if (status == QUIPU_OK) {
            status = qp_pg_commit(conn, 0, reterr);
            *ret_committing = status != QUIPU_BUSY;
        } else if (conn->in_transaction) {
            qp_pg_rollback(conn, 0);
        }
    }
    return status;
}

/* Attempts with backoff, while the failures are transient and nothing was committed. */
static quipu_status stmt_run_autocommit(qp_statement *statement, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    quipu_error error = {0};
    quipu_status status;
    bool ends = false;
    int attempts = 0;

    assert(!conn->in_transaction);
    do {
        status = stmt_try_autocommit(statement, &ends, &error);
        attempts++;
    } while (status != QUIPU_OK && !ends && qp_failure_is_transient(conn->failure) &&
             attempts < QP_ATTEMPTS_MAX && qp_pg_backoff(conn, deadline_ns));
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* Whether this execution can be sent without waiting: a write of a shared transaction that nobody
 * counts. It has to be prepared, because a text that does not parse should fail at its own call. */
static bool stmt_may_defer(const qp_statement *statement)
{
    const qp_pg *conn = statement->conn;

    assert(statement->conn != NULL);
    return statement->deferrable && conn->in_transaction && stmt_is_shared(conn) &&
           stmt_is_prepared(statement) && conn->deferred_writes < QP_PG_DEFERRED_WRITES_MAX;
}

/* Sends a deferred write. The first one of a transaction bounds its waits for row locks (see
 * QP_PG_DEFERRED_LOCK_TIMEOUT_MS): with the BEGIN where that is still queued, else right here. */
static quipu_status stmt_send_deferred(qp_statement *statement, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    assert(stmt_may_defer(statement));
    assert(statement->result == NULL);
    qp_pg_batch(conn);
    if (!conn->short_lock_timeout && !qp_pg_is_begin_pending(conn)) {
        qp_pg_send_fixed(conn, QP_PG_SET_LOCK_TIMEOUT);
    }
    conn->short_lock_timeout = true;
    qp_pg_send_pending_tx(conn);
    status = stmt_send_run(statement, NULL, reterr);
    conn->deferred_writes = conn->sent;
    conn->total_changes++; /* the true number is not known: any rise means "something changed" */
    statement->deferred = true;
    return status;
}

/* The first step: runs the statement and keeps its result. A writer that reads in chunks gets all
 * of them through the cursor (skip 0), which is fixed when it is declared: it would otherwise meet
 * or miss rows that it changes between the first chunk and the second. */
static quipu_status stmt_start(qp_statement *statement, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    assert(statement->result == NULL && !statement->deferred);
    statement->in_transaction = conn->in_transaction;
    if (stmt_may_defer(statement)) {
        return stmt_send_deferred(statement, reterr);
    }
    status = conn->in_transaction ? stmt_run(statement, true, reterr)
                                  : stmt_run_autocommit(statement, reterr);
    statement->transaction = conn->transactions;
    if (status == QUIPU_OK && conn->in_transaction && conn->writes && stmt_has_more(statement)) {
        status = stmt_next_chunk(statement, 0, reterr);
    }
    if (status != QUIPU_OK) {
        qp_pg_cursor_end(conn, &statement->cursor);
        PQclear(statement->result);
        statement->result = NULL;
        return status;
    }
    statement->rollbacks = conn->rollbacks;
    if (statement->writes) {
        conn->changes = qp_pg_changed(statement->result);
        conn->total_changes += conn->changes;
    }
    return QUIPU_OK;
}

/* One row at a time, from the result or from the next chunk. Rows read before a rollback are
 * refused: what they say may not exist. */
quipu_status qp_pg_step(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                        bool *ret_row, quipu_error *reterr)
{
    assert(ret_row != NULL);
    assert(n == 0 || (kinds != NULL && ret != NULL));
    if (statement->result == NULL && !statement->deferred) {
        quipu_status status = stmt_start(statement, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    if (statement->deferred) {
        *ret_row = false;
        return QUIPU_OK;
    }
    if (statement->in_transaction && statement->rollbacks != statement->conn->rollbacks) {
        return qp_error_set(reterr, QUIPU_CANCELLED,
                            "the transaction was rolled back while its rows were being read");
    }
    if (statement->row >= PQntuples(statement->result) && stmt_has_more(statement)) {
        quipu_status status = stmt_next_chunk(statement, QP_PG_CHUNK_FIRST, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    if (statement->row >= PQntuples(statement->result)) {
        *ret_row = false;
        return QUIPU_OK;
    }
    for (size_t i = 0; i < n; i++) {
        qp_pg_decode(statement->result, statement->row, (int)i, kinds[i], &ret[i]);
    }
    statement->row++;
    *ret_row = true;
    return QUIPU_OK;
}

/* The engine's defer: set before the first step, gone with the reset. */
void qp_pg_defer(qp_statement *statement)
{
    assert(statement->result == NULL && !statement->deferred);
    statement->deferrable = true;
}

/* Ends the execution. A deferred write stays in the pipeline. */
void qp_pg_reset(qp_statement *statement)
{
    assert(statement != NULL);
    statement->deferrable = false;
    statement->deferred = false;
    qp_pg_cursor_end(statement->conn, &statement->cursor);
    PQclear(statement->result);
    statement->result = NULL;
}

/* ---- text with several commands ---------------------------------------------------------------
 */

/* Where the command at `at` ends: the engine's own DDL separates commands by a semicolon and the
 * end of a line, which no name and no literal of a schema holds. */
static size_t stmt_command_end(quipu_str sql, size_t at)
{
    assert(at <= sql.n);
    while (at < sql.n && !(sql.p[at] == ';' && (at + 1 == sql.n || sql.p[at + 1] == '\n'))) {
        at++;
    }
    return at;
}

/* The commands of a text, each in a message of its own: a distributed server takes a text of
 * several commands as a whole for each of them. */
static quipu_status stmt_execute_each(qp_pg *conn, quipu_str sql, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_buf text;

    assert(sql.p != NULL);
    qp_buf_init(&text, STMT_TEXT_MAX);
    for (size_t at = 0; at < sql.n && status == QUIPU_OK;) {
        const size_t end = stmt_command_end(sql, at);

        qp_buf_reset(&text);
        qp_buf_put(&text, (quipu_str){sql.p + at, end - at});
        status = qp_buf_status(&text);
        status = status == QUIPU_OK
                     ? qp_pg_run_text(conn, qp_buf_str(&text).p, reterr)
                     : qp_error_set(reterr, status, "no memory for a change of the schema");
        at = end + 1;
        while (at < sql.n && sql.p[at] == '\n') {
            at++;
        }
    }
    qp_buf_free(&text);
    return status;
}

/* DDL inside of a transaction, guarded as a statement is. lock_timeout keeps an ALTER TABLE from
 * queuing behind a long reader for ever: every later reader would queue behind the ALTER. */
static quipu_status stmt_execute_guarded(qp_pg *conn, quipu_str sql, quipu_error *reterr)
{
    char before[96] = "SAVEPOINT ent_guard";
    quipu_status status;

    assert(conn->in_transaction);
    assert(conn->pending_tx_count == 0 && conn->deferred_writes == 0);
    if (!conn->lock_timeout_set) {
        (void)snprintf(before, sizeof(before), "SET LOCAL lock_timeout = %d;\nSAVEPOINT ent_guard",
                       (int)conn->interrupt.busy_ms);
    }
    conn->lock_timeout_set = true;
    status = stmt_execute_each(conn, quipu_cstr(before), reterr);
    if (status == QUIPU_OK) {
        status = stmt_execute_each(conn, sql, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_pg_run_text(conn, "RELEASE SAVEPOINT ent_guard", reterr);
    }
    if (status != QUIPU_OK) {
        stmt_recover(conn, true);
        status = conn->pg == NULL ? qp_pg_fail_lost(conn, "cannot change", reterr) : status;
    }
    return status;
}

/* Runs a text of several commands. Queued statements are sent first, in a batch of their own,
 * because the simple query protocol cannot be used inside a pipeline. */
quipu_status qp_pg_execute(void *conn, quipu_str sql, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {.doing = "cannot change",
                       .wanted = -1,
                       .deadline_ns = qp_interrupt_deadline(&self->interrupt)};
    quipu_status status = QUIPU_OK;

    assert(sql.p != NULL && sql.p[sql.n] == '\0');
    if (!self->in_transaction) {
        status = qp_pg_ensure_connected(self, reterr);
        return status == QUIPU_OK ? qp_pg_run_text(self, sql.p, reterr) : status;
    }
    if (self->pending_tx_count > 0 || self->deferred_writes > 0 || self->closing_count > 0) {
        qp_pg_batch(self);
        qp_pg_send_closing(self); /* an open cursor blocks DDL on its table (55006) */
        qp_pg_send_pending_tx(self);
        status = qp_pg_run(self, &call, reterr);
        qp_pg_call_done(&call);
        if (status != QUIPU_OK) {
            qp_pg_rollback_all(self);
            return status;
        }
    }
    return stmt_execute_guarded(self, sql, reterr);
}
