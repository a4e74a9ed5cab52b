/* Jobs: leases, fences and backoff, below the public API and on every engine. The wall clock is
 * stepped, never waited for. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "base/time.h"
#include "store/job.h"

#define JOB_LEASE_MS INT64_C(30000)
#define JOB_SCOPE QUIPU_STR("s")

static int job_teardown(void **state)
{
    qp_time_step(0);
    return st_teardown(state);
}

#define JOB_TEST(name) cmocka_unit_test_setup_teardown(name, st_setup, job_teardown)

typedef enum job_op { OP_DUE, OP_CLAIM, OP_RENEW, OP_COMMIT, OP_RELEASE, OP_FAIL } job_op;

/* One operation in a transaction of its own. */
typedef struct job_call {
    quipu_store *store;
    job_op op;
    int64_t first;
    int64_t last;
    quipu_str scope;
    quipu_str why;
    quipu_arena arena;
    qp_job_lease lease;
    bool found;
    bool more;
    bool rolls_back; /* the worker's own change fails behind the operation */
} job_call;

static quipu_status job_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    job_call *call = ctx;
    quipu_status status = QUIPU_OK;

    switch (call->op) {
    case OP_DUE:
        status = qp_job_make_due(
            call->store, db, scratch,
            &(qp_job_due){QP_JOB_OBSERVE, call->scope, call->first, call->last}, reterr);
        break;
    case OP_CLAIM:
        status = qp_job_claim_next(
            call->store, db, &call->arena,
            &(qp_job_claim){QP_JOB_OBSERVE, call->scope, QUIPU_STR("test"), JOB_LEASE_MS},
            &call->lease, &call->found, reterr);
        break;
    case OP_RENEW:
        status = qp_job_renew(call->store, db, scratch, &call->lease, JOB_LEASE_MS, reterr);
        break;
    case OP_COMMIT:
        status =
            qp_job_commit(call->store, db, scratch, &call->lease, call->last, &call->more, reterr);
        break;
    case OP_RELEASE:
        status = qp_job_release(call->store, db, scratch, &call->lease, reterr);
        break;
    default:
        status = qp_job_fail(call->store, db, scratch, &call->lease, call->why, reterr);
        break;
    }
    return status == QUIPU_OK && call->rolls_back ? QUIPU_INVALID : status;
}

static quipu_status job_run(quipu_store *store, job_call *call, job_op op, quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_store_enter(store, NULL, &within, reterr);

    call->store = store;
    call->op = op;
    if (status == QUIPU_OK) {
        status = qp_store_write(store, &within, job_work, call, reterr);
    }
    qp_store_leave(&within);
    return status;
}

static void job_due(quipu_store *store, quipu_str scope, int64_t first, int64_t last)
{
    job_call call = {.scope = scope, .first = first, .last = last};
    quipu_error err = {0};

    T_OK(job_run(store, &call, OP_DUE, &err));
}

/* Claims; `ret` keeps the lease and its texts. */
static bool job_claim(quipu_store *store, quipu_str scope, job_call *ret)
{
    quipu_error err = {0};

    *ret = (job_call){.scope = scope};
    T_OK(job_run(store, ret, OP_CLAIM, &err));
    return ret->found;
}

static quipu_status job_commit(quipu_store *store, job_call *held, int64_t done)
{
    held->last = done;
    return job_run(store, held, OP_COMMIT, NULL);
}

static void job_done(job_call *call)
{
    quipu_arena_free(&call->arena);
}

/* A qp_work_fn that copies the row of the scope "s". */
typedef struct job_row {
    quipu_store *store;
    qp_job row;
    bool found;
    char error[QP_JOB_ERROR_MAX + 1];
} job_row;

static quipu_status job_row_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    job_row *read = ctx;
    const qp_job *row = NULL;
    quipu_status status =
        qp_job_get(db, scratch, QUIPU_STR(""), JOB_SCOPE, QP_JOB_OBSERVE, &row, reterr);

    read->found = status == QUIPU_OK;
    if (read->found) {
        read->row = *row;
        (void)snprintf(read->error, sizeof(read->error), "%.*s", (int)row->last_error.n,
                       row->last_error.n > 0 ? row->last_error.p : "");
    }
    return status == QUIPU_NOT_FOUND ? QUIPU_OK : status;
}

static job_row job_read(quipu_store *store)
{
    job_row read = {.store = store};
    qp_call within;

    T_OK(qp_store_enter(store, NULL, &within, NULL));
    T_OK(qp_store_read(store, &within, job_row_work, &read, NULL));
    qp_store_leave(&within);
    return read;
}

/* ---- due --------------------------------------------------------------------------------------
 */

