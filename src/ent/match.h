/* Finding the words of a query in texts, in the client: for snippets, and for engines whose index
 * has to be rechecked. */
#ifndef QP_ENT_MATCH_H
#define QP_ENT_MATCH_H

#include <ent/search.h>

#include "ent/forms.h"
#include "ent/words.h"

/* Neighbours among the words of a query. */
typedef struct qp_match_span {
    size_t first;
    size_t count;
} qp_match_span;

typedef struct qp_match_phrase {
    size_t first; /* of its words */
    size_t count; /* at least 1 */
    bool prefix;  /* the last word is the beginning of one */
    bool excluded;
    size_t alternative; /* ascending: see qp_query_part */
    /* The words of its other spellings, for an index (forms.h); none where it is excluded. */
    qp_match_span others[QP_FORMS_MAX - 1];
    size_t other_count;
} qp_match_phrase;

/* A user's query in Form C, cut into words; in the arena. Parts without a word are left out; a
 * query without any part matches nothing. */
typedef struct qp_match_query {
    quipu_str *words;
    size_t word_count;
    qp_match_phrase *phrases;
    size_t phrase_count;
    size_t longest; /* words of a phrase */
    bool excludes;  /* some phrase is excluded */
    bool cjk;
} qp_match_query;

quipu_status qp_match_query_make(quipu_arena *arena, quipu_str words, bool cjk, qp_match_query *ret,
                                 quipu_error *reterr);

/* Whether a text with the phrases that `seen` names, one flag a phrase, meets an alternative. */
bool qp_match_holds(const qp_match_query *query, const bool *seen);

/* Whether the texts of a row, in Form C, meet the query; each phrase may be in any of them. */
quipu_status qp_match_texts(quipu_arena *arena, const qp_match_query *query, const quipu_str *texts,
                            size_t n, bool *ret_found, quipu_error *reterr);

/* The passage in which most of the words are close together, each match between the two marks;
 * empty when the texts do not meet the query. */
quipu_status qp_match_snippet(quipu_arena *arena, const qp_match_query *query,
                              const quipu_str *texts, size_t n, const ent_marks *marks,
                              quipu_str *ret_snippet, quipu_error *reterr);

/* ---- shared by match.c and snippet.c ----------------------------------------------------------
 */

/* A walk over a text, word by word, that knows which phrases end at the current word. */
typedef struct qp_matcher {
    const qp_match_query *query;
    qp_word_reader reader;
    qp_word word;
    size_t at;    /* number of the word in its text, from 0 */
    bool *now;    /* which words of the query match here, in a row with those before */
    bool *before; /* the same one word earlier */
} qp_matcher;

quipu_status qp_matcher_make(quipu_arena *arena, const qp_match_query *query, qp_matcher *ret,
                             quipu_error *reterr);
void qp_matcher_begin(qp_matcher *matcher, quipu_str text);
bool qp_matcher_next(qp_matcher *matcher);

/* Whether a phrase ends at the current word. */
static inline bool qp_matcher_ends(const qp_matcher *matcher, const qp_match_phrase *phrase)
{
    return matcher->now[phrase->first + phrase->count - 1];
}

#endif
