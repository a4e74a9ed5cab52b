/* Damaged files of our own: flipped bits, splices and cuts in store files, logs and exports,
 * through every verb of the library. No crash, no call that does not end, and no wrong answer over
 * which verify says nothing: page checksums find values that changed into other sound values.
 * Commits that a damaged log loses are found by the heads that were kept (docs/integrity.md). */
#include "contract/maintain_t.h"
#include "lib/t_corrupt.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLIPS_SHORT 1000
#define FLIPS_LONG 10000
#define OPEN_FLIPS_SHORT 60 /* each opens the file twice */
#define OPEN_FLIPS_LONG 2000

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

/* ---- damage to a store that is open ----------------------------------------------------------
 */

/* Flips one bit of a file in another process: one that closed the file in this process would drop
 * the locks of the store that is open here. */
static void flip_from_outside(const char *path, size_t at, int bit)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0) {
        const int file = open(path, O_RDWR | O_CLOEXEC);
        unsigned char byte = 0;
        bool good = file >= 0 && pread(file, &byte, 1, (off_t)at) == 1;

        byte ^= (unsigned char)(1u << bit);
        good = good && pwrite(file, &byte, 1, (off_t)at) == 1;
        _exit(good ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Writes that leave nothing in an export: they dirty pages beside the damaged one and move the log
 * into the file. NULL, or a call that did not end; *ret_whole: none of them met the damage. */
static const char *write_beside(quipu_store *store, bool *ret_whole)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    const quipu_message message = {.role = QUIPU_ROLE_USER, .content = QUIPU_STR("beside")};
    quipu_error err = {0};
    quipu_status status;

    values.key = QUIPU_STR("beside");
    status = quipu_session_create(store, &values, NULL, NULL, &err);
    if (status == QUIPU_OK) {
        status = quipu_message_append(store, values.key, quipu_messages_of(&message, 1), NULL, NULL,
                                      NULL, &err);
    }
    if (status == QUIPU_OK) {
        status = quipu_session_delete(store, values.key, NULL, NULL, NULL, &err);
    }
    *ret_whole = status == QUIPU_OK;
    return t_corrupt_ended("a write beside the damage", status, &err);
}

/* What an open store says of itself: an export is that of the base or fails, and verify, which
 * reads the disk, finds what failed a write (`whole` is false). NULL, or what does not hold. */
static const char *answer_of(quipu_store *store, const t_corrupt_base *base, bool whole)
{
    quipu_error err = {0};
    t_bytes exported = {0};
    bool clean = false;
    quipu_status status = t_oracle_export(store, &exported, &err);
    const bool differs = whole && !t_bytes_equal(&exported, &base->exported);
    const char *wrong = t_corrupt_ended("export", status, &err);

    t_bytes_free(&exported);
    if (wrong == NULL && status == QUIPU_OK && differs) {
        return "the open store gave a wrong answer";
    }
    if (wrong == NULL) {
        const quipu_status checked = t_oracle_verify(store, 0, &clean, &err);

        wrong = t_corrupt_ended("verify", checked, &err);
    }
    if (wrong == NULL && clean && (status != QUIPU_OK || !whole)) {
        return "a call failed over damage that verify does not find";
    }
    return wrong;
}

/* One run: the store is open, perhaps with its pages read before, when the bit flips. Afterwards
 * the file is opened anew, and everything holds that holds for a file damaged while closed. */
static const char *run_open(t_corrupt_base *base, t_corrupt_target target, uint64_t *chance,
                            t_corrupt_seen *seen)
{
    const t_bytes none = {0};
    const t_bytes *bytes = target == T_CORRUPT_LOG ? &base->log : &base->file;
    const size_t at = (size_t)t_random_below(chance, bytes->n);
    const int bit = (int)t_random_below(chance, 8);
    const bool warm = t_random_below(chance, 2) == 0;
    const bool writes = t_random_below(chance, 2) == 0;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    char path[1100];
    bool whole = true;
    const char *wrong = NULL;

    (void)snprintf(path, sizeof(path), "%s%s", base->path, target == T_CORRUPT_LOG ? "-wal" : "");
    assert_true(t_corrupt_place(base->path, target == T_CORRUPT_LOG ? &base->stale : &base->file,
                                target == T_CORRUPT_LOG ? &base->log : &none));
    options.durability = QUIPU_RELAXED;
    assert_int_equal(quipu_open(base->path, &options, &store, &err), QUIPU_OK);
    if (warm) {
        wrong = answer_of(store, base, true);
        assert_null(wrong);
    }
    flip_from_outside(path, at, bit);
    if (writes) {
        wrong = write_beside(store, &whole);
    }
    wrong = wrong == NULL ? answer_of(store, base, whole) : wrong;
    quipu_close(store);
    seen->runs++;
    return wrong == NULL ? t_corrupt_store(base, target, seen) : wrong;
}

static void flips_of_another_process_under_an_open_store_deceive_nobody(void **state)
{
    T_SQLITE_ONLY("the files are SQLite's");
    t_corrupt_base base;
    t_corrupt_seen seen = {0};
    uint64_t chance = t_seed();
    const int64_t flips = t_count(OPEN_FLIPS_SHORT, OPEN_FLIPS_LONG);

    (void)state;
    assert_true(t_corrupt_begin(t_tmpdir(), &base));
    assert_true(base.has_checksums);
    for (int64_t i = 0; i < flips; i++) {
        const t_corrupt_target target =
            t_random_below(&chance, 3) == 0 ? T_CORRUPT_LOG : T_CORRUPT_FILE;
        const uint64_t before = chance;
        const char *wrong = run_open(&base, target, &chance, &seen);

        if (wrong != NULL) {
            fail_msg("run %lld of target %d (stream %llu): %s", (long long)i, (int)target,
                     (unsigned long long)before, wrong);
        }
    }
    print_message("%lld runs: %lld refused, %lld found by verify, %lld harmless\n",
                  (long long)seen.runs, (long long)seen.refused, (long long)seen.found,
                  (long long)seen.harmless);
    assert_int_equal(seen.changed, 0);
    assert_int_equal(seen.unnoticed, 0);
    assert_true(seen.sums > 0);
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
        cmocka_unit_test(flips_of_another_process_under_an_open_store_deceive_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
