/* The inside of the public cancel flag: what a call asks while it waits. */
#ifndef QP_BASE_CANCEL_H
#define QP_BASE_CANCEL_H

#include <stdbool.h>

#include <quipu/store.h>

/* Whether the flag is set; NULL never is. */
bool qp_cancel_is_set(quipu_cancel *cancel);

#endif
