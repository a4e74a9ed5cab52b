/* Transactions of the embedded engine. All savepoints share one name: SQLite then means the
 * innermost, and three prepared statements serve any depth. */
#include "ent_sqlite/stmt.h"

#include <assert.h>

/* Run a statement that is prepared on its first use. */
static int tx_run(qp_sqlite *conn, sqlite3_stmt **stmt, const char *sql)
{
    int rc = SQLITE_OK;

    if (*stmt == NULL) {
        rc = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(*stmt);
        rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
        (void)sqlite3_reset(*stmt);
    }
    return rc;
}

/* SQLite does not ask the busy handler everywhere (recovery of a WAL, for one): repeat until the
 * deadline. */
static int tx_run_patiently(qp_sqlite *conn, sqlite3_stmt **stmt, const char *sql)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    int rc = tx_run(conn, stmt, sql);

    while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(conn, deadline_ns)) {
        rc = tx_run(conn, stmt, sql);
    }
    return rc;
}

quipu_status qp_sqlite_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int rc;

    if (depth > 0) {
        rc = tx_run(self, &self->savepoint, "SAVEPOINT ent");
    } else if (kind == ENT_WRITE || kind == ENT_WRITE_ROWS) {
        rc = tx_run_patiently(self, &self->begin_write, "BEGIN IMMEDIATE");
    } else {
        rc = tx_run(self, &self->begin_read, "BEGIN");
        if (rc == SQLITE_OK && kind == ENT_READ) {
            rc = tx_run_patiently(self, &self->snapshot, "SELECT 1 FROM sqlite_schema LIMIT 1");
            if (rc != SQLITE_OK) {
                quipu_status status = qp_sqlite_fail(self, rc, "cannot read", reterr);
                (void)tx_run(self, &self->rollback, "ROLLBACK");
                return status;
            }
        }
    }
    return rc == SQLITE_OK ? QUIPU_OK
                           : qp_sqlite_fail(self, rc, "cannot begin a transaction on", reterr);
}

quipu_status qp_sqlite_commit(void *conn, int depth, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int rc = depth > 0 ? tx_run(self, &self->release, "RELEASE ent")
                       : tx_run(self, &self->commit, "COMMIT");

    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot commit to", reterr);
}

void qp_sqlite_rollback(void *conn, int depth)
{
    qp_sqlite *self = conn;

    if (sqlite3_get_autocommit(self->db) != 0) {
        return; /* SQLite has rolled back by itself */
    }
    if (depth > 0) {
        int rc = tx_run(self, &self->rollback_to, "ROLLBACK TO ent");
        if (rc == SQLITE_OK) {
            rc = tx_run(self, &self->release, "RELEASE ent");
        }
        if (rc == SQLITE_OK) {
            return;
        }
        /* A savepoint that cannot be undone must not be kept: give the whole transaction up. */
    }
    (void)tx_run(self, &self->rollback, "ROLLBACK");
}

bool qp_sqlite_in_transaction(void *conn)
{
    const qp_sqlite *self = conn;

    return sqlite3_get_autocommit(self->db) == 0;
}

void qp_sqlite_tx_free(qp_sqlite *conn)
{
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

bool qp_sqlite_peer_version(void *conn, int64_t *ret_version)
{
    const qp_sqlite *self = conn;
    unsigned version = 0;

    if (sqlite3_file_control(self->db, "main", SQLITE_FCNTL_DATA_VERSION, &version) != SQLITE_OK) {
        return false;
    }
    *ret_version = (int64_t)version;
    return true;
}

static int tx_data_version(qp_sqlite *conn, int64_t *ret)
{
    int rc = SQLITE_OK;

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

quipu_status qp_sqlite_data_version(void *conn, int64_t *ret_version, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int64_t deadline_ns = qp_interrupt_deadline(&self->interrupt);
    int rc = tx_data_version(self, ret_version);

    while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(self, deadline_ns)) {
        rc = tx_data_version(self, ret_version);
    }
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot read", reterr);
}
