/* Loading libquipu-provider and libquipu-server with dlopen(3). A build without libcurl has no
 * provider; the static program cannot load anything and has MCP linked, that of the Python package
 * has both linked. A build without libevent, as these two, serves no HTTP. A program of the
 * amalgamation alone has none of them. */
#include "library.h"

#include <string.h>

#ifdef APP_PROVIDER_LINKED
#include <quipu/provider.h>
#endif

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

#if defined(APP_PROVIDER_LINKED)
/* As dlsym(3), over the functions that are linked: all of libquipu-provider's. */
const char *app_provider_find(const char *name, void *ret_function, size_t size)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {
        {"quipu_provider_open", (void (*)(void))quipu_provider_open},
    };

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            memcpy(ret_function, &functions[i].function, size);
            return NULL;
        }
    }
    return "this program has no such function";
}
#elif defined(APP_PROVIDER)
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

#ifdef APP_SERVER
/* A function of a library, and where its address goes. */
typedef struct library_function {
    const char *name;
    void *to;
    size_t size;
} library_function;
#endif

#ifdef APP_SERVER_LINKED
const char *app_server_load(app_server *ret_server)
{
    *ret_server =
        (app_server){.open = quipu_open, .close = quipu_close, .mcp_serve = quipu_mcp_serve};
    return NULL;
}
#elif !defined(APP_SERVER)
const char *app_server_load(app_server *ret_server)
{
    (void)ret_server;
    return "this program was built without libquipu-server, so it serves no MCP";
}
#else
/* Finds all functions, or returns why one is not there. */
static const char *library_find_all(const library_function *functions, size_t count)
{
    const char *why = NULL;

    for (size_t i = 0; why == NULL && i < count; i++) {
        why = library_find(APP_SERVER, functions[i].name, functions[i].to, functions[i].size);
    }
    return why;
}

const char *app_server_load(app_server *ret_server)
{
    app_server server = {.open = NULL};
    const library_function functions[] = {
        {"quipu_open", &server.open, sizeof(server.open)},
        {"quipu_close", &server.close, sizeof(server.close)},
        {"quipu_mcp_serve", &server.mcp_serve, sizeof(server.mcp_serve)},
    };
    const char *why = library_find_all(functions, sizeof(functions) / sizeof(functions[0]));

    if (why == NULL) {
        *ret_server = server;
    }
    return why;
}
#endif

#ifndef APP_HTTP
const char *app_http_load(app_http *ret_http)
{
    (void)ret_http;
    return "this program was built without libevent, so it serves no HTTP";
}
#else
const char *app_http_load(app_http *ret_http)
{
    app_http http = {.open = NULL};
    const library_function functions[] = {
        {"quipu_open", &http.open, sizeof(http.open)},
        {"quipu_close", &http.close, sizeof(http.close)},
        {"quipu_free", &http.free, sizeof(http.free)},
        {"quipu_server_start", &http.start, sizeof(http.start)},
        {"quipu_server_stop", &http.stop, sizeof(http.stop)},
        {"quipu_access_token_create", &http.token_add, sizeof(http.token_add)},
        {"quipu_access_token_find", &http.token_find, sizeof(http.token_find)},
        {"quipu_access_token_delete", &http.token_remove, sizeof(http.token_remove)},
    };
    const char *why = library_find_all(functions, sizeof(functions) / sizeof(functions[0]));

    if (why == NULL) {
        *ret_http = http;
    }
    return why;
}
#endif