static void making_a_job_due_twice_extends_it_and_keeps_one_row(void **state)
{
    quipu_store *store = *state;
    job_call held;

    job_due(store, JOB_SCOPE, 3, 5);
    job_due(store, JOB_SCOPE, 3, 5);
    job_due(store, JOB_SCOPE, 4, 9);
    job_due(store, JOB_SCOPE, 2, 4);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    assert_int_equal(held.lease.first_seq, 2);
    assert_int_equal(held.lease.last_seq, 9);
    job_done(&held);
    assert_false(job_claim(store, QP_STR_ABSENT, &held));
    job_done(&held);
}

static void a_range_that_grows_under_a_lease_stays_to_do(void **state)
{
    quipu_store *store = *state;
    job_call held;

    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    job_due(store, JOB_SCOPE, 1, 8);
    T_OK(job_commit(store, &held, 5));
    assert_true(held.more);
    T_OK(job_commit(store, &held, 8));
    assert_false(held.more);
    assert_false(job_read(store).row.next_at.has);
    job_done(&held);
}

static void a_finished_job_becomes_due_again_with_a_higher_fence(void **state)
{
    quipu_store *store = *state;
    job_call held;

    for (int64_t i = 1; i <= 3; i++) {
        job_due(store, JOB_SCOPE, i, i);
        assert_true(job_claim(store, JOB_SCOPE, &held));
        assert_int_equal(held.lease.fence, i);
        assert_int_equal(held.lease.first_seq, i);
        T_OK(job_commit(store, &held, i));
        job_done(&held);
    }
}

static void the_job_that_waits_longest_is_claimed_first(void **state)
{
    quipu_store *store = *state;
    job_call held;

    job_due(store, QUIPU_STR("b"), 1, 1);
    qp_time_step(1000);
    job_due(store, QUIPU_STR("a"), 1, 1);
    qp_time_step(2000);
    assert_true(job_claim(store, QP_STR_ABSENT, &held));
    assert_int_equal(held.lease.scope.p[0], 'b');
    job_done(&held);
    assert_true(job_claim(store, QP_STR_ABSENT, &held));
    assert_int_equal(held.lease.scope.p[0], 'a');
    job_done(&held);
}

/* ---- leases and fences ------------------------------------------------------------------------
 */

static void of_two_workers_with_one_expired_lease_only_the_second_commits(void **state)
{
    quipu_store *store = *state;
    job_call first;
    job_call second;

    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &first));
    qp_time_step(JOB_LEASE_MS - 5000);
    assert_false(job_claim(store, JOB_SCOPE, &second));
    job_done(&second);
    qp_time_step(JOB_LEASE_MS + 5000);
    assert_true(job_claim(store, JOB_SCOPE, &second));
    assert_int_equal(second.lease.fence, first.lease.fence + 1);
    assert_int_equal(job_commit(store, &first, 5), QUIPU_CONFLICT);
    assert_int_equal(job_run(store, &first, OP_RENEW, NULL), QUIPU_CONFLICT);
    assert_int_equal(job_run(store, &first, OP_RELEASE, NULL), QUIPU_CONFLICT);
    assert_int_equal(job_run(store, &first, OP_FAIL, NULL), QUIPU_CONFLICT);
    assert_int_equal(job_read(store).row.first_seq, 1);
    T_OK(job_commit(store, &second, 5));
    assert_int_equal(job_commit(store, &second, 5), QUIPU_CONFLICT); /* done once */
    job_done(&first);
    job_done(&second);
}

static void a_lease_that_ended_and_nobody_took_over_still_commits(void **state)
{
    quipu_store *store = *state;
    job_call held;

    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    qp_time_step(10 * JOB_LEASE_MS);
    T_OK(job_commit(store, &held, 5));
    job_done(&held);
}

static void a_renewed_lease_ends_later(void **state)
{
    quipu_store *store = *state;
    job_call held;
    job_call other;

    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    qp_time_step(JOB_LEASE_MS - 1000);
    T_OK(job_run(store, &held, OP_RENEW, NULL));
    qp_time_step(JOB_LEASE_MS + 1000);
    assert_false(job_claim(store, JOB_SCOPE, &other));
    job_done(&other);
    T_OK(job_commit(store, &held, 5));
    job_done(&held);
}

/* A clock that stepped back leaves a lease further ahead than any lease can be: it does not hold
 * the job up until that time comes again. */
