/* The statements of full-text search in PostgreSQL. Outside of the portable SQL subset: other
 * servers of this protocol have no tsvector, or another. */
#include "ent_postgres/search.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/plan.h"
#include "ent/shard.h"

#define SEARCH_ROWS_MAX 256                 /* put into the index together, as long as... */
#define SEARCH_BYTES ((size_t)4 << 20)      /* ...their words are not longer */
#define SEARCH_BYTES_MAX ((size_t)16 << 20) /* with the words of one more row */
#define SEARCH_PAGE 32                      /* rows that a check reads at a time */
#define SEARCH_SQL_MAX 8192

/* Rows on their way into the index, or to be compared with it. */
typedef struct qp_pg_gathered {
    size_t count;
    int64_t keys[QP_SEARCH_KEYS_MAX][SEARCH_ROWS_MAX];
    int64_t partial[SEARCH_ROWS_MAX];
    size_t ends[SEARCH_ROWS_MAX]; /* of their words */
    qp_buf words;
    const ent_entity *entity; /* that `insert` is for */
    qp_statement *insert;     /* or NULL */
} qp_pg_gathered;

/* ---- names ------------------------------------------------------------------------------------
 */

static void search_table(qp_buf *sql, const ent_entity *entity)
{
    char name[2 * QP_PG_NAME_SIZE];

    (void)snprintf(name, sizeof(name), "%s" QP_PG_SEARCH_SUFFIX, entity->table);
    qp_sql_name(sql, name);
}

/* A column of the key: it has the same name in both tables. */
static void search_key(qp_buf *sql, const ent_entity *entity, size_t at)
{
    qp_sql_name(sql, entity->fields[entity->key[at]].column);
}

static void search_keys(qp_buf *sql, const ent_entity *entity)
{
    for (size_t i = 0; i < entity->key_count; i++) {
        qp_buf_puts(sql, i > 0 ? "," : "");
        search_key(sql, entity, i);
    }
}

/* ---- what the runtime asks for ------------------------------------------------------------------
 */

static void search_put_rows(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "SELECT ");
    search_keys(sql, entity);
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_putc(sql, ',');
        qp_sql_name(sql, entity->fields[entity->search_fields[i]].column);
    }
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, entity->table);
}

static void search_put_index(qp_buf *sql, const ent_entity *entity, bool remove)
{
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

static void search_put_clear(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "DELETE FROM ");
    search_table(sql, entity);
}

/* A partial row has the words, and maybe the phrases. The rank is by how often and how near to each
 * other the words stand, less in longer texts. */
static void search_put_hits(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "SELECT ");
    search_keys(sql, entity);
    qp_buf_puts(sql, ",-ts_rank(\"words\",CAST($1[2] AS tsquery),1) AS \"rank\","
                     "\"partial\" AND $1[1]<>$1[2] FROM ");
    search_table(sql, entity);
    qp_buf_puts(sql, " WHERE (\"words\" @@ CAST($1[1] AS tsquery) "
                     "OR (\"partial\" AND \"words\" @@ CAST($1[2] AS tsquery)))");
}

static void search_put_key(qp_buf *sql, const ent_entity *entity, size_t at)
{
    search_table(sql, entity);
    qp_buf_putc(sql, '.');
    search_key(sql, entity, at);
}

static void search_put_order(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, " ORDER BY \"rank\",");
    search_keys(sql, entity);
}

/* ---- rows on their way --------------------------------------------------------------------------
 */

void qp_pg_gathered_free(qp_pg_gathered *gathered)
{
    if (gathered != NULL) {
        qp_pg_finalize(gathered->insert);
        qp_buf_free(&gathered->words);
        qp_free(gathered);
    }
}

static void search_forget(void *conn)
{
    qp_pg *self = conn;

    if (self->gathered != NULL) {
        self->gathered->count = 0;
        qp_buf_reset(&self->gathered->words);
    }
}

