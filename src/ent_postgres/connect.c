/* Making a connection and keeping one: a server that went away is looked for again, with naps of
 * different length so that many callers do not knock together. */
#include "base/port.h"

#include "ent_postgres/open.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "ent/db.h"

#define CONNECT_TIMEOUT_S 3 /* for a host, unless the URI says otherwise */
#define CONNECT_TIMEOUT "3" /* the same for libpq */
#define CONNECT_ATTEMPT_MIN_NS                                                                     \
    (1 * QP_NS_PER_S) /* one attempt has so long, whatever the deadline */
#define CONNECT_UNRESPONSIVE_NS                                                                    \
    (5 * QP_NS_PER_S)            /* so long a host without an answer is passed over */
#define CONNECT_PING_TIMEOUT "3" /* a server that lives answers within */
#define CONNECT_ITEM_SIZE 256    /* of a host's name */
#define CONNECT_NAMES_MAX 16
#define CONNECT_STATE_SIZE 5
/* Naps between attempts: about so long after the first, then twice, four times ... as long. */
#define CONNECT_BACKOFF_MS_FIRST 10
#define CONNECT_BACKOFF_MS_MAX 250
/* Where there is no room, knocking often makes it worse. */
#define CONNECT_FULL_BACKOFF_MS_MIN 100
#define CONNECT_FULL_BACKOFF_MS_MORE 200
#define CONNECT_STANDBY_FUNCTION "SyncRepWaitForLSN"

bool qp_pg_backoff(qp_pg *conn, int64_t deadline_ns)
{
    return qp_interrupt_backoff(&conn->interrupt, deadline_ns, QP_BACKOFF_MS_MIN,
                                QP_BACKOFF_MS_MAX - QP_BACKOFF_MS_MIN);
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
    CONNECT_NONE,   /* nobody answers, or nobody who takes writes */
    CONNECT_LATER,  /* the server is starting or stopping */
    CONNECT_FULL,   /* it has no room */
    CONNECT_REFUSED /* another attempt would fare no better */
} connect_answer;

typedef struct connect_meaning {
    const char *state; /* or how it begins */
    connect_answer answer;
    quipu_status status;
    const char *text;
} connect_meaning;

