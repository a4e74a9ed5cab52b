/* Named steps: adoption, rebuilds that lose nothing and cascade into nobody, backups, and steps
 * that misbehave. */
#include "crash/model.h"

#include <dirent.h>
#include <sys/stat.h>

#include "ent/db.h"
#include "ent/diff.h"

#define STEPS_QUIPU 0x51495055u

/* What the test's step does, and how often it was called. */
typedef struct steps_ctx {
    const model *m;
    const char *copy; /* SQL that copies rows into the new table, whose name replaces %s */
    bool needed;      /* the answer to `needed` */
    int asked;
    int runs;
    quipu_status fails; /* what to answer instead of success */
    bool carry;         /* carry unknown columns row by row */
} steps_ctx;

static quipu_status steps_needed(ent_db *db, void *ctx, bool *ret_needed, quipu_error *reterr)
{
    steps_ctx *self = ctx;

    (void)db;
    (void)reterr;
    self->asked++;
    *ret_needed = self->needed;
    return QUIPU_OK;
}

static quipu_status steps_execute(ent_db *db, const char *sql)
{
    return db->engine->execute(db->conn, quipu_cstr(sql), NULL);
}

/* Rebuild the first entity's table. */
static quipu_status steps_rebuild(ent_db *db, void *ctx, quipu_error *reterr)
{
    steps_ctx *self = ctx;
    const ent_entity *entity = self->m->entities[0];
    const ent_entity *fresh = NULL;
    char sql[2048];

    self->runs++;
    T_OK(ent_step_rebuild_begin(db, entity, &fresh, reterr));
    assert_string_not_equal(fresh->table, entity->table);
    T_STATUS(ent_step_rebuild_begin(db, entity, &fresh, NULL), QUIPU_MISUSE);
    (void)snprintf(sql, sizeof(sql), "INSERT INTO %s %s", fresh->table, self->copy);
    T_OK(db->engine->execute(db->conn, quipu_cstr(sql), reterr));
    for (int64_t i = 1; self->carry && i <= 3; i++) {
        T_OK(ent_step_carry(db, entity, i, i, reterr));
    }
    if (self->fails != QUIPU_OK) {
        return self->fails;
    }
    return ent_step_rebuild_end(db, entity, reterr);
}

static quipu_status steps_mark(ent_db *db, void *ctx, quipu_error *reterr)
{
    steps_ctx *self = ctx;

    (void)reterr;
    self->runs++;
    T_OK(steps_execute(db, "UPDATE notes SET title = title || '!'"));
    return self->fails;
}

/* notes(id, title); a second version has `size`, required and without default. */
static void steps_model(model *m, bool second)
{
    ent_entity *notes = NULL;

    model_begin(m, STEPS_QUIPU);
    notes = model_entity(m, "Note", "notes");
    (void)model_field(m, notes, "title", ENT_TEXT, 0);
    if (second) {
        (void)model_field(m, notes, "size", ENT_INT, 0);
    }
    (void)model_end(m);
}

static void steps_file(char ret_path[T_PATH_MAX])
{
    model m;

    t_path(t_tmpdir(), "store.db", ret_path);
    steps_model(&m, false);
    MODEL_OPEN_OK(ret_path, &m);
    model_exec(ret_path, "INSERT INTO notes (title) VALUES ('a'), ('bb'), ('ccc')");
    model_free(&m);
}

static ent_migrate_options steps_options(const ent_step *steps, size_t n)
{
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;

    options.program = "steps test";
    options.steps = steps;
    options.step_count = n;
    return options;
}

/* The backups beside a file: how many, and the newest's name. */
static int steps_backups(const char *path, char ret_newest[T_PATH_MAX])
{
    char folder[T_PATH_MAX];
    char *slash = NULL;
    DIR *dir = NULL;
    int n = 0;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    slash = strrchr(folder, '/');
    *slash = '\0';
    dir = opendir(folder);
    assert_non_null(dir);
    ret_newest[0] = '\0';
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char full[T_PATH_MAX];
        if (strstr(entry->d_name, ".bak-") == NULL) {
            continue;
        }
        n++;
        t_path(folder, entry->d_name, full);
        if (strcmp(full, ret_newest) > 0) {
            (void)snprintf(ret_newest, T_PATH_MAX, "%s", full);
        }
    }
    (void)closedir(dir);
    return n;
}

