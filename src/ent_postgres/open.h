/* The connection of the server engine, as its files see it. */
#ifndef QP_ENT_POSTGRES_OPEN_H
#define QP_ENT_POSTGRES_OPEN_H

#include <ent/postgres.h>

#include "base/log.h"
#include "ent/engine.h"
#include "ent/interrupt.h"
#include "ent_postgres/libpq.h"

/* The engine's own table: numbers given out per table, the writers' seats, the application id. Its
 * rows are named by these texts. */
#define QP_PG_TABLE "ent_numbers"
/* Seats: whoever writes beside others moves his own, and so locks it; whoever writes alone moves
 * all. "write/00" and so on: the names that begin like this and sort before the next sign. */
#define QP_PG_WRITER_SLOTS 16
#define QP_PG_WRITER_SLOT_NAME "write/"
#define QP_PG_WRITER_SLOT_NEXT "write0"
#define QP_PG_WRITER_SLOT_SIZE 12
#define QP_PG_ROW_LOCK " FOR UPDATE" /* ends a statement that may wait for another writer */
/* Around a change that must meet a row: where there is none it fails, with state 22012, and so ends
 * the batch that it travels in, the COMMIT included. */
#define QP_PG_MUST_MATCH_BEGIN "WITH changed AS ("
#define QP_PG_MUST_MATCH_END " RETURNING 1) SELECT 1/COUNT(*) FROM changed"
#define QP_PG_WRITER_SLOTS_ASSIGNED "seats taken" /* seats are given out by turns */
#define QP_PG_IDENTITY "application_id"
#define QP_PG_NUMBER "number of " /* and the table's name */

/* Changes that were sent and not waited for; one more is. */
#define QP_PG_DEFERRED_WRITES_MAX 256
/* So long one of them waits for a row of others: nobody can cancel it, because a COMMIT may follow.
 */
#define QP_PG_DEFERRED_LOCK_TIMEOUT_MS "100"

/* A SELECT that is read one by one and has no limit brings so many rows with its first execution,
 * and the rest through a cursor, a piece at a time: about so many bytes, at most so many rows. */
#define QP_PG_CHUNK_FIRST 256
#define QP_PG_CHUNKED QP_PG_LIMIT_OF(QP_PG_CHUNK_FIRST) /* ends its text */
#define QP_PG_LIMIT_OF(n) QP_PG_LIMIT(n)
#define QP_PG_LIMIT(n) " LIMIT " #n
#define QP_PG_CHUNK_ROWS_MAX 512
#define QP_PG_CHUNK_BYTES ((size_t)1 << 20)
#define QP_PG_CLOSING_MAX 32 /* cursors that wait to be closed; more end with their transaction */

/* Savepoint commands that wait for a statement to travel with. */
#define QP_PG_PENDING_TX_MAX (2 * ENT_SAVEPOINT_MAX + 2)
#define QP_PG_DEALLOCATE_MAX 1024 /* statements that wait to be forgotten at the server */
#define QP_PG_SERVER_MIN 130000   /* the first that makes UUIDs by itself */
#define QP_PG_HOSTS_MAX 16        /* of a URI; with more of them libpq goes through its list */
#define QP_PG_NAME_SIZE 64        /* of a table's name with its NUL: the server's own limit */
#define QP_PG_NUMBERS_MAX 64      /* tables whose numbers a connection knows */

/* Types of values, as the server numbers them. */
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
    QP_PG_UUIDS = 2951
} qp_pg_type;

/* Commands that every transaction needs: prepared once a connection. */
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
    QP_PG_FIXED_COUNT
} qp_pg_fixed;

/* How far the numbers of a table are given out. */
typedef struct qp_pg_number {
    char table[QP_PG_NAME_SIZE];
    int64_t last;
    bool moved; /* by the open transaction, which writes it back when it commits */
} qp_pg_number;

/* A cursor at the server. */
typedef struct qp_pg_cursor {
    uint32_t number; /* gives its name; 0: there is none */
    uint32_t transaction;
    uint32_t rollbacks; /* when it was declared: whether it outlived later ones is not known */
    int requested_rows; /* rows of the piece that was fetched last */
} qp_pg_cursor;

