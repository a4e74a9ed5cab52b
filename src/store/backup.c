/* Backup of a live store to a path that the caller names.
 *
 * Owns quipu_store_backup(), which programs call. Runs on a reading connection
 * (in a store in memory: the only one), outside of a transaction: the engine copies a committed
 * state while writers go on (ent/maintenance.h). On QUIPU_OK the copy is complete, synced and
 * checked. A path that exists is refused. */
#include <assert.h>

#include "base/error.h"
#include "ent/maintenance.h"
#include "store/maintain.h"

typedef struct backup_call {
    const char *path;
} backup_call;

/* A qp_work_fn for an outside write: no transaction is open, as SQLite's backup wants it. */
static quipu_status backup_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    const backup_call *backup = ctx;

    assert(ent_depth(db) == 0 && backup->path != NULL && backup->path[0] != '\0');
    (void)scratch;
    return qp_maintenance_copy(db, backup->path, reterr);
}

/* No deadline unless the call names one: a copy takes as long as the file is large. */
quipu_status quipu_store_backup(quipu_store *store, const char *path,
                                const quipu_call_options *call, quipu_error *reterr)
{
    backup_call backup = {path};
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && (path == NULL || path[0] == '\0')) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the path of the backup is empty");
    }
    if (status == QUIPU_OK) {
        status = qp_store_read_apart(store, &within, backup_work, &backup, reterr);
        QP_LOG(&store->log, QUIPU_LOG_INFO, "store", "backup", QP_LOG_STATUS(status));
    }
    qp_store_leave(&within);
    return status;
}
