/* The connection: made over an engine, entered by every call, counted, traced, closed; its
 * transactions, and how long its calls may wait.
 *
 * Owns: struct ent_db from qp_db_new() to ent_close().
 * Called by: the engines' open functions; every file of src/ent; src/store.
 * Locks: none. */
#include "ent/db.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "ent/interrupt.h"
#include "ent/older.h"
#include "ent/owner.h"

/* The engine's table may be newer than this runtime, never older. */
quipu_status qp_db_new(const qp_engine *engine, void *conn, bool read_only, ent_db **ret_db,
                       quipu_error *reterr)
{
    ent_db *db = qp_calloc(1, sizeof(*db));

    assert(ret_db != NULL);
    /* A table that is newer has more members behind those that are used here. */
    assert(engine->version >= 1);
    if (db == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a connection");
    }
    db->engine = engine;
    db->conn = conn;
    db->read_only = read_only;
    /* The plan's lists live in the scratch memory of one call. */
    qp_plan_init(&db->plan, &db->scratch);
    *ret_db = db;
    return QUIPU_OK;
}

/* Open transactions are rolled back, innermost first; statements go before their connection. */
void ent_close(ent_db *db)
{
    if (db == NULL) {
        return;
    }
    /* Rolled back: a program that closes in the middle of its work has not decided to keep it. */
    while (db->depth > 0) {
        ent_rollback(db);
    }
    /* Statements refer to the connection, so that they are finalized before it is closed. */
    qp_cache_clear(db);
    qp_plan_free(&db->plan);
    qp_older_free(db->older);
    quipu_arena_free(&db->scratch);
    qp_free(db->owners);
    qp_free(db->rows);
    db->engine->close(db->conn);
    qp_free(db);
}

/* See db.h. The scratch arena is reset here and not at the end of a call: errors may point into it.
 */
quipu_status qp_db_enter_read(ent_db *db, quipu_error *reterr)
{
    if (db == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the connection is NULL");
    }
    /* Every call but ent_rollback(): a write behind a lost transaction would commit by itself. */
    if (db->broken != QUIPU_OK) {
        return qp_error_set(reterr, db->broken,
                            "the transaction was rolled back by an earlier failure (%s); call "
                            "ent_rollback and start over",
                            quipu_status_name(db->broken));
    }
    if (db->scratch.head != NULL) {
        quipu_arena_reset(&db->scratch);
    }
    /* Once a call and outside of transactions only: inside of one the file cannot change. */
    return db->older != NULL && db->depth == 0 ? qp_older_refresh(db, reterr) : QUIPU_OK;
}

/* A write inside of a read transaction is refused by name instead of by the engine. */
quipu_status qp_db_enter_write(ent_db *db, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    /* Checked here, so that the message names the reason and not the engine's error. */
    if (db->read_only) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the store was opened read-only; open it for writing");
    }
    /* SQLite would try to upgrade the lock and may fail with a conflict in the middle of the
     * work. */
    if (db->depth > 0 && db->kind == ENT_READ) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a read transaction is open; begin it with ENT_WRITE to change rows");
    }
    return QUIPU_OK;
}

/* Only the first failure is kept: the ones that follow are its consequences. */
quipu_status qp_db_failed(ent_db *db, quipu_status status)
{
    assert(db->depth >= 0);
    /* A transaction is open for this struct, and the engine has none open: it has rolled back. */
    if (status != QUIPU_OK && db->depth > 0 && db->broken == QUIPU_OK &&
        !db->engine->in_transaction(db->conn)) {
        db->broken = status;
    }
    return status;
}

/* As the connection found it when it was opened. */
bool qp_db_is_distributed(const ent_db *db)
{
    assert(db != NULL);
    return db->engine->distributed;
}

/* An engine without servers to spread over is refused before it is opened. */
quipu_status qp_db_can_distribute(ent_db *db, bool asked, quipu_error *reterr)
{
    assert(db->depth == 0);
    return db->engine->can_distribute == NULL ? QUIPU_OK
                                              : db->engine->can_distribute(db->conn, asked, reterr);
}

