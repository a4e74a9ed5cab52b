/* Full-text search in SQLite: the statements over an FTS5 table with external content, and what a
 * user types as an FTS5 expression. Such a table does not follow the entity's table: a row leaves
 * the index only by a 'delete' with the very words that it was indexed with. The runtime
 * (src/ent/search.c) calls these through qp_sqlite_searcher. They only write text. */
#include "ent_sqlite/search.h"

#include "ent/words.h"
#include "ent_sqlite/ddl.h"

static void search_index(qp_buf *sql, const ent_entity *entity)
{
    qp_sqlite_put_suffixed(sql, entity->table, QP_SQLITE_SEARCH_SUFFIX);
}

static void search_columns(qp_buf *sql, const ent_entity *entity)
{
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_putc(sql, ',');
        qp_sqlite_put_name(sql, entity->fields[entity->search_fields[i]].column);
    }
}

static void search_put_index(qp_buf *sql, const ent_entity *entity, bool remove)
{
    qp_buf_puts(sql, "INSERT INTO ");
    search_index(sql, entity);
    qp_buf_puts(sql, " (");
    if (remove) {
        search_index(sql, entity);
        qp_buf_putc(sql, ',');
    }
    qp_buf_puts(sql, "rowid");
    search_columns(sql, entity);
    qp_buf_puts(sql, remove ? ") SELECT 'delete'," : ") SELECT ");
    qp_sqlite_put_name(sql, qp_sqlite_row_key(entity));
    search_columns(sql, entity);
    qp_buf_puts(sql, " FROM ");
    qp_sqlite_put_name(sql, entity->table);
}

static void search_put_clear(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "INSERT INTO ");
    search_index(sql, entity);
    qp_buf_puts(sql, " (");
    search_index(sql, entity);
    qp_buf_puts(sql, ") VALUES ('delete-all')");
}

static void search_put_check(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "INSERT INTO ");
    search_index(sql, entity);
    qp_buf_puts(sql, " (");
    search_index(sql, entity);
    /* rank 1: compare with the table, too */
    qp_buf_puts(sql, ",rank) VALUES ('integrity-check',1)");
}

static void search_from(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, " FROM ");
    search_index(sql, entity);
    qp_buf_puts(sql, " WHERE ");
    search_index(sql, entity);
    qp_buf_puts(sql, " MATCH ?1");
}

static void search_put_hits(qp_buf *sql, const ent_entity *entity)
{
    qp_buf_puts(sql, "SELECT rowid,rank");
    search_from(sql, entity);
}

static void search_put_key(qp_buf *sql, const ent_entity *entity, size_t at)
{
    (void)at; /* there is one */
    search_index(sql, entity);
    qp_buf_puts(sql, ".rowid");
}

static void search_put_order(qp_buf *sql, const ent_entity *entity)
{
    (void)entity;
    qp_buf_puts(sql, " ORDER BY rank,rowid");
}

const qp_searcher qp_sqlite_searcher = {
    .version = 1,
    .put_index = search_put_index,
    .unindex_end = "",
    .put_clear = search_put_clear,
    .put_check = search_put_check,
    .put_hits = search_put_hits,
    .put_key = search_put_key,
    .put_order = search_put_order,
    .leaves_words = true,
};

void qp_sqlite_words(quipu_str words, qp_buf *ret)
{
    const char *at = words.p;
    const char *end = words.p + words.n;
    const size_t empty = ret->n;
    qp_phrase phrase;

    while (qp_phrase_next(&at, end, &phrase)) {
        if (phrase.text.n == 0) {
            continue;
        }
        qp_buf_putc(ret, '"');
        qp_buf_put(ret, phrase.text); /* it holds no quote: that would have ended it */
        qp_buf_puts(ret, phrase.prefix ? "\"* " : "\" ");
    }
    if (ret->n == empty) {
        qp_buf_puts(ret, "\"\""); /* no words match nothing; an empty text would be an error */
    }
}
