/* Schemas built in memory for migration tests, and raw SQLite to look behind the library's back.
 * Header only, so that tests of several folders share it. */
#ifndef T_CRASH_MODEL_H
#define T_CRASH_MODEL_H

#include "lib/t.h"

#include <sqlite3.h>

#include <ent/migrate.h>
#include <ent/sqlite.h>

#include "base/buf.h"
#include "ent/schema_text.h"

#define MODEL_FIELDS 40
#define MODEL_INDEXES 12
#define MODEL_EDGES 8
#define MODEL_ENTITIES 12
#define MODEL_SLOT 32       /* bytes of a member of X and X_new */
#define MODEL_WHERE_SLOT 64 /* bytes of a member of X_where */
#define MODEL_TEXT_MAX ((size_t)256 << 20)

typedef struct model {
    quipu_arena arena;
    ent_schema schema;
    ent_entity *entities[MODEL_ENTITIES];
    const ent_entity *list[MODEL_ENTITIES];
    char hash[QP_SCHEMA_HASH_SIZE];
} model;

/* ---- building -----------------------------------------------------------------------------------
 */

static inline void *model_alloc(model *m, size_t size)
{
    void *p = quipu_arena_alloc(&m->arena, size);

    assert_non_null(p);
    memset(p, 0, size);
    return p;
}

static inline const char *model_text(model *m, const char *text)
{
    quipu_str copy = {NULL, 0};

    T_OK(quipu_arena_copy(&m->arena, quipu_cstr(text), &copy));
    return copy.p;
}

static inline void model_begin(model *m, uint32_t application_id)
{
    *m = (model){.schema = {.name = "test",
                            .application_id = application_id,
                            .version = 1,
                            .min_reader = 1,
                            .min_writer = 1}};
}

/* The descriptor tables are const for everybody else; here they are being made. */
static inline ent_field *model_fields(const ent_entity *entity)
{
    return (ent_field *)(uintptr_t)entity->fields;
}

static inline ent_field *model_field(model *m, ent_entity *entity, const char *name, ent_type type,
                                     unsigned flags)
{
    size_t i = entity->field_count;
    ent_field *field = &model_fields(entity)[i];

    assert_true(i < MODEL_FIELDS);
    *field = (ent_field){.name = model_text(m, name),
                         .type = (uint8_t)type,
                         .flags = (uint16_t)flags,
                         .row = (uint16_t)(i * MODEL_SLOT),
                         .create = (uint16_t)(i * MODEL_SLOT),
                         .patch = ENT_ABSENT,
                         .where = (uint16_t)(i * MODEL_WHERE_SLOT)};
    field->column = field->name;
    entity->field_count++;
    return field;
}

/* An entity without a key; give it one, or use model_entity(). */
static inline ent_entity *model_bare(model *m, const char *name, const char *table)
{
    ent_entity *entity = model_alloc(m, sizeof(*entity));

    assert_true(m->schema.entity_count < MODEL_ENTITIES);
    entity->name = model_text(m, name);
    entity->table = model_text(m, table);
    entity->fields = model_alloc(m, MODEL_FIELDS * sizeof(ent_field));
    entity->edges = model_alloc(m, MODEL_EDGES * sizeof(ent_edge));
    entity->indexes = model_alloc(m, MODEL_INDEXES * sizeof(ent_index));
    entity->row_size = MODEL_FIELDS * MODEL_SLOT;
    entity->create_size = MODEL_FIELDS * MODEL_SLOT;
    entity->where_size = MODEL_FIELDS * MODEL_WHERE_SLOT + sizeof(ent_where_groups);
    entity->where_groups = MODEL_FIELDS * MODEL_WHERE_SLOT;
    entity->where_match = ENT_ABSENT;
    entity->query_where = sizeof(ent_query);
    m->entities[m->schema.entity_count] = entity;
    m->list[m->schema.entity_count++] = entity;
    return entity;
}

/* An entity with the usual `id` that the engine gives out. */
static inline ent_entity *model_entity(model *m, const char *name, const char *table)
{
    ent_entity *entity = model_bare(m, name, table);

    (void)model_field(m, entity, "id", ENT_INT, ENT_F_AUTO | ENT_F_OPT_NEW | ENT_F_IMMUTABLE);
    entity->key_count = 1;
    return entity;
}

