/* Repair: what follows from the messages that are there is written anew. Messages themselves are
 * not changed, but for their running totals, and not invented: a gap stays a gap. A hidden session
 * without forks is removed.
 *
 * Owns: which finding can be mended, and how.
 * Called by: verify.c, for a session in which it has found something.
 * Transactions: one exclusive transaction of the commit group for each session, without the size
 * cap. The session is checked again inside of it, because it may have changed since, and once more
 * after the change: the report says what is mended, not what was tried.
 * On return: each problem was reported once, with whether it is mended. */
#include <assert.h>

#include "base/sum.h"
#include "ent/maintenance.h"
#include "store/fork_release.h"
#include "store/memory_scope.h"
#include "store/search.h"
#include "store/size.h"
#include "store/verify.h"

#define REPAIR_BATCH 256 /* totals corrected between two reads */

/* One session: its row and findings before, and what is left after. */
typedef struct repair_session {
    quipu_store *store;
    int64_t id;            /* number of the session */
    bool found;            /* there is a row of that number */
    const qp_session *row; /* as it was */
    quipu_arena arena;     /* of `row` */
    qp_findings before;    /* what is wrong, under the lock */
    qp_findings after;     /* what is left when it is mended */
} repair_session;

/* ---- totals -----------------------------------------------------------------------------------
 */

/* A total that is wrong, and the right one. */
typedef struct repair_total {
    int64_t seq;   /* of the message */
    int64_t total; /* what its tokens_total is to be */
} repair_total;

/* The next messages whose totals are wrong, at most a batch; *seq and *total move behind what was
 * looked at. Collected first and written after: the iteration must not see its own changes. */
static quipu_status repair_wrong(ent_db *db, const qp_session *row, int64_t *seq, int64_t *total,
                                 repair_total wrong[REPAIR_BATCH], size_t *ret_count,
                                 quipu_error *reterr)
{
    const qp_message_query query = {.order = {QP_MESSAGE_BY_SEQ(ASC)},
                                    .where = {.session_id = ent_eq(row->id), .seq = ent_ge(*seq)}};
    qp_message_iter iter;
    qp_message message;
    size_t count = 0;
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    while (count < REPAIR_BATCH && qp_message_iter_next(&iter, &message)) {
        if (message.seq != *seq) {
            /* Behind a gap only it knows. */
            *total = qp_difference(message.tokens_total, message.tokens);
        }
        *total = qp_sum(*total, message.tokens);
        *seq = qp_sum(message.seq, 1);
        if (message.tokens_total != *total) {
            assert(count < REPAIR_BATCH);
            wrong[count++] = (repair_total){message.seq, *total};
        }
    }
    assert(count <= REPAIR_BATCH);
    *ret_count = count;
    return qp_message_iter_end(&iter, reterr);
}

/* Correct the running totals of the messages that the session holds and shows, beginning with
 * `total`. */
static quipu_status repair_totals(ent_db *db, const qp_session *row, int64_t total,
                                  quipu_error *reterr)
{
    repair_total wrong[REPAIR_BATCH];
    int64_t seq = qp_verify_lowest(row);
    size_t count = 0;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    do {
        status = repair_wrong(db, row, &seq, &total, wrong, &count, reterr);
        for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
            const qp_message_patch patch = {.tokens_total = ent_set(wrong[i].total)};
            status = qp_message_update(
                db, &(qp_message_where){.session_id = ent_eq(row->id), .seq = ent_eq(wrong[i].seq)},
                &patch, NULL, reterr);
        }
    } while (status == QUIPU_OK && count == REPAIR_BATCH);
    return status;
}

/* ---- one session ------------------------------------------------------------------------------
 */

/* The total of the session's last message, after its totals were corrected; `base` when it holds
 * none. */
static int64_t repair_sum(ent_db *db, const qp_session *row, int64_t base, quipu_status *status,
                          quipu_error *reterr)
{
    const qp_message_query query = {
        .limit = 1,
        .order = {QP_MESSAGE_BY_SEQ(DESC)},
        .where = {.session_id = ent_eq(row->id), .seq = ent_ge(qp_verify_lowest(row))}};
    qp_message_iter iter;
    qp_message message;
    int64_t total = base;

    *status = qp_message_iter_begin(db, &query, &iter, reterr);
    if (*status == QUIPU_OK) {
        if (qp_message_iter_next(&iter, &message)) {
            total = message.tokens_total;
        }
        *status = qp_message_iter_end(&iter, reterr);
    }
    return total;
}

/* A chain that does not fit is not computed anew: that would vouch for what nobody can know. It
 * ends, and the next message begins another one: until then, and by hashed_from afterwards, the
 * session says which messages no hash covers. A head that was kept before no longer fits. */
