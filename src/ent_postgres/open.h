/* The PostgreSQL engine's connection, and what its files offer each other.
 *
 * Owns: struct qp_pg, one libpq connection with the state of its session, transaction and pipeline.
 * Called by: the files of src/ent_postgres only; src/ent sees the function table qp_pg_engine.
 * Threads: a connection belongs to one thread at a time (include/ent/ent.h), so that nothing here
 * takes a lock. All locks are the server's row locks.
 *
 *     src/ent ──▶ stmt.c ──▶ wire.c ──▶ libpq.h (loaded at run time)
 *            └──▶ tx.c ────┘    ▲
 *     connect.c: PGconn ────────┘      cursor.c, number.c, query.c: commands over wire.c
 */
#ifndef QP_ENT_POSTGRES_OPEN_H
#define QP_ENT_POSTGRES_OPEN_H

#include <ent/postgres.h>

#include "base/log.h"
#include "ent/engine.h"
#include "ent/interrupt.h"
#include "ent/maintenance.h"
#include "ent_postgres/libpq.h"

/* The engine's own table: one row a counter, found by its name. The names are on disk since 0.1 and
 * stay, "seats" and all. */
#define QP_PG_TABLE "ent_numbers"

/* Writer slots are rows of that table, "write/00" to "write/15". They are the lock that decides how
 * many transactions write at a time:
 *
 *   ENT_WRITE_ROWS  bumps the one slot of its connection: shared, up to 16 writers side by side
 *   ENT_WRITE       locks and bumps all slots in name order: exclusive, waits for all of them
 *
 * The sum of the slots is the data version (tx.c). QP_PG_WRITER_SLOT_NEXT is the first name that
 * sorts behind all slots: '0' follows '/'. */
#define QP_PG_WRITER_SLOTS 16
#define QP_PG_WRITER_SLOT_NAME "write/"
#define QP_PG_WRITER_SLOT_NEXT "write0"
#define QP_PG_WRITER_SLOT_SIZE 12
/* Counts the connections that were assigned a slot, which they get round-robin. */
#define QP_PG_WRITER_SLOTS_ASSIGNED "seats taken"
#define QP_PG_IDENTITY "application_id"
/* The last integer key of a table: "number of <table>", or one counter for each shard,
 * "number of <table>/0042". Counters of shards are made when they are first needed and start at
 * "base of <table>", which is what the table's one counter became (number.c). */
#define QP_PG_NUMBER "number of "
#define QP_PG_NUMBER_BASE "base of "
/* The name of a shard's counter, in SQL: $1 is the table, `s` the shard. */
#define QP_PG_NUMBER_NAME "'" QP_PG_NUMBER "' || $1 || '/' || lpad(CAST(s AS text), 4, '0')"

#define QP_PG_ROW_LOCK " FOR UPDATE" /* ends a statement that may wait for another writer */

/* Around an UPDATE that must match a row (a compare-and-set). Where none matches, the division by
 * zero fails the statement with SQLSTATE 22012, which aborts the transaction and with it the rest
 * of the batch, a COMMIT included. The client needs no round trip to look at a row count. */
#define QP_PG_MUST_MATCH_BEGIN "WITH changed AS ("
#define QP_PG_MUST_MATCH_END " RETURNING 1) SELECT 1/COUNT(*) FROM changed"

/* Deferred writes are sent and not waited for: they travel with the next statement whose result is
 * wanted, the COMMIT at the latest. One more than this many is waited for. */
#define QP_PG_DEFERRED_WRITES_MAX 256
/* lock_timeout of a transaction with deferred writes. Such a write may travel with a COMMIT, which
 * is never cancelled, so that the server itself has to bound its wait for a row lock. */
#define QP_PG_DEFERRED_LOCK_TIMEOUT_MS "100"
/* lock_timeout of an exclusive transaction, at most: while it waits for a row that another program
 * has locked, no writer gets a slot. The store begins it again until the call's deadline. */
#define QP_PG_EXCLUSIVE_LOCK_TIMEOUT_MS 1000

