/* Sums of numbers that come from a file: what stands there is input, and may be any number. */
#ifndef QP_BASE_SUM_H
#define QP_BASE_SUM_H

#include <stdint.h>

/* a + b, or the limit of the type that it lies beyond. */
static inline int64_t qp_sum(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) {
        return INT64_MAX;
    }
    return b < 0 && a < INT64_MIN - b ? INT64_MIN : a + b;
}

/* a - b, likewise. */
static inline int64_t qp_difference(int64_t a, int64_t b)
{
    if (b < 0 && a > INT64_MAX + b) {
        return INT64_MAX;
    }
    return b > 0 && a < INT64_MIN + b ? INT64_MIN : a - b;
}

#endif
