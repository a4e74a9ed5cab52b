/* From a shape to SQL text; runs only when a statement is not in the cache. Parameters are numbered
 * in the order in which the walk added the values. The only texts here are names of the schema:
 * values are always bound.
 *
 * Owns: the portable SQL that all engines share; what differs the engine writes (put_in,
 * row_lock...). Called by: cache.c on a miss. The shape is trusted: where.c, order.c and create.c
 * wrote it, so that what cannot be in it is asserted.
 *
 *   select = SELECT {WITHOUT field} level [ORDER {column direction} END] [AFTER {is_null}] [LIMIT]
 *            [OFFSET] [LOCK] [CHUNKED]
 *   level  = {ID_IS | ID_BETWEEN | SHARD | OWNER | field operator | MATCH | group}
 *   group  = (ANY | ALL | NONE) {level NEXT} CLOSE
 *   get    = GET index shard_is_known
 *   insert = INSERT key_is_allocated owner_is_known
 *   upsert = UPSERT key_is_allocated owner_is_known index {qp_upsert_field}        one a field
 *   update = UPDATE {field operator} END level
 *   hits   = HITS [ID_IS | ID_BETWEEN] BELOW level [CHUNKED]
 */
#include "ent/plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ent/older.h"
#include "ent/search_engine.h"
#include "ent/shard.h"

/* One translation: a cursor over the shape, and the text so far. */
typedef struct sql_writer {
    const qp_engine *engine;
    const ent_entity *entity;
    const unsigned char *at; /* in the shape */
    const unsigned char *end;
    qp_buf *sql;
    const char *from; /* stands for the table in reads, or NULL */
    unsigned number;  /* of the last parameter */
    bool searches;    /* the statement reads the full-text index */
    bool packs;
    bool shards; /* the engine has them; the entity need not */
} sql_writer;

/* One order term, read back. */
typedef struct sql_term {
    const char *column;
    bool nullable;
    bool descends;
    bool null;       /* the row to continue after has no value here */
    unsigned number; /* parameter of its value */
} sql_term;

#define SQL_TERMS_MAX (ENT_ORDER_MAX + ENT_KEY_MAX)

/* The end of the shape reads as QP_MARK_END. */
static unsigned sql_peek(const sql_writer *w)
{
    assert(w->at <= w->end);
    return w->at < w->end ? *w->at : QP_MARK_END;
}

/* The next byte, consumed; at the end QP_MARK_END, as often as it is asked. */
static unsigned sql_take(sql_writer *w)
{
    unsigned mark = sql_peek(w);

    w->at += w->at < w->end ? 1 : 0;
    return mark;
}

/* Errors stay in the buffer. */
static void sql_puts(sql_writer *w, const char *text)
{
    qp_buf_puts(w->sql, text);
}

/* "?1" or "$1". */
static void sql_number(sql_writer *w, unsigned number)
{
    assert(number >= 1);
    sql_puts(w, w->engine->parameter);
    qp_buf_u64(w->sql, number);
}

/* The next value in the order of the walk. */
static void sql_next_number(sql_writer *w)
{
    sql_number(w, ++w->number);
}

/* A field's column, or the packed key. */
static const char *sql_column(const sql_writer *w, unsigned field)
{
    assert(field == QP_MARK_ID || field < w->entity->field_count);
    return field == QP_MARK_ID ? QP_CLUSTER_COLUMN : w->entity->fields[field].column;
}

/* `column operator next-parameter`. */
static void sql_compare(sql_writer *w, const char *column, const char *operator)
{
    qp_sql_name(w->sql, column);
    sql_puts(w, operator);
    sql_next_number(w);
}

/* ---- shards ---- */

/* The owner, in an engine with shards. */
static const ent_entity *sql_owner(const sql_writer *w)
{
    return w->shards ? qp_shard_owner(w->entity) : NULL;
}

/* A parameter as text. */
typedef struct sql_parameter {
    char text[16];
} sql_parameter;

/* A parameter's text, for writers that take SQL. */
static sql_parameter sql_parameter_of(const sql_writer *w, unsigned number)
{
    sql_parameter parameter;

    assert(number >= 1);
    (void)snprintf(parameter.text, sizeof(parameter.text), "%s%u", w->engine->parameter, number);
    return parameter;
}

/* The shard and the owner's number are the next two values; the first is used twice:
 *
 *   "part"=$1 AND "uid"=(SELECT "uid" FROM "sessions" WHERE "part"=$1 AND "id"=$2) */
static void sql_owner_is(sql_writer *w)
{
    assert(w->shards);
    w->number += 2;
    qp_shard_put_owned(w->sql, w->entity, sql_parameter_of(w, w->number - 1).text,
                       sql_parameter_of(w, w->number).text);
}