static inline ent_index *model_index(model *m, ent_entity *entity, const char *name, bool unique,
                                     size_t first, size_t second)
{
    ent_index *index = &((ent_index *)(uintptr_t)entity->indexes)[entity->index_count];

    assert_true(entity->index_count < MODEL_INDEXES);
    *index = (ent_index){.name = model_text(m, name), .unique = unique, .count = 1};
    index->fields[0] = (uint8_t)first;
    if (second != 0) {
        index->fields[1] = (uint8_t)second;
        index->count = 2;
    }
    entity->index_count++;
    return index;
}

/* `holder`.field refers to `target`; both get their side of the edge. */
static inline void model_edge(model *m, ent_entity *holder, const char *name, ent_entity *target,
                              const char *back, size_t field, ent_on_delete on_delete)
{
    ent_edge *to_one = &((ent_edge *)(uintptr_t)holder->edges)[holder->edge_count++];
    ent_edge *to_many = NULL;

    *to_one = (ent_edge){.name = model_text(m, name),
                         .to = target,
                         .field = (uint16_t)field,
                         .kind = ENT_TO_ONE,
                         .on_delete = (uint8_t)on_delete};
    to_many = &((ent_edge *)(uintptr_t)target->edges)[target->edge_count++];
    *to_many = (ent_edge){.name = model_text(m, back),
                          .to = holder,
                          .field = (uint16_t)field,
                          .kind = ENT_TO_MANY,
                          .on_delete = (uint8_t)on_delete};
    assert_true(holder->edge_count <= MODEL_EDGES && target->edge_count <= MODEL_EDGES);
}

/* Give the schema its hash; call it again after a change. */
static inline const ent_schema *model_end(model *m)
{
    qp_buf text;

    m->schema.entities = m->list;
    qp_buf_init(&text, MODEL_TEXT_MAX);
    T_OK(qp_schema_text(&m->schema, false, &text));
    qp_schema_hash(qp_buf_str(&text), m->hash);
    m->schema.hash = m->hash;
    qp_buf_free(&text);
    return &m->schema;
}

static inline void model_free(model *m)
{
    quipu_arena_free(&m->arena);
}

/* ---- opening ------------------------------------------------------------------------------------
 */

typedef struct model_opened {
    quipu_status status;
    ent_migrate_report report;
    quipu_error error;
    ent_stats stats;
} model_opened;

/* Open, migrate, close; returns how it went. */
static inline model_opened model_visit(const char *path, const ent_schema *schema,
                                       const ent_migrate_options *options, uint32_t flags)
{
    ent_sqlite_options open = ENT_SQLITE_OPTIONS_INIT;
    model_opened opened = {0};
    ent_db *db = NULL;

    open.flags = flags;
    opened.status = ent_sqlite_open(path, &open, &db, &opened.error);
    if (opened.status == QUIPU_OK) {
        opened.status = ent_migrate(db, schema, options, &opened.report, &opened.error);
        opened.stats = ent_stats_read(db);
    }
    ent_close(db);
    return opened;
}

static inline void model_expect(model_opened opened, quipu_status expected, const char *part)
{
    if (opened.status != expected || (part != NULL && strstr(opened.error.message, part) == NULL)) {
        fail_msg("status %s, expected %s; message: %s; expected part: %s",
                 quipu_status_name(opened.status), quipu_status_name(expected),
                 opened.error.message, part != NULL ? part : "");
    }
}

#define MODEL_OPEN(path, m) model_visit((path), &(m)->schema, NULL, 0)
#define MODEL_OPEN_OK(path, m) model_expect(MODEL_OPEN((path), (m)), QUIPU_OK, NULL)

/* ---- behind the library's back ------------------------------------------------------------------
 */

static inline sqlite3 *model_raw(const char *path)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix"),
                     SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 30000);
    return db;
}

static inline void model_exec_on(sqlite3 *db, const char *sql)
{
    char *message = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
}

