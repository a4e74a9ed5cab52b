/* Transactions, nested by savepoints. See db.h for the states.
 *
 * Owns: ent_db.depth, .kind and, with qp_db_failed(), .broken.
 * Called by: users of include/ent, src/store, and the calls of src/ent that need a transaction.
 * Locks: those of the engine's transaction, by kind. */
#include "ent/db.h"

#include <assert.h>

#include "base/error.h"

/* What cannot begin, with the reason. */
static quipu_status tx_refuse(const ent_db *db, ent_tx_kind kind, quipu_error *reterr)
{
    assert(db->depth >= 0);
    if (kind != ENT_READ && kind != ENT_WRITE && kind != ENT_WRITE_ROWS) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "begin a transaction with ENT_READ, ENT_WRITE or ENT_WRITE_ROWS");
    }
    if (kind != ENT_READ && db->read_only) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the store was opened read-only; open it for writing");
    }
    if (kind != ENT_READ && db->depth > 0 && db->kind == ENT_READ) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a read transaction is open; a write cannot begin inside it");
    }
    if (db->depth > ENT_SAVEPOINT_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "more than %d transactions inside each other",
                            ENT_SAVEPOINT_MAX);
    }
    return QUIPU_OK;
}

/* `kind` is what the transaction may do, `how` the way the engine begins it. */
static quipu_status tx_begin(ent_db *db, ent_tx_kind kind, ent_tx_kind how, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    int64_t start_ns;

    if (status == QUIPU_OK) {
        status = tx_refuse(db, kind, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    start_ns = qp_db_clock(db);
    status = db->engine->begin(db->conn, db->depth, how, reterr);
    qp_db_executed(db, db->depth > 0 ? "SAVEPOINT" : "BEGIN", start_ns, 0, true, status);
    if (status != QUIPU_OK) {
        return qp_db_failed(db, status);
    }
    if (db->depth == 0) {
        db->kind = kind;
    }
    db->depth++;
    return QUIPU_OK;
}

/* Inside of a transaction it begins a savepoint. */
quipu_status ent_begin(ent_db *db, ent_tx_kind kind, quipu_error *reterr)
{
    return tx_begin(db, kind, kind, reterr);
}

quipu_status qp_begin_reading(ent_db *db, quipu_error *reterr)
{
    const bool late = db->engine->deferred_snapshots;

    assert(db != NULL);
    return tx_begin(db, ENT_READ, late ? QP_TX_DEFERRED : ENT_READ, reterr);
}

/* A commit that fails ends the transaction: it is rolled back. A savepoint whose release fails
 * stays, for the caller to roll back. QUIPU_INVALID is a deferred foreign key. */
quipu_status ent_commit(ent_db *db, quipu_error *reterr)
{
    quipu_status status;
    int64_t start_ns;

    if (db == NULL || db->depth == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "no transaction is open");
    }
    status = qp_db_enter_read(db, reterr);
    if (status == QUIPU_OK) {
        start_ns = qp_db_clock(db);
        status = db->engine->commit(db->conn, db->depth - 1, reterr);
        qp_db_executed(db, db->depth > 1 ? "RELEASE" : "COMMIT", start_ns, 0, true, status);
        status = qp_db_failed(db, status);
        if (status == QUIPU_INVALID) {
            (void)qp_error_field(reterr, status, NULL, NULL, "reference",
                                 "a row refers to one that does not exist; the transaction was "
                                 "rolled back");
        }
    }
    if (status == QUIPU_OK) {
        db->depth--;
    } else if (db->depth == 1) {
        ent_rollback(db);
    }
    return status;
}

/* Ends one level. A savepoint that the engine could not roll back alone takes the transaction with
 * it. */
void ent_rollback(ent_db *db)
{
    if (db == NULL || db->depth == 0) {
        return;
    }
    db->depth--;
    if (db->broken == QUIPU_OK) {
        int64_t start_ns = qp_db_clock(db);
        db->engine->rollback(db->conn, db->depth);
        qp_db_executed(db, db->depth > 0 ? "ROLLBACK TO" : "ROLLBACK", start_ns, 0, true, QUIPU_OK);
        if (db->depth > 0 && !db->engine->in_transaction(db->conn)) {
            db->broken = QUIPU_IO;
        }
    }
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

int ent_depth(const ent_db *db)
{
    return db == NULL ? 0 : db->depth;
}
