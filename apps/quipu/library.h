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

/* The functions of libquipu-server that verbs use, and of the libquipu that it runs on: a store
 * that one copy of the library opened belongs to that copy. */
typedef struct app_server {
    app_open_fn open;
    void (*close)(quipu_store *store);
    quipu_status (*mcp_serve)(quipu_store *store, const quipu_mcp_options *options, int input_fd,
                              int output_fd, quipu_error *reterr);
} app_server;

/* Loads libquipu-server; as app_provider_find(). */
const char *app_server_load(app_server *ret_server);

/* Its functions for HTTP and tokens; a build without libevent lacks them. */
typedef struct app_http {
    app_open_fn open;
    void (*close)(quipu_store *store);
    void (*free)(const void *result);
    quipu_status (*start)(quipu_store *store, const quipu_server_options *options,
                          quipu_server **ret_server, quipu_error *reterr);
    void (*stop)(quipu_server *server);
    quipu_status (*token_add)(const char *token_file, const quipu_access_token_options *options,
                              char ret_token[QUIPU_ACCESS_TOKEN_SIZE], quipu_error *reterr);
    quipu_status (*token_find)(const char *token_file, quipu_access_token_list **ret_list,
                               quipu_error *reterr);
    quipu_status (*token_remove)(const char *token_file, quipu_str id, quipu_error *reterr);
} app_http;

/* Loads libquipu-server; as app_provider_find(). */
const char *app_http_load(app_http *ret_http);

#endif
