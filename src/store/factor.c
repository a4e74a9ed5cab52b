/* What a token of quipu's estimate is worth in a model's own tokens: one row a model, learned from
 * what providers report.
 *
 * Owns entity ModelFactor. Called by quipu_model_factor_learn(), which the agent room uses around
 * each turn. Learning is one exclusive transaction that reads and writes the row; reading takes no
 * lock.
 * Windows are chosen with the factor; stored counts stay in the estimate's own tokens, so that a
 * factor can change without touching a message. A factor is always within QUIPU_FACTOR_MIN and
 * QUIPU_FACTOR_MAX. */
#include <assert.h>

#include "base/error.h"
#include "store/store.h"

/* One call: learning, or with an estimate below QUIPU_FACTOR_TOKENS_MIN only reading. */
typedef struct factor_call {
    const quipu_store *store;
    quipu_str model;
    int64_t estimated;
    int64_t reported;
    quipu_model_factor factor; /* the outcome */
} factor_call;

/* A name that no provider has is accepted: the table of models is not closed. */
static quipu_status factor_check(quipu_str model, quipu_error *reterr)
{
    if (model.n == 0 || model.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "say which model");
    }
    if (model.n > QUIPU_MODEL_NAME_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a model's name has at most %d bytes, not %zu",
                            QUIPU_MODEL_NAME_MAX, model.n);
    }
    return QUIPU_OK;
}

/* Also for rows that were read: a wrong row must not make a window of no use. */
static int64_t factor_clamp(int64_t ppm)
{
    ppm = ppm < QUIPU_FACTOR_MIN ? QUIPU_FACTOR_MIN : ppm;
    return ppm > QUIPU_FACTOR_MAX ? QUIPU_FACTOR_MAX : ppm;
}

/* One report as a factor within the bounds. Both counts are positive; `estimated` is as large as a
 * history may be, so that the quotient is looked at before anything is multiplied. Halving both
 * keeps the quotient and stops before the product exceeds 64 bits. */
static int64_t factor_sample(int64_t estimated, int64_t reported)
{
    int64_t whole = reported / estimated;

    assert(estimated > 0 && reported > 0);
    /* At or above the upper bound: nothing to compute, and nothing that could overflow. */
    if (whole >= QUIPU_FACTOR_MAX / QUIPU_FACTOR_ONE) {
        return QUIPU_FACTOR_MAX;
    }
    while (reported > INT64_MAX / QUIPU_FACTOR_ONE) {
        reported /= 2;
        estimated /= 2;
    }
    assert(estimated > 0 && reported <= INT64_MAX / QUIPU_FACTOR_ONE);
    return factor_clamp(reported * QUIPU_FACTOR_ONE / estimated);
}

/* The stored factor, or 1 for a model that nobody has reported on. */
static quipu_status factor_read(factor_call *call, ent_db *db, quipu_arena *scratch,
                                quipu_error *reterr)
{
    const qp_model_factor *row = NULL;
    quipu_error error = {0};
    quipu_status status = qp_row_optional(
        qp_model_factor_get(db, scratch, call->store->tenant, call->model, &row, &error), &error,
        reterr);

    assert(ent_depth(db) > 0);
    call->factor = (quipu_model_factor){.ppm = QUIPU_FACTOR_ONE};
    if (row != NULL) {
        call->factor = (quipu_model_factor){.ppm = factor_clamp(row->ppm), .samples = row->samples};
    }
    return status;
}

/* A qp_work_fn: reads from a snapshot, without the write lock. */
static quipu_status factor_read_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    return factor_read(ctx, db, scratch, reterr);
}

/* The mean of the first reports, then one that forgets slowly: a provider may change a model.
 *
 *   factor += (sample - factor) / min(n, QUIPU_FACTOR_WEIGHT_MAX), n counts this report, too */
static quipu_status factor_learn_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    factor_call *call = ctx;
    quipu_model_factor *factor = &call->factor;
    quipu_status status = factor_read(call, db, scratch, reterr);
    int64_t sample = factor_sample(call->estimated, call->reported);
    int64_t weight;

    assert(call->estimated >= QUIPU_FACTOR_TOKENS_MIN);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Weight 1/n for the n-th report gives the mean; from QUIPU_FACTOR_WEIGHT_MAX on the weight
     * stays, and older reports fade. */
    factor->samples += factor->samples < INT64_MAX ? 1 : 0;
    weight = factor->samples < QUIPU_FACTOR_WEIGHT_MAX ? factor->samples : QUIPU_FACTOR_WEIGHT_MAX;
    factor->ppm += (sample - factor->ppm) / weight;
    assert(weight > 0 && factor->ppm >= QUIPU_FACTOR_MIN && factor->ppm <= QUIPU_FACTOR_MAX);
    const qp_model_factor_new row = {.tenant = call->store->tenant,
                                     .model = call->model,
                                     .ppm = factor->ppm,
                                     .samples = factor->samples};
    return qp_model_factor_upsert(db, NULL, &row, QP_MODEL_FACTOR_ON_KEY, NULL, reterr);
}

/* Takes over the report. Without one the estimate stays 0, and the call only reads. */
static quipu_status factor_report(factor_call *factor, const quipu_model_report *report,
                                  quipu_error *reterr)
{
    quipu_model_report given = QUIPU_MODEL_REPORT_INIT;
    quipu_status status =
        qp_options_read(&given, sizeof(given), report, "quipu_model_report", reterr);

    if (status == QUIPU_OK && report != NULL && (given.estimated < 0 || given.reported < 1)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "learning needs an estimate and a reported count of tokens");
    }
    if (status == QUIPU_OK) {
        factor->estimated = given.estimated;
        factor->reported = given.reported;
    }
    return status;
}

/* An estimate below QUIPU_FACTOR_TOKENS_MIN teaches nothing: the call only reads then, and needs no
 * lock. Without a place for the result it still learns: agents report and go on. */
quipu_status quipu_model_factor_learn(quipu_store *store, quipu_str model,
                                      const quipu_model_report *report,
                                      const quipu_call_options *call,
                                      quipu_model_factor *ret_factor, quipu_error *reterr)
{
    factor_call factor = {.store = store, .model = model};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && report == NULL && ret_factor == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "a factor needs a place");
    }
    if (status == QUIPU_OK) {
        status = factor_report(&factor, report, reterr);
    }
    /* The output is checked before the work: a call that learned and could not answer would be
     * repeated. */
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_factor, "quipu_model_factor", reterr);
    }
    if (status == QUIPU_OK) {
        status = factor_check(factor.model, reterr);
    }
    if (status == QUIPU_OK) {
        status = factor.estimated >= QUIPU_FACTOR_TOKENS_MIN
                     ? qp_store_write(store, &within, factor_learn_work, &factor, reterr)
                     : qp_store_read(store, &within, factor_read_work, &factor, reterr);
    }
    if (status == QUIPU_OK) {
        qp_output_put(ret_factor, &factor.factor, sizeof(factor.factor));
    }
    qp_store_leave(&within);
    return status;
}