/* A SELECT that is read row by row and has no LIMIT brings its first rows with the execution and
 * the rest through a cursor (portal), one chunk a FETCH: about QP_PG_CHUNK_BYTES, at most
 * QP_PG_CHUNK_ROWS_MAX rows. QP_PG_CHUNKED ends the text of such a SELECT and marks it. */
#define QP_PG_CHUNK_FIRST 256
#define QP_PG_CHUNKED QP_PG_LIMIT_OF(QP_PG_CHUNK_FIRST)
#define QP_PG_LIMIT_OF(n) QP_PG_LIMIT(n)
#define QP_PG_LIMIT(n) " LIMIT " #n
#define QP_PG_CHUNK_ROWS_MAX 512
#define QP_PG_CHUNK_BYTES ((size_t)1 << 20)
#define QP_PG_CLOSING_MAX 32 /* cursors that wait for their CLOSE; more end with the transaction */

/* BEGIN, SAVEPOINT and RELEASE that wait for a statement to travel with: at most one release and
 * one savepoint of each depth, the guard's pair, and the BEGIN. */
#define QP_PG_PENDING_TX_MAX (2 * ENT_SAVEPOINT_MAX + 2)
#define QP_PG_DEALLOCATE_MAX 1024 /* prepared statements that wait for their DEALLOCATE */
#define QP_PG_SERVER_MIN 130000   /* the first server with gen_random_uuid() built in */
#define QP_PG_HOSTS_MAX 16        /* hosts of a URI; longer lists are left to libpq */
#define QP_PG_NAME_SIZE 64        /* NAMEDATALEN: a table's name with its NUL */
#define QP_PG_NUMBERED_MAX 64     /* tables whose numbers one connection may take */

/* Type OIDs of pg_type that values are sent and read as; the plural is the array type. */
typedef enum qp_pg_type {
    QP_PG_BOOL = 16,
    QP_PG_BYTEA = 17,
    QP_PG_INT8 = 20,
    QP_PG_INT2 = 21,
    QP_PG_INT4 = 23,
    QP_PG_TEXT = 25,
    QP_PG_FLOAT4 = 700,
    QP_PG_FLOAT8 = 701,
    QP_PG_BYTEAS = 1001,
    QP_PG_TEXTS = 1009,
    QP_PG_INT8S = 1016,
    QP_PG_FLOAT8S = 1022,
    QP_PG_UUID = 2950,
    QP_PG_UUIDS = 2951,
    QP_PG_TSVECTOR = 3614,
    QP_PG_TSVECTORS = 3643
} qp_pg_type;

/* Commands that every transaction needs. Each is prepared with its first use on a connection and
 * executed by name from then on; their texts are in wire.c. */
typedef enum qp_pg_fixed {
    QP_PG_BEGIN_EXCLUSIVE = 0,
    QP_PG_LOCK_WRITER_SLOTS,
    QP_PG_BUMP_WRITER_SLOTS,
    QP_PG_BEGIN_SHARED,
    QP_PG_SET_LOCK_TIMEOUT,
    QP_PG_BUMP_WRITER_SLOT,
    QP_PG_ASSIGN_WRITER_SLOT,
    QP_PG_BEGIN_READ,
    QP_PG_SNAPSHOT,
    QP_PG_COMMIT,
    QP_PG_ROLLBACK,
    QP_PG_GUARD_SAVEPOINT,
    QP_PG_GUARD_RELEASE,
    QP_PG_LOCK_NUMBERS,
    QP_PG_RENAME_NUMBER,
    QP_PG_MAKE_NUMBERS,
    QP_PG_READ_NUMBER,
    QP_PG_WRITE_NUMBER,
    QP_PG_WRITE_NUMBERS,
    QP_PG_COMMIT_LATER,
    QP_PG_FIXED_COUNT
} qp_pg_fixed;

