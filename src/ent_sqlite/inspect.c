/* Inspection of a SQLite file: tables, columns, indexes, references and triggers, read through the
 * table-valued PRAGMA functions, so that nothing here parses SQL.
 *
 * Owns: the queries; the shape goes to the caller's arena.
 * Called by: src/ent/migrate*.c through qp_migrator; entgen import through qp_sqlite_inspect_raw().
 * Locks: a read; the caller's transaction makes it one snapshot.
 * On return the shape lies in the arena and no statement is left open; it says what the file has,
 * not whether that is right: src/ent/diff.c compares. */
#include "ent_sqlite/inspect.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "ent/diff.h"

/* A list that grows in the arena by doubling; outgrown arrays stay there. */
typedef struct inspect_list {
    void *items; /* in the arena; NULL: nothing was pushed */
    size_t n;
    size_t capacity; /* items that fit before it moves */
} inspect_list;

/* The arena and the prepared queries; each takes a table's or an index's name. */
typedef struct inspect_work {
    quipu_arena *arena; /* of the caller */
    /* NULL until inspect_prepare(), which sqlite3_finalize() takes as well. */
    sqlite3_stmt *columns;
    sqlite3_stmt *indexes;
    sqlite3_stmt *index_columns;
    sqlite3_stmt *references;
    sqlite3_stmt *triggers;
} inspect_work;

/* Room for one more item, zeroed; NULL: no memory. The result is valid until the next push to the
 * same list: growing moves the items. Doubling wastes at most as much as the list itself, and a
 * shape lives as short as its migration. */
static void *inspect_push(quipu_arena *arena, inspect_list *list, size_t size)
{
    char *item = NULL;

    assert(list->n <= list->capacity);
    assert(size > 0);
    if (list->n == list->capacity) {
        /* Tables have a dozen columns, and few have more than two indexes. */
        size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        void *items = quipu_arena_alloc(arena, capacity * size);
        if (items == NULL) {
            return NULL;
        }
        if (list->n > 0) {
            memcpy(items, list->items, list->n * size);
        }
        list->items = items;
        list->capacity = capacity;
    }
    item = (char *)list->items + list->n * size;
    /* Readers of a shape find NULL and false where nothing was said. */
    memset(item, 0, size);
    list->n++;
    return item;
}

/* Copies a text column; SQL NULL stays NULL. No text for a value that is not NULL means no memory.
 * The copy is needed because SQLite reuses the text with the next step. */
static int inspect_text(quipu_arena *arena, sqlite3_stmt *stmt, int column, const char **ret)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    quipu_str copy = {NULL, 0};

    assert(ret != NULL);
    if (text != NULL && quipu_arena_copy(arena, quipu_cstr(text), &copy) != QUIPU_OK) {
        return SQLITE_NOMEM;
    }
    /* SQLite converts a number to text, and has no memory for it. */
    if (text == NULL && sqlite3_column_type(stmt, column) != SQLITE_NULL) {
        return SQLITE_NOMEM;
    }
    *ret = copy.p;
    return SQLITE_OK;
}

/* The same where NULL is not expected: it becomes "", so that readers of the shape need not
 * look. */
static int inspect_name(quipu_arena *arena, sqlite3_stmt *stmt, int column, const char **ret)
{
    int rc = inspect_text(arena, stmt, column, ret);

    assert(ret != NULL);
    if (rc == SQLITE_OK && *ret == NULL) {
        *ret = "";
    }
    return rc;
}

/* Binds the name and starts a query over. SQLITE_STATIC: the name lies in the arena, which outlives
 * the statement. */
static int inspect_start(sqlite3_stmt *stmt, const char *name)
{
    assert(stmt != NULL && name != NULL);
    /* Also after the last table: a query that runs holds a lock on the file. */
    (void)sqlite3_reset(stmt);
    return sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
}

/* Ends a loop over rows; the result of the last step decides. SQLITE_ROW: the caller left early. A
 * step's error comes back from sqlite3_reset() as well, so that `rc` is looked at first. */
static int inspect_end(sqlite3_stmt *stmt, int rc)
{
    int reset = sqlite3_reset(stmt);

    assert(stmt != NULL);
    if (rc == SQLITE_ROW) {
        return SQLITE_OK;
    }
    return rc == SQLITE_DONE ? SQLITE_OK : (rc != SQLITE_OK ? rc : reset);
}

