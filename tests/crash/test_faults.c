/* A migration over a disk that fails: each I/O operation in turn, once and from then on. Afterwards
 * the file is wholly old or wholly new, and the next open finishes the work. */
#include "crash/family.h"
#include "crash/faultvfs.h"

typedef struct faults_case {
    model new;
    char *old_content;
    char *new_content;
    char original[T_PATH_MAX];
} faults_case;

static void faults_begin(faults_case *self)
{
    char path[T_PATH_MAX];

    faultvfs_install();
    faultvfs_arm((faultvfs_plan){0});
    t_path(t_tmpdir(), "old.db", self->original);
    family_make(self->original);
    family_new(&self->new);
    self->old_content = family_content(self->original);
    t_path(t_tmpdir(), "new.db", path);
    t_file_copy(self->original, path);
    model_expect(family_migrate(path, &self->new, FAULTVFS_NAME), QUIPU_OK, NULL);
    self->new_content = family_content(path);
    assert_string_not_equal(self->old_content, self->new_content);
}

static void faults_end(faults_case *self)
{
    free(self->old_content);
    free(self->new_content);
    model_free(&self->new);
}

static bool faults_is_clear(quipu_status status)
{
    return status == QUIPU_OK || status == QUIPU_IO || status == QUIPU_FULL ||
           status == QUIPU_CORRUPT || status == QUIPU_NOT_FOUND || status == QUIPU_UNSUPPORTED;
}

/* After a run: old or new, never between; then the next open ends it. */
static void faults_judge(faults_case *self, const char *path, model_opened opened)
{
    char *content = family_content(path);
    bool is_old = strcmp(content, self->old_content) == 0;
    bool is_new = strcmp(content, self->new_content) == 0;

    if (!faults_is_clear(opened.status) ||
        (opened.status != QUIPU_OK && opened.error.message[0] == '\0')) {
        fail_msg("status %s: %s", quipu_status_name(opened.status), opened.error.message);
    }
    if (!is_old && !is_new) {
        fail_msg("half migrated after %s (%s):\n%s", quipu_status_name(opened.status),
                 opened.error.message, content);
    }
    if (opened.status == QUIPU_OK) {
        assert_true(is_new);
    }
    free(content);
    model_sound(path);
    (void)family_check_backups(path, self->old_content);
    model_expect(family_migrate(path, &self->new, NULL), QUIPU_OK, NULL);
    content = family_content(path);
    assert_string_equal(content, self->new_content);
    free(content);
    assert_true(family_check_backups(path, self->old_content) >= 1);
}

/* Fail operation 1, 2, 3... until a run meets no fault, once each and then for good. */
static void faults_sweep(unsigned kinds, faultvfs_effect effect)
{
    faults_case self;
    int64_t runs = 0;

    faults_begin(&self);
    for (int mode = 0; mode < 2; mode++) {
        bool met = true;
        for (int64_t n = 1; met; n++) {
            char path[T_PATH_MAX];
            model_opened opened;

            t_path(t_tmpdir(), "store.db", path);
            t_file_copy(self.original, path);
            faultvfs_arm((faultvfs_plan){kinds, n, mode == 1, effect});
            opened = family_migrate(path, &self.new, FAULTVFS_NAME);
            met = faultvfs_fired() > 0;
            faultvfs_arm((faultvfs_plan){0});
            if (!met) {
                model_expect(opened, QUIPU_OK, NULL);
            }
            faults_judge(&self, path, opened);
            runs++;
        }
    }
    print_message("%lld runs\n", (long long)runs);
    faults_end(&self);
}

static void migration_survives_failing_writes(void **state)
{
    (void)state;
    faults_sweep(1u << FAULTVFS_WRITE, FAULTVFS_EIO);
}

static void migration_survives_torn_writes(void **state)
{
    (void)state;
    faults_sweep(1u << FAULTVFS_WRITE, FAULTVFS_TORN);
}

static void migration_survives_a_full_disk_at_each_write(void **state)
{
    (void)state;
    faults_sweep(1u << FAULTVFS_WRITE, FAULTVFS_ENOSPC);
}

static void migration_survives_failing_syncs_truncates_and_deletes(void **state)
{
    (void)state;
    faults_sweep(1u << FAULTVFS_SYNC | 1u << FAULTVFS_TRUNCATE | 1u << FAULTVFS_DELETE,
                 FAULTVFS_EIO);
}

static void migration_survives_failing_reads_and_opens(void **state)
{
    (void)state;
    faults_sweep(1u << FAULTVFS_READ | 1u << FAULTVFS_OPEN | 1u << FAULTVFS_SHM, FAULTVFS_EIO);
}

static void disk_that_fills_up_says_so_and_leaves_no_partial_backup(void **state)
{
    faults_case self;
    bool full = true;
    int refused = 0;

    (void)state;
    faults_begin(&self);
    for (int64_t room = 0; full; room += t_count(8192, 1024)) {
        char path[T_PATH_MAX];
        model_opened opened;

        t_path(t_tmpdir(), "store.db", path);
        t_file_copy(self.original, path);
        faultvfs_arm((faultvfs_plan){0});
        faultvfs_room(room);
        opened = family_migrate(path, &self.new, FAULTVFS_NAME);
        full = faultvfs_fired() > 0;
        faultvfs_room(-1);
        if (opened.status != QUIPU_OK) {
            model_expect(opened, QUIPU_FULL, "full");
            refused++;
        }
        faults_judge(&self, path, opened);
    }
    assert_true(refused > 2);
    faults_end(&self);
}

static void new_file_on_a_failing_disk_is_made_by_the_next_open(void **state)
{
    model m;

    (void)state;
    faultvfs_install();
    family_new(&m);
    for (int mode = 0; mode < 2; mode++) {
        bool met = true;
        for (int64_t n = 1; met; n++) {
            char path[T_PATH_MAX];
            model_opened opened;

            t_path(t_tmpdir(), "store.db", path);
            faultvfs_arm((faultvfs_plan){FAULTVFS_CHANGES, n, mode == 1, FAULTVFS_EIO});
            opened = family_migrate(path, &m, FAULTVFS_NAME);
            met = faultvfs_fired() > 0;
            faultvfs_arm((faultvfs_plan){0});
            assert_true(faults_is_clear(opened.status));
            model_expect(family_migrate(path, &m, NULL), QUIPU_OK, NULL);
            model_check(path, "SELECT count(*) FROM tags", "0\n");
            model_sound(path);
        }
    }
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(migration_survives_failing_writes),
        cmocka_unit_test(migration_survives_torn_writes),
        cmocka_unit_test(migration_survives_a_full_disk_at_each_write),
        cmocka_unit_test(migration_survives_failing_syncs_truncates_and_deletes),
        cmocka_unit_test(migration_survives_failing_reads_and_opens),
        cmocka_unit_test(disk_that_fills_up_says_so_and_leaves_no_partial_backup),
        cmocka_unit_test(new_file_on_a_failing_disk_is_made_by_the_next_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
