/* Waiting for the store to change, for the tail of a session (tail.c) and the readers of the feed
 * (feed.c). A wait holds no lock and no connection; the caller is inside of the store
 * (qp_store_enter()) and has called qp_change_signal_listen(). */
#ifndef QP_STORE_TAIL_H
#define QP_STORE_TAIL_H

#include "store/store.h"

/* When a wait of so many milliseconds that begins now ends; -1: never. QUIPU_MISUSE: a number that
 * means no time. */
QUIPU_MUST_USE quipu_status qp_wait_begin(int64_t timeout_ms, int64_t *ret_end_ns,
                                          quipu_error *reterr);

/* Waits until the count of changes is no longer `seen`, until `end_ns` at most; QUIPU_OK in both
 * cases. QUIPU_CANCELLED: by the flag, or because the store is being closed. Other errors: the data
 * version of the file could not be read. */
QUIPU_MUST_USE quipu_status qp_wait_change(quipu_store *store, uint64_t seen, int64_t end_ns,
                                           quipu_cancel *cancel, quipu_error *reterr);

/* The time between two questions to a server, or until `end_ns`; QUIPU_CANCELLED by the flag, or
 * when the store is being closed. */
QUIPU_MUST_USE quipu_status qp_wait_pause(const quipu_store *store, int64_t end_ns,
                                          quipu_cancel *cancel, quipu_error *reterr);

#endif
