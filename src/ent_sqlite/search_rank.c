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
 * ancestor, and the sessions of a user have one each. So the weights of the last expression are
 * kept with the connection as well, as long as the index has as many rows and words.
 *
 * Owns: the registration of QP_SQLITE_RANK with a connection, and the weights that it keeps; for
 * each query the weights of its phrases, which FTS5 keeps and frees.
 * Called by: FTS5, for each row of a window of hits (src/ent/search.c).
 * On return the result is the negative score: a smaller rank is better.
 * Locks: none; FTS5 calls it on the connection's own thread, inside of the reader's snapshot. */
#include <assert.h>
#include <string.h>

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

/* The index that weights hold for. */
typedef struct search_rank_index {
    sqlite3_int64 rows;
    sqlite3_int64 words;
    int64_t top; /* the highest key */
} search_rank_index;

/* The weights of the connection's last expression. */
typedef struct search_rank_last {
    char *expression; /* NULL: none are kept */
    search_rank_index index;
    search_rank *rank;
} search_rank_last;

static size_t search_rank_size(int phrases)
{
    return sizeof(search_rank) + (size_t)phrases * sizeof(double);
}

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

/* Counts the rows of every phrase. */
static int search_rank_weigh(const Fts5ExtensionApi *api, Fts5Context *hit,
                             const search_rank_index *index, search_rank *rank)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < rank->phrases && rc == SQLITE_OK; i++) {
        search_rank_counter counter = {0};

        rc = api->xQueryPhrase(hit, i, &counter, search_rank_row);
        rank->idf[i] =
            qp_bm25_idf(search_rank_estimate(&counter, index->top, index->rows), index->rows);
    }
    rank->average = index->rows > 0 && index->words > index->rows
                        ? (double)index->words / (double)index->rows
                        : 1;
    return rc;
}

/* Whether the kept weights are those of this expression, in the index as it is now. */
static bool search_rank_is_last(const search_rank_last *last, const char *expression,
                                const search_rank_index *index, int phrases)
{
    return last->expression != NULL && strcmp(last->expression, expression) == 0 &&
           last->rank->phrases == phrases && last->index.rows == index->rows &&
           last->index.words == index->words && last->index.top == index->top;
}

static void search_rank_forget(search_rank_last *last)
{
    qp_free(last->expression);
    qp_free(last->rank);
    *last = (search_rank_last){.expression = NULL};
}

/* Without memory nothing is kept: the next statement counts again. */
static void search_rank_keep(search_rank_last *last, const char *expression,
                             const search_rank_index *index, const search_rank *rank)
{
    const size_t n = strlen(expression) + 1;
    char *text = qp_malloc(n);
    search_rank *copy = qp_malloc(search_rank_size(rank->phrases));

    search_rank_forget(last);
    if (text == NULL || copy == NULL) {
        qp_free(text);
        qp_free(copy);
        return;
    }
    memcpy(text, expression, n);
    memcpy(copy, rank, search_rank_size(rank->phrases));
    *last = (search_rank_last){text, *index, copy};
}

/* The weights of the query's phrases, made with its first hit. */
static int search_rank_make(const Fts5ExtensionApi *api, Fts5Context *hit, int64_t top,
                            const char *expression, search_rank **ret)
{
    search_rank_last *last = api->xUserData(hit);
    const int phrases = api->xPhraseCount(hit);
    search_rank_index index = {.top = top};
    search_rank *rank = NULL;
    int rc = api->xRowCount(hit, &index.rows);

    assert(last != NULL && expression != NULL);
    if (rc == SQLITE_OK) {
        rc = api->xColumnTotalSize(hit, -1, &index.words);
    }
    if (rc == SQLITE_OK) {
        rank = qp_calloc(1, search_rank_size(phrases));
        rc = rank != NULL ? SQLITE_OK : SQLITE_NOMEM;
    }
    if (rc == SQLITE_OK && search_rank_is_last(last, expression, &index, phrases)) {
        memcpy(rank, last->rank, search_rank_size(phrases));
    } else if (rc == SQLITE_OK) {
        rank->phrases = phrases;
        rc = search_rank_weigh(api, hit, &index, rank);
        if (rc == SQLITE_OK) {
            search_rank_keep(last, expression, &index, rank);
        }
    }
    if (rc != SQLITE_OK) {
        qp_free(rank);
        return rc;
    }
    assert(rank != NULL);
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

/* The function itself; its arguments are the highest key and the expression. */
static void search_rank_hit(const Fts5ExtensionApi *api, Fts5Context *hit, sqlite3_context *ret,
                            int n, sqlite3_value **values)
{
    search_rank *rank = api->xGetAuxdata(hit, 0);
    double score = 0;
    int rc = SQLITE_OK;

    if (rank == NULL) {
        const char *expression = n == 2 ? (const char *)sqlite3_value_text(values[1]) : NULL;

        rc = expression != NULL
                 ? search_rank_make(api, hit, sqlite3_value_int64(values[0]), expression, &rank)
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

/* Frees what the connection kept: FTS5 calls it when the connection is closed. */
static void search_rank_end(void *last)
{
    search_rank_forget(last);
    qp_free(last);
}

int qp_sqlite_register_rank(fts5_api *api)
{
    search_rank_last *last = qp_calloc(1, sizeof(*last));
    int rc = SQLITE_NOMEM;

    assert(api != NULL);
    if (last != NULL) {
        rc = api->xCreateFunction(api, QP_SQLITE_RANK, last, search_rank_hit, search_rank_end);
    }
    if (rc != SQLITE_OK) {
        qp_free(last);
    }
    return rc;
}
