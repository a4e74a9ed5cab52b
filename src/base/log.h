/* Writing to a caller's log hook. Each store and each connection holds a qp_log; entries are built
 * only when somebody asked for their level.
 *
 * Texts are C strings that this library made: literals, status names, SQLSTATEs. Stored texts are
 * quipu_str everywhere, and a field does not take one: no stored text can get into the log. Keep it
 * so. */
#ifndef QP_BASE_LOG_H
#define QP_BASE_LOG_H

#include <quipu/log.h>

#include "base/attr.h"

typedef struct qp_log {
    quipu_log_fn fn; /* NULL: off */
    void *ctx;
    quipu_log_level level;
} qp_log;

/* A hook as options give it. */
qp_log qp_log_of(quipu_log_fn fn, void *ctx, quipu_log_level level);

/* Whether a store's log (or NULL) takes entries of this level; evaluates `log` three times. */
#define QP_LOG_IS_ON(log, wanted) ((log) != NULL && (log)->fn != NULL && (wanted) <= (log)->level)

/* Hand an entry to the hook; use the macro, which costs one comparison when the level is off. */
void qp_log_put(const qp_log *log, quipu_log_level level, const char *component, const char *event,
                const quipu_log_field *fields, size_t count);

/* Logs a fault that a server does not show to its client (qp_error_is_fault()) as an error: the
 * status and the route's template. BUSY and CANCELLED pass by themselves and are not logged. */
void qp_log_fault(const qp_log *log, const char *route, quipu_status status);

/* Milliseconds since `begun_ns` of qp_clock_ns(). */
int64_t qp_log_ms(int64_t begun_ns);

#define QP_LOG_NUMBER(field, value) {.name = (field), .number = (int64_t)(value)}
#define QP_LOG_TEXT(field, value) {.name = (field), .text = (value)}
#define QP_LOG_STATUS(value) {.name = "status", .text = quipu_status_name(value)}

#define QP_LOG(log, level, component, event, ...)                                                  \
    do {                                                                                           \
        if (QP_LOG_IS_ON(log, level)) {                                                            \
            const quipu_log_field qp_log_fields[] = {__VA_ARGS__};                                 \
            qp_log_put((log), (level), (component), (event), qp_log_fields,                        \
                       sizeof(qp_log_fields) / sizeof(qp_log_fields[0]));                          \
        }                                                                                          \
    } while (0)

#endif
