/* Transactions: how a PostgreSQL transaction begins, holds its writer slots, and ends.
 *
 * Owns: the rows of QP_PG_TABLE that are writer slots, the queue of pending transaction commands,
 * and the data version. Called by src/ent through qp_engine, and by stmt.c for autocommit.
 *
 * Three kinds of transactions, by what they lock:
 *
 *   kind            BEGIN                             slots             others meanwhile
 *   ENT_READ        REPEATABLE READ READ ONLY         none              read and write
 *   ENT_WRITE_ROWS  READ WRITE (the role's level)     own one bumped    write to other rows
 *   ENT_WRITE       READ COMMITTED READ WRITE         all locked        read only
 *
 * Bumping a slot takes its row lock until the end of the transaction. A shared writer locks one, an
 * exclusive writer all of them in name order, so that the row locks admit either up to
 * QP_PG_WRITER_SLOTS shared writers or one exclusive one, in the order in which they queue. Shared
 * writers additionally lock the rows they change (ent_lock(), FOR UPDATE). The sum of all slots
 * rises with every committed write: it is the version of the data.
 *
 * BEGIN of a read or a shared write, SAVEPOINT and RELEASE are queued and travel with the next
 * statement (wire.c). A transaction without a statement never reaches the server. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"

#define TX_ATTEMPTS_MAX 1000 /* a BEGIN that fails this often has another problem than conflicts */
#define TX_TEXT_MAX 2048     /* of the INSERT that makes the rows */

/* Inserts the missing rows of QP_PG_TABLE: the application id, the slot counter and the writer
 * slots. Rows that exist keep their values, so that a store of a version with fewer slots gains the
 * others. */
