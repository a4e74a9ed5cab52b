/* Whose file it is and who may use it: application ids, versions, tampered journals, read-only
 * connections, and files that are no store at all. */
#include "crash/model.h"

#include <sys/stat.h>
#include <unistd.h>

#define IDENTITY_QUIPU 0x51495055u

static ent_entity *identity_notes(model *m, uint32_t application_id)
{
    ent_entity *notes = NULL;

    model_begin(m, application_id);
    notes = model_entity(m, "Note", "notes");
    (void)model_field(m, notes, "title", ENT_TEXT, 0);
    return notes;
}

/* A file of this model, with a row. */
static void identity_make(model *m, uint32_t application_id, char ret_path[T_PATH_MAX])
{
    t_path(t_tmpdir(), "store.db", ret_path);
    (void)identity_notes(m, application_id);
    (void)model_end(m);
    MODEL_OPEN_OK(ret_path, m);
    model_exec(ret_path, "INSERT INTO notes (title) VALUES ('a')");
}

static void foreign_application_id_is_refused_with_both_numbers(void **state)
{
    const uint32_t others[] = {0, 1, 0xffffffffu};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char path[T_PATH_MAX];
        char *before = NULL;
        model m;
        model other;
        model_opened opened;

        identity_make(&m, IDENTITY_QUIPU, path);
        before = model_dump(path, true);
        (void)identity_notes(&other, others[i]);
        (void)model_end(&other);
        opened = MODEL_OPEN(path, &other);
        model_expect(opened, QUIPU_UNSUPPORTED, "0x51495055");
        assert_non_null(strstr(opened.error.message, i == 0   ? "0x00000000"
                                                     : i == 1 ? "0x00000001"
                                                              : "0xffffffff"));
        model_expect(model_visit(path, &other.schema, NULL, ENT_SQLITE_READ_ONLY),
                     QUIPU_UNSUPPORTED, "0x51495055");
        model_same(before, model_dump(path, true));
        model_free(&m);
        model_free(&other);
    }
}

static void strangers_file_without_an_id_is_left_alone(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    model m;

    (void)state;
    t_path(t_tmpdir(), "theirs.db", path);
    t_path(t_tmpdir(), "copy.db", copy);
    model_exec(path, "CREATE TABLE customers (id integer PRIMARY KEY, name text)");
    t_file_copy(path, copy);
    (void)identity_notes(&m, IDENTITY_QUIPU);
    (void)model_end(&m);
    model_expect(MODEL_OPEN(path, &m), QUIPU_UNSUPPORTED, "customers");
    assert_true(t_file_equal(path, copy));
    model_free(&m);
}

static void schema_without_an_id_may_join_a_file(void **state)
{
    char path[T_PATH_MAX];
    model m;
    model_opened opened;

    (void)state;
    t_path(t_tmpdir(), "theirs.db", path);
    model_exec(path, "CREATE TABLE customers (id integer PRIMARY KEY, name text)");
    (void)identity_notes(&m, 0);
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_OK, NULL);
    assert_true(opened.report.created);
    model_free(&m);
}

static void id_stated_later_is_set_on_a_file_of_ours(void **state)
{
    char path[T_PATH_MAX];
    model m;

    (void)state;
    identity_make(&m, 0, path);
    m.schema.application_id = IDENTITY_QUIPU;
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    model_check(path, "PRAGMA application_id", "1363759189\n");
    model_free(&m);
}

static void two_schemas_share_a_file(void **state)
{
    char path[T_PATH_MAX];
    model a;
    model b;

    (void)state;
    identity_make(&a, 0, path);
    model_begin(&b, 0);
    b.schema.name = "second";
    (void)model_entity(&b, "Task", "tasks");
    (void)model_end(&b);
    MODEL_OPEN_OK(path, &b);
    assert_int_equal(MODEL_OPEN(path, &a).report.statements, 0);
    assert_int_equal(MODEL_OPEN(path, &b).report.statements, 0);
    model_check(path, "SELECT schema FROM ent_journal ORDER BY seq", "test\nsecond\n");
    model_free(&a);
    model_free(&b);
}

/* ---- versions -----------------------------------------------------------------------------------
 */

