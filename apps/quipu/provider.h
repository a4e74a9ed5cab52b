/* The provider library, libquipu-provider, loaded when a verb needs it: other verbs do not load
 * libcurl, and the program works without the library. */
#ifndef APPS_QUIPU_PROVIDER_H
#define APPS_QUIPU_PROVIDER_H

#include <quipu/model.h>

#include "app.h"

#define APP_PROVIDERS "openai anthropic gemini" /* in the order of quipu_provider_kind */

/* The options of a verb that asks a model, but for the model; `words` stands before each help. */
#define APP_PROVIDER_OPTIONS(words)                                                                \
    {.name = "base-url",                                                                           \
     .value = "URL",                                                                               \
     .help = words "the endpoint; else $QUIPU_BASE_URL, else the provider's own"},                 \
        {.name = "provider",                                                                       \
         .value = "KIND",                                                                          \
         .choices = APP_PROVIDERS,                                                                 \
         .help = words "the endpoint's API; default: openai, which most servers speak"},           \
        {.name = "key-file",                                                                       \
         .value = "FILE",                                                                          \
         .help = words "a file with nothing but the API key"},                                     \
        {.name = "key-env",                                                                        \
         .value = "NAME",                                                                          \
         .help = words "the variable with the API key; default: the provider's usual one"}

/* Writes the address of the library's function `name` to the function pointer at `ret_function`,
 * which has `size` bytes. Returns NULL, or the reason for the failure, valid until the next load.
 * The library stays loaded. */
const char *app_provider_find(const char *name, void *ret_function, size_t size);

/* Opens the provider that the options name; close it. No connection is made yet. Failures are
 * reported. */
int app_provider_open(const app_call *call, quipu_provider **ret_provider);

#endif