/* Retried where programs that start together meet. */
quipu_status qp_db_distribute(ent_db *db, bool asked, bool *ret_changed, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    assert(db->depth == 0 && ret_changed != NULL);
    *ret_changed = false;
    if (status != QUIPU_OK || db->engine->distribute == NULL) {
        return status;
    }
    status = db->engine->distribute(db->conn, asked, ret_changed, reterr);
    /* Two programs that distribute at the same time conflict; the second finds it done. */
    for (int tries = 1; qp_db_backoff(db, status, tries); tries++) {
        status = db->engine->distribute(db->conn, asked, ret_changed, reterr);
    }
    return status;
}

/* The store compares two readings to learn whether a refused member of a batch wrote anything. */
int64_t qp_db_total_changes(const ent_db *db)
{
    assert(db != NULL);
    return db->engine->total_changes(db->conn);
}

/* False: the engine cannot say at no cost whether others have committed. */
bool qp_db_peer_version(const ent_db *db, int64_t *ret_version)
{
    assert(ret_version != NULL);
    return db->engine->peer_version != NULL && db->engine->peer_version(db->conn, ret_version);
}

/* A hint: engines without a cheaper COMMIT pass it over. */
void qp_db_commit_later(ent_db *db)
{
    assert(db->depth > 0);
    if (db->engine->commit_later != NULL) {
        db->engine->commit_later(db->conn);
    }
}

/* A damaged full-text index counts: the retry passes it over and succeeds. */
qp_failure qp_db_failure(const ent_db *db)
{
    assert(db != NULL);
    return db->index_failed              ? QP_FAILURE_CONFLICT
           : db->engine->failure != NULL ? db->engine->failure(db->conn)
                                         : QP_FAILURE_FINAL;
}

/* Whether the last failure may pass by itself. */
bool qp_db_is_transient(const ent_db *db)
{
    return qp_failure_is_transient(qp_db_failure(db));
}

/* The backoff has no deadline of its own: it is at most QP_ATTEMPTS_MAX * QP_BACKOFF_MS_MAX long.
 */
bool qp_db_backoff(const ent_db *db, quipu_status status, int tries)
{
    /* No deadline and no stop function: the sleep is short, and bounded by the number of
     * attempts. */
    qp_interrupt patient = {.deadline_ns = 0};

    assert(tries >= 1);
    return status != QUIPU_OK && db != NULL && tries < QP_ATTEMPTS_MAX && qp_db_is_transient(db) &&
           qp_interrupt_backoff(&patient, INT64_MAX, QP_BACKOFF_MS_MIN,
                                QP_BACKOFF_MS_MAX - QP_BACKOFF_MS_MIN);
}

/* Whether the open transaction may be committed. An index that failed is part of it: its entries
 * and the rows would not fit each other. */
bool qp_db_can_go_on(const ent_db *db)
{
    assert(db != NULL);
    return db->broken == QUIPU_OK && !db->index_failed;
}

/* A hook that was set while the statement ran has no start to count from. */
void qp_db_executed(ent_db *db, const char *sql, int64_t start_ns, uint64_t rows, bool cached,
                    quipu_status status)
{
    assert(sql != NULL);
    db->stats.statements++;
    db->stats.rows += rows;
    if (db->trace != NULL) {
        /* 0 was stored where no hook was set when the statement began. */
        int64_t ns = qp_clock_ns() - start_ns;
        const ent_trace_event event = {.sql = sql,
                                       .ns = start_ns == 0 || ns < 0 ? 0 : (uint64_t)ns,
                                       .rows = rows,
                                       .cached = cached,
                                       .status = status};
        db->trace(db->trace_ctx, &event);
    }
}

/* Counters of this connection, read by its own thread. */
ent_stats ent_stats_read(const ent_db *db)
{
    /* Zeros for a NULL connection: programs read statistics on their way out. */
    static const ent_stats none = {0};

    return db == NULL ? none : db->stats;
}

/* Clocks are read only while a hook is set: a statement pays nothing for a trace that is off. */
void ent_trace(ent_db *db, ent_trace_fn fn, void *ctx)
{
    if (db != NULL) {
        db->trace = fn;
        db->trace_ctx = ctx;
    }
}

/* Deadline 0 ends the watch. The engine looks at both while a statement waits or runs. */
void ent_watch(ent_db *db, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    if (db != NULL) {
        db->engine->set_interrupt(db->conn, deadline_ns, stop, ctx);
    }
}

