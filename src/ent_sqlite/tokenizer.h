/* Our words (ent/words.h) as a tokenizer of FTS5. */
#ifndef QP_ENT_SQLITE_TOKENIZER_H
#define QP_ENT_SQLITE_TOKENIZER_H

#include "ent_sqlite/open.h"

/* SQLite's FTS5, or NULL when this SQLite is built without it. */
fts5_api *qp_sqlite_fts5(qp_sqlite *conn);

/* What every connection needs before it can use such an index; fine without FTS5. */
int qp_sqlite_register_tokenizer(qp_sqlite *conn);

#endif
