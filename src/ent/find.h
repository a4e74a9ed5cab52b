/* Reading rows: what find, one, eager loading and iterators share. */
#ifndef QP_ENT_FIND_H
#define QP_ENT_FIND_H

#include "ent/db.h"

/* Reads all rows of a bound statement into db->rows, behind the *count rows that are there; texts
 * go to the arena. */
quipu_status qp_find_rows(ent_db *db, qp_cached *cached, quipu_arena *arena, size_t *count,
                          quipu_error *reterr);

/* Copies the first `count` rows of db->rows to the arena. */
quipu_status qp_find_to_arena(ent_db *db, const ent_entity *entity, quipu_arena *arena,
                              size_t count, char **ret_rows, quipu_error *reterr);

/* Members of a row that a query does not read, by their offsets in the row's struct: each is
 * absent, or 0 where a number is required. Only such fields can be left out. */
typedef struct qp_without {
    const size_t *rows;
    size_t n;
} qp_without;

/* Plans the SELECT of an X_query; `limit` replaces the query's when it is not 0. */
quipu_status qp_find_plan(ent_db *db, const ent_entity *entity, const void *query, int64_t limit,
                          qp_without without, quipu_error *reterr);

/* As ent_iter_begin(), for a caller that does not need all of a row. A column costs about as much
 * as it takes to decode it, several times what its bytes do. */
QUIPU_MUST_USE quipu_status qp_iter_begin_without(ent_db *db, const ent_entity *entity,
                                                  const void *query, qp_without without,
                                                  ent_iter *ret_iter, quipu_error *reterr);

/* The planned SELECT is read row by row and has no limit: an engine that would otherwise hold all
 * rows at once fetches them in chunks. Only inside of a transaction: outside, nothing would make
 * the chunks one snapshot. */
void qp_find_in_chunks(ent_db *db);

/* Whether a query names any edge. */
bool qp_query_has_edges(const ent_entity *entity, const void *query);

/* Rows whose edges are to be loaded: `n` rows in the arena. */
typedef struct qp_eager_level {
    quipu_arena *arena;
    const ent_entity *entity;
    char *rows;
    size_t n;
    unsigned depth; /* 0: the rows of the query itself */
} qp_eager_level;

/* Loads the edges that `query` names for a level, and the levels below it. */
quipu_status qp_eager_load(ent_db *db, const qp_eager_level *level, const void *query,
                           quipu_error *reterr);

#endif