/* FROM the gathered rows, as v(k1, k2, p, w). */
static void search_put_gathered(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, entity->key_count > 1 ? " FROM unnest($1,$2,$3,$4) AS v(k1,k2,p,w)"
                                           : " FROM unnest($1,$2,$3) AS v(k1,p,w)");
}

static void search_put_insert(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "INSERT INTO ");
    search_table(sql, entity);
    qp_buf_puts(sql, " (");
    search_keys(sql, entity);
    qp_buf_puts(sql, ",\"partial\",\"words\") SELECT k1");
    qp_buf_puts(sql, entity->key_count > 1 ? ",k2" : "");
    qp_buf_puts(sql, ",p<>0,CAST(w AS tsvector)");
    search_put_gathered(sql, entity);
    /* What damage has left behind must not keep a row from being found. */
    qp_buf_puts(sql, " ON CONFLICT (");
    search_keys(sql, entity);
    qp_buf_puts(sql, ") DO UPDATE SET \"partial\"=excluded.\"partial\","
                     "\"words\"=excluded.\"words\"");
}

/* How many of them the index does not have, or has otherwise. */
static void search_put_compare(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "SELECT count(*)");
    search_put_gathered(sql, entity);
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
    qp_buf_puts(sql, " WHERE \"words\" IS DISTINCT FROM CAST(w AS tsvector) "
                     "OR \"partial\" IS DISTINCT FROM (p<>0)");
}

typedef void (*search_put_fn)(qp_buf *sql, const ent_entity *entity);

static quipu_status search_prepare(qp_pg *conn, const ent_entity *entity, search_put_fn put,
                                   qp_statement **ret, quipu_error *reterr)
{
    quipu_status status;
    qp_buf sql;

    qp_buf_init(&sql, SEARCH_SQL_MAX);
    put(&sql, entity);
    status = qp_buf_status(&sql);
    status = status == QUIPU_OK ? qp_pg_prepare(conn, qp_buf_str(&sql), ret, reterr)
                                : qp_error_set(reterr, status, "no memory for a search index");
    qp_buf_free(&sql);
    return status;
}

/* Run a statement that gives one number or none. */
static quipu_status search_ask(qp_statement *statement, const qp_value *values, size_t n,
                               int64_t *ret_number, quipu_error *reterr)
{
    static const uint8_t kinds[] = {QP_INT};
    qp_value value = {.kind = QP_NULL};
    bool is_row = false;
    quipu_status status = qp_pg_bind(statement, values, n, reterr);

    if (status == QUIPU_OK) {
        status = qp_pg_step(statement, kinds, ret_number != NULL ? 1 : 0, &value, &is_row, reterr);
    }
    if (status == QUIPU_OK && ret_number != NULL) {
        *ret_number = is_row && value.kind == QP_INT ? value.as.i : 0;
    }
    qp_pg_reset(statement);
    return status;
}

/* The gathered rows through one statement. */
static quipu_status search_flush(qp_pg *conn, const ent_entity *entity, qp_statement *statement,
                                 int64_t *ret_number, quipu_error *reterr)
{
    const qp_pg_gathered *rows = conn->gathered;
    qp_list_operand lists[QP_SEARCH_KEYS_MAX + 2];
    qp_value values[QP_SEARCH_KEYS_MAX + 2];
    quipu_str words[SEARCH_ROWS_MAX];
    size_t n = 0;
    quipu_status status;

    for (size_t i = 0; i < rows->count; i++) {
        const size_t from = i > 0 ? rows->ends[i - 1] : 0;
        words[i] = (quipu_str){qp_buf_str(&rows->words).p + from, rows->ends[i] - from};
    }
    for (; n < entity->key_count; n++) {
        lists[n] = (qp_list_operand){.items = rows->keys[n], .kind = QP_INT};
    }
    lists[n++] = (qp_list_operand){.items = rows->partial, .kind = QP_INT};
    lists[n++] = (qp_list_operand){.items = words, .kind = QP_TEXT};
    for (size_t i = 0; i < n; i++) {
        lists[i].n = rows->count;
        values[i] = (qp_value){.kind = QP_LIST, .as.list = &lists[i]};
    }
    status = search_ask(statement, values, n, ret_number, reterr);
    search_forget(conn);
    return status;
}

