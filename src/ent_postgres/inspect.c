/* Inspection: the tables, columns, indexes and foreign keys of the first schema of the search path,
 * read from pg_catalog into qp_file_shape. The engine's own table is left out.
 *
 * Owns: the catalog queries. The shape and its texts go to the caller's arena.
 * Called by: src/ent/migrate*.c; maintenance.c.
 * Locks: none besides the transaction's snapshot; a migration holds the exclusive write. */
#include "ent_postgres/ddl.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "ent/shard.h"
#include "ent_postgres/open.h"

/* Every query asks for the same tables, so that the lists can be merged by name. */
#define INSPECT_HERE                                                                               \
    "JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "                                    \
    "WHERE n.nspname = current_schema() AND t.relname <> '" QP_PG_TABLE "' "

/* Each list is sorted by table name in the "C" collation, so that the four are merged in one pass.
 */
static const char *const inspect_tables =
    "SELECT t.relname, CAST(t.relkind AS text) FROM pg_catalog.pg_class t " INSPECT_HERE
    "AND t.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY t.relname COLLATE \"C\"";

/* Name, type, default, NOT NULL, generated, position in the primary key (0: none). */
static const char *const inspect_columns =
    "SELECT t.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), "
    "pg_catalog.pg_get_expr(d.adbin, d.adrelid), CAST(a.attnotnull AS text), "
    "CAST(a.attgenerated <> '' AS text), CAST(COALESCE((SELECT k.place FROM pg_catalog.pg_index i "
    "CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place) "
    "WHERE i.indrelid = t.oid AND i.indisprimary AND k.number = a.attnum), 0) AS text) "
    "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class t ON t.oid = a.attrelid "
    "LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = "
    "a.attnum " INSPECT_HERE
    "AND a.attnum > 0 AND NOT a.attisdropped AND t.relkind IN ('r', 'p', 'v', 'm', 'f') "
    "ORDER BY t.relname COLLATE \"C\", a.attnum";

/* One row a column of an index: unique, partial, made by a constraint, column (NULL: an
 * expression), descending. */
static const char *const inspect_indexes =
    "SELECT t.relname, c.relname, CAST(i.indisunique AS text), "
    "CAST(i.indpred IS NOT NULL AS text), "
    "CAST(EXISTS (SELECT 1 FROM pg_catalog.pg_constraint o WHERE o.conrelid = t.oid "
    "AND o.conindid = c.oid AND o.contype IN ('p', 'u')) AS text), a.attname, "
    "CAST((i.indoption[k.place - 1] & 1) = 1 AS text) "
    "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid "
    "JOIN pg_catalog.pg_class t ON t.oid = i.indrelid "
    "CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place) "
    "LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number "
    "AND k.number > 0 " INSPECT_HERE
    "ORDER BY t.relname COLLATE \"C\", c.relname COLLATE \"C\", k.place";

/* Foreign keys of one column, or of a shard column and one more; the column is NULL for others. */
static const char *const inspect_references =
    "SELECT t.relname, a.attname, r.relname, CASE o.confdeltype WHEN 'c' THEN 'CASCADE' "
    "WHEN 'n' THEN 'SET NULL' WHEN 'r' THEN 'RESTRICT' WHEN 'd' THEN 'SET DEFAULT' "
    "ELSE 'NO ACTION' END "
    "FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class t ON t.oid = o.conrelid "
    "JOIN pg_catalog.pg_class r ON r.oid = o.confrelid "
    "LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND o.conkey[3] IS NULL "
    "AND a.attnum = COALESCE(o.conkey[2], o.conkey[1]) AND (o.conkey[2] IS NULL OR EXISTS "
    "(SELECT 1 FROM pg_catalog.pg_attribute p WHERE p.attrelid = t.oid AND p.attnum = o.conkey[1] "
    "AND p.attname IN ('" QP_SHARD_COLUMN "', a.attname || '_" QP_SHARD_COLUMN "'))) " INSPECT_HERE
    "AND o.contype = 'f' ORDER BY t.relname COLLATE \"C\"";

/* Where the shape goes. `failed` is sticky: the callers check it once a table. */
typedef struct inspect_reader {
    quipu_arena *arena; /* of the caller; texts and lists */
    bool failed;        /* out of memory */
} inspect_reader;

