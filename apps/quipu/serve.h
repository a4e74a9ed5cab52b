/* What serve and token share. */
#ifndef APPS_QUIPU_SERVE_H
#define APPS_QUIPU_SERVE_H

#include "library.h"

/* The option --tokens, for both verbs. */
#define SERVE_TOKENS_OPTION                                                                        \
    {.name = "tokens",                                                                             \
     .value = "FILE",                                                                              \
     .help = "the token file; default: the store's path, and .tokens"}

/* The token file of a call: --tokens, or beside the store's file. False: reported. */
bool app_token_path(const app_call *call, char ret_path[APP_PATH_MAX]);

/* Loads the library of the server. False: reported. */
bool app_http_begin(const app_call *call, app_http *ret_http);

#endif
