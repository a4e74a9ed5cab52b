/* DDL text from entity descriptors. Only tables, keys, btree indexes and foreign keys, which other
 * servers of this protocol have as well; what is PostgreSQL's own is in search.c and
 * row_security.c.
 *
 * Owns: the mapping of field types to column types. Text is COLLATE "C": compared byte by byte, as
 * in SQLite. A time is text of fixed width, which keeps the nanosecond and sorts; JSON is the text
 * that was given (jsonb would reorder members).
 * Called by: src/ent/migrate_run.c through qp_migrator, inside of the migration's transaction. */
#include "ent_postgres/ddl.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "ent/diff.h"
#include "ent/plan.h"
#include "ent/shard.h"
#include "ent_postgres/search.h"

/* The column type of a field. */
static const char *ddl_type(const ent_field *field)
{
    assert(field != NULL);
    /* Without a default, so that the compiler finds a type that is missing here. */
    switch ((ent_type)field->type) {
    case ENT_INT:
        return "bigint";
    case ENT_FLOAT:
        return "double precision";
    case ENT_BOOL:
        return "boolean";
    case ENT_BYTES:
        return "bytea";
    case ENT_UUID:
        return "uuid";
    case ENT_TEXT:
    case ENT_TIME:
    case ENT_ENUM:
    case ENT_JSON:
        break;
    }
    return "text";
}

/* A field's default as a literal. A float that is not finite has none. */
static void ddl_put_literal(qp_buf *out, const ent_field *field)
{
    /* Room for any finite double in its shortest form. */
    char text[QP_DOUBLE_TEXT_SIZE];

    assert((field->flags & ENT_F_DEFAULT) != 0);
    switch ((ent_type)field->type) {
    case ENT_INT:
        qp_buf_i64(out, field->default_int);
        return;
    case ENT_BOOL:
        qp_buf_puts(out, field->default_int != 0 ? "true" : "false");
        return;
    case ENT_FLOAT:
        /* NaN and infinities: a schema cannot state them. */
        if (!qp_double_text(field->default_float, text)) {
            qp_buf_fail(out, QUIPU_INVALID);
            return;
        }
        qp_buf_puts(out, text);
        return;
    default:
        qp_sql_text(out, field->default_text != NULL ? field->default_text : "");
        return;
    }
}

/* The value of a column that an older schema lacks: the field's default, or NULL, with its type.
 */
void qp_pg_put_absent(const ent_field *field, qp_buf *out)
{
    const char *type = ddl_type(field);

    assert(field != NULL && out != NULL);
    /* The cast gives NULL a type, and the literal the column's. */
    qp_buf_puts(out, "CAST(");
    if ((field->flags & ENT_F_DEFAULT) != 0) {
        ddl_put_literal(out, field);
    } else {
        qp_buf_puts(out, "NULL");
    }
    qp_buf_printf(out, " AS %s)", type);
    qp_buf_puts(out, strcmp(type, "text") == 0 ? " COLLATE \"C\"" : "");
}

/* `name type [NOT NULL] [DEFAULT x]`. With `now` (ALTER TABLE) a field that src/ent fills at run
 * time gets a DEFAULT, too: for the rows that exist, and for older programs that do not know the
 * field. */
static void ddl_put_column(qp_buf *out, const ent_field *field, const quipu_time *now)
{
    const char *type = ddl_type(field);
    /* Digits and signs of a fixed length: it needs no quoting. */
    char text[QUIPU_TIME_TEXT_SIZE];

    assert(field->column != NULL);
    qp_sql_name(out, field->column);
    qp_buf_printf(out, " %s", type);
    qp_buf_puts(out, strcmp(type, "text") == 0 ? " COLLATE \"C\"" : "");
    qp_buf_puts(out, (field->flags & ENT_F_NULLABLE) == 0 ? " NOT NULL" : "");
    /* A constant serves old rows and old programs alike. */
    if ((field->flags & ENT_F_DEFAULT) != 0) {
        qp_buf_puts(out, " DEFAULT ");
        ddl_put_literal(out, field);
    } else if (now != NULL && (field->flags & ENT_F_RANDOM) != 0) {
        /* The function is volatile: each row that exists gets a value of its own. */
        qp_buf_puts(out, " DEFAULT gen_random_uuid()");
    } else if (now != NULL && (field->flags & ENT_F_NOW) != 0) {
        /* The time of the migration, the same for all rows that exist. */
        if (quipu_time_format(*now, text) != QUIPU_OK) {
            qp_buf_fail(out, QUIPU_INVALID);
            return;
        }
        qp_buf_printf(out, " DEFAULT '%s'", text);
    }
}

