/* Walls between tenants, over the engine's table. */
#include "ent/row_security.h"

#include "base/error.h"
#include "ent/db.h"

quipu_status qp_row_security_enable(ent_db *db, const qp_row_policy *walls, size_t n,
                                    quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

    if (status == QUIPU_OK && db->depth > 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "end the open transaction first");
    }
    if (status == QUIPU_OK && db->engine->raise_walls == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the engine %s has no row security; give each tenant a store of its "
                            "own",
                            db->engine->name);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = db->engine->raise_walls(db->conn, walls, n, reterr);
    for (int tries = 1; qp_db_repeats(db, status, tries); tries++) {
        status = db->engine->raise_walls(db->conn, walls, n, reterr);
    }
    return status;
}