/* Columns of one table. Hidden ones (1) belong to the module of a virtual table; 2 and 3 are
 * generated: listed, because their names are taken, and never written. table_xinfo and not
 * table_info, which leaves generated columns out. */
static int inspect_columns(inspect_work *work, qp_table_shape *table)
{
    sqlite3_stmt *stmt = work->columns;
    inspect_list list = {0};
    int rc = inspect_start(stmt, table->name);

    assert(table->name != NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        /* 0 is an ordinary column. */
        int hidden = sqlite3_column_int(stmt, 5);
        qp_column *column = NULL;
        rc = SQLITE_OK;
        if (hidden == 1) {
            continue;
        }
        column = inspect_push(work->arena, &list, sizeof(*column));
        if (column == NULL) {
            rc = SQLITE_NOMEM;
            break;
        }
        column->not_null = sqlite3_column_int(stmt, 2) != 0;
        /* Counted from 1; 0: it is not in the key. */
        column->key_position = (uint8_t)sqlite3_column_int(stmt, 4);
        column->generated = hidden > 1;
        rc = inspect_name(work->arena, stmt, 0, &column->name);
        rc = rc != SQLITE_OK ? rc : inspect_name(work->arena, stmt, 1, &column->declared);
        rc = rc != SQLITE_OK ? rc : inspect_text(work->arena, stmt, 3, &column->default_text);
    }
    table->columns = list.items;
    table->column_count = list.n;
    return inspect_end(stmt, rc);
}

/* Columns of one index, without the rowid or key that SQLite appends (key = 1). An expression, or
 * another collation than BINARY, gets no name: such an index serves none of the queries that
 * src/ent writes. Beyond 32 columns the direction is not noted; a schema has no such index. */
static int inspect_index_columns(inspect_work *work, qp_index_shape *index)
{
    sqlite3_stmt *stmt = work->index_columns;
    inspect_list list = {0};
    int rc = inspect_start(stmt, index->name);

    assert(index->name != NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *collation = (const char *)sqlite3_column_text(stmt, 2);
        const char **name = inspect_push(work->arena, &list, sizeof(*name));
        rc = name == NULL ? SQLITE_NOMEM : SQLITE_OK;
        /* The list keeps what was read; the caller drops it with its arena. */
        if (rc != SQLITE_OK) {
            break;
        }
        /* The direction of a column, by its place in the index. */
        if (sqlite3_column_int(stmt, 1) != 0 && list.n <= 32) {
            index->desc |= UINT32_C(1) << (list.n - 1);
        }
        /* Names of collations have no case. */
        if (collation != NULL && qp_name_eq(collation, "BINARY")) {
            rc = inspect_text(work->arena, stmt, 0, name);
        }
    }
    index->columns = (const char *const *)list.items;
    index->column_count = list.n;
    return inspect_end(stmt, rc);
}

/* Indexes of one table; `implied` are those of a PRIMARY KEY or UNIQUE constraint. *ret_key_index
 * becomes true where the primary key has an index of its own, which a rowid has not. The columns
 * are read after the loop, because one statement serves all indexes. */
static int inspect_indexes(inspect_work *work, qp_table_shape *table, bool *ret_key_index)
{
    sqlite3_stmt *stmt = work->indexes;
    inspect_list list = {0};
    qp_index_shape *items = NULL;
    int rc = inspect_start(stmt, table->name);

    assert(table->name != NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *origin = (const char *)sqlite3_column_text(stmt, 2);
        qp_index_shape *index = inspect_push(work->arena, &list, sizeof(*index));
        rc = index == NULL || origin == NULL ? SQLITE_NOMEM : SQLITE_OK;
        if (rc != SQLITE_OK) {
            break;
        }
        index->unique = sqlite3_column_int(stmt, 1) != 0;
        /* 'c' is CREATE INDEX; 'u' and 'pk' are constraints. */
        index->implied = origin[0] != 'c';
        index->partial = sqlite3_column_int(stmt, 3) != 0;
        /* A rowid has no index. */
        *ret_key_index = *ret_key_index || origin[0] == 'p';
        rc = inspect_name(work->arena, stmt, 0, &index->name);
        rc = rc != SQLITE_OK ? rc : inspect_text(work->arena, stmt, 4, &index->sql);
    }
    rc = inspect_end(stmt, rc);
    /* The array no longer moves. */
    items = list.items;
    for (size_t i = 0; i < list.n && rc == SQLITE_OK; i++) {
        rc = inspect_index_columns(work, &items[i]);
    }
    table->indexes = items;
    table->index_count = list.n;
    return rc;
}

