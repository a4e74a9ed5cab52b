/* Whether a process has one SQLite or two: this extension's, and that of Python's sqlite3 module.
 * Two that open the same file break its locks (docs/decisions/0069-wheels.md), which _one_sqlite.py
 * prevents. Called by Python with the GIL; no state and no lock. */
#include <dlfcn.h>
#include <string.h>

#include <sqlite3.h>

#include "native.h"

#define SQLITE_ANY "sqlite3_libversion" /* a function that every SQLite has */

/* The loader looks in the module, then in what it was linked with. An SQLite that is linked into the
 * module shows no functions, and is another one. */
int qpy_sqlite_is_shared(const char *module)
{
    const char *(*const own)(void) = sqlite3_libversion;
    void *address = NULL;
    /* The module is loaded already; this counts one use more, until dlclose(). */
    void *library = dlopen(module, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, SQLITE_ANY) : NULL;

    /* ISO C converts no function pointer to an object pointer; POSIX lets their bytes be copied. */
    memcpy(&address, &own, sizeof(address));
    if (library != NULL) {
        (void)dlclose(library);
    }
    return found == address;
}
