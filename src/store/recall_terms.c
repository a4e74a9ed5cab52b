/* Cutting questions and messages into terms; finding dates in a question: recall_terms.h.
 *
 * Owns the rules of what a term is, on top of the words of src/ent/words.c. Called by recall.c and
 * recall_rank.c. Pure functions over the caller's arena and buffers: no lock. */
#include "store/recall_terms.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "ent/nfc.h"
#include "ent/stem.h"

#define RECALL_TERMS_TEXT_MAX ((size_t)1 << 30) /* a text in Form C; no message is that long */
#define RECALL_TERMS_CJK_PAIR 8                 /* bytes of two characters */

/* One word of a text, as the reader gives it: valid until the next one. */
typedef struct recall_terms_word {
    quipu_str text; /* folded, not stemmed */
    quipu_str pair; /* with the CJK character just before it; absent for other words */
    size_t start;   /* where it begins in the text */
    bool cjk;       /* it is one such character */
    bool stop;      /* it says nothing, as "the" does */
} recall_terms_word;

/* Reads words and pairs. A pair is kept here, because its two characters need not stand side by
 * side in memory once they are folded. */
typedef struct recall_terms_reader {
    qp_word_reader words;
    size_t behind; /* where the last word ended, when it was a CJK character */
    char pair[RECALL_TERMS_CJK_PAIR];
    size_t pair_half; /* bytes of the last CJK character, at the beginning of `pair` */
} recall_terms_reader;

/* ---- words of a text --------------------------------------------------------------------------
 */

/* The text in Form C: itself, or in the buffer. */
static quipu_str recall_terms_normal(quipu_str text, qp_buf *buf)
{
    if (qp_nfc_is(text)) {
        return text;
    }
    qp_buf_reset(buf);
    qp_nfc_put(text, buf);
    return qp_buf_str(buf);
}

/* Words of a text, in their order; numbers are words, too, and what a path or an identifier is made
 * of: "src/store/recall.c" is four words, as in the search index. */
static void recall_terms_begin(recall_terms_reader *reader, quipu_str text)
{
    qp_words_begin(&reader->words, text, true);
    reader->behind = 0;
    reader->pair_half = 0;
}

/* Whether a word is a CJK character: the word reader gives each of them alone. */
static bool recall_terms_is_cjk(quipu_str word)
{
    uint32_t point = 0;

    return (unsigned char)word.p[0] >= 0xe1 &&
           qp_utf8_step((const unsigned char *)word.p, (const unsigned char *)word.p + word.n,
                        &point) == word.n &&
           qp_word_is_cjk(point);
}

/* The next word. Neighbours in a run of CJK characters also make a pair. */
static bool recall_terms_next(recall_terms_reader *reader, recall_terms_word *ret)
{
    qp_word word;

    if (!qp_words_next(&reader->words, &word)) {
        return false;
    }
    *ret = (recall_terms_word){.text = word.text, .pair = QP_STR_ABSENT, .start = word.start};
    ret->cjk = recall_terms_is_cjk(word.text);
    if (!ret->cjk) {
        ret->stop = qp_word_is_stop(word.text);
        reader->pair_half = 0;
        return true;
    }
    assert(word.text.n <= RECALL_TERMS_CJK_PAIR / 2);
    if (reader->pair_half > 0 && reader->behind == word.start) {
        /* The pair of before moves down: its second character is the first one now. */
        memcpy(reader->pair + reader->pair_half, word.text.p, word.text.n);
        ret->pair = (quipu_str){reader->pair, reader->pair_half + word.text.n};
    }
    reader->behind = word.end;
    return true;
}

/* After the caller has looked at a CJK word: its character becomes the first half of the next
 * pair. */
static void recall_terms_passed(recall_terms_reader *reader, const recall_terms_word *word)
{
    if (word->cjk) {
        memcpy(reader->pair, word->text.p, word->text.n);
        reader->pair_half = word->text.n;
    }
}

/* ---- the terms of a question ------------------------------------------------------------------
 */

