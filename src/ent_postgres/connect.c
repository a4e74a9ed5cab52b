/* Connecting: from the URI to a usable session, over several hosts, with retries.
 *
 * Owns: PGconn from its start until it is handed to qp_pg, the list of hosts, and which of them did
 * not answer lately.
 * Called by: open.c for the first connection, qp_pg_ensure_connected() for every later one.
 * Locks: none; blocks in poll() up to the deadline of the call.
 * On return conn->pg is a connection in non-blocking mode with its session set up, or NULL.
 *
 *   qp_pg_connect ─▶ connect_once: each host in turn ─▶ connect_host ─▶ connect_async (poll loop)
 *        ▲                 │                                  └─▶ version, encoding, session checks
 *        └── backoff ◀─────┴─ NONE (if the caller waits) / LATER / FULL        REFUSED ─▶ error
 *
 * Hosts are tried one by one, not by libpq: libpq gives the first that does not answer the whole
 * connect_timeout each time, and ends its search at a host that refuses the database or the role.
 */
#include "base/port.h"

#include "ent_postgres/open.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "ent/db.h"

#define CONNECT_TIMEOUT_S 3 /* of one host, unless the URI says otherwise */
#define CONNECT_TIMEOUT "3" /* the same for libpq */
#define CONNECT_ATTEMPT_MIN_NS                                                                     \
    (1 * QP_NS_PER_S) /* one attempt has so long, whatever the deadline */
#define CONNECT_UNRESPONSIVE_NS                                                                    \
    (5 * QP_NS_PER_S)            /* so long a host without an answer is passed over */
#define CONNECT_PING_TIMEOUT "3" /* a server that lives answers within */
#define CONNECT_ITEM_SIZE 256    /* of a host's name */
#define CONNECT_NAMES_MAX 16
#define CONNECT_STATE_SIZE 5
/* Pauses between attempts: about so long after the first, then twice, four times ... as long. */
#define CONNECT_BACKOFF_MS_FIRST 10
#define CONNECT_BACKOFF_MS_MAX 250
/* A full server is asked less often: each attempt costs it a connection slot for a moment. */
#define CONNECT_FULL_BACKOFF_MS_MIN 100
#define CONNECT_FULL_BACKOFF_MS_MORE 200
#define CONNECT_STANDBY_FUNCTION "SyncRepWaitForLSN"

/* The short backoff between attempts of one transaction; connecting has a longer one. */
bool qp_pg_backoff(qp_pg *conn, int64_t deadline_ns)
{
    assert(conn != NULL);
    return qp_interrupt_backoff(&conn->interrupt, deadline_ns, QP_BACKOFF_MS_MIN,
                                QP_BACKOFF_MS_MAX - QP_BACKOFF_MS_MIN);
}

/* The notice receiver. Notices are not shown; one of them means that COMMIT stopped waiting for a
 * synchronous standby. It is recognized by the function that raised it: the message is translated,
 * and its SQLSTATE (01000 or 57P01) has other uses. In a distributed store any warning of a COMMIT
 * counts: a worker may hold a transaction that is prepared and not yet committed, which nobody sees
 * until it is (the head of citus.c). */
static void connect_notice(void *ctx, const PGresult *notice)
{
    qp_pg *conn = ctx;
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

    const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);

    assert(conn != NULL);
    if (function != NULL && strcmp(function, CONNECT_STANDBY_FUNCTION) == 0) {
        conn->unreplicated = true;
    }
    if (conn->citus && conn->committing && state != NULL && strncmp(state, "00", 2) != 0) {
        conn->unreplicated = true;
    }
}

/* Checks the settings that the engine relies on: UTF8 stores every text, and with
 * standard_conforming_strings a literal means the same everywhere. */