/* Foreign keys of one table; those of several columns get no column. A row with seq > 0 continues
 * the reference of the row before it, for the rows are sorted by id and seq. */
static int inspect_references(inspect_work *work, qp_table_shape *table)
{
    sqlite3_stmt *stmt = work->references;
    inspect_list list = {0};
    qp_reference *reference = NULL;
    int rc = inspect_start(stmt, table->name);

    assert(table->name != NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        rc = SQLITE_OK;
        /* The reference has more than one column, which no schema here writes. */
        if (sqlite3_column_int(stmt, 0) > 0 && reference != NULL) {
            reference->column = NULL;
            continue;
        }
        reference = inspect_push(work->arena, &list, sizeof(*reference));
        if (reference == NULL) {
            rc = SQLITE_NOMEM;
            break;
        }
        /* In the order of the SELECT in inspect_prepare(). */
        rc = inspect_name(work->arena, stmt, 1, &reference->table);
        rc = rc != SQLITE_OK ? rc : inspect_name(work->arena, stmt, 2, &reference->column);
        rc = rc != SQLITE_OK ? rc : inspect_text(work->arena, stmt, 3, &reference->target);
        rc = rc != SQLITE_OK ? rc : inspect_name(work->arena, stmt, 4, &reference->on_delete);
    }
    table->references = list.items;
    table->reference_count = list.n;
    return inspect_end(stmt, rc);
}

/* Triggers of one table with their SQL, which a rebuild runs again: DROP TABLE deletes them. */
static int inspect_triggers(inspect_work *work, qp_table_shape *table)
{
    sqlite3_stmt *stmt = work->triggers;
    inspect_list list = {0};
    int rc = inspect_start(stmt, table->name);

    assert(table->name != NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        qp_trigger *trigger = inspect_push(work->arena, &list, sizeof(*trigger));
        rc = trigger == NULL ? SQLITE_NOMEM : SQLITE_OK;
        /* One failure ends the loop by its condition. */
        rc = rc != SQLITE_OK ? rc : inspect_name(work->arena, stmt, 0, &trigger->name);
        rc = rc != SQLITE_OK ? rc : inspect_name(work->arena, stmt, 1, &trigger->sql);
    }
    table->triggers = list.items;
    table->trigger_count = list.n;
    return inspect_end(stmt, rc);
}

/* SQLite allocates the values of an INTEGER PRIMARY KEY of an ordinary table, which is the rowid:
 * the key then has no index of its own. "INT PRIMARY KEY" or a WITHOUT ROWID table has such an
 * index. The declared type must be exactly INTEGER, in any case, by SQLite's own rule. */
static void inspect_mark_auto(const qp_table_shape *table, qp_column *columns, bool key_index)
{
    qp_column *key = NULL;
    size_t n = 0;

    assert(table->column_count == 0 || columns != NULL);
    /* Exactly one column, and that one an integer. */
    for (size_t i = 0; i < table->column_count; i++) {
        if (columns[i].key_position > 0) {
            key = &columns[i];
            n++;
        }
    }
    if (n == 1 && !key_index && qp_name_eq(key->declared, "INTEGER")) {
        key->auto_key = true;
    }
}

/* All of one table. A virtual table of a module that this program lacks has no columns to see. A
 * view has columns as well, but migration only needs its name, which no table may take. */
static int inspect_table(inspect_work *work, qp_table_shape *table)
{
    bool key_index = false;
    int rc = SQLITE_OK;

    assert(table->name != NULL);
    /* Its name is all that matters. */
    if (table->is_view) {
        return SQLITE_OK;
    }
    rc = inspect_columns(work, table);
    if (table->is_virtual) {
        /* A module that is missing makes the query fail with SQLITE_ERROR. */
        return rc == SQLITE_ERROR ? SQLITE_OK : rc;
    }
    rc = rc != SQLITE_OK ? rc : inspect_indexes(work, table, &key_index);
    rc = rc != SQLITE_OK ? rc : inspect_references(work, table);
    rc = rc != SQLITE_OK ? rc : inspect_triggers(work, table);
    if (rc == SQLITE_OK) {
        /* The list was made above; it is const only for the readers of the shape. */
        inspect_mark_auto(table, (qp_column *)(uintptr_t)table->columns, key_index);
    }
    return rc;
}

/* Prepares the queries once for all tables: a schema has a dozen tables, and preparing costs more
 * than running. The caller finalizes all of them, also after a failure. */
