/* Transactions of a SQLite file.
 *
 * Owns: the prepared statements of qp_sqlite for BEGIN, COMMIT and the like.
 * Called by: src/ent through qp_engine.
 * Locks: ENT_WRITE and ENT_WRITE_ROWS are BEGIN IMMEDIATE, the file's one write lock; reads are
 * BEGIN and hold a WAL snapshot. SQLite has one writer at a time, so that row locks would add
 * nothing.
 *
 *   ENT_READ         BEGIN + a read        the snapshot of this call
 *   QP_TX_DEFERRED   BEGIN                 the snapshot of the first statement
 *   depth > 0        SAVEPOINT ent         all share one name: SQLite means the innermost one
 */
#include "ent_sqlite/stmt.h"

#include <assert.h>

#include "ent_sqlite/identity.h"

#define TX_NOW 0 /* a deadline of tx_run(): it does not wait */

/* Runs one of the statements, and prepares it with its first use. Reset at once, so that no
 * statement of a transaction stays active: an active one would make COMMIT keep the read lock.
 *
 * The progress handler is off meanwhile. SQLite asks it after the last step, too: a BEGIN or COMMIT
 * that has done its work would be reported as interrupted, and a ROLLBACK might not happen. While a
 * BEGIN waits for the lock the busy handler asks instead, before anything is done. It covers most
 * waits; WAL recovery and a checkpoint at its start return SQLITE_BUSY without calling it: those
 * are repeated until the deadline. */
static int tx_run(qp_sqlite *conn, sqlite3_stmt **stmt, const char *sql, int64_t deadline_ns)
{
    int rc = SQLITE_OK;

    assert(stmt != NULL && sql != NULL);
    do {
        if (*stmt == NULL) {
            rc = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL);
        }
        if (*stmt != NULL) {
            assert(!conn->no_interrupt);
            conn->no_interrupt = true;
            rc = sqlite3_step(*stmt);
            rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
            (void)sqlite3_reset(*stmt);
            conn->no_interrupt = false;
        }
    } while ((rc & 0xff) == SQLITE_BUSY && deadline_ns != TX_NOW &&
             qp_sqlite_wait(conn, deadline_ns));
    return rc;
}

/* A read that could not take its snapshot leaves no transaction behind. */
quipu_status qp_sqlite_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int rc;

    assert(depth >= 0);
    assert(depth > 0 || sqlite3_get_autocommit(self->db) != 0);
    if (depth > 0) {
        rc = tx_run(self, &self->savepoint, "SAVEPOINT ent", TX_NOW);
    } else if (kind == ENT_WRITE || kind == ENT_WRITE_ROWS) {
        quipu_status status = qp_sqlite_check_place(self, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        rc = tx_run(self, &self->begin_write, "BEGIN IMMEDIATE",
                    qp_interrupt_deadline(&self->interrupt));
    } else {
        rc = tx_run(self, &self->begin_read, "BEGIN", TX_NOW);
        if (rc == SQLITE_OK && kind == ENT_READ) {
            rc = tx_run(self, &self->snapshot, "SELECT 1 FROM sqlite_schema LIMIT 1",
                        qp_interrupt_deadline(&self->interrupt));
            if (rc != SQLITE_OK) {
                quipu_status status = qp_sqlite_fail(self, rc, "cannot read", reterr);
                (void)tx_run(self, &self->rollback, "ROLLBACK", TX_NOW);
                return status;
            }
        }
    }
    return rc == SQLITE_OK ? QUIPU_OK
                           : qp_sqlite_fail(self, rc, "cannot begin a transaction on", reterr);
}

/* A COMMIT that fails with SQLITE_BUSY leaves the transaction open; src/ent rolls it back. */
quipu_status qp_sqlite_commit(void *conn, int depth, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int rc = depth > 0 ? tx_run(self, &self->release, "RELEASE ent", TX_NOW)
                       : tx_run(self, &self->commit, "COMMIT", TX_NOW);

    assert(depth >= 0);
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot commit to", reterr);
}

/* SQLite rolls back by itself after SQLITE_FULL, SQLITE_IOERR and SQLITE_NOMEM: nothing is left to
 * do then. A savepoint that cannot be rolled back takes the whole transaction with it: its
 * half-done changes must not be committed. */
