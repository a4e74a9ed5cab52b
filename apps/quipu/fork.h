/* Shared by fork, rewind and compact: message numbers, and the report on a fork. */
#ifndef APPS_QUIPU_FORK_H
#define APPS_QUIPU_FORK_H

#include "app.h"

/* Parses a message number from an argument; false: reported. */
bool app_seq_argument(const app_call *call, int number, int64_t *ret_seq);

/* The number of the newest message of a session. Returns an exit code. */
int app_seq_newest(const app_call *call, quipu_store *store, quipu_str key, int64_t *ret_seq);

/* Prints that `key` is now a fork at `seq`, as text or JSON. */
void app_fork_print(const app_call *call, quipu_str key, int64_t seq);

#endif
