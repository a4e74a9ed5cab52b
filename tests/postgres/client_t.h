/* Another client of the server, beside the store: what it asks, and what it holds. Header only, as
 * store_t.h. */
#ifndef T_POSTGRES_CLIENT_T_H
#define T_POSTGRES_CLIENT_T_H

#include "lib/t.h"

#include <inttypes.h>
#include <libpq-fe.h>

/* The number that a query gives, in its one row. */
static inline int64_t cl_ask_on(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    int64_t answer = -1;

    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1 ||
        sscanf(PQgetvalue(result, 0, 0), "%" SCNd64, &answer) != 1) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
    return answer;
}

/* The same on a connection of its own. */
static inline int64_t cl_ask(const char *uri, const char *sql)
{
    PGconn *pg = PQconnectdb(uri);
    const int64_t answer = cl_ask_on(pg, sql);

    PQfinish(pg);
    return answer;
}

/* Opens a transaction and runs statements in it, the last of which finds one row. */
static inline PGconn *cl_hold(const char *uri, const char *sql)
{
    PGconn *pg = PQconnectdb(uri);
    PGresult *result;

    PQclear(PQexec(pg, "BEGIN"));
    result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
    return pg;
}

static inline void cl_release(PGconn *pg)
{
    PQclear(PQexec(pg, "ROLLBACK"));
    PQfinish(pg);
}

#endif
