/* Opening a provider with libquipu-provider, which is loaded for it (library.h). */
#include "provider.h"

#include <stdlib.h>

#include <quipu/provider.h>

#include "library.h"

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

const char *app_provider_any(quipu_provider **ret_provider, quipu_error *reterr)
{
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    provider_open_fn open = NULL;
    const char *why = app_provider_find("quipu_provider_open", &open, sizeof(open));

    if (why != NULL || open == NULL) {
        return why;
    }
    /* Uses no address and no key of the environment, which could be wrong. */
    options.base_url = QUIPU_STR("http://127.0.0.1");
    options.key = QUIPU_STR("none");
    return open(QUIPU_PROVIDER_OPENAI, &options, ret_provider, reterr) == QUIPU_OK
               ? NULL
               : reterr->message;
}
