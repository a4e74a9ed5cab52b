/* The store's part of quipu_recall(), which src/memory/recall.c makes of it. */
#ifndef QP_STORE_RECALL_H
#define QP_STORE_RECALL_H

#include "store/recall_rank.h"
#include "store/vector.h"

/* Reads and checks the caller's options. The limit is set. */
QUIPU_MUST_USE quipu_status qp_recall_options_read(const quipu_recall_options *given,
                                                   quipu_recall_options *ret, quipu_error *reterr);

/* Recalls, with these weights; `meaning` without a model: by words alone. */
QUIPU_MUST_USE quipu_status qp_recall_run(quipu_store *store, const quipu_recall_options *options,
                                          const qp_recall_weights *weights,
                                          const qp_vector_question *meaning, const qp_call *within,
                                          quipu_recall_results **ret_results, quipu_error *reterr);

#endif