/* Booleans come as text here, cast in the query. */
static bool inspect_true(const PGresult *rows, int row, int column)
{
    assert(rows != NULL);
    return strcmp(PQgetvalue(rows, row, column), "true") == 0;
}

/* A small number as text; 100 and more stay below 1000, which no position reaches. */
static int inspect_small(const PGresult *rows, int row, int column)
{
    int value = 0;

    assert(rows != NULL);
    /* At most three digits: 100 already ends the loop. */
    for (const char *c = PQgetvalue(rows, row, column); *c >= '0' && *c <= '9' && value < 100;
         c++) {
        value = value * 10 + (*c - '0');
    }
    return value;
}

/* Zeroed memory for `count` items; never of size 0. */
static void *inspect_take(inspect_reader *reader, size_t count, size_t size)
{
    /* One byte more, since the arena gives no memory of size 0. */
    void *p = quipu_arena_alloc(reader->arena, count * size + 1);

    assert(size > 0);
    if (p == NULL) {
        reader->failed = true;
    } else {
        memset(p, 0, count * size + 1);
    }
    return p;
}

/* A copy in the arena; NULL stays NULL. */
static const char *inspect_text(inspect_reader *reader, const PGresult *rows, int row, int column)
{
    quipu_str copy = {"", 0};

    assert(reader->arena != NULL);
    if (PQgetisnull(rows, row, column) != 0) {
        return NULL;
    }
    /* Copied: the result is cleared before the shape is used. */
    if (quipu_arena_copy(reader->arena, quipu_cstr(PQgetvalue(rows, row, column)), &copy) !=
        QUIPU_OK) {
        reader->failed = true;
        return "";
    }
    return copy.p;
}

/* How many rows from `from` on belong to the table: they stand together. */
static int inspect_count(const PGresult *rows, int from, const char *table)
{
    int to = from;

    assert(from >= 0);
    assert(table != NULL); /* a name of the catalogue is never NULL */
    /* The query sorts by table: other rows of it cannot follow later. */
    while (to < PQntuples(rows) && strcmp(PQgetvalue(rows, to, 0), table) == 0) {
        to++;
    }
    return to - from;
}

/* Columns of one table; *from moves behind them. */
static void inspect_read_columns(inspect_reader *reader, const PGresult *rows, int *from,
                                 qp_table_shape *table)
{
    int count = inspect_count(rows, *from, table->name);
    qp_column *columns = inspect_take(reader, (size_t)count, sizeof(*columns));

    assert(*from >= 0);
    /* In the order of attnum, which is that of their creation. */
    for (int i = 0; i < count && !reader->failed; i++) {
        int row = *from + i;
        qp_column *column = &columns[i];

        column->name = inspect_text(reader, rows, row, 1);
        column->declared = inspect_text(reader, rows, row, 2);
        column->default_text = inspect_text(reader, rows, row, 3);
        column->not_null = inspect_true(rows, row, 4);
        column->generated = inspect_true(rows, row, 5);
        column->key_position = (uint8_t)inspect_small(rows, row, 6);
    }
    table->columns = columns;
    table->column_count = (size_t)count;
    *from += count;
}

/* Indexes of one table: neighbouring rows with the same index name are its columns. */
static void inspect_read_indexes(inspect_reader *reader, const PGresult *rows, int *from,
                                 qp_table_shape *table)
{
    int count = inspect_count(rows, *from, table->name);
    qp_index_shape *indexes = inspect_take(reader, (size_t)count, sizeof(*indexes));
    /* As many as there are rows: one each at most. */
    const char **columns = inspect_take(reader, (size_t)count, sizeof(*columns));
    size_t n = 0;

    assert(*from >= 0);
    for (int i = 0; i < count && !reader->failed; i++) {
        int row = *from + i;
        /* A change of the name begins the next index. */
        bool first = i == 0 || strcmp(PQgetvalue(rows, row, 1), PQgetvalue(rows, row - 1, 1)) != 0;
        qp_index_shape *index = &indexes[first ? n : n - 1];

        if (first) {
            n++;
            index->name = inspect_text(reader, rows, row, 1);
            index->unique = inspect_true(rows, row, 2);
            index->partial = inspect_true(rows, row, 3);
            index->implied = inspect_true(rows, row, 4);
            index->columns = columns + i;
        }
        columns[i] = inspect_text(reader, rows, row, 5);
        /* `desc` has a bit for each of 32 columns, which is the most that PostgreSQL allows. */
        if (inspect_true(rows, row, 6) && index->column_count < 32) {
            index->desc |= 1u << index->column_count;
        }
        index->column_count++;
    }
    table->indexes = indexes;
    table->index_count = n;
    *from += count;
}