static const char steps_copy[] = "(id, title, size) SELECT id, title, length(title) FROM notes";

static void rebuild_makes_what_adding_cannot(void **state)
{
    char path[T_PATH_MAX];
    char backup[T_PATH_MAX];
    char *before = NULL;
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy};
    const ent_step step = {"sizes", "give notes a size", steps_needed, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);
    model_opened opened;
    struct stat info;

    (void)state;
    steps_file(path);
    model_exec(path, "DELETE FROM notes WHERE id = 3; INSERT INTO notes VALUES (9, 'x'); "
                     "DELETE FROM notes WHERE id = 9; INSERT INTO notes VALUES (3, 'ccc')");
    before = model_dump(path, true);
    steps_model(&m, true);
    ctx.m = &m;
    model_expect(MODEL_OPEN(path, &m), QUIPU_UNSUPPORTED, "step");
    opened = model_visit(path, &m.schema, &options, 0);
    model_expect(opened, QUIPU_OK, NULL);
    assert_int_equal(opened.report.steps, 1);
    model_check(path, "SELECT * FROM notes", "1|a|1\n2|bb|2\n3|ccc|3\n");
    model_check(path, "SELECT step, statements > 0, program FROM ent_journal ORDER BY seq",
                "NULL|1|\nsizes|1|steps test\nNULL|0|steps test\n");
    /* A number once given out is never given out again. */
    model_exec(path, "INSERT INTO notes (title, size) VALUES ('new', 3)");
    model_check(path, "SELECT max(id) FROM notes", "10\n");
    model_sound(path);
    assert_int_equal(steps_backups(path, backup), 1);
    assert_string_equal(backup, opened.report.backup);
    assert_int_equal(stat(backup, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_non_null(strstr(backup, "/store.db.bak-sizes-20"));
    model_same(before, model_dump(backup, true));
    model_sound(backup);

    opened = model_visit(path, &m.schema, &options, 0);
    model_expect(opened, QUIPU_OK, NULL);
    assert_int_equal(opened.report.steps, 0);
    assert_int_equal(ctx.runs, 1);
    assert_int_equal(ctx.asked, 1);
    model_free(&m);
}

static void step_that_is_not_needed_is_journalled_and_asked_once(void **state)
{
    char path[T_PATH_MAX];
    char backup[T_PATH_MAX];
    model m;
    steps_ctx ctx = {.needed = false};
    const ent_step step = {"none", "nothing", steps_needed, steps_mark, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    steps_file(path);
    steps_model(&m, false);
    for (int i = 0; i < 3; i++) {
        model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    }
    assert_int_equal(ctx.asked, 1);
    assert_int_equal(ctx.runs, 0);
    assert_int_equal(steps_backups(path, backup), 0);
    model_check(path, "SELECT statements FROM ent_journal WHERE step = 'none'", "0\n");
    model_free(&m);
}

static void new_file_needs_no_step(void **state)
{
    char path[T_PATH_MAX];
    model m;
    steps_ctx ctx = {.needed = true};
    const ent_step step = {"mark", "text", steps_needed, steps_mark, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    steps_model(&m, false);
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    assert_int_equal(ctx.asked + ctx.runs, 0);
    model_check(path, "SELECT step FROM ent_journal ORDER BY seq", "mark\nNULL\n");
    model_free(&m);
}

static void step_added_without_a_schema_change_runs(void **state)
{
    char path[T_PATH_MAX];
    model m;
    steps_ctx first = {.needed = true};
    steps_ctx second = {.needed = true};
    const ent_step steps[] = {{"one", "text", NULL, steps_mark, &first},
                              {"two", "text", steps_needed, steps_mark, &second}};
    ent_migrate_options options = steps_options(steps, 1);

    (void)state;
    steps_file(path);
    steps_model(&m, false);
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    options.step_count = 2;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    options.step_count = 1; /* an older program, which does not know the second */
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    options.step_count = 2;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    assert_int_equal(first.runs, 1);
    assert_int_equal(second.runs, 1);
    model_check(path, "SELECT title FROM notes WHERE id = 1", "a!!\n");
    model_free(&m);
}

static void applied_step_with_another_text_is_invalid(void **state)
{
    char path[T_PATH_MAX];
    char *before = NULL;
    model m;
    steps_ctx ctx = {.needed = true};
    ent_step step = {"mark", "text", NULL, steps_mark, &ctx};
    ent_migrate_options options = steps_options(&step, 1);
    model_opened opened;

    (void)state;
    steps_file(path);
    steps_model(&m, false);
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    before = model_dump(path, true);
    step.text = "another text";
    opened = model_visit(path, &m.schema, &options, 0);
    model_expect(opened, QUIPU_INVALID, "\"mark\"");
    assert_int_equal(ctx.runs, 1);
    model_same(before, model_dump(path, true));
    model_free(&m);
}

static void step_adopts_a_strangers_file(void **state)
{
    char path[T_PATH_MAX];
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy};
    const ent_step step = {"adopt", "text", steps_needed, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    t_path(t_tmpdir(), "theirs.db", path);
    model_exec(path, "CREATE TABLE notes (id integer PRIMARY KEY, title text); "
                     "CREATE TABLE other (x); INSERT INTO other VALUES ('kept'); "
                     "INSERT INTO notes VALUES (5, 'five')");
    steps_model(&m, true);
    ctx.m = &m;
    model_expect(MODEL_OPEN(path, &m), QUIPU_UNSUPPORTED, "another program");
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    model_check(path, "SELECT * FROM notes", "5|five|4\n");
    model_check(path, "SELECT * FROM other", "kept\n");
    model_check(path, "PRAGMA application_id", "1363759189\n");
    MODEL_OPEN_OK(path, &m);
    model_free(&m);
}

static void failed_step_changes_nothing_and_leaves_no_backup(void **state)
{
    char path[T_PATH_MAX];
    char backup[T_PATH_MAX];
    char *before = NULL;
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy, .fails = QUIPU_CANCELLED};
    const ent_step step = {"sizes", "text", steps_needed, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    steps_file(path);
    before = model_dump(path, true);
    steps_model(&m, true);
    ctx.m = &m;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_CANCELLED, NULL);
    assert_int_equal(ctx.runs, 1);
    assert_int_equal(steps_backups(path, backup), 0);
    model_same(before, model_dump(path, true));
    model_free(&m);
}

static void rebuild_that_drops_rows_is_refused(void **state)
{
    char path[T_PATH_MAX];
    char *before = NULL;
    model m;
    steps_ctx ctx = {.needed = true,
                     .copy = "(id, title, size) SELECT id, title, 0 FROM notes LIMIT 2"};
    const ent_step step = {"sizes", "text", NULL, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);
    model_opened opened;

    (void)state;
    steps_file(path);
    before = model_dump(path, true);
    steps_model(&m, true);
    ctx.m = &m;
    opened = model_visit(path, &m.schema, &options, 0);
    model_expect(opened, QUIPU_INVALID, "2 of 3 rows");
    model_same(before, model_dump(path, true));
    model_free(&m);
}

static void unknown_columns_indexes_triggers_and_views_survive_a_rebuild(void **state)
{
    const char *others = "SELECT type, name, tbl_name, sql FROM sqlite_schema "
                         "WHERE name LIKE 'their%' ORDER BY 1, 2";
    char path[T_PATH_MAX];
    char *before = NULL;
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy, .carry = true};
    const ent_step step = {"sizes", "text", NULL, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    model_exec(
        path,
        "PRAGMA application_id = 1363759189; CREATE TABLE notes (id integer PRIMARY KEY, "
        "title text, mood varchar(10) NOT NULL DEFAULT 'fine', must blob NOT NULL, "
        "code text, UNIQUE (code, mood)); CREATE TABLE their_log (x); "
        "INSERT INTO notes VALUES (1, 'a', 'grim', x'00ff', 'c1'), (2, 'bb', 'fine', 5, "
        "'c2'), (3, 'ccc', 'odd', 'txt', 'c3'); "
        "CREATE INDEX their_mood ON notes (mood); CREATE UNIQUE INDEX their_low ON notes "
        "(lower(title)) WHERE id < 100; CREATE TRIGGER their_trigger AFTER INSERT ON notes "
        "BEGIN INSERT INTO their_log VALUES (new.title); END; CREATE TRIGGER their_far AFTER "
        "INSERT ON their_log BEGIN UPDATE notes SET mood = 'logged' WHERE title = new.x; END; "
        "CREATE VIEW their_view AS SELECT id, mood FROM notes");
    before = model_query(path, others);
    steps_model(&m, true);
    ctx.m = &m;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    model_same(before, model_query(path, others));
    model_check(path, "SELECT id, title, size, mood, hex(must), code FROM notes",
                "1|a|1|grim|00FF|c1\n2|bb|2|fine|35|c2\n3|ccc|3|odd|747874|c3\n");
    model_check(path,
                "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_info('notes') "
                "WHERE name IN ('mood', 'must', 'code')",
                "mood|varchar(10)|1|'fine'\nmust|BLOB|0|NULL\ncode|TEXT|0|NULL\n");
    model_check(path, "SELECT count(*) FROM their_log", "0\n");
    model_exec(path, "INSERT INTO notes (title, size) VALUES ('late', 4)");
    model_check(path, "SELECT * FROM their_view WHERE id = 4", "4|logged\n");
    model_check(path, "SELECT name FROM pragma_index_list('notes') WHERE name LIKE 'notes%'",
                "notes_code_mood_key\n");
    model_sound(path);
    model_free(&m);
}

/* ---- children -----------------------------------------------------------------------------------
 */

/* notes with lines that cascade; the second version's notes need a rebuild. */
static void steps_family(model *m, bool second)
{
    ent_entity *notes = NULL;
    ent_entity *lines = NULL;

    model_begin(m, STEPS_QUIPU);
    notes = model_entity(m, "Note", "notes");
    (void)model_field(m, notes, "title", ENT_TEXT, 0);
    if (second) {
        (void)model_field(m, notes, "size", ENT_INT, 0);
    }
    lines = model_entity(m, "Line", "lines");
    (void)model_field(m, lines, "note_id", ENT_INT, 0);
    model_edge(m, lines, "note", notes, "lines", 1, ENT_CASCADE);
    (void)model_index(m, lines, "line_note_id", false, 1, 0);
    (void)model_end(m);
}

static void rebuild_of_1e5_rows_keeps_the_cascade_children(void **state)
{
    char path[T_PATH_MAX];
    char *before = NULL;
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy};
    const ent_step step = {"sizes", "text", NULL, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    steps_family(&m, false);
    MODEL_OPEN_OK(path, &m);
    model_free(&m);
    model_exec(path, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
                     "100000) INSERT INTO notes (id, title) SELECT i, 'note ' || i FROM n; "
                     "INSERT INTO lines (note_id) SELECT id FROM notes; "
                     "INSERT INTO lines (note_id) SELECT id FROM notes WHERE id % 2 = 0");
    before = model_query(path, "SELECT id, note_id FROM lines");
    steps_family(&m, true);
    ctx.m = &m;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    model_same(before, model_query(path, "SELECT id, note_id FROM lines"));
    model_check(path, "SELECT count(*), sum(size) FROM notes", "100000|988895\n");
    model_check(path, "SELECT \"table\", on_delete FROM pragma_foreign_key_list('lines')",
                "notes|CASCADE\n");
    model_check(path, "PRAGMA foreign_key_check", "");
    model_exec(path, "PRAGMA foreign_keys = ON; DELETE FROM notes WHERE id <= 10");
    model_check(path, "SELECT count(*) FROM lines", "149985\n");
    model_sound(path);
    model_free(&m);
}

static void references_are_enforced_again_after_a_migration(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy};
    const ent_step step = {"sizes", "text", NULL, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    for (int round = 0; round < 2; round++) {
        t_path(t_tmpdir(), "store.db", path);
        steps_family(&m, false);
        MODEL_OPEN_OK(path, &m);
        model_free(&m);
        steps_family(&m, true);
        ctx.m = &m;
        ctx.fails = round == 0 ? QUIPU_OK : QUIPU_CANCELLED;
        T_OK(ent_sqlite_open(path, NULL, &db, NULL));
        T_STATUS(ent_migrate(db, &m.schema, &options, NULL, NULL), ctx.fails);
        T_STATUS(steps_execute(db, "INSERT INTO lines (note_id) VALUES (77)"), QUIPU_INVALID);
        ent_close(db);
        model_free(&m);
    }
}

static void dangling_rows_from_before_are_allowed_new_ones_are_not(void **state)
{
    char path[T_PATH_MAX];
    char *before = NULL;
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy};
    const ent_step step = {"sizes", "text", NULL, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    steps_family(&m, false);
    MODEL_OPEN_OK(path, &m);
    model_free(&m);
    model_exec(path, "PRAGMA foreign_keys = OFF; INSERT INTO notes (title) VALUES ('a'); "
                     "INSERT INTO lines (note_id) VALUES (1), (404)");
    before = model_dump(path, true);
    steps_family(&m, true);
    ctx.m = &m;
    ctx.copy = "(id, title, size) SELECT id + 1, title, 0 FROM notes";
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_INVALID, "1 more row");
    model_same(before, model_dump(path, true));
    ctx.copy = steps_copy;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    model_check(path, "SELECT note_id FROM lines", "1\n404\n");
    model_free(&m);
}

/* ---- misuse and limits --------------------------------------------------------------------------
 */

static quipu_status steps_unfinished(ent_db *db, void *ctx, quipu_error *reterr)
{
    const ent_entity *fresh = NULL;
    steps_ctx *self = ctx;

    return ent_step_rebuild_begin(db, self->m->entities[0], &fresh, reterr);
}

static quipu_status steps_open_transaction(ent_db *db, void *ctx, quipu_error *reterr)
{
    (void)ctx;
    return ent_begin(db, ENT_WRITE, reterr);
}

static quipu_status steps_end_transaction(ent_db *db, void *ctx, quipu_error *reterr)
{
    (void)ctx;
    (void)reterr;
    ent_rollback(db);
    return QUIPU_OK;
}

static void step_that_leaves_things_half_done_is_misuse(void **state)
{
    quipu_status (*const bad[])(ent_db *, void *, quipu_error *) = {
        steps_unfinished, steps_open_transaction, steps_end_transaction};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char path[T_PATH_MAX];
        char *before = NULL;
        model m;
        steps_ctx ctx = {.needed = true};
        const ent_step step = {"bad", "text", NULL, bad[i], &ctx};
        ent_migrate_options options = steps_options(&step, 1);

        steps_file(path);
        before = model_dump(path, true);
        steps_model(&m, false);
        ctx.m = &m;
        model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_MISUSE, "\"bad\"");
        model_same(before, model_dump(path, true));
        model_free(&m);
    }
}

