/* The statements of full-text search. PostgreSQL only: other servers of this protocol have no
 * tsvector, or a different one (decision 18).
 *
 * Owns: the tables <entity>_search, and the batch of rows that a connection collects for them.
 * Called by: src/ent/search.c and src/ent/sql.c through qp_searcher; ddl.c.
 * Locks: an index is written inside of the caller's write transaction, which keeps others from
 * removing or indexing the same rows.
 *
 *   SELECT keys, texts ─▶ add_row ─▶ words cut ─▶ batch of 256 rows or 4 MiB ─▶ INSERT unnest()
 */
#include "ent_postgres/search.h"

#include <assert.h>
#include <string.h>

#include <ent/search.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/plan.h"
#include "ent/shard.h"

#define SEARCH_ROWS_MAX 256                 /* of one batch... */
#define SEARCH_BYTES ((size_t)4 << 20)      /* ...which is sent earlier with more words than this */
#define SEARCH_BYTES_MAX ((size_t)16 << 20) /* a batch and the words of one more row fit */
#define SEARCH_PAGE 32                      /* rows that a check reads at a time */
#define SEARCH_SQL_MAX 8192
#define SEARCH_SAMPLE_ROWS 1024 /* rows that decide whether a word is common... */
#define SEARCH_SAMPLE_HITS 32   /* ...by how many of them have it */
#define SEARCH_WALK_ROWS 32768  /* which then have a window of hits, if all are alike */
#define SEARCH_WINDOW "h"       /* the name of the subquery that chooses the window */

/* Rows whose words wait to be inserted into an index, or to be compared with it. */
typedef struct qp_pg_index_batch {
    size_t count;
    int64_t keys[QP_SEARCH_KEYS_MAX][SEARCH_ROWS_MAX];
    int64_t partial[SEARCH_ROWS_MAX];
    size_t ends[SEARCH_ROWS_MAX]; /* where the words of each row end in `words` */
    qp_buf words;                 /* tsvectors, one behind the other */
    const ent_entity *entity;     /* of `insert` */
    qp_statement *insert;         /* reused from batch to batch, or NULL */
} qp_pg_index_batch;

/* ---- names ------------------------------------------------------------------------------------
 */

/* The quoted name of an entity's index table. */
static void search_table(qp_buf *sql, const ent_entity *entity)
{
    char name[2 * QP_PG_NAME_SIZE];

    assert(strlen(entity->table) < QP_PG_NAME_SIZE);
    (void)snprintf(name, sizeof(name), "%s" QP_PG_SEARCH_SUFFIX, entity->table);
    qp_sql_name(sql, name);
}

/* A column of the key; it has the same name in both tables. */
static void search_key(qp_buf *sql, const ent_entity *entity, size_t at)
{
    assert(at < entity->key_count);
    qp_sql_name(sql, entity->fields[entity->key[at]].column);
}

/* All columns of the key, separated by commas. */
static void search_keys(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->key_count >= 1 && entity->key_count <= QP_SEARCH_KEYS_MAX);
    for (size_t i = 0; i < entity->key_count; i++) {
        qp_buf_puts(sql, i > 0 ? "," : "");
        search_key(sql, entity, i);
    }
}

/* ---- texts of statements ------------------------------------------------------------------------
 */

/* SELECT of the rows to index: key, then texts. */
static void search_put_rows(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->search_count > 0);
    qp_buf_puts(sql, "SELECT ");
    search_keys(sql, entity);
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_putc(sql, ',');
        qp_sql_name(sql, entity->fields[entity->search_fields[i]].column);
    }
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, entity->table);
}

/* Indexing only reads here, the rows come back through add_row; removing deletes by key. */
static void search_put_index(qp_buf *sql, const ent_entity *entity, bool remove)
{
    assert(sql != NULL);
    if (!remove) {
        search_put_rows(sql, entity);
        return;
    }
    qp_buf_puts(sql, "DELETE FROM ");
    search_table(sql, entity);
    qp_buf_puts(sql, " WHERE (");
    search_keys(sql, entity);
    qp_buf_puts(sql, ") IN (SELECT ");
    search_keys(sql, entity);
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, entity->table);
}

/* Empties an index. */
static void search_put_clear(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    qp_buf_puts(sql, "DELETE FROM ");
    search_table(sql, entity);
}

/* The text of a row of the window, from the entity's table. Its last key is a range of one
 * value, in order: of the owner's indexes only the primary key has it, and a planner whose
 * statistics are older than the rows cannot take another one, which would read all rows of the
 * owner each time. */