/* The shard of a reference, computed from its number; the cast is for a NULL, which has no type:
 *
 *   CAST($32 AS bigint) & 4095 */
static void sql_part_of(sql_writer *w, unsigned number)
{
    assert(w->shards);
    sql_puts(w, "CAST(");
    sql_number(w, number);
    sql_puts(w, " AS bigint) & ");
    qp_buf_u64(w->sql, ENT_SHARD_MAX);
}

/* ---- conditions ---- */

/* NULL NOT IN () is true in SQL, where every other comparison with NULL is unknown: made equal
 * here, by a comparison of the column with itself.
 *
 *   ("branch" NOT IN (SELECT value FROM ent_list(?1)) AND "branch"="branch")       SQLite
 *   ("branch" <> ALL($1) AND "branch"="branch")                                    PostgreSQL */
static void sql_in(sql_writer *w, const ent_field *field, bool negated)
{
    bool guard = negated && (field->flags & ENT_F_NULLABLE) != 0;

    sql_puts(w, guard ? "(" : "");
    w->engine->put_in(w->sql, field->column, ++w->number, negated);
    if (guard) {
        sql_puts(w, " AND ");
        qp_sql_name(w->sql, field->column);
        sql_puts(w, "=");
        qp_sql_name(w->sql, field->column);
        sql_puts(w, ")");
    }
}

/* One condition with its one, two or no values. A contained text is searched for with a function of
 * the engine and not with LIKE: LIKE has wildcards, and ignores case in SQLite. */
static void sql_condition(sql_writer *w, const ent_field *field, unsigned op)
{
    static const char *const operators[] = {
        [ENT_OP_EQ] = "=",  [ENT_OP_NE] = "<>", [ENT_OP_GT] = ">",
        [ENT_OP_GE] = ">=", [ENT_OP_LT] = "<",  [ENT_OP_LE] = "<="};

    assert(op != ENT_OP_NONE && op < ENT_OP_MATCH);
    switch (op) {
    case ENT_OP_BETWEEN:
        sql_compare(w, field->column, " BETWEEN ");
        sql_puts(w, " AND ");
        sql_next_number(w);
        break;
    case ENT_OP_IN:
    case ENT_OP_NOT_IN:
        sql_in(w, field, op == ENT_OP_NOT_IN);
        break;
    case ENT_OP_CONTAINS:
        sql_puts(w, w->engine->position);
        sql_puts(w, "(");
        sql_compare(w, field->column, ",");
        sql_puts(w, ")>0");
        break;
    case ENT_OP_PREFIX:
        sql_compare(w, field->column, ">=");
        sql_puts(w, " AND ");
        sql_compare(w, field->column, "<");
        break;
    case ENT_OP_IS_NULL:
    case ENT_OP_NOT_NULL:
        qp_sql_name(w->sql, field->column);
        sql_puts(w, op == ENT_OP_IS_NULL ? " IS NULL" : " IS NOT NULL");
        break;
    default:
        assert(op >= ENT_OP_EQ && op <= ENT_OP_LE);
        sql_compare(w, field->column, operators[op]);
        break;
    }
}

static bool sql_level(sql_writer *w, const char *before);

/* The members of a group until it closes: NOT (("tokens"=?1) OR ("author"=?2 AND ...)). */
static void sql_group(sql_writer *w, unsigned mark)
{
    const char *between = "";

    assert(mark == QP_MARK_ANY || mark == QP_MARK_ALL || mark == QP_MARK_NONE);
    sql_puts(w, mark == QP_MARK_NONE ? "NOT (" : "(");
    while (sql_peek(w) != QP_MARK_CLOSE) {
        sql_puts(w, between);
        sql_puts(w, "(");
        (void)sql_level(w, "");
        sql_puts(w, ")");
        assert(sql_peek(w) == QP_MARK_NEXT);
        (void)sql_take(w);
        between = mark == QP_MARK_ALL ? " AND " : " OR ";
    }
    (void)sql_take(w);
    sql_puts(w, ")");
}

/* One level of conditions, joined by AND, with `before` in front of the first; returns whether
 * there was any. Ends in front of the first mark that is not a condition, which the caller
 * consumes. */
