/* The table of models as the library uses it. */
#ifndef QP_BASE_MODELS_H
#define QP_BASE_MODELS_H

#include <quipu/models.h>

/* The row of a model as this version knows it, by value: the caller's may be shorter. `window` and
 * `budget` are never 0. */
quipu_model_row qp_model_row(quipu_str model, const quipu_model_rows *rows);

/* The price of tokens by a row's prices, in millionths of a US dollar; `cached` and `written` are
 * parts of the input. False: a class of tokens that was used has no price. */
bool qp_model_cost(const quipu_model_row *row, int64_t input, int64_t cached, int64_t written,
                   int64_t output, int64_t *ret_cost);

/* Whether rows of a caller can be used. QUIPU_MISUSE, QUIPU_UNSUPPORTED. */
QUIPU_MUST_USE quipu_status qp_model_rows_check(const quipu_model_rows *rows, quipu_error *reterr);

/* The built-in rows, sorted by prefix. */
const quipu_model_row *qp_model_builtin(size_t *ret_count);

#endif
