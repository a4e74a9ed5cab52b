/* Words of a query in texts. All phrases are followed at once: position i of a phrase is reached
 * where its word matches and position i - 1 was reached one word earlier.
 *
 *   now[i] = matches(word, query[i]) && (i begins a phrase || before[i - 1])     its end: now[last]
 *
 *   query "big red" car       text    a    big   big   red   car
 *     now[0], big                     .    x     x     .     .
 *     now[1], red                     .    .     .     x     .        the phrase ends at "red"
 *     now[2], car                     .    .     .     .     x
 *
 * Cost: words of the text times words of the query, and no backtracking.
 * Called by search.c, snippet.c and ent_postgres; allocates from the caller's arena.
 * Owns: what a match is, for all engines. Locks: none; pure but for that arena. */
#include "ent/match.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

#define MATCH_BEFORE_FIRST ((size_t)-1) /* the first word makes it 0 */

/* One text for all places. */
static quipu_status match_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the words of a search");
}

/* The words of a text, behind those that there are. They are copied, because a reader folds each
 * word into the same buffer. */
static quipu_status match_read(quipu_arena *arena, quipu_str text, qp_match_query *query,
                               qp_match_span *ret)
{
    qp_word_reader reader;
    qp_word word;

    ret->first = query->word_count;
    qp_words_begin(&reader, text, query->cjk);
    while (qp_words_next(&reader, &word)) {
        if (quipu_arena_copy(arena, word.text, &query->words[query->word_count]) != QUIPU_OK) {
            return QUIPU_NOMEM;
        }
        query->word_count++;
    }
    ret->count = query->word_count - ret->first;
    return QUIPU_OK;
}

/* One part of the query. Without a word (a lone comma) it makes no phrase. */
static quipu_status match_add(quipu_arena *arena, const qp_query_part *part, qp_match_query *query)
{
    qp_match_phrase phrase = {.prefix = part->phrase.prefix,
                              .excluded = part->excluded,
                              .alternative = part->alternative};
    /* The word as it was typed comes first, then its other forms. */
    quipu_str forms[QP_FORMS_MAX];
    const size_t n = qp_forms_of(arena, part->phrase.text, forms);
    qp_match_span words = {0};
    quipu_status status = n > 0 ? match_read(arena, forms[0], query, &words) : QUIPU_NOMEM;

    assert(query->words != NULL && query->phrases != NULL);
    /* An excluded phrase has one spelling: other forms of it would exclude more than was asked. */
    for (size_t i = 1; i < n && !phrase.excluded && status == QUIPU_OK; i++) {
        status = match_read(arena, forms[i], query, &phrase.others[phrase.other_count++]);
    }
    /* Other spellings alone make no phrase: they are those of the first one. */
    if (status == QUIPU_OK && words.count > 0) {
        phrase.first = words.first;
        phrase.count = words.count;
        query->phrases[query->phrase_count++] = phrase;
        query->longest = words.count > query->longest ? words.count : query->longest;
        query->excludes = query->excludes || phrase.excluded;
    }
    return status;
}

/* See match.h; the engines cut queries with the same code. */
quipu_status qp_match_query_make(quipu_arena *arena, quipu_str words, bool cjk, qp_match_query *ret,
                                 quipu_error *reterr)
{
    /* A word, and a part, have at least one byte, in each spelling.
     * Enough for every word in every form, so that match_read() need not check. */
    const size_t room =
        qp_forms_is_ascii(words) ? words.n + 1 : QP_FORMS_MAX * QP_FORMS_GROWTH * words.n + 1;
    qp_match_query query = {.cjk = cjk};
    qp_query_reader reader;
    qp_query_part part;

    assert(ret != NULL);
    query.words = qp_arena_take(arena, room * sizeof(*query.words));
    query.phrases = qp_arena_take(arena, (words.n + 1) * sizeof(*query.phrases));
    if (query.words == NULL || query.phrases == NULL) {
        return match_nomem(reterr);
    }
    qp_query_begin(&reader, words);
    while (qp_query_next(&reader, &part)) {
        if (match_add(arena, &part, &query) != QUIPU_OK) {
            return match_nomem(reterr);
        }
    }
    *ret = query;
    return QUIPU_OK;
}