static quipu_status steps_drop(ent_db *db, void *ctx, quipu_error *reterr)
{
    const ent_entity *notes = ctx;
    quipu_status status = ent_step_drop_index(db, notes, "NOTES_extra", reterr);

    if (status == QUIPU_OK) {
        status = ent_step_drop_index(db, notes, "none", reterr);
    }
    return status == QUIPU_OK ? ent_step_drop_index(db, notes, "other_x", reterr) : status;
}

static void step_drops_only_indexes_of_the_entitys_own_table(void **state)
{
    char path[T_PATH_MAX];
    model m;
    ent_step step = {"drop", "text", NULL, steps_drop, NULL};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    steps_file(path);
    model_exec(path, "CREATE INDEX notes_extra ON notes (title, id); "
                     "CREATE TABLE other (x); CREATE INDEX other_x ON other (x)");
    steps_model(&m, false);
    step.ctx = m.entities[0];
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    model_check(path, "SELECT name FROM sqlite_schema WHERE name IN ('notes_extra', 'other_x')",
                "other_x\n");
    model_free(&m);
}

static void step_functions_outside_of_a_step_are_misuse(void **state)
{
    char path[T_PATH_MAX];
    const ent_entity *fresh = NULL;
    ent_db *db = NULL;
    bool has = false;
    model m;

    (void)state;
    steps_file(path);
    steps_model(&m, false);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_STATUS(ent_step_rebuild_begin(db, m.entities[0], &fresh, NULL), QUIPU_MISUSE);
    T_STATUS(ent_step_rebuild_end(db, m.entities[0], NULL), QUIPU_MISUSE);
    T_STATUS(ent_step_carry(db, m.entities[0], 1, 1, NULL), QUIPU_MISUSE);
    T_OK(ent_step_has_table(db, "NOTES", &has, NULL));
    assert_true(has);
    T_OK(ent_step_has_table(db, "none", &has, NULL));
    assert_false(has);
    T_OK(ent_step_has_column(db, "notes", "title", &has, NULL));
    assert_true(has);
    T_OK(ent_step_has_column(db, "notes", "none", &has, NULL));
    assert_false(has);
    T_OK(ent_step_has_column(db, "none", "title", &has, NULL));
    assert_false(has);
    T_STATUS(ent_step_drop_index(db, m.entities[0], "x", NULL), QUIPU_MISUSE);
    T_STATUS(ent_step_complete(db, &m.schema, NULL), QUIPU_MISUSE);
    ent_close(db);
    model_free(&m);
}

