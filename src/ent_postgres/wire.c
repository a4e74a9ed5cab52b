/* The wire: batches in libpq's pipeline mode, and the one place that waits for the server.
 *
 * Owns: the pipeline of a connection from the first command to the Sync, the names of prepared
 * statements, cancelling, and the decision that a connection is lost (qp_pg_drop()). Called by:
 * every other file of this room. Locks: none; a connection belongs to one thread at a time. On
 * return of qp_pg_run() the pipeline is empty and libpq is out of pipeline mode, or the connection
 * is dropped. Only qp_pg_drain() and qp_pg_run_text() wait besides.
 *
 *   qp_pg_batch ─▶ send, send, ... ─▶ qp_pg_run: Sync ─▶ wait ─▶ one result a command ─▶ Sync's own
 *                      ▲                 │
 *   deferred writes ───┘                 └─ a command failed: the server skips the rest
 *
 * Waiting is a poll() loop over the socket. What ends it early, by what the caller asked for:
 *
 *   statement        deadline or cancel ─▶ PQcancel every 100 ms; after 10 s: connection lost
 *   COMMIT, ROLLBACK never cancelled; past deadline + 5 s (or 60 s): connection dropped, UNKNOWN
 *   any              15 s without an answer ─▶ PQping; no answer to that: connection lost
 */
#include "base/port.h"

#include "ent_postgres/open.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"

/* How often the caller's stop function is called while a statement runs. */
#define WIRE_STOP_POLL_MS 20
/* A server that has not ended a cancelled statement for so long counts as lost. */
#define WIRE_CANCEL_WAIT_NS (10 * QP_NS_PER_S)
/* A cancel request that arrives before its statement has no effect: it is repeated. */
#define WIRE_CANCEL_RETRY_NS (100 * QP_NS_PER_MS)
/* A server that has not answered for so long is pinged, and again after as long. */
#define WIRE_PING_AFTER_NS (15 * QP_NS_PER_S)
/* How long COMMIT is waited for: until its deadline, or so long without one... */
#define WIRE_COMMIT_WAIT_NS (60 * QP_NS_PER_S)
/* ...and so much longer. */
#define WIRE_COMMIT_GRACE_NS (5 * QP_NS_PER_S)

/* One wait for the answers of a batch. All times are qp_clock_ns(), 0 means that it has not
 * happened. Invariants: first_ns <= last_ns, and both stay 0 for a call that must not be cancelled.
 */
typedef struct wire_wait_state {
    int64_t first_ns; /* the first cancel request */
    int64_t last_ns;  /* the latest one */
    int64_t began_ns; /* when the wait began */
    int64_t alive_ns; /* when the server last showed that it lives */
} wire_wait_state;

/* FROM the counters of the shards in the array $2. */
#define WIRE_NUMBERS                                                                               \
    " FROM \"" QP_PG_TABLE "\" WHERE \"name\" = ANY (ARRAY(SELECT " QP_PG_NUMBER_NAME              \
    " FROM unnest(CAST($2 AS integer[])) s))"

/* Texts of the fixed commands. LOCK_WRITER_SLOTS takes the row locks in name order, as every
 * exclusive writer does, so that two of them cannot deadlock; the UPDATE that follows takes no new
 * lock. */
