/* DDL text from entity descriptors: tables, columns, indexes, FTS5 tables with their triggers, and
 * the statements of a rebuild.
 *
 * Owns: the mapping of field types to declared types, and the rule which declared types fit a
 * field.
 * Called by: src/ent/migrate_run.c through qp_migrator; entgen. Output goes to a qp_buf, whose
 * sticky status reports the first failure.
 * Locks: none; no connection is touched. */
#include "ent_sqlite/ddl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "ent/diff.h"
#include "ent/plan.h"

#define DDL_NAME_SIZE 512 /* of a table's name with a suffix */
#define DDL_TOKENIZE "tokenize='" QP_SQLITE_TOKENIZER "'"

/* The suffix is ours and needs no escaping. */
void qp_sqlite_put_suffixed(qp_buf *out, const char *table, const char *suffix)
{
    assert(table != NULL && suffix != NULL);
    qp_buf_putc(out, '"');
    qp_sql_doubled(out, table, '"');
    qp_buf_puts(out, suffix);
    qp_buf_putc(out, '"');
}

/* The declared type of a field. JSON is "text" and not "json", whose NUMERIC affinity would turn
 * 1e3 into 1000. The names "bool", "datetime" and "uuid" have NUMERIC affinity, which changes none
 * of the stored values: their texts never look like numbers, and booleans are integers. They show
 * other tools what a column means. */
static const char *ddl_type(const ent_field *field)
{
    assert(field != NULL);
    switch ((ent_type)field->type) {
    case ENT_INT:
        return "integer";
    case ENT_FLOAT:
        return "real";
    case ENT_BOOL:
        return "bool";
    case ENT_BYTES:
        return "blob";
    case ENT_TIME:
        return "datetime";
    case ENT_UUID:
        return "uuid";
    case ENT_TEXT:
    case ENT_ENUM:
    case ENT_JSON:
        break;
    }
    return "text";
}

/* A literal that SQLite reads back bit for bit, and as a float: qp_sqlite_put_absent() writes it
 * without a column whose affinity would turn "1" into 1.0. INFINITY and NaN have no literal. */
static void ddl_put_float(qp_buf *out, double value)
{
    char text[QP_DOUBLE_TEXT_SIZE];

    assert(out != NULL);
    if (!qp_double_text(value, text)) {
        qp_buf_fail(out, QUIPU_INVALID);
        return;
    }
    qp_buf_puts(out, text);
    qp_buf_puts(out, strpbrk(text, ".eE") == NULL ? ".0" : "");
}

/* A field's constant default as an SQL literal. Not the defaults `now` and `random`: src/ent
 * computes those for each row. */
static void ddl_put_literal(qp_buf *out, const ent_field *field)
{
    assert((field->flags & ENT_F_DEFAULT) != 0);
    switch ((ent_type)field->type) {
    case ENT_INT:
    case ENT_BOOL:
        qp_buf_i64(out, field->default_int);
        return;
    case ENT_FLOAT:
        ddl_put_float(out, field->default_float);
        return;
    default:
        qp_sql_text(out, field->default_text != NULL ? field->default_text : "");
        return;
    }
}

/* The value of a column that an older file lacks: the field's default, or NULL. */
void qp_sqlite_put_absent(const ent_field *field, qp_buf *out)
{
    assert(field != NULL && out != NULL);
    if ((field->flags & ENT_F_DEFAULT) != 0) {
        ddl_put_literal(out, field);
    } else {
        qp_buf_puts(out, "NULL");
    }
}

/* `name type [NOT NULL] [DEFAULT (x)]`, the same in CREATE TABLE and ADD COLUMN. `now` (ADD COLUMN)
 * is the value of existing rows where a field's default is the time. A random default is filled in
 * afterwards, so that the column cannot be NOT NULL. The default stands in parentheses, so that a
 * negative number or a text needs no other form. */
