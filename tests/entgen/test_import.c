/* `entgen import`: the schema of an existing file parses again and needs no change to that file. */
#include "entgen/t_entgen.h"

#include <sqlite3.h>

#include "ent/diff.h"
#include "ent_sqlite/inspect.h"
#include "entgen/import.h"
#include "entgen/run.h"

/* Import a file; the text is in `out`. */
static void import_text(const char *path, qp_buf *out)
{
    eg_run run;

    eg_run_init(&run);
    qp_buf_init(out, EG_SOURCE_MAX);
    if (!eg_import(&run, path, out)) {
        fail_msg("%s", qp_buf_str(&run.errors).p);
    }
    eg_run_free(&run);
}

/* The changes that migration would make to the file for this schema. */
static void import_needs_no_change(const char *path, quipu_str text)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_file_shape shape = {0};
    quipu_error error = {0};
    qp_diff_question question = {.shape = &shape, .migrator = &qp_sqlite_migrator};
    qp_diff diff = {0};
    eg_run run;
    eg_schema schema;
    sqlite3 *db = NULL;

    assert_true(t_load(&run, &schema, text));
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(qp_sqlite_inspect_raw(db, &arena, &shape), SQLITE_OK);
    question.schema = schema.described;
    T_OK(qp_diff_make(&question, &arena, &diff, &error));
    if (diff.problem.status != QUIPU_OK) {
        fail_msg("%s", diff.problem.message);
    }
    assert_int_equal(diff.change_count, 0);
    assert_int_equal(diff.table_count, schema.entities.n);
    (void)sqlite3_close(db);
    quipu_arena_free(&arena);
    eg_run_free(&run);
}

static void import_fixture(const char *name, size_t entities)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    eg_run run;
    eg_schema schema;
    qp_buf text;

    t_fixture(name, path);
    t_path(t_tmpdir(), "before.db", copy);
    t_file_copy(path, copy);
    import_text(path, &text);
    assert_true(t_file_equal(path, copy));
    assert_true(t_load(&run, &schema, qp_buf_str(&text)));
    assert_int_equal(schema.entities.n, entities);
    eg_run_free(&run);
    import_needs_no_change(path, qp_buf_str(&text));
    qp_buf_free(&text);
}

static void lango_files_import(void **state)
{
    (void)state;
    import_fixture("lango-mattn.db", 36);
    import_fixture("lango-modernc.db", 36);
}

static void adk_files_import(void **state)
{
    (void)state;
    import_fixture("adk-go-database.db", 4);
    import_fixture("adk-python-database.db", 5);
    import_fixture("adk-python-database-v0.db", 4);
    import_fixture("adk-python-sqlite.db", 4);
}

/* A file made by these statements, imported. */
static void import_made(const char *sql, char path[T_PATH_MAX], qp_buf *out)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    t_path(t_tmpdir(), "made.db", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s", message);
    }
    (void)sqlite3_close(db);
    import_text(path, out);
}

static void what_a_file_says_becomes_ent(void **state)
{
    static const char sql[] =
        "PRAGMA application_id = 305419896;"
        "CREATE TABLE authors (id INTEGER PRIMARY KEY, fullName VARCHAR(80) NOT NULL UNIQUE,"
        " class TEXT DEFAULT 'a''b', rate REAL DEFAULT (0.5), active BOOLEAN NOT NULL DEFAULT 1,"
        " born DATE, made DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, extra JSON,"
        " odd INT DEFAULT (1 + 1));"
        "CREATE TABLE books (isbn TEXT NOT NULL PRIMARY KEY, author_id INTEGER NOT NULL"
        " REFERENCES authors(id) ON DELETE CASCADE, second INTEGER REFERENCES authors ON DELETE"
        " SET NULL, any NUMERIC, raw BLOB);"
        "CREATE INDEX books_author ON books (author_id, isbn DESC);"
        "CREATE INDEX books_upper ON books (upper(isbn));"
        "CREATE INDEX books_some ON books (any) WHERE any > 0;"
        "CREATE TABLE loose (x INT);"
        "CREATE VIEW seen AS SELECT * FROM books;"
        "INSERT INTO authors (id, fullName) VALUES (1, 'n');"
        "INSERT INTO books (isbn, author_id, any) VALUES ('1', 1, 5);";
    static const char expected[] = "# Written by entgen import.\n"
                                   "\n"
                                   "schema made {\n"
                                   "  application_id 0x12345678\n"
                                   "}\n"
                                   "\n"
                                   "entity Author table \"authors\" {\n"
                                   "  full_name string column \"fullName\"\n"
                                   "  c_class text? = \"a'b\" column \"class\"\n"
                                   "  rate float? = 0.5\n"
                                   "  active bool = true\n"
                                   "  born time?\n"
                                   "  made time = now\n"
                                   "  extra json?\n"
                                   "  odd int?\n"
                                   "  edge books -> Book[] cascade\n"
                                   "  unique index (full_name)\n"
                                   "}\n"
                                   "\n"
                                   "entity Book table \"books\" {\n"
                                   "  isbn string\n"
                                   "  edge author <- Author.books\n"
                                   "  second int?\n"
                                   "  any int?\n"
                                   "  raw bytes?\n"
                                   "  key (isbn)\n"
                                   "  # index books_some was left out: it is partial\n"
                                   "  # index books_upper was left out: it holds what no field can "
                                   "say\n"
                                   "  index (author_id, isbn desc) name \"books_author\"\n"
                                   "  # reference to authors was left out: no edge can say it "
                                   "without a change\n"
                                   "}\n"
                                   "\n"
                                   "# table loose was left out: it has no primary key\n"
                                   "\n"
                                   "# table seen was left out: a view\n";
    char path[T_PATH_MAX];
    qp_buf text;

    (void)state;
    import_made(sql, path, &text);
    T_STR(qp_buf_str(&text), expected);
    import_needs_no_change(path, qp_buf_str(&text));
    qp_buf_free(&text);
}

