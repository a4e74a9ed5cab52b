/* The functions of an engine that full-text search needs besides engine.h: the text of its
 * statements. Conditions on the entity's own rows are written by src/ent. An engine either cuts
 * texts into words by itself, in its statements, or is given row after row and cuts them with
 * ent/words.h (`add_row`).
 */
#ifndef QP_ENT_SEARCH_ENGINE_H
#define QP_ENT_SEARCH_ENGINE_H

#include <ent/ent.h>

#include "base/buf.h"
#include "ent/engine.h"

#define QP_SEARCH_KEYS_MAX 2

/* The result of a step of qp_searcher.clean. */
typedef enum qp_search_cleaned {
    QP_SEARCH_CLEANED = 0,
    QP_SEARCH_CLEANS,      /* another step is needed */
    QP_SEARCH_CANNOT_CLEAN /* the index has to be emptied instead */
} qp_search_cleaned;

/* The parts that qp_searcher.put_walk writes; sql_hits() in sql.c has the statement. */
typedef enum qp_search_walk_part {
    QP_SEARCH_SAMPLE_END, /* behind the range of the sample */
    QP_SEARCH_WALK_WORDS, /* behind the range of the walk: conditions on rows follow */
    QP_SEARCH_WALK_END,   /* behind them; ends inside of a WHERE, as put_hits without put_walk */
} qp_search_walk_part;

typedef struct qp_searcher {
    uint32_t version; /* 1; functions are only ever appended */

    /* Appends the statement that adds rows to the index, or removes them; ends with the entity's
     * table, so that a WHERE can follow, and `unindex_end` behind it. With `add_row` the former is
     * a SELECT: the key's columns, then the texts. */
    void (*put_index)(qp_buf *sql, const ent_entity *entity, bool remove);
    const char *unindex_end;
    /* Empties the index. */
    void (*put_clear)(qp_buf *sql, const ent_entity *entity);
    /* SELECT of the rows that match the words bound as 1; ends inside of a WHERE. Columns: the key,
     * then what ranks the row: its numbers as qp_hits_set() takes them; with `reads_texts` whether
     * the index may lack some of its words, so that its texts have to be rechecked, and these. */
    void (*put_hits)(qp_buf *sql, const ent_entity *entity);
    /* One column of the row's integer key, inside put_hits. */
    void (*put_key)(qp_buf *sql, const ent_entity *entity, size_t at);
    /* Ends the statement: the ENT_HITS_WINDOW rows with the highest keys, in any order. */
    void (*put_window)(qp_buf *sql, const ent_entity *entity);

    /* Takes the next row of put_index, values in the order of its columns; NULL: that was the last.
     * NULL function: the statement of put_index does it all. */
    quipu_status (*add_row)(void *conn, const ent_entity *entity, const qp_value *row,
                            quipu_error *reterr);
    void (*discard_rows)(void *conn); /* forgets the rows added so far: reading them failed */
    /* QUIPU_CORRUPT unless the index holds exactly the words of the rows. With `reaches`, a field
     * of the owner of a cluster, of the rows whose number is at most that field. Reads only. */
    quipu_status (*check)(void *conn, const ent_entity *entity, const ent_field *reaches,
                          quipu_error *reterr);
    bool reads_texts; /* the index does not say how often a row has a phrase */
    /* Only entities that say `manual` have an index, and all of them are cut as `cjk`. */
    bool manual_only;
    /* Removing a row leaves its words in the index's storage. Each call rids it of some, inside of
     * a write transaction, in bounded time; `first`: of the words of all rows that are removed
     * now. Other writers may come between two calls. NULL: words go with their row. */
    quipu_status (*clean)(void *conn, const ent_entity *entity, bool first, qp_search_cleaned *ret,
                          quipu_error *reterr);
    /* Replaces an index that cannot even be emptied by an empty one, inside of the caller's
     * transaction. Its old bytes stay in the file, out of reach, until the file is rewritten. NULL:
     * the index is an ordinary table. */
    quipu_status (*discard)(void *conn, const ent_entity *entity, quipu_error *reterr);
    /* For an index that gives all matches before the first one is read: words that most rows have
     * are found by walking through the rows instead. put_hits then ends where a range of the key
     * can follow, and the statement repeats ranges and conditions between these parts. NULL: the
     * index stops by itself. */
    void (*put_walk)(qp_buf *sql, const ent_entity *entity, qp_search_walk_part part);
    /* SQL of the shard of a row of the index, inside put_hits. NULL: the index has none. */
    const char *hit_shard;
} qp_searcher;

/* One step of qp_searcher.clean, in the caller's write transaction. QP_SEARCH_CANNOT_CLEAN also
 * when the index is known to be damaged. */
QUIPU_MUST_USE quipu_status qp_search_clean(ent_db *db, const ent_entity *entity, bool first,
                                            qp_search_cleaned *ret, quipu_error *reterr);

/* Whether the index has a structure of its own, which can be damaged while the rows are sound. */
bool qp_search_is_apart(const ent_db *db);

/* Damage that a writing connection met in the index. After it SQLite refuses every other write of
 * the transaction, so that the transaction is retried (qp_db_is_transient()) and passes the index
 * over, as all later ones do until the index is cleared. */
bool qp_search_is_damage(const ent_db *db, quipu_status status);
void qp_search_set_damaged(ent_db *db);
bool qp_search_is_damaged(const ent_db *db);

/* As ent_index_clear(), for an index that may be damaged. *ret_discarded: it was replaced, and the
 * file has to be rewritten to be rid of what it held. */
QUIPU_MUST_USE quipu_status qp_search_clear(ent_db *db, const ent_entity *entity,
                                            bool *ret_discarded, quipu_error *reterr);

/* Whether the file has the entity's full-text index: one of an older layout may lack it. */
bool qp_search_is_there(const ent_db *db, const ent_entity *entity);

/* Whether a `manual` index holds exactly the words of the rows that it must hold: see
 * qp_searcher.check. Reads only, in the caller's snapshot. */
QUIPU_MUST_USE quipu_status qp_search_check_index(ent_db *db, const ent_entity *entity,
                                                  const ent_field *reaches, quipu_error *reterr);

/* How far a call may index. It asks row after row, in the order of the key, before it adds one:
 * `bytes` of searched texts; false: this row and those behind it are left out. */
typedef struct qp_index_limit {
    int64_t rows; /* that it asks for at most */
    bool (*fits)(void *ctx, int64_t seq, int64_t bytes);
    void *ctx;
} qp_index_limit;

/* Whether rows are read on their way into the index: an engine that has `add_row`. */
bool qp_search_reads_rows(const ent_db *db);

/* As ent_index_rows(), for such an engine and for rows of one owner: what has to be known of a row
 * before it is added is seen when it is read for the index anyway. */
QUIPU_MUST_USE quipu_status qp_search_index_some(ent_db *db, const ent_entity *entity,
                                                 const void *where, const qp_index_limit *limit,
                                                 int64_t *ret_count, quipu_error *reterr);

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
