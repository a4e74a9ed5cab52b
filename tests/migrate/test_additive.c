/* Additive migration: new files, no-op opens, columns and indexes that come later, and everything
 * unknown that must stay. */
#include "crash/model.h"

#include "ent/db.h"
#include "ent/diff.h"

/* notes(id, title, created_at) with an index on title. */
static ent_entity *additive_notes(model *m, uint32_t application_id)
{
    ent_entity *notes = NULL;

    model_begin(m, application_id);
    notes = model_entity(m, "Note", "notes");
    (void)model_field(m, notes, "title", ENT_TEXT, 0);
    (void)model_field(m, notes, "created_at", ENT_TIME, ENT_F_NOW | ENT_F_OPT_NEW);
    (void)model_index(m, notes, "note_title", false, 1, 0);
    return notes;
}

static void additive_path(char ret_path[T_PATH_MAX])
{
    t_path(t_tmpdir(), "store.db", ret_path);
}

/* A file of notes, made by a program that may now change. */
static ent_entity *additive_begin(char ret_path[T_PATH_MAX], model *m)
{
    ent_entity *notes = additive_notes(m, 0);

    additive_path(ret_path);
    (void)model_end(m);
    MODEL_OPEN_OK(ret_path, m);
    return notes;
}

static void fresh_file_gets_tables_journal_and_application_id(void **state)
{
    char path[T_PATH_MAX];
    model m;
    model_opened opened;

    (void)state;
    additive_path(path);
    (void)additive_notes(&m, 0x51495055);
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_OK, NULL);
    assert_true(opened.report.created);
    assert_true(opened.report.statements > 0);
    assert_string_equal(opened.report.backup, "");
    model_check(path, "PRAGMA application_id", "1363759189\n");
    model_check(path, "SELECT name FROM pragma_table_info('notes')", "id\ntitle\ncreated_at\n");
    model_check(path, "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'notes'",
                "note_title\n");
    assert_int_equal(model_int(path, "SELECT count(*) FROM ent_journal"), 1);
    model_sound(path);
    model_free(&m);
}

static void journal_keeps_the_whole_schema_text(void **state)
{
    char path[T_PATH_MAX];
    model m;
    qp_buf text;
    char *stored = NULL;

    (void)state;
    (void)additive_begin(path, &m);
    qp_buf_init(&text, MODEL_TEXT_MAX);
    T_OK(qp_schema_text(&m.schema, false, &text));
    qp_buf_putc(&text, '\n');
    stored = model_query(path, "SELECT schema_text FROM ent_journal");
    assert_string_equal(stored, qp_buf_str(&text).p);
    free(stored);
    qp_buf_free(&text);
    model_free(&m);
}

/* Statements of the trace hook while a current file is migrated. */
typedef struct additive_trace {
    int n;
    int ddl;
} additive_trace;

static int additive_count(unsigned type, void *ctx, void *stmt, void *text)
{
    additive_trace *trace = ctx;
    const char *sql = text;

    (void)type;
    trace->n++;
    trace->ddl += sqlite3_stmt_readonly(stmt) ? 0 : 1;
    trace->ddl += strncmp(sql, "CREATE", 6) == 0 || strncmp(sql, "ALTER", 5) == 0 ? 1 : 0;
    return 0;
}

static additive_trace additive_traced;

static int additive_hook(sqlite3 *db, char **error, const void *api)
{
    (void)error;
    (void)api;
    (void)sqlite3_trace_v2(db, SQLITE_TRACE_STMT, additive_count, &additive_traced);
    return SQLITE_OK;
}

static void second_open_runs_two_reads_and_no_ddl(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;
    model m;
    ent_migrate_report report;
    char *before = NULL;

    (void)state;
    additive_path(path);
    (void)additive_notes(&m, 7);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    before = model_dump(path, true);
    (void)sqlite3_auto_extension((void (*)(void))additive_hook);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    additive_traced = (additive_trace){0};
    T_OK(ent_migrate(db, &m.schema, NULL, &report, NULL));
    assert_true(additive_traced.n <= 2);
    assert_int_equal(additive_traced.ddl, 0);
    assert_int_equal(report.statements, 0);
    assert_false(report.created);
    assert_int_equal(ent_stats_read(db).schema_changes, 0);
    ent_close(db);
    sqlite3_reset_auto_extension();
    model_same(before, model_dump(path, true));
    model_free(&m);
}

