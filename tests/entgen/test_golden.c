/* Output against committed files, byte for byte. After a wanted change run this program with
 * ENTGEN_UPDATE=1 in the environment and read the difference before committing it. */
#include "entgen/t_entgen.h"

#include "entgen/emit.h"
#include "entgen/run.h"
#include "entgen/schema.h"

typedef void (*golden_emit_fn)(eg_run *run, const eg_schema *schema, qp_buf *out);

static const struct {
    const char *ending;
    golden_emit_fn emit;
} golden_outputs[] = {{"h", eg_emit_header},
                      {"c", eg_emit_source},
                      {"json", eg_emit_json},
                      {"mmd", eg_emit_mermaid},
                      {"sql", eg_emit_sql}};

static const char *const golden_names[] = {"seeds", "every", "small", "views"};

/* What only a schema with views has. */
static const struct {
    const char *ending;
    golden_emit_fn emit;
} golden_bindings[] = {{"py", eg_emit_python}, {"go", eg_emit_go}};

static void golden_path(const char *name, const char *ending, char ret_path[T_PATH_MAX])
{
    (void)snprintf(ret_path, T_PATH_MAX, "%s/tests/entgen/golden/%s.%s", QUIPU_SOURCE_DIR, name,
                   ending);
}

static void golden_load(eg_run *run, eg_schema *schema, const char *name)
{
    char path[T_PATH_MAX];
    const char *files[] = {path};

    golden_path(name, "ent", path);
    eg_run_init(run);
    eg_schema_init(schema);
    if (!eg_schema_load(run, schema, files, 1)) {
        fail_msg("%s", qp_buf_str(&run->errors).p);
    }
}

static void golden_compare(const char *name, const char *ending, golden_emit_fn emit)
{
    char path[T_PATH_MAX];
    eg_run run;
    eg_schema schema;
    qp_buf text;

    golden_load(&run, &schema, name);
    qp_buf_init(&text, EG_OUTPUT_MAX);
    emit(&run, &schema, &text);
    T_OK(qp_buf_status(&text));
    golden_path(name, ending, path);
    if (getenv("ENTGEN_UPDATE") != NULL) {
        t_file_write(path, qp_buf_str(&text).p, text.n);
    } else {
        char *expected = t_file_read(path, NULL);
        if (strcmp(expected, qp_buf_str(&text).p) != 0) {
            fail_msg("%s differs; ENTGEN_UPDATE=1 writes it anew", path);
        }
        free(expected);
    }
    qp_buf_free(&text);
    eg_run_free(&run);
}

static void output_equals_the_committed_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(golden_names) / sizeof(golden_names[0]); i++) {
        for (size_t j = 0; j < sizeof(golden_outputs) / sizeof(golden_outputs[0]); j++) {
            golden_compare(golden_names[i], golden_outputs[j].ending, golden_outputs[j].emit);
        }
    }
}

static void bindings_equal_the_committed_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(golden_bindings) / sizeof(golden_bindings[0]); i++) {
        golden_compare("views", golden_bindings[i].ending, golden_bindings[i].emit);
    }
}

static void lines_stay_within_the_columns(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(golden_names) / sizeof(golden_names[0]); i++) {
        for (size_t j = 0; j < 2; j++) {
            eg_run run;
            eg_schema schema;
            qp_buf text;
            size_t columns = 0;
            golden_load(&run, &schema, golden_names[i]);
            qp_buf_init(&text, EG_OUTPUT_MAX);
            golden_outputs[j].emit(&run, &schema, &text);
            for (size_t k = 0; k < text.n; k++) {
                columns = text.p[k] == '\n' ? 0 : columns + 1;
                assert_true(columns <= EG_COLUMNS);
            }
            qp_buf_free(&text);
            eg_run_free(&run);
        }
    }
}

static void a_schema_in_parts_gives_the_same_code(void **state)
{
    static const char head[] = "entity Aa {\n  x int\n}\n";
    static const char both[] = "entity Aa {\n  x int\n}\nentity Bb {\n  y enum(p, q)\n}\n";
    static const char tail[] = "entity Bb {\n  y enum(p, q)\n}\n";
    char paths[3][T_PATH_MAX];
    const char *dir = t_tmpdir();
    qp_buf texts[2];

    (void)state;
    t_path(dir, "one.ent", paths[0]);
    t_path(dir, "two.ent", paths[1]);
    t_path(t_tmpdir(), "one.ent", paths[2]);
    t_file_write(paths[0], head, sizeof(head) - 1);
    t_file_write(paths[1], tail, sizeof(tail) - 1);
    t_file_write(paths[2], both, sizeof(both) - 1);
    for (size_t i = 0; i < 2; i++) {
        const char *files[] = {paths[i == 0 ? 0 : 2], paths[1]};
        eg_run run;
        eg_schema schema;
        eg_run_init(&run);
        eg_schema_init(&schema);
        assert_true(eg_schema_load(&run, &schema, files, i == 0 ? 2 : 1));
        qp_buf_init(&texts[i], EG_OUTPUT_MAX);
        eg_emit_json(&run, &schema, &texts[i]);
        eg_run_free(&run);
    }
    assert_string_equal(qp_buf_str(&texts[0]).p, qp_buf_str(&texts[1]).p);
    qp_buf_free(&texts[0]);
    qp_buf_free(&texts[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_equals_the_committed_files),
        cmocka_unit_test(bindings_equal_the_committed_files),
        cmocka_unit_test(lines_stay_within_the_columns),
        cmocka_unit_test(a_schema_in_parts_gives_the_same_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
