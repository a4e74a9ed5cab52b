/* The pool of reading connections.
 *
 * Owns the connections and counts them: idle + lent = open_count <= max. Called by store.c for
 * every read outside of the commit group. The mutex guards the counts and the stack of idle
 * connections; it is not held while a connection opens, which may take a round trip to a server.
 * Locks: its own. On return of a give the connection is idle, outside of any transaction.
 *
 *   take ──┬── an idle one ──────▶ lent ──give──▶ idle, and one waiter is woken
 *          ├── none idle ────────▶ counted, then opened without the mutex ──▶ lent
 *          │                          └─ fails: uncounted, and one waiter is woken
 *          └── all lent ─────────▶ waits until the deadline, a cancel flag or a give
 */
#include "store/pool.h"

#include <assert.h>

#include "base/error.h"

/* Connections are opened when readers need them, at most `max`. */
quipu_status qp_pool_init(qp_pool *pool, const qp_connector *connector, size_t max,
                          quipu_error *reterr)
{
    assert(max > 0 && max <= QUIPU_READERS_LIMIT);
    if (qp_mutex_init(&pool->mutex) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_cond_init(&pool->freed) != QUIPU_OK) {
        qp_mutex_done(&pool->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    assert(pool->open_count == 0 && pool->idle_count == 0);
    pool->connector = connector;
    pool->max = max;
    return QUIPU_OK;
}

/* Called once, when the store is freed; a pool that was never set up has no connector. */
void qp_pool_done(qp_pool *pool)
{
    if (pool->connector == NULL) {
        return;
    }
    assert(pool->idle_count == pool->open_count);
    for (size_t i = 0; i < pool->idle_count; i++) {
        ent_close(pool->idle[i]);
    }
    pool->connector = NULL;
    qp_cond_done(&pool->freed);
    qp_mutex_done(&pool->mutex);
}

/* With the mutex held: an idle connection, or the permission to open one (*ret_db NULL), which is
 * counted at once, so that no other thread opens one too many. */
static quipu_status pool_wait(qp_pool *pool, const qp_call *call, ent_db **ret_db,
                              quipu_error *reterr)
{
    assert(pool->connector != NULL);
    if (pool->idle_count == 0 && pool->open_count == pool->max) {
        QP_LOG(pool->log, QUIPU_LOG_DEBUG, "store", "reader_wait",
               QP_LOG_NUMBER("readers", pool->max));
    }
    /* Looks at deadline and cancel flag before each sleep: a flag wakes nobody, so that the sleep
     * is cut into slices (qp_call_wake_ns()). */
    while (pool->idle_count == 0 && pool->open_count == pool->max) {
        quipu_status status = qp_call_check(call, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        int64_t wake_ns = qp_call_wake_ns(call);
        if (wake_ns == QP_NEVER) {
            qp_cond_wait(&pool->freed, &pool->mutex);
        } else {
            (void)qp_cond_wait_until(&pool->freed, &pool->mutex, wake_ns);
        }
    }
    assert(pool->idle_count <= pool->open_count && pool->open_count <= pool->max);
    if (pool->idle_count > 0) {
        *ret_db = pool->idle[--pool->idle_count];
    } else {
        *ret_db = NULL;
        pool->open_count++;
    }
    return QUIPU_OK;
}

/* The store was opened before. A file that cannot be opened once more was replaced since: that is a
 * fault of the store, not a request that is unsupported. */
static quipu_status pool_fault(quipu_status status, quipu_error *reterr)
{
    assert(status != QUIPU_OK);
    if (status != QUIPU_UNSUPPORTED) {
        return status;
    }
    if (reterr != NULL) {
        reterr->status = QUIPU_IO;
    }
    return QUIPU_IO;
}

/* An opening that fails returns its permission, and wakes a thread that may try. */
quipu_status qp_pool_take(qp_pool *pool, const qp_call *call, ent_db **ret_db, quipu_error *reterr)
{
    ent_db *db = NULL;
    quipu_status status;

    assert(pool->connector != NULL);
    qp_mutex_lock(&pool->mutex);
    status = pool_wait(pool, call, &db, reterr);
    qp_mutex_unlock(&pool->mutex);
    if (status == QUIPU_OK && db == NULL) {
        status = pool->connector->open(pool->connector->ctx, true, &db, reterr);
        QP_LOG(pool->log, QUIPU_LOG_DEBUG, "store", "reader_open", QP_LOG_STATUS(status));
        if (status != QUIPU_OK) {
            status = pool_fault(status, reterr);
            qp_mutex_lock(&pool->mutex);
            assert(pool->open_count > pool->idle_count);
            pool->open_count--;
            qp_cond_signal(&pool->freed);
            qp_mutex_unlock(&pool->mutex);
        }
    }
    if (status == QUIPU_OK) {
        *ret_db = db;
    }
    return status;
}

/* Puts it on top: the next reader gets the connection that was used last. */
void qp_pool_give(qp_pool *pool, ent_db *db)
{
    assert(db != NULL && ent_depth(db) == 0);
    qp_mutex_lock(&pool->mutex);
    assert(pool->idle_count < pool->open_count);
    pool->idle[pool->idle_count++] = db;
    qp_cond_signal(&pool->freed);
    qp_mutex_unlock(&pool->mutex);
}

/* For statistics and tests. */
size_t qp_pool_open(qp_pool *pool)
{
    size_t count;

    qp_mutex_lock(&pool->mutex);
    count = pool->open_count;
    assert(count <= pool->max);
    qp_mutex_unlock(&pool->mutex);
    return count;
}
