/* What full-text search asks of an engine, beside engine.h: the text of its statements. Conditions
 * on the entity's own rows are the runtime's. */
#ifndef QP_ENT_SEARCH_ENGINE_H
#define QP_ENT_SEARCH_ENGINE_H

#include <ent/ent.h>

#include "base/buf.h"

typedef struct qp_searcher {
    uint32_t version; /* 1; functions are only ever appended */

    /* Append to `sql`: put rows into the index, or take them out by what they hold; ends with the
     * entity's table, so that a WHERE can follow. */
    void (*put_index)(qp_buf *sql, const ent_entity *entity, bool remove);
    /* Empty the index; fail unless it holds exactly what the rows hold. */
    void (*put_clear)(qp_buf *sql, const ent_entity *entity);
    void (*put_check)(qp_buf *sql, const ent_entity *entity);
    /* SELECT key and rank of the rows that have the words bound as 1; ends inside its WHERE. A
     * smaller rank is better. */
    void (*put_hits)(qp_buf *sql, const ent_entity *entity);
    /* The row's integer key, inside put_hits. */
    void (*put_key)(qp_buf *sql, const ent_entity *entity);
    /* The order of hits: by rank, then by key. */
    void (*put_order)(qp_buf *sql, const ent_entity *entity);
    /* SELECT the snippet of one row; bound: words, key, mark before and after, bytes at most. */
    void (*put_snippet)(qp_buf *sql, const ent_entity *entity);
} qp_searcher;

#endif