static void hostile_names_still_parse(void **state)
{
    static const char sql[] =
        "CREATE TABLE \"a \"\"b\"\"\n# c\" (\"id\" INTEGER PRIMARY KEY, \"x\\y\" INT, \"X y\" INT,"
        " \"limit\" INT, \"1st\" INT, \"with_x\" INT, \"\xc3\xbc\" INT);"
        "CREATE TABLE \"int\" (\"id\" INTEGER PRIMARY KEY, v INT);"
        "CREATE TABLE sessions (id INTEGER PRIMARY KEY, v INT);"
        "CREATE TABLE Session (id INTEGER PRIMARY KEY, v INT);";
    eg_run run;
    qp_buf text;
    char path[T_PATH_MAX];
    sqlite3 *db = NULL;

    (void)state;
    t_path(t_tmpdir(), "hostile.db", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    eg_run_init(&run);
    qp_buf_init(&text, EG_SOURCE_MAX);
    if (!eg_import(&run, path, &text)) {
        fail_msg("%s", qp_buf_str(&run.errors).p);
    }
    eg_run_free(&run);
    import_needs_no_change(path, qp_buf_str(&text));
    qp_buf_free(&text);
}

/* A column without a value says nothing about what it will hold. */
static void a_number_is_no_bool_for_want_of_values(void **state)
{
    static const char sql[] = "CREATE TABLE prices (id INTEGER PRIMARY KEY, amount DECIMAL(10,2),"
                              " flag NUMERIC, whole NUMERIC);"
                              "INSERT INTO prices (flag, whole) VALUES (0, 7), (1, 8);";
    static const char expected[] = "# Written by entgen import.\n"
                                   "\n"
                                   "schema made {\n"
                                   "}\n"
                                   "\n"
                                   "entity Price table \"prices\" {\n"
                                   "  amount float?\n"
                                   "  flag bool?\n"
                                   "  whole int?\n"
                                   "}\n";
    char path[T_PATH_MAX];
    qp_buf text;

    (void)state;
    import_made(sql, path, &text);
    T_STR(qp_buf_str(&text), expected);
    import_needs_no_change(path, qp_buf_str(&text));
    qp_buf_free(&text);
}

static void a_file_that_is_no_database_is_refused(void **state)
{
    static const char text[] = "this is no database, whatever its name may say, is it not?";
    char path[T_PATH_MAX];
    eg_run run;
    qp_buf out;

    (void)state;
    t_path(t_tmpdir(), "no.db", path);
    for (int i = 0; i < 2; i++) {
        eg_run_init(&run);
        qp_buf_init(&out, EG_SOURCE_MAX);
        assert_false(eg_import(&run, path, &out));
        assert_non_null(strstr(qp_buf_str(&run.errors).p, "no.db: error: "));
        assert_int_equal(out.n, 0);
        qp_buf_free(&out);
        eg_run_free(&run);
        assert_int_equal(t_file_exists(path), i == 1);
        t_file_write(path, text, sizeof(text) - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lango_files_import),
        cmocka_unit_test(adk_files_import),
        cmocka_unit_test(what_a_file_says_becomes_ent),
        cmocka_unit_test(hostile_names_still_parse),
        cmocka_unit_test(a_number_is_no_bool_for_want_of_values),
        cmocka_unit_test(a_file_that_is_no_database_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
