/* Full-text search over the messages of a store: ranked hits with snippets. <quipu/store.h>
 * includes it.
 *
 * The open option `search` says when messages enter the index: after the append (lazy), in the
 * append's transaction (inline), or not through this store (off). A query first indexes what is
 * missing: it sees every message that was committed before it began. A deleted message leaves the
 * index in the transaction that deletes it. */
#ifndef QUIPU_SEARCH_H
#define QUIPU_SEARCH_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_SEARCH_QUERY_MAX 4096     /* bytes of a query */
#define QUIPU_SEARCH_LIMIT_MAX 1000     /* hits in one page */
#define QUIPU_SEARCH_LIMIT_DEFAULT 20   /* hits in a page without a limit */
#define QUIPU_SEARCH_OFFSET_MAX 100000  /* hits before a page */
#define QUIPU_SEARCH_MARK_MAX 64        /* bytes of a mark */
#define QUIPU_SEARCH_WINDOW 1024        /* hits that are ranked together; see quipu_search() */
#define QUIPU_SNIPPET_BYTES 320         /* text of a snippet at most, marks not counted */
#define QUIPU_INDEX_BATCH 256           /* messages indexed in one transaction, up to... */
#define QUIPU_INDEX_BATCH_BYTES 1048576 /* ...this many bytes of text, but at least one message */

typedef struct quipu_search_options {
    uint32_t struct_size;
    uint32_t flags;        /* 0 */
    quipu_str query;       /* words; see quipu_search() */
    quipu_str app_name;    /* absent: any */
    quipu_str user_id;     /* absent: any */
    quipu_str session_key; /* absent: all sessions of the tenant */
    quipu_str author;      /* absent: any */
    quipu_role role;       /* 0: any */
    bool has_after;        /* only messages of this instant or later */
    bool has_before;       /* only messages of an earlier instant */
    quipu_time after;
    quipu_time before;
    int64_t limit;         /* 0: QUIPU_SEARCH_LIMIT_DEFAULT; at most QUIPU_SEARCH_LIMIT_MAX */
    int64_t offset;        /* hits to skip; at most QUIPU_SEARCH_OFFSET_MAX */
    quipu_str mark_before; /* text before a matching word; absent: "[" */
    quipu_str mark_after;  /* text behind it; absent: "]" */
} quipu_search_options;

#define QUIPU_SEARCH_OPTIONS_INIT QUIPU_INIT(quipu_search_options)

/* A message that contains the words. */
typedef struct quipu_search_hit {
    quipu_str session_key;
    int64_t seq;
    quipu_role role;
    quipu_str author;
    quipu_time timestamp;
    quipu_str snippet; /* the part that contains the words, each between the marks */
    double rank;       /* from 0 to 1, larger is better; see quipu_search() */
} quipu_search_hit;

QUIPU_SLICE(quipu_search_hits, quipu_search_hit)

typedef struct quipu_search_results {
    quipu_search_hits hits; /* best first; equal ranks by age; see quipu_search() */
    bool more;              /* more hits follow */
} quipu_search_results;

/**
 * Find the messages whose content has all words of a query. A "phrase" stands in quotes; a * behind
 * a word or a phrase matches what begins with it. Case and the accents of Latin letters are
 * ignored, and so is whether characters are composed (Unicode's Forms C and D); snippets are in
 * Form C. A run of Chinese, Japanese or Korean characters matches anywhere in a text. What is no
 * word is ignored, and a query without words finds nothing.
 *
 * In capitals and without quotes, OR separates alternatives, of which a message has to meet one:
 * `red car OR bicycle` is (red AND car) OR bicycle. NOT leaves out the messages that have the word
 * or the phrase behind it; beside it the alternative needs a word to look for. AND may stand
 * between words. An operator that has nothing to join is passed over.
 *
 * Filters hold for the whole query, in addition to those of the options: `author:NAME`,
 * `author:"A NAME"`, `role:ROLE` (user, assistant, tool, function, model, system), both also behind
 * NOT, and `after:TIME` and `before:TIME` (a day in UTC such as 2026-03-01, or a time as
 * quipu_time_parse() reads it). A query has at most 16. In quotes they are words like any other.
 *
 * Hits are ranked by BM25, with the same ranks in every engine: more of the words, rarer words (by
 * how many of the hits have them), and shorter messages come first. The first 16 words and phrases
 * count. A search by app, user, session or tenant is ranked by its own hits alone: neither rank nor
 * order depends on what others wrote. Equal ranks: the oldest session first, then by number.
 *
 * Hits are ranked in windows of QUIPU_SEARCH_WINDOW, so that common words cost no more than others:
 * first the matches of the sessions that were created last, best first, then the next as many. (In
 * PostgreSQL a search without app and session takes sessions in another order than SQLite where it
 * has more hits than a window.)
 *
 * A message that forks share is found once: for the session in the options, else for the session
 * that holds it or, when that session does not show it any more, for the first fork that does.
 *
 * In a PostgreSQL store a message is found by the first 1,048,575 bytes of its different words.
 *
 * The call first indexes what was committed before it began, in batches of QUIPU_INDEX_BATCH;
 * finished batches stay when its deadline passes.
 *
 * Ownership: free *ret_results with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED (the session), QUIPU_INVALID (a filter or mark is not
 *            UTF-8, or a filter of the query is wrong, which the message names), QUIPU_LIMIT,
 *            QUIPU_UNSUPPORTED (search is off, or a read-only store of an older layout has no
 *            index), QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE (also in a read-only store whose index is incomplete).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_search(quipu_store *store,
                                                   const quipu_search_options *options,
                                                   const quipu_call_options *call,
                                                   quipu_search_results **ret_results,
                                                   quipu_error *reterr);

/**
 * Index all messages that are not indexed yet, in batches of QUIPU_INDEX_BATCH, until none is left
 * or the deadline passes, which is no error once a batch is done. Later queries then need not.
 *
 * Ownership: `ret_indexed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_UNSUPPORTED (search is off), QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_search_index(quipu_store *store,
                                                         const quipu_call_options *call,
                                                         int64_t *ret_indexed, quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