static void columns_of_every_type_and_default_are_added(void **state)
{
    static const char *const labels[] = {"", "low", "it's", NULL};
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    model_opened opened;

    (void)state;
    notes = additive_begin(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES "
                     "('a', '2026-01-01 00:00:00.000000000+00:00'), ('b', '')");
    model_field(&m, notes, "i", ENT_INT, ENT_F_DEFAULT)->default_int = INT64_MIN;
    model_field(&m, notes, "f", ENT_FLOAT, ENT_F_DEFAULT)->default_float = -1.5e300;
    model_field(&m, notes, "whole", ENT_FLOAT, ENT_F_DEFAULT)->default_float = 3.0;
    model_field(&m, notes, "b", ENT_BOOL, ENT_F_DEFAULT)->default_int = 1;
    model_field(&m, notes, "t", ENT_TEXT, ENT_F_DEFAULT)->default_text = "it's \"quoted\"";
    model_field(&m, notes, "digits", ENT_TEXT, ENT_F_DEFAULT)->default_text = "007";
    model_field(&m, notes, "j", ENT_JSON, ENT_F_DEFAULT)->default_text = "1e3";
    model_field(&m, notes, "e", ENT_ENUM, ENT_F_DEFAULT)->default_text = "it's";
    model_fields(notes)[notes->field_count - 1].labels = labels;
    (void)model_field(&m, notes, "changed_at", ENT_TIME, ENT_F_NOW | ENT_F_ON_UPDATE);
    (void)model_field(&m, notes, "uid", ENT_UUID, ENT_F_RANDOM);
    (void)model_field(&m, notes, "oi", ENT_INT, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "of", ENT_FLOAT, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "ob", ENT_BOOL, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "ot", ENT_TEXT, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "ox", ENT_BYTES, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "ow", ENT_TIME, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "ou", ENT_UUID, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "oj", ENT_JSON, ENT_F_NULLABLE);
    (void)model_index(&m, notes, "note_uid", true, 12, 0);
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_OK, NULL);
    assert_false(opened.report.created);
    assert_int_equal(opened.report.statements, 19);
    model_check(path,
                "SELECT i, typeof(f), f = -1.5e300, typeof(whole), b, t, digits, typeof(j), j, e, "
                "changed_at LIKE '____-__-__ __:__:__.%+00:00', oi, of, ob, ot, ox, ow, ou, oj "
                "FROM notes LIMIT 1",
                "-9223372036854775808|real|1|real|1|it's \"quoted\"|007|text|1e3|it's|1|NULL|NULL|"
                "NULL|NULL|NULL|NULL|NULL|NULL\n");
    model_check(path,
                "SELECT count(*), count(DISTINCT uid), min(length(uid)), "
                "min(uid GLOB '[0-9a-f]*-*-4[0-9a-f]*-[89ab]*-*') FROM notes",
                "2|2|36|1\n");
    model_check(path, "SELECT count(DISTINCT changed_at) FROM notes", "1\n");
    model_sound(path);
    opened = MODEL_OPEN(path, &m);
    assert_int_equal(opened.report.statements, 0);
    model_free(&m);
}

static void enum_that_gained_a_value_needs_no_change_and_one_row(void **state)
{
    static const char *const before[] = {"", "low", NULL};
    static const char *const after[] = {"", "low", "high", NULL};
    char path[T_PATH_MAX];
    model m;
    ent_field *field = NULL;
    ent_entity *notes = NULL;
    model_opened opened;

    (void)state;
    additive_path(path);
    notes = additive_notes(&m, 0);
    field = model_field(&m, notes, "level", ENT_ENUM, ENT_F_NULLABLE);
    field->labels = before;
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    field->labels = after;
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_OK, NULL);
    assert_int_equal(opened.report.statements, 0);
    assert_int_equal(model_int(path, "SELECT count(*) FROM ent_journal"), 2);
    MODEL_OPEN_OK(path, &m);
    field->labels = before;
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m); /* the old program again */
    assert_int_equal(model_int(path, "SELECT count(*) FROM ent_journal"), 2);
    model_free(&m);
}