static void ddl_put_column(qp_buf *out, const ent_field *field, const quipu_time *now)
{
    char text[QUIPU_TIME_TEXT_SIZE];
    bool backfilled = now != NULL && (field->flags & ENT_F_RANDOM) != 0;

    assert(field->column != NULL);
    qp_sql_name(out, field->column);
    qp_buf_putc(out, ' ');
    qp_buf_puts(out, ddl_type(field));
    if ((field->flags & ENT_F_NULLABLE) == 0 && !backfilled) {
        qp_buf_puts(out, " NOT NULL");
    }
    if ((field->flags & ENT_F_AUTO) != 0) {
        qp_buf_puts(out, " PRIMARY KEY AUTOINCREMENT");
    }
    if ((field->flags & ENT_F_DEFAULT) != 0) {
        qp_buf_puts(out, " DEFAULT (");
        ddl_put_literal(out, field);
        qp_buf_putc(out, ')');
    } else if (now != NULL && (field->flags & ENT_F_NOW) != 0) {
        if (quipu_time_format(*now, text) != QUIPU_OK) {
            qp_buf_fail(out, QUIPU_INVALID);
            return;
        }
        qp_buf_printf(out, " DEFAULT ('%s')", text);
    }
}

/* Whether a foreign type consists of words, with numbers in parentheses at most: safe to repeat.
 * The text comes from a file that another program wrote; what is not plain is quoted as a name by
 * ddl_put_extra(), which keeps it out of the statement's syntax. */
static bool ddl_type_is_plain(const char *type)
{
    int depth = 0;

    assert(type != NULL);
    for (const char *p = type; *p != '\0'; p++) {
        char lower = (char)(*p | 0x20);
        bool digit = *p >= '0' && *p <= '9';
        if (*p == '(') {
            depth++;
        } else if (*p == ')') {
            depth--;
        } else if (depth == 0 ? !(digit || *p == '_' || *p == ' ' || (lower >= 'a' && lower <= 'z'))
                              : !(digit || strchr(" ,+-", *p) != NULL)) {
            return false;
        }
        if (depth < 0 || depth > 1) {
            return false;
        }
    }
    return depth == 0;
}

/* A column that the schema does not know, kept by a rebuild. Without a default it cannot stay NOT
 * NULL: our inserts do not name it. The default's text comes from the file as well. SQLite has
 * parsed it once as an expression when the table was created, and DEFAULT accepts no subquery. */
static void ddl_put_extra(qp_buf *out, const qp_column *column)
{
    assert(column->name != NULL);
    qp_sql_name(out, column->name);
    if (column->declared != NULL && column->declared[0] != '\0') {
        qp_buf_putc(out, ' ');
        if (ddl_type_is_plain(column->declared)) {
            qp_buf_puts(out, column->declared);
        } else {
            qp_sql_name(out, column->declared);
        }
    }
    if (column->default_text != NULL) {
        qp_buf_printf(out, "%s DEFAULT (%s)", column->not_null ? " NOT NULL" : "",
                      column->default_text);
    }
}

/* The REFERENCES clause of an edge. A target has one key column, and the rule is always written:
 * without one SQLite would use NO ACTION, which no schema can ask for. */
static void ddl_put_references(qp_buf *out, const ent_edge *edge)
{
    static const char *const rules[] = {"", "CASCADE", "RESTRICT", "SET NULL"};

    assert(edge->on_delete >= ENT_CASCADE && edge->on_delete <= ENT_SET_NULL);
    assert(edge->to->key_count == 1);
    qp_buf_puts(out, "REFERENCES ");
    qp_sql_name(out, edge->to->table);
    qp_buf_puts(out, " (");
    qp_sql_name(out, edge->to->fields[edge->to->key[0]].column);
    qp_buf_printf(out, ") ON DELETE %s", rules[edge->on_delete]);
}

/* The PRIMARY KEY clause, where the key does not stand with its column. An AUTO key does, because
 * only there `integer PRIMARY KEY` is the rowid. A cluster's key is the packed integer, which makes
 * its two fields unique without an index of their own. */
