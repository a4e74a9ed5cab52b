/* How the context of a model is divided among the sections of a prompt, and which channel a
 * session's key names.
 *
 * Owns: constant defaults. Called by: users of the C API, turn.c. Pure functions: no locks, no
 * memory. */
#include <quipu/agent.h>

#include <string.h>

#include "base/error.h"
#include "base/models.h"
#include "base/option.h"

#define BUDGET_SUM_SLACK 0.001 /* that shares may be off 1 */
#define BUDGET_RESERVE_PART 4  /* the reserve is at most one part in so many */

/* Lango's shares, in the order of QUIPU_SECTION_*; the last one is the headroom. */
static const double budget_shares[QUIPU_SECTIONS] = {0.30, 0.25, 0.25, 0.10, 0.10};

/* The shares to use: the caller's, or the defaults without any. They must add up to 1, within
 * BUDGET_SUM_SLACK for decimal fractions; `!(x >= 0)` also rejects NaN. A newer caller may have
 * sections that this version does not know: they must get nothing. */
static quipu_status budget_read_shares(const quipu_budget_options *options,
                                       double ret_shares[QUIPU_SECTIONS], quipu_error *reterr)
{
    const double *given = options->shares != NULL ? options->shares : budget_shares;
    const size_t count = options->shares != NULL ? options->share_count : QUIPU_SECTIONS;
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        if (!(given[i] >= 0)) {
            return qp_error_set(reterr, QUIPU_INVALID, "a share of a budget is negative");
        }
        if (i >= QUIPU_SECTIONS && given[i] > 0) {
            return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                                "share %zu of a budget is of a section that this version does not "
                                "know; upgrade the library",
                                i);
        }
        sum += given[i];
    }
    if (!(sum > 1 - BUDGET_SUM_SLACK && sum < 1 + BUDGET_SUM_SLACK)) {
        return qp_error_set(reterr, QUIPU_INVALID, "the shares of a budget add up to %.3f, not 1",
                            sum);
    }
    memcpy(ret_shares, given, (count < QUIPU_SECTIONS ? count : QUIPU_SECTIONS) * sizeof(*given));
    return QUIPU_OK;
}

/* Tokens kept free for the answer: what the caller wants, at least QUIPU_RESERVE_MIN, at most a
 * quarter of the window. */
static int64_t budget_reserve(int64_t wanted, int64_t window)
{
    int64_t reserve = wanted > 0 ? wanted : QUIPU_RESERVE;

    reserve = reserve < QUIPU_RESERVE_MIN ? QUIPU_RESERVE_MIN : reserve;
    return reserve > window / BUDGET_RESERVE_PART ? window / BUDGET_RESERVE_PART : reserve;
}

/* Give the tokens of empty sections to the others, in proportion to what those have. Without a
 * section that takes them, or degraded, the budget stays as it is. The headroom neither gives nor
 * takes. Fractions are cut, so that the sum never exceeds what there was.
 *
 *   sections 300 250 250 100, the second empty     300 + 115, 0, 250 + 96, 100 + 38
 */
static void budget_donate(quipu_budget *budget, uint32_t empty)
{
    int64_t given = 0;
    int64_t takers = 0; /* the tokens of the sections that take */

    for (size_t i = 0; i < QUIPU_SECTION_HEADROOM; i++) {
        *((empty >> i & 1u) != 0 ? &given : &takers) += budget->sections[i];
    }
    if (takers == 0 || budget->degraded) {
        return;
    }
    for (size_t i = 0; i < QUIPU_SECTION_HEADROOM; i++) {
        const int64_t own = budget->sections[i];
        const int64_t more = (int64_t)((double)given * (double)own / (double)takers);

        budget->sections[i] = (empty >> i & 1u) != 0 ? 0 : own + more;
    }
}

/* Window minus reserve minus base is divided by the shares. A base that leaves nothing makes the
 * budget `degraded`: all sections are 0, and the caller decides what to drop. */
quipu_status quipu_budget_make(const quipu_budget_options *options, quipu_budget *ret_budget,
                               quipu_error *reterr)
{
    quipu_budget_options given = QUIPU_BUDGET_OPTIONS_INIT;
    quipu_budget budget = QUIPU_BUDGET_INIT;
    double shares[QUIPU_SECTIONS] = {0};
    quipu_status status =
        qp_options_read(&given, sizeof(given), options, "quipu_budget_options", reterr);

    if (status == QUIPU_OK && (ret_budget == NULL || (given.empty >> QUIPU_SECTIONS) != 0 ||
                               given.window < 0 || given.base < 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a budget needs a place, a window and a base of 0 or more, known "
                              "sections");
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_budget, "quipu_budget", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_model_rows_check(given.models, reterr);
    }
    if (status == QUIPU_OK) {
        status = budget_read_shares(&given, shares, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    budget.window =
        given.window > 0 ? given.window : qp_model_row(given.model, given.models).window;
    if (budget.window > QUIPU_BUDGET_WINDOW_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "the window has %lld tokens; a budget divides at most %lld",
                            (long long)budget.window, (long long)QUIPU_BUDGET_WINDOW_MAX);
    }
    budget.reserve = budget_reserve(given.reserve, budget.window);
    budget.available = budget.window - budget.reserve;
    budget.available = given.base < budget.available ? budget.available - given.base : 0;
    budget.degraded = budget.available == 0;
    for (size_t i = 0; i < QUIPU_SECTIONS; i++) {
        budget.sections[i] = (int64_t)((double)budget.available * shares[i]);
    }
    budget_donate(&budget, given.empty);
    qp_output_put(ret_budget, &budget, sizeof(budget));
    return QUIPU_OK;
}
