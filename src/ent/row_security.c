/* Row-level security, over the engine's table: src/store/row_security.c owns the policies.
 *
 * Called by the store when it opens a connection, outside of transactions. */
#include "ent/row_security.h"

#include <assert.h>

#include "base/error.h"
#include "ent/db.h"

/* Retried: several processes may create the policies of a new store together. */
quipu_status qp_row_security_enable(ent_db *db, const qp_row_policy *policies, size_t n,
                                    quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

    assert(policies != NULL || n == 0);
    if (status == QUIPU_OK && db->depth > 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "end the open transaction first");
    }
    if (status == QUIPU_OK && db->engine->enable_row_security == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the engine %s has no row security; give each tenant a store of its "
                            "own",
                            db->engine->name);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = db->engine->enable_row_security(db->conn, policies, n, reterr);
    for (int tries = 1; qp_db_backoff(db, status, tries); tries++) {
        status = db->engine->enable_row_security(db->conn, policies, n, reterr);
    }
    return status;
}
