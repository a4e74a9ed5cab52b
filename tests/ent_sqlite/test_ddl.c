/* DDL text from descriptors: what SQLite gets to read, and that it means what the schema says. */
#include "crash/model.h"

#include "ent_sqlite/ddl.h"

static void ddl_expect(qp_buf *out, const char *expected)
{
    T_OK(qp_buf_status(out));
    T_STR(qp_buf_str(out), expected);
    qp_buf_reset(out);
}

static void table_has_quoted_names_types_and_constant_defaults(void **state)
{
    static const char *const labels[] = {"", "on", "off", NULL};
    model m;
    ent_entity *e = NULL;
    qp_buf out;

    (void)state;
    model_begin(&m, 0);
    e = model_entity(&m, "Odd", "odd \"table\"");
    model_field(&m, e, "i", ENT_INT, ENT_F_DEFAULT)->default_int = -5;
    model_field(&m, e, "f", ENT_FLOAT, ENT_F_DEFAULT)->default_float = 2;
    model_field(&m, e, "b", ENT_BOOL, ENT_F_DEFAULT)->default_int = 1;
    model_field(&m, e, "t", ENT_TEXT, ENT_F_DEFAULT)->default_text = "it's";
    model_field(&m, e, "e", ENT_ENUM, ENT_F_DEFAULT)->default_text = "on";
    model_fields(e)[5].labels = labels;
    (void)model_field(&m, e, "x", ENT_BYTES, ENT_F_NULLABLE);
    (void)model_field(&m, e, "w", ENT_TIME, ENT_F_NOW);
    (void)model_field(&m, e, "u", ENT_UUID, ENT_F_RANDOM);
    (void)model_field(&m, e, "j", ENT_JSON, ENT_F_NULLABLE);
    (void)model_end(&m);
    qp_buf_init(&out, 1 << 20);
    T_OK(qp_sqlite_ddl_table(e, (quipu_str){NULL, 0}, &out));
    ddl_expect(&out,
               "CREATE TABLE \"odd \"\"table\"\"\" (\"id\" integer NOT NULL PRIMARY KEY "
               "AUTOINCREMENT, \"i\" integer NOT NULL DEFAULT (-5), \"f\" real NOT NULL "
               "DEFAULT (2.0), \"b\" bool NOT NULL DEFAULT (1), \"t\" text NOT NULL DEFAULT "
               "('it''s'), \"e\" text NOT NULL DEFAULT ('on'), \"x\" blob, \"w\" datetime NOT "
               "NULL, \"u\" uuid NOT NULL, \"j\" text)");
    T_OK(qp_sqlite_ddl_table(e, QUIPU_STR("other"), &out));
    assert_int_equal(strncmp(qp_buf_str(&out).p, "CREATE TABLE \"other\" (", 22), 0);
    qp_buf_free(&out);
    model_free(&m);
}

static void keys_take_the_form_that_the_entity_asks_for(void **state)
{
    model m;
    ent_entity *uuid = NULL;
    ent_entity *pair = NULL;
    ent_entity *cluster = NULL;
    qp_buf out;

    (void)state;
    model_begin(&m, 0);
    uuid = model_bare(&m, "U", "us");
    (void)model_field(&m, uuid, "id", ENT_UUID, ENT_F_RANDOM);
    uuid->key_count = 1;
    pair = model_bare(&m, "P", "ps");
    (void)model_field(&m, pair, "a", ENT_INT, 0);
    (void)model_field(&m, pair, "b", ENT_TEXT, 0);
    pair->key_count = 2;
    pair->key[0] = 1;
    cluster = model_bare(&m, "C", "cs");
    (void)model_field(&m, cluster, "owner", ENT_INT, 0);
    (void)model_field(&m, cluster, "seq", ENT_INT, 0);
    cluster->key_count = 2;
    cluster->key[1] = 1;
    cluster->flags = ENT_E_CLUSTER;
    qp_buf_init(&out, 1 << 20);
    T_OK(qp_sqlite_ddl_table(uuid, (quipu_str){NULL, 0}, &out));
    ddl_expect(&out, "CREATE TABLE \"us\" (\"id\" uuid NOT NULL, PRIMARY KEY (\"id\"))");
    T_OK(qp_sqlite_ddl_table(pair, (quipu_str){NULL, 0}, &out));
    ddl_expect(&out,
               "CREATE TABLE \"ps\" (\"a\" integer NOT NULL, \"b\" text NOT NULL, PRIMARY KEY "
               "(\"b\", \"a\")) WITHOUT ROWID");
    T_OK(qp_sqlite_ddl_table(cluster, (quipu_str){NULL, 0}, &out));
    ddl_expect(&out, "CREATE TABLE \"cs\" (\"id\" integer NOT NULL PRIMARY KEY, \"owner\" integer "
                     "NOT NULL, \"seq\" integer NOT NULL)");
    qp_buf_free(&out);
    model_free(&m);
}

