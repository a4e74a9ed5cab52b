/* Full text in SQLite: FTS5 tables over the entities' own tables, which keep no second copy of the
 * text. See ent/search_engine.h for what the runtime asks. */
#ifndef QP_ENT_SQLITE_SEARCH_H
#define QP_ENT_SQLITE_SEARCH_H

#include "base/buf.h"
#include "ent/search_engine.h"
#include "ent_sqlite/open.h"

extern const qp_searcher qp_sqlite_searcher;

/* The user's words as an FTS5 expression: each word and each "quoted phrase" becomes a string, so
 * that nothing can be read as an operator; a * behind it asks for a prefix. */
void qp_sqlite_words(quipu_str words, qp_buf *ret);

/* tokenizer.c: SQLite's FTS5, or NULL when this SQLite is built without it. */
fts5_api *qp_sqlite_fts5(qp_sqlite *conn);

/* Register QP_SQLITE_TOKENIZER, which every connection needs before it can use such an index;
 * succeeds without FTS5, too. Gives SQLite's result code. */
int qp_sqlite_register_tokenizer(qp_sqlite *conn);

#endif
