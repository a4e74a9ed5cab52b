/* Starting peer.py, the server that misbehaves, and asking it what it was sent. */
#ifndef T_PROVIDER_PEER_H
#define T_PROVIDER_PEER_H

#include "lib/t.h"

#include <quipu/provider.h>

/* Start it, once a program; with TLS when both files are given. Ended at exit, or by
 * peer_stop(). */
void peer_start(const char *cert, const char *key);
void peer_stop(void);

/* "http://127.0.0.1:<port>/<how>", or https; static, good until the next call. */
quipu_str peer_url(const char *how);

/* How many requests came for this behaviour. */
size_t peer_count(const char *how);

/* Everything that was sent so far, a line of JSON a request; free it. */
char *peer_log(void);

/* Open a provider that talks to it; short timeouts, `retry_ms` 1. Fails the test when it cannot. */
quipu_provider *peer_provider(quipu_provider_kind kind, const char *how,
                              quipu_provider_options *options);

#endif
