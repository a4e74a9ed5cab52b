/* Deadlines of the store's calls. */
#include "store/call.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/thread.h"
#include "ent/db.h"

bool qp_call_stops(void *cancel)
{
    return qp_cancel_is_set(cancel);
}

void qp_call_tell(const qp_call *call, int64_t done)
{
    if (call->progress != NULL) {
        call->progress(call->progress_ctx, done);
    }
}

quipu_status qp_call_begin(const quipu_call_options *given, int32_t deadline_ms, qp_call *ret,
                           quipu_error *reterr)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status = QUIPU_OK;

    if (given != NULL) {
        status = qp_options_read(&call, sizeof(call), given, "quipu_call_options", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (call.deadline_ms < -1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "quipu_call_options.deadline_ms is %d; give milliseconds, 0 or -1",
                            (int)call.deadline_ms);
    }
    if (call.deadline_ms == 0) {
        call.deadline_ms = deadline_ms;
    }
    ret->cancel = call.cancel;
    ret->progress = call.progress;
    ret->progress_ctx = call.progress_ctx;
    ret->deadline_ns =
        call.deadline_ms < 0 ? QP_NEVER : qp_clock_ns() + call.deadline_ms * QP_NS_PER_MS;
    /* A deadline that begins now has not passed: only a flag can be set already. */
    return call.cancel != NULL ? qp_call_check(ret, reterr) : QUIPU_OK;
}

quipu_status qp_call_check(const qp_call *call, quipu_error *reterr)
{
    if (call->cancel != NULL && qp_call_stops(call->cancel)) {
        return qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the call");
    }
    if (call->deadline_ns != QP_NEVER && qp_clock_ns() >= call->deadline_ns) {
        return qp_error_set(reterr, QUIPU_BUSY,
                            "other callers held the store until the deadline; try again, or give "
                            "the call more time");
    }
    return QUIPU_OK;
}

int64_t qp_call_wake_ns(const qp_call *call)
{
    int64_t slice_ns;

    if (call->cancel == NULL) {
        return call->deadline_ns;
    }
    slice_ns = qp_clock_ns() + QP_CALL_SLICE_NS;
    return slice_ns < call->deadline_ns ? slice_ns : call->deadline_ns;
}

bool qp_call_nap(const qp_call *call, quipu_status *status, quipu_error *reterr)
{
    quipu_error over = {0};

    if (qp_call_check(call, &over) == QUIPU_OK) {
        qp_sleep_jitter(QP_BACKOFF_MS_MIN, QP_BACKOFF_MS_MAX - QP_BACKOFF_MS_MIN, INT64_MAX);
        return true;
    }
    if (*status != QUIPU_UNKNOWN) {
        const quipu_error last = reterr != NULL ? *reterr : (quipu_error){0};

        *status = qp_error_set(
            reterr, (quipu_status)over.status, "the call was %s before another try; last: %s",
            over.status == QUIPU_CANCELLED ? "cancelled" : "out of time", last.message);
    }
    return false;
}

void qp_call_watch(const qp_call *call, ent_db *db)
{
    ent_watch(db, call->deadline_ns, call->cancel != NULL ? qp_call_stops : NULL, call->cancel);
}
