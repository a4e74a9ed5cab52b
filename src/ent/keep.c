/* Keeping a file in order, over the engine's table. */
#include "ent/keep.h"

#include "base/error.h"
#include "ent/db.h"

/* The engine's table, when the connection is fit for a call that stands outside of transactions. */
static quipu_status keep_enter(ent_db *db, bool writes, const qp_keeper **ret, quipu_error *reterr)
{
    quipu_status status = writes ? qp_db_enter_write(db, reterr) : qp_db_enter_read(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (db->engine->keeper == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "the engine %s cannot do this",
                            db->engine->name);
    }
    *ret = db->engine->keeper;
    return QUIPU_OK;
}

static quipu_status keep_enter_apart(ent_db *db, bool writes, const qp_keeper **ret,
                                     quipu_error *reterr)
{
    quipu_status status = keep_enter(db, writes, ret, reterr);

    if (status == QUIPU_OK && db->depth > 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "end the open transaction first");
    }
    return status;
}

quipu_status qp_keep_sizes(ent_db *db, qp_sizes *ret_sizes, quipu_error *reterr)
{
    const qp_keeper *keeper = NULL;
    quipu_status status = keep_enter(db, false, &keeper, reterr);

    return status == QUIPU_OK ? keeper->sizes(db->conn, ret_sizes, reterr) : status;
}

quipu_status qp_keep_limit(ent_db *db, int64_t max_bytes, quipu_error *reterr)
{
    const qp_keeper *keeper = NULL;
    quipu_status status = keep_enter(db, false, &keeper, reterr);

    return status == QUIPU_OK ? keeper->limit(db->conn, max_bytes, reterr) : status;
}

quipu_status qp_keep_flush(ent_db *db, quipu_error *reterr)
{
    const qp_keeper *keeper = NULL;
    quipu_status status = keep_enter_apart(db, true, &keeper, reterr);

    return status == QUIPU_OK ? keeper->flush(db->conn, reterr) : status;
}

quipu_status qp_keep_rewrite(ent_db *db, quipu_error *reterr)
{
    const qp_keeper *keeper = NULL;
    quipu_status status = keep_enter_apart(db, true, &keeper, reterr);

    return status == QUIPU_OK ? keeper->rewrite(db->conn, reterr) : status;
}

quipu_status qp_keep_copy(ent_db *db, const char *path, quipu_error *reterr)
{
    const qp_keeper *keeper = NULL;
    quipu_status status = keep_enter_apart(db, false, &keeper, reterr);

    return status == QUIPU_OK ? keeper->copy(db->conn, path, reterr) : status;
}

quipu_status qp_keep_check(ent_db *db, qp_keep_fn fn, void *ctx, quipu_error *reterr)
{
    const qp_keeper *keeper = NULL;
    quipu_status status = keep_enter(db, false, &keeper, reterr);

    return status == QUIPU_OK ? keeper->check(db->conn, fn, ctx, reterr) : status;
}

quipu_status qp_keep_backups(ent_db *db, qp_keep_fn fn, void *ctx, quipu_error *reterr)
{
    const qp_keeper *keeper = NULL;
    quipu_status status = keep_enter(db, false, &keeper, reterr);

    return status == QUIPU_OK ? keeper->backups(db->conn, fn, ctx, reterr) : status;
}