static void search_text(qp_buf *sql, const ent_entity *entity, size_t field)
{
    const ent_entity *owner = qp_shard_owner(entity);
    const size_t last = entity->key_count - 1;
    qp_buf number;

    qp_buf_init(&number, SEARCH_SQL_MAX);
    qp_buf_puts(&number, SEARCH_WINDOW ".");
    search_key(&number, entity, 0);
    qp_buf_puts(sql, ",(SELECT ");
    qp_sql_name(sql, entity->fields[field].column);
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, entity->table);
    qp_buf_puts(sql, " AS t WHERE ");
    for (size_t i = 0; i < entity->key_count; i++) {
        qp_buf_puts(sql, i > 0 ? " AND t." : "t.");
        search_key(sql, entity, i);
        qp_buf_puts(sql, i < last ? "=" SEARCH_WINDOW "." : " BETWEEN " SEARCH_WINDOW ".");
        search_key(sql, entity, i);
    }
    qp_buf_puts(sql, " AND " SEARCH_WINDOW ".");
    search_key(sql, entity, last);
    if (owner != NULL && qp_buf_status(&number) == QUIPU_OK) {
        qp_buf_puts(sql, " AND ");
        qp_shard_put_owned(sql, entity, NULL, qp_buf_str(&number).p);
    }
    qp_buf_puts(sql, " ORDER BY t.");
    search_key(sql, entity, last);
    qp_buf_puts(sql, " LIMIT 1)");
    qp_buf_fail(sql, qp_buf_status(&number));
    qp_buf_free(&number);
}

/* $1 is an array of two tsqueries, see qp_pg_encode_words(): with phrases, and with their words in
 * any order. A partial row that has all words is a hit that has to be rechecked, where the two
 * differ. */
static void search_matches(qp_buf *sql)
{
    qp_buf_puts(sql, "(\"words\" @@ CAST($1[1] AS tsquery) "
                     "OR (\"partial\" AND \"words\" @@ CAST($1[2] AS tsquery)))");
}

/* The keys of the index in the order of windows, the highest first. */
static void search_by_key(qp_buf *sql, const ent_entity *entity, const char *before)
{
    for (size_t i = 0; i < entity->key_count; i++) {
        qp_buf_puts(sql, i > 0 ? "," : before);
        search_key(sql, entity, i);
        qp_buf_puts(sql, " DESC");
    }
}

/* A GIN index gives all matches of a word before the first row is read, so that a word that most
 * rows have costs what there is in the table. The plan cannot be left to the planner: it sees a
 * parameter, and statements are prepared once. So a sample of the newest rows decides, which costs
 * a rare word a third of a millisecond:
 *
 *   sample   the newest 1,024 rows of the range: do 32 of them match?
 *   walk     yes: the newest 32,768 rows by their key, until there are 1,024 hits
 *   index    no, or the walk found fewer: all matches by the index, sorted
 *
 *   SELECT keys, texts FROM (
 *     WITH s AS MATERIALIZED (SELECT count(*)>=32 AS common FROM
 *            (SELECT words,partial FROM x WHERE true [range] ORDER BY keys DESC LIMIT 1024) AS x
 *            WHERE match),
 *          w AS MATERIALIZED (SELECT keys,partial FROM
 *            (SELECT * FROM x WHERE true [range] ORDER BY keys DESC
 *             LIMIT (SELECT CASE WHEN common THEN 32768 ELSE 0 END FROM s)) AS x
 *            WHERE match [conditions] LIMIT 1024)
 *     SELECT keys,partial FROM w WHERE (SELECT count(*) FROM w)=1024
 *     UNION ALL (SELECT keys,partial FROM x WHERE (SELECT count(*) FROM w)<1024 AND match
 *       [range] [conditions] ORDER BY 0+keys DESC LIMIT 1024)) AS h
 *
 * Either way the rows are the same. A LIMIT of 0 keeps the walk from being started; a condition
 * that names no column, the index. A tsvector cannot say how often a row has a phrase without being
 * unnested, which costs more than its text; ts_rank() knows nothing of other rows. So the texts of
 * the window are read: a scalar subquery for each is run for these rows only. */
static void search_put_hits(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    qp_buf_puts(sql, "SELECT ");
    search_keys(sql, entity);
    qp_buf_puts(sql, ",\"partial\" AND $1[1]<>$1[2]");
    for (size_t i = 0; i < entity->search_count; i++) {
        search_text(sql, entity, entity->search_fields[i]);
    }
    qp_buf_printf(sql,
                  " FROM (WITH s AS MATERIALIZED (SELECT count(*)>=%d AS common FROM "
                  "(SELECT \"words\",\"partial\" FROM ",
                  SEARCH_SAMPLE_HITS);
    search_table(sql, entity);
    qp_buf_puts(sql, " WHERE true");
}

