/* Instants: arithmetic and the RFC 3339 writer that JSON export needs; the rest is public. */
#ifndef QP_BASE_TIME_H
#define QP_BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_TIME_S_MIN INT64_C(-62135596800) /* 0001-01-01 00:00:00 */
#define QP_TIME_S_MAX INT64_C(253402300799) /* 9999-12-31 23:59:59 */
#define QP_TIME_NS_MAX UINT32_C(999999999)

#define QP_TIME_RFC3339_SIZE 31 /* "YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ" and its NUL */

/* Whether an instant is one that can be stored: years 1 to 9999, ns below a second. */
bool qp_time_valid(quipu_time time);

/* For tests: moves the library's wall clock, quipu_time_now(), by so many milliseconds from what
 * the system says; 0 ends it. Also for ids that hold a time. */
void qp_time_step(int64_t ms);

/* Move an instant; QUIPU_INVALID when it would leave the years 1 to 9999. */
QUIPU_MUST_USE quipu_status qp_time_add_ms(quipu_time time, int64_t ms, quipu_time *ret_time);

/* Unix nanoseconds; QUIPU_INVALID when they do not fit (before 1677 or after 2262). */
QUIPU_MUST_USE quipu_status qp_time_to_unix_ns(quipu_time time, int64_t *ret_ns);

/* RFC 3339 in UTC as Go writes it: the fraction without trailing zeros, none for a whole second.
 * *ret_size (NULL is fine) is the length without the NUL. */
QUIPU_MUST_USE quipu_status qp_time_rfc3339(quipu_time time, char ret_text[QP_TIME_RFC3339_SIZE],
                                            size_t *ret_size);

#endif
