/* Everything that libquipu offers. Providers over HTTP are a library of their own, with a header of
 * their own: <quipu/provider.h>. Generated entities include <ent/...> by themselves. */
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