static void required_column_without_default_needs_a_step(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    char *before = NULL;
    model_opened opened;

    (void)state;
    notes = additive_begin(path, &m);
    before = model_dump(path, true);
    (void)model_field(&m, notes, "extra", ENT_INT, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "owner", ENT_INT, 0);
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_UNSUPPORTED, "step");
    assert_non_null(strstr(opened.error.message, "\"notes\""));
    assert_non_null(strstr(opened.error.message, "\"owner\""));
    assert_string_equal(opened.error.entity, "Note");
    assert_string_equal(opened.error.field, "owner");
    model_same(before, model_dump(path, true));
    model_free(&m);
}

static void other_type_key_or_reference_needs_a_step(void **state)
{
    static const char *const files[] = {
        "CREATE TABLE notes (id integer PRIMARY KEY, title integer, created_at datetime)",
        "CREATE TABLE notes (id text PRIMARY KEY, title text, created_at datetime)",
        "CREATE TABLE notes (id INT PRIMARY KEY, title text, created_at datetime)",
        "CREATE TABLE notes (id integer, title text, created_at datetime, PRIMARY KEY (id, title))",
        "CREATE TABLE notes (id integer PRIMARY KEY, title text, created_at datetime, x NOT NULL)",
        "CREATE VIEW notes AS SELECT 1 AS id, 'a' AS title, 'b' AS created_at",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[T_PATH_MAX];
        char *before = NULL;
        model m;

        additive_path(path);
        model_exec(path, files[i]);
        before = model_dump(path, true);
        (void)additive_notes(&m, 0);
        (void)model_end(&m);
        model_expect(MODEL_OPEN(path, &m), QUIPU_UNSUPPORTED, "step");
        model_same(before, model_dump(path, true));
        model_free(&m);
    }
}

static void missing_reference_on_an_existing_column_needs_a_step(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    ent_entity *lines = NULL;

    (void)state;
    additive_path(path);
    notes = additive_notes(&m, 0);
    lines = model_entity(&m, "Line", "lines");
    (void)model_field(&m, lines, "note_id", ENT_INT, ENT_F_NULLABLE);
    model_edge(&m, lines, "note", notes, "lines", 1, ENT_CASCADE);
    (void)model_end(&m);
    model_exec(path, "CREATE TABLE lines (id integer PRIMARY KEY, note_id integer)");
    model_expect(MODEL_OPEN(path, &m), QUIPU_UNSUPPORTED, "\"note_id\"");
    model_exec(path, "DROP TABLE lines; CREATE TABLE lines (id integer PRIMARY KEY, "
                     "note_id integer REFERENCES notes (id) ON DELETE SET NULL)");
    model_expect(MODEL_OPEN(path, &m), QUIPU_UNSUPPORTED, "rule on delete");
    model_exec(path, "DROP TABLE lines; CREATE TABLE lines (id integer PRIMARY KEY, "
                     "note_id integer REFERENCES Notes ON DELETE cascade)");
    MODEL_OPEN_OK(path, &m);
    model_free(&m);
}

static void optional_reference_is_added_with_its_rule(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    ent_entity *lines = NULL;

    (void)state;
    additive_path(path);
    notes = additive_notes(&m, 0);
    lines = model_entity(&m, "Line", "lines");
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_exec(path, "INSERT INTO lines (id) VALUES (1)");
    (void)model_field(&m, lines, "note_id", ENT_INT, ENT_F_NULLABLE);
    model_edge(&m, lines, "note", notes, "lines", 1, ENT_SET_NULL);
    (void)model_index(&m, lines, "line_note_id", false, 1, 0);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_check(path,
                "SELECT \"table\", \"from\", \"to\", on_delete FROM "
                "pragma_foreign_key_list('lines')",
                "notes|note_id|id|SET NULL\n");
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 0);
    model_free(&m);
}

