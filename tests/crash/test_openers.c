/* Many processes that open one file for the first time, all at once: none fails, the work is done
 * once. */
#include "crash/family.h"

#include <sys/wait.h>
#include <unistd.h>

#define OPENERS 8
#define OPENER_FILES 25

typedef enum opener_kind { OPENER_NEW, OPENER_OLD } opener_kind;

/* Start the children, which wait for the pipe to close, then let them go; how many failed. */
static int openers_race(const char *path, const model *m)
{
    pid_t pids[OPENERS];
    int gate[2];
    int failed = 0;

    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < OPENERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            char byte = 0;
            model_opened opened;
            (void)close(gate[1]);
            (void)!read(gate[0], &byte, 1);
            opened = family_migrate(path, m, NULL);
            if (opened.status != QUIPU_OK) {
                (void)fprintf(stderr, "%s: %s\n", quipu_status_name(opened.status),
                              opened.error.message);
            }
            _exit(opened.status == QUIPU_OK ? (int)opened.report.steps : 100);
        }
    }
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (int i = 0; i < OPENERS; i++) {
        int how = 0;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        failed += !WIFEXITED(how) || WEXITSTATUS(how) >= 100 ? 1 : 0;
    }
    return failed;
}

static void openers_run(opener_kind kind, int files)
{
    char original[T_PATH_MAX];
    char *old_content = NULL;
    model m;

    family_new(&m);
    t_path(t_tmpdir(), "old.db", original);
    family_make(original);
    old_content = family_content(original);
    for (int i = 0; i < files; i++) {
        char path[T_PATH_MAX];

        t_path(t_tmpdir(), "store.db", path);
        if (kind == OPENER_OLD) {
            t_file_copy(original, path);
        }
        assert_int_equal(openers_race(path, &m), 0);
        model_check(path,
                    "SELECT count(*), count(DISTINCT step), count(DISTINCT schema_hash) FROM "
                    "ent_journal WHERE seq > (SELECT count(*) - 2 FROM ent_journal)",
                    "2|1|1\n");
        assert_int_equal(model_int(path, "SELECT count(*) FROM ent_journal"),
                         kind == OPENER_OLD ? 3 : 2);
        model_sound(path);
        if (kind == OPENER_OLD) {
            assert_int_equal(family_check_backups(path, old_content), 1);
            model_check(path, "SELECT count(*), sum(size) FROM notes", "200|1492\n");
            model_check(path, "SELECT count(*) FROM lines", "200\n");
        }
    }
    free(old_content);
    model_free(&m);
}

static void eight_first_openers_of_25_new_files_all_succeed(void **state)
{
    (void)state;
    openers_run(OPENER_NEW, (int)t_count(OPENER_FILES, 4 * OPENER_FILES));
}

static void eight_openers_of_an_old_file_migrate_it_once(void **state)
{
    (void)state;
    openers_run(OPENER_OLD, (int)t_count(OPENER_FILES, 4 * OPENER_FILES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_first_openers_of_25_new_files_all_succeed),
        cmocka_unit_test(eight_openers_of_an_old_file_migrate_it_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