/* Between the parts stand the range of keys and the conditions on rows, which sql.c repeats. */
static void search_put_walk(qp_buf *sql, const ent_entity *entity, qp_search_walk_part part)
{
    assert(part <= QP_SEARCH_WALK_END);
    switch (part) {
    case QP_SEARCH_SAMPLE_END:
        search_by_key(sql, entity, " ORDER BY ");
        qp_buf_printf(sql, " LIMIT %d) AS x WHERE ", SEARCH_SAMPLE_ROWS);
        search_matches(sql);
        qp_buf_puts(sql, "),w AS MATERIALIZED (SELECT ");
        search_keys(sql, entity);
        qp_buf_puts(sql, ",\"partial\" FROM (SELECT * FROM ");
        search_table(sql, entity);
        qp_buf_puts(sql, " WHERE true");
        break;
    case QP_SEARCH_WALK_WORDS:
        search_by_key(sql, entity, " ORDER BY ");
        qp_buf_printf(sql, " LIMIT (SELECT CASE WHEN common THEN %d ELSE 0 END FROM s)) AS ",
                      SEARCH_WALK_ROWS);
        search_table(sql, entity); /* conditions name its columns */
        qp_buf_puts(sql, " WHERE ");
        search_matches(sql);
        break;
    case QP_SEARCH_WALK_END:
        qp_buf_printf(sql, " LIMIT %d) SELECT ", ENT_HITS_WINDOW);
        search_keys(sql, entity);
        qp_buf_printf(sql,
                      ",\"partial\" FROM w WHERE (SELECT count(*) FROM w)=%d "
                      "UNION ALL (SELECT ",
                      ENT_HITS_WINDOW);
        search_keys(sql, entity);
        qp_buf_puts(sql, ",\"partial\" FROM ");
        search_table(sql, entity);
        qp_buf_printf(sql, " WHERE (SELECT count(*) FROM w)<%d AND ", ENT_HITS_WINDOW);
        search_matches(sql);
        break;
    }
}

/* A qualified column of the key, for joins with the entity's table. */
static void search_put_key(qp_buf *sql, const ent_entity *entity, size_t at)
{
    assert(at < entity->key_count);
    search_table(sql, entity);
    qp_buf_putc(sql, '.');
    search_key(sql, entity, at);
}

/* The shard of a row of the index, which only a distributed store has. */
static void search_put_shard(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->shard != NULL);
    search_table(sql, entity);
    qp_buf_puts(sql, ".\"" QP_SHARD_COLUMN "\"");
}

/* The same on a distributed store: texts come by a join, whose tables meet by their shards, because
 * a subquery for each row of a window would run on the coordinator. The window ends a join of one
 * worker's rows there, and the coordinator takes the highest of all. */
static void search_put_hits_apart(qp_buf *sql, const ent_entity *entity)
{
    const ent_entity *owner = qp_shard_owner(entity);

    assert(owner != NULL && entity->key_count == 2);
    qp_buf_puts(sql, "SELECT * FROM (SELECT ");
    for (size_t i = 0; i < entity->key_count; i++) {
        search_put_key(sql, entity, i);
        qp_buf_putc(sql, ',');
    }
    qp_buf_puts(sql, "\"partial\" AND $1[1]<>$1[2] AS p");
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_puts(sql, ",t.");
        qp_sql_name(sql, entity->fields[entity->search_fields[i]].column);
    }
    qp_buf_puts(sql, " FROM ");
    search_table(sql, entity);
    qp_buf_puts(sql, " JOIN ");
    qp_sql_name(sql, owner->table);
    qp_buf_puts(sql, " AS o ON o.\"" QP_SHARD_COLUMN "\"=");
    search_put_shard(sql, entity);
    qp_buf_puts(sql, " AND o.");
    qp_sql_name(sql, owner->fields[owner->key[0]].column);
    qp_buf_putc(sql, '=');
    search_put_key(sql, entity, 0);
    qp_buf_puts(sql, " JOIN ");
    qp_sql_name(sql, entity->table);
    qp_buf_puts(sql, " AS t ON t.\"" QP_SHARD_COLUMN "\"=o.\"" QP_SHARD_COLUMN "\" AND t.");
    qp_sql_name(sql, owner->fields[owner->shard->key - 1].column);
    qp_buf_puts(sql, "=o.");
    qp_sql_name(sql, owner->fields[owner->shard->key - 1].column);
    qp_buf_puts(sql, " AND t.");
    search_key(sql, entity, 1);
    qp_buf_putc(sql, '=');
    search_put_key(sql, entity, 1);
    qp_buf_puts(sql, " WHERE (\"words\" @@ CAST($1[1] AS tsquery) "
                     "OR (\"partial\" AND \"words\" @@ CAST($1[2] AS tsquery)))");
}