static bool sql_level(sql_writer *w, const char *before)
{
    bool any = false;

    for (;;) {
        unsigned mark = sql_peek(w);
        bool is_field = mark < ENT_FIELDS_MAX;

        if (!is_field && (mark < QP_MARK_ANY || mark > QP_MARK_OWNER || mark == QP_MARK_NEXT ||
                          mark == QP_MARK_CLOSE)) {
            return any;
        }
        (void)sql_take(w);
        sql_puts(w, any ? " AND " : before);
        any = true;
        if (is_field) {
            sql_condition(w, &w->entity->fields[mark], sql_take(w));
        } else if (mark == QP_MARK_MATCH) {
            w->searches = true;
            w->engine->put_match(
                w->sql, w->packs ? QP_CLUSTER_COLUMN : w->entity->fields[w->entity->key[0]].column,
                w->entity->table, ++w->number);
        } else if (mark == QP_MARK_ID_IS) {
            sql_compare(w, QP_CLUSTER_COLUMN, "=");
        } else if (mark == QP_MARK_ID_BETWEEN) {
            sql_compare(w, QP_CLUSTER_COLUMN, " BETWEEN ");
            sql_puts(w, " AND ");
            sql_next_number(w);
        } else if (mark == QP_MARK_SHARD) {
            sql_compare(w, QP_SHARD_COLUMN, "=");
        } else if (mark == QP_MARK_OWNER) {
            sql_owner_is(w);
        } else {
            sql_group(w, mark);
        }
    }
}

/* Writes nothing when there is no condition. */
static void sql_where(sql_writer *w)
{
    (void)sql_level(w, " WHERE ");
}

/* ---- order and keyset ---- */

/* Reads the order terms back from the shape. */
static size_t sql_terms(sql_writer *w, sql_term *terms)
{
    size_t n = 0;

    if (sql_peek(w) != QP_MARK_ORDER) {
        return 0;
    }
    (void)sql_take(w);
    while (sql_peek(w) != QP_MARK_END) {
        unsigned field = sql_take(w);

        assert(n < SQL_TERMS_MAX);
        terms[n].column = sql_column(w, field);
        terms[n].nullable =
            field != QP_MARK_ID && (w->entity->fields[field].flags & ENT_F_NULLABLE) != 0;
        terms[n].descends = sql_take(w) == ENT_DESC;
        n++;
    }
    (void)sql_take(w);
    return n;
}

/* A term against the value of the row to continue after; `= NULL` would be unknown for every
 * row. */
static void sql_term_compare(sql_writer *w, const sql_term *term, const char *operator)
{
    qp_sql_name(w->sql, term->column);
    if (term->null) {
        sql_puts(w, " IS NULL");
    } else {
        sql_puts(w, operator);
        sql_number(w, term->number);
    }
}

/* The term's value comes after that of the row. NULL comes first ascending, and last descending:
 *
 *   row's value   ascending         descending
 *   x             "a">x             "a"<x, or ("a"<x OR "a" IS NULL) where "a" can be NULL
 *   NULL          "a" IS NOT NULL   1=0 */
static void sql_term_behind(sql_writer *w, const sql_term *term)
{
    if (term->null) {
        if (term->descends) {
            sql_puts(w, "1=0"); /* nothing comes after NULL */
        } else {
            qp_sql_name(w->sql, term->column);
            sql_puts(w, " IS NOT NULL");
        }
    } else if (term->descends && term->nullable) {
        sql_puts(w, "(");
        sql_term_compare(w, term, "<");
        sql_puts(w, " OR ");
        qp_sql_name(w->sql, term->column);
        sql_puts(w, " IS NULL)");
    } else {
        sql_term_compare(w, term, term->descends ? "<" : ">");
    }
}

/* a > x OR (a = x AND b > y) OR ..., with a bound on the first term in front that an index can use:
 * right for mixed directions and for NULL, where a row comparison is not. Behind (9, "b") in the
 * order tokens DESC, branch:
 *
 *   "tokens"<=?1 AND ("tokens"<?1 OR ("tokens"=?1 AND "branch">?2)
 *     OR ("tokens"=?1 AND "branch"=?2 AND "id">?3)) */
static void sql_after(sql_writer *w, sql_term *terms, size_t n, bool any_where)
{
    assert(n <= SQL_TERMS_MAX);
    if (sql_peek(w) != QP_MARK_AFTER) {
        return;
    }
    (void)sql_take(w);
    for (size_t i = 0; i < n; i++) {
        terms[i].null = sql_take(w) != 0;
        terms[i].number = terms[i].null ? 0 : ++w->number;
    }
    sql_puts(w, any_where ? " AND " : " WHERE ");
    if (n == 0) {
        sql_puts(w, "1=0"); /* the key is given: there is one row at most */
        return;
    }
    if (n > 1 && !terms[0].null && !(terms[0].descends && terms[0].nullable)) {
        sql_term_compare(w, &terms[0], terms[0].descends ? "<=" : ">=");
        sql_puts(w, " AND ");
    }
    sql_puts(w, "(");
    for (size_t i = 0; i < n; i++) {
        sql_puts(w, i == 0 ? "" : " OR (");
        for (size_t j = 0; j < i; j++) {
            sql_term_compare(w, &terms[j], "=");
            sql_puts(w, " AND ");
        }
        sql_term_behind(w, &terms[i]);
        sql_puts(w, i == 0 ? "" : ")");
    }
    sql_puts(w, ")");
}

