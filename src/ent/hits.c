/* The ranking of hits; see hits.h.
 *
 *   share(phrase) = its idf among the hits / the sum of all       rarer is worth more; sum: 1
 *   rank(hit)     = sum over phrases of share * BM25(count, words / average words)
 *                   / what BM25 tends to                          from 0 to 1
 *
 * Shares, so that a rank does not depend on how many hits are ranked together where that says
 * nothing: a phrase that is alone, or as rare as all others, has the same share in every window,
 * bit for bit.
 *
 * Owns: nothing; pure but for the caller's arena. Called by: search.c, store/search_find.c. */
#include "ent/hits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "ent/bm25.h"

/* ---- phrases ----------------------------------------------------------------------------------
 */

/* Adds a phrase in one spelling. All spellings of a phrase have one `rank`: their places add up. */
static void hits_add(qp_hits_query *query, const qp_match_phrase *phrase, qp_match_span words,
                     size_t rank)
{
    qp_match_query *spelled = &query->spelled;

    query->ranks[spelled->phrase_count] = rank;
    /* Grows by one: the room was taken for every spelling of every phrase. */
    spelled->phrases[spelled->phrase_count++] =
        (qp_match_phrase){.first = words.first,
                          .count = words.count,
                          .prefix = phrase->prefix,
                          .alternative = phrase->alternative};
}

/* One alternative: phrases `first` to before `end`. Without a wanted phrase it matches nothing, and
 * is in no expression. `wanted` counts the phrases that rank. */
static void hits_add_alternative(qp_hits_query *query, const qp_match_query *match, size_t first,
                                 size_t end, size_t *wanted)
{
    const size_t before = *wanted;

    assert(first < end && end <= match->phrase_count);
    for (size_t i = first; i < end; i++) {
        const qp_match_phrase *phrase = &match->phrases[i];

        if (!phrase->excluded) {
            hits_add(query, phrase, (qp_match_span){phrase->first, phrase->count}, *wanted);
            query->respelled = query->respelled || phrase->other_count > 0;
            for (size_t j = 0; j < phrase->other_count; j++) {
                hits_add(query, phrase, phrase->others[j], *wanted);
            }
            ++*wanted;
        }
    }
    for (size_t i = first; i < end && *wanted > before; i++) {
        const qp_match_phrase *phrase = &match->phrases[i];

        if (phrase->excluded) {
            hits_add(query, phrase, (qp_match_span){phrase->first, phrase->count}, QP_HITS_NO_RANK);
        }
    }
}

/* From a query as it was read to what ranks. An alternative of exclusions only is not part of an
 * engine's expression, and must be left out here, too: counts of an index come in the order of
 * phrases. Room for all spellings of all phrases is taken at once, since a query has few. */
quipu_status qp_hits_query_make(quipu_arena *arena, const qp_match_query *query, qp_hits_query *ret,
                                quipu_error *reterr)
{
    const size_t room = query->phrase_count * QP_FORMS_MAX + 1;
    qp_hits_query made = {.spelled = *query};
    size_t wanted = 0;

    made.spelled.phrase_count = 0;
    made.spelled.phrases = qp_arena_take(arena, room * sizeof(*made.spelled.phrases));
    made.ranks = qp_arena_take(arena, room * sizeof(*made.ranks));
    if (made.spelled.phrases == NULL || made.ranks == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the words of a search");
    }
    for (size_t i = 0; i < query->phrase_count && wanted < QP_HITS_PHRASES_MAX;) {
        size_t end = i + 1;

        while (end < query->phrase_count &&
               query->phrases[end].alternative == query->phrases[i].alternative) {
            end++;
        }
        hits_add_alternative(&made, query, i, end, &wanted);
        i = end;
    }
    assert(made.spelled.phrase_count < room);
    *ret = made;
    return QUIPU_OK;
}

/* ---- counts -----------------------------------------------------------------------------------
 */

/* Numbers of an engine that knows fewer phrases than the query has end early: what is missing is 0.
 * They are copied, because a blob of an engine is aligned to nothing. */
void qp_hits_set(const qp_hits_query *query, quipu_bytes numbers, qp_hit *hit)
{
    const size_t n = numbers.n / sizeof(hit->words);
    const char *from = numbers.p;

    /* All of them, since the struct may hold the counts of an earlier hit. */
    memset(hit->counts, 0, sizeof(hit->counts));
    hit->words = 0;
    if (n > 0) {
        memcpy(&hit->words, from, sizeof(hit->words));
    }
    for (size_t i = 1; i < n && i <= query->spelled.phrase_count; i++) {
        uint32_t count = 0;

        if (query->ranks[i - 1] < QP_HITS_PHRASES_MAX) {
            memcpy(&count, from + i * sizeof(count), sizeof(count));
            hit->counts[query->ranks[i - 1]] += count;
        }
    }
}

/* The places of every spelling in the texts. Each text is read once; a phrase does not match across
 * two of them, because the reader begins anew. */
