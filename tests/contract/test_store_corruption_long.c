/* Damaged files of our own: flipped bits, splices and cuts in store files, logs and exports,
 * through every verb of the library. No crash, no call that does not end, and no wrong answer over
 * which verify says nothing: page checksums find values that changed into other sound values.
 * Commits that a damaged log loses are found by the heads that were kept (docs/integrity.md). */
#include "contract/maintain_t.h"
#include "lib/t_corrupt.h"

#define FLIPS_SHORT 1000
#define FLIPS_LONG 10000

/* Mostly one bit, as disks and memory do it; sometimes a few bytes from elsewhere or a cut. */
static void damage(const t_bytes *sound, uint64_t *state, t_bytes *ret)
{
    const size_t at = (size_t)t_random_below(state, sound->n);
    const uint64_t way = t_random_below(state, 20);

    ret->n = ret->at = 0;
    assert_int_equal(t_bytes_write(ret, sound->p, sound->n), QUIPU_OK);
    if (way < 15) {
        ret->p[at] = (char)(ret->p[at] ^ (1 << t_random_below(state, 8)));
    } else if (way < 19) {
        const size_t from = (size_t)t_random_below(state, sound->n);
        size_t n = 1 + (size_t)t_random_below(state, 64);
        n = n < sound->n - at ? n : sound->n - at;
        n = n < sound->n - from ? n : sound->n - from;
        memcpy(ret->p + at, sound->p + from, n);
    } else {
        ret->n = at;
    }
}

static void damaged_files_crash_nothing_and_deceive_nobody(void **state)
{
    T_SQLITE_ONLY("the files are SQLite's");
    t_corrupt_base base;
    t_corrupt_seen seen = {0};
    t_bytes damaged = {0};
    uint64_t chance = t_seed();
    const int64_t flips = t_count(FLIPS_SHORT, FLIPS_LONG);

    (void)state;
    assert_true(t_corrupt_begin(t_tmpdir(), &base));
    for (int64_t i = 0; i < flips; i++) {
        const uint64_t draw = t_random_below(&chance, 10);
        const t_corrupt_target target = draw < 6   ? T_CORRUPT_FILE
                                        : draw < 8 ? T_CORRUPT_LOG
                                                   : T_CORRUPT_EXPORT;
        const uint64_t before = chance;
        const char *wrong = NULL;

        damage(t_corrupt_bytes(&base, target), &chance, &damaged);
        wrong = t_corrupt_run(&base, target, &damaged, &seen);
        if (wrong != NULL) {
            char name[64];
            char path[T_PATH_MAX];

            (void)snprintf(name, sizeof(name), "quipu-corrupt-%lld.bin", (long long)i);
            t_path(QUIPU_BINARY_DIR, name, path);
            t_file_write(path, damaged.p, damaged.n);
            fail_msg("run %lld of target %d (stream %llu, bytes in %s): %s", (long long)i,
                     (int)target, (unsigned long long)before, path, wrong);
        }
    }
    print_message("%lld runs: %lld refused, %lld found by verify, %lld of both by a checksum, %lld "
                  "harmless; %lld changes went unnoticed; %lld lost tails, of which the heads that "
                  "were kept miss %lld\n",
                  (long long)seen.runs, (long long)seen.refused, (long long)seen.found,
                  (long long)seen.sums, (long long)seen.harmless, (long long)seen.changed,
                  (long long)seen.lost_tail, (long long)seen.unnoticed);
    assert_true(base.has_checksums);
    assert_int_equal(seen.changed, 0);
    assert_true(seen.lost_tail > 0);
    assert_int_equal(seen.unnoticed, 0);
    assert_true(seen.sums > 0);
    t_bytes_free(&damaged);
    t_corrupt_end(&base);
}

static void sound_files_pass_the_oracle(void **state)
{
    T_SQLITE_ONLY("the files are SQLite's");
    t_corrupt_base base;
    t_corrupt_seen seen = {0};

    (void)state;
    assert_true(t_corrupt_begin(t_tmpdir(), &base));
    for (int target = 0; target < T_CORRUPT_TARGETS; target++) {
        t_bytes *bytes = t_corrupt_bytes(&base, (t_corrupt_target)target);
        const char *wrong = t_corrupt_run(&base, (t_corrupt_target)target, bytes, &seen);

        if (wrong != NULL) {
            fail_msg("%d: %s", target, wrong);
        }
    }
    assert_int_equal(seen.harmless, T_CORRUPT_TARGETS);
    t_corrupt_end(&base);
}

/* When verify is clean then export, show of every session, search and rm work, and the export
 * imports into an equal store: on every engine, for a store that has everything. */
static void oracle_holds_for_a_store_with_everything(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    t_bytes exported = {0};
    bool index_changed = true;
    const char *wrong = NULL;

    (void)state;
    mt_fill(store, path);
    mt_clean(store);
    wrong = t_oracle(store, &exported, &index_changed);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    assert_false(index_changed);
    t_bytes_free(&exported);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_files_pass_the_oracle),
        cmocka_unit_test(oracle_holds_for_a_store_with_everything),
        cmocka_unit_test(damaged_files_crash_nothing_and_deceive_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