static int inspect_prepare(sqlite3 *db, inspect_work *work)
{
    const struct {
        sqlite3_stmt **stmt;
        const char *sql;
    } all[] = {
        {&work->columns, "SELECT name, type, \"notnull\", dflt_value, pk, hidden "
                         "FROM pragma_table_xinfo(?1, 'main')"},
        {&work->indexes,
         "SELECT l.name, l.\"unique\", l.origin, l.partial, m.sql "
         "FROM pragma_index_list(?1, 'main') AS l LEFT JOIN main.sqlite_schema AS m "
         "ON m.type = 'index' AND m.name = l.name ORDER BY l.seq"},
        {&work->index_columns, "SELECT name, \"desc\", coll FROM pragma_index_xinfo(?1, 'main') "
                               "WHERE key = 1 ORDER BY seqno"},
        {&work->references, "SELECT seq, \"table\", \"from\", \"to\", on_delete "
                            "FROM pragma_foreign_key_list(?1, 'main') ORDER BY id, seq"},
        {&work->triggers, "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' "
                          "AND tbl_name = ?1 COLLATE NOCASE ORDER BY rowid"},
    };
    int rc = SQLITE_OK;

    assert(db != NULL);
    /* The first failure stops; what is prepared is finalized by the caller. */
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && rc == SQLITE_OK; i++) {
        rc = sqlite3_prepare_v2(db, all[i].sql, -1, all[i].stmt, NULL);
    }
    return rc;
}

/* Tables and views in the order of their creation, without SQLite's own. The order makes reports
 * and error messages the same for every run. */
static int inspect_list_tables(sqlite3 *db, quipu_arena *arena, inspect_list *list)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db,
                                "SELECT name, sql, type = 'view', sql LIKE 'create virtual %' "
                                "FROM main.sqlite_schema WHERE type IN ('table', 'view') "
                                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
                                -1, &stmt, NULL);

    assert(db != NULL && arena != NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        qp_table_shape *table = inspect_push(arena, list, sizeof(*table));
        rc = table == NULL ? SQLITE_NOMEM : SQLITE_OK;
        if (rc != SQLITE_OK) {
            break;
        }
        /* Both are known from the schema's own row. */
        table->is_view = sqlite3_column_int(stmt, 2) != 0;
        table->is_virtual = sqlite3_column_int(stmt, 3) != 0;
        rc = inspect_name(arena, stmt, 0, &table->name);
        rc = rc != SQLITE_OK ? rc : inspect_name(arena, stmt, 1, &table->sql);
    }
    rc = stmt == NULL ? rc : inspect_end(stmt, rc);
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* *ret_shape is written on success only. Texts that a failed call put into the arena stay there
 * until the caller resets it. */
int qp_sqlite_inspect_raw(sqlite3 *db, quipu_arena *arena, qp_file_shape *ret_shape)
{
    inspect_work work = {.arena = arena};
    inspect_list list = {0};
    qp_table_shape *tables = NULL;
    int rc = inspect_list_tables(db, arena, &list);

    assert(ret_shape != NULL);
    if (rc == SQLITE_OK) {
        rc = inspect_prepare(db, &work);
    }
    /* From here on the array stays where it is. */
    tables = list.items;
    for (size_t i = 0; i < list.n && rc == SQLITE_OK; i++) {
        rc = inspect_table(&work, &tables[i]);
    }
    (void)sqlite3_finalize(work.columns);
    (void)sqlite3_finalize(work.indexes);
    (void)sqlite3_finalize(work.index_columns);
    (void)sqlite3_finalize(work.references);
    (void)sqlite3_finalize(work.triggers);
    if (rc == SQLITE_OK) {
        *ret_shape = (qp_file_shape){tables, list.n};
    }
    return rc;
}

/* An arena at its limit is QUIPU_LIMIT, one without memory QUIPU_NOMEM. */
quipu_status qp_sqlite_inspect(void *conn, quipu_arena *arena, qp_file_shape *ret_shape,
                               quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int rc = qp_sqlite_inspect_raw(self->db, arena, ret_shape);

    assert(ret_shape != NULL);
    /* SQLite and the arena report a lack of memory alike. */
    if (rc == SQLITE_NOMEM) {
        return qp_error_set(reterr, qp_arena_why(arena, QP_ARENA_CHUNK_MIN),
                            "no memory to read the tables of %s", self->path);
    }
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot inspect", reterr);
}