/* ORDER BY, with NULLS FIRST or LAST spelled out where a column can be NULL: the engines differ in
 * their default. */
static void sql_order(sql_writer *w, const sql_term *terms, size_t n)
{
    assert(n <= SQL_TERMS_MAX);
    for (size_t i = 0; i < n; i++) {
        sql_puts(w, i == 0 ? " ORDER BY " : ",");
        qp_sql_name(w->sql, terms[i].column);
        sql_puts(w, terms[i].descends ? " DESC" : "");
        if (terms[i].nullable) {
            sql_puts(w, terms[i].descends ? " NULLS LAST" : " NULLS FIRST");
        }
    }
}

/* ---- statements ---- */

/* The table, or the subquery that stands for it in an older file (older.h). */
static void sql_from(sql_writer *w)
{
    sql_puts(w, " FROM ");
    if (w->from != NULL) {
        sql_puts(w, w->from);
    } else {
        qp_sql_name(w->sql, w->entity->table);
    }
}

/* The engine's suffix for reads in chunks. */
static void sql_chunked(sql_writer *w)
{
    if (sql_peek(w) == QP_MARK_CHUNKED) {
        (void)sql_take(w);
        sql_puts(w, w->engine->chunked);
    }
}

/* A word of SQL and the number behind it, where the shape has them. */
static void sql_number_behind(sql_writer *w, unsigned mark, const char *word)
{
    if (sql_peek(w) == mark && sql_take(w) == mark) {
        sql_puts(w, word);
        sql_next_number(w);
    }
}

/* Columns, conditions, keyset, order, limit, lock: in the order of the shape. */
static void sql_select(sql_writer *w)
{
    sql_term terms[SQL_TERMS_MAX];
    qp_fields without = {{0, 0}};
    size_t n;
    bool any;

    while (sql_peek(w) == QP_MARK_WITHOUT) {
        (void)sql_take(w);
        const unsigned field = sql_take(w);
        assert(field < w->entity->field_count && field < ENT_FIELDS_MAX);
        QP_FIELDS_ADD(&without, field);
    }
    sql_puts(w, "SELECT ");
    qp_sql_columns(w->sql, w->entity, &without);
    sql_from(w);
    any = sql_level(w, " WHERE ");
    n = sql_terms(w, terms);
    sql_after(w, terms, n, any);
    sql_order(w, terms, n);
    sql_number_behind(w, QP_MARK_LIMIT, " LIMIT ");
    sql_number_behind(w, QP_MARK_OFFSET, " OFFSET ");
    if (sql_peek(w) == QP_MARK_LOCK) {
        (void)sql_take(w);
        sql_puts(w, w->engine->row_lock != NULL ? w->engine->row_lock : "");
    }
    sql_chunked(w);
}

/* Columns of the primary key (index 0) or of index number - 1, as they stand in the table: "id" of
 * a packed cluster, "part" and the owner's "uid" where the engine has shards. */
static size_t sql_key(const sql_writer *w, unsigned index,
                      const char *ret_columns[QP_SHARD_KEY_MAX])
{
    const uint8_t *fields = index == 0 ? w->entity->key : w->entity->indexes[index - 1].fields;
    size_t n = index == 0 ? w->entity->key_count : w->entity->indexes[index - 1].count;

    assert(index <= w->entity->index_count);
    if (index == 0 && w->packs) {
        ret_columns[0] = QP_CLUSTER_COLUMN;
        return 1;
    }
    if (w->shards) {
        return qp_shard_columns(w->entity, (int)index - 1, ret_columns);
    }
    for (size_t i = 0; i < n; i++) {
        ret_columns[i] = w->entity->fields[fields[i]].column;
    }
    return n;
}

/* By key or unique index; the shard leads where it is known. Values: the shard if known, then the
 * key's fields, as find.c binds them.
 *
 *   SQLite       WHERE "id"=?1              WHERE "tenant"=?1 AND "key"=?2
 *   PostgreSQL   WHERE "part"=$1 AND "uid"=(SELECT ... "id"=$2) AND "seq"=$3
 *                WHERE "part"=$1 AND "tenant"=$2 AND "key"=$3
 */
static void sql_get(sql_writer *w)
{
    const char *columns[QP_SHARD_KEY_MAX];
    size_t n = sql_key(w, sql_take(w), columns);
    bool known = sql_take(w) != 0;
    /* A key that does not give the shard is looked for without it. */
    size_t first = w->shards && w->entity->shard != NULL && !known ? 1 : 0;

    sql_puts(w, "SELECT ");
    qp_sql_columns(w->sql, w->entity, NULL);
    sql_from(w);
    sql_puts(w, " WHERE ");
    if (known && sql_owner(w) != NULL) {
        sql_owner_is(w);
        first = 2; /* a cluster's owner comes first in all its keys */
    }
    assert(n > 0 && first <= n);
    for (size_t i = first; i < n; i++) {
        sql_puts(w, i == (known ? 0 : first) ? "" : " AND ");
        sql_compare(w, columns[i], "=");
    }
}

