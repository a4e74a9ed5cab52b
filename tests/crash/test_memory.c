/* A migration that runs out of memory at each allocation in turn: the right answer, no leak, and a
 * file that is wholly old or wholly new. */
#include "crash/family.h"

static void migration_survives_every_failing_allocation(void **state)
{
    char original[T_PATH_MAX];
    char path[T_PATH_MAX];
    char *old_content = NULL;
    char *new_content = NULL;
    int64_t faults = 0;
    model m;

    (void)state;
    family_new(&m);
    t_path(t_tmpdir(), "old.db", original);
    family_make(original);
    old_content = family_content(original);
    t_path(t_tmpdir(), "new.db", path);
    t_file_copy(original, path);
    model_expect(family_migrate(path, &m, NULL), QUIPU_OK, NULL);
    new_content = family_content(path);
    t_fault_install();
    for (int mode = T_FAULT_ONCE; mode <= T_FAULT_FOR_GOOD; mode++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            char *content = NULL;
            model_opened opened;

            t_path(t_tmpdir(), "store.db", path);
            t_file_copy(original, path);
            t_fault_arm(n, (t_fault_mode)mode);
            opened = family_migrate(path, &m, NULL);
            fired = t_fault_fired() > 0;
            t_fault_arm(0, T_FAULT_ONCE);
            assert_int_equal(t_fault_live(), 0);
            if (opened.status != QUIPU_NOMEM) {
                /* pruning of old backups may go without */
                model_expect(opened, QUIPU_OK, NULL);
            }
            content = family_content(path);
            if (opened.status == QUIPU_OK
                    ? strcmp(content, new_content) != 0
                    : strcmp(content, old_content) != 0 && strcmp(content, new_content) != 0) {
                fail_msg("half migrated at allocation %lld:\n%s", (long long)n, content);
            }
            free(content);
            model_expect(family_migrate(path, &m, NULL), QUIPU_OK, NULL);
            faults++;
        }
    }
    t_fault_remove();
    print_message("%lld runs\n", (long long)faults);
    assert_true(faults > 100);
    free(old_content);
    free(new_content);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(migration_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
