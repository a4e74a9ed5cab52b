/* Filling the caller's error struct. Nothing here allocates. */
#ifndef QP_BASE_ERROR_H
#define QP_BASE_ERROR_H

#include <quipu/base.h>

/* Fill *reterr (NULL is fine) and give the status back, so that a caller can `return` it. The
 * message is cut at a character border when it does not fit. */
quipu_status qp_error_set(quipu_error *reterr, quipu_status status, const char *format, ...)
    QUIPU_PRINTF(3, 4);

/* The same for a failure about one entity, field or rule; each may be NULL. */
quipu_status qp_error_field(quipu_error *reterr, quipu_status status, const char *entity,
                            const char *field, const char *rule, const char *format, ...)
    QUIPU_PRINTF(6, 7);

/* The rule of a QUIPU_IO that says: the server of the store's database cannot be reached, or starts
 * or stops. Nothing was done; a write that may have arrived is QUIPU_UNKNOWN. */
#define QP_RULE_AWAY "away"

/* Whether a status is about the store and its machine, and not about what was asked: its message
 * may show where the store lies, which is not for the clients of a server. */
bool qp_error_is_fault(quipu_status status);

#endif
