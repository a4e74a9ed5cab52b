/* The server engine: entities in a PostgreSQL database, over libpq. */
#ifndef ENT_POSTGRES_H
#define ENT_POSTGRES_H

#include <ent/ent.h>
#include <quipu/log.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENT_POSTGRES_BUSY_MS_DEFAULT 30000
#define ENT_POSTGRES_URI_MAX 4096    /* bytes of a URI */
#define ENT_POSTGRES_TENANT_MAX 1024 /* bytes of a tenant's name */

#define ENT_POSTGRES_READ_ONLY 1u  /* nothing is changed over this connection */
#define ENT_POSTGRES_MUST_EXIST 2u /* a schema without tables is QUIPU_NOT_FOUND */
#define ENT_POSTGRES_WAIT 4u       /* for a server that does not answer, for busy_ms */
#define ENT_POSTGRES_PRIMARY 8u    /* read-only, but from the host that takes writes */

typedef struct ent_postgres_options {
    uint32_t struct_size; /* filled by the initializer; lets the struct grow without an ABI break */
    uint32_t flags;       /* ENT_POSTGRES_* */
    int32_t busy_ms;      /* how long a call waits for another writer, or for a server */
    quipu_str tenant; /* row-level security: every transaction sets quipu.tenant to this name for
                       * the policies; absent: no tenant is set */
    quipu_log_fn log; /* gets entries about connections and failures; or NULL */
    void *log_ctx;
    quipu_log_level log_level;
} ent_postgres_options;

#define ENT_POSTGRES_OPTIONS_INIT                                                                  \
    {(uint32_t)sizeof(ent_postgres_options),                                                       \
     0,                                                                                            \
     ENT_POSTGRES_BUSY_MS_DEFAULT,                                                                 \
     {NULL, 0},                                                                                    \
     NULL,                                                                                         \
     NULL,                                                                                         \
     QUIPU_LOG_DEFAULT}

/**
 * Open a connection to a database, named by a URI as libpq reads it
 * ("postgresql://user@host:5432,other:5432/base?sslmode=verify-full"). The tables live in the first
 * schema of the role's search path. Of several hosts the one that takes writes is used; a read-only
 * connection takes any, which may be a standby that lags, unless ENT_POSTGRES_PRIMARY is given. The
 * schema's tables are not touched: see ent_migrate().
 *
 * A server that is starting, shutting down or has no free connection is retried for busy_ms; one
 * that does not answer only with ENT_POSTGRES_WAIT.
 *
 * The next call reconnects when a connection was lost outside of a transaction; inside of one the
 * call fails with QUIPU_IO and the transaction is rolled back.
 *
 * Ownership: close with ent_close().
 * Threads:   any; the connection then belongs to one thread at a time.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_IO (no server answered, or it refused; the message says why,
 *            and never shows a password), QUIPU_BUSY (it has no free connection),
 *            QUIPU_UNSUPPORTED (a build without libpq, a server that is too old, a role that row
 *            security does not hold for, a role's setting that hides lost commits, a search path
 *            that leads on to another store), QUIPU_INVALID (the tenant has no name, or the URI is
 *            none), QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_postgres_open(const char *uri,
                                                        const ent_postgres_options *options,
                                                        ent_db **ret_db, quipu_error *reterr);

/**
 * The version of the libpq in use, as PQlibVersion() returns it: 150008 is 15.8. Loads libpq if it
 * is not loaded yet.
 *
 * Ownership: `ret_version` may be NULL.
 * Threads:   any.
 * Errors:    QUIPU_UNSUPPORTED (a build without it, or it is not installed; the message says what
 *            to install).
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_postgres_library(int *ret_version, quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