/* The columns that an engine with shards has beside the fields: names, or the values, which are
 * made of those of the fields. The shard itself is the first parameter, the fields follow, then the
 * owner's key where it is known.
 *
 *   messages   ,"uid"                ,$33
 *                                    ,COALESCE((SELECT "uid" ... "id"=$15),'0000...')
 *   sessions   ,"fork_parent_part"   ,CAST($32 AS bigint) & 4095
 */
static void sql_insert_parts(sql_writer *w, bool values, bool owner_known)
{
    const ent_entity *owner = sql_owner(w);
    const unsigned first = w->entity->shard != NULL ? 2 : 1;

    assert(owner == NULL || w->entity->shard->number != 0);
    if (owner != NULL && values && owner_known) {
        sql_puts(w, ",");
        sql_next_number(w);
    } else if (owner != NULL && values) {
        sql_puts(w, ",COALESCE(");
        qp_shard_put_owner(w->sql, w->entity, sql_parameter_of(w, 1).text,
                           sql_parameter_of(w, first + w->entity->shard->number - 1).text);
        /* An owner that is not there is a broken reference, not a missing value. */
        sql_puts(w, ",'00000000-0000-0000-0000-000000000000')");
    } else if (owner != NULL) {
        sql_puts(w, ",");
        qp_sql_name(w->sql, owner->fields[owner->shard->key - 1].column);
    }
    for (size_t i = 0; i < w->entity->field_count && w->shards; i++) {
        if (qp_shard_beside(w->entity, &w->entity->fields[i])) {
            sql_puts(w, ",");
            if (values) {
                sql_part_of(w, first + (unsigned)i);
            } else {
                qp_shard_put_beside(w->sql, &w->entity->fields[i]);
            }
        }
    }
}

/* The head of INSERT and upsert: every column but a key that the engine gives out. An entity of
 * nothing but such a key has no column to name: DEFAULT VALUES. */
static void sql_insert(sql_writer *w)
{
    bool given_out = sql_take(w) != 0;
    const bool owner_known = sql_take(w) != 0;
    const char *front = w->packs                                ? QP_CLUSTER_COLUMN
                        : w->shards && w->entity->shard != NULL ? QP_SHARD_COLUMN
                                                                : NULL;
    size_t n = 0;

    assert(!given_out || front == NULL);
    sql_puts(w, "INSERT INTO ");
    qp_sql_name(w->sql, w->entity->table);
    if (front != NULL) {
        sql_puts(w, " (");
        qp_sql_name(w->sql, front);
        n++;
    }
    for (size_t i = 0; i < w->entity->field_count; i++) {
        if (!given_out || (w->entity->fields[i].flags & ENT_F_AUTO) == 0) {
            sql_puts(w, n == 0 ? " (" : ",");
            qp_sql_name(w->sql, w->entity->fields[i].column);
            n++;
        }
    }
    sql_insert_parts(w, false, owner_known);
    sql_puts(w, n == 0 ? " DEFAULT VALUES" : ") VALUES (");
    for (size_t i = 0; i < n; i++) {
        sql_puts(w, i == 0 ? "" : ",");
        sql_next_number(w);
    }
    sql_insert_parts(w, true, owner_known);
    sql_puts(w, n == 0 ? "" : ")");
}

/* ON CONFLICT with what upsert.c decided for each field: `excluded` is the row that could not be
 * inserted, so that a given value is bound once. A time is bound again, since it is not a value of
 * that row.
 *
 *   INSERT INTO "state" (...) VALUES (...) ON CONFLICT ("tenant",...,"name")
 *     DO UPDATE SET "value"=excluded."value","updated_at"=?9
 */
static void sql_upsert(sql_writer *w)
{
    const char *columns[QP_SHARD_KEY_MAX] = {NULL};
    bool any = false;
    size_t n;

    sql_insert(w);
    n = sql_key(w, sql_take(w), columns);
    sql_puts(w, " ON CONFLICT (");
    for (size_t i = 0; i < n; i++) {
        sql_puts(w, i == 0 ? "" : ",");
        qp_sql_name(w->sql, columns[i]);
    }
    sql_puts(w, ") DO UPDATE SET ");
    for (size_t i = 0; i < w->entity->field_count; i++) {
        unsigned how = sql_take(w);
        if (how != 0) {
            sql_puts(w, any ? "," : "");
            qp_sql_name(w->sql, w->entity->fields[i].column);
            sql_puts(w, "=");
            if (how == QP_UPSERT_NOW) {
                sql_next_number(w);
            } else {
                sql_puts(w, "excluded.");
                qp_sql_name(w->sql, w->entity->fields[i].column);
            }
            if (w->shards && qp_shard_beside(w->entity, &w->entity->fields[i])) {
                sql_puts(w, ",");
                qp_shard_put_beside(w->sql, &w->entity->fields[i]);
                sql_puts(w, "=excluded.");
                qp_shard_put_beside(w->sql, &w->entity->fields[i]);
            }
            any = true;
        }
    }
    if (!any) {
        /* DO NOTHING would return no row: write what is there. */
        assert(n > 0);
        qp_sql_name(w->sql, columns[0]);
        sql_puts(w, "=excluded.");
        qp_sql_name(w->sql, columns[0]);
    }
}

