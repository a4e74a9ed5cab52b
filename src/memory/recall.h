/* quipu_recall() with other weights than the default ones, for measuring them (bench/). */
#ifndef QP_MEMORY_RECALL_H
#define QP_MEMORY_RECALL_H

#include "store/recall_rank.h"

QUIPU_MUST_USE quipu_status qp_recall_weighted(
    quipu_store *store, const quipu_recall_options *options, const qp_recall_weights *weights,
    const quipu_call_options *call, quipu_recall_results **ret_results, quipu_error *reterr);

#endif
