/* Loading libquipu-provider with dlopen(3). Builds without libcurl have a version that always
 * fails. */
#include "provider.h"

#ifdef APP_PROVIDER
#include <dlfcn.h>
#include <string.h>

const char *app_provider_find(const char *name, void *ret_function, size_t size)
{
    void *library = dlopen(APP_PROVIDER, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, name) : NULL;

    if (symbol == NULL) {
        return dlerror();
    }
    memcpy(ret_function, &symbol, size); /* POSIX allows it, ISO C has no cast for it */
    return NULL;
}
#else
const char *app_provider_find(const char *name, void *ret_function, size_t size)
{
    (void)name;
    (void)ret_function;
    (void)size;
    return "this program was built without libcurl, so it cannot reach a model";
}
#endif