static void a_clock_that_steps_back_does_not_keep_a_job_from_its_next_worker(void **state)
{
    quipu_store *store = *state;
    job_call first;
    job_call second;

    qp_time_step(INT64_C(86400000));
    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &first));
    qp_time_step(0);
    assert_true(job_claim(store, QP_STR_ABSENT, &second));
    assert_int_equal(job_commit(store, &first, 5), QUIPU_CONFLICT);
    T_OK(job_commit(store, &second, 5));
    job_done(&first);
    job_done(&second);
}

static void a_released_job_is_due_at_once_and_counts_no_try(void **state)
{
    quipu_store *store = *state;
    job_call held;

    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    T_OK(job_run(store, &held, OP_RELEASE, NULL));
    job_done(&held);
    assert_int_equal(job_read(store).row.tries, 0);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    assert_int_equal(held.lease.fence, 2);
    job_done(&held);
}

/* What the worker stores and the commit of the job are one transaction. */
static void a_commit_that_is_rolled_back_leaves_the_job_to_do(void **state)
{
    quipu_store *store = *state;
    job_call held;

    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    held.rolls_back = true;
    assert_int_equal(job_commit(store, &held, 5), QUIPU_INVALID);
    assert_int_equal(job_read(store).row.first_seq, 1);
    held.rolls_back = false;
    T_OK(job_commit(store, &held, 5));
    job_done(&held);
}

/* ---- failures ---------------------------------------------------------------------------------
 */

/* The job comes again so long after a failure that was reported in between. */
static void check_wait(const job_row *job, quipu_time before, quipu_time after, int64_t wait)
{
    assert_true(job->row.next_at.has);
    T_OK(qp_time_add_ms(before, wait, &before));
    T_OK(qp_time_add_ms(after, wait, &after));
    assert_true(quipu_time_cmp(before, job->row.next_at.v) <= 0);
    assert_true(quipu_time_cmp(job->row.next_at.v, after) <= 0);
}

static void failures_wait_twice_as_long_each_time_and_keep_their_reason(void **state)
{
    quipu_store *store = *state;
    int64_t step = 0;
    int64_t wait = QP_JOB_BACKOFF_MS;

    job_due(store, JOB_SCOPE, 1, 5);
    for (int i = 1; i <= 12; i++) {
        quipu_time before;
        job_call held;
        job_row job;

        assert_true(job_claim(store, JOB_SCOPE, &held));
        held.why = QUIPU_STR("the model does not answer");
        before = quipu_time_now();
        T_OK(job_run(store, &held, OP_FAIL, NULL));
        job = job_read(store);
        check_wait(&job, before, quipu_time_now(), wait);
        job_done(&held);
        assert_string_equal(job.error, "the model does not answer");
        assert_int_equal(job.row.tries, i);
        if (wait == QP_JOB_BACKOFF_MS_MAX) { /* longer than the slowest call */
            qp_time_step(step + wait / 2);
            assert_false(job_claim(store, JOB_SCOPE, &held));
            job_done(&held);
        }
        step += wait + 1000; /* the time that the calls take is on top */
        qp_time_step(step);
        wait = 2 * wait < QP_JOB_BACKOFF_MS_MAX ? 2 * wait : QP_JOB_BACKOFF_MS_MAX;
    }
    assert_int_equal(wait, QP_JOB_BACKOFF_MS_MAX);
    job_call held;
    assert_true(job_claim(store, JOB_SCOPE, &held));
    T_OK(job_commit(store, &held, 3));
    assert_int_equal(job_read(store).row.tries, 0);
    assert_string_equal(job_read(store).error, "");
    job_done(&held);
}

static void a_reason_is_cut_between_characters_at_its_limit(void **state)
{
    quipu_store *store = *state;
    char why[QP_JOB_ERROR_MAX + 8];
    job_call held;

    memset(why, 'x', sizeof(why));
    memcpy(why + QP_JOB_ERROR_MAX - 1, "\xc3\xa9", 2); /* crosses the limit */
    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    held.why = (quipu_str){why, sizeof(why)};
    T_OK(job_run(store, &held, OP_FAIL, NULL));
    assert_int_equal(strlen(job_read(store).error), QP_JOB_ERROR_MAX - 1);
    job_done(&held);
}

/* ---- other processes --------------------------------------------------------------------------
 */

/* The worker dies between its claim and its commit: the job is whole, and the next one gets it. */
static void a_worker_that_is_killed_leaves_its_job_to_the_next(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    job_call held;
    int status = 0;
    pid_t pid;

    (void)state;
    job_due(store, JOB_SCOPE, 1, 5);
    quipu_close(store);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        quipu_store *own = st_open(path);

        if (!job_claim(own, JOB_SCOPE, &held)) {
            _exit(1);
        }
        (void)raise(SIGKILL);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    store = st_open(path);
    assert_false(job_claim(store, JOB_SCOPE, &held));
    job_done(&held);
    qp_time_step(JOB_LEASE_MS + 1000);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    assert_int_equal(held.lease.fence, 2);
    assert_int_equal(held.lease.first_seq, 1);
    assert_non_null(strstr(job_read(store).error, "lease"));
    T_OK(job_commit(store, &held, 5));
    job_done(&held);
    qp_time_step(0);
    quipu_close(store);
}