/* The first key is an expression in the window's order, so that no plan walks the primary key in
 * the hope for early matches: words that rarely stand together would cost the whole table. */
static void search_put_window(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    search_by_key(sql, entity, " ORDER BY 0+");
    qp_buf_printf(sql, " LIMIT %d)) AS " SEARCH_WINDOW, ENT_HITS_WINDOW);
}

/* The same on a distributed store, where a table's columns are qualified. */
static void search_put_window_apart(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    for (size_t i = 0; i < entity->key_count; i++) {
        qp_buf_puts(sql, i > 0 ? "," : " ORDER BY 0+");
        search_put_key(sql, entity, i);
        qp_buf_puts(sql, " DESC");
    }
    qp_buf_printf(sql, " LIMIT %d) AS " SEARCH_WINDOW, ENT_HITS_WINDOW);
}

/* ---- the batch ----------------------------------------------------------------------------------
 */

/* The statement belongs to a connection that is still open: finalize queues its name. */
void qp_pg_index_batch_free(qp_pg_index_batch *index_batch)
{
    if (index_batch != NULL) {
        qp_pg_finalize(index_batch->insert);
        qp_buf_free(&index_batch->words);
        qp_free(index_batch);
    }
}

/* Empties the batch and keeps its memory and statement. */
static void search_discard_rows(void *conn)
{
    qp_pg *self = conn;

    assert(conn != NULL);
    if (self->index_batch != NULL) {
        self->index_batch->count = 0;
        qp_buf_reset(&self->index_batch->words);
    }
}

/* FROM the rows of the batch, as v(k1, k2, p, w): arrays unnested side by side. */
static void search_put_batch(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->key_count <= QP_SEARCH_KEYS_MAX);
    qp_buf_puts(sql, entity->key_count > 1 ? " FROM unnest($1,$2,$3,$4) AS v(k1,k2,p,w)"
                                           : " FROM unnest($1,$2,$3) AS v(k1,p,w)");
}

/* An upsert: a stale row that damage left behind must not keep a session from being indexed. */
static void search_put_insert(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    qp_buf_puts(sql, "INSERT INTO ");
    search_table(sql, entity);
    qp_buf_puts(sql, " (");
    search_keys(sql, entity);
    qp_buf_puts(sql, ",\"partial\",\"words\") SELECT k1");
    qp_buf_puts(sql, entity->key_count > 1 ? ",k2" : "");
    qp_buf_puts(sql, ",p<>0,w");
    search_put_batch(sql, entity);
    qp_buf_puts(sql, " ON CONFLICT (");
    search_keys(sql, entity);
    qp_buf_puts(sql, ") DO UPDATE SET \"partial\"=excluded.\"partial\","
                     "\"words\"=excluded.\"words\"");
}

/* The same on a distributed store: the shard is that of the number. */
static void search_put_insert_apart(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->key_count == 2);
    qp_buf_puts(sql, "INSERT INTO ");
    search_table(sql, entity);
    qp_buf_puts(sql, " (\"" QP_SHARD_COLUMN "\",");
    search_keys(sql, entity);
    qp_buf_printf(sql, ",\"partial\",\"words\") SELECT k1 & %d,k1,k2,p<>0,w", ENT_SHARD_MAX);
    search_put_batch(sql, entity);
    qp_buf_puts(sql, " ON CONFLICT (\"" QP_SHARD_COLUMN "\",");
    search_keys(sql, entity);
    qp_buf_puts(sql, ") DO UPDATE SET \"partial\"=excluded.\"partial\","
                     "\"words\"=excluded.\"words\"");
}

/* How many rows of the batch the index lacks, or has with other words. */
static void search_put_compare(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    qp_buf_puts(sql, "SELECT count(*)");
    search_put_batch(sql, entity);
    qp_buf_puts(sql, " LEFT JOIN ");
    search_table(sql, entity);
    qp_buf_puts(sql, " ON ");
    search_put_key(sql, entity, 0);
    qp_buf_puts(sql, "=k1");
    if (entity->key_count > 1) {
        qp_buf_puts(sql, " AND ");
        search_put_key(sql, entity, 1);
        qp_buf_puts(sql, "=k2");
    }
    qp_buf_puts(sql, " WHERE \"words\" IS DISTINCT FROM w "
                     "OR \"partial\" IS DISTINCT FROM (p<>0)");
}

