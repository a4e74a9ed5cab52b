/* Clusters in an engine that packs them: the key (owner, seq) is one integer column, owner << 32 |
 * seq, too, and rows are stored in its order. Conditions that fix the owner become a range of that
 * column. */
#ifndef QP_ENT_CLUSTER_H
#define QP_ENT_CLUSTER_H

#include <ent/ent.h>

#include "ent/plan.h"

#define QP_CLUSTER_COLUMN "id"

/* The packed key of a row; QUIPU_LIMIT, with field and limit, when a number is out of range. */
quipu_status qp_cluster_pack(const ent_entity *entity, int64_t owner, int64_t seq,
                             int64_t *ret_packed, quipu_error *reterr);

/* The packed key without a check, for keys that are only compared: numbers that no row can have
 * give -1, which no row has. */
int64_t qp_cluster_key(int64_t owner, int64_t seq);

/* The sequence numbers that one level's conditions allow: low > high means none. */
typedef struct qp_cluster_range {
    int64_t low;
    int64_t high;
    bool covers; /* the range is equivalent to the condition, which can be left out */
} qp_cluster_range;

qp_cluster_range qp_cluster_bounds(const ent_where_int *seq);

/* Adds the condition that the packed key is in this range of this owner: two values, or one when
 * they are equal. Returns the index of the first. */
size_t qp_cluster_tie(qp_plan *plan, int64_t owner, const qp_cluster_range *range);

/* Replaces those values by another owner's. */
void qp_cluster_retie(qp_plan *plan, size_t at, int64_t owner, const qp_cluster_range *range);

#endif
