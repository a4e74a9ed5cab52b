/* Which costs of scrypt a file may ask for: its header names them before any key was tried. */
#include "lib/t.h"

#include "base/kdf.h"

static bool kd_may(uint32_t log_n, uint32_t r, uint32_t p)
{
    return qp_scrypt_in_range((qp_scrypt_cost){.log_n = log_n, .r = r, .p = p});
}

static void costs_of_new_files_are_in_range(void **state)
{
    (void)state;
    assert_true(kd_may(QP_SCRYPT_LOG_N, QP_SCRYPT_R, QP_SCRYPT_P));
}

static void each_cost_has_a_least_and_a_most(void **state)
{
    (void)state;
    assert_true(kd_may(QP_SCRYPT_LOG_N_MIN, 1, 1));
    assert_false(kd_may(QP_SCRYPT_LOG_N_MIN - 1, 1, 1));
    assert_true(kd_may(QP_SCRYPT_LOG_N_MAX, 1, 1));
    assert_false(kd_may(QP_SCRYPT_LOG_N_MAX + 1, 1, 1));
    assert_true(kd_may(QP_SCRYPT_LOG_N_MIN, QP_SCRYPT_R_MAX, 1));
    assert_false(kd_may(QP_SCRYPT_LOG_N_MIN, QP_SCRYPT_R_MAX + 1, 1));
    assert_false(kd_may(QP_SCRYPT_LOG_N_MIN, 0, 1));
    assert_true(kd_may(QP_SCRYPT_LOG_N_MIN, 1, QP_SCRYPT_P_MAX));
    assert_false(kd_may(QP_SCRYPT_LOG_N_MIN, 1, QP_SCRYPT_P_MAX + 1));
    assert_false(kd_may(QP_SCRYPT_LOG_N_MIN, 1, 0));
    assert_false(kd_may(UINT32_MAX, UINT32_MAX, UINT32_MAX));
}

/* 2^20 * 8 * 128 bytes are the most memory, four times as much work the most of that. */
static void costs_together_exhaust_neither_memory_nor_time(void **state)
{
    (void)state;
    assert_true(kd_may(20, 8, 1));
    assert_false(kd_may(20, 9, 1));
    assert_true(kd_may(18, 32, 1));
    assert_false(kd_may(19, 32, 1));
    assert_true(kd_may(20, 8, 4));
    assert_false(kd_may(20, 8, 5));
    assert_true(kd_may(18, 8, 16));
    assert_false(kd_may(19, 8, 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_of_new_files_are_in_range),
        cmocka_unit_test(each_cost_has_a_least_and_a_most),
        cmocka_unit_test(costs_together_exhaust_neither_memory_nor_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
