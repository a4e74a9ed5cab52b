/* Who said a line of memory: a model's answer counts as far as the messages that it names support
 * it.
 *
 * Words are compared by their beginnings, in lower case, so that "prefers" is found in "I prefer";
 * words that are in every line ("the", "user") count for nothing. In scripts without blanks each
 * character is a word. A translation has no words in common with what it translates: nothing bears
 * it out.
 *
 * Pure. Called by: observe.c and answer.c. */
#ifndef QP_MEMORY_TRACE_H
#define QP_MEMORY_TRACE_H

#include <quipu/store.h>

/* One part in so many of a line's words must be found. */
#define QP_TRACE_PART 3

/* The weight of a message, by its speaker. The smaller weight yields. */
typedef enum qp_speaker {
    QP_WORD_TOOL = 0,  /* tools, and whatever is not known */
    QP_WORD_ASSISTANT, /* models, and programs that speak for them */
    QP_WORD_USER       /* a person: nobody else replaces what they said */
} qp_speaker;

/* By its role; what tools returned within a message is the tools'. */
qp_speaker qp_word_of(const quipu_message *message);

/* A set of words. */
#define QP_TRACE_BITS 65536
typedef struct qp_trace_words {
    uint64_t bits[QP_TRACE_BITS / 64];
} qp_trace_words;

void qp_trace_add(qp_trace_words *words, quipu_str text);

/* How many words of a text count, and how many of these a set has. */
typedef struct qp_trace_share {
    size_t words;
    size_t found;
} qp_trace_share;

qp_trace_share qp_trace_find(const qp_trace_words *words, quipu_str text);

/* Whether a share is large enough: one part in QP_TRACE_PART of the words, and one at least. */
bool qp_trace_bears(qp_trace_share share);

/* A user's text in a message: their own words, outside of quotations, code and pasted documents
 * (rules_text.h), and the whole. Both are empty for a message that is not the user's. */
typedef struct qp_trace_said {
    qp_trace_words own;
    qp_trace_words all;
} qp_trace_said;

void qp_trace_read(const quipu_message *message, qp_trace_said *ret);

/* Whether the own words of the user bear out a line, which has no word of the rest only. */
bool qp_trace_is_own(const qp_trace_said *said, quipu_str line);

#endif
