/* Generated code under real compilers: clean under hostile flags in C11 and, the header, in C++11;
 * within its budget of lines and object code; 300 entities at once. Time is bench's affair. */
#include "entgen/t_entgen.h"

#include "entgen/emit.h"
#include "entgen/run.h"

#define COMPILE_LINES_MAX 150   /* .h and .c together, per entity of ten fields */
#define COMPILE_OBJECT_MAX 2048 /* bytes of text and data, per entity of ten fields */
#define COMPILE_ENTITIES 300

#define COMPILE_C_FLAGS                                                                            \
    "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", \
        "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wformat=2", "-Wundef", "-Wvla",           \
        "-Wcast-qual", "-Werror"
#define COMPILE_CXX_FLAGS                                                                          \
    "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion",                    \
        "-Wsign-conversion", "-Werror"
#define COMPILE_INCLUDE "-I" QUIPU_SOURCE_DIR "/include"
#define COMPILE_GOLDEN "-I" QUIPU_SOURCE_DIR "/tests/entgen/golden" /* views_api.h */

static void compile_must_pass(const char *const *argv)
{
    char *errors = NULL;
    int status = t_spawn(argv, NULL, &errors);

    if (status != 0) {
        fail_msg("%s exits with %d:\n%s", argv[0], status, errors);
    }
    free(errors);
}

/* Everything golden, with one C compiler. */
static void compile_golden_c(const char *compiler)
{
    static const char *const names[] = {"seeds", "every", "small", "views"};

    if (!t_has_program(compiler)) {
        skip();
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char source[T_PATH_MAX];
        char object[T_PATH_MAX];
        const char *argv[] = {
            compiler, COMPILE_C_FLAGS, COMPILE_INCLUDE, COMPILE_GOLDEN, "-c", source, "-o", object,
            NULL};
        (void)snprintf(source, sizeof(source), "%s/tests/entgen/golden/%s.c", QUIPU_SOURCE_DIR,
                       names[i]);
        t_path(t_tmpdir(), "golden.o", object);
        compile_must_pass(argv);
    }
}

static void compile_golden_cxx(const char *compiler)
{
    static const char text[] = "#include \"every.h\"\n#include \"seeds.h\"\n#include \"every.h\"\n"
                               "int t_size(void);\n"
                               "int t_size(void) { message_query q = {}; q.limit = 1;\n"
                               "    return (int)q.limit; }\n";
    char source[T_PATH_MAX];
    char object[T_PATH_MAX];
    const char *argv[] = {compiler,
                          COMPILE_CXX_FLAGS,
                          "-Wno-missing-field-initializers",
                          COMPILE_INCLUDE,
                          COMPILE_GOLDEN,
                          "-c",
                          source,
                          "-o",
                          object,
                          NULL};

    if (!t_has_program(compiler)) {
        skip();
    }
    t_path(t_tmpdir(), "header.cc", source);
    t_path(t_tmpdir(), "header.o", object);
    t_file_write(source, text, sizeof(text) - 1);
    compile_must_pass(argv);
}

static void generated_code_is_clean_under_gcc(void **state)
{
    (void)state;
    compile_golden_c("gcc");
}

static void generated_code_is_clean_under_clang(void **state)
{
    (void)state;
    compile_golden_c("clang-19");
}

static void the_header_is_clean_under_gxx(void **state)
{
    (void)state;
    compile_golden_cxx("g++");
}

static void the_header_is_clean_under_clangxx(void **state)
{
    (void)state;
    compile_golden_cxx("clang++-19");
}

