/* Talking to the server: batches in libpq's pipeline mode, so that what belongs together costs one
 * round trip, and the wait for answers, which watches the deadline and can cancel. */
#include "base/port.h"

#include "ent_postgres/open.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"

#define WIRE_STOP_POLL_MS 20                   /* how often a stop function is asked */
#define WIRE_CANCEL_WAIT_NS (10 * QP_NS_PER_S) /* a server that does not even cancel is lost */
#define WIRE_CANCEL_RETRY_NS                                                                       \
    (100 * QP_NS_PER_MS) /* a cancel that came before its statement did nothing */
#define WIRE_PING_AFTER_NS (15 * QP_NS_PER_S)  /* then the server is asked for a sign of life */
#define WIRE_COMMIT_WAIT_NS (60 * QP_NS_PER_S) /* patience with a COMMIT that has no deadline */
#define WIRE_COMMIT_GRACE_NS                                                                       \
    (5 * QP_NS_PER_S) /* more of it, past the deadline: outcomes are worth it */

/* When what runs was first cancelled, and last; 0: not. When the wait began, and when the server
 * was last known to live; 0: not begun. */
typedef struct wire_wait_state {
    int64_t first_ns;
    int64_t last_ns;
    int64_t began_ns;
    int64_t alive_ns;
} wire_wait_state;

static const char *const wire_fixed[QP_PG_FIXED_COUNT] = {
    /* Whoever is alone sees the same at every level, and at this one waits his turn for the seats:
     * at the stricter ones each wait would end in a conflict, and he might never get them all. */
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
};

/* ---- waiting ----------------------------------------------------------------------------------
 */

void qp_pg_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    qp_pg *self = conn;

    qp_interrupt_set(&self->interrupt, deadline_ns, stop, ctx);
    if (!self->in_transaction) {
        self->commit_deadline_ns =
            deadline_ns; /* what a transaction begins with holds for its commit */
    }
}

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

/* When whoever waits for a certain outcome gives the connection up. Nothing is cancelled: the
 * server would answer the cancelled wait for a standby with success. */
static int64_t wire_commit_deadline_ns(const qp_pg *conn, const wire_wait_state *wait)
{
    int64_t commit_deadline_ns = conn->commit_deadline_ns != 0
                                     ? conn->commit_deadline_ns
                                     : wait->began_ns + WIRE_COMMIT_WAIT_NS;

    commit_deadline_ns = commit_deadline_ns < wait->began_ns ? wait->began_ns : commit_deadline_ns;
    return commit_deadline_ns > INT64_MAX - WIRE_COMMIT_GRACE_NS
               ? INT64_MAX
               : commit_deadline_ns + WIRE_COMMIT_GRACE_NS;
}

static int64_t wire_sooner(int64_t until_ns, int64_t deadline_ns)
{
    return deadline_ns != 0 && deadline_ns < until_ns ? deadline_ns : until_ns;
}