static void unique_index_over_duplicates_fails_and_changes_nothing(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    char *before = NULL;
    model_opened opened;

    (void)state;
    notes = additive_begin(path, &m);
    model_exec(path,
               "INSERT INTO notes (title, created_at) VALUES ('a', ''), ('b', ''), ('a', ''), "
               "('a', '')");
    before = model_dump(path, true);
    (void)model_field(&m, notes, "late", ENT_INT, ENT_F_NULLABLE);
    (void)model_index(&m, notes, "notes_title_key", true, 1, 0);
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_INVALID, "notes_title_key");
    assert_non_null(strstr(opened.error.message, "3 rows"));
    assert_string_equal(opened.error.entity, "Note");
    assert_string_equal(opened.error.rule, "unique");
    model_same(before, model_dump(path, true));
    model_free(&m);
}

static void unique_index_ignores_rows_without_a_value(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;

    (void)state;
    additive_path(path);
    notes = additive_notes(&m, 0);
    (void)model_field(&m, notes, "tag", ENT_TEXT, ENT_F_NULLABLE);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('a', ''), ('b', '')");
    (void)model_index(&m, notes, "notes_tag_key", true, 3, 0);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_free(&m);
}

static void index_under_another_name_is_not_made_twice(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    model_opened opened;

    (void)state;
    additive_path(path);
    model_exec(path, "CREATE TABLE notes (id integer PRIMARY KEY, title text UNIQUE, "
                     "created_at datetime); "
                     "CREATE INDEX mine ON notes (created_at DESC, title)");
    notes = additive_notes(&m, 0);
    (void)model_index(&m, notes, "notes_title_key", true, 1, 0); /* the UNIQUE clause has it */
    model_index(&m, notes, "note_created_at_title", false, 2, 1)->desc = 1;
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_OK, NULL);
    assert_int_equal(opened.report.statements, 1); /* the journal's table */
    model_check(path, "SELECT count(*) FROM pragma_index_list('notes')", "2\n");
    /* The other direction is another index. */
    ((ent_index *)(uintptr_t)notes->indexes)[2].desc = 0;
    (void)model_end(&m);
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 1);
    model_free(&m);
}

static void index_name_that_is_taken_gets_a_number(void **state)
{
    char path[T_PATH_MAX];
    model m;

    (void)state;
    additive_path(path);
    model_exec(path, "CREATE TABLE other (a); CREATE INDEX note_title ON other (a); "
                     "CREATE TABLE note_title_2 (b)");
    (void)additive_notes(&m, 0);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_check(path, "SELECT name FROM pragma_index_list('notes')", "note_title_3\n");
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 0);
    model_free(&m);
}

static void names_tried_for_an_index_are_limited(void **state)
{
    char path[T_PATH_MAX];
    char *before = NULL;
    sqlite3 *db = NULL;
    model m;

    (void)state;
    additive_path(path);
    db = model_raw(path);
    model_exec_on(db, "CREATE TABLE note_title (a)");
    for (int i = 2; i <= QP_DIFF_NAME_TRIES; i++) {
        char sql[64];
        (void)snprintf(sql, sizeof(sql), "CREATE TABLE note_title_%d (a)", i);
        model_exec_on(db, sql);
    }
    (void)sqlite3_close(db);
    before = model_dump(path, true);
    (void)additive_notes(&m, 0);
    (void)model_end(&m);
    model_expect(MODEL_OPEN(path, &m), QUIPU_LIMIT, "note_title");
    model_same(before, model_dump(path, true));
    model_exec(path, "DROP TABLE note_title_100");
    MODEL_OPEN_OK(path, &m);
    model_check(path, "SELECT name FROM pragma_index_list('notes')", "note_title_100\n");
    model_free(&m);
}

