/* The library of the providers, libquipu-provider, which is loaded when a verb needs it: no other
 * verb waits for libcurl, and a program without the library still does everything else. */
#ifndef APPS_QUIPU_PROVIDER_H
#define APPS_QUIPU_PROVIDER_H

#include "app.h"

/* Put the address of the library's function `name` into the function pointer at `ret_function`,
 * which has `size` bytes. NULL, or why it cannot be had, until something else is loaded. The
 * library stays. */
const char *app_provider_find(const char *name, void *ret_function, size_t size);

#endif
