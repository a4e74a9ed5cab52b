/* The migration that the crash tests interrupt. */
#include "crash/family.h"

#include <dirent.h>

#include "ent/db.h"

#define FAMILY_ROWS "200"

static void family_build(model *m, bool second)
{
    static const uint8_t search[] = {1};
    ent_entity *notes = NULL;
    ent_entity *lines = NULL;

    model_begin(m, FAMILY_ID);
    notes = model_entity(m, "Note", "notes");
    (void)model_field(m, notes, "title", ENT_TEXT, 0);
    if (second) {
        (void)model_field(m, notes, "size", ENT_INT, 0);
    }
    lines = model_entity(m, "Line", "lines");
    (void)model_field(m, lines, "note_id", ENT_INT, 0);
    model_edge(m, lines, "note", notes, "lines", 1, ENT_CASCADE);
    (void)model_index(m, lines, "line_note_id", false, 1, 0);
    if (second) {
        model_field(m, lines, "mark", ENT_TEXT, ENT_F_DEFAULT)->default_text = "none";
        (void)model_index(m, notes, "notes_title_key", true, 1, 0);
        (void)model_entity(m, "Tag", "tags");
        notes->flags |= ENT_E_SEARCH;
        notes->search_fields = search;
        notes->search_count = 1;
    }
    (void)model_end(m);
}

void family_old(model *m)
{
    family_build(m, false);
}

void family_new(model *m)
{
    family_build(m, true);
}

void family_make(const char *path)
{
    model m;

    family_old(&m);
    MODEL_OPEN_OK(path, &m);
    model_free(&m);
    model_exec(
        path,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " FAMILY_ROWS
        ") INSERT INTO notes (id, title) SELECT i, 'note ' || i FROM n; "
        "INSERT INTO lines (note_id) SELECT id FROM notes; "
        "ALTER TABLE notes ADD COLUMN their_mood text DEFAULT 'fine'; "
        "CREATE VIEW their_view AS SELECT title FROM notes; "
        "PRAGMA wal_checkpoint(TRUNCATE)");
}

static quipu_status family_step(ent_db *db, void *ctx, quipu_error *reterr)
{
    const model *m = ctx;
    const ent_entity *notes = m->entities[0];
    const ent_entity *fresh = NULL;
    char sql[512];
    quipu_status status = ent_step_rebuild_begin(db, notes, &fresh, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO \"%s\" (id, title, size, their_mood) SELECT id, title, "
                   "length(title), their_mood FROM notes",
                   fresh->table);
    status = db->engine->execute(db->conn, quipu_cstr(sql), reterr);
    for (int64_t i = 1; i <= 3 && status == QUIPU_OK; i++) {
        status = ent_step_carry(db, notes, i, i, reterr);
    }
    return status == QUIPU_OK ? ent_step_rebuild_end(db, notes, reterr) : status;
}

model_opened family_migrate(const char *path, const model *m, const char *vfs)
{
    model *ctx = (model *)(uintptr_t)m;
    const ent_step step = {"sizes", "give every note its size", NULL, family_step, ctx};
    ent_sqlite_options open = ENT_SQLITE_OPTIONS_INIT;
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;
    model_opened opened = {0};
    ent_db *db = NULL;

    open.vfs = vfs;
    options.steps = &step;
    options.step_count = 1;
    options.program = "crash test";
    opened.status = ent_sqlite_open(path, &open, &db, &opened.error);
    if (opened.status == QUIPU_OK) {
        opened.status = ent_migrate(db, &m->schema, &options, &opened.report, &opened.error);
    }
    ent_close(db);
    return opened;
}

char *family_content(const char *path)
{
    char *rows = model_dump(path, false);
    char *schema = model_query(path, "SELECT type, name, tbl_name, sql FROM sqlite_schema "
                                     "WHERE name NOT LIKE '%ent_journal%' ORDER BY 1, 2");
    size_t size = strlen(rows) + strlen(schema) + 1;
    char *both = malloc(size);

    assert_non_null(both);
    (void)snprintf(both, size, "%s%s", schema, rows);
    free(rows);
    free(schema);
    return both;
}

int family_check_backups(const char *path, const char *content)
{
    char folder[T_PATH_MAX];
    DIR *dir = NULL;
    int n = 0;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char backup[T_PATH_MAX];
        char *found = NULL;
        size_t size = strlen(entry->d_name);
        if (strstr(entry->d_name, ".bak-") == NULL || entry->d_name[size - 1] != 'Z') {
            continue; /* not a backup, or the side file of one */
        }
        n++;
        t_path(folder, entry->d_name, backup);
        model_sound(backup);
        found = family_content(backup);
        assert_string_equal(found, content);
        free(found);
    }
    (void)closedir(dir);
    return n;
}