/* The same on a distributed store. All rows of a page are of one owner, so that the index is read
 * on one worker. */
static void search_put_compare_apart(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->key_count == 2);
    qp_buf_puts(sql, "SELECT count(*)");
    search_put_batch(sql, entity);
    qp_buf_puts(sql, " LEFT JOIN (SELECT * FROM ");
    search_table(sql, entity);
    qp_buf_printf(sql, " WHERE \"" QP_SHARD_COLUMN "\"=($1[1] & %d) AND ", ENT_SHARD_MAX);
    search_key(sql, entity, 0);
    qp_buf_puts(sql, "=$1[1]) AS i ON i.");
    search_key(sql, entity, 1);
    qp_buf_puts(sql, "=k2 WHERE \"words\" IS DISTINCT FROM w "
                     "OR \"partial\" IS DISTINCT FROM (p<>0)");
}

/* Writes the text of one of the statements above. */
typedef void (*search_put_fn)(qp_buf *sql, const ent_entity *entity);

/* Builds a statement's text and prepares it. */
static quipu_status search_prepare(qp_pg *conn, const ent_entity *entity, search_put_fn put,
                                   qp_statement **ret, quipu_error *reterr)
{
    quipu_status status;
    qp_buf sql;

    assert(put != NULL && ret != NULL);
    qp_buf_init(&sql, SEARCH_SQL_MAX);
    put(&sql, entity);
    status = qp_buf_status(&sql);
    status = status == QUIPU_OK ? qp_pg_prepare(conn, qp_buf_str(&sql), ret, reterr)
                                : qp_error_set(reterr, status, "no memory for a search index");
    qp_buf_free(&sql);
    return status;
}

/* Runs a statement that gives one number, or none where ret_number is NULL. */
static quipu_status search_query_number(qp_statement *statement, const qp_value *values, size_t n,
                                        int64_t *ret_number, quipu_error *reterr)
{
    static const uint8_t kinds[] = {QP_INT};
    qp_value value = {.kind = QP_NULL};
    bool is_row = false;
    quipu_status status = qp_pg_bind(statement, values, n, reterr);

    assert(statement != NULL);
    if (status == QUIPU_OK) {
        status = qp_pg_step(statement, kinds, ret_number != NULL ? 1 : 0, &value, &is_row, reterr);
    }
    if (status == QUIPU_OK && ret_number != NULL) {
        *ret_number = is_row && value.kind == QP_INT ? value.as.i : 0;
    }
    qp_pg_reset(statement);
    return status;
}

/* Sends the batch through one statement, as arrays, and empties it also on failure. */
static quipu_status search_flush(qp_pg *conn, const ent_entity *entity, qp_statement *statement,
                                 int64_t *ret_number, quipu_error *reterr)
{
    const qp_pg_index_batch *rows = conn->index_batch;
    qp_list_operand lists[QP_SEARCH_KEYS_MAX + 2];
    qp_value values[QP_SEARCH_KEYS_MAX + 2];
    quipu_str words[SEARCH_ROWS_MAX];
    size_t n = 0;
    quipu_status status;

    assert(rows != NULL && rows->count <= SEARCH_ROWS_MAX);
    for (size_t i = 0; i < rows->count; i++) {
        const size_t from = i > 0 ? rows->ends[i - 1] : 0;
        words[i] = (quipu_str){qp_buf_str(&rows->words).p + from, rows->ends[i] - from};
    }
    for (; n < entity->key_count; n++) {
        lists[n] = (qp_list_operand){.items = rows->keys[n], .kind = QP_INT};
    }
    lists[n++] = (qp_list_operand){.items = rows->partial, .kind = QP_INT};
    lists[n++] = (qp_list_operand){.items = words, .kind = QP_WORDS};
    for (size_t i = 0; i < n; i++) {
        lists[i].n = rows->count;
        values[i] = (qp_value){.kind = QP_LIST, .as.list = &lists[i]};
    }
    assert(n == (size_t)entity->key_count + 2);
    status = search_query_number(statement, values, n, ret_number, reterr);
    search_discard_rows(conn);
    return status;
}