static void newer_file_is_refused_for_writing(void **state)
{
    char path[T_PATH_MAX];
    model old;
    model new;
    char *before = NULL;
    model_opened opened;

    (void)state;
    identity_make(&old, 0, path);
    (void)identity_notes(&new, 0);
    new.schema.version = 3;
    new.schema.min_writer = 3;
    (void)model_end(&new);
    MODEL_OPEN_OK(path, &new);
    before = model_dump(path, true);
    opened = MODEL_OPEN(path, &old);
    model_expect(opened, QUIPU_NEWER, "version 3 to write");
    assert_non_null(strstr(opened.error.message, "read-only"));
    model_same(before, model_dump(path, true));

    opened = model_visit(path, &old.schema, NULL, ENT_SQLITE_READ_ONLY);
    model_expect(opened, QUIPU_OK, NULL);
    assert_true(opened.report.read_only);
    opened = model_visit(path, &new.schema, NULL, ENT_SQLITE_READ_ONLY);
    model_expect(opened, QUIPU_OK, NULL);
    assert_false(opened.report.read_only);
    model_free(&old);
    model_free(&new);
}

static void newer_file_that_forbids_reading_is_refused_altogether(void **state)
{
    char path[T_PATH_MAX];
    model old;
    model new;

    (void)state;
    identity_make(&old, 0, path);
    (void)identity_notes(&new, 0);
    new.schema.version = new.schema.min_writer = new.schema.min_reader = 2;
    (void)model_end(&new);
    MODEL_OPEN_OK(path, &new);
    model_expect(MODEL_OPEN(path, &old), QUIPU_NEWER, "version 2 to read");
    model_expect(model_visit(path, &old.schema, NULL, ENT_SQLITE_READ_ONLY), QUIPU_NEWER,
                 "upgrade");
    model_free(&old);
    model_free(&new);
}

static void versions_asked_for_never_fall(void **state)
{
    char path[T_PATH_MAX];
    model strict;
    model loose;

    (void)state;
    (void)identity_notes(&strict, 0);
    strict.schema.version = 5;
    strict.schema.min_writer = 4;
    (void)model_end(&strict);
    t_path(t_tmpdir(), "store.db", path);
    MODEL_OPEN_OK(path, &strict);
    (void)model_field(&loose, identity_notes(&loose, 0), "late", ENT_INT, ENT_F_NULLABLE);
    loose.schema.version = 5;
    (void)model_end(&loose);
    MODEL_OPEN_OK(path, &loose);
    model_check(path, "SELECT min_writer FROM ent_journal ORDER BY seq", "4\n4\n");
    model_free(&strict);
    model_free(&loose);
}

/* A program may keep older ones out of one file, whatever its schema says for all. */
static void version_asked_for_by_a_program_stays(void **state)
{
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;
    char path[T_PATH_MAX];
    model old;
    model new;

    (void)state;
    identity_make(&old, 0, path);
    (void)identity_notes(&new, 0);
    new.schema.version = 3;
    (void)model_end(&new);
    options.min_writer = 3;
    model_expect(model_visit(path, &new.schema, &options, 0), QUIPU_OK, NULL);
    MODEL_OPEN_OK(path, &new);
    model_expect(MODEL_OPEN(path, &old), QUIPU_NEWER, "version 3 to write");
    model_free(&old);
    model_free(&new);
}

/* ---- the journal --------------------------------------------------------------------------------
 */

static void tampered_journal_is_corrupt(void **state)
{
    char path[T_PATH_MAX];
    model m;

    (void)state;
    identity_make(&m, 0, path);
    model_exec(path, "UPDATE ent_journal SET schema_text = schema_text || ' '");
    model_expect(MODEL_OPEN(path, &m), QUIPU_CORRUPT, "tampered");
    model_expect(model_visit(path, &m.schema, NULL, ENT_SQLITE_READ_ONLY), QUIPU_CORRUPT,
                 "ent_journal");
    model_exec(path, "UPDATE ent_journal SET schema_text = 5, schema_hash = x'00'");
    model_expect(MODEL_OPEN(path, &m), QUIPU_CORRUPT, "ent_journal");
    model_exec(path, "DROP TABLE ent_journal; CREATE TABLE ent_journal (x)");
    model_expect(MODEL_OPEN(path, &m), QUIPU_CORRUPT, "no migration journal");
    model_free(&m);
}

static void lost_journal_is_made_again(void **state)
{
    char path[T_PATH_MAX];
    model m;

    (void)state;
    identity_make(&m, 9, path);
    model_exec(path, "DROP TABLE ent_journal");
    MODEL_OPEN_OK(path, &m);
    model_check(path, "SELECT title FROM notes", "a\n");
    model_check(path, "SELECT statements FROM ent_journal", "0\n");
    model_free(&m);
}

