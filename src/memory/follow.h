/* The worker beside a program, for the turn that asks for one. */
#ifndef QP_MEMORY_FOLLOW_H
#define QP_MEMORY_FOLLOW_H

#include <quipu/memory.h>

/* QUIPU_UNSUPPORTED, with the name of the public call: the store is behind a server, where nothing
 * of this room can run. */
QUIPU_MUST_USE quipu_status qp_memory_check_local(quipu_store *store, const char *name,
                                                  quipu_error *reterr);

/* Something was said in this process: a worker that waits looks at once. Never waits itself. */
void qp_memory_wake(quipu_store *store);

#endif
