/* Sentences and words of a message, for the rules. */
#ifndef QP_MEMORY_RULES_TEXT_H
#define QP_MEMORY_RULES_TEXT_H

#include <quipu/base.h>

#define QP_RULES_WORDS_MAX 48     /* words of a sentence that the rules see */
#define QP_RULES_WORD_BYTES 24    /* a longer word is not a cue: its lower case is cut */
#define QP_RULES_SENTENCE_MIN 6   /* bytes; a shorter one says nothing */
#define QP_RULES_SENTENCE_MAX 600 /* bytes; a longer one is a list or pasted */
/* Bytes of a text that are looked through for the ends of markup that nothing closes. Text behind a
 * longer search is passed over, because each such line would cost as much as the whole rest. */
#define QP_RULES_SOUGHT_MAX ((size_t)16 << 20)

typedef struct qp_rules_word {
    char lower[QP_RULES_WORD_BYTES + 1]; /* ASCII in lower case, typographic apostrophes plain */
    uint16_t n;                          /* bytes of `lower` */
    uint16_t at;                         /* in the sentence */
    uint16_t end;                        /* behind it */
    bool capital;                        /* begins with a capital letter */
    bool clause;                         /* begins a sentence, or follows a comma, colon or dash */
    bool quoted;                         /* stands in quotes or backticks */
} qp_rules_word;

typedef struct qp_rules_sentence {
    quipu_str text; /* without blanks and bullets around it */
    bool question;
    size_t count;
    qp_rules_word words[QP_RULES_WORDS_MAX];
} qp_rules_sentence;

/* A walk over the sentences of a text. */
typedef struct qp_rules_walk {
    quipu_str text;
    size_t at;
    bool quoted;   /* inside of a quotation, which another line may end */
    bool fenced;   /* inside of a block of code */
    char fence;    /* which began with `fences` of these... */
    size_t fences; /* ...and ends with as many */
    size_t mark;   /* where the next mark of a quotation stands, from `at` on, once it was sought */
    size_t sought; /* bytes that were looked through in vain, see QP_RULES_SOUGHT_MAX */
} qp_rules_walk;

/* The next sentence that a person may have written: blocks of code, indented lines, quoted lines,
 * tables, markup with what it encloses, and quotations of several lines are passed over, and so is
 * everything behind the head of a forwarded message, or behind a line that announces a document
 * ("Summarise this email:"). False at the end. */
bool qp_rules_next(qp_rules_walk *walk, qp_rules_sentence *ret);

/* The next piece of such text, of any length and without quotations, as it stands. False at the
 * end. A walk is for sentences or for pieces. */
bool qp_rules_own(qp_rules_walk *walk, quipu_str *ret_text);

/* How many words of the sentence, from word `at` on, are exactly these (separated by single
 * blanks); 0: they are others. */
size_t qp_rules_match(const qp_rules_sentence *sentence, size_t at, const char *words);

/* Whether a word is in a list of words that single blanks separate. */
bool qp_rules_in(const qp_rules_word *word, const char *list);

#endif