static void ddl_put_key(qp_buf *out, const ent_entity *entity)
{
    assert(entity->key_count >= 1);
    if ((entity->flags & ENT_E_CLUSTER) != 0 ||
        (entity->fields[entity->key[0]].flags & ENT_F_AUTO) != 0) {
        return;
    }
    qp_buf_puts(out, ", PRIMARY KEY (");
    for (size_t i = 0; i < entity->key_count; i++) {
        qp_buf_puts(out, i > 0 ? ", " : "");
        qp_sql_name(out, entity->fields[entity->key[i]].column);
    }
    qp_buf_putc(out, ')');
}

/* CREATE TABLE. A cluster gets the integer key `id` (owner << 32 | seq), so that an owner's rows
 * are neighbours in the B-tree; a composite key without one makes a WITHOUT ROWID table. References
 * are named table_target_edge, so that an error or another tool can refer to them. */
static void ddl_put_table(qp_buf *out, const ent_entity *entity, const char *table,
                          const qp_column *extra, size_t extra_count)
{
    bool cluster = (entity->flags & ENT_E_CLUSTER) != 0;

    assert(table != NULL);
    qp_buf_puts(out, "CREATE TABLE ");
    qp_sql_name(out, table);
    qp_buf_puts(out,
                cluster ? " (\"" QP_SQLITE_CLUSTER_KEY "\" integer NOT NULL PRIMARY KEY, " : " (");
    for (size_t i = 0; i < entity->field_count; i++) {
        qp_buf_puts(out, i > 0 ? ", " : "");
        ddl_put_column(out, &entity->fields[i], NULL);
    }
    for (size_t i = 0; i < extra_count; i++) {
        qp_buf_puts(out, ", ");
        ddl_put_extra(out, &extra[i]);
    }
    ddl_put_key(out, entity);
    for (size_t i = 0; i < entity->edge_count; i++) {
        const ent_edge *edge = &entity->edges[i];
        if (edge->kind != ENT_TO_ONE) {
            continue;
        }
        qp_buf_puts(out, ", CONSTRAINT \"");
        qp_sql_doubled(out, entity->table, '"');
        qp_buf_putc(out, '_');
        qp_sql_doubled(out, edge->to->table, '"');
        qp_buf_putc(out, '_');
        qp_sql_doubled(out, edge->name, '"');
        qp_buf_puts(out, "\" FOREIGN KEY (");
        qp_sql_name(out, entity->fields[edge->field].column);
        qp_buf_puts(out, ") ");
        ddl_put_references(out, edge);
    }
    qp_buf_puts(out, entity->key_count > 1 && !cluster ? ") WITHOUT ROWID" : ")");
}

/* See ddl.h. Without unknown columns: those exist only in a file, and come through write_ddl. */
quipu_status qp_sqlite_ddl_table(const ent_entity *entity, quipu_str table, qp_buf *out)
{
    assert(entity != NULL && out != NULL);
    ddl_put_table(out, entity, table.p != NULL ? table.p : entity->table, NULL, 0);
    return qp_buf_status(out);
}

/* See ddl.h. DESC matters: SQLite reads an index backwards for the mirrored order, but not for a
 * mix of directions, which is what a page of a list needs. */
quipu_status qp_sqlite_ddl_index(const ent_entity *entity, const ent_index *index, quipu_str name,
                                 qp_buf *out)
{
    assert(entity != NULL && index != NULL);
    qp_buf_puts(out, index->unique ? "CREATE UNIQUE INDEX " : "CREATE INDEX ");
    qp_sql_name(out, name.p != NULL ? name.p : index->name);
    qp_buf_puts(out, " ON ");
    qp_sql_name(out, entity->table);
    qp_buf_puts(out, " (");
    for (size_t i = 0; i < index->count; i++) {
        qp_buf_puts(out, i > 0 ? ", " : "");
        qp_sql_name(out, entity->fields[index->fields[i]].column);
        qp_buf_puts(out, (index->desc & (1u << i)) != 0 ? " DESC" : "");
    }
    qp_buf_putc(out, ')');
    return qp_buf_status(out);
}

