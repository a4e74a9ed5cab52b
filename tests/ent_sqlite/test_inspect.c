/* Inspection: what is found in a file of any program. */
#include "crash/model.h"

#include "ent/diff.h"
#include "ent_sqlite/inspect.h"

typedef struct inspected {
    sqlite3 *db;
    quipu_arena arena;
    qp_file_shape shape;
} inspected;

static void inspect_begin(inspected *self, const char *sql)
{
    *self = (inspected){0};
    assert_int_equal(sqlite3_open(":memory:", &self->db), SQLITE_OK);
    model_exec_on(self->db, sql);
    assert_int_equal(qp_sqlite_inspect_raw(self->db, &self->arena, &self->shape), SQLITE_OK);
}

static void inspect_finish(inspected *self)
{
    quipu_arena_free(&self->arena);
    (void)sqlite3_close(self->db);
}

static void columns_keys_and_defaults_are_found(void **state)
{
    inspected seen;
    const qp_table_shape *t = NULL;

    (void)state;
    inspect_begin(&seen, "CREATE TABLE t (id INTEGER PRIMARY KEY, a text NOT NULL DEFAULT ('x'), "
                         "b varchar(3), g AS (id + 1), h AS (id + 2) STORED); "
                         "CREATE TABLE w (b text, a int, PRIMARY KEY (a, b)) WITHOUT ROWID; "
                         "CREATE TABLE i (id INT PRIMARY KEY); "
                         "CREATE TABLE d (id INTEGER PRIMARY KEY DESC); "
                         "CREATE TABLE n (id integer, PRIMARY KEY (id)); "
                         "CREATE TABLE r (id INTEGER PRIMARY KEY) WITHOUT ROWID");
    t = qp_shape_table(&seen.shape, "T");
    assert_non_null(t);
    assert_int_equal(t->column_count, 5);
    assert_true(t->columns[0].auto_key);
    assert_string_equal(t->columns[1].default_text, "'x'");
    assert_true(t->columns[1].not_null);
    assert_string_equal(t->columns[2].declared, "varchar(3)");
    assert_null(t->columns[2].default_text);
    assert_true(t->columns[3].generated && t->columns[4].generated);
    t = qp_shape_table(&seen.shape, "w");
    assert_int_equal(qp_shape_column(t, "a")->key_position, 1);
    assert_int_equal(qp_shape_column(t, "b")->key_position, 2);
    assert_false(qp_shape_table(&seen.shape, "i")->columns[0].auto_key);
    assert_false(qp_shape_table(&seen.shape, "d")->columns[0].auto_key);
    assert_true(qp_shape_table(&seen.shape, "n")->columns[0].auto_key);
    assert_false(qp_shape_table(&seen.shape, "r")->columns[0].auto_key);
    inspect_finish(&seen);
}

static const qp_index_shape *inspect_index(const qp_table_shape *table, const char *name)
{
    for (size_t i = 0; i < table->index_count; i++) {
        if (strcmp(table->indexes[i].name, name) == 0) {
            return &table->indexes[i];
        }
    }
    fail_msg("no index %s", name);
    return NULL;
}

static void indexes_are_found_with_their_meaning(void **state)
{
    inspected seen;
    const qp_table_shape *t = NULL;
    const qp_index_shape *index = NULL;

    (void)state;
    inspect_begin(&seen, "CREATE TABLE t (a, b, c COLLATE NOCASE, UNIQUE (b, a)); "
                         "CREATE UNIQUE INDEX two ON t (a DESC, b); "
                         "CREATE INDEX part ON t (a) WHERE b > 1; "
                         "CREATE INDEX expr ON t (lower(a), b); CREATE INDEX coll ON t (c)");
    t = qp_shape_table(&seen.shape, "t");
    assert_int_equal(t->index_count, 5);
    index = inspect_index(t, "two");
    assert_true(index->unique && !index->implied && !index->partial);
    assert_int_equal(index->column_count, 2);
    assert_string_equal(index->columns[0], "a");
    assert_int_equal(index->desc, 1);
    assert_string_equal(index->sql, "CREATE UNIQUE INDEX two ON t (a DESC, b)");
    index = inspect_index(t, "sqlite_autoindex_t_1");
    assert_true(index->unique && index->implied);
    assert_null(index->sql);
    assert_true(inspect_index(t, "part")->partial);
    assert_null(inspect_index(t, "expr")->columns[0]);
    assert_string_equal(inspect_index(t, "expr")->columns[1], "b");
    assert_null(inspect_index(t, "coll")->columns[0]); /* it does not sort as we compare */
    inspect_finish(&seen);
}

