/* The statements of full-text search in SQLite. An FTS5 table with external content is told by hand
 * what comes and, word for word, what goes. */
#include "ent_sqlite/ddl.h"
#include "ent_sqlite/search.h"

static void search_sql_index(qp_buf *sql, const ent_entity *entity)
{
    qp_sqlite_put_suffixed(sql, entity->table, QP_SQLITE_SEARCH_SUFFIX);
}

static void search_sql_columns(qp_buf *sql, const ent_entity *entity)
{
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_putc(sql, ',');
        qp_sqlite_put_name(sql, entity->fields[entity->search_fields[i]].column);
    }
}

static void search_sql_put_index(qp_buf *sql, const ent_entity *entity, bool remove)
{
    qp_buf_puts(sql, "INSERT INTO ");
    search_sql_index(sql, entity);
    qp_buf_puts(sql, " (");
    if (remove) {
        search_sql_index(sql, entity);
        qp_buf_putc(sql, ',');
    }
    qp_buf_puts(sql, "rowid");
    search_sql_columns(sql, entity);
    qp_buf_puts(sql, remove ? ") SELECT 'delete'," : ") SELECT ");
    qp_sqlite_put_name(sql, qp_sqlite_row_key(entity));
    search_sql_columns(sql, entity);
    qp_buf_puts(sql, " FROM ");
    qp_sqlite_put_name(sql, entity->table);
}

static void search_sql_put_clear(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "INSERT INTO ");
    search_sql_index(sql, entity);
    qp_buf_puts(sql, " (");
    search_sql_index(sql, entity);
    qp_buf_puts(sql, ") VALUES ('delete-all')");
}

static void search_sql_put_check(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "INSERT INTO ");
    search_sql_index(sql, entity);
    qp_buf_puts(sql, " (");
    search_sql_index(sql, entity);
    /* rank 1: compare with the table, too */
    qp_buf_puts(sql, ",rank) VALUES ('integrity-check',1)");
}

static void search_sql_from(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, " FROM ");
    search_sql_index(sql, entity);
    qp_buf_puts(sql, " WHERE ");
    search_sql_index(sql, entity);
    qp_buf_puts(sql, " MATCH ?1");
}

static void search_sql_put_hits(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "SELECT rowid,rank");
    search_sql_from(sql, entity);
}

static void search_sql_put_key(qp_buf *sql, const ent_entity *entity, size_t at)
{
    (void)at; /* there is one */
    search_sql_index(sql, entity);
    qp_buf_puts(sql, ".rowid");
}

static void search_sql_put_order(qp_buf *sql, const ent_entity *entity)
{
    (void)entity;
    qp_buf_puts(sql, " ORDER BY rank,rowid");
}

const qp_searcher qp_sqlite_searcher = {
    .version = 1,
    .put_index = search_sql_put_index,
    .unindex_end = "",
    .put_clear = search_sql_put_clear,
    .put_check = search_sql_put_check,
    .put_hits = search_sql_put_hits,
    .put_key = search_sql_put_key,
    .put_order = search_sql_put_order,
    .leaves_words = true,
};
