/* What a tail and a reader of the feed share: waiting for the store to change. */
#ifndef QP_STORE_TAIL_H
#define QP_STORE_TAIL_H

#include "store/store.h"

/* When a wait of so many milliseconds that begins now ends; -1: never. QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_wait_begin(int64_t timeout_ms, int64_t *ret_end_ns,
                                          quipu_error *reterr);

/* Wait for a change after beat `seen`, until `end_ns` at most. QUIPU_CANCELLED, or why the file
 * could not be asked. */
QUIPU_MUST_USE quipu_status qp_wait_change(quipu_store *store, uint64_t seen, int64_t end_ns,
                                           quipu_cancel *cancel, quipu_error *reterr);

#endif
