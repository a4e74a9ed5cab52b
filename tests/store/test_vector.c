/* Vectors as signed bytes: what is kept of one, and how similar two are. */
#include "lib/t.h"

#include <math.h>

#include "store/vector.h"

#define VECTOR_COUNT_MAX 200

static void only_the_direction_is_kept(void **state)
{
    const float small[] = {0.001f, -0.002f, 0.0005f, 0};
    const float large[] = {1000.0f, -2000.0f, 500.0f, 0};
    const int8_t expected[] = {64, -127, 32, 0};
    int8_t made[4];

    (void)state;
    assert_true(qp_vector_make(small, 4, made));
    assert_memory_equal(made, expected, sizeof(expected));
    assert_true(qp_vector_make(large, 4, made));
    assert_memory_equal(made, expected, sizeof(expected));
    assert_true(fabs(qp_vector_similarity(made, expected, 4) - 1) < 1e-12);
}

static void a_value_that_is_not_finite_is_refused(void **state)
{
    float values[] = {1, NAN, 0};
    int8_t made[3];

    (void)state;
    assert_false(qp_vector_make(values, 3, made));
    values[1] = INFINITY;
    assert_false(qp_vector_make(values, 3, made));
    values[1] = -INFINITY;
    assert_false(qp_vector_make(values, 3, made));
    values[1] = 3.0e38f;
    assert_true(qp_vector_make(values, 3, made));
    assert_int_equal(made[1], 127);
}

static void a_vector_without_a_direction_is_like_none(void **state)
{
    const float none[] = {0, 0, 0};
    const int8_t some[] = {1, 2, 3};
    int8_t made[3];

    (void)state;
    assert_true(qp_vector_make(none, 3, made));
    assert_true(qp_vector_similarity(made, some, 3) == 0);
}

/* Against the textbook's formula, for every length around those of SIMD registers. */
static void similarity_is_the_cosine(void **state)
{
    uint64_t seed = t_seed();

    (void)state;
    for (size_t count = 1; count <= VECTOR_COUNT_MAX; count++) {
        int8_t left[VECTOR_COUNT_MAX];
        int8_t right[VECTOR_COUNT_MAX];
        double dot = 0;
        double squares[2] = {0, 0};

        for (size_t i = 0; i < count; i++) {
            left[i] = (int8_t)((int)t_random_below(&seed, 255) - 127);
            right[i] = (int8_t)((int)t_random_below(&seed, 255) - 127);
            dot += (double)left[i] * right[i];
            squares[0] += (double)left[i] * left[i];
            squares[1] += (double)right[i] * right[i];
        }
        if (squares[0] > 0 && squares[1] > 0) {
            const double cosine = qp_vector_similarity(left, right, count);

            assert_true((cosine < 0) == (dot < 0));
            assert_true(fabs(cosine * cosine - dot * dot / squares[0] / squares[1]) < 1e-12);
        }
    }
}

static void the_longest_vector_does_not_overflow(void **state)
{
    static int8_t high[QUIPU_EMBED_DIMENSIONS_MAX];
    static int8_t low[QUIPU_EMBED_DIMENSIONS_MAX];

    (void)state;
    memset(high, 127, sizeof(high));
    memset(low, -127, sizeof(low));
    assert_true(fabs(qp_vector_similarity(high, high, sizeof(high)) - 1) < 1e-12);
    assert_true(fabs(qp_vector_similarity(high, low, sizeof(high)) + 1) < 1e-12);
}

static void every_model_has_a_kind_of_its_own(void **state)
{
    char one[QP_VECTOR_KIND_SIZE];
    char two[QP_VECTOR_KIND_SIZE];
    const quipu_str first = qp_vector_kind(QUIPU_STR("text-embedding-3-small"), one);

    (void)state;
    assert_int_equal(first.n, strlen(one));
    assert_true(first.n < QP_VECTOR_KIND_SIZE);
    assert_int_equal(strncmp(one, QP_VECTOR_KIND, strlen(QP_VECTOR_KIND)), 0);
    assert_false(quipu_str_eq(first, qp_vector_kind(QUIPU_STR("text-embedding-3-large"), two)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_direction_is_kept),
        cmocka_unit_test(a_value_that_is_not_finite_is_refused),
        cmocka_unit_test(a_vector_without_a_direction_is_like_none),
        cmocka_unit_test(similarity_is_the_cosine),
        cmocka_unit_test(the_longest_vector_does_not_overflow),
        cmocka_unit_test(every_model_has_a_kind_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
