/* The buffers of a statement in the making, which a connection keeps from call to call.
 *
 * Owns: qp_plan's shape and values. Called by every call of src/ent before it takes a statement. */
#include "ent/plan.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"

#define PLAN_BINDS_FIRST 32

/* The plan allocates with its first use. */
void qp_plan_init(qp_plan *plan, quipu_arena *scratch)
{
    assert(scratch != NULL);
    *plan = (qp_plan){.scratch = scratch};
    qp_buf_init(&plan->shape, QP_SHAPE_SIZE_MAX);
}

/* Called when the connection is closed. */
void qp_plan_free(qp_plan *plan)
{
    assert(plan != NULL);
    qp_buf_free(&plan->shape);
    qp_free(plan->binds);
    plan->binds = NULL;
    plan->bind_capacity = 0;
}

/* Everything of the last statement is forgotten; the buffers stay. */
void qp_plan_begin(qp_plan *plan, const ent_entity *entity, const qp_engine *engine,
                   qp_operation operation)
{
    assert(entity != NULL && engine != NULL);
    plan->entity = entity;
    plan->shape.n = 0; /* its memory stays */
    plan->shape.status = QUIPU_OK;
    plan->bind_count = 0;
    plan->conditions = 0;
    plan->pinned = (qp_fields){{0, 0}};
    plan->packs = engine->packs_clusters && (entity->flags & ENT_E_CLUSTER) != 0;
    plan->shards = engine->shards && entity->shard != NULL;
    plan->parent = QP_PARENT_NONE;
    qp_plan_mark(plan, operation);
}

/* Grows by doubling. Beyond QP_BINDS_MAX the plan fails with QUIPU_LIMIT, reported by
 * qp_plan_status(). */
void qp_plan_bind(qp_plan *plan, const qp_value *value)
{
    assert(value != NULL);
    if (plan->bind_count == plan->bind_capacity) {
        size_t capacity = plan->bind_capacity == 0 ? PLAN_BINDS_FIRST : plan->bind_capacity * 2;
        qp_value *binds = NULL;

        if (capacity <= QP_BINDS_MAX) {
            binds = qp_realloc(plan->binds, capacity * sizeof(*binds));
        }
        if (binds == NULL) {
            qp_buf_fail(&plan->shape, capacity <= QP_BINDS_MAX ? QUIPU_NOMEM : QUIPU_LIMIT);
            return;
        }
        plan->binds = binds;
        plan->bind_capacity = capacity;
    }
    plan->binds[plan->bind_count++] = *value;
}

/* An integer of ours: a packed key, a shard, a limit. */
void qp_plan_bind_int(qp_plan *plan, int64_t value)
{
    const qp_value bound = {.kind = QP_INT, .as.i = value};

    qp_plan_bind(plan, &bound);
}

/* Called once, when the plan is complete. */
quipu_status qp_plan_status(const qp_plan *plan, quipu_error *reterr)
{
    quipu_status status = qp_buf_status(&plan->shape);

    assert(plan->entity != NULL);
    if (status == QUIPU_OK) {
        return QUIPU_OK;
    }
    return qp_error_set(reterr, status, "%s: %s", plan->entity->name,
                        status == QUIPU_LIMIT ? "the query is too large; split it"
                                              : "out of memory while building a query");
}

/* Whether all of these fields are fixed; no field at all fixes nothing. */
static bool plan_pins(const qp_plan *plan, const uint8_t *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!qp_fields_has(&plan->pinned, fields[i])) {
            return false;
        }
    }
    return count != 0;
}

bool qp_plan_pins_one(const qp_plan *plan)
{
    const ent_entity *entity = plan->entity;

    assert(plan->entity != NULL);
    if (plan_pins(plan, entity->key, entity->key_count)) {
        return true;
    }
    for (size_t i = 0; i < entity->index_count; i++) {
        if (entity->indexes[i].unique &&
            plan_pins(plan, entity->indexes[i].fields, entity->indexes[i].count)) {
            return true;
        }
    }
    return false;
}
