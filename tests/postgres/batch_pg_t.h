/* What the tests of batches on PostgreSQL share: a connection that is lost when a test wants it to
 * be, and another program that holds rows. Header only. */
#ifndef T_POSTGRES_BATCH_PG_T_H
#define T_POSTGRES_BATCH_PG_T_H

#include "contract/batch_t.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ent_postgres/open.h"
#include "postgres/client_t.h"

typedef struct world {
    char uri[T_PATH_MAX];
    quipu_store *store;
    bt_way way;
} world;

/* ---- the connection under attack --------------------------------------------------------------
 */

static qp_libpq_table real;
static atomic_bool unreachable;   /* no connection can be made */
static atomic_bool loses_answers; /* the next answer of the server is lost, and the connection */

static inline PGconn *start_unless_unreachable(const char *const *names, const char *const *values,
                                               int expand)
{
    static const char *const host[] = {"host", NULL};
    static const char *const nowhere[] = {"/nowhere", NULL};
    const bool lost = atomic_load(&unreachable);

    return real.p_PQconnectStartParams(lost ? host : names, lost ? nowhere : values, expand);
}

/* Puts a socket that nobody answers in the place of the connection's. */
static inline void deaden(PGconn *pg)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
        (void)dup2(pair[0], PQsocket(pg));
        (void)close(pair[0]);
        (void)close(pair[1]);
    }
}

static inline int sync_and_lose_the_answer(PGconn *pg)
{
    const int synced = real.p_PQpipelineSync(pg);

    if (atomic_exchange(&loses_answers, false)) {
        struct pollfd answer = {.fd = PQsocket(pg), .events = POLLIN};

        while (PQflush(pg) == 1) {
            st_nap();
        }
        (void)poll(&answer, 1, -1); /* the server answers behind the commit */
        deaden(pg);
    }
    return synced;
}

static inline void hook_connections(void)
{
    if (real.p_PQpipelineSync == NULL) {
        real = qp_libpq;
        qp_libpq.p_PQconnectStartParams = start_unless_unreachable;
        qp_libpq.p_PQpipelineSync = sync_and_lose_the_answer;
    }
}

/* A trace that makes the server unreachable once a commit has failed. */
static inline void lose_the_server_with_the_commit(void *ctx, const ent_trace_event *event)
{
    bt_hear(ctx, event);
    if (strcmp(event->sql, "COMMIT") == 0 && event->status != QUIPU_OK) {
        atomic_store(&unreachable, true);
    }
}

static inline void check_member(const bt_member *member, quipu_status status, const char *ran)
{
    T_STATUS(member->status, status);
    assert_string_equal(member->ran, ran);
}

static inline void run_sql(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
}

/* Another program that holds a session's row. */
static inline PGconn *hold(const world *w, const char *key)
{
    PGconn *pg = PQconnectdb(w->uri);
    char sql[128];

    (void)snprintf(sql, sizeof(sql), "BEGIN; SELECT 1 FROM sessions WHERE key = '%s' FOR UPDATE",
                   key);
    run_sql(pg, sql);
    return pg;
}

static inline void release(PGconn *pg)
{
    run_sql(pg, "ROLLBACK");
    PQfinish(pg);
}

#endif
