/* Another key for an encrypted store.
 *
 * Owns the call quipu_rekey(), a user's. Called from any thread.
 * Locks: the writing connection, outside of a transaction: the engine takes the write lock itself,
 * for as long as the header needs (ent/maintenance.h). Readers go on. */
#include <assert.h>

#include "base/error.h"
#include "ent/maintenance.h"
#include "store/maintain.h"

/* A qp_work_fn for an outside write. */
static quipu_status rekey_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    assert(ent_depth(db) == 0 && ctx != NULL);
    (void)scratch;
    return qp_maintenance_rekey(db, ctx, reterr);
}

quipu_status quipu_rekey(quipu_store *store, quipu_key_fn key, void *key_ctx, uint32_t flags,
                         const quipu_call_options *call, quipu_error *reterr)
{
    qp_new_key fresh = {key, key_ctx, (flags & QUIPU_OPEN_PASSPHRASE) != 0};
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && (key == NULL || (flags & ~QUIPU_OPEN_PASSPHRASE) != 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "quipu_rekey needs a function that gives the new key, and flags "
                              "(0x%x) of QUIPU_OPEN_PASSPHRASE or 0",
                              (unsigned)flags);
    }
    if (status == QUIPU_OK) {
        status = qp_maintain_write(store, &within, rekey_work, &fresh, reterr);
        QP_LOG(&store->log, QUIPU_LOG_INFO, "store", "rekey", QP_LOG_STATUS(status));
    }
    qp_store_leave(&within);
    return status;
}
