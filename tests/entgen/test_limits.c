/* Every named limit of the generator, at its maximum and one past it. */
#include "entgen/t_entgen.h"

#include "entgen/run.h"

/* "head, then `n` times `item` with the number put in, then tail" is good or bad as asked. */
static void limits_repeat(const char *head, const char *item, size_t n, const char *tail,
                          const char *error)
{
    eg_run run;
    eg_schema schema;
    qp_buf text;
    bool good;

    qp_buf_init(&text, EG_SOURCE_MAX);
    qp_buf_puts(&text, head);
    for (size_t i = 0; i < n; i++) {
        for (const char *c = item; *c != '\0'; c++) {
            if (*c == '#') {
                qp_buf_u64(&text, i);
            } else {
                qp_buf_putc(&text, *c);
            }
        }
    }
    qp_buf_puts(&text, tail);
    assert_int_equal(qp_buf_status(&text), QUIPU_OK);
    good = t_load(&run, &schema, qp_buf_str(&text));
    if (error == NULL) {
        assert_string_equal(qp_buf_str(&run.errors).p, "");
    } else if (strstr(qp_buf_str(&run.errors).p, error) == NULL) {
        fail_msg("expected %s, found %s", error, qp_buf_str(&run.errors).p);
    }
    assert_int_equal(good, error == NULL);
    eg_run_free(&run);
    qp_buf_free(&text);
}

/* A run of one letter. */
static const char *limits_letters(char buffer[2048], char letter, size_t n)
{
    assert_true(n < 2048);
    memset(buffer, letter, n);
    buffer[n] = '\0';
    return buffer;
}

/* `format` with a run of `n` letters in place of its %s. */
static void limits_run(const char *before, char letter, size_t n, const char *after,
                       const char *errors)
{
    char letters[2048];
    char text[4096];

    (void)snprintf(text, sizeof(text), "%s%s%s", before, limits_letters(letters, letter, n), after);
    t_bad(text, errors);
}

static void views_classes_and_headers(void **state)
{
    (void)state;
    limits_repeat("entity Thing {\n  x int\n", "  view v# \"s\"\n", EG_VIEWS_MAX, "}\n", NULL);
    limits_repeat("entity Thing {\n  x int\n", "  view v# \"s\"\n", EG_VIEWS_MAX + 1, "}\n",
                  "entity Thing has 65 views, expected at most 64");
    limits_repeat("schema t {\n  classes (a", ", a#", EG_CLASSES_MAX - 1,
                  ")\n}\nentity Thing {\n  x int class a\n}\n", NULL);
    limits_repeat("schema t {\n  classes (a", ", a#", EG_CLASSES_MAX,
                  ")\n}\nentity Thing {\n  x int class a\n}\n", "32 classes, expected at most 31");
    limits_repeat("schema t {\n", "  include \"h#\"\n", EG_INCLUDES_MAX,
                  "}\nentity Thing {\n  x int\n}\n", NULL);
    limits_repeat("schema t {\n", "  include \"h#\"\n", EG_INCLUDES_MAX + 1,
                  "}\nentity Thing {\n  x int\n}\n", "65 headers, expected at most 64");
}

static void fields_of_an_entity(void **state)
{
    (void)state;
    limits_repeat("entity Thing {\n", "  x# int\n", ENT_FIELDS_MAX - 1, "}\n", NULL);
    limits_repeat("entity Thing {\n", "  x# int\n", ENT_FIELDS_MAX, "}\n",
                  "entity Thing has 121 fields, expected at most 120");
}

static void fields_of_an_index(void **state)
{
    (void)state;
    t_good("entity Thing {\n  a int\n  b int\n  c int\n  d int\n  e int\n  f int\n  g int\n"
           "  index (a, b, c, d, e, f)\n  key (a, b, c, d, e, f)\n}\n");
    t_bad("entity Thing {\n  a int\n  b int\n  c int\n  d int\n  e int\n  f int\n  g int\n"
          "  index (a, b, c, d, e, f, g)\n}\n",
          "t.ent:9:10: error: a list of 7 fields, expected at most 6\n");
    t_bad("entity Thing {\n  a int\n  b int\n  c int\n  d int\n  e int\n  f int\n  g int\n"
          "  key (a, b, c, d, e, f, g)\n}\n",
          "t.ent:9:8: error: a list of 7 fields, expected at most 6\n");
}

static void labels_of_an_enum(void **state)
{
    (void)state;
    limits_repeat("entity Thing {\n  x enum(first", ", l#", EG_LABELS_MAX - 1, ")\n}\n", NULL);
    limits_repeat("entity Thing {\n  x enum(first", ", l#", EG_LABELS_MAX, ")\n}\n",
                  "an enum of 256 labels, expected at most 255");
}

