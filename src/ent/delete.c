/* Deleting rows. The tables' foreign keys decide what is deleted with them, and what forbids it: a
 * row that others refer to with `restrict` is QUIPU_INVALID with the rule "reference".
 *
 * Owns: nothing; a statement of the cache does the work.
 * Called by: users of include/ent, src/store. Locks: inside of the caller's transaction, else in
 * that of the statement. Rows of a full-text index that the program keeps are not removed:
 * ent_unindex_rows() comes before. */
#include "ent/db.h"

#include <assert.h>

#include "base/error.h"

/* Without a condition nothing is deleted: ent_delete_all() says so by name. */
quipu_status ent_delete(ent_db *db, const ent_entity *entity, const void *where, int64_t *ret_count,
                        quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL || where == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "delete needs an entity and a where");
    }
    qp_plan_begin(&db->plan, entity, db->engine, QP_OP_DELETE);
    status = qp_where_walk(&db->plan, where, reterr);
    if (status == QUIPU_OK && db->plan.conditions == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "%s: a delete without any condition is refused; delete_all deletes "
                              "every row",
                              entity->name);
    }
    return status == QUIPU_OK ? qp_run_write(db, ret_count, reterr) : status;
}

quipu_status ent_delete_all(ent_db *db, const ent_entity *entity, int64_t *ret_count,
                            quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "delete_all needs an entity");
    }
    qp_plan_begin(&db->plan, entity, db->engine, QP_OP_DELETE);
    return qp_run_write(db, ret_count, reterr);
}
