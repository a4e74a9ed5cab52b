/* The entries of this library's engines: how each opens a connection to a place.
 *
 * Called by: open_store.c through the table, for the first connection of a store and, on whichever
 * thread needs one, for later ones. The place belongs to the store and is constant by then.
 * Owns: nothing. Locks: none.
 * On return *ret_db is a connection, which the caller closes, or nothing is left open. */
#include <assert.h>
#include <string.h>

#include <ent/postgres.h>
#include <ent/sqlite.h>

#include "base/error.h"
#include "ent_sqlite/open.h"
#include "front/engines.h"
#include "store/remote.h"

/* Opens a connection to a server's database. */
static quipu_status engine_open_postgres(const qp_place *place, bool read_only, ent_db **ret_db,
                                         quipu_error *reterr)
{
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;

    /* A place that was opened once must be there: later connections wait for a server that
     * restarts. */
    options.flags = (read_only ? ENT_POSTGRES_READ_ONLY : 0) |
                    (place->must_exist ? ENT_POSTGRES_MUST_EXIST : 0) |
                    (place->opened ? ENT_POSTGRES_WAIT : 0);
    /* A writing store reads from the primary, so that it reads its own writes. */
    options.flags |= place->read_only ? 0 : ENT_POSTGRES_PRIMARY;
    options.busy_ms = place->busy_ms;
    options.tenant = place->tenant;
    options.log = place->log.fn;
    options.log_ctx = place->log.ctx;
    options.log_level = place->log.level;
    return ent_postgres_open(place->name, &options, ret_db, reterr);
}

/* Opens a connection to a file, or the only one to a store in memory. The keys are the store's,
 * which outlives all of its connections. */
static quipu_status engine_open_sqlite(const qp_place *place, bool read_only, ent_db **ret_db,
                                       quipu_error *reterr)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;

    options.flags =
        (read_only ? ENT_SQLITE_READ_ONLY : 0) | (place->must_exist ? ENT_SQLITE_MUST_EXIST : 0);
    options.busy_ms = place->busy_ms;
    /* Relaxed commits survive the process, and may be lost with the power. */
    options.durability = place->durability == QUIPU_RELAXED ? ENT_SQLITE_NORMAL : ENT_SQLITE_FULL;
    options.log = place->log.fn;
    options.log_ctx = place->log.ctx;
    options.log_level = place->log.level;
    return qp_sqlite_open(place->name, &options, place->keys, ret_db, reterr);
}

/* The two schemes that libpq accepts. Compared with case, as libpq does. */
const qp_engine_entry qp_engine_postgres = {.name = "postgres",
                                            .schemes = {"postgresql://", "postgres://"},
                                            .has_row_security = true,
                                            .has_distribution = true,
                                            .open = engine_open_postgres};

const qp_engine_entry qp_engine_sqlite = {
    .name = "sqlite", .has_size_cap = true, .has_encryption = true, .open = engine_open_sqlite};

/* An entry without schemes fits any URI, so that it is the last one. */
const qp_engine_entry *qp_engine_of(const char *uri)
{
    const qp_engine_entry *const *at = qp_engines;

    /* Compared in the order of the table: the first that fits opens the place. */
    for (; (*at)->schemes[0] != NULL; at++) {
        for (size_t i = 0; (*at)->schemes[i] != NULL; i++) {
            if (strncmp(uri, (*at)->schemes[i], strlen((*at)->schemes[i])) == 0) {
                return *at;
            }
        }
        assert(at[1] != NULL);
    }
    return *at;
}

/* ---- a build without libpq ------------------------------------------------------------------- */

#ifndef QUIPU_POSTGRES
/* The functions of ent/postgres.h exist in every build; here they fail and say why. */
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

/* ---- a build without libcurl ----------------------------------------------------------------- */

#ifndef QUIPU_REMOTE
/* In the place of src/remote/open.c: a server's URI is understood, and refused with the reason. */
quipu_status qp_remote_open(const char *uri, const quipu_open_options *options,
                            qp_remote *ret_remote, quipu_error *reterr)
{
    (void)uri;
    (void)options;
    (void)ret_remote;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "this build opens no servers; build it where libcurl's headers are "
                        "(libcurl4-openssl-dev)");
}
#endif