static void indexes_of_an_entity(void **state)
{
    (void)state;
    limits_repeat("entity Thing {\n", "  x# int unique\n", EG_INDEXES_MAX, "}\n", NULL);
    limits_repeat("entity Thing {\n", "  x# int unique\n", EG_INDEXES_MAX + 1, "}\n",
                  "entity Thing has 65 indexes, expected at most 64");
}

static void edges_of_an_entity(void **state)
{
    eg_run run;
    eg_schema schema;

    (void)state;
    for (size_t n = EG_EDGES_MAX; n <= EG_EDGES_MAX + 1; n++) {
        qp_buf text;
        qp_buf_init(&text, EG_SOURCE_MAX);
        qp_buf_puts(&text, "entity Owner {\n");
        for (size_t i = 0; i < n; i++) {
            qp_buf_printf(&text, "  edge e%zu -> Part%zu[] cascade\n", i, i);
        }
        qp_buf_puts(&text, "}\n");
        for (size_t i = 0; i < n; i++) {
            qp_buf_printf(&text, "entity Part%zu {\n  edge owner <- Owner.e%zu\n}\n", i, i);
        }
        assert_int_equal(t_load(&run, &schema, qp_buf_str(&text)), n == EG_EDGES_MAX);
        if (n > EG_EDGES_MAX) {
            assert_string_equal(
                qp_buf_str(&run.errors).p,
                "t.ent:1:8: error: entity Owner has 65 edges, expected at most 64\n");
        }
        eg_run_free(&run);
        qp_buf_free(&text);
    }
}

static void entities_of_a_schema(void **state)
{
    (void)state;
    limits_repeat("", "entity E# {\n  x int\n}\n", EG_ENTITIES_MAX, "", NULL);
    limits_repeat("", "entity E# {\n  x int\n}\n", EG_ENTITIES_MAX + 1, "",
                  "4097 entities, expected at most 4096");
}

static void bytes_of_a_name(void **state)
{
    (void)state;
    limits_run("entity Thing {\n  ", 'x', EG_NAME_MAX, " int\n}\n", "");
    limits_run("entity Thing {\n  ", 'x', EG_NAME_MAX + 1, " int\n}\n",
               "t.ent:2:3: error: a name of 40 bytes, expected at most 39\n");
    limits_run("entity ", 'X', EG_NAME_MAX, " {\n  x int\n}\n", "");
    limits_run("entity ", 'X', EG_NAME_MAX + 1, " {\n  x int\n}\n",
               "t.ent:1:8: error: a name of 40 bytes, expected at most 39\n");
}

static void bytes_of_an_edge_name(void **state)
{
    char name[2048];
    char text[4096];

    (void)state;
    (void)snprintf(
        text, sizeof(text),
        "entity Aa {\n  edge bs -> Bb[] cascade\n}\nentity Bb {\n  edge %s <- Aa.bs\n}\n",
        limits_letters(name, 'x', EG_NAME_MAX - 3));
    t_good(text);
    (void)snprintf(
        text, sizeof(text),
        "entity Aa {\n  edge bs -> Bb[] cascade\n}\nentity Bb {\n  edge %s <- Aa.bs\n}\n",
        limits_letters(name, 'x', EG_NAME_MAX - 2));
    t_bad(text, "t.ent:5:8: error: an edge name of 37 bytes, expected at most 36: its key is "
                "called <edge>_id\n");
}

static void bytes_of_a_sql_name(void **state)
{
    (void)state;
    limits_run("entity Thing table \"", 't', EG_SQL_NAME_MAX, "\" {\n  x int\n}\n", "");
    limits_run("entity Thing table \"", 't', EG_SQL_NAME_MAX + 1, "\" {\n  x int\n}\n",
               "t.ent:1:20: error: a name of 64 bytes, expected 1 to 63\n");
    limits_run("entity Thing {\n  x int column \"", 'c', EG_SQL_NAME_MAX, "\"\n}\n", "");
    limits_run("entity Thing {\n  x int column \"", 'c', EG_SQL_NAME_MAX + 1, "\"\n}\n",
               "t.ent:2:16: error: a name of 64 bytes, expected 1 to 63\n");
}

