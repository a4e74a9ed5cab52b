/* The test helpers themselves: a helper that lies makes every other test lie. */
#include "lib/t.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tmpdir_is_fresh_private_and_gone_after_exit(void **state)
{
    int pipes[2];
    char path[T_PATH_MAX] = {0};
    int status = -1;
    pid_t child = -1;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char inside[T_PATH_MAX];
        const char *dir = t_tmpdir();
        t_path(dir, "sub", inside);
        (void)mkdir(inside, 0700);
        t_path(inside, "file", path);
        t_file_write(path, "x", 1);
        exit(write(pipes[1], dir, strlen(dir)) > 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(read(pipes[0], path, sizeof path - 1) > 0);
    assert_false(t_file_exists(path));
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void forked_child_leaves_the_parents_folder(void **state)
{
    const char *dir = t_tmpdir();
    int status = -1;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(t_file_exists(dir));
}

static void fixture_is_a_writable_copy(void **state)
{
    static const char original[] = QUIPU_SOURCE_DIR "/tests/fixtures/lango-mattn.db";
    char path[T_PATH_MAX];

    (void)state;
    t_fixture("lango-mattn.db", path);
    assert_int_equal(access(path, W_OK), 0);
    assert_true(t_file_equal(path, original));
    t_file_write(path, "", 0);
    assert_false(t_file_equal(path, original)); /* the original does not change with its copy */
    t_fixture("lango-mattn.db", path);
    assert_true(t_file_equal(path, original));
}

static void random_stream_repeats_from_its_seed(void **state)
{
    uint64_t a = 7;
    uint64_t b = 7;

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(t_random(&a) == t_random(&b));
        assert_true(t_random_below(&a, 10) < 10);
        (void)t_random_below(&b, 10);
    }
}

/* Takes three blocks from the library's allocator; all or none of them. */
static void lib_three_chunks(void *ctx)
{
    int *clean_runs = ctx;
    quipu_arena arena = QUIPU_ARENA_INIT;
    bool all = true;

    for (int i = 0; i < 3 && all; i++) {
        all = quipu_arena_alloc(&arena, (size_t)4 << 20) != NULL;
    }
    assert_true(all == (t_fault_fired() == 0));
    *clean_runs += all ? 1 : 0;
    quipu_arena_free(&arena);
}

static void sweep_fails_every_allocation_in_both_modes(void **state)
{
    int clean_runs = 0;

    (void)state;
    assert_int_equal(t_fault_sweep(lib_three_chunks, &clean_runs), 6);
    assert_int_equal(clean_runs, 2);
}

static void fault_for_good_keeps_failing_until_disarmed(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    t_fault_install();
    t_fault_arm(1, T_FAULT_FOR_GOOD);
    assert_null(quipu_arena_alloc(&arena, 16));
    assert_null(quipu_arena_alloc(&arena, 16));
    assert_int_equal(t_fault_fired(), 2);
    t_fault_arm(1, T_FAULT_ONCE);
    assert_null(quipu_arena_alloc(&arena, 16));
    assert_non_null(quipu_arena_alloc(&arena, 16));
    assert_int_equal(t_fault_live(), 1);
    quipu_arena_free(&arena);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tmpdir_is_fresh_private_and_gone_after_exit),
        cmocka_unit_test(forked_child_leaves_the_parents_folder),
        cmocka_unit_test(fixture_is_a_writable_copy),
        cmocka_unit_test(random_stream_repeats_from_its_seed),
        cmocka_unit_test(sweep_fails_every_allocation_in_both_modes),
        cmocka_unit_test(fault_for_good_keeps_failing_until_disarmed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