/* The first that fits counts. */
static const connect_meaning connect_meanings[] = {
    {"53300", CONNECT_FULL, QUIPU_BUSY, "the server has no room for another connection"},
    {"53", CONNECT_FULL, QUIPU_BUSY, "the server is short of resources"},
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
        return qp_error_set(reterr, QUIPU_IO, "cannot connect: no answer from the server in time");
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

/* ---- the hosts of a URI -----------------------------------------------------------------------
 */

/* What libpq reads in the URI. Hosts are tried one by one: libpq waits for the first that is silent
 * as long as for all of them, and a host that refuses for its own reasons ends its search. */
typedef struct connect_hosts {
    PQconninfoOption *options;
    const char *names; /* lists with commas, or NULL */
    const char *addresses;
    const char *ports;
    size_t count;
    bool whole; /* the list is libpq's matter: then it counts as one host */
    int64_t timeout_ns;
} connect_hosts;

static const char *connect_option(const PQconninfoOption *options, const char *name)
{
    for (; options->keyword != NULL; options++) {
        if (strcmp(options->keyword, name) == 0) {
            return options->val != NULL && options->val[0] != '\0' ? options->val : NULL;
        }
    }
    return NULL;
}

static size_t connect_count(const char *list)
{
    size_t n = list != NULL;

    for (; list != NULL && *list != '\0'; list++) {
        n += *list == ',';
    }
    return n;
}

/* One of a list; of a list of one, that one. False: it is empty, or too long. */
static bool connect_item(const char *list, size_t place, char ret[CONNECT_ITEM_SIZE])
{
    size_t n;

    if (strchr(list, ',') == NULL) {
        place = 0;
    }
    for (; place > 0; place--) {
        list += strcspn(list, ",") + 1;
    }
    n = strcspn(list, ",");
    if (n == 0 || n >= CONNECT_ITEM_SIZE) {
        return false;
    }
    memcpy(ret, list, n);
    ret[n] = '\0';
    return true;
}

/* Whether a list has this many items, each with a value, or is not given. */
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

/* Whether the hosts can be tried one by one: every one has a name or an address of its own. */
static bool connect_is_list(const connect_hosts *hosts, size_t count)
{
    const char *wanted = connect_option(hosts->options, "target_session_attrs");

    return count >= 1 && count <= QP_PG_HOSTS_MAX && connect_is_even(hosts->names, count) &&
           connect_is_even(hosts->addresses, count) &&
           connect_is_even(hosts->ports, connect_count(hosts->ports) == 1 ? 1 : count) &&
           (wanted == NULL || strcmp(wanted, "prefer-standby") != 0);
}

/* To libpq nothing, and less, means no bound; what is no number it refuses by itself. */
static int64_t connect_timeout_ns(const char *text)
{
    char *end = NULL;
    long seconds;

    if (text == NULL) {
        return CONNECT_TIMEOUT_S * QP_NS_PER_S;
    }
    seconds = strtol(text, &end, 10);
    return seconds <= 0 || seconds > INT32_MAX || end == text ? INT32_MAX * QP_NS_PER_S
                                                              : seconds * QP_NS_PER_S;
}

/* A URI that libpq misreads would show a part of its password: in libpq's complaint, or as a host
 * or a port. connect_hosts_done() also after a failure. */
static quipu_status connect_uri(const char *uri, connect_hosts *ret, quipu_error *reterr)
{
    char *ignored = NULL;

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

static void connect_hosts_done(connect_hosts *hosts)
{
    PQconninfoFree(hosts->options);
}

/* ---- one attempt ------------------------------------------------------------------------------
 */

/* libpq's parameters: of two that have the same name the last one counts. */
typedef struct connect_params {
    const char *names[CONNECT_NAMES_MAX];
    const char *values[CONNECT_NAMES_MAX];
    size_t n;
} connect_params;

static void connect_put(connect_params *params, const char *name, const char *value)
{
    assert(params->n < CONNECT_NAMES_MAX);
    params->names[params->n] = name;
    params->values[params->n++] = value;
}

/* What stands before the URI may be said otherwise in it; what stands after it may not. A machine
 * that is cut off is silent: whoever waits for its answer must ask whether it is still there, and
 * be done with it before another leads (Patroni: 20 s). */
static void connect_put_all(connect_params *params, const qp_pg *conn)
{
    connect_put(params, "connect_timeout", CONNECT_TIMEOUT);
    connect_put(params, "tcp_user_timeout", "15000");
    connect_put(params, "keepalives_idle", "5");
    connect_put(params, "keepalives_interval", "5");
    connect_put(params, "fallback_application_name", "quipu");
    connect_put(params, "target_session_attrs", conn->any_host ? "any" : "read-write");
    connect_put(params, "dbname", conn->uri);
    connect_put(params, "client_encoding", "UTF8");
}

/* Where an attempt goes. */
typedef struct connect_target {
    char name[CONNECT_ITEM_SIZE];
    char address[CONNECT_ITEM_SIZE];
    char port[CONNECT_ITEM_SIZE];
    connect_params params;
} connect_target;

static void connect_target_set(const qp_pg *conn, const connect_hosts *hosts, size_t place,
                               connect_target *ret)
{
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

/* Connect step by step, so that notices come to us from the first one on: libpq would print them.
 * NULL when no answer came in time. */
static PGconn *connect_async(qp_pg *conn, const connect_params *params, int64_t until_ns)
{
    PGconn *pg = PQconnectStartParams(params->names, params->values, 1);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

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

/* Whether libpq may know more than one address behind it: it goes on to the next one in time. */
static bool connect_is_many(const connect_hosts *hosts, const connect_target *target)
{
    return hosts->whole || (target->address[0] == '\0' && target->name[0] != '/' &&
                            strchr(target->name, ':') == NULL &&
                            target->name[strspn(target->name, "0123456789.")] != '\0');
}

/* One attempt at one host, or at all of them where they are libpq's matter. */
static quipu_status connect_host(qp_pg *conn, const connect_hosts *hosts, size_t place,
                                 int64_t deadline_ns, connect_answer *ret_answer,
                                 quipu_error *reterr)
{
    const int64_t now_ns = qp_clock_ns();
    int64_t left_ns = deadline_ns - now_ns;
    connect_target target = {0};
    quipu_status status = QUIPU_OK;
    PGconn *pg;

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
        *ret_answer = conn->transient ? CONNECT_LATER : CONNECT_REFUSED;
        qp_pg_drop(conn);
    }
    return status;
}

static bool connect_is_unresponsive(const qp_pg *conn, size_t place)
{
    return conn->unresponsive_ns[place] != 0 &&
           qp_clock_ns() < conn->unresponsive_ns[place] + CONNECT_UNRESPONSIVE_NS;
}

/* One attempt at each host. Told is the last that said something, else the last. */
static quipu_status connect_once(qp_pg *conn, const connect_hosts *hosts, int64_t deadline_ns,
                                 connect_answer *ret_answer, quipu_error *reterr)
{
    quipu_status reported = QUIPU_IO;
    bool skips_unresponsive = false;

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

/* Nap before another attempt; false: there is none. While a cluster is without a leader many
 * programs knock for many seconds: each does so less and less often. */
static bool connect_retry(qp_pg *conn, connect_answer answer, bool waits, int attempts,
                          int64_t deadline_ns)
{
    int32_t backoff_ms = CONNECT_BACKOFF_MS_FIRST;

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

quipu_status qp_pg_connect(qp_pg *conn, bool waits, quipu_error *reterr)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    connect_answer answer = CONNECT_REFUSED;
    connect_hosts hosts;
    quipu_status status = connect_uri(conn->uri, &hosts, reterr);
    const int64_t begun_ns = qp_clock_ns();
    int attempts = 0;

    if (status == QUIPU_OK) {
        do {
            status = connect_once(conn, &hosts, deadline_ns, &answer, reterr);
            attempts++;
        } while (connect_retry(conn, answer, waits, attempts, deadline_ns));
    }
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

bool qp_pg_ping(const qp_pg *conn)
{
    connect_params params = {.n = 0};

    connect_put_all(&params, conn);
    connect_put(&params, "host", PQhost(conn->pg));
    connect_put(&params, "hostaddr", PQhostaddr(conn->pg));
    connect_put(&params, "port", PQport(conn->pg));
    connect_put(&params, "target_session_attrs", "any");
    connect_put(&params, "connect_timeout", CONNECT_PING_TIMEOUT);
    connect_put(&params, NULL, NULL);
    return PQpingParams(params.names, params.values, 1) != PQPING_NO_RESPONSE;
}

/* There is something to read then, where nothing should be. */
bool qp_pg_peer_closed(const qp_pg *conn)
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

quipu_status qp_pg_ensure_connected(qp_pg *conn, quipu_error *reterr)
{
    conn->transient = false; /* of what begins now nothing has failed yet */
    qp_pg_drain(conn);
    if (conn->pg != NULL && qp_pg_peer_closed(conn)) {
        qp_pg_drop(conn);
    }
    return conn->pg != NULL ? QUIPU_OK : qp_pg_connect(conn, true, reterr);
}
