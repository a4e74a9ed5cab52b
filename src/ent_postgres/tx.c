/* Transactions of the server engine. Writers have seats, rows of the engine's own table: whoever
 * changes only rows that it locks moves its own seat, whoever must be alone moves all of them, and
 * the rows' locks let in either several of the first or one of the second, in the order in which
 * they came. The sum of the seats is the version of the data. Savepoints, and the beginning of
 * whoever writes beside others, wait for a statement to travel with. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

#define TX_ATTEMPTS_MAX 1000 /* a begin that meets so many conflicts has met something else */
#define TX_TEXT_MAX 2048

/* The rows of the engine's own table, those that are not there. */
static quipu_status tx_make_rows(qp_pg *conn, quipu_error *reterr)
{
    qp_buf sql;
    quipu_status status;

    qp_buf_init(&sql, TX_TEXT_MAX);
    qp_buf_puts(&sql, "INSERT INTO \"" QP_PG_TABLE "\" (\"name\", \"last\") VALUES "
                      "('" QP_PG_IDENTITY "', 0), ('" QP_PG_WRITER_SLOTS_ASSIGNED "', 0)");
    for (unsigned i = 0; i < QP_PG_WRITER_SLOTS; i++) {
        qp_buf_printf(&sql, ", ('" QP_PG_WRITER_SLOT_NAME "%02u', 0)", i);
    }
    qp_buf_puts(&sql, " ON CONFLICT (\"name\") DO NOTHING");
    status = qp_buf_status(&sql);
    status = status == QUIPU_OK
                 ? qp_pg_run_text(conn, qp_buf_str(&sql).p, reterr)
                 : qp_error_set(reterr, status, "no memory for the rows of \"" QP_PG_TABLE "\"");
    qp_buf_free(&sql);
    return status;
}

quipu_status qp_pg_make_table(qp_pg *conn, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = qp_pg_run_text(conn,
                                         "CREATE TABLE IF NOT EXISTS \"" QP_PG_TABLE
                                         "\" (\"name\" text COLLATE \"C\" NOT NULL "
                                         "PRIMARY KEY, \"last\" bigint NOT NULL)",
                                         &error);

    /* Of two that make it together the server may refuse one with a broken key of its catalog. */
    if (status == QUIPU_OK || status == QUIPU_EXISTS || status == QUIPU_UNSUPPORTED) {
        status = tx_make_rows(conn, reterr);
    } else if (reterr != NULL) {
        *reterr = error;
    }
    return status;
}

void qp_pg_rollback_all(qp_pg *conn)
{
    qp_pg_call call = {.doing = "cannot roll back", .wanted = -1, .no_cancel = true};

    conn->pending_tx_count = 0;
    if (conn->pg != NULL && conn->deferred_writes > 0) {
        (void)qp_pg_run(conn, &call, NULL); /* it cannot be taken back unsent */
        qp_pg_call_done(&call);
    }
    if (!qp_pg_send_read_end(conn) && conn->pg != NULL &&
        PQtransactionStatus(conn->pg) != PQTRANS_IDLE) {
        qp_pg_batch(conn);
        qp_pg_send_fixed(conn, QP_PG_ROLLBACK);
        if (qp_pg_run(conn, &call, NULL) != QUIPU_OK && conn->pg != NULL) {
            qp_pg_drop(conn);
        }
        qp_pg_call_done(&call);
    }
    conn->in_transaction = false;
    conn->writes = false;
    conn->rollbacks++;
}

/* ---- beginning --------------------------------------------------------------------------------
 */

