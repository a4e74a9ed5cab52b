/* The size cap, and the encryption that this build does not have. */
#include "store/size.h"

#include "base/error.h"
#include "ent/maintenance.h"

quipu_status qp_size_check(const quipu_open_options *options, quipu_error *reterr)
{
    if (options->max_bytes < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "max_bytes is %lld; give bytes, or 0 for no cap",
                            (long long)options->max_bytes);
    }
    if (options->key != NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "this build has no encryption; open the store without a key");
    }
    return QUIPU_OK;
}

typedef struct size_exemption {
    const quipu_store *store;
    qp_work_fn work;
    void *ctx;
} size_exemption;

static quipu_status size_exempt_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const size_exemption *exemption = ctx;
    quipu_status status = qp_maintenance_limit(db, 0, reterr);
    quipu_status capped;

    if (status == QUIPU_OK) {
        status = exemption->work(exemption->ctx, db, scratch, reterr);
    }
    capped =
        qp_maintenance_limit(db, exemption->store->max_bytes, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? capped : status;
}

quipu_status qp_size_exempt(quipu_store *store, const qp_call *call, qp_work_fn work, void *ctx,
                            quipu_error *reterr)
{
    size_exemption exemption = {store, work, ctx};

    if (store->max_bytes == 0) {
        return qp_store_write(store, call, work, ctx, reterr);
    }
    return qp_store_write(store, call, size_exempt_work, &exemption, reterr);
}
