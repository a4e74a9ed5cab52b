/* Porter's stemmer and a list of stop words.
 *
 * Owns: nothing; pure functions over one folded word.
 * Called by: recall_terms.c of the store, for questions and messages alike: one function for both
 * sides, so that a change here changes no stored byte.
 *
 * The rules are those of M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980), with
 * the three departures that its author published later with his own programs: "bli" and "logi" in
 * step 2, and words of one or two letters stay. Notation of the paper: a word is [C](VC)^m[V],
 * where C is a run of consonants and V one of vowels; m is its measure.
 *
 *   tree m = 0      trouble m = 1      private m = 2
 *
 *   generalizations ─1a─▶ generalization ─2─▶ generalize ─3─▶ general ─4─▶ gener
 *
 * A stem need not be a word: it is only compared with other stems. */
#include "ent/stem.h"

#include <assert.h>
#include <string.h>

/* One word while it is stemmed. `stem` is how much of it stands before the ending in question. */
typedef struct stem_word {
    char *p;
    size_t n;
    size_t stem;
} stem_word;

/* An ending and what replaces it. */
typedef struct stem_rule {
    const char *end;
    const char *with;
} stem_rule;

/* A letter other than a, e, i, o, u; y is a vowel behind a consonant. The call for the letter
 * before a run of y does not recurse further: that letter is not a y. */
static bool stem_is_consonant(const char *p, size_t at)
{
    switch (p[at]) {
    case 'a':
    case 'e':
    case 'i':
    case 'o':
    case 'u':
        return false;
    case 'y':
        /* Runs of y alternate: look back to where the run begins. */
        {
            size_t first = at;
            while (first > 0 && p[first - 1] == 'y') {
                first--;
            }
            const bool begins = first == 0 || !stem_is_consonant(p, first - 1);
            return ((at - first) % 2 == 0) == begins;
        }
    default:
        return true;
    }
}

/* m of the stem: how often a consonant follows a vowel. */
static size_t stem_measure(const stem_word *word)
{
    size_t m = 0;
    bool vowel = false;

    assert(word->stem <= word->n);
    for (size_t i = 0; i < word->stem; i++) {
        const bool consonant = stem_is_consonant(word->p, i);
        m += consonant && vowel;
        vowel = !consonant;
    }
    return m;
}

/* The paper's *v*: without a vowel what looks like an ending belongs to the word, as in "sing". */
static bool stem_has_vowel(const stem_word *word)
{
    size_t i = 0;

    assert(word->stem <= word->n);
    while (i < word->stem && stem_is_consonant(word->p, i)) {
        i++;
    }
    return i < word->stem;
}

/* Ends with two equal consonants. */
static bool stem_is_double(const char *p, size_t n)
{
    return n >= 2 && p[n - 1] == p[n - 2] && stem_is_consonant(p, n - 1);
}

/* Ends with consonant, vowel, consonant, the last of which is not w, x or y: "hop", not "snow". */
static bool stem_is_cvc(const char *p, size_t n)
{
    return n >= 3 && stem_is_consonant(p, n - 1) && !stem_is_consonant(p, n - 2) &&
           stem_is_consonant(p, n - 3) && strchr("wxy", p[n - 1]) == NULL;
}

/* Whether the word has the ending; sets the stem. */
static bool stem_ends(stem_word *word, const char *end)
{
    const size_t n = strlen(end);

    if (n > word->n || memcmp(word->p + word->n - n, end, n) != 0) {
        return false;
    }
    word->stem = word->n - n;
    return true;
}

/* Puts something in the place of the ending. It is never longer than what stood there, so that the
 * caller's buffer suffices. */
static void stem_set(stem_word *word, const char *with)
{
    const size_t n = strlen(with);

    assert(word->stem + n <= word->n);
    memcpy(word->p + word->stem, with, n);
    word->n = word->stem + n;
}

/* The rule with the ending of the word, if its stem has a measure above `above`. The first ending
 * that fits decides, so that longer ones come first in a table. */
static void stem_apply(stem_word *word, const stem_rule *rules, size_t count, size_t above)
{
    for (size_t i = 0; i < count; i++) {
        if (stem_ends(word, rules[i].end)) {
            if (stem_measure(word) > above) {
                stem_set(word, rules[i].with);
            }
            return;
        }
    }
}

/* Plurals: caresses, ponies, cats. */
static void stem_step_1a(stem_word *word)
{
    if (stem_ends(word, "sses") || stem_ends(word, "ies")) {
        word->n -= 2;
    } else if (!stem_ends(word, "ss") && stem_ends(word, "s")) {
        word->n--;
    }
}

/* Past and present: agreed, plastered, motoring; what is left is made a word again: hoping, hop,
 * hope. The "e" has room, because "ed" or "ing" stood there. */
static void stem_step_1b(stem_word *word)
{
    if (stem_ends(word, "eed")) {
        if (stem_measure(word) > 0) {
            word->n--;
        }
        return;
    }
    if (!((stem_ends(word, "ed") || stem_ends(word, "ing")) && stem_has_vowel(word))) {
        return;
    }
    word->n = word->stem;
    if (stem_ends(word, "at") || stem_ends(word, "bl") || stem_ends(word, "iz")) {
        word->p[word->n++] = 'e';
        return;
    }
    word->stem = word->n;
    if (stem_is_double(word->p, word->n) && strchr("lsz", word->p[word->n - 1]) == NULL) {
        word->n--;
    } else if (stem_measure(word) == 1 && stem_is_cvc(word->p, word->n)) {
        word->p[word->n++] = 'e';
    }
}

