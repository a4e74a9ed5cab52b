/* The worker beside a program, for the turn that asks for one. */
#ifndef QP_MEMORY_FOLLOW_H
#define QP_MEMORY_FOLLOW_H

#include <quipu/memory.h>

/* Something was said in this process: a worker that waits looks at once. Never waits itself. */
void qp_memory_wake(quipu_store *store);

#endif