/* Where a term is, or would be, in the table: open addressing, with more than twice as many
 * slots as a question has terms, so that a probe ends soon and always. */
static size_t recall_terms_slot(const qp_recall_question *question, quipu_str term)
{
    size_t at = (size_t)qp_hash64(term, 0) % QP_RECALL_SLOTS;

    assert(term.n > 0);
    while (question->slots[at] != 0 &&
           !quipu_str_eq(question->terms[question->slots[at] - 1], term)) {
        at = (at + 1) % QP_RECALL_SLOTS;
    }
    return at;
}

/* The first two bytes of a word, as a number: an index into the bitmap of starts. Bytes and not
 * characters: a start that two characters share only lets a word through to be stemmed. */
static size_t recall_terms_start(quipu_str word)
{
    return (size_t)(unsigned char)word.p[0] << 8 | (word.n > 1 ? (unsigned char)word.p[1] : 0);
}

/* Words whose start no term has are passed over without being stemmed, which is most of them. */
static void recall_terms_mark_start(qp_recall_question *question, quipu_str term)
{
    const size_t start = recall_terms_start(term);

    assert(term.n > 0);
    /* A stem keeps the first two letters of its word, or has only one: then any second fits. */
    for (size_t at = start; at <= (term.n > 1 ? start : start | 0xff); at++) {
        question->starts[at / 64] |= UINT64_C(1) << at % 64;
    }
}

/* The number of a term, which is added when it is new; -1: there is no more room. */
static int recall_terms_add(qp_recall_question *question, quipu_arena *arena, quipu_str term,
                            quipu_status *status)
{
    const size_t at = recall_terms_slot(question, term);

    assert(term.n > 0);
    if (question->slots[at] != 0) {
        return question->slots[at] - 1;
    }
    if (question->count == QUIPU_RECALL_WORDS_MAX) {
        return -1;
    }
    *status = quipu_arena_copy(arena, term, &question->terms[question->count]);
    if (*status != QUIPU_OK) {
        return -1;
    }
    recall_terms_mark_start(question, term);
    question->slots[at] = (uint16_t)++question->count;
    return question->slots[at] - 1;
}

/* Two words of the question that stand side by side count more when a message has them side by
 * side, too. */
static void recall_terms_add_pair(qp_recall_question *question, int first, int second)
{
    assert(question->pair_count <= QUIPU_RECALL_WORDS_MAX);
    if (first >= 0 && second >= 0 && question->pair_count < QUIPU_RECALL_WORDS_MAX) {
        question->pairs[question->pair_count][0] = (uint16_t)first;
        question->pairs[question->pair_count++][1] = (uint16_t)second;
    }
}

/* Whether a CJK character stands alone in the question: no other before or behind it. */
static bool recall_terms_is_lone(const recall_terms_reader *reader, const recall_terms_word *word)
{
    qp_word_reader ahead = reader->words;
    qp_word next;

    return word->pair.p == NULL && !(qp_words_next(&ahead, &next) && next.start == reader->behind &&
                                     recall_terms_is_cjk(next.text));
}

/* Adds all terms: of the words that are left in or, with `stops`, of all words. In a run of CJK
 * characters pairs are the terms and single characters are not: one character says little, and each
 * would weigh as much as a word. A character that stands alone has no pair and is a term itself. */
static quipu_status recall_terms_fill(qp_recall_question *question, quipu_arena *arena,
                                      quipu_str text, bool stops)
{
    char stem[QP_TOKEN_BYTES_MAX];
    recall_terms_reader reader;
    recall_terms_word word;
    quipu_status status = QUIPU_OK;
    int before = -1;

    recall_terms_begin(&reader, text);
    while (status == QUIPU_OK && recall_terms_next(&reader, &word)) {
        if (word.cjk) {
            if (word.pair.p != NULL) {
                (void)recall_terms_add(question, arena, word.pair, &status);
            } else if (recall_terms_is_lone(&reader, &word)) {
                (void)recall_terms_add(question, arena, word.text, &status);
            }
            recall_terms_passed(&reader, &word);
            before = -1;
        } else if (!word.stop || stops) {
            memcpy(stem, word.text.p, word.text.n);
            const quipu_str term = {stem, qp_word_stem(stem, word.text.n)};
            const int number = recall_terms_add(question, arena, term, &status);

            recall_terms_add_pair(question, before, number);
            before = number;
        }
    }
    return status;
}

