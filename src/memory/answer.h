/* Reads a model's answer to a worker strictly: the text must be the JSON that was asked for, or the
 * answer is refused as a whole. It is never guessed at or mended.
 *
 * Pure: no store, no clock. Called by: observe.c and reflect.c. */
#ifndef QP_MEMORY_ANSWER_H
#define QP_MEMORY_ANSWER_H

#include <quipu/memory.h>

#define QP_ANSWER_LINES_MAX 64         /* observations of one answer */
#define QP_ANSWER_TEXT_MAX 1000        /* bytes of one of them */
#define QP_ANSWER_REFLECTION_MAX 65536 /* bytes of a reflection */
#define QP_ANSWER_WHY_SIZE 200         /* of why an answer is refused */
/* An answer may have this many tokens for any input: a sentence about a shorter sentence is
 * allowed. */
#define QP_ANSWER_SMALL_TOKENS 64

/* The lines that the model was shown: an answer may name no others. */
typedef struct qp_answer_shown {
    int64_t first_seq;
    int64_t last_seq;
    int64_t tokens; /* of the messages */
    size_t known;   /* lines that it may replace, numbered from 1 */
} qp_answer_shown;

/* One observation of an answer. */
typedef struct qp_answer_line {
    quipu_str text;
    quipu_str subject; /* absent: none */
    quipu_memory_priority priority;
    quipu_memory_topic topic;
    int64_t first_seq;
    int64_t last_seq;
    bool has_about;
    quipu_time about; /* the first second of a day in UTC */
    int64_t replaces; /* a known line; 0: none */
} qp_answer_line;

typedef struct qp_answer_lines {
    qp_answer_line items[QP_ANSWER_LINES_MAX];
    size_t count;
} qp_answer_lines;

/* Read observations. Texts lie in the answer or the arena. QUIPU_INVALID: `ret_why` says what is
 * wrong with the answer. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_answer_observations(quipu_str answer, const qp_answer_shown *shown,
                                                   quipu_arena *arena, qp_answer_lines *ret,
                                                   char ret_why[QP_ANSWER_WHY_SIZE]);

/* Read a reflection of lines that had so many tokens: it has at most three quarters of them.
 * Otherwise as above. */
QUIPU_MUST_USE quipu_status qp_answer_reflection(quipu_str answer, int64_t tokens,
                                                 quipu_arena *arena, quipu_str *ret_text,
                                                 char ret_why[QP_ANSWER_WHY_SIZE]);

/* Whether a text says the same over and over: more than two fifths of its stretches of
 * QP_ANSWER_STRETCH bytes were there before. */
#define QP_ANSWER_STRETCH 24
bool qp_answer_repeats(quipu_str text);

#endif
