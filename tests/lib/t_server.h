/* Stores behind a server: with QUIPU_TEST_ENGINE=server every new store of a test is served by a
 * `quipu serve` of its own, on a unix socket, and opened by its address. */
#ifndef T_LIB_T_SERVER_H
#define T_LIB_T_SERVER_H

#include "lib/t.h"

#include <sys/types.h>

/* Whether stores are behind servers. */
bool t_server(void);

/* The file of the store that was served last. */
const char *t_server_file(void);

/* Serves the store in the file `path` until this process ends; gives its address and its id. */
pid_t t_server_start(const char *path, char ret_uri[T_PATH_MAX]);

#endif
