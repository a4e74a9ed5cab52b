/* English word forms for recall: which words say nothing about a subject, and what is left of a
 * word without its ending. Words of other languages pass unchanged, unless they look English. */
#ifndef QP_ENT_STEM_H
#define QP_ENT_STEM_H

#include <quipu/base.h>

#include "ent/words.h"

/* Whether a folded word is one of the English words that most sentences have. */
bool qp_word_is_stop(quipu_str word);

/* Replaces a folded word by its stem, in place: "connected", "connecting" and "connection" become
 * "connect". Words of fewer than 3 letters, and words with other characters than a to z, stay. The
 * stem is never longer than the word. Returns its length. */
size_t qp_word_stem(char *word, size_t n);

#endif