void qp_sqlite_rollback(void *conn, int depth)
{
    qp_sqlite *self = conn;

    assert(depth >= 0);
    if (sqlite3_get_autocommit(self->db) != 0) {
        return;
    }
    if (depth > 0) {
        int rc = tx_run(self, &self->rollback_to, "ROLLBACK TO ent", TX_NOW);
        if (rc == SQLITE_OK) {
            rc = tx_run(self, &self->release, "RELEASE ent", TX_NOW);
        }
        if (rc == SQLITE_OK) {
            return;
        }
    }
    (void)tx_run(self, &self->rollback, "ROLLBACK", TX_NOW);
}

/* Autocommit is off exactly inside of a transaction. */
bool qp_sqlite_in_transaction(void *conn)
{
    const qp_sqlite *self = conn;

    assert(self->db != NULL);
    return sqlite3_get_autocommit(self->db) == 0;
}

/* Called before the handle is closed; finalizing NULL does nothing. */
void qp_sqlite_tx_free(qp_sqlite *conn)
{
    assert(conn != NULL);
    (void)sqlite3_finalize(conn->begin_write);
    (void)sqlite3_finalize(conn->begin_read);
    (void)sqlite3_finalize(conn->snapshot);
    (void)sqlite3_finalize(conn->commit);
    (void)sqlite3_finalize(conn->rollback);
    (void)sqlite3_finalize(conn->savepoint);
    (void)sqlite3_finalize(conn->release);
    (void)sqlite3_finalize(conn->rollback_to);
    (void)sqlite3_finalize(conn->data_version);
}

/* The pager's own counter, without a statement: it moves with commits of this connection, too. */
bool qp_sqlite_peer_version(void *conn, int64_t *ret_version)
{
    const qp_sqlite *self = conn;
    unsigned version = 0;

    assert(ret_version != NULL);
    if (sqlite3_file_control(self->db, "main", SQLITE_FCNTL_DATA_VERSION, &version) != SQLITE_OK) {
        return false;
    }
    *ret_version = (int64_t)version;
    return true;
}

/* PRAGMA data_version changes when another connection has committed, and only then. */
static int tx_data_version(qp_sqlite *conn, int64_t *ret)
{
    int rc = SQLITE_OK;

    assert(ret != NULL);
    if (conn->data_version == NULL) {
        rc = sqlite3_prepare_v3(conn->db, "PRAGMA data_version", -1, SQLITE_PREPARE_PERSISTENT,
                                &conn->data_version, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(conn->data_version);
        if (rc == SQLITE_ROW) {
            *ret = sqlite3_column_int64(conn->data_version, 0);
            rc = SQLITE_OK;
        }
        (void)sqlite3_reset(conn->data_version);
    }
    return rc;
}

/* Retried like a read: the PRAGMA may meet WAL recovery. */
quipu_status qp_sqlite_data_version(void *conn, int64_t *ret_version, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int64_t deadline_ns = qp_interrupt_deadline(&self->interrupt);
    int rc = tx_data_version(self, ret_version);

    assert(ret_version != NULL);
    while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(self, deadline_ns)) {
        rc = tx_data_version(self, ret_version);
    }
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot read", reterr);
}

/* ---- deadline and cancellation ---------------------------------------------------------------
 * Checked by the busy handler between two sleeps (open.c), and by the progress handler. Either ends
 * the statement with SQLITE_BUSY or SQLITE_INTERRUPT; interrupt.stopped has the status (error.c).
 */

#define TX_PROGRESS_STEPS 1000 /* about 50 microseconds of work */

/* Non-zero interrupts the statement. */
static int tx_progress(void *ctx)
{
    qp_sqlite *self = ctx;

    assert(self != NULL);
    return !self->no_interrupt && qp_interrupt_check(&self->interrupt) ? 1 : 0;
}

/* The handler stays once it is set: without a deadline it costs one call every 1000 instructions.
 */
void qp_sqlite_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    qp_sqlite *self = conn;

    assert(self->db != NULL);
    assert(deadline_ns >= 0);
    qp_interrupt_set(&self->interrupt, deadline_ns, stop, ctx);
    if (!self->has_progress_handler && (deadline_ns != 0 || stop != NULL)) {
        sqlite3_progress_handler(self->db, TX_PROGRESS_STEPS, tx_progress, self);
        self->has_progress_handler = true;
    }
}