/* `before (column, column, ...)`. */
static void ddl_put_list(qp_buf *out, const char *before, const char *const *columns, size_t n)
{
    assert(n >= 1);
    qp_buf_puts(out, before);
    for (size_t i = 0; i < n; i++) {
        qp_buf_puts(out, i > 0 ? ", " : "(");
        qp_sql_name(out, columns[i]);
    }
    qp_buf_putc(out, ')');
}

/* The engine's own columns: the shard (named "part" on disk), the owner's natural key where rows
 * are kept with their owner, and the shard of each foreign key that leads to another shard. */
static void ddl_put_shards(qp_buf *out, const ent_entity *entity)
{
    const ent_entity *owner = qp_shard_owner(entity);

    assert(entity != NULL);
    /* The shard leads every key, and so it is in every table that has one. */
    if (entity->shard != NULL) {
        qp_buf_puts(out, ", \"" QP_SHARD_COLUMN "\" bigint NOT NULL");
    }
    if (owner != NULL) {
        /* Fields count from 1 in ent_shard; 0 means no field. */
        const ent_field *key = &owner->fields[owner->shard->key - 1];

        qp_buf_puts(out, ", ");
        qp_sql_name(out, key->column);
        qp_buf_printf(out, " %s NOT NULL", ddl_type(key));
    }
    for (size_t i = 0; i < entity->field_count; i++) {
        if (qp_shard_beside(entity, &entity->fields[i])) {
            qp_buf_puts(out, ", ");
            qp_shard_put_beside(out, &entity->fields[i]);
            qp_buf_puts(out, " bigint");
        }
    }
}

/* A primary key that begins with the shard cannot serve a lookup or a scan by number alone. This
 * index can; it is not unique, because uniqueness across shards is nothing a distributed server can
 * check. */
static void ddl_put_order(qp_buf *out, const ent_entity *entity)
{
    const char *column = entity->fields[entity->key[0]].column;

    assert(entity->key_count >= 1);
    /* Composite keys are looked up as a whole. */
    if (entity->shard == NULL || entity->key_count != 1) {
        return;
    }
    qp_buf_puts(out, ";\nCREATE INDEX \"");
    qp_buf_puts(out, entity->table);
    qp_buf_putc(out, '_');
    qp_buf_puts(out, column);
    qp_buf_puts(out, "_order\" ON ");
    qp_sql_name(out, entity->table);
    ddl_put_list(out, " ", &column, 1);
}

/* CREATE TABLE, its keys, its order index and, for allocated keys, its row in QP_PG_TABLE. A table
 * under another name is a rebuild, which only files need. */
static void ddl_put_table(const qp_ddl *change, qp_buf *out)
{
    const char *columns[QP_SHARD_KEY_MAX];
    const ent_entity *entity = change->entity;

    assert(entity != NULL);
    if (change->name != NULL || change->extra_count > 0) {
        qp_buf_fail(out, QUIPU_UNSUPPORTED);
        return;
    }
    qp_buf_puts(out, "CREATE TABLE ");
    qp_sql_name(out, entity->table);
    for (size_t i = 0; i < entity->field_count; i++) {
        qp_buf_puts(out, i > 0 ? ", " : " (");
        ddl_put_column(out, &entity->fields[i], NULL);
    }
    ddl_put_shards(out, entity);
    ddl_put_list(out, ", PRIMARY KEY ", columns, qp_shard_primary(entity, columns));
    /* A distributed server checks uniqueness only with the shard; equal natural keys have equal
     * shards. */
    if (entity->shard != NULL && entity->shard->key != 0) {
        ddl_put_list(out, ", UNIQUE ", columns, qp_shard_columns(entity, -1, columns));
    }
    qp_buf_putc(out, ')');
    ddl_put_order(out, entity);
    /* Its counter begins at 0; an older one of the same table is kept. */
    if ((entity->fields[0].flags & ENT_F_AUTO) != 0) {
        qp_buf_puts(out, ";\nINSERT INTO \"" QP_PG_TABLE "\" (\"name\", \"last\") VALUES "
                         "('" QP_PG_NUMBER "' || ");
        qp_sql_text(out, entity->table);
        qp_buf_puts(out, ", 0) ON CONFLICT (\"name\") DO NOTHING");
    }
}

/* NULLs sort first in ascending order, as in SQLite and as src/ent's queries ask for. A unique
 * index begins with the shard. */
