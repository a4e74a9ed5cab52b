/* The ranking of recall: one function for all engines, over what the messages of a scope have of a
 * question.
 *
 *   words       BM25 over the messages of the scope; times `date`, `pair`, `author` where they hold
 *   neighbours  `near` of the words of the next messages, `far` of those next but one
 *   session     BM25 over the sessions of the scope, each as one text
 *   score       (words + neighbours) / best of them  +  `session` * session / best session
 *
 * A memory (an observation or a reflection) is a text beside the messages: it counts where it is
 * counted how rare a word is and how long a text, it has the part of its session, and neither has
 * neighbours nor is one. No session becomes longer by what was observed of it.
 *
 * With vectors, where the scope has some:
 *
 *   meaning     similarity to the question, and `near` and `far` of its neighbours'; from 0 for the
 *               least similar message to 1 for the most; without a vector yet: the mean
 *   score       (1 - `vector`) * the score above / its bound  +  `vector` * meaning
 *
 * Owns: qp_recall_ranker: a record for each text that has a term. Memory grows with these; the
 * other texts are only counted.
 * Called by: recall.c, which adds the groups (sessions) and their messages in order. No
 * transaction, no lock. Sums are made in the order of numbers inside of a group, and integers
 * across groups: engines that list sessions in different orders get equal scores. */
#ifndef QP_STORE_RECALL_RANK_H
#define QP_STORE_RECALL_RANK_H

#include "base/buf.h"
#include "store/recall_terms.h"

/* See docs/recall.md for what each of them is worth. */
typedef struct qp_recall_weights {
    double k1;      /* how fast repeating a word saturates */
    double b;       /* how much long messages pay for their length */
    double near;    /* share of a direct neighbour's words */
    double far;     /* share of the next but one */
    double session; /* the best session's part, beside 1 for the best message */
    double date;    /* factor for a message of a day that the question names */
    double pair;    /* factor for two words side by side, as in the question */
    double author;  /* factor for a message whose author the question names */
    double vector;  /* share of the meaning in the score, where there are vectors */
} qp_recall_weights;

extern const qp_recall_weights qp_recall_weights_default;

/* Messages `from` to `to` of a group lie in session number `holder`. */
typedef struct qp_recall_part {
    int64_t holder;
    int64_t from;
    int64_t to;
    size_t group;
    bool shared;        /* the holder is an ancestor of the group's session */
    quipu_time created; /* the session of the group */
} qp_recall_part;

/* One message on its way into the ranker; texts are borrowed. */
typedef struct qp_recall_input {
    size_t group;
    int64_t seq;
    quipu_str author;
    quipu_str content;
    quipu_time timestamp;
    int64_t tokens;
} qp_recall_input;

typedef struct qp_recall_ranker {
    const qp_recall_question *question;
    qp_recall_weights weights;
    quipu_arena *arena; /* for what is made at the end */
    qp_buf docs;        /* recall_rank_doc, in the order they were added */
    qp_buf counts;      /* recall_rank_count: the terms of each */
    qp_buf text;        /* scratch of qp_recall_count() */
    qp_buf nears;       /* recall_rank_vector: messages with a vector, in order */
    qp_buf memories;    /* recall_rank_doc: memories with a term, in the order they were added */
    qp_recall_counts content;
    qp_recall_counts author;
    int64_t *lengths; /* words of each group */
    size_t group_count;
    int64_t texts;                        /* messages and memories */
    int64_t length;                       /* of all of them... */
    int64_t said;                         /* ...and of the messages alone */
    int64_t with[QUIPU_RECALL_WORDS_MAX]; /* texts that have the term */
} qp_recall_ranker;

/* One of the best messages and memories. */
typedef struct qp_recall_best {
    size_t group;
    int64_t seq;   /* of a message; 0: it is a memory... */
    size_t memory; /* ...with this number, as it was added */
    double score;
    double words;
    double neighbours;
    double session;
    double vector;
    uint64_t digest; /* of the message's content; 0: not known, as of one without a term */
    int64_t tokens;  /* of a message with a term, otherwise 0 */
} qp_recall_best;

/* Recognizes a text without its row: part of a cryptographic digest, so that nobody can write a
 * text that hides another's. 0: the text is longer than repeated texts are. */
uint64_t qp_recall_digest(quipu_str text);

/* Begins with `groups` groups; free it in any case. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_recall_ranker_init(qp_recall_ranker *ranker, quipu_arena *arena,
                                                  const qp_recall_question *question,
                                                  const qp_recall_weights *weights, size_t groups);
void qp_recall_ranker_free(qp_recall_ranker *ranker);

/* Adds a message. Groups come in ascending order, messages of a group in that of their numbers.
 * QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_recall_ranker_add(qp_recall_ranker *ranker,
                                                 const qp_recall_input *input);

/* Adds how similar a message is to the question, by their vectors. In the same order. */
QUIPU_MUST_USE quipu_status qp_recall_ranker_add_vector(qp_recall_ranker *ranker, size_t group,
                                                        int64_t seq, double similarity);

/* Adds a memory of a group; its `author` is the memory's subject. `seq` is its number, 0 for the
 * newest, and decides among equals; `dated`: it is of a day that the question names. QUIPU_NOMEM,
 * QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_recall_ranker_add_memory(qp_recall_ranker *ranker,
                                                        const qp_recall_input *input, bool dated);

/* How many vectors were added. */
size_t qp_recall_ranker_vectors(const qp_recall_ranker *ranker);

/* The best `wanted` messages and memories, best first; ties by group, memories before messages,
 * then the newest first. Asked again for more, it begins with the same ones. A message without any
 * term is among them when its neighbours have some, or when it has a vector. `parts` are all parts
 * of all groups, by group and number: a number outside of them is not a message. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_recall_ranker_best(qp_recall_ranker *ranker,
                                                  const qp_recall_part *parts, size_t part_count,
                                                  size_t wanted, qp_recall_best **ret_best,
                                                  size_t *ret_count);

#endif