static void steps_are_limited_and_have_names_of_their_own(void **state)
{
    static ent_step many[ENT_STEPS_MAX + 1];
    static char names[ENT_STEPS_MAX + 1][16];
    char path[T_PATH_MAX];
    model m;
    steps_ctx ctx = {.needed = false};
    ent_migrate_options options = steps_options(many, ENT_STEPS_MAX + 1);

    (void)state;
    steps_file(path);
    steps_model(&m, false);
    for (size_t i = 0; i <= ENT_STEPS_MAX; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "step-%zu", i);
        many[i] = (ent_step){names[i], "text", steps_needed, steps_mark, &ctx};
    }
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_LIMIT, "256");
    options.step_count = ENT_STEPS_MAX;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    assert_int_equal(ctx.asked, ENT_STEPS_MAX);
    options.step_count = 2;
    many[1].name = names[0];
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_MISUSE, "step-0");
    many[1].name = "";
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_MISUSE, NULL);
    model_free(&m);
}

static void names_tried_for_a_rebuild_are_limited(void **state)
{
    char path[T_PATH_MAX];
    sqlite3 *db = NULL;
    model m;
    steps_ctx ctx = {.needed = true};
    ent_step step = {"sizes", "text", NULL, steps_unfinished, &ctx};
    ent_migrate_options options = steps_options(&step, 1);

    (void)state;
    steps_file(path);
    db = model_raw(path);
    for (int i = 1; i <= QP_DIFF_NAME_TRIES; i++) {
        char sql[64];
        (void)snprintf(sql, sizeof(sql), "CREATE TABLE notes_rebuild_%d (a)", i);
        model_exec_on(db, sql);
    }
    (void)sqlite3_close(db);
    steps_model(&m, true);
    ctx.m = &m;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_LIMIT, "notes");
    model_exec(path, "DROP TABLE notes_rebuild_100");
    step.run = steps_rebuild;
    ctx.copy = steps_copy;
    model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    model_free(&m);
}

