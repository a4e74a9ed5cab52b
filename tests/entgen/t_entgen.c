/* What the tests of entgen share. */
#include "entgen/t_entgen.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entgen/parse.h"
#include "entgen/run.h"
#include "entgen/schema.h"

extern char **environ;

bool t_load(eg_run *run, eg_schema *schema, quipu_str text)
{
    eg_run_init(run);
    eg_schema_init(schema);
    eg_parse(run, schema, "t.ent", text);
    return run->error_count == 0 && eg_schema_finish(run, schema, "t.ent");
}

void t_good(const char *text)
{
    t_bad(text, "");
}

void t_bad(const char *text, const char *errors)
{
    eg_run run;
    eg_schema schema;

    (void)t_load(&run, &schema, quipu_cstr(text));
    assert_string_equal(qp_buf_str(&run.errors).p, errors);
    eg_run_free(&run);
}

int t_spawn(const char *const *argv, char **ret_out, char **ret_err)
{
    posix_spawn_file_actions_t actions;
    char out[T_PATH_MAX];
    char err[T_PATH_MAX];
    const char *dir = t_tmpdir();
    int status = -1;
    pid_t pid;
    int rc;

    t_path(dir, "out", out);
    t_path(dir, "err", err);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out, O_WRONLY | O_CREAT, 0600);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err, O_WRONLY | O_CREAT, 0600);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (rc != 0) {
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (ret_out != NULL) {
        *ret_out = t_file_read(out, NULL);
    }
    if (ret_err != NULL) {
        *ret_err = t_file_read(err, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *t_entgen(void)
{
    const char *path = getenv("QUIPU_ENTGEN");

    if (path == NULL) {
        fail_msg("QUIPU_ENTGEN must name the program; ctest sets it");
    }
    return path;
}

bool t_has_program(const char *name)
{
    const char *argv[] = {name, "--version", NULL};

    if (t_spawn(argv, NULL, NULL) != 0) {
        printf("SKIP: %s is not installed\n", name);
        return false;
    }
    return true;
}
