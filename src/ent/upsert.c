/* Insert or update in one statement. The row is returned by the engine only where the caller wants
 * it: reading it costs more than the write.
 *
 * Owns: which fields a conflict changes. Called by users of include/ent, src/store.
 *
 *   field is in the key or the index | immutable | given | on_update      on conflict
 *     yes                                                                 KEEP
 *     no                               yes         yes                    KEEP
 *     no                               no          yes                    SET
 *     no                                           no      yes            NOW
 *     no                                           no      no             KEEP
 *
 * Locks: as a create; the conflict itself is decided by the engine, so that two writers of one key
 * cannot both insert. */
#include "ent/create.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "ent/row.h"

/* Whether a field is one of these. */
static bool upsert_in(const uint8_t *fields, size_t count, size_t field)
{
    assert(count <= ENT_KEY_MAX);
    for (size_t i = 0; i < count; i++) {
        if (fields[i] == field) {
            return true;
        }
    }
    return false;
}

/* The treatment of a field when the row exists: key fields and immutable ones stay, given ones are
 * set, on_update ones get the time. */
static unsigned upsert_how(const ent_entity *entity, size_t number, int on, const qp_new_row *row)
{
    const ent_field *field = &entity->fields[number];
    const ent_index *index = on < 0 ? NULL : &entity->indexes[on];

    assert(number < entity->field_count);
    if (upsert_in(entity->key, entity->key_count, number) ||
        (index != NULL && upsert_in(index->fields, index->count, number))) {
        return QP_UPSERT_KEEP;
    }
    if (QP_FIELDS_HAS(&row->given, number)) {
        return (field->flags & ENT_F_IMMUTABLE) != 0 ? QP_UPSERT_KEEP : QP_UPSERT_SET;
    }
    return (field->flags & ENT_F_ON_UPDATE) != 0 ? QP_UPSERT_NOW : QP_UPSERT_KEEP;
}

/* The statement ends, and outside of a transaction commits, with the step behind its row. Both
 * outcomes of an upsert return the row; none at all, which a trigger of the file can cause, is
 * QUIPU_CORRUPT. */
static quipu_status upsert_run(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                               void *ret_row, quipu_error *reterr)
{
    qp_value values[ENT_FIELDS_MAX];
    qp_cached *cached = NULL;
    quipu_status status = qp_cache_take(db, &cached, reterr);
    bool is_row = false;

    assert(ret_row == NULL || arena != NULL);
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    if (status == QUIPU_OK) {
        if (ret_row == NULL && db->engine->defer != NULL) {
            db->engine->defer(cached->statement);
        }
        status =
            qp_explain(entity, qp_cached_step(db, cached, values, &is_row, reterr), false, reterr);
    }
    if (status == QUIPU_OK && ret_row != NULL && !is_row) {
        status =
            qp_error_set(reterr, QUIPU_CORRUPT, "%s: the engine returned no row", entity->name);
    }
    if (status == QUIPU_OK && ret_row != NULL) {
        status = qp_row_return(arena, entity, values, ret_row, reterr);
    }
    if (status == QUIPU_OK && is_row) {
        status = qp_cached_step(db, cached, values, &is_row, reterr);
    }
    qp_cache_release(db, cached, status);
    return status;
}

/* Whether a conflict can be decided by it: the key, or a unique index. */
static bool upsert_is_key(const ent_entity *entity, int on)
{
    return on == -1 || (on >= 0 && on < (int)entity->index_count && entity->indexes[on].unique);
}

/* The shape of an insert, the conflict target, and one byte a field. */
static void upsert_plan(ent_db *db, const ent_entity *entity, int on, qp_new_row *row,
                        qp_operation operation)
{
    size_t n = 0;
    const qp_value *binds = qp_new_row_binds(db, entity, row, &n);

    assert(on >= -1 && on < (int)entity->index_count);
    qp_plan_begin(&db->plan, entity, db->engine, operation);
    qp_plan_mark(&db->plan, row->key_given_out);
    qp_plan_mark(&db->plan, row->owner_known);
    qp_plan_mark(&db->plan, (unsigned)(on + 1));
    for (size_t i = 0; i < n; i++) {
        qp_plan_bind(&db->plan, &binds[i]);
    }
    for (size_t i = 0; i < entity->field_count; i++) {
        unsigned how = upsert_how(entity, i, on, row);
        qp_plan_mark(&db->plan, how);
        if (how == QP_UPSERT_NOW) {
            const qp_value now = {.kind = QP_TIME, .as.time = qp_new_row_now(row)};
            qp_plan_bind(&db->plan, &now);
        }
    }
}

/* With a returned row the statement runs in a transaction: reading the row may fail after the
 * write. */
quipu_status ent_upsert(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                        const void *values, int on, void *ret_row, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);
    qp_arena_mark mark;
    qp_new_row row;
    bool own = false;
    void *made = NULL;

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL || values == NULL || (ret_row != NULL && arena == NULL) ||
        !upsert_is_key(entity, on)) {
        return qp_error_set(
            reterr, QUIPU_MISUSE,
            "upsert needs an entity, values, the key (-1) or a unique index, and an "
            "arena for the row it returns");
    }
    status = qp_new_row_read(db, entity, values, NULL, &row, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    if (ret_row == NULL) {
        status = qp_new_row_next_key(db, entity, &row, &own, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        upsert_plan(db, entity, on, &row, QP_OP_UPSERT);
        return qp_new_row_end(db, own, upsert_run(db, NULL, entity, NULL, reterr), reterr);
    }
    mark = qp_arena_save(arena);
    status = ent_begin(db, ENT_WRITE, reterr);
    if (status == QUIPU_OK) {
        status = qp_new_row_next_key(db, entity, &row, &own, reterr);
        if (status == QUIPU_OK) {
            upsert_plan(db, entity, on, &row, QP_OP_UPSERT_ONE);
            status = upsert_run(db, arena, entity, &made, reterr);
        }
        status = qp_tx_end(db, status, reterr);
    }
    if (status == QUIPU_OK) {
        memcpy(ret_row, &made, sizeof(made));
    } else {
        qp_arena_rewind(arena, mark);
    }
    return status;
}
