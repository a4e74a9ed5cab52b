/* The statements of full-text search, and a user's words as an FTS5 expression. An FTS5 table with
 * external content does not see the changes of its content table: each row has to be inserted with
 * its text and, to be removed, given to the 'delete' command with the very text that was inserted.
 *
 * Owns: the table qp_sqlite_searcher; pure functions that append text.
 * Called by: src/ent/sql.c through qp_searcher; stmt.c when QP_WORDS is bound.
 * On failure the buffer keeps its status, which sql.c looks at once, at the end. */
#include "ent_sqlite/search.h"

#include <assert.h>

#include <ent/search.h>

#include "ent/forms.h"
#include "ent/plan.h"
#include "ent/words.h"
#include "ent_sqlite/ddl.h"

/* The quoted name of an entity's FTS5 table. */
static void search_index(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->table != NULL);
    qp_sqlite_put_suffixed(sql, entity->table, QP_SQLITE_SEARCH_SUFFIX);
}

/* The indexed columns, each behind a comma. */
static void search_columns(qp_buf *sql, const ent_entity *entity)
{
    assert(entity->search_count > 0);
    for (size_t i = 0; i < entity->search_count; i++) {
        qp_buf_putc(sql, ',');
        qp_sql_name(sql, entity->fields[entity->search_fields[i]].column);
    }
}

/* INSERT ... SELECT from the content table; a WHERE can follow. The caller's WHERE and parameters
 * name the content table, whose rows must be there in both cases: a row is removed from the index
 * before it is deleted. */
static void search_put_index(qp_buf *sql, const ent_entity *entity, bool remove)
{
    assert(sql != NULL);
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
    qp_sql_name(sql, qp_sqlite_row_key(entity));
    search_columns(sql, entity);
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, entity->table);
}

/* FTS5's 'delete-all' command: empties the index without reading the content table. FTS5 offers it
 * for tables without content of their own only, which these are. */
static void search_put_clear(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    qp_buf_puts(sql, "INSERT INTO ");
    search_index(sql, entity);
    qp_buf_puts(sql, " (");
    search_index(sql, entity);
    qp_buf_puts(sql, ") VALUES ('delete-all')");
}

/* The match's expression is parameter 1; the counts are those of search_count.c. The words of a row
 * come from FTS5's table of sizes by a subquery: FTS5 itself runs a statement of its own for each
 * row, which took 45 % of a search for two common words. */
static void search_put_hits(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    qp_buf_puts(sql, "SELECT rowid," QP_SQLITE_COUNTS "(");
    search_index(sql, entity);
    qp_buf_puts(sql, ",(SELECT sz FROM ");
    qp_sqlite_put_suffixed(sql, entity->table, QP_SQLITE_SEARCH_SUFFIX "_docsize");
    qp_buf_puts(sql, " WHERE id=");
    search_index(sql, entity);
    qp_buf_puts(sql, ".rowid)) FROM ");
    search_index(sql, entity);
    qp_buf_puts(sql, " WHERE ");
    search_index(sql, entity);
    qp_buf_puts(sql, " MATCH ?1");
}

/* The rowid is the only column of the key. */
static void search_put_key(qp_buf *sql, const ent_entity *entity, size_t at)
{
    assert(at == 0);
    (void)at; /* there is one */
    search_index(sql, entity);
    qp_buf_puts(sql, ".rowid");
}

/* FTS5 reads the keys of a word in either order. */
static void search_put_window(qp_buf *sql, const ent_entity *entity)
{
    assert(sql != NULL);
    (void)entity;
    qp_buf_printf(sql, " ORDER BY rowid DESC LIMIT %d", ENT_HITS_WINDOW);
}

const qp_searcher qp_sqlite_searcher = {
    .version = 1,
    .put_index = search_put_index,
    .unindex_end = "",
    .put_clear = search_put_clear,
    .put_hits = search_put_hits,
    .put_key = search_put_key,
    .put_window = search_put_window,
    .check = qp_sqlite_search_check,
    .clean = qp_sqlite_search_clean,
    .discard = qp_sqlite_search_discard,
};

/* Whether a part has a word: FTS5 lets one without match nothing beside AND. */
static bool search_has_word(quipu_str text)
{
    qp_word_reader reader;
    qp_word word;

    qp_words_begin(&reader, text, true);
    return qp_words_next(&reader, &word);
}

/* Appends a part, in one of its spellings (ent/forms.h) where it is wanted. A text holds no quote:
 * that would have ended it. */
static void search_put_part(const qp_query_part *part, quipu_arena *arena, qp_buf *ret)
{
    quipu_str forms[QP_FORMS_MAX];
    size_t n = qp_forms_of(arena, part->phrase.text, forms);

    qp_buf_fail(ret, n > 0 ? QUIPU_OK : QUIPU_NOMEM);
    n = part->excluded && n > 1 ? 1 : n;
    qp_buf_puts(ret, n > 1 ? "(" : "");
    for (size_t i = 0; i < n; i++) {
        qp_buf_puts(ret, i > 0 ? " OR \"" : "\"");
        qp_buf_put(ret, forms[i]);
        qp_buf_puts(ret, part->phrase.prefix ? "\"*" : "\"");
    }
    qp_buf_puts(ret, n > 1 ? ")" : "");
}

/* Appends the parts of one alternative that are excluded, joined by OR, or the others, joined by
 * AND, and returns how many they are. *reader begins and ends between two alternatives. *ret_more:
 * another one follows. */
static size_t search_put_parts(qp_query_reader *reader, size_t alternative, bool excluded,
                               quipu_arena *arena, qp_buf *ret, bool *ret_more)
{
    qp_query_reader before = *reader;
    qp_query_part part;
    size_t count = 0;

    while ((*ret_more = qp_query_next(reader, &part)) && part.alternative == alternative) {
        before = *reader;
        if (part.excluded == excluded && search_has_word(part.phrase.text)) {
            qp_buf_puts(ret, count++ == 0 ? "(" : excluded ? " OR " : " AND ");
            search_put_part(&part, arena, ret);
        }
    }
    qp_buf_puts(ret, count > 0 ? ")" : "");
    *reader = before;
    return count;
}

/* One expression: ("a" AND "b") NOT ("c" OR "d") OR ("e"). In FTS5 NOT binds tighter than OR. One
 * NOT for all excluded parts, because nested ones are limited. Without any word the expression is
 * "", which matches nothing; an empty expression would be a syntax error. */
void qp_sqlite_words(quipu_str words, qp_buf *ret)
{
    const size_t empty = ret->n;
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_query_reader reader;
    bool more = true;

    qp_query_begin(&reader, words);
    for (size_t alternative = 0; more; alternative++) {
        qp_query_reader again = reader;
        const size_t start = ret->n;

        qp_buf_puts(ret, start > empty ? " OR " : "");
        if (search_put_parts(&reader, alternative, false, &arena, ret, &more) == 0) {
            qp_buf_cut(ret, start); /* nothing is wanted: it matches nothing */
        } else {
            const size_t wanted = ret->n;

            qp_buf_puts(ret, " NOT ");
            if (search_put_parts(&again, alternative, true, &arena, ret, &more) == 0) {
                qp_buf_cut(ret, wanted);
            }
        }
    }
    if (ret->n == empty) {
        qp_buf_puts(ret, "\"\"");
    }
    quipu_arena_free(&arena);
}