static void other_writer_past_the_deadline_is_busy(void **state)
{
    char path[T_PATH_MAX];
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};
    ent_db *db = NULL;
    sqlite3 *writer = NULL;
    model m;

    (void)state;
    (void)additive_begin(path, &m);
    writer = model_raw(path);
    model_exec_on(writer, "BEGIN IMMEDIATE");
    options.busy_ms = 20;
    T_OK(ent_sqlite_open(path, &options, &db, NULL));
    T_OK(ent_migrate(db, &m.schema, NULL, NULL, NULL)); /* up to date: takes no lock */
    (void)model_field(&m, m.entities[0], "late", ENT_INT, ENT_F_NULLABLE);
    (void)model_end(&m);
    T_STATUS(ent_migrate(db, &m.schema, NULL, NULL, &error), QUIPU_BUSY);
    assert_int_equal(ent_depth(db), 0);
    model_exec_on(writer, "COMMIT");
    T_OK(ent_migrate(db, &m.schema, NULL, NULL, NULL));
    ent_close(db);
    (void)sqlite3_close(writer);
    model_free(&m);
}

static void unknown_things_survive(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    const char *others = "SELECT name, sql FROM sqlite_schema WHERE name LIKE 'their%' ORDER BY 1";
    char *before = NULL;

    (void)state;
    notes = additive_begin(path, &m);
    model_exec(path,
               "ALTER TABLE notes ADD COLUMN their_mood text DEFAULT 'fine'; "
               "INSERT INTO notes (title, created_at, their_mood) VALUES ('a', '', 'grim'); "
               "CREATE TABLE their_table (x, y); INSERT INTO their_table VALUES (1, x'00ff'); "
               "CREATE INDEX their_index ON notes (their_mood) WHERE their_mood <> 'fine'; "
               "CREATE INDEX their_expression ON notes (lower(title)); "
               "CREATE TRIGGER their_trigger AFTER INSERT ON notes BEGIN "
               "INSERT INTO their_table VALUES (new.id, new.title); END; "
               "CREATE VIEW their_view AS SELECT title, their_mood FROM notes");
    before = model_query(path, others);
    (void)model_field(&m, notes, "late", ENT_INT, ENT_F_DEFAULT);
    (void)model_entity(&m, "Line", "lines");
    (void)model_index(&m, notes, "note_late", false, 3, 0);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_same(before, model_query(path, others));
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('b', '')");
    model_check(path, "SELECT title, their_mood FROM their_view ORDER BY 1", "a|grim\nb|fine\n");
    model_check(path, "SELECT count(*) FROM their_table", "2\n");
    model_free(&m);
}

static void renamed_column_keeps_its_values_and_its_index(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    model_opened opened;

    (void)state;
    notes = additive_begin(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('a', ''); "
                     "CREATE VIEW their_view AS SELECT title FROM notes");
    model_fields(notes)[1].column = model_fields(notes)[1].name = "heading";
    model_fields(notes)[1].was = "title";
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_OK, NULL);
    assert_int_equal(opened.report.statements, 1); /* the rename; the index follows */
    model_check(path, "SELECT id, heading FROM notes", "1|a\n");
    model_check(path, "SELECT * FROM their_view", "a\n");
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 0);
    model_free(&m);
}

static void two_programs_with_different_additions_converge(void **state)
{
    char path[T_PATH_MAX];
    model a;
    model b;
    char *settled = NULL;

    (void)state;
    additive_path(path);
    (void)model_field(&a, additive_notes(&a, 0), "red", ENT_INT, ENT_F_NULLABLE);
    (void)model_end(&a);
    (void)model_field(&b, additive_notes(&b, 0), "blue", ENT_INT, ENT_F_NULLABLE);
    (void)model_end(&b);
    MODEL_OPEN_OK(path, &a);
    model_exec(path, "INSERT INTO notes (title, created_at, red) VALUES ('x', '', 5)");
    MODEL_OPEN_OK(path, &b);
    MODEL_OPEN_OK(path, &a);
    MODEL_OPEN_OK(path, &b);
    settled = model_dump(path, true);
    for (int i = 0; i < 3; i++) {
        model_opened of_a = MODEL_OPEN(path, &a);
        model_opened of_b = MODEL_OPEN(path, &b);
        model_expect(of_a, QUIPU_OK, NULL);
        model_expect(of_b, QUIPU_OK, NULL);
        assert_int_equal(of_a.report.statements + of_b.report.statements, 0);
    }
    model_same(settled, model_dump(path, true));
    model_check(path, "SELECT title, red, blue FROM notes", "x|5|NULL\n");
    model_free(&a);
    model_free(&b);
}

