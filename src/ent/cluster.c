/* Packing a cluster's key into one integer, and conditions into ranges of it. Pure functions over a
 * plan; called by create.c, where.c, order.c and search.c. */
#include "ent/cluster.h"

#include <assert.h>

#include "base/error.h"

#define CLUSTER_SHIFT 32

/* Both numbers start at 1. The limits hold in every engine, so that a store can move between them.
 */
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
    *ret_packed = qp_cluster_key(owner, seq);
    return QUIPU_OK;
}

/* A sequence of 0 is allowed: the lower end of a range. */
int64_t qp_cluster_key(int64_t owner, int64_t seq)
{
    if (owner < 1 || owner > ENT_CLUSTER_OWNER_MAX || seq < 0 || seq > ENT_CLUSTER_SEQ_MAX) {
        return -1;
    }
    return (int64_t)((uint64_t)owner << CLUSTER_SHIFT | (uint64_t)seq);
}

/* IN and NE have no range: `covers` is false, and the condition stays. */
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

/* Both ends of an owner's range; low 0 and high -1, which no key meets, when nothing can match. */
static void cluster_ends(int64_t owner, const qp_cluster_range *range, int64_t *ret_low,
                         int64_t *ret_high)
{
    bool none = owner < 1 || owner > ENT_CLUSTER_OWNER_MAX || range->low > range->high;

    *ret_low = none ? 0 : qp_cluster_key(owner, range->low);
    *ret_high = none ? -1 : qp_cluster_key(owner, range->high);
}

/* One value or two depends on the range alone, never on the owner: the shape must not change. */
size_t qp_cluster_tie(qp_plan *plan, int64_t owner, const qp_cluster_range *range)
{
    size_t at = plan->bind_count;
    int64_t low;
    int64_t high;

    assert(plan->packs);
    cluster_ends(owner, range, &low, &high);
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

    assert(at < plan->bind_count);
    cluster_ends(owner, range, &low, &high);
    plan->binds[at].as.i = low;
    if (range->low != range->high) {
        plan->binds[at + 1].as.i = high;
    }
}
