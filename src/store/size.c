/* The size cap.
 *
 * Owns the exemption of works that delete. Called by src/front when a store is opened, and by every
 * work that makes the file smaller or fills the search index. The cap is a setting of the writing
 * connection: it is lifted and restored inside of the exemption's transaction, so that no other
 * work runs without it. */
#include "store/size.h"

#include <assert.h>

#include "base/error.h"
#include "ent/maintenance.h"

/* The option of an opening. */
quipu_status qp_size_check(const quipu_open_options *options, quipu_error *reterr)
{
    if (options->max_bytes < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "max_bytes is %lld; give bytes, or 0 for no cap",
                            (long long)options->max_bytes);
    }
    return QUIPU_OK;
}

/* A work that runs without the cap. */
typedef struct size_exemption {
    const quipu_store *store;
    qp_work_fn work;
    void *ctx;
} size_exemption;

/* Restores the cap on every way out. When the work failed, its error counts, not that of
 * restoring. */
static quipu_status size_exempt_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const size_exemption *exemption = ctx;
    quipu_status status = qp_maintenance_limit(db, 0, reterr);
    quipu_status capped;

    assert(exemption->store->max_bytes > 0 && ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = exemption->work(exemption->ctx, db, scratch, reterr);
    }
    capped =
        qp_maintenance_limit(db, exemption->store->max_bytes, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? capped : status;
}

/* Runs a work that may exceed the cap because it frees space. */
quipu_status qp_size_exempt(quipu_store *store, const qp_call *call, qp_work_fn work, void *ctx,
                            quipu_error *reterr)
{
    size_exemption exemption = {store, work, ctx};

    assert(store->max_bytes >= 0);
    if (store->max_bytes == 0) {
        return qp_store_write(store, call, work, ctx, reterr);
    }
    return qp_store_write(store, call, size_exempt_work, &exemption, reterr);
}