typedef struct qp_pg {
    PGconn *pg; /* NULL while there is none */
    char *uri;
    char *tenant; /* whose rows it sees where there is row security (row_security.c), or NULL */
    bool read_only;
    bool any_host; /* also one that takes no writes, and may lag */
    qp_interrupt interrupt;
    qp_log log;
    int64_t commit_deadline_ns; /* the deadline that the open transaction began with, or 0 */
    int64_t unresponsive_ns[QP_PG_HOSTS_MAX]; /* when each host gave no answer, or 0 (connect.c) */
    uint32_t generation; /* of the connection: statements of an older one are prepared anew */
    uint32_t names;      /* given to prepared statements so far */
    bool no_prepare;     /* the next batch may meet another server: nothing is prepared for it */
    bool in_transaction;
    bool writes;             /* the open transaction holds a seat, or all of them */
    bool lock_timeout_set;   /* it has bounded its waits for tables */
    bool short_lock_timeout; /* it bounds its waits for rows when it begins */
    bool transient;          /* the last failure is one that a repeat may not meet */
    bool unreplicated;       /* the server gave up waiting for a standby */
    /* depth: a savepoint to set; -depth: one to release; 0: a transaction to begin */
    int16_t pending_tx[QP_PG_PENDING_TX_MAX];
    size_t pending_tx_count;
    int64_t changes;
    int64_t total_changes;
    qp_pg_number numbers[QP_PG_NUMBERS_MAX];
    size_t number_count;
    char writer_slot[QP_PG_WRITER_SLOT_SIZE]; /* its row's name; empty: not taken yet */
    int64_t moved;                            /* seats that the open transaction has moved */
    int64_t own_bumps;  /* those that this connection has moved and committed */
    uint32_t rollbacks; /* transactions and savepoints undone: rows read before are void */
    uint32_t deallocate
        [QP_PG_DEALLOCATE_MAX]; /* names of statements that are still prepared at the server */
    size_t deallocate_count;
    uint32_t transactions; /* begun so far */
    uint32_t cursors;      /* declared so far */
    qp_pg_cursor closing[QP_PG_CLOSING_MAX];
    size_t closing_count;
    uint32_t fixed[QP_PG_FIXED_COUNT]; /* names of the fixed commands, 0: not prepared */
    /* The batch being sent (wire.c). */
    uint32_t fresh; /* fixed commands that it prepares, one bit each */
    int sent;
    int deferred_writes;             /* so many of them wait for what is sent next */
    int undrained;                   /* the end of a reading transaction: answers not taken yet */
    bool broken;                     /* a send failed; told when the batch is run */
    struct qp_pg_gathered *gathered; /* rows on their way to a search index (search.c), or NULL */
} qp_pg;

extern const qp_engine qp_pg_engine;
extern const struct qp_migrator qp_pg_migrator;       /* migrate.c */
extern const struct qp_maintenance qp_pg_maintenance; /* keep.c */

/* ---- connect.c --------------------------------------------------------------------------------
 */

/* Connect. Until the deadline a server that is starting or has no room is waited for, and where the
 * caller `waits` also one that does not answer. QUIPU_INVALID: the URI is none. */
quipu_status qp_pg_connect(qp_pg *conn, bool waits, quipu_error *reterr);

/* Outside of a transaction: see that there is a connection, a new one when the last was lost. */
quipu_status qp_pg_ensure_connected(qp_pg *conn, quipu_error *reterr);

/* Between batches: whether the other end has hung up. */
bool qp_pg_peer_closed(const qp_pg *conn);

/* Whether the server at the other end still answers somebody, be it with a refusal. Takes as long
 * as connect_timeout at most. */
bool qp_pg_ping(const qp_pg *conn);

/* Sleep a little, differently long each time; false when the deadline has passed or the watch says
 * stop. */
bool qp_pg_backoff(qp_pg *conn, int64_t deadline_ns);

/* ---- wire.c -----------------------------------------------------------------------------------
 */

/* A batch: commands that travel together and stop at the first that fails. It goes on with what was
 * put off. */
void qp_pg_batch(qp_pg *conn);
void qp_pg_send(qp_pg *conn, const char *sql); /* a command without values */
void qp_pg_send_values(qp_pg *conn, const char *sql, const char *const *values, int n); /* texts */
void qp_pg_send_fixed(qp_pg *conn, qp_pg_fixed command);
void qp_pg_send_pending_tx(qp_pg *conn);

/* End a transaction that reads without waiting for the answer, which the next batch takes; false:
 * the usual way it must be. */
bool qp_pg_send_read_end(qp_pg *conn);

/* Take what was left so. A connection that does not answer is dropped. */
void qp_pg_drain(qp_pg *conn);

typedef struct qp_pg_call {
    const char *doing;   /* starts the sentence of a failure: "cannot read" */
    int wanted;          /* place of the command whose result is wanted, from 0; -1: none */
    int64_t deadline_ns; /* cancels what runs; 0: the watch's alone */
    bool no_cancel;      /* never cancel: the outcome must be known */
    PGresult *result;    /* of the wanted command */
    PGresult *failure;   /* of the command that failed, or NULL */
    int failed;          /* its place */
} qp_pg_call;

/* Run the batch. QUIPU_OK: every command succeeded. Otherwise `failure` tells what the server said,
 * or there is none when the connection was lost; QUIPU_BUSY, and a repeat may mend it, when it was
 * something put off that failed. qp_pg_call_done() in any case. */
quipu_status qp_pg_run(qp_pg *conn, qp_pg_call *call, quipu_error *reterr);
void qp_pg_call_done(qp_pg_call *call);

/* The name of a prepared statement; 0: that of the one without a name. */
#define QP_PG_STATEMENT_SIZE 24
void qp_pg_name(uint32_t number, char ret_name[QP_PG_STATEMENT_SIZE]);

/* A new name, or 0 where a pooler would not know it in the next transaction. */
uint32_t qp_pg_new_name(qp_pg *conn);

