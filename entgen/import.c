/* A schema from an existing SQLite file: inspection by the engine's own code, then names and types
 * that .ent can express. An entity must need no change of the file: what would need one (an index
 * that a foreign key lacks, a table without a key) is left out and reported in a comment. */
#include "entgen/import.h"

#include <assert.h>
#include <string.h>

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "ent/db.h" /* IWYU pragma: keep: the members of ent_db */
#include "ent/diff.h"
#include "ent_sqlite/ddl.h"
#include "ent_sqlite/inspect.h"
#include "ent_sqlite/open.h"
#include "entgen/import_internal.h"
#include "entgen/names.h"
#include "entgen/parse.h"
#include "entgen/run.h"
#include "entgen/schema.h"

#define IMPORT_SQL_SIZE 1024

static char import_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool import_has(const char *text, const char *part)
{
    size_t n = strlen(part);

    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (i < n && import_lower(text[i]) == part[i]) {
            i++;
        }
        if (i == n) {
            return true;
        }
    }
    return false;
}

bool eg_import_sayable(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++) {
        bool control = (unsigned char)name[i] < 0x20 || name[i] == 0x7f;
        if (control && strchr("\n\t\r", name[i]) == NULL) {
            return false;
        }
    }
    return n > 0 && n <= EG_SQL_NAME_MAX;
}

/* ---- names --------------------------------------------------------------------------------------
 */

static bool import_is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

/* A word of small letters, digits and _ that begins with a letter: userId -> user_id. */
static const char *import_word(eg_run *run, const char *name)
{
    size_t n = 0;
    char *word = eg_alloc(run, 2 * strlen(name) + 4);

    if (!import_is_letter(import_lower(name[0]))) {
        word[n++] = 'c';
        word[n++] = '_';
    }
    for (const char *c = name; *c != '\0'; c++) {
        char small = import_lower(*c);
        bool good = import_is_letter(small) || (small >= '0' && small <= '9');
        if (small != *c && c > name && import_is_letter(c[-1])) {
            word[n++] = '_';
        }
        word[n++] = good ? small : '_';
    }
    if (n > EG_NAME_MAX - 4) {
        word[EG_NAME_MAX - 4] = '\0';
    }
    return eg_is_keyword(word) || eg_is_reserved(word) ? eg_format(run, "c_%s", word) : word;
}

/* The word, or word_2, word_3... (with `mark` for _) when it is taken. */
static const char *import_free_name(eg_run *run, eg_names *taken, const char *word,
                                    const char *mark)
{
    const char *name = word;

    for (unsigned i = 2; eg_names_claim(run, taken, name, (eg_name){name, {0, 1, 1}}) != NULL;
         i++) {
        name = eg_format(run, "%s%s%u", word, mark, i);
    }
    return name;
}

/* The singular of a table's name: inquiries -> inquiry, sessions -> session. */
static const char *import_singular(eg_run *run, const char *word)
{
    size_t n = strlen(word);

    if (n > 3 && strcmp(word + n - 3, "ies") == 0) {
        return eg_format(run, "%.*sy", (int)n - 3, word);
    }
    if (n > 4 && (strcmp(word + n - 4, "shes") == 0 || strcmp(word + n - 4, "ches") == 0 ||
                  strcmp(word + n - 3, "xes") == 0 || strcmp(word + n - 4, "sses") == 0)) {
        return eg_format(run, "%.*s", (int)n - 2, word);
    }
    if (n > 2 && word[n - 1] == 's' && strchr("sui", word[n - 2]) == NULL) {
        return eg_format(run, "%.*s", (int)n - 1, word);
    }
    return word;
}

static const char *import_entity_name(eg_run *run, const char *table)
{
    const char *word = import_singular(run, import_word(run, table));
    char *name = eg_alloc(run, strlen(word) + 1);
    size_t n = 0;
    bool start = true;

    for (; *word != '\0'; word++) {
        if (*word == '_') {
            start = true;
        } else {
            name[n++] = start && *word >= 'a' && *word <= 'z' ? (char)(*word - 'a' + 'A') : *word;
            start = false;
        }
    }
    return name;
}

/* ---- types --------------------------------------------------------------------------------------
 */

