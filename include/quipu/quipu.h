/* Everything that libquipu offers. Two more libraries have headers of their own: providers over
 * HTTP (libquipu-provider) <quipu/provider.h>, and servers (libquipu-server) <quipu/server.h>.
 * Generated entities include <ent/...> by themselves. */
#ifndef QUIPU_QUIPU_H
#define QUIPU_QUIPU_H

/* IWYU pragma: begin_exports */
#include <quipu/adk.h>
#include <quipu/agent.h>
#include <quipu/base.h>
#include <quipu/fields.h>
#include <quipu/import.h>
#include <quipu/memory.h>
#include <quipu/model.h>
#include <quipu/store.h>
/* IWYU pragma: end_exports */

#endif