/* A table whose integer keys this connection allocates. */
typedef struct qp_pg_numbered {
    char name[QP_PG_NAME_SIZE];
    int64_t highest; /* of all counters when it was first read, and of our own commits since */
    int64_t taken;   /* the highest number that the open transaction took */
    bool is_read;    /* `highest` was read */
} qp_pg_numbered;

/* A counter of QP_PG_TABLE as the open transaction has it: the last key of a table, or of one of
 * its shards. */
typedef struct qp_pg_number {
    int32_t table; /* index in qp_pg.numbered */
    int32_t shard; /* or QP_NO_SHARD */
    int64_t last;
    bool moved; /* taken from by the open transaction, which writes it back before COMMIT */
} qp_pg_number;

/* A cursor at the server. It lives in the transaction that declared it, and dies with a rollback to
 * an earlier savepoint; which of those hit it is not tracked, so that any rollback makes it
 * unknown. */
typedef struct qp_pg_cursor {
    uint32_t number;      /* gives its name; 0: no cursor */
    uint32_t transaction; /* qp_pg.transactions when it was declared */
    uint32_t rollbacks;   /* qp_pg.rollbacks when it was declared */
    int requested_rows;   /* of the last FETCH: fewer rows came means that there are no more */
} qp_pg_cursor;

/* A connection. The states it can be in:
 *
 *              connect                 BEGIN is queued              first statement
 *   pg == NULL ───────▶ idle ─────────────────────────▶ begin pending ────────────▶ open
 *        ▲               ▲     (shared write, or read)       │                       │
 *        │               ├──── COMMIT / ROLLBACK of nothing ─┘                       │
 *        │               └──── COMMIT, ROLLBACK ─────────────────────────────────────┤
 *        └──── qp_pg_drop(): connection lost, server not writable ───────────────────┘
 *
 * idle: !in_transaction. begin pending: in_transaction && qp_pg_is_begin_pending(). A read
 * transaction that has ended may leave its ROLLBACK unanswered (undrained > 0); the next batch
 * reads that answer first. */
typedef struct qp_pg {
    PGconn *pg;        /* NULL while there is no connection */
    char *uri;         /* as given to ent_postgres_open() */
    char *tenant;      /* the tenant of row security (row_security.c), or NULL */
    bool read_only;    /* opened so: every write is refused by src/ent before it comes here */
    bool citus_wanted; /* quipu.distribute says that its stores are to be */
    bool citus;        /* the store's tables are distributed by Citus (citus.c) */
    bool locks_table;  /* the next exclusive write locks the table of the slots, too */
    bool any_host;     /* may connect to a hot standby, which may lag */
    qp_interrupt interrupt;
    qp_log log; /* the hook of the store that opened it */
    /* The deadline that was set when the open transaction began, or 0. It bounds the wait for the
     * answer to COMMIT, which is not cancelled (wire.c). */
    int64_t commit_deadline_ns;
    /* When each host of the URI last failed to answer in time, or 0 (connect.c). */
    int64_t unresponsive_ns[QP_PG_HOSTS_MAX];
    uint32_t generation;     /* of `pg`: prepared statements of an older one are gone */
    uint32_t names;          /* the last name given to a prepared statement */
    bool no_prepare;         /* a pooler in transaction mode was met: nothing is prepared by name */
    bool in_transaction;     /* src/ent has begun one; its BEGIN may still be pending */
    bool writes;             /* the open transaction holds one writer slot, or all of them */
    bool lock_timeout_set;   /* it has set lock_timeout for DDL (stmt.c) */
    bool short_lock_timeout; /* it has deferred writes: lock_timeout is the short one */
    bool commit_later;       /* its COMMIT is asynchronous */
    qp_failure failure;      /* the last one; FINAL: also when nothing has failed */
    bool committing;         /* a COMMIT waits for its answer */
    bool unreplicated; /* the COMMIT is not where it should be: at a standby, or at a worker */
    /* The queue of transaction commands that travel with the next statement, in order:
     *   0: BEGIN    depth: SAVEPOINT ent_depth    -depth: RELEASE SAVEPOINT ent_depth */
    int16_t pending_tx[QP_PG_PENDING_TX_MAX];
    size_t pending_tx_count;
    int64_t changes;       /* rows that the last statement changed */
    int64_t total_changes; /* rows that all statements changed; a deferred write counts 1 */
    qp_pg_numbered numbered[QP_PG_NUMBERED_MAX]; /* tables (number.c) */
    size_t numbered_count;
    qp_pg_number *numbers; /* counters of the open transaction, by table and shard; allocated */
    size_t number_count;
    size_t number_capacity;
    char writer_slot[QP_PG_WRITER_SLOT_SIZE]; /* the row of this connection; "": none assigned */
    int64_t moved;      /* writer slots that the open transaction bumped: 1, or all */
    int64_t own_bumps;  /* bumps committed by this connection: no change of others */
    uint32_t rollbacks; /* of transactions and savepoints: rows read before one are void */
    uint32_t deallocate[QP_PG_DEALLOCATE_MAX]; /* names that wait for their DEALLOCATE */
    size_t deallocate_count;
    uint32_t transactions;                   /* begun so far: identifies cursors of an ended one */
    uint32_t cursors;                        /* declared so far: names them */
    qp_pg_cursor closing[QP_PG_CLOSING_MAX]; /* cursors that wait for their CLOSE */
    size_t closing_count;
    uint32_t fixed[QP_PG_FIXED_COUNT]; /* names of the fixed commands; 0: not prepared yet */
    /* The batch under construction (wire.c): commands in libpq's pipeline since the last Sync. */
    uint32_t fresh;      /* fixed commands that this batch prepares, one bit each */
    int sent;            /* commands in the batch */
    int deferred_writes; /* the first so many of them are deferred writes and what led to them */
    int undrained;       /* answers of an ended read transaction that nobody has read yet */
    bool broken;         /* a send failed; qp_pg_run() reports it */
    struct qp_pg_index_batch
        *index_batch; /* rows collected for a search index (search.c), or NULL */
} qp_pg;