/* ---- dates ------------------------------------------------------------------------------------
 */

/* The month that a folded word names, 1 to 12, or 0. Three letters are enough for those that no
 * other word begins with in that length. */
static int recall_terms_month(quipu_str word)
{
    static const char *const months[] = {"january",   "february", "march",    "april",
                                         "may",       "june",     "july",     "august",
                                         "september", "october",  "november", "december"};

    for (size_t i = 0; i < sizeof(months) / sizeof(months[0]); i++) {
        const bool is_short = word.n == 3 && i != 2 && memcmp(word.p, months[i], 3) == 0;

        if (is_short || quipu_str_eq(word, quipu_cstr(months[i]))) {
            return (int)i + 1;
        }
    }
    return 0;
}

/* The number at the beginning of a word of digits, with or without "st", "nd", "rd" or "th"; 0 for
 * other words. */
static int recall_terms_number(quipu_str word)
{
    int number = 0;
    size_t n = 0;

    while (n < word.n && n < 5 && word.p[n] >= '0' && word.p[n] <= '9') {
        number = 10 * number + (word.p[n++] - '0');
    }
    const quipu_str rest = {word.p + n, word.n - n};
    const bool ordinal =
        n <= 2 && (quipu_str_eq(rest, QUIPU_STR("st")) || quipu_str_eq(rest, QUIPU_STR("nd")) ||
                   quipu_str_eq(rest, QUIPU_STR("rd")) || quipu_str_eq(rest, QUIPU_STR("th")));
    return n > 0 && (rest.n == 0 || ordinal) ? number : 0;
}

/* More dates than a question has room for are left out: QP_RECALL_DATES_MAX are more than anybody
 * asks about at once, and the words of the others still count. */
static void recall_terms_put_date(int list[QP_RECALL_DATES_MAX], size_t *count, int number)
{
    assert(*count <= QP_RECALL_DATES_MAX);
    if (*count < QP_RECALL_DATES_MAX) {
        list[(*count)++] = number;
    }
}

/* A number alone is a day only beside a month: "3 trains" names no day. */
static bool recall_terms_is_day(int number)
{
    return number >= 1 && number <= 31;
}

/* Numbers outside of these years are mostly something else: a port, a price, a line of code. Inside
 * of them they may be, too; then no message is of that year, and the factor changes nothing. */
static bool recall_terms_is_year(int number)
{
    return number >= 1900 && number <= 2099;
}

/* Three words in a row, of which the middle one is looked at; numbers and months of each. An
 * ambiguous word is a month only beside a number: "mar" and "jan" are names, too. "May" and "March"
 * are also months with a capital letter, unless a question begins with them. */
static void recall_terms_date(qp_recall_dates *dates, const int numbers[3], const int months[3],
                              bool ambiguous, bool capital)
{
    const bool beside = recall_terms_is_day(numbers[0]) || recall_terms_is_day(numbers[2]) ||
                        recall_terms_is_year(numbers[2]);

    if (recall_terms_is_year(numbers[1])) {
        recall_terms_put_date(dates->years, &dates->year_count, numbers[1]);
    }
    if (months[1] == 0 || (ambiguous && !beside && !capital)) {
        return;
    }
    recall_terms_put_date(dates->months, &dates->month_count, months[1]);
    if (recall_terms_is_day(numbers[0])) {
        recall_terms_put_date(dates->days, &dates->day_count, numbers[0]);
    } else if (recall_terms_is_day(numbers[2])) {
        recall_terms_put_date(dates->days, &dates->day_count, numbers[2]);
    }
}

