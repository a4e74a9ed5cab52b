/* The way to a caller's log hook. */
#include "base/log.h"

#include <assert.h>

#include "base/thread.h"

#define LOG_NS_PER_MS 1000000

qp_log qp_log_of(quipu_log_fn fn, void *ctx, quipu_log_level level)
{
    return (qp_log){fn, ctx, level == QUIPU_LOG_DEFAULT ? QUIPU_LOG_WARN : level};
}

int64_t qp_log_ms(int64_t begun_ns)
{
    return (qp_clock_ns() - begun_ns) / LOG_NS_PER_MS;
}

void qp_log_put(const qp_log *log, quipu_log_level level, const char *component, const char *event,
                const quipu_log_field *fields, size_t count)
{
    const quipu_log_entry entry = {level, component, event, quipu_log_fields_of(fields, count)};

    assert(QP_LOG_IS_ON(log, level) && component != NULL && event != NULL);
    log->fn(log->ctx, &entry);
}
