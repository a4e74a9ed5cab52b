/* Connections and deadlines of the calls that work through the whole store.
 *
 * Owns no state. Called by verify, erase, export, import, copy, backup, rekey, stats and
 * src/import. Locks: expects none. A work begins and commits transactions of its own:
 * qp_maintain_write() gives it the writing connection while no other caller has it. On return no
 * transaction is open: one that the work left open is rolled back. */
#include "store/maintain.h"

#include <assert.h>

#include "base/error.h"

/* After a failure qp_store_leave() may be called, as after qp_store_enter(): `store` is NULL
 * then. */
quipu_status qp_maintain_enter_as(const char *name, quipu_store *store,
                                  const quipu_call_options *call, int32_t deadline_ms, qp_call *ret,
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
    given.deadline_ms = given.deadline_ms == 0 ? deadline_ms : given.deadline_ms;
    assert(given.deadline_ms != 0);
    return qp_store_enter_as(name, store, &given, ret, reterr);
}

/* The call's deadline bounds the whole; each transaction of it has the store's own, so that one
 * that is stuck is noticed. */
qp_call qp_maintain_step(const quipu_store *store, const qp_call *call)
{
    qp_call step = *call;

    if (store->deadline_ms > 0) {
        int64_t until_ns = qp_clock_ns() + store->deadline_ms * QP_NS_PER_MS;
        step.deadline_ns = until_ns < step.deadline_ns ? until_ns : step.deadline_ns;
    }
    assert(step.deadline_ns <= call->deadline_ns);
    return step;
}

/* A work with the writing connection. */
typedef struct maintain_write {
    const qp_call *call; /* bounds all tries together */
    qp_work_fn work;
    void *ctx; /* of `work` */
} maintain_write;

/* Retries what may pass, as a read would: qp_group_run() itself runs an outside write once. */
static quipu_status maintain_write_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    const maintain_write *write = ctx;

    assert(ent_depth(db) == 0);
    (void)scratch;
    return qp_store_repeat(db, write->call, write->work, write->ctx, reterr);
}

/* The deadline of the call holds for the wait in the queue and for the work. */
quipu_status qp_maintain_write(quipu_store *store, const qp_call *call, qp_work_fn work, void *ctx,
                               quipu_error *reterr)
{
    maintain_write write = {call, work, ctx};
    quipu_status status = qp_store_check_local(store, call, reterr);

    status = status == QUIPU_OK ? qp_store_writable(store, reterr) : status;
    return status == QUIPU_OK ? qp_group_run(&store->group, QP_WRITE_OUTSIDE, call,
                                             maintain_write_work, &write, reterr)
                              : status;
}

/* A missing row is QUIPU_OK with NULL. The row lies in the arena. */
quipu_status qp_maintain_state(ent_db *db, quipu_arena *arena, const qp_state_new *made,
                               const qp_state **ret_row, quipu_error *reterr)
{
    quipu_error error = {0};

    assert(made != NULL && ret_row != NULL);
    *ret_row = NULL;
    return qp_row_optional(qp_state_get(db, arena, made->tenant, made->scope, made->app_name,
                                        made->user_id, made->session_number, made->name, ret_row,
                                        &error),
                           &error, reterr);
}

/* The rules that the columns cannot state, for the API, for import and for verify. */
quipu_status qp_memory_numbers(int64_t token_count, int64_t source_start, int64_t source_end,
                               int64_t generation, quipu_error *reterr)
{
    if (token_count < 0 || generation < 0) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "a memory of %lld tokens and generation %lld cannot be; give 0 or more",
                            (long long)token_count, (long long)generation);
    }
    if (source_start < 0 || source_start > source_end) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "an observation of the messages %lld to %lld cannot be; give the first "
                            "and the last",
                            (long long)source_start, (long long)source_end);
    }
    return QUIPU_OK;
}

/* The table of scopes stands in state.c. Imports and verify ask this of rows that others wrote. */
bool qp_state_placed(qp_state_scope scope, quipu_str user_id, int64_t session_number)
{
    switch (scope) {
    case QP_STATE_SCOPE_APP:
        return user_id.n == 0 && session_number == 0;
    case QP_STATE_SCOPE_USER:
        return session_number == 0;
    default:
        return session_number != 0;
    }
}
