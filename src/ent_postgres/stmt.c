/* Running statements. A statement is prepared at the server with its first execution, in the same
 * round trip. In a transaction of somebody who is alone a failed statement must leave all else as
 * it was: what may fail is guarded by a savepoint, which travels along. Whoever writes beside
 * others does not wait for changes whose outcome nobody has asked for: they travel with what comes
 * next, the COMMIT at the latest. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/db.h"

#define STMT_LISTS_MAX ((size_t)256 << 20)
#define STMT_TEXT_MAX ((size_t)8 << 20)
#define STMT_DEALLOCATE_MIN 64 /* so many are worth a message each */

struct qp_statement {
    qp_pg *conn;
    char *sql;
    size_t sql_n;
    bool writes;
    bool chunked;        /* its rows come in pieces */
    qp_pg_cursor cursor; /* through which they come, from the second on */
    bool locks;          /* it may wait for another writer */
    bool deferrable;     /* its outcome need not be known at once */
    bool sent;           /* and it was sent so */
    uint32_t name;       /* of the prepared statement, or 0 */
    uint32_t generation; /* of the connection that knows it */
    qp_pg_param *params;
    size_t n;
    size_t capacity;
    Oid *types; /* as the statement was first prepared */
    qp_buf lists;
    PGresult *result; /* of the run under way */
    int row;
    uint32_t rollbacks; /* when it ran in a transaction */
    uint32_t transaction;
    bool in_transaction;
};

static bool stmt_ends(quipu_str sql, const char *end)
{
    const size_t n = strlen(end);

    return sql.n > n && memcmp(sql.p + sql.n - n, end, n) == 0;
}

