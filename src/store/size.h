/* The size cap: what makes the file larger is refused, what makes room goes on. */
#ifndef QP_STORE_SIZE_H
#define QP_STORE_SIZE_H

#include "store/store.h"

/* Checks the open option of this file: the size cap. QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_size_check(const quipu_open_options *options, quipu_error *reterr);

/* As qp_store_write(), but the cap does not hold: for work that removes, which may need a page more
 * before it gives many back, and for the search index, which a reader waits for. */
QUIPU_MUST_USE quipu_status qp_size_exempt(quipu_store *store, const qp_call *call, qp_work_fn work,
                                           void *ctx, quipu_error *reterr);

#endif
