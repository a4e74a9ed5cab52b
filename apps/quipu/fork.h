/* What fork and rewind share: a second session out of the first one's past. */
#ifndef APPS_QUIPU_FORK_H
#define APPS_QUIPU_FORK_H

#include "app.h"

/* Read a message's number out of an argument; false: told. */
bool app_seq_argument(const app_call *call, int number, int64_t *ret_seq);

/* The number of the newest message of a session. An exit code; told. */
int app_seq_newest(const app_call *call, quipu_store *store, quipu_str key, int64_t *ret_seq);

/* Tell that `key` is now a fork at `seq`. */
void app_fork_print(const app_call *call, quipu_str key, int64_t seq);

#endif
