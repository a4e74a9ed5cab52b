/* The canonical text: written from descriptors, read back as the same schema, the same bytes every
 * time. Also for schemas made by chance. */
#include "entgen/t_entgen.h"

#include "ent/schema_text.h"
#include "entgen/run.h"

static void roundtrip_text(const eg_schema *schema, qp_buf *out)
{
    qp_buf_init(out, EG_OUTPUT_MAX);
    T_OK(qp_schema_text(schema->described, true, out));
}

/* text -> schema -> canonical -> schema -> canonical: the last two are equal, and the hashes. */
static void roundtrip_check(quipu_str source)
{
    eg_run runs[2];
    eg_schema schemas[2];
    qp_buf texts[2];

    if (!t_load(&runs[0], &schemas[0], source)) {
        fail_msg("%s\n%s", qp_buf_str(&runs[0].errors).p, source.p);
    }
    roundtrip_text(&schemas[0], &texts[0]);
    if (!t_load(&runs[1], &schemas[1], qp_buf_str(&texts[0]))) {
        fail_msg("%s\n%s", qp_buf_str(&runs[1].errors).p, qp_buf_str(&texts[0]).p);
    }
    roundtrip_text(&schemas[1], &texts[1]);
    assert_string_equal(qp_buf_str(&texts[0]).p, qp_buf_str(&texts[1]).p);
    assert_string_equal(schemas[0].hash, schemas[1].hash);
    for (size_t i = 0; i < 2; i++) {
        qp_buf_free(&texts[i]);
        eg_run_free(&runs[i]);
    }
}

static void committed_schemas_come_back(void **state)
{
    static const char *const files[] = {
        "tests/entgen/golden/seeds.ent", "tests/entgen/golden/every.ent",
        "tests/entgen/golden/small.ent", "schema/quipu.ent", "schema/foreign/lango.ent"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[T_PATH_MAX];
        size_t size = 0;
        char *text;
        (void)snprintf(path, sizeof(path), "%s/%s", QUIPU_SOURCE_DIR, files[i]);
        if (!t_file_exists(path)) {
            continue; /* a schema of another room may move */
        }
        text = t_file_read(path, &size);
        roundtrip_check((quipu_str){text, size});
        free(text);
    }
}

static void roundtrip_random_default(uint64_t *seed, int type, qp_buf *out)
{
    switch (type) {
    case 0:
        qp_buf_printf(out, " = %lld", (long long)(int64_t)t_random(seed));
        break;
    case 1: {
        double value = (double)(int64_t)t_random(seed) / 1048576.0;
        qp_buf_printf(out, " = %.17e", value);
        break;
    }
    case 2:
        qp_buf_puts(out, t_random_below(seed, 2) == 0 ? " = true" : " = false");
        break;
    case 3:
    case 4:
        qp_buf_puts(out, " = \"a\\\\b\\\"c\\n\\t\\r \xc3\xbc # not a comment\"");
        break;
    case 6:
        qp_buf_puts(out, " = now");
        break;
    case 7:
        qp_buf_puts(out, " = random");
        break;
    case 8:
        qp_buf_puts(out, " = \"[1e3, {\\\"a\\\": null}]\"");
        break;
    case 9:
        qp_buf_puts(out, " = beta");
        break;
    default:
        break;
    }
}

static void roundtrip_random_field(uint64_t *seed, size_t number, qp_buf *out)
{
    static const char *const types[] = {"int",   "float", "bool", "string", "text",
                                        "bytes", "time",  "uuid", "json",   "enum(alpha, beta)"};
    int type = (int)t_random_below(seed, 10);

    qp_buf_printf(out, "  f%zu %s%s", number, types[type], t_random_below(seed, 3) == 0 ? "?" : "");
    if (t_random_below(seed, 2) == 0) {
        roundtrip_random_default(seed, type, out);
    }
    if (t_random_below(seed, 4) == 0 && type != 6) {
        qp_buf_puts(out, " immutable");
    }
    if (type == 6 && t_random_below(seed, 2) == 0) {
        qp_buf_puts(out, " on_update");
    }
    if (t_random_below(seed, 4) == 0) {
        qp_buf_printf(out, " column \"c \\\"%zu\\\"\"", number);
    }
    if (t_random_below(seed, 4) == 0) {
        qp_buf_printf(out, " was \"w%zu\"", number);
    }
    if (type != 8 && type != 2 && t_random_below(seed, 4) == 0) {
        qp_buf_puts(out, " unique");
    }
    qp_buf_putc(out, '\n');
}

static void roundtrip_random_schema(uint64_t *seed, qp_buf *out)
{
    static const char *const rules[] = {"cascade", "restrict", "set_null"};
    size_t entities = 1 + (size_t)t_random_below(seed, 4);

    qp_buf_printf(out, "schema chance {\n  application_id %u\n}\n", (unsigned)t_random(seed));
    for (size_t i = 0; i < entities; i++) {
        size_t fields = 1 + (size_t)t_random_below(seed, 9);
        qp_buf_printf(out, "entity E%zu {\n", i);
        if (i > 0) {
            qp_buf_printf(out, "  edge up <- E%zu.down%zu ?\n", i - 1, i);
        }
        for (size_t j = 0; j < fields; j++) {
            roundtrip_random_field(seed, j, out);
        }
        if (i + 1 < entities) {
            qp_buf_printf(out, "  edge down%zu -> E%zu%s %s\n", i + 1, i + 1,
                          t_random_below(seed, 2) == 0 ? "[]" : "", rules[t_random_below(seed, 3)]);
        }
        if (i > 0 && t_random_below(seed, 2) == 0) {
            qp_buf_puts(out, "  unique index (up, id desc)\n");
        }
        qp_buf_puts(out, "}\n");
    }
}

static void schemas_made_by_chance_come_back(void **state)
{
    uint64_t seed = t_seed();
    int64_t count = t_count(300, 20000);

    (void)state;
    for (int64_t i = 0; i < count; i++) {
        qp_buf text;
        qp_buf_init(&text, EG_SOURCE_MAX);
        roundtrip_random_schema(&seed, &text);
        roundtrip_check(qp_buf_str(&text));
        qp_buf_free(&text);
    }
}

static void roundtrip_hash(const char *text, char ret_hash[17])
{
    eg_run run;
    eg_schema schema;

    assert_true(t_load(&run, &schema, quipu_cstr(text)));
    memcpy(ret_hash, schema.hash, 17);
    eg_run_free(&run);
}

static void the_hash_is_about_meaning(void **state)
{
    char a[17];
    char b[17];

    (void)state;
    roundtrip_hash("entity Thing { x int unique }", a);
    roundtrip_hash("schema t {\n  prefix pre\n}\n## A comment.\nentity Thing table \"things\" {\n"
                   "  x   int  # another\n  unique index (x) name \"things_x_key\"\n}\n",
                   b);
    assert_string_equal(a, b);
    roundtrip_hash("entity Thing { x int? unique }", b);
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_schemas_come_back),
        cmocka_unit_test(schemas_made_by_chance_come_back),
        cmocka_unit_test(the_hash_is_about_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
