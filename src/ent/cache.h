/* The statement cache of a connection: prepared statements by entity and shape, least recently used
 * ones leave first. A statement that an iterator holds is neither reused nor evicted: a second use
 * of the same shape prepares a second statement. */
#ifndef QP_ENT_CACHE_H
#define QP_ENT_CACHE_H

#include <ent/ent.h>

#include "ent/engine.h"

#define ENT_CACHE_SLOTS 128
#define QP_CACHE_BUCKETS 256 /* a power of two */

/* One prepared statement. Owned by the cache while `listed`, otherwise by the call that took it. An
 * execution (running, rows, start_ns) ends with qp_cached_reset(), a use (busy, fresh, keep) with
 * qp_cache_release(); a search sets `query` and `left` anew for each use. */
typedef struct qp_cached {
    struct qp_cached *next; /* in its bucket */
    qp_statement *statement;
    const ent_entity *entity;
    uint64_t hash;
    uint64_t used; /* the cache's tick of the last use */
    char *sql;     /* NUL-terminated; the shape's bytes follow it */
    const char *shape;
    size_t shape_n;
    bool busy;        /* taken and not yet released */
    bool listed;      /* in the cache; otherwise it is finalized when it is released */
    bool running;     /* stepped and not yet reset */
    bool fresh;       /* prepared by the current use, for the trace hook */
    uint8_t columns;  /* of its rows */
    uint64_t rows;    /* of the current use */
    int64_t start_ns; /* of the current use, when traced */
    quipu_arena keep; /* values that must outlive the call: an iterator's */
    uint8_t kinds[ENT_FIELDS_MAX];
    struct search_hits *hits; /* of an iterator over hits, in `keep`: see search.c */
} qp_cached;

typedef struct qp_cache {
    qp_cached *buckets[QP_CACHE_BUCKETS];
    size_t count;
    uint64_t tick;
} qp_cache;

/* The statement of db->plan, from the cache or newly prepared; busy until it is released. */
quipu_status qp_cache_take(ent_db *db, qp_cached **ret_cached, quipu_error *reterr);

/* Binds values: db->plan's, or a new row's. Texts and lists must live until the statement is reset.
 */
quipu_status qp_cached_bind(ent_db *db, qp_cached *cached, const qp_value *values, size_t n,
                            quipu_error *reterr);

/* Binds copies of db->plan's values, for an iterator: its caller may free the originals while the
 * statement still runs. */
quipu_status qp_cached_bind_copy(ent_db *db, qp_cached *cached, quipu_error *reterr);

/* Copies a list operand and its items into the arena. */
quipu_status qp_list_copy(quipu_arena *arena, const qp_list_operand **list);

/* Steps; on a row *ret_row is true and `values` holds the columns. */
quipu_status qp_cached_step(ent_db *db, qp_cached *cached, qp_value *values, bool *ret_row,
                            quipu_error *reterr);

/* Ends the current execution; the statement stays busy. */
void qp_cached_reset(ent_db *db, qp_cached *cached, quipu_status status);

/* Ends the use of a statement. NULL is fine. */
void qp_cache_release(ent_db *db, qp_cached *cached, quipu_status status);

/* Forgets every statement: after the layout changed, or at the end. A statement in use is finalized
 * when it is released. */
void qp_cache_clear(ent_db *db);

#endif