/* ---- backups ------------------------------------------------------------------------------------
 */

static void only_the_newest_backups_of_our_own_naming_stay(void **state)
{
    static const char *const alien[] = {"store.db.bak-mine", "store.db.bak-x-20260101T000000Z",
                                        "other.db.bak-s-20200101T000000000000000Z",
                                        "store.db.bak-s-20200101T00000000000000Z"};
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    char newest[T_PATH_MAX];
    char *slash = NULL;
    model m;
    steps_ctx ctx = {.needed = true};
    ent_step steps[] = {{"s0", "text", NULL, steps_mark, &ctx},
                        {"s1", "text", NULL, steps_mark, &ctx},
                        {"s2", "text", NULL, steps_mark, &ctx},
                        {"s3", "text", NULL, steps_mark, &ctx}};
    ent_migrate_options options = steps_options(steps, 0);

    (void)state;
    steps_file(path);
    steps_model(&m, false);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(other, sizeof(other), "%s", path);
        slash = strrchr(other, '/');
        (void)snprintf(slash + 1, sizeof(other) - (size_t)(slash + 1 - other), "%s", alien[i]);
        t_file_write(other, "x", 1);
    }
    options.backups_kept = 2;
    for (size_t i = 1; i <= 4; i++) {
        options.step_count = i;
        model_expect(model_visit(path, &m.schema, &options, 0), QUIPU_OK, NULL);
    }
    assert_int_equal(steps_backups(path, newest), 4 + 2);
    model_check(path, "SELECT title FROM notes WHERE id = 1", "a!!!!\n");
    model_free(&m);
}