quipu_status qp_pg_prepare(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr)
{
    qp_statement *statement = qp_calloc(1, sizeof(*statement));
    char *text = qp_malloc(sql.n + 1);

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

/* Forget statements at the server, together with what is sent anyway: a round trip of its own could
 * lose the open transaction where nobody would be told. */
static void stmt_send_deallocate(qp_pg *conn)
{
    char sql[64];

    if (conn->deallocate_count < STMT_DEALLOCATE_MIN) {
        return;
    }
    for (size_t i = 0; i < conn->deallocate_count; i++) {
        (void)snprintf(sql, sizeof(sql), "DEALLOCATE ent_%u", (unsigned)conn->deallocate[i]);
        qp_pg_send(conn, sql);
    }
    conn->deallocate_count = 0;
}

void qp_pg_finalize(qp_statement *statement)
{
    if (statement == NULL) {
        return;
    }
    qp_pg *conn = statement->conn;

    /* One that finds no place is forgotten with the connection. */
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

static quipu_status stmt_room(qp_statement *statement, size_t n, quipu_error *reterr)
{
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

quipu_status qp_pg_bind(qp_statement *statement, const qp_value *values, size_t n,
                        quipu_error *reterr)
{
    quipu_status status = stmt_room(statement, n, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    qp_buf_reset(&statement->lists);
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        qp_pg_param *param = &statement->params[i];

        if (values[i].kind == QP_LIST || values[i].kind == QP_WORDS) {
            /* Later lists may move the buffer: only the place is kept. */
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

static bool stmt_is_prepared(const qp_statement *statement)
{
    return statement->name != 0 && statement->generation == statement->conn->generation;
}

static quipu_status stmt_take_types(qp_statement *statement, quipu_error *reterr)
{
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

static void stmt_send_prepare(qp_statement *statement)
{
    qp_pg *conn = statement->conn;
    char name[QP_PG_STATEMENT_SIZE];

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

/* Send the execution, or another text with the same values; the arrays live until libpq has copied
 * them. */
static quipu_status stmt_send_run(qp_statement *statement, const char *text, quipu_error *reterr)
{
    const size_t n = statement->n;
    qp_pg *conn = statement->conn;
    char name[QP_PG_STATEMENT_SIZE];
    const char **values = qp_calloc(n + 1, sizeof(*values));
    int *lengths = qp_calloc(2 * n + 1, sizeof(*lengths));
    int *formats;
    int sent = 0;

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

/* After a failure inside a transaction: undo what the guard holds, or give all up. */
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

/* Where the parts of a statement stand in its batch. */
typedef struct stmt_layout {
    int begun;   /* so many commands before it */
    bool begins; /* they begin the transaction */
    bool guard;
    int guarded;  /* place of the savepoint */
    bool fresh;   /* it is prepared now */
    int prepared; /* place of that */
} stmt_layout;

/* One batch: what was put off, the guard, the preparation, the statement. */
static quipu_status stmt_send(qp_statement *statement, stmt_layout *layout, int *ret_wanted,
                              quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    qp_pg_batch(conn);
    stmt_send_deallocate(conn);
    qp_pg_send_closing(conn);
    qp_pg_send_pending_tx(conn);
    layout->begun = conn->sent;
    if (!conn->in_transaction) {
        qp_pg_send_tenant(conn); /* a batch is a transaction, too */
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

/* A batch that failed: what is left of the statement and of the transaction. */
static void stmt_failed(qp_statement *statement, const stmt_layout *layout, const qp_pg_call *call,
                        bool in_transaction, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const bool unbegun = layout->begins && conn->interrupt.stopped == QUIPU_OK &&
                         (call->failure == NULL || call->failed < layout->begun);

    if (layout->fresh && call->failed <= layout->prepared) {
        statement->name = 0;
    }
    if (in_transaction) {
        /* What a repeat may mend must be repeated from the transaction's start. */
        stmt_recover(conn, layout->guard && call->failed > layout->guarded && !conn->transient);
    }
    if (call->failure != NULL) {
        qp_pg_explain_unique(conn, call->failure, reterr);
    }
    conn->transient = conn->transient || unbegun;
}

static bool stmt_is_shared(const qp_pg *conn)
{
    return conn->writes && conn->moved < QP_PG_WRITER_SLOTS;
}

/* Whether the statement needs a savepoint, so that the transaction outlives its failure. Whoever
 * writes beside others does not ask for that, and is spared two commands a statement. */
static bool stmt_needs_guard(const qp_statement *statement, bool fresh)
{
    return !stmt_is_shared(statement->conn) && (fresh || statement->writes);
}

/* Run the batch and take its result; `status` is that of what was sent. */
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
        /* Whoever could live with the failure must hear of the transaction that went with it. */
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

static quipu_status stmt_try(qp_statement *statement, bool in_transaction, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const bool begins = conn->writes && qp_pg_is_begin_pending(conn);
    stmt_layout layout = {.begins = begins, .fresh = !stmt_is_prepared(statement)};
    qp_pg_call call = {
        .doing = statement->writes ? "cannot write to" : "cannot read",
        .deadline_ns = statement->locks || begins ? qp_interrupt_deadline(&conn->interrupt) : 0};
    quipu_status status = layout.fresh ? stmt_take_types(statement, reterr) : QUIPU_OK;

    if (status != QUIPU_OK) {
        return status;
    }
    layout.guard = in_transaction && stmt_needs_guard(statement, layout.fresh);
    status = stmt_send(statement, &layout, &call.wanted, reterr);
    return stmt_take(statement, &layout, &call, in_transaction, status, reterr);
}

/* The first statement of whoever writes beside others begins the transaction, too. Where that fails
 * for a reason that may pass, nothing was done yet: it begins with the patience of a beginning. */
static quipu_status stmt_run(qp_statement *statement, bool in_transaction, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const bool begins = conn->writes && qp_pg_is_begin_pending(conn) && conn->pending_tx_count == 1;
    quipu_error error = {0};
    quipu_status status = stmt_try(statement, in_transaction, &error);

    if (status != QUIPU_OK && begins && conn->transient) {
        status = qp_pg_begin_shared(conn, &error);
        status = status == QUIPU_OK ? stmt_try(statement, true, &error) : status;
    }
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* ---- rows in pieces ---------------------------------------------------------------------------
 */

/* Whether rows may follow those of the result. */
static bool stmt_has_more(const qp_statement *statement)
{
    const qp_pg_cursor *cursor = &statement->cursor;

    return statement->chunked &&
           PQntuples(statement->result) ==
               (cursor->number != 0 ? cursor->requested_rows : QP_PG_CHUNK_FIRST);
}

static quipu_status stmt_send_declare(qp_statement *statement, int skip, quipu_error *reterr)
{
    const quipu_str select = {statement->sql, statement->sql_n - strlen(QP_PG_CHUNKED)};
    quipu_status status;
    qp_buf text;

    qp_buf_init(&text, STMT_TEXT_MAX);
    qp_pg_cursor_declare(statement->conn, &statement->cursor, select, skip, &text);
    status = qp_buf_status(&text);
    status = status == QUIPU_OK ? stmt_send_run(statement, qp_buf_str(&text).p, reterr)
                                : qp_error_set(reterr, status, "no memory to read on");
    qp_buf_free(&text);
    return status;
}

/* The next piece takes the place of the result. The first of a cursor begins behind `skip` rows. */
static quipu_status stmt_next_chunk(qp_statement *statement, int skip, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    const stmt_layout layout = {.guard = false};
    qp_pg_call call = {.doing = "cannot read"};
    quipu_status status = QUIPU_OK;

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

/* A statement outside of a transaction, in one of its own where it writes. *ret_ends: a commit was
 * asked for, and its failure says nothing about what is stored. */
static quipu_status stmt_try_autocommit(qp_statement *statement, bool *ret_committing,
                                        quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    *ret_committing = false;
    PQclear(statement->result); /* of a try whose commit failed */
    statement->result = NULL;
    if (!statement->writes) {
        status = qp_pg_ensure_connected(conn, reterr);
        return status == QUIPU_OK ? stmt_run(statement, false, reterr) : status;
    }
    status = qp_pg_begin(conn, 0, ENT_WRITE, reterr);
    if (status == QUIPU_OK) {
        status = stmt_run(statement, true, reterr);
        if (status == QUIPU_OK) {
            status = qp_pg_commit(conn, 0, reterr);
            *ret_committing =
                status != QUIPU_BUSY; /* a conflict is told before anything is stored */
        } else if (conn->in_transaction) {
            qp_pg_rollback(conn, 0);
        }
    }
    return status;
}

static quipu_status stmt_run_autocommit(qp_statement *statement, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    quipu_error error = {0};
    quipu_status status;
    bool ends = false;
    int attempts = 0;

    do {
        status = stmt_try_autocommit(statement, &ends, &error);
        attempts++;
    } while (status != QUIPU_OK && !ends && conn->transient && attempts < QP_ATTEMPTS_MAX &&
             qp_pg_backoff(conn, deadline_ns));
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* Only what the server has prepared already: whether it could was never asked. */
static bool stmt_may_defer(const qp_statement *statement)
{
    const qp_pg *conn = statement->conn;

    return statement->deferrable && conn->in_transaction && stmt_is_shared(conn) &&
           stmt_is_prepared(statement) && conn->deferred_writes < QP_PG_DEFERRED_WRITES_MAX;
}

static quipu_status stmt_send_deferred(qp_statement *statement, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    qp_pg_batch(conn);
    if (!conn->short_lock_timeout && !qp_pg_is_begin_pending(conn)) {
        qp_pg_send_fixed(conn, QP_PG_SET_LOCK_TIMEOUT);
    }
    conn->short_lock_timeout = true;
    qp_pg_send_pending_tx(conn);
    status = stmt_send_run(statement, NULL, reterr);
    conn->deferred_writes = conn->sent;
    conn->total_changes++; /* or more, or none */
    statement->sent = true;
    return status;
}

static quipu_status stmt_start(qp_statement *statement, quipu_error *reterr)
{
    qp_pg *conn = statement->conn;
    quipu_status status;

    statement->in_transaction = conn->in_transaction;
    if (stmt_may_defer(statement)) {
        return stmt_send_deferred(statement, reterr);
    }
    status = conn->in_transaction ? stmt_run(statement, true, reterr)
                                  : stmt_run_autocommit(statement, reterr);
    statement->transaction = conn->transactions;
    if (status == QUIPU_OK && conn->in_transaction && conn->writes && stmt_has_more(statement)) {
        /* It may change what the rest would be found by, and so may others: all from the start. */
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

quipu_status qp_pg_step(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                        bool *ret_row, quipu_error *reterr)
{
    if (statement->result == NULL && !statement->sent) {
        quipu_status status = stmt_start(statement, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    if (statement->sent) {
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

void qp_pg_defer(qp_statement *statement)
{
    statement->deferrable = true;
}

void qp_pg_reset(qp_statement *statement)
{
    statement->deferrable = false;
    statement->sent = false;
    qp_pg_cursor_end(statement->conn, &statement->cursor);
    PQclear(statement->result);
    statement->result = NULL;
}

/* ---- text with several commands ---------------------------------------------------------------
 */

/* Inside a transaction: guarded, and with waits for tables that end before the call's patience. */
static quipu_status stmt_execute_guarded(qp_pg *conn, quipu_str sql, quipu_error *reterr)
{
    qp_buf text;
    quipu_status status;

    qp_buf_init(&text, STMT_TEXT_MAX);
    if (!conn->lock_timeout_set) {
        qp_buf_printf(&text, "SET LOCAL lock_timeout = %d;\n", (int)conn->interrupt.busy_ms);
    }
    qp_buf_puts(&text, "SAVEPOINT ent_guard;\n");
    qp_buf_put(&text, sql);
    qp_buf_puts(&text, ";\nRELEASE SAVEPOINT ent_guard");
    status = qp_buf_status(&text);
    if (status != QUIPU_OK) {
        (void)qp_error_set(reterr, status, "no memory for a change of the schema");
    } else {
        conn->lock_timeout_set = true;
        status = qp_pg_run_text(conn, qp_buf_str(&text).p, reterr);
        if (status != QUIPU_OK) {
            stmt_recover(conn, true);
            status = conn->pg == NULL ? qp_pg_fail_lost(conn, "cannot change", reterr) : status;
        }
    }
    qp_buf_free(&text);
    return status;
}

quipu_status qp_pg_execute(void *conn, quipu_str sql, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {.doing = "cannot change",
                       .wanted = -1,
                       .deadline_ns = qp_interrupt_deadline(&self->interrupt)};
    quipu_status status = QUIPU_OK;

    if (!self->in_transaction) {
        status = qp_pg_ensure_connected(self, reterr);
        return status == QUIPU_OK ? qp_pg_run_text(self, sql.p, reterr) : status;
    }
    if (self->pending_tx_count > 0 || self->deferred_writes > 0 || self->closing_count > 0) {
        qp_pg_batch(self);
        qp_pg_send_closing(self); /* an open cursor would keep its table from being changed */
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