/* ---- full text ----------------------------------------------------------------------------------
 */

/* The column that FTS5's rowid refers to: an integer, the packed key of a cluster or the entity's
 * own. */
const char *qp_sqlite_row_key(const ent_entity *entity)
{
    assert(entity->key_count >= 1);
    return (entity->flags & ENT_E_CLUSTER) != 0 ? QP_SQLITE_CLUSTER_KEY
                                                : entity->fields[entity->key[0]].column;
}

/* The indexed columns, each behind `before` ("new." or "old."). */
static void ddl_put_search_columns(qp_buf *out, const ent_entity *entity, const char *before)
{
    assert(before != NULL);
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_puts(out, i > 0 ? ", " : "");
        qp_buf_puts(out, before);
        qp_sql_name(out, entity->fields[entity->search_fields[i]].column);
    }
}

/* The statement inside of a trigger: adds the new row, or removes the old one with its old text.
 * FTS5 does not read the content table when it removes a row: with another text than the indexed
 * one the index would keep words of a row that is gone. */
static void ddl_put_search_move(qp_buf *out, const ent_entity *entity, bool add)
{
    assert(entity->search_count > 0);
    qp_buf_puts(out, "INSERT INTO ");
    qp_sqlite_put_suffixed(out, entity->table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_puts(out, " (");
    if (!add) {
        qp_sqlite_put_suffixed(out, entity->table, QP_SQLITE_SEARCH_SUFFIX);
        qp_buf_puts(out, ", ");
    }
    qp_buf_puts(out, "rowid, ");
    ddl_put_search_columns(out, entity, "");
    qp_buf_puts(out, add ? ") VALUES (new." : ") VALUES ('delete', old.");
    qp_sql_name(out, qp_sqlite_row_key(entity));
    qp_buf_puts(out, ", ");
    ddl_put_search_columns(out, entity, add ? "new." : "old.");
    qp_buf_puts(out, "); ");
}

/* The head of a trigger, up to BEGIN. IF NOT EXISTS: QP_DDL_SEARCH also completes an index of which
 * some triggers are missing. */
static void ddl_put_search_trigger(qp_buf *out, const ent_entity *entity, const char *suffix,
                                   const char *event)
{
    assert(suffix != NULL && event != NULL);
    qp_buf_puts(out, ";\nCREATE TRIGGER IF NOT EXISTS ");
    qp_sqlite_put_suffixed(out, entity->table, suffix);
    qp_buf_printf(out, " AFTER %s ON ", event);
    qp_sql_name(out, entity->table);
    qp_buf_puts(out, " BEGIN ");
}

void qp_sqlite_put_search_options(qp_buf *out, const ent_entity *entity, const char *content,
                                  const char *key)
{
    assert(content != NULL && key != NULL);
    ddl_put_search_columns(out, entity, "");
    qp_buf_puts(out, ", content=");
    qp_sql_text(out, content);
    qp_buf_puts(out, ", content_rowid=");
    qp_sql_text(out, key);
    if ((entity->flags & ENT_E_SEARCH_CJK) != 0) {
        qp_buf_puts(out, ", " DDL_TOKENIZE);
    }
}

/* An FTS5 table over the entity's own (external content). An update removes and adds. A manual
 * index gets no triggers; store/search.c indexes behind a watermark. */
quipu_status qp_sqlite_ddl_search(const ent_entity *entity, qp_buf *out)
{
    assert(entity->search_count > 0);
    qp_buf_puts(out, "CREATE VIRTUAL TABLE IF NOT EXISTS ");
    qp_sqlite_put_suffixed(out, entity->table, QP_SQLITE_SEARCH_SUFFIX);
    qp_buf_puts(out, " USING fts5(");
    qp_sqlite_put_search_options(out, entity, entity->table, qp_sqlite_row_key(entity));
    qp_buf_putc(out, ')');
    if ((entity->flags & ENT_E_SEARCH_MANUAL) != 0) {
        return qp_buf_status(out);
    }
    ddl_put_search_trigger(out, entity, "_search_insert", "INSERT");
    ddl_put_search_move(out, entity, true);
    qp_buf_puts(out, "END");
    ddl_put_search_trigger(out, entity, "_search_delete", "DELETE");
    ddl_put_search_move(out, entity, false);
    qp_buf_puts(out, "END");
    ddl_put_search_trigger(out, entity, "_search_update", "UPDATE");
    ddl_put_search_move(out, entity, false);
    ddl_put_search_move(out, entity, true);
    qp_buf_puts(out, "END");
    return qp_buf_status(out);
}

/* Whether the entity has a full-text index at all. Both flags count, the automatic and the manual
 * one. */
static bool ddl_has_search(const ent_entity *entity)
{
    assert(entity != NULL);
    return (entity->flags & (ENT_E_SEARCH | ENT_E_SEARCH_MANUAL)) != 0 && entity->search_count > 0;
}

/* The text of a new file. The buffer's status is looked at once, at the end: a failed buffer
 * ignores what is put behind. Tables come in the schema's order; SQLite resolves references when
 * rows are written, so that a target may be created later. */
quipu_status qp_sqlite_ddl_schema(const ent_schema *schema, qp_buf *out)
{
    assert(schema != NULL && out != NULL);
    if (schema->application_id != 0) {
        qp_buf_printf(out, "PRAGMA application_id = %d;\n", (int32_t)schema->application_id);
    }
    for (size_t i = 0; i < schema->entity_count; i++) {
        const ent_entity *entity = schema->entities[i];
        (void)qp_sqlite_ddl_table(entity, (quipu_str){NULL, 0}, out);
        qp_buf_puts(out, ";\n");
        for (size_t j = 0; j < entity->index_count; j++) {
            (void)qp_sqlite_ddl_index(entity, &entity->indexes[j], (quipu_str){NULL, 0}, out);
            qp_buf_puts(out, ";\n");
        }
        if (ddl_has_search(entity)) {
            (void)qp_sqlite_ddl_search(entity, out);
            qp_buf_puts(out, ";\n");
        }
    }
    return qp_buf_status(out);
}

/* ---- changes ------------------------------------------------------------------------------------
 */

/* `UPDATE t SET c = <a version 4 UUID>`, a different one for each row. randomblob() is evaluated
 * for each row, not once for the statement. */
static void ddl_put_random(qp_buf *out, const ent_entity *entity, const ent_field *field)
{
    assert(field->column != NULL);
    qp_buf_puts(out, "UPDATE ");
    qp_sql_name(out, entity->table);
    qp_buf_puts(out, " SET ");
    qp_sql_name(out, field->column);
    qp_buf_puts(out, " = lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || "
                     "substr(hex(randomblob(2)), 2) || '-' || substr('89ab', 1 + "
                     "(random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || "
                     "hex(randomblob(6)))");
}

/* Older programs go on inserting rows without a value that newer ones require: a trigger fills it
 * in, as a constant default would. The row is found by its key, for the trigger cannot assign to
 * `new`. */
static void ddl_put_random_trigger(qp_buf *out, const ent_entity *entity, const ent_field *field)
{
    bool cluster = (entity->flags & ENT_E_CLUSTER) != 0;
    size_t count = cluster ? 1 : entity->key_count;

    assert(entity->key_count >= 1);
    qp_buf_puts(out, ";\nCREATE TRIGGER IF NOT EXISTS \"");
    qp_sql_doubled(out, entity->table, '"');
    qp_buf_putc(out, '_');
    qp_sql_doubled(out, field->column, '"');
    qp_buf_puts(out, "_random\" AFTER INSERT ON ");
    qp_sql_name(out, entity->table);
    qp_buf_puts(out, " WHEN new.");
    qp_sql_name(out, field->column);
    qp_buf_puts(out, " IS NULL BEGIN ");
    ddl_put_random(out, entity, field);
    for (size_t i = 0; i < count; i++) {
        const char *key = cluster ? QP_SQLITE_CLUSTER_KEY : entity->fields[entity->key[i]].column;
        qp_buf_puts(out, i == 0 ? " WHERE " : " AND ");
        qp_sql_name(out, key);
        qp_buf_puts(out, " = new.");
        qp_sql_name(out, key);
    }
    qp_buf_puts(out, "; END");
}

/* ADD COLUMN. SQLite takes no default that is not constant: random values are filled in behind it.
 * A reference stands with its column: SQLite adds no constraint to an existing table. */
static void ddl_write_column(const qp_ddl *change, qp_buf *out)
{
    const ent_field *field = change->field;
    const ent_edge *edge = qp_entity_reference(change->entity, field);

    assert(field != NULL);
    qp_buf_puts(out, "ALTER TABLE ");
    qp_sql_name(out, change->entity->table);
    qp_buf_puts(out, " ADD COLUMN ");
    ddl_put_column(out, field, &change->now);
    if (edge != NULL) {
        qp_buf_putc(out, ' ');
        ddl_put_references(out, edge);
    }
    if ((field->flags & ENT_F_RANDOM) != 0) {
        qp_buf_puts(out, ";\n");
        ddl_put_random(out, change->entity, field);
        if ((field->flags & ENT_F_NULLABLE) == 0) {
            ddl_put_random_trigger(out, change->entity, field);
        }
    }
}

/* The names of the unknown columns, in the same order for both sides of ddl_write_carry(). */
static void ddl_put_extra_names(qp_buf *out, const qp_ddl *change)
{
    assert(change->extra_count > 0);
    for (size_t i = 0; i < change->extra_count; i++) {
        qp_buf_puts(out, i > 0 ? ", " : "");
        qp_sql_name(out, change->extra[i].name);
    }
}

/* Rebuild: copies the unknown columns of one row (rowid ?1) to its new row (rowid ?2). Prepared
 * once for a table and run for each row by the rebuild, which knows the new rowid. */
static void ddl_write_carry(const qp_ddl *change, qp_buf *out)
{
    assert(change->name != NULL);
    qp_buf_puts(out, "UPDATE ");
    qp_sql_name(out, change->name);
    qp_buf_puts(out, " SET (");
    ddl_put_extra_names(out, change);
    qp_buf_puts(out, ") = (SELECT ");
    ddl_put_extra_names(out, change);
    qp_buf_puts(out, " FROM ");
    qp_sql_name(out, change->entity->table);
    qp_buf_puts(out, " WHERE rowid = ?1) WHERE rowid = ?2");
}

/* Rebuild: the new table takes the old one's place. AUTOINCREMENT numbers stay used, also those of
 * deleted rows. legacy_alter_table keeps the rename from rewriting views, triggers and references
 * of other tables, which name the table that is about to return. Called with references switched
 * off (inspect_check.c): DROP TABLE would otherwise delete the rows that refer to the table. The
 * FTS5 table goes first; its triggers go with the content table. */
static void ddl_write_replace(const qp_ddl *change, qp_buf *out)
{
    const ent_entity *entity = change->entity;

    assert(change->name != NULL);
    if ((entity->fields[entity->key[0]].flags & ENT_F_AUTO) != 0) {
        qp_buf_puts(out, "INSERT INTO sqlite_sequence (name, seq) SELECT ");
        qp_sql_text(out, change->name);
        qp_buf_puts(out, ", 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ");
        qp_sql_text(out, change->name);
        qp_buf_puts(out,
                    ");\nUPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT max(s.seq) "
                    "FROM sqlite_sequence AS s WHERE s.name = ");
        qp_sql_text(out, entity->table);
        qp_buf_puts(out, " COLLATE NOCASE), 0)) WHERE name = ");
        qp_sql_text(out, change->name);
        qp_buf_puts(out, ";\n");
    }
    if (ddl_has_search(entity)) {
        qp_buf_puts(out, "DROP TABLE IF EXISTS ");
        qp_sqlite_put_suffixed(out, entity->table, QP_SQLITE_SEARCH_SUFFIX);
        qp_buf_puts(out, ";\n");
    }
    qp_buf_puts(out, "DROP TABLE ");
    qp_sql_name(out, entity->table);
    qp_buf_puts(out, ";\nPRAGMA legacy_alter_table = ON;\nALTER TABLE ");
    qp_sql_name(out, change->name);
    qp_buf_puts(out, " RENAME TO ");
    qp_sql_name(out, entity->table);
    qp_buf_puts(out, ";\nPRAGMA legacy_alter_table = OFF");
}

/* Creates an index over rows that exist: 'rebuild' reads them, unless the program indexes by
 * itself. */
static void ddl_write_search(const qp_ddl *change, qp_buf *out)
{
    assert(change->entity != NULL);
    (void)qp_sqlite_ddl_search(change->entity, out);
    if ((change->entity->flags & ENT_E_SEARCH_MANUAL) == 0) {
        qp_buf_puts(out, ";\nINSERT INTO ");
        qp_sqlite_put_suffixed(out, change->entity->table, QP_SQLITE_SEARCH_SUFFIX);
        qp_buf_puts(out, " (");
        qp_sqlite_put_suffixed(out, change->entity->table, QP_SQLITE_SEARCH_SUFFIX);
        qp_buf_puts(out, ") VALUES ('rebuild')");
    }
}

/* The member of qp_migrator: one change as text. Several statements are separated by ";\n", the
 * last has none. References stand with their columns, so that QP_DDL_REFERENCE never occurs. */
void qp_sqlite_write_ddl(const qp_ddl *change, qp_buf *out)
{
    assert(change != NULL && out != NULL);
    switch ((qp_ddl_kind)change->kind) {
    case QP_DDL_TABLE:
        ddl_put_table(out, change->entity,
                      change->name != NULL ? change->name : change->entity->table, change->extra,
                      change->extra_count);
        return;
    case QP_DDL_COLUMN:
        ddl_write_column(change, out);
        return;
    case QP_DDL_RENAME:
        qp_buf_puts(out, "ALTER TABLE ");
        qp_sql_name(out, change->entity->table);
        qp_buf_puts(out, " RENAME COLUMN ");
        qp_sql_name(out, change->name);
        qp_buf_puts(out, " TO ");
        qp_sql_name(out, change->field->column);
        return;
    case QP_DDL_INDEX:
        (void)qp_sqlite_ddl_index(change->entity, change->index, quipu_cstr(change->name), out);
        return;
    case QP_DDL_SEARCH:
        ddl_write_search(change, out);
        return;
    case QP_DDL_CARRY:
        ddl_write_carry(change, out);
        return;
    case QP_DDL_REPLACE:
        ddl_write_replace(change, out);
        return;
    case QP_DDL_DROP_INDEX:
        qp_buf_puts(out, "DROP INDEX IF EXISTS ");
        qp_sql_name(out, change->name);
        return;
    case QP_DDL_REFERENCE:
        break; /* never asked for: late_references is false */
    }
    assert(false);
}

/* ---- what a file has ---------------------------------------------------------------------------
 */

/* Whether the text contains a word, in any case. `upper` has letters only, for which setting bit
 * 0x20 folds the case and makes no other character equal. */
static bool ddl_contains(const char *text, const char *upper)
{
    assert(text != NULL && upper != NULL);
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (upper[i] != '\0' && (text[i] | 0x20) == (upper[i] | 0x20)) {
            i++;
        }
        if (upper[i] == '\0') {
            return true;
        }
    }
    return false;
}