/* Foreign keys of one table. */
static void inspect_read_references(inspect_reader *reader, const PGresult *rows, int *from,
                                    qp_table_shape *table)
{
    int count = inspect_count(rows, *from, table->name);
    qp_reference *references = inspect_take(reader, (size_t)count, sizeof(*references));

    assert(*from >= 0);
    for (int i = 0; i < count && !reader->failed; i++) {
        references[i].column = inspect_text(reader, rows, *from + i, 1);
        references[i].table = inspect_text(reader, rows, *from + i, 2);
        references[i].on_delete = inspect_text(reader, rows, *from + i, 3);
    }
    table->references = references;
    table->reference_count = (size_t)count;
    *from += count;
}

/* One list, in text format: pg_catalog has many types that we do not decode. */
static quipu_status inspect_query(qp_pg *conn, const char *sql, PGresult **ret, quipu_error *reterr)
{
    qp_pg_call call = {.doing = "cannot inspect"};
    quipu_status status;

    assert(ret != NULL && *ret == NULL);
    /* Behind what was sent before: one round trip answers all. */
    qp_pg_batch(conn);
    qp_pg_send_pending_tx(conn);
    call.wanted = conn->sent;
    if (!conn->broken &&
        PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, /* text= */ 0) == 1) {
        conn->sent++;
    } else {
        conn->broken = true;
    }
    status = qp_pg_run(conn, &call, reterr);
    *ret = call.result;
    call.result = NULL;
    /* The server has aborted the transaction anyway. */
    if (status != QUIPU_OK && conn->in_transaction) {
        qp_pg_rollback_all(conn);
    }
    qp_pg_call_done(&call);
    return status;
}

/* All four lists of one snapshot, where the caller has a transaction; merged by table. */
quipu_status qp_pg_inspect(void *conn, quipu_arena *arena, qp_file_shape *ret, quipu_error *reterr)
{
    const char *const lists[] = {inspect_tables, inspect_columns, inspect_indexes,
                                 inspect_references};
    qp_pg *self = conn;
    PGresult *rows[4] = {NULL, NULL, NULL, NULL};
    /* The four results stay in memory until they are merged below. */
    inspect_reader reader = {.arena = arena};
    qp_table_shape *tables = NULL;
    /* The next row of each list: tables are read in rows[0], and the other three lists along with
     * them, since all are sorted by the table's name. */
    int from[4] = {0, 0, 0, 0};
    quipu_status status = self->in_transaction ? QUIPU_OK : qp_pg_ensure_connected(self, reterr);

    assert(arena != NULL && ret != NULL);
    for (int i = 0; i < 4 && status == QUIPU_OK; i++) {
        status = inspect_query(self, lists[i], &rows[i], reterr);
    }
    if (status == QUIPU_OK) {
        tables = inspect_take(&reader, (size_t)PQntuples(rows[0]), sizeof(*tables));
    }
    for (int i = 0; status == QUIPU_OK && i < PQntuples(rows[0]) && !reader.failed; i++) {
        /* relkind: view, materialised view, foreign table. */
        const char kind = PQgetvalue(rows[0], i, 1)[0];

        tables[i].name = inspect_text(&reader, rows[0], i, 0);
        tables[i].is_view = kind == 'v' || kind == 'm';
        tables[i].is_virtual = kind == 'f';
        tables[i].is_distributed = self->citus;
        if (!reader.failed) {
            inspect_read_columns(&reader, rows[1], &from[1], &tables[i]);
            inspect_read_indexes(&reader, rows[2], &from[2], &tables[i]);
            inspect_read_references(&reader, rows[3], &from[3], &tables[i]);
        }
    }
    if (status == QUIPU_OK && reader.failed) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "no memory to inspect the schema with");
    }
    if (status == QUIPU_OK) {
        *ret = (qp_file_shape){tables, (size_t)PQntuples(rows[0])};
    }
    /* PQclear() takes NULL. */
    for (int i = 0; i < 4; i++) {
        PQclear(rows[i]);
    }
    return status;
}