static void repair_chain(qp_session_patch *patch)
{
    assert(patch->revision.op ==
           ENT_OP_SET); /* a head that was kept is compared with another one */
    patch->hashed_from = ent_set((int64_t)0);
    patch->head_hash = (ent_patch_bytes)ENT_CLEAR;
    patch->base_hash = (ent_patch_bytes)ENT_CLEAR;
}

/* The row, from what the messages say. The revision moves: callers that compare it see a change. */
static quipu_status repair_header(ent_db *db, const qp_session *row, const qp_findings *findings,
                                  quipu_error *reterr)
{
    const int64_t lowest = qp_verify_lowest(row);
    /* Behind the last message that is there; without any, the first that it could hold. */
    const int64_t held = qp_sum(findings->last_seq, 1);
    const int64_t next = held > lowest ? held : lowest;
    const int64_t first = row->first_seq < 1 ? 1 : row->first_seq;
    qp_session_patch patch = {.revision = ent_set(qp_sum(row->revision, 1)),
                              .first_seq = ent_set(first),
                              .next_seq = ent_set(next),
                              .message_count = ent_set(qp_difference(next, first))};
    quipu_status status = QUIPU_OK;

    assert(row->key.p != NULL && !findings->cut);
    if (findings->has[QUIPU_PROBLEM_TOTALS]) {
        patch.token_count = ent_set(repair_sum(db, row, findings->base_total, &status, reterr));
    }
    if (findings->has[QUIPU_PROBLEM_VIEW]) {
        patch.compact_seq = ent_set((int64_t)0);
    }
    if (findings->has[QUIPU_PROBLEM_HASH]) {
        repair_chain(&patch);
    }
    return status == QUIPU_OK ? qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)},
                                                  &patch, NULL, reterr)
                              : status;
}

/* Mends what it can. The check that follows reports the rest (a missing message, a row that cannot
 * be read). */
static quipu_status repair_mend(quipu_store *store, ent_db *db, const qp_session *row,
                                const qp_findings *findings, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0 && qp_findings_any(findings));
    if (findings->cut) {
        return QUIPU_OK; /* nothing is made up from half of the messages */
    }
    /* A hidden session without forks serves nobody. */
    if (row->key.p == NULL && findings->has[QUIPU_PROBLEM_FORK]) {
        return qp_fork_remove(store, db, row, reterr);
    }
    if (findings->has[QUIPU_PROBLEM_TOTALS]) {
        status = repair_totals(db, row, findings->base_total, reterr);
    }
    if (status == QUIPU_OK && row->key.p == NULL && findings->has[QUIPU_PROBLEM_HASH]) {
        qp_session_patch patch = {.revision = ent_set(qp_sum(row->revision, 1))};

        repair_chain(&patch);
        status =
            qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, NULL, reterr);
    }
    if (row->key.p == NULL) {
        return status == QUIPU_OK && findings->has[QUIPU_PROBLEM_DELETED]
                   ? qp_fork_hide(db, row, reterr)
                   : status; /* what else its row says is nobody's */
    }
    return status == QUIPU_OK ? repair_header(db, row, findings, reterr) : status;
}