extern const qp_engine qp_pg_engine;
extern const qp_engine qp_pg_citus_engine;            /* of a store that is distributed by Citus */
extern const struct qp_migrator qp_pg_migrator;       /* migrate.c */
extern const struct qp_maintenance qp_pg_maintenance; /* maintenance.c */

/* ---- connect.c --------------------------------------------------------------------------------
 */

/* Opens `conn->pg`. A server that starts up or has no free connection is retried until the
 * deadline; one that does not answer only where the caller `waits`. QUIPU_INVALID: libpq cannot
 * read the URI. Requires pg == NULL. On success the session is set up (qp_pg_init_session()). */
quipu_status qp_pg_connect(qp_pg *conn, bool waits, quipu_error *reterr);

/* Makes sure of a connection before a transaction begins: reconnects when the last one was lost,
 * and clears `failure`. Called outside of transactions only: inside one a lost connection is an
 * error. */
quipu_status qp_pg_ensure_connected(qp_pg *conn, quipu_error *reterr);

/* Whether the server has closed the connection. Called between batches, when no answer is due:
 * anything readable then is either a notice or the end of the connection. */
bool qp_pg_peer_closed(const qp_pg *conn);

/* Whether the connection's server accepts a second connection, or refuses one: both show that the
 * postmaster runs. Takes as long as CONNECT_PING_TIMEOUT at most. */
bool qp_pg_ping(const qp_pg *conn);

/* Sleeps before a retry, with jitter; false: the deadline has passed or the caller has cancelled.
 */
bool qp_pg_backoff(qp_pg *conn, int64_t deadline_ns);

/* ---- wire.c -----------------------------------------------------------------------------------
 */

/* A batch is what libpq's pipeline holds up to one Sync. The server runs its commands in order and
 * skips all that follow a failed one. Building and running one:
 *
 *     qp_pg_batch(conn);                  enters pipeline mode, or goes on behind deferred writes
 *     qp_pg_send*(conn, ...);             Parse/Bind/Execute, nothing is waited for
 *     call.wanted = conn->sent - 1;       the command whose rows are wanted
 *     qp_pg_run(conn, &call, reterr);     Sync, flush, read all answers, leave pipeline mode
 *     qp_pg_call_done(&call);
 *
 * A send that fails sets conn->broken; the following sends do nothing and qp_pg_run() reports it.
 */
