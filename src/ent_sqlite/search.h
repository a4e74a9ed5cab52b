/* Full text in SQLite: FTS5 tables over the entities' own tables, which keep no second copy of the
 * text. See ent/search_engine.h for what the runtime asks. */
#ifndef QP_ENT_SQLITE_SEARCH_H
#define QP_ENT_SQLITE_SEARCH_H

#include "base/buf.h"
#include "ent/search_engine.h"

extern const qp_searcher qp_sqlite_searcher;

/* The user's words as an FTS5 expression: each word and each "quoted phrase" becomes a string, so
 * that nothing can be read as an operator; a * behind it asks for a prefix. */
void qp_sqlite_words(quipu_str words, qp_buf *ret);

#endif