static quipu_status connect_check(const PGconn *pg, quipu_error *reterr)
{
    const char *encoding = PQparameterStatus(pg, "server_encoding");
    const char *strings = PQparameterStatus(pg, "standard_conforming_strings");

    assert(pg != NULL);
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

/* How an attempt ended. The order has no meaning. */
typedef enum connect_answer {
    CONNECT_DONE = 0,
    CONNECT_NONE,   /* no host answers, or none that accepts writes */
    CONNECT_LATER,  /* the server is starting or stopping */
    CONNECT_FULL,   /* it has no free connection */
    CONNECT_REFUSED /* another attempt would end in the same way */
} connect_answer;

/* Maps the SQLSTATE of a refused connection to a status. */
typedef struct connect_meaning {
    const char *state; /* or how it begins */
    connect_answer answer;
    quipu_status status;
    const char *text;
} connect_meaning;

/* The first entry whose state begins the error's wins; the last fits every state. */
static const connect_meaning connect_meanings[] = {
    {"53300", CONNECT_FULL, QUIPU_BUSY, "the server has no free connection"},
    {"53", CONNECT_FULL, QUIPU_BUSY, "the server is short of resources"},
    {"57P", CONNECT_LATER, QUIPU_IO, "the server is starting or shutting down"},
    {"28", CONNECT_REFUSED, QUIPU_IO, "the server refused the role or its password"},
    {"3D000", CONNECT_REFUSED, QUIPU_IO, "there is no such database"},
    {"42501", CONNECT_REFUSED, QUIPU_IO, "the role has no right to it"},
    {"", CONNECT_REFUSED, QUIPU_IO, "the server refused"},
};

/* The last SQLSTATE in libpq's error text, or NULL. PQERRORS_SQLSTATE makes each host's line end
 * with the state behind two spaces; a connection that failed has no PGresult to ask. */
static const char *connect_state(const char *text, char ret_state[CONNECT_STATE_SIZE + 1])
{
    const char *found = NULL;

    assert(text != NULL);
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

/* Why there is no connection (pg NULL: none in time). A server's error becomes our sentence with
 * its SQLSTATE; libpq's own texts name hosts and are passed on, with the SQLSTATE of a connection
 * that cannot be made. They hold no password: connect_uri() refuses URIs that libpq would misread.
 */
static quipu_status connect_failed(const PGconn *pg, connect_answer *ret_answer,
                                   quipu_error *reterr)
{
    const connect_meaning *meaning = connect_meanings;
    char state[CONNECT_STATE_SIZE + 1] = "08001";
    char text[256];
    quipu_status status = QUIPU_IO;

    assert(ret_answer != NULL);
    *ret_answer = CONNECT_NONE;
    if (pg == NULL) {
        (void)qp_error_set(reterr, status, "cannot connect: no answer from the server in time");
    } else if (connect_state(PQerrorMessage(pg), state) != NULL) {
        while (strncmp(state, meaning->state, strlen(meaning->state)) != 0) {
            meaning++;
        }
        *ret_answer = meaning->answer;
        status = qp_error_set(reterr, meaning->status, "cannot connect: %s (state %s)",
                              meaning->text, state);
    } else {
        (void)snprintf(text, sizeof(text), "%s", PQerrorMessage(pg));
        for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--) {
            text[n - 1] = '\0';
        }
        (void)qp_error_set(reterr, status, "cannot connect: %s", text);
    }
    if (reterr != NULL) {
        reterr->engine_code = qp_pg_error_code(state);
        (void)snprintf(reterr->rule, sizeof(reterr->rule), "%s",
                       qp_pg_away(state) != NULL ? QP_RULE_AWAY : "");
    }
    return status;
}

/* ---- the hosts of a URI -----------------------------------------------------------------------
 */

/* The hosts of the URI, as libpq parses it. */
typedef struct connect_hosts {
    PQconninfoOption *options;
    const char *names;     /* host: separated by commas, or NULL */
    const char *addresses; /* hostaddr */
    const char *ports;     /* port: one for all, or one each */
    size_t count;
    bool whole;         /* libpq gets the list as it is, and it counts as one host */
    int64_t timeout_ns; /* of one host */
} connect_hosts;

/* The value of a parsed option; NULL where it is absent or empty. */
static const char *connect_option(const PQconninfoOption *options, const char *name)
{
    assert(options != NULL && name != NULL);
    for (; options->keyword != NULL; options++) {
        if (strcmp(options->keyword, name) == 0) {
            return options->val != NULL && options->val[0] != '\0' ? options->val : NULL;
        }
    }
    return NULL;
}

/* Items of a comma-separated list; an absent list has none, an empty one has one. */
static size_t connect_count(const char *list)
{
    size_t n = list != NULL;

    for (; list != NULL && *list != '\0'; list++) {
        n += *list == ',';
    }
    return n;
}

/* One item of a list; a list of one item serves every place, as libpq reads a single port. False:
 * the item is empty, or longer than CONNECT_ITEM_SIZE. */
static bool connect_item(const char *list, size_t place, char ret[CONNECT_ITEM_SIZE])
{
    size_t n;

    assert(list != NULL);
    if (strchr(list, ',') == NULL) {
        place = 0;
    }
    for (; place > 0; place--) {
        list += strcspn(list, ",") + 1;
    }
    n = strcspn(list, ",");
    assert(list[n] == ',' || list[n] == '\0');
    if (n == 0 || n >= CONNECT_ITEM_SIZE) {
        return false;
    }
    memcpy(ret, list, n);
    ret[n] = '\0';
    return true;
}

/* Whether a list is absent, or has exactly `count` items of which none is empty. */
static bool connect_is_even(const char *list, size_t count)
{
    char item[CONNECT_ITEM_SIZE];

    for (size_t i = 0; list != NULL && i < count; i++) {
        if (connect_count(list) != count || !connect_item(list, i, item)) {
            return false;
        }
    }
    return true;
}

/* Whether the hosts can be tried one by one: each has a name or address of its own, and the URI
 * does not ask for prefer-standby, which needs a second round over all of them. */
static bool connect_is_list(const connect_hosts *hosts, size_t count)
{
    const char *wanted = connect_option(hosts->options, "target_session_attrs");

    assert(hosts->options != NULL);
    return count >= 1 && count <= QP_PG_HOSTS_MAX && connect_is_even(hosts->names, count) &&
           connect_is_even(hosts->addresses, count) &&
           connect_is_even(hosts->ports, connect_count(hosts->ports) == 1 ? 1 : count) &&
           (wanted == NULL || strcmp(wanted, "prefer-standby") != 0);
}

/* libpq's reading: zero and negative mean no bound. libpq refuses text that is not a number. */
static int64_t connect_timeout_ns(const char *text)
{
    char *end = NULL;
    long seconds;

    if (text == NULL) {
        return CONNECT_TIMEOUT_S * QP_NS_PER_S;
    }
    seconds = strtol(text, &end, 10);
    assert(end != NULL);
    return seconds <= 0 || seconds > INT32_MAX || end == text ? INT32_MAX * QP_NS_PER_S
                                                              : seconds * QP_NS_PER_S;
}

/* Parses the URI. A password with an unescaped '@', ':' or '/' makes libpq take a part of it for a
 * host or a port, and would show up in an error text: such URIs are refused here, without quoting
 * them. connect_hosts_done() also after a failure. */
static quipu_status connect_uri(const char *uri, connect_hosts *ret, quipu_error *reterr)
{
    char *ignored = NULL;

    assert(uri != NULL);
    *ret = (connect_hosts){.options = PQconninfoParse(uri, &ignored)};
    PQfreemem(ignored);
    if (ret->options != NULL) {
        ret->names = connect_option(ret->options, "host");
        ret->addresses = connect_option(ret->options, "hostaddr");
        ret->ports = connect_option(ret->options, "port");
    }
    if (ret->options == NULL ||
        (ret->ports != NULL && ret->ports[strspn(ret->ports, "0123456789,")] != '\0') ||
        (ret->names != NULL && ret->names[0] != '/' && strchr(ret->names, '@') != NULL)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the URI is not of the form postgresql://user:password@host:port/"
                            "database?option=value; signs with a meaning in it (@ : / ? # %%) "
                            "are written as %%40 %%3A %%2F %%3F %%23 %%25");
    }
    ret->timeout_ns = connect_timeout_ns(connect_option(ret->options, "connect_timeout"));
    ret->count = connect_count(ret->addresses != NULL ? ret->addresses : ret->names);
    ret->whole = !connect_is_list(ret, ret->count);
    ret->count = ret->whole ? 1 : ret->count;
    return QUIPU_OK;
}