void qp_pg_batch(qp_pg *conn);
void qp_pg_send(qp_pg *conn, const char *sql); /* without parameters */
/* With text parameters; results come in binary form. */
void qp_pg_send_values(qp_pg *conn, const char *sql, const char *const *values, int n);
void qp_pg_send_fixed(qp_pg *conn, qp_pg_fixed command);
/* The same for a command with parameters, which are texts. */
void qp_pg_send_fixed_values(qp_pg *conn, qp_pg_fixed command, const char *const *values, int n);
/* The queued BEGIN, SAVEPOINT and RELEASE commands; the queue is empty afterwards. */
void qp_pg_send_pending_tx(qp_pg *conn);

/* Ends a read-only transaction without waiting: sends ROLLBACK and Sync, and leaves the answers to
 * qp_pg_drain(). False: this transaction has to be ended in the usual way. */
bool qp_pg_send_read_end(qp_pg *conn);

/* Reads the answers that qp_pg_send_read_end() left. Drops a connection that does not give them. */
void qp_pg_drain(qp_pg *conn);

/* One run of a batch: what the caller wants, and what came back. */
typedef struct qp_pg_call {
    const char *doing;   /* begins the sentence of an error: "cannot read" */
    int wanted;          /* index in the batch of the command whose result is wanted; -1: none */
    int64_t deadline_ns; /* cancels the batch; 0: only conn->interrupt does */
    bool no_cancel;      /* COMMIT and ROLLBACK: never cancelled, their outcome must be known */
    PGresult *result;    /* of the wanted command */
    PGresult *failure;   /* of the command that failed, or NULL */
    int failed;          /* its index */
} qp_pg_call;

/* Runs the batch. QUIPU_OK: every command succeeded. Otherwise `failure` is the server's error, or
 * NULL when the connection was lost, which is then dropped. QUIPU_BUSY and a conflict: a deferred
 * write failed, so that its caller has not been answered yet and the transaction can be retried.
 * qp_pg_call_done() in any case. */
quipu_status qp_pg_run(qp_pg *conn, qp_pg_call *call, quipu_error *reterr);
void qp_pg_call_done(qp_pg_call *call);

/* The text of a prepared statement's name; number 0 gives "", the unnamed statement. */
#define QP_PG_STATEMENT_SIZE 24
void qp_pg_name(uint32_t number, char ret_name[QP_PG_STATEMENT_SIZE]);

/* A new name, or 0 (the unnamed statement) behind a pooler in transaction mode. */
uint32_t qp_pg_new_name(qp_pg *conn);

/* Whether the batch failed with this SQLSTATE. */
bool qp_pg_has_sqlstate(const qp_pg_call *call, const char *state);

/* Closes the connection and forgets its transaction: pg is NULL and nothing is pending afterwards.
 */
void qp_pg_drop(qp_pg *conn);

/* Runs a text of several commands in the simple query protocol, outside of batches. */
quipu_status qp_pg_run_text(qp_pg *conn, const char *sql, quipu_error *reterr);

/* ---- error.c ----------------------------------------------------------------------------------
 */

/* Maps the SQLSTATE of a failed command to a status and a sentence that `doing` begins ("cannot
 * read"), and sets conn->failure. The server's own message is not passed on: it may quote values.
 */
quipu_status qp_pg_fail(qp_pg *conn, const PGresult *failure, const char *doing,
                        quipu_error *reterr);

/* QP_RULE_AWAY for the SQLSTATE of a server that cannot be reached, else NULL. */
const char *qp_pg_away(const char *state);

/* An SQLSTATE as one number in base 36, for quipu_error.engine_code. */
int32_t qp_pg_error_code(const char *state);

