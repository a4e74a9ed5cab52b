/* A build without libpq answers by name instead of not having the function. */
#include <ent/postgres.h>

_Static_assert(ENT_POSTGRES_URI_MAX > 0, "a file is never empty, also where the room is built");

#ifndef QUIPU_POSTGRES
#include "base/error.h"

quipu_status ent_postgres_open(const char *uri, const ent_postgres_options *options,
                               ent_db **ret_db, quipu_error *reterr)
{
    (void)uri;
    (void)options;
    (void)ret_db;
    return ent_postgres_library(NULL, reterr);
}

quipu_status ent_postgres_library(int *ret_version, quipu_error *reterr)
{
    (void)ret_version;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "this build has no PostgreSQL; build it where libpq is (libpq-dev)");
}
#endif
