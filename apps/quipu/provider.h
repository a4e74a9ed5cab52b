/* The model that a verb asks: the options that name its endpoint, and opening it. */
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
         .help = words "the variable with the API key; default: the provider's own"}

/* Opens the provider that the options name; close it. No connection is made yet. Failures are
 * reported. */
int app_provider_open(const app_call *call, quipu_provider **ret_provider);

/* Opens a provider only to look at it. Returns why it cannot be opened, or NULL. */
const char *app_provider_any(quipu_provider **ret_provider, quipu_error *reterr);

#endif