/* QUIPU_IO and a sentence for a connection that was lost; sets conn->failure. */
quipu_status qp_pg_fail_lost(qp_pg *conn, const char *doing, quipu_error *reterr);

/* Completes the error of a unique violation: asks the catalog for the index's columns and puts
 * "table.column, table.column" into the message. Called after the transaction has recovered,
 * because an aborted one answers no query (25P02). Does nothing for other errors. */
void qp_pg_explain_unique(qp_pg *conn, const PGresult *failure, quipu_error *reterr);

/* ---- tx.c -------------------------------------------------------------------------------------
 */

/* Depth 0 is the transaction, others are savepoints: see qp_engine. */
quipu_status qp_pg_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr);
void qp_pg_commit_later(void *conn);
quipu_status qp_pg_commit(void *conn, int depth, quipu_error *reterr);
void qp_pg_rollback(void *conn, int depth);
bool qp_pg_in_transaction(void *conn);
quipu_status qp_pg_data_version(void *conn, int64_t *ret_version, quipu_error *reterr);

/* Creates QP_PG_TABLE and its missing rows. Safe when several connections do so together. */
quipu_status qp_pg_make_table(qp_pg *conn, quipu_error *reterr);

/* Rolls the whole transaction back. Idle afterwards, also when the connection was lost; rows read
 * in the transaction are void (`rollbacks`). */
void qp_pg_rollback_all(qp_pg *conn);

/* Whether the BEGIN of the open transaction still waits in the queue: the server knows nothing yet.
 */
bool qp_pg_is_begin_pending(const qp_pg *conn);

/* Begins a shared write (ENT_WRITE_ROWS) at once, with retries, instead of queuing its BEGIN. */
quipu_status qp_pg_begin_shared(qp_pg *conn, quipu_error *reterr);

/* ---- cursor.c ---------------------------------------------------------------------------------
 */

/* Names a new cursor of the open transaction and appends its DECLARE to `text`: all rows of the
 * SELECT but the first `skip`. The caller sends the text. */
void qp_pg_cursor_declare(qp_pg *conn, qp_pg_cursor *ret_cursor, quipu_str select, int skip,
                          qp_buf *text);

/* Sends a FETCH of as many rows as make a chunk, judged by the rows of the result before. */
void qp_pg_cursor_fetch(qp_pg *conn, qp_pg_cursor *cursor, const PGresult *before);

/* Releases a cursor: queues its CLOSE, which the next batch sends. An absent cursor is fine. */
void qp_pg_cursor_end(qp_pg *conn, qp_pg_cursor *cursor);
void qp_pg_send_closing(qp_pg *conn);

/* ---- number.c ---------------------------------------------------------------------------------
 */

quipu_status qp_pg_next_key(void *conn, const char *table, const qp_key_request *request,
                            int64_t *ret_number, quipu_error *reterr);
quipu_status qp_pg_lock_keys(void *conn, const char *table, const uint32_t *shards, size_t n,
                             bool touch, quipu_error *reterr);
/* A transaction begins that may allocate numbers: it has read no counter yet. */
void qp_pg_begin_numbers(qp_pg *conn);
/* Sends the statements that write the counters back; called before COMMIT. QUIPU_NOMEM: it could
 * not, and the transaction must not be committed. */
quipu_status qp_pg_send_numbers(qp_pg *conn, quipu_error *reterr);
/* The maintenance of counters (ent/maintenance.h). */
quipu_status qp_pg_counters(void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx,
                            quipu_error *reterr);
quipu_status qp_pg_mend_counters(void *conn, const ent_entity *entity, quipu_error *reterr);
/* The transaction committed: its numbers are taken. */
void qp_pg_keep_numbers(qp_pg *conn);

/* ---- query.c ----------------------------------------------------------------------------------
 */

/* Runs one query without parameters; its rows are in call->result. Inside of a transaction a
 * failure rolls all of it back. qp_pg_call_done() in any case. */
quipu_status qp_pg_query(qp_pg *conn, const char *sql, qp_pg_call *call, quipu_error *reterr);

