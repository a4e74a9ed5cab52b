/* Connections of the server engine, for the tests of this room. */
#ifndef TESTS_ENT_POSTGRES_CONNECT_H
#define TESTS_ENT_POSTGRES_CONNECT_H

#include "lib/t.h"

#include <ent/postgres.h>

static inline ent_db *connect_to(const char *uri)
{
    quipu_error err = {0};
    ent_db *db = NULL;

    if (ent_postgres_open(uri, NULL, &db, &err) != QUIPU_OK) {
        fail_msg("%s: %s", uri, err.message);
    }
    return db;
}

#endif
