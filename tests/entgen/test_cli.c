/* The program as a user runs it: exit statuses, what is written and what is not. */
#include "entgen/t_entgen.h"

#include <sys/stat.h>

#include "entgen/model.h"

static const char cli_good[] = "entity Thing {\n  x int\n}\n";
static const char cli_bad[] = "entity Thing {\n  x strng\n}\n";

typedef struct cli_fixture {
    const char *dir;
    char schema[T_PATH_MAX];
    char header[T_PATH_MAX];
    char source[T_PATH_MAX];
} cli_fixture;

static cli_fixture cli_setup(const char *text)
{
    cli_fixture f;

    f.dir = t_tmpdir();
    t_path(f.dir, "things.ent", f.schema);
    t_path(f.dir, "things.h", f.header);
    t_path(f.dir, "things.c", f.source);
    t_file_write(f.schema, text, strlen(text));
    return f;
}

static int cli_run(const char *a, const char *b, const char *c, const char *d, char **ret_out,
                   char **ret_err)
{
    const char *argv[] = {t_entgen(), a, b, c, d, NULL};
    return t_spawn(argv, ret_out, ret_err);
}

static void code_is_written_beside_the_asked_folder(void **state)
{
    cli_fixture f = cli_setup(cli_good);

    (void)state;
    assert_int_equal(cli_run("-o", f.dir, f.schema, NULL, NULL, NULL), 0);
    assert_true(t_file_exists(f.header));
    assert_true(t_file_exists(f.source));
}

