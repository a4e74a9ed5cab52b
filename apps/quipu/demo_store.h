/* Fills the store of `quipu demo --serve`, beside the demo's own session. */
#ifndef APPS_QUIPU_DEMO_STORE_H
#define APPS_QUIPU_DEMO_STORE_H

#include <quipu/store.h>

/* Adds sessions with prompts, memories, pictures, errors and a long history to the demo's store,
 * which is closed, and an end to the fork that the demo made. */
quipu_status app_demo_fill(const char *path, quipu_error *reterr);

#endif
