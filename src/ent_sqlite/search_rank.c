/* The rank of a hit, as an auxiliary function of FTS5: BM25 by ent/bm25.h.
 *
 * FTS5's own bm25() counts the rows of every word of a query before it ranks the first hit: 25 ms
 * for a word of most of a million messages. Here a word is counted up to SEARCH_RANK_COUNT rows;
 * how many more there are is estimated by how much of the key range these took.
 *
 *    keys 0 ....... r ............................... top      r: the last row that was counted
 *         |--8192---|                                          top: the highest key of the index
 *
 * Sessions have numbers in the order of their creation, so that keys of one word are spread over
 * the range about evenly. Rarer words have their exact numbers. The highest key is the function's
 * argument, so that all statements of a search weigh a word alike: a fork has one for each
 * ancestor.
 *
 * Owns: the registration of QP_SQLITE_RANK with a connection; for each query the weights of its
 * phrases, which FTS5 keeps and frees.
 * Called by: FTS5, for each row of a window of hits (src/ent/search.c).
 * On return the result is the negative score: a smaller rank is better. */
#include <assert.h>

#include "base/alloc.h"
#include "ent/bm25.h"
#include "ent_sqlite/search.h"

#define SEARCH_RANK_COUNT 8192 /* rows of a phrase that are counted */

/* What does not change from hit to hit. */
typedef struct search_rank {
    double average; /* words of a row */
    int phrases;
    double idf[]; /* of each phrase */
} search_rank;

/* A phrase while its rows are counted. */
typedef struct search_rank_counter {
    int64_t rows;
    int64_t last; /* key */
} search_rank_counter;

/* One row of the phrase, in the order of keys. SQLITE_DONE ends the count. */
static int search_rank_row(const Fts5ExtensionApi *api, Fts5Context *row, void *ctx)
{
    search_rank_counter *counter = ctx;

    assert(counter->rows < SEARCH_RANK_COUNT);
    counter->rows++;
    counter->last = api->xRowid(row);
    return counter->rows < SEARCH_RANK_COUNT ? SQLITE_OK : SQLITE_DONE;
}

/* How many of `all` rows have a phrase. */
static int64_t search_rank_estimate(const search_rank_counter *counter, int64_t top, int64_t all)
{
    int64_t rows = counter->rows;

    if (rows == SEARCH_RANK_COUNT && counter->last > 0 && top > counter->last) {
        const double estimate = (double)rows * (double)top / (double)counter->last;

        rows = estimate < (double)all ? (int64_t)estimate : all;
    }
    /* An index that does not agree with its rows may say anything. */
    return rows < all ? rows : all;
}

/* Frees the weights: FTS5 calls it when the query ends. */
static void search_rank_free(void *rank)
{
    qp_free(rank);
}

/* The weights of the query's phrases, made with its first hit. */
static int search_rank_make(const Fts5ExtensionApi *api, Fts5Context *hit, int64_t top,
                            search_rank **ret)
{
    const int phrases = api->xPhraseCount(hit);
    sqlite3_int64 rows = 0;
    sqlite3_int64 words = 0;
    search_rank *rank = NULL;
    int rc = api->xRowCount(hit, &rows);

    if (rc == SQLITE_OK) {
        rc = api->xColumnTotalSize(hit, -1, &words);
    }
    if (rc == SQLITE_OK) {
        rank = qp_calloc(1, sizeof(*rank) + (size_t)phrases * sizeof(*rank->idf));
        rc = rank != NULL ? SQLITE_OK : SQLITE_NOMEM;
    }
    for (int i = 0; i < phrases && rc == SQLITE_OK; i++) {
        search_rank_counter counter = {0};

        rc = api->xQueryPhrase(hit, i, &counter, search_rank_row);
        rank->idf[i] = qp_bm25_idf(search_rank_estimate(&counter, top, rows), rows);
    }
    if (rc != SQLITE_OK) {
        qp_free(rank);
        return rc;
    }
    assert(rank != NULL);
    rank->phrases = phrases;
    rank->average = rows > 0 && words > rows ? (double)words / (double)rows : 1;
    /* FTS5 frees it also when it cannot keep it. */
    rc = api->xSetAuxdata(hit, rank, search_rank_free);
    *ret = rank;
    return rc;
}

/* The sum over the phrases of the query, each with the number of its places in the row. Places of
 * one phrase are counted by going over all of them: a row has few. */
static int search_rank_score(const Fts5ExtensionApi *api, Fts5Context *hit, const search_rank *rank,
                             double *ret)
{
    int places = 0;
    int words = 0;
    double score = 0;
    int rc = api->xColumnSize(hit, -1, &words);

    if (rc == SQLITE_OK) {
        rc = api->xInstCount(hit, &places);
    }
    for (int phrase = 0; phrase < rank->phrases && rc == SQLITE_OK; phrase++) {
        double count = 0;

        for (int i = 0; i < places && rc == SQLITE_OK; i++) {
            int which = 0;
            int column = 0;
            int offset = 0;

            rc = api->xInst(hit, i, &which, &column, &offset);
            count += which == phrase ? 1 : 0;
        }
        score += qp_bm25_part(QP_BM25_K1, QP_BM25_B, rank->idf[phrase], count,
                              (double)words / rank->average);
    }
    *ret = score;
    return rc;
}

/* The function itself; its argument is the highest key. */
static void search_rank_hit(const Fts5ExtensionApi *api, Fts5Context *hit, sqlite3_context *ret,
                            int n, sqlite3_value **values)
{
    search_rank *rank = api->xGetAuxdata(hit, 0);
    double score = 0;
    int rc = SQLITE_OK;

    if (rank == NULL) {
        rc = n == 1 ? search_rank_make(api, hit, sqlite3_value_int64(values[0]), &rank)
                    : SQLITE_MISUSE;
    }
    if (rc == SQLITE_OK) {
        rc = search_rank_score(api, hit, rank, &score);
    }
    if (rc == SQLITE_OK) {
        sqlite3_result_double(ret, -score);
    } else {
        sqlite3_result_error_code(ret, rc);
    }
}

int qp_sqlite_register_rank(fts5_api *api)
{
    assert(api != NULL);
    return api->xCreateFunction(api, QP_SQLITE_RANK, NULL, search_rank_hit, NULL);
}
