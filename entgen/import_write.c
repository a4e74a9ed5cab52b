/* Writing what import.c found as .ent text. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ent/diff.h"
#include "entgen/import_internal.h"
#include "entgen/run.h"

static void import_write_quoted(qp_buf *out, const char *text)
{
    static const char plain[] = "\n\t\r\"\\";
    static const char escaped[] = "ntr\"\\";

    qp_buf_putc(out, '"');
    for (; *text != '\0'; text++) {
        const char *found = strchr(plain, *text);
        if (found != NULL) {
            qp_buf_putc(out, '\\');
        }
        qp_buf_putc(out, found != NULL ? escaped[found - plain] : *text);
    }
    qp_buf_putc(out, '"');
}

/* A name of the file inside a comment: one line, whatever it holds. */
static void import_write_plain(qp_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        qp_buf_putc(out, (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
    }
}

/* ---- defaults -----------------------------------------------------------------------------------
 */

/* The text without the parentheses and spaces around it. */
static quipu_str import_write_bare(const char *text)
{
    quipu_str bare = quipu_cstr(text);

    for (;;) {
        while (bare.n > 0 && bare.p[0] == ' ') {
            bare.p++;
            bare.n--;
        }
        while (bare.n > 0 && bare.p[bare.n - 1] == ' ') {
            bare.n--;
        }
        if (bare.n < 2 || bare.p[0] != '(' || bare.p[bare.n - 1] != ')') {
            return bare;
        }
        bare.p++;
        bare.n -= 2;
    }
}

/* The meaning of a SQL text literal, or NULL for another text. */
static const char *import_write_literal(eg_run *run, quipu_str bare)
{
    char *text = eg_alloc(run, bare.n + 1);
    size_t n = 0;

    if (bare.n < 2 || bare.p[0] != '\'' || bare.p[bare.n - 1] != '\'') {
        return NULL;
    }
    for (size_t i = 1; i + 1 < bare.n; i++) {
        if (bare.p[i] == '\'') {
            if (i + 2 >= bare.n || bare.p[i + 1] != '\'') {
                return NULL;
            }
            i++;
        }
        text[n++] = bare.p[i];
    }
    return text;
}

static bool import_write_number(const char *text, bool whole)
{
    char *end = NULL;

    if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) {
        return false;
    }
    for (const char *c = text; *c != '\0'; c++) {
        if ((*c < '0' || *c > '9') && (whole ? *c != '-' : strchr("-+.eE", *c) == NULL)) {
            return false;
        }
    }
    (void)strtod(text, &end);
    return *end == '\0' && strlen(text) < 18;
}

/* The default as .ent writes it, or NULL when it cannot. */
static const char *import_write_default(eg_run *run, const import_column *column)
{
    quipu_str bare = import_write_bare(column->column->default_text);
    const char *word = eg_copy(run, bare);
    const char *text = import_write_literal(run, bare);
    qp_buf out;

    switch (column->type) {
    case ENT_INT:
        return import_write_number(word, true) ? word : NULL;
    case ENT_FLOAT:
        return import_write_number(word, false) ? word : NULL;
    case ENT_BOOL:
        if (qp_name_eq(word, "true") || strcmp(word, "1") == 0) {
            return "true";
        }
        return qp_name_eq(word, "false") || strcmp(word, "0") == 0 ? "false" : NULL;
    case ENT_TIME:
        return qp_name_eq(word, "CURRENT_TIMESTAMP") ? "now" : NULL;
    case ENT_TEXT:
    case ENT_JSON:
        if (text == NULL || (text[0] != '\0' && !eg_import_sayable(text)) ||
            (column->type == ENT_JSON && qp_json_check(quipu_cstr(text), NULL, NULL) != QUIPU_OK)) {
            return NULL;
        }
        qp_buf_init(&out, EG_SOURCE_MAX);
        import_write_quoted(&out, text);
        word = eg_copy(run, qp_buf_str(&out));
        qp_buf_free(&out);
        return word;
    default:
        return NULL;
    }
}

/* ---- columns ------------------------------------------------------------------------------------
 */

