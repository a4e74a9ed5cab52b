/* Randomness for the library, drawn from the system in batches; the UUID functions are public. */
#ifndef QP_BASE_UUID_H
#define QP_BASE_UUID_H

#include <stddef.h>

#include <quipu/base.h>

/* Fill `size` bytes with randomness; QUIPU_IO when the system has none to give. */
QUIPU_MUST_USE quipu_status qp_random(void *ret_bytes, size_t size);

#endif