/* Whether the column has a value, in any row of the table, that meets a condition. */
static bool import_any(sqlite3 *db, const char *table, const char *column, const char *condition)
{
    sqlite3_stmt *stmt = NULL;
    bool any = false;
    char sql[IMPORT_SQL_SIZE];

    sqlite3_snprintf((int)sizeof(sql), sql, "SELECT 1 FROM \"%w\" WHERE \"%w\" IS NOT NULL AND %s",
                     table, column, condition);
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK) {
        any = sqlite3_step(stmt) == SQLITE_ROW;
    }
    (void)sqlite3_finalize(stmt);
    return any;
}

static bool import_any_type(sqlite3 *db, const char *table, const char *column, const char *types)
{
    char condition[IMPORT_SQL_SIZE];

    sqlite3_snprintf((int)sizeof(condition), condition, "typeof(\"%w\") IN (%s)", column, types);
    return import_any(db, table, column, condition);
}

static bool import_only_bits(sqlite3 *db, const char *table, const char *column)
{
    char condition[IMPORT_SQL_SIZE];

    sqlite3_snprintf((int)sizeof(condition), condition, "\"%w\" NOT IN (0, 1)", column);
    return !import_any(db, table, column, condition);
}

/* The type of a column whose declaration does not decide it, judged by its rows. */
static ent_type import_type_by_rows(sqlite3 *db, const char *table, const char *column)
{
    if (import_any_type(db, table, column, "'blob'")) {
        return ENT_BYTES;
    }
    if (import_any_type(db, table, column, "'text'")) {
        return ENT_TEXT;
    }
    if (!import_any(db, table, column, "1")) {
        return ENT_FLOAT; /* nothing to judge by: what holds any number */
    }
    if (import_only_bits(db, table, column)) {
        return ENT_BOOL;
    }
    return import_any_type(db, table, column, "'real'") ? ENT_FLOAT : ENT_INT;
}

static ent_type import_type_declared(const char *declared)
{
    static const struct {
        const char *part;
        ent_type type;
    } rules[] = {{"bool", ENT_BOOL}, {"uuid", ENT_UUID},  {"json", ENT_JSON},  {"date", ENT_TIME},
                 {"time", ENT_TIME}, {"int", ENT_INT},    {"char", ENT_TEXT},  {"clob", ENT_TEXT},
                 {"text", ENT_TEXT}, {"blob", ENT_BYTES}, {"real", ENT_FLOAT}, {"floa", ENT_FLOAT},
                 {"doub", ENT_FLOAT}};

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (import_has(declared, rules[i].part)) {
            return rules[i].type;
        }
    }
    return (ent_type)0;
}

static bool import_fits(const qp_column *column, ent_type type)
{
    ent_field field = {.name = column->name, .column = column->name, .type = (uint8_t)type};
    return qp_sqlite_column_fits(&field, column);
}

static void import_type(sqlite3 *db, const import_table *table, import_column *column)
{
    static const ent_type others[] = {ENT_TEXT, ENT_BYTES, ENT_INT, ENT_FLOAT, ENT_TIME};
    const char *declared = column->column->declared != NULL ? column->column->declared : "";

    column->type = import_type_declared(declared);
    if (column->type == 0 || !import_fits(column->column, column->type)) {
        column->type = import_type_by_rows(db, table->shape->name, column->column->name);
    }
    for (size_t i = 0;
         i < sizeof(others) / sizeof(others[0]) && !import_fits(column->column, column->type);
         i++) {
        column->type = others[i];
    }
    column->is_string = column->type == ENT_TEXT &&
                        (column->column->key_position > 0 || import_has(declared, "char"));
}

/* ---- tables -------------------------------------------------------------------------------------
 */

