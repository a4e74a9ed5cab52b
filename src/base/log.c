/* The way to a caller's log hook. Owns nothing: the hook and its context belong to the caller, who
 * keeps them until the store is closed. Called through QP_LOG, from any thread that uses the store,
 * also under the store's locks: a hook must not call back into it. */
#include "base/log.h"

#include <assert.h>

#include "base/error.h"
#include "base/thread.h"

#define LOG_NS_PER_MS 1000000

/* The default level is WARN, so that a hook alone does not mean one call for each statement. */
qp_log qp_log_of(quipu_log_fn fn, void *ctx, quipu_log_level level)
{
    return (qp_log){fn, ctx, level == QUIPU_LOG_DEFAULT ? QUIPU_LOG_WARN : level};
}

/* For fields of log entries: a millisecond is what a reader of logs looks for. */
int64_t qp_log_ms(int64_t begun_ns)
{
    return (qp_clock_ns() - begun_ns) / LOG_NS_PER_MS;
}

/* The entry lives on the stack: the hook copies what it keeps. */
void qp_log_put(const qp_log *log, quipu_log_level level, const char *component, const char *event,
                const quipu_log_field *fields, size_t count)
{
    const quipu_log_entry entry = {level, component, event, quipu_log_fields_of(fields, count)};

    assert(QP_LOG_IS_ON(log, level) && component != NULL && event != NULL);
    log->fn(log->ctx, &entry);
}

/* At the level that is logged by default: the client gets no more than a status, so that the log is
 * where an operator learns of the fault. */
void qp_log_fault(const qp_log *log, const char *route, quipu_status status)
{
    if (qp_error_is_fault(status) && status != QUIPU_BUSY && status != QUIPU_CANCELLED) {
        QP_LOG(log, QUIPU_LOG_ERROR, "server", "store_failed", QP_LOG_STATUS(status),
               QP_LOG_TEXT("route", route));
    }
}
