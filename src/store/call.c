/* Deadlines, cancel flags and growable option structs. */
#include "store/call.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

struct quipu_cancel {
    atomic_bool set;
};

quipu_cancel *quipu_cancel_new(void)
{
    quipu_cancel *cancel = qp_malloc(sizeof(*cancel));

    if (cancel != NULL) {
        atomic_init(&cancel->set, false);
    }
    return cancel;
}

void quipu_cancel_set(quipu_cancel *cancel)
{
    if (cancel != NULL) {
        atomic_store(&cancel->set, true);
    }
}

void quipu_cancel_free(quipu_cancel *cancel)
{
    qp_free(cancel);
}

bool qp_call_stops(void *cancel)
{
    quipu_cancel *self = cancel;

    return atomic_load(&self->set);
}

quipu_status qp_options_read(void *ret, size_t size, const void *given, const char *name,
                             quipu_error *reterr)
{
    uint32_t given_size = 0;

    assert(size <= QP_OPTIONS_SIZE_MAX);
    if (given == NULL) {
        return QUIPU_OK;
    }
    memcpy(&given_size, given, sizeof(given_size));
    if (given_size < sizeof(given_size) || given_size > QP_OPTIONS_SIZE_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s.struct_size is %u; start from the _INIT macro of the struct", name,
                            (unsigned)given_size);
    }
    for (size_t i = size; i < given_size; i++) {
        if (((const char *)given)[i] != 0) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "%s asks for something that this version does not know; upgrade "
                                "the library",
                                name);
        }
    }
    memcpy(ret, given, given_size < size ? given_size : size);
    return QUIPU_OK;
}

quipu_status qp_call_begin(const quipu_call *given, int32_t deadline_ms, qp_call *ret,
                           quipu_error *reterr)
{
    quipu_call call = QUIPU_CALL_INIT;
    quipu_status status = qp_options_read(&call, sizeof(call), given, "quipu_call", reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (call.deadline_ms < -1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "quipu_call.deadline_ms is %d; give milliseconds, 0 or -1",
                            (int)call.deadline_ms);
    }
    if (call.deadline_ms == 0) {
        call.deadline_ms = deadline_ms;
    }
    ret->cancel = call.cancel;
    ret->deadline_ns =
        call.deadline_ms < 0 ? QP_NEVER : qp_clock_ns() + call.deadline_ms * QP_NS_PER_MS;
    return qp_call_check(ret, reterr);
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
