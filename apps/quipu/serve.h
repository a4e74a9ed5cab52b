/* Shared by serve, token and demo. */
#ifndef APPS_QUIPU_SERVE_H
#define APPS_QUIPU_SERVE_H

#include "library.h"

/* The option --tokens, for both verbs. */
#define SERVE_TOKENS_OPTION                                                                        \
    {.name = "tokens",                                                                             \
     .value = "FILE",                                                                              \
     .help = "the token file; default: the store's path, and .tokens"}

/* The option --listen, for serve and demo. */
#define SERVE_LISTEN_OPTION                                                                        \
    {.name = "listen",                                                                             \
     .value = "ADDRESS",                                                                           \
     .help = "default 127.0.0.1:8420; [::1]:PORT, unix:PATH; with TLS any; port 0: any"}

#define SERVE_TOKENS_SUFFIX ".tokens" /* of the token file beside a store's file */

/* The token file of a call: --tokens, or beside the store's file. False: reported. */
bool app_token_path(const app_call *call, char ret_path[APP_PATH_MAX]);

/* Loads the library of the server. False: reported. */
bool app_http_begin(const app_call *call, app_http *ret_http);

/* Serves the store of a file with its page, opened, until a signal; --listen says where. Returns an
 * exit code. */
int app_serve_page(const app_call *call, const char *path);

#endif
