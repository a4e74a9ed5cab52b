/* ent_list(?): a table-valued function whose rows are the items of one bound list, the operand of
 * IN. One parameter holds any number of items, so that a statement's text does not depend on it;
 * every type is passed exactly; SQLite can probe an index with each item.
 *
 * Owns: the module and its cursors. The list belongs to the statement that bound it.
 * Called by: SQLite, in conditions that dialect.c writes. DIRECTONLY: no schema can use it.
 * Locks: none; a cursor belongs to its statement.
 *
 *   ... WHERE "role" IN (SELECT value FROM ent_list(?3))      for each scan of the list:
 *   xBestIndex once, when it is prepared ─▶ xOpen ─▶ xFilter(the list) ─▶ xEof, xColumn, xNext */
#include "ent_sqlite/stmt.h"

#include <assert.h>
#include <string.h>

#include "ent/row.h"

#define LIST_COLUMN_VALUE 0
#define LIST_COLUMN_OPERAND 1
/* The estimate for the planner: a statement is prepared before its lists are known. */
#define LIST_ROWS_GUESS 32

/* A scan over one list. `base` comes first: SQLite's pointers to it are cast back. */
typedef struct list_cursor {
    sqlite3_vtab_cursor base;
    const qp_list_operand *list;
    size_t at;
} list_cursor;

/* xConnect: declares a table with one visible column and the list as a hidden one, which is how
 * SQLite spells a function's argument. Tables and cursors come from SQLite's allocator, whose
 * limits and statistics count them. */
static int list_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **ret, char **ret_error)
{
    int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(value, operand HIDDEN)");

    assert(ret != NULL);
    (void)aux;
    (void)argc;
    (void)argv;
    (void)ret_error;
    if (rc == SQLITE_OK) {
        *ret = sqlite3_malloc((int)sizeof(**ret));
        if (*ret == NULL) {
            return SQLITE_NOMEM;
        }
        memset(*ret, 0, sizeof(**ret));
        (void)sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    }
    return rc;
}

/* xDisconnect. The table has no state. */
static int list_disconnect(sqlite3_vtab *table)
{
    assert(table != NULL);
    sqlite3_free(table);
    return SQLITE_OK;
}

/* xBestIndex: the only plan is the one that is given the list. SQLITE_CONSTRAINT rejects all
 * others. */
static int list_plan(sqlite3_vtab *table, sqlite3_index_info *info)
{
    assert(info != NULL);
    (void)table;
    for (int i = 0; i < info->nConstraint; i++) {
        if (info->aConstraint[i].iColumn == LIST_COLUMN_OPERAND &&
            info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ) {
            if (info->aConstraint[i].usable == 0) {
                return SQLITE_CONSTRAINT;
            }
            info->aConstraintUsage[i].argvIndex = 1;
            info->aConstraintUsage[i].omit = 1;
            info->estimatedCost = LIST_ROWS_GUESS;
            info->estimatedRows = LIST_ROWS_GUESS;
            return SQLITE_OK;
        }
    }
    return SQLITE_CONSTRAINT;
}

/* xOpen: a cursor for one scan. SQLite opens one for each use of the function in a statement, and
 * calls xFilter before it asks for a row. */
static int list_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret)
{
    list_cursor *cursor = sqlite3_malloc((int)sizeof(*cursor));

    assert(ret != NULL);
    (void)table;
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    memset(cursor, 0, sizeof(*cursor));
    *ret = &cursor->base;
    return SQLITE_OK;
}

/* xClose. */
static int list_close(sqlite3_vtab_cursor *base)
{
    assert(base != NULL);
    sqlite3_free(base);
    return SQLITE_OK;
}

/* xFilter: takes the list. Anything but a pointer of our type, bound by stmt_bind_made(), reads as
 * NULL and gives no rows. */
