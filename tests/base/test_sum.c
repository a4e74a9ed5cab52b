/* Sums that stop at the limits of their type. */
#include "lib/t.h"

#include "base/sum.h"

static void sums_and_differences_are_exact_within_the_type(void **state)
{
    (void)state;
    assert_true(qp_sum(-3, 5) == 2);
    assert_true(qp_sum(INT64_MAX - 1, 1) == INT64_MAX);
    assert_true(qp_sum(INT64_MIN + 1, -1) == INT64_MIN);
    assert_true(qp_sum(INT64_MIN, INT64_MAX) == -1);
    assert_true(qp_difference(3, 5) == -2);
    assert_true(qp_difference(INT64_MIN + 1, 1) == INT64_MIN);
    assert_true(qp_difference(INT64_MAX, INT64_MAX) == 0);
    assert_true(qp_difference(-1, INT64_MIN) == INT64_MAX);
}

static void beyond_the_type_they_are_its_limit(void **state)
{
    (void)state;
    assert_true(qp_sum(INT64_MAX, 1) == INT64_MAX);
    assert_true(qp_sum(INT64_MIN, -1) == INT64_MIN);
    assert_true(qp_sum(INT64_MAX, INT64_MAX) == INT64_MAX);
    assert_true(qp_difference(INT64_MIN, 1) == INT64_MIN);
    assert_true(qp_difference(0, INT64_MIN) == INT64_MAX);
    assert_true(qp_difference(INT64_MAX, -1) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_differences_are_exact_within_the_type),
        cmocka_unit_test(beyond_the_type_they_are_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
