/* Loading libcrypto, once a process, when the first encrypted file is opened (decision 14).
 *
 * Owns: qp_libcrypto, the table of its functions, constant after loading.
 * Called by: ent_sqlite/crypt_keys.c and the encryption of exports in store, before anything is
 * encrypted or decrypted.
 * Threads: any; qp_once_run() orders the writes of the table before every use. No locks. */
#include "base/port.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
/* The last one: its macros rename what dlsym() is asked for otherwise. */
#include "base/libcrypto.h"

/* The newest first; both have all functions of the table. */
#if defined(__APPLE__)
#define LIBCRYPTO_NEW "libcrypto.3.dylib"
#define LIBCRYPTO_OLD "libcrypto.1.1.dylib"
#else
#define LIBCRYPTO_NEW "libcrypto.so.3"
#define LIBCRYPTO_OLD "libcrypto.so.1.1"
#endif

qp_libcrypto_table qp_libcrypto;

/* Written once, by libcrypto_load(), and read only behind qp_once_run(). */
static qp_once libcrypto_once = QP_ONCE_INIT;
static bool libcrypto_loaded;

/* Looks a function up. ISO C converts no object pointer to a function pointer; POSIX lets their
 * bytes be copied. */
static bool libcrypto_find(void *library, const char *name, void *ret_function, size_t size)
{
    void *symbol = dlsym(library, name);

    assert(library != NULL);
    assert(size == sizeof(symbol));
    memcpy(ret_function, &symbol, size);
    return symbol != NULL;
}

/* All functions or none. */
static void libcrypto_load(void)
{
    void *library = dlopen(LIBCRYPTO_NEW, RTLD_NOW | RTLD_LOCAL);
    bool found;

    library = library != NULL ? library : dlopen(LIBCRYPTO_OLD, RTLD_NOW | RTLD_LOCAL);
    found = library != NULL;
#define LIBCRYPTO_FIND(result, name, parameters)                                                   \
    found = found &&                                                                               \
            libcrypto_find(library, #name, &qp_libcrypto.p_##name, sizeof(qp_libcrypto.p_##name));
    QP_LIBCRYPTO_MAP(LIBCRYPTO_FIND)
#undef LIBCRYPTO_FIND
    libcrypto_loaded = found;
}

/* A failed attempt is not repeated: installing a library needs a new process. */
quipu_status qp_libcrypto_load(quipu_error *reterr)
{
    qp_once_run(&libcrypto_once, libcrypto_load);
    return libcrypto_loaded ? QUIPU_OK
                            : qp_error_set(reterr, QUIPU_UNSUPPORTED,
                                           "encrypted files need OpenSSL's %s, which is not "
                                           "installed (Debian: libssl3)",
                                           LIBCRYPTO_NEW);
}
