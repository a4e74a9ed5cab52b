/* Loading libquipu-provider and libquipu-server with dlopen(3). A build without libcurl has no
 * provider; the static program cannot load anything and has the server linked. */
#include "library.h"

#include <string.h>

#if defined(APP_PROVIDER) || defined(APP_SERVER)
#include <dlfcn.h>

/* Looks for a function in a library and in the libraries that it needs. */
static const char *library_find(const char *library, const char *name, void *ret_function,
                                size_t size)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;

    if (symbol == NULL) {
        return dlerror();
    }
    memcpy(ret_function, &symbol, size); /* POSIX allows it, ISO C has no cast for it */
    return NULL;
}
#endif

#ifdef APP_PROVIDER
const char *app_provider_find(const char *name, void *ret_function, size_t size)
{
    return library_find(APP_PROVIDER, name, ret_function, size);
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

#ifdef APP_SERVER_LINKED
const char *app_server_load(app_server *ret_server)
{
    *ret_server =
        (app_server){.open = quipu_open, .close = quipu_close, .mcp_serve = quipu_mcp_serve};
    return NULL;
}
#else
const char *app_server_load(app_server *ret_server)
{
    app_server server = {.open = NULL};
    const struct {
        const char *name;
        void *to;
        size_t size;
    } functions[] = {
        {"quipu_open", &server.open, sizeof(server.open)},
        {"quipu_close", &server.close, sizeof(server.close)},
        {"quipu_mcp_serve", &server.mcp_serve, sizeof(server.mcp_serve)},
    };
    const char *why = NULL;

    for (size_t i = 0; why == NULL && i < sizeof(functions) / sizeof(functions[0]); i++) {
        why = library_find(APP_SERVER, functions[i].name, functions[i].to, functions[i].size);
    }
    if (why == NULL) {
        *ret_server = server;
    }
    return why;
}
#endif