static void descriptors_that_do_not_fit_their_hash_are_refused(void **state)
{
    char path[T_PATH_MAX];
    model m;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    (void)identity_notes(&m, 0);
    (void)model_end(&m);
    m.hash[0] = m.hash[0] == 'a' ? 'b' : 'a';
    model_expect(MODEL_OPEN(path, &m), QUIPU_MISUSE, "entgen");
    model_free(&m);
}

/* ---- read-only ----------------------------------------------------------------------------------
 */

static void read_only_open_changes_no_byte(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    model m;
    model_opened opened;

    (void)state;
    identity_make(&m, 0, path);
    t_path(t_tmpdir(), "copy.db", copy);
    t_file_copy(path, copy);
    (void)chmod(path, 0400);
    opened = model_visit(path, &m.schema, NULL, ENT_SQLITE_READ_ONLY);
    model_expect(opened, QUIPU_OK, NULL);
    assert_true(t_file_equal(path, copy));
    model_free(&m);
}

static void read_only_open_names_what_is_missing_and_changes_no_byte(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    model m;
    ent_entity *notes = NULL;
    model_opened opened;

    (void)state;
    identity_make(&m, 0, path);
    t_path(t_tmpdir(), "copy.db", copy);
    t_file_copy(path, copy);
    notes = m.entities[0];
    (void)model_index(&m, notes, "note_title", false, 1, 0);
    (void)model_end(&m);
    opened = model_visit(path, &m.schema, NULL, ENT_SQLITE_READ_ONLY);
    model_expect(opened, QUIPU_OK, NULL);
    assert_string_equal(opened.report.missing, "index \"note_title\" of table \"notes\"");
    (void)model_field(&m, notes, "late", ENT_INT, ENT_F_NULLABLE);
    (void)model_entity(&m, "Line", "lines");
    (void)model_end(&m);
    opened = model_visit(path, &m.schema, NULL, ENT_SQLITE_READ_ONLY);
    model_expect(opened, QUIPU_OK, NULL);
    assert_string_equal(opened.report.missing,
                        "column \"late\" of table \"notes\", table \"lines\", "
                        "index \"note_title\" of table \"notes\"");
    assert_int_equal(opened.report.statements, 0);
    assert_true(t_file_equal(path, copy));
    model_free(&m);
}

/* ---- files that are no store --------------------------------------------------------------------
 */

static void identity_bad_file(const char *bytes, size_t size, quipu_status expected)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    model m;

    t_path(t_tmpdir(), "bad.db", path);
    t_path(t_tmpdir(), "copy.db", copy);
    t_file_write(path, bytes, size);
    t_file_copy(path, copy);
    (void)identity_notes(&m, 0);
    (void)model_end(&m);
    model_expect(MODEL_OPEN(path, &m), expected, NULL);
    assert_true(t_file_equal(path, copy));
    model_expect(model_visit(path, &m.schema, NULL, ENT_SQLITE_READ_ONLY), expected, NULL);
    assert_true(t_file_equal(path, copy));
    model_free(&m);
}

static void foreign_encrypted_and_truncated_files_are_corrupt_and_untouched(void **state)
{
    static const char text[] = "Dear diary, this is no database at all.\n";
    char noise[8192];
    char path[T_PATH_MAX];
    uint64_t seed = t_seed();
    model m;
    size_t size = 0;
    char *whole = NULL;

    (void)state;
    identity_bad_file(text, sizeof(text) - 1, QUIPU_CORRUPT);
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (char)t_random(&seed);
    }
    identity_bad_file(noise, sizeof(noise), QUIPU_CORRUPT);
    identity_make(&m, 0, path);
    model_exec(path, "PRAGMA journal_mode = DELETE; PRAGMA wal_checkpoint(TRUNCATE)");
    whole = t_file_read(path, &size);
    identity_bad_file(whole, 15, QUIPU_CORRUPT);
    identity_bad_file(whole, 100, QUIPU_CORRUPT);
    identity_bad_file(whole, 1000, QUIPU_CORRUPT);
    identity_bad_file(whole, 4096, QUIPU_CORRUPT);
    free(whole);
    model_free(&m);
}