/* "2023-05-08" in the text at a word that is a year: month and day follow. */
static void recall_terms_iso(qp_recall_dates *dates, quipu_str text, size_t start)
{
    const char *p = text.p + start;
    const size_t n = text.n - start;
    const bool form = n >= 10 && p[4] == '-' && p[7] == '-';
    const int month = form ? recall_terms_number((quipu_str){p + 5, 2}) : 0;
    const int day = form ? recall_terms_number((quipu_str){p + 8, 2}) : 0;

    if (month >= 1 && month <= 12 && recall_terms_is_day(day)) {
        recall_terms_put_date(dates->months, &dates->month_count, month);
        recall_terms_put_date(dates->days, &dates->day_count, day);
    }
}

/* Slides over the words of the question, three at a time: a day stands before its month or behind
 * it, a year behind it. The middle word of the last three is judged when the next one is known, so
 * that one step more is made than there are words. */
static void recall_terms_dates(quipu_str text, qp_recall_dates *dates)
{
    int numbers[3] = {0, 0, 0};
    int months[3] = {0, 0, 0};
    bool ambiguous[2] = {false, false};
    bool capital[2] = {false, false};
    qp_word_reader reader;
    qp_word word = {.text = QUIPU_STR("")};
    bool more = true;

    qp_words_begin(&reader, text, true);
    for (size_t at = 0; more; at++) {
        more = qp_words_next(&reader, &word);
        memmove(numbers, numbers + 1, 2 * sizeof(numbers[0]));
        memmove(months, months + 1, 2 * sizeof(months[0]));
        numbers[2] = more ? recall_terms_number(word.text) : 0;
        months[2] = more ? recall_terms_month(word.text) : 0;
        ambiguous[0] = ambiguous[1];
        capital[0] = capital[1];
        /* "march", and all names of three letters, "may" among them. */
        ambiguous[1] = months[2] == 3 || word.text.n == 3;
        /* The first word is skipped, because it has a capital letter in any case. */
        capital[1] = more && at > 0 && (months[2] == 3 || months[2] == 5) &&
                     text.p[word.start] >= 'A' && text.p[word.start] <= 'Z';
        recall_terms_date(dates, numbers, months, ambiguous[0], capital[0]);
        if (more && recall_terms_is_year(numbers[2])) {
            recall_terms_iso(dates, text, word.start);
        }
    }
}

/* An empty list admits every number: "in May" names no year. */
static bool recall_terms_has(const int *list, size_t count, int number)
{
    size_t at = 0;

    while (at < count && list[at] != number) {
        at++;
    }
    return count == 0 || at < count;
}

/* Without a year or a month the question names no date: then nothing matches. */
bool qp_recall_dates_match(const qp_recall_dates *dates, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if ((dates->year_count == 0 && dates->month_count == 0) ||
        qp_time_rfc3339(time, text, NULL) != QUIPU_OK) {
        return false;
    }
    return recall_terms_has(dates->years, dates->year_count,
                            recall_terms_number((quipu_str){text, 4})) &&
           recall_terms_has(dates->months, dates->month_count,
                            recall_terms_number((quipu_str){text + 5, 2})) &&
           recall_terms_has(dates->days, dates->day_count,
                            recall_terms_number((quipu_str){text + 8, 2}));
}

/* ---- a question -------------------------------------------------------------------------------
 */

/* A question of nothing but stop words ("what is that?") is asked with them. */
quipu_status qp_recall_question_make(quipu_arena *arena, quipu_str text,
                                     const qp_recall_question **ret_question, quipu_error *reterr)
{
    qp_recall_question *question = qp_arena_take(arena, sizeof(*question));
    quipu_status status = question != NULL ? QUIPU_OK : QUIPU_NOMEM;
    qp_buf normal;

    assert(text.n <= QUIPU_RECALL_QUESTION_MAX);
    qp_buf_init(&normal, RECALL_TERMS_TEXT_MAX);
    if (status == QUIPU_OK) {
        memset(question, 0, sizeof(*question));
        text = recall_terms_normal(text, &normal);
        status = qp_buf_status(&normal);
    }
    if (status == QUIPU_OK) {
        status = recall_terms_fill(question, arena, text, false);
    }
    if (status == QUIPU_OK && question->count == 0) {
        question->keeps_stops = true;
        status = recall_terms_fill(question, arena, text, true);
    }
    if (status == QUIPU_OK) {
        recall_terms_dates(text, &question->dates);
        *ret_question = question;
    }
    qp_buf_free(&normal);
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "out of memory for a question");
}