static void hits_read(qp_matcher *matcher, const quipu_str *texts, size_t n, uint32_t *places,
                      uint32_t *ret_words)
{
    const qp_match_query *spelled = matcher->query;

    for (size_t i = 0; i < n; i++) {
        qp_matcher_begin(matcher, texts[i]);
        while (qp_matcher_next(matcher)) {
            ++*ret_words;
            for (size_t j = 0; j < spelled->phrase_count; j++) {
                places[j] += qp_matcher_ends(matcher, &spelled->phrases[j]) ? 1 : 0;
            }
        }
    }
}

/* Adds the places of one alternative, spellings `first` to before `end`, if the row meets it: it
 * has each wanted phrase in some spelling, and none that is excluded. */
static void hits_add_places(const qp_hits_query *query, const uint32_t *places, size_t first,
                            size_t end, qp_hit *hit)
{
    bool met = true;

    for (size_t i = first; i < end && met;) {
        const size_t rank = query->ranks[i];
        bool seen = false;

        for (; i < end && query->ranks[i] == rank; i++) {
            seen = seen || places[i] > 0;
        }
        met = seen == (rank != QP_HITS_NO_RANK);
    }
    for (size_t i = first; i < end && met; i++) {
        if (query->ranks[i] < QP_HITS_PHRASES_MAX) {
            hit->counts[query->ranks[i]] += places[i];
        }
    }
}

/* The same numbers by the row's texts: also of a row of an old index that lacks positions, and of a
 * phrase in several spellings. Counts only what FTS5 would: a phrase whose alternative the row does
 * not meet does not count, so that both engines get the same rank. */
quipu_status qp_hits_count(quipu_arena *arena, const qp_hits_query *query, const quipu_str *texts,
                           size_t n, qp_hit *hit, quipu_error *reterr)
{
    const qp_match_query *spelled = &query->spelled;
    uint32_t *places = qp_arena_take(arena, (spelled->phrase_count + 1) * sizeof(*places));
    qp_matcher matcher;
    quipu_status status = qp_matcher_make(arena, spelled, &matcher, reterr);

    if (places == NULL || status != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the words of a search");
    }
    memset(places, 0, (spelled->phrase_count + 1) * sizeof(*places));
    qp_hits_set(query, (quipu_bytes){NULL, 0}, hit);
    hits_read(&matcher, texts, n, places, &hit->words);
    for (size_t i = 0; i < spelled->phrase_count;) {
        size_t end = i + 1;

        while (end < spelled->phrase_count &&
               spelled->phrases[end].alternative == spelled->phrases[i].alternative) {
            end++;
        }
        hits_add_places(query, places, i, end, hit);
        i = end;
    }
    return QUIPU_OK;
}

/* ---- ranks ------------------------------------------------------------------------------------
 */

/* For qsort(): the better rank first, then by key. qsort() is not stable: keys make the order
 * total, so that equal ranks lie the same way in every run. */
static int hits_compare(const void *left, const void *right)
{
    const ent_hit *l = &((const qp_hit *)left)->at;
    const ent_hit *r = &((const qp_hit *)right)->at;

    if (l->rank != r->rank) {
        return l->rank > r->rank ? -1 : 1;
    }
    return l->key != r->key ? (l->key > r->key) - (l->key < r->key)
                            : (l->seq > r->seq) - (l->seq < r->seq);
}

/* The share of each phrase in a rank; 0 of one that no hit has. The largest weight becomes 1 first:
 * equal weights then have equal shares, whatever the weight. */
static void hits_shares(const qp_hit *hits, size_t n, double ret_shares[QP_HITS_PHRASES_MAX])
{
    int64_t with[QP_HITS_PHRASES_MAX] = {0};
    double most = 0;
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < QP_HITS_PHRASES_MAX; j++) {
            with[j] += hits[i].counts[j] > 0 ? 1 : 0;
        }
    }
    for (size_t j = 0; j < QP_HITS_PHRASES_MAX; j++) {
        ret_shares[j] = with[j] > 0 ? qp_bm25_idf(with[j], (int64_t)n) : 0;
        most = ret_shares[j] > most ? ret_shares[j] : most;
    }
    for (size_t j = 0; j < QP_HITS_PHRASES_MAX && most > 0; j++) {
        ret_shares[j] /= most;
        sum += ret_shares[j];
    }
    for (size_t j = 0; j < QP_HITS_PHRASES_MAX && sum > 0; j++) {
        ret_shares[j] /= sum;
    }
}

/* Lengths are compared with the mean of the hits that are ranked together, for the same reason as
 * rarity: the mean of a store would say how long others' messages are. Without any word (texts that
 * are gone) every length is the mean. */
void qp_hits_rank(qp_hit *hits, size_t n)
{
    double shares[QP_HITS_PHRASES_MAX];
    int64_t words = 0;

    hits_shares(hits, n, shares);
    for (size_t i = 0; i < n; i++) {
        words += hits[i].words;
    }
    for (size_t i = 0; i < n; i++) {
        const double relative = words > 0 ? (double)hits[i].words * (double)n / (double)words : 1;
        double score = 0;

        for (size_t j = 0; j < QP_HITS_PHRASES_MAX; j++) {
            score += qp_bm25_part(QP_BM25_K1, QP_BM25_B, shares[j], hits[i].counts[j], relative);
        }
        hits[i].at.rank = score / (QP_BM25_K1 + 1);
    }
    if (n > 1) {
        qsort(hits, n, sizeof(*hits), hits_compare);
    }
}
