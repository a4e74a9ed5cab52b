/* The operand of IN: a table function ent_list(?) whose rows are the items of one bound list. One
 * parameter holds any number of items, every type is passed exactly, and SQLite can look each item
 * up in an index. */
#include "ent_sqlite/stmt.h"

#include <assert.h>
#include <string.h>

#define LIST_COLUMN_VALUE 0
#define LIST_COLUMN_OPERAND 1
#define LIST_ROWS_GUESS                                                                            \
    32 /* what the planner is told; the shape is prepared before lists are known */

typedef struct list_cursor {
    sqlite3_vtab_cursor base;
    const qp_list_operand *list;
    size_t at;
} list_cursor;

static int list_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **ret, char **ret_error)
{
    int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(value, operand HIDDEN)");

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

static int list_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int list_plan(sqlite3_vtab *table, sqlite3_index_info *info)
{
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

static int list_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret)
{
    list_cursor *cursor = sqlite3_malloc((int)sizeof(*cursor));

    (void)table;
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    memset(cursor, 0, sizeof(*cursor));
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int list_close(sqlite3_vtab_cursor *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

static int list_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    list_cursor *cursor = (list_cursor *)base;
    /* A slot of the statement; see stmt_bind_made(). */
    const qp_list_operand *const *slot =
        argc == 1 ? sqlite3_value_pointer(argv[0], QP_SQLITE_LIST_TYPE) : NULL;

    (void)number;
    (void)text;
    cursor->list = slot == NULL ? NULL : *slot;
    cursor->at = 0;
    return SQLITE_OK;
}

static int list_next(sqlite3_vtab_cursor *base)
{
    ((list_cursor *)base)->at++;
    return SQLITE_OK;
}

static int list_eof(sqlite3_vtab_cursor *base)
{
    const list_cursor *cursor = (const list_cursor *)base;

    return cursor->list == NULL || cursor->at >= cursor->list->n;
}

static void list_text(sqlite3_context *ctx, quipu_str text, sqlite3_destructor_type how)
{
    sqlite3_result_text64(ctx, text.p, text.n, how, SQLITE_UTF8);
}

static void list_item(sqlite3_context *ctx, const qp_list_operand *list, size_t at)
{
    char text[QUIPU_UUID_TEXT_SIZE];

    static_assert(sizeof(text) >= QUIPU_TIME_TEXT_SIZE, "holds either text");
    if (list->labels != NULL) {
        int number = 0;
        memcpy(&number, (const char *)list->items + at * sizeof(number), sizeof(number));
        list_text(ctx, quipu_cstr(ent_enum_text(list->labels, number)), SQLITE_STATIC);
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

static int list_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const list_cursor *cursor = (const list_cursor *)base;

    if (column == LIST_COLUMN_VALUE) {
        list_item(ctx, cursor->list, cursor->at);
    }
    return SQLITE_OK;
}

static int list_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)((const list_cursor *)base)->at;
    return SQLITE_OK;
}

/* Without xCreate the table exists by itself, in every schema, as a function only. */
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

int qp_sqlite_register_list(qp_sqlite *conn)
{
    return sqlite3_create_module_v2(conn->db, "ent_list", &list_module, NULL, NULL);
}
