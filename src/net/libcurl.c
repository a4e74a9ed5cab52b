/* Loading libcurl.so.4, once a process, when the first connection is wanted (decision 14).
 *
 * Owns: qp_libcurl, the table of its functions, constant after loading; curl_global_init().
 * Called by: http.c.
 * Threads: any; qp_once_run() orders the writes of the table before every use. */
#include "base/port.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
/* The last one: its macros rename what dlsym() is asked for otherwise. */
#include "net/libcurl.h"

#define LIBCURL_NAME "libcurl.so.4"

qp_libcurl_table qp_libcurl;

/* Written once, by libcurl_load(), and read only behind qp_once_run(). */
static qp_once libcurl_once = QP_ONCE_INIT;
static bool libcurl_loaded;
static CURLcode libcurl_started = CURLE_FAILED_INIT;

/* Looks a function up. ISO C converts no object pointer to a function pointer; POSIX lets their
 * bytes be copied. */
static bool libcurl_find(void *library, const char *name, void *ret_function, size_t size)
{
    void *symbol = dlsym(library, name);

    assert(library != NULL);
    assert(size == sizeof(symbol));
    memcpy(ret_function, &symbol, size);
    return symbol != NULL;
}

/* All functions or none. */
static void libcurl_load(void)
{
    void *library = dlopen(LIBCURL_NAME, RTLD_NOW | RTLD_LOCAL);
    bool found = library != NULL;

#define LIBCURL_FIND(result, name, parameters)                                                     \
    found =                                                                                        \
        found && libcurl_find(library, #name, &qp_libcurl.p_##name, sizeof(qp_libcurl.p_##name));
    QP_LIBCURL_MAP(LIBCURL_FIND)
#undef LIBCURL_FIND
    libcurl_loaded = found;
    libcurl_started = found ? curl_global_init(CURL_GLOBAL_DEFAULT) : CURLE_FAILED_INIT;
}

/* A failed attempt is not repeated: installing a library needs a new process. */
quipu_status qp_libcurl_load(quipu_error *reterr)
{
    qp_once_run(&libcurl_once, libcurl_load);
    if (!libcurl_loaded) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "requests over HTTP need %s, which is not installed (Debian: libcurl4)",
                            LIBCURL_NAME);
    }
    return libcurl_started == CURLE_OK ? QUIPU_OK
                                       : qp_error_set(reterr, QUIPU_IO, "libcurl did not start: %s",
                                                      curl_easy_strerror(libcurl_started));
}
