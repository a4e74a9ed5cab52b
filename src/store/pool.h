/* The reading connections of a store: opened when first needed, at most so many, the one that was
 * used last handed out first, because its caches are warm. Safe for all threads of the store. */
#ifndef QP_STORE_POOL_H
#define QP_STORE_POOL_H

#include <ent/ent.h>

#include "base/log.h"
#include "base/thread.h"
#include "store/call.h"

/* How a store gets its connections; the engine behind it is the front's affair. */
typedef struct qp_connector {
    void *ctx;
    quipu_status (*open)(void *ctx, bool read_only, ent_db **ret_db, quipu_error *reterr);
    void (*close)(void *ctx); /* after the last connection; frees ctx, or NULL */
    bool single;              /* there is only one connection: a store in memory */
    const char *missing;      /* what an upgrade would add; of `ctx`; NULL or "": nothing */
} qp_connector;

/* The pool. `idle` is a stack: its top was used last. All but `connector`, `log` and `max`, which
 * do not change, is guarded by `mutex`. */
typedef struct qp_pool {
    const qp_connector *connector;
    const qp_log *log; /* the store's, or NULL */
    qp_mutex mutex;
    qp_cond freed; /* for threads that wait for a connection */
    size_t max;
    size_t open_count;
    size_t idle_count;
    ent_db *idle[QUIPU_READERS_LIMIT];
} qp_pool;

/* All zero before. At most `max` connections, 1 to QUIPU_READERS_LIMIT. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_pool_init(qp_pool *pool, const qp_connector *connector, size_t max,
                                         quipu_error *reterr);

/* Closes the connections. All are idle: nobody is inside of the store. */
void qp_pool_done(qp_pool *pool);

/* A connection for one reader. Waits for one until the call's deadline (QUIPU_BUSY) or its cancel
 * flag (QUIPU_CANCELLED). The caller gives it back on every way out. */
QUIPU_MUST_USE quipu_status qp_pool_take(qp_pool *pool, const qp_call *call, ent_db **ret_db,
                                         quipu_error *reterr);
/* Returns a connection that has no transaction open; wakes one waiting reader. */
void qp_pool_give(qp_pool *pool, ent_db *db);

/* How many connections are open. */
size_t qp_pool_open(qp_pool *pool);

#endif