/* The transaction for one session: check, mend, check again. */
static quipu_status repair_session_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    repair_session *repair = ctx;
    quipu_error error = {0};
    const qp_session *row = NULL;
    quipu_status status;

    assert(ent_depth(db) > 0);
    /* A retry begins with nothing of the try before. */
    quipu_arena_free(&repair->arena);
    repair->after = (qp_findings){.messages = 0};
    status = qp_session_get(db, &repair->arena, repair->id, &repair->row, &error);
    repair->found = status == QUIPU_OK;
    if (!repair->found) {
        /* Deleted meanwhile: nothing is wrong with it any more. */
        return qp_row_optional(status, &error, reterr);
    }
    status = qp_verify_session(db, repair->row, &repair->before, reterr);
    if (status == QUIPU_OK && qp_findings_any(&repair->before)) {
        status = repair_mend(repair->store, db, repair->row, &repair->before, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_row_optional(qp_session_get(db, scratch, repair->id, &row, &error), &error, reterr);
    /* Without a row it was removed, and with it what was wrong. */
    return row != NULL ? qp_verify_session(db, row, &repair->after, reterr) : status;
}

/* Reports happen outside of the transaction. A next number that was corrected may lie below the
 * watermark, so that the index is rebuilt as well. */
quipu_status qp_repair_session(qp_verify_run *run, const qp_call *call, int64_t id,
                               quipu_error *reterr)
{
    repair_session repair = {.store = run->store, .id = id};
    const qp_call step = qp_maintain_step(run->store, call);
    quipu_error error = {0};
    quipu_status status = qp_size_exempt(run->store, &step, repair_session_work, &repair, &error);

    assert(run->repairs);
    /* Damage elsewhere stopped the mending, as that of an ancestor's row, and nothing was changed:
     * then the problems stay, and the walk goes on. */
    if (status == QUIPU_CORRUPT && repair.found) {
        repair.after = repair.before;
        status = QUIPU_OK;
    } else if (status != QUIPU_OK) {
        (void)qp_error_pass(reterr, &error);
    }
    for (int kind = 1; kind < QP_PROBLEM_KINDS && status == QUIPU_OK && repair.found; kind++) {
        /* The index is made anew at the end, for all sessions. */
        bool search = kind == QUIPU_PROBLEM_SEARCH;
        bool repaired = !repair.after.has[kind] || search;
        if (repair.before.has[kind]) {
            qp_verify_report(run, (quipu_problem_kind)kind, repair.row->tenant, repair.row->key,
                             repair.before.seq[kind], quipu_cstr(repair.before.text[kind]),
                             repaired);
            run->search = run->search || search || kind == QUIPU_PROBLEM_NEXT_SEQ;
        }
    }
    quipu_arena_free(&repair.arena);
    return status;
}

/* ---- the rest ---------------------------------------------------------------------------------
 */

/* By the whole key: one row. A row that was deleted meanwhile is not an error. */
static quipu_status repair_state_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    const qp_state *row = ctx;

    (void)scratch;
    return qp_state_delete(db,
                           &(qp_state_where){.tenant = ent_eq(row->tenant),
                                             .scope = qp_state_scope_is(row->scope),
                                             .app_name = ent_eq(row->app_name),
                                             .user_id = ent_eq(row->user_id),
                                             .session_number = ent_eq(row->session_number),
                                             .name = ent_eq(row->name)},
                           NULL, reterr);
}

/* The functions below remove one row each that belongs to nothing: it was found by verify, and is
 * named by its key, so that a repeat removes nothing else. */
static quipu_status repair_state_event_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                            quipu_error *reterr)
{
    const qp_state_event *row = ctx;

    (void)scratch;
    return qp_state_event_delete(
        db,
        &(qp_state_event_where){.session_number = ent_eq(row->session_number),
                                .number = ent_eq(row->number)},
        NULL, reterr);
}

/* The works below delete one row that verify has found unsound or without an owner. Each names the
 * row by its whole key, so that no other row goes with it. */
static quipu_status repair_usage_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    const qp_usage *row = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_usage_delete(
        db,
        &(qp_usage_where){.session_number = ent_eq(row->session_number), .seq = ent_eq(row->seq)},
        NULL, reterr);
}

/* One version. A blob that loses its last one is a finding of its own. */
static quipu_status repair_artifact_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                         quipu_error *reterr)
{
    const qp_artifact *row = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_artifact_delete(db,
                              &(qp_artifact_where){.tenant = ent_eq(row->tenant),
                                                   .app_name = ent_eq(row->app_name),
                                                   .user_id = ent_eq(row->user_id),
                                                   .session_key = ent_eq(row->session_key),
                                                   .name = ent_eq(row->name),
                                                   .version = ent_eq(row->version)},
                              NULL, reterr);
}

/* A blob that no version refers to. */
static quipu_status repair_blob_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const qp_blob *row = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_blob_delete(db,
                          &(qp_blob_where){.tenant = ent_eq(row->tenant),
                                           .app_name = ent_eq(row->app_name),
                                           .user_id = ent_eq(row->user_id),
                                           .hash = ent_eq(row->hash)},
                          NULL, reterr);
}

/* A row of the log of what was sent. */
static quipu_status repair_context_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    const qp_context_log *row = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_context_log_delete(
        db,
        &(qp_context_log_where){.session_number = ent_eq(row->session_number),
                                .seq = ent_eq(row->seq)},
        NULL, reterr);
}

/* Derived data: an embedder makes it again. */
static quipu_status repair_vector_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    const qp_vector *row = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_vector_delete(db,
                            &(qp_vector_where){.session_number = ent_eq(row->session_number),
                                               .seq = ent_eq(row->seq),
                                               .model = ent_eq(row->model)},
                            NULL, reterr);
}

/* The row of a memory scope. */
static quipu_status repair_memory_scope_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                             quipu_error *reterr)
{
    const qp_memory_scope *row = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_memory_scope_delete(
        db,
        &(qp_memory_scope_where){.tenant = ent_eq(row->tenant),
                                 .scope = ent_eq(row->scope),
                                 .kind = qp_memory_scope_kind_is(row->kind)},
        NULL, reterr);
}

