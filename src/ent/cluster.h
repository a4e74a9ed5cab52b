/* Clusters in an engine that packs them: the key (owner, seq) is also one integer column, owner <<
 * 32 | seq, in whose order the rows lie. Conditions that tie the owner become a range of that
 * column. */
#ifndef QP_ENT_CLUSTER_H
#define QP_ENT_CLUSTER_H

#include <ent/ent.h>

#include "ent/plan.h"

#define QP_CLUSTER_COLUMN "id"

/* The packed key of a row; QUIPU_LIMIT, with field and limit, when a part is out of range. */
quipu_status qp_cluster_pack(const ent_entity *entity, int64_t owner, int64_t seq,
                             int64_t *ret_packed, quipu_error *reterr);

/* The packed key without a check, for keys that are only compared: parts that no row can have give
 * a number that no row has. */
int64_t qp_cluster_key(int64_t owner, int64_t seq);

/* The numbers of one level's conditions on the sequence: low > high means that none fits. */
typedef struct qp_cluster_range {
    int64_t low;
    int64_t high;
    bool covers; /* the range says all that the condition on the sequence says */
} qp_cluster_range;

qp_cluster_range qp_cluster_bounds(const ent_where_int *seq);

/* Tie the packed key to one owner and a range: two values, or one when they are equal. Gives the
 * place of the first. */
size_t qp_cluster_tie(qp_plan *plan, int64_t owner, const qp_cluster_range *range);

/* The two values for another owner. */
void qp_cluster_retie(qp_plan *plan, size_t at, int64_t owner, const qp_cluster_range *range);

#endif
