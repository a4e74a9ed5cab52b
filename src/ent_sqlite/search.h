/* Full-text search in SQLite: FTS5 tables with external content, which hold an index over an
 * entity's own table and no second copy of the text. See ent/search_engine.h for the interface. */
#ifndef QP_ENT_SQLITE_SEARCH_H
#define QP_ENT_SQLITE_SEARCH_H

#include "base/buf.h"
#include "ent/search_engine.h"
#include "ent_sqlite/open.h"

extern const qp_searcher qp_sqlite_searcher;

/* Appends a user's words as an FTS5 expression. Each word and each "quoted phrase" becomes a string
 * literal, so that nothing is read as an operator; a * behind it asks for a prefix. */
void qp_sqlite_words(quipu_str words, qp_buf *ret);

/* search_check.c: members of qp_searcher. */
quipu_status qp_sqlite_search_check(void *conn, const ent_entity *entity, const ent_field *reaches,
                                    quipu_error *reterr);
quipu_status qp_sqlite_search_discard(void *conn, const ent_entity *entity, quipu_error *reterr);

/* search_clean.c: the same. */
quipu_status qp_sqlite_search_clean(void *conn, const ent_entity *entity, bool first,
                                    qp_search_cleaned *ret, quipu_error *reterr);

/* tokenizer.c: SQLite's FTS5, or NULL when this SQLite is built without it. */
fts5_api *qp_sqlite_fts5(qp_sqlite *conn);

/* Register QP_SQLITE_TOKENIZER and QP_SQLITE_COUNTS, which every connection needs before it can use
 * such an index; succeeds without FTS5, too. Gives SQLite's result code. */
int qp_sqlite_register_tokenizer(qp_sqlite *conn);

/* search_count.c: the function that counts the phrases of a hit. */
#define QP_SQLITE_COUNTS "quipu_counts"
int qp_sqlite_register_counts(fts5_api *api);

#endif