static int list_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    list_cursor *cursor = (list_cursor *)base;
    const qp_list_operand *const *slot =
        argc == 1 ? sqlite3_value_pointer(argv[0], QP_SQLITE_LIST_TYPE) : NULL;

    assert(cursor != NULL);
    (void)number;
    (void)text;
    cursor->list = slot == NULL ? NULL : *slot;
    cursor->at = 0;
    return SQLITE_OK;
}

/* xNext. */
static int list_next(sqlite3_vtab_cursor *base)
{
    assert(base != NULL);
    ((list_cursor *)base)->at++;
    return SQLITE_OK;
}

/* xEof. True also for a cursor without a list. */
static int list_eof(sqlite3_vtab_cursor *base)
{
    const list_cursor *cursor = (const list_cursor *)base;

    assert(cursor != NULL);
    return cursor->list == NULL || cursor->at >= cursor->list->n;
}

/* A text result; `how` says whether SQLite has to copy it. */
static void list_text(sqlite3_context *ctx, quipu_str text, sqlite3_destructor_type how)
{
    assert(text.p != NULL || text.n == 0);
    sqlite3_result_text64(ctx, text.p, text.n, how, SQLITE_UTF8);
}

/* One item in its stored form, as stmt.c binds single values. Items of an enum are numbers, stored
 * as labels. A time that cannot be formatted becomes NULL, which equals nothing: src/ent has
 * checked it before. */
static void list_item(sqlite3_context *ctx, const qp_list_operand *list, size_t at)
{
    char text[QUIPU_UUID_TEXT_SIZE];

    assert(at < list->n);
    static_assert(sizeof(text) >= QUIPU_TIME_TEXT_SIZE, "holds either text");
    if (list->labels != NULL) {
        int number = 0;
        memcpy(&number, (const char *)list->items + at * sizeof(number), sizeof(number));
        list_text(ctx, qp_enum_label(list->labels, number), SQLITE_STATIC);
        return;
    }
    switch (list->kind) {
    case QP_INT:
        sqlite3_result_int64(ctx, ((const int64_t *)list->items)[at]);
        break;
    case QP_FLOAT:
        sqlite3_result_double(ctx, ((const double *)list->items)[at]);
        break;
    case QP_TEXT:
        list_text(ctx, ((const quipu_str *)list->items)[at], SQLITE_STATIC);
        break;
    case QP_TIME:
        if (quipu_time_format(((const quipu_time *)list->items)[at], text) == QUIPU_OK) {
            list_text(ctx, (quipu_str){text, QUIPU_TIME_TEXT_SIZE - 1}, SQLITE_TRANSIENT);
        }
        break;
    case QP_UUID:
        quipu_uuid_format(((const quipu_uuid *)list->items)[at], text);
        list_text(ctx, (quipu_str){text, QUIPU_UUID_TEXT_SIZE - 1}, SQLITE_TRANSIENT);
        break;
    default:
        sqlite3_result_null(ctx);
        break;
    }
}

/* xColumn. The hidden column is never read. */
static int list_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const list_cursor *cursor = (const list_cursor *)base;

    assert(cursor->list != NULL);
    if (column == LIST_COLUMN_VALUE) {
        list_item(ctx, cursor->list, cursor->at);
    }
    return SQLITE_OK;
}

/* xRowid: the place in the list. */
static int list_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    assert(ret != NULL);
    *ret = (sqlite3_int64)((const list_cursor *)base)->at;
    return SQLITE_OK;
}

/* Without xCreate the module is eponymous only: a function, for which no CREATE is needed or
 * possible. */
static const sqlite3_module list_module = {
    .iVersion = 0,
    .xConnect = list_connect,
    .xBestIndex = list_plan,
    .xDisconnect = list_disconnect,
    .xOpen = list_open,
    .xClose = list_close,
    .xFilter = list_filter,
    .xNext = list_next,
    .xEof = list_eof,
    .xColumn = list_column,
    .xRowid = list_rowid,
};

/* Registered with every connection. */
int qp_sqlite_register_list(qp_sqlite *conn)
{
    assert(conn->db != NULL);
    return sqlite3_create_module_v2(conn->db, "ent_list", &list_module, NULL, NULL);
}
