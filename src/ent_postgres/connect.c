/* Making a connection and keeping one: a server that went away is looked for again, with naps of
 * different length so that many callers do not knock together. */
#include "base/port.h"

#include "ent_postgres/open.h"

#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "ent/db.h"

#define CONNECT_HEARD_NS (3 * QP_NS_PER_S)
#define CONNECT_STANDBY_FUNCTION "SyncRepWaitForLSN"

bool qp_pg_nap(qp_pg *conn, int64_t deadline_ns)
{
    return qp_watch_nap(&conn->watch, deadline_ns, QP_TRIES_NAP_MS_MIN,
                        QP_TRIES_NAP_MS_MAX - QP_TRIES_NAP_MS_MIN);
}

/* Notices are not for the user, but one tells that a commit is on one machine only. The function's
 * name, unlike the message, is the same in every language. */
static void connect_notice(void *ctx, const PGresult *notice)
{
    qp_pg *conn = ctx;
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

    if (function != NULL && strcmp(function, CONNECT_STANDBY_FUNCTION) == 0) {
        conn->unreplicated = true;
    }
}

/* The server must store every text, and read our literals as the standard says. */
static quipu_status connect_check(const PGconn *pg, quipu_error *reterr)
{
    const char *encoding = PQparameterStatus(pg, "server_encoding");
    const char *strings = PQparameterStatus(pg, "standard_conforming_strings");

    if (PQserverVersion(pg) < QP_PG_SERVER_MIN) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the server's version is %d; %d is the oldest that is supported",
                            PQserverVersion(pg), QP_PG_SERVER_MIN);
    }
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the database's encoding is %s; make one with encoding UTF8",
                            encoding != NULL ? encoding : "unknown");
    }
    if (strings == NULL || strcmp(strings, "on") != 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the server's setting standard_conforming_strings must be on");
    }
    return QUIPU_OK;
}

/* libpq's sentence about a connection that it could not make; it names hosts, never a password. */
static quipu_status connect_refused(const PGconn *pg, quipu_error *reterr)
{
    char text[256];
    size_t n;

    (void)snprintf(text, sizeof(text), "%s", pg != NULL ? PQerrorMessage(pg) : "out of memory\n");
    n = strlen(text);
    while (n > 0 && text[n - 1] == '\n') {
        text[--n] = '\0';
    }
    return qp_error_set(reterr, pg != NULL ? QUIPU_IO : QUIPU_NOMEM, "cannot connect: %s", text);
}

/* What stands before the URI may be said otherwise in it; what stands after it may not. A machine
 * that is cut off is silent: whoever waits for its answer must ask whether it is still there, and
 * be done with it before another leads (Patroni: 20 s). */
static const char *const connect_names[] = {"connect_timeout",
                                            "tcp_user_timeout",
                                            "keepalives_idle",
                                            "keepalives_interval",
                                            "fallback_application_name",
                                            "target_session_attrs",
                                            "dbname",
                                            "client_encoding",
                                            NULL};

#define CONNECT_VALUES(conn)                                                                       \
    {"3",         "15000", "5", "5", "quipu", (conn)->read_only ? "any" : "read-write",            \
     (conn)->uri, "UTF8",  NULL}

/* Connect step by step, so that notices come to us from the first one on: libpq would print them.
 * NULL when no answer came in time. */
static PGconn *connect_heard(qp_pg *conn)
{
    const char *const values[] = CONNECT_VALUES(conn);
    const int64_t deadline_ns = qp_clock_ns() + CONNECT_HEARD_NS;
    PGconn *pg = PQconnectStartParams(connect_names, values, 1);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    if (pg == NULL || PQstatus(pg) == CONNECTION_BAD) {
        return pg;
    }
    (void)PQsetNoticeReceiver(pg, connect_notice, conn);
    while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
        struct pollfd fd = {.fd = PQsocket(pg),
                            .events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int64_t left_ms = (deadline_ns - qp_clock_ns()) / QP_NS_PER_MS;

        if (left_ms <= 0) {
            PQfinish(pg);
            return NULL;
        }
        (void)poll(&fd, 1, (int)left_ms);
        if (fd.revents != 0) {
            state = PQconnectPoll(pg);
        }
    }
    return pg;
}

quipu_status qp_pg_connect(qp_pg *conn, quipu_error *reterr)
{
    const char *const values[] = CONNECT_VALUES(conn);
    PGconn *pg = connect_heard(conn);
    quipu_status status = QUIPU_OK;

    if (pg == NULL) {
        pg = PQconnectdbParams(connect_names, values, 1); /* goes on to the next host in time */
    }
    if (pg == NULL || PQstatus(pg) != CONNECTION_OK || PQsetnonblocking(pg, 1) != 0) {
        status = connect_refused(pg, reterr);
    } else {
        status = connect_check(pg, reterr);
    }
    if (status != QUIPU_OK) {
        PQfinish(pg);
        return status;
    }
    (void)PQsetNoticeReceiver(pg, connect_notice, conn);
    conn->pg = pg;
    conn->generation++;
    memset(conn->fixed, 0, sizeof(conn->fixed));
    return QUIPU_OK;
}

/* There is something to read then, where nothing should be. */
bool qp_pg_hung_up(const qp_pg *conn)
{
    struct pollfd fd = {.fd = PQsocket(conn->pg), .events = POLLIN};

    if (PQstatus(conn->pg) != CONNECTION_OK || fd.fd < 0) {
        return true;
    }
    if (poll(&fd, 1, 0) <= 0) {
        return false;
    }
    return PQconsumeInput(conn->pg) == 0 || PQstatus(conn->pg) != CONNECTION_OK;
}

quipu_status qp_pg_ready(qp_pg *conn, quipu_error *reterr)
{
    int64_t deadline_ns;
    quipu_status status;

    conn->transient = false; /* of what begins now nothing has failed yet */
    if (conn->pg != NULL && qp_pg_hung_up(conn)) {
        qp_pg_drop(conn);
    }
    if (conn->pg != NULL) {
        return QUIPU_OK;
    }
    deadline_ns = qp_watch_patience(&conn->watch);
    status = qp_pg_connect(conn, reterr);
    while (status == QUIPU_IO && qp_pg_nap(conn, deadline_ns)) {
        status = qp_pg_connect(conn, reterr);
    }
    return status;
}