static void a_derived_index_name_is_cut_and_stays_unique(void **state)
{
    eg_run run;
    eg_schema schema;
    const eg_entity *entity;

    (void)state;
    assert_true(t_load(&run, &schema,
                       QUIPU_STR("entity Thing {\n  a_name_of_thirty_characters_01 int\n"
                                 "  a_name_of_thirty_characters_02 int\n"
                                 "  a_name_of_thirty_characters_03 int\n"
                                 "  index (a_name_of_thirty_characters_01, "
                                 "a_name_of_thirty_characters_02)\n"
                                 "  index (a_name_of_thirty_characters_01, "
                                 "a_name_of_thirty_characters_03)\n}\n")));
    entity = eg_entity_at(&schema, 0);
    assert_int_equal(strlen(eg_index_at(entity, 0)->name.text), EG_SQL_NAME_MAX);
    assert_int_equal(strlen(eg_index_at(entity, 1)->name.text), EG_SQL_NAME_MAX);
    assert_string_not_equal(eg_index_at(entity, 0)->name.text, eg_index_at(entity, 1)->name.text);
    eg_run_free(&run);
}

static void bytes_of_a_default(void **state)
{
    (void)state;
    limits_run("entity Thing {\n  x text = \"", 'd', EG_DEFAULT_MAX, "\"\n}\n", "");
    limits_run("entity Thing {\n  x text = \"", 'd', EG_DEFAULT_MAX + 1, "\"\n}\n",
               "t.ent:2:12: error: a default of 1025 bytes, expected at most 1024\n");
    limits_run("entity Thing {\n  x json = \"", '1', EG_DEFAULT_MAX, "\"\n}\n", "");
    limits_run("entity Thing {\n  x json = \"", '1', EG_DEFAULT_MAX + 1, "\"\n}\n",
               "t.ent:2:12: error: a default of 1025 bytes, expected at most 1024\n");
}

static void lengths_of_rules(void **state)
{
    (void)state;
    t_good("entity Thing {\n  x string len(0..65535)\n  y bytes len(0..134217728)\n}\n");
    t_bad("entity Thing {\n  x string len(0..65536)\n}\n",
          "t.ent:2:19: error: a length of 65536, expected 0 to 65535\n");
    t_bad("entity Thing {\n  x text len(0..134217729)\n}\n",
          "t.ent:2:17: error: a length of 134217729, expected 0 to 134217728\n");
}

static void integers_at_the_ends(void **state)
{
    (void)state;
    t_good("entity Thing {\n  x int = -9223372036854775808\n  y int = 9223372036854775807\n"
           "  z int range(-9223372036854775808..9223372036854775807)\n}\n");
    t_bad("entity Thing {\n  x int = -9223372036854775809\n}\n",
          "t.ent:2:11: error: -9223372036854775809 does not fit 64 bits\n");
    t_good("schema s {\n  application_id 0xffffffff\n  version 4294967295\n}\n"
           "entity Thing {\n  x int\n}\n");
    t_bad("schema s {\n  version 4294967296\n}\nentity Thing {\n  x int\n}\n",
          "t.ent:2:11: error: found '4294967296', expected a number from 1 to 4294967295 for "
          "version\n");
}

static void bytes_of_a_source(void **state)
{
    size_t sizes[] = {EG_SOURCE_MAX, EG_SOURCE_MAX + 1};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        static const char head[] = "entity Thing {\n  x int\n}\n#";
        char *text = test_malloc(sizes[i]);
        eg_run run;
        eg_schema schema;
        memset(text, '-', sizes[i]);
        memcpy(text, head, sizeof(head) - 1);
        assert_int_equal(t_load(&run, &schema, (quipu_str){text, sizes[i]}), i == 0);
        if (i == 1) {
            assert_string_equal(
                qp_buf_str(&run.errors).p,
                "t.ent: error: a file of 4194305 bytes, expected at most 4194304\n");
        }
        eg_run_free(&run);
        test_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_an_entity),
        cmocka_unit_test(fields_of_an_index),
        cmocka_unit_test(labels_of_an_enum),
        cmocka_unit_test(indexes_of_an_entity),
        cmocka_unit_test(edges_of_an_entity),
        cmocka_unit_test(entities_of_a_schema),
        cmocka_unit_test(bytes_of_a_name),
        cmocka_unit_test(bytes_of_an_edge_name),
        cmocka_unit_test(bytes_of_a_sql_name),
        cmocka_unit_test(a_derived_index_name_is_cut_and_stays_unique),
        cmocka_unit_test(bytes_of_a_default),
        cmocka_unit_test(lengths_of_rules),
        cmocka_unit_test(views_classes_and_headers),
        cmocka_unit_test(integers_at_the_ends),
        cmocka_unit_test(bytes_of_a_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
