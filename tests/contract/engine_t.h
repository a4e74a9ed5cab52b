/* Connections of the engine under test, for tests that look below the store. */
#ifndef T_CONTRACT_ENGINE_T_H
#define T_CONTRACT_ENGINE_T_H

#include "lib/t.h"

#include <ent/sqlite.h>

#include "front/engines.h"
#include "lib/t_pg.h"

/* Whether a URI names a server; one test may have stores of both engines. */
static inline bool et_is_server(const char *uri)
{
    return strncmp(uri, "postgresql:", strlen("postgresql:")) == 0;
}

/* A connection by URI, through the table of engines; `busy_ms` 0: the engine's own patience. */
static inline ent_db *et_connect_as(const char *uri, int32_t busy_ms, bool read_only)
{
    char name[T_PATH_MAX];
    qp_place place = {.engine = qp_engine_of(uri),
                      .name = name,
                      .read_only = read_only,
                      .busy_ms = busy_ms != 0 ? busy_ms : ENT_SQLITE_BUSY_MS_DEFAULT,
                      .durability = QUIPU_RELAXED};
    quipu_error err = {0};
    ent_db *db = NULL;

    (void)snprintf(name, sizeof(name), "%s", uri);
    if (place.engine->open(&place, read_only, &db, &err) != QUIPU_OK) {
        fail_msg("cannot open %s: %s", uri, err.message);
    }
    return db;
}

static inline ent_db *et_connect(const char *uri, int32_t busy_ms)
{
    return et_connect_as(uri, busy_ms, false);
}

/* Keep every other writer out, until et_unlock(). */
static inline ent_db *et_lock(const char *uri)
{
    ent_db *db = et_connect(uri, 0);

    T_OK(ent_begin(db, ENT_WRITE, NULL));
    return db;
}

static inline void et_unlock(ent_db *db)
{
    ent_close(db);
}

#endif