/* Frees the parsed options; the lists point into them. */
static void connect_hosts_done(connect_hosts *hosts)
{
    assert(hosts != NULL);
    PQconninfoFree(hosts->options);
}

/* ---- one attempt ------------------------------------------------------------------------------
 */

/* Parameters for PQconnectStartParams(). When a name occurs twice, libpq takes the last value. */
typedef struct connect_params {
    const char *names[CONNECT_NAMES_MAX];
    const char *values[CONNECT_NAMES_MAX];
    size_t n;
} connect_params;

/* Appends a parameter; a NULL name ends the list. */
static void connect_put(connect_params *params, const char *name, const char *value)
{
    assert(params->n < CONNECT_NAMES_MAX);
    params->names[params->n] = name;
    params->values[params->n++] = value;
}

/* The parameters of every connection. Parameters before `dbname` (the URI) are defaults that the
 * URI can change; those behind it override the URI. TCP timeouts detect a host that vanished within
 * about 15 s, before a cluster manager promotes another one (Patroni: 20 s at the earliest). */
static void connect_put_all(connect_params *params, const qp_pg *conn)
{
    assert(conn->uri != NULL);
    connect_put(params, "connect_timeout", CONNECT_TIMEOUT);
    connect_put(params, "tcp_user_timeout", "15000");
    connect_put(params, "keepalives_idle", "5");
    connect_put(params, "keepalives_interval", "5");
    connect_put(params, "fallback_application_name", "quipu");
    connect_put(params, "target_session_attrs", conn->any_host ? "any" : "read-write");
    connect_put(params, "dbname", conn->uri);
    connect_put(params, "client_encoding", "UTF8");
}