static void an_unchanged_file_is_not_touched(void **state)
{
    cli_fixture f = cli_setup(cli_good);
    struct stat before;
    struct stat after;

    (void)state;
    assert_int_equal(cli_run("-o", f.dir, f.schema, NULL, NULL, NULL), 0);
    assert_int_equal(stat(f.header, &before), 0);
    assert_int_equal(cli_run("-o", f.dir, f.schema, NULL, NULL, NULL), 0);
    assert_int_equal(stat(f.header, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* a rewrite would be another file */
}

static void a_mistake_leaves_everything_as_it_was(void **state)
{
    cli_fixture f = cli_setup(cli_good);
    char *old;
    char *now;
    char *errors = NULL;

    (void)state;
    assert_int_equal(cli_run("-o", f.dir, f.schema, NULL, NULL, NULL), 0);
    old = t_file_read(f.header, NULL);
    t_file_write(f.schema, cli_bad, sizeof(cli_bad) - 1);
    assert_int_equal(cli_run("-o", f.dir, f.schema, NULL, NULL, &errors), 1);
    assert_non_null(strstr(errors, "things.ent:2:5: error: unknown type 'strng'"));
    now = t_file_read(f.header, NULL);
    assert_string_equal(old, now);
    free(old);
    free(now);
    free(errors);
}

static void check_reports_a_stale_file(void **state)
{
    static const char more[] = "entity Thing {\n  x int\n  y int\n}\n";
    cli_fixture f = cli_setup(cli_good);
    char *errors = NULL;

    (void)state;
    assert_int_equal(cli_run("--check", "-o", f.dir, f.schema, NULL, &errors), 1);
    assert_non_null(strstr(errors, "things.h: error: cannot open it"));
    free(errors);
    assert_false(t_file_exists(f.header));
    assert_int_equal(cli_run("-o", f.dir, f.schema, NULL, NULL, NULL), 0);
    assert_int_equal(cli_run("--check", "-o", f.dir, f.schema, NULL, NULL), 0);
    t_file_write(f.schema, more, sizeof(more) - 1);
    assert_int_equal(cli_run("--check", "-o", f.dir, f.schema, NULL, &errors), 1);
    assert_non_null(strstr(errors, "things.h: error: differs from its schema from line 18 on: run "
                                   "entgen again\n"));
    assert_non_null(strstr(errors, "things.c: error: differs from its schema"));
    free(errors);
}

static void dumps_go_to_standard_output(void **state)
{
    static const char *const options[] = {"--json", "--sql", "--mermaid"};
    static const char *const parts[] = {"\"table\":\"things\"", "CREATE TABLE \"things\"",
                                        "erDiagram\n    Thing {"};
    cli_fixture f = cli_setup(cli_good);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char *out = NULL;
        assert_int_equal(cli_run(options[i], f.schema, NULL, NULL, &out, NULL), 0);
        assert_non_null(strstr(out, parts[i]));
        assert_false(t_file_exists(f.header));
        free(out);
    }
}

static void help_and_version_succeed(void **state)
{
    char *out = NULL;

    (void)state;
    assert_int_equal(cli_run("--help", NULL, NULL, NULL, &out, NULL), 0);
    assert_non_null(strstr(out, "usage: entgen"));
    free(out);
    assert_int_equal(cli_run("--version", NULL, NULL, NULL, &out, NULL), 0);
    assert_string_equal(out, "entgen " QUIPU_VERSION_TEXT "\n");
    free(out);
}

static void wrong_use_exits_with_2(void **state)
{
    char *errors = NULL;

    (void)state;
    assert_int_equal(cli_run(NULL, NULL, NULL, NULL, NULL, &errors), 2);
    assert_string_equal(errors, "entgen: no file was given\nTry 'entgen --help'.\n");
    free(errors);
    assert_int_equal(cli_run("--jsn", "a.ent", NULL, NULL, NULL, NULL), 2);
    assert_int_equal(cli_run("a.ent", "-o", NULL, NULL, NULL, NULL), 2);
    assert_int_equal(cli_run("import", NULL, NULL, NULL, NULL, NULL), 2);
    assert_int_equal(cli_run("import", "a.db", "b.db", NULL, NULL, NULL), 2);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    cli_fixture f = cli_setup(cli_good);
    char *errors = NULL;

    (void)state;
    assert_int_equal(cli_run("no/such.ent", NULL, NULL, NULL, NULL, &errors), 1);
    assert_string_equal(errors, "no/such.ent: error: cannot open it: No such file or directory\n");
    free(errors);
    assert_int_equal(cli_run(f.dir, NULL, NULL, NULL, NULL, &errors), 1);
    assert_non_null(strstr(errors, "cannot read it: Is a directory"));
    free(errors);
    assert_int_equal(cli_run("-o", "no/such/folder", f.schema, NULL, NULL, &errors), 1);
    assert_non_null(strstr(errors, "no/such/folder/things.h: error: cannot write it"));
    free(errors);
}

static void files_of_a_run_are_limited(void **state)
{
    static const char one[] = "# nothing\n";
    cli_fixture f = cli_setup(cli_good);
    const char *argv[EG_FILES_MAX + 6] = {t_entgen(), "--json"};
    char empty[T_PATH_MAX];

    (void)state;
    t_path(f.dir, "empty.ent", empty);
    t_file_write(empty, one, sizeof(one) - 1);
    argv[2] = f.schema;
    for (size_t i = 1; i < EG_FILES_MAX; i++) {
        argv[i + 2] = empty;
    }
    assert_int_equal(t_spawn(argv, NULL, NULL), 0);
    argv[EG_FILES_MAX + 2] = empty;
    assert_int_equal(t_spawn(argv, NULL, NULL), 2);
}

static void a_schema_is_named_after_its_first_file(void **state)
{
    cli_fixture f = cli_setup(cli_good);
    char path[T_PATH_MAX];
    char *errors = NULL;
    char *out = NULL;

    (void)state;
    t_path(f.dir, "My-Notes.v2.ent", path);
    t_file_write(path, cli_good, sizeof(cli_good) - 1);
    assert_int_equal(cli_run("--json", path, NULL, NULL, &out, NULL), 0);
    assert_non_null(strstr(out, "\"schema\":\"my_notes\""));
    free(out);
    t_path(f.dir, "2nd.ent", path);
    t_file_write(path, cli_good, sizeof(cli_good) - 1);
    assert_int_equal(cli_run("--json", path, NULL, NULL, NULL, &errors), 1);
    assert_non_null(strstr(errors, "'2nd' is no name for a schema"));
    free(errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_written_beside_the_asked_folder),
        cmocka_unit_test(an_unchanged_file_is_not_touched),
        cmocka_unit_test(a_mistake_leaves_everything_as_it_was),
        cmocka_unit_test(check_reports_a_stale_file),
        cmocka_unit_test(dumps_go_to_standard_output),
        cmocka_unit_test(help_and_version_succeed),
        cmocka_unit_test(wrong_use_exits_with_2),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
        cmocka_unit_test(files_of_a_run_are_limited),
        cmocka_unit_test(a_schema_is_named_after_its_first_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
