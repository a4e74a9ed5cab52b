/* The words of a full-text index: SQLite's unicode61 for everything that writes words with spaces
 * or marks between them, and one token a character for Chinese, Japanese and Korean. A quoted text
 * of several such characters is a phrase to FTS5, so that words of two characters, and of one, are
 * found without knowing where words begin (docs/decisions/0004-search.md). */
#ifndef QP_ENT_SQLITE_TOKENIZER_H
#define QP_ENT_SQLITE_TOKENIZER_H

#include "ent_sqlite/open.h"

#define QP_TOKEN_BYTES_MAX 256 /* a longer word is known by its beginning */

/* SQLite's FTS5, or NULL when this SQLite is built without it. */
fts5_api *qp_sqlite_fts5(qp_sqlite *conn);

/* What every connection needs before it can use such an index; fine without FTS5. */
int qp_sqlite_register_tokenizer(qp_sqlite *conn);

/* Whether a character is a token of its own. */
bool qp_sqlite_is_cjk(uint32_t point);

#endif