/* Whether a batch failed in this way: a state's five letters. */
bool qp_pg_has_sqlstate(const qp_pg_call *call, const char *state);

/* Drop a connection that is of no use any more. */
void qp_pg_drop(qp_pg *conn);

/* Text with several commands and without values, outside of batches. */
quipu_status qp_pg_run_text(qp_pg *conn, const char *sql, quipu_error *reterr);

/* ---- error.c ----------------------------------------------------------------------------------
 */

/* The server's failure in our words. `doing` starts the sentence: "cannot read". */
quipu_status qp_pg_fail(qp_pg *conn, const PGresult *failure, const char *doing,
                        quipu_error *reterr);

/* A lost connection. */
quipu_status qp_pg_fail_lost(qp_pg *conn, const char *doing, quipu_error *reterr);

/* Once the transaction is fit for questions again: which columns a unique rule is about. */
void qp_pg_explain_unique(qp_pg *conn, const PGresult *failure, quipu_error *reterr);

/* ---- tx.c -------------------------------------------------------------------------------------
 */

quipu_status qp_pg_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr);
quipu_status qp_pg_commit(void *conn, int depth, quipu_error *reterr);
void qp_pg_rollback(void *conn, int depth);
bool qp_pg_in_transaction(void *conn);
quipu_status qp_pg_data_version(void *conn, int64_t *ret_version, quipu_error *reterr);

/* Make the engine's own table. */
quipu_status qp_pg_make_table(qp_pg *conn, quipu_error *reterr);

/* Give the open transaction up. */
void qp_pg_rollback_all(qp_pg *conn);

/* Whether the open transaction begins with what is sent next. */
bool qp_pg_is_begin_pending(const qp_pg *conn);

/* Begin a transaction that writes beside others, and wait until it has begun. */
quipu_status qp_pg_begin_shared(qp_pg *conn, quipu_error *reterr);

/* ---- cursor.c ---------------------------------------------------------------------------------
 */

/* A new cursor in the open transaction, and the text that declares it: for all rows of the SELECT
 * but the first `skip`. */
void qp_pg_cursor_declare(qp_pg *conn, qp_pg_cursor *ret_cursor, quipu_str select, int skip,
                          qp_buf *text);

/* Send a fetch of as many rows as the result before lets expect to be a piece. */
void qp_pg_cursor_fetch(qp_pg *conn, qp_pg_cursor *cursor, const PGresult *before);

/* It is needed no more: it is closed together with what is sent next. */
void qp_pg_cursor_end(qp_pg *conn, qp_pg_cursor *cursor);
void qp_pg_send_closing(qp_pg *conn);

/* ---- number.c ---------------------------------------------------------------------------------
 */

quipu_status qp_pg_next_key(void *conn, const char *table, int64_t given, int64_t *ret_number,
                            quipu_error *reterr);
/* Send what writes the moved numbers back. */
void qp_pg_send_numbers(qp_pg *conn);

/* ---- ask.c ------------------------------------------------------------------------------------
 */

/* One question, inside of a transaction, which a failure ends, or not. qp_pg_call_done() in any
 * case. */
quipu_status qp_pg_query(qp_pg *conn, const char *sql, qp_pg_call *call, quipu_error *reterr);

/* A new connection: names of its own for prepared statements, and, where it writes, a look whether
 * it hears what it must hear (else QUIPU_UNSUPPORTED). */
quipu_status qp_pg_init_session(qp_pg *conn, quipu_error *reterr);

/* ---- row_security.c ---------------------------------------------------------------------------
 */

/* Send who the transaction that has just begun is for; nothing where there is no row security. */
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

/* One value as the server takes it, in `slot` or where it lies; the type that it then has. */
#define QP_PG_SLOT_SIZE 40
typedef struct qp_pg_param {
    const char *p; /* NULL: no value */
    size_t n;
    bool listed; /* it lies in the statement's lists, from `at` on */
    size_t at;
    Oid type;
    char slot[QP_PG_SLOT_SIZE];
} qp_pg_param;
quipu_status qp_pg_encode(const qp_value *value, qp_pg_param *ret);
quipu_status qp_pg_encode_list(const qp_list_operand *list, qp_buf *buf, Oid *ret_type);
/* The user's words as a list of two queries: with phrases, and with all words in any order
 * (search_text.c). */
quipu_status qp_pg_encode_words(quipu_str words, qp_buf *buf, Oid *ret_type);

/* One column of a row. */
void qp_pg_decode(const PGresult *result, int row, int column, uint8_t kind, qp_value *ret);
/* An integer of any width; 0 when it is none. */
int64_t qp_pg_int(const PGresult *result, int row, int column);
/* How many rows a command has changed. */
int64_t qp_pg_changed(PGresult *result);

void qp_pg_put_in(qp_buf *sql, const char *column, unsigned number, bool negated);
void qp_pg_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max);
void qp_pg_put_match(qp_buf *sql, const char *column, const char *table, unsigned number);
/* What the error of an addition out of range begins with, before the column. */
#define QP_PG_RANGE "ent_range:"

void qp_pg_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

#endif