/* Send what a writer begins with; gives how many seats it moves at least. */
static int64_t tx_send_begin(qp_pg *conn, ent_tx_kind kind)
{
    if (kind == ENT_WRITE) {
        qp_pg_send_fixed(conn, QP_PG_BEGIN_EXCLUSIVE);
        qp_pg_send_fixed(conn, QP_PG_LOCK_WRITER_SLOTS);
        qp_pg_send_fixed(conn, QP_PG_BUMP_WRITER_SLOTS);
        return QP_PG_WRITER_SLOTS;
    }
    if (conn->writer_slot[0] == '\0') {
        qp_pg_send_fixed(conn, QP_PG_ASSIGN_WRITER_SLOT); /* before the transaction, for good */
        return 1;
    }
    qp_pg_send_fixed(conn, QP_PG_BEGIN_SHARED);
    qp_pg_send_fixed(conn, QP_PG_BUMP_WRITER_SLOT);
    return 1;
}

static void tx_set_writing(qp_pg *conn, int64_t moved)
{
    conn->in_transaction = true;
    conn->writes = true;
    conn->moved = moved;
    conn->transient = false;
    conn->number_count = 0; /* others may have moved them */
}

/* The beginning went well. *ret_again: only the seat is taken. */
static void tx_begun(qp_pg *conn, ent_tx_kind kind, const PGresult *result, int64_t moved,
                     bool *ret_retry)
{
    *ret_retry = kind == ENT_WRITE_ROWS && conn->writer_slot[0] == '\0';
    if (*ret_retry) {
        (void)snprintf(conn->writer_slot, sizeof(conn->writer_slot), QP_PG_WRITER_SLOT_NAME "%02u",
                       (unsigned)(qp_pg_int(result, 0, 0) % QP_PG_WRITER_SLOTS));
    } else {
        tx_set_writing(conn, moved);
    }
}

/* One try to begin. *ret_again: nothing is decided, try once more. */
static quipu_status tx_try_write(qp_pg *conn, ent_tx_kind kind, int64_t deadline_ns,
                                 bool *ret_retry, quipu_error *reterr)
{
    qp_pg_call call = {.doing = "cannot write to", .deadline_ns = deadline_ns};
    quipu_status status = qp_pg_ensure_connected(conn, reterr);
    int64_t wanted;
    int64_t moved = 0;
    bool made = true;

    *ret_retry = false;
    if (status != QUIPU_OK) {
        return status;
    }
    qp_pg_batch(conn);
    wanted = tx_send_begin(conn, kind);
    call.wanted = conn->sent - 1;
    status = qp_pg_run(conn, &call, reterr);
    if (status == QUIPU_OK) {
        moved = qp_pg_changed(call.result);
    }
    if (status == QUIPU_OK && moved >= wanted) {
        tx_begun(conn, kind, call.result, moved, ret_retry);
    } else {
        made = conn->pg != NULL && (status == QUIPU_OK || qp_pg_has_sqlstate(&call, "42P01") ||
                                    qp_pg_has_sqlstate(&call, "22012"));
        qp_pg_rollback_all(conn);
        if (made) {
            conn->transient = false;
            status = qp_pg_make_table(conn, reterr);
            *ret_retry = status == QUIPU_OK || conn->transient; /* others make it, too */
        } else {
            /* Nothing was done yet: another connection may serve, or a later try. The role may have
             * a lock_timeout of its own. */
            *ret_retry = conn->transient || qp_pg_has_sqlstate(&call, "55P03");
            if (qp_pg_has_sqlstate(&call, "25006")) {
                qp_pg_drop(conn); /* no longer in charge: look for the one that is */
            }
        }
    }
    qp_pg_call_done(&call);
    return status;
}

/* No try was the last word, and there is no time for another. */
static quipu_status tx_deadline_error(const qp_pg *conn, quipu_error *error)
{
    const quipu_error last = *error; /* of the last try, where it failed */
    const bool stopped = conn->interrupt.stopped == QUIPU_CANCELLED;

    return qp_error_set(error, stopped ? QUIPU_CANCELLED : QUIPU_BUSY, "%s%s%s",
                        stopped ? "cancelled before a writer was let in"
                                : "the database let no writer in until the deadline",
                        last.message[0] != '\0' ? "; last: " : "", last.message);
}

