/* The connection: made over an engine, entered by every call, counted, traced, closed.
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

/* The engine's table may be newer than this runtime, never older. */
quipu_status qp_db_new(const qp_engine *engine, void *conn, bool read_only, ent_db **ret_db,
                       quipu_error *reterr)
{
    ent_db *db = qp_calloc(1, sizeof(*db));

    assert(ret_db != NULL);
    assert(engine->version >= 1);
    if (db == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a connection");
    }
    db->engine = engine;
    db->conn = conn;
    db->read_only = read_only;
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
    while (db->depth > 0) {
        ent_rollback(db);
    }
    qp_cache_clear(db);
    qp_plan_free(&db->plan);
    qp_older_free(db->older);
    quipu_arena_free(&db->scratch);
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
    if (db->broken != QUIPU_OK) {
        return qp_error_set(reterr, db->broken,
                            "the transaction was rolled back by an earlier failure (%s); call "
                            "ent_rollback and start over",
                            quipu_status_name(db->broken));
    }
    if (db->scratch.head != NULL) {
        quipu_arena_reset(&db->scratch);
    }
    return db->older != NULL && db->depth == 0 ? qp_older_refresh(db, reterr) : QUIPU_OK;
}

/* A write inside of a read transaction is refused by name instead of by the engine. */
quipu_status qp_db_enter_write(ent_db *db, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (db->read_only) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the store was opened read-only; open it for writing");
    }
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
    if (status != QUIPU_OK && db->depth > 0 && db->broken == QUIPU_OK &&
        !db->engine->in_transaction(db->conn)) {
        db->broken = status;
    }
    return status;
}

int64_t qp_db_total_changes(const ent_db *db)
{
    assert(db != NULL);
    return db->engine->total_changes(db->conn);
}

bool qp_db_peer_version(const ent_db *db, int64_t *ret_version)
{
    return db->engine->peer_version != NULL && db->engine->peer_version(db->conn, ret_version);
}

bool qp_db_is_transient(const ent_db *db)
{
    assert(db != NULL);
    return db->engine->is_transient != NULL && db->engine->is_transient(db->conn);
}

/* The backoff has no deadline of its own: it is at most QP_ATTEMPTS_MAX * QP_BACKOFF_MS_MAX long.
 */
bool qp_db_backoff(const ent_db *db, quipu_status status, int tries)
{
    qp_interrupt patient = {.deadline_ns = 0};

    assert(tries >= 1);
    return status != QUIPU_OK && db != NULL && tries < QP_ATTEMPTS_MAX && qp_db_is_transient(db) &&
           qp_interrupt_backoff(&patient, INT64_MAX, QP_BACKOFF_MS_MIN,
                                QP_BACKOFF_MS_MAX - QP_BACKOFF_MS_MIN);
}

bool qp_db_is_broken(const ent_db *db)
{
    assert(db != NULL);
    return db->broken != QUIPU_OK;
}

int64_t qp_db_clock(const ent_db *db)
{
    assert(db != NULL);
    return db->trace == NULL ? 0 : qp_clock_ns();
}

/* A hook that was set while the statement ran has no start to count from. */
void qp_db_executed(ent_db *db, const char *sql, int64_t start_ns, uint64_t rows, bool cached,
                    quipu_status status)
{
    assert(sql != NULL);
    db->stats.statements++;
    db->stats.rows += rows;
    if (db->trace != NULL) {
        int64_t ns = qp_clock_ns() - start_ns;
        const ent_trace_event event = {.sql = sql,
                                       .ns = start_ns == 0 || ns < 0 ? 0 : (uint64_t)ns,
                                       .rows = rows,
                                       .cached = cached,
                                       .status = status};
        db->trace(db->trace_ctx, &event);
    }
}

ent_stats ent_stats_read(const ent_db *db)
{
    static const ent_stats none = {0};

    return db == NULL ? none : db->stats;
}

void ent_trace(ent_db *db, ent_trace_fn fn, void *ctx)
{
    if (db != NULL) {
        db->trace = fn;
        db->trace_ctx = ctx;
    }
}

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
