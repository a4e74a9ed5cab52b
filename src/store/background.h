/* The one thread that works beside the calls of a store, and how it is woken.
 *
 *            start               stop, close
 *    none ──────────▶ running ──────────────▶ none        closed: nothing starts any more
 *                        │ ▲
 *                   wait ▼ │ wake, or the time is over
 *                      waiting
 *
 * Owns: the thread, its cancel flag, and the condition on which it waits between two looks at the
 * store. What it does is the caller's (src/memory). quipu_close() ends it before it waits for
 * calls: its passes are calls like any other.
 * Locks: `gate` is held by start, stop and close, also while they join; the thread never takes it.
 * `mutex` guards the wakes alone, and nobody does anything else under it, so that a wake never
 * waits for work. */
#ifndef QP_STORE_BACKGROUND_H
#define QP_STORE_BACKGROUND_H

#include <stdatomic.h>

#include <quipu/store.h>

#include "base/thread.h"

/* The thread's work. */
typedef struct qp_background_work {
    void *ctx;
    void (*run)(void *ctx, quipu_cancel *cancel); /* returns soon after the flag is set */
    void (*free)(void *ctx);                      /* after the thread has ended */
} qp_background_work;

typedef struct qp_background {
    bool is_set_up;
    qp_mutex gate; /* guards work, thread, cancel and closed */
    qp_background_work work;
    qp_thread thread;
    quipu_cancel *cancel;
    bool closed;
    atomic_bool runs; /* written under the gate; start reads it without */
    qp_mutex mutex;   /* guards wakes */
    qp_cond woken;
    uint64_t wakes;
} qp_background;

/* All zero before. After a failure qp_background_done() does nothing. */
QUIPU_MUST_USE quipu_status qp_background_init(qp_background *background, quipu_error *reterr);
/* The thread has ended. */
void qp_background_done(qp_background *background);

/* Start the thread. On success it owns work.ctx until it is stopped. QUIPU_EXISTS when one runs,
 * which is found out without waiting, also while that one is being stopped; QUIPU_CANCELLED when
 * the store is being closed; QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_background_start(qp_background *background, qp_background_work work,
                                                quipu_error *reterr);

/* Set the flag, wake the thread, wait for its end, and return its work, which the caller frees;
 * run == NULL: there was none. Not from the thread itself. */
qp_background_work qp_background_stop(qp_background *background);

/* The same for quipu_close(): frees the work, and nothing starts after it. */
void qp_background_close(qp_background *background);

/* Wakes so far. Taken before a look at the store, and passed to qp_background_wait() after it, it
 * misses no wake. */
uint64_t qp_background_count(qp_background *background);
void qp_background_wake(qp_background *background);

/* Wait until there was a wake since `seen`, the flag (may be NULL) is set, or `until_ns`. A thread
 * that is stopped is woken; other flags are looked at every QP_BACKGROUND_SLICE_NS. */
#define QP_BACKGROUND_SLICE_NS (100 * QP_NS_PER_MS)
void qp_background_wait(qp_background *background, uint64_t seen, int64_t until_ns,
                        quipu_cancel *cancel);

#endif
