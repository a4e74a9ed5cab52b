/* Randomness, drawn from the system in batches, and new UUIDs. Any thread may call these. */
#ifndef QP_BASE_UUID_H
#define QP_BASE_UUID_H

#include <stddef.h>

#include <quipu/base.h>

/* Fill `size` bytes with randomness; QUIPU_IO when the system has none to give. */
QUIPU_MUST_USE quipu_status qp_random(void *ret_bytes, size_t size);

/* A random UUID (version 4); QUIPU_IO. */
QUIPU_MUST_USE quipu_status qp_uuid_v4(quipu_uuid *ret_uuid);

/* A time-ordered UUID (version 7); QUIPU_IO. The UUIDs of one process never decrease, also within
 * one millisecond and when the clock steps back. */
QUIPU_MUST_USE quipu_status qp_uuid_v7(quipu_uuid *ret_uuid);

#endif