/* A key that is deleted and used again has a new row: a claim of the old one does not fit it,
 * although the fence begins anew. */
static void a_claim_does_not_outlive_its_session(void **state)
{
    quipu_store *store = *state;
    job_call first;
    job_call second;

    st_create(store, "s");
    job_due(store, JOB_SCOPE, 1, 5);
    assert_true(job_claim(store, JOB_SCOPE, &first));
    T_OK(quipu_session_delete(store, JOB_SCOPE, NULL, NULL, NULL, NULL));
    assert_false(job_read(store).found);
    assert_int_equal(job_commit(store, &first, 5), QUIPU_CONFLICT);
    job_due(store, JOB_SCOPE, 1, 2);
    assert_true(job_claim(store, JOB_SCOPE, &second));
    assert_int_equal(second.lease.fence, first.lease.fence);
    assert_int_equal(job_commit(store, &first, 2), QUIPU_CONFLICT);
    T_OK(job_commit(store, &second, 2));
    job_done(&first);
    job_done(&second);
}

static void verify_finds_a_job_without_a_session_and_repair_removes_it(void **state)
{
    quipu_store *store = *state;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    mt_problems heard;

    job_due(store, JOB_SCOPE, 1, 5);
    heard = mt_verify(store);
    assert_int_equal(heard.kinds[QUIPU_PROBLEM_MEMORY], 1);
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, NULL));
    assert_int_equal(verified.repaired, 1);
    assert_false(job_read(store).found);
    mt_clean(store);
}

/* Pending, leased and failed, as quipu_store_stats() reports them. */
static void job_counted(quipu_store *store, int64_t pending, int64_t leased, int64_t failed)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    T_OK(quipu_store_stats(store, T_QUICK, NULL, &stats, NULL));
    assert_int_equal(stats.jobs_pending, pending);
    assert_int_equal(stats.jobs_leased, leased);
    assert_int_equal(stats.jobs_failed, failed);
}

static void statistics_count_what_workers_have_to_do(void **state)
{
    quipu_store *store = *state;
    job_call held;

    job_counted(store, 0, 0, 0);
    job_due(store, JOB_SCOPE, 1, 5);
    job_due(store, QUIPU_STR("other"), 1, 5);
    job_counted(store, 2, 0, 0);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    job_counted(store, 2, 1, 0);
    qp_time_step(2 * JOB_LEASE_MS); /* nobody renewed it */
    job_counted(store, 2, 0, 0);
    held.why = QUIPU_STR("no money");
    T_OK(job_run(store, &held, OP_FAIL, NULL));
    job_counted(store, 2, 0, 1);
    job_done(&held);
    qp_time_step(4 * JOB_LEASE_MS);
    assert_true(job_claim(store, JOB_SCOPE, &held));
    T_OK(job_commit(store, &held, 5));
    job_counted(store, 1, 0, 0);
    job_done(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST(making_a_job_due_twice_extends_it_and_keeps_one_row),
        JOB_TEST(a_range_that_grows_under_a_lease_stays_to_do),
        JOB_TEST(a_finished_job_becomes_due_again_with_a_higher_fence),
        JOB_TEST(the_job_that_waits_longest_is_claimed_first),
        JOB_TEST(of_two_workers_with_one_expired_lease_only_the_second_commits),
        JOB_TEST(a_lease_that_ended_and_nobody_took_over_still_commits),
        JOB_TEST(a_renewed_lease_ends_later),
        JOB_TEST(a_clock_that_steps_back_does_not_keep_a_job_from_its_next_worker),
        JOB_TEST(a_released_job_is_due_at_once_and_counts_no_try),
        JOB_TEST(a_commit_that_is_rolled_back_leaves_the_job_to_do),
        JOB_TEST(failures_wait_twice_as_long_each_time_and_keep_their_reason),
        JOB_TEST(a_reason_is_cut_between_characters_at_its_limit),
        JOB_TEST(statistics_count_what_workers_have_to_do),
        JOB_TEST(a_claim_does_not_outlive_its_session),
        JOB_TEST(verify_finds_a_job_without_a_session_and_repair_removes_it),
        cmocka_unit_test(a_worker_that_is_killed_leaves_its_job_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
