/* The interface between the entity runtime and an engine: a table of functions. An engine takes and
 * gives logical values (a time, a UUID) and owns their physical form, the small differences of its
 * SQL, transactions, and the inspection of what a database holds. Code above this header does not
 * know SQLite or PostgreSQL.
 *
 * Owns: qp_value and qp_engine. Implemented by src/ent_sqlite/open.c and src/ent_postgres/open.c,
 * and for tests by tests/engine_strict/strict.c, which checks the rules that stand here.
 * Threads: a connection, and every statement of it, belongs to one thread at a time. */
#ifndef QP_ENT_ENGINE_H
#define QP_ENT_ENGINE_H

#include <ent/ent.h>

#include "base/buf.h"

/* The kind of a value that is bound or read. Text and bytes are borrowed: a bound value until the
 * statement is reset, a read one until the next step. */
typedef enum qp_value_kind {
    QP_NULL = 0,
    QP_INT,
    QP_FLOAT,
    QP_BOOL,
    QP_TEXT, /* also enum labels and JSON */
    QP_BYTES,
    QP_TIME,
    QP_UUID,
    QP_LIST, /* bind only: the operand of IN; `list` describes it */
    QP_WORDS /* bind only: `text` is the operand of a full-text match, in the user's words */
} qp_value_kind;

typedef struct qp_list_operand {
    const void *items; /* an array of the C type of `kind` */
    size_t n;
    const char *const *labels; /* items are enum numbers when not NULL */
    uint8_t kind;              /* qp_value_kind of the items */
} qp_list_operand;

typedef struct qp_value {
    uint8_t kind; /* qp_value_kind */
    union {
        int64_t i;
        double f;
        bool b;
        quipu_str text;
        quipu_bytes bytes;
        quipu_time time;
        quipu_uuid uuid;
        const qp_list_operand *list;
    } as;
} qp_value;

/* ---- the table of functions ---------------------------------------------------------------------
 */

typedef struct qp_statement qp_statement; /* the engine's */
struct qp_row_policy;                     /* ent/row_security.h */

#define QP_NO_SHARD (-1)

/* Which integer key a new row asks for. Keys of one shard are unique and grow; so do all keys that
 * one connection allocates. */
typedef struct qp_key_request {
    int32_t shard; /* whose counter allocates it, or QP_NO_SHARD: the table has one counter */
    int64_t given; /* not 0: the row brings this key, and later keys are larger */
    int64_t above; /* the key is larger than this one */
} qp_key_request;

/* Whether the whole transaction may be retried after a failure. */
typedef enum qp_failure {
    QP_FAILURE_FINAL = 0,  /* it fails in the same way */
    QP_FAILURE_CONFLICT,   /* serialization failure, deadlock, a refused deferred write, a unique
                              key that another writer took since the look for it: it may lose
                              again while others write to the same rows */
    QP_FAILURE_LOCK,       /* a row lock was not granted in time */
    QP_FAILURE_CONNECTION, /* the connection was lost, which says nothing about other writers */
} qp_failure;

/* Whether a retry may succeed at once, without waiting for a lock. */
static inline bool qp_failure_is_transient(qp_failure failure)
{
    return failure == QP_FAILURE_CONFLICT || failure == QP_FAILURE_CONNECTION;
}

/* A read transaction whose snapshot is that of its first statement (SQLite's BEGIN DEFERRED).
 * ENT_READ takes the snapshot at once. */
#define QP_TX_DEFERRED ((ent_tx_kind)64)

/* The life of a statement; a connection may have many, and several that run at the same time:
 *
 *   prepare ─▶ bind ─▶ step: a row ─▶ ... ─▶ step: no row ─▶ reset ─▶ bind ... ─▶ finalize
 *
 * A run may be reset before its last row, and a statement finalized while it runs. */
