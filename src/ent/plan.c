/* The buffers of a statement in the making, which a connection keeps from call to call, and the
 * packing of a cluster's key into one integer.
 *
 * Owns: qp_plan's shape and values. Called by every call of src/ent before it takes a statement.
 * Locks: none; a connection has one user at a time, and so has its plan. */
#include "ent/plan.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"

#define PLAN_BINDS_FIRST 32
/* The packed key of a cluster. Rows of one owner are neighbours in the table's B-tree, in the order
 * of their numbers, and the key is positive:
 *
 *   bit 63   62 ... 32        31 ... 0
 *       0    owner, 31 bits   seq, 32 bits
 */
#define PLAN_PACK(owner, seq) ((int64_t)((uint64_t)(owner) << 32 | (uint64_t)(seq)))

static_assert((int)ENT_FIELDS_MAX <= (int)QP_MARK_ANY, "a field's number is no mark");
static_assert((int)QP_MARK_END <= UINT8_MAX, "a mark is one byte of the shape");
static_assert(ENT_FIELDS_MAX <= 8 * sizeof(qp_fields), "every field has its bit");
static_assert(((uint64_t)ENT_CLUSTER_OWNER_MAX << 32 | ENT_CLUSTER_SEQ_MAX) <= INT64_MAX,
              "a packed key is not negative");

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

/* Everything of the last statement is forgotten; the buffers stay, so that a warm connection plans
 * without allocating. A plan that failed half-way is begun again like any other. */
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

/* A byte of the shape. Failures stay in the buffer's status: walks need not check after each byte,
 * because qp_cache_take() checks once before the plan is used. */
void qp_plan_mark(qp_plan *plan, unsigned mark)
{
    assert(plan->entity != NULL);
    assert(mark <= UINT8_MAX);
    qp_buf_putc(&plan->shape, (char)(unsigned char)mark);
}

/* Grows by doubling. Beyond QP_BINDS_MAX the plan fails with QUIPU_LIMIT, reported by
 * qp_plan_status(). Text and bytes are not copied: they stay the caller's until the statement is
 * reset. */
