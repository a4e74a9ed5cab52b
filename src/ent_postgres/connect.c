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
#define CONNECT_STATE_SIZE 5
/* Where there is no room, knocking often makes it worse. */
#define CONNECT_CROWD_NAP_MS_MIN 100
#define CONNECT_CROWD_NAP_MS_MORE 200
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

/* What became of an attempt. */
typedef enum connect_answer {
    CONNECT_DONE = 0,
    CONNECT_NONE,    /* nobody answers, or nobody who takes writes */
    CONNECT_LATER,   /* the server is starting or stopping */
    CONNECT_CROWDED, /* it has no room */
    CONNECT_REFUSED  /* another attempt would fare no better */
} connect_answer;

typedef struct connect_meaning {
    const char *state; /* or how it begins */
    connect_answer answer;
    quipu_status status;
    const char *text;
} connect_meaning;

/* The first that fits counts. */
static const connect_meaning connect_meanings[] = {
    {"53300", CONNECT_CROWDED, QUIPU_BUSY, "the server has no room for another connection"},
    {"53", CONNECT_CROWDED, QUIPU_BUSY, "the server is short of resources"},
    {"57P", CONNECT_LATER, QUIPU_IO, "the server is starting or shutting down"},
    {"28", CONNECT_REFUSED, QUIPU_IO, "the server refused the role or its password"},
    {"3D000", CONNECT_REFUSED, QUIPU_IO, "there is no such database"},
    {"42501", CONNECT_REFUSED, QUIPU_IO, "the role has no right to it"},
    {"", CONNECT_REFUSED, QUIPU_IO, "the server refused"},
};

/* The last state in libpq's sentences about the hosts, or NULL. With PQERRORS_SQLSTATE a state ends
 * a line, behind a severity that is of any language. */