static quipu_status tx_begin_write(qp_pg *conn, ent_tx_kind kind, quipu_error *reterr)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    bool retry = true;
    bool in_time = true;

    for (int attempts = 0; retry && in_time && attempts < TX_ATTEMPTS_MAX; attempts++) {
        in_time = attempts <= 1 || qp_pg_backoff(conn, deadline_ns);
        if (in_time) {
            status = tx_try_write(conn, kind, deadline_ns, &retry, &error);
        }
    }
    if (retry && (status == QUIPU_OK || !in_time)) {
        status = tx_deadline_error(conn, &error);
    }
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

quipu_status qp_pg_begin_shared(qp_pg *conn, quipu_error *reterr)
{
    return tx_begin_write(conn, ENT_WRITE_ROWS, reterr);
}

static quipu_status tx_begin_read(qp_pg *conn, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool retry = true;

    for (int attempts = 0; retry && attempts < 2; attempts++) {
        qp_pg_call call = {.doing = "cannot read", .wanted = -1};

        status = qp_pg_ensure_connected(conn, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        qp_pg_batch(conn);
        qp_pg_send_fixed(conn, QP_PG_BEGIN_READ);
        qp_pg_send_fixed(conn, QP_PG_SNAPSHOT); /* the snapshot is that of the first statement */
        status = qp_pg_run(conn, &call, reterr);
        retry = conn->pg == NULL || qp_pg_has_sqlstate(&call, "26000");
        qp_pg_call_done(&call);
        if (status != QUIPU_OK) {
            qp_pg_rollback_all(conn);
        }
    }
    conn->in_transaction = status == QUIPU_OK;
    return status;
}

/* Savepoints that are set again after as many were released, with nothing between: more cannot wait
 * at a time, because setting and releasing the same one leaves nothing. */
static void tx_push_pending(qp_pg *conn, int depth)
{
    assert(conn->pending_tx_count < QP_PG_PENDING_TX_MAX);
    conn->pending_tx[conn->pending_tx_count++] = (int16_t)depth;
}

quipu_status qp_pg_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = QUIPU_OK;

    if (depth == 0) {
        self->pending_tx_count = 0;
        self->lock_timeout_set = false;
        self->short_lock_timeout = false;
        self->transactions++;
        if (kind == ENT_WRITE || (kind == ENT_WRITE_ROWS && self->writer_slot[0] == '\0')) {
            return tx_begin_write(self, kind, reterr);
        }
        if (kind == ENT_READ) {
            return tx_begin_read(self, reterr);
        }
        status = qp_pg_ensure_connected(self, reterr);
        self->in_transaction = status == QUIPU_OK;
        if (status == QUIPU_OK && kind == ENT_WRITE_ROWS) {
            tx_set_writing(self, 1);
        }
    }
    if (status == QUIPU_OK) {
        tx_push_pending(self, depth);
    }
    return status;
}

/* ---- ending -----------------------------------------------------------------------------------
 */

bool qp_pg_is_begin_pending(const qp_pg *conn)
{
    return conn->pending_tx_count > 0 && conn->pending_tx[0] == 0;
}

/* Where the COMMIT has not been sent, a lost connection leaves nothing unknown. */
static quipu_status tx_lost_before_commit(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_drop(conn);
    conn->transient = true;
    return qp_error_set(reterr, QUIPU_BUSY,
                        "cannot commit to the database: the connection was lost before, and "
                        "nothing is stored");
}