/* RETURNING all columns, as SELECT lists them. */
static void sql_returning(sql_writer *w)
{
    sql_puts(w, " RETURNING ");
    qp_sql_columns(w->sql, w->entity, NULL);
}

/* One assignment a changed field, then the condition. An addition is the engine's, because it must
 * fail outside of the field's range:
 *
 *   UPDATE "sessions" SET "revision"=ent_add("revision",?1,...),"model"=NULL
 *     WHERE "id"=?2 AND "revision"=?3
 */
static void sql_update(sql_writer *w)
{
    bool any = false;

    sql_puts(w, "UPDATE ");
    qp_sql_name(w->sql, w->entity->table);
    sql_puts(w, " SET ");
    while (sql_peek(w) != QP_MARK_END) {
        const ent_field *field = &w->entity->fields[sql_take(w)];
        const bool beside = w->shards && qp_shard_beside(w->entity, field);
        unsigned op = sql_take(w);

        sql_puts(w, any ? "," : "");
        any = true;
        qp_sql_name(w->sql, field->column);
        sql_puts(w, "=");
        if (op == ENT_OP_CLEAR) {
            sql_puts(w, "NULL");
        } else if (op == ENT_OP_ADD) {
            w->engine->put_add(w->sql, field->column, ++w->number,
                               field->rule != NULL ? field->rule->min : INT64_MIN,
                               field->rule != NULL ? field->rule->max : INT64_MAX);
        } else {
            sql_next_number(w);
        }
        if (beside) {
            sql_puts(w, ",");
            qp_shard_put_beside(w->sql, field);
            sql_puts(w, "=");
            if (op == ENT_OP_CLEAR) {
                sql_puts(w, "NULL");
            } else {
                sql_part_of(w, w->number);
            }
        }
    }
    assert(any); /* update.c refuses a patch that changes nothing */
    (void)sql_take(w);
    sql_where(w);
}

/* A column of the key by which full text knows a row. */
static const char *sql_search_key(const sql_writer *w, size_t at)
{
    assert(w->packs || at < w->entity->key_count);
    return w->packs ? QP_CLUSTER_COLUMN : w->entity->fields[w->entity->key[at]].column;
}

/* Writes a column of the key in a condition: a parameter, or the hit's own column. */
static void sql_search_value(sql_writer *w, size_t at, bool of_hit)
{
    if (of_hit) {
        w->engine->searcher->put_key(w->sql, w->entity, at);
    } else {
        sql_number(w, w->number + 1 + (unsigned)at);
    }
}

/* The row is kept by its owner's key, of which a hit knows the number only. The number's SQL is
 * written to a buffer of its own first, because the condition uses it twice. */
static void sql_search_owner(sql_writer *w, bool of_hit)
{
    qp_buf *sql = w->sql;
    qp_buf number;

    assert(w->entity->shard != NULL);
    qp_buf_init(&number, QP_SHAPE_SIZE_MAX);
    w->sql = &number;
    sql_search_value(w, 0, of_hit);
    w->sql = sql;
    if (qp_buf_status(&number) == QUIPU_OK) {
        sql_puts(w, " AND ");
        const char *shard = of_hit ? w->engine->searcher->hit_shard : NULL;
        qp_shard_put_owned(sql, w->entity, shard, qp_buf_str(&number).p);
    }
    qp_buf_fail(sql, qp_buf_status(&number));
    qp_buf_free(&number);
}

/* The row of a hit: inside of the statement that finds the hits (`of_hit`), or of one that is given
 * the key.
 *
 *   WHERE "id"="messages_search".rowid            WHERE "id"=?1
 */
static void sql_search_row(sql_writer *w, bool of_hit)
{
    const size_t n = qp_search_keys(w->engine, w->entity);

    assert(n > 0); /* else the statement would read every row */
    for (size_t i = 0; i < n; i++) {
        sql_puts(w, i > 0 ? " AND " : " WHERE ");
        qp_sql_name(w->sql, sql_search_key(w, i));
        sql_puts(w, "=");
        sql_search_value(w, i, of_hit);
    }
    if (sql_owner(w) != NULL) {
        sql_search_owner(w, of_hit);
    }
    w->number += of_hit ? 0 : (unsigned)n;
}