/* ---- a message --------------------------------------------------------------------------------
 */

/* The number of a term, or -1; the slots are those of recall_terms_add(). */
static int recall_terms_find(const qp_recall_question *question, quipu_str term)
{
    assert(term.n > 0);
    return (int)question->slots[recall_terms_slot(question, term)] - 1;
}

/* Counts a term; `met` lists the ones that occurred, so that clearing costs what was met. -1 is a
 * word that the question does not have. */
static void recall_terms_meet(qp_recall_counts *counts, int number)
{
    if (number >= 0) {
        if (counts->counts[number]++ == 0) {
            assert(counts->met_count < QUIPU_RECALL_WORDS_MAX);
            counts->met[counts->met_count++] = (uint16_t)number;
        }
    }
}

/* A question has few pairs, and this is asked only of two terms side by side: a walk is enough. */
static bool recall_terms_is_pair(const qp_recall_question *question, int first, int second)
{
    size_t at = 0;

    while (at < question->pair_count &&
           (question->pairs[at][0] != first || question->pairs[at][1] != second)) {
        at++;
    }
    return at < question->pair_count;
}

/* The number of a word's stem, or -1. The bitmap of starts answers for nine words of ten without
 * stemming them, which is most of what a scan would cost. */
static int recall_terms_of_word(const qp_recall_question *question, quipu_str word)
{
    const size_t start = recall_terms_start(word);
    char stem[QP_TOKEN_BYTES_MAX];

    if ((question->starts[start / 64] >> start % 64 & 1) == 0) {
        return -1;
    }
    memcpy(stem, word.p, word.n);
    return recall_terms_find(question, (quipu_str){stem, qp_word_stem(stem, word.n)});
}

/* Stop words count neither as words nor for the length, unless the question has nothing else. */
quipu_status qp_recall_count(const qp_recall_question *question, quipu_str text, qp_buf *scratch,
                             qp_recall_counts *counts)
{
    recall_terms_reader reader;
    recall_terms_word word;
    int before = -1;

    assert(question != NULL && counts != NULL);
    qp_buf_reset(scratch);
    recall_terms_begin(&reader, recall_terms_normal(text, scratch));
    while (recall_terms_next(&reader, &word)) {
        int number = -1;

        /* It parts no pair either: in "end of day" two terms stand side by side, as in a
         * question. */
        if (word.stop && !question->keeps_stops) {
            continue;
        }
        counts->length++;
        if (word.cjk) {
            recall_terms_meet(counts, recall_terms_find(question, word.text));
            if (word.pair.p != NULL) {
                recall_terms_meet(counts, recall_terms_find(question, word.pair));
            }
            recall_terms_passed(&reader, &word);
        } else {
            number = recall_terms_of_word(question, word.text);
            recall_terms_meet(counts, number);
            counts->pair = counts->pair || (before >= 0 && number >= 0 &&
                                            recall_terms_is_pair(question, before, number));
        }
        /* -1 behind a CJK character: the words around it are not a pair. */
        before = number;
    }
    return qp_buf_status(scratch);
}

/* Only what was met: the array has QUIPU_RECALL_WORDS_MAX places, most messages have none to
 * three of them, and this runs for every message of the scope. */
void qp_recall_counts_clear(qp_recall_counts *counts)
{
    for (size_t i = 0; i < counts->met_count; i++) {
        counts->counts[counts->met[i]] = 0;
    }
    counts->met_count = 0;
    counts->length = 0;
    counts->pair = false;
}