/* Retried like a transaction: it is a read of its own. */
quipu_status ent_data_version(ent_db *db, int64_t *ret_version, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

    if (status == QUIPU_OK && (ret_version == NULL || db->depth > 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "the data version needs a place, and no transaction open: a snapshot "
                              "does not change");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = db->engine->data_version(db->conn, ret_version, reterr);
    for (int tries = 1; qp_db_backoff(db, status, tries); tries++) {
        status = db->engine->data_version(db->conn, ret_version, reterr);
    }
    return status;
}

/* Whether writers of different rows can run side by side. */
bool qp_db_locks_rows(const ent_db *db)
{
    return db->engine->row_lock != NULL;
}

/* In ascending order, which the assertion demands: writers that lock several never wait for each
 * other in a circle. */
quipu_status qp_db_lock_keys(ent_db *db, const ent_entity *entity, const uint32_t *shards, size_t n,
                             bool touch, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    assert(db->depth > 0 && n > 0);
    for (size_t i = 1; i < n; i++) {
        assert(shards[i - 1] < shards[i]);
    }
    if (status != QUIPU_OK || db->engine->lock_keys == NULL) {
        return status;
    }
    status = db->engine->lock_keys(db->conn, entity->table, shards, n, touch, reterr);
    return status == QUIPU_OK ? QUIPU_OK : qp_db_failed(db, status);
}

/* ---- transactions ----------------------------------------------------------------------------
 * Nested by savepoints. Own depth, kind and, with qp_db_failed(), broken; db.h has the states.
 */

/* Inside of a transaction it begins a savepoint. QP_TX_DEFERRED, which only this room passes, is an
 * ENT_READ that the engine begins in another way. */
quipu_status ent_begin(ent_db *db, ent_tx_kind kind, quipu_error *reterr)
{
    /* Both kinds write; they differ in what else may write meanwhile. */
    const bool writes = kind == ENT_WRITE || kind == ENT_WRITE_ROWS;
    quipu_status status = writes ? qp_db_enter_write(db, reterr) : qp_db_enter_read(db, reterr);
    int64_t start_ns;

    if (status == QUIPU_OK && !writes && kind != ENT_READ && kind != QP_TX_DEFERRED) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "begin a transaction with ENT_READ, ENT_WRITE or ENT_WRITE_ROWS");
    }
    /* Bounded, because each level is a savepoint that the engine keeps. */
    if (status == QUIPU_OK && db->depth > ENT_SAVEPOINT_MAX) {
        status = qp_error_set(reterr, QUIPU_LIMIT, "more than %d transactions inside each other",
                              ENT_SAVEPOINT_MAX);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* A new transaction has met no damage; a savepoint shares what its transaction met. */
    db->index_failed &= db->depth > 0;
    start_ns = db->trace == NULL ? 0 : qp_clock_ns();
    status = db->engine->begin(db->conn, db->depth, kind, reterr);
    qp_db_executed(db, db->depth > 0 ? "SAVEPOINT" : "BEGIN", start_ns, 0, true, status);
    if (status != QUIPU_OK) {
        return qp_db_failed(db, status);
    }
    /* A savepoint does not change what the transaction may do. */
    if (db->depth == 0) {
        db->kind = writes ? kind : ENT_READ;
    }
    db->depth++;
    assert(db->broken == QUIPU_OK);
    return QUIPU_OK;
}

/* Saves the round trip of ENT_READ where the snapshot of the first read is good enough. */
quipu_status qp_begin_reading(ent_db *db, quipu_error *reterr)
{
    /* SQLite's snapshot costs nothing: there it is taken at once. */
    const bool late = db->engine->deferred_snapshots;

    assert(db != NULL);
    return ent_begin(db, late ? QP_TX_DEFERRED : ENT_READ, reterr);
}

/* A commit that fails ends the transaction: it is rolled back. A savepoint whose release fails
 * stays, for the caller to roll back. QUIPU_INVALID is a deferred foreign key. */