static void references_indexes_and_search_are_written(void **state)
{
    static const uint8_t search[] = {2};
    static const char *const rules[] = {"CASCADE", "RESTRICT", "SET NULL"};
    qp_buf out;

    (void)state;
    qp_buf_init(&out, 1 << 20);
    for (int rule = ENT_CASCADE; rule <= ENT_SET_NULL; rule++) {
        model m;
        ent_entity *a = NULL;
        ent_entity *b = NULL;
        char expected[256];

        model_begin(&m, 0x51495055);
        a = model_entity(&m, "A", "as");
        b = model_entity(&m, "B", "bs");
        (void)model_field(&m, b, "a_id", ENT_INT, ENT_F_NULLABLE);
        (void)model_field(&m, b, "text", ENT_TEXT, 0);
        model_edge(&m, b, "owner", a, "bs", 1, (ent_on_delete)rule);
        model_index(&m, b, "b_text", true, 2, 1)->desc = 2;
        T_OK(qp_sqlite_ddl_table(b, (quipu_str){NULL, 0}, &out));
        (void)snprintf(expected, sizeof(expected),
                       "CONSTRAINT \"bs_as_owner\" FOREIGN KEY (\"a_id\") REFERENCES \"as\" "
                       "(\"id\") ON DELETE %s)",
                       rules[rule - 1]);
        assert_non_null(strstr(qp_buf_str(&out).p, expected));
        qp_buf_reset(&out);
        T_OK(qp_sqlite_ddl_index(b, &b->indexes[0], (quipu_str){NULL, 0}, &out));
        ddl_expect(&out, "CREATE UNIQUE INDEX \"b_text\" ON \"bs\" (\"text\", \"a_id\" DESC)");
        b->search_fields = search;
        b->search_count = 1;
        b->flags = ENT_E_SEARCH_MANUAL;
        T_OK(qp_sqlite_ddl_search(b, &out));
        ddl_expect(&out, "CREATE VIRTUAL TABLE IF NOT EXISTS \"bs_search\" USING fts5(\"text\", "
                         "content='bs', content_rowid='id')");
        model_free(&m);
    }
    qp_buf_free(&out);
}

static void schema_text_runs_in_sqlite_and_is_then_current(void **state)
{
    static const uint8_t search[] = {1};
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    ent_entity *lines = NULL;
    qp_buf out;

    (void)state;
    model_begin(&m, 0xfffffff0u);
    lines = model_entity(&m, "Line", "lines");
    notes = model_entity(&m, "Note", "it's \"notes\"");
    (void)model_field(&m, notes, "title", ENT_TEXT, 0);
    (void)model_index(&m, notes, "note_title", false, 1, 0);
    (void)model_field(&m, lines, "note_id", ENT_INT, 0);
    model_edge(&m, lines, "note", notes, "lines", 1, ENT_CASCADE);
    notes->flags = ENT_E_SEARCH;
    notes->search_fields = search;
    notes->search_count = 1;
    (void)model_end(&m);
    qp_buf_init(&out, 1 << 20);
    T_OK(qp_sqlite_ddl_schema(&m.schema, &out));
    t_path(t_tmpdir(), "store.db", path);
    model_exec(path, qp_buf_str(&out).p);
    model_check(path, "PRAGMA application_id", "-16\n");
    model_exec(path, "INSERT INTO \"it's \"\"notes\"\"\" (title) VALUES ('red car')");
    model_check(path,
                "SELECT rowid FROM \"it's \"\"notes\"\"_search\" WHERE "
                "\"it's \"\"notes\"\"_search\" MATCH 'car'",
                "1\n");
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 1); /* the journal's table */
    qp_buf_free(&out);
    model_free(&m);
}