/* SQLite's rule for the affinity of a declared type, in its order: i(nteger), t(ext), b(lob),
 * r(eal) or n(umeric). "datetime", "uuid", "bool" and "json" fall through to numeric. */
static char ddl_affinity(const char *declared)
{
    if (declared == NULL || declared[0] == '\0') {
        return 'b';
    }
    if (ddl_contains(declared, "INT")) {
        return 'i';
    }
    if (ddl_contains(declared, "CHAR") || ddl_contains(declared, "CLOB") ||
        ddl_contains(declared, "TEXT")) {
        return 't';
    }
    if (ddl_contains(declared, "BLOB")) {
        return 'b';
    }
    if (ddl_contains(declared, "REAL") || ddl_contains(declared, "FLOA") ||
        ddl_contains(declared, "DOUB")) {
        return 'r';
    }
    return 'n';
}

/* Whether a column of this declared type stores every value of the field unchanged. Decides for
 * files that an older version or another program made. A column that does not fit needs a named
 * step, so that a wrong yes would lose digits and a wrong no would refuse a good file. */
bool qp_sqlite_column_fits(const ent_field *field, const qp_column *column)
{
    static const char *const fitting[] = {
        [ENT_INT] = "in",   [ENT_FLOAT] = "rn", [ENT_BOOL] = "in",
        [ENT_TEXT] = "tb",  /* a numeric column would turn '007' into 7 */
        [ENT_BYTES] = "bn", /* bytes are never converted; a text column holds texts */
        [ENT_TIME] = "tbn", /* a time's text never looks like a number */
        [ENT_UUID] = "tbn", [ENT_ENUM] = "tb",  [ENT_JSON] = "tb",
    };

    assert(field != NULL && column != NULL);
    if (column->generated) {
        return false;
    }
    if ((field->flags & ENT_F_AUTO) != 0) {
        return column->auto_key;
    }
    if (field->type == ENT_JSON && column->declared != NULL &&
        qp_name_eq(column->declared, "json")) {
        return true; /* what others declare; objects, arrays and strings are safe in it */
    }
    if (field->type < ENT_INT || field->type > ENT_JSON) {
        return false;
    }
    return strchr(fitting[field->type], ddl_affinity(column->declared)) != NULL;
}

