/* The text of a search: words for the index, and filters on the messages that have them.
 *
 *    train OR bus NOT cancelled author:"Ana Maria" NOT role:tool after:2026-03-01
 *    └─ words, see ent/words.h ┘ └─ filters: each of them holds for the whole query ──┘
 *
 * Owns: the syntax of filters. Pure functions over a text; no lock, no transaction.
 * Called by: search_find.c. */
#ifndef QP_STORE_SEARCH_QUERY_H
#define QP_STORE_SEARCH_QUERY_H

#include "store/store.h"

#define QP_SEARCH_FILTERS_MAX 16 /* filters of one query */

/* A query, read. Its texts lie in `text` and `clean`, so that it must not be copied. */
typedef struct qp_search_query {
    quipu_str words; /* the query with spaces where a filter stood */
    qp_message_where filters[QP_SEARCH_FILTERS_MAX];
    size_t wanted_count;                /* at the beginning of `filters` */
    size_t excluded_count;              /* at its end */
    char text[QUIPU_SEARCH_QUERY_MAX];  /* of `words` */
    char clean[QUIPU_SEARCH_QUERY_MAX]; /* the query with a space for whatever is not text */
} qp_search_query;

/* Reads a query of at most QUIPU_SEARCH_QUERY_MAX bytes. A filter with a wrong value, one that is
 * an alternative, and filters without a word beside them are QUIPU_INVALID, and named. */
QUIPU_MUST_USE quipu_status qp_search_query_read(qp_search_query *query, quipu_str text,
                                                 quipu_error *reterr);

#endif