/* Inserts the batch into the index of its entity. */
static quipu_status search_insert(qp_pg *conn, const ent_entity *entity, quipu_error *reterr)
{
    qp_pg_index_batch *rows = conn->index_batch;
    quipu_status status = QUIPU_OK;

    assert(rows != NULL && rows->count > 0);
    if (rows->entity != entity) {
        qp_pg_finalize(rows->insert);
        rows->insert = NULL;
        rows->entity = NULL;
        status =
            search_prepare(conn, entity, conn->citus ? search_put_insert_apart : search_put_insert,
                           &rows->insert, reterr);
    }
    if (status != QUIPU_OK) {
        search_discard_rows(conn);
        return status;
    }
    rows->entity = entity;
    return search_flush(conn, entity, rows->insert, NULL, reterr);
}

/* Cuts a row's texts into words and adds them to the batch. */
static quipu_status search_batch_add(qp_pg *conn, const ent_entity *entity, const qp_value *row,
                                     quipu_error *reterr)
{
    qp_pg_index_batch *rows = conn->index_batch;
    quipu_str texts[ENT_FIELDS_MAX];
    bool partial = false;
    quipu_status status;

    assert(rows != NULL && rows->count < SEARCH_ROWS_MAX);
    assert(row != NULL);
    for (size_t i = 0; i < entity->search_count; i++) {
        const qp_value *text = &row[entity->key_count + i];
        texts[i] = text->kind == QP_TEXT ? text->as.text : QUIPU_STR("");
    }
    status = qp_pg_put_words(texts, entity->search_count, &rows->words, &partial);
    if (status != QUIPU_OK) {
        search_discard_rows(conn);
        return qp_error_set(reterr, status, "no memory for the words of a row");
    }
    for (size_t i = 0; i < entity->key_count; i++) {
        rows->keys[i][rows->count] = row[i].as.i;
    }
    rows->partial[rows->count] = partial;
    rows->ends[rows->count++] = rows->words.n;
    return QUIPU_OK;
}

/* Allocates the batch with its first use: most connections never index. */
static quipu_status search_batch_make(qp_pg *conn, quipu_error *reterr)
{
    if (conn->index_batch == NULL) {
        conn->index_batch = qp_calloc(1, sizeof(*conn->index_batch));
        if (conn->index_batch == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a search index");
        }
        qp_buf_init(&conn->index_batch->words, SEARCH_BYTES_MAX);
    }
    assert(conn->index_batch != NULL);
    return QUIPU_OK;
}

/* The searcher's add_row: adds one row, and inserts the batch when it is full or (row NULL) at the
 * end. */
static quipu_status search_add_rows(void *conn, const ent_entity *entity, const qp_value *row,
                                    quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = search_batch_make(self, reterr);

    assert(conn != NULL);
    assert(entity->key_count <= QP_SEARCH_KEYS_MAX);
    if (status == QUIPU_OK && row != NULL) {
        status = search_batch_add(self, entity, row, reterr);
    }
    if (status == QUIPU_OK && self->index_batch->count > 0 &&
        (row == NULL || self->index_batch->count == SEARCH_ROWS_MAX ||
         self->index_batch->words.n > SEARCH_BYTES)) {
        status = search_insert(self, entity, reterr);
    }
    return status;
}

/* ---- checking ---------------------------------------------------------------------------------
 */

/* The next page of rows behind a key. Where the owner's natural key leads the primary key, rows are
 * in the order of numbers only within one owner: pages then run through one owner after the other.
 */
static void search_put_page(qp_buf *sql, const ent_entity *entity, const ent_field *reaches)
{
    const ent_entity *owner = qp_shard_owner(entity);

    assert(sql != NULL && (reaches == NULL || owner != NULL));
    search_put_rows(sql, entity);
    qp_buf_puts(sql, " WHERE ");
    if (reaches != NULL) {
        search_key(sql, entity, 1);
        qp_buf_puts(sql, "<=(SELECT ");
        qp_sql_name(sql, reaches->column);
        qp_buf_puts(sql, " FROM ");
        qp_sql_name(sql, owner->table);
        qp_buf_puts(sql, " WHERE ");
        qp_sql_name(sql, owner->fields[owner->key[0]].column);
        qp_buf_printf(sql, "=$1 AND \"" QP_SHARD_COLUMN "\"=($1 & %d)) AND ", ENT_SHARD_MAX);
    }
    if (owner != NULL) {
        qp_shard_put_owned(sql, entity, NULL, "$1");
        qp_buf_puts(sql, " AND ");
        search_key(sql, entity, 1);
        qp_buf_puts(sql, ">$2 ORDER BY ");
        search_key(sql, entity, 1);
    } else {
        qp_buf_putc(sql, '(');
        search_keys(sql, entity);
        qp_buf_puts(sql, entity->key_count > 1 ? ")>($1,$2) ORDER BY " : ")>($1) ORDER BY ");
        search_keys(sql, entity);
    }
    qp_buf_printf(sql, " LIMIT %d", SEARCH_PAGE);
}