/* A job that names nothing that exists. A worker that holds its lease finds no fence when it
 * commits. */
static quipu_status repair_job_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    const qp_job *row = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_job_delete(db,
                         &(qp_job_where){.tenant = ent_eq(row->tenant),
                                         .scope = ent_eq(row->scope),
                                         .kind = ent_eq(row->kind)},
                         NULL, reterr);
}

/* The function that removes a row of each table by its key, which is the context. Every table in
 * which verify_rows.c finds rows of nobody has a line here. */
static const struct {
    const ent_entity *entity;
    qp_work_fn work;
} repair_rows[] = {
    {&qp_state_entity, repair_state_work},   {&qp_state_event_entity, repair_state_event_work},
    {&qp_usage_entity, repair_usage_work},   {&qp_artifact_entity, repair_artifact_work},
    {&qp_blob_entity, repair_blob_work},     {&qp_context_log_entity, repair_context_work},
    {&qp_vector_entity, repair_vector_work}, {&qp_memory_scope_entity, repair_memory_scope_work},
    {&qp_job_entity, repair_job_work},
};

/* A repair may exceed the store's size limit: it removes, and a full store must be repairable. */
quipu_status qp_repair_row(qp_verify_run *run, const qp_call *call, const ent_entity *entity,
                           void *key, quipu_error *reterr)
{
    const qp_call step = qp_maintain_step(run->store, call);
    size_t i = 0;

    assert(run->repairs);
    while (repair_rows[i].entity != entity) {
        i++;
        assert(i < sizeof(repair_rows) / sizeof(repair_rows[0]));
    }
    return qp_size_exempt(run->store, &step, repair_rows[i].work, key, reterr);
}

/* A watermark, and the tokens that it is to have. */
typedef struct repair_watermark {
    const qp_memory_scope *scope; /* only its key counts */
    int64_t watermark;            /* nothing is written unless the row still says this */
    int64_t tokens;
} repair_watermark;

/* The ledger and the watermark itself stay. A worker that has moved it since has written both. */
static quipu_status repair_watermark_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                          quipu_error *reterr)
{
    const repair_watermark *repair = ctx;
    const qp_memory_scope *row = repair->scope;
    const qp_memory_scope_patch patch = {.watermark_tokens = ent_set(repair->tokens)};

    assert(ent_depth(db) > 0 && repair->tokens >= 0);
    (void)scratch;
    return qp_memory_scope_update(
        db,
        &(qp_memory_scope_where){.tenant = ent_eq(row->tenant),
                                 .scope = ent_eq(row->scope),
                                 .kind = qp_memory_scope_kind_is(row->kind),
                                 .watermark = ent_eq(repair->watermark)},
        &patch, NULL, reterr);
}

/* In a transaction of its own. A watermark that has moved meanwhile is right, and stays. */
quipu_status qp_repair_watermark(qp_verify_run *run, const qp_call *call,
                                 const qp_memory_scope *scope, int64_t watermark, int64_t tokens,
                                 quipu_error *reterr)
{
    const qp_call step = qp_maintain_step(run->store, call);
    repair_watermark repair = {scope, watermark, tokens};

    assert(run->repairs);
    return qp_size_exempt(run->store, &step, repair_watermark_work, &repair, reterr);
}

/* A qp_work_fn. */
static quipu_status repair_scope_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    return qp_memory_scope_mend(db, scratch, ctx, reterr);
}

/* In a transaction of its own, which reads the row again. */
quipu_status qp_repair_scope(qp_verify_run *run, const qp_call *call, qp_memory_scope *scope,
                             quipu_error *reterr)
{
    const qp_call step = qp_maintain_step(run->store, call);

    assert(run->repairs);
    return qp_size_exempt(run->store, &step, repair_scope_work, scope, reterr);
}

/* Made anew behind all sessions. The problem was reported by the check that demands it. */
static quipu_status repair_search_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_search_rebuild(db, ctx, reterr);
}

/* Frees the pages of an index that could not be emptied. */
static quipu_status repair_rewrite_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    assert(ent_depth(db) == 0);
    (void)ctx;
    (void)scratch;
    return qp_maintenance_rewrite(db, reterr);
}

/* The index is thrown away and written anew only where it cannot be mended; the messages have
 * everything that it holds. */
quipu_status qp_repair_search(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    const qp_call step = qp_maintain_step(run->store, call);
    bool discarded = false;
    quipu_status status = qp_size_exempt(run->store, &step, repair_search_work, &discarded, reterr);

    assert(run->repairs && run->search);
    return status == QUIPU_OK && discarded
               ? qp_maintain_write(run->store, call, repair_rewrite_work, NULL, reterr)
               : status;
}