static void empty_file_becomes_a_store_but_not_read_only(void **state)
{
    char path[T_PATH_MAX];
    model m;

    (void)state;
    t_path(t_tmpdir(), "empty.db", path);
    t_file_write(path, "", 0);
    (void)identity_notes(&m, 5);
    (void)model_end(&m);
    model_expect(model_visit(path, &m.schema, NULL, ENT_SQLITE_READ_ONLY), QUIPU_CORRUPT, NULL);
    MODEL_OPEN_OK(path, &m);
    model_sound(path);
    model_free(&m);
}

static void damaged_pages_stop_a_migration(void **state)
{
    char path[T_PATH_MAX];
    model m;
    size_t size = 0;
    char *bytes = NULL;
    model_opened opened;

    (void)state;
    identity_make(&m, 0, path);
    model_exec(path, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
                     "2000) INSERT INTO notes (title) SELECT printf('%.40c', 'x') FROM n; "
                     "PRAGMA wal_checkpoint(TRUNCATE)");
    bytes = t_file_read(path, &size);
    assert_true(size > 40960);
    memset(bytes + 8 * 4096, 0xa5, 4096);
    t_file_write(path, bytes, size);
    (void)model_field(&m, m.entities[0], "late", ENT_INT, ENT_F_NULLABLE);
    (void)model_end(&m);
    opened = MODEL_OPEN(path, &m);
    model_expect(opened, QUIPU_CORRUPT, NULL);
    free(bytes);
    model_free(&m);
}

static void read_only_folder_is_refused_clearly(void **state)
{
    char path[T_PATH_MAX];
    char missing[T_PATH_MAX];
    const char *dir = t_tmpdir();
    model m;
    model_opened opened;

    (void)state;
    (void)identity_notes(&m, 0);
    (void)model_end(&m);
    t_path(dir, "none/store.db", missing);
    opened = MODEL_OPEN(missing, &m);
    assert_int_not_equal(opened.status, QUIPU_OK);
    if (geteuid() != 0) { /* root writes everywhere */
        t_path(dir, "store.db", path);
        (void)chmod(dir, 0500);
        opened = MODEL_OPEN(path, &m);
        model_expect(opened, QUIPU_IO, NULL);
        assert_false(t_file_exists(path));
        (void)chmod(dir, 0700);
    }
    model_free(&m);
}

static void migration_inside_a_transaction_is_misuse(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;
    model m;
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;

    (void)state;
    identity_make(&m, 0, path);
    T_STATUS(ent_migrate(NULL, &m.schema, NULL, NULL, NULL), QUIPU_MISUSE);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_STATUS(ent_migrate(db, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_STATUS(ent_migrate(db, &m.schema, NULL, NULL, NULL), QUIPU_MISUSE);
    ent_rollback(db);
    options.struct_size = 0;
    T_STATUS(ent_migrate(db, &m.schema, &options, NULL, NULL), QUIPU_MISUSE);
    options.struct_size = (uint32_t)sizeof(options);
    options.flags = 1;
    T_STATUS(ent_migrate(db, &m.schema, &options, NULL, NULL), QUIPU_MISUSE);
    ent_close(db);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_application_id_is_refused_with_both_numbers),
        cmocka_unit_test(strangers_file_without_an_id_is_left_alone),
        cmocka_unit_test(schema_without_an_id_may_join_a_file),
        cmocka_unit_test(id_stated_later_is_set_on_a_file_of_ours),
        cmocka_unit_test(two_schemas_share_a_file),
        cmocka_unit_test(newer_file_is_refused_for_writing),
        cmocka_unit_test(newer_file_that_forbids_reading_is_refused_altogether),
        cmocka_unit_test(versions_asked_for_never_fall),
        cmocka_unit_test(version_asked_for_by_a_program_stays),
        cmocka_unit_test(tampered_journal_is_corrupt),
        cmocka_unit_test(lost_journal_is_made_again),
        cmocka_unit_test(descriptors_that_do_not_fit_their_hash_are_refused),
        cmocka_unit_test(read_only_open_changes_no_byte),
        cmocka_unit_test(read_only_open_names_what_is_missing_and_changes_no_byte),
        cmocka_unit_test(foreign_encrypted_and_truncated_files_are_corrupt_and_untouched),
        cmocka_unit_test(empty_file_becomes_a_store_but_not_read_only),
        cmocka_unit_test(damaged_pages_stop_a_migration),
        cmocka_unit_test(read_only_folder_is_refused_clearly),
        cmocka_unit_test(migration_inside_a_transaction_is_misuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