static void older_program_then_newer_again_loses_nothing(void **state)
{
    char path[T_PATH_MAX];
    model old;
    model new;
    ent_entity *notes = NULL;
    char *after = NULL;

    (void)state;
    additive_path(path);
    (void)additive_notes(&old, 0);
    (void)model_end(&old);
    notes = additive_notes(&new, 0);
    (void)model_field(&new, notes, "late", ENT_INT, ENT_F_DEFAULT);
    (void)model_index(&new, notes, "note_late", false, 3, 0);
    (void)model_end(&new);
    MODEL_OPEN_OK(path, &old);
    MODEL_OPEN_OK(path, &new);
    model_exec(path, "INSERT INTO notes (title, created_at, late) VALUES ('x', '', 9)");
    assert_int_equal(MODEL_OPEN(path, &old).report.statements, 0);
    model_exec(path, "UPDATE notes SET title = 'y'");
    after = model_dump(path, true);
    assert_int_equal(MODEL_OPEN(path, &new).report.statements, 0);
    assert_int_equal(MODEL_OPEN(path, &old).report.statements, 0);
    model_same(after, model_dump(path, true));
    model_check(path, "SELECT title, late FROM notes", "y|9\n");
    model_free(&old);
    model_free(&new);
}

static void search_index_is_made_filled_and_kept(void **state)
{
    static const uint8_t fields[] = {1};
    char path[T_PATH_MAX];
    ent_db *db = NULL;
    model m;
    ent_entity *notes = NULL;

    (void)state;
    notes = additive_begin(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('red car', ''), ('blue', '')");
    notes->flags |= ENT_E_SEARCH;
    notes->search_fields = fields;
    notes->search_count = 1;
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 0);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('green car', ''); "
                     "UPDATE notes SET title = 'blue car' WHERE title = 'blue'; "
                     "DELETE FROM notes WHERE title = 'red car'");
    model_check(path,
                "SELECT title FROM notes WHERE id IN (SELECT rowid FROM notes_search WHERE "
                "notes_search MATCH 'car') ORDER BY id",
                "blue car\ngreen car\n");
    model_exec(path, "INSERT INTO notes_search (notes_search) VALUES ('integrity-check')");
    model_exec(path, "DROP TRIGGER notes_search_insert; "
                     "INSERT INTO notes (title, created_at) VALUES ('lost car', '')");
    (void)model_field(&m, notes, "late", ENT_INT, ENT_F_NULLABLE);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m); /* sees the missing trigger and fills the index again */
    model_check(path, "SELECT count(*) FROM notes_search WHERE notes_search MATCH 'car'", "3\n");
    /* Our own connections do not trust a file's schema, but this trigger must run on them too. */
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_OK(db->engine->execute(
        db->conn, QUIPU_STR("INSERT INTO notes (title, created_at) VALUES ('our car', '')"), NULL));
    ent_close(db);
    model_check(path, "SELECT count(*) FROM notes_search WHERE notes_search MATCH 'car'", "4\n");
    model_free(&m);
}

/* An older program goes on writing beside a newer one, whose required values it does not know. */
static void rows_of_an_older_program_get_the_random_values_of_a_newer_one(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    ent_entity *pairs = NULL;

    (void)state;
    additive_path(path);
    notes = additive_notes(&m, 0);
    pairs = model_bare(&m, "Pair", "it's \"p\"");
    (void)model_field(&m, pairs, "a", ENT_TEXT, ENT_F_STRING);
    (void)model_field(&m, pairs, "b", ENT_INT, 0);
    pairs->key_count = 2;
    pairs->key[1] = 1;
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('before', '')");
    (void)model_field(&m, notes, "uid", ENT_UUID, ENT_F_RANDOM | ENT_F_OPT_NEW);
    (void)model_field(&m, pairs, "uid", ENT_UUID, ENT_F_RANDOM | ENT_F_OPT_NEW);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('a', ''), ('b', '');"
                     "INSERT INTO notes (title, created_at, uid) VALUES ('given', '', 'mine');"
                     "INSERT INTO \"it's \"\"p\"\"\" (a, b) VALUES ('a', 1), ('a', 2)");
    model_check(path,
                "SELECT count(*), count(DISTINCT uid), sum(length(uid) = 36), sum(uid = 'mine') "
                "FROM notes",
                "4|4|3|1\n");
    model_check(path, "SELECT count(DISTINCT uid), sum(length(uid) = 36) FROM \"it's \"\"p\"\"\"",
                "2|2\n");
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 0);
    model_sound(path);
    model_free(&m);
}