static void references_triggers_views_and_virtual_tables_are_found(void **state)
{
    inspected seen;
    const qp_table_shape *t = NULL;

    (void)state;
    inspect_begin(&seen,
                  "CREATE TABLE p (id INTEGER PRIMARY KEY, x, y, UNIQUE (x, y)); "
                  "CREATE TABLE t (a REFERENCES p ON DELETE CASCADE, b, c, "
                  "FOREIGN KEY (b, c) REFERENCES p (x, y)); "
                  "CREATE TRIGGER tr AFTER INSERT ON t BEGIN DELETE FROM p; END; "
                  "CREATE VIEW v AS SELECT * FROM t; CREATE VIEW broken AS SELECT * FROM no; "
                  "CREATE VIRTUAL TABLE f USING fts5 (body, title)");
    t = qp_shape_table(&seen.shape, "t");
    assert_int_equal(t->reference_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const qp_reference *reference = &t->references[i];
        assert_string_equal(reference->table, "p");
        if (reference->column != NULL) {
            assert_string_equal(reference->column, "a");
            assert_string_equal(reference->on_delete, "CASCADE");
            assert_null(reference->target);
        }
    }
    assert_int_equal(t->trigger_count, 1);
    assert_string_equal(t->triggers[0].name, "tr");
    assert_true(qp_shape_table(&seen.shape, "v")->is_view);
    assert_true(qp_shape_table(&seen.shape, "broken")->is_view);
    t = qp_shape_table(&seen.shape, "f");
    assert_true(t->is_virtual);
    assert_int_equal(t->column_count, 2);
    assert_non_null(qp_shape_column(t, "body"));
    inspect_finish(&seen);
}

static void table_of_an_unknown_module_does_not_stop_inspection(void **state)
{
    char path[T_PATH_MAX];
    inspected seen = {0};

    (void)state;
    t_path(t_tmpdir(), "odd.db", path);
    model_exec(path,
               "CREATE TABLE a (x); PRAGMA writable_schema = ON; INSERT INTO sqlite_schema "
               "VALUES ('table', 'vec', 'vec', 0, 'CREATE VIRTUAL TABLE vec USING nomodule(a)')");
    seen.db = model_raw(path);
    assert_int_equal(qp_sqlite_inspect_raw(seen.db, &seen.arena, &seen.shape), SQLITE_OK);
    assert_true(qp_shape_table(&seen.shape, "vec")->is_virtual);
    assert_non_null(qp_shape_table(&seen.shape, "a"));
    inspect_finish(&seen);
}

static void inspection_stays_within_its_memory(void **state)
{
    inspected seen = {0};

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &seen.db), SQLITE_OK);
    model_exec_on(seen.db, "CREATE TABLE t (a, b, c); CREATE INDEX i ON t (a, b)");
    seen.arena.limit = 64;
    assert_int_equal(qp_sqlite_inspect_raw(seen.db, &seen.arena, &seen.shape), SQLITE_NOMEM);
    inspect_finish(&seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_keys_and_defaults_are_found),
        cmocka_unit_test(indexes_are_found_with_their_meaning),
        cmocka_unit_test(references_triggers_views_and_virtual_tables_are_found),
        cmocka_unit_test(table_of_an_unknown_module_does_not_stop_inspection),
        cmocka_unit_test(inspection_stays_within_its_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