static void store_in_memory_is_migrated_without_a_backup(void **state)
{
    ent_db *db = NULL;
    model m;
    steps_ctx ctx = {.needed = true, .copy = steps_copy};
    const ent_step step = {"sizes", "text", NULL, steps_rebuild, &ctx};
    ent_migrate_options options = steps_options(&step, 1);
    ent_migrate_report report;

    (void)state;
    T_OK(ent_sqlite_open(":memory:", NULL, &db, NULL));
    steps_model(&m, false);
    T_OK(ent_migrate(db, &m.schema, NULL, &report, NULL));
    model_free(&m);
    T_OK(steps_execute(db, "INSERT INTO notes (title) VALUES ('a')"));
    steps_model(&m, true);
    ctx.m = &m;
    T_OK(ent_migrate(db, &m.schema, &options, &report, NULL));
    assert_int_equal(report.steps, 1);
    assert_string_equal(report.backup, "");
    ent_close(db);
    model_free(&m);
}

static void path_with_odd_characters_gets_its_backup(void **state)
{
    char path[T_PATH_MAX];
    char backup[T_PATH_MAX];
    model m;
    steps_ctx ctx = {.needed = true};
    const ent_step step = {"a/b c", "text", NULL, steps_mark, &ctx};
    ent_migrate_options options = steps_options(&step, 1);
    model_opened opened;

    (void)state;
    t_path(t_tmpdir(), "what? 100% #1 it's.db", path);
    steps_model(&m, false);
    MODEL_OPEN_OK(path, &m);
    model_exec(path, "INSERT INTO notes (title) VALUES ('a')");
    opened = model_visit(path, &m.schema, &options, 0);
    model_expect(opened, QUIPU_OK, NULL);
    assert_int_equal(steps_backups(path, backup), 1);
    assert_non_null(strstr(backup, "what? 100% #1 it's.db.bak-a_b_c-"));
    model_check(backup, "SELECT title FROM notes", "a\n");
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rebuild_makes_what_adding_cannot),
        cmocka_unit_test(step_that_is_not_needed_is_journalled_and_asked_once),
        cmocka_unit_test(new_file_needs_no_step),
        cmocka_unit_test(step_added_without_a_schema_change_runs),
        cmocka_unit_test(applied_step_with_another_text_is_invalid),
        cmocka_unit_test(step_adopts_a_strangers_file),
        cmocka_unit_test(failed_step_changes_nothing_and_leaves_no_backup),
        cmocka_unit_test(rebuild_that_drops_rows_is_refused),
        cmocka_unit_test(unknown_columns_indexes_triggers_and_views_survive_a_rebuild),
        cmocka_unit_test(rebuild_of_1e5_rows_keeps_the_cascade_children),
        cmocka_unit_test(references_are_enforced_again_after_a_migration),
        cmocka_unit_test(dangling_rows_from_before_are_allowed_new_ones_are_not),
        cmocka_unit_test(step_that_leaves_things_half_done_is_misuse),
        cmocka_unit_test(step_drops_only_indexes_of_the_entitys_own_table),
        cmocka_unit_test(step_functions_outside_of_a_step_are_misuse),
        cmocka_unit_test(steps_are_limited_and_have_names_of_their_own),
        cmocka_unit_test(names_tried_for_a_rebuild_are_limited),
        cmocka_unit_test(only_the_newest_backups_of_our_own_naming_stay),
        cmocka_unit_test(store_in_memory_is_migrated_without_a_backup),
        cmocka_unit_test(path_with_odd_characters_gets_its_backup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