static const char *import_write_type(const import_column *column)
{
    static const char *const names[] = {"?",     "int",  "float", "bool", "text",
                                        "bytes", "time", "uuid",  "enum", "json"};
    return column->is_string ? "string" : names[column->type];
}

static void import_write_comment(qp_buf *out, const char *what, const char *name, const char *why)
{
    qp_buf_printf(out, "  # %s ", what);
    import_write_plain(out, name);
    qp_buf_printf(out, " was left out: %s\n", why);
}

static void import_write_field(eg_run *run, const import_table *table, const import_column *column,
                               qp_buf *out)
{
    const qp_column *source = column->column;
    bool key = source->key_position > 0;
    const char *value = source->default_text != NULL && !(key && table->key_count == 1)
                            ? import_write_default(run, column)
                            : NULL;

    qp_buf_printf(out, "  %s %s%s", column->field, import_write_type(column),
                  !key && !source->not_null ? "?" : "");
    if (value != NULL) {
        qp_buf_printf(out, " = %s", value);
    }
    if (strcmp(column->field, source->name) != 0) {
        qp_buf_puts(out, " column ");
        import_write_quoted(out, source->name);
    }
    qp_buf_putc(out, '\n');
}

static void import_write_edge(const import_column *column, qp_buf *out)
{
    const qp_column *source = column->column;

    qp_buf_printf(out, "  edge %s <- %s.%s%s", column->edge, column->to->entity, column->inverse,
                  source->key_position == 0 && !source->not_null ? "?" : "");
    if (strlen(column->edge) + 3 != strlen(source->name) ||
        strncmp(column->edge, source->name, strlen(column->edge)) != 0 ||
        strcmp(source->name + strlen(column->edge), "_id") != 0) {
        qp_buf_puts(out, " column ");
        import_write_quoted(out, source->name);
    }
    qp_buf_putc(out, '\n');
}

static void import_write_columns(eg_run *run, const import_table *table, qp_buf *out)
{
    bool auto_id = eg_import_auto_id(table);

    for (size_t i = 0; i < table->shape->column_count; i++) {
        const import_column *column = &table->columns[i];
        if (column->field == NULL) {
            import_write_comment(out, "column", column->column->name, column->why);
        } else if (column->reference != NULL) {
            import_write_edge(column, out);
        } else if (!auto_id || column->column->key_position == 0) {
            import_write_field(run, table, column, out);
        }
    }
    for (size_t i = 0; i < table->owned.n; i++) {
        const import_column *column = table->owned.items[i];
        const import_table *from = table->owned_tables.items[i];
        const char *rule = column->reference->on_delete;
        qp_buf_printf(out, "  edge %s -> %s[] %s\n", column->inverse, from->entity,
                      qp_name_eq(rule, "CASCADE")    ? "cascade"
                      : qp_name_eq(rule, "SET NULL") ? "set_null"
                                                     : "restrict");
    }
}

/* ---- keys and indexes ---------------------------------------------------------------------------
 */

static void import_write_key(const import_table *table, qp_buf *out)
{
    for (size_t position = 1; position <= table->key_count; position++) {
        for (size_t i = 0; i < table->shape->column_count; i++) {
            const import_column *column = &table->columns[i];
            if (column->column->key_position != position) {
                continue;
            }
            if (table->key_count == 1 && column->reference == NULL &&
                strcmp(column->field, "id") == 0) {
                return;
            }
            qp_buf_printf(out, "%s%s%s", position == 1 ? "  key (" : ", ", column->field,
                          column->reference != NULL && column->edge == column->field ? "_id" : "");
        }
    }
    qp_buf_puts(out, ")\n");
}

static bool import_write_is_key(const import_table *table, const qp_index_shape *index)
{
    if (!index->implied || index->column_count != table->key_count) {
        return false;
    }
    for (size_t i = 0; i < index->column_count; i++) {
        const import_column *column =
            index->columns[i] != NULL ? eg_import_column(table, index->columns[i]) : NULL;
        if (column == NULL || column->column->key_position != i + 1) {
            return false;
        }
    }
    return true;
}