/* Triggers or the program maintain an index: another of the two, or another way to split words,
 * means another index. */
static void search_that_is_maintained_or_split_otherwise_needs_a_step(void **state)
{
    static const uint8_t fields[] = {1};
    static const unsigned from[] = {ENT_E_SEARCH, ENT_E_SEARCH, ENT_E_SEARCH | ENT_E_SEARCH_CJK};
    static const unsigned to[] = {ENT_E_SEARCH_MANUAL, ENT_E_SEARCH | ENT_E_SEARCH_CJK,
                                  ENT_E_SEARCH};

    (void)state;
    for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
        char path[T_PATH_MAX];
        char *before = NULL;
        model m;
        ent_entity *notes = NULL;

        additive_path(path);
        notes = additive_notes(&m, 0);
        notes->flags = (uint8_t)from[i];
        notes->search_fields = fields;
        notes->search_count = 1;
        (void)model_end(&m);
        MODEL_OPEN_OK(path, &m);
        before = model_dump(path, true);
        notes->flags = (uint8_t)to[i];
        (void)model_end(&m);
        model_expect(MODEL_OPEN(path, &m), QUIPU_UNSUPPORTED, "step");
        model_same(before, model_dump(path, true));
        model_free(&m);
    }
}

static void column_that_must_have_a_value_cannot_become_optional_without_a_step(void **state)
{
    char path[T_PATH_MAX];
    char *before = NULL;
    model m;
    model_opened opened;
    ent_entity *notes = NULL;

    (void)state;
    notes = additive_begin(path, &m);
    before = model_dump(path, true);
    model_fields(notes)[1].flags = ENT_F_NULLABLE;
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_UNSUPPORTED, "step");
    assert_string_equal(opened.error.field, "title");
    model_same(before, model_dump(path, true));
    opened = model_visit(path, &m.schema, NULL, ENT_SQLITE_READ_ONLY);
    model_expect(opened, QUIPU_OK, NULL); /* what is there can be read */
    model_free(&m);
}

static void rows_without_a_value_stop_a_column_from_becoming_required(void **state)
{
    char path[T_PATH_MAX];
    char *before = NULL;
    model m;
    model_opened opened;
    ent_entity *notes = NULL;

    (void)state;
    additive_path(path);
    notes = additive_notes(&m, 0);
    model_fields(notes)[1].flags = ENT_F_NULLABLE;
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('a', ''), (NULL, '')");
    before = model_dump(path, true);
    model_fields(notes)[1].flags = 0;
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_INVALID, "1 ");
    assert_string_equal(opened.error.entity, "Note");
    assert_string_equal(opened.error.field, "title");
    assert_string_equal(opened.error.rule, "required");
    model_same(before, model_dump(path, true));
    model_exec(path, "UPDATE notes SET title = 'b' WHERE title IS NULL");
    MODEL_OPEN_OK(path, &m);
    model_free(&m);
}

static void cluster_and_composite_keys_have_their_tables(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *cluster = NULL;
    ent_entity *pairs = NULL;

    (void)state;
    additive_path(path);
    model_begin(&m, 0);
    cluster = model_bare(&m, "Message", "messages");
    (void)model_field(&m, cluster, "owner", ENT_INT, ENT_F_IMMUTABLE);
    (void)model_field(&m, cluster, "seq", ENT_INT, ENT_F_IMMUTABLE);
    cluster->flags = ENT_E_CLUSTER;
    cluster->key_count = 2;
    cluster->key[1] = 1;
    pairs = model_bare(&m, "Pair", "pairs");
    (void)model_field(&m, pairs, "a", ENT_TEXT, ENT_F_STRING);
    (void)model_field(&m, pairs, "b", ENT_TEXT, ENT_F_STRING);
    pairs->key_count = 2;
    pairs->key[1] = 1;
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_check(path, "SELECT name, pk FROM pragma_table_info('messages')",
                "id|1\nowner|0\nseq|0\n");
    model_check(path, "SELECT wr FROM pragma_table_list('pairs')", "1\n");
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 0);
    (void)model_field(&m, cluster, "late", ENT_INT, ENT_F_NULLABLE);
    (void)model_field(&m, pairs, "late", ENT_INT, ENT_F_NULLABLE);
    (void)model_end(&m);
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 2);
    model_free(&m);
}

