/* The libraries beside libquipu, loaded when a verb needs one: other verbs do not load what it
 * needs, and the program works without it. */
#ifndef APPS_QUIPU_LIBRARY_H
#define APPS_QUIPU_LIBRARY_H

#include <quipu/server.h>

#include "app.h"

/* Writes the address of the function `name` of libquipu-provider to the function pointer at
 * `ret_function`, which has `size` bytes. Returns NULL, or the reason for the failure, valid until
 * the next load. The library stays loaded. */
const char *app_provider_find(const char *name, void *ret_function, size_t size);

/* What verbs use of libquipu-server, and of the libquipu that it runs on: a store that one copy of
 * the library opened belongs to that copy. */
typedef struct app_server {
    app_open_fn open;
    void (*close)(quipu_store *store);
    quipu_status (*mcp_serve)(quipu_store *store, const quipu_mcp_options *options, int input_fd,
                              int output_fd, quipu_error *reterr);
} app_server;

/* Loads libquipu-server; as app_provider_find(). */
const char *app_server_load(app_server *ret_server);

#endif
