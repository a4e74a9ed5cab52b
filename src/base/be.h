/* Numbers as bytes, the highest first. */
#ifndef QP_BASE_BE_H
#define QP_BASE_BE_H

#include <stdint.h>

#include "base/attr.h"

QP_INLINE void qp_put_be32(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}

QP_INLINE void qp_put_be64(uint8_t *p, uint64_t value)
{
    qp_put_be32(p, (uint32_t)(value >> 32));
    qp_put_be32(p + 4, (uint32_t)value);
}

QP_INLINE uint32_t qp_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

QP_INLINE uint64_t qp_be64(const uint8_t *p)
{
    return (uint64_t)qp_be32(p) << 32 | qp_be32(p + 4);
}

#endif
