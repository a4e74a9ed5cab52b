/* Changing rows by a patch literal: set, add, clear.
 *
 * Owns: the meaning of a patch. Called by users of include/ent, src/store.
 * Locks: inside of the caller's transaction; ent_update_one() begins one where it may have to undo.
 */
#include "ent/db.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "ent/create.h"
#include "ent/patch.h"
#include "ent/row.h"

/* A change of any type, read from its slot of the patch. */
typedef struct update_slot {
    unsigned op;
    qp_value v;
} update_slot;

/* Every slot begins with its operator; the value follows at an offset that depends on the type. */
static void update_load(const ent_field *field, const char *at, update_slot *ret)
{
    memcpy(&ret->op, at, sizeof(ret->op));
    if (ret->op == ENT_OP_SET || ret->op == ENT_OP_ADD) {
        ret->v = qp_member_value(field, at + qp_patch_at(field->type));
    }
}

/* An error about one field. */
static quipu_status update_refuse(const ent_entity *entity, const ent_field *field,
                                  quipu_status status, const char *rule, const char *text,
                                  quipu_error *reterr)
{
    return qp_error_field(reterr, status, entity->name, field->name, rule, "%s.%s %s", entity->name,
                          field->name, text);
}

/* Whether the change would move the row to another shard, where its key no longer finds it. */
static bool update_moves(const qp_plan *plan, size_t number, unsigned op)
{
    const ent_shard *shard = plan->entity->shard;

    return op == ENT_OP_SET && memchr(shard->texts, (int)number, shard->text_count) != NULL;
}

/* Checks one change and adds it to the plan: field, operator, value. */
static quipu_status update_field(qp_plan *plan, size_t number, const char *at, quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;
    const ent_field *field = &entity->fields[number];
    quipu_status status = QUIPU_OK;
    update_slot slot = {.op = ENT_OP_KEEP};

    assert(number < plan->entity->field_count);
    update_load(field, at, &slot);
    if (plan->shards && update_moves(plan, number, slot.op)) {
        return update_refuse(entity, field, QUIPU_UNSUPPORTED, "shard",
                             "determines the row's shard and cannot change", reterr);
    }
    switch (slot.op) {
    case ENT_OP_SET:
        if (slot.v.kind == QP_NULL) {
            return update_refuse(entity, field, QUIPU_INVALID, "required",
                                 "is set to nothing; give a value, or ENT_CLEAR", reterr);
        }
        if (field->type != ENT_INT || field->rule != NULL) { /* any integer fits the others */
            status = qp_rule_check(entity, field, &slot.v, reterr);
        }
        break;
    case ENT_OP_ADD:
        if (field->type != ENT_INT) {
            return update_refuse(entity, field, QUIPU_MISUSE, NULL, "is no int to add to", reterr);
        }
        break;
    case ENT_OP_CLEAR:
        if ((field->flags & ENT_F_NULLABLE) == 0) {
            return update_refuse(entity, field, QUIPU_INVALID, "required",
                                 "is required and cannot be cleared", reterr);
        }
        break;
    default:
        return update_refuse(entity, field, QUIPU_MISUSE, NULL, "has an unknown change", reterr);
    }
    if (status == QUIPU_OK) {
        qp_plan_mark(plan, (unsigned)number);
        qp_plan_mark(plan, slot.op);
        if (slot.op != ENT_OP_CLEAR) {
            qp_plan_bind(plan, &slot.v);
        }
    }
    return status;
}

/* Walks the patch, then sets the on_update fields that it does not change. */
static quipu_status update_patch(qp_plan *plan, const char *patch, quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;
    size_t start = plan->shape.n;
    quipu_status status = QUIPU_OK;
    qp_fields changed = {{0, 0}};
    qp_value now = {.kind = QP_NULL};

    for (size_t i = 0; i < entity->field_count && status == QUIPU_OK; i++) {
        uint16_t at = entity->fields[i].patch;
        unsigned op = ENT_OP_KEEP;

        if (at != ENT_ABSENT) {
            memcpy(&op, patch + at, sizeof(op));
        }
        if (op != ENT_OP_KEEP) {
            qp_fields_add(&changed, i);
            status = update_field(plan, i, patch + at, reterr);
        }
    }
    if (status == QUIPU_OK && plan->shape.n == start && qp_buf_status(&plan->shape) == QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s: the patch changes nothing", entity->name);
    }
    for (size_t i = 0; i < entity->field_count && status == QUIPU_OK; i++) {
        if ((entity->fields[i].flags & ENT_F_ON_UPDATE) != 0 && !qp_fields_has(&changed, i)) {
            if (now.kind == QP_NULL) {
                now = (qp_value){.kind = QP_TIME, .as.time = quipu_time_now()};
            }
            qp_plan_mark(plan, (unsigned)i);
            qp_plan_mark(plan, ENT_OP_SET);
            qp_plan_bind(plan, &now);
        }
    }
    qp_plan_mark(plan, QP_MARK_END);
    return status;
}

/* The plan of all updates. Without a condition nothing is changed: a forgotten one would hit every
 * row. */
static quipu_status update_plan(ent_db *db, const ent_entity *entity, const void *where,
                                const void *patch, qp_operation operation, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL || where == NULL || patch == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "update needs an entity, a where and a patch");
    }
    qp_plan_begin(&db->plan, entity, db->engine, operation);
    status = update_patch(&db->plan, patch, reterr);
    if (status == QUIPU_OK) {
        status = qp_where_walk(&db->plan, where, reterr);
    }
    if (status == QUIPU_OK && db->plan.conditions == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "%s: an update without any condition would change every row",
                              entity->name);
    }
    return status;
}

