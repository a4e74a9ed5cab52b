/* Another key for an encrypted store.
 *
 * Owns: qp_store_rekey(), the part of quipu_store_update() that changes a key. Called by upgrade.c,
 * from any thread. Locks: the writing connection, outside of a transaction: the engine takes the
 * write lock itself, for as long as the header needs (ent/maintenance.h). Readers go on.
 * On QUIPU_OK the header is on the disk and opens with the new key only. QUIPU_UNKNOWN: with one of
 * the two keys; after any other failure with the old one. */
#include <assert.h>

#include "ent/maintenance.h"
#include "store/maintain.h"
#include "store/upgrade.h"

/* A qp_work_fn for an outside write. */
static quipu_status rekey_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    assert(ent_depth(db) == 0 && ctx != NULL);
    (void)scratch;
    return qp_maintenance_rekey(db, ctx, reterr);
}

quipu_status qp_store_rekey(quipu_store *store, const quipu_store_patch *patch,
                            const quipu_call_options *call, quipu_error *reterr)
{
    qp_new_key fresh = {patch->key, patch->key_ctx, (patch->set & QUIPU_STORE_SET_PASSPHRASE) != 0};
    qp_call within;
    quipu_status status =
        qp_maintain_enter_as("quipu_store_update", store, call, -1, &within, reterr);

    assert(patch->key != NULL);
    if (status == QUIPU_OK) {
        status = qp_maintain_write(store, &within, rekey_work, &fresh, reterr);
        QP_LOG(&store->log, QUIPU_LOG_INFO, "store", "rekey", QP_LOG_STATUS(status));
    }
    qp_store_leave(&within);
    return status;
}