typedef struct qp_engine {
    uint32_t version; /* 1; functions are only ever appended */
    const char *name; /* "sqlite" */

    void (*close)(void *conn);

    /* The character before a parameter's number in SQL: "?" in SQLite, "$" in PostgreSQL. */
    const char *parameter;
    /* A cluster's key is stored as one integer column `id`, owner << 32 | seq, too (plan.h). */
    bool packs_clusters;
    /* Rows have a shard, which leads every key (shard.h). */
    bool shards;

    quipu_status (*prepare)(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr);
    void (*finalize)(qp_statement *statement); /* also of one that runs; NULL is fine */
    /* Binds all parameters of a statement that does not run, before the first step of each run. */
    quipu_status (*bind)(qp_statement *statement, const qp_value *values, size_t n,
                         quipu_error *reterr);
    /* Steps once; not again behind the last row or a failure, unless it is reset. On a row, decodes
     * `n` columns as the kinds ask: a NULL column gives QP_NULL, and a value that cannot be read as
     * asked comes with the kind it is stored as, for src/ent to refuse. A broken constraint fills
     * status, rule ("unique", "required", "reference", "range", "check") and `message`:
     * "table.column, table.column" for "unique" and "required", the column for "range", nothing for
     * the others; explain.c turns these into the schema's names. Other errors have a whole
     * sentence. */
    quipu_status (*step)(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                         bool *ret_row, quipu_error *reterr);
    void (*reset)(qp_statement *statement);

    int64_t (*changes)(void *conn);       /* rows that the last statement changed */
    int64_t (*total_changes)(void *conn); /* rows that all statements changed, undone ones too */
    int64_t (*last_key)(void *conn);      /* integer key that the last insert was given */

    /* depth 0 is the transaction itself, deeper ones are savepoints; kind may be QP_TX_DEFERRED */
    quipu_status (*begin)(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr);
    quipu_status (*commit)(void *conn, int depth,
                           quipu_error *reterr); /* failed: rolled back next */
    void (*rollback)(void *conn, int depth); /* also where the engine has rolled back by itself */
    bool (*in_transaction)(void *conn);      /* false after the engine rolled back by itself */

    /* Dialect: each appends an SQL expression.
     *   put_in     `column` (a bare name) is in the list bound at `number`
     *   put_add    `column` plus the integer bound there; NULL counts as 0; a sum outside min..max
     *              fails with rule "range"
     *   put_match  the integer key `column` is in `table`'s full-text index under the bound words
     */
    void (*put_in)(qp_buf *sql, const char *column, unsigned number, bool negated);
    void (*put_add)(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max);
    void (*put_match)(qp_buf *sql, const char *column, const char *table, unsigned number);
    /* The SQL function for the position of one text in another, from 1; 0: it does not occur. */
    const char *position;

    /* migration */
    bool (*is_read_only)(void *conn);
    /* Called outside of a transaction once an existing file is known to be ours: sets what the file
     * remembers (SQLite: journal_mode=WAL). Opening leaves another program's file as it is. */
    quipu_status (*adopt)(void *conn, quipu_error *reterr);
    quipu_status (*execute)(void *conn, quipu_str sql,
                            quipu_error *reterr); /* DDL, several allowed */
    const struct qp_migrator *migrator;           /* ent/migrate_engine.h; NULL: cannot migrate */

    /* See ent_watch(). */
    void (*set_interrupt)(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

    const struct qp_searcher *searcher; /* ent/search_engine.h; NULL: no full-text search */
    /* See ent_data_version(). */
    quipu_status (*data_version)(void *conn, int64_t *ret_version, quipu_error *reterr);
    const struct qp_maintenance *maintenance; /* ent/maintenance.h; NULL: not supported */
    /* ent/change_watch.h; NULL: callers poll the data version. */
    const struct qp_change_watch_source *change_watch;

    /* Allocates the next integer key of `table`, inside of a write; without a shard, inside of an
     * exclusive one. NULL: an INTEGER PRIMARY KEY allocates its values, and last_key returns them.
     */
    quipu_status (*next_key)(void *conn, const char *table, const qp_key_request *request,
                             int64_t *ret_number, quipu_error *reterr);
    /* Why the last transaction failed. NULL: every failure is QP_FAILURE_FINAL. */
    qp_failure (*failure)(void *conn);

    /* See qp_row_security_enable(). NULL: the engine has no row-level security. */
    quipu_status (*enable_row_security)(void *conn, const struct qp_row_policy *policies, size_t n,
                                        quipu_error *reterr);
    /* The suffix of a SELECT that locks its rows until the transaction ends (" FOR UPDATE"). NULL:
     * the engine has one writer at a time, and ENT_WRITE_ROWS is ENT_WRITE. */
    const char *row_lock;
    /* Called before the first step of a write whose row count nobody asks for: in a shared write
     * transaction it may be sent without waiting. If it fails, a later call returns QUIPU_BUSY, the
     * commit at the latest, and the whole transaction has to be retried. NULL: writes are local. */
    void (*defer)(qp_statement *statement);
    /* SQL around an UPDATE that must match a row (a compare-and-set), which makes it fail with
     * QUIPU_BUSY where none matches. NULL: `changes` costs no round trip and is looked at instead.
     */
    const char *must_match_begin;
    const char *must_match_end;
    /* Taking a snapshot costs a round trip: read transactions that need not start at the time of
     * the call use QP_TX_DEFERRED. */
    bool deferred_snapshots;
    /* See qp_db_peer_version(). NULL: the engine cannot say. */
    bool (*peer_version)(void *conn, int64_t *ret_version);
    /* The suffix of an unlimited SELECT that is read row by row inside of a transaction: the engine
     * then fetches chunks. NULL: it holds one row at a time anyway. */
    const char *chunked;
    /* Locks the key counters of these shards until the transaction ends, in the order given. A
     * shared writer that allocates keys of several shards calls it before its first write, with
     * ascending shards: writers then cannot deadlock on counters. `touch`: the rows of the counters
     * are written as well, so that a transaction with an older snapshot cannot lock them
     * afterwards. NULL: nobody else writes. */
    quipu_status (*lock_keys)(void *conn, const char *table, const uint32_t *shards, size_t n,
                              bool touch, quipu_error *reterr);
    /* See qp_db_commit_later(). NULL: a COMMIT ends when it is durable, or costs no wait. */
    void (*commit_later)(void *conn);
    /* Rows lie on several servers, by their shard: an INSERT has no subquery, so that an owner that
     * was not seen is read before it (owner.h); rows of two tables meet by their shards. */
    bool distributed;
    /* Whether `distribute` could: an error that names what is missing, before anything is made. */
    quipu_status (*can_distribute)(void *conn, bool asked, quipu_error *reterr);
    /* Distributes the tables that are not distributed yet, outside of a transaction, or fails and
     * changes nothing: where it is `asked` to, where others of the store are, or where the database
     * says so. *ret_changed: it did; open connections have to be opened again. NULL: the engine
     * cannot. */
    quipu_status (*distribute)(void *conn, bool asked, bool *ret_changed, quipu_error *reterr);
} qp_engine;

#endif