/* The searched texts of a row. */
static void sql_texts(sql_writer *w)
{
    assert(w->entity->search_count > 0);
    for (size_t i = 0; i < w->entity->search_count; i++) {
        sql_puts(w, i > 0 ? "," : "SELECT ");
        qp_sql_name(w->sql, w->entity->fields[w->entity->search_fields[i]].column);
    }
    sql_from(w);
    sql_search_row(w, false);
}

/* The range of keys that hits are looked for in: a condition on the owner, and the window's bound,
 * rowid<=?4 or (owner,seq)<=($4,$5). */
static void sql_hits_range(sql_writer *w)
{
    const qp_searcher *searcher = w->engine->searcher;
    const size_t n = qp_search_keys(w->engine, w->entity);
    const unsigned mark = sql_peek(w);

    if (mark == QP_MARK_ID_IS || mark == QP_MARK_ID_BETWEEN) {
        (void)sql_take(w);
        sql_puts(w, " AND ");
        searcher->put_key(w->sql, w->entity, 0);
        sql_puts(w, mark == QP_MARK_ID_IS ? "=" : ">=");
        sql_next_number(w);
        qp_shard_put_hit(w->sql, searcher->hit_shard, w->number);
        w->number += mark == QP_MARK_ID_BETWEEN ? 1 : 0; /* the window's bound begins with it */
        if (n > 1) {
            sql_puts(w, " AND ");
            searcher->put_key(w->sql, w->entity, 1);
            sql_puts(w, ">=");
            sql_next_number(w);
        }
    }
    (void)sql_take(w); /* QP_MARK_BELOW */
    for (size_t i = 0; i < n; i++) {
        sql_puts(w, i > 0 ? "," : " AND (");
        searcher->put_key(w->sql, w->entity, i);
    }
    for (size_t i = 0; i < n; i++) {
        sql_puts(w, i > 0 ? "," : ")<=(");
        sql_next_number(w);
    }
    sql_puts(w, ")");
}

/* Conditions on the row of a hit. */
static void sql_hits_rows(sql_writer *w)
{
    if (sql_peek(w) != QP_MARK_CHUNKED && w->at < w->end) {
        sql_puts(w, " AND EXISTS (SELECT 1");
        sql_from(w);
        sql_search_row(w, true);
        (void)sql_level(w, " AND ");
        sql_puts(w, ")");
    }
}

/* The parts before the last of an engine that walks: the same shape and parameters three times. */
static void sql_hits_walk(sql_writer *w)
{
    const qp_searcher *searcher = w->engine->searcher;
    const sql_writer start = *w;

    sql_hits_range(w);
    searcher->put_walk(w->sql, w->entity, QP_SEARCH_SAMPLE_END);
    *w = start;
    sql_hits_range(w);
    searcher->put_walk(w->sql, w->entity, QP_SEARCH_WALK_WORDS);
    sql_hits_rows(w);
    searcher->put_walk(w->sql, w->entity, QP_SEARCH_WALK_END);
    *w = start;
}

/* Hits: the words are parameter 1. A range of the key bounds the search itself; other conditions
 * are on the row, which is looked up. One window of the rest is read, the highest keys.
 *
 *   SELECT rowid,quipu_counts("messages_search")
 *     FROM "messages_search" WHERE "messages_search" MATCH ?1
 *     AND "messages_search".rowid>=?2 AND ("messages_search".rowid)<=(?4)
 *     AND EXISTS (SELECT 1 FROM "messages" WHERE "id"="messages_search".rowid AND "author"=?5)
 *     ORDER BY rowid DESC LIMIT 1024
 * An engine that walks has its own statement (ent_postgres/search.c). */
static void sql_hits(sql_writer *w)
{
    const qp_searcher *searcher = w->engine->searcher;

    w->searches = true;
    searcher->put_hits(w->sql, w->entity);
    w->number = 1;
    if (searcher->put_walk != NULL) {
        sql_hits_walk(w);
    }
    sql_hits_range(w);
    sql_hits_rows(w);
    searcher->put_window(w->sql, w->entity);
    sql_chunked(w);
}