static const char *const wire_fixed[QP_PG_FIXED_COUNT] = {
    /* An exclusive writer reads nothing that others change, so that every isolation level gives it
     * the same rows. It needs READ COMMITTED to queue for the slots: under REPEATABLE READ a row
     * that changed while it waited is a serialization failure (40001), and under constant shared
     * writes it might never get all slots. */
    [QP_PG_BEGIN_EXCLUSIVE] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    [QP_PG_LOCK_WRITER_SLOTS] =
        "SELECT 1 FROM \"" QP_PG_TABLE "\" WHERE \"name\">'" QP_PG_WRITER_SLOT_NAME
        "' AND \"name\"<'" QP_PG_WRITER_SLOT_NEXT "' ORDER BY \"name\" FOR UPDATE",
    [QP_PG_BUMP_WRITER_SLOTS] =
        "UPDATE \"" QP_PG_TABLE "\" SET \"last\"=\"last\"+1 WHERE "
        "\"name\">'" QP_PG_WRITER_SLOT_NAME "' AND \"name\"<'" QP_PG_WRITER_SLOT_NEXT "'",
    [QP_PG_BEGIN_SHARED] = "BEGIN READ WRITE",
    [QP_PG_SET_LOCK_TIMEOUT] = "SET LOCAL lock_timeout = " QP_PG_DEFERRED_LOCK_TIMEOUT_MS,
    [QP_PG_BUMP_WRITER_SLOT] = QP_PG_MUST_MATCH_BEGIN
    "UPDATE \"" QP_PG_TABLE "\" SET \"last\"=\"last\"+1 WHERE \"name\"=$1" QP_PG_MUST_MATCH_END,
    [QP_PG_ASSIGN_WRITER_SLOT] = "UPDATE \"" QP_PG_TABLE "\" SET \"last\"=\"last\"+1 WHERE "
                                 "\"name\"='" QP_PG_WRITER_SLOTS_ASSIGNED "' RETURNING \"last\"",
    [QP_PG_BEGIN_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    [QP_PG_SNAPSHOT] = "SELECT 1",
    [QP_PG_COMMIT] = "COMMIT",
    [QP_PG_ROLLBACK] = "ROLLBACK",
    [QP_PG_GUARD_SAVEPOINT] = "SAVEPOINT ent_guard",
    [QP_PG_GUARD_RELEASE] = "RELEASE SAVEPOINT ent_guard",
    /* Counters (number.c): $1 is the table, $2 an array of shards, or the number to write. */
    [QP_PG_LOCK_NUMBERS] =
        "SELECT CAST(right(\"name\", 4) AS bigint), \"last\"" WIRE_NUMBERS
        " AND (SELECT count(*)" WIRE_NUMBERS
        ") = cardinality(CAST($2 AS integer[])) ORDER BY \"name\"" QP_PG_ROW_LOCK,
    [QP_PG_RENAME_NUMBER] = "UPDATE \"" QP_PG_TABLE "\" SET \"name\" = '" QP_PG_NUMBER_BASE
                            "' || $1 WHERE \"name\" = '" QP_PG_NUMBER "' || $1",
    [QP_PG_MAKE_NUMBERS] =
        "INSERT INTO \"" QP_PG_TABLE "\" (\"name\", \"last\") SELECT " QP_PG_NUMBER_NAME
        ", b.\"last\" FROM unnest(CAST($2 AS integer[])) s, \"" QP_PG_TABLE
        "\" b WHERE b.\"name\" = '" QP_PG_NUMBER_BASE "' || $1 ORDER BY s "
        "ON CONFLICT (\"name\") DO NOTHING",
    [QP_PG_READ_NUMBER] = "SELECT \"last\" FROM \"" QP_PG_TABLE "\" WHERE \"name\" = '" QP_PG_NUMBER
                          "' || $1" QP_PG_ROW_LOCK,
    [QP_PG_WRITE_NUMBER] = "UPDATE \"" QP_PG_TABLE "\" SET \"last\" = CAST($2 AS bigint) "
                           "WHERE \"name\" = '" QP_PG_NUMBER "' || $1",
    [QP_PG_WRITE_NUMBERS] =
        "INSERT INTO \"" QP_PG_TABLE "\" AS n (\"name\", \"last\") SELECT " QP_PG_NUMBER_NAME
        ", v FROM unnest(CAST($2 AS integer[]), CAST($3 AS bigint[])) t(s, v) ORDER BY s "
        "ON CONFLICT (\"name\") DO UPDATE SET \"last\" = GREATEST(n.\"last\", EXCLUDED.\"last\")",
    [QP_PG_COMMIT_LATER] = "SET LOCAL synchronous_commit = off",
};
#undef WIRE_NUMBERS

/* The same on a store that is distributed, where they differ. A slot is locked and not written: it
 * lies on the coordinator, and a transaction that writes to two servers needs a two-phase commit.
 * So an append writes to the servers of its own sessions only. */
static const char *const wire_citus[QP_PG_FIXED_COUNT] = {
    [QP_PG_BUMP_WRITER_SLOTS] =
        "SELECT 1 FROM \"" QP_PG_TABLE "\" WHERE \"name\">'" QP_PG_WRITER_SLOT_NAME
        "' AND \"name\"<'" QP_PG_WRITER_SLOT_NEXT "'",
    [QP_PG_BUMP_WRITER_SLOT] = "SELECT 1 FROM \"" QP_PG_TABLE "\" WHERE \"name\"=$1 FOR UPDATE",
};

/* The text of a fixed command on this connection. */
static const char *wire_text(const qp_pg *conn, qp_pg_fixed command)
{
    assert(command < QP_PG_FIXED_COUNT && wire_fixed[command] != NULL);
    return conn->citus && wire_citus[command] != NULL ? wire_citus[command] : wire_fixed[command];
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

/* The engine's set_interrupt: deadline and stop function of the calls that follow. COMMIT uses the
 * deadline of its BEGIN, because a store clears the interrupt between its statements. */
void qp_pg_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    qp_pg *self = conn;

    assert(conn != NULL);
    assert(deadline_ns >= 0);
    qp_interrupt_set(&self->interrupt, deadline_ns, stop, ctx);
    if (!self->in_transaction) {
        self->commit_deadline_ns = deadline_ns;
    }
}

/* Everything that depended on the session goes with it: its transaction, queued commands, unread
 * answers and prepared names (the next connection has a new generation). */
void qp_pg_drop(qp_pg *conn)
{
    PQfinish(conn->pg);
    conn->pg = NULL;
    conn->in_transaction = false;
    conn->writes = false;
    conn->pending_tx_count = 0;
    conn->deferred_writes = 0;
    conn->undrained = 0;
    conn->deallocate_count = 0;
    conn->rollbacks++;
}

/* When the wait for COMMIT or ROLLBACK ends and the connection is dropped. Cancelling instead would
 * be wrong: a cancelled wait for a synchronous standby makes the server answer COMMIT with success
 * (and a warning). The grace period is there because an UNKNOWN outcome costs its caller more than
 * five seconds. */
static int64_t wire_commit_deadline_ns(const qp_pg *conn, const wire_wait_state *wait)
{
    int64_t commit_deadline_ns = conn->commit_deadline_ns != 0
                                     ? conn->commit_deadline_ns
                                     : wait->began_ns + WIRE_COMMIT_WAIT_NS;

    assert(wait->began_ns != 0);
    commit_deadline_ns = commit_deadline_ns < wait->began_ns ? wait->began_ns : commit_deadline_ns;
    return commit_deadline_ns > INT64_MAX - WIRE_COMMIT_GRACE_NS
               ? INT64_MAX
               : commit_deadline_ns + WIRE_COMMIT_GRACE_NS;
}

/* The earlier of two times; 0 means no deadline. */
static int64_t wire_sooner(int64_t until_ns, int64_t deadline_ns)
{
    assert(until_ns > 0);
    return deadline_ns != 0 && deadline_ns < until_ns ? deadline_ns : until_ns;
}

/* The timeout of the next poll(): until the next thing that wire_check() has to do. */
static int wire_poll_ms(const qp_pg *conn, const qp_pg_call *call, const wire_wait_state *wait)
{
    const bool asks = conn->interrupt.stop != NULL && !call->no_cancel && wait->first_ns == 0;
    int64_t until_ns = wait->alive_ns + WIRE_PING_AFTER_NS;
    int64_t left_ms;

    assert(wait->began_ns != 0);
    assert(!call->no_cancel || wait->first_ns == 0);
    if (wait->first_ns != 0) {
        until_ns = wait->last_ns + WIRE_CANCEL_RETRY_NS;
    } else if (call->no_cancel) {
        until_ns = wire_sooner(until_ns, wire_commit_deadline_ns(conn, wait));
    } else {
        until_ns = wire_sooner(until_ns, call->deadline_ns);
        until_ns = wire_sooner(until_ns, conn->interrupt.deadline_ns);
    }
    left_ms = (until_ns - qp_clock_ns()) / QP_NS_PER_MS + 1;
    left_ms = left_ms < 0 ? 0 : left_ms;
    return (int)(asks && left_ms > WIRE_STOP_POLL_MS ? WIRE_STOP_POLL_MS : left_ms);
}

/* Sends a cancel request over a connection of its own, as the protocol wants it. It does not name a
 * statement, so that one which arrives too early hits nothing; wire_check() repeats it. */
static void wire_cancel(qp_pg *conn, wire_wait_state *wait)
{
    char ignored[256];
    PGcancel *cancel = PQgetCancel(conn->pg);

    assert(conn->pg != NULL);
    if (cancel != NULL) {
        (void)PQcancel(cancel, ignored, (int)sizeof(ignored));
        PQfreeCancel(cancel);
    }
    wait->last_ns = qp_clock_ns();
    if (wait->first_ns == 0) {
        wait->first_ns = wait->last_ns;
    }
}

/* Whether the running statement has to be cancelled: the interrupt says so, or the call's own
 * deadline has passed, which then is QUIPU_BUSY. The reason is in conn->interrupt.stopped. */
static bool wire_must_cancel(qp_pg *conn, const qp_pg_call *call, int64_t now_ns)
{
    assert(now_ns > 0);
    if (call->no_cancel) {
        return false;
    }
    if (qp_interrupt_check(&conn->interrupt)) {
        return true;
    }
    if (call->deadline_ns == 0 || now_ns < call->deadline_ns) {
        return false;
    }
    conn->interrupt.stopped = QUIPU_BUSY;
    return true;
}

/* Looks after a wait; false: the connection counts as lost. The cases, in this order:
 *
 *   1. a cancel is under way   repeat it every WIRE_CANCEL_RETRY_NS, up to WIRE_CANCEL_WAIT_NS
 *   2. COMMIT past its time    lost: the outcome is unknown to us
 *   3. time to cancel          ping, then cancel
 *   4. no answer for 15 s      ping
 *
 * The ping (a second connection) comes first because PQcancel() connects without a timeout: against
 * a stopped postmaster whose kernel still accepts, it would block for ever, and TCP keepalives do
 * not see such a server either. */
static bool wire_check(qp_pg *conn, const qp_pg_call *call, wire_wait_state *wait)
{
    const int64_t now_ns = qp_clock_ns();
    bool over;

    assert(conn->pg != NULL);
    assert(wait->first_ns <= wait->last_ns);
    if (wait->began_ns == 0) {
        wait->began_ns = now_ns;
        wait->alive_ns = now_ns;
    }
    if (wait->first_ns != 0) {
        assert(!call->no_cancel);
        if (now_ns < wait->last_ns + WIRE_CANCEL_RETRY_NS) {
            return true;
        }
        if (now_ns >= wait->first_ns + WIRE_CANCEL_WAIT_NS || !qp_pg_ping(conn)) {
            return false;
        }
        wire_cancel(conn, wait);
        return true;
    }
    if (call->no_cancel && now_ns >= wire_commit_deadline_ns(conn, wait)) {
        return false;
    }
    over = wire_must_cancel(conn, call, now_ns);
    if (over || now_ns >= wait->alive_ns + WIRE_PING_AFTER_NS) {
        if (!qp_pg_ping(conn)) {
            return false;
        }
        wait->alive_ns = qp_clock_ns();
    }
    if (over) {
        wire_cancel(conn, wait);
    }
    return true;
}

/* Flushes what was sent and waits until PQgetResult() does not block; false: the connection is
 * lost. Reads while it writes: in pipeline mode a server whose send buffer is full stops reading,
 * so that a client which only writes would deadlock with it. */
static bool wire_wait(qp_pg *conn, const qp_pg_call *call, wire_wait_state *wait)
{
    int flush = PQflush(conn->pg);

    assert(conn->pg != NULL);
    while (flush == 1 || PQisBusy(conn->pg) != 0) {
        struct pollfd fd = {.fd = PQsocket(conn->pg),
                            .events = (short)(POLLIN | (flush == 1 ? POLLOUT : 0))};

        if (fd.fd < 0 || !wire_check(conn, call, wait)) {
            return false;
        }
        if (poll(&fd, 1, wire_poll_ms(conn, call, wait)) < 0 && errno != EINTR) {
            return false;
        }
        if ((fd.revents & (POLLIN | POLLERR | POLLHUP)) != 0 && PQconsumeInput(conn->pg) == 0) {
            return false;
        }
        flush = flush == 1 ? PQflush(conn->pg) : flush;
    }
    return true;
}

/* ---- batches ----------------------------------------------------------------------------------
 */

/* Deferred writes are already in the pipeline: then the batch goes on behind them. */
void qp_pg_batch(qp_pg *conn)
{
    if (conn->deferred_writes > 0) {
        return;
    }
    qp_pg_drain(conn);
    assert(conn->undrained == 0);
    conn->sent = 0;
    conn->fresh = 0;
    conn->unreplicated = false;
    conn->broken = conn->pg == NULL || PQenterPipelineMode(conn->pg) != 1;
}

/* The unnamed statement: Parse, Bind and Execute of a text, with results in binary form. */
void qp_pg_send_values(qp_pg *conn, const char *sql, const char *const *values, int n)
{
    assert(sql != NULL);
    assert(n == 0 || values != NULL);
    if (!conn->broken && PQsendQueryParams(conn->pg, sql, n, NULL, values, NULL, NULL, 1) == 1) {
        conn->sent++;
    } else {
        conn->broken = true;
    }
}

/* A command without parameters. */
void qp_pg_send(qp_pg *conn, const char *sql)
{
    assert(sql != NULL);
    qp_pg_send_values(conn, sql, NULL, 0);
}

/* Names are "ent_" and the number; the DEALLOCATE of stmt.c spells them in the same way. */
void qp_pg_name(uint32_t number, char ret_name[QP_PG_STATEMENT_SIZE])
{
    assert(ret_name != NULL);
    ret_name[0] = '\0';
    if (number != 0) {
        (void)snprintf(ret_name, QP_PG_STATEMENT_SIZE, "ent_%u", (unsigned)number);
    }
}

/* Never 0 for a named statement: names start at a random value below 2^31 (query.c). */
uint32_t qp_pg_new_name(qp_pg *conn)
{
    assert(conn->names < UINT32_MAX);
    return conn->no_prepare ? 0 : ++conn->names;
}

/* The server does not know a statement that this connection prepared (26000), or knows another of
 * that name (42P05): a pooler in transaction mode gives each transaction another server connection.
 * From now on every statement is parsed anew as the unnamed one, which lives for one batch. */
static void wire_disable_prepare(qp_pg *conn)
{
    conn->no_prepare = true;
    conn->generation++;
    conn->deallocate_count = 0;
    memset(conn->fixed, 0, sizeof(conn->fixed));
}

/* A fixed command; the first use on a connection prepares it in the same batch. Where the command's
 * own index matters to the caller it is conn->sent - 1 afterwards, except for a BEGIN, which the
 * tenant's SET LOCAL follows. */
void qp_pg_send_fixed_values(qp_pg *conn, qp_pg_fixed command, const char *const *values, int n)
{
    char name[QP_PG_STATEMENT_SIZE];
    bool fresh = conn->fixed[command] == 0;

    assert(command < QP_PG_FIXED_COUNT && wire_fixed[command] != NULL);
    assert(n == 0 || values != NULL);
    if (fresh) {
        conn->fixed[command] = qp_pg_new_name(conn);
        conn->fresh |= 1u << command;
    }
    qp_pg_name(conn->fixed[command], name);
    if (fresh && !conn->broken) {
        conn->broken = PQsendPrepare(conn->pg, name, wire_text(conn, command), 0, NULL) != 1;
        conn->sent++;
    }
    if (!conn->broken) {
        conn->broken = PQsendQueryPrepared(conn->pg, name, n, values, NULL, NULL, 1) != 1;
        conn->sent++;
    }
    if (strncmp(wire_fixed[command], "BEGIN", strlen("BEGIN")) == 0) {
        qp_pg_send_tenant(conn);
    }
}

/* A fixed command without parameters, or with the one that its connection knows. */
void qp_pg_send_fixed(qp_pg *conn, qp_pg_fixed command)
{
    const char *const values[] = {conn->writer_slot};
    const int n = command == QP_PG_BUMP_WRITER_SLOT ? 1 : 0;

    assert(n == 0 || conn->writer_slot[0] != '\0');
    qp_pg_send_fixed_values(conn, command, values, n);
}

/* The BEGIN of a transaction that qp_pg_begin() queued: a read, or a shared write. */
static void wire_send_begin(qp_pg *conn)
{
    assert(conn->in_transaction);
    if (!conn->writes) {
        qp_pg_send_fixed(conn, QP_PG_BEGIN_READ);
        return;
    }
    qp_pg_send_fixed(conn, QP_PG_BEGIN_SHARED);
    if (conn->short_lock_timeout) {
        qp_pg_send_fixed(conn, QP_PG_SET_LOCK_TIMEOUT);
    }
    qp_pg_send_fixed(conn, QP_PG_BUMP_WRITER_SLOT);
}

/* Sends the queue in its order. A BEGIN can only stand first: savepoints need a transaction. */
void qp_pg_send_pending_tx(qp_pg *conn)
{
    assert(conn->pending_tx_count <= QP_PG_PENDING_TX_MAX);
    for (size_t i = 0; i < conn->pending_tx_count; i++) {
        int depth = conn->pending_tx[i];
        char sql[64];

        assert(depth != 0 || i == 0);
        if (depth == 0) {
            wire_send_begin(conn);
            continue;
        }
        (void)snprintf(sql, sizeof(sql), "%s ent_%d", depth > 0 ? "SAVEPOINT" : "RELEASE SAVEPOINT",
                       depth > 0 ? depth : -depth);
        qp_pg_send(conn, sql);
    }
    conn->pending_tx_count = 0;
}

/* Keeps a command's result where the caller wants it, and the first error; frees the rest.
 * PGRES_PIPELINE_ABORTED, the answer of commands that were skipped behind the error, is freed, too.
 */
static void wire_take(qp_pg_call *call, int place, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    assert(result != NULL);
    assert(place >= 0);
    if ((status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) && place == call->wanted) {
        PQclear(call->result);
        call->result = result;
        return;
    }
    if (status == PGRES_FATAL_ERROR && call->failure == NULL) {
        call->failure = result;
        call->failed = place;
        return;
    }
    PQclear(result);
}

/* Reads the answers of a batch: the results of `count` commands, each list ended by NULL, then the
 * result of the Sync. False: the connection is lost, at whatever point. */
static bool wire_read(qp_pg *conn, qp_pg_call *call, int count)
{
    wire_wait_state wait = {0};
    PGresult *sync;

    assert(count >= 0);
    for (int i = 0; i < count; i++) {
        PGresult *result;
        do {
            if (!wire_wait(conn, call, &wait)) {
                return false;
            }
            result = PQgetResult(conn->pg);
            if (result != NULL) {
                wire_take(call, i, result);
            }
        } while (result != NULL);
    }
    if (!wire_wait(conn, call, &wait)) {
        return false;
    }
    sync = PQgetResult(conn->pg);
    PQclear(sync);
    return sync != NULL && PQstatus(conn->pg) == CONNECTION_OK;
}

/* A deferred write failed: its index lies before the first command that somebody waits for. The
 * server has aborted the transaction, nothing of it is stored. The error belongs to an earlier call
 * than the one that gets it, so that the status is QUIPU_BUSY and the caller retries the
 * transaction step by step, which then shows the error where it belongs. */
static quipu_status wire_fail_deferred(qp_pg *conn, const qp_pg_call *call, quipu_error *reterr)
{
    const char *state = PQresultErrorField(call->failure, PG_DIAG_SQLSTATE);

    assert(call->failure != NULL);
    assert(call->failed >= 0);
    /* A class 08 is a server's own report that it has lost another one (Citus). */
    conn->failure =
        state != NULL && strncmp(state, "08", 2) == 0 ? QP_FAILURE_CONNECTION : QP_FAILURE_CONFLICT;
    return qp_error_set(reterr, QUIPU_BUSY,
                        "%s the database: an earlier write of the transaction was refused (state "
                        "%s), and nothing of it is stored; try again",
                        call->doing, state != NULL ? state : "unknown");
}

/* One Sync, one wait, all answers. Failures that concern the connection are handled here, so that
 * no caller sees them twice: a lost connection is dropped, unknown prepared names are dropped, and
 * a server that refuses writes (25006, a standby or a demoted primary) is left for another host. */
quipu_status qp_pg_run(qp_pg *conn, qp_pg_call *call, quipu_error *reterr)
{
    const int deferred_writes = conn->deferred_writes;
    bool alive = !conn->broken && PQpipelineSync(conn->pg) == 1;

    assert(call->result == NULL && call->failure == NULL);
    assert(call->wanted >= -1 && call->wanted <= conn->sent);
    assert(conn->deferred_writes <= conn->sent);
    conn->deferred_writes = 0;
    conn->interrupt.stopped = QUIPU_OK;
    alive = alive && wire_read(conn, call, conn->sent) && PQexitPipelineMode(conn->pg) == 1;
    if (!alive) {
        quipu_status status = qp_pg_fail_lost(conn, call->doing, reterr);
        PQclear(call->failure); /* 57P01 and the like explain the loss, not the batch */
        call->failure = NULL;
        qp_pg_drop(conn);
        return status;
    }
    if (call->failure == NULL) {
        return QUIPU_OK;
    }
    for (unsigned i = 0; i < QP_PG_FIXED_COUNT; i++) {
        if ((conn->fresh >> i & 1) != 0) {
            conn->fixed[i] = 0; /* its PREPARE may have been skipped behind the error */
        }
    }
    if (qp_pg_has_sqlstate(call, "26000") || qp_pg_has_sqlstate(call, "42P05")) {
        wire_disable_prepare(conn);
    }
    if (qp_pg_has_sqlstate(call, "25006")) {
        qp_pg_drop(conn); /* the next transaction looks for the primary */
    }
    return call->failed < deferred_writes ? wire_fail_deferred(conn, call, reterr)
                                          : qp_pg_fail(conn, call->failure, call->doing, reterr);
}

/* ROLLBACK of a read has no outcome that anybody needs. Its answer is read by the next batch, which
 * saves a round trip a read transaction. PQflush() must have sent all of it: the rest would never
 * go out while nobody waits on this connection. */
bool qp_pg_send_read_end(qp_pg *conn)
{
    assert(!conn->in_transaction || conn->undrained == 0);
    if (conn->pg == NULL || conn->writes || conn->deferred_writes > 0 ||
        PQtransactionStatus(conn->pg) != PQTRANS_INTRANS) {
        return false;
    }
    qp_pg_batch(conn);
    qp_pg_send_fixed(conn, QP_PG_ROLLBACK);
    if (conn->broken || PQpipelineSync(conn->pg) != 1 || PQflush(conn->pg) != 0) {
        qp_pg_drop(conn); /* an ordinary ROLLBACK would not get through, either */
        return true;
    }
    conn->undrained = conn->sent;
    return true;
}

/* The answer to a ROLLBACK is near, so that the wait is bounded like that of a COMMIT. */
void qp_pg_drain(qp_pg *conn)
{
    qp_pg_call call = {.doing = "cannot read", .wanted = -1, .no_cancel = true};

    assert(conn->undrained == 0 || conn->pg != NULL);
    if (conn->undrained > 0) {
        if (!wire_read(conn, &call, conn->undrained) || call.failure != NULL ||
            PQexitPipelineMode(conn->pg) != 1) {
            qp_pg_drop(conn);
        }
        conn->undrained = 0;
        qp_pg_call_done(&call);
    }
}

/* Frees both results; a second call does nothing. */
void qp_pg_call_done(qp_pg_call *call)
{
    assert(call != NULL);
    PQclear(call->result);
    PQclear(call->failure);
    call->result = NULL;
    call->failure = NULL;
}

/* False when the batch succeeded or the connection was lost. */
bool qp_pg_has_sqlstate(const qp_pg_call *call, const char *state)
{
    const char *found =
        call->failure != NULL ? PQresultErrorField(call->failure, PG_DIAG_SQLSTATE) : NULL;

    assert(strlen(state) == 5);
    return found != NULL && strcmp(found, state) == 0;
}

/* ---- several commands in one text -------------------------------------------------------------
 */

/* DDL and VACUUM: several commands in one simple query, results thrown away. VACUUM refuses to run
 * in a pipeline's implicit transaction, and DDL texts hold several commands, which Parse refuses.
 */
quipu_status qp_pg_run_text(qp_pg *conn, const char *sql, quipu_error *reterr)
{
    qp_pg_call call = {.doing = "cannot change", .wanted = -1};
    wire_wait_state wait = {0};
    quipu_status status = QUIPU_OK;
    PGresult *result = NULL;
    bool alive;

    assert(sql != NULL);
    assert(conn->deferred_writes == 0);
    conn->interrupt.stopped = QUIPU_OK;
    qp_pg_drain(conn);
    alive = conn->pg != NULL && PQsendQuery(conn->pg, sql) == 1;
    do {
        alive = alive && wire_wait(conn, &call, &wait);
        result = alive ? PQgetResult(conn->pg) : NULL;
        if (result != NULL) {
            wire_take(&call, 0, result);
        }
    } while (result != NULL);
    if (!alive || PQstatus(conn->pg) != CONNECTION_OK) {
        status = qp_pg_fail_lost(conn, call.doing, reterr);
        qp_pg_drop(conn);
    } else if (call.failure != NULL) {
        status = qp_pg_fail(conn, call.failure, call.doing, reterr);
    }
    qp_pg_call_done(&call);
    return status;
}