static void ddl_put_index(const qp_ddl *change, qp_buf *out)
{
    const ent_index *index = change->index;
    const char *columns[QP_SHARD_KEY_MAX];
    bool led;

    assert(index != NULL);
    qp_buf_puts(out, index->unique ? "CREATE UNIQUE INDEX " : "CREATE INDEX ");
    qp_sql_name(out, change->name != NULL ? change->name : index->name);
    qp_buf_puts(out, " ON ");
    qp_sql_name(out, change->entity->table);
    /* The shard leads, as a distributed server demands. */
    led = index->unique && change->entity->shard != NULL;
    (void)qp_shard_columns(change->entity, (int)(index - change->entity->indexes), columns);
    qp_buf_puts(out, led ? " (\"" QP_SHARD_COLUMN "\"" : "");
    for (size_t i = 0; i < index->count; i++) {
        const ent_field *field = &change->entity->fields[index->fields[i]];
        bool desc = (index->desc & (1u << i)) != 0;

        qp_buf_puts(out, i > 0 || led ? ", " : " (");
        qp_sql_name(out, led ? columns[i + 1] : field->column);
        qp_buf_puts(out, desc ? " DESC" : "");
        /* PostgreSQL's own order is the reverse of SQLite's. */
        if ((field->flags & ENT_F_NULLABLE) != 0) {
            qp_buf_puts(out, desc ? " NULLS LAST" : " NULLS FIRST");
        }
    }
    qp_buf_putc(out, ')');
}

/* ADD FOREIGN KEY, with the shard leading on both sides where the referenced table has one. */
static void ddl_put_reference(const qp_ddl *change, qp_buf *out)
{
    /* By ent_on_delete, which begins with 1. */
    static const char *const rules[] = {"", "CASCADE", "RESTRICT", "SET NULL"};
    const ent_edge *edge = qp_entity_reference(change->entity, change->field);
    const ent_entity *owner = qp_shard_owner(change->entity);
    const bool beside = qp_shard_beside(change->entity, change->field);
    const char *columns[QP_SHARD_KEY_MAX];
    const char *column = change->field->column;
    size_t n;

    assert(change->field != NULL);
    assert(edge != NULL && edge->to->key_count == 1);
    n = qp_shard_columns(edge->to, -1, columns);
    /* Rows that are kept with their owner refer to its primary key: shard and natural key. */
    if (owner != NULL && !beside) {
        n = qp_shard_primary(owner, columns);
        column = columns[n - 1];
    }
    qp_buf_puts(out, "ALTER TABLE ");
    qp_sql_name(out, change->entity->table);
    qp_buf_puts(out, " ADD FOREIGN KEY (");
    /* The other row lies in another shard: its shard stands beside the number. */
    if (beside) {
        qp_shard_put_beside(out, change->field);
        qp_buf_puts(out, ", ");
    } else if (edge->to->shard != NULL) {
        qp_buf_puts(out, "\"" QP_SHARD_COLUMN "\", ");
    }
    qp_sql_name(out, column);
    qp_buf_puts(out, ") REFERENCES ");
    qp_sql_name(out, edge->to->table);
    ddl_put_list(out, " ", columns, n);
    qp_buf_printf(out, " ON DELETE %s", rules[edge->on_delete]);
}

/* One change as text. Rebuild steps (CARRY, REPLACE) adopt files that other programs wrote, and
 * have no counterpart here. */
void qp_pg_write_ddl(const qp_ddl *change, qp_buf *out)
{
    assert(change != NULL && out != NULL);
    switch ((qp_ddl_kind)change->kind) {
    case QP_DDL_TABLE:
        ddl_put_table(change, out);
        return;
    case QP_DDL_COLUMN:
        qp_buf_puts(out, "ALTER TABLE ");
        qp_sql_name(out, change->entity->table);
        qp_buf_puts(out, " ADD COLUMN ");
        ddl_put_column(out, change->field, &change->now);
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
        ddl_put_index(change, out);
        return;
    case QP_DDL_REFERENCE:
        ddl_put_reference(change, out);
        return;
    case QP_DDL_DROP_INDEX:
        qp_buf_puts(out, "DROP INDEX IF EXISTS ");
        qp_sql_name(out, change->name);
        return;
    case QP_DDL_SEARCH:
        qp_pg_put_search(out, change->entity);
        return;
    case QP_DDL_CARRY:
    case QP_DDL_REPLACE:
        break;
    }
    qp_buf_fail(out, QUIPU_UNSUPPORTED);
}

/* A column fits when format_type() gives the very type that we would create. */
bool qp_pg_column_fits(const ent_field *field, const qp_column *column)
{
    assert(field != NULL && column != NULL);
    /* Computed columns cannot be written. */
    if (column->generated || column->declared == NULL) {
        return false;
    }
    /* Exact: varchar(10) would hold some values and not others. */
    return strcmp(column->declared, ddl_type(field)) == 0;
}