/* `n` entities with the given ten fields, as two files in `dir`; gives their lines. */
static size_t compile_write(size_t n, const char *fields, const char *dir)
{
    eg_run run;
    eg_schema schema;
    qp_buf text;
    char path[T_PATH_MAX];
    size_t lines = 0;

    qp_buf_init(&text, EG_OUTPUT_MAX);
    for (size_t i = 0; i < n; i++) {
        qp_buf_printf(&text, "entity Thing%zu {\n%s}\n", i, fields);
    }
    if (!t_load(&run, &schema, qp_buf_str(&text))) {
        fail_msg("%s", qp_buf_str(&run.errors).p);
    }
    for (size_t i = 0; i < 2; i++) {
        qp_buf_reset(&text);
        (i == 0 ? eg_emit_header : eg_emit_source)(&run, &schema, &text);
        T_OK(qp_buf_status(&text));
        for (size_t j = 0; j < text.n; j++) {
            lines += text.p[j] == '\n' ? 1 : 0;
        }
        t_path(dir, i == 0 ? "t.h" : "t.c", path);
        t_file_write(path, qp_buf_str(&text).p, text.n);
    }
    qp_buf_free(&text);
    eg_run_free(&run);
    return lines;
}

/* Text and data of the object that gcc -O2 makes, by size(1). */
static long compile_object_size(const char *dir)
{
    char source[T_PATH_MAX];
    char object[T_PATH_MAX];
    const char *compile[] = {"gcc", "-std=c11", "-O2", COMPILE_INCLUDE, "-c", source,
                             "-o",  object,     NULL};
    const char *measure[] = {"size", object, NULL};
    char *out = NULL;
    char *line;
    char *end = NULL;
    long text;
    long data;

    t_path(dir, "t.c", source);
    t_path(dir, "t.o", object);
    compile_must_pass(compile);
    assert_int_equal(t_spawn(measure, &out, NULL), 0);
    line = strchr(out, '\n');
    assert_non_null(line);
    text = strtol(line, &end, 10);
    assert_ptr_not_equal(end, line);
    data = strtol(end, &end, 10);
    assert_true(text >= 0 && data > 0);
    free(out);
    return text + data;
}

static const char compile_plain[] =
    "  key string unique notempty\n  agent_id string?\n  channel_type string?\n"
    "  channel_id string?\n  model string?\n  metadata json?\n  count int = 1\n"
    "  created_at time = now immutable\n  updated_at time = now on_update\n  uid uuid = random\n"
    "  index (updated_at)\n";

static const char compile_mixed[] =
    "  count int = 5 range(0..9)\n  ratio float = 0.5\n  ok bool = true\n"
    "  title string unique notempty len(1..64)\n  body text?\n  data bytes?\n"
    "  made_at time = now on_update\n  uid uuid = random\n  meta json = \"{}\"\n"
    "  kind enum(red, green, blue) = red\n";

static void one_entity_of_ten_fields_keeps_its_budget(void **state)
{
    static const char *const shapes[] = {compile_plain, compile_mixed};

    (void)state;
    if (!t_has_program("gcc") || !t_has_program("size")) {
        skip();
    }
    for (size_t i = 0; i < 2; i++) {
        const char *dir = t_tmpdir();
        size_t lines = compile_write(1, shapes[i], dir);
        long bytes = compile_object_size(dir);
        printf("one entity of ten fields: %zu lines, %ld bytes\n", lines, bytes);
        assert_true(lines <= COMPILE_LINES_MAX);
        assert_true(bytes <= COMPILE_OBJECT_MAX);
    }
}

static void many_entities_keep_the_budget(void **state)
{
    const char *dir = t_tmpdir();
    size_t lines = compile_write(COMPILE_ENTITIES, compile_mixed, dir);
    long bytes;

    (void)state;
    assert_true(lines <= (size_t)COMPILE_ENTITIES * COMPILE_LINES_MAX);
    if (!t_has_program("gcc") || !t_has_program("size")) {
        skip();
    }
    bytes = compile_object_size(dir);
    printf("%d entities of ten fields: %zu lines, %ld bytes\n", COMPILE_ENTITIES, lines, bytes);
    assert_true(bytes <= (long)COMPILE_ENTITIES * COMPILE_OBJECT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_code_is_clean_under_gcc),
        cmocka_unit_test(generated_code_is_clean_under_clang),
        cmocka_unit_test(the_header_is_clean_under_gxx),
        cmocka_unit_test(the_header_is_clean_under_clangxx),
        cmocka_unit_test(one_entity_of_ten_fields_keeps_its_budget),
        cmocka_unit_test(many_entities_keep_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