static void reader_with_a_snapshot_does_not_stop_a_migration(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    sqlite3 *reader = NULL;
    qp_buf seen;

    (void)state;
    notes = additive_begin(path, &m);
    model_exec(path, "INSERT INTO notes (title, created_at) VALUES ('a', '')");
    reader = model_raw(path);
    qp_buf_init(&seen, 4096);
    model_exec_on(reader, "BEGIN; SELECT * FROM notes");
    (void)model_field(&m, notes, "late", ENT_INT, ENT_F_DEFAULT);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_query_on(reader, "SELECT count(*) FROM pragma_table_info('notes')", &seen);
    model_exec_on(reader, "COMMIT");
    model_query_on(reader, "SELECT late FROM notes", &seen);
    T_STR(qp_buf_str(&seen), "3\n0\n");
    qp_buf_free(&seen);
    (void)sqlite3_close(reader);
    model_free(&m);
}

static void file_with_a_rollback_journal_is_migrated(void **state)
{
    char path[T_PATH_MAX];
    model m;

    (void)state;
    additive_path(path);
    model_exec(path, "PRAGMA journal_mode = DELETE; CREATE TABLE notes (id integer PRIMARY KEY, "
                     "title text, created_at datetime); INSERT INTO notes VALUES (1, 'a', '')");
    (void)additive_notes(&m, 0);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_check(path, "SELECT title FROM notes", "a\n");
    model_check(path, "PRAGMA journal_mode", "wal\n");
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_file_gets_tables_journal_and_application_id),
        cmocka_unit_test(journal_keeps_the_whole_schema_text),
        cmocka_unit_test(second_open_runs_two_reads_and_no_ddl),
        cmocka_unit_test(columns_of_every_type_and_default_are_added),
        cmocka_unit_test(enum_that_gained_a_value_needs_no_change_and_one_row),
        cmocka_unit_test(required_column_without_default_needs_a_step),
        cmocka_unit_test(other_type_key_or_reference_needs_a_step),
        cmocka_unit_test(missing_reference_on_an_existing_column_needs_a_step),
        cmocka_unit_test(optional_reference_is_added_with_its_rule),
        cmocka_unit_test(unique_index_over_duplicates_fails_and_changes_nothing),
        cmocka_unit_test(unique_index_ignores_rows_without_a_value),
        cmocka_unit_test(index_under_another_name_is_not_made_twice),
        cmocka_unit_test(index_name_that_is_taken_gets_a_number),
        cmocka_unit_test(names_tried_for_an_index_are_limited),
        cmocka_unit_test(other_writer_past_the_deadline_is_busy),
        cmocka_unit_test(unknown_things_survive),
        cmocka_unit_test(renamed_column_keeps_its_values_and_its_index),
        cmocka_unit_test(two_programs_with_different_additions_converge),
        cmocka_unit_test(older_program_then_newer_again_loses_nothing),
        cmocka_unit_test(search_index_is_made_filled_and_kept),
        cmocka_unit_test(rows_of_an_older_program_get_the_random_values_of_a_newer_one),
        cmocka_unit_test(search_that_is_maintained_or_split_otherwise_needs_a_step),
        cmocka_unit_test(column_that_must_have_a_value_cannot_become_optional_without_a_step),
        cmocka_unit_test(rows_without_a_value_stop_a_column_from_becoming_required),
        cmocka_unit_test(cluster_and_composite_keys_have_their_tables),
        cmocka_unit_test(reader_with_a_snapshot_does_not_stop_a_migration),
        cmocka_unit_test(file_with_a_rollback_journal_is_migrated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
