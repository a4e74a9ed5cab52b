/* Vectors of messages: their form, how similar two are, and their rows. vector.h has the picture.
 *
 * Owns the rows' form. Called by recall.c in its snapshot, and by fork_release.c in the transaction
 * that removes messages. Takes no lock. */
#include "store/vector.h"

#include <assert.h>
#include <math.h>

#include "base/error.h"

#define VECTOR_VALUE_MAX 127 /* of one byte; -128 is not used, so that no direction is preferred */
#define VECTOR_LANES 32 /* products that are summed at once: compilers make one register of them */
#define VECTOR_ROOT_STEPS 6 /* of Newton's method, from a start within a factor of two */

static_assert((int64_t)QUIPU_EMBED_DIMENSIONS_MAX * VECTOR_VALUE_MAX * VECTOR_VALUE_MAX < INT32_MAX,
              "a product of two vectors is an int32_t");

/* ---- one vector -------------------------------------------------------------------------------
 */

/* Scales to the largest value, since only the direction counts, and rounds half away from zero. A
 * NaN would make every similarity NaN, so such a vector is refused. A vector of zeros stays one and
 * is similar to nothing. */
bool qp_vector_make(const float *values, size_t count, int8_t *ret_vector)
{
    double largest = 0;

    assert(count <= QUIPU_EMBED_DIMENSIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        const double size = values[i] < 0 ? -(double)values[i] : (double)values[i];

        if (!isfinite(values[i])) {
            return false;
        }
        largest = size > largest ? size : largest;
    }
    for (size_t i = 0; i < count; i++) {
        const double scaled = largest > 0 ? (double)values[i] / largest * VECTOR_VALUE_MAX : 0;

        ret_vector[i] = (int8_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
    return true;
}

/* The sum of products, exact: an int32_t holds the largest there can be (asserted above). The
 * inner loop has a fixed length, without which -O2 makes no SIMD of it. */
static int32_t vector_product(const int8_t *left, const int8_t *right, size_t count)
{
    int32_t sum = 0;
    size_t at = 0;

    for (; at + VECTOR_LANES <= count; at += VECTOR_LANES) {
        int32_t part = 0;

        for (size_t lane = 0; lane < VECTOR_LANES; lane++) {
            part += (int16_t)left[at + lane] * (int16_t)right[at + lane];
        }
        sum += part;
    }
    for (; at < count; at++) {
        sum += left[at] * right[at];
    }
    return sum;
}

/* The square root of a number from 1 on. Not libm's, which is not linked. Products of integers
 * are 1 or more where they are not 0. Six steps from within a factor of two are exact to the
 * last bits, and the same bits everywhere: plain IEEE operations. */
static double vector_root(double square)
{
    double root = 1;

    assert(square >= 1);
    while (root * root < square) {
        root *= 2;
    }
    for (int i = 0; i < VECTOR_ROOT_STEPS; i++) {
        root = (root + square / root) / 2;
    }
    return root;
}

/* The cosine, from -1 to 1. */
double qp_vector_similarity(const int8_t *left, const int8_t *right, size_t count)
{
    const double squares =
        (double)vector_product(left, left, count) * (double)vector_product(right, right, count);

    assert(count <= QUIPU_EMBED_DIMENSIONS_MAX);
    return squares > 0 ? (double)vector_product(left, right, count) / vector_root(squares) : 0;
}

/* ---- rows -------------------------------------------------------------------------------------
 */

/* Calls `fn` with the similarity of each vector of a range, by number. A row of another length
 * is of an embedder that changed under its name: it is passed over, as if it were missing. */
quipu_status qp_vector_each(ent_db *db, const qp_vector_question *question, int64_t holder,
                            int64_t from, int64_t to, qp_vector_fn fn, void *ctx,
                            quipu_error *reterr)
{
    const qp_vector_query query = {.order = {QP_VECTOR_BY_SEQ(ASC)},
                                   .where = {.session_number = ent_eq(holder),
                                             .seq = ent_between(from, to),
                                             .model = ent_eq(question->model)}};
    qp_vector_iter iter;
    qp_vector row;
    quipu_status status = qp_vector_iter_begin(db, &query, &iter, reterr);

    assert(question->model.n > 0 && from <= to && ent_depth(db) > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_vector_iter_next(&iter, &row)) {
        if (row.vector.n == question->count) {
            status = fn(ctx, row.seq,
                        qp_vector_similarity(question->vector, (const int8_t *)row.vector.p,
                                             question->count));
        }
    }
    const quipu_status ended = qp_vector_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);

    return status == QUIPU_OK
               ? ended
               : qp_error_set(reterr, status, "out of memory for the vectors of a recall");
}

quipu_status qp_vector_remove(ent_db *db, int64_t session, int64_t from, int64_t to,
                              quipu_error *reterr)
{
    const qp_vector_where where = {.session_number = ent_eq(session), .seq = ent_between(from, to)};

    assert(from <= to && ent_depth(db) > 0);
    return qp_vector_delete(db, &where, NULL, reterr);
}
