/* From text to terms, for recall: a question's terms, and which of them a message has.
 *
 *   text ─▶ Form C ─▶ words ─┬─ English word that says nothing: left out
 *                            ├─ other word: its stem is a term
 *                            └─ run of CJK characters: each pair of neighbours is a term
 *
 * Owns: qp_recall_question, made in an arena and constant afterwards.
 * Called by: recall_rank.c and recall.c. Pure functions: no transaction, no lock. */
#ifndef QP_STORE_RECALL_TERMS_H
#define QP_STORE_RECALL_TERMS_H

#include <quipu/store.h>

#include "base/buf.h"
#include "ent/words.h"

#define QP_RECALL_SLOTS 1024   /* of the hash table: a power of 2, much more than terms */
#define QP_RECALL_STARTS 65536 /* two bytes */
#define QP_RECALL_DATES_MAX 8  /* years, months or days of one question; more are ignored */

/* The days that a question names: "in May 2023", "on 8 May", "2023-05-08". */
typedef struct qp_recall_dates {
    int years[QP_RECALL_DATES_MAX];
    int months[QP_RECALL_DATES_MAX];
    int days[QP_RECALL_DATES_MAX];
    size_t year_count;
    size_t month_count;
    size_t day_count;
} qp_recall_dates;

typedef struct qp_recall_question {
    quipu_str terms[QUIPU_RECALL_WORDS_MAX]; /* in the order of the question */
    size_t count;
    uint16_t pairs[QUIPU_RECALL_WORDS_MAX][2]; /* terms that are neighbours in the question */
    size_t pair_count;
    bool keeps_stops; /* it has no other words */
    qp_recall_dates dates;
    uint16_t slots[QP_RECALL_SLOTS]; /* number of a term + 1, or 0 */
    /* One bit for the first two bytes of each term: most words of a message are known to be none of
     * the question's without stemming them. */
    uint64_t starts[QP_RECALL_STARTS / 64];
} qp_recall_question;

/* Reads a question of at most QUIPU_RECALL_QUESTION_MAX bytes. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_recall_question_make(quipu_arena *arena, quipu_str text,
                                                    const qp_recall_question **ret_question,
                                                    quipu_error *reterr);

/* Whether an instant is on a day that the question names. False without dates. */
bool qp_recall_dates_match(const qp_recall_dates *dates, quipu_time time);

/* Which terms of a question a text has. `counts` has one number for each of its terms. */
typedef struct qp_recall_counts {
    uint32_t counts[QUIPU_RECALL_WORDS_MAX];
    uint16_t met[QUIPU_RECALL_WORDS_MAX]; /* the terms whose count is not 0 */
    size_t met_count;
    uint32_t length; /* words of the text, without those that are left out */
    bool pair;       /* it has two neighbours of the question as neighbours */
} qp_recall_counts;

/* Adds what a text has to *counts, which begins with zeros. `scratch` is for texts that are not in
 * Form C; it is emptied first. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_recall_count(const qp_recall_question *question, quipu_str text,
                                            qp_buf *scratch, qp_recall_counts *counts);

/* Makes *counts zero again, in the time of what it has. */
void qp_recall_counts_clear(qp_recall_counts *counts);

#endif
