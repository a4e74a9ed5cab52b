/* Connections and deadlines of the calls that work through the whole store. */
#include "store/maintain.h"

quipu_status qp_maintain_enter(quipu_store *store, const quipu_call_options *call, qp_call *ret,
                               quipu_error *reterr)
{
    quipu_call_options given = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status =
        qp_options_read(&given, sizeof(given), call, "quipu_call_options", reterr);

    ret->store = NULL;
    if (status != QUIPU_OK) {
        return status;
    }
    given.struct_size = (uint32_t)sizeof(given);
    given.deadline_ms = given.deadline_ms == 0 ? -1 : given.deadline_ms;
    return qp_store_enter(store, &given, ret, reterr);
}

qp_call qp_maintain_step(const quipu_store *store, const qp_call *call)
{
    qp_call step = *call;

    if (store->deadline_ms > 0) {
        int64_t until_ns = qp_clock_ns() + store->deadline_ms * QP_NS_PER_MS;
        step.deadline_ns = until_ns < step.deadline_ns ? until_ns : step.deadline_ns;
    }
    return step;
}

typedef struct maintain_write {
    const qp_call *call;
    qp_work_fn work;
    void *ctx;
} maintain_write;

static quipu_status maintain_write_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    const maintain_write *write = ctx;

    (void)scratch;
    return qp_store_repeat(db, write->call, write->work, write->ctx, reterr);
}

quipu_status qp_maintain_write(quipu_store *store, const qp_call *call, qp_work_fn work, void *ctx,
                               quipu_error *reterr)
{
    maintain_write write = {call, work, ctx};
    quipu_status status = qp_store_writable(store, reterr);

    return status == QUIPU_OK ? qp_group_run(&store->group, QP_WRITE_OUTSIDE, call,
                                             maintain_write_work, &write, reterr)
                              : status;
}

quipu_status qp_maintain_state(ent_db *db, quipu_arena *arena, const qp_state_new *made,
                               const qp_state **ret_row, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status =
        qp_state_get(db, arena, made->tenant, made->scope, made->app_name, made->user_id,
                     made->session_number, made->name, ret_row, &error);

    if (status == QUIPU_NOT_FOUND) {
        *ret_row = NULL;
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}
