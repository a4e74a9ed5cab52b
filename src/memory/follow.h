/* The worker beside a program, for the turn that asks for one. */
#ifndef QP_MEMORY_FOLLOW_H
#define QP_MEMORY_FOLLOW_H

#include <quipu/agent.h>
#include <quipu/memory.h>

/* QUIPU_UNSUPPORTED, with the name of the public call: the store is behind a server, where nothing
 * of this room can run. */
QUIPU_MUST_USE quipu_status qp_memory_check_local(quipu_store *store, const char *name,
                                                  quipu_error *reterr);

/* The same for a worker, and what to do instead. */
QUIPU_MUST_USE quipu_status qp_memory_check_worker(const quipu_store *store, const char *name,
                                                   quipu_error *reterr);

/* Whether the store is behind a server, which then makes prompts: qp_memory_context_ask(). */
bool qp_memory_is_remote(const quipu_store *store);

/* A prompt from the server of a remote store, in the arena. The options are those of the public
 * call, checked, and every struct that they point to has this version's size. */
QUIPU_MUST_USE quipu_status qp_memory_context_ask(quipu_store *store,
                                                  const quipu_context_options *options,
                                                  const quipu_call_options *call,
                                                  quipu_arena *arena, quipu_context *ret_context,
                                                  quipu_error *reterr);

/* Something was said in this process: a worker that waits looks at once. Never waits itself. */
void qp_memory_wake(quipu_store *store);

#endif