static const char *connect_state(const char *text, char ret_state[CONNECT_STATE_SIZE + 1])
{
    const char *found = NULL;

    for (const char *end = strchr(text, '\n'); end != NULL; end = strchr(end + 1, '\n')) {
        const char *at = end - CONNECT_STATE_SIZE;
        if (at - text > 2 && at[-1] == ' ' && at[-2] == ' ' &&
            strspn(at, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == CONNECT_STATE_SIZE) {
            memcpy(ret_state, at, CONNECT_STATE_SIZE);
            ret_state[CONNECT_STATE_SIZE] = '\0';
            found = ret_state;
        }
    }
    return found;
}

/* Why there is no connection. What a server says is told in our words; libpq's own sentences name
 * hosts, and the URI was looked at before (connect_uri), so that no password stands in them. */
static quipu_status connect_failed(const PGconn *pg, connect_answer *ret_answer,
                                   quipu_error *reterr)
{
    const connect_meaning *meaning = connect_meanings;
    char state[CONNECT_STATE_SIZE + 1];
    char text[256];
    size_t n;

    *ret_answer = CONNECT_NONE;
    if (pg == NULL) {
        *ret_answer = CONNECT_REFUSED;
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot connect: out of memory");
    }
    if (connect_state(PQerrorMessage(pg), state) != NULL) {
        while (strncmp(state, meaning->state, strlen(meaning->state)) != 0) {
            meaning++;
        }
        *ret_answer = meaning->answer;
        return qp_error_set(reterr, meaning->status, "cannot connect: %s (state %s)", meaning->text,
                            state);
    }
    (void)snprintf(text, sizeof(text), "%s", PQerrorMessage(pg));
    n = strlen(text);
    while (n > 0 && text[n - 1] == '\n') {
        text[--n] = '\0';
    }
    return qp_error_set(reterr, QUIPU_IO, "cannot connect: %s", text);
}

/* A URI that libpq misreads would show a part of its password: in libpq's complaint, or as a host
 * or a port. */
static quipu_status connect_uri(const char *uri, quipu_error *reterr)
{
    char *ignored = NULL;
    PQconninfoOption *options = PQconninfoParse(uri, &ignored);
    bool sound = options != NULL;

    for (const PQconninfoOption *option = options; sound && option->keyword != NULL; option++) {
        const char *value = option->val != NULL ? option->val : "";
        if (strcmp(option->keyword, "port") == 0) {
            sound = value[strspn(value, "0123456789,")] == '\0';
        } else if (strcmp(option->keyword, "host") == 0) {
            sound = strchr(value, '@') == NULL || value[0] == '/';
        }
    }
    PQconninfoFree(options);
    PQfreemem(ignored);
    return sound ? QUIPU_OK
                 : qp_error_set(reterr, QUIPU_INVALID,
                                "the URI is not of the form postgresql://user:password@host:port/"
                                "database?option=value; signs with a meaning in it (@ : / ? # %%) "
                                "are written as %%40 %%3A %%2F %%3F %%23 %%25");
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
    {"3",         "15000", "5", "5", "quipu", (conn)->any_host ? "any" : "read-write",             \
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
    (void)PQsetErrorVerbosity(pg, PQERRORS_SQLSTATE);
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

static quipu_status connect_once(qp_pg *conn, connect_answer *ret_answer, quipu_error *reterr)
{
    const char *const values[] = CONNECT_VALUES(conn);
    PGconn *pg = connect_heard(conn);
    quipu_status status = QUIPU_OK;

    if (pg == NULL) {
        pg = PQconnectdbParams(connect_names, values, 1); /* goes on to the next host in time */
    }
    *ret_answer = CONNECT_DONE;
    if (pg == NULL || PQstatus(pg) != CONNECTION_OK || PQsetnonblocking(pg, 1) != 0) {
        status = connect_failed(pg, ret_answer, reterr);
    } else {
        status = connect_check(pg, reterr);
        *ret_answer = status == QUIPU_OK ? CONNECT_DONE : CONNECT_REFUSED;
    }
    if (status != QUIPU_OK) {
        PQfinish(pg);
        return status;
    }
    (void)PQsetNoticeReceiver(pg, connect_notice, conn);
    conn->pg = pg;
    conn->generation++;
    memset(conn->fixed, 0, sizeof(conn->fixed));
    status = qp_pg_settle(conn, reterr);
    if (status != QUIPU_OK) {
        *ret_answer = conn->transient ? CONNECT_LATER : CONNECT_REFUSED;
        qp_pg_drop(conn);
    }
    return status;
}

/* Nap before another attempt; false: there is none. */
static bool connect_again(qp_pg *conn, connect_answer answer, bool waits, int64_t deadline_ns)
{
    switch (answer) {
    case CONNECT_NONE:
        return waits && qp_pg_nap(conn, deadline_ns);
    case CONNECT_LATER:
        return qp_pg_nap(conn, deadline_ns);
    case CONNECT_CROWDED:
        return qp_watch_nap(&conn->watch, deadline_ns, CONNECT_CROWD_NAP_MS_MIN,
                            CONNECT_CROWD_NAP_MS_MORE);
    default:
        return false;
    }
}

quipu_status qp_pg_connect(qp_pg *conn, bool waits, quipu_error *reterr)
{
    int64_t deadline_ns = qp_watch_patience(&conn->watch);
    quipu_status status = connect_uri(conn->uri, reterr);
    connect_answer answer = CONNECT_REFUSED;

    if (status != QUIPU_OK) {
        return status;
    }
    do {
        status = connect_once(conn, &answer, reterr);
    } while (connect_again(conn, answer, waits, deadline_ns));
    return status;
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
    conn->transient = false; /* of what begins now nothing has failed yet */
    if (conn->pg != NULL && qp_pg_hung_up(conn)) {
        qp_pg_drop(conn);
    }
    return conn->pg != NULL ? QUIPU_OK : qp_pg_connect(conn, true, reterr);
}