/* One host and the parameters that lead to it; the parameters point to its texts. */
typedef struct connect_target {
    char name[CONNECT_ITEM_SIZE];
    char address[CONNECT_ITEM_SIZE];
    char port[CONNECT_ITEM_SIZE];
    connect_params params;
} connect_target;

/* Behind the URI's own list, host, hostaddr and port of one place replace it. */
static void connect_target_set(const qp_pg *conn, const connect_hosts *hosts, size_t place,
                               connect_target *ret)
{
    assert(hosts->whole || place < hosts->count);
    ret->params.n = 0;
    connect_put_all(&ret->params, conn);
    if (!hosts->whole) {
        if (hosts->names != NULL && connect_item(hosts->names, place, ret->name)) {
            connect_put(&ret->params, "host", ret->name);
        }
        if (hosts->addresses != NULL && connect_item(hosts->addresses, place, ret->address)) {
            connect_put(&ret->params, "hostaddr", ret->address);
        }
        if (hosts->ports != NULL && connect_item(hosts->ports, place, ret->port)) {
            connect_put(&ret->params, "port", ret->port);
        }
    }
    connect_put(&ret->params, NULL, NULL);
}

/* Connects with PQconnectPoll(): a notice receiver can be set before the first notice comes (libpq
 * prints to stderr by default), and the wait has a bound. NULL: no answer until then. */