/* The gathered rows into the index; the statement is kept for the next ones. */
static quipu_status search_insert(qp_pg *conn, const ent_entity *entity, quipu_error *reterr)
{
    qp_pg_gathered *rows = conn->gathered;
    quipu_status status = QUIPU_OK;

    if (rows->entity != entity) {
        qp_pg_finalize(rows->insert);
        rows->insert = NULL;
        rows->entity = NULL;
        status = search_prepare(conn, entity, search_put_insert, &rows->insert, reterr);
    }
    if (status != QUIPU_OK) {
        search_forget(conn);
        return status;
    }
    rows->entity = entity;
    return search_flush(conn, entity, rows->insert, NULL, reterr);
}

/* Cut one row into words and keep them. */
static quipu_status search_take(qp_pg *conn, const ent_entity *entity, const qp_value *row,
                                quipu_error *reterr)
{
    qp_pg_gathered *rows = conn->gathered;
    quipu_str texts[ENT_FIELDS_MAX];
    bool partial = false;
    quipu_status status;

    for (size_t i = 0; i < entity->search_count; i++) {
        const qp_value *text = &row[entity->key_count + i];
        texts[i] = text->kind == QP_TEXT ? text->as.text : QUIPU_STR("");
    }
    status = qp_pg_put_words(texts, entity->search_count, &rows->words, &partial);
    if (status != QUIPU_OK) {
        search_forget(conn);
        return qp_error_set(reterr, status, "no memory for the words of a row");
    }
    for (size_t i = 0; i < entity->key_count; i++) {
        rows->keys[i][rows->count] = row[i].as.i;
    }
    rows->partial[rows->count] = partial;
    rows->ends[rows->count++] = rows->words.n;
    return QUIPU_OK;
}

static quipu_status search_ready(qp_pg *conn, quipu_error *reterr)
{
    if (conn->gathered == NULL) {
        conn->gathered = qp_calloc(1, sizeof(*conn->gathered));
        if (conn->gathered == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a search index");
        }
        qp_buf_init(&conn->gathered->words, SEARCH_BYTES_MAX);
    }
    return QUIPU_OK;
}

static quipu_status search_gather(void *conn, const ent_entity *entity, const qp_value *row,
                                  quipu_error *reterr)
{
    qp_pg *self = conn;
    quipu_status status = search_ready(self, reterr);

    assert(entity->key_count <= QP_SEARCH_KEYS_MAX);
    if (status == QUIPU_OK && row != NULL) {
        status = search_take(self, entity, row, reterr);
    }
    if (status == QUIPU_OK && self->gathered->count > 0 &&
        (row == NULL || self->gathered->count == SEARCH_ROWS_MAX ||
         self->gathered->words.n > SEARCH_BYTES)) {
        status = search_insert(self, entity, reterr);
    }
    return status;
}

/* ---- checking ---------------------------------------------------------------------------------
 */

/* The next page of rows behind a key. Where an owner's key stands for its number, rows lie in the
 * order of numbers only within one owner. */
