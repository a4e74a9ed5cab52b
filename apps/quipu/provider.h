/* The provider library, libquipu-provider, loaded when a verb needs it: other verbs do not load
 * libcurl, and the program works without the library. */
#ifndef APPS_QUIPU_PROVIDER_H
#define APPS_QUIPU_PROVIDER_H

#include "app.h"

/* Writes the address of the library's function `name` to the function pointer at `ret_function`,
 * which has `size` bytes. Returns NULL, or the reason for the failure, valid until the next load.
 * The library stays loaded. */
const char *app_provider_find(const char *name, void *ret_function, size_t size);

#endif