static quipu_status tx_commit(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call = {.doing = "cannot commit to", .no_cancel = true};
    quipu_status status;

    if (qp_pg_is_begin_pending(conn)) {
        conn->pending_tx_count = 0;
        conn->in_transaction = false;
        conn->writes = false;
        return QUIPU_OK;
    }
    if (qp_pg_peer_closed(conn)) {
        return tx_lost_before_commit(conn, reterr);
    }
    qp_pg_batch(conn);
    qp_pg_send_pending_tx(conn);
    if (conn->writes) {
        qp_pg_send_numbers(conn);
    }
    qp_pg_send_fixed(conn, QP_PG_COMMIT);
    call.wanted = conn->sent - 1;
    status = qp_pg_run(conn, &call, reterr);
    if (status == QUIPU_OK && strcmp(PQcmdStatus(call.result), "COMMIT") != 0) {
        status = qp_error_set(reterr, QUIPU_CANCELLED,
                              "the server had rolled the transaction back before its commit");
    } else if (status == QUIPU_OK && conn->unreplicated) {
        conn->transient = true;
        status = qp_error_set(reterr, QUIPU_IO,
                              "the commit is on one machine only: the wait for a standby was cut "
                              "short");
    }
    conn->own_bumps += conn->writes && status == QUIPU_OK ? conn->moved : 0;
    if (status != QUIPU_OK) {
        qp_pg_rollback_all(conn);
    }
    conn->in_transaction = false;
    conn->writes = false;
    qp_pg_call_done(&call);
    return status;
}

quipu_status qp_pg_commit(void *conn, int depth, quipu_error *reterr)
{
    qp_pg *self = conn;

    if (depth == 0) {
        return tx_commit(self, reterr);
    }
    if (self->pending_tx_count > 0 && self->pending_tx[self->pending_tx_count - 1] == depth) {
        self->pending_tx_count--; /* nothing happened in it */
        return QUIPU_OK;
    }
    tx_push_pending(self, -depth);
    return QUIPU_OK;
}

/* Undo a savepoint that the server knows; a failure gives the transaction up. */
static void tx_rollback_to(qp_pg *conn, int depth)
{
    qp_pg_call call = {.doing = "cannot roll back", .wanted = -1, .no_cancel = true};
    char sql[64];

    conn->pending_tx_count = 0;
    qp_pg_batch(conn);
    (void)snprintf(sql, sizeof(sql), "ROLLBACK TO SAVEPOINT ent_%d", depth);
    qp_pg_send(conn, sql);
    (void)snprintf(sql, sizeof(sql), "RELEASE SAVEPOINT ent_%d", depth);
    qp_pg_send(conn, sql);
    if (qp_pg_run(conn, &call, NULL) != QUIPU_OK) {
        qp_pg_rollback_all(conn);
    }
    qp_pg_call_done(&call);
    conn->rollbacks++;
}

void qp_pg_rollback(void *conn, int depth)
{
    qp_pg *self = conn;

    if (!self->in_transaction) {
        return; /* it is gone already */
    }
    if (depth == 0) {
        qp_pg_rollback_all(self);
        return;
    }
    for (size_t i = 0; i < self->pending_tx_count; i++) {
        if (self->pending_tx[i] == depth) {
            self->pending_tx_count = i; /* the server has not heard of it */
            return;
        }
    }
    tx_rollback_to(self, depth);
}

bool qp_pg_in_transaction(void *conn)
{
    return ((const qp_pg *)conn)->in_transaction;
}

quipu_status qp_pg_data_version(void *conn, int64_t *ret_version, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {.doing = "cannot read", .wanted = 0};
    quipu_status status = qp_pg_ensure_connected(self, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    qp_pg_batch(self);
    qp_pg_send(self, "SELECT CAST(COALESCE(SUM(\"last\"), 0) AS bigint) FROM \"" QP_PG_TABLE
                     "\" WHERE \"name\">'" QP_PG_WRITER_SLOT_NAME
                     "' AND \"name\"<'" QP_PG_WRITER_SLOT_NEXT "'");
    status = qp_pg_run(self, &call, reterr);
    if (status == QUIPU_OK) {
        /* One's own commits are no news. */
        *ret_version = qp_pg_int(call.result, 0, 0) - self->own_bumps;
    } else if (qp_pg_has_sqlstate(&call, "42P01")) {
        *ret_version = 0;
        status = QUIPU_OK;
    }
    qp_pg_call_done(&call);
    return status;
}