static inline void model_exec(const char *path, const char *sql)
{
    sqlite3 *db = model_raw(path);

    model_exec_on(db, sql);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Append the rows of a query, values separated by '|', rows by a line end. */
static inline void model_query_on(sqlite3 *db, const char *sql, qp_buf *out)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

    if (rc != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *text = (const char *)sqlite3_column_text(stmt, i);
            qp_buf_puts(out, i > 0 ? "|" : "");
            qp_buf_puts(out, text != NULL ? text : "NULL");
        }
        qp_buf_putc(out, '\n');
    }
    assert_int_equal(rc, SQLITE_DONE);
    (void)sqlite3_finalize(stmt);
}

/* The rows as malloc'ed text. */
static inline char *model_query(const char *path, const char *sql)
{
    sqlite3 *db = model_raw(path);
    qp_buf out;
    char *text = NULL;

    qp_buf_init(&out, MODEL_TEXT_MAX);
    model_query_on(db, sql, &out);
    T_OK(qp_buf_status(&out));
    text = strdup(qp_buf_str(&out).p);
    assert_non_null(text);
    qp_buf_free(&out);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return text;
}

static inline int64_t model_int(const char *path, const char *sql)
{
    char *text = model_query(path, sql);
    char *end = NULL;
    int64_t value = strtoll(text, &end, 10);

    assert_true(end != text);
    free(text);
    return value;
}

static inline void model_check(const char *path, const char *sql, const char *expected)
{
    char *text = model_query(path, sql);

    T_STR(quipu_cstr(text), expected);
    free(text);
}

/* Everything in the file as malloc'ed text: the schema, and every row of every table (but the
 * journal's, when `journal` is false), each value with its storage class. */
static inline char *model_dump(const char *path, bool journal)
{
    sqlite3 *db = model_raw(path);
    sqlite3_stmt *tables = NULL;
    qp_buf out;
    char *text = NULL;

    qp_buf_init(&out, MODEL_TEXT_MAX);
    if (journal) {
        model_query_on(db, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2",
                       &out);
        model_query_on(db, "PRAGMA application_id", &out);
    }
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT name FROM sqlite_schema WHERE type = 'table' "
                                        "AND (?1 OR name <> 'ent_journal') "
                                        "AND sql NOT LIKE 'create virtual%' ORDER BY 1",
                                        -1, &tables, NULL),
                     SQLITE_OK);
    (void)sqlite3_bind_int(tables, 1, journal ? 1 : 0);
    while (sqlite3_step(tables) == SQLITE_ROW) {
        sqlite3_stmt *rows = NULL;
        char *sql =
            sqlite3_mprintf("SELECT * FROM \"%w\" ORDER BY 1, 2", sqlite3_column_text(tables, 0));
        if (sqlite3_prepare_v2(db, sql, -1, &rows, NULL) != SQLITE_OK) {
            sqlite3_free(sql); /* a table of one column */
            sql =
                sqlite3_mprintf("SELECT * FROM \"%w\" ORDER BY 1", sqlite3_column_text(tables, 0));
            assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &rows, NULL), SQLITE_OK);
        }
        qp_buf_printf(&out, "== %s\n", (const char *)sqlite3_column_text(tables, 0));
        while (sqlite3_step(rows) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(rows); i++) {
                int type = sqlite3_column_type(rows, i); /* before it is converted */
                const char *value = (const char *)sqlite3_column_text(rows, i);
                qp_buf_printf(&out, "%d:%s|", type, value != NULL ? value : "");
            }
            qp_buf_putc(&out, '\n');
        }
        (void)sqlite3_finalize(rows);
        sqlite3_free(sql);
    }
    (void)sqlite3_finalize(tables);
    T_OK(qp_buf_status(&out));
    text = strdup(qp_buf_str(&out).p);
    assert_non_null(text);
    qp_buf_free(&out);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return text;
}

static inline void model_same(char *before, char *after)
{
    if (strcmp(before, after) != 0) {
        fail_msg("the file changed:\n--- before\n%s--- after\n%s", before, after);
    }
    free(before);
    free(after);
}

/* What SQLite itself says about the file. */
static inline void model_sound(const char *path)
{
    model_check(path, "PRAGMA integrity_check", "ok\n");
}

#endif