static PGconn *connect_async(qp_pg *conn, const connect_params *params, int64_t until_ns)
{
    PGconn *pg = PQconnectStartParams(params->names, params->values, 1);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    assert(params->n > 0 && params->names[params->n - 1] == NULL);
    if (pg == NULL || PQstatus(pg) == CONNECTION_BAD) {
        return pg;
    }
    (void)PQsetNoticeReceiver(pg, connect_notice, conn);
    (void)PQsetErrorVerbosity(pg, PQERRORS_SQLSTATE);
    while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
        struct pollfd fd = {.fd = PQsocket(pg),
                            .events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int64_t left_ms = (until_ns - qp_clock_ns()) / QP_NS_PER_MS;

        if (left_ms <= 0) {
            PQfinish(pg);
            return NULL;
        }
        (void)poll(&fd, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (fd.revents != 0) {
            state = PQconnectPoll(pg);
        }
    }
    return pg;
}

/* Whether libpq may try several addresses behind the host: a name that DNS resolves. Its
 * asynchronous mode leaves the timeout of each address to the caller, its blocking mode applies
 * connect_timeout. */
static bool connect_is_many(const connect_hosts *hosts, const connect_target *target)
{
    assert(target != NULL);
    return hosts->whole || (target->address[0] == '\0' && target->name[0] != '/' &&
                            strchr(target->name, ':') == NULL &&
                            target->name[strspn(target->name, "0123456789.")] != '\0');
}

/* One attempt at one host (or at libpq's whole list). An attempt gets the host's timeout, cut to
 * the deadline but not below CONNECT_ATTEMPT_MIN_NS, so that a call with little time left can still
 * succeed. A host that does not answer is remembered. */
static quipu_status connect_host(qp_pg *conn, const connect_hosts *hosts, size_t place,
                                 int64_t deadline_ns, connect_answer *ret_answer,
                                 quipu_error *reterr)
{
    const int64_t now_ns = qp_clock_ns();
    int64_t left_ns = deadline_ns - now_ns;
    connect_target target = {0};
    quipu_status status = QUIPU_OK;
    PGconn *pg;

    assert(conn->pg == NULL);
    assert(place < QP_PG_HOSTS_MAX);
    left_ns = left_ns < CONNECT_ATTEMPT_MIN_NS ? CONNECT_ATTEMPT_MIN_NS : left_ns;
    left_ns = left_ns < hosts->timeout_ns ? left_ns : hosts->timeout_ns;
    connect_target_set(conn, hosts, place, &target);
    pg = connect_async(conn, &target.params, now_ns + left_ns);
    if (pg == NULL && connect_is_many(hosts, &target)) {
        pg = PQconnectdbParams(target.params.names, target.params.values, 1);
    }
    *ret_answer = CONNECT_DONE;
    if (pg == NULL || PQstatus(pg) != CONNECTION_OK || PQsetnonblocking(pg, 1) != 0) {
        conn->unresponsive_ns[place] = pg == NULL ? qp_clock_ns() : 0;
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
    conn->unresponsive_ns[place] = 0;
    conn->pg = pg;
    conn->generation++;
    memset(conn->fixed, 0, sizeof(conn->fixed));
    status = qp_pg_init_session(conn, reterr);
    if (status != QUIPU_OK) {
        *ret_answer = qp_failure_is_transient(conn->failure) ? CONNECT_LATER : CONNECT_REFUSED;
        qp_pg_drop(conn);
    }
    return status;
}

/* Whether the host failed to answer within the last CONNECT_UNRESPONSIVE_NS. */
static bool connect_is_unresponsive(const qp_pg *conn, size_t place)
{
    assert(place < QP_PG_HOSTS_MAX);
    return conn->unresponsive_ns[place] != 0 &&
           qp_clock_ns() < conn->unresponsive_ns[place] + CONNECT_UNRESPONSIVE_NS;
}

/* One round over the hosts. Unresponsive ones are skipped as long as there is another. Reports the
 * last error that came from a server, otherwise the last error. */
static quipu_status connect_once(qp_pg *conn, const connect_hosts *hosts, int64_t deadline_ns,
                                 connect_answer *ret_answer, quipu_error *reterr)
{
    quipu_status reported = QUIPU_IO;
    bool skips_unresponsive = false;

    assert(conn->pg == NULL);
    assert(hosts->count >= 1 && hosts->count <= QP_PG_HOSTS_MAX);
    for (size_t i = 0; i < hosts->count; i++) {
        skips_unresponsive = skips_unresponsive || !connect_is_unresponsive(conn, i);
    }
    *ret_answer = CONNECT_NONE;
    for (size_t i = 0; i < hosts->count; i++) {
        quipu_error error = {0};
        connect_answer answer;
        quipu_status status;

        if (skips_unresponsive && connect_is_unresponsive(conn, i)) {
            continue;
        }
        status = connect_host(conn, hosts, i, deadline_ns, &answer, &error);
        if (status == QUIPU_OK) {
            *ret_answer = CONNECT_DONE;
            return QUIPU_OK;
        }
        if (answer != CONNECT_NONE || *ret_answer == CONNECT_NONE) {
            *ret_answer = answer;
            reported = status;
            if (reterr != NULL) {
                *reterr = error;
            }
        }
    }
    return reported;
}

/* ---- until there is a connection --------------------------------------------------------------
 */

/* Sleeps before another round; false: there is none. Backoff doubles from 10 to 250 ms: during a
 * failover many clients reconnect for many seconds. A full server is left alone for longer. */
static bool connect_retry(qp_pg *conn, connect_answer answer, bool waits, int attempts,
                          int64_t deadline_ns)
{
    int32_t backoff_ms = CONNECT_BACKOFF_MS_FIRST;

    assert(attempts >= 1);
    for (int i = 1; i < attempts && backoff_ms < CONNECT_BACKOFF_MS_MAX; i++) {
        backoff_ms *= 2;
    }
    backoff_ms = backoff_ms < CONNECT_BACKOFF_MS_MAX ? backoff_ms : CONNECT_BACKOFF_MS_MAX;
    switch (answer) {
    case CONNECT_NONE:
        return waits && qp_interrupt_backoff(&conn->interrupt, deadline_ns, backoff_ms, backoff_ms);
    case CONNECT_LATER:
        return qp_interrupt_backoff(&conn->interrupt, deadline_ns, backoff_ms, backoff_ms);
    case CONNECT_FULL:
        return qp_interrupt_backoff(&conn->interrupt, deadline_ns, CONNECT_FULL_BACKOFF_MS_MIN,
                                    CONNECT_FULL_BACKOFF_MS_MORE);
    default:
        return false;
    }
}

/* Rounds over the hosts until one gives a final answer. */
quipu_status qp_pg_connect(qp_pg *conn, bool waits, quipu_error *reterr)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    connect_answer answer = CONNECT_REFUSED;
    connect_hosts hosts;
    quipu_status status = connect_uri(conn->uri, &hosts, reterr);
    const int64_t begun_ns = qp_clock_ns();
    int attempts = 0;

    assert(conn->pg == NULL);
    if (status == QUIPU_OK) {
        do {
            status = connect_once(conn, &hosts, deadline_ns, &answer, reterr);
            attempts++;
        } while (connect_retry(conn, answer, waits, attempts, deadline_ns));
    }
    assert((status == QUIPU_OK) == (conn->pg != NULL));
    connect_hosts_done(&hosts);
    if (status == QUIPU_OK) {
        QP_LOG(&conn->log, conn->generation > 1 ? QUIPU_LOG_WARN : QUIPU_LOG_DEBUG, "postgres",
               conn->generation > 1 ? "reconnected" : "connected",
               QP_LOG_NUMBER("attempts", attempts), QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)),
               QP_LOG_NUMBER("server_version", PQserverVersion(conn->pg)));
    } else {
        QP_LOG(&conn->log, QUIPU_LOG_WARN, "postgres", "no_connection", QP_LOG_STATUS(status),
               QP_LOG_NUMBER("attempts", attempts), QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)));
    }
    return status;
}

