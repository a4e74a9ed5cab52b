/* Full text in PostgreSQL: beside an entity's table stands another with the words of its rows as a
 * tsvector, found by a GIN index. The words are cut here (ent/words.h), never by a dictionary of
 * the server, so that the same are found as in SQLite, on every server, for ever. */
#ifndef QP_ENT_POSTGRES_SEARCH_H
#define QP_ENT_POSTGRES_SEARCH_H

#include "ent/migrate_engine.h"
#include "ent/search_engine.h"
#include "ent_postgres/open.h"

#define QP_PG_SEARCH_SUFFIX "_search" /* behind the name of the entity's table */

/* What the words of one row may take. A row that has more is marked as partial: positions that do
 * not fit are left out, and phrases are then looked for in the text itself; words that do not fit
 * do not find the row. */
#define QP_PG_WORDS_BYTES_MAX 1048575 /* of different words with their positions */
#define QP_PG_WORD_POSITIONS_MAX 255  /* of one word */
#define QP_PG_POSITION_MAX 16383

extern const qp_searcher qp_pg_searcher;

/* Texts of a row as the text of a tsvector. */
quipu_status qp_pg_put_words(const quipu_str *texts, size_t n, qp_buf *out, bool *ret_partial);

/* Migration: the statements that make an index, and whether there is one. */
void qp_pg_put_search(qp_buf *out, const ent_entity *entity);
qp_search_state qp_pg_search_state(const ent_entity *entity, const qp_file_shape *shape);

/* Free what a connection gathered. NULL is fine. */
void qp_pg_gathered_free(struct qp_pg_gathered *gathered);

#endif
