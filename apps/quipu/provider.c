/* Loading libquipu-provider with dlopen(3). Builds without libcurl have a version that always
 * fails. */
#include "provider.h"

#include <stdlib.h>

#include <quipu/provider.h>

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

typedef quipu_status (*provider_open_fn)(quipu_provider_kind kind,
                                         const quipu_provider_options *options,
                                         quipu_provider **ret_provider, quipu_error *reterr);

int app_provider_open(const app_call *call, quipu_provider **ret_provider)
{
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    const char *kind = app_value(call, "provider");
    const int number = kind != NULL ? app_word_number(APP_PROVIDERS, kind) : 0;
    quipu_error error = {0};
    quipu_status status;
    provider_open_fn open = NULL;
    const char *why = app_provider_find("quipu_provider_open", &open, sizeof(open));

    if (why != NULL || open == NULL) {
        app_report(call, "the provider library cannot be loaded: %s", why);
        return APP_FAILURE;
    }
    options.base_url = app_text_value(call, "base-url");
    if (options.base_url.n == 0) {
        options.base_url = quipu_cstr(getenv("QUIPU_BASE_URL"));
    }
    options.key_file = app_text_value(call, "key-file");
    options.key_env = app_text_value(call, "key-env");
    status =
        open((quipu_provider_kind)(QUIPU_PROVIDER_OPENAI + number), &options, ret_provider, &error);
    return status == QUIPU_OK ? APP_OK : app_fail(call, "the provider", status, &error);
}
