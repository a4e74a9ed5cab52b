/* Reading rows one by one without copying them: an iterator holds a cached statement and copies of
 * its values until it ends.
 *
 * Owns: ent_iter.statement, from begin to the last row or ent_iter_end().
 * Called by: users of include/ent, src/store.
 * Locks: outside of a transaction, the snapshot of its statement for as long as it runs. */
#include "ent/find.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "ent/row.h"

/* Values are copied: the caller's literal may be gone before the last row is read. Other statements
 * may run on the connection meanwhile, also of the same shape: the iterator's own is busy. */
quipu_status qp_iter_begin_without(ent_db *db, const ent_entity *entity, const void *query,
                                   qp_without without, ent_iter *ret_iter, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    qp_cached *cached = NULL;
    /* The head of the generated query; its conditions were read by the plan. */
    ent_query head;

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL || query == NULL || ret_iter == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an iterator needs an entity, a query and a place for itself");
    }
    /* Edges are loaded when all rows of a level are known, which an iterator never is. */
    if (qp_query_has_edges(entity, query)) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s: an iterator cannot load edges; use find",
                            entity->name);
    }
    status = qp_find_plan(db, entity, query, 0, without, reterr);
    memcpy(&head, query, sizeof(head));
    /* Only an unlimited read can be too large to hold at once.
     * Chunks cost a cursor and a round trip each: a limited read needs neither. */
    if (head.limit == 0 && head.offset == 0) {
        qp_find_in_chunks(db);
    }
    if (status == QUIPU_OK) {
        status = qp_cache_take(db, &cached, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_bind_copy(db, cached, reterr);
    }
    /* Released also when nothing was taken: NULL is fine. */
    if (status != QUIPU_OK) {
        qp_cache_release(db, cached, status);
        return status;
    }
    ret_iter->db = db;
    ret_iter->entity = entity;
    ret_iter->statement = cached;
    ret_iter->status = QUIPU_OK;
    return QUIPU_OK;
}

/* Whole rows. */
quipu_status ent_iter_begin(ent_db *db, const ent_entity *entity, const void *query,
                            ent_iter *ret_iter, quipu_error *reterr)
{
    return qp_iter_begin_without(db, entity, query, (qp_without){NULL, 0}, ret_iter, reterr);
}

/* Releases the statement at the end and after a failure: another step would start it over, and an
 * idle reader would hold its snapshot. */
bool ent_iter_next(ent_iter *iter, void *ret_row)
{
    /* Decoded anew for each row; texts of the row point into the engine. */
    qp_value values[ENT_FIELDS_MAX];
    qp_cached *cached;
    bool is_row = false;

    if (iter == NULL || ret_row == NULL || iter->statement == NULL || iter->status != QUIPU_OK) {
        return false;
    }
    cached = iter->statement;
    assert(cached->busy);
    /* The error stays in the iterator: ent_iter_end() hands it over. */
    iter->status = qp_cached_step(iter->db, cached, values, &is_row, &iter->error);
    if (iter->status == QUIPU_OK && is_row) {
        iter->status = qp_row_read(iter->entity, values, NULL, ret_row, &iter->error);
    }
    if (iter->status == QUIPU_OK && is_row) {
        return true;
    }
    qp_cache_release(iter->db, cached, iter->status);
    iter->statement = NULL;
    return false;
}

/* Returns the first failure; a second call returns it again. */
quipu_status ent_iter_end(ent_iter *iter, quipu_error *reterr)
{
    quipu_status status;

    if (iter == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the iterator is NULL");
    }
    /* A caller may stop before the last row: the statement goes back to the cache here. */
    if (iter->statement != NULL) {
        qp_cache_release(iter->db, iter->statement, iter->status);
        iter->statement = NULL;
    }
    status = iter->status;
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = iter->error;
    }
    return status;
}