/* PQping with the connection's own address. PQPING_REJECT (starting, full) and even a protocol
 * error show a live postmaster. */
bool qp_pg_ping(const qp_pg *conn)
{
    connect_params params = {.n = 0};

    assert(conn->pg != NULL);
    connect_put_all(&params, conn);
    connect_put(&params, "host", PQhost(conn->pg));
    connect_put(&params, "hostaddr", PQhostaddr(conn->pg));
    connect_put(&params, "port", PQport(conn->pg));
    connect_put(&params, "target_session_attrs", "any");
    connect_put(&params, "connect_timeout", CONNECT_PING_TIMEOUT);
    connect_put(&params, NULL, NULL);
    return PQpingParams(params.names, params.values, 1) != PQPING_NO_RESPONSE;
}

/* Readable without a pending answer: libpq reads it, and notices an end of the connection. */
bool qp_pg_peer_closed(const qp_pg *conn)
{
    struct pollfd fd = {.fd = PQsocket(conn->pg), .events = POLLIN};

    assert(conn->pg != NULL);
    if (PQstatus(conn->pg) != CONNECTION_OK || fd.fd < 0) {
        return true;
    }
    if (poll(&fd, 1, 0) <= 0) {
        return false;
    }
    return PQconsumeInput(conn->pg) == 0 || PQstatus(conn->pg) != CONNECTION_OK;
}

/* Drains first: unread answers would look like a closed connection. */
quipu_status qp_pg_ensure_connected(qp_pg *conn, quipu_error *reterr)
{
    assert(!conn->in_transaction);
    conn->failure = QP_FAILURE_FINAL; /* of what begins now nothing has failed yet */
    qp_pg_drain(conn);
    if (conn->pg != NULL && qp_pg_peer_closed(conn)) {
        qp_pg_drop(conn);
    }
    return conn->pg != NULL ? QUIPU_OK : qp_pg_connect(conn, true, reterr);
}
