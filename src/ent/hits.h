/* Hits of a search, and the one ranking of them for every engine (docs/decisions/0053-ranks.md).
 *
 *   engine ──▶ window: rows with the highest keys, how often each has each phrase, how long it is
 *                 │       (SQLite: from its index; PostgreSQL: counted in the rows' texts)
 *   caller ──▶ leaves out what must not be seen, joins windows ──▶ qp_hits_rank()
 *
 * How rare a phrase is, is counted among the hits that are ranked together: a rank says nothing of
 * rows that are not among them.
 *
 * Owns: what a rank is. Called by: search.c, and store/search_find.c, which joins windows. Locks:
 * none. */
#ifndef QP_ENT_HITS_H
#define QP_ENT_HITS_H

#include <ent/search.h>

#include "ent/match.h"

#define QP_HITS_PHRASES_MAX 16 /* the first wanted words and phrases of a query, which rank hits */

typedef struct qp_hit {
    ent_hit at;                           /* its rank: see qp_hits_rank() */
    uint32_t words;                       /* of the row's texts */
    uint32_t counts[QP_HITS_PHRASES_MAX]; /* how often they have each wanted phrase, if they meet
                                           * its alternative */
} qp_hit;

/* A query as the engines' expressions have it: each alternative's wanted phrases in each of their
 * spellings, then those that it excludes. Ends with the last phrase that ranks. */
typedef struct qp_hits_query {
    qp_match_query spelled; /* a phrase for each spelling */
    bool respelled;         /* some phrase has more than one */
    size_t *ranks;          /* the number of the wanted phrase that each one spells, or... */
} qp_hits_query;

#define QP_HITS_NO_RANK ((size_t)-1) /* ...that it is excluded */

QUIPU_MUST_USE quipu_status qp_hits_query_make(quipu_arena *arena, const qp_match_query *query,
                                               qp_hits_query *ret, quipu_error *reterr);

/* Sets words and counts of a hit by the numbers of an engine's index, each a uint32_t: its words,
 * then how often it has each phrase of the expression. */
void qp_hits_set(const qp_hits_query *query, quipu_bytes numbers, qp_hit *hit);

/* The same by the row's texts, as they were written. */
QUIPU_MUST_USE quipu_status qp_hits_count(quipu_arena *arena, const qp_hits_query *query,
                                          const quipu_str *texts, size_t n, qp_hit *hit,
                                          quipu_error *reterr);

/* Ranks hits by BM25 and sorts them, the best first, equal ones by key. A rank is the share of what
 * a row would reach that had nothing but the phrases, each endlessly often: more than 0, less than
 * 1. */
void qp_hits_rank(qp_hit *hits, size_t n);

/* Reads the next window of hits, in no order; `ret_hits` has room for ENT_HITS_WINDOW. False at the
 * end, or on an error, which ent_iter_end() returns. Hits of a query beyond ASCII may not hold: see
 * qp_hits_holds(). An iterator is read by this function or by ent_hits_next(), never by both. */
bool qp_hits_next_window(ent_iter *iter, qp_hit *ret_hits, size_t *ret_n);

/* Ends the first window after so many rows, so that its caller may decide early how to go on; the
 * next one begins behind it and is whole. Before the first window. False where a window comes as a
 * whole anyway. */
bool qp_hits_peek(ent_iter *iter, int64_t rows);

/* Whether a hit has the words, in whichever form both are composed (forms.h). Reads its row. */
QUIPU_MUST_USE quipu_status qp_hits_holds(ent_db *db, const ent_entity *entity, quipu_str words,
                                          const ent_hit *hit, bool *ret_holds, quipu_error *reterr);

#endif
