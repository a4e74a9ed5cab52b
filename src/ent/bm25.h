/* BM25, the one ranking by words of this library: recall uses it for the messages of a scope
 * (store/recall_rank.c), full-text search for hits (hits.c). */
#ifndef QP_ENT_BM25_H
#define QP_ENT_BM25_H

#include <stdint.h>

#define QP_BM25_K1 1.2 /* how soon more of the same word counts for nothing; docs/recall.md */
#define QP_BM25_B 0.75 /* how much a long text has to have more of a word than a short one */

/* The weight of a word that `with` of `all` texts have. Never 0 or less: also a word of every text
 * counts for something. */
double qp_bm25_idf(int64_t with, int64_t all);

/* The amount that a word adds to the score of a text that has it `count` times. `relative` is the
 * text's length by the average. */
double qp_bm25_part(double k1, double b, double idf, double count, double relative);

#endif