quipu_status qp_run_write(ent_db *db, qp_cached *cached, bool deleting, int64_t *ret_count,
                          quipu_error *reterr)
{
    quipu_status status = qp_cached_bind(db, cached, false, reterr);
    bool is_row = false;

    assert(cached->busy);
    if (status == QUIPU_OK) {
        if (ret_count == NULL && db->engine->defer != NULL) {
            db->engine->defer(cached->statement);
        }
        status = qp_cached_step(db, cached, NULL, &is_row, reterr);
        if (status != QUIPU_OK) {
            status = qp_explain(cached->entity, status, deleting, reterr);
        }
    }
    if (status == QUIPU_OK && ret_count != NULL) {
        *ret_count = db->engine->changes(db->conn);
    }
    return status;
}

/* Runs db->plan; with ret_count NULL the engine may defer it. */
static quipu_status update_run(ent_db *db, int64_t *ret_count, quipu_error *reterr)
{
    qp_cached *cached = NULL;
    quipu_status status = qp_cache_take(db, &cached, reterr);

    if (status == QUIPU_OK) {
        status = qp_run_write(db, cached, false, ret_count, reterr);
        qp_cache_release(db, cached, status);
    }
    return status;
}

quipu_status ent_update(ent_db *db, const ent_entity *entity, const void *where, const void *patch,
                        int64_t *ret_count, quipu_error *reterr)
{
    quipu_status status = update_plan(db, entity, where, patch, QP_OP_UPDATE, reterr);

    return status == QUIPU_OK ? update_run(db, ret_count, reterr) : status;
}

/* Where the engine's SQL fails by itself (must_match_begin) no count is needed, and the write can
 * be deferred; otherwise the count is looked at. */
quipu_status qp_update_must_match(ent_db *db, const ent_entity *entity, const void *where,
                                  const void *patch, quipu_error *reterr)
{
    quipu_status status = update_plan(db, entity, where, patch, QP_OP_UPDATE_MUST_MATCH, reterr);
    const bool counts = db->engine->must_match_begin == NULL;
    int64_t count = 1;

    if (status == QUIPU_OK) {
        status = update_run(db, counts ? &count : NULL, reterr);
    }
    if (status == QUIPU_OK && count == 0) {
        status = qp_error_set(reterr, QUIPU_BUSY, "%s: the row was changed meanwhile; try again",
                              entity->name);
    }
    return status;
}

/* Reads the one row of UPDATE ... RETURNING. All rows are changed before the first is returned: a
 * second one means that the transaction has to be rolled back. */
static quipu_status update_take_row(ent_db *db, qp_cached *cached, quipu_arena *arena,
                                    void *ret_row, quipu_error *reterr)
{
    const ent_entity *entity = cached->entity;
    qp_value values[ENT_FIELDS_MAX];
    bool is_row = false;
    quipu_status status = qp_cached_bind(db, cached, false, reterr);

    if (status == QUIPU_OK) {
        status =
            qp_explain(entity, qp_cached_step(db, cached, values, &is_row, reterr), false, reterr);
    }
    if (status == QUIPU_OK && !is_row) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND, "%s: no row meets the condition",
                            entity->name);
    }
    if (status == QUIPU_OK && ret_row != NULL) {
        status = qp_row_return(arena, entity, values, ret_row, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_step(db, cached, values, &is_row, reterr);
    }
    if (status == QUIPU_OK && is_row) {
        status =
            qp_error_set(reterr, QUIPU_MISUSE,
                         "%s: several rows meet the condition; nothing was changed", entity->name);
    }
    return status;
}

/* In a transaction or savepoint of its own, unless it cannot fail half-way: it matches at most one
 * row, and returns nothing. */
static quipu_status update_run_one(ent_db *db, qp_cached *cached, quipu_arena *arena, void *ret_row,
                                   quipu_error *reterr)
{
    bool alone = ret_row == NULL && qp_plan_pins_one(&db->plan);
    quipu_status status = alone ? QUIPU_OK : ent_begin(db, ENT_WRITE, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    status = update_take_row(db, cached, arena, ret_row, reterr);
    qp_cached_reset(db, cached, status);
    return alone ? status : qp_tx_end(db, status, reterr);
}

/* See ent.h. The arena is rewound on failure. */
quipu_status ent_update_one(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                            const void *where, const void *patch, void *ret_row,
                            quipu_error *reterr)
{
    quipu_status status = update_plan(db, entity, where, patch, QP_OP_UPDATE_ONE, reterr);
    qp_arena_mark mark = {0};
    qp_cached *cached = NULL;
    void *made = NULL;

    if (status == QUIPU_OK && ret_row != NULL && arena == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "update_one needs an arena for the row");
    }
    if (status == QUIPU_OK) {
        status = qp_cache_take(db, &cached, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (ret_row == NULL) {
        status = update_run_one(db, cached, NULL, NULL, reterr);
    } else {
        mark = qp_arena_save(arena);
        status = update_run_one(db, cached, arena, &made, reterr);
        if (status == QUIPU_OK) {
            memcpy(ret_row, &made, sizeof(made));
        } else {
            qp_arena_rewind(arena, mark);
        }
    }
    qp_cache_release(db, cached, status);
    return status;
}
