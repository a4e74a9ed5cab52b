/* Loading libpq.so.5, once a process, when the first PostgreSQL store is opened (decision 14).
 *
 * Owns: qp_libpq, the table of its functions, constant after loading.
 * Called by: ent_postgres_open(), ent_postgres_library().
 * Threads: any; qp_once_run() orders the writes of the table before every use.
 * Locks: that of qp_once_run(), for the first caller. */
#include "base/port.h"

#include "ent_postgres/libpq.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include <ent/postgres.h>

#include "base/error.h"
#include "base/thread.h"

#define LIBPQ_NAME "libpq.so.5" /* its interface has not changed since 2006 */

qp_libpq_table qp_libpq;

static qp_once libpq_once = QP_ONCE_INIT;
static bool libpq_loaded;

/* Looks a function up. ISO C converts no object pointer to a function pointer; POSIX lets their
 * bytes be copied. */
static bool libpq_find(void *library, const char *name, void *ret_function, size_t size)
{
    void *symbol = dlsym(library, name);

    assert(library != NULL);
    assert(size == sizeof(symbol));
    memcpy(ret_function, &symbol, size);
    return symbol != NULL;
}

/* All functions or none: a libpq without pipeline mode (before 14) lacks some and counts as absent.
 */
static void libpq_load(void)
{
    void *library = dlopen(LIBPQ_NAME, RTLD_NOW | RTLD_LOCAL);
    bool found = library != NULL;

#define LIBPQ_FIND(result, name, parameters)                                                       \
    found = found && libpq_find(library, #name, &qp_libpq.p_##name, sizeof(qp_libpq.p_##name));
    QP_LIBPQ_MAP(LIBPQ_FIND)
#undef LIBPQ_FIND
    libpq_loaded = found;
}

/* Loads libpq if need be: the question is about the one that would be used. */
quipu_status ent_postgres_library(int *ret_version, quipu_error *reterr)
{
    quipu_status status = qp_libpq_load(reterr);

    if (status == QUIPU_OK && ret_version != NULL) {
        *ret_version = PQlibVersion();
    }
    return status;
}

/* A failed attempt is not repeated: installing a library needs a new process. */
quipu_status qp_libpq_load(quipu_error *reterr)
{
    qp_once_run(&libpq_once, libpq_load);
    if (!libpq_loaded) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "PostgreSQL needs %s, which is not installed (Debian: libpq5)",
                            LIBPQ_NAME);
    }
    return QUIPU_OK;
}
