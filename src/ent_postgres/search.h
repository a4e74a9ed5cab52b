/* Full-text search. Each searched entity has a second table with the words of its rows as a
 * tsvector, under a GIN index. The words are cut by ent/words.h and not by a text search
 * configuration of the server: the same words are found as in SQLite, on every server and after
 * every upgrade. */
#ifndef QP_ENT_POSTGRES_SEARCH_H
#define QP_ENT_POSTGRES_SEARCH_H

#include "ent/migrate_engine.h"
#include "ent/search_engine.h"
#include "ent_postgres/open.h"

#define QP_PG_SEARCH_SUFFIX "_search" /* behind the name of the entity's table */

/* Limits of one tsvector, PostgreSQL's own. A row with more words is marked as partial: positions
 * that do not fit are left out, so that a phrase match has to be rechecked in the text; words that
 * do not fit do not find the row. */
#define QP_PG_WORDS_BYTES_MAX 1048575 /* of different words with their positions */
#define QP_PG_WORD_POSITIONS_MAX 255  /* of one word */
#define QP_PG_POSITION_MAX 16383

extern const qp_searcher qp_pg_searcher;
extern const qp_searcher qp_pg_citus_searcher; /* of a distributed store */

/* Appends the texts of a row as a binary tsvector; *ret_partial: it did not hold everything. */
quipu_status qp_pg_put_words(const quipu_str *texts, size_t n, qp_buf *out, bool *ret_partial);

/* Migration: the statements that create an index, and whether it exists. */
void qp_pg_put_search(qp_buf *out, const ent_entity *entity);
qp_search_state qp_pg_search_state(const ent_entity *entity, const qp_file_shape *shape);

/* Frees a connection's batch of rows for an index. NULL is fine. */
void qp_pg_index_batch_free(struct qp_pg_index_batch *index_batch);

#endif
