/* What full-text search asks of an engine, beside engine.h: the text of its statements. Conditions
 * on the entity's own rows are the runtime's. An engine either cuts texts into words by itself, in
 * its statements, or has them cut here and is handed row after row (`gather`). */
#ifndef QP_ENT_SEARCH_ENGINE_H
#define QP_ENT_SEARCH_ENGINE_H

#include <ent/ent.h>

#include "base/buf.h"
#include "ent/engine.h"

#define QP_SEARCH_KEYS_MAX 2

typedef struct qp_searcher {
    uint32_t version; /* 1; functions are only ever appended */

    /* Append to `sql`: put rows into the index, or take them out by what they hold; ends with the
     * entity's table, so that a WHERE can follow, and behind that `unindex_end`. With `gather`,
     * the former only reads: the key's columns, then the texts. */
    void (*put_index)(qp_buf *sql, const ent_entity *entity, bool remove);
    const char *unindex_end;
    /* Empty the index. */
    void (*put_clear)(qp_buf *sql, const ent_entity *entity);
    /* Fail unless it holds exactly what the rows hold; NULL: `check` does it. */
    void (*put_check)(qp_buf *sql, const ent_entity *entity);
    /* SELECT key and rank of the rows that have the words bound as 1; ends inside its WHERE. A
     * smaller rank is better. With `doubts`, a third value tells that the row may not have the
     * phrases, and its texts must be looked at. */
    void (*put_hits)(qp_buf *sql, const ent_entity *entity);
    /* One column of the row's integer key, inside put_hits. */
    void (*put_key)(qp_buf *sql, const ent_entity *entity, size_t at);
    /* The order of hits: by rank, then by key. */
    void (*put_order)(qp_buf *sql, const ent_entity *entity);

    /* Take the next row of put_index, values in the order of its columns; NULL: that was the last.
     * NULL function: the statement did it all. */
    quipu_status (*add_row)(void *conn, const ent_entity *entity, const qp_value *row,
                           quipu_error *reterr);
    void (*discard_rows)(void *conn); /* drop what was gathered: the reading failed */
    quipu_status (*check)(void *conn, const ent_entity *entity, quipu_error *reterr);
    bool rechecks;
    /* It keeps an index only by hand: of entities that say `manual`. Every one is cut as `cjk`. */
    bool manual_only;
    /* Words of rows that were taken out are left in it until it is emptied. */
    bool keeps_deleted_words;
} qp_searcher;

/* Whether an index keeps words of rows that were taken out of it. */
bool qp_search_keeps_deleted_words(const ent_db *db);

/* Whether the file has the entity's full-text index: one of an older layout may lack it. */
bool qp_search_is_there(const ent_db *db, const ent_entity *entity);

/* How many columns the key of a searched entity has in this engine. */
static inline size_t qp_search_keys(const qp_engine *engine, const ent_entity *entity)
{
    return engine->packs_clusters ? 1 : entity->key_count;
}

/* Whether its texts are cut with every CJK character as a word. */
static inline bool qp_search_is_cjk(const qp_engine *engine, const ent_entity *entity)
{
    return engine->searcher->manual_only || (entity->flags & ENT_E_SEARCH_CJK) != 0;
}

#endif
