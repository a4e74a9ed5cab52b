/* Full-text search over entities that say `search (...)`, in PostgreSQL over `manual` ones: hits in
 * the order of their rank, snippets, and, for those that say `manual`, the keeping of the index. A
 * condition `.search = ent_match(...)` in a query needs none of this; PostgreSQL has no such
 * condition. Generated headers wrap these functions in typed ones. */
#ifndef ENT_SEARCH_H
#define ENT_SEARCH_H

#include <ent/ent.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENT_SNIPPET_BYTES_MAX 65536 /* text of a snippet, marks not counted */
#define ENT_HITS_WINDOW 1024        /* hits that are ranked together */

/* One row that has the words. */
typedef struct ent_hit {
    int64_t key; /* the row's int key; of a cluster, its first field */
    int64_t seq; /* the second field of a cluster, else 0 */
    double rank; /* from 0 to 1, larger is better: by BM25 among the hits of its window */
} ent_hit;

/* What a snippet marks, and how. */
typedef struct ent_marks {
    quipu_str words;  /* that the hit was found by */
    quipu_str before; /* stands before a matching word, and... */
    quipu_str after;  /* ...behind it */
    int64_t bytes;    /* of text at most, 16 to ENT_SNIPPET_BYTES_MAX */
} ent_marks;

/**
 * Put the rows that meet a condition into a `manual` index. A row must be put in once, and taken
 * out before it changes or goes.
 *
 * Ownership: `ret_count` may be NULL.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_MISUSE (no such index, an empty condition, or one on `search`), QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_LIMIT.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_index_rows(ent_db *db, const ent_entity *entity,
                                                     const void *where, int64_t *ret_count,
                                                     quipu_error *reterr);

/**
 * Take the rows that meet a condition out of a `manual` index, before they change or go. Rows that
 * were never put in must not be among them.
 *
 * Ownership: `ret_count` may be NULL.
 * Threads:   the connection's thread.
 * Errors:    as ent_index_rows().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_unindex_rows(ent_db *db, const ent_entity *entity,
                                                       const void *where, int64_t *ret_count,
                                                       quipu_error *reterr);

/**
 * Empty a `manual` index.
 *
 * Ownership: none.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_MISUSE, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_index_clear(ent_db *db, const ent_entity *entity,
                                                      quipu_error *reterr);

/**
 * Whether a `manual` index and the rows agree, word for word. All rows must have been put in. Reads
 * everything, in the connection's snapshot, and takes no lock.
 *
 * Ownership: none.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_CORRUPT (they differ), QUIPU_MISUSE, QUIPU_BUSY, QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_index_check(ent_db *db, const ent_entity *entity,
                                                      quipu_error *reterr);

/**
 * Start reading the rows that have the words (all of them; OR separates alternatives, NOT leaves
 * rows out: see quipu_search()) and meet a condition (NULL: any), best first,
 * equal ones by key. Where there are more than ENT_HITS_WINDOW, those with the highest keys come
 * first, then the next as many, each window best first: the first hits of a common word do not
 * wait until all are ranked. Words are plain; "a phrase" stands in quotes; a * behind one matches
 * a prefix;
 * no text is an error. `limit` 0 gives all.
 *
 * Ownership: step with ent_hits_next(), end with ent_iter_end().
 * Threads:   the connection's thread.
 * Errors:    QUIPU_MISUSE (no index), QUIPU_INVALID (no UTF-8, or a NUL), QUIPU_LIMIT, QUIPU_BUSY,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_hits_begin(ent_db *db, const ent_entity *entity,
                                                     quipu_str words, const void *where,
                                                     int64_t limit, ent_iter *ret_iter,
                                                     quipu_error *reterr);

/**
 * Step to the next hit; false at the end or on an error, which ent_iter_end() returns.
 *
 * Ownership: a value.
 * Threads:   the connection's thread.
 * Errors:    none; see ent_iter_end().
 * Since:     0.1
 */
QUIPU_API bool ent_hits_next(ent_iter *iter, ent_hit *ret_hit);

/**
 * The part of a hit's text where the most of the words stand together, the words marked. Ends that
 * were cut off have an ellipsis; no character is split. Empty when the row does not have the words.
 *
 * Ownership: the text is the arena's.
 * Threads:   the connection's thread.
 * Errors:    as ent_hits_begin().
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_snippet(ent_db *db, quipu_arena *arena,
                                                  const ent_entity *entity, const ent_hit *hit,
                                                  const ent_marks *marks, quipu_str *ret_snippet,
                                                  quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