/* happy, happi: so that it meets "happiness" without its ending. */
static void stem_step_1c(stem_word *word)
{
    if (stem_ends(word, "y") && stem_has_vowel(word)) {
        word->p[word->n - 1] = 'i';
    }
}

/* Double endings become single ones: relational, relate. */
static void stem_step_2(stem_word *word)
{
    static const stem_rule rules[] = {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},
                                      {"anci", "ance"},   {"izer", "ize"},    {"bli", "ble"},
                                      {"alli", "al"},     {"entli", "ent"},   {"eli", "e"},
                                      {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
                                      {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"},
                                      {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},
                                      {"iviti", "ive"},   {"biliti", "ble"},  {"logi", "log"}};

    stem_apply(word, rules, sizeof(rules) / sizeof(rules[0]), 0);
}

/* More endings that say nothing of the subject: triplicate, triplic; hopeful, hope; goodness,
 * good. */
static void stem_step_3(stem_word *word)
{
    static const stem_rule rules[] = {{"icate", "ic"}, {"ative", ""},  {"alize", "al"},
                                      {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""},
                                      {"ness", ""}};

    stem_apply(word, rules, sizeof(rules) / sizeof(rules[0]), 0);
}

/* The single endings go from words that are long enough. */
static void stem_step_4(stem_word *word)
{
    static const stem_rule rules[] = {
        {"al", ""},   {"ance", ""}, {"ence", ""},  {"er", ""},   {"ic", ""},  {"able", ""},
        {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""}, {"ent", ""}, {"ou", ""},
        {"ism", ""},  {"ate", ""},  {"iti", ""},   {"ous", ""},  {"ive", ""}, {"ize", ""}};

    if (stem_ends(word, "ion")) {
        /* Only behind s or t: "adoption", not "onion". */
        if (word->stem > 0 && strchr("st", word->p[word->stem - 1]) != NULL &&
            stem_measure(word) > 1) {
            word->n = word->stem;
        }
        return;
    }
    stem_apply(word, rules, sizeof(rules) / sizeof(rules[0]), 1);
}

/* A last e, and one of two l. */
static void stem_step_5(stem_word *word)
{
    if (stem_ends(word, "e")) {
        const size_t m = stem_measure(word);
        if (m > 1 || (m == 1 && !stem_is_cvc(word->p, word->stem))) {
            word->n--;
        }
    }
    word->stem = word->n;
    if (stem_is_double(word->p, word->n) && word->p[word->n - 1] == 'l' && stem_measure(word) > 1) {
        word->n--;
    }
}

/* Each step looks at the endings that the one before it left. A word has at most QP_TOKEN_BYTES_MAX
 * bytes, so that also a run of y, over which each of its letters looks back, costs little. */
size_t qp_word_stem(char *word, size_t n)
{
    stem_word it = {word, n, 0};

    if (n < 3) {
        return n;
    }
    for (size_t i = 0; i < n; i++) {
        if (word[i] < 'a' || word[i] > 'z') {
            return n;
        }
    }
    stem_step_1a(&it);
    stem_step_1b(&it);
    stem_step_1c(&it);
    stem_step_2(&it);
    stem_step_3(&it);
    stem_step_4(&it);
    stem_step_5(&it);
    assert(it.n > 0 && it.n <= n);
    return it.n;
}

/* ---- stop words -------------------------------------------------------------------------------
 */

/* Sorted, for a binary search. Letters that an apostrophe leaves behind are among them: the word
 * reader cuts "don't" into "don" and "t". */
static const char *const stem_stops[] = {
    "a",    "about", "am",   "an",    "and",   "any",   "are",   "as",     "at",    "be",
    "been", "but",   "by",   "can",   "could", "d",     "did",   "do",     "does",  "for",
    "from", "had",   "has",  "have",  "he",    "her",   "him",   "his",    "how",   "i",
    "if",   "in",    "into", "is",    "it",    "its",   "ll",    "m",      "me",    "my",
    "of",   "on",    "or",   "our",   "re",    "s",     "she",   "should", "so",    "some",
    "t",    "that",  "the",  "their", "them",  "then",  "there", "these",  "they",  "this",
    "to",   "us",    "ve",   "was",   "we",    "were",  "what",  "when",   "where", "which",
    "who",  "whose", "why",  "will",  "with",  "would", "you",   "your"};

/* Seven comparisons at most. A stop word that begins another one ("a", "an") comes first. */
bool qp_word_is_stop(quipu_str word)
{
    size_t low = 0;
    size_t high = sizeof(stem_stops) / sizeof(stem_stops[0]);

    assert(word.p != NULL);
    while (low < high) {
        const size_t at = (low + high) / 2;
        const char *stop = stem_stops[at];
        const size_t n = strlen(stop);
        const int order = memcmp(word.p, stop, word.n < n ? word.n : n);

        if (order == 0 && word.n == n) {
            return true;
        }
        if (order > 0 || (order == 0 && word.n > n)) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    return false;
}