static void search_put_page(qp_buf *sql, const ent_entity *entity)
{
    search_put_rows(sql, entity);
    qp_buf_puts(sql, " WHERE ");
    if (qp_shard_owner(entity) != NULL) {
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

/* The owner behind one. */
static void search_put_next(qp_buf *sql, const ent_entity *entity)
{
    const ent_entity *owner = qp_shard_owner(entity);
    const char *number = owner->fields[owner->key[0]].column;

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

/* Gather a page; `last` moves behind it. */
static quipu_status search_page(qp_pg *conn, const ent_entity *entity, qp_statement *statement,
                                qp_value *last, quipu_error *reterr)
{
    qp_value row[QP_SEARCH_KEYS_MAX + ENT_FIELDS_MAX];
    uint8_t kinds[QP_SEARCH_KEYS_MAX + ENT_FIELDS_MAX];
    const size_t columns = entity->key_count + entity->search_count;
    bool is_row = true;
    quipu_status status = qp_pg_bind(statement, last, entity->key_count, reterr);

    memset(kinds, QP_INT, entity->key_count);
    memset(kinds + entity->key_count, QP_TEXT, entity->search_count);
    while (status == QUIPU_OK && is_row) {
        status = qp_pg_step(statement, kinds, columns, row, &is_row, reterr);
        if (status == QUIPU_OK && is_row) {
            status = search_take(conn, entity, row, reterr);
            memcpy(last, row, entity->key_count * sizeof(*last));
        }
    }
    qp_pg_reset(statement);
    return status;
}

static void search_put_count(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "SELECT count(*) FROM ");
    search_table(sql, entity);
}

/* The statements of a check. */
typedef struct search_statements {
    qp_statement *pages;
    qp_statement *next; /* NULL: pages go on by themselves */
    qp_statement *compare;
    qp_statement *count;
} search_statements;

/* Behind the last page of an owner: go on with the next, if there is one. */
static quipu_status search_next(const search_statements *with, qp_value *last, bool *ret_more,
                                quipu_error *reterr)
{
    int64_t number = 0; /* no row has it */
    quipu_status status = QUIPU_OK;

    *ret_more = false;
    if (with->next != NULL) {
        status = search_ask(with->next, last, 1, &number, reterr);
    }
    if (status == QUIPU_OK && number != 0) {
        last[0].as.i = number;
        last[1].as.i = INT64_MIN;
        *ret_more = true;
    }
    return status;
}

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

    while (status == QUIPU_OK && more && differs == 0) {
        status = search_page(conn, entity, with->pages, last, reterr);
        rows += (int64_t)conn->gathered->count;
        more = conn->gathered->count > 0;
        if (status == QUIPU_OK) {
            status = more ? search_flush(conn, entity, with->compare, &differs, reterr)
                          : search_next(with, last, &more, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = search_ask(with->count, NULL, 0, &held, reterr);
    }
    *ret_same = differs == 0 && held == rows;
    return status;
}

static quipu_status search_check(void *conn, const ent_entity *entity, quipu_error *reterr)
{
    search_statements with = {0};
    bool same = true;
    quipu_status status = search_ready(conn, reterr);

    search_forget(conn);
    if (status == QUIPU_OK) {
        status = search_prepare(conn, entity, search_put_page, &with.pages, reterr);
    }
    if (status == QUIPU_OK && qp_shard_owner(entity) != NULL) {
        status = search_prepare(conn, entity, search_put_next, &with.next, reterr);
    }
    if (status == QUIPU_OK) {
        status = search_prepare(conn, entity, search_put_compare, &with.compare, reterr);
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
    .put_order = search_put_order,
    .gather = search_gather,
    .forget = search_forget,
    .check = search_check,
    .doubts = true,
    .manual_only = true,
};

/* ---- migration --------------------------------------------------------------------------------
 */

void qp_pg_put_search(qp_buf *out, const ent_entity *entity)
{
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

qp_search_state qp_pg_search_state(const ent_entity *entity, const qp_file_shape *shape)
{
    const size_t n = strlen(entity->table);

    if ((entity->flags & ENT_E_SEARCH_MANUAL) == 0) {
        return QP_SEARCH_OK; /* nothing is kept for it */
    }
    for (size_t i = 0; i < shape->table_count; i++) {
        const char *name = shape->tables[i].name;
        if (strncmp(name, entity->table, n) == 0 && strcmp(name + n, QP_PG_SEARCH_SUFFIX) == 0) {
            return QP_SEARCH_OK;
        }
    }
    return QP_SEARCH_MISSING;
}