/* The number of the owner behind a given one. */
static void search_put_next(qp_buf *sql, const ent_entity *entity)
{
    const ent_entity *owner = qp_shard_owner(entity);
    const char *number = owner->fields[owner->key[0]].column;

    assert(owner != NULL);
    qp_buf_puts(sql, "SELECT ");
    qp_sql_name(sql, number);
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, owner->table);
    qp_buf_puts(sql, " WHERE ");
    qp_sql_name(sql, number);
    qp_buf_puts(sql, ">$1 ORDER BY ");
    qp_sql_name(sql, number);
    qp_buf_puts(sql, " LIMIT 1");
}

/* Adds a page of rows to the batch; `last` becomes the key of its last row. */
static quipu_status search_page(qp_pg *conn, const ent_entity *entity, qp_statement *statement,
                                qp_value *last, quipu_error *reterr)
{
    qp_value row[QP_SEARCH_KEYS_MAX + ENT_FIELDS_MAX];
    uint8_t kinds[QP_SEARCH_KEYS_MAX + ENT_FIELDS_MAX];
    const size_t columns = entity->key_count + entity->search_count;
    bool is_row = true;
    quipu_status status = qp_pg_bind(statement, last, entity->key_count, reterr);

    assert(conn->index_batch != NULL && conn->index_batch->count == 0);
    memset(kinds, QP_INT, entity->key_count);
    memset(kinds + entity->key_count, QP_TEXT, entity->search_count);
    while (status == QUIPU_OK && is_row) {
        status = qp_pg_step(statement, kinds, columns, row, &is_row, reterr);
        if (status == QUIPU_OK && is_row) {
            status = search_batch_add(conn, entity, row, reterr);
            memcpy(last, row, entity->key_count * sizeof(*last));
        }
    }
    qp_pg_reset(statement);
    return status;
}

/* How many rows the index has. */
static void search_put_count(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    qp_buf_puts(sql, "SELECT count(*) FROM ");
    search_table(sql, entity);
}

/* The statements of one check. */
typedef struct search_statements {
    qp_statement *pages;
    qp_statement *next; /* NULL: pages go on by themselves */
    qp_statement *compare;
    qp_statement *count;
} search_statements;

/* After the last page of an owner, goes on with the next owner; numbers start at 1, so that 0 means
 * that there is none. */
static quipu_status search_next(const search_statements *with, qp_value *last, bool *ret_more,
                                quipu_error *reterr)
{
    int64_t number = 0;
    quipu_status status = QUIPU_OK;

    assert(ret_more != NULL);
    *ret_more = false;
    if (with->next != NULL) {
        status = search_query_number(with->next, last, 1, &number, reterr);
    }
    if (status == QUIPU_OK && number != 0) {
        last[0].as.i = number;
        last[1].as.i = INT64_MIN;
        *ret_more = true;
    }
    return status;
}

/* Compares page after page with the index until one differs, then the totals: a row of the index
 * whose entity row is gone shows in those only. */
