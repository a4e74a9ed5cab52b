/* The inside of a connection: the engine behind it, open transactions, the statement cache and the
 * scratch memory that every call shares. */
#ifndef QP_ENT_DB_H
#define QP_ENT_DB_H

#include <ent/ent.h>

#include "ent/cache.h"
#include "ent/engine.h"
#include "ent/plan.h"

/* Row scratch above this size is given back after the call, so that one huge read pins nothing. */
#define QP_ROWS_KEPT_MAX ((size_t)1 << 20)

struct ent_db {
    const qp_engine *engine;
    void *conn;
    bool read_only;
    int depth;           /* open transactions and savepoints */
    ent_tx_kind kind;    /* of the outermost */
    quipu_status broken; /* why the engine rolled the open transaction back by itself, or OK */
    ent_stats stats;
    ent_trace_fn trace;
    void *trace_ctx;
    qp_cache cache;
    qp_plan plan;
    quipu_arena scratch; /* for one call */
    char *rows;          /* rows of one level while they are read */
    size_t rows_capacity;
    struct qp_migration *migration; /* under way, or NULL */
    struct qp_older *older;         /* what the file of a reader lacks (older.h), or NULL */
};

/* Wrap an engine's connection. On failure the caller still owns `conn`. */
quipu_status qp_db_new(const qp_engine *engine, void *conn, bool read_only, ent_db **ret_db,
                       quipu_error *reterr);

/* At the start of every public call: is the handle fit for reading, or for writing? Frees what the
 * last call left in the scratch memory. */
quipu_status qp_db_enter_read(ent_db *db, quipu_error *reterr);
quipu_status qp_db_enter_write(ent_db *db, quipu_error *reterr);

/* After a failed statement: notice when the engine has rolled the transaction back by itself. */
quipu_status qp_db_failed(ent_db *db, quipu_status status);

/* Whether the engine has rolled the open transaction back by itself. */
bool qp_db_is_broken(const ent_db *db);

/* Whether the last transaction ended for a reason that a repeat may not meet. */
bool qp_db_is_transient(const ent_db *db);

/* Nap before a transaction that failed so is begun again, for the time number `tries` + 1; false:
 * it is not. */
bool qp_db_backoff(const ent_db *db, quipu_status status, int tries);

/* So often it is tried in all, with naps of so many milliseconds between. */
#define QP_ATTEMPTS_MAX 10
#define QP_BACKOFF_MS_MIN 2
#define QP_BACKOFF_MS_MAX 50

/* Rows that all statements of this connection have changed, those that were undone included: equal
 * numbers tell that nothing was changed between. */
int64_t qp_db_total_changes(const ent_db *db);

/* Reads a number that moves with every commit of this connection and, once a transaction has begun,
 * with what other connections committed before. Equal to what it was after our last transaction:
 * nobody else has written since. False: the engine cannot say without a round trip. */
bool qp_db_peer_version(const ent_db *db, int64_t *ret_version);

/* Begin a transaction that reads. All its reads are of one snapshot, the time of which may be that
 * of the first: ent_begin() with ENT_READ promises that of the call. */
quipu_status qp_begin_reading(ent_db *db, quipu_error *reterr);

/* End the innermost transaction: commit when `status` is OK, else roll back. Gives the first
 * failure. */
quipu_status qp_tx_end(ent_db *db, quipu_status status, quipu_error *reterr);

/* Change one row that meets the condition; QUIPU_BUSY when there is none, and the transaction must
 * be rolled back. Where the engine puts changes off (engine.h) a later call tells it. */
quipu_status qp_update_must_match(ent_db *db, const ent_entity *entity, const void *where,
                                  const void *patch, quipu_error *reterr);

/* Bind db->plan and run a statement that returns no rows; gives the number of rows it changed.
 * NULL: it may be put off (engine.h). */
quipu_status qp_run_write(ent_db *db, qp_cached *cached, bool deleting, int64_t *ret_count,
                          quipu_error *reterr);

/* Count one executed statement and tell the trace hook. `start_ns` is what qp_db_clock() gave. */
void qp_db_executed(ent_db *db, const char *sql, int64_t start_ns, uint64_t rows, bool cached,
                    quipu_status status);

/* The time, when somebody traces; else 0. */
int64_t qp_db_clock(const ent_db *db);

#endif
