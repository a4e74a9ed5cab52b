/* The words of full text, the same for every engine: what a text is cut into, and what a user typed
 * is cut into. Letters and digits make a word; case and accents of Latin letters are ignored; a
 * word is known by its first QP_TOKEN_BYTES_MAX bytes. Where an index is said to be for them, every
 * Chinese, Japanese or Korean character is a word of its own, so that a text of several is a
 * phrase, found without knowing where words begin (docs/decisions/0004-search.md). */
#ifndef QP_ENT_WORDS_H
#define QP_ENT_WORDS_H

#include <ent/ent.h>

#define QP_TOKEN_BYTES_MAX 256 /* a longer word is known by its beginning */

typedef struct qp_word {
    quipu_str text; /* folded; the reader's until the next word */
    size_t start;   /* where it stands in the text, in bytes */
    size_t end;
} qp_word;

typedef struct qp_word_reader {
    const unsigned char *start;
    const unsigned char *at;
    const unsigned char *end;
    bool cjk;
    char folded[QP_TOKEN_BYTES_MAX];
} qp_word_reader;

/* Read the words of a text. Bytes that are not UTF-8 stand between words. */
void qp_words_begin(qp_word_reader *reader, quipu_str text, bool cjk);
bool qp_words_next(qp_word_reader *reader, qp_word *ret);

/* Whether a character is a word of its own. */
bool qp_word_is_cjk(uint32_t point);

/* One part of what a user typed: a word, or a "quoted phrase"; a * behind it asks for what begins
 * with it. */
typedef struct qp_phrase {
    quipu_str text;
    bool prefix;
    bool quoted;
} qp_phrase;

/* The next part from *at on, which moves behind it; false at the end. No text is an error: a quote
 * that is not closed reaches to the end. Operators are parts like any other. */
bool qp_phrase_next(const char **at, const char *end, qp_phrase *ret);

typedef enum qp_operator {
    QP_OPERATOR_NONE = 0, /* a word or a phrase */
    QP_OPERATOR_AND,
    QP_OPERATOR_OR,
    QP_OPERATOR_NOT
} qp_operator;

/* AND, OR and NOT in capitals and without quotes are operators. */
qp_operator qp_phrase_operator(const qp_phrase *phrase);

/* A query is a list of alternatives, of which a text has to meet one: all parts that are wanted,
 * and none of those that are excluded.
 *
 *    red car OR bicycle NOT "of mine"        (red AND car) OR (bicycle AND NOT "of mine")
 *
 * An alternative without a wanted word matches nothing. An operator that has nothing to join is
 * passed over. */
typedef struct qp_query_part {
    qp_phrase phrase;
    size_t alternative; /* from 0; ascending */
    bool excluded;
} qp_query_part;

typedef struct qp_query_reader {
    const char *at;
    const char *end;
    size_t alternative;
    bool begun; /* the alternative has a part */
} qp_query_reader;

/* Read the words and phrases of a query with their places in it. */
void qp_query_begin(qp_query_reader *reader, quipu_str query);
bool qp_query_next(qp_query_reader *reader, qp_query_part *ret);

/* ---- words_table.c ----------------------------------------------------------------------------
 */

/* `more + 1` characters from this one on that are not letters: they separate words, or are left out
 * of a word that goes on. {0x300, 0x4, 1}: U+0300 to U+0304 are marks. */
typedef struct qp_word_gap {
    uint32_t low : 21;
    uint32_t more : 10;
    uint32_t mark : 1; /* left out */
} qp_word_gap;

/* `count` letters from this one on, each or every second one, count as others as far away; where
 * they are 0 apart, all of them count as one and the same.
 *
 *   {0xc0, 6, 0, 0x61}   U+00C0 to U+00C5 count as a
 *   {0xd1, 2, 1, 0x6e}   U+00D1 counts as n, U+00D2 as o
 */
typedef struct qp_word_fold {
    uint32_t from : 21;
    uint32_t count : 9;
    uint32_t apart : 2;
    uint32_t to;
} qp_word_fold;

/* From U+0080 on, in order. All else is a letter that counts as itself. */
extern const qp_word_gap qp_word_gaps[];
extern const size_t qp_word_gaps_count;
extern const qp_word_fold qp_word_folds[];
extern const size_t qp_word_folds_count;

#endif