quipu_status ent_commit(ent_db *db, quipu_error *reterr)
{
    quipu_status status;
    int64_t start_ns;

    /* A COMMIT without BEGIN is an error of the program, not of its data. */
    if (db == NULL || db->depth == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "no transaction is open");
    }
    status = qp_db_enter_read(db, reterr);
    if (status == QUIPU_OK) {
        start_ns = db->trace == NULL ? 0 : qp_clock_ns();
        status = db->engine->commit(db->conn, db->depth - 1, reterr);
        qp_db_executed(db, db->depth > 1 ? "RELEASE" : "COMMIT", start_ns, 0, true, status);
        if (status != QUIPU_OK) {
            status = qp_db_failed(db, status);
        }
        /* The engine's words name a constraint that the schema does not have. */
        if (status == QUIPU_INVALID) {
            (void)qp_error_field(reterr, status, NULL, NULL, "reference",
                                 "a row refers to one that does not exist; the transaction was "
                                 "rolled back");
        }
    }
    if (status == QUIPU_OK) {
        /* The level counts as ended only now: a failed RELEASE leaves its savepoint to the
         * caller. */
        assert(db->broken == QUIPU_OK);
        db->depth--;
        /* SQLite leaves a transaction open whose COMMIT failed. */
    } else if (db->depth == 1) {
        ent_rollback(db);
    }
    return status;
}

/* Ends one level. A savepoint that the engine could not roll back alone takes the transaction with
 * it. Where the engine has rolled everything back already, the levels are only counted down, and
 * the outermost one makes the connection usable again. */
void ent_rollback(ent_db *db)
{
    if (db == NULL || db->depth == 0) {
        return;
    }
    db->depth--;
    if (db->owners != NULL) {
        qp_owners_forget(db);
    }
    if (db->broken == QUIPU_OK) {
        int64_t start_ns = db->trace == NULL ? 0 : qp_clock_ns();
        db->engine->rollback(db->conn, db->depth);
        qp_db_executed(db, db->depth > 0 ? "ROLLBACK TO" : "ROLLBACK", start_ns, 0, true, QUIPU_OK);
        if (db->depth > 0 && !db->engine->in_transaction(db->conn)) {
            db->broken = QUIPU_IO;
        }
    }
    assert(db->depth >= 0);
    if (db->depth == 0) {
        db->broken = QUIPU_OK;
    }
}

/* A failed outermost commit has rolled back already: depth shows it. */
quipu_status qp_tx_end(ent_db *db, quipu_status status, quipu_error *reterr)
{
    int depth = db->depth;

    assert(db->depth > 0);
    if (status == QUIPU_OK) {
        status = ent_commit(db, reterr);
    }
    if (status != QUIPU_OK && db->depth == depth) {
        ent_rollback(db);
    }
    return status;
}

/* 0: no transaction; each savepoint adds one. */
int ent_depth(const ent_db *db)
{
    return db == NULL ? 0 : db->depth;
}

/* ---- deadline, cancellation and backoff ------------------------------------------------------
 * For the engines, while they wait; the state is the qp_interrupt of a connection.
 */

/* See ent_watch(). Forgets why an earlier statement was stopped. */
void qp_interrupt_set(qp_interrupt *interrupt, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    assert(deadline_ns >= 0);
    interrupt->deadline_ns = deadline_ns;
    interrupt->stop = stop;
    interrupt->stop_ctx = ctx;
    interrupt->stopped = QUIPU_OK;
}

/* Cancel wins over the deadline: a caller that cancels wants to see that it did. */
bool qp_interrupt_check(qp_interrupt *interrupt)
{
    assert(interrupt != NULL);
    if (interrupt->stop != NULL && interrupt->stop(interrupt->stop_ctx)) {
        interrupt->stopped = QUIPU_CANCELLED;
        return true;
    }
    if (interrupt->deadline_ns != 0 && qp_clock_ns() >= interrupt->deadline_ns) {
        interrupt->stopped = QUIPU_BUSY;
        return true;
    }
    return false;
}

/* The call's own deadline, or busy_ms from now. */
int64_t qp_interrupt_deadline(const qp_interrupt *interrupt)
{
    assert(interrupt->busy_ms >= 0);
    return interrupt->deadline_ns != 0 ? interrupt->deadline_ns
                                       : qp_clock_ns() + interrupt->busy_ms * QP_NS_PER_MS;
}

/* A stop function is not called while it sleeps: sleeps are short. */
bool qp_interrupt_backoff(qp_interrupt *interrupt, int64_t deadline_ns, int32_t min_ms,
                          int32_t more_ms)
{
    int64_t left_ns = deadline_ns - qp_clock_ns();

    assert(min_ms >= 0 && more_ms > 0);
    if (left_ns <= 0 || qp_interrupt_check(interrupt)) {
        return false;
    }
    qp_sleep_jitter(min_ms, more_ms, left_ns);
    return true;
}