/* Whether the file has the index that the schema wants: the table with its columns and tokenizer,
 * and the three triggers, or none of them for a manual one. With another tokenizer other words are
 * found; triggers beside a manual index would index rows twice. A missing index, or one that lacks
 * triggers, is made by QP_DDL_SEARCH; one that differs is a problem that only a named step can
 * solve (diff.c). */
qp_search_state qp_sqlite_search_state(const ent_entity *entity, const qp_file_shape *shape)
{
    static const char *const triggers[] = {"_search_insert", "_search_delete", "_search_update"};
    const qp_table_shape *content = qp_shape_table(shape, entity->table);
    const qp_table_shape *table = NULL;
    size_t found = 0;
    char name[DDL_NAME_SIZE]; /* no memory is needed, so that none can be lacking */

    assert(shape != NULL);
    if (!ddl_has_search(entity)) {
        return QP_SEARCH_OK;
    }
    (void)snprintf(name, sizeof(name), "%s" QP_SQLITE_SEARCH_SUFFIX, entity->table);
    table = qp_shape_table(shape, name);
    for (size_t i = 0; content != NULL && i < content->trigger_count; i++) {
        for (size_t j = 0; j < 3; j++) {
            (void)snprintf(name, sizeof(name), "%s%s", entity->table, triggers[j]);
            found += qp_name_eq(content->triggers[i].name, name) ? 1 : 0;
        }
    }
    if (table == NULL) {
        return QP_SEARCH_MISSING;
    }
    for (size_t i = 0; i < entity->search_count; i++) {
        if (!table->is_virtual ||
            qp_shape_column(table, entity->fields[entity->search_fields[i]].column) == NULL) {
            return QP_SEARCH_DIFFERS;
        }
    }
    if (((entity->flags & ENT_E_SEARCH_CJK) != 0) != (strstr(table->sql, DDL_TOKENIZE) != NULL)) {
        return QP_SEARCH_DIFFERS;
    }
    if ((entity->flags & ENT_E_SEARCH_MANUAL) != 0) {
        return found > 0 ? QP_SEARCH_DIFFERS : QP_SEARCH_OK;
    }
    return found < 3 ? QP_SEARCH_MISSING : QP_SEARCH_OK;
}
