/* Runs of appends. */
#include "store/append_run.h"

#include <assert.h>

#include "store/store.h"

void qp_append_patch_apply(const qp_session_patch *patch, qp_session *row)
{
    row->revision = patch->revision.v;
    row->next_seq = patch->next_seq.v;
    row->message_count = patch->message_count.v;
    row->token_count = patch->token_count.v;
    row->turn_seq = patch->turn_seq.v;
    row->updated_at = patch->updated_at.v;
    row->last_event_at = ent_some(patch->last_event_at.v);
    if (patch->compact_seq.op != 0) {
        row->compact_seq = patch->compact_seq.v;
    }
    if (patch->indexed_seq.op != 0) {
        row->indexed_seq = patch->indexed_seq.v;
    }
    if (patch->lags.op != 0) {
        row->lags = patch->lags.v;
    }
    if (patch->expires_at.op != 0) {
        row->expires_at = ent_some(patch->expires_at.v);
    }
}

/* A later append says everything that an earlier one said, but for these. */
static void append_run_add(qp_session_patch *sum, const qp_session_patch *patch)
{
    qp_session_patch before = *sum;

    *sum = *patch;
    if (patch->compact_seq.op == 0) {
        sum->compact_seq = before.compact_seq;
    }
    if (patch->indexed_seq.op == 0) {
        sum->indexed_seq = before.indexed_seq;
    }
    if (patch->lags.op == 0) {
        sum->lags = before.lags;
    }
    if (patch->expires_at.op == 0) {
        sum->expires_at = before.expires_at;
    }
}

void qp_append_run_forget(void *ctx)
{
    qp_append_run *run = ctx;

    run->held = false;
    run->dirty = false;
}

quipu_status qp_append_run_settle(void *ctx, ent_db *db, quipu_error *reterr)
{
    qp_append_run *run = ctx;
    int64_t changed = 0;
    quipu_status status = QUIPU_OK;

    if (run->dirty) {
        status = qp_session_update(db, &(qp_session_where){.id = ent_eq(run->row.id)}, &run->patch,
                                   &changed, reterr);
        assert(status != QUIPU_OK || changed == 1);
    }
    qp_append_run_forget(run);
    return status;
}

bool qp_append_run_goes_on(const qp_append_run *run, quipu_str key)
{
    return !run->dirty || quipu_str_eq(run->row.key, key);
}

quipu_status qp_append_run_row(const quipu_store *store, qp_append_run *run, ent_db *db,
                               quipu_str key, const qp_session **ret_row, quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status;

    if (run->held && quipu_str_eq(run->row.key, key)) {
        *ret_row = &run->row;
        return QUIPU_OK;
    }
    assert(!run->dirty);
    qp_append_run_forget(run);
    if (run->arena.head != NULL) {
        quipu_arena_reset(&run->arena);
    }
    status = qp_session_lookup(store, db, &run->arena, key, &row, reterr);
    if (status == QUIPU_OK && row != NULL) {
        run->row = *row;
        run->held = true;
        row = &run->row;
    }
    if (status == QUIPU_OK) {
        *ret_row = row;
    }
    return status;
}

void qp_append_run_move(qp_append_run *run, const qp_session_patch *patch)
{
    assert(run->held);
    if (run->dirty) {
        append_run_add(&run->patch, patch);
    } else {
        run->patch = *patch;
    }
    run->dirty = true;
    qp_append_patch_apply(patch, &run->row);
}