static void column_fits_only_what_keeps_its_values(void **state)
{
    static const struct {
        uint8_t type;
        const char *declared;
        bool fits;
    } cases[] = {
        {ENT_INT, "integer", true},   {ENT_INT, "BIGINT", true},      {ENT_INT, "numeric", true},
        {ENT_INT, "text", false},     {ENT_INT, "real", false},       {ENT_FLOAT, "double", true},
        {ENT_FLOAT, "FLOAT", true},   {ENT_FLOAT, "text", false},     {ENT_BOOL, "bool", true},
        {ENT_BOOL, "integer", true},  {ENT_TEXT, "varchar(3)", true}, {ENT_TEXT, "", true},
        {ENT_TEXT, "numeric", false}, {ENT_TEXT, "integer", false},   {ENT_BYTES, "blob", true},
        {ENT_BYTES, "text", false},   {ENT_TIME, "datetime", true},   {ENT_TIME, "text", true},
        {ENT_TIME, "integer", false}, {ENT_UUID, "uuid", true},       {ENT_UUID, "char(36)", true},
        {ENT_ENUM, "text", true},     {ENT_ENUM, "json", false},      {ENT_JSON, "json", true},
        {ENT_JSON, "text", true},     {ENT_JSON, "jsonb", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const ent_field field = {.name = "f", .column = "f", .type = cases[i].type};
        const qp_column column = {.name = "f", .declared = cases[i].declared};
        if (qp_sqlite_column_fits(&field, &column) != cases[i].fits) {
            fail_msg("type %d in a column declared \"%s\"", cases[i].type, cases[i].declared);
        }
    }
}

static void declared_type_with_odd_text_cannot_inject(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    qp_column extra[] = {{.name = "a", .declared = "int, evil text"},
                         {.name = "b", .declared = "decimal(10, 2)", .default_text = "1 + 1"},
                         {.name = "c", .declared = "x) ; DROP TABLE y; --"},
                         {.name = "d", .declared = "", .not_null = true}};
    qp_ddl change = {.kind = QP_DDL_TABLE, .extra = extra, .extra_count = 4};
    qp_buf out;

    (void)state;
    model_begin(&m, 0);
    notes = model_entity(&m, "Note", "notes");
    change.entity = notes;
    qp_buf_init(&out, 1 << 20);
    qp_sqlite_write_ddl(&change, &out);
    t_path(t_tmpdir(), "store.db", path);
    model_exec(path, qp_buf_str(&out).p);
    model_check(path, "SELECT name, dflt_value, \"notnull\" FROM pragma_table_info('notes')",
                "id|NULL|1\na|NULL|0\nb|1 + 1|0\nc|NULL|0\nd|NULL|0\n");
    qp_buf_free(&out);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_has_quoted_names_types_and_constant_defaults),
        cmocka_unit_test(keys_take_the_form_that_the_entity_asks_for),
        cmocka_unit_test(references_indexes_and_search_are_written),
        cmocka_unit_test(schema_text_runs_in_sqlite_and_is_then_current),
        cmocka_unit_test(column_fits_only_what_keeps_its_values),
        cmocka_unit_test(declared_type_with_odd_text_cannot_inject),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
