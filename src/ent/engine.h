/* The seam between the entity runtime and an engine. An engine is a table of functions; it speaks
 * logical values (a time, a UUID) and owns their physical form, the SQL dialect's small
 * differences, and the inspection of what a file holds. Nothing above this header knows SQLite. */
#ifndef QP_ENT_ENGINE_H
#define QP_ENT_ENGINE_H

#include <ent/ent.h>

#include "base/buf.h"

/* A value on its way to or from the engine. Text and bytes are borrowed: for a bind until the
 * statement is reset, for a read until the next step. */
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

/* A transaction that takes its snapshot with the first statement: what a read of several statements
 * needs. ENT_READ takes it at once. */
#define QP_TX_DEFERRED ((ent_tx_kind)0)

typedef struct qp_engine {
    uint32_t version; /* 1; functions are only ever appended */
    const char *name; /* "sqlite" */

    void (*close)(void *conn);

    /* What stands before a parameter's number in SQL: "?" in SQLite, "$" in PostgreSQL. */
    const char *parameter;
    /* A cluster's key is also kept as one integer column `id`, owner << 32 | seq (cluster.h). */
    bool packs_clusters;
    /* Rows have a shard, which leads every key (shard.h). */
    bool shards;

    quipu_status (*prepare)(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr);
    void (*finalize)(qp_statement *statement);
    quipu_status (*bind)(qp_statement *statement, const qp_value *values, size_t n,
                         quipu_error *reterr);
    /* Step once. On a row, decode `n` columns as the kinds ask (a NULL column gives QP_NULL; a
     * value that cannot be read as asked comes with the kind it is stored as, for the caller to
     * refuse). A broken constraint fills status, rule ("unique", "required", "reference", "range",
     * "check") and `message`: "table.column, table.column" for "unique" and "required", the column
     * for "range"; the runtime turns these into the schema's words. Everything else gets a whole
     * sentence. */
    quipu_status (*step)(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                         bool *ret_row, quipu_error *reterr);
    void (*reset)(qp_statement *statement);

    int64_t (*changes)(void *conn);       /* rows that the last statement changed */
    int64_t (*total_changes)(void *conn); /* rows that all statements changed, undone ones too */
    int64_t (*last_key)(void *conn);      /* integer key given out by the last insert */

    /* depth 0 is the transaction itself, deeper ones are savepoints; kind may be QP_TX_DEFERRED */
    quipu_status (*begin)(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr);
    quipu_status (*commit)(void *conn, int depth, quipu_error *reterr);
    void (*rollback)(void *conn, int depth);
    bool (*in_transaction)(void *conn); /* false after the engine rolled back by itself */

    /* Dialect. Append to `sql`: that `column` (a bare name) is in the list bound at `number`;
     * `column` plus the integer bound there, NULL counting as 0, refused outside min..max with rule
     * "range"; that the row's integer key `column` is found in `table`'s full-text index by the
     * bound words. */
    void (*put_in)(qp_buf *sql, const char *column, unsigned number, bool negated);
    void (*put_add)(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max);
    void (*put_match)(qp_buf *sql, const char *column, const char *table, unsigned number);
    /* The function that gives the place of one text in another, from 1; 0: it is not there. */
    const char *position;

    /* migration */
    bool (*is_read_only)(void *conn);
    /* Called outside a transaction once an existing file is known to be ours: settle what the file
     * keeps for good (SQLite: the write-ahead log). Opening leaves a stranger's file as it is. */
    quipu_status (*adopt)(void *conn, quipu_error *reterr);
    quipu_status (*execute)(void *conn, quipu_str sql,
                            quipu_error *reterr); /* DDL, several allowed */
    const struct qp_migrator *migrator;           /* ent/migrate_engine.h; NULL: cannot migrate */

    /* See ent_watch(). */
    void (*set_interrupt)(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

    const struct qp_searcher *searcher; /* ent/search_engine.h; NULL: no full-text search */
    /* See ent_data_version(). */
    quipu_status (*data_version)(void *conn, int64_t *ret_version, quipu_error *reterr);
    const struct qp_maintenance
        *maintenance; /* ent/maintenance.h; NULL: cannot keep a file in order */
    const struct qp_change_watch_source
        *change_watch; /* ent/change_watch.h; NULL: others' commits are asked for */

    /* Where no column gives out integer keys by itself: inside a writing transaction, the next
     * number of `table`. A number that the caller gives, other than 0, is given back, and those
     * drawn later lie above it. NULL: columns give keys out, and last_key tells them. */
    quipu_status (*next_key)(void *conn, const char *table, int64_t given, int64_t *ret_number,
                             quipu_error *reterr);
    /* Whether the last transaction ended for a reason that a repeat may not meet: a conflict that
     * the server resolved against us, a lost connection. NULL: there is no such reason. */
    bool (*is_transient)(void *conn);

    /* See qp_row_security_enable(). NULL: tenants are kept apart by our conditions alone. */
    quipu_status (*enable_row_security)(void *conn, const struct qp_row_policy *policies, size_t n,
                                        quipu_error *reterr);
    /* What ends a SELECT that keeps others off its rows until the transaction ends. NULL: whoever
     * writes is alone anyway, and ENT_WRITE_ROWS is ENT_WRITE. */
    const char *row_lock;
    /* Before the first step of a statement that gives no rows: nobody has asked how many it
     * changes, so that in a transaction that writes beside others it need not be waited for. Its
     * failure is then QUIPU_BUSY, and that of a later call, the commit at the latest. NULL: there
     * is nothing to wait for. */
    void (*defer)(qp_statement *statement);
    /* Before and after an UPDATE that must meet a row, so that it fails (QUIPU_BUSY) where there is
     * none. NULL: `changes` tells at no cost. */
    const char *must_match_begin;
    const char *must_match_end;
    /* A snapshot is asked for like a row: reads that belong together take theirs with the first of
     * them (QP_TX_DEFERRED). */
    bool deferred_snapshots;
    /* See qp_db_peer_version(). NULL: the engine cannot say. */
    bool (*peer_version)(void *conn, int64_t *ret_version);
    /* What ends a SELECT of any number of rows that are read one by one inside a transaction: the
     * engine then brings them in pieces. NULL: it holds one row at a time anyway. */
    const char *chunked;
} qp_engine;

#endif