/* Sets up a new session: random names for prepared statements and, where it writes, a check that
 * the role does not suppress the warnings that wire.c relies on (QUIPU_UNSUPPORTED). */
quipu_status qp_pg_init_session(qp_pg *conn, quipu_error *reterr);

/* ---- citus.c ----------------------------------------------------------------------------------
 */

/* Sets conn->citus: whether the schema's tables are distributed. Asked once a connection, where the
 * database has the extension. */
quipu_status qp_pg_citus_find(qp_pg *conn, quipu_error *reterr);
/* Makes SET LOCAL reach the workers, in every session of a distributed store. */
quipu_status qp_pg_citus_init(qp_pg *conn, quipu_error *reterr);
/* The engine's `can_distribute` and `distribute`. */
quipu_status qp_pg_citus_can_distribute(void *conn, bool asked, quipu_error *reterr);
quipu_status qp_pg_citus_distribute(void *conn, bool asked, bool *ret_changed, quipu_error *reterr);

/* Bytes of the tables on all nodes, and the lowest durability of any node. */
quipu_status qp_pg_citus_sizes(qp_pg *conn, qp_sizes *ret, quipu_error *reterr);
/* "Citus 13.2, 3 workers, 32 shards..." for the engine's name. */
quipu_status qp_pg_citus_engine_text(qp_pg *conn, char *ret_text, size_t size, quipu_error *reterr);

/* ---- row_security.c ---------------------------------------------------------------------------
 */

/* Sends SET LOCAL of the tenant's setting behind a BEGIN, for the row policies; nothing where the
 * connection has no tenant. */
void qp_pg_send_tenant(qp_pg *conn);

/* ---- stmt.c, value.c, dialect.c ---------------------------------------------------------------
 */

quipu_status qp_pg_prepare(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr);
void qp_pg_finalize(qp_statement *statement);
quipu_status qp_pg_bind(qp_statement *statement, const qp_value *values, size_t n,
                        quipu_error *reterr);
quipu_status qp_pg_step(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                        bool *ret_row, quipu_error *reterr);
void qp_pg_defer(qp_statement *statement);
void qp_pg_reset(qp_statement *statement);
quipu_status qp_pg_execute(void *conn, quipu_str sql, quipu_error *reterr);

/* One bound parameter in binary form: in `slot`, or borrowed from the caller (texts and bytes), or
 * in the statement's buffer of lists. */
#define QP_PG_SLOT_SIZE 40
typedef struct qp_pg_param {
    const char *p; /* NULL: SQL NULL */
    size_t n;
    bool listed; /* in the statement's list buffer, from `at` on; `p` is unused */
    size_t at;
    Oid type;
    char slot[QP_PG_SLOT_SIZE];
} qp_pg_param;
quipu_status qp_pg_encode(const qp_value *value, qp_pg_param *ret);
quipu_status qp_pg_encode_list(const qp_list_operand *list, qp_buf *buf, Oid *ret_type);
/* A user's search words as a text array of two tsqueries: with the phrases as written, and with all
 * words in any order (search_text.c). */
quipu_status qp_pg_encode_words(quipu_str words, qp_buf *buf, Oid *ret_type);

/* Reads one column of a row as the wanted kind; texts and bytes are borrowed from the result. */
void qp_pg_decode(const PGresult *result, int row, int column, uint8_t kind, qp_value *ret);
/* An int2, int4 or int8 column; 0 when it is NULL or of another width. */
int64_t qp_pg_int(const PGresult *result, int row, int column);
/* Rows that a command changed, by its command tag. */
int64_t qp_pg_changed(PGresult *result);

void qp_pg_put_in(qp_buf *sql, const char *column, unsigned number, bool negated);
void qp_pg_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max);
void qp_pg_put_match(qp_buf *sql, const char *column, const char *table, unsigned number);
/* put_add makes an out-of-range sum fail with 22P02; the text begins so, the column's name follows.
 */
#define QP_PG_RANGE "ent_range:"

/* See ent_watch(); wire.c. */
void qp_pg_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

#endif