/* Two rows of flags, one a word of the query. */
quipu_status qp_matcher_make(quipu_arena *arena, const qp_match_query *query, qp_matcher *ret,
                             quipu_error *reterr)
{
    assert(query != NULL);
    ret->query = query;
    /* One more, since a query may have no word at all. */
    ret->now = qp_arena_take(arena, query->word_count + 1);
    ret->before = qp_arena_take(arena, query->word_count + 1);
    return ret->now != NULL && ret->before != NULL ? QUIPU_OK : match_nomem(reterr);
}

/* A new text: no phrase is under way, so that none can reach over the end of a text. `before` needs
 * no clearing: the first step swaps the cleared row into its place. */
void qp_matcher_begin(qp_matcher *matcher, quipu_str text)
{
    assert(matcher != NULL);
    qp_words_begin(&matcher->reader, text, matcher->query->cjk);
    matcher->at = MATCH_BEFORE_FIRST;
    memset(matcher->now, 0, matcher->query->word_count);
}

/* Both are folded; a prefix matches the beginning. */
static bool match_word(quipu_str wanted, quipu_str word, bool prefix)
{
    assert(wanted.n > 0);
    return prefix ? wanted.n <= word.n && memcmp(wanted.p, word.p, wanted.n) == 0
                  : quipu_str_eq(wanted, word);
}

/* Advances one word and swaps the two rows, which costs no copy. Every flag of the new row is
 * written, since each word of the query belongs to exactly one phrase. */
bool qp_matcher_next(qp_matcher *matcher)
{
    const qp_match_query *query = matcher->query;
    bool *now = matcher->before;

    assert(matcher->now != matcher->before);
    assert(matcher->now != NULL);
    if (!qp_words_next(&matcher->reader, &matcher->word)) {
        return false;
    }
    matcher->at++;
    matcher->before = matcher->now;
    matcher->now = now;
    for (size_t i = 0; i < query->phrase_count; i++) {
        const qp_match_phrase *phrase = &query->phrases[i];

        for (size_t j = 0; j < phrase->count; j++) {
            const size_t word = phrase->first + j;
            now[word] = (j == 0 || matcher->before[word - 1]) &&
                        match_word(query->words[word], matcher->word.text,
                                   phrase->prefix && j + 1 == phrase->count);
        }
    }
    return true;
}

/* One alternative after the other: phrases of one stand together. */
bool qp_match_holds(const qp_match_query *query, const bool *seen)
{
    bool holds = false;
    bool wanted = false; /* the alternative wants something */

    assert(query->phrase_count == 0 || seen != NULL);
    for (size_t i = 0; i < query->phrase_count; i++) {
        const qp_match_phrase *phrase = &query->phrases[i];

        if (i == 0 || phrase->alternative != query->phrases[i - 1].alternative) {
            if (holds && wanted) {
                return true;
            }
            holds = true;
            wanted = false;
        }
        holds = holds && seen[i] != phrase->excluded;
        wanted = wanted || !phrase->excluded;
    }
    return holds && wanted;
}

/* Notes the phrases that end at the current word. Returns whether one is new. */
static bool match_note(const qp_matcher *matcher, bool *seen)
{
    bool added = false;

    for (size_t i = 0; i < matcher->query->phrase_count; i++) {
        if (!seen[i] && qp_matcher_ends(matcher, &matcher->query->phrases[i])) {
            seen[i] = true;
            added = true;
        }
    }
    return added;
}

/* Each phrase may be in another text, but not across two. Reading ends early where nothing that
 * follows can change the answer: not while a phrase is excluded. */
quipu_status qp_match_texts(quipu_arena *arena, const qp_match_query *query, const quipu_str *texts,
                            size_t n, bool *ret_found, quipu_error *reterr)
{
    bool *seen = qp_arena_take(arena, query->phrase_count + 1);
    bool found = false;
    qp_matcher matcher;
    quipu_status status;

    assert(ret_found != NULL);
    if (seen == NULL) {
        return match_nomem(reterr);
    }
    status = qp_matcher_make(arena, query, &matcher, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    memset(seen, 0, query->phrase_count + 1);
    for (size_t i = 0; i < n && !found; i++) {
        qp_matcher_begin(&matcher, texts[i]);
        while (!found && qp_matcher_next(&matcher)) {
            found = match_note(&matcher, seen) && !query->excludes && qp_match_holds(query, seen);
        }
    }
    *ret_found = found || qp_match_holds(query, seen);
    return QUIPU_OK;
}
