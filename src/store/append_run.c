/* Runs of appends. */
#include "store/append_run.h"

#include <assert.h>

#include "ent/db.h"
#include "store/store.h"

void qp_append_patch_apply(const qp_session_patch *patch, qp_session *row)
{
    row->revision = patch->revision.v;
    row->updated_at = patch->updated_at.v;
    row->last_event_at = ent_some(patch->last_event_at.v);
    if (patch->next_seq.op != 0) { /* there are messages */
        row->next_seq = patch->next_seq.v;
        row->message_count = patch->message_count.v;
        row->token_count = patch->token_count.v;
        row->turn_seq = patch->turn_seq.v;
    }
    if (patch->compact_seq.op != 0) {
        row->compact_seq = patch->compact_seq.v;
    }
    if (patch->indexed_seq.op != 0) {
        row->indexed_seq = patch->indexed_seq.v;
    }
    if (patch->index_pending.op != 0) {
        row->index_pending = patch->index_pending.v;
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
    if (patch->index_pending.op == 0) {
        sum->index_pending = before.index_pending;
    }
    if (patch->expires_at.op == 0) {
        sum->expires_at = before.expires_at;
    }
}

static void append_run_end(qp_append_run *run)
{
    run->held = false;
    run->dirty = false;
}

void qp_append_run_forget(void *ctx)
{
    qp_append_run *run = ctx;

    append_run_end(run);
    run->locked_count = 0;
    run->believing = false;
    qp_known_end(&run->known, false);
}

void qp_append_run_stored(void *ctx)
{
    qp_append_run *run = ctx;

    qp_known_end(&run->known, true);
}

void qp_append_run_free(qp_append_run *run)
{
    quipu_arena_free(&run->arena);
    quipu_arena_free(&run->locked_arena);
    qp_known_free(&run->known);
}

/* ---- locked rows ------------------------------------------------------------------------------
 */

/* One after the other: a condition on several keys would tell the engine no part to look into. Each
 * is then read once, as before there were locks. */
quipu_status qp_append_run_lock(void *ctx, ent_db *db, const quipu_str *keys, size_t n,
                                quipu_error *reterr)
{
    qp_append_run *run = ctx;
    quipu_status status = QUIPU_OK;

    assert(n > 0 && n <= QUIPU_GROUP_MAX);
    quipu_arena_reset(&run->locked_arena);
    run->locked_count = 0;
    run->next = 0;
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        const qp_session_query query = {
            .where = {.tenant = ent_eq(run->tenant), .key = ent_eq(keys[i])}};
        qp_session_list found = {0};

        status = qp_session_lock(db, &run->locked_arena, &query, &found, reterr);
        if (status == QUIPU_OK && found.n > 0) {
            run->keys[run->locked_count] = found.items[0].key;
            run->locked[run->locked_count++] = &found.items[0];
            qp_known_saw(&run->known, &found.items[0]);
        }
    }
    return status;
}

bool qp_append_run_believe(void *ctx, const quipu_str *keys, size_t n)
{
    qp_append_run *run = ctx;

    assert(n > 0 && n <= QUIPU_GROUP_MAX);
    run->believing = qp_known_take(&run->known, keys, n, run->locked);
    run->locked_count = run->believing ? n : 0;
    run->next = 0;
    for (size_t i = 0; i < run->locked_count; i++) {
        run->keys[i] = run->locked[i]->key;
    }
    return run->believing;
}

/* The row of a session as it was read when it was locked, once; NULL: it must be read. */
static const qp_session *append_run_locked(qp_append_run *run, quipu_str key)
{
    for (size_t i = 0; i < run->locked_count; i++) {
        const size_t at = (run->next + i) % run->locked_count;

        if (quipu_str_eq(run->keys[at], key)) {
            const qp_session *row = run->locked[at];
            run->locked[at] = NULL;
            run->next = at;
            return row;
        }
    }
    return NULL;
}

quipu_status qp_session_load_locked(quipu_store *store, ent_db *db, quipu_arena *arena,
                                    quipu_str key, quipu_time now, const qp_session **ret_row,
                                    quipu_error *reterr)
{
    const qp_session *row = append_run_locked(&store->run, key);
    quipu_status status;

    if (row == NULL) {
        return qp_session_load(store, db, arena, key, now, ret_row, reterr);
    }
    status = qp_session_living(row, now, reterr);
    if (status == QUIPU_OK) {
        *ret_row = row;
    }
    return status;
}

/* ---- runs -------------------------------------------------------------------------------------
 */

quipu_status qp_append_run_write(qp_append_run *run, ent_db *db, const qp_session *row,
                                 const qp_session_patch *patch, quipu_error *reterr)
{
    qp_session_where where = {.id = ent_eq(row->id)};
    quipu_status status;

    if (run->believing) {
        (void)qp_known_where(&run->known, row->key, &where);
    }
    status = qp_update_must_match(db, &qp_session_entity, &where, patch, reterr);
    if (status == QUIPU_OK) {
        qp_known_left(&run->known, row->key, patch);
    }
    return status;
}

quipu_status qp_append_run_settle(void *ctx, ent_db *db, quipu_error *reterr)
{
    qp_append_run *run = ctx;
    quipu_status status = QUIPU_OK;

    if (run->dirty) {
        status = qp_append_run_write(run, db, &run->row, &run->patch, reterr);
    }
    append_run_end(run);
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
    append_run_end(run);
    row = append_run_locked(run, key);
    status = QUIPU_OK;
    if (row == NULL) {
        if (run->arena.head != NULL) {
            quipu_arena_reset(&run->arena);
        }
        status = qp_session_lookup(store, db, &run->arena, key, &row, reterr);
    }
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
