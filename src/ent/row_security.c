/* Walls between tenants, over the engine's table. */
#include "ent/row_security.h"

#include "base/error.h"
#include "ent/db.h"

quipu_status qp_row_security_enable(ent_db *db, const qp_row_policy *policies, size_t n,
                                    quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

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
