/* What a call that failed and may not be tried again reports: that its time is over, and what
 * failed last. */
#include "lib/t.h"

#include "base/error.h"
#include "store/call.h"

/* The connection was lost under a call of that deadline; gives what it then says. */
static quipu_status lost(const qp_call *call, quipu_status status, quipu_error *reterr)
{
    assert_int_equal(qp_error_set(reterr, status, "the connection was lost"), status);
    assert_false(qp_call_backoff(call, &status, reterr));
    return status;
}

static void failure_behind_the_deadline_is_busy_and_names_its_cause(void **state)
{
    const qp_call over = {.deadline_ns = 1};
    quipu_error err = {0};

    (void)state;
    assert_int_equal(lost(&over, QUIPU_IO, &err), QUIPU_BUSY);
    assert_int_equal(err.status, QUIPU_BUSY);
    assert_non_null(strstr(err.message, "the connection was lost"));
    assert_int_equal(lost(&over, QUIPU_IO, NULL), QUIPU_BUSY);
}

static void failure_of_a_cancelled_call_is_cancelled(void **state)
{
    const qp_call cancelled = {.deadline_ns = QP_NEVER, .cancel = quipu_cancel_new()};
    quipu_error err = {0};

    (void)state;
    assert_non_null(cancelled.cancel);
    quipu_cancel_set(cancelled.cancel);
    assert_int_equal(lost(&cancelled, QUIPU_IO, &err), QUIPU_CANCELLED);
    assert_int_equal(err.status, QUIPU_CANCELLED);
    quipu_free(cancelled.cancel);
}

static void unknown_outcome_stays_unknown_behind_the_deadline(void **state)
{
    const qp_call over = {.deadline_ns = 1};
    quipu_error err = {0};

    (void)state;
    assert_int_equal(lost(&over, QUIPU_UNKNOWN, &err), QUIPU_UNKNOWN);
    assert_string_equal(err.message, "the connection was lost");
}

static void failure_in_time_is_as_it_was(void **state)
{
    const qp_call call = {.deadline_ns = QP_NEVER};
    quipu_status status = QUIPU_IO;
    quipu_error err = {0};

    (void)state;
    assert_true(qp_call_backoff(&call, &status, &err));
    assert_int_equal(status, QUIPU_IO);
    assert_int_equal(err.status, QUIPU_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_behind_the_deadline_is_busy_and_names_its_cause),
        cmocka_unit_test(failure_of_a_cancelled_call_is_cancelled),
        cmocka_unit_test(unknown_outcome_stays_unknown_behind_the_deadline),
        cmocka_unit_test(failure_in_time_is_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