/* Tables that belong to a full-text or spatial index are that index's affair. */
static bool import_is_shadow(const qp_file_shape *shape, const char *name)
{
    static const char *const tails[] = {"_data",   "_idx",      "_content", "_docsize",
                                        "_config", "_segments", "_segdir",  "_stat",
                                        "_node",   "_parent",   "_rowid"};

    for (size_t i = 0; i < shape->table_count; i++) {
        size_t n = strlen(shape->tables[i].name);
        if (!shape->tables[i].is_virtual || strncmp(name, shape->tables[i].name, n) != 0) {
            continue;
        }
        for (size_t j = 0; j < sizeof(tails) / sizeof(tails[0]); j++) {
            if (strcmp(name + n, tails[j]) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool import_is_ours(const qp_file_shape *shape, const qp_table_shape *table)
{
    return !eg_is_engine_name(table->name) && !import_is_shadow(shape, table->name);
}

import_column *eg_import_column(const import_table *table, const char *name)
{
    for (size_t i = 0; i < table->shape->column_count; i++) {
        if (qp_name_eq(table->columns[i].column->name, name)) {
            return &table->columns[i];
        }
    }
    return NULL;
}

bool eg_import_auto_id(const import_table *table)
{
    const import_column *id = eg_import_column(table, "id");

    return id != NULL && table->key_count == 1 && id->column->auto_key &&
           strcmp(id->column->name, "id") == 0;
}

static const char *import_why_not(const import_table *table)
{
    if (table->shape->is_view) {
        return "a view";
    }
    if (table->shape->is_virtual) {
        return "a virtual table";
    }
    if (table->key_count == 0) {
        return "it has no primary key";
    }
    if (table->key_count > ENT_KEY_MAX) {
        return "its key has too many columns";
    }
    if (table->shape->column_count > ENT_FIELDS_MAX) {
        return "it has too many columns";
    }
    if (!eg_import_sayable(table->shape->name)) {
        return "its name is too long or has control characters";
    }
    for (size_t i = 0; i < table->shape->column_count; i++) {
        const import_column *column = &table->columns[i];
        if (column->column->key_position > 0 &&
            (column->type == ENT_FLOAT || column->type == ENT_JSON || column->why != NULL)) {
            return "its key has a type that no key can have";
        }
    }
    return NULL;
}

static void import_table_columns(eg_run *run, sqlite3 *db, import_table *table)
{
    const qp_table_shape *shape = table->shape;

    table->columns = eg_alloc(run, (shape->column_count + 1) * sizeof(*table->columns));
    for (size_t i = 0; i < shape->column_count; i++) {
        import_column *column = &table->columns[i];
        column->column = &shape->columns[i];
        table->key_count += column->column->key_position > 0 ? 1 : 0;
        if (column->column->generated) {
            column->why = "it is computed";
        } else if (!eg_import_sayable(column->column->name)) {
            column->why = "its name is too long or has control characters";
        } else {
            import_type(db, table, column);
            column->field =
                import_free_name(run, &table->members, import_word(run, column->column->name), "_");
        }
    }
    table->why = import_why_not(table);
}

/* ---- references ---------------------------------------------------------------------------------
 */

static import_table *import_table_of(const import_file *file, const char *name)
{
    for (size_t i = 0; i < file->table_count; i++) {
        if (file->tables[i].why == NULL && qp_name_eq(file->tables[i].shape->name, name)) {
            return &file->tables[i];
        }
    }
    return NULL;
}

/* An edge brings an index for its column; one that the file lacks would be a change. */
static bool import_is_indexed(const import_table *table, const import_column *column)
{
    if (column->column->key_position == 1) {
        return true;
    }
    for (size_t i = 0; i < table->shape->index_count; i++) {
        const qp_index_shape *index = &table->shape->indexes[i];
        if (!index->partial && !index->implied && index->columns[0] != NULL &&
            qp_name_eq(index->columns[0], column->column->name)) {
            return true;
        }
    }
    return false;
}

static bool import_rule_known(const char *rule)
{
    return qp_name_eq(rule, "CASCADE") || qp_name_eq(rule, "SET NULL") ||
           qp_name_eq(rule, "RESTRICT") || qp_name_eq(rule, "NO ACTION");
}

/* The table and the column that a reference leads to can be those of an edge. */
static bool import_target_fits(const import_table *to, const import_column *column,
                               const qp_reference *reference)
{
    const import_column *key = NULL;

    if (to == NULL || to->key_count != 1) {
        return false;
    }
    for (size_t i = 0; i < to->shape->column_count; i++) {
        key = to->columns[i].column->key_position == 1 ? &to->columns[i] : key;
    }
    assert(key != NULL);
    return (reference->target == NULL || qp_name_eq(reference->target, key->column->name)) &&
           key->type == column->type && key->type != ENT_TIME && key->type != ENT_BOOL;
}

/* The column that holds the key can be that of an edge. */
static bool import_holder_fits(const import_table *table, const import_column *column,
                               const qp_reference *reference)
{
    bool set_null = qp_name_eq(reference->on_delete, "SET NULL");

    if (column->field == NULL || column->reference != NULL ||
        strlen(column->field) + 4 > EG_NAME_MAX) {
        return false;
    }
    if (set_null && (column->column->not_null || column->column->key_position > 0)) {
        return false;
    }
    return import_rule_known(reference->on_delete) && import_is_indexed(table, column);
}

static void import_reference(eg_run *run, const import_file *file, import_table *table,
                             const qp_reference *reference)
{
    import_column *column =
        reference->column != NULL ? eg_import_column(table, reference->column) : NULL;
    import_table *to = import_table_of(file, reference->table);
    const char *edge;
    const char *taken;
    size_t n;

    if (column == NULL || !import_holder_fits(table, column, reference) ||
        !import_target_fits(to, column, reference)) {
        return;
    }
    n = strlen(column->field);
    edge = column->field;
    taken = eg_format(run, "%s_id", edge); /* what the edge's key will be called */
    if (n > 3 && strcmp(edge + n - 3, "_id") == 0) {
        edge = eg_format(run, "%.*s", (int)n - 3, edge);
        taken = edge;
    }
    if (eg_names_claim(run, &table->members, taken, (eg_name){taken, {0, 1, 1}}) != NULL) {
        return;
    }
    column->reference = reference;
    column->edge = edge;
    column->to = to;
    column->inverse =
        import_free_name(run, &to->members, import_word(run, table->shape->name), "_");
    eg_list_add(run, &to->owned, column);
    eg_list_add(run, &to->owned_tables, table);
}

/* ---- the file -----------------------------------------------------------------------------------
 */

static uint32_t import_application_id(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    uint32_t id = 0;

    if (sqlite3_prepare_v2(db, "PRAGMA application_id", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW) {
        id = (uint32_t)sqlite3_column_int(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    return id;
}

static void import_build(eg_run *run, sqlite3 *db, const qp_file_shape *shape, import_file *file)
{
    eg_names entities = {0};

    file->tables = eg_alloc(run, (shape->table_count + 1) * sizeof(*file->tables));
    for (size_t i = 0; i < shape->table_count; i++) {
        if (import_is_ours(shape, &shape->tables[i])) {
            import_table *table = &file->tables[file->table_count++];
            table->shape = &shape->tables[i];
            table->entity = import_free_name(run, &entities,
                                             import_entity_name(run, shape->tables[i].name), "");
            import_table_columns(run, db, table);
        }
    }
    for (size_t i = 0; i < file->table_count; i++) {
        import_table *table = &file->tables[i];
        for (size_t j = 0; table->why == NULL && j < table->shape->reference_count; j++) {
            import_reference(run, file, table, &table->shape->references[j]);
        }
    }
    file->application_id = import_application_id(db);
}

/* The written text must be a valid schema: anything else is a bug here, and is reported instead. */
static bool import_verify(eg_run *run, const char *path, quipu_str text)
{
    eg_run check;
    eg_schema schema;
    bool good;

    eg_run_init(&check);
    eg_schema_init(&schema);
    eg_parse(&check, &schema, "imported", text);
    good = check.error_count == 0 && eg_schema_finish(&check, &schema, path);
    if (!good) {
        eg_error_file(run, path, "its tables make no schema:\n%s%s", qp_buf_str(&check.errors).p,
                      text.p);
    }
    eg_run_free(&check);
    return good;
}

bool eg_import(eg_run *run, const char *path, qp_buf *out)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    import_file file = {0};
    qp_file_shape shape = {0};
    quipu_error error = {0};
    ent_db *db = NULL;
    sqlite3 *handle;
    bool good = false;

    options.flags = ENT_SQLITE_READ_ONLY | ENT_SQLITE_MUST_EXIST;
    if (ent_sqlite_open(path, &options, &db, &error) != QUIPU_OK ||
        qp_sqlite_inspect(db->conn, &run->arena, &shape, &error) != QUIPU_OK) {
        eg_error_file(run, path, "%s", error.message);
        goto done;
    }
    handle = ((qp_sqlite *)db->conn)->db;
    file.name = eg_stem(run, path);
    import_build(run, handle, &shape, &file);
    eg_import_write(run, &file, out);
    if (qp_buf_status(out) != QUIPU_OK) {
        eg_error_file(run, path, "%s", quipu_status_text(qp_buf_status(out)));
        goto done;
    }
    good = import_verify(run, path, qp_buf_str(out));

done:
    ent_close(db);
    return good;
}