/* Milliseconds until something must be looked at. */
static int wire_poll_ms(const qp_pg *conn, const qp_pg_call *call, const wire_wait_state *wait)
{
    const bool asks = conn->interrupt.stop != NULL && !call->no_cancel && wait->first_ns == 0;
    int64_t until_ns = wait->alive_ns + WIRE_PING_AFTER_NS;
    int64_t left_ms;

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

static void wire_cancel(qp_pg *conn, wire_wait_state *wait)
{
    char ignored[256];
    PGcancel *cancel = PQgetCancel(conn->pg);

    if (cancel != NULL) {
        (void)PQcancel(cancel, ignored, (int)sizeof(ignored));
        PQfreeCancel(cancel);
    }
    wait->last_ns = qp_clock_ns();
    if (wait->first_ns == 0) {
        wait->first_ns = wait->last_ns;
    }
}

/* Whether the time of what runs is over, by the watch or by its own deadline. */
static bool wire_must_cancel(qp_pg *conn, const qp_pg_call *call, int64_t now_ns)
{
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

/* Cancel what runs when its time is over; false: the server does not answer any more. A server that
 * stands still while its system answers for it is met by a question of its own: neither the network
 * tells, nor does a cancel end, which waits without bound. */
static bool wire_check(qp_pg *conn, const qp_pg_call *call, wire_wait_state *wait)
{
    const int64_t now_ns = qp_clock_ns();
    bool over;

    if (wait->began_ns == 0) {
        wait->began_ns = now_ns;
        wait->alive_ns = now_ns;
    }
    if (wait->first_ns != 0) {
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

/* Wait until a result can be taken; false: the connection is lost. */
static bool wire_wait(qp_pg *conn, const qp_pg_call *call, wire_wait_state *wait)
{
    int flush = PQflush(conn->pg);

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

void qp_pg_batch(qp_pg *conn)
{
    if (conn->deferred_writes > 0) {
        return;
    }
    qp_pg_drain(conn);
    conn->sent = 0;
    conn->fresh = 0;
    conn->unreplicated = false;
    conn->broken = conn->pg == NULL || PQenterPipelineMode(conn->pg) != 1;
}

void qp_pg_send_values(qp_pg *conn, const char *sql, const char *const *values, int n)
{
    if (!conn->broken && PQsendQueryParams(conn->pg, sql, n, NULL, values, NULL, NULL, 1) == 1) {
        conn->sent++;
    } else {
        conn->broken = true;
    }
}

void qp_pg_send(qp_pg *conn, const char *sql)
{
    qp_pg_send_values(conn, sql, NULL, 0);
}

void qp_pg_name(uint32_t number, char ret_name[QP_PG_STATEMENT_SIZE])
{
    ret_name[0] = '\0';
    if (number != 0) {
        (void)snprintf(ret_name, QP_PG_STATEMENT_SIZE, "ent_%u", (unsigned)number);
    }
}

uint32_t qp_pg_new_name(qp_pg *conn)
{
    return conn->no_prepare ? 0 : ++conn->names;
}

/* A statement of ours is not there: behind a pooler every transaction may meet another of the
 * server's connections. From now on each travels with its text. */
static void wire_disable_prepare(qp_pg *conn)
{
    conn->no_prepare = true;
    conn->generation++;
    conn->deallocate_count = 0;
    memset(conn->fixed, 0, sizeof(conn->fixed));
}

/* The preparation travels with the first use. Its place in the batch is that of the command for
 * whoever waits for a result: the last one sent. */
void qp_pg_send_fixed(qp_pg *conn, qp_pg_fixed command)
{
    const char *const values[] = {conn->writer_slot};
    const int n = command == QP_PG_BUMP_WRITER_SLOT ? 1 : 0;
    char name[QP_PG_STATEMENT_SIZE];
    bool fresh = conn->fixed[command] == 0;

    if (fresh) {
        conn->fixed[command] = qp_pg_new_name(conn);
        conn->fresh |= 1u << command;
    }
    qp_pg_name(conn->fixed[command], name);
    if (fresh && !conn->broken) {
        conn->broken = PQsendPrepare(conn->pg, name, wire_fixed[command], 0, NULL) != 1;
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

static void wire_send_begin(qp_pg *conn)
{
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

void qp_pg_send_pending_tx(qp_pg *conn)
{
    for (size_t i = 0; i < conn->pending_tx_count; i++) {
        int depth = conn->pending_tx[i];
        char sql[64];

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

/* Take one command's result. */
static void wire_take(qp_pg_call *call, int place, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

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

/* The results of `count` commands, each ended by NULL; false: the connection is lost. */
static bool wire_read(qp_pg *conn, qp_pg_call *call, int count)
{
    wire_wait_state wait = {0};
    PGresult *sync;

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

/* What was put off has failed: of the transaction nothing is stored, and whoever repeats it step by
 * step is told what it was. */
static quipu_status wire_fail_deferred(qp_pg *conn, const qp_pg_call *call, quipu_error *reterr)
{
    const char *state = PQresultErrorField(call->failure, PG_DIAG_SQLSTATE);

    conn->transient = true;
    return qp_error_set(reterr, QUIPU_BUSY,
                        "%s the database: a change before it was refused (state %s), and nothing "
                        "of the transaction is stored; try again",
                        call->doing, state != NULL ? state : "unknown");
}

quipu_status qp_pg_run(qp_pg *conn, qp_pg_call *call, quipu_error *reterr)
{
    const int deferred_writes = conn->deferred_writes;
    bool alive = !conn->broken && PQpipelineSync(conn->pg) == 1;

    conn->deferred_writes = 0;
    conn->interrupt.stopped = QUIPU_OK;
    alive = alive && wire_read(conn, call, conn->sent) && PQexitPipelineMode(conn->pg) == 1;
    if (!alive) {
        quipu_status status = qp_pg_fail_lost(conn, call->doing, reterr);
        PQclear(call->failure); /* the server's farewell says nothing about the batch */
        call->failure = NULL;
        qp_pg_drop(conn);
        return status;
    }
    if (call->failure == NULL) {
        return QUIPU_OK;
    }
    for (unsigned i = 0; i < QP_PG_FIXED_COUNT; i++) {
        if ((conn->fresh >> i & 1) != 0) {
            conn->fixed[i] = 0; /* it may not have come to it */
        }
    }
    if (qp_pg_has_sqlstate(call, "26000") || qp_pg_has_sqlstate(call, "42P05")) {
        wire_disable_prepare(conn);
    }
    if (qp_pg_has_sqlstate(call, "25006")) {
        qp_pg_drop(conn); /* a standby, or no longer in charge: look for the one that is */
    }
    return call->failed < deferred_writes ? wire_fail_deferred(conn, call, reterr)
                                          : qp_pg_fail(conn, call->failure, call->doing, reterr);
}

bool qp_pg_send_read_end(qp_pg *conn)
{
    if (conn->pg == NULL || conn->writes || conn->deferred_writes > 0 ||
        PQtransactionStatus(conn->pg) != PQTRANS_INTRANS) {
        return false;
    }
    qp_pg_batch(conn);
    qp_pg_send_fixed(conn, QP_PG_ROLLBACK);
    if (conn->broken || PQpipelineSync(conn->pg) != 1 || PQflush(conn->pg) != 0) {
        qp_pg_drop(conn); /* a rollback would not get through, either */
        return true;
    }
    conn->undrained = conn->sent;
    return true;
}

void qp_pg_drain(qp_pg *conn)
{
    qp_pg_call call = {.doing = "cannot read", .wanted = -1, .no_cancel = true};

    if (conn->undrained > 0) {
        if (!wire_read(conn, &call, conn->undrained) || call.failure != NULL ||
            PQexitPipelineMode(conn->pg) != 1) {
            qp_pg_drop(conn);
        }
        conn->undrained = 0;
        qp_pg_call_done(&call);
    }
}

void qp_pg_call_done(qp_pg_call *call)
{
    PQclear(call->result);
    PQclear(call->failure);
    call->result = NULL;
    call->failure = NULL;
}

bool qp_pg_has_sqlstate(const qp_pg_call *call, const char *state)
{
    const char *found =
        call->failure != NULL ? PQresultErrorField(call->failure, PG_DIAG_SQLSTATE) : NULL;

    return found != NULL && strcmp(found, state) == 0;
}

/* ---- several commands in one text -------------------------------------------------------------
 */

quipu_status qp_pg_run_text(qp_pg *conn, const char *sql, quipu_error *reterr)
{
    qp_pg_call call = {.doing = "cannot change", .wanted = -1};
    wire_wait_state wait = {0};
    quipu_status status = QUIPU_OK;
    PGresult *result = NULL;
    bool alive;

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