/* The statements of full-text search; gives the number of columns. */
static size_t sql_search(sql_writer *w, unsigned operation)
{
    const qp_searcher *searcher = w->engine->searcher;
    const unsigned mark = sql_peek(w);

    assert(searcher != NULL);
    switch (operation) {
    case QP_OP_INDEX:
    case QP_OP_UNINDEX:
        searcher->put_index(w->sql, w->entity, operation == QP_OP_UNINDEX);
        sql_where(w);
        if (operation == QP_OP_UNINDEX) {
            sql_puts(w, searcher->unindex_end);
            if (searcher->hit_shard != NULL && (mark == QP_MARK_OWNER || mark == QP_MARK_SHARD)) {
                sql_puts(w, " AND \"" QP_SHARD_COLUMN "\"=$1");
            }
            return 0;
        }
        /* A planner with old statistics reads all rows of the owner by another index otherwise. */
        if (searcher->add_row != NULL && mark == QP_MARK_OWNER) {
            sql_puts(w, " ORDER BY ");
            qp_sql_name(w->sql, w->entity->fields[w->entity->key[w->entity->key_count - 1]].column);
        }
        sql_number_behind(w, QP_MARK_LIMIT, " LIMIT ");
        return searcher->add_row == NULL
                   ? 0
                   : qp_search_keys(w->engine, w->entity) + w->entity->search_count;
    case QP_OP_INDEX_CLEAR:
        searcher->put_clear(w->sql, w->entity);
        return 0;
    case QP_OP_HITS:
        sql_hits(w);
        return qp_search_keys(w->engine, w->entity) + 1 +
               (searcher->reads_texts ? w->entity->search_count : 0);
    default:
        assert(operation == QP_OP_TEXTS);
        sql_texts(w);
        return w->entity->search_count;
    }
}

/* The engine's SQL around an UPDATE that must match a row; PostgreSQL divides by the number of
 * changed rows:
 *
 *   WITH changed AS (UPDATE ... RETURNING 1) SELECT 1/COUNT(*) FROM changed
 */
static void sql_update_must_match(sql_writer *w, bool must_match)
{
    assert(!must_match || w->engine->must_match_end != NULL);
    if (must_match) {
        sql_puts(w, w->engine->must_match_begin);
    }
    sql_update(w);
    if (must_match) {
        sql_puts(w, w->engine->must_match_end);
    }
}

/* Errors of the buffer, and a search that an older file cannot do. */
static quipu_status sql_end(const sql_writer *w, const struct qp_older *older, quipu_error *reterr)
{
    const quipu_status status = qp_buf_status(w->sql);

    assert(status != QUIPU_OK || w->at == w->end);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "%s: %s", w->entity->name,
                            status == QUIPU_LIMIT ? "the query is too large; split it"
                                                  : "out of memory while building a query");
    }
    if (w->searches && qp_older_unsearchable(older, w->entity)) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the file is of an older layout, without a full-text index of table "
                            "\"%s\"; open it for writing once, which upgrades it, to search it",
                            w->entity->table);
    }
    return QUIPU_OK;
}

/* By the shape's first byte. All of the shape is consumed. */
quipu_status qp_sql_write(const qp_engine *engine, const struct qp_older *older,
                          const ent_entity *entity, quipu_str shape, qp_buf *sql,
                          size_t *ret_columns, quipu_error *reterr)
{
    sql_writer w = {.engine = engine,
                    .entity = entity,
                    .at = (const unsigned char *)shape.p,
                    .end = (const unsigned char *)shape.p + shape.n,
                    .sql = sql,
                    .from = qp_older_from(older, entity),
                    .packs = engine->packs_clusters && (entity->flags & ENT_E_CLUSTER) != 0,
                    .shards = engine->shards};
    unsigned operation = sql_take(&w);

    assert(shape.n > 0);
    *ret_columns = entity->field_count;
    switch (operation) {
    case QP_OP_SELECT:
        sql_select(&w);
        break;
    case QP_OP_COUNT:
    case QP_OP_EXISTS:
        sql_puts(&w, operation == QP_OP_COUNT ? "SELECT count(*)" : "SELECT 1");
        sql_from(&w);
        sql_where(&w);
        sql_puts(&w, operation == QP_OP_COUNT ? "" : " LIMIT 1");
        *ret_columns = 1;
        break;
    case QP_OP_GET:
        sql_get(&w);
        break;
    case QP_OP_INSERT:
        sql_insert(&w);
        *ret_columns = 0;
        break;
    case QP_OP_UPSERT:
        sql_upsert(&w);
        *ret_columns = 0;
        break;
    case QP_OP_UPSERT_ONE:
        sql_upsert(&w);
        sql_returning(&w);
        break;
    case QP_OP_UPDATE:
    case QP_OP_UPDATE_MUST_MATCH:
        sql_update_must_match(&w, operation == QP_OP_UPDATE_MUST_MATCH &&
                                      engine->must_match_begin != NULL);
        *ret_columns = 0;
        break;
    case QP_OP_UPDATE_ONE:
        sql_update(&w);
        sql_returning(&w);
        break;
    case QP_OP_DELETE:
        sql_puts(&w, "DELETE");
        sql_from(&w);
        sql_where(&w);
        *ret_columns = 0;
        break;
    default:
        *ret_columns = sql_search(&w, operation);
        break;
    }
    return sql_end(&w, older, reterr);
}