static quipu_status search_compare(qp_pg *conn, const ent_entity *entity,
                                   const search_statements *with, bool *ret_same,
                                   quipu_error *reterr)
{
    qp_value last[QP_SEARCH_KEYS_MAX] = {{.kind = QP_INT, .as.i = INT64_MIN},
                                         {.kind = QP_INT, .as.i = INT64_MIN}};
    int64_t rows = 0;
    int64_t differs = 0;
    int64_t held = 0;
    bool more = true;
    quipu_status status = QUIPU_OK;

    assert(ret_same != NULL);
    while (status == QUIPU_OK && more && differs == 0) {
        status = search_page(conn, entity, with->pages, last, reterr);
        rows += (int64_t)conn->index_batch->count;
        more = conn->index_batch->count > 0;
        if (status == QUIPU_OK) {
            status = more ? search_flush(conn, entity, with->compare, &differs, reterr)
                          : search_next(with, last, &more, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = search_query_number(with->count, NULL, 0, &held, reterr);
    }
    *ret_same = differs == 0 && held == rows;
    return status;
}

/* Prepares the statement of the pages, which alone depends on how far the index reaches. */
static quipu_status search_prepare_page(qp_pg *conn, const ent_entity *entity,
                                        const ent_field *reaches, qp_statement **ret,
                                        quipu_error *reterr)
{
    quipu_status status;
    qp_buf sql;

    assert(ret != NULL);
    qp_buf_init(&sql, SEARCH_SQL_MAX);
    search_put_page(&sql, entity, reaches);
    status = qp_buf_status(&sql);
    status = status == QUIPU_OK ? qp_pg_prepare(conn, qp_buf_str(&sql), ret, reterr)
                                : qp_error_set(reterr, status, "no memory for a search index");
    qp_buf_free(&sql);
    return status;
}

/* The searcher's check: QUIPU_CORRUPT where index and rows differ. */
static quipu_status search_check(void *conn, const ent_entity *entity, const ent_field *reaches,
                                 quipu_error *reterr)
{
    search_statements with = {0};
    bool same = true;
    quipu_status status = search_batch_make(conn, reterr);

    assert(conn != NULL);
    search_discard_rows(conn);
    if (status == QUIPU_OK) {
        status = search_prepare_page(conn, entity, reaches, &with.pages, reterr);
    }
    if (status == QUIPU_OK && qp_shard_owner(entity) != NULL) {
        status = search_prepare(conn, entity, search_put_next, &with.next, reterr);
    }
    if (status == QUIPU_OK) {
        status = search_prepare(conn, entity,
                                ((const qp_pg *)conn)->citus ? search_put_compare_apart
                                                             : search_put_compare,
                                &with.compare, reterr);
    }
    if (status == QUIPU_OK) {
        status = search_prepare(conn, entity, search_put_count, &with.count, reterr);
    }
    if (status == QUIPU_OK) {
        status = search_compare(conn, entity, &with, &same, reterr);
    }
    if (status == QUIPU_OK && !same) {
        status =
            qp_error_set(reterr, QUIPU_CORRUPT,
                         "%s: the full-text index does not hold what the rows hold", entity->name);
    }
    qp_pg_finalize(with.pages);
    qp_pg_finalize(with.next);
    qp_pg_finalize(with.compare);
    qp_pg_finalize(with.count);
    return status;
}

const qp_searcher qp_pg_searcher = {
    .version = 1,
    .put_index = search_put_index,
    .unindex_end = ")",
    .put_clear = search_put_clear,
    .put_hits = search_put_hits,
    .put_key = search_put_key,
    .put_window = search_put_window,
    .add_row = search_add_rows,
    .discard_rows = search_discard_rows,
    .check = search_check,
    .reads_texts = true,
    .manual_only = true,
    .put_walk = search_put_walk,
};

const qp_searcher qp_pg_citus_searcher = {
    .version = 1,
    .put_index = search_put_index,
    .unindex_end = ")",
    .put_clear = search_put_clear,
    .put_hits = search_put_hits_apart,
    .put_key = search_put_key,
    .hit_shard = "\"messages" QP_PG_SEARCH_SUFFIX "\".\"" QP_SHARD_COLUMN "\"",
    .put_window = search_put_window_apart,
    .add_row = search_add_rows,
    .discard_rows = search_discard_rows,
    .check = search_check,
    .reads_texts = true,
    .manual_only = true,
};

/* ---- migration --------------------------------------------------------------------------------
 */

/* The index table and its GIN index. No foreign key: rows of the index are removed by the store. */
void qp_pg_put_search(qp_buf *out, const ent_entity *entity)
{
    assert(entity->key_count <= QP_SEARCH_KEYS_MAX);
    qp_buf_puts(out, "CREATE TABLE ");
    search_table(out, entity);
    qp_buf_puts(out, " (");
    for (size_t i = 0; i < entity->key_count; i++) {
        search_key(out, entity, i);
        qp_buf_puts(out, " bigint NOT NULL, ");
    }
    qp_buf_puts(out, "\"partial\" boolean NOT NULL, \"words\" tsvector NOT NULL, PRIMARY KEY (");
    search_keys(out, entity);
    qp_buf_puts(out, "));\nCREATE INDEX ON ");
    search_table(out, entity);
    qp_buf_puts(out, " USING gin (\"words\")");
}

/* Whether the index table exists; its columns are not looked at. */
qp_search_state qp_pg_search_state(const ent_entity *entity, const qp_file_shape *shape)
{
    const size_t n = strlen(entity->table);

    assert(shape != NULL);
    if ((entity->flags & ENT_E_SEARCH_MANUAL) == 0) {
        return QP_SEARCH_OK; /* only indexes that the store fills by hand exist here */
    }
    for (size_t i = 0; i < shape->table_count; i++) {
        const char *name = shape->tables[i].name;
        if (strncmp(name, entity->table, n) == 0 && strcmp(name + n, QP_PG_SEARCH_SUFFIX) == 0) {
            return QP_SEARCH_OK;
        }
    }
    return QP_SEARCH_MISSING;
}
