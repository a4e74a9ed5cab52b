/* Verify the data that an engine keeps beside the values of rows:
 *   counters   that number new rows: of sessions and of the feed, and on PostgreSQL of every
 *              shard of sessions. One behind the highest number would give a number out twice
 *   forms      in which values are stored. What has another one is read, and not found
 *
 * Owns: which entities are looked at. The engine defines what a counter and a form are
 * (qp_maintenance_counters(), qp_maintenance_forms()). Called by: quipu_store_verify(): forms
 * before the rows, whose checks look up by key, counters behind them: a row that a repair removed
 * needs no number. Transactions: a snapshot for each table; a repair is one exclusive transaction,
 * which looks again before and after it mends. Problems are reported outside of both. On return:
 * each problem was reported once, with whether it is mended. */
#include "store/verify.h"

#include <assert.h>

#include "base/error.h"
#include "base/str.h"
#include "ent/maintenance.h"
#include "store/size.h"

/* One of the two checks. */
typedef struct counters_kind {
    quipu_problem_kind problem;
    quipu_status (*look)(ent_db *db, const ent_entity *entity, qp_report_fn fn, void *ctx,
                         quipu_error *reterr);
    quipu_status (*mend)(ent_db *db, const ent_entity *entity, quipu_error *reterr);
} counters_kind;

/* The findings of one entity. */
typedef struct counters_check {
    const counters_kind *kind;
    const ent_entity *entity;
    quipu_arena arena; /* of the texts */
    size_t count;
    size_t left; /* after a repair */
    quipu_str texts[QP_MAINTENANCE_FINDINGS_MAX];
} counters_check;

/* A qp_report_fn: keeps the text until the snapshot has ended. */
static quipu_status verify_counters_keep(void *ctx, quipu_str text)
{
    counters_check *check = ctx;
    quipu_status status = QUIPU_OK;

    assert(check->count <= QP_MAINTENANCE_FINDINGS_MAX && check->entity != NULL);
    if (check->count < QP_MAINTENANCE_FINDINGS_MAX) {
        status = quipu_arena_copy(&check->arena, text, &check->texts[check->count]);
        check->count += status == QUIPU_OK;
    }
    return status;
}

/* A qp_report_fn: counts. */
static quipu_status verify_counters_count(void *ctx, quipu_str text)
{
    counters_check *check = ctx;

    (void)text;
    check->left++;
    return QUIPU_OK;
}

/* Looks at the counters in the open transaction. A retry begins with nothing of the try before. */
static quipu_status verify_counters_look(counters_check *check, ent_db *db, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status;

    assert(check->kind != NULL && check->entity != NULL);
    quipu_arena_free(&check->arena);
    check->count = 0;
    check->left = 0;
    status = check->kind->look(db, check->entity, verify_counters_keep, check, &error);
    if (status == QUIPU_CORRUPT) { /* damage is a finding, not a failure */
        return verify_counters_keep(check, quipu_cstr(error.message));
    }
    if (status == QUIPU_NOMEM && error.status == QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a problem");
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* A qp_work_fn: looks without repairing. */
static quipu_status verify_counters_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                         quipu_error *reterr)
{
    counters_check *check = ctx;
    quipu_status status = verify_counters_look(check, db, reterr);

    (void)scratch;
    check->left = check->count;
    return status;
}

/* Looks again under the write lock: the counters may have moved since. */
static quipu_status verify_counters_mend(void *ctx, ent_db *db, quipu_arena *scratch,
                                         quipu_error *reterr)
{
    counters_check *check = ctx;
    quipu_status status = verify_counters_look(check, db, reterr);

    assert(ent_depth(db) > 0);
    (void)scratch;
    if (status == QUIPU_OK && check->count > 0) {
        status = check->kind->mend(db, check->entity, reterr);
    }
    if (status == QUIPU_OK && check->count > 0) {
        status = check->kind->look(db, check->entity, verify_counters_count, check, reterr);
    }
    return status;
}

/* A finding counts as repaired when the look after the repair has none left. */
static quipu_status verify_counters_one(qp_verify_run *run, const qp_call *call,
                                        counters_check *check, quipu_error *reterr)
{
    quipu_status status = qp_store_read(run->store, call, verify_counters_work, check, reterr);

    if (status == QUIPU_OK && check->count > 0 && run->repairs) {
        const qp_call step = qp_maintain_step(run->store, call);

        status = qp_size_exempt(run->store, &step, verify_counters_mend, check, reterr);
    }
    for (size_t i = 0; status == QUIPU_OK && i < check->count; i++) {
        qp_verify_report(run, check->kind->problem, QP_STR_ABSENT, QP_STR_ABSENT, 0,
                         check->texts[i], check->left == 0);
    }
    quipu_arena_free(&check->arena);
    return status;
}

/* Every entity of the schema; engines without the check find nothing. */
static quipu_status verify_counters_all(qp_verify_run *run, const qp_call *call,
                                        const counters_kind *kind, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(run->done.repaired <= run->done.problems);
    for (size_t i = 0; i < qp_quipu_schema.entity_count && status == QUIPU_OK; i++) {
        counters_check check = {.kind = kind, .entity = qp_quipu_schema.entities[i]};

        status = verify_counters_one(run, call, &check, reterr);
    }
    return status;
}

quipu_status qp_verify_counters(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    static const counters_kind kind = {QUIPU_PROBLEM_COUNTER, qp_maintenance_counters,
                                       qp_maintenance_mend_counters};

    assert(run->store != NULL);
    return verify_counters_all(run, call, &kind, reterr);
}

quipu_status qp_verify_forms(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    static const counters_kind kind = {QUIPU_PROBLEM_FILE, qp_maintenance_forms,
                                       qp_maintenance_mend_forms};

    assert(run->done.sessions == 0); /* before the rows, which are looked up by key */
    return verify_counters_all(run, call, &kind, reterr);
}