static const char *import_write_index_why(const import_table *table, const qp_index_shape *index)
{
    if (index->partial) {
        return "it is partial";
    }
    if (index->column_count > ENT_KEY_MAX) {
        return "it has too many columns";
    }
    for (size_t i = 0; i < index->column_count; i++) {
        const import_column *column =
            index->columns[i] != NULL ? eg_import_column(table, index->columns[i]) : NULL;
        if (column == NULL || column->field == NULL || column->type == ENT_JSON) {
            return "it holds what no field can say";
        }
    }
    return NULL;
}

/* Whether an earlier index of the table says the same. */
static bool import_write_is_repeated(const import_table *table, size_t number)
{
    const qp_index_shape *index = &table->shape->indexes[number];

    for (size_t i = 0; i < number; i++) {
        const qp_index_shape *other = &table->shape->indexes[i];
        bool same = other->column_count == index->column_count && other->desc == index->desc &&
                    other->unique == index->unique && other->partial == index->partial &&
                    !import_write_is_key(table, other);
        for (size_t j = 0; same && j < index->column_count; j++) {
            same = other->columns[j] != NULL && index->columns[j] != NULL &&
                   qp_name_eq(other->columns[j], index->columns[j]);
        }
        if (same) {
            return true;
        }
    }
    return false;
}

static void import_write_index(const import_table *table, const qp_index_shape *index, qp_buf *out)
{
    qp_buf_puts(out, index->unique ? "  unique index (" : "  index (");
    for (size_t i = 0; i < index->column_count; i++) {
        const import_column *column = eg_import_column(table, index->columns[i]);
        qp_buf_printf(out, "%s%s%s%s", i > 0 ? ", " : "", column->field,
                      column->reference != NULL && column->edge == column->field ? "_id" : "",
                      ((index->desc >> i) & 1U) != 0 ? " desc" : "");
    }
    qp_buf_putc(out, ')');
    if (!index->implied && eg_import_sayable(index->name)) {
        qp_buf_puts(out, " name ");
        import_write_quoted(out, index->name);
    }
    qp_buf_putc(out, '\n');
}

static void import_write_indexes(const import_table *table, qp_buf *out)
{
    for (size_t i = 0; i < table->shape->index_count; i++) {
        const qp_index_shape *index = &table->shape->indexes[i];
        const char *why = import_write_index_why(table, index);
        if (import_write_is_key(table, index)) {
            continue;
        }
        if (why == NULL && import_write_is_repeated(table, i)) {
            why = "another index says the same";
        }
        if (why != NULL) {
            import_write_comment(out, "index", index->name, why);
        } else {
            import_write_index(table, index, out);
        }
    }
}

static void import_write_references(const import_table *table, qp_buf *out)
{
    for (size_t i = 0; i < table->shape->reference_count; i++) {
        const qp_reference *reference = &table->shape->references[i];
        const import_column *column =
            reference->column != NULL ? eg_import_column(table, reference->column) : NULL;
        if (column == NULL || column->reference != reference) {
            import_write_comment(out, "reference to", reference->table,
                                 reference->column == NULL ? "it has several columns"
                                                           : "no edge can say it without a change");
        }
    }
}

void eg_import_write(eg_run *run, const import_file *file, qp_buf *out)
{
    qp_buf_printf(out, "# Written by entgen import.\n\nschema %s {\n", file->name);
    if (file->application_id != 0) {
        qp_buf_printf(out, "  application_id 0x%08x\n", (unsigned)file->application_id);
    }
    qp_buf_puts(out, "}\n");
    for (size_t i = 0; i < file->table_count; i++) {
        const import_table *table = &file->tables[i];
        qp_buf_putc(out, '\n');
        if (table->why != NULL) {
            qp_buf_puts(out, "# table ");
            import_write_plain(out, table->shape->name);
            qp_buf_printf(out, " was left out: %s\n", table->why);
            continue;
        }
        qp_buf_printf(out, "entity %s table ", table->entity);
        import_write_quoted(out, table->shape->name);
        qp_buf_puts(out, " {\n");
        import_write_columns(run, table, out);
        import_write_key(table, out);
        import_write_indexes(table, out);
        import_write_references(table, out);
        qp_buf_puts(out, "}\n");
    }
}
