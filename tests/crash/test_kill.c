/* kill -9 during a migration: at every statement, and at every operation on a file. The file is
 * wholly old or wholly new afterwards, and the next open finishes the work. */
#include "crash/family.h"
#include "crash/faultvfs.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- dying at a statement -----------------------------------------------------------------------
 */

static int64_t kill_countdown;

static int kill_at_statement(unsigned type, void *ctx, void *stmt, void *text)
{
    (void)type;
    (void)ctx;
    (void)stmt;
    (void)text;
    if (--kill_countdown == 0) {
        (void)raise(SIGKILL);
    }
    return 0;
}

static int kill_hook(sqlite3 *db, char **error, const void *api)
{
    (void)error;
    (void)api;
    (void)sqlite3_trace_v2(db, SQLITE_TRACE_STMT, kill_at_statement, NULL);
    return SQLITE_OK;
}

typedef enum kill_way { KILL_STATEMENT, KILL_FILE } kill_way;

/* Migrate in a child that dies at its Nth statement or file operation; whether it died. */
static bool kill_run(const char *path, const model *m, kill_way way, int64_t n)
{
    int how = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        model_opened opened;
        if (way == KILL_STATEMENT) {
            kill_countdown = n;
            (void)sqlite3_auto_extension((void (*)(void))kill_hook);
        } else {
            faultvfs_arm((faultvfs_plan){FAULTVFS_CHANGES, n, false, FAULTVFS_KILL});
        }
        opened = family_migrate(path, m, way == KILL_FILE ? FAULTVFS_NAME : NULL);
        _exit(opened.status == QUIPU_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    if (WIFSIGNALED(how)) {
        assert_int_equal(WTERMSIG(how), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(how), 0);
    return false;
}

static void kill_sweep(kill_way way)
{
    char original[T_PATH_MAX];
    char path[T_PATH_MAX];
    char *old_content = NULL;
    char *new_content = NULL;
    bool died = true;
    int64_t n = 0;
    model m;

    faultvfs_install();
    t_path(t_tmpdir(), "old.db", original);
    family_make(original);
    family_new(&m);
    old_content = family_content(original);
    t_path(t_tmpdir(), "new.db", path);
    t_file_copy(original, path);
    model_expect(family_migrate(path, &m, NULL), QUIPU_OK, NULL);
    new_content = family_content(path);
    while (died) {
        char *content = NULL;

        t_path(t_tmpdir(), "store.db", path);
        t_file_copy(original, path);
        died = kill_run(path, &m, way, ++n);
        content = family_content(path);
        if (strcmp(content, old_content) != 0 && strcmp(content, new_content) != 0) {
            fail_msg("half migrated when killed at %lld:\n%s", (long long)n, content);
        }
        free(content);
        model_sound(path);
        model_expect(family_migrate(path, &m, NULL), QUIPU_OK, NULL);
        content = family_content(path);
        assert_string_equal(content, new_content);
        free(content);
        assert_int_equal(model_int(path, "SELECT count(*) FROM ent_journal WHERE step = 'sizes'"),
                         1);
    }
    print_message("%lld runs\n", (long long)n);
    assert_true(n > 10);
    free(old_content);
    free(new_content);
    model_free(&m);
}

static void migration_survives_kill_at_every_statement(void **state)
{
    (void)state;
    kill_sweep(KILL_STATEMENT);
}

static void migration_survives_kill_at_every_file_operation(void **state)
{
    (void)state;
    kill_sweep(KILL_FILE);
}

static void first_open_survives_kill_everywhere(void **state)
{
    model m;

    (void)state;
    faultvfs_install();
    family_new(&m);
    for (int way = KILL_STATEMENT; way <= KILL_FILE; way++) {
        bool died = true;
        for (int64_t n = 1; died; n++) {
            char path[T_PATH_MAX];
            model_opened opened;

            t_path(t_tmpdir(), "store.db", path);
            died = kill_run(path, &m, (kill_way)way, n);
            opened = family_migrate(path, &m, NULL);
            model_expect(opened, QUIPU_OK, NULL);
            model_check(path, "SELECT count(*) FROM tags", "0\n");
            model_check(path, "PRAGMA application_id", "1363759189\n");
            assert_int_equal(model_int(path, "SELECT count(*) FROM ent_journal"), 2);
            model_sound(path);
        }
    }
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(migration_survives_kill_at_every_statement),
        cmocka_unit_test(migration_survives_kill_at_every_file_operation),
        cmocka_unit_test(first_open_survives_kill_everywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