void qp_plan_bind(qp_plan *plan, const qp_value *value)
{
    assert(plan->bind_count <= plan->bind_capacity);
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

/* An integer that no literal holds as such: a packed key, a shard, a limit. */
void qp_plan_bind_int(qp_plan *plan, int64_t value)
{
    const qp_value bound = {.kind = QP_INT, .as.i = value};

    qp_plan_bind(plan, &bound);
}

/* The condition on the number of a row, the entity's first field. Where rows are distributed, the
 * number carries its shard, and both are compared: "part"=$1 AND "id"=$2. */
void qp_plan_number(qp_plan *plan, int64_t number)
{
    const qp_value shard = {.kind = QP_INT, .as.i = number & ENT_SHARD_MAX};
    const qp_value value = {.kind = QP_INT, .as.i = number};

    assert(!plan->packs && plan->entity->fields[0].type == ENT_INT);
    if (plan->shards) {
        assert(plan->entity->shard->number == 1);
        qp_plan_mark(plan, QP_MARK_SHARD);
        qp_plan_bind(plan, &shard);
    }
    qp_plan_mark(plan, 0);
    qp_plan_mark(plan, ENT_OP_EQ);
    qp_plan_bind(plan, &value);
    plan->conditions++;
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

/* Whether all of these fields are fixed; no field at all fixes nothing. A fixed field is not NULL,
 * so that a unique index over optional fields counts as well. */
static bool plan_pins(const qp_plan *plan, const uint8_t *fields, size_t count)
{
    assert(count <= ENT_KEY_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!QP_FIELDS_HAS(&plan->pinned, fields[i])) {
            return false;
        }
    }
    return count != 0;
}

/* It saves: ORDER BY (order.c), reading in chunks (find.c), a transaction around UPDATE ...
 * RETURNING (update.c). */
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

/* ---- packed keys ------------------------------------------------------------------------------
 * Pure functions over a plan; called by create.c, where.c, order.c and search.c.
 */

/* Both numbers start at 1. Engines that do not pack pass an owner that fits. */
quipu_status qp_cluster_pack(const ent_entity *entity, int64_t owner, int64_t seq,
                             int64_t *ret_packed, quipu_error *reterr)
{
    bool owner_fits = owner >= 1 && owner <= ENT_CLUSTER_OWNER_MAX;

    assert(entity->key_count == 2);
    if (!owner_fits || seq < 1 || seq > ENT_CLUSTER_SEQ_MAX) {
        const ent_field *field = &entity->fields[entity->key[owner_fits ? 1 : 0]];
        return qp_error_field(
            reterr, QUIPU_LIMIT, entity->name, field->name, "cluster",
            "%s.%s is %lld, outside 1..%lld", entity->name, field->name,
            (long long)(owner_fits ? seq : owner),
            (long long)(owner_fits ? ENT_CLUSTER_SEQ_MAX : ENT_CLUSTER_OWNER_MAX));
    }
    *ret_packed = PLAN_PACK(owner, seq);
    return QUIPU_OK;
}

/* A sequence of 0 is allowed: the lower end of a range. */
int64_t qp_cluster_key(int64_t owner, int64_t seq)
{
    if (owner < 1 || owner > ENT_CLUSTER_OWNER_MAX || seq < 0 || seq > ENT_CLUSTER_SEQ_MAX) {
        return -1;
    }
    return PLAN_PACK(owner, seq);
}

/* IN and NE have no range: `covers` is false, and the condition stays beside the range. GT of
 * INT64_MAX cannot be moved up by one; the range is empty all the same, because its low end is
 * beyond ENT_CLUSTER_SEQ_MAX. The same holds for LT of INT64_MIN.
 *
 *   seq > 10              11..4294967295   covers
 *   seq BETWEEN 3 AND 9   3..9             covers
 *   seq <> 10             1..4294967295    does not: "id" BETWEEN ?1 AND ?2 AND "seq"<>?3
 */
qp_cluster_range qp_cluster_bounds(const ent_where_int *seq)
{
    qp_cluster_range range = {.low = 1, .high = ENT_CLUSTER_SEQ_MAX, .covers = true};
    int64_t low = INT64_MIN;
    int64_t high = INT64_MAX;

    assert(seq != NULL);
    switch ((int)seq->op) {
    case ENT_OP_EQ:
        low = seq->v;
        high = seq->v;
        break;
    case ENT_OP_GT:
        low = seq->v == INT64_MAX ? INT64_MAX : seq->v + 1;
        break;
    case ENT_OP_GE:
        low = seq->v;
        break;
    case ENT_OP_LT:
        high = seq->v == INT64_MIN ? INT64_MIN : seq->v - 1;
        break;
    case ENT_OP_LE:
        high = seq->v;
        break;
    case ENT_OP_BETWEEN:
        low = seq->v;
        high = seq->upper;
        break;
    default:
        range.covers = (int)seq->op == ENT_OP_NONE;
        break;
    }
    range.low = low > range.low ? low : range.low;
    range.high = high < range.high ? high : range.high;
    return range;
}

/* Both ends of an owner's range; low 0 and high -1, which no key meets, when nothing can match. An
 * owner that cannot exist is not an error here: the query has no rows. */
static void plan_ends(int64_t owner, const qp_cluster_range *range, int64_t *ret_low,
                      int64_t *ret_high)
{
    bool none = owner < 1 || owner > ENT_CLUSTER_OWNER_MAX || range->low > range->high;

    *ret_low = none ? 0 : qp_cluster_key(owner, range->low);
    *ret_high = none ? -1 : qp_cluster_key(owner, range->high);
}

/* One value or two depends on the range alone, never on the owner: the shape must not change when
 * eager.c sets the next parent. */
size_t qp_cluster_tie(qp_plan *plan, int64_t owner, const qp_cluster_range *range)
{
    size_t at = plan->bind_count;
    int64_t low;
    int64_t high;

    assert(plan->packs);
    plan_ends(owner, range, &low, &high);
    qp_plan_mark(plan, range->low == range->high ? QP_MARK_ID_IS : QP_MARK_ID_BETWEEN);
    qp_plan_bind_int(plan, low);
    if (range->low != range->high) {
        qp_plan_bind_int(plan, high);
    }
    plan->conditions++;
    return at;
}

/* The values stay where qp_cluster_tie() put them. */
void qp_cluster_retie(qp_plan *plan, size_t at, int64_t owner, const qp_cluster_range *range)
{
    int64_t low;
    int64_t high;

    assert(range->low == range->high || at + 1 < plan->bind_count);
    assert(plan->binds[at].kind == QP_INT);
    assert(at < plan->bind_count);
    plan_ends(owner, range, &low, &high);
    plan->binds[at].as.i = low;
    if (range->low != range->high) {
        plan->binds[at + 1].as.i = high;
    }
}