static quipu_status tx_make_rows(qp_pg *conn, quipu_error *reterr)
{
    qp_buf sql;
    quipu_status status;

    assert(!conn->in_transaction);
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

/* CREATE TABLE IF NOT EXISTS is not atomic with its catalog entries: of two sessions that run it
 * together one may fail with a unique violation in pg_type (23505, QUIPU_EXISTS) or with 42P07. The
 * table exists then, and the rows are inserted all the same. */
quipu_status qp_pg_make_table(qp_pg *conn, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = qp_pg_run_text(conn,
                                         "CREATE TABLE IF NOT EXISTS \"" QP_PG_TABLE
                                         "\" (\"name\" text COLLATE \"C\" NOT NULL "
                                         "PRIMARY KEY, \"last\" bigint NOT NULL)",
                                         &error);

    assert(!conn->in_transaction);
    if (status == QUIPU_OK || status == QUIPU_EXISTS || status == QUIPU_UNSUPPORTED) {
        status = tx_make_rows(conn, reterr);
    } else if (reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* Deferred writes are already with the server: their answers are read before the ROLLBACK. Its own
 * answer is not waited for after a read. A ROLLBACK that fails drops the connection, which rolls
 * back as well. Afterwards !in_transaction && !writes && deferred_writes == 0, always. */
void qp_pg_rollback_all(qp_pg *conn)
{
    qp_pg_call call = {.doing = "cannot roll back", .wanted = -1, .no_cancel = true};

    conn->pending_tx_count = 0;
    if (conn->pg != NULL && conn->deferred_writes > 0) {
        (void)qp_pg_run(conn, &call, NULL);
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
    assert(conn->deferred_writes == 0);
    conn->in_transaction = false;
    conn->writes = false;
    conn->rollbacks++;
}

/* ---- beginning --------------------------------------------------------------------------------
 */

/* Bounds the waits for rows of an exclusive writer, by its deadline and by what others can wait.
 * Sent behind the lock of the slots, for which the deadline alone decides. */
static void tx_send_row_lock_timeout(qp_pg *conn, int64_t deadline_ns)
{
    const int64_t left_ms = (deadline_ns - qp_clock_ns()) / QP_NS_PER_MS;
    const int64_t most_ms = QP_PG_EXCLUSIVE_LOCK_TIMEOUT_MS;
    const int64_t ms = left_ms > most_ms ? most_ms : left_ms < 1 ? 1 : left_ms; /* 0 is "never" */
    char sql[64];

    assert(ms >= 1 && ms <= most_ms);
    (void)snprintf(sql, sizeof(sql), "SET LOCAL lock_timeout = %d", (int)ms);
    qp_pg_send(conn, sql);
}

/* Sends the BEGIN of a writer; returns how many slots it bumps at least. A connection that has no
 * slot yet gets one in a transaction of its own: the counter would otherwise be locked for as long
 * as the first write takes. */
static int64_t tx_send_begin(qp_pg *conn, ent_tx_kind kind, int64_t deadline_ns)
{
    assert(kind == ENT_WRITE || kind == ENT_WRITE_ROWS);
    if (kind == ENT_WRITE) {
        qp_pg_send_fixed(conn, QP_PG_BEGIN_EXCLUSIVE);
        if (conn->locks_table) {
            qp_pg_send(conn, "LOCK TABLE \"" QP_PG_TABLE "\" IN ACCESS EXCLUSIVE MODE");
        }
        qp_pg_send_fixed(conn, QP_PG_LOCK_WRITER_SLOTS);
        tx_send_row_lock_timeout(conn, deadline_ns);
        qp_pg_send_fixed(conn, QP_PG_BUMP_WRITER_SLOTS);
        return QP_PG_WRITER_SLOTS;
    }
    if (conn->writer_slot[0] == '\0') {
        qp_pg_send_fixed(conn, QP_PG_ASSIGN_WRITER_SLOT);
        return 1;
    }
    qp_pg_send_fixed(conn, QP_PG_BEGIN_SHARED);
    qp_pg_send_fixed(conn, QP_PG_BUMP_WRITER_SLOT);
    return 1;
}

/* The transition to a write transaction that has bumped `moved` slots, or will with its BEGIN. */
static void tx_set_writing(qp_pg *conn, int64_t moved)
{
    assert(moved >= 1);
    assert(conn->deferred_writes == 0);
    conn->in_transaction = true;
    conn->writes = true;
    conn->moved = moved;
    conn->failure = QP_FAILURE_FINAL;
    qp_pg_begin_numbers(conn); /* other writers may have taken numbers since */
}

/* The batch of tx_send_begin() succeeded. *ret_retry: it only assigned the slot, the BEGIN follows.
 */
static void tx_begun(qp_pg *conn, ent_tx_kind kind, const PGresult *result, int64_t moved,
                     bool *ret_retry)
{
    assert(result != NULL);
    assert(!conn->in_transaction);
    *ret_retry = kind == ENT_WRITE_ROWS && conn->writer_slot[0] == '\0';
    if (*ret_retry) {
        (void)snprintf(conn->writer_slot, sizeof(conn->writer_slot), QP_PG_WRITER_SLOT_NAME "%02u",
                       (unsigned)(qp_pg_int(result, 0, 0) % QP_PG_WRITER_SLOTS));
    } else {
        tx_set_writing(conn, moved);
    }
}

/* One attempt to begin a write. *ret_retry: the next attempt may succeed, because a slot was
 * assigned, the table was made, a conflict was lost, or another host may be the primary.
 *
 *   result of the batch                          what follows
 *   all wanted slots bumped                      in transaction
 *   42P01 (no table), 22012 or too few slots     make the table and its rows, retry
 *   class 40, 08, 57P, 26000, 55P03              rollback, retry
 *   25006 (read-only server)                     drop the connection, retry: connect finds another
 *   else                                         the error is the answer
 */
static quipu_status tx_try_write(qp_pg *conn, ent_tx_kind kind, int64_t deadline_ns,
                                 bool *ret_retry, quipu_error *reterr)
{
    qp_pg_call call = {.doing = "cannot write to", .deadline_ns = deadline_ns};
    quipu_status status = qp_pg_ensure_connected(conn, reterr);
    int64_t wanted;
    int64_t moved = 0;
    bool made = true;

    assert(!conn->in_transaction);
    assert(ret_retry != NULL);
    *ret_retry = false;
    if (status != QUIPU_OK) {
        return status;
    }
    qp_pg_batch(conn);
    wanted = tx_send_begin(conn, kind, deadline_ns);
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
            conn->failure = QP_FAILURE_FINAL;
            status = qp_pg_make_table(conn, reterr);
            *ret_retry = status == QUIPU_OK || qp_failure_is_transient(conn->failure);
        } else {
            /* Nothing has been written, so every transient failure can be retried. 55P03 is the
             * role's own lock_timeout while it queued for a slot: the call's deadline decides
             * instead. */
            *ret_retry =
                qp_failure_is_transient(conn->failure) || qp_pg_has_sqlstate(&call, "55P03");
            if (qp_pg_has_sqlstate(&call, "25006")) {
                qp_pg_drop(conn);
            }
        }
    }
    qp_pg_call_done(&call);
    return status;
}

/* Attempts were left, time was not: the error says so and quotes the last attempt's own error. */
static quipu_status tx_deadline_error(const qp_pg *conn, quipu_error *error)
{
    const quipu_error last = *error; /* of the last try, where it failed */
    const bool stopped = conn->interrupt.stopped == QUIPU_CANCELLED;

    assert(error != NULL);
    return qp_error_set(error, stopped ? QUIPU_CANCELLED : QUIPU_BUSY, "%s%s%s",
                        stopped ? "cancelled while waiting for a writer slot"
                                : "no writer slot was free until the deadline",
                        last.message[0] != '\0' ? "; last: " : "", last.message);
}

/* Attempts until one is decisive, with backoff from the third on: the second commonly follows an
 * assigned slot or a new table at once. */
static quipu_status tx_begin_write(qp_pg *conn, ent_tx_kind kind, quipu_error *reterr)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    bool retry = true;
    bool in_time = true;

    assert(kind == ENT_WRITE || kind == ENT_WRITE_ROWS);
    assert(!conn->in_transaction);
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

/* For stmt_run(): a statement whose batch held the queued BEGIN failed, and is retried in two
 * steps. */
quipu_status qp_pg_begin_shared(qp_pg *conn, quipu_error *reterr)
{
    assert(!conn->in_transaction);
    return tx_begin_write(conn, ENT_WRITE_ROWS, reterr);
}

/* ENT_READ promises the snapshot of this call. PostgreSQL takes a REPEATABLE READ snapshot with the
 * first query, so that one is sent along. A lost connection, or prepared names lost to a pooler,
 * are retried once: nothing has been read. */
static quipu_status tx_begin_read(qp_pg *conn, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool retry = true;

    assert(!conn->in_transaction);
    for (int attempts = 0; retry && attempts < 2; attempts++) {
        qp_pg_call call = {.doing = "cannot read", .wanted = -1};

        status = qp_pg_ensure_connected(conn, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        qp_pg_batch(conn);
        qp_pg_send_fixed(conn, QP_PG_BEGIN_READ);
        qp_pg_send_fixed(conn, QP_PG_SNAPSHOT);
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

/* Queues a transaction command. The queue cannot overflow: a savepoint that is released before any
 * statement leaves it (qp_pg_commit()), so that it holds at most the releases of all depths
 * followed by as many new savepoints, and the BEGIN. */
static void tx_push_pending(qp_pg *conn, int depth)
{
    assert(depth >= -ENT_SAVEPOINT_MAX && depth <= ENT_SAVEPOINT_MAX);
    assert(conn->pending_tx_count < QP_PG_PENDING_TX_MAX);
    conn->pending_tx[conn->pending_tx_count++] = (int16_t)depth;
}

/* Begins a transaction (depth 0) or a savepoint. Waits for the server only where it must: for an
 * exclusive writer, for a first slot, and for ENT_READ's snapshot. All else is queued. */
quipu_status qp_pg_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = QUIPU_OK;

    assert(depth >= 0 && depth <= ENT_SAVEPOINT_MAX);
    assert(depth > 0 || self->deferred_writes == 0);
    if (depth == 0) {
        self->pending_tx_count = 0;
        self->lock_timeout_set = false;
        self->short_lock_timeout = false;
        self->commit_later = false;
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

/* The engine's commit_later: an asynchronous commit, which frees the row locks without a flush of
 * the log. */
void qp_pg_commit_later(void *conn)
{
    qp_pg *self = conn;

    assert(self->in_transaction && self->writes);
    self->commit_later = true;
}

/* A queued BEGIN is always the first of the queue. */
bool qp_pg_is_begin_pending(const qp_pg *conn)
{
    assert(conn->pending_tx_count <= QP_PG_PENDING_TX_MAX);
    return conn->pending_tx_count > 0 && conn->pending_tx[0] == 0;
}

/* The connection was lost and COMMIT was not sent: the server rolls back, so that the outcome is
 * known and the transaction can be retried. After COMMIT was sent it would be QUIPU_UNKNOWN. */
static quipu_status tx_lost_before_commit(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_drop(conn);
    conn->failure = QP_FAILURE_CONNECTION;
    return qp_error_set(reterr, QUIPU_BUSY,
                        "cannot commit to the database: the connection was lost before the "
                        "commit, and nothing is stored");
}

/* Deferred writes, numbers and COMMIT in one batch. The meaning of the answer:
 *
 *   COMMIT, no warning                 stored
 *   COMMIT with a SyncRep warning      stored here, maybe not at the standby: QUIPU_IO, transient
 *   ROLLBACK                           the transaction was aborted before: QUIPU_CANCELLED
 *   an error before COMMIT             nothing is stored (COMMIT was skipped)
 *   connection lost                    src/ent reports QUIPU_UNKNOWN
 *
 * Idle in every case. A BEGIN that is still pending is thrown away: the server knows nothing of it.
 */
static quipu_status tx_commit(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call = {.doing = "cannot commit to", .no_cancel = true};
    quipu_status status;

    assert(conn->deferred_writes == 0 || conn->writes);
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
    status = conn->writes ? qp_pg_send_numbers(conn, reterr) : QUIPU_OK;
    if (status != QUIPU_OK) {
        qp_pg_drop(conn); /* in the middle of a batch; the server rolls back */
        return status;
    }
    if (conn->commit_later) {
        qp_pg_send_fixed(conn, QP_PG_COMMIT_LATER);
    }
    qp_pg_send_fixed(conn, QP_PG_COMMIT);
    call.wanted = conn->sent - 1;
    conn->committing = true;
    status = qp_pg_run(conn, &call, reterr);
    conn->committing = false;
    if (status == QUIPU_OK && strcmp(PQcmdStatus(call.result), "COMMIT") != 0) {
        status = qp_error_set(reterr, QUIPU_CANCELLED,
                              "the server had rolled the transaction back before its commit");
    } else if (status == QUIPU_OK && conn->unreplicated) {
        conn->failure = QP_FAILURE_CONFLICT;
        status = qp_error_set(reterr, QUIPU_IO,
                              conn->citus ? "the commit is not finished on every worker"
                                          : "the commit is on the primary only: the wait for a "
                                            "synchronous standby was cut short");
    }
    if (conn->writes && status == QUIPU_OK) {
        conn->own_bumps += conn->moved;
        qp_pg_keep_numbers(conn);
    }
    if (status != QUIPU_OK) {
        qp_pg_rollback_all(conn);
    }
    conn->in_transaction = false;
    conn->writes = false;
    qp_pg_call_done(&call);
    return status;
}

/* The engine's commit. A savepoint that is still queued had no statement: it leaves the queue
 * unsent. Otherwise its RELEASE is queued. */
quipu_status qp_pg_commit(void *conn, int depth, quipu_error *reterr)
{
    qp_pg *self = conn;

    assert(depth >= 0 && depth <= ENT_SAVEPOINT_MAX);
    if (depth == 0) {
        return tx_commit(self, reterr);
    }
    if (self->pending_tx_count > 0 && self->pending_tx[self->pending_tx_count - 1] == depth) {
        self->pending_tx_count--;
        return QUIPU_OK;
    }
    tx_push_pending(self, -depth);
    return QUIPU_OK;
}

/* Rolls back to a savepoint that the server has, and releases it. The queue goes with it: whatever
 * it holds is of deeper savepoints, or releases of them. A failure rolls the whole transaction
 * back. */
static void tx_rollback_to(qp_pg *conn, int depth)
{
    qp_pg_call call = {.doing = "cannot roll back", .wanted = -1, .no_cancel = true};
    char sql[64];

    assert(depth > 0 && depth <= ENT_SAVEPOINT_MAX);
    assert(conn->in_transaction);
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

/* The engine's rollback. A savepoint that is still queued is cut off with all that was queued
 * behind it; it was never sent to the server. */
void qp_pg_rollback(void *conn, int depth)
{
    qp_pg *self = conn;

    assert(depth >= 0 && depth <= ENT_SAVEPOINT_MAX);
    if (!self->in_transaction) {
        return; /* rolled back by an earlier failure */
    }
    if (depth == 0) {
        qp_pg_rollback_all(self);
        return;
    }
    for (size_t i = 0; i < self->pending_tx_count; i++) {
        if (self->pending_tx[i] == depth) {
            self->pending_tx_count = i;
            return;
        }
    }
    tx_rollback_to(self, depth);
}

/* False after a failure rolled the transaction back: src/ent then refuses further statements. */
bool qp_pg_in_transaction(void *conn)
{
    assert(conn != NULL);
    return ((const qp_pg *)conn)->in_transaction;
}

/* The sum of the writer slots, less the bumps that this connection committed: it changes when, and
 * only when, another connection has committed a write. 0 where the table does not exist yet. On a
 * distributed store slots are locked and not bumped: the version moves with every question. */
quipu_status qp_pg_data_version(void *conn, int64_t *ret_version, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {.doing = "cannot read", .wanted = 0};
    quipu_status status = qp_pg_ensure_connected(self, reterr);

    assert(ret_version != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    if (self->citus) {
        *ret_version = ++self->own_bumps; /* nothing says so without asking every worker */
        return QUIPU_OK;
    }
    qp_pg_batch(self);
    qp_pg_send(self, "SELECT CAST(COALESCE(SUM(\"last\"), 0) AS bigint) FROM \"" QP_PG_TABLE
                     "\" WHERE \"name\">'" QP_PG_WRITER_SLOT_NAME
                     "' AND \"name\"<'" QP_PG_WRITER_SLOT_NEXT "'");
    status = qp_pg_run(self, &call, reterr);
    if (status == QUIPU_OK) {
        *ret_version = qp_pg_int(call.result, 0, 0) - self->own_bumps;
    } else if (qp_pg_has_sqlstate(&call, "42P01")) {
        *ret_version = 0;
        status = QUIPU_OK;
    }
    qp_pg_call_done(&call);
    return status;
}
