/* The inside of a connection: the engine behind it, open transactions, the statement cache, and the
 * scratch memory that one call uses.
 *
 * Owns: struct ent_db. Its members are used by the files of src/ent; src/store uses the functions.
 * Threads: a connection belongs to one thread at a time.
 *
 * States of a transaction: depth counts the transaction and its savepoints. When the engine rolls
 * back by itself, `broken` keeps the first failure's status and every call but ent_rollback()
 * returns it:
 *
 *   depth 0 ──ent_begin──▶ depth n, broken == OK ──engine rolled back──▶ depth n, broken != OK
 *      ▲                        │ ent_commit, ent_rollback                    │ n × ent_rollback
 *      └────────────────────────┴─────────────────────────────────────────────┘
 */
#ifndef QP_ENT_DB_H
#define QP_ENT_DB_H

#include <ent/ent.h>

#include "ent/cache.h"
#include "ent/engine.h"
#include "ent/plan.h"

/* A row buffer larger than this is freed after the call, so that one huge read pins no memory. */
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
    struct qp_owners *owners;       /* keys of owners that were seen (owner.h), or NULL */
    struct qp_older *older;         /* what the file of a reader lacks (older.h), or NULL */
    bool index_damaged;             /* a full-text index is: writes pass it over */
    bool index_failed;              /* it was found out in the transaction that began last */
};

/* Wraps an engine's connection. On failure the caller still owns `conn`. */
quipu_status qp_db_new(const qp_engine *engine, void *conn, bool read_only, ent_db **ret_db,
                       quipu_error *reterr);

/* The first thing in every public call: checks that the connection can be read from or written to,
 * and frees the scratch memory of the last call. */
quipu_status qp_db_enter_read(ent_db *db, quipu_error *reterr);
quipu_status qp_db_enter_write(ent_db *db, quipu_error *reterr);

/* Called after a failed statement: sets db->broken when the engine has rolled back by itself.
 * Returns `status`. */
quipu_status qp_db_failed(ent_db *db, quipu_status status);

/* Whether the open transaction can go on: the engine has not rolled it back by itself, and no
 * statement of it met a damaged full-text index, see search_engine.h. */
bool qp_db_can_go_on(const ent_db *db);

/* Why the last transaction failed (qp_engine.failure). A write that met a damaged search index is a
 * conflict: its retry passes the index over. */
qp_failure qp_db_failure(const ent_db *db);

/* Whether that is a conflict or a lost connection: a retry may succeed at once. */
bool qp_db_is_transient(const ent_db *db);

/* Whether a transaction that failed with `status` after so many attempts is retried; sleeps with
 * jitter before it returns true. */
bool qp_db_backoff(const ent_db *db, quipu_status status, int tries);

/* Attempts in all, and the bounds of the backoff between them. */
#define QP_ATTEMPTS_MAX 10
#define QP_BACKOFF_MS_MIN 2
#define QP_BACKOFF_MS_MAX 50

/* Rows that all statements of this connection have changed, rolled back ones included: equal
 * numbers mean that nothing was changed between. */
int64_t qp_db_total_changes(const ent_db *db);

/* Whether the engine has row locks, so that several connections can write at the same time. */
bool qp_db_locks_rows(const ent_db *db);

/* Whether the store's rows lie on several servers. */
bool qp_db_is_distributed(const ent_db *db);

/* Whether qp_db_distribute() could, where it would have to; for a store that is not made yet. */
QUIPU_MUST_USE quipu_status qp_db_can_distribute(ent_db *db, bool asked, quipu_error *reterr);

/* Spreads the store's rows over several servers, in one transaction or not at all; does nothing
 * where nobody asks for that, or where it is done (qp_engine.distribute). *ret_changed: the
 * connection has to be opened again. Outside of transactions. */
QUIPU_MUST_USE quipu_status qp_db_distribute(ent_db *db, bool asked, bool *ret_changed,
                                             quipu_error *reterr);

/* Locks the key counters of these shards, which ascend, until the transaction ends: a shared writer
 * that is about to insert rows into several shards calls it before its first write. `touch`: they
 * stand for more than numbers, and who locks them later must see what this transaction did, at
 * every isolation level: it fails as a conflict otherwise. Does nothing where there are no other
 * writers. */
quipu_status qp_db_lock_keys(ent_db *db, const ent_entity *entity, const uint32_t *shards, size_t n,
                             bool touch, quipu_error *reterr);

/* The open write transaction holds derived data only, which is made again when it is lost: its
 * COMMIT need not wait until it is durable. It is all or nothing as ever, and durable with the next
 * one that is. Others wait for its locks less long. */
void qp_db_commit_later(ent_db *db);

/* Reads a number that moves with every commit of this connection and, once a transaction has begun,
 * with what other connections committed before. Equal to what it was after our last transaction:
 * nobody else has written since. False: the engine cannot say without a round trip. */
bool qp_db_peer_version(const ent_db *db, int64_t *ret_version);

/* Begins a read transaction. All its reads see one snapshot, which may be taken by the first of
 * them; ent_begin() with ENT_READ promises the snapshot of the call. */
quipu_status qp_begin_reading(ent_db *db, quipu_error *reterr);

/* Ends the innermost transaction: commits when `status` is OK, else rolls back. Returns the first
 * failure. */
quipu_status qp_tx_end(ent_db *db, quipu_status status, quipu_error *reterr);

/* A compare-and-set: updates the row that meets the condition. QUIPU_BUSY: no row does, and the
 * transaction must be rolled back. Where the engine defers writes a later call returns that. */
quipu_status qp_update_must_match(ent_db *db, const ent_entity *entity, const void *where,
                                  const void *patch, quipu_error *reterr);

/* The same for the one row with this number, the entity's first field: no conditions to walk. */
quipu_status qp_update_row(ent_db *db, const ent_entity *entity, int64_t number, const void *patch,
                           quipu_error *reterr);

/* Runs db->plan, which returns no rows; *ret_count is how many it changed. NULL: the statement may
 * be deferred (engine.h). */
quipu_status qp_run_write(ent_db *db, int64_t *ret_count, quipu_error *reterr);

/* Counts one executed statement and calls the trace hook. `start_ns` is the clock before
 * it while somebody traces, else 0. */
void qp_db_executed(ent_db *db, const char *sql, int64_t start_ns, uint64_t rows, bool cached,
                    quipu_status status);

#endif
